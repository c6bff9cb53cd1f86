"""Codex: the hook format of Claude Code with other tools. It edits with patches and reads with the shell."""

from __future__ import annotations

import os

from ...errors import Invalid
from .. import hook_call
from ..hook_call import AFTER, BEFORE, EDIT, NOTHING, PERMISSION, PROMPT, START, STOP, SUBAGENT_STOP, HookCall
from . import claude

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = "codex"
READS = False
EVENTS = {
    "SessionStart": START,
    "UserPromptSubmit": PROMPT,
    "PreToolUse": BEFORE,
    "PermissionRequest": PERMISSION,
    "PostToolUse": AFTER,
    "Stop": STOP,
    "SubagentStop": SUBAGENT_STOP,
}
answer, SHOWS = claude.answer, claude.SHOWS
_SHELLS = ("Bash", "shell", "local_shell", "exec_command", "unified_exec", "write_stdin")
_HEADS = ("*** Add File:", "*** Update File:", "*** Delete File:", "*** Move to:")


def understand(data: dict[str, Any], event: str) -> HookCall:
    """The call that a hook's JSON describes."""
    call = hook_call.begin(NAME, EVENTS.get(event, NOTHING), data, "session_id")
    if call.phase in (BEFORE, AFTER):
        name, given = hook_call.text(data, "tool_name", needed=True), hook_call.mapping(data, "tool_input")
        if name in ("apply_patch", "Edit", "Write"):
            call.tool, call.writes = EDIT, _patched(call, given)
            call.paths = list(call.writes)
        elif name in _SHELLS or (name.startswith("mcp__") and not name.startswith("mcp__tiebreak__")):
            hook_call.command(call, name, given)
    elif call.phase == PERMISSION:
        call.asks = hook_call.use_of(data)
    return call


def _patched(call: HookCall, given: dict[str, Any]) -> dict[str, str]:
    """The files that a patch names, and the lines that it adds to each of them."""
    patch = given.get("command", given.get("patch", given.get("input")))
    if isinstance(patch, list):  # ["apply_patch", TEXT]
        patch = patch[-1] if patch else None
    if not isinstance(patch, str):
        raise Invalid("hook input: the patch is not text")
    added: dict[str, list[str]] = {}
    path = ""
    for line in map(str.strip, patch.split("\n")):  # Codex accepts blanks before the names
        head = next((each for each in _HEADS if line.startswith(each)), None)
        if head is not None:
            path = line[len(head) :].strip()
            added.setdefault(path, [])
        elif path and line.startswith("+"):
            added[path].append(line[1:])
    if not added or len(added) > hook_call.MOST_PATHS or not all(added) or "\0" in patch:
        raise Invalid("hook input: the patch names no file, or too many")
    return {os.path.join(call.cwd, path): "\n".join(lines) for path, lines in added.items()}


# ── For `tb init` ────────────────────────────────────────────────────────────────────────────────────

MARKS = (".codex",)
PROGRAMS = ("codex",)
HOMES = (".codex",)
SKILLS = ""
DESKTOP = False


def files(*, tools: bool = True) -> list[tuple[str, str, Any]]:
    """Its settings files: the path, how to merge, and what must be in it; `tools` are those of the MCP server."""
    matchers = {"PreToolUse": "Bash|apply_patch|mcp__.*", "PostToolUse": "Bash|apply_patch|mcp__.*"}
    server = (".codex/config.toml", "toml", '[mcp_servers.tiebreak]\ncommand = "tb"\nargs = ["mcp"]\n')
    return [
        *([server] if tools else []),
        (".codex/hooks.json", "json", {"hooks": claude.groups(NAME, EVENTS, matchers, timeout=60)}),
    ]
