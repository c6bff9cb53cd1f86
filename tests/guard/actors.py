"""Scripted agents: they speak a client's hook JSON, and do to the disk what the client's tools would do."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiebreak import Board
from tiebreak.guard.client_hooks import _read, client_module, respond
from tiebreak.guard.commits.commit import commit
from tiebreak.guard.hook_call import Answer
from tiebreak.guard.hook_context import agent_of

if TYPE_CHECKING:
    from tiebreak.engine.protocol import Engine


def git(*words: str, cwd: Path, **more: Any) -> str:
    """Run git, which has to succeed."""
    done = subprocess.run(["git", *words], cwd=cwd, capture_output=True, text=True, check=False, timeout=60, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def repository(root: Path, files: dict[str, str]) -> Path:
    """A repository with one commit."""
    root.mkdir(parents=True)
    git("init", "--quiet", "--initial-branch=main", cwd=root)
    for key, value in (("user.name", "dana"), ("user.email", "dana@example.org"), ("commit.gpgsign", "false")):
        git("config", key, value, cwd=root)
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    git("add", "--all", cwd=root)
    git("commit", "--quiet", "--allow-empty", "-m", "begin", cwd=root)
    return root


class Denied(Exception):
    """The client was told not to use the tool."""

    @property
    def reason(self) -> str:
        """What the agent reads."""
        return str(self.args[0])


class Claude:
    """A session of Claude Code in a checkout, with its guard."""

    client = "claude"

    def __init__(self, session: str, cwd: Path, connect: Callable[[], Engine], part: str = "") -> None:
        self.session = session
        self.cwd = cwd
        self.connect = connect
        self.part = part
        self.uses = 0
        self.seen: dict[str, str] = {}

    # ── What the client says ─────────────────────────────────────────────────────────────────────────

    def fields(self, event: str, **more: Any) -> dict[str, Any]:
        """The JSON of an event."""
        own = {"agent_id": self.part, "agent_type": "general-purpose"} if self.part else {}
        return {
            "session_id": self.session,
            "transcript_path": f"/home/dana/.claude/projects/x/{self.session}.jsonl",
            "cwd": str(self.cwd),
            "permission_mode": "default",
            "hook_event_name": event,
            **own,
            **more,
        }

    def say(self, event: str, **more: Any) -> dict[str, Any]:
        """Send an event; the answer that the guard printed, {} for none."""
        answer = self.ask(event, json.dumps(self.fields(event, **more)).encode())
        assert answer.code == 0, answer.err
        return answer.out or {}

    def ask(self, event: str, given: bytes) -> Answer:
        """The guard's answer to a text."""
        answer = respond(self.client, event, given, self.connect)
        answer.was_given()
        return answer

    def tool(self, name: str, given: dict[str, Any], use: Callable[[], Any] = lambda: "ok") -> dict[str, Any]:
        """Use a tool as the client does: ask before, do it, tell afterwards. Raises `Denied`."""
        self.uses += 1
        number = f"toolu_{self.uses:06}"
        before = self.say("PreToolUse", tool_name=name, tool_input=given, tool_use_id=number)
        said = before.get("hookSpecificOutput", {})
        if said.get("permissionDecision") == "deny":
            raise Denied(said["permissionDecisionReason"])
        response = use()
        return self.say("PostToolUse", tool_name=name, tool_input=given, tool_use_id=number, tool_response=response)

    # ── What the agent does ──────────────────────────────────────────────────────────────────────────

    def start(self) -> str:
        """Begin; what the session is told."""
        return str(self.say("SessionStart", source="startup")["hookSpecificOutput"]["additionalContext"])

    def read(self, name: str) -> str:
        """The Read tool. No hook is asked before it."""
        content = (self.cwd / name).read_text()
        self.seen[name] = content
        file = {"filePath": str(self.cwd / name), "content": content, "numLines": 1, "startLine": 1, "totalLines": 1}
        response = {"type": "text", "file": file}
        given = {"file_path": str(self.cwd / name)}
        self.say("PostToolUse", tool_name="Read", tool_input=given, tool_use_id="r", tool_response=response)
        return content

    def write(self, name: str, content: str) -> None:
        """The Write tool: the file becomes what the agent thinks it should be."""
        path = self.cwd / name
        self.tool("Write", {"file_path": str(path), "content": content}, lambda: put(path, content))
        self.seen[name] = content

    def edit(self, name: str, old: str, new: str) -> None:
        """The Edit tool: it changes the file as it is."""
        path = self.cwd / name

        def use() -> str:
            changed = path.read_text().replace(old, new, 1) if old else path.read_text() + new
            return put(path, changed)

        self.tool("Edit", {"file_path": str(path), "old_string": old, "new_string": new}, use)
        self.seen[name] = path.read_text()

    def bash(self, command: str) -> str:
        """The Bash tool; what the agent is told about it."""

        def use() -> dict[str, Any]:
            done = subprocess.run(command, shell=True, cwd=self.cwd, capture_output=True, text=True, check=False)
            return {"stdout": done.stdout, "stderr": done.stderr}

        said = self.tool("Bash", {"command": command, "timeout": 120_000}, use)
        return str(said.get("hookSpecificOutput", {}).get("additionalContext", ""))

    def stop(self) -> str:
        """The end of a turn; why not to stop yet, or ""."""
        return str(self.say("Stop", stop_hook_active=False).get("reason", ""))

    def end(self) -> None:
        """The end of the session."""
        self.say("SessionEnd", reason="exit")

    # ── The same agent in its shell ──────────────────────────────────────────────────────────────────

    @property
    def agent(self) -> str:
        """Its id on the board."""
        data = _read(json.dumps(self.fields("PreToolUse", tool_name="x")).encode())
        return agent_of(client_module(self.client).understand(data, "PreToolUse"), os.environ)

    @property
    def name(self) -> str:
        """What others call it."""
        return self.agent.partition("~")[0]

    @property
    def board(self) -> Board:
        """The board as this agent sees it."""
        from tiebreak.project_identity import project_names

        return Board(self.connect(), agent=self.agent, project=project_names(str(self.cwd)))

    def commit(self, *names: str, message: str = "work", branch: str = "") -> dict[str, Any]:
        """`tb commit`."""
        return commit(self.board, str(self.cwd), str(self.cwd), list(names), message, branch)


def put(path: Path, content: str) -> str:
    """Write as a tool does: beside it first, then in its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(content)
    os.replace(partial, path)
    return "written"
