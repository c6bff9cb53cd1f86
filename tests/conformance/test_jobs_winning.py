"""The next jobs are the best of the queues that are not paused and of the groups that have room, and no others."""

from __future__ import annotations

import pytest

from tiebreak import Board
from tiebreak.errors import Refused
from tiebreak.model import encode

from .engines import Place
from .jobs_support import outcome, report, running, submit, win, won
from .tasks_support import changes, happened, unchanged

# ── Order ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_most_urgent_job_comes_first_and_then_the_oldest(alice: Board) -> None:
    for name, priority in (("a", "normal"), ("b", "urgent"), ("c", "normal"), ("d", "low")):
        submit(alice, name, priority=priority)

    assert won(alice) == ["b", "a", "c", "d"]


def test_several_queues_are_taken_from_in_one_order(alice: Board) -> None:
    for name, queue, priority in (
        ("1", "a", "normal"),
        ("2", "b", "high"),
        ("3", "a", "high"),
        ("4", "c", "urgent"),
        ("5", "b", "normal"),
    ):
        submit(alice, name, queue=queue, priority=priority)

    assert won(alice, queues=["a", "b"], count=3) == ["2", "3", "1"]
    assert won(alice, queues=["a", "b"]) == ["5"]


def test_without_queues_all_of_them_are_looked_at(alice: Board) -> None:
    for name in ("a", "b", "c"):
        submit(alice, name, queue=name)

    assert won(alice) == ["a", "b", "c"]


def test_a_queue_that_is_named_twice_gives_each_job_once(alice: Board) -> None:
    submit(alice)

    assert won(alice, queues=["default", "default"]) == ["work"]


def test_no_queue_at_all_gives_nothing(alice: Board) -> None:
    submit(alice)

    assert win(alice, queues=[]) == []


@pytest.mark.parametrize("queues", [None, ["a"], ["a", "b"]])
def test_never_more_than_asked_for_are_won(alice: Board, queues: list[str] | None) -> None:
    alice.jobs.submit_many(jobs=[{"command": "true", "queue": "ab"[i % 2]} for i in range(40)])

    assert len(win(alice, queues=queues, count=7)) == 7


def test_a_hundred_are_won_at_once_and_each_is_in_the_log(alice: Board) -> None:
    alice.jobs.submit_many(jobs=[{"command": "true", "name": f"{i}"} for i in range(130)])

    jobs = win(alice)

    assert [job.name for job in jobs] == [f"{i}" for i in range(100)]
    claims = [e for e in changes(alice) if e.event == "task.claimed"]
    assert [(e.subject, e.epoch, e.agent) for e in claims] == [(job.id, 1, "alice") for job in jobs]


def test_two_workers_never_win_the_same(alice: Board, bob: Board) -> None:
    alice.jobs.submit_many(jobs=[{"command": "true"} for _ in range(30)])

    numbers = [job.number for board in (alice, bob) * 3 for job in win(board, count=6)]

    assert len(numbers) == len(set(numbers)) == 30


# ── What is asked for ────────────────────────────────────────────────────────────────────────────────


def test_plain_tasks_are_no_jobs(alice: Board) -> None:
    alice.tasks.post(name="plain")
    alice.tasks.post(name="of that kind", kind="job")

    assert win(alice) == []


def test_a_job_is_a_task_like_any_other(alice: Board) -> None:
    submit(alice)

    assert [task.name for task in alice.tasks.next(kind="job")] == ["work"]


def test_jobs_that_call_functions_go_only_to_workers_that_name_them(alice: Board) -> None:
    submit(alice, "shell")
    for name in ("mail.send", "mail.fetch", "other.thing"):
        submit(alice, name, command={"call": name})

    assert won(alice, calls=["mail.send", "mail.fetch", "unknown"]) == ["mail.send", "mail.fetch"]
    assert won(alice) == ["shell"]
    assert won(alice, calls=[]) == []
    assert won(alice, calls=["other.thing"], commands=True) == ["other.thing"]


def test_a_worker_with_functions_may_take_commands_too(alice: Board) -> None:
    submit(alice, "shell")
    submit(alice, "call", command={"call": "m.f"}, priority="high")

    assert won(alice, calls=["m.f"], commands=True) == ["call", "shell"]


