"""A client of `tb mcp` that is killed: what its agent held is free at once. The end of the server alone is no death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import tiebreak
from tests.cli.command import TB, Tb, until
from tests.postgres import server
from tiebreak import Board, Lost
from tiebreak.process_identity import identity, is_dead

# A client: it starts `tb mcp`, claims and holds something by its tools, and sits there.
CLIENT = """
import json, subprocess, sys
server = subprocess.Popen([sys.argv[1], "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
number = 0
def call(method, **params):
    global number
    number += 1
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    server.stdin.write(json.dumps(message) + "\\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    assert "error" not in answer and not answer["result"].get("isError"), answer
hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
call("initialize", **hello)
server.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\\n')
call("tools/call", name="claim", arguments={"ref": "work"})
call("tools/call", name="hold", arguments={"action": "take", "resources": ["lock:deploy"]})
print(server.pid, flush=True)
input()
"""


class Running(NamedTuple):
    """A client, and the pid of its server."""

    client: subprocess.Popen[str]
    server: int


@pytest.fixture(params=["sqlite", "postgres"])
def tb(request: pytest.FixtureRequest, tmp_path: Path) -> Tb:
    """A board of each engine."""
    made = Tb(tmp_path)
    if request.param == "postgres":
        made.environment["TIEBREAK_BOARD"] = server().empty_board()
    return made


@pytest.fixture
def bob(tb: Tb) -> Iterator[Board]:
    with tiebreak.open(tb.environment["TIEBREAK_BOARD"], agent="bob~1", project="demo") as board:
        board.tasks.post(name="work", key="work")
        yield board


@contextmanager
def client(tb: Tb, called: str, **environment: str | None) -> Iterator[Running]:
    """A client of that name which has claimed something; it is killed after the block at the latest."""
    program = tb.folder / called
    program.write_text(CLIENT)
    with subprocess.Popen(
        [sys.executable, str(program), TB],
        cwd=tb.folder,
        env=tb.changed(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        yield Running(running, int(running.stdout.readline()))
        running.kill()


def until_bound(bob: Board, pid: int) -> None:
    until(lambda: pid in [agent.pid for agent in bob.agents.list() if agent.bound], "the client is bound")


def test_what_a_killed_client_claimed_by_its_tools_is_free_at_once(tb: Tb, bob: Board) -> None:
    bob.holds.take(resources=["lock:bob"])
    with client(tb, "claude") as running:
        until_bound(bob, running.client.pid)
        os.kill(running.client.pid, signal.SIGSTOP)
        with pytest.raises(Lost):
            bob.holds.take(resources=["lock:deploy"])
    assert bob.holds.take(resources=["lock:deploy"])[0].epoch == 2
    assert bob.tasks.claim(ref="work").epoch == 2
    assert sorted(hold.resource for hold in bob.holds.list(agent="bob")) == ["lock:bob", "lock:deploy"]


@pytest.mark.parametrize("tb", ["sqlite"], indirect=True)
def test_the_death_of_the_server_is_not_the_death_of_the_client(tb: Tb, bob: Board) -> None:
    """The client starts another server and goes on as the same agent."""
    with client(tb, "claude") as running:
        until_bound(bob, running.client.pid)
        who = identity(running.server)
        os.kill(running.server, signal.SIGKILL)
        until(lambda: is_dead(who), "the server is dead")
        with pytest.raises(Lost):
            bob.holds.take(resources=["lock:deploy"])
        with pytest.raises(Lost):
            bob.tasks.claim(ref="work")


@pytest.mark.parametrize("tb", ["sqlite"], indirect=True)
@pytest.mark.parametrize("called", ["claude", "my-own-client"])
def test_a_client_that_may_not_be_the_agent_takes_nothing_with_it(tb: Tb, bob: Board, called: str) -> None:
    """Somebody gave the agent's id, or it is a program that `tb` does not know, perhaps a wrapper that ends early."""
    given = {"TIEBREAK_AGENT": "ann~tab"} if called == "claude" else {}
    with client(tb, called, **given):
        assert not [agent for agent in bob.agents.list() if agent.bound]
    with pytest.raises(Lost):
        bob.holds.take(resources=["lock:deploy"])
