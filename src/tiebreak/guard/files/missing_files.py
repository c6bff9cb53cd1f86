"""Tracked files that a checkout does not have, as the last hooks there saw it.

What a command removed is told by the time of the folder: something was removed from it. But that time tells nothing of
a file that was missing before the command.
"""

from __future__ import annotations

import os

from ..agent_state import common_facts, key

MOST = 200
"""Most missing files that are remembered for a checkout."""


def still_missing(root: str, changed: list[str]) -> set[str]:
    """Those of the changed files that were missing before the command already; remembers all that are missing now."""
    known, now = _known(root), _missing(root, changed)[:MOST]
    _remember(root, now)
    return set(known) & set(now)


def look_again(root: str) -> None:
    """Before a command: a file that is back by now can be removed again."""
    known = _known(root)
    if known != (now := _missing(root, known)):
        _remember(root, now)


def _missing(root: str, names: list[str]) -> list[str]:
    return [name for name in names if not os.path.lexists(os.path.join(root, name))]


def _known(root: str) -> list[str]:
    stored = common_facts("missing").get(key(root)) or b""
    return stored.decode("utf-8", "surrogateescape").split("\0") if stored else []


def _remember(root: str, names: list[str]) -> None:
    common_facts("missing").put(key(root), "\0".join(names).encode("utf-8", "surrogateescape"))
