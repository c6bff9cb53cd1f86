"""A person at the terminal of a demonstration: what they type counts, when it is asked for, and nowhere else."""

from __future__ import annotations

import re
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.command import PATIENCE, TB, Tb
from tests.cli.terminals import Terminal, terminal
from tiebreak.choices import chosen

ASK = """
import sys, time
from tiebreak.demo.narrator import Narrator
narrator = Narrator(print, silent=False, colour=False)
with narrator.keys_wait():
    print("begun", flush=True)
    said = narrator.ask(("yes", "no"), float(sys.argv[1]), lambda: None)
    print(f"said={said!r}", flush=True)
    time.sleep(float(sys.argv[2]))
    print("over", flush=True)
"""


@contextmanager
def asked(tmp_path: Path, seconds: float, stay: float = 0.0, before: str = "") -> Iterator[Terminal]:
    """A terminal on which a person is asked; `before` is typed before the question."""
    with terminal(columns=80) as screen:
        script = ASK.replace("    said =", "    time.sleep(0.5)\n    said =") if before else ASK
        running = screen.start(Tb(tmp_path), sys.executable, "-c", script, str(seconds), str(stay))
        assert screen.read(until=b"begun")
        if before:
            screen.type(before)
        assert screen.read(until=b"your answer (yes or no;")
        try:
            yield screen
        finally:
            running.kill()
            running.wait(PATIENCE)


@pytest.mark.parametrize("typed", ["No", "no", "NO", "n", "2", " no "])
def test_a_no_is_a_no_however_it_is_typed(tmp_path: Path, typed: str) -> None:
    with asked(tmp_path, PATIENCE) as screen:
        screen.type(f"{typed}\n")
        assert screen.read(until=b"said='no'"), screen.screen


def test_a_word_that_is_no_choice_is_asked_for_again(tmp_path: Path) -> None:
    with asked(tmp_path, PATIENCE) as screen:
        screen.type("perhaps\n")
        assert screen.read(until=b"'perhaps' is none of them: yes or no?"), screen.screen
        screen.type("\n")
        screen.type("Yes\n")
        assert screen.read(until=b"said='yes'"), screen.screen


def test_what_was_typed_before_the_question_does_not_answer_it(tmp_path: Path) -> None:
    with asked(tmp_path, PATIENCE, before="\nyes\n") as screen:
        assert not screen.read(until=b"said=", patience=0.5), screen.screen
        screen.type("no\n")
        assert screen.read(until=b"said='no'"), screen.screen


def test_a_late_answer_is_not_shown_and_not_left_for_the_shell(tmp_path: Path) -> None:
    with asked(tmp_path, 0.2, stay=0.5) as screen:
        assert screen.read(until=b"said=''"), screen.screen
        screen.type("late\n")
        assert screen.read(until=b"over"), screen.screen
        assert screen.read(), "the program did not end"
        assert b"late" not in screen.screen


def test_the_terminal_is_as_before_when_the_demonstration_is_over(tmp_path: Path) -> None:
    with terminal(columns=80) as screen:
        before = termios.tcgetattr(screen.master)
        running = screen.start(Tb(tmp_path), sys.executable, "-c", ASK, "0.1", "0")
        assert screen.read(until=b"over"), screen.screen
        running.wait(PATIENCE)
        assert termios.tcgetattr(screen.master)[3] == before[3]


def test_a_person_answers_a_whole_demonstration_on_a_narrow_terminal(tmp_path: Path) -> None:
    with terminal(columns=80) as screen:
        running = screen.start(Tb(tmp_path), TB, "demo", "--seconds", "10")
        assert screen.read(until=b"your answer (yes or no; 3 s):", patience=2 * PATIENCE), screen.screen
        screen.type("No\n")
        assert screen.read(patience=4 * PATIENCE), "the demonstration did not end"
        assert running.wait(PATIENCE) == 0, screen.screen
    shown = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", screen.screen.decode())
    assert "answered  you: no" in shown
    lines = [part for line in re.split(r"\r?\n", shown) for part in line.split("\r")]
    assert [line for line in lines if len(line) > 80 and not line.startswith("http://127.0.0.1:")] == []
    [link] = [line for line in lines if line.startswith("http://127.0.0.1:")]
    assert " " not in link


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("b", None),
        ("ba", None),
        ("bar", "bar"),
        ("BAZ", "baz"),
        ("4", "4"),
        ("2", "baz"),
        ("9", None),
        ("", None),
        ("q", "quux"),
        ("BAR", "bar"),  # though `barn` begins with it, too
    ],
)
def test_a_choice_that_could_be_two_is_none(typed: str, meant: str | None) -> None:
    assert chosen(typed, ["bar", "baz", "quux", "4", "barn"]) == meant
