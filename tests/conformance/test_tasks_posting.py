"""A posted task is visible to everybody, as it was posted, and exists once."""

from __future__ import annotations

from typing import Any

import pytest

from tiebreak import Board
from tiebreak.errors import NotFound, Refused
from tiebreak.limits import MAX_JSON, MAX_NAME
from tiebreak.names import ANNOUNCEMENTS

from .engines import Place
from .tasks_support import changes, happened, unchanged

# ── What a task is when little is said about it ──────────────────────────────────────────────────────


def test_a_plain_task_is_ready_for_anybody(alice: Board) -> None:
    task = alice.tasks.post(name="tidy up")

    assert (task.name, task.project, task.kind, task.queue) == ("tidy up", "demo", "task", "default")
    assert (task.state, task.priority, task.key) == ("pending", "normal", None)
    assert (task.payload, task.result, task.reason, task.tags, task.about) == (None, None, None, (), None)


def test_a_new_task_has_no_holder_and_no_history(alice: Board) -> None:
    task = alice.tasks.post(name="tidy up")

    assert (task.holder, task.epoch, task.until) == (None, 0, None)
    assert (task.attempts, task.max_attempts, task.blockers) == (0, 3, 0)
    assert (task.ready_at, task.claimed_at, task.finished_at) == (None, None, None)
    assert task.created_by == "alice"


def test_others_see_exactly_what_was_posted(alice: Board, bob: Board) -> None:
    task = alice.tasks.post(name="tidy up", payload={"a": 1}, tags=["x"], priority="high", key="tidy")

    assert bob.tasks.get(ref=task.id) == task


def test_numbers_grow_with_every_task_of_any_project(place: Place, alice: Board) -> None:
    there = place.open("alice", "other")

    numbers = [board.tasks.post(name="work").number for board in (alice, there, alice)]

    assert numbers == sorted(set(numbers))


def test_times_are_board_time(place: Place, alice: Board) -> None:
    first = alice.tasks.post(name="first")
    place.advance(5)
    second = alice.tasks.post(name="second")

    assert second.created_at - first.created_at == pytest.approx(5, abs=1e-3)
    assert second.updated_at == second.created_at


def test_the_log_tells_who_posted_what(alice: Board) -> None:
    task = alice.tasks.post(name="tidy up", kind="chore", priority="urgent")

    (event,) = changes(alice)
    assert (event.event, event.subject, event.project, event.agent) == (
        "task.posted",
        task.id,
        "demo",
        "alice",
    )
    assert (event.name, event.kind, event.state, event.priority) == ("tidy up", "chore", "pending", "urgent")


def test_a_task_can_be_posted_into_another_project(alice: Board) -> None:
    task = alice.tasks.post(name="work", project="other")

    assert task.project == "other"
    assert alice.tasks.list() == []


@pytest.mark.parametrize(
    "name", ["n" * MAX_NAME, "🦀" * (MAX_NAME // 4), " spaced ", "'; DROP TABLE tasks; --", "日本語 مرحبا"]
)
def test_an_unusual_name_is_not_altered(alice: Board, name: str) -> None:
    task = alice.tasks.post(name=name)

    assert alice.tasks.get(ref=task.id).name == name


# ── Payload ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(None, id="null"),
        pytest.param(False, id="false"),
        pytest.param(0, id="zero"),
        pytest.param("", id="empty text"),
        pytest.param([], id="empty list"),
        pytest.param({}, id="empty object"),
        pytest.param({"a": None, "b": [False, 0, ""]}, id="falsy values inside"),
        pytest.param({"ключ": "значение 🦀 日本"}, id="unicode"),
        pytest.param("nul \x00 and escape \x1b", id="control characters"),
        pytest.param({"a": [{"b": [{"c": [1, 2.5, "x"]}]}]}, id="nested"),
        pytest.param(2**70, id="more than 64 bits"),
        pytest.param(0.1, id="fraction"),
        pytest.param('{"not": "parsed"}', id="text that looks like JSON"),
        pytest.param("a" * (MAX_JSON - 2), id="as large as allowed"),
    ],
)
def test_a_payload_comes_back_as_it_was(alice: Board, bob: Board, payload: Any) -> None:
    task = alice.tasks.post(name="work", payload=payload)

    found = bob.tasks.get(ref=task.id).payload
    assert found == payload
    assert type(found) is type(payload)


def test_whoever_claims_gets_the_payload_at_once(alice: Board, bob: Board) -> None:
    alice.tasks.post(name="work", payload={"file": "a.py"})

    assert [task.payload for task in bob.tasks.next()] == [{"file": "a.py"}]


# ── Keys ─────────────────────────────────────────────────────────────────────────────────────────────


def test_posting_a_known_key_answers_with_the_known_task(alice: Board, bob: Board) -> None:
    first = alice.tasks.post(name="build", key="build", payload=1)

    assert bob.tasks.post(name="another", key="build", payload=2, priority="urgent") == first


def test_posting_a_known_key_changes_nothing(alice: Board, bob: Board) -> None:
    alice.tasks.post(name="build", key="build")

    with unchanged(alice):
        bob.tasks.post(name="another", key="build", payload=2)


