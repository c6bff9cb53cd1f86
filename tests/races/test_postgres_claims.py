"""Thousands of claims by up to sixty-four processes on PostgreSQL: none was made twice. (`make soak` has more of them.)

The same count is then taken over a claim as one would naively write it, and finds what it is there for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.postgres import WRITES
from tiebreak import Board, Event, Lost
from tiebreak.engine.postgres import transaction
from tiebreak.operations import claims, grants

from . import checkers, places, plants
from .checkers import Broken, Grant
from .crew import PROJECT, Plant, race
from .plants import Set
from .scenarios import Run, churn, open_board

ONE, TEN, BY_REFERENCE, EVERY_WAY = "one at a time", "ten at a time", "by reference", "every way at once"
RACES = [
    (16, ONE, 400),
    (64, ONE, 300),
    (16, TEN, 1500),
    (64, TEN, 1500),
    (16, BY_REFERENCE, 50),
    (64, BY_REFERENCE, 10),
    (16, EVERY_WAY, 400),
]
"""How many processes claim, how, and for how many tasks."""
LONG_RACES = [
    (16, ONE, 2000),
    (64, ONE, 1500),
    (16, TEN, 8000),
    (64, TEN, 8000),
    (16, BY_REFERENCE, 100),
    (64, BY_REFERENCE, 40),
    (16, EVERY_WAY, 1000),
]
"""More than twenty thousand tasks in all."""

# The same rows that tasks.post writes.
_TASKS = (
    "INSERT INTO tasks (id, project, kind, name, queue, priority, state, max_attempts, backoff, created_by, "
    "created_at, updated_at) SELECT format('%%s-%%s-7000-8000-%%s', lpad(to_hex(%(at)s >> 28), 8, '0'), "
    "lpad(to_hex((%(at)s >> 12) & 65535), 4, '0'), lpad(to_hex(n), 12, '0')), %(project)s, 'task', 'task ' || n, "
    "'default', 1, 'pending', 3, 1000000, 'judge~1', %(at)s, %(at)s FROM generate_series(1, %(count)s) AS n "
    "RETURNING id"
)
_EVENTS = (
    "INSERT INTO events (at, event, project, subject, name, kind, state, priority, agent) "
    "SELECT created_at, 'task.posted', project, id, name, kind, state, priority, created_by FROM tasks ORDER BY number"
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[str]:
    """The address of a fresh board on PostgreSQL."""
    with places.postgres(tmp_path) as made:
        yield made


def load(address: str, count: int) -> list[str]:
    """That many ready tasks, in one statement; their ids."""
    with open_board(address) as board:
        now = int(board.upkeep.status().now * 1_000_000)
    with psycopg.connect(address, options=WRITES) as connection:
        rows = connection.execute(_TASKS, {"at": now, "project": PROJECT, "count": count}).fetchall()
        connection.execute(_EVENTS)
        connection.execute("ANALYZE tasks")
    return [ref for (ref,) in rows]


# ── Claiming ─────────────────────────────────────────────────────────────────────────────────────────


def asker(address: str, agent: str, way: str, refs: list[str]) -> Run:
    """Claim in one way until nothing is left; what was won."""
    board = open_board(address, agent)
    yield
    if way == BY_REFERENCE:
        return [ref for ref in refs if wins_it(board, ref)]
    won: list[str] = []
    while got := board.tasks.next(count=10 if way == TEN else 1):
        won += [task.id for task in got]
    return won


def wins_it(board: Board, ref: str) -> bool:
    """Reach for one task that everybody else reaches for, too."""
    try:
        return board.tasks.claim(ref=ref, create=False).id == ref
    except Lost:
        return False


def contest(address: str, crew: int, way: str, refs: list[str], plant: Plant | None = None) -> list[tuple[str, str]]:
    """Let so many processes claim all of these tasks at once; who won what."""
    agents = [f"agent-{i}" for i in range(crew)]
    ways = [(ONE, TEN, BY_REFERENCE)[i % 3] if way == EVERY_WAY else way for i in range(crew)]
    wanted = refs[::10] if way == EVERY_WAY else refs
    starts = [len(wanted) * (i % 8) // 8 for i in range(crew)]  # or who is ahead once stays ahead and wins them all
    each = [
        (address, agent, its, wanted[at:] + wanted[:at]) for agent, its, at in zip(agents, ways, starts, strict=True)
    ]
    reports = race(asker, each, plant=plant)
    return [(ref, agent) for agent, won in zip(agents, reports, strict=True) for ref in won]


def judge(address: str, refs: list[str], won: list[tuple[str, str]]) -> None:
    """Each task was won once, and the board and its log say so of the very same winners."""
    checkers.one_winner_each(won, refs)
    told = sorted((ref, f"{agent}~1", 1) for ref, agent in won)
    with psycopg.connect(address) as connection:
        look = connection.execute
        stored = look("SELECT id, holder, epoch FROM tasks WHERE state = 'claimed' AND attempts = 1 ORDER BY id")
        if stored.fetchall() != told:
            raise Broken("the board knows other winners, epochs or attempts")
        logged = look("SELECT subject, agent, epoch FROM events WHERE event = 'task.claimed' ORDER BY subject")
        if logged.fetchall() != told:
            raise Broken("the log tells of other claims")


@pytest.mark.parametrize(("crew", "way", "tasks"), RACES)
def test_no_task_is_claimed_twice_or_forgotten(database: str, crew: int, way: str, tasks: int) -> None:
    refs = load(database, tasks)
    won = contest(database, crew, way, refs)
    assert len({agent for _, agent in won}) > 1, "no race"
    judge(database, refs, won)


@pytest.mark.soak
@pytest.mark.parametrize(("crew", "way", "tasks"), LONG_RACES)
def test_no_task_of_twenty_thousand_is_claimed_twice_or_forgotten(
    database: str, crew: int, way: str, tasks: int
) -> None:
    test_no_task_is_claimed_twice_or_forgotten(database, crew, way, tasks)


# ── Planted bugs ─────────────────────────────────────────────────────────────────────────────────────


def claims_naively(put: Set) -> None:
    """The next task is looked up by a plain sub-select and taken without asking again whether it is free."""
    original = transaction.PostgresTransaction.all
    again = f" AND {claims.READY} AND {grants.FREE}"

    def run(self: Any, sql: str, **params: Any) -> Any:
        if "WITH picked" in sql:
            assert again in sql
            assert "{skip_locked}" in sql
            found = original(self, sql.replace("{skip_locked}", "").replace(again, ""), **params)
            time.sleep(0.005)  # somebody else is sure to find the same one before this is committed
            return found
        return original(self, sql, **params)

    put(transaction.PostgresTransaction, "all", run)


def epoch_stands_still(put: Set) -> None:
    """A grant has the epoch of the one before, worded for PostgreSQL."""
    plants._constant(put, "GRANT", "epoch = epoch + 1", "epoch = greatest(epoch, 1)")


@pytest.mark.usefixtures("unchecked")
def test_claims_made_twice_by_a_naive_statement_are_found(database: str) -> None:
    refs = load(database, 100)
    won = contest(database, 16, ONE, refs, plant=claims_naively)
    assert len(won) > len(refs)
    with pytest.raises(Broken, match="was won"):
        judge(database, refs, won)


@pytest.mark.usefixtures("unchecked")
def test_double_wins_by_reference_are_found(database: str) -> None:
    refs = load(database, 20)
    won = contest(database, 16, BY_REFERENCE, refs, plant=plants.taken_counts_as_free)
    with pytest.raises(Broken, match="was won 3 times"):  # until the attempts are used up
        judge(database, refs, won)
    with open_board(database) as board, pytest.raises(Broken, match=r"while|is said to have run out"):
        checkers.one_holder_at_a_time(checkers.read_log(board))


@pytest.mark.usefixtures("unchecked")
def test_a_claim_that_the_log_does_not_tell_of_is_found(database: str) -> None:
    refs = load(database, 20)
    won = contest(database, 4, TEN, refs)
    judge(database, refs, won)
    with psycopg.connect(database, options=WRITES) as connection:
        connection.execute("DELETE FROM events WHERE event = 'task.claimed' AND subject = %s", (refs[7],))
    with pytest.raises(Broken, match="the log tells"):
        judge(database, refs, won)


def epochs(grants: list[Grant], events: list[Event]) -> None:
    """The epochs count the grants."""
    checkers.epochs_count_grants(grants)


def holders(grants: list[Grant], events: list[Event]) -> None:
    """One holder at a time."""
    checkers.one_holder_at_a_time(events)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("plant", "judging", "found"),
    [
        (plants.taken_counts_as_free, holders, "while|is said to have run out"),
        (epoch_stands_still, epochs, "issued more than once"),
        (plants.epoch_jumps, epochs, "have a gap"),
        (plants.lapses_are_not_told, holders, "while .* had it"),
    ],
)
def test_churn_finds(tmp_path: Path, plant: Plant, judging: Callable[..., None], found: str) -> None:
    def look(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        with places.postgres(folder) as database:
            diary = churn(database, str(folder), turns=120, crew=2, plant=plant)
            with open_board(database) as board:
                judging([grant for what, grant in diary if what == "granted"], checkers.read_log(board))

    checkers.finds(found, look)


@pytest.mark.usefixtures("unchecked")
def test_a_fence_that_does_not_ask_for_the_epoch_is_found(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plants.epoch_is_not_asked(monkeypatch.setattr)
    with open_board(database) as board:
        old = board.tasks.claim(ref="again/and/again")
        board.tasks.release(ref=old.id)
        board.tasks.claim(ref=old.id)
        board.tasks.extend(ref=old.id, epoch=old.epoch)
        with pytest.raises(Broken, match="an epoch that was not current"):
            checkers.writes_fenced(checkers.read_log(board), [("task.extended", Grant(old.id, 0, old.epoch, "judge"))])
