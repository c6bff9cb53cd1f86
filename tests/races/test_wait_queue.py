"""The wait queue with many processes: grants come in the order of the places, and no waiter is skipped."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from tiebreak import Board, Refused, waiting

from ..cli.command import until
from . import plants
from .checkers import Broken, read_log
from .crew import Plant, processes, race
from .scenarios import grasper, open_board, queuer, queuer_or_pusher

TURNS = 3
PATIENCE = 20.0
WAITERS = [f"agent-{i}" for i in range(5)]


def in_order(board: Board, resource: str) -> int:
    """Check the log: each grant went to whoever was first in line then. How many of them had waited."""
    line: list[str] = []
    served = 0
    for event in read_log(board):
        if event.subject != resource:
            continue
        who = event.agent or ""
        if event.event == "hold.queued":
            line.append(who)
        elif event.event == "hold.unqueued":
            line.remove(who)
        elif event.event == "hold.taken" and line:
            if line[0] != who:
                raise Broken(f"{who} came before {line[0]}")
            line.pop(0)
            served += 1
    if line:
        raise Broken(f"{line} were never served")
    return served


def run(address: str, plant: Plant | None = None) -> int:
    with open_board(address) as judge, open_board(address, "looker") as looker:
        judge.take("lock:x")

        def let_go_when_all_wait() -> None:
            until(lambda: len(looker.waits.list()) == len(WAITERS), "all are in line")
            judge.holds.release(resources=["lock:x"])

        letting_go = threading.Thread(target=let_go_when_all_wait)
        letting_go.start()
        each = [(address, agent, ["lock:x"], TURNS) for agent in WAITERS]
        won = race(queuer, each, plant=plant)
        letting_go.join()
        assert sum(won) == TURNS * len(WAITERS)
        return in_order(judge, "lock:x")


def test_grants_come_in_the_order_of_the_line(address: str) -> None:
    assert run(address) >= len(WAITERS)


def test_callers_outside_the_queue_get_nothing_before_the_waiters(address: str) -> None:
    with open_board(address) as judge:
        judge.take("lock:x")
        waiters = [(address, agent, ["lock:x"], 2) for agent in WAITERS[:4]]
        pushers = [(address, f"pusher-{i}", ["lock:x"], 20) for i in range(2)]
        judge.holds.release(resources=["lock:x"])
        race(queuer_or_pusher, [(True, *args) for args in waiters] + [(False, *args) for args in pushers])
        in_order(judge, "lock:x")


@pytest.mark.parametrize("count", [2, 3])
def test_exactly_one_agent_of_a_deadlock_gets_the_error(address: str, count: int) -> None:
    open_board(address).close()
    ready = processes.Barrier(count)
    each = [(address, f"agent-{i}", f"lock:{i}", f"lock:{(i + 1) % count}", ready) for i in range(count)]
    outcomes = race(grasper, each)
    assert sorted(outcomes) == ["told True"] + ["won"] * (count - 1)


def test_overtaking_is_found(path: str) -> None:
    """The judge condemns a line that nobody respects: what is free goes to whoever is awake."""
    with open_board(path) as judge:
        first, second = open_board(path, "first"), open_board(path, "second")
        judge.take("lock:x")
        first.waits.enter(resources=["lock:x"])
        second.waits.enter(resources=["lock:x"])
        judge.holds.release(resources=["lock:x"])
        with pytest.MonkeyPatch.context() as patch:
            plants.nobody_waits_its_turn(patch.setattr)
            second.holds.take(resources=["lock:x"])
        with pytest.raises(Broken, match="second came before first"):
            in_order(judge, "lock:x")


def test_a_missing_search_for_deadlocks_is_noticed(path: str) -> None:
    with open_board(path) as judge, pytest.MonkeyPatch.context() as patch:
        plants.circles_are_not_looked_for(patch.setattr)
        one, other = open_board(path, "one"), open_board(path, "other")
        one.take("lock:a")
        other.take("lock:b")
        one.waits.enter(resources=["lock:b"])
        other.waits.enter(resources=["lock:a"])
        assert len(judge.waits.list()) == 2, "nobody was told, so both wait"


def test_a_first_in_line_that_died_delays_nobody(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No event tells of its death, so the next in line has to look by itself, and sooner than it keeps its place."""
    monkeypatch.setattr(waiting, "KEEP", 10 * PATIENCE)
    sleep, not_its_turn = Board._until_it_changes, threading.Event()

    def sleeping(self: Board, refusal: Refused, *args: Any) -> None:
        if "waiting" in refusal.data:
            not_its_turn.set()
        sleep(self, refusal, *args)

    monkeypatch.setattr(Board, "_until_it_changes", sleeping)
    code = "import sys, tiebreak; tiebreak.open(sys.argv[1], agent='b~1', project=sys.argv[2]).take('lock:x', wait=900)"
    with open_board(address) as judge, open_board(address, agent="c") as next_in_line:
        judge.take("lock:x")
        first = subprocess.Popen([sys.executable, "-c", code, address, judge.project])
        until(lambda: len(judge.waits.list()) == 1, "one waits")
        won = threading.Thread(target=next_in_line.take, args=("lock:x",), kwargs={"wait": PATIENCE})
        won.start()
        until(lambda: len(judge.waits.list()) == 2, "two wait")
        first.send_signal(signal.SIGSTOP)
        judge.holds.release(resources=["lock:x"])
        assert not_its_turn.wait(PATIENCE)
        first.kill()
        first.wait()
        died = time.monotonic()
        won.join()
        assert time.monotonic() - died < PATIENCE / 2, "it only looked when its time was up"
        assert [hold.holder for hold in judge.holds.list()] == ["c"]
