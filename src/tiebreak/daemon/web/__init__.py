"""The pages for people: what `tb web` opens in a browser.

Every page is rendered by the server and complete without scripts. Scripts then keep it up to date and let a person act
who was signed in for that (`tb web --write`).

    page            declares pages: who may read them, their query, what all templates can use
    navigation      the pages that the navigation lists, and their keys
    now · agents · messages …       one module for each page, with its template in `templates/`
    actions         everything that a page can do; `act_route` runs it under the person's name
    guarded         what only a browser signed in for acting may see, such as terminals
    sign_in         links, cookies and write keys; `refusal_page` is what everybody else gets
    static_files    the style and the scripts in `daemon/static`

How to add a page
-----------------
1. A module in this package, imported below::

       @page("/tasks", "tasks.html", "The tasks, newest first.", title="Tasks", query={"state": TEXT}, watch=("task.",))
       async def tasks(visit: Visit) -> dict[str, Any]:
           state = visit.given.get("state")
           found = await visit.read("tasks.list", states=[state] if state else None, limit=50)
           return {"tasks": found}

   `visit.read` runs an operation as the caller may see it and fills in the project of the page (None: all projects).
   `visit.together(a, b)` awaits several reads at once. Values in a path, as in `/tasks/{number}`, are in
   `visit.parameters`. A parameter that is not declared in `query` is refused. Raise `NotFound` or `Invalid` as usual.
2. A template that extends `base.html` and fills `{% block main %}`. `parts.html` has the pieces that pages share
   (a task, an agent, an age, a button for an action, a window of rows with its links). All text is escaped, undefined
   names are errors, and an attribute `style` does nothing: widths are classes or attributes of SVG.
3. A line in `navigation.PAGES`, if the page belongs there.
4. If it draws: `module="tasks.js"` in `@page`, a file `static/tasks.js`, and its data in the template as
   `{{ parts.data(name, value) }}`, which `data(name)` of `static/page.js` reads. An element with `data-own` keeps what
   a script has put into it when the page is updated.
5. A line in `tests/browser/every_page.py`: hostile text, axe and a phone are then tried on the page, too.

How a page stays up to date
---------------------------
`static/live.js` hears of every event by one stream. If an event's name begins with one of `watch`, the page is fetched
again (at most a few times a second, only while it is visible and not paused) and the new `<main>` is merged into the
old one. Elements in lists have a `data-key`, so that a row stays the same element: it keeps focus, selection and open
details. After each merge the event `tiebreak:shown` is dispatched on `document`; a script that draws uses `onShown` of
`static/page.js`. What changes by time alone is shown within half a minute.
"""

from __future__ import annotations

from . import (  # noqa: F401  (each declares its routes)
    act_route,
    agents,
    board,
    guarded,
    job_output,
    messages,
    now,
    queues,
    sign_in,
    static_files,
    task_page,
    tasks,
    timeline,
)