def test_a_finished_task_keeps_its_key(alice: Board) -> None:
    alice.tasks.post(name="build", key="build")
    done = alice.tasks.complete(ref=alice.tasks.claim(ref="build").id, result="ok")

    assert alice.tasks.post(name="build", key="build") == done


def test_posting_the_key_of_a_lapsed_claim_does_not_show_its_old_holder(place: Place, alice: Board) -> None:
    alice.tasks.post(name="build", key="build")
    alice.tasks.claim(ref="build", lease=10)
    place.advance(10)

    known = alice.tasks.post(name="build", key="build")
    assert (known.state, known.holder) == ("pending", None)


def test_a_key_of_one_project_does_not_block_another(place: Place, alice: Board) -> None:
    here = alice.tasks.post(name="build", key="build")
    there = place.open("alice", "other").tasks.post(name="build", key="build")

    assert here.id != there.id


def test_keys_differ_by_case(alice: Board) -> None:
    assert alice.tasks.post(name="x", key="Build").id != alice.tasks.post(name="x", key="build").id


def test_tasks_without_a_key_are_not_the_same(alice: Board) -> None:
    assert alice.tasks.post(name="same").id != alice.tasks.post(name="same").id


# ── Announcements ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ANNOUNCEMENTS)
def test_an_announcement_is_born_completed(alice: Board, kind: str) -> None:
    task = alice.tasks.post(name="we use tabs", kind=kind)

    assert (task.state, task.holder, task.epoch) == ("completed", None, 0)
    assert task.finished_at == task.created_at


@pytest.mark.parametrize("kind", ANNOUNCEMENTS)
def test_an_announcement_is_not_offered_as_work(alice: Board, kind: str) -> None:
    alice.tasks.post(name="we use tabs", kind=kind)

    assert alice.tasks.next(kind=kind) == []


@pytest.mark.parametrize("kind", ANNOUNCEMENTS)
def test_an_announcement_cannot_be_claimed(alice: Board, kind: str) -> None:
    task = alice.tasks.post(name="we use tabs", kind=kind)

    with unchanged(alice), pytest.raises(Refused, match="completed"):
        alice.tasks.claim(ref=task.id)


def test_an_announcement_waits_for_nothing(alice: Board) -> None:
    first = alice.tasks.post(name="first")

    task = alice.tasks.post(name="note", kind="knowledge", after=[first.id], delay=60)

    assert (task.state, task.blockers, task.ready_at) == ("completed", 0, None)


@pytest.mark.parametrize("kind", ["acknowledge", "ACK", "decisions", "task"])
def test_a_kind_that_only_resembles_an_announcement_is_work(alice: Board, kind: str) -> None:
    assert alice.tasks.post(name="work", kind=kind).state == "pending"


# ── Delay, attempts, tags, about ─────────────────────────────────────────────────────────────────────


def test_a_delayed_task_cannot_be_claimed_early(place: Place, alice: Board) -> None:
    task = alice.tasks.post(name="later", delay=60)
    place.advance(59.999)

    with unchanged(alice), pytest.raises(Refused) as refusal:
        alice.tasks.claim(ref=task.id)
    assert refusal.value.data["ready_at"] == task.ready_at


def test_a_delayed_task_can_be_claimed_when_its_time_has_come(place: Place, alice: Board) -> None:
    task = alice.tasks.post(name="later", delay=60)
    place.advance(60)

    assert alice.tasks.claim(ref=task.id).epoch == 1


@pytest.mark.parametrize(("written", "seconds"), [("90s", 90), ("5m", 300), ("1h30m", 5400), ("250ms", 0.25), (7, 7)])
def test_a_delay_may_be_written_as_people_write_it(alice: Board, written: str | int, seconds: float) -> None:
    task = alice.call("tasks.post", {"name": "later", "delay": written})

    assert task.ready_at - task.created_at == pytest.approx(seconds, abs=1e-5)


def test_a_task_with_one_attempt_gets_no_second_one(alice: Board) -> None:
    task = alice.tasks.post(name="once", max_attempts=1)
    alice.tasks.claim(ref=task.id)

    assert alice.tasks.fail(ref=task.id).state == "failed"


def test_tags_keep_their_order_and_come_once(alice: Board) -> None:
    task = alice.tasks.post(name="work", tags=["gpu", "big", "gpu"])

    assert alice.tasks.get(ref=task.id).tags == ("gpu", "big")


@pytest.mark.parametrize("reference", ["id", "number", "key"])
def test_what_a_task_is_about_is_stored_as_its_id(alice: Board, reference: str) -> None:
    subject = alice.tasks.post(name="subject", key="subject")
    ref = {"id": subject.id, "number": f"#{subject.number}", "key": "subject"}[reference]

    assert alice.tasks.post(name="note", kind="knowledge", about=ref).about == subject.id


def test_nothing_is_posted_about_an_unknown_task(alice: Board) -> None:
    with unchanged(alice), pytest.raises(NotFound):
        alice.tasks.post(name="note", about="#999")


def test_a_post_is_one_event(alice: Board) -> None:
    first = alice.tasks.post(name="first")
    task = alice.tasks.post(name="work", after=[first.id], about=first.id, tags=["a"], key="k", payload=1, delay=5)

    assert happened(alice, task) == ["posted"]
