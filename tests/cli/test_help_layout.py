"""Help fits the terminal: no line is wider, and no word is broken."""

from __future__ import annotations

import re
import shlex

import pytest

from tiebreak.cli import GROUPS, THEMES
from tiebreak.cli.help import describe, overview, theme_commands
from tiebreak.cli.help_layout import brief, entries, shell_command, wrapped
from tiebreak.cli.other_words import OTHER_WORDS
from tiebreak.cli.parser import GLOBAL
from tiebreak.program import find, names
from tiebreak.text import width

from .command import Tb, complaint
from .terminals import shown

WIDTHS = (60, 80, 100)


def words_of(text: str) -> list[str]:
    return text.replace(" \\\n", " ").split()


@pytest.mark.parametrize("limit", WIDTHS)
@pytest.mark.parametrize("name", names())
def test_the_help_of_a_command_fits_and_breaks_no_word(name: str, limit: int) -> None:
    text = describe(find(name), limit)
    assert [line for line in text.splitlines() if width(line) > limit or line != line.rstrip()] == []
    if name != "help":
        assert words_of(text) == words_of(describe(find(name), 10_000))  # the same words at every width


@pytest.mark.parametrize("limit", WIDTHS)
def test_the_list_of_all_commands_and_each_theme_fit(limit: int) -> None:
    texts = [overview(limit), *("\n".join(theme_commands(theme, limit)) for theme in THEMES)]
    assert [line for text in texts for line in text.splitlines() if width(line) > limit] == []


def test_every_command_has_one_line_of_eighty_columns() -> None:
    lines = overview(80).splitlines()
    listed = [line.split()[0] for line in lines if re.match("  [a-z]", line)]
    assert sorted(listed) == sorted(names())
    assert len(lines) <= 110
    assert sum(line.startswith("   ") for line in lines) <= 3  # texts that need a second line


@pytest.mark.parametrize("name", names())
def test_an_example_that_was_broken_into_lines_is_still_the_same_command(name: str) -> None:
    example = find(name).example
    lines = "\n".join(shell_command(example, 60))
    assert shlex.split(lines.replace("\\\n", "")) == shlex.split(example)


@pytest.mark.parametrize("theme", [theme for theme in THEMES if theme])
def test_help_on_a_theme_lists_its_commands(theme: str, tb: Tb) -> None:
    text = tb.ok("help", theme)
    assert all(f"  tb {name}" in text for name in GROUPS[THEMES[theme]])
    if theme in names():
        assert text == tb.ok(theme, "--help")


def test_a_wrong_theme_is_told_the_right_ones(tb: Tb) -> None:
    said = complaint(tb("help", "taks"), 2)
    assert "did you mean" in said
    assert "files" in said


@pytest.mark.parametrize(
    ("typed", "meant"), [("list", "tasks"), ("ls", "tasks"), ("done", "complete"), ("lock", "hold")]
)
def test_the_words_of_other_tools_are_told_ours(typed: str, meant: str, tb: Tb) -> None:
    """`tb list` was answered with nothing, and `tb ls` with `tb logs`."""
    assert f"did you mean `tb {meant}`?" in complaint(tb(typed), 2)


def test_a_word_of_other_tools_never_hides_a_command_nor_leads_nowhere() -> None:
    assert set(OTHER_WORDS) & set(names()) == set()
    assert set(OTHER_WORDS.values()) <= set(names())


@pytest.mark.parametrize(("columns", "widest"), [(80, 80), (60, 60), (200, 100), (10, 40)])
def test_help_uses_the_width_of_the_terminal(columns: int, widest: int, tb: Tb) -> None:
    longest = max(map(width, shown(tb, "claim", "--help", columns=columns).splitlines()))
    assert longest <= widest
    assert longest > widest * 3 // 4


@pytest.mark.parametrize("given", ["0", "-1", "wide", "99999999999", ""])
def test_a_width_that_makes_no_sense_is_ignored(given: str, tb: Tb) -> None:
    assert tb.ok("claim", "--help", env={"COLUMNS": given}) == tb.ok("claim", "--help")


def test_what_is_too_long_for_its_column_is_never_cut() -> None:
    long = "--" + "x" * 50
    assert entries([("--a", "text"), (long, "more text")], 60)[1:] == [f"  {long}", "       more text"]
    assert wrapped("a " + "b" * 90 + " c", 60) == ["a", "b" * 90, "c"]
    assert brief("One thing; and another one.", 20) == "One thing."
    assert brief("Onethingandanotherone.", 20) == "Onethingandanotherone."
    assert all(f"--{option.name}" in overview(40) for option in GLOBAL)
