"""An agent is killed while eight processes want its file: one of them gets it, under the next epoch."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import tiebreak

from ..conformance.engines import board_file
from ..log.checker import Log
from ..postgres import server

EIGHT = 8
ROUNDS = 2
# Announces its process as the agent, takes the file, and sits there until it is killed.
HOLDER = """
import sys, tiebreak
from tiebreak.process_identity import identity
who, board = identity(), tiebreak.open(sys.argv[1], agent=sys.argv[2], project="p")
board.agents.announce(host=who.host, boot=who.boot, pid=who.pid, started=who.started, bound=True)
print(board.holds.take(resources=["file:a.py"])[0].epoch, flush=True)
input()
"""
# Tries to take the file until it has it or is told that somebody else of the eight does.
RIVAL = """
import sys, tiebreak
board = tiebreak.open(sys.argv[1], agent=sys.argv[2], project="p")
print("ready", flush=True)
while True:
    try:
        print("won", board.holds.take(resources=["file:a.py"])[0].epoch, flush=True)
        break
    except tiebreak.Lost as lost:
        if lost.data["holder"].startswith("rival"):
            print("lost", flush=True)
            break
"""


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A board of each engine."""
    return str(board_file(tmp_path)) if request.param == "sqlite" else server().empty_board()


def start(script: str, address: str, agent: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", script, address, agent]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_file_of_a_killed_agent_goes_to_exactly_one_of_eight_processes(address: str) -> None:
    with tiebreak.open(address, agent="me~1", project="p") as board:
        for round in range(ROUNDS):
            with ExitStack() as stack:
                holder = stack.enter_context(start(HOLDER, address, f"holder-{round}~1"))
                assert line(holder) == str(2 * round + 1)
                rivals = [stack.enter_context(start(RIVAL, address, f"rival-{i}~{round}")) for i in range(EIGHT)]
                assert [line(rival) for rival in rivals] == ["ready"] * EIGHT
                holder.kill()
                answers = sorted(line(rival) for rival in rivals)
            assert answers == [*["lost"] * (EIGHT - 1), f"won {2 * round + 2}"]
            board.holds.break_("file:a.py", reason="the next round")
        log = Log()
        for event in board.events.read(limit=1000, project=None):
            log.read(event)
        assert log.grants == 2 * ROUNDS
