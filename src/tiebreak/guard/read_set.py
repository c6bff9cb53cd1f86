"""The read set: what each file was when an agent last saw it, and what has changed in it since.

An agent that overwrites a file believes that it knows what is in there. The belief is checked: the file's contents
when the agent last read or wrote it are remembered (up to a bound, to show a difference; beyond it, their hash).
"""

from __future__ import annotations

import os
import time

from ..fingerprints import digest
from .agent_state import LARGEST, key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .agent_state import AgentState

LONGEST_DIFFERENCE = 40
"""Lines of a difference that an agent is shown."""
WIDEST = 200
RECENT = 10.0
"""Seconds: a file that was changed longer ago differs from what a tool showed only by the way of showing it."""


def remember(state: AgentState, path: str) -> str | None:
    """The agent has seen this file as it is now; answers its hash."""
    real = os.path.realpath(path)
    now, content = _now(real)
    if now is not None:
        kept = b"" if content is None else b"+" + content
        state.put(f"reads/{key(real)}", now.encode() + b"\n" + os.fsencode(real) + b"\n" + kept)
    return now


def remember_seen(state: AgentState, path: str, saw: str | None) -> bool:
    """The agent has just read this file; False if it was changed before this was written down.

    `saw` is what the client's tool showed, if the client tells: what the agent has not seen it must not seem to know.
    """
    if saw:
        real = os.path.realpath(path)
        content = _now(real)[1]
        if content is not None and not _shows(content, saw) and time.time() - _ctime(real) < RECENT:
            return False
    remember(state, path)
    return True


def _shows(content: bytes, saw: str) -> bool:
    text = content.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    return saw.replace("\r\n", "\n").strip("\n") in text


def _ctime(real: str) -> float:
    try:
        return os.stat(real).st_ctime
    except OSError:
        return 0.0


def _now(real: str) -> tuple[str | None, bytes | None]:
    """A file's hash, and its contents if they are small; both of the same moment."""
    try:
        with open(real, "rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        return "absent", b""
    except OSError:
        return None, None
    if len(content) > LARGEST:
        return digest(real), None
    from _blake2 import blake2b

    return str(blake2b(content, digest_size=16).hexdigest()), content


def remember_own(state: AgentState, path: str) -> None:
    """A command of the agent's own made this file what it is now, unseen: an edit may go on, a replacement may not."""
    real = os.path.realpath(path)
    state.put(f"own/{key(real)}", (_now(real)[0] or "?").encode())


def made_by_own_command(state: AgentState, path: str) -> bool:
    """Whether the file is still what a command of the agent's own made of it."""
    real = os.path.realpath(path)
    own = state.get(f"own/{key(real)}")
    return own is not None and own.decode("ascii", "replace") == _now(real)[0]


def knows(state: AgentState, path: str) -> bool:
    """Whether the agent has ever seen this file."""
    return state.moment(f"reads/{key(os.path.realpath(path))}") > 0


def changed(state: AgentState, path: str) -> str | None:
    """What somebody else has changed since the agent last saw the file; None when it is as it was, or never seen."""
    real = os.path.realpath(path)
    known = state.get(f"reads/{key(real)}")
    if known is None:
        return None
    seen, _, rest = known.partition(b"\n")
    now, content = _now(real)
    if now is None or seen.decode("ascii", "replace") == now:
        return None
    before = rest.partition(b"\n")[2]
    if now == "absent":
        return "(the file is gone)"
    if content is None or not before.startswith(b"+"):
        return "(too large to show the difference)"
    return _difference(before[1:], content)


def _difference(before: bytes, after: bytes) -> str:
    from difflib import unified_diff

    from ..text import block

    if b"\0" in before or b"\0" in after:
        return "(not text)"
    old, new = (each.decode("utf-8", "replace").splitlines() for each in (before, after))
    lines = list(unified_diff(old, new, "as you last saw it", "as it is now", lineterm="", n=1))
    cut = [block(line if len(line) <= WIDEST else line[:WIDEST] + "…") for line in lines[:LONGEST_DIFFERENCE]]
    if len(lines) > LONGEST_DIFFERENCE:
        cut.append(f"… and {len(lines) - LONGEST_DIFFERENCE} lines more")
    return "\n".join(cut)
