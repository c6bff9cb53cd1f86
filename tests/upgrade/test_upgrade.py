"""Upgrading a board: nothing is lost, any number of processes may do it at once, and it happens as a whole or not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

import tiebreak
from tests.postgres import server
from tests.races.crew import WorkerFailed, race
from tests.races.places import database
from tiebreak import Unavailable
from tiebreak.engine import schema
from tiebreak.engine.move.moving import move
from tiebreak.engine.schema import CLOSED, TABLES

from .old import ENGINES, NOW, STATEMENTS, OldBoard, process

Run = Generator[None, None, Any]


# ── What was there ───────────────────────────────────────────────────────────────────────────────────


def test_the_fixtures_have_something_of_everything(old: OldBoard) -> None:
    rows = old.rows()
    assert len(rows) == {1: 16, 2: 16, 3: 18, 4: 19}[old.made]
    assert [table for table, found in rows.items() if not found] == []
    states = {state for (state,) in old.run("SELECT DISTINCT state FROM tasks")}
    assert states == {"pending", "blocked", "claimed", "completed", "failed", "cancelled"}
    resources = {resource.partition(":")[0] for (resource,) in old.run("SELECT resource FROM holds")}
    assert resources == {"file", "lock", "pool", "seat"}


def test_an_upgrade_keeps_every_row(upgraded: OldBoard) -> None:
    assert upgraded.version() == schema.VERSION
    assert upgraded.rows() == upgraded.was


def test_an_upgrade_to_3_lets_next_look_at_every_limit_group_that_is_in_use(upgraded: OldBoard) -> None:
    aside = dict(upgraded.run("SELECT key, aside FROM tasks WHERE aside <> 0"))
    waiting = ("limited-full", "limited-free", "limited-blocked", "limited-delayed")
    assert aside == (dict.fromkeys(waiting, 1) if upgraded.made >= 2 else {}), "neither claimed nor ended ones"
    stirred = upgraded.run("SELECT stirred.limit_group, key, rank FROM stirred JOIN tasks ON number = task")
    later = {("full", "limited-claimed", 9), ("free", "limited-free", 9)} if upgraded.made >= 2 else set()
    assert len(stirred) == len(later) + 1
    assert set(stirred) == {("g", "job", 9), *later}, "one row a group, and none for a group whose tasks have ended"


def test_an_upgrade_to_3_looks_at_each_claim_when_its_lease_ends(upgraded: OldBoard) -> None:
    claims = {key for (key,) in upgraded.run("SELECT key FROM tasks WHERE look_at <> 0 AND look_at = until")}
    limited = {"limited-claimed"} if upgraded.made >= 2 else set()
    assert claims == {"lapsed", "lapsed-last", "held", "job"} | limited
    assert upgraded.run("SELECT key FROM tasks WHERE state <> 'claimed' AND look_at <> 0") == []


def test_a_limited_job_can_be_won_after_an_upgrade_if_its_group_has_room(old: OldBoard) -> None:
    with old.open("bob") as bob:
        won = [job.name for job in bob.jobs.next(queues=["limited"], count=10)]
        assert won == (["make free-1"] if old.made >= 2 else [])
        if old.made >= 2:
            bob.tasks.cancel(ref="limited-claimed", reason="makes room")
            assert [job.name for job in bob.jobs.next(queues=["limited"], count=10)] == ["make full-2"]


def test_numbers_and_epochs_go_on(old: OldBoard) -> None:
    last, event, message = old.last("tasks"), old.last("events"), old.last("messages")
    with old.open() as board:
        assert board.tasks.claim(ref="often").epoch == 4
        assert board.tasks.claim(ref="pruned").epoch == 2, "of a task that was pruned"
        assert board.tasks.claim(ref="lapsed").epoch == 2
        assert [hold.epoch for hold in board.holds.take(resources=["lock:deploy"])] == [3]
        assert board.tasks.post(name="new").number == last + 2, "after the one that was pruned"
        assert board.messages.send(body="new").number == message + 1
        events = [event.number for event in board.events.read(limit=200)]
        assert events == sorted(set(events))
        assert events[-1] > event


def test_grants_that_are_live_stay_live(old: OldBoard) -> None:
    with old.open("bob") as bob, old.open() as alice:
        with pytest.raises(tiebreak.Lost):
            bob.tasks.claim(ref="held")
        with pytest.raises(tiebreak.Lost):
            bob.holds.take(resources=["file:src/a.py"])
        assert alice.tasks.complete(ref="held", epoch=1).state == "completed"
        assert {hold.resource for hold in bob.holds.list()} >= {"file:src/**", "pool:ports", "seat:coordinator"}


def test_a_task_that_was_ready_before_the_upgrade_can_be_claimed(old: OldBoard) -> None:
    with old.open("bob") as bob:
        won = {task.name for task in bob.tasks.next(count=20)}
    assert won >= {"deploy", "often", "kept", "once", "last"}
    assert not won & {"blocked", "delayed", "held", "build", "cancelled", "failed"}


# ── Who is refused ───────────────────────────────────────────────────────────────────────────────────


def test_a_process_of_the_old_version_writes_until_the_upgrade_and_not_after_it(old: OldBoard) -> None:
    assert tried(old) == dict.fromkeys(STATEMENTS, ""), "until then they are statements that work"
    before = old.rows()
    old.open().close()
    for _ in range(2):  # trying again does not help
        assert tried(old) == dict.fromkeys(STATEMENTS, old.refusal)
    assert old.rows() == before, "but it may read"


def tried(old: OldBoard) -> dict[str, str]:
    """How each statement is refused; "" for those that went through."""
    return {name: old.refused(sql) for name, sql in STATEMENTS.items()}


def test_a_newer_board_is_neither_opened_nor_moved(old: OldBoard, tmp_path: Path) -> None:
    newest = "PRAGMA user_version = 99" if old.engine == "sqlite" else "UPDATE board SET value = '99'"
    old.run(newest)
    before = old.rows()
    for use in (lambda: old.open(), lambda: move(old.address, str(tmp_path / "target.db"))):
        with pytest.raises(Unavailable, match=rf"newer tiebreak \(schema 99, this one knows {schema.VERSION}\)"):
            use()
    assert old.rows() == before
    assert old.version() == 99


# ── At the same moment ───────────────────────────────────────────────────────────────────────────────


def opener(address: str, agent: str) -> Run:
    """Open a board that has to be upgraded, and use it."""
    yield
    with tiebreak.open(address, agent=f"{agent}~1", project="demo", clock=lambda: NOW) as board:
        return board.tasks.post(name=f"by {agent}").number


def test_eight_processes_upgrade_it_together(old: OldBoard) -> None:
    last = old.last("tasks")
    numbers = race(opener, [(old.address, f"agent-{i}") for i in range(8)])
    assert sorted(numbers) == list(range(last + 1, last + 9))
    assert old.version() == schema.VERSION


def writer(address: str, made: int, turns: int) -> Run:
    """A process of an older version that claims and releases all the time, until it is refused; why it is."""
    opened = process(address, made)
    yield
    for claims in range(turns):
        with opened.transaction():
            for name in ("claim", "event", "release"):
                if refusal := opened.refused(STATEMENTS[name]):
                    return claims, refusal
    return turns, ""


def late_opener(address: str) -> Run:
    """Upgrade a board that others are writing to."""
    yield
    time.sleep(0.3)
    tiebreak.open(address, agent="new~1", project="demo", clock=lambda: NOW).close()
    return 0, ""


def either(address: str, made: int, turns: int) -> Run:
    return writer(address, made, turns) if turns else late_opener(address)


def test_processes_of_the_old_version_at_work_are_refused_from_one_moment_on(old: OldBoard) -> None:
    [(epoch,)] = old.run("SELECT epoch FROM tasks WHERE key = 'often'")
    reports = race(either, [*[(old.address, old.made, 1_000_000)] * 3, (old.address, old.made, 0)])
    assert [refusal for _, refusal in reports[:3]] == [old.refusal] * 3
    claims = sum(count for count, _ in reports)
    assert claims > 0
    [(now,)] = old.run("SELECT epoch FROM tasks WHERE key = 'often'")
    assert now == epoch + claims, "what they had committed is there, and nothing else"
    with old.open() as board:
        assert board.tasks.claim(ref="often").epoch == now + 1


# ── Half-way ─────────────────────────────────────────────────────────────────────────────────────────


def broken(steps: Any) -> Any:
    """The same steps, but the last one stops in the middle."""

    def half(engine: str, version: int) -> Iterator[str]:
        *before, last = steps(engine, version)
        yield from before
        yield last[: last.rindex("CREATE TRIGGER")]
        raise OSError("the disk is gone")

    return half


def still_of_its_version(old: OldBoard, before: Any) -> None:
    assert old.version() == old.made
    assert old.rows() == before
    assert tried(old) == dict.fromkeys(STATEMENTS, "")


def test_an_upgrade_that_fails_leaves_the_old_version_in_use(old: OldBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    before = old.rows()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "steps", broken(schema.steps))
        with pytest.raises((Unavailable, OSError)):
            old.open()
    still_of_its_version(old, before)
    old.open().close()
    assert old.version() == schema.VERSION


def killed(address: str) -> Run:
    """Die in the middle of an upgrade."""
    steps = broken(schema.steps)

    def die(engine: str, version: int) -> Iterator[str]:
        try:
            yield from steps(engine, version)
        except OSError:
            os.kill(os.getpid(), signal.SIGKILL)

    schema.steps = die
    yield
    tiebreak.open(address, agent="dying~1", project="demo").close()


def test_an_upgrade_that_is_killed_leaves_the_old_version_in_use(old: OldBoard) -> None:
    before = old.rows()
    with pytest.raises(WorkerFailed):
        race(killed, [(old.address,)])
    still_of_its_version(old, before)
    with old.open() as board:
        assert board.tasks.claim(ref="kept").epoch == 1


# ── Moving ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def elsewhere(old: OldBoard, tmp_path: Path) -> Iterator[str]:
    """A place on the other engine with nothing there."""
    with database(server()) as empty:
        yield empty if old.engine == "sqlite" else str(tmp_path / "new.db")


def test_moving_a_board_of_an_old_version_makes_one_of_the_newest(old: OldBoard, elsewhere: str) -> None:
    tasks = len(old.rows()["tasks"])
    assert move(old.address, elsewhere).outcome == "moved"
    with tiebreak.open(elsewhere, agent="bob~1", project="demo") as board:
        assert len(board.tasks.list(project=None, limit=100)) == tasks
        assert board.tasks.claim(ref="often").epoch == 4
    there = process(elsewhere, old.made)
    assert there.version() == schema.VERSION
    assert there.refused(STATEMENTS["heartbeat"]) == there.refusal
    there.close()
    assert "tasks" in old.refused(STATEMENTS["claim"]), "there is no such table any more"


def test_a_dry_run_shows_what_would_be_moved(old: OldBoard, elsewhere: str) -> None:
    before = {table: len(rows) for table, rows in old.rows().items()}
    found = move(old.address, elsewhere, only_look=True).rows
    assert {table: found[table] for table in before} == before
    assert old.rows().keys() == before.keys(), "it is still there"


def test_an_empty_board_of_an_old_version_is_replaced(old: OldBoard, tmp_path: Path) -> None:
    for table in TABLES:
        if old.columns(table):
            old.run(f"DELETE FROM {table}")
    with tiebreak.open(tmp_path / "full.db", agent="alice~1", project="demo") as board:
        board.tasks.post(name="x")
    assert move(str(tmp_path / "full.db"), old.address).outcome == "moved"
    with tiebreak.open(old.address, agent="alice~1", project="demo") as board:
        assert [task.name for task in board.tasks.list()] == ["x"]
    assert old.version() == schema.VERSION


def close(old: OldBoard, **facts: str) -> None:
    """Close a board as its version did at the end of a move, or of the first part of one."""
    for name, value in facts.items():
        old.run(f"INSERT INTO board VALUES ('{name.replace('_', '.')}', '{value}')")
    for table in (*TABLES, "board"):
        if old.columns(table):
            old.run(f"ALTER TABLE {table} RENAME TO {CLOSED}{table}")
    if old.engine == "postgres":
        old.run(f"ALTER FUNCTION events_settled() RENAME TO {CLOSED}events_settled")


def test_a_move_that_the_old_version_left_unfinished_is_finished(old: OldBoard, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    rows = old.rows()
    with ENGINES["sqlite"](tmp_path / "source", old.made) as source:
        close(source, moved=old.address, moved_by="attempt")
        close(old, arriving=source.address, arriving_by="attempt")
        assert move(source.address, old.address).outcome == "finished"
        assert move(source.address, old.address).outcome == "already"
    assert old.version() == schema.VERSION
    assert old.rows() == rows
    assert old.refused(STATEMENTS["claim"]) == old.refusal
    with old.open() as board:
        assert board.tasks.claim(ref="often").epoch == 4
