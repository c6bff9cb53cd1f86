"""Permission prompts: whoever watches sees that an agent stands still, and never that one does which goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tiebreak.guard.client_hooks import respond

from .actors import Claude

if TYPE_CHECKING:
    from tiebreak.engine.protocol import Engine

Start = Callable[..., Claude]
SECRET = {"command": "curl -H 'Authorization: Bearer hunter2' https://example.org"}


def prompts(agent: Claude) -> list[str]:
    return [need.name for need in agent.board.overview.needs() if need.kind == "permission"]


def test_an_agent_at_a_prompt_is_seen_and_its_client_still_asks_the_person(claude: Start) -> None:
    ann, bob = claude("s-ann"), claude("s-bob")
    said = ann.say("PermissionRequest", tool_name="Bash", tool_input=SECRET)
    assert said == {}  # no decision: the person decides
    assert prompts(bob) == ["wants to use Bash"]


def test_nothing_of_what_a_tool_is_given_reaches_the_board(claude: Start, tmp_path: Path) -> None:
    ann = claude("s-ann")
    ann.say("PermissionRequest", tool_name="Bash", tool_input=SECRET)
    assert all("hunter2" not in str(event) for event in ann.board.events.read(project=None, limit=1000))


@pytest.mark.parametrize(
    ("event", "more"),
    [
        ("PostToolUse", {"tool_name": "Bash", "tool_input": SECRET, "tool_use_id": "t1", "tool_response": {}}),
        ("UserPromptSubmit", {"prompt": "go on"}),
        ("Stop", {"stop_hook_active": False}),
        ("SessionEnd", {"reason": "exit"}),
    ],
)
def test_a_prompt_is_over_as_soon_as_the_agent_goes_on(claude: Start, event: str, more: dict[str, Any]) -> None:
    ann, bob = claude("s-ann"), claude("s-bob")
    ann.say("PermissionRequest", tool_name="Bash", tool_input=SECRET)
    ann.say(event, **more)
    assert prompts(bob) == []


def test_the_end_of_a_prompt_is_told_once(claude: Start) -> None:
    ann = claude("s-ann")
    ann.say("PermissionRequest", tool_name="Bash", tool_input=SECRET)
    ann.say("UserPromptSubmit", prompt="go on")
    ann.bash("true")
    assert len(ann.board.events.read(event="agent.resumed")) == 1


def test_a_tool_that_begins_beside_a_prompt_does_not_end_it(claude: Start) -> None:
    ann, bob = claude("s-ann"), claude("s-bob")
    ann.say("PermissionRequest", tool_name="WebFetch", tool_input={"url": "https://example.org"})
    ann.say("PreToolUse", tool_name="Bash", tool_input={"command": "ls"}, tool_use_id="t2")
    assert prompts(bob) == ["wants to use WebFetch"]


def test_an_agent_without_a_prompt_writes_nothing_about_prompts(claude: Start) -> None:
    ann = claude("s-ann")
    ann.bash("true")
    assert ann.board.events.read(event="agent.resumed") == []


def test_the_name_of_a_tool_cannot_write_to_a_terminal(claude: Start) -> None:
    ann = claude("s-ann")
    ann.say("PermissionRequest", tool_name="Bash\x1b[2J" + "x" * 500, tool_input={})
    [name] = prompts(ann)
    assert "\x1b" not in name
    assert len(name) < 150


@pytest.mark.parametrize(
    ("client", "event", "more", "expected"),
    [
        ("codex", "PermissionRequest", {"tool_name": "Bash", "tool_input": SECRET}, ["wants to use Bash"]),
        ("gemini", "Notification", {"notification_type": "ToolPermission"}, ["wants to use a tool"]),
        ("gemini", "Notification", {"notification_type": "Other"}, []),
    ],
)
def test_the_prompts_of_other_clients_are_seen_too(
    claude: Start, engine: Engine, client: str, event: str, more: dict[str, Any], expected: list[str]
) -> None:
    ann = claude("s-ann")
    data = {"session_id": "s-other", "cwd": str(ann.cwd), "hook_event_name": event, **more}
    answer = respond(client, event, json.dumps(data).encode(), lambda: engine)
    assert (answer.code, answer.out) == (0, None)
    assert prompts(ann) == expected
