"""The note of an agent: what it works on, what it abandoned, what it finished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .agent_history import sections
from .markdown import caption, line, properties, time, time_shown
from .task_note import task_link

if TYPE_CHECKING:
    from .source import Source


def agent_note(history: dict[str, Any], source: Source, *, with_pruned: bool) -> str:
    """The generated part of the note of an agent; tasks that are not on the board any more only `with_pruned`."""
    counts = history["counts"]
    lines = properties(
        {
            "tiebreak": "agent",
            "name": caption(history["name"]),
            "project": caption(history["project"]),
            **{name: counts.get(name, 0) for name in ("claims", "completed", "refused", "fenced")},
            "first_seen": time(history["first"]),
            "left": time(history.get("left")),
        }
    )
    # In a vault of all projects, several have an agent of this name, and their files differ by a digest only.
    of = "" if source.project is not None else f" in {line(history['project'])}"
    lines += [f"# {line(history['name'])}{of}", ""]
    if history["doing"] and not history.get("left"):
        lines += [f"**Doing:** {line(history['doing'])}", ""]
    for title, tasks in sections(history).items():
        listed = list(filter(None, (_listed(id_, each, source, with_pruned) for id_, each in tasks)))
        lines += [f"## {title}", "", *listed, ""] if listed else []
    return "\n".join([*lines, ""])


def _listed(id_: str, entry: dict[str, Any], source: Source, with_pruned: bool) -> str:
    task = source.task(id_)
    if task is None and not with_pruned:
        return ""
    shown = task_link(task, source) if task else line(entry["name"])
    return f"- {shown}: {entry['fate']}, {time_shown(entry['at'])}"
