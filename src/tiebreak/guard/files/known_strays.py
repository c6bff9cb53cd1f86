"""Known strays: files that were found to have another agent's uncommitted lines, and from which files they have them.

So each stray is told once. And the agent whose lines they are is not kept from committing its own: where a stray is
held by the agent that moved or copied the lines, they are not that agent's for all that (see `moved_contents`).
"""

from __future__ import annotations

from ...agent_names import same_family
from ..agent_state import AgentState, common_facts, key
from .watched_files import watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .watched_files import WatchedFile

DAYS = 7
"""Days for which strays are known."""


def unknown(path: str, origins: Iterable[WatchedFile]) -> list[WatchedFile]:
    """Those of these held files of which it is not known that the file has lines of theirs."""
    known = _known(path)
    return [each for each in origins if _named(each) not in known]


def remember(path: str, origins: Iterable[WatchedFile]) -> None:
    """A file has lines of these held files, or of none."""
    known, now = _known(path), [_named(each) for each in origins]
    if now:
        _facts().put(key(path), "\0".join(now).encode("utf-8", "surrogateescape"))
    elif known:
        _facts().forget(key(path))


def is_known(path: str, origin: WatchedFile) -> bool:
    """Whether a file is known to have lines of this held file."""
    return _named(origin) in _known(path)


def has_lines_of(path: str, agent: str) -> bool:
    """Whether a file is known to have lines of a file that this agent holds."""
    origins = (watched(name.partition(" ")[2]) for name in _known(path))
    return any(each is not None and same_family(each.holder, agent) for each in origins)


def tidy() -> None:
    """Forget what was found long ago."""
    _facts().forget_older(DAYS)


def _named(origin: WatchedFile) -> str:
    return f"{origin.epoch} {origin.path}"


def _known(path: str) -> list[str]:
    stored = (_facts().get(key(path)) or b"").decode("utf-8", "surrogateescape")
    return stored.split("\0") if stored else []


def _facts() -> AgentState:
    return common_facts("strays")
