"""Gemini CLI: hooks run before and after tools and turns; a refusal is `decision: deny` with its reason."""

from __future__ import annotations

from .. import hook_call
from ..hook_call import (
    AFTER,
    BEFORE,
    EDIT,
    END,
    NOTHING,
    PERMISSION,
    PROMPT,
    READ,
    START,
    STOP,
    Answer,
    HookCall,
    Verdict,
)
from .claude import groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = "gemini"
READS = True
SHOWS = (START, PROMPT, AFTER)
EVENTS = {
    "SessionStart": START,
    "BeforeAgent": PROMPT,
    "BeforeTool": BEFORE,
    "Notification": PERMISSION,
    "AfterTool": AFTER,
    "AfterAgent": STOP,
    "SessionEnd": END,
}
_EDITS = ("write_file", "replace", "edit")
_READS = ("read_file",)


def understand(data: dict[str, Any], event: str) -> HookCall:
    """The call that a hook's JSON describes."""
    call = hook_call.begin(NAME, EVENTS.get(event, NOTHING), data, "session_id")
    if call.phase in (BEFORE, AFTER):
        name, given = hook_call.text(data, "tool_name", needed=True), hook_call.mapping(data, "tool_input")
        if name in _EDITS:
            call.tool, call.replaces_file = EDIT, name == "write_file"
            call.paths = hook_call.files(call, given)
            call.writes = hook_call.writes(call, given)
        elif name in _READS:
            call.tool, call.paths = READ, hook_call.files(call, given)
        elif name == "run_shell_command" or (name.startswith("mcp_") and "tiebreak" not in name):
            hook_call.command(call, name, given)
    elif call.phase == PERMISSION:
        if hook_call.text(data, "notification_type") != "ToolPermission":
            call.phase = NOTHING  # it only tells something
        call.asks = "wants to use a tool"
    return call


def answer(call: HookCall, event: str, verdict: Verdict) -> Answer:
    """The verdict in the client's format."""
    out: dict[str, Any] = {}
    if verdict.deny:
        out = {"decision": "deny", "reason": verdict.deny}
    elif verdict.context and call.phase in SHOWS:
        out["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": verdict.context}
    if verdict.warning:
        out["systemMessage"] = verdict.warning
    return Answer(out or None)


# ── For `tb init` ────────────────────────────────────────────────────────────────────────────────────

MARKS = (".gemini", "GEMINI.md")
PROGRAMS = ("gemini",)
HOMES = (".gemini",)
SKILLS = ""
DESKTOP = False


def files(*, tools: bool = True) -> list[tuple[str, str, Any]]:
    """Its settings files: the path, how to merge, and what must be in it; `tools` are those of the MCP server."""
    matchers = {"BeforeTool": "write_file|replace|edit|run_shell_command|mcp_.*", "AfterTool": ".*"}
    servers = {"mcpServers": {"tiebreak": {"command": "tb", "args": ["mcp"]}}}
    hooks = {"hooks": groups(NAME, EVENTS, matchers, timeout=60_000)}
    return [(".gemini/settings.json", "json", {**(servers if tools else {}), **hooks})]
