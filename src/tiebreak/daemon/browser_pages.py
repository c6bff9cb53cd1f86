"""The pages for people: what happens now, and why a request was refused.

Each is one document without scripts that loads nothing else. All text from the board is escaped by `text.html`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from .. import __version__
from ..held_files import called
from ..names import short
from ..text import ago, html, rfc3339, span
from .browser_sessions import SESSION_LIFE
from .pages import STATIC, page_policy, prose

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..model import Agent, Event, Hold, Status, Task
    from .routes import Problem

MOST = 30
"""Rows of one list on the page."""
REFRESH = 10
"""Seconds after which the page is read again."""
_STYLE = (STATIC / "browser.css").read_text(encoding="utf-8")
POLICY = page_policy(_STYLE)
"""The headers of every page."""
_HOURS = f"{SESSION_LIFE / 3600:g}"


def _document(title: str, head: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n{head}<title>{html(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


_BRAND = '<a class="brand" href="/"><span class="mark" aria-hidden="true"></span>tiebreak</a>'


# ── What happens now ─────────────────────────────────────────────────────────────────────────────────────────


class Seen(NamedTuple):
    """What was read from the board for the page."""

    project: str | None
    board: str
    status: Status
    agents: list[Agent]
    holds: list[Hold]
    claimed: list[Task]
    waiting: list[Task]
    events: list[Event]
    signed_in: bool


def now(seen: Seen) -> str:
    """The page that a signed-in browser lands on."""
    status = seen.status
    at = status.now or 0.0
    present = [agent for agent in seen.agents if agent.status != "gone"]
    agents = _section("Agents", status.agents, [_agent(each, seen, at) for each in present], "Nobody is here.")
    holds = _section("Holds", status.holds, [_hold(each, seen, at) for each in seen.holds], "Nothing is held.")
    open_tasks = [_task(each, seen, at) for each in [*seen.claimed, *seen.waiting][:MOST]]
    tasks = _section("Open tasks", status.claimed + status.pending + status.blocked, open_tasks, "No task is open.")
    latest = [_event(each, seen, at) for each in reversed(seen.events)]
    events = _section("Latest events", None, latest, "Nothing has happened yet.")
    body = (
        f'<header>{_BRAND}<nav aria-label="Pages"><a href="/docs">API</a><a href="/health">Health</a></nav></header>\n'
        f'<main>\n<h1>Now</h1>\n<p class="where">{html(seen.board)}</p>\n{_projects(seen)}\n{_numbers(status)}\n'
        f'<div class="lists"><div>{agents}{tasks}</div><div>{holds}{events}</div></div>\n</main>\n{_footer(seen, at)}'
    )
    title = f"{seen.project} · tiebreak" if seen.project else "tiebreak"
    return _document(title, f'<meta http-equiv="refresh" content="{REFRESH}">\n', body)


def _footer(seen: Seen, at: float) -> str:
    how = (
        f"This browser reads and cannot change anything; it is signed in for {_HOURS} hours. " if seen.signed_in else ""
    )
    return (
        f"<footer><p>As of {html(rfc3339(at)[11:19])} UTC, read again every {REFRESH} seconds. {how}"
        f"<code>tb web --out</code> signs all browsers out.</p><p>tiebreak {html(__version__)}</p></footer>"
    )


def _projects(seen: Seen) -> str:
    """Links to each project that is shown, and to all."""
    listed: list[Any] = [*seen.agents, *seen.holds, *seen.claimed, *seen.waiting, *seen.events]
    names = sorted({each.project for each in listed if each.project} | ({seen.project} if seen.project else set()))
    links = [_project_link("", "All projects", seen.project is None)]
    links += [_project_link(f"?project={quote(name, safe='')}", name, name == seen.project) for name in names]
    return f'<nav class="projects" aria-label="Projects">{"".join(links)}</nav>'


def _project_link(query: str, name: str, current: bool) -> str:
    here = ' aria-current="page"' if current else ""
    return f'<a href="/{html(query)}"{here}>{html(name)}</a>'


def _numbers(status: Status) -> str:
    shown = {
        "at work": (status.claimed, "good"),
        "ready": (status.pending, ""),
        "blocked": (status.blocked, ""),
        "held": (status.holds, ""),
        "failed": (status.failed, "bad"),
        "completed": (status.completed, ""),
    }
    cells = (
        f'<div class="{style if count else ""}"><dd>{count}</dd><dt>{name}</dt></div>'
        for name, (count, style) in shown.items()
    )
    return f'<dl class="numbers">{"".join(cells)}</dl>'


def _section(title: str, count: int | None, rows: list[str], otherwise: str) -> str:
    number = f' <span class="count">{count}</span>' if count else ""
    listed = f"<ul>{''.join(rows)}</ul>" if rows else f'<p class="none">{otherwise}</p>'
    more = f'<p class="none">and {count - len(rows)} more</p>' if count and rows and count > len(rows) else ""
    return f"<section><h2>{title}{number}</h2>{listed}{more}</section>\n"


def _row(first: str, facts: Iterable[str], second: str = "", kind: str = "") -> str:
    """One line of a list. All parts are HTML already; empty facts are left out."""
    told = "".join(f"<span>{fact}</span>" for fact in facts if fact)
    below = f'<p class="note">{second}</p>' if second else ""
    return f'<li class="{kind}"><p class="first">{first}</p><p class="facts">{told}</p>{below}</li>'


def _where(project: str, seen: Seen) -> str:
    return "" if seen.project or not project else html(project)


def _agent(agent: Agent, seen: Seen, at: float) -> str:
    first = f'<span class="dot {html(agent.status)}" aria-hidden="true"></span><b>{html(short(agent.id))}</b>'
    claims = [each for each in seen.claimed if each.project == agent.project and each.holder == short(agent.id)]
    work = ", ".join(f"#{each.number}&nbsp;{html(each.name)}" for each in claims[:3])
    age = f"seen {ago(at - (agent.seen_at or 0.0))} ago"
    return _row(first, [html(agent.status), age, _where(agent.project, seen)], work or html(agent.doing or ""))


def _hold(hold: Hold, seen: Seen, at: float) -> str:
    name = called(hold.resource)
    first = f"<code>{html(name)}</code>" + (f" slot {hold.slot}" if hold.resource.startswith("pool:") else "")
    facts = [f"<b>{html(hold.holder or '')}</b>", _left(hold.until, at), _where(hold.project, seen)]
    return _row(first, facts, html(hold.note or ""))


def _left(until: float | None, at: float) -> str:
    if until is None:
        return ""
    return f"{span(max(1.0, round(until - at)))} left" if until > at else "lapsed"


def _task(task: Task, seen: Seen, at: float) -> str:
    first = f'<span class="number">#{task.number}</span> {html(task.name)}'
    state = f'<span class="tag {html(task.state)}">{html(task.state)}</span>'
    priority = html(task.priority) if task.priority in ("high", "urgent") else ""
    held = f"<b>{html(task.holder or '')}</b>" if task.state == "claimed" else ""
    age = _left(task.until, at) if task.state == "claimed" else f"{ago(at - (task.created_at or 0.0))} old"
    return _row(first, [state, held, age, priority, _where(task.project, seen)])


_BAD = (".failed", ".refused", ".fenced", ".broken", ".expired")


def _event(event: Event, seen: Seen, at: float) -> str:
    kind = "bad" if event.event.endswith(_BAD) else "good" if event.event.endswith(".completed") else ""
    first = f'<span class="event {kind}">{html(event.event)}</span> {html(event.name or "")}'
    times = f"{event.times} times" if event.times > 1 else ""
    age = f"{ago(at - (event.at or 0.0))} ago"
    agent = f"<b>{html(short(event.agent))}</b>" if event.agent else ""
    return _row(first, [agent, age, times, _where(event.project, seen)], html(event.note or ""))


# ── Refusals ─────────────────────────────────────────────────────────────────────────────────────────────────


def refusal(problem: Problem, hint: str, url: str) -> str:
    """A refused request, as a page that says what to do. `url` is the daemon's on its own machine."""
    error = problem.error
    if problem.status == 401:
        title, text = "This browser is not signed in", _how_to_sign_in(error.message, hint, url)
    elif problem.status == 403:
        title = "Open this address yourself"
        text = (
            f"<p>{html(error.message)}.</p><p>Links from other pages do not lead here. Copy the address and paste it "
            "into the address bar.</p>"
        )
    else:
        title = f"{problem.status}"
        text = f"<p>{html(error.message)}</p>" + (f"<p>{prose(hint)}</p>" if hint else "")
    body = f'<header>{_BRAND}</header>\n<main class="refusal">\n<h1>{html(title)}</h1>\n{text}\n</main>'
    return _document(f"{title} · tiebreak", "", body)


def _how_to_sign_in(message: str, hint: str, url: str) -> str:
    return (
        "<p>Run this in a terminal on the daemon&#x27;s machine:</p><pre>tb web</pre>"
        f"<p>It opens a link that signs this browser in once: for reading, for {_HOURS} hours. If you have several "
        f"boards, name this one&#x27;s daemon:</p><pre>tb --board {html(url)} web</pre>"
        f"<h2>For programs</h2><p>{prose(message[:1].upper() + message[1:])}: {prose(hint)}.</p>"
        '<p><a href="/docs">The API</a> and <a href="/health">whether the board is healthy</a> can be read on the '
        "daemon&#x27;s machine without signing in.</p>"
    )
