"""What a hook keeps until it has been told: notes, and the marks of commands that have no id or no end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiebreak import Refused
from tiebreak.guard.agent_notes import leave_notes
from tiebreak.guard.agent_state import AgentState
from tiebreak.guard.client_hooks import respond
from tiebreak.guard.files.watched_files import quarantined, watched

from .actors import Claude, repository
from .test_overlapping_commands import RUN, begin

Start = Callable[..., Claude]
LINES = "".join(f"ann wrote line {each}, and nobody has committed it\n" for each in range(4))


def turn(agent: Claude) -> str:
    """A turn begins; what the agent is told."""
    said = agent.say("UserPromptSubmit", prompt="go on")
    return str(said.get("hookSpecificOutput", {}).get("additionalContext", ""))


# ── Commands without ids ─────────────────────────────────────────────────────────────────────────────


class Cursor(Claude):
    """A session of Cursor."""

    client = "cursor"


class Gemini(Claude):
    """A session of Gemini CLI, which gives its tools no ids (../clients/recordings)."""

    client = "gemini"

    def begin(self, words: str = "make") -> None:
        """The hook before a command."""
        self.say("BeforeTool", tool_name="run_shell_command", tool_input={"command": words})

    def finish(self, words: str = "make") -> str:
        """The hook after it; what the agent is told."""
        given = {"command": words}
        said = self.say("AfterTool", tool_name="run_shell_command", tool_input=given, tool_response={"llmContent": ""})
        return str(said.get("hookSpecificOutput", {}).get("additionalContext", ""))


def test_two_commands_alike_side_by_side_are_both_looked_at(ann: Claude, repo: Path) -> None:
    gem = Gemini("gem", repo, ann.connect)
    gem.begin()
    (repo / "a.py").unlink()
    gem.begin()
    assert "a.py (was removed" in gem.finish()
    (repo / "src/b.py").unlink()
    assert "src/b.py (was removed" in gem.finish()
    assert len(ann.board.messages.inbox()) == 2


def test_commands_without_ids_may_end_in_any_order(ann: Claude, repo: Path) -> None:
    gem = Gemini("gem", repo, ann.connect)
    gem.begin("make")
    (repo / "a.py").unlink()
    gem.begin("make test")
    assert gem.finish("make test") == ""  # it began later
    assert "a.py (was removed" in gem.finish("make")
    assert quarantined(str(repo / "a.py")) is not None


# ── Commands without an end ──────────────────────────────────────────────────────────────────────────


def test_all_commands_without_an_end_are_looked_at_wherever_they_ran(claude: Start, repo: Path, tmp_path: Path) -> None:
    other = repository(tmp_path / "other", {"x.py": "x\n"})
    ann, ben = claude("ann", other), claude("ben")
    ann.edit("x.py", "", LINES)
    begin(ben, "1")
    ben.cwd = other
    begin(ben, "2")
    (other / "copy.py").write_text("x\n" + LINES)
    (other / "new.py").write_text("made by ben\n")
    ben.cwd = repo
    told = turn(ben)
    assert "copy.py (from x.py" in told
    assert "new.py changed; you hold them now" in told
    ben.cwd = other
    assert [hold.resource for hold in ben.board.holds.list(agent=ben.name)] == ["file:new.py"]
    with pytest.raises(Refused, match=r"has lines that .* wrote in x\.py"):
        ben.commit("copy.py")


def test_a_command_after_which_the_session_is_elsewhere_takes_its_files_in_their_project(
    claude: Start, repo: Path, tmp_path: Path
) -> None:
    other, ben = repository(tmp_path / "other", {"x.py": "x\n"}), claude("ben")
    begin(ben)
    (repo / "new.py").write_text("made by ben\n")
    ben.cwd = other
    ben.say("PostToolUse", tool_name="Bash", tool_input={"command": "…"}, tool_use_id="1", tool_response={})
    assert ben.board.holds.list() == []
    ben.cwd = repo
    assert [hold.resource for hold in ben.board.holds.list()] == ["file:new.py"]
    assert watched(str(repo / "new.py")) is not None


# ── A hook that is killed before it prints its answer ────────────────────────────────────────────────


def unprinted(agent: Claude, event: str, **more: Any) -> str:
    """The answer of a hook that is killed when it is about to print it."""
    return str(respond(agent.client, event, json.dumps(agent.fields(event, **more)).encode(), agent.connect).out)


def test_a_note_that_was_not_printed_comes_with_the_next_hook(ann: Claude) -> None:
    leave_notes(AgentState(ann.agent), ["a note"])
    assert "a note" in unprinted(ann, "UserPromptSubmit", prompt="go on")
    begin(ann)
    assert "a note" in unprinted(ann, "PostToolUse", **RUN, tool_use_id="1", tool_response={})
    assert "a note" in turn(ann)
    assert turn(ann) == ""


def test_what_a_command_did_and_was_not_printed_is_told_at_the_next_turn(
    ann: Claude, claude: Start, repo: Path
) -> None:
    ben = claude("ben")
    begin(ben)
    (repo / "a.py").unlink()
    assert "a.py (was removed" in unprinted(ben, "PostToolUse", **RUN, tool_use_id="1", tool_response={})
    assert "a.py (was removed" in turn(ben)
    assert turn(ben) == ""
    assert len(ann.board.messages.inbox()) == 1


def test_a_note_waits_until_a_client_that_shows_none_at_prompts_can_show_it(ann: Claude, repo: Path) -> None:
    cursor = Cursor("cur", repo, ann.connect)
    leave_notes(AgentState(cursor.agent), ["a note"])
    given = {"tool_name": "Shell", "tool_input": {"command": "make"}, "tool_use_id": "1"}
    assert cursor.say("beforeSubmitPrompt", prompt="go on") == {}
    cursor.say("preToolUse", **given)
    assert "a note" in cursor.say("postToolUse", **given)["additional_context"]
    cursor.say("preToolUse", **given)
    assert cursor.say("postToolUse", **given) == {}
