"""SIGKILL for clients of PostgreSQL, a crash for the server: what was acknowledged is there, once, and whole."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.command import until
from tests.postgres import WRITES, Server
from tests.races import checkers, places
from tests.races.checkers import Broken, Grant
from tests.races.crew import Crew, Plant, processes
from tests.races.plants import Set
from tests.races.scenarios import Run, open_board
from tiebreak import Board, Lost, NotFound, Refused
from tiebreak.engine.postgres import engine as postgres
from tiebreak.engine.postgres import transaction, transaction_settings
from tiebreak.engine.schema import POSTGRES_PASS

from . import test_kill
from .writers import (
    KEYS,
    LOCKS,
    Acknowledged,
    granted,
    hold,
    nothing_lost,
    read_diary,
    still_completed,
    tussle,
    work,
    writer,
)

CREW = 8
ROUNDS = 15
CRASHES = 8


def prepare(address: str) -> None:
    """The tasks that everybody wants."""
    with open_board(address) as board:
        for key in KEYS:
            board.tasks.post(name=key, key=key, max_attempts=1000)


# ── Judging ──────────────────────────────────────────────────────────────────────────────────────────


def judge(address: str, diary: list[tuple[str, Grant]]) -> None:
    """What was acknowledged is there, and nothing is half there."""
    with open_board(address) as board:
        run_out(board)
        events = checkers.read_log(board)
        nothing_lost(events, diary)
        still_completed(board, [entry for entry in diary if entry[0] == "task.completed"][-200:])
        checkers.one_holder_at_a_time(events)
        checkers.nothing_issued_twice(granted(diary))
        told = checkers.grants_in(events)
        checkers.epochs_count_grants(told, checkers.epochs_on(board, {grant[:2] for grant in told}))
        checkers.sound(board)
    nothing_half_done(address)


def run_out(board: Board) -> None:
    """Whatever the dead have had can be won, as soon as its time is over."""
    for key in KEYS:
        if board.tasks.get(ref=key).state == "failed":  # its attempts are used up
            board.tasks.retry(ref=key)
        patiently(partial(board.tasks.claim, ref=key))
        board.tasks.release(ref=key)
    for lock in LOCKS:
        patiently(partial(board.holds.take, resources=[lock]))
        board.holds.release(resources=[lock])


def patiently(reach: Callable[[], Any]) -> None:
    """Reach for it again when its holder's time is over; the dead do not extend it."""
    for _ in range(3):
        try:
            reach()
            return
        except Lost as exc:
            time.sleep(exc.data["left"])
    raise Broken("somebody dead goes on holding it")


HALVES = {
    "a task without its event, or an event without its task": (
        "SELECT id FROM tasks FULL JOIN (SELECT subject FROM events WHERE event = 'task.posted') AS told "
        "ON id = subject WHERE id IS NULL OR subject IS NULL"
    ),
    "a claim without its event, or an event without its claim": (
        "SELECT id FROM tasks WHERE epoch <> "
        "(SELECT count(*) FROM events WHERE subject = id AND event = 'task.claimed')"
    ),
    "an end without its event, or an event without its end": (
        "SELECT id FROM tasks WHERE (state = 'completed')::int <> "
        "(SELECT count(*) FROM events WHERE subject = id AND event = 'task.completed')"
    ),
    "one of two locks that are taken together": (
        "SELECT agent, at FROM events WHERE event = 'hold.taken' AND agent <> 'judge~1' GROUP BY agent, at "
        "HAVING count(*) <> 2"
    ),
}


def nothing_half_done(address: str) -> None:
    """No transaction left a part of itself."""
    with psycopg.connect(address) as connection:
        for half, search in HALVES.items():
            if found := connection.execute(search).fetchall():
                raise Broken(f"{half}: {found[:3]}")


# ── Clients that die ─────────────────────────────────────────────────────────────────────────────────


def kill_rounds(address: str, folder: Path, rounds: int, crew: int = CREW, plant: Plant | None = None) -> None:
    """Kill writers one after the other while the rest goes on, again and again on the same board."""
    prepare(address)
    chance, diary = random.Random(rounds), []
    for turn in range(rounds):
        names = [(f"writer-{turn}-{i}", str(folder / f"diary-{turn}-{i}")) for i in range(crew)]
        mine, theirs = processes.Pipe(duplex=False)
        with Crew(writer, [(address, *name, i, theirs) for i, name in enumerate(names)], plant=plant) as writers:
            writers.go()
            assert mine.poll(60.0)  # the first answer to any of them; others have not even opened the board
            for process in chance.sample(writers.processes, crew):
                time.sleep(chance.uniform(0.0, 0.02))
                process.kill()
        diary += [entry for _, path in names for entry in read_diary(path)]
    settled(address)
    judge(address, diary)
    assert len(diary) > rounds


