"""Of a group with a limit of two never more than two are claimed, however many processes want them, in any way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tiebreak import Board, Event, Refused
from tiebreak.operations import concurrency, picking

from .checkers import Broken, one_holder_at_a_time, read_log
from .crew import Plant, race
from .plants import Set
from .scenarios import Run, open_board

LIMIT, JOBS, FREE = 2, 90, 10
EIGHT = [f"agent-{i}" for i in range(8)]
LEASE = 600.0
"""Nobody is so slow that its lease runs out: this is about the count alone."""
ENDS = {"task.completed", "task.failed", "task.retrying", "task.released", "task.cancelled", "task.expired"}


def worker(address: str, agent: str, way: str) -> Run:
    """Win and finish jobs until none is left; how many."""
    board = open_board(address, agent)
    yield
    done = 0
    while True:
        seen = board.events.last()
        won = _by_name(board) if way == "by name" else _next(board, way)
        for number, epoch in won:
            [answer] = board.jobs.report(outcomes=[{"number": number, "epoch": epoch, "ok": True}])
            assert answer["accepted"], answer
            done += 1
        if not won:
            if not board.upkeep.status().pending:
                return done
            board.engine.wait(seen, 0.2)


def _next(board: Board, way: str) -> list[tuple[int, int]]:
    if way == "jobs":
        return [(job.number, job.epoch) for job in board.jobs.next(count=5, lease=LEASE)]
    return [(task.number, task.epoch) for task in board.tasks.next(count=5, lease=LEASE)]


def _by_name(board: Board) -> list[tuple[int, int]]:
    for task in reversed(board.tasks.list(states=["pending"], limit=3)):
        try:
            won = board.tasks.claim(ref=task.id, lease=LEASE, create=False)
            return [(won.number, won.epoch)]
        except Refused:
            continue
    return []


def fill(board: Board) -> None:
    """Jobs of one group, and some that are free, in two queues."""
    jobs = [
        {"command": "true", "name": f"limited {i}", "limit": f"g={LIMIT}", "queue": "ab"[i % 2]} for i in range(JOBS)
    ]
    board.jobs.submit_many(jobs=[*jobs, *({"command": "true", "name": f"free {i}"} for i in range(FREE))])


def most_at_once(events: Sequence[Event]) -> int:
    """Replay the log: how many of the group were claimed at most."""
    claimed: set[str] = set()
    most = 0
    for event in events:
        if event.subject is None or not (event.name or "").startswith("limited"):
            continue
        if event.event == "task.claimed":
            claimed.add(event.subject)
        elif event.event in ENDS:
            claimed.discard(event.subject)
        most = max(most, len(claimed))
    if most > LIMIT:
        raise Broken(f"{most} of the group at once, the limit is {LIMIT}")
    return most


def contest(address: str, plant: Plant | None = None) -> tuple[list[int], list[Event]]:
    """Let eight processes work until all is done."""
    with open_board(address) as board:
        fill(board)
        ways = ["jobs", "jobs", "jobs", "tasks", "tasks", "by name", "jobs", "by name"]
        done = race(worker, [(address, agent, way) for agent, way in zip(EIGHT, ways, strict=True)], plant=plant)
        return done, read_log(board)


def test_eight_processes_never_claim_more_than_two(address: str) -> None:
    done, events = contest(address)
    assert sum(done) == JOBS + FREE
    assert most_at_once(events) == LIMIT, "the limit was never reached: hardly a race"
    one_holder_at_a_time(events)
    assert len([e for e in events if e.event == "task.completed"]) == JOBS + FREE


def nobody_counts(put: Set) -> None:
    """Every group seems to be empty."""
    for module in (concurrency, picking):
        put(module, "taken", lambda tx, project, groups: dict.fromkeys(groups, 0))


def test_a_limit_that_nobody_counts_is_found(path: str, tmp_path: Path) -> None:
    _, events = contest(path, plant=nobody_counts)
    with pytest.raises(Broken, match="of the group at once"):
        most_at_once(events)
