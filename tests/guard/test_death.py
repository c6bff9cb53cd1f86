"""A client that is killed: what its session held is free at once, and only if the session was the client's own."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tiebreak
from tiebreak import Lost
from tiebreak.agent_names import within
from tiebreak.guard.agent_state import AgentState
from tiebreak.guard.client_hooks import respond
from tiebreak.guard.files import running_commands
from tiebreak.guard.files.running_commands import RunningCommand
from tiebreak.guard.holder_messages import note_main
from tiebreak.model import Agent

from ..cli.command import TB, Tb

# A program called `claude`: it runs the hook of a new session, claims and holds something by its shell, and sits there.
CLIENT = """
import subprocess, sys
tb, start = sys.argv[1:]
quiet = {"stdout": subprocess.DEVNULL, "start_new_session": True, "check": True}
subprocess.run([tb, "hook", "claude", "SessionStart"], input=start, text=True, **quiet)
subprocess.run([tb, "claim", "work"], **quiet)
subprocess.run([tb, "hold", "lock:deploy"], **quiet)
print("begun", flush=True)
input()
"""


@contextmanager
def client(tb: Tb, folder: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A client that has begun; it is killed after the block at the latest."""
    program = folder / "claude"
    program.write_text(CLIENT)
    start = json.dumps({"session_id": "s-9", "cwd": str(tb.folder), "hook_event_name": "SessionStart"})
    with subprocess.Popen(
        [sys.executable, str(program), TB, start],
        cwd=tb.folder,
        env=tb.changed({**environment}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        yield running
        running.kill()


@pytest.fixture
def bob(tb: Tb) -> Iterator[tiebreak.Board]:
    with tiebreak.open(tb.environment["TIEBREAK_BOARD"], agent="bob~1", project=tb.json("whoami")["project"]) as board:
        yield board


def announced(board: tiebreak.Board) -> Agent:
    [agent] = [each for each in board.agents.list() if each.program == "claude"]
    return agent


def test_what_a_killed_client_held_is_free_at_once(tb: Tb, tmp_path: Path, bob: tiebreak.Board) -> None:
    with client(tb, tmp_path) as running:
        assert (announced(bob).pid, announced(bob).bound) == (running.pid, True)
        with pytest.raises(Lost):
            bob.holds.take(resources=["lock:deploy"])
    assert bob.holds.take(resources=["lock:deploy"])[0].epoch == 2
    assert bob.tasks.next()[0].epoch == 2


@pytest.mark.parametrize("given", [{"TIEBREAK_SESSION": "tab"}, {"TIEBREAK_AGENT": "ann~tab"}], ids=str)
def test_a_client_with_a_given_identity_takes_nothing_with_it(
    tb: Tb, tmp_path: Path, bob: tiebreak.Board, given: dict[str, str]
) -> None:
    """The person goes on in the same shell, as the same agent, when the client has ended."""
    with client(tb, tmp_path, **given):
        assert not announced(bob).bound
    with pytest.raises(Lost):
        bob.holds.take(resources=["lock:deploy"])


def test_the_command_of_a_killed_client_explains_no_change(tb: Tb, tmp_path: Path, bob: tiebreak.Board) -> None:
    with client(tb, tmp_path) as running:
        agent = announced(bob).id
        RunningCommand(agent, "s-9", str(tb.folder), 600.0).save(AgentState(agent), "1")
        assert [each.agent for each in running_commands.running()] == [agent]
        part = within(agent, "helper")
        note_main(AgentState(part), agent)
        RunningCommand(part, "s-9", str(tb.folder), 600.0).save(AgentState(part), "2")
        running.kill()
        running.wait()
        assert running_commands.running() == []
        # The session goes on over HTTP: nobody knows its process any more.
        start = json.dumps({"session_id": "s-9", "cwd": str(tb.folder), "source": "resume"}).encode()
        respond("claude", "SessionStart", start, lambda: bob.engine, own_process=False)
        assert [each.agent for each in running_commands.running()] == [part]


def test_a_waiter_gets_a_killed_clients_claim_without_a_daemon(tb: Tb, tmp_path: Path, bob: tiebreak.Board) -> None:
    won: list[int] = []
    with client(tb, tmp_path) as running:
        waiting = threading.Thread(target=lambda: won.append(bob.win("work", wait=60).epoch))
        waiting.start()
        running.kill()
        killed = time.monotonic()
        waiting.join(60)
    assert won == [2]
    assert time.monotonic() - killed < 30  # the lease would have lasted five minutes
