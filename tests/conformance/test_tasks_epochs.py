"""Epochs of a task are 1, 2, 3 … without a gap or a repeat, however a claim ends and whatever is pruned."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tiebreak import Board
from tiebreak.errors import Fenced, Refused

from .engines import Place
from .tasks_support import unchanged


def _lapse(place: Place, board: Board, ref: str) -> None:
    place.advance(60)


def _lapse_swept(place: Place, board: Board, ref: str) -> None:
    place.advance(60)
    board.tasks.sweep()


def _release(place: Place, board: Board, ref: str) -> None:
    board.tasks.release(ref=ref)


def _fail(place: Place, board: Board, ref: str) -> None:
    board.tasks.fail(ref=ref)
    place.advance(3600)


def _fail_for_good(place: Place, board: Board, ref: str) -> None:
    board.tasks.fail(ref=ref, retry=False)
    board.tasks.retry(ref=ref)


def _cancel(place: Place, board: Board, ref: str) -> None:
    board.tasks.cancel(ref=ref)
    board.tasks.retry(ref=ref)


ENDS: list[Callable[[Place, Board, str], None]] = [
    _lapse,
    _lapse_swept,
    _release,
    _fail,
    _fail_for_good,
    _cancel,
]


@pytest.mark.parametrize("end", ENDS, ids=lambda e: e.__name__.strip("_"))
def test_however_a_claim_ends_the_next_has_the_next_epoch(
    place: Place, alice: Board, end: Callable[[Place, Board, str], None]
) -> None:
    task = alice.tasks.post(name="work", max_attempts=100)
    epochs = []
    for _ in range(4):
        epochs.append(alice.tasks.claim(ref=task.id, lease=60).epoch)
        end(place, alice, task.id)

    assert epochs == [1, 2, 3, 4]


def test_epochs_have_no_gap_over_every_kind_of_end(place: Place, alice: Board, bob: Board) -> None:
    task = alice.tasks.post(name="work", max_attempts=100)
    epochs = []
    for end in ENDS * 2:
        epochs.append(alice.tasks.claim(ref=task.id, lease=60).epoch)
        with pytest.raises(Refused):
            bob.tasks.claim(ref=task.id)  # a lost claim raises nothing
        alice.tasks.extend(ref=task.id, lease=60)
        end(place, alice, task.id)

    assert epochs == list(range(1, 2 * len(ENDS) + 1))


def test_pruning_does_not_forget_the_epoch_of_a_key(place: Place, alice: Board) -> None:
    epochs = []
    for _ in range(3):
        task = alice.tasks.claim(ref="build")
        epochs.append(task.epoch)
        alice.tasks.complete(ref=task.id)
        alice.tasks.post(name="newer")
        place.advance(100)
        alice.upkeep.prune(older_than=50)

    assert epochs == [1, 2, 3]


def test_a_token_from_before_pruning_does_not_fit_after_it(place: Place, alice: Board) -> None:
    old = alice.tasks.claim(ref="build")
    alice.tasks.complete(ref=old.id)
    alice.tasks.post(name="newer")
    place.advance(100)
    alice.upkeep.prune(older_than=50)
    alice.tasks.claim(ref="build")

    with unchanged(alice), pytest.raises(Fenced):
        alice.tasks.complete(ref="build", epoch=old.epoch)


def test_a_key_that_was_pruned_is_posted_anew(place: Place, alice: Board) -> None:
    old = alice.tasks.claim(ref="build")
    alice.tasks.complete(ref=old.id, result="old")
    alice.tasks.post(name="newer")
    place.advance(100)
    alice.upkeep.prune(older_than=50)

    new = alice.tasks.post(name="build", key="build")
    assert (new.id != old.id, new.state, new.result, new.epoch) == (True, "pending", None, 1)
