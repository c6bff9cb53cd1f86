"""Checks that what `tb init` wrote works: runs each client's hook, its MCP server and what git's hooks call.

The commands are read from the files as they are now, and run with the PATH that the client has (`client_path`). A hook
is run for a tool that it does not watch, so it writes nothing but a sign of life for a session that does not exist. An
MCP server gets `initialize`, and ends when its input does. `tb init` ends with this check, and `tb doctor` repeats it.
"""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryFile
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import TiebreakError
from ...text import plain
from ..bounded_command import CommandOutcome, end_group, run_bounded
from ..commits import git_hooks
from ..hook_call import BEFORE
from .client_path import LEAST, client_path
from .config_merge import load_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...repository import Repository
    from .client_path import ClientPath

PATIENCE = 20.0
"""Seconds for one command. A client waits longer for its hooks."""
HOOK, SERVER = "hooks", "MCP"
SESSION = "tiebreak-check"
SetupFinding = tuple[str, str, str]
"""`ok`, `warn` or `bad`; what; details."""


class WrittenCommand(NamedTuple):
    """A command in a client's configuration."""

    client: Any
    file: str
    kind: str
    words: tuple[str, ...]
    environ: tuple[tuple[str, str], ...] = ()
    """Variables that the configuration sets for a server."""


def check(found: Repository, clients: tuple[Any, ...], environ: Mapping[str, str] = os.environ) -> list[SetupFinding]:
    """A finding for each command that is set up in this repository; none if nothing is."""
    commands = [each for client in clients for each in written(found.root, client)]
    try:
        guarded = git_hooks.GitHooks(found)
    except TiebreakError as exc:
        return [("bad", "git hooks", f"git fails here: {plain(exc.message)}")]
    states = git_hooks.status(guarded)
    has_git = any(state.startswith("guarded") for state in states.values())
    if not commands and not has_git:
        return []
    path = client_path(environ)
    groups: dict[object, list[WrittenCommand]] = {}
    for one in commands:  # clients share the command of the MCP server, which is run once
        groups.setdefault((one.words, one.environ, one.client.DESKTOP), []).append(one)
    with ThreadPoolExecutor(4) as threads:
        problems = threads.map(lambda group: _problem(group[0], found.root, path, environ), groups.values())
        findings = [
            _finding(one, why, path) for group, why in zip(groups.values(), problems, strict=True) for one in group
        ]
    return findings + ([_check_git(guarded, states, path, environ)] if has_git else [])


# ── What is written ──────────────────────────────────────────────────────────────────────────────────


def written(root: str, client: Any) -> Iterator[WrittenCommand]:
    """The commands of tiebreak in a client's files: the hook that comes before a tool, and the MCP server."""
    for file in dict.fromkeys(name for name, _, _ in client.files()):
        content = _content(os.path.join(root, file))
        for command in _hook_commands(content, client):
            yield WrittenCommand(client, file, HOOK, ("/bin/sh", "-c", command))
        for words, variables in _servers(content):
            yield WrittenCommand(client, file, SERVER, words, variables)


def _content(path: str) -> Any:
    """The values in a configuration file; None if there is no such file, or nobody can read it."""
    import tomllib

    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
        return tomllib.loads(text) if path.endswith(".toml") else load_json(text)
    except (OSError, ValueError, TiebreakError):
        return None


def _hook_commands(content: Any, client: Any) -> list[str]:
    events = [event for event, phase in getattr(client, "EVENTS", {}).items() if phase == BEFORE]
    ours = re.compile(rf"tb['\"]? hook {client.NAME} ({'|'.join(events)})$") if events else None
    found = [str(one.get("command")) for one in _objects(content)]
    return list(dict.fromkeys(command for command in found if ours and ours.search(command)))


def _servers(content: Any) -> Iterator[tuple[tuple[str, ...], tuple[tuple[str, str], ...]]]:
    for one in _objects(content):
        named = one.get("tiebreak")
        server = one if one.get("name") == "tiebreak" else named if isinstance(named, dict) else {}
        command, args, variables = server.get("command"), server.get("args", []), server.get("env", {})
        if isinstance(command, str) and isinstance(args, list):
            given = variables.items() if isinstance(variables, dict) else ()
            yield (command, *map(str, args)), tuple((str(name), str(value)) for name, value in given)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(inner)


# ── Running it ───────────────────────────────────────────────────────────────────────────────────────


def _problem(one: WrittenCommand, root: str, path: ClientPath, environ: Mapping[str, str]) -> str:
    """Run a command as its client does; why it does not work, "" if it does."""
    used = {**environ, "PATH": path.for_client(desktop=one.client.DESKTOP), **dict(one.environ)}
    return _not_tiebreak(one, used) or (_ask_hook if one.kind == HOOK else _ask_server)(one, root, used)


def _finding(one: WrittenCommand, problem: str, path: ClientPath) -> SetupFinding:
    shown = one.words[-1] if one.kind == HOOK else shlex.join(one.words)
    what = f"{one.client.NAME} {one.kind}"
    if problem:
        return "bad", what, f"{one.file}: `{shown}` {problem}"
    if path.login is not None and not path.in_login_shell() and _program(one) == "tb":
        return (
            "warn",
            what,
            f"{one.file}: `{shown}` answers, but a new login shell does not find tb: start it from here",
        )
    return "ok", what, f"{one.file}: `{shown}` answers"


