"""The checker is checked: it condemns every kind of log that cannot be true, and no log that can."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import tiebreak
from tests.races import plants
from tests.races.crew import Plant
from tiebreak import Board

from .checker import KNOWN, Broken, check, read
from .stories import events

SOUND = {
    "a task that is won, kept, lost, won again and completed": """
        task.posted T ann
        task.claimed T ann 1
        task.refused T bob 1
        task.extended T ann 1
        task.progress T ann 1
        task.expired T ann 1 state=pending
        task.claimed T bob 2
        task.fenced T ann 1
        task.completed T bob 2
        job.orphaned T ann 1""",
    "a task that fails, is reopened, cancelled, reopened and given back": """
        task.posted T ann
        task.claimed T ann 1
        task.failed T ann 1
        task.reopened T bob 1
        task.claimed T ann 2
        task.cancelled T bob 2
        task.reopened T bob 2
        task.claimed T ann 3
        task.released T ann 3
        task.claimed T ann 4
        task.retrying T ann 4
        task.claimed T ann 5
        task.expired T ann 5 state=failed
        task.reopened T ann 5""",
    "a task that waits for others": """
        task.posted T ann
        task.linked T ann
        task.ready T
        task.linked T ann
        task.cancelled T""",
    "an announcement": "task.posted T ann 0 state=completed",
    "a question that is cancelled, reopened and answered": """
        task.posted T ann 0 kind=question
        task.cancelled T bob 0
        task.reopened T ann 0
        task.completed T bob 0 kind=question note=yes""",
    "a lock that passes through many hands": """
        hold.queued lock:x bob
        hold.taken lock:x ann 1
        hold.renewed lock:x ann 1
        hold.transferred lock:x bob 2 from=ann
        hold.broken lock:x ops 2
        hold.taken lock:x ann 3
        hold.expired lock:x ann 3
        hold.taken lock:x ann 4
        hold.released lock:x ann 4""",
    "one file in two checkouts": """
        hold.taken file://one/src/a.py ann 1
        hold.taken file://two/src/a.py bob 1
        hold.taken file://two/docs/** ann 1""",
    "overlapping patterns one after the other, of one agent, and in two projects": """
        hold.taken file:src/** ann 1
        hold.taken file:src/a.py ann 1
        hold.taken file:src/a.py bob 1 project=other
        hold.taken file:docs/a.py bob 1
        hold.released file:src/** ann 1
        hold.released file:src/a.py ann 1
        hold.taken file:src/*.py bob 1""",
    "a pool that grows and shrinks": """
        hold.taken pool:p ann 1 slot=0 slots=2
        hold.taken pool:p bob 1 slot=1 slots=2
        hold.taken pool:p cat 1 slot=2 slots=3
        hold.released pool:p ann 1 slot=0
        hold.released pool:p bob 1 slot=1
        hold.taken pool:p ann 2 slot=0 slots=2""",
    "a schedule": """
        schedule.added cron:n ann
        schedule.fired cron:n ann 1 instant="01:00"
        schedule.skipped cron:n ann 0 instant="02:00"
        schedule.fired cron:n bob 2 instant="03:00" """,
    "a backup that is restored": """
        task.posted T ann
        task.claimed T ann 1
        task.completed T ann 1
        hold.taken lock:x bob 1
        schedule.fired cron:n ann 1 instant="01:00"
        board.restored - ops
        hold.broken lock:x ops 1
        hold.restored lock:x ops 7
        task.restored T ops 4 state=pending
        task.restored U ops 2 state=completed
        schedule.restored cron:n ops 3
        hold.taken lock:x ann 8
        task.claimed T bob 5
        schedule.fired cron:n ann 4 instant="02:00" """,
    "a job that goes on with the key of another": """
        task.posted T ann 0 kind=job
        task.claimed T ann 7""",
    "a key that goes on counting after its task was pruned": """
        board.pruned - -
        task.posted T ann
        task.claimed T ann 7
        task.completed T ann 7""",
}

