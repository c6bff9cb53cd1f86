"""Claude Code: its hook events, its tools, the format of a refusal, and its settings files.

A refusal is exit code 0 with `permissionDecision: deny`. An allowed edit prints nothing, which leaves the decision to
the user's usual permissions. Cursor runs Claude Code's hooks too; if Cursor has hooks of its own, these do nothing.
"""

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
    SUBAGENT_STOP,
    Answer,
    HookCall,
    Verdict,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = "claude"
READS = True
"""Whether it has a tool that reads files; after it, the agent knows the file's contents."""
SHOWS = (START, PROMPT, AFTER)
"""Where the agent can be told something."""
EVENTS = {
    "SessionStart": START,
    "UserPromptSubmit": PROMPT,
    "PreToolUse": BEFORE,
    "PermissionRequest": PERMISSION,
    "PostToolUse": AFTER,
    "PostToolUseFailure": AFTER,
    "Stop": STOP,
    "SubagentStop": SUBAGENT_STOP,
    "SessionEnd": END,
}
_EDITS = ("Edit", "MultiEdit", "Write", "NotebookEdit")
_READS = ("Read", "NotebookRead")
_SHELLS = ("Bash", "PowerShell", "BashOutput", "KillShell")


def understand(data: dict[str, Any], event: str) -> HookCall | None:
    """The call; None when Cursor's own hooks answer it."""
    if "cursor_version" in data or "conversation_id" in data:
        from . import cursor

        return None if cursor.has_own_hooks(data) else cursor.understand(data, event)
    call = hook_call.begin(NAME, EVENTS.get(event, NOTHING), data, "session_id")
    if call.phase in (BEFORE, AFTER):
        _tool(call, data, failed=event == "PostToolUseFailure")
    elif call.phase == PERMISSION:
        call.asks = hook_call.use_of(data)
    return call


def _tool(call: HookCall, data: dict[str, Any], failed: bool) -> None:
    name, given = hook_call.text(data, "tool_name", needed=True), hook_call.mapping(data, "tool_input")
    if name in _EDITS:
        call.tool, call.replaces_file, call.has_failed = EDIT, name == "Write", failed
        call.paths = hook_call.files(call, given)
        call.writes = hook_call.writes(call, given)
    elif name in _READS and not failed:
        call.tool, call.paths = READ, hook_call.files(call, given)
        call.shown = _shown(data)
        call.is_partial = _is_partial(data)
    elif name in _SHELLS or (name.startswith("mcp__") and not name.startswith("mcp__tiebreak__")):
        hook_call.command(call, name, given)


def _shown(data: dict[str, Any]) -> str | None:
    response = data.get("tool_response")
    file = response.get("file") if isinstance(response, dict) else None
    content = file.get("content") if isinstance(file, dict) else None
    return content if isinstance(content, str) else None


def _is_partial(data: dict[str, Any]) -> bool:
    """Whether the Read tool showed some lines of the file only, as its answer says."""
    response = data.get("tool_response")
    file = response.get("file") if isinstance(response, dict) else None
    lines, total = (file.get(name) for name in ("numLines", "totalLines")) if isinstance(file, dict) else (None, None)
    return isinstance(lines, int) and isinstance(total, int) and lines < total


def answer(call: HookCall, event: str, verdict: Verdict) -> Answer:
    """The verdict in the client's format."""
    out: dict[str, Any] = {}
    if verdict.deny and call.phase == BEFORE:
        decision = {"permissionDecision": "deny", "permissionDecisionReason": verdict.deny}
        out["hookSpecificOutput"] = {"hookEventName": event, **decision}
    elif verdict.deny:
        out.update(decision="block", reason=verdict.deny)
    elif verdict.context and call.phase in SHOWS:
        out["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": verdict.context}
    if verdict.warning:
        out["systemMessage"] = verdict.warning
    return Answer(out or None)


# ── For `tb init` ────────────────────────────────────────────────────────────────────────────────────

MARKS = (".claude", "CLAUDE.md", ".mcp.json")
PROGRAMS = ("claude",)
HOMES = (".claude",)
SKILLS = ".claude/skills"
DESKTOP = False
"""Whether it is an editor with a window, which takes its PATH from a login shell (`client_path`)."""


def files(*, tools: bool = True) -> list[tuple[str, str, Any]]:
    """Its settings files: the path, how to merge, and what must be in it; `tools` are those of the MCP server."""
    matchers = {"PreToolUse": "Edit|MultiEdit|Write|NotebookEdit|Bash|mcp__.*", "PostToolUse": "*"}
    servers = (".mcp.json", "json", {"mcpServers": {"tiebreak": {"command": "tb", "args": ["mcp"]}}})
    return [
        *([servers] if tools else []),
        (".claude/settings.json", "json", {"hooks": groups(NAME, EVENTS, matchers, timeout=60)}),
    ]


def groups(client: str, events: Any, matchers: dict[str, str], timeout: int) -> dict[str, Any]:
    """Hook settings in the format of Claude Code, which other clients use too."""
    made: dict[str, Any] = {}
    for event in events:
        hook = {"type": "command", "command": f"tb hook {client} {event}", "timeout": timeout}
        group = {"matcher": matchers[event]} if event in matchers else {}
        made[event] = [{**group, "hooks": [hook]}]
    return made
