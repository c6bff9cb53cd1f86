"""The timeline and the figures of queues: the same picture on every engine, at a bounded cost."""

from __future__ import annotations

from typing import Any

import pytest

from tiebreak import Board, Fenced, Lost
from tiebreak.operations import queue_figures, timeline

from .engines import Place


def spans(board: Board, **params: Any) -> list[tuple[Any, ...]]:
    """What each span says, and the name of its lane."""
    found = board.events.timeline(**params)
    return [
        (found["lanes"][each["lane"]]["name"], each["agent"], each["epoch"], each["how"]) for each in found["spans"]
    ]


def test_an_agent_paused_past_its_lease_and_its_late_write_are_all_in_the_picture(
    place: Place, alice: Board, bob: Board
) -> None:
    start = alice.upkeep.now()
    alice.tasks.post(name="fix login", key="login")
    alice.tasks.claim(ref="login", lease=60)
    with pytest.raises(Lost):
        bob.tasks.claim(ref="login")
    place.advance(100)
    won = bob.tasks.claim(ref="login", lease=500)
    place.advance(10)
    with pytest.raises(Fenced):
        alice.tasks.complete(ref="login", epoch=1)
    found = bob.events.timeline()
    [lane] = found["lanes"]
    assert (lane["subject"], lane["name"], lane["number"], lane["kind"]) == (won.id, "fix login", won.number, "task")
    first, second = found["spans"]
    assert (first["agent"], first["epoch"], first["how"]) == ("alice", 1, "expired")
    assert first["from"] - start == pytest.approx(0, abs=5)
    assert first["to"] - first["until"] == pytest.approx(40, abs=5), "it was paused past its lease"
    assert (second["agent"], second["epoch"], second["how"]) == ("bob", 2, "open")
    assert second["from"] == first["to"]
    marks = [(mark["what"], mark["agent"], mark["epoch"]) for mark in found["marks"]]
    assert ("refused", "bob", 1) in marks
    assert ("fenced", "alice", 1) in marks or place.looking(bob) is not place.looking(alice)


def test_a_refusal_is_in_the_picture_once_it_is_in_the_log(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["lock:deploy"])
    with pytest.raises(Lost):
        bob.holds.take(resources=["lock:deploy"])
    place.advance(1)
    alice.holds.release(resources=["lock:deploy"])
    bob.holds.take(resources=["lock:deploy"])  # whichever engine remembers the refusal writes it by now
    found = bob.events.timeline()
    [mark] = found["marks"]
    assert (mark["what"], mark["agent"], mark["at"] < found["spans"][0]["to"]) == ("refused", "bob", True)


def test_a_hold_that_was_taken_before_the_window_has_its_beginning(place: Place, alice: Board) -> None:
    alice.holds.take(resources=["lock:deploy"])
    taken = alice.upkeep.now()
    place.advance(30)
    for _ in range(3):
        alice.tasks.post(name="noise")
    alice.holds.release(resources=["lock:deploy"])
    found = alice.events.timeline(limit=1)
    [span] = found["spans"]
    assert (span["how"], span["agent"]) == ("released", "alice")
    assert span["from"] == pytest.approx(taken, abs=5)


def test_a_live_grant_is_shown_though_its_event_is_long_past(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["lock:deploy", "file:a.py"], lease=600)
    alice.tasks.claim(ref="work", lease=5)
    place.advance(10)
    bob.holds.take(resources=["lock:b"])
    assert sorted(spans(bob, limit=1)) == [
        ("file:a.py", "alice", 1, "open"),
        ("lock:b", "bob", 1, "open"),
        ("lock:deploy", "alice", 1, "open"),
        ("work", "alice", 1, "lapsed"),
    ]


def test_windows_lead_back_to_the_first_event_without_a_gap(alice: Board) -> None:
    for number in range(6):
        alice.holds.take(resources=[f"lock:{number}"])
        alice.holds.release(resources=[f"lock:{number}"])
    seen, before, windows = set(), None, 0
    while True:
        found = alice.events.timeline(before=before, limit=4)
        seen |= {found["lanes"][span["lane"]]["name"] for span in found["spans"] if span["to"]}
        before, windows = found["older"], windows + 1
        if before is None:
            break
    assert seen == {f"lock:{number}" for number in range(6)}
    assert windows == 4


