"""*Tasks*: the list and the board of tasks. Filters are in the address, so a link shows the same to everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...names import FINAL, PRIORITIES, STATES
from .page import TEXT, page
from .templates import href

if TYPE_CHECKING:
    from .page import Visit

ROWS = 50
"""Tasks in one window of the list."""
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
_TELL_APART = {"priority": "priority_is", "agent": "agent_is"}
"""Filters that an action on a set has under another name, because it also takes a new value of that name."""
_QUERY = dict.fromkeys((*FILTERS, "view", "before"), TEXT)


@page("/tasks", "tasks.html", "The tasks: a list or a board, filtered.", title="Tasks", query=_QUERY, watch=("task.",))
async def tasks(visit: Visit) -> dict[str, Any]:
    """A window of the list, or the top of each column of the board."""
    given = {name: visit.given[name] for name in FILTERS if name in visit.given}
    filters = {FILTERS[name]: [value] if name == "state" else value for name, value in given.items()}
    board = visit.given.get("view") == "board"
    before = visit.count("before")
    shown = await (_board(visit, filters) if board else _list(visit, filters, before, given))
    return {
        **shown,
        "given": given,
        "view": "board" if board else "list",
        "states": STATES,
        "priorities": tuple(reversed(PRIORITIES)),
        "filtered": _in_words(given),
        "each": {_TELL_APART.get(name, FILTERS[name]): filters[FILTERS[name]] for name in given},
        "may": _may(given.get("state")),
        "as_list": href("/tasks", project=visit.project, **given),
        "as_board": href("/tasks", project=visit.project, **given, view="board"),
    }


async def _list(visit: Visit, filters: dict[str, Any], before: int, given: dict[str, str]) -> dict[str, Any]:
    """One window: the tasks before a number, newest first. One more is read, to know whether there is another."""
    found = await visit.read("tasks.list", **filters, before=before or None, limit=ROWS + 1)
    older = href("/tasks", project=visit.project, **given, before=found[ROWS - 1].number) if found[ROWS:] else ""
    newer = href("/tasks", project=visit.project, **given) if before else ""
    return {"tasks": found[:ROWS], "older": older, "newer": newer}


async def _board(visit: Visit, filters: dict[str, Any]) -> dict[str, Any]:
    """Each column has its newest tasks; those that were filtered away by their state are empty."""
    wanted = filters.pop("states", None)
    states = [state for state, *_ in COLUMNS if wanted is None or state in wanted]
    found = await visit.together(
        *(visit.read("tasks.list", **filters, states=[state], limit=CARDS + 1) for state in states)
    )
    return {"columns": COLUMNS, "cards": dict(zip(states, found, strict=True)), "most": CARDS}


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