def settled(address: str) -> None:
    """Wait until the server has finished what the dead asked for last."""
    others = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(address, autocommit=True) as connection:
        until(lambda: not connection.execute(others).fetchall(), "the connections of the dead are gone")


def test_nothing_acknowledged_is_lost_when_clients_are_killed(database: str, tmp_path: Path) -> None:
    kill_rounds(database, tmp_path, ROUNDS)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_nothing_acknowledged_is_lost_when_very_many_clients_are_killed(database: str, tmp_path: Path) -> None:
    kill_rounds(database, tmp_path, 100 * ROUNDS)


def test_a_killed_pruner_forgets_no_epoch(database: str) -> None:
    test_kill.prune_rounds(database, 4)


def answers_before_commit(put: Set) -> None:
    """Group commit gone wrong: an answer is given now, its commit comes with the next twenty."""

    def write(self: Any, scopes: Any, projects: Any, operate: Callable[..., Any], *args: Any) -> Any:
        if getattr(self, "_answered", 20) == 20:
            self._answered, self._one = 0, self._take()
            self._one.execute(f"BEGIN; {POSTGRES_PASS}")
        now = self._one.execute(f"SELECT {transaction_settings.CLOCK}").fetchone()[0]
        tx = transaction.PostgresTransaction(self._one, self.refusals, now, scopes=scopes)
        answer = operate(tx, *args)
        tx.write_events()
        self._answered += 1
        if self._answered == 20:
            self._one.execute("COMMIT")
            self._give_back(self._one)
        return answer

    put(postgres.PostgresEngine, "_write", write)


def test_an_answer_given_before_its_commit_is_found(database: str, tmp_path: Path) -> None:
    with pytest.raises(Broken, match="acknowledged and lost"):
        kill_rounds(database, tmp_path, 12, crew=1, plant=answers_before_commit)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("event", "found"),
    [
        ("task.posted", "a task without its event"),
        ("task.claimed", "a claim without its event"),
        ("task.completed", "an end without its event"),
        ("hold.taken", "one of two locks"),
    ],
)
def test_half_of_a_transaction_is_found(database: str, event: str, found: str) -> None:
    with open_board(database, "writer") as board:
        board.tasks.claim(ref="key")
        board.tasks.complete(ref="key")
        board.holds.take(resources=["lock:a", "lock:b"])
    nothing_half_done(database)
    with psycopg.connect(database, options=WRITES) as connection:
        connection.execute(
            "DELETE FROM events WHERE number = (SELECT max(number) FROM events WHERE event = %s)", (event,)
        )
    with pytest.raises(Broken, match=found):
        nothing_half_done(database)


# ── A server that crashes ────────────────────────────────────────────────────────────────────────────


def survivor(address: str, agent: str, diary: str, enough: str, first: Connection) -> Run:
    """Write until it is enough, however often the server goes and comes; every post has a name of its own."""
    postgres.PATIENCE = 60.0  # a loaded machine may take its time to recover
    yield
    board, answered, chance = open_board(address, agent), Acknowledged(diary, first), random.Random(agent)
    for number in count():
        if os.path.exists(enough):
            return
        with contextlib.suppress(NotFound, Refused):  # what is lost is for the judge to find
            chance.choice([work, tussle, hold])(board, agent, answered, chance)
        answered.note("task.posted", board.tasks.post(name=f"{agent}/{number}").id)


def crash(server: Server) -> None:
    """All of its processes end at once, and it recovers."""
    server.stop(signal.SIGQUIT)
    server.start()


def crash_rounds(
    server: Server, address: str, folder: Path, rounds: int, options: str = "", plant: Plant | None = None
) -> None:
    """Crash the server under load; the writers are the same all the time, and connect with these options."""
    prepare(address)
    chance = random.Random(rounds)
    names = [(f"survivor-{i}", str(folder / f"diary-{i}")) for i in range(CREW)]
    mine, theirs = processes.Pipe(duplex=False)
    enough = folder / "enough"
    each = [(address + options, *name, str(enough), theirs) for name in names]
    with Crew(survivor, each, plant=plant) as writers:
        writers.go()
        assert mine.poll(60.0)
        for _ in range(rounds):
            answered_again(names)
            time.sleep(chance.uniform(0.0, 0.3))
            crash(server)
        enough.touch()
        writers.reports()
    judge(address, [entry for _, path in names for entry in read_diary(path)])
    nothing_done_twice(address)


