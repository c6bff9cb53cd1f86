"""The documentation is executed, and its links lead somewhere: what a page shows is what happens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tiebreak.cli.parser import GLOBAL
from tiebreak.program import find, names

from .snippets import PAGES, ROOT, Newcomer, called, languages, looks_like, steps

DOCS = ROOT / "docs"
SHOWN = [page for page in PAGES if languages(page.read_text(encoding="utf-8")) & {"console", "python"}]
FIGURES = sorted((DOCS / "figures").glob("*.svg"))


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    someone = Newcomer(tmp_path)
    yield someone
    someone.leaves()


@pytest.mark.parametrize("page", SHOWN, ids=called)
def test_a_page_that_shows_something_else_than_what_happens_is_noticed(page: Path, newcomer: Newcomer) -> None:
    text = page.read_text(encoding="utf-8")
    for step in steps(text):
        newcomer.follows(step)
    newcomer.runs_python(text)


def test_the_pages_that_newcomers_read_first_are_executed() -> None:
    assert {"README.md", "docs/getting-started.md", "docs/jobs.md"} <= {called(page) for page in SHOWN}


def test_a_difference_between_page_and_truth_is_seen() -> None:
    assert looks_like(["won #1 …  epoch 1"], ["won #1 fix  epoch 1"])
    assert looks_like(["first", "…", "last"], ["first", "last"])
    assert looks_like(["first", "…", "last"], ["first", "second", "third", "last"])
    assert not looks_like(["won #1 …  epoch 1"], ["won #1 fix  epoch 2"])
    assert not looks_like(["held by alice"], ["held by bob"])
    assert not looks_like(["one line"], ["one line", "and another"])
    assert not looks_like(["first", "…", "last"], ["first", "last", "more"])
    assert not looks_like([], ["[exit 1]"])


def test_a_shell_forgets_neither_its_folder_nor_its_variables(newcomer: Newcomer) -> None:
    assert newcomer.types("mkdir sub && cd sub && export WORD='a b'") == []
    assert newcomer.types('echo "$WORD in ${PWD##*/}"; exit 3') == ["a b in sub", "[exit 3]"]


def test_python_that_fails_is_told_with_the_line_of_the_page(newcomer: Newcomer) -> None:
    page = "# Page\n\n```python\nword = 1\n```\n\n```python\nassert word == 1\nraise SystemExit(word)\n```\n"
    with pytest.raises(AssertionError, match="exit 1"):
        newcomer.runs_python(page)
    with pytest.raises(AssertionError, match="line 9"):
        newcomer.runs_python(page.replace("raise SystemExit", "unknown"))


# ── Links ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", PAGES, ids=called)
def test_every_link_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    assert [link for link in links(page) if not leads_somewhere(page, link)] == []


def links(page: Path) -> list[str]:
    """What a page links to within this repository; code is not looked at."""
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def anchors(page: Path) -> list[str]:
    """The headings of a page as they are linked to: a second one of the same words gets a number."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found: list[str] = []
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        words = re.sub(r"\]\([^)]*\)", "", heading).lower().replace(" ", "-")
        anchor = "".join(char for char in words if char.isalnum() or char in "-_")
        again = sum(re.fullmatch(re.escape(anchor) + r"(-\d+)?", each) is not None for each in found)
        found.append(f"{anchor}-{again}" if again else anchor)
    return found


def test_a_link_that_leads_nowhere_is_seen() -> None:
    page = DOCS / "README.md"
    assert leads_somewhere(page, "../CONTRIBUTING.md#adding-an-operation")
    assert not leads_somewhere(page, "../CONTRIBUTING.md#no-such-heading")
    assert not leads_somewhere(page, "no-such-page.md")


def test_no_page_or_decision_is_missing_from_the_index() -> None:
    listed = set(links(DOCS / "README.md"))
    written = {str(page.relative_to(DOCS)) for page in [*DOCS.glob("*.md"), *DOCS.glob("decisions/*.md")]}
    assert sorted(written - listed - {"README.md"}) == []


# ── Commands ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", PAGES, ids=called)
def test_every_command_on_a_page_exists_with_its_options(page: Path) -> None:
    assert unknown_commands(page.read_text(encoding="utf-8")) == []


def unknown_commands(text: str) -> list[str]:
    """The commands in a text, in code within a line or as a line of a block, that `tb` would not understand."""
    written = re.findall(r"`(tb [^`]+)`", text) + re.findall(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(tb .+)", text, re.MULTILINE)
    return [command for command in written if not is_known(re.split(r"\s#|\s--\s|\||&&|;", command)[0])]


def is_known(command: str) -> bool:
    """Whether `tb` has a command of this name with these options; a place-holder for either passes."""
    bare = re.sub(r"^(tb(?: --json)*)(?: --(?:as|board|project)[ =]\S+)+", r"\1", command)
    name = next((word for word in bare.split()[1:] if not word.startswith(("-", "…"))), "")
    if not name or name.isupper():
        return True
    options = {option.name for option in (*find(name).options, *GLOBAL)} if name in names() else set()
    return name in names() and set(re.findall(r"(?<!\S)--([a-z-]+)", command)) <= options


def test_a_command_that_does_not_exist_is_seen() -> None:
    assert (
        unknown_commands("`tb hold src --wait 5m` and `tb doctor` and `tb COMMAND …`\n\n$ tb cron add x --zone Y\n")
        == []
    )
    assert unknown_commands("`tb hold src --for 5m`") == ["tb hold src --for 5m"]
    assert unknown_commands("```sh\ntb dance\n```\n") == ["tb dance"]


# ── Figures ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("figure", FIGURES, ids=called)
def test_every_figure_is_well_formed_and_can_be_told_in_words(figure: Path) -> None:
    drawing = ElementTree.parse(figure).getroot()
    assert drawing.get("role") == "img"
    assert drawing.get("aria-label") or drawing.find("{http://www.w3.org/2000/svg}title") is not None


def test_every_picture_on_a_page_has_words_for_those_who_do_not_see_it() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert re.findall(r"!\[\s*\]", text) == [], called(page)
        assert re.findall(r"<img(?![^>]*alt=\"[^\"]+\")", text) == [], called(page)


def test_a_block_in_a_misspelt_language_does_not_go_unnoticed() -> None:
    known = {"", "console", "python", "bash", "sh", "json", "text", "toml", "sql"}
    for page in PAGES:
        assert languages(page.read_text(encoding="utf-8")) <= known, called(page)
    assert languages("```shell\n$ tb status\n```\n") == {"shell"}
