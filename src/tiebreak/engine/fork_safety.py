"""Fork safety: a forked child can go on using a board that its parent opened.

A child gets a copy of everything that the parent has at the moment of the fork. Three of these things are dangerous:

- a mutex inside SQLite that another thread of the parent holds: the child would wait for it for ever;
- connections, which must be neither used nor closed by a process that did not open them;
- the descriptor of the write gate, whose copy would keep the gate locked after the parent's death.

So all locks of an engine are taken before a fork: then no thread runs an operation inside SQLite. (Backups and health
checks, which have connections of their own, are not waited for.) In the child, each engine opens new connections when
it is first used.

There is a fourth danger. Many modules are loaded when they are first needed, perhaps by one thread while another one
forks. The child then inherits the import lock of that module, held by a thread that does not exist in the child, and
would wait for it for ever. So a process with threads loads all such modules before it forks. That also waits for a
thread that is loading one.
"""

from __future__ import annotations

import os
from _thread import _count, allocate_lock
from _weakref import ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Iterator
    from typing import Protocol

    class ForkableEngine(Protocol):
        """What this module needs of an engine."""

        reopen_lock: LockType
        """Held while a forked child opens new connections."""

        def locks(self) -> Iterator[LockType]:
            """All locks that together keep every thread out of the engine, to be taken one by one as they come."""

        def abandon_gate(self) -> None:
            """In a forked child: close the inherited descriptors of the write gate."""


PATIENCE = 5.0
"""The most seconds that a fork waits for each lock. A thread that holds one for longer is stuck."""

LATER = [
    *("json", "hashlib", "re", "random", "struct", "ctypes", "contextlib", "subprocess", "unicodedata", "urllib.parse"),
    *("datetime", "zoneinfo", "cronsim", "shlex", "_blake2", "_json", "time"),
    *("difflib", "importlib.metadata", "importlib.util"),
    *(
        f"tiebreak.{name}"
        for name in ("agent_names", "agent_words", "checkouts", "fingerprints", "globs", "model", "names", "paths")
    ),
    *(f"tiebreak.{name}" for name in ("advice", "errors", "process_identity", "repository", "text", "user_folders")),
    *(f"tiebreak.{name}" for name in ("installation", "project_identity", "project_rules")),
]
"""Modules that are loaded when they are first needed, besides all modules in `FOLDERS`.

Modules in layers above the engines add their own.
"""
FOLDERS = ("operations", "engine", "engine/sqlite")
"""Not `engine/move`: it loads psycopg and so `logging`, whose own fork handlers must be set before a fork begins."""

_engines: list[ref[ForkableEngine]] = []
_opened: set[int] = set()
"""The pids of the processes, this one and its ancestors, in which a board of any kind was opened."""
_taken: list[LockType] = []
"""The locks that were taken for the fork that is under way."""


def board_opened() -> None:
    """Note that this process has opened a board, which its forked children may use."""
    _opened.add(os.getpid())


def register(engine: ForkableEngine) -> None:
    """Make an engine safe to use in children that are forked from now on."""
    _engines[:] = [known for known in _engines if known() is not None]
    _engines.append(ref(engine))


def _live_engines() -> list[ForkableEngine]:
    return [engine for engine in (known() for known in _engines) if engine is not None]


def _load_modules() -> None:
    """Load the modules that the child, or meanwhile a thread of the parent, would load later."""
    for name in (*_modules_in_folders(), *LATER):
        try:
            __import__(name)
        except ImportError:
            pass  # it belongs to an extra that is not installed


def _modules_in_folders() -> list[str]:
    """The modules in `FOLDERS`."""
    root = os.path.dirname(os.path.dirname(__file__))
    return [
        f"tiebreak.{folder.replace('/', '.')}.{name.removesuffix('.py')}"
        for folder in FOLDERS
        for name in os.listdir(os.path.join(root, folder))
        if name.endswith(".py") and name != "__init__.py"
    ]


def _before_fork() -> None:
    if _opened and _count():  # without threads, no module can be half loaded
        _load_modules()
    for engine in _live_engines():
        _taken.extend(lock for lock in engine.locks() if lock.acquire(timeout=PATIENCE))


def _in_parent() -> None:
    while _taken:
        _taken.pop().release()


def _in_child() -> None:
    _taken.clear()
    for engine in _live_engines():
        engine.reopen_lock = allocate_lock()
        engine.abandon_gate()


os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
