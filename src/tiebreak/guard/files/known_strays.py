"""Known strays: files that were found to have another agent's uncommitted lines, and from which files they have them.

The hook after a shell command finds them, because only then is it known that a command wrote the lines, and not a tool
for edits. Each stray is told once. It stays one as long as it has some of the lines that it was found with.

And the agent whose lines they are is not kept from committing its own: where a stray is held by the agent that moved or
copied the lines, they are not that agent's for all that (see `moved_contents`).
"""

from __future__ import annotations

from ...agent_names import same_family
from ...names import checksum
from ..agent_state import AgentState, common_facts, key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .watched_files import WatchedFile

DAYS = 7
"""Days for which strays are known."""
MOST_LINES = 2000
"""Most lines of a stray that are remembered, the longest ones."""
MADE_BY = "tiebreak stray 2"


def unknown(path: str, origins: Iterable[WatchedFile]) -> list[WatchedFile]:
    """Those of these held files of which it is not known that the file has lines of theirs."""
    known = _known(path)
    return [each for each in origins if _named(each) not in known]


def remember(
    path: str, found: Iterable[tuple[WatchedFile, frozenset[bytes]]], looked_at: Iterable[WatchedFile]
) -> None:
    """A file has these lines of some of the held files that were looked at, and none of the others."""
    before, judged = _known(path), set(map(_named, looked_at))
    known = {name: value for name, value in before.items() if name not in judged}
    for origin, lines in found:
        longest = sorted(lines, key=len, reverse=True)[:MOST_LINES]
        known[_named(origin)] = origin.holder, frozenset(map(_mark, longest))
    if known:
        values = [MADE_BY]
        for name, (holder, marks) in known.items():
            values += [name, holder, " ".join(sorted(marks))]
        _facts().put(key(path), "\0".join(values).encode("utf-8", "surrogateescape"))
    elif before:
        _facts().forget(key(path))


def known_among(path: str, holder: str, lines: frozenset[bytes]) -> frozenset[bytes]:
    """Those of these lines with which the file was found to be a stray of a file of this holder.

    The holder may have moved that file since.
    """
    marks = frozenset[str]().union(*(marks for who, marks in _known(path).values() if same_family(who, holder)))
    return frozenset(line for line in lines if _mark(line) in marks) if marks else frozenset()


def has_lines_of(path: str, agent: str) -> bool:
    """Whether a file is known to have lines of a file that this agent held."""
    return any(same_family(holder, agent) for holder, _ in _known(path).values())


def tidy() -> None:
    """Forget what was found long ago."""
    _facts().forget_older(DAYS)


def _named(origin: WatchedFile) -> str:
    return f"{origin.epoch} {origin.path}"


def _mark(line: bytes) -> str:
    return f"{checksum(line):016x}"


def _known(path: str) -> dict[str, tuple[str, frozenset[str]]]:
    """The held files of which the file has lines, as `_named` has them: who held each, and the marks of the lines."""
    stored = (_facts().get(key(path)) or b"").decode("utf-8", "surrogateescape")
    made_by, *values = stored.split("\0")
    if made_by != MADE_BY:
        return {}
    found = zip(values[::3], values[1::3], values[2::3], strict=False)
    return {name: (holder, frozenset(marks.split())) for name, holder, marks in found}


def _facts() -> AgentState:
    return common_facts("strays")