FALSE = {
    "two holders of a task": (
        "task.posted T ann\ntask.claimed T ann 1\ntask.claimed T bob 2",
        "T in demo: was granted while ann~1 had it at epoch 1 since event 2; event 3 is task.claimed by bob~1, epoch 2",
    ),
    "two holders of a lock": ("hold.taken lock:x ann 1\nhold.taken lock:x bob 2", "while ann~1 had it at epoch 1"),
    "two sessions of one name": (
        "hold.taken lock:x ann 1\nhold.released lock:x ann~2 1",
        "ann~2~1 wrote, but ann~1 had it",
    ),
    "an epoch that is left out": (
        "hold.taken lock:x ann 1\nhold.released lock:x ann 1\nhold.taken lock:x bob 3",
        r"epoch 3 follows 1 \(event 1\)",
    ),
    "an epoch that comes twice": (
        "hold.taken lock:x ann 1\nhold.released lock:x ann 1\nhold.taken lock:x bob 1",
        "epoch 1 follows 1",
    ),
    "a first epoch that is not 1": ("hold.taken lock:x ann 2", "epoch 2 follows 0"),
    "a write under an old epoch": (
        "hold.taken lock:x ann 1\nhold.released lock:x ann 1\nhold.taken lock:x ann 2\nhold.renewed lock:x ann 1",
        "ann~1 wrote, but ann~1 had it at epoch 2 since event 3",
    ),
    "a write by somebody else": ("task.posted T ann\ntask.claimed T ann 1\ntask.completed T bob 1", "bob~1 wrote, but"),
    "progress after the end": (
        "task.posted T ann\ntask.claimed T ann 1\ntask.released T ann 1\ntask.progress T ann 1",
        "but nobody had it",
    ),
    "a lapse of nobody": ("task.posted T ann\ntask.expired T ann 1", "is said to have run out, but nobody had it"),
    "a lapse of another grant": (
        "hold.taken lock:x ann 1\nhold.transferred lock:x bob 2 from=ann\nhold.expired lock:x ann 1",
        "ann~1 is said to have run out, but bob~1 had it at epoch 2",
    ),
    "a transfer of what nobody has": (
        "hold.transferred lock:x bob 1 from=ann",
        "handed over by ann, but nobody had it",
    ),
    "a transfer by somebody else": (
        "hold.taken lock:x ann 1\nhold.transferred lock:x bob 2 from=cat",
        "handed over by cat, but ann~1 had it",
    ),
    "a transfer that keeps the epoch": (
        "hold.taken lock:x ann 1\nhold.transferred lock:x bob 1 from=ann",
        "epoch 1 follows 1",
    ),
    "a break of what nobody has": ("hold.broken lock:x ops 0", "broken, but nobody had it"),
    "a break of another grant": (
        "hold.taken lock:x ann 1\nhold.broken lock:x ops 2",
        "names epoch 2, but ann~1 had it",
    ),
    "a claim after the completion": (
        "task.posted T ann\ntask.claimed T ann 1\ntask.completed T ann 1\ntask.claimed T bob 2",
        "comes after it was completed",
    ),
    "a completion that is reopened": (
        "task.posted T ann\ntask.claimed T ann 1\ntask.completed T ann 1\ntask.reopened T bob 1",
        "comes after it was completed",
    ),
    "a second answer": (
        "task.posted T ann\n" + 2 * "task.completed T bob 0 kind=question note=yes\n",
        "comes after it was completed",
    ),
    "an answer to what somebody has": (
        "task.posted T ann\ntask.claimed T ann 1\ntask.completed T bob 1 kind=question note=yes",
        "was answered at epoch 1, but ann~1 had it",
    ),
    "a late cancel": (
        "task.posted T ann\ntask.claimed T ann 1\ntask.failed T ann 1\ntask.cancelled T bob 1",
        "comes after it was failed",
    ),
    "a completion after the last attempt lapsed": (
        "task.posted T ann\ntask.claimed T ann 1\ntask.expired T ann 1 state=failed\ntask.completed T ann 1",
        "comes after it was failed",
    ),
    "a claim of what was cancelled": ("task.posted T ann\ntask.cancelled T bob\ntask.claimed T ann 1", "was cancelled"),
    "a reopening of what is open": ("task.posted T ann\ntask.reopened T bob", "had not ended"),
    "a link while somebody works": (
        "task.posted T ann\ntask.claimed T ann 1\ntask.linked T bob",
        "happened while ann~1",
    ),
    "a task called off with another while somebody works": (
        "task.posted T ann\ntask.claimed T ann 1\ntask.cancelled T",
        "called off with another one while ann~1 had it",
    ),
    "a task that is posted twice": ("task.posted T ann\ntask.posted T ann", "was posted before"),
    "a task that nobody posted": ("task.claimed T ann 1", "never posted"),
    "a file and a pattern": (
        "hold.taken file:src/** ann 1\nhold.taken file:src/a.py bob 1",
        r"file:src/a.py in demo: was granted while for file:src/\*\* ann~1 had it at epoch 1 since event 1",
    ),
    "a file of a checkout and of the repository": (
        "hold.taken file:src/a.py ann 1\nhold.taken file://one/src/a.py bob 1",
        "file://one/src/a.py in demo: was granted while for file:src/a.py ann~1",
    ),
    "a pattern and a path in one checkout": (
        "hold.taken file://one/src/** ann 1\nhold.taken file://one/src/a.py bob 1",
        "was granted while for",
    ),
    "two patterns": ("hold.taken file:src/*.py ann 1\nhold.taken file:*/a.py bob 1", "was granted while for"),
    "a pattern that is handed to somebody beside another": (
        "hold.taken file:src/** ann 1\nhold.taken file:src/a.py ann 1\nhold.transferred file:src/** bob 2 from=ann",
        "was granted while for file:src/a.py ann~1",
    ),
    "more slots than there are": (
        "hold.taken pool:p ann 1 slot=0 slots=1\nhold.taken pool:p bob 1 slot=1 slots=2\n"
        "hold.released pool:p ann 1 slot=0\nhold.taken pool:p cat 2 slot=0 slots=1",
        "2 slots are taken of a pool of 1: slot 0: cat~1 had it .*; slot 1: bob~1 had it",
    ),
    "a slot beyond the pool": ("hold.taken pool:p ann 1 slot=2 slots=2", "slot 2 was granted of a pool of 2"),
    "two holders of a slot": (
        "hold.taken pool:p ann 1 slot=0 slots=2\nhold.taken pool:p bob 2 slot=0 slots=2",
        "pool:p slot 0 in demo: was granted while ann~1",
    ),
    "an instant that is fired twice": (
        'schedule.fired cron:n ann 1 instant="01:00"\nschedule.fired cron:n ann 2 instant="01:00"',
        "the instant 01:00 was fired before",
    ),
    "a firing whose epoch is left out": ('schedule.fired cron:n ann 2 instant="01:00"', "epoch 2 follows 0"),
    "a backup that takes an epoch back": (
        "task.posted T ann\ntask.claimed T ann 1\ntask.released T ann 1\ntask.restored T ops 0 state=pending",
        "restored at epoch 0, but its epoch is 1",
    ),
    "an epoch that is granted again after a restore": (
        "hold.taken lock:x ann 1\nhold.released lock:x ann 1\nhold.restored lock:x ops 3\nhold.taken lock:x bob 2",
        "epoch 2 follows 3",
    ),
    "a hold that outlives a restore": (
        "hold.taken lock:x ann 1\nhold.restored lock:x ops 3",
        "was restored while ann~1 had it",
    ),
    "a task that is completed twice because its claim outlived a restore": (
        "task.posted T ann\ntask.claimed T ann 1\ntask.restored T ops 1 state=pending\ntask.completed T ann 1",
        "ann~1 wrote, but nobody had it",
    ),
    "an event that is not known": ("hold.borrowed lock:x ann 1", "does not know"),
}


