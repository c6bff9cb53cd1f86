"""The read set: the contents of each file when an agent last read or wrote it.

Before an agent edits a file, the guard compares the file with what the agent last saw, and shows the difference if it
has changed. Small files are remembered with their contents, larger ones by their hash.
"""

from __future__ import annotations

import os
import time

from ...fingerprints import digest, hash_of, read_file
from ..agent_state import LARGEST, key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..agent_state import AgentState

LONGEST_DIFFERENCE = 40
"""Most lines of a difference that an agent is shown."""
WIDEST = 200
"""Most characters of such a line."""
LEAST = 3
"""Least letters and digits of a line that tells one text from another."""
RECENT = 10.0
"""Seconds: if a file was last changed longer ago, a tool that showed other text only formatted it differently."""


def remember(state: AgentState, path: str) -> str | None:
    """Remember the file as it is now; returns its hash."""
    real = os.path.realpath(path)
    now, content = _now(real)
    if now is not None:
        kept = b"" if content is None else b"+" + content
        state.put(f"reads/{key(real)}", now.encode() + b"\n" + os.fsencode(real) + b"\n" + kept)
    return now


def remember_seen(state: AgentState, path: str, saw: str | None) -> bool:
    """Remember the file that the agent has just read; False if it has changed since the agent read it.

    `saw` is the text that the client's tool showed, if known: only what the agent has really seen may be remembered.
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
    """A file's hash, and its contents if they are small, from one read. What is not a file has neither."""
    try:
        content = read_file(real, LARGEST)
    except FileNotFoundError:
        return "absent", b""
    except OSError:
        return None, None
    return (digest(real), None) if len(content) > LARGEST else (hash_of(content), content)


def remember_own(state: AgentState, path: str) -> None:
    """Remember that the agent's own command changed the file: it may edit it, but not replace it unseen."""
    real = os.path.realpath(path)
    state.put(f"own/{key(real)}", (_now(real)[0] or "?").encode())


def made_by_own_command(state: AgentState, path: str) -> bool:
    """Whether the file is still as the agent's own command left it, and the agent has not seen or written it since."""
    real = os.path.realpath(path)
    own, seen = (f"{kind}/{key(real)}" for kind in ("own", "reads"))
    if state.moment(own) < state.moment(seen):
        return False
    return (state.get(own) or b"").decode("ascii", "replace") == _now(real)[0]


def has_a_line(path: str, written: str) -> bool:
    """Whether at least one line of a text is in a file; True if the text has none to look for.

    Only letters and digits are compared: formatters change blanks, quotes, commas and where lines end.
    """
    wanted = [line for line in map(_letters, written.splitlines()) if len(line) >= LEAST]
    content = _now(os.path.realpath(path))[1] if wanted else None
    if content is None:
        return True
    there = _letters(content.decode("utf-8", "replace"))
    return any(line in there for line in wanted)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def last_seen(state: AgentState, path: str) -> tuple[str, bytes | None]:
    """The hash of a file when the agent last read or wrote it, "" if it never did, and the contents if it is small."""
    known = state.get(f"reads/{key(os.path.realpath(path))}") or b""
    seen, _, rest = known.partition(b"\n")
    before = rest.partition(b"\n")[2]
    return seen.decode("ascii", "replace"), before[1:] if before.startswith(b"+") else None


def knows(state: AgentState, path: str) -> bool:
    """Whether the agent has ever read or written this file."""
    return state.moment(f"reads/{key(os.path.realpath(path))}") > 0


def age(state: AgentState, path: str) -> float:
    """Seconds since the agent last saw the file; infinite if it never did."""
    return state.age(f"reads/{key(os.path.realpath(path))}")


def changed(state: AgentState, path: str) -> str | None:
    """What has changed since the agent last saw the file; None if nothing has, or if it never saw the file."""
    real = os.path.realpath(path)
    known = state.get(f"reads/{key(real)}")
    if known is None:
        return None
    seen, _, rest = known.partition(b"\n")
    before = rest.partition(b"\n")[2]
    return difference(path, seen.decode("ascii", "replace"), before[1:] if before.startswith(b"+") else None)


def difference(path: str, seen: str, before: bytes | None) -> str | None:
    """What has changed in a file that had the hash `seen`, and the contents `before` if known; None if nothing has."""
    now, content = _now(os.path.realpath(path))
    if now is None or seen == now:
        return None
    if now == "absent":
        return "(the file is gone)"
    if content is None or before is None:
        return "(too large to show the difference)"
    return _lines_of(before, content)


def _lines_of(before: bytes, after: bytes) -> str:
    from difflib import unified_diff

    from ...text import block

    if b"\0" in before or b"\0" in after:
        return "(not text)"
    old, new = (each.decode("utf-8", "replace").splitlines() for each in (before, after))
    lines = list(unified_diff(old, new, "as you last saw it", "as it is now", lineterm="", n=1))
    cut = [block(line if len(line) <= WIDEST else line[:WIDEST] + "…") for line in lines[:LONGEST_DIFFERENCE]]
    if len(lines) > LONGEST_DIFFERENCE:
        cut.append(f"… and {len(lines) - LONGEST_DIFFERENCE} lines more")
    return "\n".join(cut)