def test_a_window_of_the_past_tells_how_its_grants_ended_after_it(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["lock:through", "lock:forever"], lease=600)
    alice.tasks.claim(ref="before", lease=600)
    bob.holds.take(resources=["lock:within"], lease=600)
    bob.holds.release(resources=["lock:within"])
    before = bob.events.last() + 1
    place.advance(30)
    alice.holds.release(resources=["lock:through"])
    alice.tasks.complete(ref="before")
    bob.holds.take(resources=["lock:through"])
    with pytest.raises(Lost):
        alice.holds.take(resources=["lock:through"])
    place.advance(1)
    for board in (alice, bob):  # whichever engine remembers the refusal writes it by now
        board.tasks.post(name="later")
    assert [mark["what"] for mark in bob.events.timeline()["marks"]] == ["refused"]
    assert sorted(spans(bob, before=before)) == [
        ("before", "alice", 1, "completed"),
        ("lock:forever", "alice", 1, "open"),
        ("lock:through", "alice", 1, "released"),
        ("lock:within", "bob", 1, "released"),
    ]
    found = bob.events.timeline(before=before)
    assert found["marks"] == [], "the refusal was after the window"
    assert found["now"] - found["end"] == pytest.approx(31, abs=5)
    names = {each[0] for each in spans(bob, before=before, limit=1)}
    assert names == {"lock:within", "lock:forever", "lock:through"}, "a grant may reach over the whole window"


