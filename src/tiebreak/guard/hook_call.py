"""One call of a client's hook, in a form that is the same for all clients, and the answer to it.

Each client's module turns that client's JSON into a `HookCall`, and a `Verdict` back into the client's answer. A value
of the wrong type raises `Invalid` here, so malformed input is never mistaken for "nothing to guard".
"""

from __future__ import annotations

import os

from ..errors import Invalid, TiebreakError
from ..limits import DAY
from ..names import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

START, PROMPT, BEFORE, PERMISSION, AFTER, STOP, SUBAGENT_STOP, END, NOTHING = (
    *("start", "prompt", "before", "permission", "after", "stop", "subagent-stop", "end", "nothing"),
)
EDIT, READ, SHELL, OTHER = "edit", "read", "shell", "other"

PATHS = ("file_path", "notebook_path", "path", "absolute_path", "target_file", "filePath")
"""The names that tools have for the parameter with the file's path."""
MOST_PATHS = 200


class HookCall:
    """One call of a hook: which session, where, and what is about to happen or has happened."""

    __slots__ = (
        "asks",
        "client",
        "cwd",
        "has_failed",
        "is_partial",
        "paths",
        "phase",
        "reminded",
        "replaces_file",
        "seconds",
        "session",
        "shown",
        "subagent",
        "tool",
        "tool_use",
        "writes",
    )

    def __init__(self, client: str, phase: str, session: str, cwd: str) -> None:
        self.client = client
        self.phase = phase
        """One of `START` to `NOTHING`."""
        self.session = session
        self.cwd = cwd
        self.subagent = ""
        """The client's id of the sub-agent; "" for the main agent."""
        self.asks = ""
        """What the client asks a person to permit, in a few words."""
        self.tool = OTHER
        self.tool_use = ""
        """The client's id of this use of a tool, the same before and after it; without one, what a command is given."""
        self.has_failed = False
        """Whether a tool for edits has changed nothing."""
        self.paths: list[str] = []
        self.shown: str | None = None
        """What a reading tool showed to the agent, if the client says so."""
        self.is_partial = False
        """Whether a reading tool showed only a part of the file."""
        self.writes: dict[str, str] = {}
        """The text that a tool for edits puts into each of `paths`, where the client says so."""
        self.replaces_file = False
        """Whether the tool replaces the whole file, whatever it contains."""
        self.seconds = 0.0
        """How long the tool may run; 0 if the client does not say."""
        self.reminded = False
        """Whether the agent stops again after a reminder."""


class Verdict:
    """The decision about a call: nothing to say, a refusal with its reason, or context for the agent."""

    __slots__ = ("context", "deny", "environ", "warning", "when_told")

    def __init__(self, deny: str = "", context: str = "", warning: str = "") -> None:
        self.deny = deny
        self.context = context
        self.warning = warning
        """Shown to the person, not to the agent."""
        self.environ: dict[str, str] = {}
        """Environment variables for the session's later commands, if the client supports that."""
        self.when_told: list[Callable[[], None]] = []
        """What to do when the agent has been told: until then nothing is forgotten, because the hook may be killed."""


class Answer:
    """What the hook process prints, and its exit code."""

    __slots__ = ("code", "err", "out", "when_told")

    def __init__(self, out: dict[str, Any] | None = None, err: str = "", code: int = 0) -> None:
        self.out = out
        self.err = err
        self.code = code
        self.when_told: list[Callable[[], None]] = []

    def was_given(self) -> None:
        """The client has the answer, so what it tells need not be kept any longer."""
        for each in self.when_told:
            try:
                each()
            except TiebreakError:
                pass  # then it is told again


