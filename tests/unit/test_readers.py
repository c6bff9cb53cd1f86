"""The pool of reading connections."""

from __future__ import annotations

import apsw

from tiebreak.engine.sqlite.readers import ReaderPool


def test_a_fork_waits_for_a_reader_that_is_added_while_it_takes_the_locks() -> None:
    pool = ReaderPool(lambda: apsw.Connection(":memory:"))
    locks = pool.locks()
    added = pool.take()
    next(locks).acquire()
    assert added.lock in list(locks)