def answered_again(names: list[tuple[str, str]]) -> None:
    """Come back when at least half of the writers got an answer."""
    before, deadline = [len(read_diary(path)) for _, path in names], time.monotonic() + 60.0
    while sum(len(read_diary(path)) > n for n, (_, path) in zip(before, names, strict=True)) < CREW // 2:
        if time.monotonic() > deadline:
            return  # the reports tell why
        time.sleep(0.005)


def nothing_done_twice(address: str) -> None:
    """No write was carried out again because its answer got lost."""
    with psycopg.connect(address) as connection:
        names = connection.execute("SELECT name FROM tasks WHERE name LIKE 'survivor-%'").fetchall()
    if twice := [name for (name,), times in Counter(names).items() if times > 1]:
        raise Broken(f"posted twice: {twice[:3]}")


def test_nothing_acknowledged_is_lost_or_done_twice_when_the_server_crashes(mortal: Server, tmp_path: Path) -> None:
    with places.database(mortal) as address:
        crash_rounds(mortal, address, tmp_path, CRASHES)


NOT_SYNCED = "&options=-csynchronous_commit%3Doff"


@pytest.fixture
def lazy(mortal: Server) -> Iterator[str]:
    """A board on a server that syncs nothing by and by: what no commit has waited for is lost in a crash."""
    with places.database(mortal) as address:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        crash(mortal)
        yield address
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM RESET wal_writer_delay")
            connection.execute("SELECT pg_reload_conf()")


def test_a_connection_that_says_otherwise_loses_nothing(mortal: Server, lazy: str, tmp_path: Path) -> None:
    crash_rounds(mortal, lazy, tmp_path, 3, NOT_SYNCED)


def durability_is_left_to_the_server(put: Set) -> None:
    """A commit waits for the disk if the server's settings say so."""
    put(transaction_settings, "DURABLE", "")


def test_a_commit_that_is_not_synced_is_found(mortal: Server, lazy: str, tmp_path: Path) -> None:
    with pytest.raises(Broken, match="acknowledged and lost"):
        crash_rounds(mortal, lazy, tmp_path, 3, NOT_SYNCED, durability_is_left_to_the_server)


class Unlucky:
    """A connection whose server crashes with its first commit, just before it or just after it."""

    def __init__(self, connection: Any, crash: Callable[[], None], *, committed: bool) -> None:
        self._connection, self._crash, self._committed = connection, crash, committed

    def execute(self, sql: str, *args: Any) -> Any:
        """As ever, but for the commit."""
        if sql.endswith("COMMIT") and "NOTIFY" not in sql:
            if self._committed:
                self._connection.execute(sql)
            self._crash()
        return self._connection.execute(sql, *args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@pytest.mark.parametrize("batch", [False, True], ids=["single", "batch"])
@pytest.mark.parametrize("others", [0, 5], ids=["alone", "with others"])
@pytest.mark.parametrize("committed", [False, True], ids=["not committed", "committed"])
def test_a_commit_cut_off_by_a_crash_is_neither_lost_nor_done_twice(
    mortal: Server, monkeypatch: pytest.MonkeyPatch, committed: bool, others: int, batch: bool
) -> None:
    """A server that crashed gives the number of a transaction that it has forgotten to another one."""
    with places.database(mortal) as address, open_board(address, "unlucky") as board:
        take, unlucky = postgres.PostgresEngine._take, [True]

        def goes_down() -> None:
            crash(mortal)
            with open_board(address, "other") as other:
                for _ in range(others):
                    other.tasks.post(name="other")

        def once(self: Any) -> Any:
            connection = take(self)
            if self is board.engine and unlucky:
                return Unlucky(connection, goes_down, committed=unlucky.pop() and committed)
            return connection

        monkeypatch.setattr(postgres.PostgresEngine, "_take", once)
        task = board.batch([("tasks.post", {"name": "once"})])[0] if batch else board.tasks.post(name="once")
        assert [each.id for each in board.tasks.list() if each.name == "once"] == [task.id]
        assert board.upkeep.status().pending == 1 + others
