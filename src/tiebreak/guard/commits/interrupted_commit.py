"""Finishes what a killed `tb commit` has left: an index that is behind the branch, and temporary files.

The branch moves first, and the index follows. So before the branch moves, a record is stored in the git directory: for
each changed file the entry in the checkout's index, before and after. Whoever commits next brings those entries up to
date which are as before, while the file in HEAD is as after. So nothing happens where the branch has not moved, or was
taken back, or where somebody has changed an entry since.
"""

from __future__ import annotations

import os

from ...errors import Refused
from ...files import remove_file, replace_file
from .commit_message import PREFIX as MESSAGE
from .index_entries import ABSENT, index_entries, tree_entries
from .private_index import PREFIX as INDEX
from .private_index import index_line, set_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...repository import Repository
    from .index_entries import IndexChange, IndexEntry

NAME = "tiebreak-commit.unfinished"


def record(
    found: Repository, changes: dict[str, IndexChange], entries: dict[str, IndexEntry], modes: dict[str, str]
) -> None:
    """Store what is to be done after the branch has moved: the changes, and the index entries as they are before.

    `modes` are those that the entries get: not what is committed where the disk does not say whether a file can run.
    """
    out = []
    for path, change in changes.items():
        before = entries.get(path)
        known = f"{before.mode} {before.object}" if before else f"{ABSENT} {'0' * len(change.object)}"
        out.append(f"{known} {change.mode} {change.object} {modes[path]}\t".encode() + os.fsencode(path))
    replace_file(os.path.join(found.private, NAME), b"\0".join(out))


def forget(found: Repository) -> None:
    """All is done, or nothing is to be done."""
    remove_file(os.path.join(found.private, NAME))


def finish(found: Repository) -> None:
    """Finish an interrupted commit. Only the process that has the lock of `tb commit` may call this."""
    for name in os.listdir(found.private):
        if name.startswith((INDEX, MESSAGE)):
            remove_file(os.path.join(found.private, name))
    try:
        with open(os.path.join(found.private, NAME), "rb") as file:
            records = file.read().split(b"\0")
    except FileNotFoundError:
        return
    set_entries(found.root, _behind(found.root, records))
    forget(found)


def _behind(root: str, records: list[bytes]) -> list[bytes]:
    """The entries that nobody has changed since, as they are in HEAD."""
    known: dict[str, list[str]] = {}
    for each in records:
        facts, found, name = each.partition(b"\t")
        if found:
            known[os.fsdecode(name)] = facts.decode().split(" ")
    entries = index_entries(root, list(known))
    try:
        head = tree_entries(root, "HEAD", list(known))
    except Refused:
        return []  # there is no commit yet
    out = []
    for path, (old_mode, old, mode, new, *wanted) in known.items():
        entry = entries.get(path)
        before = (ABSENT, "0" * len(old)) if entry is None else (entry.mode, entry.object)
        untouched = before == (old_mode, old) and not (entry and entry.mark)
        if untouched and head.get(path, (ABSENT, "0" * len(new))) == (mode, new):
            out.append(index_line(path, (wanted or [mode])[0], new))
    return out
