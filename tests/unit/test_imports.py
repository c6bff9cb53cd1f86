"""The hot commands load only what they use: agents start them thousands of times a day."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import tiebreak

TB = os.path.join(os.path.dirname(sys.executable), "tb")
HEAVY = {
    "encodings",  # a codec is a module: the interpreter has loaded that of UTF-8, not that of ASCII
    *("argparse", "asyncio", "click", "contextlib", "ctypes", "dataclasses", "datetime", "difflib", "email", "enum"),
    *("functools", "hashlib", "http", "inspect", "json", "logging", "pathlib", "random", "re", "shutil", "signal"),
    *(
        "socket",
        "sqlite3",
        "ssl",
        "struct",
        "subprocess",
        "tempfile",
        "threading",
        "traceback",
        "typing",
        "urllib",
        "uuid",
    ),
}

HOT = {
    "claim": ["claim", "work"],
    "claim, lost": ["claim", "taken"],
    "next": ["next"],
    "next, nothing there": ["next", "--kind", "rare"],
    "extend": ["extend", "mine"],
    "complete": ["complete", "mine"],
    "hold": ["hold", "lock:free"],
    "hold a file": ["hold", "src/a.py"],
    "hold, lost": ["hold", "lock:taken"],
    "drop": ["drop", "lock:mine"],
    "heartbeat": ["heartbeat"],
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A board with something for every command, and nothing in the environment that imports anything by itself."""
    path = tmp_path / "board.db"
    with tiebreak.open(path, agent="me~1", project="demo") as board:
        board.tasks.claim(ref="mine")
        board.holds.take(resources=["lock:mine"])
        board.agents.announce()
        board.tasks.post(name="ready")
    with tiebreak.open(path, agent="other~1", project="demo") as other:
        other.tasks.claim(ref="taken")
        other.holds.take(resources=["lock:taken"])
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    named = {"TIEBREAK_BOARD": str(path), "TIEBREAK_PROJECT": "demo", "TIEBREAK_AGENT": "me~1"}
    return {**kept, **named, "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}


def imported(environment: dict[str, str], folder: Path, *words: str, stdin: str = "") -> tuple[int, set[str]]:
    """The exit code, and every module that was imported on the way."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *words],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        timeout=90,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return done.returncode, {line.rpartition("|")[2].strip() for line in lines}


@pytest.mark.parametrize("name", HOT)
def test_a_hot_command_loads_nothing_heavy(name: str, environment: dict[str, str], tmp_path: Path) -> None:
    _, bare = imported(environment, tmp_path, "-c", "import apsw")
    code, loaded = imported(environment, tmp_path, TB, *HOT[name])
    assert code == (1 if "lost" in name or "nothing" in name else 0)
    assert "tiebreak.engine.sqlite" in loaded
    heavy = {module.partition(".")[0] for module in loaded - bare} & HEAVY
    assert heavy == set()


def existing(package: str, *names: str) -> set[str]:
    """The full names of modules. A module that was renamed would otherwise never be found among those loaded."""
    modules = {".".join(filter(None, ("tiebreak", package, name))) for name in names}
    assert {module for module in modules if find_spec(module) is None} == set()
    return modules


@pytest.mark.parametrize(("event", "tool"), [("PreToolUse", "Edit"), ("PostToolUse", "Read"), ("PostToolUse", "Grep")])
def test_a_hook_loads_nothing_heavy(event: str, tool: str, environment: dict[str, str], tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / "a.py").write_text("x\n")
    call = {"session_id": "s", "cwd": str(tmp_path), "tool_name": tool, "tool_input": {"file_path": "a.py"}}
    _, bare = imported(environment, tmp_path, "-c", "import apsw")
    code, loaded = imported(environment, tmp_path, TB, "hook", "claude", event, stdin=json.dumps(call))
    assert code == 0
    assert "tiebreak.guard.hook_context" in loaded
    assert {module.partition(".")[0] for module in loaded - bare} & HEAVY == set()
    assert not loaded & existing("guard", "session_events", "failure_policy", "lease_renewer")
    assert not loaded & existing("guard.commits", "commit", "commit_rules", "git")
    assert not loaded & existing("guard", "setup", "files.shell_changes", "clients.codex")


@pytest.mark.parametrize("name", ["claim", "next", "heartbeat"])
def test_a_hot_command_loads_only_the_operations_of_its_group(
    name: str, environment: dict[str, str], tmp_path: Path
) -> None:
    _, loaded = imported(environment, tmp_path, TB, *HOT[name])
    assert not loaded & existing("", "agent_names", "aio", "globs", "paths", "handles", "remote", "waiting")
    assert not loaded & existing("engine.sqlite", "backup", "board_files_opening", "file_watch", "health")
    assert not loaded & existing("operations", "messages", "upkeep", "why", "holds")


def test_importing_tiebreak_imports_nothing_else(environment: dict[str, str], tmp_path: Path) -> None:
    _, bare = imported(environment, tmp_path, "-c", "from __future__ import annotations")
    _, loaded = imported(environment, tmp_path, "-c", "import tiebreak")
    assert loaded - bare == {"tiebreak"}


def test_opening_a_board_loads_nothing_heavy(environment: dict[str, str], tmp_path: Path) -> None:
    script = "import tiebreak; tiebreak.open().tasks.list()"
    _, bare = imported(environment, tmp_path, "-c", "import apsw")
    code, loaded = imported(environment, tmp_path, "-c", script)
    assert code == 0
    assert {module.partition(".")[0] for module in loaded - bare} & HEAVY == set()