@pytest.mark.parametrize("story", SOUND)
def test_a_log_that_can_be_true_is_not_condemned(story: str) -> None:
    check(events(SOUND[story]))


@pytest.mark.parametrize("story", FALSE)
def test_a_log_that_cannot_be_true_is_condemned(story: str) -> None:
    told, found = FALSE[story]
    with pytest.raises(Broken, match=found):
        check(events(told))


def test_events_out_of_order_are_condemned() -> None:
    first, second = events("hold.taken lock:x ann 1\nhold.released lock:x ann 1")
    with pytest.raises(Broken, match="event 1 comes after event 2"):
        check([second, first])


def test_a_log_without_its_beginning_is_believed_and_then_held_to_it() -> None:
    story = (
        "task.extended T ann 4\ntask.released T ann 4\ntask.claimed T bob 5\nhold.transferred lock:x bob 9 from=ann\n"
    )
    check(events(story, first=100))
    with pytest.raises(Broken, match="epoch 7 follows 5"):
        check(events(story + "task.released T bob 5\ntask.claimed T ann 7", first=100))


def test_every_event_that_an_operation_writes_is_known() -> None:
    sources = (Path(tiebreak.__file__).parent / "operations").glob("*.py")
    written = {name for file in sources for name in re.findall(r'"((?:task|hold|job)\.[a-z]+)"', file.read_text())}
    assert len(written) > 20
    assert written == {name for name in KNOWN if not name.startswith("schedule.")}


