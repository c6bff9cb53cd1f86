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
from tiebreak.engine.moving import move

from .old import NOW, STATEMENTS, OldBoard, process

Run = Generator[None, None, Any]


# ── What was there ───────────────────────────────────────────────────────────────────────────────────


def test_the_fixtures_have_something_of_everything(old: OldBoard) -> None:
    rows = old.rows()
    assert [table for table, found in rows.items() if not found] == []
    states = {state for (state,) in old.run("SELECT DISTINCT state FROM tasks")}
    assert states == {"pending", "blocked", "claimed", "completed", "failed", "cancelled"}
    resources = {resource.partition(":")[0] for (resource,) in old.run("SELECT resource FROM holds")}
    assert resources == {"file", "lock", "pool", "seat"}


def test_an_upgrade_keeps_every_row(old: OldBoard) -> None:
    before = old.rows()
    assert old.version() == 1
    old.open().close()
    assert old.version() == schema.VERSION
    assert old.rows() == before


def test_numbers_and_epochs_go_on(old: OldBoard) -> None:
    with old.open() as board:
        assert board.tasks.claim(ref="often").epoch == 4
        assert board.tasks.claim(ref="pruned").epoch == 2, "of a task that was pruned"
        assert board.tasks.claim(ref="lapsed").epoch == 2
        assert [hold.epoch for hold in board.holds.take(resources=["lock:deploy"])] == [3]
        assert board.tasks.post(name="new").number == 17
        assert board.messages.send(body="new").number == 3
        events = [event.number for event in board.events.read(limit=200)]
        assert events == sorted(set(events))
        assert events[-1] > 58


def test_grants_that_are_live_stay_live(old: OldBoard) -> None:
    with old.open("bob") as bob, old.open() as alice:
        with pytest.raises(tiebreak.Lost):
            bob.tasks.claim(ref="held")
        with pytest.raises(tiebreak.Lost):
            bob.holds.take(resources=["file:src/a.py"])
        assert alice.tasks.complete(ref="held", epoch=1).state == "completed"
        assert {hold.resource for hold in bob.holds.list()} >= {"file:src/**", "pool:ports", "seat:coordinator"}


def test_what_was_ready_can_be_won(old: OldBoard) -> None:
    with old.open("bob") as bob:
        won = {task.name for task in bob.tasks.next(count=20)}
    assert won >= {"deploy", "often", "kept", "once", "last"}
    assert not won & {"blocked", "delayed", "held", "build", "cancelled", "failed"}


# ── Who is refused ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_process_of_the_old_version_writes_until_the_upgrade_and_not_after_it(old: OldBoard, name: str) -> None:
    assert old.refused(STATEMENTS[name]) == "", "until then it is a statement that works"
    before = old.rows()
    old.open().close()
    assert old.refused(STATEMENTS[name]) == old.refusal
    assert old.refused(STATEMENTS[name]) == old.refusal, "trying again does not help"
    assert old.rows() == before, "but it may read"


def test_a_transaction_of_the_old_version_that_has_only_read_is_refused_when_it_writes(old: OldBoard) -> None:
    old.run("BEGIN")
    old.run("SELECT number FROM tasks")
    old.open().close()
    assert old.refused(STATEMENTS["claim"]) != ""
    old.run("ROLLBACK")
    assert old.refused(STATEMENTS["claim"]) == old.refusal


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
    numbers = race(opener, [(old.address, f"agent-{i}") for i in range(8)])
    assert sorted(numbers) == list(range(16, 24))
    assert old.version() == schema.VERSION


def writer(address: str, turns: int) -> Run:
    """A process of version 1 that claims and releases all the time, until it is refused; why it is."""
    made = process(address)
    yield
    for claims in range(turns):
        with made.transaction():
            for name in ("claim", "event", "release"):
                if refusal := made.refused(STATEMENTS[name]):
                    return claims, refusal
    return turns, ""


def late_opener(address: str) -> Run:
    """Upgrade a board that others are writing to."""
    yield
    time.sleep(0.3)
    tiebreak.open(address, agent="new~1", project="demo", clock=lambda: NOW).close()
    return 0, ""


def either(address: str, turns: int) -> Run:
    return writer(address, turns) if turns else late_opener(address)


def test_processes_of_the_old_version_at_work_are_refused_from_one_moment_on(old: OldBoard) -> None:
    [(epoch,)] = old.run("SELECT epoch FROM tasks WHERE key = 'often'")
    reports = race(either, [*[(old.address, 1_000_000)] * 3, (old.address, 0)])
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
        yield last[: last.rindex("CREATE TRIGGER" if engine == "sqlite" else "DO $$")]
        raise OSError("the disk is gone")

    return half


def still_of_version_1(old: OldBoard, before: Any) -> None:
    assert old.version() == 1
    assert old.rows() == before
    assert {name: old.refused(sql) for name, sql in STATEMENTS.items()} == dict.fromkeys(STATEMENTS, "")


def test_an_upgrade_that_fails_leaves_version_1_in_use(old: OldBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    before = old.rows()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "steps", broken(schema.steps))
        with pytest.raises((Unavailable, OSError)):
            old.open()
    still_of_version_1(old, before)
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


def test_an_upgrade_that_is_killed_leaves_version_1_in_use(old: OldBoard) -> None:
    before = old.rows()
    with pytest.raises(WorkerFailed):
        race(killed, [(old.address,)])
    still_of_version_1(old, before)
    with old.open() as board:
        assert board.tasks.claim(ref="kept").epoch == 1


# ── Moving ───────────────────────────────────────────────────────────────────────────────────────────


def test_moving_a_board_of_version_1_makes_one_of_the_newest(old: OldBoard, tmp_path: Path) -> None:
    tasks = len(old.rows()["tasks"])
    with database(server()) as empty:
        target = empty if old.engine == "sqlite" else str(tmp_path / "new.db")
        assert move(old.address, target).outcome == "moved"
        with tiebreak.open(target, agent="bob~1", project="demo") as board:
            assert len(board.tasks.list(limit=100)) == tasks
            assert board.tasks.claim(ref="often").epoch == 4
        there = process(target)
        assert there.version() == schema.VERSION
        assert there.refused(STATEMENTS["heartbeat"]) == there.refusal
        there.close()
    assert "tasks" in old.refused(STATEMENTS["claim"]), "there is no such table any more"