def text(data: dict[str, Any], *names: str, needed: bool = False) -> str:
    """The first of these members that is present; raises `Invalid` if it is not a string."""
    for name in names:
        value = data.get(name)
        if value is None:
            continue
        if not isinstance(value, str):
            raise Invalid(f"hook input: {name} is not text but {shown(value)}")
        if "\0" in value or (len(value) > 1 << 20 and name in PATHS):
            raise Invalid(f"hook input: {name} has a NUL character, or is too long")
        return value
    if needed:
        raise Invalid(f"hook input: {' or '.join(names)} is missing")
    return ""


def mapping(data: dict[str, Any], name: str) -> dict[str, Any]:
    """A member that is an object; {} when it is missing."""
    value = data.get(name)
    if value is None:
        return {}
    if isinstance(value, str):  # some clients send an object as its JSON text
        from ..text import read_json

        try:
            value = read_json(value)
        except ValueError:
            value = None
    if not isinstance(value, dict):
        raise Invalid(f"hook input: {name} is not an object")
    return value


def begin(client: str, phase: str, data: dict[str, Any], *session: str) -> HookCall:
    """A call with the members that every event has: session, folder, sub-agent."""
    folder = text(data, "cwd") or _first(data.get("workspace_roots")) or os.getcwd()
    call = HookCall(client, phase, text(data, *session, needed=True), folder)
    if not call.session.strip() or len(call.session) > 1000:
        raise Invalid("hook input: the session's id is empty or too long")
    if not os.path.isabs(folder):
        raise Invalid("hook input: cwd is not absolute")
    call.subagent = text(data, "agent_id", "subagent_id")
    call.tool_use = text(data, "tool_use_id", "tool_call_id")
    call.reminded = data.get("stop_hook_active") is True
    return call


def use_of(data: dict[str, Any]) -> str:
    """What a request for permission is about. Only the tool is named: what it is given may be secret."""
    from ..text import cut, plain

    return f"wants to use {cut(plain(text(data, 'tool_name', needed=True)), 100)}"


def _first(roots: Any) -> str:
    if not isinstance(roots, list) or not roots:
        return ""
    return text({"workspace_roots": roots[0]}, "workspace_roots")


def files(call: HookCall, given: dict[str, Any]) -> list[str]:
    """The absolute paths that a tool works on; raises `Invalid` if it names none.

    A tool works on one file. If its input has several path members, it is unknown which one it uses, so all count.
    """
    text(given, *PATHS, needed=True)
    found = [text(given, name) for name in PATHS if given.get(name) is not None]
    if not all(found):
        raise Invalid("hook input: the tool names no file")
    return [os.path.join(call.cwd, os.path.expanduser(path)) for path in dict.fromkeys(found)]


NEW_TEXTS = ("content", "contents", "new_string", "newString")
"""The names that tools have for the parameter with the text that they put into the file."""


def writes(call: HookCall, given: dict[str, Any]) -> dict[str, str]:
    """What a tool for edits puts into its files; they are more than one only where it is unknown which one it uses."""
    edits = given.get("edits")
    parts = [given, *(each for each in edits if isinstance(each, dict))] if isinstance(edits, list) else [given]
    texts = [part[name] for part in parts for name in NEW_TEXTS if isinstance(part.get(name), str)]
    return dict.fromkeys(call.paths, "\n".join(texts))


def quoted(words: str, width: int) -> str:
    """What another agent wrote, in quotes that it cannot close, so that it is not mistaken for an instruction."""
    from ..text import cut, plain

    return '"' + cut(plain(words).replace('"', "'"), width) + '"'


def command(call: HookCall, name: str, given: dict[str, Any]) -> None:
    """The call is about a shell command, or a tool of an MCP server, which may do the same."""
    call.tool, call.seconds = SHELL, _duration(given)
    if not call.tool_use:  # some clients have no ids
        call.tool_use = f"{name} {given!r}"


def _duration(given: dict[str, Any]) -> float:
    """The seconds that a tool may run, from its `timeout` in milliseconds."""
    value = given.get("timeout")
    return min(float(value) / 1000, DAY) if isinstance(value, (int, float)) and value > 0 else 0.0
