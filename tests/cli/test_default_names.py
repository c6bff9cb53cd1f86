"""Agents that nobody named: one name on every way in, and two sessions of one name can be told apart."""

from __future__ import annotations

import json

import tiebreak
from tiebreak.agent_words import are_two_words

from .command import Tb


def test_shell_and_hook_of_one_session_say_the_same_two_words(tb: Tb) -> None:
    name = tb.json("whoami", env={"CLAUDE_SESSION_ID": "8a718ed2"})["agent"]
    assert are_two_words(name)
    call = json.dumps({"session_id": "8a718ed2", "cwd": str(tb.folder), "hook_event_name": "SessionStart"})
    assert f"you are {name} " in tb.ok("hook", "claude", "SessionStart", stdin=call)
    assert tb.json("whoami", env={"CLAUDE_SESSION_ID": "8a718ed3"})["agent"] != name


def test_two_sessions_with_the_same_words_are_told_apart(tb: Tb, board: tiebreak.Board) -> None:
    for agent in ("brave-otter~1", "brave-otter~2", "calm-heron~3"):
        board.call("agents.announce", {"agent": agent})
    shown = tb.ok("agents")
    assert "brave-otter~1" in shown
    assert "brave-otter~2" in shown
    assert "calm-heron " in shown
