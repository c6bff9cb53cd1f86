"""Codex, Cursor and Gemini CLI by examples in their own formats: each is refused in the words that it understands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tiebreak.agent_words import are_two_words
from tiebreak.guard.client_hooks import respond
from tiebreak.guard.hook_call import Answer

from .actors import Claude, put

if TYPE_CHECKING:
    from tiebreak.engine.protocol import Engine

Start = Callable[..., Claude]
PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-one\n+ONE\n*** Add File: src/new.py\n+new\n*** End Patch\n"

CODEX: dict[str, Any] = {
    "session_id": "0199a213-81c0-7800-8aa1-bbab2a035a53",
    "transcript_path": "/home/dana/.codex/sessions/2026/11/16/rollout.jsonl",
    "model": "gpt-5.5-codex",
    "permission_mode": "default",
    "turn_id": "turn-7",
}
CURSOR: dict[str, Any] = {
    "conversation_id": "668320d2-2fd8-4888-b33c-2a466fec86e7",
    "generation_id": "490b90b7-a2ce-4c2c-bb76-cb77b125df2f",
    "model": "composer-2",
    "cursor_version": "2.6.1",
    "user_email": "dana@example.org",
    "transcript_path": None,
}
GEMINI: dict[str, Any] = {
    "session_id": "7f3a2c52-0d0e-4ef1-a1cc-5ab8ff6d1f11",
    "transcript_path": "/home/dana/.gemini/tmp/x/chats/session.json",
    "timestamp": "2026-11-16T01:02:03.000Z",
}


def ask(engine: Engine, client: str, event: str, data: dict[str, Any]) -> Answer:
    return respond(client, event, json.dumps({"hook_event_name": event, **data}).encode(), lambda: engine)


def before(engine: Engine, repo: Path, client: str, **more: Any) -> Answer:
    """Each client's own words for: may I edit a.py?"""
    if client == "codex":
        given = {"tool_name": "apply_patch", "tool_input": {"command": PATCH}, "tool_use_id": "call_1"}
        return ask(engine, client, "PreToolUse", {**CODEX, "cwd": str(repo), **given, **more})
    if client == "cursor":
        given = {"tool_name": "Write", "tool_input": {"file_path": str(repo / "a.py"), "content": "ONE\n"}}
        place = {"workspace_roots": [str(repo)], "cwd": str(repo), "tool_use_id": "t1"}
        return ask(engine, client, "preToolUse", {**CURSOR, **place, **given, **more})
    given = {"tool_name": "replace", "tool_input": {"file_path": "a.py", "old_string": "one", "new_string": "ONE"}}
    return ask(engine, client, "BeforeTool", {**GEMINI, "cwd": str(repo), **given, **more})


def reason(client: str, answer: Answer) -> str:
    """Why not, where that client looks for it; "" when it was allowed."""
    assert (answer.code, answer.err) == (0, "")
    out = answer.out or {}
    if client == "codex":
        said = out.get("hookSpecificOutput", {})
        assert said.get("permissionDecision", "deny") == "deny"
        return str(said.get("permissionDecisionReason", ""))
    if client == "cursor":
        assert out.get("permission", "deny") == "deny"
        return str(out.get("agent_message", ""))
    assert out.get("decision", "deny") == "deny"
    return str(out.get("reason", ""))


CLIENTS = ["codex", "cursor", "gemini"]


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_free_is_held_and_let_pass_without_a_word(
    engine: Engine, repo: Path, claude: Start, client: str
) -> None:
    answer = before(engine, repo, client)
    assert reason(client, answer) == ""
    assert answer.out == ({} if client == "cursor" else None)  # Cursor wants JSON, whatever happens
    held = claude("ann").board.holds.list()
    wanted = {"file:a.py", "file:src/new.py"} if client == "codex" else {"file:a.py"}
    assert {hold.resource for hold in held} == wanted
    assert all(are_two_words(hold.holder or "") for hold in held)


@pytest.mark.parametrize("client", CLIENTS)
def test_what_claude_holds_is_refused_in_each_clients_own_format(
    engine: Engine, repo: Path, claude: Start, client: str
) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "1")
    assert f"a.py is held by {ann.name}" in reason(client, before(engine, repo, client))


def test_a_patch_is_held_as_a_whole_or_not_at_all(engine: Engine, repo: Path, claude: Start) -> None:
    ann = claude("ann")
    ann.write("src/new.py", "mine\n")
    assert "src/new.py is held by" in reason("codex", before(engine, repo, "codex"))
    assert [hold.resource for hold in ann.board.holds.list()] == ["file:src/new.py"]


def test_codex_which_has_no_reading_tool_sees_a_change_by_being_refused(engine: Engine, repo: Path) -> None:
    assert reason("codex", before(engine, repo, "codex")) == ""
    given = {"tool_name": "apply_patch", "tool_input": {"command": PATCH}, "tool_use_id": "call_1"}
    put(repo / "a.py", "ONE\ntwo\n")
    ask(engine, "codex", "PostToolUse", {**CODEX, "cwd": str(repo), **given, "tool_response": "Success."})
    put(repo / "a.py", "ONE\ntwo\nthree\n")
    assert "+three" in reason("codex", before(engine, repo, "codex"))
    assert reason("codex", before(engine, repo, "codex")) == ""


