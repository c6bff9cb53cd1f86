"""Forks: what a child must not inherit.

A child gets a copy of everything at the moment of the fork: a mutex that another thread of the parent holds inside
SQLite (the child would wait for it for ever), connections (which must neither be used nor closed in a process that
did not open them), and the gate's descriptor (whose copy would keep the gate closed after the parent's death). So
engines stand still during a fork, and in the child each one begins anew on its first use.

Modules are loaded when they are first needed, perhaps by one thread while another one forks. Python leaves the child
with that module's lock in the hands of a thread that it does not have: it would wait for ever. So all of them are
loaded before the first fork; that also waits for a thread that is loading one.
"""

from __future__ import annotations

import os
from _thread import _count, allocate_lock
from _weakref import ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from typing import Protocol

    class ForkableEngine(Protocol):
        """What an engine lets this module do with it."""

        birth: LockType
        """Held while connections are made anew after a fork."""

        def locks(self) -> list[LockType]:
            """All that must be held for the engine to stand still."""

        def abandon_gate(self) -> None:
            """In a forked child: let go of the parent's place among the writers."""


PATIENCE = 5.0
"""A fork waits so long for an engine to stand still; longer would only mean that somebody is stuck in it."""

LATER = [
    *("json", "hashlib", "re", "random", "struct", "ctypes", "contextlib", "subprocess", "unicodedata", "urllib.parse"),
    *("datetime", "zoneinfo", "cronsim", "_blake2", "_json", "time"),
    *(f"tiebreak.{name}" for name in ("agent_names", "fingerprints", "globs", "model", "names", "paths", "text")),
    *(f"tiebreak.{name}" for name in ("errors", "process_identity", "repository", "user_folders")),
]
"""What is loaded when it is first needed, beside all modules of `FOLDERS`. Modules above the engines add theirs."""
FOLDERS = ("operations", "engine", "engine/sqlite", "engine/move")

_engines: list[ref[ForkableEngine]] = []
_opened: set[int] = set()
"""The processes, this one or those before it, in which a board of any kind was opened."""
_still: list[LockType] = []


def board_opened() -> None:
    """From now on it may be used in forked children."""
    _opened.add(os.getpid())


def register(engine: ForkableEngine) -> None:
    """Keep an engine safe in forks to come."""
    _engines[:] = [known for known in _engines if known() is not None]
    _engines.append(ref(engine))


def _each() -> list[ForkableEngine]:
    return [engine for engine in (known() for known in _engines) if engine is not None]


def _load() -> None:
    """Load what the child, or a thread of the parent meanwhile, would load later."""
    for name in (*_modules(), *LATER):
        try:
            __import__(name)
        except ImportError:
            pass  # of an extra that is not installed


def _modules() -> list[str]:
    """The modules in `FOLDERS`."""
    root = os.path.dirname(os.path.dirname(__file__))
    return [
        f"tiebreak.{folder.replace('/', '.')}.{name.removesuffix('.py')}"
        for folder in FOLDERS
        for name in os.listdir(os.path.join(root, folder))
        if name.endswith(".py") and name != "__init__.py"
    ]


def _before() -> None:
    if _opened and _count():  # a process without threads loads nothing at the moment of its fork
        _load()
    for engine in _each():
        _still.extend(lock for lock in engine.locks() if lock.acquire(timeout=PATIENCE))


def _in_parent() -> None:
    while _still:
        _still.pop().release()


def _in_child() -> None:
    _still.clear()
    for engine in _each():
        engine.birth = allocate_lock()
        engine.abandon_gate()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
