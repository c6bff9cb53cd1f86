"""Cursor: events in its own spelling, `permission: deny`, an answer in JSON whatever happens.

It also runs the hooks of Claude Code (with its own JSON). `has_own_hooks` tells whether it has ours in its own file, so
that an edit is not decided twice.
"""

from __future__ import annotations

import os

from . import calls
from .calls import AFTER, BEFORE, EDIT, END, NOTHING, PART_STOP, PROMPT, READ, SHELL, START, STOP, Answer, Call, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = "cursor"
READS = True
EVENTS = {
    "sessionStart": START,
    "beforeSubmitPrompt": PROMPT,
    "preToolUse": BEFORE,
    "postToolUse": AFTER,
    "postToolUseFailure": AFTER,
    "stop": STOP,
    "subagentStop": PART_STOP,
    "sessionEnd": END,
}
_EDITS = ("Write", "Edit", "MultiEdit", "StrReplace", "Delete", "NotebookEdit", "EditNotebook")
_READS = ("Read", "ReadFile")
_SHELLS = ("Shell", "Bash")


def understand(data: dict[str, Any], event: str) -> Call:
    """The call; an event in the spelling of Claude Code counts too."""
    event = event if event in EVENTS else event[:1].lower() + event[1:]
    event = "beforeSubmitPrompt" if event == "userPromptSubmit" else event
    call = calls.begin(NAME, EVENTS.get(event, NOTHING), data, "conversation_id", "session_id")
    if call.what in (BEFORE, AFTER):
        _tool(call, data, failed=event == "postToolUseFailure")
    call.active = isinstance(data.get("loop_count"), int) and data["loop_count"] > 0
    return call


def _tool(call: Call, data: dict[str, Any], failed: bool) -> None:
    name, given = calls.text(data, "tool_name", needed=True), calls.mapping(data, "tool_input")
    if name in _EDITS and not failed:
        call.tool, call.whole = EDIT, name == "Write"
        call.paths = calls.files(call, given)
    elif name in _READS and not failed:
        call.tool, call.paths = READ, calls.files(call, given)
    elif name in _SHELLS or name.startswith("MCP:"):
        call.tool, call.seconds = SHELL, calls.duration(given)


def answer(call: Call, event: str, verdict: Verdict) -> Answer:
    """The verdict in its own format."""
    out: dict[str, Any] = {}
    if verdict.deny and call.what == BEFORE:
        out = {"permission": "deny", "user_message": verdict.deny.split("\n", 1)[0], "agent_message": verdict.deny}
    elif verdict.deny and call.what in (STOP, PART_STOP):
        out = {"followup_message": verdict.deny}
    elif verdict.context and call.what in (START, AFTER):
        out = {"additional_context": verdict.context}
    if verdict.environ and call.what == START:
        out["env"] = verdict.environ
    return Answer(out, verdict.warning)


def has_own_hooks(data: dict[str, Any]) -> bool:
    """Whether Cursor itself is told to call us, in the project or for this user."""
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


def files() -> list[tuple[str, str, Any]]:
    """What it reads: a file, how to merge, and what has to be in there."""
    made = {event: [{"command": f"tb hook {NAME} {event}", "timeout": 60}] for event in EVENTS}
    return [
        (".cursor/mcp.json", "json", {"mcpServers": {"tiebreak": {"command": "tb", "args": ["mcp"]}}}),
        (".cursor/hooks.json", "json", {"version": 1, "hooks": made}),
    ]
