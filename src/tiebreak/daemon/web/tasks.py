"""*Tasks*: the list and the board of tasks. Filters are in the address, so a link shows the same to everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import Invalid
from ...names import FINAL, PRIORITIES, STATES
from ...operations import find
from .page import TEXT, page
from .task_graph import drawn
from .templates import href

if TYPE_CHECKING:
    from .page import Visit

ROWS = 50
"""Tasks in one window of the list."""
VIEWS = {"list": "", "board": "board", "graph": "graph"}
"""The views by their names, and what the address says."""
SEEDS = 8
"""Tasks around which the graph is drawn: the newest that are blocked."""
NODES = 60
"""Tasks in the graph, about."""
CARDS = 20
"""Tasks in one column of the board."""
FILTERS = {
    "state": "states",
    "kind": "kind",
    "queue": "queue",
    "priority": "priority",
    "tag": "tag",
    "agent": "agent",
    "text": "name_contains",
}
"""The filters by their names in the address, and the parameters of `tasks.list` that they are."""
COLUMNS = (
    ("blocked", "Blocked", "Comes after something that is not done."),
    ("pending", "Pending", "Ready, or will be."),
    ("claimed", "Claimed", "Somebody works on it."),
    ("completed", "Done lately", "The newest that are done."),
    ("failed", "Failed", "No attempt is left."),
)
"""The columns of the board: a state, its title, and what it means."""
_CANCELLED = ("cancelled", "Cancelled", "Somebody decided that it is not needed.")
"""A column that is shown only when it is asked for: nobody has to do anything about these."""
_TELL_APART = {"priority": "priority_is", "agent": "agent_is"}
"""Filters that an action on a set has under another name, because it also takes a new value of that name."""
_QUERY = dict.fromkeys((*FILTERS, "view", "before"), TEXT)


@page("/tasks", "tasks.html", "The tasks: a list or a board, filtered.", title="Tasks", query=_QUERY, watch=("task.",))
async def tasks(visit: Visit) -> dict[str, Any]:
    """A window of the list, or the top of each column of the board."""
    given = {name: visit.given[name] for name in FILTERS if name in visit.given}
    filters = {FILTERS[name]: [value] if name == "state" else value for name, value in given.items()}
    view = visit.given.get("view", "list")
    if view not in VIEWS:
        raise Invalid(f"view: expected {', '.join(VIEWS)}")
    before = visit.count("before")
    if view == "list":
        shown = await _list(visit, filters, before, given)
    else:
        shown = await (_board if view == "board" else _graph)(visit, filters)
    return {
        **shown,
        "given": given,
        "view": view,
        "views": {name: href("/tasks", project=visit.project, **given, view=VIEWS[name]) for name in VIEWS},
        "states": STATES,
        "priorities": tuple(reversed(PRIORITIES)),
        "filtered": _in_words(given),
        "more_given": any(name in given for name in ("kind", "queue", "tag", "agent")),
        "each": {_TELL_APART.get(name, FILTERS[name]): filters[FILTERS[name]] for name in given},
        "may": _may(given.get("state")),
    }


async def _list(visit: Visit, filters: dict[str, Any], before: int, given: dict[str, str]) -> dict[str, Any]:
    """One window: the tasks before a number, newest first. One more is read, to know whether there is another."""
    found = await visit.read("tasks.list", **filters, before=before or None, limit=ROWS + 1)
    older = href("/tasks", project=visit.project, **given, before=found[ROWS - 1].number) if found[ROWS:] else ""
    newest = href("/tasks", project=visit.project, **given) if before else ""
    return {"tasks": found[:ROWS], "older": older, "newest": newest}


async def _board(visit: Visit, filters: dict[str, Any]) -> dict[str, Any]:
    """Each column has its newest tasks. A filter by the state leaves the column of that state alone."""
    wanted = filters.get("states")
    if wanted is None:
        columns = list(COLUMNS)
    else:
        find("tasks.list").checked({"project": visit.project, "states": wanted})
        columns = [column for column in (*COLUMNS, _CANCELLED) if column[0] in wanted]
    states = [state for state, *_ in columns]
    found = await visit.together(
        *(visit.read("tasks.list", **{**filters, "states": [state]}, limit=CARDS + 1) for state in states)
    )
    return {"columns": columns, "cards": dict(zip(states, found, strict=True)), "most": CARDS}


async def _graph(visit: Visit, filters: dict[str, Any]) -> dict[str, Any]:
    """What comes before and after the newest tasks that are blocked, in one picture."""
    found = await visit.read("tasks.list", **{"states": ["blocked"], **filters}, limit=SEEDS)
    nodes: dict[int, dict[str, Any]] = {}
    edges: dict[tuple[int, int], list[int]] = {}
    cut = False
    for task in found:
        if task.number in nodes or len(nodes) >= NODES:
            continue
        near = await visit.read("jobs.graph", ref=f"#{task.number}", project=task.project, limit=NODES)
        nodes.update((each["number"], each) for each in near["nodes"])
        edges.update(((before, after), [before, after]) for before, after in near["edges"])
        cut = cut or near["cut"]
    shown = sorted(nodes.values(), key=lambda each: int(each["number"]))
    return {"graph": drawn(shown, list(edges.values()), 0, visit.project) if edges else "", "graph_cut": cut}


def _in_words(given: dict[str, str]) -> str:
    """The filters as a person would say them."""
    if not given:
        return "all tasks"
    said = [f"{name} {value}" for name, value in given.items() if name not in ("state", "text")]
    said += [f"“{given['text']}” in the name"] if "text" in given else []
    return f"all {given.get('state', '')} tasks".replace("  ", " ") + (f" with {', '.join(said)}" if said else "")


def _may(state: str | None) -> list[str]:
    """The actions on the filtered set that can do anything."""
    if state is None:
        return ["tasks.priority", "tasks.cancel", "tasks.retry"]
    return (["tasks.retry"] if state != "completed" else []) if state in FINAL else ["tasks.priority", "tasks.cancel"]
