"""`tb top` in a real tmux at both sizes, on a file, through a daemon and on PostgreSQL; and with real sessions."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import tiebreak
from tiebreak.engine.sqlite.opening import allow_writing
from tiebreak.text import width

from ..cli.command import TB, clean_environment, measured, until
from ..daemons import Serving
from ..postgres import server
from ..sessions.arena import AGENT, Arena
from .test_hostile_text import EVIL

PATIENCE = 20.0
SIZES = ((80, 24), (200, 60))


class RealTerminal:
    """A tmux server with one window, in which `tb top` runs."""

    def __init__(self, place: Path, environment: dict[str, str], folder: str | None = None) -> None:
        self._private = tempfile.mkdtemp(prefix="tb-")  # sockets have short paths
        self._environment = {**environment, "TMUX_TMPDIR": folder or self._private, "SHELL": "/bin/sh"}
        self.raw = place / "raw"
        self.code = place / "code"

    def start(self, *words: str, size: tuple[int, int] = SIZES[0]) -> None:
        """Run a command on a terminal of this size; its output is also kept as it was written."""
        line = f"{shlex.join([TB, *words])}; echo $? >{self.code}"
        self.tmux("new-session", "-d", "-s", "w", "-x", str(size[0]), "-y", str(size[1]), f"sleep 0.1; {line}")
        self.tmux("pipe-pane", "-t", "w", f"cat >{self.raw}")

    def tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-L", "w", *words], env=self._environment, capture_output=True, text=True)
        return done.stdout

    @property
    def text(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "w")

    def sees(self, *texts: str) -> None:
        """Wait until all of these are on the screen."""
        try:
            until(lambda: all(text in self.text for text in texts), "it is on the screen", PATIENCE)
        except AssertionError:
            raise AssertionError(f"{texts} are not on the screen:\n{self.text}") from None

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", "-t", "w", *keys)

    def types(self, text: str) -> None:
        self.tmux("send-keys", "-t", "w", "-l", text)

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-t", "w", "-x", str(columns), "-y", str(rows))

    def close(self) -> None:
        self.tmux("kill-server")
        shutil.rmtree(self._private, ignore_errors=True)


@pytest.fixture(params=["file", "daemon", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A board of each kind."""
    if request.param == "postgres":
        yield server().empty_board()
        return
    if request.param == "file":
        yield str(tmp_path / "board.db")
        return
    serving = Serving(tmp_path).start()
    yield f"unix:{serving.socket}"
    serving.stop()
    shutil.rmtree(serving.private, ignore_errors=True)


@pytest.fixture
def terminal(address: str, tmp_path: Path) -> Iterator[RealTerminal]:
    environment = {**clean_environment(tmp_path), **measured(), "TIEBREAK_BOARD": address, "TIEBREAK_AGENT": "me~1"}
    made = RealTerminal(tmp_path, environment)
    yield made
    made.close()


def test_it_is_live_at_both_sizes_on_every_kind_of_board(address: str, terminal: RealTerminal) -> None:
    with tiebreak.open(address, agent="ada~1", project="demo") as ada:
        ada.tasks.post(name="fix the login redirect")
        ada.tasks.claim(ref="#1")
        ada.questions.ask("May I? [red]bold[/red]", agent="bob~1")
        terminal.start("top")
        terminal.sees("Needs you  1", "#1 fix the login redirect", "live", "? help")
        assert max(map(width, terminal.text.splitlines())) <= 80
        assert "[red]bold[/red]" in terminal.text
        ada.tasks.post(name="seen at once")  # an event, and no key
        terminal.sees("task.posted", "seen at once", "1 ready")
        terminal.press("Space")
        terminal.sees("asked", "answer #2")
        terminal.press("Tab")
        terminal.types("yes")
        terminal.press("Enter")
        terminal.sees("answered #2: yes", "0 need you")
        terminal.press("Escape")
        terminal.sees("Working  1")  # a key that comes at once would be Alt and that key
        terminal.resize(*SIZES[1])
        terminal.sees("Working  1", "#1 fix the login redirect", "message to ada")
        until(lambda: max(map(width, terminal.text.splitlines())) > 80, "the whole width is used")
        terminal.press("2")
        terminal.sees("Ready  1")
        terminal.press("q")
        until(terminal.code.exists, "it has ended")
        assert ada.tasks.get(ref="#2").result == {"answer": "yes", "by": "me"}
    assert terminal.code.read_text().strip() == "0"


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[RealTerminal]:
    """A terminal without colours, on a file with a question in hostile words."""
    environment = {**clean_environment(tmp_path), "TIEBREAK_AGENT": "me~1", "NO_COLOR": "1"}
    with tiebreak.open(environment["TIEBREAK_BOARD"], agent="ada~1", project="demo") as ada:
        ada.questions.ask("May I?")
    connection = apsw.Connection(environment["TIEBREAK_BOARD"])
    allow_writing(connection)
    connection.execute("UPDATE tasks SET name = ?", (EVIL,))
    connection.close()
    made = RealTerminal(tmp_path, environment)
    yield made
    made.close()


def test_a_terminal_gets_no_colours_and_no_sequences_of_others(alone: RealTerminal) -> None:
    alone.start("top", size=SIZES[1])
    alone.sees("ada asks: #1", "live", "answer #1")
    drawn = alone.tmux("capture-pane", "-e", "-p", "-t", "w")
    codes = {code for part in drawn.split("\x1b[")[1:] for code in part.partition("m")[0].split(";")}
    assert not codes & {str(code) for code in (*range(30, 39), *range(40, 49), *range(90, 108))}
    assert "7" in codes, "the selection is seen without colours"
    alone.press("q")
    until(alone.code.exists, "it has ended")
    raw = alone.raw.read_bytes()
    assert b"[31mred" in raw
    assert b"\x1b[31mred" not in raw
    assert b"\x1b]0;title" not in raw


def test_sessions_are_started_told_attached_to_and_handed_off_from_the_screen(tmp_path: Path) -> None:
    arena = Arena(tmp_path)
    terminal = RealTerminal(tmp_path, {**arena.tb.environment, **measured()}, folder=arena.environment["TMUX_TMPDIR"])
    try:
        terminal.start("top", size=SIZES[1])
        terminal.sees("Needs you", "live")
        terminal.press("a")
        terminal.sees("There is no coordinator")
        terminal.press("C-u")
        until(lambda: "lead claude" not in terminal.text, "the suggestion is deleted")
        terminal.types(f"lead {shlex.join(AGENT)} ok")
        terminal.sees("agent.py ok")
        terminal.press("Enter")
        terminal.sees("lead is alive as coordinator, epoch 1", "Working  1", "terminal of lead", "ready ok")
        terminal.press("Tab")
        terminal.types("hello")
        terminal.press("Enter")
        terminal.sees("typed into the terminal of lead", "heard hello")
        for key in ("a", "Enter"):
            terminal.press(key)
            until(lambda: arena.tmux("list-clients").stdout, "a person is attached")
            terminal.press("C-b", "d")
            until(lambda: not arena.tmux("list-clients").stdout, "the person has detached")
            terminal.sees("Needs you", "live")
        terminal.press("h")
        terminal.sees("Hand lead off to a new session")
        terminal.press("Enter")
        terminal.sees("lead was replaced by a new session")
        arena.starts(2)
        assert [(each.agent, each.epoch) for each in arena.living()] == [("lead", 2)]
    finally:
        terminal.close()
        arena.close()