def test_a_grant_that_ended_long_after_the_window_is_not_said_to_last(
    alice: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice.holds.take(resources=["lock:deploy"], lease=600)
    before = alice.events.last() + 1
    for number in range(9):
        alice.tasks.post(name=f"noise {number}")
    alice.holds.release(resources=["lock:deploy"])
    monkeypatch.setattr(timeline, "SCANNED", 5)
    assert spans(alice, before=before) == [("lock:deploy", "alice", 1, "later")]
    assert spans(alice, before=before, subject="lock:deploy") == [("lock:deploy", "alice", 1, "released")]
    assert spans(alice, before=1) == []


def test_who_took_a_grant_away_is_told_and_a_holder_who_gave_back_took_nothing(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["lock:broken", "lock:released"])
    for key in ("broken", "cancelled"):
        alice.tasks.claim(ref=key)
    bob.holds.break_(resource="lock:broken", reason="stuck")
    alice.holds.release(resources=["lock:released"])
    bob.tasks.break_(ref="broken", reason="stuck")
    bob.tasks.cancel(ref="cancelled")
    found = bob.events.timeline()
    told = {found["lanes"][each["lane"]]["name"]: (each["agent"], each["how"], each["by"]) for each in found["spans"]}
    assert told == {
        "lock:broken": ("alice", "broken", "bob"),
        "lock:released": ("alice", "released", ""),
        "broken": ("alice", "broken", "bob"),
        "cancelled": ("alice", "cancelled", "bob"),
    }


def test_other_projects_do_not_show(place: Place, alice: Board) -> None:
    place.open("carol", "other").holds.take(resources=["lock:x"])
    alice.holds.take(resources=["lock:y"])
    assert [each[0] for each in spans(alice)] == ["lock:y"]
    assert sorted(each[0] for each in spans(alice, project=None)) == ["lock:x", "lock:y"]


def test_one_subject_alone(alice: Board) -> None:
    task = alice.tasks.claim(ref="work")
    alice.holds.take(resources=["lock:y"])
    assert [each[0] for each in spans(alice, subject=task.id)] == ["work"]
    assert [each[0] for each in spans(alice, subject="lock:y")] == ["lock:y"]


def test_the_search_for_events_of_a_quiet_project_ends(
    place: Place, alice: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "SCANNED", 5)
    alice.holds.take(resources=["lock:y"])
    alice.holds.release(resources=["lock:y"])
    carol = place.open("carol", "other")
    for number in range(9):
        carol.tasks.post(name=f"noise {number}")
    found = alice.events.timeline()
    assert found["spans"] == []
    assert found["older"] == found["newest"] - 4, "and it says where to go on"


# ── Figures ──────────────────────────────────────────────────────────────────────────────────────────


def figures(board: Board, queue: str) -> dict[str, Any]:
    return next(each for each in board.queues.figures()["queues"] if each["queue"] == queue)


def test_each_minute_counts_its_own_events(place: Place, alice: Board) -> None:
    for number in range(3):
        alice.tasks.post(name=f"t{number}", key=f"t{number}", queue="q")
    place.advance(60)
    alice.tasks.claim(ref="t0")
    alice.tasks.complete(ref="t0")
    place.advance(60)
    alice.tasks.claim(ref="t1")
    alice.tasks.fail(ref="t1", retry=False)
    found = figures(alice, "q")
    assert [found[name][-3:] for name in ("begun", "completed", "failed")] == [[0, 1, 1], [0, 1, 0], [0, 0, 1]]
    assert found["depth"][-3:] == [3, 2, 1]
    assert found["waited"][-2:] == [pytest.approx(60, abs=5), pytest.approx(120, abs=5)]
    assert found["median"] == found["p95"] == pytest.approx(120, abs=5)
    assert (found["ready"], found["claimed"]) == (1, 0)


def test_a_retry_waits_from_its_backoff_on(place: Place, alice: Board) -> None:
    alice.tasks.post(name="t", key="t", queue="q", backoff=1000)
    alice.tasks.claim(ref="t")
    alice.tasks.fail(ref="t")
    place.advance(1030)
    alice.tasks.claim(ref="t")
    assert 25 < figures(alice, "q")["waited"][-1] < 535, "the backoff, half to all of it, is no wait"


def test_figures_that_are_cut_are_missing_and_not_zero(
    place: Place, alice: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_figures, "MOST", 2)
    for _ in range(4):
        alice.tasks.post(name="t", queue="q")
        place.advance(60)
    answer = alice.queues.figures(minutes=10)
    assert answer["cut"] is True
    assert answer["queues"][0]["begun"] == [None] * 7 + [0, 0, 0]
    assert answer["now"] - answer["since"] == pytest.approx(120, abs=5)


def test_more_work_in_a_minute_than_is_counted_is_not_shown_as_none(
    alice: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_figures, "MOST", 6)
    for number in range(9):
        alice.tasks.claim(ref=f"t{number}")
        alice.tasks.complete(ref=f"t{number}")
    answer = alice.queues.figures()
    [found] = answer["queues"]
    assert sum(each or 0 for each in found["completed"]) == 2, "six events: a task is posted, claimed and completed"
    assert answer["cut"] is True
    assert 0 <= answer["now"] - answer["since"] < 60


def test_a_question_and_a_blocked_task_are_not_ready(alice: Board) -> None:
    alice.tasks.post(name="first", key="first", queue="q")
    alice.tasks.post(name="second", after=["first"], queue="q")
    alice.questions.ask("which?")
    assert figures(alice, "q")["depth"][-1] == figures(alice, "q")["ready"] == 1
    assert [each["queue"] for each in alice.queues.figures()["queues"] if each["ready"]] == ["q"]


def test_the_answer_to_a_question_is_no_work_of_a_queue(alice: Board) -> None:
    asked = alice.questions.ask("which?")
    alice.questions.answer(ref=str(asked.number), answer="this one")
    assert alice.queues.figures()["queues"] == []


def test_a_backlog_that_is_cancelled_was_there_before(place: Place, alice: Board, bob: Board) -> None:
    for number in range(4):
        alice.tasks.post(name=f"t{number}", key=f"t{number}", queue="q")
    alice.tasks.post(name="comes after", key="later", after=["t0"], queue="q")
    alice.tasks.post(name="is blocked", key="blocked", after=["t3"], queue="q")
    alice.tasks.claim(ref="t1", lease=90_000)
    with pytest.raises(Lost):
        bob.tasks.claim(ref="t1")
    place.advance(7200)
    alice.messages.send(body="a comment tells no state", about="t2")
    for key in ("t0", "t1", "t2", "blocked"):
        bob.tasks.cancel(ref=key)
    found = figures(alice, "q")
    assert alice.tasks.get(ref="later").state == "cancelled"
    assert (found["depth"][0], found["depth"][-2:], found["ready"]) == (3, [3, 1], 1)


def test_a_task_cancelled_in_the_window_leaves_its_queue_once(place: Place, alice: Board) -> None:
    for number in range(3):
        alice.tasks.post(name=f"t{number}", key=f"t{number}", queue="q")
    alice.tasks.claim(ref="t1")
    place.advance(60)
    alice.tasks.cancel(ref="t0")
    alice.tasks.cancel(ref="t1")
    assert figures(alice, "q")["depth"][-3:] == [0, 2, 1]


def test_a_limit_says_how_many_run_and_how_many_wait(alice: Board) -> None:
    alice.jobs.submit_many(jobs=[{"command": "true", "limit": "deploy=2"} for _ in range(5)])
    alice.jobs.next(count=3)
    found = alice.queues.figures()
    assert found["limits"] == [{"project": "demo", "group": "deploy", "size": 2, "claimed": 2, "ready": 3}]
    assert found["queues"][0]["ready"] == 3, "tasks that wait for room are ready, too"


def test_a_paused_queue_without_tasks_is_shown(alice: Board) -> None:
    alice.queues.pause(queue="slow", reason="maintenance")
    [found] = alice.queues.figures()["queues"]
    assert (found["queue"], found["paused_by"], found["reason"], found["ready"]) == ("slow", "alice", "maintenance", 0)


def test_the_queues_of_all_projects_are_kept_apart(place: Place, alice: Board) -> None:
    alice.tasks.post(name="a", queue="q")
    place.open("carol", "other").tasks.post(name="b", queue="q")
    found = alice.queues.figures(project=None)["queues"]
    assert [(each["project"], each["ready"]) for each in found] == [("demo", 1), ("other", 1)]


def test_strangers_may_look(alice: Board) -> None:
    from tiebreak.operations import find

    assert find("events.timeline").strangers is find("queues.figures").strangers is True
