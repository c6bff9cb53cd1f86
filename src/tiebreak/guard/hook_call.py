"""One call of a client's hook, in a form that is the same for all clients, and the answer to it.

Each client's module turns that client's JSON into a `HookCall`, and a `Verdict` back into the client's answer. A value
of the wrong type raises `Invalid` here, so malformed input is never mistaken for "nothing to guard".
"""

from __future__ import annotations

import os

from ..errors import Invalid
from ..names import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

START, PROMPT, BEFORE, AFTER, STOP, SUBAGENT_STOP, END, NOTHING = (
    *("start", "prompt", "before", "after", "stop", "subagent-stop", "end", "nothing"),
)
EDIT, READ, SHELL, OTHER = "edit", "read", "shell", "other"

PATHS = ("file_path", "notebook_path", "path", "absolute_path", "target_file", "filePath")
"""What tools call the file that they work on."""
MOST_PATHS = 200


class HookCall:
    """One event of a session: who, where, what."""

    __slots__ = (
        "client",
        "cwd",
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
    )

    def __init__(self, client: str, phase: str, session: str, cwd: str) -> None:
        self.client = client
        self.phase = phase
        """`START` to `NOTHING`."""
        self.session = session
        self.cwd = cwd
        self.subagent = ""
        """The client's id of the sub-agent, if it is one."""
        self.tool = OTHER
        self.tool_use = ""
        """The client's id of this use of a tool: the same before and after."""
        self.paths: list[str] = []
        self.shown: str | None = None
        """What a reading tool showed, if the client tells."""
        self.replaces_file = False
        """Whether the tool replaces a file without looking at what is in it."""
        self.seconds = 0.0
        """How long the tool may run, if the client said so."""
        self.reminded = False
        """Whether this stop comes after a reminder already."""


class Verdict:
    """What is decided: nothing to say, a refusal with its reason, or something that the agent should know."""

    __slots__ = ("context", "deny", "environ", "warning")

    def __init__(self, deny: str = "", context: str = "", warning: str = "") -> None:
        self.deny = deny
        self.context = context
        self.warning = warning
        """For the person, not for the agent."""
        self.environ: dict[str, str] = {}
        """What the session's later commands should find in their environment, where a client offers that."""


class Answer:
    """What a hook process says: standard output, standard error, exit code."""

    __slots__ = ("code", "err", "out")

    def __init__(self, out: dict[str, Any] | None = None, err: str = "", code: int = 0) -> None:
        self.out = out
        self.err = err
        self.code = code


def text(data: dict[str, Any], *names: str, needed: bool = False) -> str:
    """The first of these that is there; `Invalid` when it is no text."""
    for name in names:
        value = data.get(name)
        if value is None:
            continue
        if not isinstance(value, str):
            raise Invalid(f"hook input: {name} is not text but {shown(value)}")
        if "\0" in value or (len(value) > 1 << 20 and name in PATHS):
            raise Invalid(f"hook input: {name} is no usable text")
        return value
    if needed:
        raise Invalid(f"hook input: {' or '.join(names)} is missing")
    return ""


def mapping(data: dict[str, Any], name: str) -> dict[str, Any]:
    """A member that is an object; empty when it is missing."""
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
    """The call with what every event has: the session, the folder, the sub-agent."""
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


def _first(roots: Any) -> str:
    if not isinstance(roots, list) or not roots:
        return ""
    return text({"workspace_roots": roots[0]}, "workspace_roots")


def files(call: HookCall, given: dict[str, Any]) -> list[str]:
    """The absolute paths that a tool works on; `Invalid` for a tool that needs one and names none.

    A tool has one, but which of several names it heeds is its own affair: all of them count.
    """
    text(given, *PATHS, needed=True)
    found = [text(given, name) for name in PATHS if given.get(name) is not None]
    if not all(found):
        raise Invalid("hook input: the tool names no file")
    return [os.path.join(call.cwd, os.path.expanduser(path)) for path in dict.fromkeys(found)]


def quoted(words: str, width: int) -> str:
    """What another agent wrote, in quotes that it cannot close: it is shown as theirs."""
    from ..text import cut, plain

    return '"' + cut(plain(words).replace('"', "'"), width) + '"'


def duration(given: dict[str, Any]) -> float:
    """The seconds that a tool may run: its `timeout`, in milliseconds."""
    value = given.get("timeout")
    return min(float(value) / 1000, 86_400.0) if isinstance(value, (int, float)) and value > 0 else 0.0
