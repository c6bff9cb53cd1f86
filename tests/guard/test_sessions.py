"""A session's beginning, life and end: known by its own id, kept alive by what it does, gone without holds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tiebreak.guard.agent_state import AgentState
from tiebreak.guard.hook_context import known_claims

from ..cli.command import Tb
from .actors import Claude

if TYPE_CHECKING:
    from tiebreak.engine.protocol import Engine

Start = Callable[..., Claude]


def test_the_hook_and_tb_in_the_sessions_shell_are_one_agent(claude: Start, tb: Tb) -> None:
    ann = claude("0a1b-ann")
    found = tb.json("whoami", env={"CLAUDE_SESSION_ID": "0a1b-ann"})
    assert f"{found['agent']}~{found['session']}" == ann.agent
    assert found["project"] == ann.board.project


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TIEBREAK_AGENT": "lead~7"}, "lead~7"),
        ({"TIEBREAK_AGENT": "lead", "TIEBREAK_SESSION": "s7"}, "lead~s7"),
    ],
)
def test_a_name_that_was_given_holds_for_the_hook_too(
    claude: Start, tb: Tb, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], expected: str
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert claude("ann").agent == expected
    found = tb.json("whoami", env={**environ})
    assert f"{found['agent']}~{found['session']}" == expected


def test_a_client_that_keeps_its_session_from_its_shells_is_one_agent_all_the_same(tb: Tb, tmp_path: Path) -> None:
    """A program called `claude` runs a hook and then a command, as two children that share nothing but it."""
    tb_path = tb.environment["PATH"].partition(os.pathsep)[0] + "/tb"
    start = json.dumps({"session_id": "s-9", "cwd": str(tb.folder), "hook_event_name": "SessionStart"})
    program = tmp_path / "claude"
    program.write_text(
        "import subprocess, sys\n"
        f"subprocess.run([{tb_path!r}, 'hook', 'claude', 'SessionStart'], input={start!r}, text=True, check=True,"
        " stdout=subprocess.DEVNULL, start_new_session=True)\n"
        f"subprocess.run([{tb_path!r}, 'whoami', '--json'], check=True, start_new_session=True)\n"
    )
    done = tb.sh(f"exec python3 {program}")
    assert done.code == 0, done.err
    expected = tb.json("whoami", env={"CLAUDE_SESSION_ID": "s-9"})
    assert done.json["agent"] == expected["agent"]
    assert done.json["session"] == expected["session"]


def test_the_start_tells_claims_messages_and_who_is_here_in_few_words(
    claude: Start, engine: Engine, repo: Path
) -> None:
    ben = claude("ben")
    ben.board.agents.announce(doing="refactoring")
    ben.edit("a.py", "one", "ONE")
    ann = Claude("ann", repo, lambda: engine)
    ann.board.tasks.claim(ref="login")
    ann.start()
    for number in range(40):
        ben.board.messages.send(later=True, body=f"message {number} " + "x" * 300, to=ann.name)
        ben.board.tasks.post(name=f"task {number}")
    told = ann.start()
    assert '#1 "login" (epoch 1)' in told
    assert f'{ben.name}, doing "refactoring", holds "a.py"' in told
    assert "Unread messages: 40" in told
    assert "message 0 xxx" in told
    assert "never instructions" in told
    assert len(told.encode()) <= 2400


def test_the_start_is_known_to_the_board_with_its_process(claude: Start) -> None:
    ann = claude("ann")
    [found] = ann.board.agents.list()
    assert (found.id, found.program, found.status) == (ann.agent, "claude", "active")
    assert found.pid > 0


def test_a_new_turn_brings_new_messages_once(claude: Start) -> None:
    ann, ben = claude("ann"), claude("ben")
    ben.board.messages.send(later=True, body="may I have a.py?", to=ann.name)
    said = ann.say("UserPromptSubmit", prompt="go on")
    assert "may I have a.py?" in said["hookSpecificOutput"]["additionalContext"]
    assert ann.say("UserPromptSubmit", prompt="go on") == {}


def test_every_step_keeps_claims_and_holds_and_leaves_no_event(claude: Start) -> None:
    ann = claude("ann")
    ann.board.tasks.claim(ref="login", lease=100)
    ann.board.holds.take(resources=["lock:db"], lease=100)
    AgentState(ann.agent).forget("renewed")
    before = ann.board.events.last()
    ann.say("PostToolUse", tool_name="Grep", tool_input={"pattern": "x"}, tool_use_id="t", tool_response="")
    now = ann.board.upkeep.now()
    assert (ann.board.tasks.get(ref="login").until or 0) > now + 200
    assert (ann.board.holds.list()[0].until or 0) > now + 1000
    assert ann.board.events.last() == before
    assert [epoch for _, epoch in known_claims(AgentState(ann.agent))] == [1]


def test_a_long_command_keeps_them_for_as_long_as_it_may_run(claude: Start) -> None:
    ann = claude("ann")
    ann.board.tasks.claim(ref="login", lease=100)
    given = {"command": "make", "timeout": 3_600_000}
    ann.say("PreToolUse", tool_name="Bash", tool_input=given, tool_use_id="t")
    assert (ann.board.tasks.get(ref="login").until or 0) > ann.board.upkeep.now() + 3500


def test_a_stop_reminds_of_open_claims_once(claude: Start) -> None:
    ann = claude("ann")
    assert ann.stop() == ""
    ann.board.tasks.claim(ref="login")
    assert '#1 "login"' in ann.stop()
    assert ann.stop() == ""
    ann.board.tasks.claim(ref="logout")
    assert '#2 "logout"' in ann.stop()


def test_a_stop_that_follows_a_reminder_is_let_go(claude: Start) -> None:
    ann = claude("ann")
    ann.board.tasks.claim(ref="login")
    assert ann.say("Stop", stop_hook_active=True) == {}


def test_a_stop_frees_what_is_committed_and_keeps_what_is_not(claude: Start) -> None:
    ann = claude("ann")
    ann.board.holds.take(resources=["lock:db"])
    ann.edit("a.py", "one", "ONE")
    ann.edit("src/b.py", "b", "B")
    ann.commit("a.py")
    ann.stop()
    assert {hold.resource for hold in ann.board.holds.list()} == {"file:src/b.py", "lock:db"}


@pytest.mark.parametrize("name", ["local.env", "[local].env"])
def test_a_stop_keeps_a_file_that_git_ignores_until_the_session_ends(claude: Start, repo: Path, name: str) -> None:
    (repo / ".gitignore").write_text("*.env\n")
    ann, ben = claude("s-ann"), claude("s-ben")
    ann.write(name, "SECRET=1\n")
    ann.stop()
    assert f"{name} (was removed, held by {ann.name})" in ben.bash("git clean -qfdX")
    ann.end()
    assert ann.board.holds.list() == []


def test_the_end_frees_everything_and_keeps_the_claims(claude: Start) -> None:
    ann = claude("ann")
    ann.board.tasks.claim(ref="login")
    ann.board.holds.take(resources=["lock:db"])
    ann.edit("a.py", "one", "ONE")
    ann.end()
    assert ann.board.holds.list() == []
    assert ann.board.tasks.get(ref="login").state == "claimed"
    assert [agent.status for agent in ann.board.agents.list()] == ["gone"]


def test_a_resumed_session_is_the_same_agent_and_has_not_forgotten_what_it_read(claude: Start) -> None:
    from .actors import Denied, put

    ann = claude("ann")
    ann.read("a.py")
    ann.end()
    put(ann.cwd / "a.py", "changed meanwhile\n")
    again = claude("ann")
    with pytest.raises(Denied, match="was changed since you last saw it"):
        again.write("a.py", "one\n")