@pytest.mark.parametrize(
    ("tags", "names"), [(["x"], ["x", "xy"]), (["x", "y"], ["x", "xy", "y"]), (["z"], []), ([], [])]
)
def test_jobs_with_one_of_the_tags(alice: Board, tags: list[str], names: list[str]) -> None:
    for name in ("x", "xy", "y"):
        submit(alice, name, tags=list(name))
    submit(alice, "none")

    assert won(alice, tags=tags) == names


# ── Pauses ───────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_taken_from_a_paused_queue(alice: Board, bob: Board) -> None:
    submit(alice, "a", queue="a")
    submit(alice, "b", queue="b")
    bob.queues.pause(queue="a", reason="broken machine")

    assert won(alice) == ["b"]
    assert won(alice, queues=["a"]) == []
    assert won(alice, queues=["a", "b"]) == []
    assert alice.tasks.next(queue="a") == []
    assert alice.tasks.next() == []


def test_tasks_of_a_resumed_queue_are_won(alice: Board) -> None:
    submit(alice, queue="a")
    alice.queues.pause(queue="a")
    alice.queues.resume(queue="a")

    assert won(alice) == ["work"]


def test_plain_tasks_obey_a_pause_and_keep_their_order(alice: Board) -> None:
    for name, queue, priority in (("1", "a", "urgent"), ("2", "b", "low"), ("3", "c", "high"), ("4", "b", "high")):
        alice.tasks.post(name=name, queue=queue, priority=priority)
    alice.queues.pause(queue="a")

    assert [task.name for task in alice.tasks.next(count=10)] == ["3", "4", "2"]


@pytest.mark.parametrize("filters", [{"kind": "k"}, {"tag": "t"}, {"kind": "k", "tag": "t"}, {"kind": "task"}])
def test_filters_hold_while_something_is_paused(alice: Board, filters: dict[str, str]) -> None:
    for name, queue in (("open", "default"), ("other", "b"), ("closed", "a")):
        alice.tasks.post(name=name, queue=queue, kind=filters.get("kind", "task"), tags=["t"])
        alice.tasks.post(name="wrong", queue=queue, kind="z")
    alice.queues.pause(queue="a")

    names = {task.name for task in alice.tasks.next(count=10, **filters)}

    assert names == {"open", "other"}


def test_a_task_of_a_paused_queue_can_be_claimed_by_name(alice: Board) -> None:
    task = submit(alice, queue="a")
    alice.queues.pause(queue="a")

    assert alice.tasks.claim(ref=task.id).state == "claimed"


def test_a_pause_does_not_affect_claimed_tasks(alice: Board) -> None:
    job = running(alice, queue="a")
    alice.queues.pause(queue="a")

    assert alice.jobs.heartbeat(grants=[(job.number, job.epoch)]) == []
    assert report(alice, outcome(job))[0]["accepted"]


def test_a_pause_is_for_one_project(place: Place, alice: Board) -> None:
    other = place.open("alice", project="other")
    submit(other, queue="a")
    alice.queues.pause(queue="a")

    assert won(other) == ["work"]


def test_who_paused_a_queue_and_why_can_be_seen(alice: Board, bob: Board) -> None:
    submit(alice, queue="a")
    submit(alice, queue="b", limit="g=1")
    bob.queues.pause(queue="a", reason="broken machine")
    alice.queues.pause(queue="a", reason="again")

    seen = [(q.queue, q.ready, q.paused_by, q.reason) for q in alice.queues.list()]

    assert seen == [("a", 1, "bob", "broken machine"), ("b", 1, None, None)]


def test_pausing_and_resuming_are_told_once(alice: Board) -> None:
    for _ in range(2):
        alice.queues.pause(queue="a")
    for _ in range(2):
        assert alice.queues.resume(queue="a").paused_at is None

    told = [e.event for e in alice.events.read(event="queue")]

    assert told == ["queue.paused", "queue.resumed"]


# ── Limits ───────────────────────────────────────────────────────────────────────────────────────────


