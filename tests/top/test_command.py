"""`tb top` as a command: one frame without a terminal, as data, and what it says where it cannot run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import tiebreak
from tiebreak.text import width
from tiebreak.top.snapshot import VIEWS

from ..cli.command import Tb, changed_command, complaint, measured

WITHOUT_TEXTUAL = ("sys.modules['textual'] = None",)


@pytest.fixture
def tb(tmp_path: Path) -> Tb:
    """The real command, on a board with a task and a question."""
    made = Tb(tmp_path)
    made.environment.update(measured())
    with tiebreak.open(tmp_path / "board.db", agent="ada~1", project="demo") as board:
        board.tasks.post(name="fix the login redirect")
        board.tasks.claim(ref="#1")
        board.questions.ask("Which database?")
        board.holds.take(resources=["lock:schema"])
        board.messages.send(body="hello")
    return made


def test_once_prints_one_frame_that_fits(tb: Tb) -> None:
    text = tb.ok("top", "--once")
    assert "\x1b" not in text
    assert max(map(width, text.splitlines())) <= 80
    assert "Needs you  1" in text
    assert "tb answer 2" in text
    narrow = tb.ok("top", "--once", env={"COLUMNS": "50"})
    assert max(map(width, narrow.splitlines())) <= 50


def test_once_prints_every_view_and_filters_it(tb: Tb) -> None:
    shown = {view: tb.ok("top", "--once", "--view", view) for view in VIEWS}
    assert "Claimed  1" in shown["tasks"]
    assert "lock:schema" in shown["holds"]
    assert "Jobs  none" in shown["jobs"]
    assert "hello" in shown["messages"]
    assert "nothing matches" in tb.ok("top", "--once", "--filter", "no such words")


def test_once_as_json_has_what_the_frame_shows(tb: Tb) -> None:
    found = tb.json("top", "--once")
    assert found["project"] == "demo"
    assert [(need["kind"], need["next_step"]) for need in found["needs"]] == [("question", "tb answer 2")]
    assert found["agents"][0]["tasks"][0]["name"] == "fix the login redirect"
    assert found["counts"]["claimed"] == 1
    assert found["events"][-1]["event"] == "message.sent"
    assert tb.json("top", "--once", "--view", "messages")["messages"][0]["body"] == "hello"


def test_without_a_terminal_it_says_how_to_print_a_frame(tb: Tb) -> None:
    assert "tb top --once" in complaint(tb("top"), 1)


@pytest.mark.parametrize(
    ("words", "said"), [(["--view", "nothing", "--once"], "--view"), (["--json"], "--json goes with --once")]
)
def test_wrong_options_are_named(tb: Tb, words: list[str], said: str) -> None:
    answer = tb("top", *words)
    assert answer.code == 2
    assert said in answer.out + answer.err
    assert "Traceback" not in answer.err


def test_without_textual_it_says_how_to_install_it_and_still_prints_a_frame(tb: Tb, tmp_path: Path) -> None:
    command = changed_command(tmp_path, *WITHOUT_TEXTUAL)
    asked = subprocess.run([command, "top"], env=tb.environment, cwd=tmp_path, capture_output=True, text=True)
    assert asked.returncode == 3
    assert "textual is not installed" in asked.stderr
    assert "install the extra 'top': " in asked.stderr
    assert "Traceback" not in asked.stderr
    once = subprocess.run(
        [command, "top", "--once", "--json"], env=tb.environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert json.loads(once.stdout)["project"] == "demo"
