"""A tool that runs for long keeps its session's claims and holds, for as long as it and its client live."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak.guard import lease_renewer
from tiebreak.guard.agent_state import AgentState
from tiebreak.process_identity import identity

from ..cli.command import Tb, gone, until
from .actors import Claude

Start = Callable[..., Claude]
PATIENCE = 60.0

# A client: it calls the hook before a command, without waiting as long as a person would, and then sits there.
CLIENT = """
import subprocess, sys
hook = "import tiebreak.guard.lease_renewer as k; k.FIRST = 0.0; "
hook += "from tiebreak.program import main; main(['hook', 'claude', 'PreToolUse'])"
subprocess.run([sys.executable, "-c", hook], input=sys.argv[1].encode(), check=True)
print("begun", flush=True)
input()
"""


def words(agent: Claude, pid: int) -> list[str]:
    return [agent.agent, agent.board.project, *map(str, identity(pid))]


def test_a_renewer_renews_while_the_command_runs_and_ends_with_it(
    claude: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = claude("ann")
    ann.board.tasks.claim(ref="login", lease=100)
    before = ann.board.tasks.get(ref="login").until or 0
    AgentState(ann.agent).put("shell-1", b"")
    rounds = []

    def nap(_: float) -> None:
        rounds.append(ann.board.tasks.get(ref="login").until)
        AgentState(ann.agent).forget("shell-1")

    monkeypatch.setattr("tiebreak.guard.lease_renewer.time.sleep", nap)
    lease_renewer.keep(words(ann, os.getpid()))
    assert len(rounds) == 1
    assert (rounds[0] or 0) > before + 200


def test_a_renewer_does_not_outlive_the_client(claude: Start) -> None:
    ann = claude("ann")
    ann.board.tasks.claim(ref="login", lease=100)
    before = ann.board.tasks.get(ref="login").until
    AgentState(ann.agent).put("shell-1", b"")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        line = words(ann, process.pid)
        process.kill()
        process.wait(PATIENCE)
        lease_renewer.keep(line)
    assert ann.board.tasks.get(ref="login").until == before


def test_the_hook_starts_a_renewer_that_the_client_does_not_wait_for(claude: Start, tb: Tb, tmp_path: Path) -> None:
    ann = claude("ann")
    program = tmp_path / "claude"
    program.write_text(CLIENT)
    data = json.dumps(ann.fields("PreToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id="t"))
    with subprocess.Popen(
        [sys.executable, str(program), data],
        cwd=ann.cwd,
        env=tb.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "begun\n"
        until(lambda: keepers(ann), "a keeper is at work", PATIENCE)
        [keeper] = keepers(ann)
        client.communicate("\n", timeout=PATIENCE)
    until(lambda: gone(keeper), "it has ended with its client", PATIENCE)


def keepers(agent: Claude) -> list[int]:
    """The processes that keep this agent's grants."""
    shown = subprocess.run(
        ["ps", "-e", "-ww", "-o", "pid=", "-o", "args="], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    lines = [line.split(None, 1) for line in shown.stdout.splitlines()]
    # The project tells it from the same test of another run: only its folder differs.
    mine = f"-m tiebreak.guard.lease_renewer {agent.agent} {agent.board.project} "
    return [int(pid) for pid, words in lines if mine in words]
