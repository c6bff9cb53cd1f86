"""The manual pages: correct roff that loses nothing of the help, and can be made without any dependency."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak.cli import parser
from tiebreak.cli.help import about
from tiebreak.cli.man_pages import page, pages
from tiebreak.program import GROUPS, find, names

from .command import Answer, complaint

SOURCE = Path(__file__).parents[2] / "src"


def output(words: list[str], text: str = "", cwd: Path | None = None) -> str:
    done = subprocess.run(words, input=text, cwd=cwd, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def shown(roff: str) -> str:
    """A page as a terminal shows it, without bold letters, and with single blanks for all blanks and line breaks."""
    return " ".join(output(["groff", "-man", "-ww", "-Tutf8", "-P-c", "-P-b", "-P-u", "-P-o"], roff).split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "man1").mkdir()
    for name, text in pages().items():
        (tmp_path / "man1" / name).write_text(text, encoding="ascii")
    return tmp_path


@pytest.mark.parametrize("device", ["utf8", "ascii"])
def test_no_page_makes_groff_warn(device: str, folder: Path) -> None:
    for name in pages():
        text = (folder / "man1" / name).read_text()
        assert all(line and line == line.rstrip() for line in text.splitlines()), name
    output(["groff", "-man", "-ww", "-z", f"-T{device}", *(f"man1/{name}" for name in pages())], cwd=folder)


def test_man_shows_a_page_of_a_folder(folder: Path) -> None:
    assert "tb-claim - Claim a task" in output(["man", "-M", str(folder), "--warnings=w", "-P", "cat", "tb-claim"])


def test_apropos_can_read_what_each_page_is_about(folder: Path) -> None:
    found = output(["lexgrog", *(f"man1/{name}" for name in pages())], cwd=folder)
    assert set(re.findall(r': "(\S+) - ', found)) == {"tb", "tiebreak", *(f"tb-{name}" for name in names())}


def test_no_word_of_the_help_is_lost_in_a_page() -> None:
    """All pages at once, because groff takes longer to start than to set them."""
    text = shown("".join(page(name) for name in names()))
    for name in names():
        command = find(name)
        for option in command.options:
            wanted = f"--{option.name} {option.metavar}".strip() + f" {about(option)}"
            assert " ".join(wanted.replace("`", "").replace("…", "...").split()) in text
        for said in (command.text, *(argument.text for argument in command.arguments), command.example):
            assert " ".join(said.replace("`", "").replace("…", "...").split()) in text


def test_no_character_of_a_text_is_taken_for_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = ".so /etc/passwd and 'br \\n \\fB \\*[x] \"quoted\" it's `code` a-b ^ ~ 1\\e2 é…"

    def run(context: object, args: object) -> None:
        """.TH evil.

        'sp 5 lines. Exit 7 if it was .evil. .SH one more.
        """

    arguments, options = (parser.Argument("x", hostile),), (parser.Option("x-y", "Z", hostile, short="x"),)
    made = parser.Command(find("claim").name, f"{hostile}.", run, arguments, options, "", hostile)
    monkeypatch.setitem(parser.COMMANDS, "claim", made)
    text = shown(page("claim"))
    seen = hostile.replace("`", "").replace("…", "...")
    assert text.count(seen) == 4, text  # name, description, argument, option
    assert hostile.replace("…", "...") in text  # the example keeps its backticks
    assert f"-x, --x-y Z {seen}" in text
    assert ".TH evil." in text
    assert "'sp 5 lines." in text
    assert "EXIT STATUS Exit 7 if it was .evil." in text


def test_the_first_page_lists_every_command_by_theme() -> None:
    text = page()
    listed = []
    for group, commands in GROUPS.items():
        listed += [f'.SH "{group.upper()}"', *(f"\\fBtb-{name}\\fR(1)" for name in commands)]
    places = [text.index(entry.replace("-", "\\-")) for entry in listed]
    assert places == sorted(places)


def test_a_build_can_make_the_pages_without_any_dependency() -> None:
    """Where a wheel is built from source, nothing is installed but the builder."""
    script = (
        f"import sys; sys.path.append({str(SOURCE)!r}); import tiebreak.program; from tiebreak.cli import man_pages"
    )
    made = output([sys.executable, "-I", "-S", "-c", f"{script}; print(len(man_pages.pages()))"])
    assert int(made) == len(pages())


@pytest.mark.parametrize(
    ("words", "begin"),
    [
        ([], '.TH "TB" 1'),
        (["tb"], '.TH "TB" 1'),
        (["claim"], '.TH "TB\\-CLAIM" 1'),
        (["tb-claim"], '.TH "TB\\-CLAIM" 1'),
    ],
)
def test_help_prints_a_page(words: list[str], begin: str, cli: Callable[..., Answer]) -> None:
    answer = cli("help", "--man", *words)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(begin)
    assert cli("help", "--man", *words, "--json").json == {"man": answer.out}


@pytest.mark.parametrize("word", ["nonsense", "files", "tb-nonsense", "tb-"])
def test_a_page_that_does_not_exist_is_wrong_usage(word: str, cli: Callable[..., Answer]) -> None:
    complaint(cli("help", "--man", word), 2)
