"""docs/architecture.md follows one claim file by file: the paths on the page are those that the code takes."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tiebreak
from tests.postgres import server
from tiebreak.daemon.server import Settings
from tiebreak.daemon.service import Service
from tiebreak.engine import connect
from tiebreak.engine.postgres.transaction import PostgresTransaction
from tiebreak.engine.sqlite.transaction import SqliteTransaction
from tiebreak.program import main
from tiebreak.program.daemon_assembly import assemble_daemon
from tiebreak.remote import RemoteEngine

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
PACKAGE = os.path.dirname(tiebreak.__file__)
LAYERS = ("cli", "guard", "groups", "board.py", "engine", "operations")
"""From the top down, as far as the paths below go."""
Steps = list[tuple[str, str]]


def shown(section: str) -> Steps:
    """The path that the page shows under a heading: a file and a function on each line."""
    text = PAGE.read_text(encoding="utf-8")
    part = re.split(r"^## ", text, flags=re.MULTILINE)
    [found] = [each for each in part if each.startswith(section)]
    [block] = re.findall(r"^```text\n(.*?)^```", found, re.DOTALL | re.MULTILINE)
    lines = [line.split("#")[0].split() for line in block.splitlines()]
    return [(file, function) for file, function in lines]


def stack(frame: FrameType | None) -> Steps:
    """The frames of the package that led here, the outermost first."""
    found: Steps = []
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(PACKAGE) and not frame.f_code.co_name.endswith("comp>"):  # newer Pythons have no such frame
            found.append((os.path.relpath(file, PACKAGE), frame.f_code.co_name))
        frame = frame.f_back
    return found[::-1]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> dict[str, Steps]:
    """The paths to the statement that decides who wins a task (`claim`) or a hold (`hold`)."""
    seen: dict[str, Steps] = {}
    decides = {"claim": "UPDATE tasks SET", "hold": "UPDATE holds SET"}

    def watched(owner: type, name: str) -> None:
        usual = getattr(owner, name)

        def run(self: Any, sql: str, **params: Any) -> Any:
            for what, start in decides.items():
                if sql.startswith(start) and "epoch = epoch + 1" in sql:
                    here = stack(sys._getframe(1))
                    file = "sqlite" if owner is SqliteTransaction else "postgres"
                    seen.setdefault(what, [*here, (f"engine/{file}/transaction.py", name)])
            return usual(self, sql, **params)

        monkeypatch.setattr(owner, name, run)

    watched(SqliteTransaction, "first")
    watched(PostgresTransaction, "first")
    return seen


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a board of its own."""
    subprocess.run(["git", "init", "-q", tmp_path / "repo"], check=True)
    monkeypatch.chdir(tmp_path / "repo")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TIEBREAK_BOARD", str(tmp_path / "board.db"))
    monkeypatch.setenv("TIEBREAK_PROJECT", "demo")
    with tiebreak.open(agent="alice~1") as board:
        board.tasks.post(name="fix the login bug", key="login-bug")
    return tmp_path


def test_the_claim_on_a_file(home: Path, taken: dict[str, Steps]) -> None:
    assert main(["claim", "login-bug", "--as", "bob"]) == 0
    assert taken["claim"] == shown("On a file")


def test_the_claim_on_postgresql(home: Path, taken: dict[str, Steps], monkeypatch: pytest.MonkeyPatch) -> None:
    address = server().empty_board()
    monkeypatch.setenv("TIEBREAK_BOARD", address)
    with tiebreak.open(address, agent="alice~1") as board:
        board.tasks.post(name="fix the login bug", key="login-bug")
    assert main(["claim", "login-bug", "--as", "bob"]) == 0
    assert taken["claim"] == shown("On PostgreSQL")


@pytest.fixture
def daemon(home: Path) -> Iterator[str]:
    """The address of a daemon of that board in this process."""
    engine = connect(str(home / "board.db"))
    made = assemble_daemon(engine, Settings(address=None, socket=str(home / "s")))
    ready = threading.Event()
    thread = threading.Thread(target=made.serve, args=(ready.set,))
    thread.start()
    assert ready.wait(60)
    yield f"unix:{home / 's'}"
    made.stop()
    thread.join()
    engine.close()


def test_the_claim_through_a_daemon(daemon: str, taken: dict[str, Steps], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Steps] = []
    served: list[Steps] = []
    exchange, write = RemoteEngine._exchange, Service.write

    def exchanged(self: Any, *args: Any, **options: Any) -> Any:
        if b"tasks.claim" in args[2]:
            asked.append([*stack(sys._getframe(1)), ("remote.py", "_exchange")])
        return exchange(self, *args, **options)

    async def written(self: Any, calls: Any) -> Any:
        served.append([*stack(sys._getframe(1)), ("daemon/service.py", "write")])
        return await write(self, calls)

    monkeypatch.setattr(RemoteEngine, "_exchange", exchanged)
    monkeypatch.setattr(Service, "write", written)
    monkeypatch.setenv("TIEBREAK_BOARD", daemon)
    assert main(["claim", "login-bug", "--as", "bob"]) == 0
    assert [*asked[0], *served[0], *taken["claim"]] == shown("Through a daemon")


def test_the_hold_of_a_hook(home: Path, taken: dict[str, Steps], monkeypatch: pytest.MonkeyPatch) -> None:
    file = home / "repo" / "login.py"
    event = {
        "session_id": "s1",
        "cwd": str(home / "repo"),
        "hook_event_name": "PreToolUse",
        "tool_name": "Write",
        "tool_input": {"file_path": str(file), "content": "x"},
    }
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(event).encode())))
    assert main(["hook", "claude", "PreToolUse"]) == 0
    assert taken["hold"] == shown("In a hook")


@pytest.mark.parametrize("section", ["On a file", "On PostgreSQL", "Through a daemon", "In a hook"])
def test_the_page_counts_the_steps_that_it_shows(section: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    path = shown(section)
    files = len({file for file, _ in path})
    assert f"| [{section}](#{section.lower().replace(' ', '-')}) | {len(path)} | {files} |" in text


def test_no_step_goes_back_up() -> None:
    for section in ("On a file", "On PostgreSQL", "In a hook"):
        path = [file for file, _ in shown(section)]
        assert path.pop().endswith("transaction.py")  # what the engine handed to the operation
        levels = [LAYERS.index(file if file in LAYERS else file.partition("/")[0]) for file in path]
        assert levels == sorted(levels), section
