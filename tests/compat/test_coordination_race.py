"""Ten agents in ten shells race through `tb coordination` for one file and one piece of work: one wins each."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import tiebreak

from ..cli.command import TB, clean_environment
from ..daemons import serving

AGENTS = 10
PATIENCE = 150.0


@pytest.fixture(params=["a file that does not exist yet", "a daemon"])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Where the racers meet."""
    plain = clean_environment(tmp_path)
    if request.param != "a daemon":
        yield plain
        return
    with serving(tmp_path) as daemon:
        yield {**plain, "TIEBREAK_BOARD": daemon.url}


def race(environment: dict[str, str], folder: Path, *words: str) -> str:
    """Each agent runs `tb coordination WORD agent …` when all are ready; the one that won. All others lost to it."""
    name, *rest = words
    with ExitStack() as stack:
        racers = {}
        for i in range(AGENTS):
            script = 'echo ready; read go; exec "$0" "$@"'
            command = ["sh", "-c", script, TB, "coordination", name, f"agent-{i}", *rest]
            racers[f"agent-{i}"] = stack.enter_context(
                subprocess.Popen(
                    command,
                    env=environment,
                    cwd=folder,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        for racer in racers.values():
            assert racer.stdout
            assert racer.stdout.readline() == "ready\n"
        for racer in racers.values():
            assert racer.stdin
            racer.stdin.write("go\n")
            racer.stdin.flush()
        said = {agent: racer.communicate(timeout=PATIENCE)[1] for agent, racer in racers.items()}
    codes = Counter(racer.returncode for racer in racers.values())
    assert set(codes) <= {0, 1}, said
    winners = [agent for agent, racer in racers.items() if racer.returncode == 0]
    assert len(winners) == 1, said
    assert all(f"held by {winners[0]}" in said[agent] for agent in racers if agent not in winners), said
    return winners[0]


def test_ten_agents_race_for_one_file_and_one_piece_of_work(environment: dict[str, str], tmp_path: Path) -> None:
    editor = race(environment, tmp_path, "claim", "contested.py")
    worker = race(environment, tmp_path, "work-claim", "contested-task")
    with tiebreak.open(tmp_path / "board.db", agent="judge~1", project="demo") as board:
        [held] = board.holds.list()
        [task] = board.tasks.list()
        assert (held.holder, held.epoch) == (editor, 1)
        assert (task.holder, task.epoch, task.attempts) == (worker, 1, 1)
        grants = Counter(event.event for event in board.events.read(limit=1000))
        assert (grants["hold.taken"], grants["task.posted"], grants["task.claimed"]) == (1, 1, 1)


def test_ten_agents_race_for_what_was_abandoned(environment: dict[str, str], tmp_path: Path) -> None:
    for words in (["work-claim", "first", "t"], ["work-abandon", "first", "t"]):
        subprocess.run([TB, "coordination", *words], env=environment, cwd=tmp_path, check=True, timeout=PATIENCE)
    winner = race(environment, tmp_path, "work-claim", "t")
    with tiebreak.open(tmp_path / "board.db", agent="judge~1", project="demo") as board:
        [task] = board.tasks.list()
        assert (task.holder, task.epoch) == (winner, 2)