@pytest.mark.parametrize("client", ["cursor", "gemini"])
def test_a_reading_tool_is_noticed(engine: Engine, repo: Path, client: str) -> None:
    if client == "cursor":
        given: dict[str, Any] = {"tool_name": "Read", "tool_input": {"file_path": str(repo / "a.py")}, "duration": 3}
        place = {"workspace_roots": [str(repo)], "cwd": str(repo)}
        ask(engine, client, "postToolUse", {**CURSOR, **place, **given, "tool_output": "{}"})
    else:
        given = {"tool_name": "read_file", "tool_input": {"absolute_path": str(repo / "a.py")}}
        response = {"llmContent": "one\ntwo\n", "returnDisplay": ""}
        ask(engine, client, "AfterTool", {**GEMINI, "cwd": str(repo), **given, "tool_response": response})
    put(repo / "a.py", "changed\n")
    assert "-one" in reason(client, before(engine, repo, client))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_command_that_changed_files_is_reported_where_the_client_looks(
    engine: Engine, repo: Path, client: str
) -> None:
    names = {"codex": ("PreToolUse", "PostToolUse", "Bash"), "cursor": ("preToolUse", "postToolUse", "Shell")}
    first, last, tool = names.get(client, ("BeforeTool", "AfterTool", "run_shell_command"))
    common = {"codex": CODEX, "cursor": {**CURSOR, "workspace_roots": [str(repo)]}, "gemini": GEMINI}[client]
    number = {} if client == "gemini" else {"tool_use_id": "t"}
    given = {"tool_name": tool, "tool_input": {"command": "sed -i s/one/1/ a.py"}, **number}
    ask(engine, client, first, {**common, "cwd": str(repo), **given})
    put(repo / "a.py", "1\ntwo\n")
    out = ask(engine, client, last, {**common, "cwd": str(repo), **given, "tool_response": {}}).out or {}
    told = out["additional_context"] if client == "cursor" else out["hookSpecificOutput"]["additionalContext"]
    assert "while that command ran, a.py changed; you hold them now" in told


@pytest.mark.parametrize("client", CLIENTS)
def test_a_session_is_told_who_it_is(engine: Engine, repo: Path, client: str) -> None:
    common = {"codex": CODEX, "cursor": {**CURSOR, "session_id": CURSOR["conversation_id"]}, "gemini": GEMINI}[client]
    event = "sessionStart" if client == "cursor" else "SessionStart"
    out = ask(engine, client, event, {**common, "cwd": str(repo), "source": "startup"}).out or {}
    told = out["additional_context"] if client == "cursor" else out["hookSpecificOutput"]["additionalContext"]
    assert are_two_words(told.partition("you are ")[2].split()[0])


@pytest.mark.parametrize(("client", "event"), [("codex", "Stop"), ("cursor", "stop"), ("gemini", "AfterAgent")])
def test_open_claims_are_called_to_mind_at_the_end_of_a_turn(
    engine: Engine, repo: Path, client: str, event: str
) -> None:
    from tiebreak import Board
    from tiebreak.guard.client_hooks import client_module
    from tiebreak.guard.hook_context import agent_of
    from tiebreak.project_identity import project_names

    common = {"codex": CODEX, "cursor": CURSOR, "gemini": GEMINI}[client]
    data = {**common, "cwd": str(repo), "hook_event_name": event, "status": "completed", "loop_count": 0}
    me = agent_of(client_module(client).understand(data, event), {})
    Board(engine, agent=me, project=project_names(str(repo))).tasks.claim(ref="login")
    out = ask(engine, client, event, data).out or {}
    assert '#1 "login"' in (out.get("reason") or out["followup_message"])
    assert out.get("decision", "block") == ("deny" if client == "gemini" else "block")


def test_cursor_running_the_hooks_of_claude_does_not_act_twice(
    engine: Engine, repo: Path, claude: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo)
    ann = claude("ann")
    ann.edit("a.py", "one", "1")
    given = {"tool_name": "Write", "tool_input": {"file_path": str(repo / "a.py")}, "workspace_roots": [str(repo)]}
    foreign = {**CURSOR, "cwd": str(repo), **given}
    # Without hooks of its own, those of Claude Code are all that Cursor has: they decide, in Cursor's words.
    assert "is held by" in reason("cursor", ask(engine, "claude", "PreToolUse", foreign))
    put(
        repo / ".cursor" / "hooks.json",
        '{"version": 1, "hooks": {"preToolUse": [{"command": "tb hook cursor preToolUse"}]}}',
    )
    assert ask(engine, "claude", "PreToolUse", foreign).out is None
    assert "is held by" in reason("cursor", ask(engine, "cursor", "preToolUse", foreign))


def test_an_event_of_a_later_version_is_let_pass(engine: Engine, repo: Path) -> None:
    answer = ask(engine, "claude", "SomethingNew", {"session_id": "s", "cwd": str(repo)})
    assert (answer.out, answer.err, answer.code) == (None, "", 0)


@pytest.mark.parametrize(
    "head", ["  *** Update File: a.py", "*** Update File: src/b.py\n*** Move to: a.py", "*** Delete File: a.py \r"]
)
def test_no_spelling_of_a_patch_gets_past_a_hold(engine: Engine, repo: Path, claude: Start, head: str) -> None:
    claude("ann").edit("a.py", "one", "1")
    patch = f"*** Begin Patch\n*** Add File: src/new.py\n+new\n{head}\n@@\n-one\n+ONE\n*** End Patch\n"
    assert "a.py is held by" in reason("codex", before(engine, repo, "codex", tool_input={"command": patch}))


def test_a_tool_that_names_two_files_needs_both(engine: Engine, repo: Path, claude: Start) -> None:
    claude("ann").edit("a.py", "one", "1")
    given = {"file_path": str(repo / "src/b.py"), "path": str(repo / "a.py"), "content": "x"}
    assert "a.py is held by" in reason("cursor", before(engine, repo, "cursor", tool_input=given))
