"""A refusal may be about any name that a caller makes up, and must never prevent later writes."""

from __future__ import annotations

import gc
import random

import pytest

from tiebreak import Board, Fenced, Invalid, Lost
from tiebreak.limits import MAX_RESOURCE

_random = random.Random(1)


def chinese(length: int) -> str:
    """So many characters, of three bytes each, that no database makes shorter."""
    return "".join(chr(_random.randrange(0x4E00, 0x9FFF)) for _ in range(length))


def test_a_resource_that_no_index_takes_is_refused_and_not_remembered(alice: Board) -> None:
    with pytest.raises(Invalid, match=rf"3005 bytes, the limit is {MAX_RESOURCE}"):
        alice.holds.renew(resources=["file:" + chinese(1000)])
    assert [alice.tasks.claim(ref=f"key-{i}").epoch for i in range(3)] == [1, 1, 1]


def test_the_longest_name_that_nobody_holds_does_not_stop_later_writes(alice: Board) -> None:
    longest = "file:" + chinese(681)
    assert len(longest.encode()) == MAX_RESOURCE
    with pytest.raises(Fenced):
        alice.holds.renew(resources=[longest])
    assert [alice.tasks.claim(ref=f"key-{i}").epoch for i in range(3)] == [1, 1, 1]
    (event,) = alice.events.read(event="hold.fenced")
    assert (event.subject, event.name) == (longest, longest)


def test_many_refusals_about_long_names_do_not_stop_later_writes(alice: Board) -> None:
    for _ in range(50):
        with pytest.raises(Fenced):
            alice.holds.renew(resources=["file:" + chinese(681)])
    assert alice.tasks.claim(ref="key").epoch == 1
    assert len(alice.events.read(event="hold.fenced")) == 50


def test_ids_that_were_never_given_out_do_not_stop_later_writes(alice: Board) -> None:
    assert alice.tasks.claim_many(refs=["0190b3a0-7e5a-7cc3-98a3-2f5f9c1d0e11"]) == []
    assert alice.tasks.claim(ref="key").epoch == 1
    assert alice.events.read(event="task.refused") == [], "nobody has refused what is not there"


def test_refusals_in_a_batch_leave_nothing_for_the_garbage_collector(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["lock:taken"])
    calls = [("holds.take", {"resources": ["lock:taken"]})] * 100
    bob.batch(calls)
    gc.collect()
    gc.disable()
    try:
        assert all(isinstance(answer, Lost) for answer in bob.batch(calls))
        assert gc.collect() < len(calls), "each refusal kept the frames that it came from"
    finally:
        gc.enable()
