"""Cursor: its own names for events, `permission: deny` for a refusal, and always an answer in JSON.

Cursor also runs the hooks in Claude Code's settings, with Cursor's JSON. `has_own_hooks` tells whether tiebreak is in
Cursor's own settings too, so that an edit is not checked twice.
"""

from __future__ import annotations

import os

from .. import hook_call
from ..hook_call import (
    AFTER,
    BEFORE,
    EDIT,
    END,
    NOTHING,
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

NAME = "cursor"
READS = True
SHOWS = (START, AFTER)
EVENTS = {
    "sessionStart": START,
    "beforeSubmitPrompt": PROMPT,
    "preToolUse": BEFORE,
    "postToolUse": AFTER,
    "postToolUseFailure": AFTER,
    "stop": STOP,
    "subagentStop": SUBAGENT_STOP,
    "sessionEnd": END,
}
_EDITS = ("Write", "Edit", "MultiEdit", "StrReplace", "Delete", "NotebookEdit", "EditNotebook")
_READS = ("Read", "ReadFile")
_SHELLS = ("Shell", "Bash")


def understand(data: dict[str, Any], event: str) -> HookCall:
    """The call that a hook's JSON describes; Claude Code's names for events are understood too."""
    event = event if event in EVENTS else event[:1].lower() + event[1:]
    event = "beforeSubmitPrompt" if event == "userPromptSubmit" else event
    call = hook_call.begin(NAME, EVENTS.get(event, NOTHING), data, "conversation_id", "session_id")
    if call.phase in (BEFORE, AFTER):
        _tool(call, data, failed=event == "postToolUseFailure")
    call.reminded = isinstance(data.get("loop_count"), int) and data["loop_count"] > 0
    return call


def _tool(call: HookCall, data: dict[str, Any], failed: bool) -> None:
    name, given = hook_call.text(data, "tool_name", needed=True), hook_call.mapping(data, "tool_input")
    if name in _EDITS:
        call.tool, call.replaces_file, call.has_failed = EDIT, name == "Write", failed
        call.paths = hook_call.files(call, given)
        call.writes = hook_call.writes(call, given)
    elif name in _READS and not failed:
        call.tool, call.paths = READ, hook_call.files(call, given)
    elif name in _SHELLS or name.startswith("MCP:"):
        hook_call.command(call, name, given)


def answer(call: HookCall, event: str, verdict: Verdict) -> Answer:
    """The verdict in the client's format."""
    out: dict[str, Any] = {}
    if verdict.deny and call.phase == BEFORE:
        out = {"permission": "deny", "user_message": verdict.deny.split("\n", 1)[0], "agent_message": verdict.deny}
    elif verdict.deny and call.phase in (STOP, SUBAGENT_STOP):
        out = {"followup_message": verdict.deny}
    elif verdict.context and call.phase in SHOWS:
        out = {"additional_context": verdict.context}
    if verdict.environ and call.phase == START:
        out["env"] = verdict.environ
    return Answer(out, verdict.warning)


def has_own_hooks(data: dict[str, Any]) -> bool:
    """Whether Cursor's settings, of the project or of the user, call `tb hook`."""
    roots = data.get("workspace_roots")
    folders = [root for root in roots if isinstance(root, str)] if isinstance(roots, list) else []
    for folder in [*folders, os.getcwd(), os.path.expanduser("~")]:
        try:
            with open(os.path.join(folder, ".cursor", "hooks.json"), encoding="utf-8", errors="replace") as file:
                if f"tb hook {NAME}" in file.read(1 << 20):
                    return True
        except (OSError, ValueError):
            pass  # no hooks here
    return False


# ── For `tb init` ────────────────────────────────────────────────────────────────────────────────────

MARKS = (".cursor", ".cursorrules")
PROGRAMS = ("cursor", "cursor-agent")
HOMES = (".cursor",)
SKILLS = ""
DESKTOP = True


def files(*, tools: bool = True) -> list[tuple[str, str, Any]]:
    """Its settings files: the path, how to merge, and what must be in it; `tools` are those of the MCP server."""
    made = {event: [{"command": f"tb hook {NAME} {event}", "timeout": 60}] for event in EVENTS}
    servers = (".cursor/mcp.json", "json", {"mcpServers": {"tiebreak": {"command": "tb", "args": ["mcp"]}}})
    return [
        *([servers] if tools else []),
        (".cursor/hooks.json", "json", {"version": 1, "hooks": made}),
    ]
