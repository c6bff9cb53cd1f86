"""Adoption: a new session goes on with the work of an earlier one of its name, which is dead or said to be over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tiebreak import Board
from tiebreak.errors import Fenced, Lost, NotFound, Refused
from tiebreak.process_identity import identity, token

from .engines import Place
from .tasks_support import changes, claimed, unchanged


@pytest.fixture
def dead(place: Place) -> Board:
    """An earlier session of alice, whose process has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        session = token(identity(process.pid))
    return place.open(f"alice~{session}")


@pytest.fixture
def living(place: Place) -> Iterator[Board]:
    """An earlier session of alice, whose process is alive."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield place.open(f"alice~{token(identity(process.pid))}")


def test_a_claim_of_a_dead_session_goes_on_under_the_next_epoch_and_the_same_attempt(alice: Board, dead: Board) -> None:
    task = claimed(dead, max_attempts=1)

    adopted = alice.tasks.adopt(task.id)

    assert (adopted.state, adopted.epoch, adopted.attempts) == ("claimed", 2, 1)
    assert alice.tasks.complete(ref=task.id, epoch=2).state == "completed"


def test_the_holds_of_a_dead_session_go_on_under_their_next_epochs(alice: Board, dead: Board) -> None:
    dead.holds.take(resources=["file:src/**", "file:src/a.py", "lock:deploy", "pool:x"], slots=2)

    adopted = alice.holds.adopt(dead.agent)

    assert [(hold.resource, hold.epoch) for hold in adopted] == [
        ("file:src/**", 2),
        ("file:src/a.py", 2),
        ("lock:deploy", 2),
        ("pool:x", 2),
    ]
    with unchanged(alice), pytest.raises(Fenced):
        dead.holds.renew(resources=["lock:deploy"], epochs=[1])


def test_a_named_hold_takes_along_what_overlaps_with_it_and_nothing_else(alice: Board, dead: Board) -> None:
    dead.holds.take(resources=["file:src/**", "file:src/a.py", "file:docs/a.md"])

    adopted = alice.holds.adopt(dead.agent, resources=["file:src/a.py"])

    assert [hold.resource for hold in adopted] == ["file:src/**", "file:src/a.py"]


def test_the_old_session_is_fenced_once_its_claim_was_adopted(alice: Board, living: Board) -> None:
    task = claimed(living)
    alice.tasks.adopt(task.id, confirmed=True)

    with unchanged(alice), pytest.raises(Fenced):
        living.tasks.complete(ref=task.id, epoch=1)


def test_nothing_of_a_session_that_may_live_is_adopted_unless_a_person_confirms(alice: Board, living: Board) -> None:
    task = claimed(living)
    living.holds.take(resources=["lock:deploy"])

    with unchanged(alice):
        with pytest.raises(Refused, match="not known to be dead") as caught:
            alice.tasks.adopt(task.id)
        with pytest.raises(Refused, match="not known to be dead"):
            alice.holds.adopt(living.agent)

    assert caught.value.reason == "holder-may-live"
    assert alice.tasks.adopt(task.id, confirmed=True).epoch == 2
    assert alice.holds.adopt(living.agent, confirmed=True)[0].epoch == 2


def test_a_session_of_another_machine_is_not_known_to_be_dead(place: Place, alice: Board) -> None:
    task = claimed(place.open("alice~elsewhere"))

    with unchanged(alice), pytest.raises(Refused, match="not known to be dead"):
        alice.tasks.adopt(task.id)


def test_nobody_adopts_the_work_of_others(alice: Board, bob: Board) -> None:
    task = claimed(bob)
    bob.holds.take(resources=["lock:deploy"])

    with unchanged(bob):
        with pytest.raises(Refused, match="not an earlier session of yours"):
            alice.tasks.adopt(task.id, confirmed=True)
        with pytest.raises(Refused, match="not an earlier session of yours"):
            alice.holds.adopt(bob.agent, confirmed=True)


@pytest.mark.parametrize("earlier", ["brave-otter", "ann-0123456789"])
def test_terminals_that_nobody_named_may_be_the_same_person(place: Place, earlier: str) -> None:
    task = claimed(place.open(f"{earlier}~1"))
    assert place.open("calm-heron~2").tasks.adopt(task.id, confirmed=True).epoch == 2
    with pytest.raises(Refused, match="not an earlier session of yours"):
        place.open("ann~3").tasks.adopt(task.id, confirmed=True)


def test_jobs_and_the_coordinators_seat_are_not_adopted(alice: Board, dead: Board) -> None:
    dead.jobs.submit(command="true")
    [job] = dead.jobs.next()
    dead.holds.take(resources=["seat:coordinator"])

    with unchanged(alice):
        with pytest.raises(NotFound):
            alice.tasks.adopt(job.id, confirmed=True)
        with pytest.raises(NotFound):
            alice.holds.adopt(dead.agent, confirmed=True)


def test_what_was_given_back_meanwhile_is_not_adopted(alice: Board, dead: Board) -> None:
    task = claimed(dead)
    dead.tasks.release(ref=task.id)

    with unchanged(alice), pytest.raises(NotFound):
        alice.tasks.adopt(task.id)


def test_the_log_tells_who_took_over_from_whom_and_why(alice: Board, dead: Board) -> None:
    task = claimed(dead)
    dead.holds.take(resources=["lock:deploy"])
    alice.tasks.adopt(task.id)
    alice.holds.adopt(dead.agent)

    told = [(event.event, event.epoch) for event in changes(alice)][-3:]
    assert told == [("task.broken", 1), ("task.claimed", 2), ("hold.transferred", 2)]
    assert all("has ended" in (event.note or "") for event in changes(alice) if event.event.endswith(("broken", "red")))


@pytest.mark.parametrize("call", ["tasks.claim", "tasks.complete", "holds.take", "holds.release"])
def test_a_refusal_because_of_another_session_of_ones_own_leads_to_adopting_it(
    alice: Board, living: Board, call: str
) -> None:
    task = claimed(living)
    living.holds.take(resources=["file:a.py"])
    about = {"ref": task.id} if call.startswith("tasks") else {"resources": ["file:a.py"]}

    with pytest.raises((Lost, Fenced), match="another alice") as caught:
        alice.call(call, about)

    assert caught.value.reason == "held-by-you-elsewhere"
    assert caught.value.data["thing"] == (f"#{task.number}" if call.startswith("tasks") else "a.py")
