"""Tables that change all day stay small and quick, and `tb doctor` names a setting that breaks a promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import psycopg
import pytest

from tests.races.crew import Crew
from tests.races.scenarios import next_claimer
from tiebreak import Board
from tiebreak.engine.postgres.health import diagnose

from ..postgres import WRITES, Server
from .conftest import in_thread, open_board, tap, until

MANY = 300
DAY = 86_400 * 1_000_000


# ── Renewals ─────────────────────────────────────────────────────────────────────────────────────────


def renew_task(board: Board) -> Callable[[], Any]:
    task = board.win(board.tasks.post(name="long").id)
    return lambda: board.tasks.extend(ref=task.id, epoch=task.epoch)


def renew_hold(board: Board) -> Callable[[], Any]:
    board.holds.take(resources=["lock:a"])
    return lambda: board.holds.renew(resources=["lock:a"])


def heartbeat(board: Board) -> Callable[[], Any]:
    board.announce("working")
    return lambda: board.agents.heartbeat()


def mark(board: Board) -> Callable[[], Any]:
    for i in range(MANY + 1):
        board.messages.send(body=f"message {i}")
    board.messages.mark(upto=1)
    numbers = count(2)
    return lambda: board.messages.mark(upto=next(numbers))


RENEWALS = {"tasks": renew_task, "holds": renew_hold, "agents": heartbeat, "cursors": mark}


def updates(raw: Any, table: str) -> tuple[int, int]:
    """How many updates a table has seen, and how many of them touched no index."""
    raw.execute("SELECT pg_stat_clear_snapshot()")
    query = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = %s"
    return tuple(raw.execute(query, (table,)).fetchone())


def size(raw: Any, table: str) -> int:
    return int(raw.execute("SELECT pg_total_relation_size(%s::text::regclass)", (table,)).fetchone()[0])


@pytest.fixture
def fresh(database: str) -> Iterator[tuple[str, psycopg.Connection[Any]]]:
    """A board whose tables have no history."""
    with psycopg.connect(database, autocommit=True) as raw:
        yield database, raw


@pytest.mark.parametrize("table", RENEWALS)
def test_a_renewal_touches_no_index(fresh: tuple[str, Any], table: str) -> None:
    address, raw = fresh
    with open_board(address) as board:
        renew = RENEWALS[table](board)
        for _ in range(MANY):
            renew()
    total, hot = until(lambda: (now := updates(raw, table))[0] >= MANY and now, "the counts have been handed in")
    assert hot >= 0.95 * MANY, f"{hot} of {total}"


@pytest.mark.parametrize("table", ["tasks", "agents"])
def test_the_check_above_notices_an_index_on_what_a_renewal_changes(fresh: tuple[str, Any], table: str) -> None:
    address, raw = fresh
    with open_board(address) as board:
        raw.execute(f"CREATE INDEX planted ON {table} ({'until' if table == 'tasks' else 'seen_at'})")
        renew = RENEWALS[table](board)
        for _ in range(MANY):
            renew()
    total, hot = until(lambda: (now := updates(raw, table))[0] >= MANY and now, "the counts have been handed in")
    assert hot < 0.5 * total


def test_a_thousand_renewals_leave_a_small_table(fresh: tuple[str, Any]) -> None:
    address, raw = fresh
    with open_board(address) as board:
        renew = renew_hold(board)
        before = size(raw, "holds")
        for _ in range(1000):
            renew()
        assert size(raw, "holds") <= before + 8 * 8192


@pytest.mark.parametrize("table", ["tasks", "holds", "agents"])
def test_hot_tables_leave_room_on_their_pages_and_are_vacuumed_early(raw: Any, table: str) -> None:
    [options] = raw.execute("SELECT reloptions FROM pg_class WHERE relname = %s", (table,)).fetchone()
    told = dict(option.split("=") for option in options)
    assert int(told["fillfactor"]) <= 70
    assert float(told["autovacuum_vacuum_scale_factor"]) <= 0.02
    assert int(told["autovacuum_vacuum_threshold"]) <= 1000


# ── Pruning ──────────────────────────────────────────────────────────────────────────────────────────


def age(raw: Any) -> None:
    """Everything that has happened so far is two months old."""
    raw.execute("UPDATE tasks SET finished_at = finished_at - %s::bigint WHERE finished_at > 0", (60 * DAY,))
    raw.execute("UPDATE events SET at = at - %s::bigint", (60 * DAY,))
    raw.execute("UPDATE messages SET sent_at = sent_at - %s::bigint", (60 * DAY,))


def test_pruning_goes_in_small_steps_while_others_claim(address: str, board: Board, raw: Any) -> None:
    limit, old = 100, 1000
    for _ in range(old // 500):
        board.batch([("tasks.post", {"name": "old", "kind": "knowledge", "key": f"k{_}-{i}"}) for i in range(500)])
    board.batch([("messages.send", {"body": f"old {i}"}) for i in range(300)])
    age(raw)
    board.batch([("tasks.post", {"name": "new"}) for _ in range(400)])
    deleted: list[int] = []
    tap(board, lambda statement: None, lambda cursor: deleted.append(removed(cursor)))
    claimers = [(address, f"agent-{i}", i) for i in range(4)]
    with Crew(next_claimer, claimers) as crew:
        crew.go()
        steps = 1
        while (pruned := board.upkeep.prune(limit=limit)).more:
            steps += 1
        won = [ref for report, _ in crew.reports() for ref in report]
    assert max(deleted) <= limit
    assert steps >= old / limit
    assert len(won) == len(set(won)) == 400
    assert pruned.tasks < limit
    assert raw.execute("SELECT count(*) FROM tasks WHERE name = 'old'").fetchone()[0] == 0
    assert raw.execute("SELECT count(*) FROM marks").fetchone()[0] == old


def removed(cursor: Any) -> int:
    """How many rows a statement deleted."""
    return cursor.rowcount if (cursor.statusmessage or "").startswith("DELETE") else 0


def test_no_claim_waits_for_a_step_of_pruning(board: Board, other: Board, raw: Any) -> None:
    board.batch([("tasks.post", {"name": "old", "kind": "knowledge"}) for _ in range(50)])
    age(raw)
    task = board.tasks.post(name="new")
    raw.execute("BEGIN")
    raw.execute("SELECT number FROM tasks WHERE finished_at > 0 FOR UPDATE")  # as a step does that is under way
    try:
        assert in_thread(lambda: other.tasks.claim(ref=task.id))().epoch == 1
        assert in_thread(lambda: other.tasks.post(name="another"))().state == "pending"
        assert len(in_thread(lambda: other.tasks.next(count=5))()) == 1
    finally:
        raw.execute("ROLLBACK")


# ── What the doctor says ─────────────────────────────────────────────────────────────────────────────


def finding(board: Board, what: str) -> tuple[str, str]:
    """How something is, and what is said of it."""
    [(level, details)] = [(level, details) for level, name, details in board.doctor() if name == what]
    return level, details


def test_a_sound_server_is_called_sound(board: Board) -> None:
    assert {level for level, _, _ in board.doctor()} == {"ok"}
    assert finding(board, "durability") == ("ok", "fsync on, synchronous_commit on, full_page_writes on")


def test_a_server_that_loses_commits_is_called_bad() -> None:
    careless = Server("fsync=off", "full_page_writes=off", "autovacuum=off")
    try:
        with open_board(careless.address()) as board:
            assert finding(board, "durability") == ("bad", "fsync off, synchronous_commit on, full_page_writes off")
            assert finding(board, "autovacuum")[0] == "bad"
    finally:
        careless.close()


def test_commits_that_do_not_wait_for_the_disk_are_called_bad(address: str) -> None:
    with open_board(f"{address}&options=-csynchronous_commit%3Doff") as board:
        level, details = finding(board, "durability")
    assert (level, "synchronous_commit off" in details) == ("bad", True)


class Later:
    """A connection to a server on which an hour has passed."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def execute(self, statement: str) -> Any:
        return self.connection.execute(statement.replace("now()", "(now() + interval '1 hour')"))


def test_a_transaction_that_stays_open_is_warned_of(address: str, board: Board, raw: Any) -> None:
    with psycopg.connect(address, autocommit=True) as forgotten:
        forgotten.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        forgotten.execute("SELECT count(*) FROM tasks")
        soon = {what: level for level, what, _ in diagnose(raw)}
        later = {what: (level, details) for level, what, details in diagnose(Later(raw))}
        assert soon["oldest transaction"] == "ok"
        assert later["oldest transaction"][0] == "warn"
        assert later["oldest transaction"][1].startswith("3600 s")


def test_a_transaction_that_stays_open_after_writing_is_warned_of(address: str, board: Board, raw: Any) -> None:
    """It holds up every reader of events, and has no snapshot while it is idle."""
    with psycopg.connect(address, autocommit=True, options=WRITES) as forgotten:
        forgotten.execute("BEGIN")
        forgotten.execute("INSERT INTO pools VALUES ('p', 'pool:x', 1)")
        later = {what: level for level, what, _ in diagnose(Later(raw))}
        assert later["oldest transaction"] == "warn"
        forgotten.execute("ROLLBACK")