# ── Planted bugs ─────────────────────────────────────────────────────────────────────────────────────


def _pass_around(ann: Board, bob: Board) -> None:
    ann.holds.take(resources=["lock:x"])
    ann.holds.transfer(resource="lock:x", to=bob.agent)
    bob.holds.release(resources=["lock:x"])
    ann.holds.take(resources=["lock:x"])


def _write_as_another(ann: Board, bob: Board) -> None:
    held = ann.holds.take(resources=["lock:x"])[0]
    bob.holds.release(resources=["lock:x"], epochs=[held.epoch])


def _take_what_lapsed(ann: Board, bob: Board) -> None:
    ann.holds.take(resources=["lock:x"], lease=0.001)
    bob.take("lock:x", wait=10.0)


@pytest.mark.parametrize(
    ("plant", "life", "found"),
    [
        (plants.epoch_stands_still, _pass_around, "epoch 2 follows 2"),
        (plants.epoch_jumps, _pass_around, "epoch 2 follows 0"),
        (plants.transfer_keeps_the_epoch, _pass_around, "epoch 1 follows 1"),
        (plants.holder_is_not_asked, _write_as_another, "bob~1 wrote, but ann~1 had it"),
        (plants.lapses_are_not_told, _take_what_lapsed, "while ann~1 had it"),
    ],
)
def test_a_planted_bug_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Plant, life: Callable[[Board, Board], None], found: str
) -> None:
    plant(monkeypatch.setattr)
    boards = [tiebreak.open(tmp_path / "board.db", agent=f"{name}~1", project="demo") for name in ("ann", "bob")]
    life(*boards)
    with pytest.raises(Broken, match=found):
        check(read(boards[0]))
    for board in boards:
        board.close()


@pytest.mark.parametrize("life", [_pass_around, _take_what_lapsed])
def test_the_same_life_without_a_bug_is_not_condemned(tmp_path: Path, life: Callable[[Board, Board], None]) -> None:
    boards = [tiebreak.open(tmp_path / "board.db", agent=f"{name}~1", project="demo") for name in ("ann", "bob")]
    life(*boards)
    assert check(read(boards[0])).grants == (3 if life is _pass_around else 2)
    for board in boards:
        board.close()
