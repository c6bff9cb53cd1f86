"""A stand-in for Claude Code: a process that lives as long as its session, and calls the hooks of a settings file.

It finds the hooks where the client finds them, in `.claude/settings.json` of the folder it was started in, runs each
command by a shell, and gives it the JSON and the variables that Claude Code 2.1.325 gives. It does not know tiebreak.
Installed under two names, it is used from a shell like this:

    agent ann starts                        a process called `claude` begins a session in this folder
    agent ann edits FILE TEXT               reads the file, asks the hooks, adds the text as a line; or says why not
    agent ann runs COMMAND                  in the session's shell, as the tool `Bash` does
    kill -9 "$(cat ~/ann.pid)"              ends it as a crash does
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PATIENCE = 60.0


class Denied(Exception):
    """A hook refused the use of a tool."""


class Session:
    """One session of the client."""

    def __init__(self, name: str, folder: Path, environ: Mapping[str, str] = os.environ) -> None:
        self.id = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
        self.folder = folder
        self.uses = 0
        own = {"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_CODE_SESSION_ID": self.id}
        own |= {"CLAUDE_PID": str(os.getpid()), "CLAUDE_PROJECT_DIR": str(folder)}
        self.environment = {**environ, **own}
        """What the client gives to its hooks and shells."""

    def say(self, event: str, **more: Any) -> list[dict[str, Any]]:
        """Call the hooks of an event as the settings file says; what they answer."""
        told = {
            "session_id": self.id,
            "transcript_path": f"{self.environment['HOME']}/.claude/projects/shop/{self.id}.jsonl",
            "cwd": str(self.folder),
            "hook_event_name": event,
            **more,
        }
        settings = json.loads((self.folder / ".claude/settings.json").read_text())
        matching = [each for each in settings["hooks"].get(event, []) if _matches(each, more.get("tool_name", ""))]
        return [self._call(hook, told) for each in matching for hook in each["hooks"]]

    def _call(self, hook: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
        done = subprocess.run(
            ["/bin/sh", "-c", hook["command"]],
            input=json.dumps(told),
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            timeout=hook["timeout"],
            start_new_session=True,
            check=False,
        )
        assert done.returncode == 0, f"{hook['command']} ended with {done.returncode}: {done.stderr}"
        return dict(json.loads(done.stdout)) if done.stdout.strip() else {}

    def use(self, tool: str, given: dict[str, Any], response: Any) -> Any:
        """Use a tool: ask before, do it, tell afterwards."""
        self.uses += 1
        named = {"permission_mode": "acceptEdits", "tool_name": tool, "tool_input": given}
        named["tool_use_id"] = f"toolu_{self.uses:022}"
        for answer in self.say("PreToolUse", **named):
            said = answer.get("hookSpecificOutput", {})
            if said.get("permissionDecision") == "deny":
                raise Denied(said["permissionDecisionReason"])
        result = response()
        self.say("PostToolUse", **named, tool_response=result, duration_ms=25)
        return result

    # ── What can be asked for ────────────────────────────────────────────────────────────────────────

    def starts(self) -> str:
        """Begin; what the session is told."""
        answers = self.say("SessionStart", source="startup")
        return "\n".join(str(each["hookSpecificOutput"]["additionalContext"]) for each in answers if each)

    def edits(self, name: str, line: str) -> str:
        """Add a line to a file, by the tools `Read` and `Edit`."""
        path = self.folder / name
        before = path.read_text()
        file = {"filePath": str(path), "content": before, "numLines": before.count("\n") + 1, "startLine": 1}
        shown = {"type": "text", "file": {**file, "totalLines": file["numLines"]}}
        self.use("Read", {"file_path": str(path)}, lambda: shown)
        after = f"{before}{line}\n"

        def write() -> dict[str, Any]:
            path.write_text(after)
            return {"filePath": str(path), "originalFile": before, "userModified": False, "replaceAll": False}

        given = {"file_path": str(path), "old_string": before, "new_string": after, "replace_all": False}
        self.use("Edit", given, write)
        return f"edited {name}"

    def runs(self, command: str) -> str:
        """Run a command by the tool `Bash`; what it printed, with its exit code if that is not 0."""

        def shell() -> dict[str, Any]:
            done = subprocess.run(
                ["/bin/bash", "-c", command],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                cwd=self.folder,
                env=self.environment,
                start_new_session=True,
                timeout=PATIENCE,
                check=False,
            )
            return {"stdout": done.stdout, "stderr": "", "interrupted": False, "code": done.returncode}

        result = self.use("Bash", {"command": command, "description": "as told"}, shell)
        if result["code"]:
            raise Denied(result["stdout"].rstrip("\n"))
        return str(result["stdout"].rstrip("\n"))


def _matches(entry: dict[str, Any], tool: str) -> bool:
    pattern = entry.get("matcher", "")
    return pattern in ("", "*") or re.fullmatch(pattern, tool) is not None


# ── The process `claude`, and the command `agent` that talks to it ───────────────────────────────────


def live(name: str) -> None:
    """Be the client: do what is asked for at the socket, one thing after another, until killed."""
    session = Session(name, Path.cwd())
    os.chdir(os.environ["HOME"])  # the path of a socket must be short
    Path(f"{name}.pid").write_text(str(os.getpid()))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{name}.socket")
        listening.listen()
        while True:
            caller, _ = listening.accept()
            with caller, caller.makefile("rw") as line:
                verb, *words = json.loads(line.readline())
                try:
                    answer = [0, getattr(session, verb)(*words)]
                except Denied as refused:
                    answer = [1, str(refused)]
                except Exception as problem:  # told to the caller, whose test fails by it
                    answer = [70, f"{type(problem).__name__}: {problem}"]
                line.write(json.dumps(answer))


def ask(name: str, *words: str) -> int:
    """Have a session do something; print what came of it."""
    if words == ("starts",):
        program = Path(sys.argv[0]).with_name("claude")
        quiet = subprocess.DEVNULL
        subprocess.Popen([sys.executable, str(program), name], stdin=quiet, stdout=quiet, start_new_session=True)
    os.chdir(os.environ["HOME"])
    with socket.socket(socket.AF_UNIX) as connection:
        _connect(connection, f"{name}.socket")
        with connection.makefile("rw") as line:
            line.write(json.dumps(words) + "\n")
            line.flush()
            code, text = json.loads(line.readline())
    if text:
        print(text)
    return int(code)


def _connect(connection: socket.socket, address: str) -> None:
    """Connect to a session, which may have been started a moment ago."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return connection.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


if __name__ == "__main__":
    if Path(sys.argv[0]).name == "claude":
        live(sys.argv[1])
    else:
        raise SystemExit(ask(*sys.argv[1:]))
