"""Decisions at READ COMMITTED: budgets, names, dependencies and cursors are safe, and no caller sees a deadlock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest
from psycopg import errors as pg

import tiebreak
from tests.races import checkers
from tests.races.crew import Crew, race
from tests.races.scenarios import claimer, gather, repeater, swimmer
from tiebreak import Board, Fenced, Lost, Refused, Unavailable
from tiebreak.clock import SECOND, wall
from tiebreak.engine.postgres.engine import TRIES
from tiebreak.operations import claims, concurrency, find, holds, picking
from tiebreak.operations.resources import prolong

from .conftest import PATIENCE, Stopped, blocked, engine_of, in_thread, open_board, until

SIXTEEN = [f"agent-{i}" for i in range(16)]
ROUNDS = 200
Run = Generator[None, None, Any]


# ── Budgets ──────────────────────────────────────────────────────────────────────────────────────────


def test_sixteen_processes_never_hold_more_slots_than_there_are(address: str) -> None:
    with open_board(address, "judge") as board:
        board.holds.take(resources=["pool:ports"], slots=3, lease=0.001)
        reports = race(swimmer, [(address, agent, "pool:ports", 15) for agent in SIXTEEN])
        events = checkers.read_log(board)
        assert checkers.never_more_than(events, "pool:ports", 3) > 1
        grants = [grant for report in reports for grant in report]
        judge = checkers.Grant("pool:ports", 0, 1, "judge")
        checkers.log_agrees(events, [judge, *grants])
        checkers.epochs_count_grants([judge, *grants])


def test_two_transactions_do_not_spend_the_last_slot_twice(board: Board, other: Board, raw: Any) -> None:
    board.holds.take(resources=["pool:one"], slots=1, lease=0.001)
    slow = Stopped(other, lambda: other.holds.take(resources=["pool:one"]))
    second = in_thread(lambda: board.holds.take(resources=["pool:one"]))
    until(lambda: blocked(raw), "the second one waits for the first")
    assert slow.go()[0].slot == 0
    with pytest.raises(Lost):
        second()


def limited(board: Board, count: int) -> None:
    board.jobs.submit_many(jobs=[{"command": "true", "limit": "g=1"} for _ in range(count)])


def test_two_transactions_do_not_spend_the_last_room_of_a_group_twice(board: Board, other: Board, raw: Any) -> None:
    limited(board, 3)
    slow = Stopped(other, lambda: other.jobs.next(count=3))
    second = in_thread(lambda: board.jobs.next(count=3))
    until(lambda: blocked(raw), "the second one waits for the first")
    assert len(slow.go()) == 1
    assert second() == []


def test_a_claim_by_name_waits_for_one_that_fills_the_group(board: Board, other: Board, raw: Any) -> None:
    limited(board, 2)
    slow = Stopped(other, lambda: other.jobs.next())
    second = in_thread(lambda: board.tasks.claim(ref="#2"))
    until(lambda: blocked(raw), "the second one waits for the first")
    assert [job.number for job in slow.go()] == [1]
    with pytest.raises(Refused, match="limit is 1"):
        second()


def test_a_limit_that_is_not_decided_alone_is_spent_twice(
    board: Board, other: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (concurrency, picking):
        monkeypatch.setattr(module, "lock_limits", lambda tx, project: None)
    limited(board, 2)
    slow = Stopped(other, lambda: other.jobs.next())
    second = board.tasks.claim(ref="#2")
    assert (second.number, [job.number for job in slow.go()]) == (2, [1]), "the tests above would notice"


@pytest.mark.parametrize("way", ["next", "claim"])
def test_a_claim_that_is_kept_at_the_last_moment_still_takes_its_room(
    board: Board, other: Board, raw: Any, way: str
) -> None:
    limited(board, 2)
    [held] = board.jobs.next(lease=60)
    kept = Stopped(board, lambda: board.jobs.heartbeat(grants=[(held.number, held.epoch)], lease=600))
    engine_of(other).clock = lambda: wall() + 120 * SECOND  # for whom its first lease has run out
    if way == "next":  # it waits for what may be free in a moment, and finds that it is not
        second = in_thread(lambda: other.jobs.next())
        until(lambda: blocked(raw), "it waits for the claim that is being kept")
        assert kept.go() == []
        assert second() == []
    else:
        with pytest.raises(Refused, match="limit is 1"):
            other.tasks.claim(ref="#2")
        assert kept.go() == []


def test_a_lapsed_job_that_somebody_locks_is_waited_for_in_every_queue(board: Board, other: Board, raw: Any) -> None:
    board.jobs.submit(command="true", queue="any")
    board.jobs.next(lease=0.001)
    slow = Stopped(other, lambda: other.tasks.post(name="after", after=["#1"]))
    second = in_thread(lambda: board.jobs.next())
    until(lambda: blocked(raw), "it waits for the only job")
    slow.go()
    assert [job.number for job in second()] == [1]


def test_the_next_of_a_group_is_taken_when_the_first_is_called_off_meanwhile(
    board: Board, other: Board, raw: Any
) -> None:
    limited(board, 2)
    slow = Stopped(other, lambda: other.tasks.cancel(ref="#1"))
    second = in_thread(lambda: board.jobs.next())
    until(lambda: blocked(raw), "it waits for the first of the group")
    slow.go()
    assert [job.number for job in second()] == [2]


def test_a_queue_is_not_paused_between_a_look_and_its_grant(board: Board, other: Board, raw: Any) -> None:
    board.tasks.post(name="work")
    slow = Stopped(other, lambda: other.tasks.next())
    pause = in_thread(lambda: board.queues.pause(queue="default"))
    until(lambda: blocked(raw), "the pause waits for who takes from the queue")
    assert len(slow.go()) == 1
    assert pause().ready == 0


def test_what_has_no_limit_waits_for_nobody(board: Board, other: Board) -> None:
    limited(board, 2)
    free = board.jobs.submit(command="true", priority="low")
    first = Stopped(other, lambda: other.jobs.next())
    assert board.tasks.claim(ref=free.id).state == "claimed"
    first.go()


def test_resources_in_opposite_orders_are_taken_together_or_not_at_all(address: str) -> None:
    resources = ["file:a.py", "lock:b", "seat:c"]
    seen, worked = gather(address, resources, tries=10)
    checkers.all_or_nothing(seen, len(resources))
    with open_board(address) as board:
        checkers.one_holder_at_a_time(checkers.read_log(board))
        epochs = checkers.epochs_on(board, [(resource, 0) for resource in resources])
        assert set(epochs.values()) == {sum(worked)}


def test_a_glob_waits_for_a_file_that_is_being_taken(board: Board, other: Board, raw: Any) -> None:
    slow = Stopped(other, lambda: other.holds.take(resources=["file:src/a.py"]))
    glob = in_thread(lambda: board.holds.take(resources=["file:src/*.py"]))
    until(lambda: blocked(raw), "the glob waits for the file")
    slow.go()
    with pytest.raises(Lost):
        glob()


# ── Names ────────────────────────────────────────────────────────────────────────────────────────────


def keeper(address: str, agent: str, keys: list[str]) -> Run:
    """Post each of these keys, or find it posted."""
    board = open_board(address, agent)
    yield
    return [board.tasks.post(name=f"by {agent}", key=key).id for key in keys]


def stranger(address: str, agent: str, keys: list[str]) -> Run:
    """Claim keys that nobody has posted."""
    board = open_board(address, agent)
    yield
    won = []
    for key in keys:
        try:
            won.append(board.tasks.claim(ref=key).key)
        except Lost:
            continue
    return won


def test_one_new_key_posted_by_sixteen_is_one_task(address: str) -> None:
    keys = [f"key-{i}" for i in range(20)]
    with open_board(address) as board:
        reports = race(keeper, [(address, agent, keys) for agent in SIXTEEN])
        assert all(report == reports[0] for report in reports)
        assert board.upkeep.status().pending == len(keys)
        assert len(board.events.read(event="task.posted", limit=1000)) == len(keys)


def test_an_unknown_key_claimed_by_sixteen_is_one_task_with_one_winner(address: str) -> None:
    keys = [f"key-{i}" for i in range(20)]
    with open_board(address) as board:
        reports = race(stranger, [(address, agent, keys) for agent in SIXTEEN])
        wins = [(key, agent) for agent, won in zip(SIXTEEN, reports, strict=True) for key in won]
        checkers.one_winner_each(wins, keys)
        assert board.upkeep.status().claimed == len(keys)
        assert {task.epoch for task in board.tasks.list()} == {1}


def test_a_key_that_is_being_posted_is_waited_for_and_found(board: Board, other: Board, raw: Any) -> None:
    slow = Stopped(other, lambda: other.tasks.post(name="first", key="k"))
    second = in_thread(lambda: board.tasks.post(name="second", key="k"))
    until(lambda: blocked(raw), "the second one waits for the first")
    assert slow.go() == second()


def test_a_batch_that_meets_a_key_being_posted_runs_again_as_a_whole(board: Board, other: Board, raw: Any) -> None:
    slow = Stopped(other, lambda: other.tasks.post(name="first", key="k"))
    calls = [("tasks.post", {"name": "before"}), ("tasks.post", {"name": "second", "key": "k"})]
    batch = in_thread(lambda: board.batch(calls))
    until(lambda: blocked(raw), "the batch waits for the first")
    first, [before, found] = slow.go(), batch()
    assert (before.name, found) == ("before", first)
    assert board.upkeep.status().pending == 2


def test_claims_of_sixteen_processes_have_one_winner_each(address: str) -> None:
    with open_board(address) as board:
        refs = [task.id for task in board.batch([("tasks.post", {"name": "t"}) for _ in range(40)])]
        reports = race(claimer, [(address, agent, refs) for agent in SIXTEEN])
        wins = [(ref, agent) for agent, (won, _) in zip(SIXTEEN, reports, strict=True) for ref in won]
        checkers.one_winner_each(wins, refs)


# ── Dependencies ─────────────────────────────────────────────────────────────────────────────────────


def meeting(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
    """Both calls from the same instant."""
    line = threading.Barrier(2, timeout=PATIENCE)

    def at_the_line(call: Callable[[], Any]) -> Any:
        line.wait()
        return call()

    answers = [in_thread(lambda call=call: at_the_line(call)) for call in (first, second)]  # type: ignore[misc]
    return answers[0](), answers[1]()


def test_a_task_posted_after_one_that_ends_at_that_moment_never_stays_blocked(board: Board, other: Board) -> None:
    posted = board.batch([("tasks.post", {"name": f"A {i}"}) for i in range(ROUNDS)])
    claimed = board.batch([("tasks.claim", {"ref": task.id}) for task in posted])
    both = {"waited": 0, "at once": 0}
    for task in claimed:
        _, after = meeting(
            lambda task=task: board.tasks.complete(ref=task.id, epoch=1),  # type: ignore[misc]
            lambda task=task: other.tasks.post(name="B", after=[task.id]),  # type: ignore[misc]
        )
        both["waited" if after.state == "blocked" else "at once"] += 1
        assert board.tasks.get(ref=after.id).state == "pending"
    status = board.upkeep.status()
    assert (status.blocked, status.pending, status.completed) == (0, ROUNDS, ROUNDS)
    assert both["waited"] + both["at once"] == ROUNDS


@pytest.mark.parametrize("end", ["complete", "fail"])
def test_an_end_that_is_being_committed_is_seen_by_a_task_posted_after_it(board: Board, raw: Any, end: str) -> None:
    task = board.win(board.tasks.post(name="A", max_attempts=1).id)
    with open_board(board_address(board), "alice") as ender:
        slow = Stopped(ender, lambda: ender.call(f"tasks.{end}", {"ref": task.id, "epoch": 1}))
        after = in_thread(lambda: board.tasks.post(name="B", after=[task.id]))
        until(lambda: blocked(raw), "B waits for the end of A")
        slow.go()
        if end == "complete":
            assert after().state == "pending"
        else:
            with pytest.raises(tiebreak.Refused):
                after()


def board_address(board: Board) -> str:
    """Where it is; there is no password in it."""
    return board.engine.address


def deadlocks(raw: Any) -> int:
    """How many the server has untied so far; each cost somebody a second."""
    return int(raw.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()[0])


def test_one_that_others_wait_for_ends_while_another_comes_after_it(board: Board, other: Board, raw: Any) -> None:
    """Both decide over the edges: in opposite orders, each time would take a deadlock to untie."""
    before, pids = deadlocks(raw), set[int]()
    for _ in range(20):
        task = board.win(board.tasks.post(name="A").id)
        waiting = board.tasks.post(name="C", after=[task.id])
        _, after = meeting(
            lambda task=task: board.tasks.complete(ref=task.id, epoch=1),  # type: ignore[misc]
            lambda task=task: other.tasks.post(name="B", after=[task.id]),  # type: ignore[misc]
        )
        assert board.tasks.get(ref=after.id).state == "pending"
        assert board.tasks.get(ref=waiting.id).state == "pending"
        idle = [*engine_of(board)._idle, *engine_of(other)._idle]
        pids |= {connection.info.backend_pid for connection in idle}
    board.close()
    other.close()
    # A server process hands in its counts when it ends. Those of other tests do not matter.
    left = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(%s)"
    until(lambda: raw.execute(left, (list(pids),)).fetchone() == (0,), "all counts have been handed in")
    assert deadlocks(raw) == before


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_reader_does_not_pass_over_a_message_that_commits_late(board: Board, other: Board, raw: Any) -> None:
    board.messages.send(body="known", agent="carol~1")
    slow = Stopped(other, lambda: other.messages.send(body="late"))
    quick = in_thread(lambda: open_board(board_address(board), "carol").messages.send(body="quick"))
    until(lambda: blocked(raw), "the second message waits for the first")
    inbox = board.messages.inbox()
    board.messages.mark(upto=inbox[-1].number)
    slow.go()
    quick()
    assert [message.body for message in inbox + board.messages.inbox()] == ["known", "late", "quick"]


def sender(address: str, agent: str, count: int) -> Run:
    """Send that many."""
    board = open_board(address, agent)
    yield
    return [board.messages.send(later=True, body=f"{agent} {i}", to="reader").number for i in range(count)]


def marker(address: str, count: int) -> Run:
    """Read what is new, mark it as read, until that many were read."""
    board = open_board(address, "reader")
    yield
    read: list[int] = []
    while len(read) < count:
        after = board.events.last()
        new = [message.number for message in board.messages.inbox()]
        if new:
            board.messages.mark(upto=new[-1])
            read += new
        elif not board.engine.wait(after, 90):
            break
    return read


def test_a_reader_gets_every_message_once_and_in_order(address: str) -> None:
    open_board(address).close()
    with Crew(marker, [(address, 100)]) as reading, Crew(sender, [(address, f"s{i}", 25) for i in range(4)]) as crew:
        reading.go()
        crew.go()
        sent = sorted(number for report in crew.reports() for number in report)
        assert reading.reports() == [sent]


# ── Deadlocks ────────────────────────────────────────────────────────────────────────────────────────


class Embrace:
    """Lets two calls meet after each has locked its first row; counts how often the function was called.

    Whoever was undone and begins anew may get its row before the other one wakes up, and then they embrace once more.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls = function, 0
        self._line = threading.Barrier(2, timeout=PATIENCE)
        self._met: set[int] = set()

    def __call__(self, *args: Any, **more: Any) -> Any:
        """Do it; each thread's first time, wait for the other one."""
        answer = self.function(*args, **more)
        self.calls += 1
        if threading.get_ident() not in self._met:
            self._met.add(threading.get_ident())
            self._line.wait()
        return answer


