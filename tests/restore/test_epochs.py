"""Restoring never takes an epoch, a number or a fence back, whatever happened since the backup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tiebreak
from tests.log.checker import check, read
from tiebreak.engine.move.restore_rules import RULES
from tiebreak.engine.schema import TABLES
from tiebreak.errors import Fenced, NotFound, Refused

from .acts import names, opened, restored


def test_no_table_is_without_a_rule_for_restoring() -> None:
    """A new table needs a line in `RULES`: are its rows work, which goes back, or do they describe the present?"""
    assert sorted(RULES) == sorted(TABLES)


def test_an_epoch_that_was_granted_after_the_backup_is_not_granted_again(address: str, tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    with opened(address) as board:
        first = board.tasks.claim(ref="deploy")
        board.tasks.release(ref=first.id, epoch=first.epoch)
        board.holds.take(resources=["lock:x"])
        board.holds.release(resources=["lock:x"])
        board.backup(file)
        for _ in range(3):
            again = board.tasks.claim(ref="deploy")
            board.tasks.release(ref=again.id, epoch=again.epoch)
            [hold] = board.holds.take(resources=["lock:x"])
            board.holds.release(resources=["lock:x"])
        restored(file, address)
        assert board.tasks.claim(ref="deploy").epoch == again.epoch + 1
        assert board.holds.take(resources=["lock:x"])[0].epoch == hold.epoch + 1


def test_what_only_the_board_knows_keeps_its_epochs(address: str, tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    with opened(address) as board:
        board.backup(file)
        [hold] = board.holds.take(resources=["file:new.py"])
        [slot] = board.holds.take(resources=["pool:ports"], slots=2)
        for ref in ("open", "done", "pruned"):
            task = board.tasks.claim(ref=ref)
            if ref != "open":
                board.tasks.complete(ref=task.id, epoch=task.epoch)
        board.tasks.post(name="last")
        board.upkeep.prune(older_than=0)
        restored(file, address)
        assert board.holds.take(resources=["file:new.py"])[0].epoch == hold.epoch + 1
        assert board.holds.take(resources=["pool:ports"], slots=2)[0].epoch == slot.epoch + 1
        assert [board.tasks.claim(ref=ref).epoch for ref in ("open", "done", "pruned")] == [2, 2, 2]


@pytest.mark.parametrize("again", [False, True], ids=["is gone", "has another task"])
def test_a_key_whose_task_was_pruned_since_goes_on_above_its_mark(again: bool, address: str, tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    with opened(address) as board:
        won = board.tasks.claim(ref="deploy")
        board.tasks.release(ref=won.id, epoch=won.epoch)
        board.backup(file)
        won = board.tasks.claim(ref="deploy")
        board.tasks.complete(ref=won.id, epoch=won.epoch)
        board.tasks.post(name="newest")
        board.upkeep.prune(older_than=0)
        if again:
            won = board.tasks.claim(ref="deploy")
        restored(file, address)
        assert board.tasks.claim(ref="deploy").epoch == won.epoch + 1


def test_a_pruned_task_that_comes_back_goes_on_above_the_claims_in_the_log(address: str, tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    with opened(address) as board:
        task = board.tasks.post(name="without a key")
        board.backup(file)
        for _ in range(2):
            won = board.tasks.claim(ref=task.id)
            board.tasks.release(ref=task.id, epoch=won.epoch)
        won = board.tasks.claim(ref=task.id)
        board.tasks.complete(ref=task.id, epoch=won.epoch)
        board.tasks.post(name="newer")
        _forget_task(address, task.id)
        restored(file, address)
        assert board.tasks.claim(ref=task.id).epoch == won.epoch + 1


def _forget_task(address: str, id_: str) -> None:
    """Prune one task, but not the log: pruning by age would forget both."""
    from tiebreak.engine.move.opening import open_endpoint

    place = open_endpoint(address)
    place.begin()
    place.rows("DELETE FROM tasks WHERE id = ?", id_)
    place.commit()
    place.close()


@pytest.mark.parametrize("when", ["before the backup", "after the backup"])
def test_a_token_from_before_the_restore_is_refused(when: str, address: str, tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    with opened(address) as alice, opened(address, "bob") as bob:
        task, lock = alice.tasks.post(name="deploy", max_attempts=1), ["lock:x"]
        if when == "before the backup":
            won, [hold] = alice.tasks.claim(ref=task.id), alice.holds.take(resources=lock)
        alice.backup(file)
        if when == "after the backup":
            won, [hold] = alice.tasks.claim(ref=task.id), alice.holds.take(resources=lock)
        restored(file, address)
        late: list[Any] = [
            lambda: alice.tasks.complete(ref=task.id, epoch=won.epoch),
            lambda: alice.tasks.extend(ref=task.id, epoch=won.epoch),
            lambda: alice.tasks.release(ref=task.id),
            lambda: alice.holds.renew(resources=lock, epochs=[hold.epoch]),
            lambda: alice.holds.release(resources=lock, epochs=[hold.epoch]),
        ]
        for write in late:
            with pytest.raises(Fenced, match="nothing was written"):
                write()
        again = bob.tasks.claim(ref=task.id)
        assert (again.epoch, again.attempts) == (won.epoch + 1, 1), "the claim that ended did not use up the attempt"
        assert bob.holds.take(resources=lock)[0].epoch == hold.epoch + 1
        with pytest.raises(Refused):
            late[0]()


def test_no_task_message_or_event_gets_a_number_that_another_one_had(address: str, tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    with opened(address) as board:
        board.tasks.post(name="old")
        board.messages.send(body="old")
        board.backup(file)
        task = [board.tasks.post(name=f"new {i}") for i in range(3)][-1]
        message = [board.messages.send(body=f"new {i}") for i in range(3)][-1]
        event = board.events.last()
        done = restored(file, address)
        assert done.event == event + 1
        assert board.tasks.post(name="next").number > task.number
        assert board.messages.send(body="next").number > message.number
        assert board.events.last() > done.event
        assert names(board, "cancelled") == ["new 2"], "the newest stays for its number"
        with pytest.raises(NotFound):
            board.tasks.get(ref="new 1")


def test_a_backup_with_more_events_than_the_board_raises_the_numbers(address: str, tmp_path: Path) -> None:
    """The backup is of another board: the two logs tell different stories, and the board keeps its own."""
    other, file = str(tmp_path / "other.db"), tmp_path / "other.backup"
    with opened(other) as board:
        for _ in range(5):
            won = board.tasks.claim(ref="shared")
            board.tasks.release(ref=won.id, epoch=won.epoch)
        board.tasks.post(name="theirs")
        last = board.events.last()
        board.backup(file)
    with opened(address) as board:
        mine = board.tasks.claim(ref="shared")
        board.tasks.release(ref=mine.id, epoch=mine.epoch)
        done = restored(file, address)
        assert (done.log, done.event) == ("kept", last + 1)
        assert board.tasks.claim(ref="shared").epoch == 6
        assert names(board, "pending") == ["theirs"]
        assert [e.event for e in board.events.read(limit=3)] == ["task.posted", "task.claimed", "task.released"]


def test_into_a_new_board_the_log_of_the_backup_goes_on(address: str, tmp_path: Path) -> None:
    other, file = str(tmp_path / "other.db"), tmp_path / "other.backup"
    with opened(other) as board:
        board.tasks.claim(ref="held")
        board.holds.take(resources=["lock:x"])
        board.backup(file)
        before = [(e.number, e.event) for e in board.events.read()]
    done = restored(file, address, epochs_above=41)
    assert (done.log, done.saved) == ("continued", None)
    with opened(address) as board:
        assert [(e.number, e.event) for e in board.events.read(limit=len(before))] == before
        assert board.tasks.claim(ref="held").epoch == 42
        assert board.holds.take(resources=["lock:x"])[0].epoch == 42


def test_a_newer_backup_of_an_older_board_continues_its_log(address: str, tmp_path: Path) -> None:
    monday, friday = tmp_path / "monday.backup", tmp_path / "friday.backup"
    copy = str(tmp_path / "copy.db")
    with opened(address) as board:
        board.tasks.claim(ref="work")
        board.backup(monday)
        won = board.tasks.claim(ref="more")
        board.tasks.complete(ref=won.id, epoch=won.epoch)
        board.backup(friday)
    Path(copy).write_bytes(monday.read_bytes())
    done = restored(friday, copy)
    assert done.log == "continued"
    with opened(copy) as board:
        assert names(board, "completed") == ["more"]
        assert [e.event for e in board.events.read()][-3:] == ["task.completed", "board.restored", "task.restored"]


def test_a_schedule_fires_no_instant_twice(address: str, tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    with opened(address) as board:
        board.schedules.add(name="often", expression="* * * * * *", zone="UTC", command="true")
        board.schedules.add(name="paused", expression="* * * * * *", zone="UTC", command="true")
        board.backup(file)
        fired = 0
        while fired < 2:
            board.engine.wait(board.events.last(), (board.schedules.due() or 0) + 0.01)
            fired += len(board.schedules.fire())
        board.schedules.pause(name="paused")
        board.schedules.add(name="new", expression="@daily", zone="UTC", command="true")
        restored(file, address)
        by_name = {schedule.name: schedule for schedule in board.schedules.list()}
        assert sorted(by_name) == ["often", "paused"]
        assert by_name["paused"].paused_at, "what ran is not known from the row, so nobody fires it"
        board.schedules.add(name="new", expression="@daily", zone="UTC", command="true")
        while not board.schedules.fire():
            board.engine.wait(board.events.last(), (board.schedules.due() or 0) + 0.01)


def test_the_log_tells_what_was_restored(address: str, tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    with opened(address) as board:
        done = board.tasks.claim(ref="done")
        board.tasks.post(name="same", key="same")
        board.backup(file)
        board.tasks.complete(ref=done.id, epoch=done.epoch)
        board.holds.take(resources=["lock:x"])
        board.tasks.claim(ref="new")
        last = board.events.last()
        restored(file, address)
        told = [(e.event, e.name, e.agent, e.epoch) for e in board.events.read(after=last)]
        assert told == [
            ("board.restored", "monday.backup", "op", 1),
            ("hold.broken", "lock:x", "op", 1),
            ("task.restored", "done", "op", 1),
            ("task.cancelled", "new", "op", 1),
        ]
        [event] = board.events.read(event="board.restored")
        assert (event.data["claims_ended"], event.data["holds_ended"], event.data["highest_epoch"]) == (1, 1, 1)
        assert "op restored a backup: it was completed, and is pending" in str(board.events.why(ref="done"))
        assert "op broke the hold on lock:x (epoch 1): a backup was restored" in str(board.events.why(ref="lock:x"))
        assert check(read(board)).grants == 3


def test_a_coordinator_is_fenced_until_it_has_its_seat_again(address: str, tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    process: dict[str, Any] = {"host": "here", "boot": "1.1", "pid": 7, "started": 70}
    with opened(address) as board:
        board.backup(file)
        board.sessions.begin(session="lead~spawn-1", role="coordinator", command=["agent"], **process)
        board.sessions.adopt(session="lead~spawn-1", child=8, child_started=80, **process)
        restored(file, address)

        with tiebreak.open(address, agent="lead~spawn-1", project="demo") as lead:
            with pytest.raises(Fenced, match="not the coordinator"):
                lead.tasks.post(name="as coordinator")
            assert board.sessions.renew(session="lead~spawn-1").fenced_by is None
            assert lead.tasks.post(name="as coordinator").number
        [seat] = board.holds.list()
        assert (seat.resource, seat.epoch) == ("seat:coordinator", 2)


def test_epochs_go_on_if_the_project_was_renamed_after_the_backup(address: str, tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    with opened(address) as board:
        board.tasks.claim(ref="deploy")
        board.holds.take(resources=["lock:x"])
        board.holds.release(resources=["lock:x"])
        board.backup(file)
        board.projects.rename(name="another-name")
        [hold] = board.holds.take(resources=["lock:x"])
        board.holds.release(resources=["lock:x"])
        restored(file, address)
        assert [each.project for each in board.holds.take(resources=["lock:x"])] == ["another-name"]
        assert board.holds.list()[0].epoch == hold.epoch + 1
        assert board.tasks.get(ref="deploy").project == "another-name"


def test_epochs_go_on_if_clones_have_settled_another_name_on_a_new_board(address: str, tmp_path: Path) -> None:
    file, other = tmp_path / "monday.backup", tmp_path / "lost.db"
    with opened(str(other)) as lost:
        for _ in range(5):
            lost.holds.take(resources=["lock:x"], project="kept")
            lost.holds.release(resources=["lock:x"], project="kept")
        lost.call("projects.alias", {"name": "example.org/acme/shop", "project": "kept"})
        lost.backup(file)
    with opened(address) as board:
        names = "example.org/acme/shop commit/0123456789abcdef01234567"
        board.holds.take(resources=["lock:x"], project=names)
        restored(file, address)
        assert [hold.epoch for hold in board.holds.take(resources=["lock:x"], project=names)] == [6]


def test_projects_that_were_joined_after_the_backup_are_not_restored_as_two(address: str, tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    with opened(address) as board:
        board.tasks.post(name="work")
        board.holds.take(resources=["lock:x"], project="other")
        board.holds.release(resources=["lock:x"], project="other")
        board.backup(file)
        board.projects.alias(name="other")
        with pytest.raises(Refused, match="are one project now"):
            restored(file, address)
        assert [task.name for task in board.tasks.list()] == ["work"]
