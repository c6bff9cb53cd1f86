"""Spans: what the log says about who had what is neither lost nor made up."""

from __future__ import annotations

from typing import Any

from tiebreak.model import Event
from tiebreak.operations.grant_spans import Span, Spans


def event(at: float, what: str, agent: str = "alice~1", epoch: int = 1, **more: Any) -> Event:
    subject = "lock:a" if what.startswith("hold.") else "0190-task"
    kind = "lock" if what.startswith("hold.") else "task"
    values = {
        "number": 1,
        "at": at,
        "event": what,
        "project": "demo",
        "subject": subject,
        "name": "a name",
        "kind": kind,
        "state": None,
        "priority": "normal",
        "agent": agent,
        "epoch": epoch,
        "until": None,
        "note": None,
        "times": 1,
        "data": None,
    }
    return Event(**{**values, **more})


def told(span: Span) -> tuple[str, int, float, float, str]:
    return span.agent, span.epoch, span.begin / 1e6, span.end / 1e6, span.how


def test_a_lapsed_lease_lasts_until_the_lapse_is_written_and_the_next_grant_begins_there() -> None:
    made = Spans(
        [
            event(10, "task.claimed", until=20.0),
            event(50, "task.expired"),
            event(50, "task.claimed", "bob~1", 2, until=100.0),
        ]
    )
    assert [told(span) for span in made.spans] == [("alice~1", 1, 10, 50, "expired"), ("bob~1", 2, 50, 0, "open")]
    assert made.spans[0].until == 20_000_000


def test_a_late_write_is_a_mark_with_its_old_epoch_and_moves_no_span() -> None:
    made = Spans(
        [
            event(10, "task.claimed"),
            event(50, "task.expired"),
            event(50, "task.claimed", "bob~1", 2),
            event(60, "task.fenced", "alice~1", 1, note="claimed"),
            event(70, "task.completed", "bob~1", 2),
        ]
    )
    assert [told(span) for span in made.spans] == [("alice~1", 1, 10, 50, "expired"), ("bob~1", 2, 50, 70, "completed")]
    [mark] = made.marks
    assert (mark.what, mark.agent, mark.epoch, mark.at) == ("fenced", "alice~1", 1, 60_000_000)


def test_a_refusal_that_was_written_after_the_release_keeps_its_own_time() -> None:
    made = Spans([event(10, "hold.taken"), event(30, "hold.released"), event(15, "hold.refused", "bob~1", times=4)])
    assert told(made.spans[0]) == ("alice~1", 1, 10, 30, "released")
    assert [(mark.at, mark.times) for mark in made.marks] == [(15_000_000, 4)]


def test_a_renewal_moves_the_end_of_the_lease_and_not_the_beginning() -> None:
    made = Spans([event(10, "hold.taken", until=20.0), event(15, "hold.renewed", until=45.0)])
    [span] = made.spans
    assert (span.begin, span.until, span.renewed, span.how) == (10_000_000, 45_000_000, 1, "open")


def test_progress_is_no_renewal() -> None:
    [span] = Spans([event(10, "task.claimed", until=20.0), event(15, "task.progress", note="50 %")]).spans
    assert (span.until, span.renewed) == (20_000_000, 0)


def test_a_transfer_ends_one_span_and_begins_the_next() -> None:
    made = Spans([event(10, "hold.taken"), event(20, "hold.transferred", "bob~1", 2, note="handed over by alice")])
    assert [told(span) for span in made.spans] == [("alice~1", 1, 10, 20, "transferred"), ("bob~1", 2, 20, 0, "open")]


def test_a_break_ends_the_span_of_the_holder_not_of_the_one_who_broke_it() -> None:
    made = Spans([event(10, "hold.taken"), event(20, "hold.broken", "carol~1", 1, note="stuck")])
    assert [told(span) for span in made.spans] == [("alice~1", 1, 10, 20, "broken")]
    assert made.spans[0].by == "carol~1"
    assert not made.open


def test_a_break_whose_grant_was_not_read_does_not_name_the_one_who_broke_it() -> None:
    [span] = Spans([event(20, "task.broken", "carol~1", 3)]).spans
    assert (*told(span), span.by) == ("", 3, 0, 20, "broken", "carol~1")


def test_a_cancelled_task_that_nobody_had_gets_no_span() -> None:
    assert Spans([event(20, "task.cancelled", "carol~1", 3)]).spans == []


def test_an_answered_question_gets_no_span() -> None:
    assert Spans([event(20, "task.completed", epoch=1, kind="question", note="yes")]).spans == []


def test_an_end_whose_grant_was_not_read_has_no_beginning() -> None:
    [span] = Spans([event(20, "task.completed", epoch=4)]).spans
    assert told(span) == ("alice~1", 4, 0, 20, "completed")


def test_the_slots_of_a_pool_are_things_of_their_own() -> None:
    def slot(at: float, what: str, agent: str, number: int) -> Event:
        return event(at, what, agent, 1, subject="pool:gpu", kind="pool", data={"slot": number, "slots": 2})

    made = Spans(
        [slot(1, "hold.taken", "alice~1", 0), slot(2, "hold.taken", "bob~1", 1), slot(3, "hold.released", "alice~1", 0)]
    )
    assert [(span.lane[2], *told(span)) for span in made.spans] == [
        (0, "alice~1", 1, 1, 3, "released"),
        (1, "bob~1", 1, 2, 0, "open"),
    ]


def test_two_sessions_of_one_name_are_two_holders() -> None:
    made = Spans(
        [event(1, "hold.taken", "alice~1"), event(2, "hold.expired", "alice~1"), event(2, "hold.taken", "alice~2", 2)]
    )
    assert [span.agent for span in made.spans] == ["alice~1", "alice~2"]


def test_a_grant_whose_end_is_missing_does_not_overlap_the_next() -> None:
    made = Spans([event(10, "task.claimed"), event(30, "task.claimed", "bob~1", 3)])
    assert [told(span) for span in made.spans] == [("alice~1", 1, 10, 30, "replaced"), ("bob~1", 3, 30, 0, "open")]


def test_things_of_two_projects_with_one_name_are_two() -> None:
    made = Spans([event(1, "hold.taken"), event(2, "hold.released", "bob~1", 7, project="other")])
    assert [(span.lane[0], span.how) for span in made.spans] == [("demo", "open"), ("other", "released")]


def test_no_event_that_begins_or_ends_a_grant_is_forgotten() -> None:
    from tests.log.checker import ENDS, GRANTS, LAPSES, REMARKS, RENEWALS, RESTORED, TAKEN_AWAY

    from tiebreak.operations.grant_spans import EVENTS

    about_grants = GRANTS | RENEWALS | ENDS | LAPSES | TAKEN_AWAY | (RESTORED - {"schedule.restored"})
    no_grant = {"task.edited", "hold.queued", "hold.unqueued"}
    assert set(EVENTS) == about_grants | (REMARKS - no_grant)