def test_two_agents_that_claim_in_opposite_orders_both_get_an_answer(
    board: Board, other: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = [task.id for task in board.batch([("tasks.post", {"name": "t"}) for _ in range(2)])]
    embrace = Embrace(claims.record_grant)
    monkeypatch.setattr(claims, "record_grant", embrace)
    won = meeting(lambda: board.tasks.claim_many(refs=refs), lambda: other.tasks.claim_many(refs=refs[::-1]))
    assert sorted(map(len, won)) == [0, 2], "one of them has both"
    assert embrace.calls >= 3, "and the other had one before it was undone"
    tasks = [board.tasks.get(ref=ref) for ref in refs]
    assert [(task.epoch, task.attempts) for task in tasks] == [(1, 1), (1, 1)]
    assert len(board.events.read(event="task.claimed")) == 2


def test_two_agents_that_renew_in_opposite_orders_both_succeed(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    resources = ["lock:a", "lock:b"]
    board.holds.take(resources=resources)
    embrace = Embrace(prolong)
    monkeypatch.setattr(holds, "prolong", embrace)
    renewed = meeting(
        lambda: board.holds.renew(resources=resources), lambda: board.holds.renew(resources=resources[::-1])
    )
    assert [[hold.epoch for hold in each] for each in renewed] == [[1, 1], [1, 1]]
    assert embrace.calls >= 5, "two and two, and one that was undone"
    assert len(board.events.read(event="hold.renewed")) == 4


CONFLICTS = [pg.DeadlockDetected, pg.SerializationFailure]


def plant(monkeypatch: pytest.MonkeyPatch, name: str, problem: type[Exception], times: int) -> list[int]:
    """Let an operation do its work and then fail, the first times; the list grows with each run."""
    operation, runs = find(name), []
    function = operation.function

    def failing(tx: Any, **params: Any) -> Any:
        answer = function(tx, **params)
        runs.append(1)
        if len(runs) <= times:
            raise problem("planted")
        return answer

    monkeypatch.setattr(operation, "function", failing)
    return runs


@pytest.mark.parametrize("problem", CONFLICTS)
def test_a_conflict_is_retried_and_nothing_is_done_twice(
    board: Board, monkeypatch: pytest.MonkeyPatch, problem: type[Exception]
) -> None:
    task = board.tasks.post(name="contested")
    runs = plant(monkeypatch, "tasks.claim", problem, TRIES - 1)
    won = board.tasks.claim(ref=task.id)
    assert len(runs) == TRIES
    assert (won.epoch, won.attempts) == (1, 1)
    assert len(board.events.read(event="task.claimed")) == 1


@pytest.mark.parametrize("problem", CONFLICTS)
def test_conflicts_without_end_are_given_up(
    board: Board, monkeypatch: pytest.MonkeyPatch, problem: type[Exception]
) -> None:
    runs = plant(monkeypatch, "tasks.post", problem, 1000)
    with pytest.raises(Unavailable, match="planted"):
        board.tasks.post(name="never")
    assert len(runs) == TRIES
    assert board.tasks.list() == []
    assert board.events.read() == []


def test_a_conflict_in_a_batch_runs_all_of_it_again(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "tasks.cancel", pg.DeadlockDetected, 3)
    answers = board.batch(
        [("tasks.post", {"name": "a"}), ("tasks.cancel", {"ref": "#999"}), ("tasks.post", {"name": "b"})]
    )
    assert isinstance(answers[1], tiebreak.NotFound)
    number = answers[0].number
    answers = board.batch([("tasks.post", {"name": "c"}), ("tasks.cancel", {"ref": f"#{number}"})])
    assert answers[1].state == "cancelled"
    assert [event.event for event in board.events.read()] == ["task.posted"] * 3 + ["task.cancelled"]


# ── Once ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_call_over_several_connections_runs_once(address: str) -> None:
    with open_board(address) as board:
        task = board.tasks.post(name="once")
        reports = race(repeater, [(address, task.id, "the-same-call", 5)] * 8)
        answers = [answer for report in reports for answer in report]
        assert len(answers) == 40
        assert all(answer == answers[0] for answer in answers)
        now = board.tasks.get(ref=task.id)
        assert (now.epoch, now.attempts) == (1, 1)


def test_a_repeated_call_waits_for_the_first_and_answers_as_it_did(board: Board, raw: Any) -> None:
    with open_board(board_address(board)) as again:
        first = Stopped(board, lambda: board.call("tasks.post", {"name": "x"}, once="the-same-call"))
        second = in_thread(lambda: again.call("tasks.post", {"name": "x"}, once="the-same-call"))
        until(lambda: blocked(raw), "the repetition waits for the first")
        assert first.go() == second()
        assert again.upkeep.status().pending == 1


# ── Jobs ─────────────────────────────────────────────────────────────────────────────────────────────


def test_progress_of_a_job_that_is_being_cancelled_is_fenced(board: Board, other: Board, raw: Any) -> None:
    job = board.jobs.submit(command="true")
    [held] = board.jobs.next(lease=600)
    cancelling = Stopped(other, lambda: other.tasks.cancel(ref=job.id))
    late = in_thread(lambda: board.jobs.progress(ref=job.id, epoch=held.epoch, percent=50))
    until(lambda: blocked(raw), "the progress waits for the cancelling")
    cancelling.go()
    with pytest.raises(Fenced):
        late()
    assert board.events.read(event="task.progress") == []


def test_of_two_that_renew_a_unique_job_both_learn_of_the_new_one(board: Board, other: Board, raw: Any) -> None:
    old = board.jobs.submit(command="true", key="nightly", unique_for=0)
    board.tasks.cancel(ref=old.id)
    first = Stopped(other, lambda: other.jobs.submit(command="true", key="nightly", unique_for=0))
    second = in_thread(lambda: board.jobs.submit(command="true", key="nightly", unique_for=0))
    until(lambda: blocked(raw), "the second one waits for the first")
    assert first.go().number == second().number > old.number
