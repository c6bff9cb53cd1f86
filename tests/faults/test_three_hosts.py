"""Three hosts: two with agents, one with the board. Cables are pulled, a host dies, and all the work is done once."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.crash.writers import Acknowledged, nothing_lost, read_diary, still_completed
from tests.races import checkers
from tests.races.crew import Crew, processes
from tests.races.scenarios import Run, open_board, post
from tiebreak import Board, Refused, Unavailable

from .hosts import Cable, Network, enter, network

TASKS = 1000
AGENTS = 3
"""On each host."""
LEASE = 1.5
MOMENT = 0.01
"""How long a task is worked on."""
PATIENCE = 120.0


def agent(host: str, address: str, name: str, folder: str, seed: int, first: object) -> Run:
    """Claim a few, work on each for a moment, complete it; whatever happens to the line, go on."""
    enter(host)
    board, chance = open_board(address, name), random.Random(seed)
    answered = Acknowledged(f"{folder}/{name}", first)  # type: ignore[arg-type]
    yield
    while not os.path.exists(f"{folder}/stop"):
        try:
            work_on_some(board, name, answered, chance)
        except Unavailable:
            pass  # cut off for a while


def work_on_some(board: Board, name: str, answered: Acknowledged, chance: random.Random) -> None:
    """One to five tasks, one after another; one that was lost meanwhile is left to its new holder."""
    for task in board.win_next(count=chance.randint(1, 5), lease=LEASE, wait=0.5):
        time.sleep(chance.uniform(0.0, 2 * MOMENT))
        try:
            board.tasks.complete(ref=task.id, epoch=task.epoch, result=name)
            answered.note("task.completed", task.id, task.epoch, name)
        except Refused:
            answered.note("refused", task.id, task.epoch, name)


@contextmanager
def manned(net: Network, cable: Cable, number: int, folder: Path) -> Iterator[Crew]:
    """Agents on a host."""
    _, first = processes.Pipe(duplex=False)
    names = [f"agent-{number}-{i}" for i in range(AGENTS)]
    each = [(cable.host, net.seen_from(cable), name, str(folder), i, first) for i, name in enumerate(names)]
    with Crew(agent, each, patience=2 * PATIENCE) as crew:
        try:
            yield crew
        finally:
            (folder / "stop").touch()
            cable.heal()


def done(board: Board) -> int:
    """How many tasks are completed."""
    return board.upkeep.status().completed


def pull_cables(board: Board, cables: list[Cable], chance: random.Random, goal: int) -> int:
    """Cut and heal at random until so many tasks are completed; how often it was cut."""
    end, cuts = time.monotonic() + PATIENCE, 0
    while done(board) < goal:
        assert time.monotonic() < end, f"{done(board)} of {goal} tasks are completed, and it does not go on"
        cable = chance.choice(cables)
        cable.cut()
        cuts += 1
        time.sleep(chance.choice([0.1, 0.2, 0.4, 1.2 * LEASE]))
        cable.heal()
        time.sleep(chance.uniform(0.2, 1.2))
    return cuts


def lose_power(board: Board, cable: Cable) -> None:
    """Cut a host off for good, while somebody there has a task: it says no good-bye."""
    end = time.monotonic() + PATIENCE
    while True:
        cable.cut()
        time.sleep(0.5)  # what was under way has arrived
        if any((task.holder or "").startswith("agent-1-") for task in board.tasks.list(states=["claimed"], limit=1000)):
            return
        assert time.monotonic() < end, "nobody there has anything"
        cable.heal()
        time.sleep(0.1)


def test_all_the_work_is_done_once_through_cuts_and_the_death_of_a_host(tmp_path: Path) -> None:
    chance = random.Random(3)
    with network(2) as net, open_board(net.here) as board, ExitStack() as stack:
        post(board, TASKS, max_attempts=1000)
        crews = [stack.enter_context(manned(net, cable, i, tmp_path)) for i, cable in enumerate(net.cables)]
        for crew in crews:
            crew.go()
        cuts = pull_cables(board, net.cables, chance, TASKS // 3)
        lose_power(board, net.cables[1])
        crews[1].kill()
        cuts += pull_cables(board, net.cables[:1], chance, TASKS)
        (tmp_path / "stop").touch()
        crews[0].reports()
        assert cuts >= 2
        judge(board, tmp_path)


def judge(board: Board, folder: Path) -> None:
    """One accepted completion each, nothing lost, nothing stale, no epoch left out."""
    events = checkers.read_log(board)
    diary = [entry for path in folder.glob("agent-*") for entry in read_diary(str(path))]
    acknowledged = [entry for entry in diary if entry[0] == "task.completed"]
    completed = Counter(event.subject for event in events if event.event == "task.completed")
    assert (len(completed), set(completed.values())) == (TASKS, {1})
    nothing_lost(events, acknowledged)
    still_completed(board, acknowledged)
    tasks = board.tasks.list(limit=1000)
    assert {task.state for task in tasks} == {"completed"}
    final = {(task.id, 0): task.epoch for task in tasks}
    checkers.epochs_count_grants(checkers.grants_in(events), final)
    checkers.one_holder_at_a_time(events)
    last = {event.subject: (event.epoch, event.agent) for event in events if event.event == "task.claimed"}
    ends = {event.subject: (event.epoch, event.agent) for event in events if event.event == "task.completed"}
    assert ends == last, "a completion under an epoch that was not the current one"
    assert max(task.epoch for task in tasks) > 1, "nobody ever took over from another"
