"""The words for what needs a person (`overview.needs`): what each kind is called, and the command that deals with it.

Also how the counts beside it (`overview.counts`) are written, and which events are good or bad news.

The terminal screen, the pages and `tb` without a command all show these, so that a person learns them once.
"""

from __future__ import annotations

from .held_files import called
from .limits import MOST_COUNTED
from .names import JOB, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Event, Need

TITLES = {
    "permission": "permission",
    "question": "question",
    "deadlock": "deadlock",
    "dead": "dead holder",
    "failed": "failed",
    "handoff": "handoff waits",
    "stalled": "no progress",
}
"""One or two words for each kind."""
SECTIONS = {"working": "Working", "waiting": "Waiting", "idle": "Idle"}
"""The titles of what agents do (`overview.agents`), in their order."""
COUNTS = ("failed", "ready", "claimed", "blocked", "holds")
"""The counts that are shown, by the names that they have in `Counts`; `failed` is red."""
_BAD = (".refused", ".fenced", ".broken", ".expired", ".deadlocked", ".failed", ".orphaned", ".died")
_GOOD = (".completed", ".answered")


def next_step(need: Need) -> str:
    """The command that deals with it, to be pasted into a terminal. It never destroys anything."""
    from shlex import quote

    ref = need.ref if need.number else called(need.ref)
    ref = quote(ref if ref[:1] != "-" else need.ref)  # a name that looks like an option keeps its `file:`
    return {
        "permission": f"tb attach {ref}" if need.spawned else "tb agents",
        "question": f"tb answer {ref}",
        "deadlock": f"tb why {ref}",
        "dead": f"tb why {ref}",
        "failed": f"tb logs {ref}" if need.task_kind == JOB else f"tb why {ref}",
        "handoff": "tb drain",
        "stalled": f"tb why {ref}",
    }[need.kind]


def sentence(need: Need) -> str:
    """What is the matter, in one line."""
    who = short(need.agent) if need.agent else ""
    numbered = f"#{need.number} {need.name}" if need.number else need.name
    return {
        "permission": f"{who} waits at a prompt: {need.name}{f' ({need.note})' if need.note else ''}",
        "question": f"{who or 'somebody'} asks: {numbered}",
        "deadlock": f"{who} could not wait for {need.name}: {need.note or 'a deadlock'}",
        "dead": f"{who} {need.note}",
        "failed": f"{numbered}: {need.note}",
        "handoff": f"{need.name}: {need.note or 'waits to be started'}",
        "stalled": f"{who} has {numbered}: {need.note}",
    }[need.kind]


def counted(number: int) -> str:
    """A count of `overview.counts`; with a `+` if the board stopped counting there."""
    return f"{number:,}+" if number >= MOST_COUNTED else f"{number:,}"


def number_of(needs: list[Need], limit: int) -> str:
    """How many there are; with a `+` if one kind has more than the `limit` that was asked for."""
    kinds = [each.kind for each in needs]
    more = any(kinds.count(kind) >= limit for kind in set(kinds))
    return f"{len(needs)}+" if more else str(len(needs))


def about(event: Event) -> str:
    """What an event is about: a task by its name, a held thing as everywhere else."""
    name = event.name or ""
    return called(name) if event.event.startswith("hold.") else name


def mood(event: str) -> str:
    """Whether an event is good or bad news: the name of a style, empty for most."""
    return "bad" if event.endswith(_BAD) else "good" if event.endswith(_GOOD) else ""
