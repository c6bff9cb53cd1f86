"""Options are called the same everywhere, errors call them as they were typed, and lines are shown as lines."""

from __future__ import annotations

import re

import pytest

import tiebreak
from tiebreak.cli import find, names
from tiebreak.cli.parser import Args, Option, parse
from tiebreak.errors import Invalid

from .command import Tb

PATH = re.compile(r"\w+\[\d+\]")
TAGGED = [name for name in names() if any(option.name == "tag" for option in find(name).options)]


# ── Tags ─────────────────────────────────────────────────────────────────────────────────────────────


def test_no_command_has_a_spelling_of_its_own_for_tags() -> None:
    assert {"post", "submit", "next", "tasks", "jobs", "retry", "work", "cron"} <= set(TAGGED)
    for name in names():
        assert "tags" not in [option.name for option in find(name).options]


@pytest.mark.parametrize("command", TAGGED)
@pytest.mark.parametrize("words", [["--tag", "a", "--tag", "b"], ["--tags", "a", "--tags", "b"], ["--tags=a,b"]])
def test_every_spelling_of_tags_is_understood(command: str, words: list[str]) -> None:
    assert parse(find(command), [*words, "--help"], Args(help=False)).tag == ["a", "b"]


def test_a_search_does_not_drop_all_tags_but_the_last(tb: Tb) -> None:
    answer = tb("tasks", "--tag", "a", "--tag", "b")
    assert (answer.code, answer.err) == (2, "tb: --tag: expected one tag, got 2\n")


def test_tags_with_commas_are_several_tags(tb: Tb, board: tiebreak.Board) -> None:
    tb.ok("post", "work", "--tags", "a, b", "--tag", "c")
    assert board.tasks.get(ref=1).tags == ("a", "b", "c")
    assert "work" in tb.ok("tasks", "--tags", "b")


# ── Errors ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["tasks", "--state", "open"], "--state"),
        (["jobs", "--state", "pending", "--state", "open"], "--state"),
        (["post", "x", "--after", "#x"], "--after"),
        (["post", "x", "--tag", "ok", "--tag", "b~"], "--tag"),
        (["depend", "kept", "--after", "kept", "--after", "#x"], "--after"),
        (["post", "x", "--about", "#x"], "--about"),
        (["submit", "true", "--after", "#x"], "--after"),
        (["submit", "true", "--memory", "0"], "submit: --memory"),
        (["submit", "true", "--cpu", "x"], "submit: --cpu: expected a duration"),
        (["submit", "true", "--files", "0"], "submit: --files"),
        (["submit", "true", "--output", "999G"], "submit: --output"),
        (["inbox", "--search", "  "], "--search"),
        (["send", "all", " "], "TEXT"),
        (["claim", "two words"], "ref"),
    ],
)
def test_an_error_names_what_was_typed(words: list[str], option: str, tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.post(name="kept", key="kept")
    answer = tb(*words)
    assert answer.code == 2
    assert answer.err.startswith(f"tb: {option}")
    assert not PATH.search(answer.err)


def repeatable() -> list[tuple[str, Option]]:
    """Every option of every command that fills a list."""
    return [(name, option) for name in names() for option in find(name).options if option.many]


def test_every_option_that_fills_a_list_is_named_in_errors() -> None:
    from tiebreak.cli import _as_typed

    for name, option in repeatable():
        parameter = option.sets.rpartition(".")[2] or (option.key if option.key in ("after",) else f"{option.key}s")
        error = _as_typed(Invalid(f"{parameter}[1]: wrong"), find(name), Args({option.key: ["x"], **GLOBALS}))
        assert error.message == f"--{option.name}: wrong", name


GLOBALS = Args({"board": None, "project": None, "as": None, "json": False, "help": False})


# ── Lines ────────────────────────────────────────────────────────────────────────────────────────────


def test_line_breaks_of_a_task_are_shown_as_lines(tb: Tb, board: tiebreak.Board) -> None:
    task = board.tasks.post(name="work", payload={"text": "one\ntwo", "path": "C:\\new"})
    board.tasks.claim(ref=task.id)
    board.tasks.complete(ref=task.id, result="three\nfour\x1b[2J")

    shown = tb.ok("show", "1")

    assert '    "text": "one\n      two",\n    "path": "C:\\\\new"\n' in shown
    assert 'result\n  "three\n    four\\u001b[2J"\n' in shown


def test_line_breaks_of_a_command_are_shown_as_lines_that_cannot_be_taken_for_ours(tb: Tb) -> None:
    tb.ok("submit", "echo a\nstate     completed\x1b[2J")

    shown = tb.ok("show", "1")

    assert "command\n  echo a\n  state     completed\\x1b[2J\n" in shown
    assert [line for line in shown.splitlines() if line.startswith("state")] == ["state     pending"]
