"""Bugs to plant: each breaks one promise of the board, so that a checker can show that it notices.

A plant gets a `setattr`: the plain one in a worker process, which ends with its bug, or monkeypatch's in a
test. The SQL of the operations is put together from the constants of `operations.grants`, so most bugs are other words
in one of those, swapped in every statement just before it runs.
"""

from __future__ import annotations

import glob
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from tiebreak import operations
from tiebreak.engine.postgres.transaction import PostgresTransaction
from tiebreak.engine.sqlite import engine as sqlite
from tiebreak.engine.sqlite import transaction
from tiebreak.engine.sqlite.write_gate import WriteGate
from tiebreak.operations import claims, grants

Set = Callable[[object, str, object], None]


def _constant(put: Set, name: str, words: str, others: str, owner: Any = grants) -> None:
    """Swap words in a piece of SQL, in every statement that has it."""
    sound: str = getattr(owner, name, None) or getattr(owner, f"_{name}")
    broken = sound.replace(words, others)
    assert broken != sound, f"{name} reads differently now: {sound}"

    def spoiled(run: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, sql, **params: run(self, sql.replace(sound, broken) if sound in sql else sql, **params)

    put(transaction.SqliteTransaction, "all", spoiled(transaction.SqliteTransaction.all))
    put(transaction.SqliteTransaction, "first", spoiled(transaction.SqliteTransaction.first))
    put(PostgresTransaction, "all", spoiled(PostgresTransaction.all))


def taken_counts_as_free(put: Set) -> None:
    """Who comes second wins too; nor does the precheck keep anybody away."""
    _constant(put, "FREE", "holder IS NULL", "TRUE")
    no_precheck(put)


def expired_counts_as_taken(put: Set) -> None:
    """A lapsed grant blocks its resource for ever."""
    _constant(put, "FREE", "until <= {now}", "FALSE")


def epoch_stands_still(put: Set) -> None:
    """A grant has the epoch of the one before."""
    _constant(put, "GRANT", "epoch = epoch + 1", "epoch = max(epoch, 1)")


def epoch_jumps(put: Set) -> None:
    """A grant leaves an epoch out."""
    _constant(put, "GRANT", "epoch = epoch + 1", "epoch = epoch + 2")


def epoch_is_not_asked(put: Set) -> None:
    """A holder's write passes under the epoch of an earlier grant."""
    _constant(put, "MINE", ":epoch = 0 OR epoch = :epoch", ":epoch >= 0")


def holder_is_not_asked(put: Set) -> None:
    """Anybody who knows the epoch writes as the holder."""
    _constant(put, "MINE", "holder = :agent", "holder IS NOT NULL AND :agent <> ''")


def no_transaction(put: Set) -> None:
    """Every statement stands alone, and nobody queues: what was looked at may be gone when it is written."""

    def transact(self: Any, work: Callable[..., Any], *args: Any) -> Any:
        tx = transaction.SqliteTransaction(self._writer, self._refusals)
        tx.now = self._now()
        return work(tx, *args)

    look = transaction.SqliteTransaction.all

    def slowly(self: Any, sql: str, **params: Any) -> Any:
        found = look(self, sql, **params)
        time.sleep(0.001)  # somebody else is sure to come in between, however the machine shares out its time
        return found

    put(sqlite.SqliteEngine, "_transact", transact)
    put(transaction.SqliteTransaction, "all", slowly)
    no_gate(put)
    no_precheck(put)


def lock_taken_late(put: Set) -> None:
    """A transaction reads before it has the write lock, and nobody queues."""
    original = sqlite.SqliteEngine._connect

    class Late:
        def __init__(self, connection: Any) -> None:
            self._connection = connection

        def execute(self, sql: str, *args: Any) -> Any:
            if "BEGIN IMMEDIATE" not in sql:
                return self._connection.execute(sql, *args)
            self._connection.execute(sql.replace("BEGIN IMMEDIATE", "BEGIN"), *args)
            self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            time.sleep(0.001)  # somebody else is sure to write meanwhile
            return None

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

        def __enter__(self) -> Any:
            return self._connection.__enter__()

        def __exit__(self, *args: Any) -> Any:
            return self._connection.__exit__(*args)

    put(sqlite.SqliteEngine, "_connect", lambda self: Late(original(self)))
    no_gate(put)
    no_precheck(put)


def no_precheck(put: Set) -> None:
    """Nobody looks before reaching for it. Not a bug, but a precheck can hide one."""
    for operation in operations.every().values():
        put(operation, "precheck", None)


def nobody_waits_its_turn(put: Set) -> None:
    """What is free goes to whoever reaches for it, whatever the line says."""
    from tiebreak.operations import waits

    put(waits, "refuse_out_of_turn", lambda *_: None)


def circles_are_not_looked_for(put: Set) -> None:
    """Those who wait for each other are let wait."""
    from tiebreak.operations import wait_queue

    put(wait_queue.WaitQueue, "find_cycle", lambda *_: [])


def no_gate(put: Set) -> None:
    """Nobody queues."""
    put(WriteGate, "enter", lambda self: None)
    put(WriteGate, "leave", lambda self: None)


def once_is_forgotten(put: Set) -> None:
    """A repeated write is carried out again."""
    put(sqlite, "perform", lambda tx, wanted, params, once=None: wanted.function(tx, **params))


def schema_made_blindly(put: Set) -> None:
    """Whoever saw an empty board makes its tables, whether or not somebody else was faster."""
    from tiebreak.engine.sqlite import opening

    migrate, look, recognise = opening._migrate, opening._version, opening.recognise
    looked: list[int] = []

    def together(connection: Any, path: str) -> int:
        """The first look, at a moment when others look as well, counts for the second one too."""
        if not looked:
            looked.append(recognise(connection, path))
            open(f"{path}-looked-{os.getpid()}", "x").close()
            while len(glob.glob(f"{path}-looked-*")) < 2:
                time.sleep(0.001)
        elif len(looked) == 1:
            looked.append(looked[0])
        else:
            looked.append(recognise(connection, path))
        return looked[-1]

    def blindly(*args: Any) -> None:
        opening._version = lambda *_: 0
        try:
            migrate(*args)
        finally:
            opening._version = look

    put(opening, "recognise", together)
    put(opening, "_migrate", blindly)


def answers_before_commit(put: Set) -> None:
    """Group commit gone wrong: an answer is given now, its commit comes with the next twenty."""

    def transact(self: Any, work: Callable[..., Any], *args: Any) -> Any:
        if not self._writer.in_transaction:
            self._writer.execute("BEGIN IMMEDIATE")
            self._uncommitted = 0
        tx = transaction.SqliteTransaction(self._writer, self._refusals)
        tx.now = self._now()
        answer = work(tx, *args)
        self._uncommitted += 1
        if self._uncommitted >= 20:
            self._writer.execute("COMMIT")
        return answer

    put(sqlite.SqliteEngine, "_transact", transact)


def commits_are_not_synced(put: Set) -> None:
    """`synchronous = NORMAL`: a commit is safe from a crash of the process, not from one of the machine."""
    original = sqlite.SqliteEngine._connect

    def connect(self: Any) -> Any:
        connection = original(self)
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    put(sqlite.SqliteEngine, "_connect", connect)


def claims_are_not_noted(put: Set) -> None:
    """A claimed task stays on the list of those that wait, as with a sub-select that locks nothing."""
    _constant(put, "CLAIMED", "state = 'claimed'", "state = 'pending'", owner=claims)
    taken_counts_as_free(put)


def grants_are_not_told(put: Set) -> None:
    """Every tenth hold is missing from the log."""
    operations.every()
    from tiebreak.operations import events

    original, count = events.append, iter(range(10**9))

    def append(tx: Any, event: str, *args: Any, **facts: Any) -> None:
        if event != "hold.taken" or next(count) % 10 != 5:
            original(tx, event, *args, **facts)

    for module in list(sys.modules.values()):
        if module.__name__.startswith("tiebreak.operations") and getattr(module, "append", None) is original:
            put(module, "append", append)


def lapses_are_not_told(put: Set) -> None:
    """A grant passes although the one before it was never closed in the log."""
    for owner in (transaction.SqliteTransaction, PostgresTransaction):
        put(owner, "write_event", _without_lapses(owner.write_event))


def _without_lapses(sound: Callable[..., None]) -> Callable[..., None]:
    def run(self: Any, **event: Any) -> None:
        if event["event"] not in ("task.expired", "hold.expired"):
            sound(self, **event)

    return run


def pruned_keys_are_forgotten(put: Set) -> None:
    """Pruning a task leaves no mark of its key's epoch."""
    original = transaction.SqliteTransaction.all

    def run(self: Any, sql: str, **params: Any) -> Any:
        return [] if "INTO marks" in sql else original(self, sql, **params)

    put(transaction.SqliteTransaction, "all", run)


def transfer_keeps_the_epoch(put: Set) -> None:
    """Handing over is not counted as a grant, so the giver's epoch still fits."""
    _constant(put, "PASS_ON", "epoch = epoch + 1", "epoch = epoch")


def giving_back_keeps_the_time(put: Set) -> None:
    """What was given back is held until its lease runs out."""
    _constant(put, "GIVE_BACK", "holder = NULL, until = 0", "holder = holder, until = until")


def instants_are_run_by_whoever_saw_them(put: Set) -> None:
    """Who has seen that an instant is due runs it, whatever the others have done since; and no key stops the second."""
    no_transaction(put)
    operations.every()
    from tiebreak.operations import schedules

    put(schedules, "_WIN", schedules._WIN.replace(grants.FREE, "TRUE").replace("due = :due", ":due > 0"))
    sound, names = schedules._instants_to_run, iter(range(10**9))

    def slowly(*args: Any) -> Any:
        time.sleep(0.01)  # so that others see the same
        return sound(*args)

    put(schedules, "_instants_to_run", slowly)
    put(schedules, "key", lambda name, instant: f"{name}:{instant}:{os.getpid()}:{next(names)}")