def test_of_a_group_no_more_are_won_than_its_limit(alice: Board, bob: Board) -> None:
    for i in range(5):
        submit(alice, f"{i}", limit="db=2")

    assert won(alice) == ["0", "1"]
    assert win(bob) == []
    assert bob.tasks.next(count=10) == []


def test_an_end_makes_room_for_one_more(alice: Board) -> None:
    for i in range(3):
        submit(alice, f"{i}", limit="db=2")
    first, _ = win(alice)

    report(alice, outcome(first))

    assert won(alice) == ["2"]
    assert win(alice) == []


@pytest.mark.parametrize("how", ["fails", "gives back", "cancels", "lapses"])
def test_room_is_made_however_an_attempt_ends(place: Place, alice: Board, how: str) -> None:
    job = running(alice, "first", limit="db=1", max_attempts=2, backoff=3600)
    submit(alice, "second", limit="db=1", priority="urgent")
    if how == "fails":
        report(alice, outcome(job, ok=False))
    elif how == "gives back":
        report(alice, outcome(job, ok=False, drained=True))
    elif how == "cancels":
        alice.tasks.cancel(ref=job.id)
    else:
        place.advance(61)

    assert won(alice, count=1) == ["second"]


def test_a_full_group_does_not_block_other_groups(alice: Board) -> None:
    for i in range(120):
        submit(alice, f"limited {i}", limit="db=1", priority="urgent")
    submit(alice, "free", priority="low")
    submit(alice, "of another", limit="disk=1")

    assert won(alice, count=10) == ["limited 0", "of another", "free"]


def test_limited_and_free_jobs_come_in_one_order(alice: Board) -> None:
    for name, limit, priority in (
        ("1", "a=2", "normal"),
        ("2", None, "normal"),
        ("3", "b=1", "high"),
        ("4", "a=2", "normal"),
        ("5", "a=2", "normal"),
        ("6", None, "low"),
    ):
        submit(alice, name, limit=limit, priority=priority)

    assert won(alice, count=4) == ["3", "1", "2", "4"]
    assert won(alice) == ["6"]


def test_a_limit_holds_over_queues_and_kinds_of_commands(alice: Board) -> None:
    submit(alice, "1", queue="a", limit="g=2")
    submit(alice, "2", queue="b", limit="g=2", command={"call": "m.f"})
    submit(alice, "3", queue="c", limit="g=2")

    assert won(alice, calls=["m.f"]) == ["2"]
    assert won(alice, queues=["c", "a"]) == ["1"]
    assert win(alice, queues=["c", "a"]) == []


def test_a_limited_job_in_a_paused_queue_waits(alice: Board) -> None:
    submit(alice, "a", queue="a", limit="g=5")
    submit(alice, "b", queue="b", limit="g=5")
    alice.queues.pause(queue="a")

    assert won(alice) == ["b"]


def test_a_limit_is_for_one_project(place: Place, alice: Board) -> None:
    other = place.open("alice", project="other")
    for board in (alice, other):
        submit(board, limit="g=1")

    assert (won(alice), won(other)) == (["work"], ["work"])


def test_each_job_brings_its_own_size_of_the_group(alice: Board) -> None:
    submit(alice, "1", limit="g=1")
    submit(alice, "2", limit="g=1")
    submit(alice, "3", limit="g=2")

    assert won(alice) == ["1", "3"]


def test_a_claim_by_name_obeys_the_limit_and_says_so(alice: Board) -> None:
    running(alice, "first", limit="db=1")
    second = submit(alice, "second", limit="db=1")

    with pytest.raises(Refused, match=r"db.*limit is 1"):
        alice.tasks.claim(ref=second.id)
    assert alice.tasks.claim_many(refs=[second.id]) == []


@pytest.mark.parametrize("how", ["completed", "not ready", "blocked"])
def test_a_limited_task_that_could_not_be_won_anyway_says_why(alice: Board, how: str) -> None:
    first = running(alice, "first", limit="db=1")
    if how == "completed":
        report(alice, outcome(first))
        ref = first.id
        running(alice, "second", limit="db=1")
    elif how == "not ready":
        ref = submit(alice, "second", limit="db=1", delay=60).id
    else:
        ref = submit(alice, "second", limit="db=1", after=[first.id]).id

    with pytest.raises(Refused, match=how):
        alice.tasks.claim(ref=ref)


