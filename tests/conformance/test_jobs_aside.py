"""Hidden tasks: a ready task that nobody may take is hidden, and `next` wins what it would win without that.

Other transactions than those that win decide which tasks are hidden. So each result is compared with a plain search of
all tasks, after everything that may happen to them.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest

from tiebreak import Board, Refused
from tiebreak.names import PRIORITIES
from tiebreak.operations import deferred_work
from tiebreak.operations.picking import MOST_PAUSED

from .engines import Place
from .jobs_support import outcome, report, submit, win, won

LEASE = 60.0


class Job(NamedTuple):
    """What a job was submitted with."""

    group: str | None
    size: int
    queue: str
    call: str
    tag: str


def ready(board: Board) -> list[Any]:
    """The tasks that time and others leave free, in the order in which they are to be won."""
    tasks = board.tasks.list(states=["pending"], limit=1000)
    now = board.upkeep.now()
    due = [task for task in tasks if (task.ready_at or 0) <= now]
    return sorted(due, key=lambda task: (-PRIORITIES.index(task.priority), task.number))


def expected(board: Board, known: dict[int, Job], count: int, asked: dict[str, Any]) -> list[int]:
    """What the next jobs are, found by looking at all of them."""
    if any(task.lapsed for task in board.tasks.list(states=["claimed"], limit=1000)):
        board.tasks.sweep()  # the lapse of a last attempt may let others go on
    used: dict[str | None, int] = {}
    for task in board.tasks.list(states=["claimed"], limit=1000):
        group = known[task.number].group
        used[group] = used.get(group, 0) + 1
    paused = {queue.queue for queue in board.queues.list() if queue.paused_at}
    found: list[int] = []
    for task in ready(board):
        job = known[task.number]
        room = job.group is None or used.get(job.group, 0) < job.size
        wanted = job.queue in asked.get("queues", [job.queue]) and job.tag in asked.get("tags", [job.tag])
        calls = job.call in asked["calls"] if "calls" in asked else job.call == ""
        if room and wanted and calls and job.queue not in paused and len(found) < count:
            used[job.group] = used.get(job.group, 0) + 1
            found.append(task.number)
    return found


class Story:
    """Random deeds on a board, and what has to be won by each `next`."""

    def __init__(self, place: Place, seed: int) -> None:
        self.place = place
        self.board = place.open("alice")
        self.any = random.Random(seed)
        self.known: dict[int, Job] = {}
        self.wins = 0

    def go(self, steps: int) -> None:
        """Do so many things, more often what lets jobs be won."""
        deeds = [self.submit, self.next, self.next, self.end, self.end, self.decide, self.queue, self.claim, self.wait]
        for _ in range(steps):
            self.any.choices(deeds, (6, 3, 3, 4, 4, 2, 1, 1, 1))[0]()
        for queue in "abc":
            self.board.queues.resume(queue=queue)
        while self.next() or self.board.upkeep.status().claimed:
            self.end(every=True)

    def submit(self) -> None:
        group = self.any.choice(["g1", "g2", "g3", None])
        size = self.any.choice([1, 2, 2, 5]) if group else 0
        call = self.any.choice(["", "", "m.f"])
        job = Job(group, size, self.any.choice("abc"), call, self.any.choice(["x", "y"]))
        more: dict[str, Any] = {"command": {"call": call}} if call else {}
        if group:
            more["limit"] = f"{group}={size}"
        if self.any.random() < 0.2:
            more["delay"] = 30.0
        if self.known and self.any.random() < 0.2:
            more |= {"after": [f"#{self.any.choice(sorted(self.known))}"], "run_anyway": True}
        priority = self.any.choice(["low", "normal", "normal", "urgent"])
        task = submit(
            self.board, queue=job.queue, tags=[job.tag], priority=priority, max_attempts=2, backoff=5.0, **more
        )
        self.known[task.number] = job

    def next(self) -> bool:
        asked: dict[str, Any] = {}
        if self.any.random() < 0.4:
            asked["queues"] = self.any.sample("abc", self.any.randint(1, 2))
        if self.any.random() < 0.2:
            asked["tags"] = [self.any.choice("xy")]
        if self.any.random() < 0.5:
            asked["calls"] = self.any.choice([["m.f"], ["m.f", ""]])
        commands = {"commands": "" in asked["calls"]} if "calls" in asked else {}
        calls = {"calls": [call for call in asked["calls"] if call]} if "calls" in asked else {}
        count = self.any.choice([1, 1, 2, 5, 50])
        looked = expected(self.board, self.known, count, asked)
        got = [job.number for job in win(self.board, count=count, lease=LEASE, **{**asked, **calls, **commands})]
        assert got == looked, f"asked for {count} with {asked}"
        self.wins += len(got)
        return bool(got or expected(self.board, self.known, 1, {"calls": ["", "m.f"]}))

    def end(self, every: bool = False) -> None:
        held = self.board.tasks.list(states=["claimed"], limit=1000)
        for task in held if every else held and [self.any.choice(held)]:
            how: dict[str, Any] = self.any.choice(
                [{"ok": True}, {"ok": True}, {"ok": False}, {"ok": True, "drained": True}]
            )
            if every:
                how = {"ok": True}
            self.board.jobs.report(outcomes=[{"number": task.number, "epoch": task.epoch, **how}])

    def decide(self) -> None:
        if self.known:
            ref = f"#{self.any.choice(sorted(self.known))}"
            name = self.any.choice(["tasks.cancel", "tasks.retry", "tasks.depend"])
            params: dict[str, Any] = {"ref": ref}
            if name == "tasks.depend":
                params["after"] = [f"#{self.any.choice(sorted(self.known))}"]
            try:
                self.board.call(name, params)
            except Refused:
                pass

    def queue(self) -> None:
        self.board.call(self.any.choice(["queues.pause", "queues.resume"]), {"queue": self.any.choice("abc")})

    def claim(self) -> None:
        if self.known:
            try:
                self.board.tasks.claim(ref=f"#{self.any.choice(sorted(self.known))}", lease=LEASE)
            except Refused:
                pass

    def wait(self) -> None:
        self.place.advance(self.any.choice([1.0, 31.0, LEASE + 1]))


@pytest.mark.parametrize("seed", range(6))
def test_next_wins_what_a_search_of_all_tasks_would_win(
    place: Place, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With one paused queue at most, and one open task of a group at most, all that is rare happens all the time.
    monkeypatch.setattr("tiebreak.operations.picking.MOST_PAUSED", seed % 2)
    monkeypatch.setattr("tiebreak.operations.queues.MOST_PAUSED", seed % 2)
    if seed % 3 == 0:
        monkeypatch.setattr("tiebreak.operations.concurrency.MOST_VISIBLE", 2)
        monkeypatch.setattr("tiebreak.operations.picking.MOST_VISIBLE", 2)

    story = Story(place, seed)
    story.go(120)

    assert story.wins > 12
    assert story.board.upkeep.status().claimed == 0


# ── Paused queues ────────────────────────────────────────────────────────────────────────────────────


MANY = [f"q{i:02}" for i in range(MOST_PAUSED + 10)]


@pytest.fixture
def paused(alice: Board) -> Board:
    """Many paused queues with a job in each, and one more that is open."""
    for queue in MANY:
        submit(alice, queue, queue=queue)
        alice.queues.pause(queue=queue)
    submit(alice, "open")
    return alice


def test_the_jobs_of_many_paused_queues_wait_and_are_counted(paused: Board) -> None:
    assert won(paused) == ["open"]

    assert won(paused) == []
    assert paused.upkeep.status().pending == len(MANY)
    assert {queue.queue: queue.ready for queue in paused.queues.list()} == dict.fromkeys(MANY, 1)


def test_the_jobs_of_a_resumed_queue_are_won_again(paused: Board) -> None:
    assert won(paused) == ["open"]

    for queue in reversed(MANY):
        paused.queues.resume(queue=queue)
        assert won(paused) == [queue]


def test_a_job_of_a_paused_queue_can_be_won_by_its_name_and_given_back(paused: Board) -> None:
    job = next(task for task in paused.tasks.list() if task.name == MANY[-1])

    won_by_name = paused.tasks.claim(ref=job.id)
    paused.queues.resume(queue=MANY[-1])
    paused.tasks.release(ref=job.id, epoch=won_by_name.epoch)

    assert won(paused, queues=[MANY[-1]]) == [MANY[-1]]


@pytest.mark.parametrize("detour", ["cancelled", "blocked"])
def test_a_hidden_job_that_was_not_ready_when_its_queue_was_resumed_is_found(paused: Board, detour: str) -> None:
    job = next(task for task in paused.tasks.list() if task.name == MANY[-1])
    other = submit(paused, "other")

    if detour == "cancelled":
        paused.tasks.cancel(ref=job.id)
    else:
        paused.tasks.depend(ref=job.id, after=[other.id])
    paused.queues.resume(queue=MANY[-1])
    if detour == "cancelled":
        paused.tasks.retry(ref=job.id)
    else:
        [first] = [each for each in win(paused) if each.name == "other"]
        report(paused, outcome(first))

    assert MANY[-1] in won(paused)


def all_of(board: Board, queue: str) -> list[str]:
    """The names of all jobs of a queue, as they are won."""
    names: list[str] = []
    while some := won(board, queues=[queue], count=50):
        names += some
    return names


def test_a_resumed_queue_with_more_tasks_than_one_step_handles_resumes_all(
    paused: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferred_work, "BUDGET", 2)
    paused.jobs.submit_many(jobs=[{"command": "true", "name": f"{i}", "queue": MANY[-1]} for i in range(7)])
    win(paused)  # whoever looks sets them aside

    paused.queues.resume(queue=MANY[-1])

    assert all_of(paused, MANY[-1]) == [MANY[-1], *map(str, range(7))]


def test_a_queue_that_is_paused_again_before_all_tasks_are_back_stays_paused(
    paused: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferred_work, "BUDGET", 2)
    monkeypatch.setattr(Board, "_finish_deferred_work", lambda _: None)
    paused.jobs.submit_many(jobs=[{"command": "true", "name": f"{i}", "queue": MANY[-1]} for i in range(7)])
    win(paused)

    paused.queues.resume(queue=MANY[-1])
    paused.queues.pause(queue=MANY[-1])
    assert paused.tasks.cascade() == 0

    assert win(paused) == []
    paused.queues.resume(queue=MANY[-1])
    assert len(all_of(paused, MANY[-1])) == 8, "whoever finds nothing goes on with what is left"


def test_limited_jobs_of_many_paused_queues_are_found_when_they_are_resumed(alice: Board) -> None:
    for queue in MANY:
        submit(alice, queue, queue=queue, limit="g=1")
        alice.queues.pause(queue=queue)
    assert win(alice) == []

    for queue in MANY:
        alice.queues.resume(queue=queue)
    for queue in MANY:
        [job] = win(alice)
        assert job.name == queue
        report(alice, outcome(job))


def test_a_group_with_more_room_than_visible_tasks_is_filled(alice: Board) -> None:
    alice.jobs.submit_many(jobs=[{"command": "true", "limit": "g=250"} for _ in range(300)])

    sizes = [len(win(alice, count=100)) for _ in range(4)]

    assert sizes == [100, 100, 50, 0]
