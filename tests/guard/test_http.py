"""The hooks over HTTP, and the real command: the same decisions, whichever way a client asks."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tiebreak.guard.agent_notes import leave_notes
from tiebreak.guard.agent_state import AgentState

from ..cli.command import Tb
from ..daemons import Serving
from .actors import Claude, Denied, git

Start = Callable[..., Claude]


class OverHttp(Claude):
    """Claude Code with hooks of type `http`."""

    door: Serving

    def say(self, event: str, **more: Any) -> dict[str, Any]:
        """POST it."""
        status, body = post(self.door, f"/hooks/claude/{event}", json.dumps(self.fields(event, **more)))
        assert status == 200, body
        found: dict[str, Any] = json.loads(body)
        return found


class ByCommand(Claude):
    """Claude Code with hooks of type `command`."""

    tb: Tb

    def say(self, event: str, **more: Any) -> dict[str, Any]:
        """Run it."""
        answer = self.tb("hook", "claude", event, stdin=json.dumps(self.fields(event, **more)))
        assert (answer.code, answer.err) == (0, "")
        found: dict[str, Any] = json.loads(answer.out or "{}")
        return found


def post(door: Serving, path: str, body: str, token: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=60)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {door.token if token is None else token}"}
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    try:
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Serving]:
    """A daemon on the same board and the same state folder."""
    serving = Serving(tmp_path)
    serving.environment.pop("TIEBREAK_PROJECT", None)
    serving.start()
    try:
        yield serving
    finally:
        serving.kill()


def test_command_and_http_and_the_decision_itself_are_one_guard(
    repo: Path, claude: Start, door: Serving, tb: Tb
) -> None:
    here = claude("here")
    over, by = OverHttp("over", repo, here.connect), ByCommand("by", repo, here.connect)
    over.door, by.tb = door, tb
    assert re.search(r"you are [a-z]+-[a-z]+ ", over.start())
    assert re.search(r"you are [a-z]+-[a-z]+ ", by.start())
    for number, (agent, others) in enumerate(((here, (over, by)), (over, (by, here)), (by, (here, over)))):
        agent.write(f"src/{number}.py", "x\n")
        for other in others:
            with pytest.raises(Denied, match=f"is held by {agent.name}"):
                other.write(f"src/{number}.py", "y\n")
    assert f"src/0.py (held by {here.name})" in by.bash("echo z >> src/0.py")
    assert f"src/2.py (held by {by.name})" in over.bash("echo z >> src/2.py")
    for agent in (over, by, here):
        agent.end()
    assert here.board.holds.list() == []


def test_each_way_to_ask_tells_a_note_once(repo: Path, claude: Start, door: Serving, tb: Tb) -> None:
    over, by = OverHttp("over", repo, claude("here").connect), ByCommand("by", repo, claude("here").connect)
    over.door, by.tb = door, tb
    for agent in (over, by):
        leave_notes(AgentState(agent.agent), ["a note"])
        told = [agent.say("UserPromptSubmit", prompt="go on") for _ in range(2)]
        assert ["a note" in str(each) for each in told] == [True, False]


def test_a_refusal_by_policy_is_json_that_the_client_understands(repo: Path, door: Serving) -> None:
    git("config", "tiebreak.hooks", "closed", cwd=repo)
    broken = json.dumps({"session_id": "s", "cwd": str(repo), "tool_name": "Edit", "tool_input": {"file_path": 7}})
    too_long = json.dumps({**json.loads(broken), "tool_input": {"file_path": "a" * 3000}})
    for given in (broken, too_long):
        status, body = post(door, "/hooks/claude/PreToolUse", given)
        assert status == 200
        assert json.loads(body)["hookSpecificOutput"]["permissionDecision"] == "deny"
    # What is no JSON tells nobody where the session is: then the daemon can only warn.
    assert "could not check this" in json.loads(post(door, "/hooks/claude/PreToolUse", "{")[1])["systemMessage"]


def test_an_open_daemon_answers_no_hook_without_its_token(repo: Path, tmp_path: Path) -> None:
    serving = Serving(tmp_path, "--open")
    serving.start()
    try:
        body = json.dumps({"session_id": "s", "cwd": str(repo), "tool_name": "Read", "tool_input": {"file_path": "/x"}})
        assert post(serving, "/hooks/claude/PreToolUse", body, token="wrong")[0] == 401
        assert post(serving, "/hooks/claude/PreToolUse", body)[0] == 200
        assert post(serving, "/hooks/nobody/PreToolUse", body)[0] == 404
    finally:
        serving.kill()
