"""What people write into a note: everything below a marked line is theirs and is kept byte for byte.

The marked line carries a digest of the part above it. If that part does not fit the digest any more, somebody has
changed it. It is written again, because the board is authoritative, and the changed note is kept aside.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NamedTuple

_MARK = re.compile(rb"^%% tiebreak ([0-9a-f]{16}): what you write below this line is kept %%\r?$", re.MULTILINE)
_PRUNED = "pruned: true\n"


class Parts(NamedTuple):
    """A note: the generated part, whether it is as it was generated, and the text of people."""

    generated: bytes
    unchanged: bool
    kept: bytes


def joined(generated: str, kept: bytes) -> bytes:
    """A note with the text of people below the marked line."""
    text = generated.encode()
    return text + f"%% tiebreak {_digest(text)}: what you write below this line is kept %%\n".encode() + kept


def parts(note: bytes) -> Parts | None:
    """The parts of a note; None if it has no marked line, so it is not one of ours."""
    mark = _MARK.search(note)
    if mark is None:
        return None
    generated = note[: mark.start()]
    return Parts(generated, _digest(generated) == mark[1].decode(), note[mark.end() :].removeprefix(b"\n"))


def _digest(generated: bytes) -> str:
    # An editor may have changed the line ends of the whole file, which changes nothing.
    return sha256(generated.replace(b"\r\n", b"\n")).hexdigest()[:16]


def marked_pruned(generated: bytes) -> str:
    """The generated part of a note whose subject is not on the board any more."""
    text = generated.decode("utf-8", "replace").replace("\r\n", "\n")
    begin, mark, rest = text.partition("---\n")
    return text if begin or not mark or _PRUNED in rest.partition("---\n")[0] else f"---\n{_PRUNED}{rest}"


def is_marked_pruned(generated: bytes) -> bool:
    """Whether `marked_pruned` made it."""
    return generated.replace(b"\r\n", b"\n").startswith(f"---\n{_PRUNED}".encode())
