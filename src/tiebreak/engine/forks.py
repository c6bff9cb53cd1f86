"""Forks: what a child must not inherit.

A child gets a copy of everything at the moment of the fork: a mutex that another thread of the parent holds inside
SQLite (the child would wait for it for ever), connections (which must neither be used nor closed in a process that
did not open them), and the gate's descriptor (whose copy would keep the gate closed after the parent's death). So
engines stand still during a fork, and in the child each one begins anew on its first use.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from _weakref import ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType

    from .sqlite import SqliteEngine

PATIENCE = 5.0
"""A fork waits so long for an engine to stand still; longer would only mean that somebody is stuck in it."""

_engines: list[ref[SqliteEngine]] = []
_still: list[LockType] = []


def register(engine: SqliteEngine) -> None:
    """Keep an engine safe in forks to come."""
    _engines[:] = [known for known in _engines if known() is not None]
    _engines.append(ref(engine))


def _each() -> list[SqliteEngine]:
    return [engine for engine in (known() for known in _engines) if engine is not None]


def _before() -> None:
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