def _program(one: WrittenCommand) -> str:
    """The program of a command; a hook's command may begin with variables."""
    if one.kind == SERVER:
        return one.words[0]
    try:
        words = shlex.split(one.words[-1])
    except ValueError:
        return ""
    return next((word for word in words if not re.match(r"\w+=", word)), "")


def _not_tiebreak(one: WrittenCommand, environ: dict[str, str]) -> str:
    """Why the program of a command is not tiebreak; "" if it is, or if it is one that starts `tb`, such as uvx.

    A hook that allows a tool prints nothing, so its answer does not tell.
    """
    import shutil

    program = shutil.which(_program(one), path=environ["PATH"])
    if program is None:
        where = "in a new login shell, from which it takes its PATH" if one.client.DESKTOP else "on the PATH"
        return f"cannot run: {_program(one) or 'its program'} is not found {where}"
    if os.path.basename(program) not in ("tb", "tiebreak"):
        return ""
    done = run_bounded([program, "--version"], environ, None, b"", PATIENCE)
    return "" if done.out.startswith("tiebreak ") else f"runs {program}, which is not tiebreak or does not start"


def _ask_hook(one: WrittenCommand, root: str, environ: dict[str, str]) -> str:
    """Run a hook as its client does; returns what is wrong."""
    session = "conversation_id" if one.client.NAME == "cursor" else "session_id"
    event = one.words[-1].split()[-1]
    given = {session: SESSION, "cwd": root, "hook_event_name": event, "tool_name": "Look", "tool_input": {}}
    done = run_bounded(one.words, environ, root, json.dumps(given).encode(), PATIENCE)
    return "" if done.code == 0 else f"fails: {_last_line(done)}"


def _last_line(done: CommandOutcome) -> str:
    lines = [line.strip() for line in (done.err or done.out).splitlines() if line.strip()]
    return plain("; ".join(lines[:2])[:400]) or f"exit code {done.code}"


def _ask_server(one: WrittenCommand, root: str, environ: dict[str, str]) -> str:
    """Greet an MCP server; returns what is wrong."""
    about = {"name": SESSION, "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    with TemporaryFile() as err:
        try:
            server = subprocess.Popen(
                one.words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                cwd=root,
                env=environ,
                start_new_session=True,
            )
        except OSError as exc:
            return f"cannot run: {exc.strerror or exc}"
        with server:
            try:
                line = _greet(server, json.dumps(hello).encode() + b"\n")
                _close(server)
            finally:
                end_group(server)
        if b'"serverInfo"' in line:
            return ""
        err.seek(0)
        outcome = CommandOutcome(server.returncode, os.fsdecode(line), os.fsdecode(err.read()))
        return f"gives no greeting: {_last_line(outcome)}"


def _greet(server: subprocess.Popen[bytes], hello: bytes) -> bytes:
    """The first line of the answer, or what there is of it in time."""
    assert server.stdin is not None  # noqa: S101  (asked for above)
    assert server.stdout is not None  # noqa: S101
    try:
        server.stdin.write(hello)
        server.stdin.flush()
    except OSError:
        return b""  # it has ended
    line, end = b"", monotonic() + PATIENCE
    while not line.endswith(b"\n") and select.select([server.stdout], [], [], max(0.0, end - monotonic()))[0]:
        piece = os.read(server.stdout.fileno(), 1 << 16)
        if not piece:
            break
        line += piece
    return line


def _close(server: subprocess.Popen[bytes]) -> None:
    """Let a server end by itself, which it does when its input ends."""
    assert server.stdin is not None  # noqa: S101
    try:
        server.stdin.close()
        server.wait(2)
    except (OSError, subprocess.TimeoutExpired):
        pass  # it is ended by force


def _check_git(
    guarded: git_hooks.GitHooks, states: dict[str, str], path: ClientPath, environ: Mapping[str, str]
) -> SetupFinding:
    """Whether git's hooks find a `tb`, also for a git that was not started from a shell."""
    missing = [name for name, state in states.items() if not state.startswith("guarded")]
    if missing:
        return "bad", "git hooks", f"{', '.join(missing)}: not installed; `tb guard install` does it"
    own = [name for name in states if guarded.ours(name)]
    lookups = {git_hooks.lookup(guarded.script(name)) for name in own} or {'tb=$(command -v tb); "$tb" --version'}
    used = {**environ, "PATH": LEAST if own else path.for_client(desktop=True)}
    for lookup in lookups:
        done = run_bounded(["/bin/sh", "-c", lookup], used, guarded.root, b"", PATIENCE)
        if not done.out.startswith("tiebreak "):
            return "bad", "git hooks", f"they do not find tb: {_last_line(done)}; `tb guard install` mends it"
    if not all(os.access(guarded.script(name), os.X_OK) for name in own):
        return "bad", "git hooks", "not executable, so git skips them; `tb guard install` mends it"
    if said := git_hooks.too_old(guarded.root):
        return "bad", "git hooks", said
    return "ok", "git hooks", f"{', '.join(states)}: installed, and they find tb"
