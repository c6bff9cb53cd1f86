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

    from .sqlite.engine import SqliteEngine

PATIENCE = 5.0
"""A fork waits so long for an engine to stand still; longer would only mean that somebody is stuck in it."""

LATER = [
    *("json", "hashlib", "re", "random", "struct", "ctypes", "contextlib", "subprocess", "unicodedata", "urllib.parse"),
    *("datetime", "zoneinfo", "cronsim", "_blake2", "_json", "time"),
    *(f"tiebreak.{name}" for name in ("fingerprints", "globs", "model", "names", "paths", "processes", "rendezvous")),
    *(f"tiebreak.{name}" for name in ("repository", "text", "errors")),
    *(f"tiebreak.engine.{name}" for name in ("care", "moving", "watch")),
]
"""What is loaded when it is first needed, beside all operations. Modules above the engines add theirs."""

_engines: list[ref[SqliteEngine]] = []
_opened: set[int] = set()
"""The processes, this one or those before it, in which a board of any kind was opened."""
_still: list[LockType] = []


def board_opened() -> None:
    """From now on it may be used in forked children."""
    _opened.add(os.getpid())


def register(engine: SqliteEngine) -> None:
    """Keep an engine safe in forks to come."""
    _engines[:] = [known for known in _engines if known() is not None]
    _engines.append(ref(engine))


def _each() -> list[SqliteEngine]:
    return [engine for engine in (known() for known in _engines) if engine is not None]


def _load() -> None:
    """Load what the child, or a thread of the parent meanwhile, would load later."""
    from .. import operations

    folder = os.path.dirname(operations.__file__)
    names = [name.removesuffix(".py") for name in os.listdir(folder) if name.endswith(".py")]
    for name in [*(f"{operations.__name__}.{name}" for name in names if name != "__init__"), *LATER]:
        try:
            __import__(name)
        except ImportError:
            pass  # of an extra that is not installed


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