def test_a_claim_by_name_wins_where_there_is_room(alice: Board) -> None:
    task = submit(alice, limit="db=1", key="it")
    other = submit(alice, limit="disk=1")

    assert alice.tasks.claim(ref="it").id == task.id
    assert [t.id for t in alice.tasks.claim_many(refs=[other.id])] == [other.id]


def test_a_delayed_limited_job_is_found_when_it_is_due(place: Place, alice: Board) -> None:
    submit(alice, limit="g=1", delay=60)
    assert win(alice) == []
    place.advance(61)

    assert won(alice) == ["work"]


def test_limited_jobs_are_counted_as_pending(alice: Board) -> None:
    submit(alice, limit="g=1")
    submit(alice)

    assert alice.upkeep.status().pending == 2


def test_a_waiting_claim_wins_when_its_group_has_room(place: Place, alice: Board, bob: Board) -> None:
    job = running(alice, "first", limit="g=1")
    second = submit(alice, "second", limit="g=1")
    report(alice, outcome(job))

    assert bob.claim(second.id, wait=30).task.holder == "bob"


# ── Lapses ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_lapsed_job_is_won_again_with_the_next_epoch(place: Place, alice: Board, bob: Board) -> None:
    first = running(alice)
    place.advance(61)

    [second] = win(bob)

    assert (second.id, second.epoch, second.attempts) == (first.id, first.epoch + 1, 2)
    assert happened(alice, alice.tasks.get(ref=first.id)) == ["posted", "claimed", "expired", "claimed"]


def test_a_job_that_kills_its_workers_ends(place: Place, alice: Board) -> None:
    job = running(alice, max_attempts=2)
    place.advance(61)
    assert len(win(alice)) == 1
    place.advance(61)

    assert win(alice) == []
    ended = alice.tasks.get(ref=job.id)
    assert (ended.state, ended.attempts) == ("failed", 2)
    assert "attempt 2 of 2" in (ended.reason or "")


# ── Repeating ────────────────────────────────────────────────────────────────────────────────────────


def test_a_repeated_call_for_jobs_answers_the_same_with_all_that_they_need(alice: Board) -> None:
    submit(alice, env={"TOKEN": "geheim"}, timeout=5)
    submit(alice)
    first = alice.call("jobs.next", {"count": 2}, once="retry-1234")

    with unchanged(alice):
        again = alice.call("jobs.next", {"count": 2}, once="retry-1234")

    assert encode(again) == encode(first)
    assert [job.settings for job in again] == [{"env": {"TOKEN": "geheim"}, "timeout": 5}, None]


# ── The next retry ───────────────────────────────────────────────────────────────────────────────────


def next_retry(board: Board, **filters: object) -> float | None:
    answer: float | None = board.call("jobs.next_retry", filters)
    return answer


def test_the_next_retry_is_told_until_a_claim_has_seen_it(place: Place, alice: Board) -> None:
    submit(alice, "for later", delay=10)
    assert next_retry(alice) is None
    report(alice, outcome(running(alice, backoff=100), ok=False))
    left = next_retry(alice)
    assert left is not None
    assert 50 <= left <= 100
    place.advance(100)
    assert next_retry(alice) == 0
    assert won(alice) == ["for later", "work"]
    assert next_retry(alice) is None


def test_a_retry_that_a_worker_may_not_run_is_not_told(alice: Board) -> None:
    report(alice, outcome(running(alice, queue="slow", tags=["big"]), ok=False))
    assert next_retry(alice, queues=["slow", "other"], tags=["big", "small"]) is not None
    assert next_retry(alice, queues=["other"]) is None
    assert next_retry(alice, queues=[]) is None
    assert next_retry(alice, tags=["small"]) is None
    assert next_retry(alice, calls=["m.f"]) is None
    assert next_retry(alice, calls=["m.f"], commands=True) is not None
    alice.queues.pause(queue="slow")
    assert next_retry(alice) is None
