"""Names and texts from the board can neither leave the vault, nor collide, nor do anything in a note."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from markdown_it import MarkdownIt

from tests.conformance.engines import SqlitePlace
from tiebreak.vault.kept_text import parts
from tiebreak.vault.markdown import caption, line, prose
from tiebreak.vault.note_names import agent_stem, numbered

from .story import BODY, NAMES, Story
from .vaults import snapshot, write_vault

WINDOWS = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


@pytest.fixture
def notes(tmp_path: Path) -> dict[str, bytes]:
    """The notes of a board full of hostile names and texts."""
    place = SqlitePlace(tmp_path)
    board = place.open("ada~1")
    for name in NAMES:
        task = board.tasks.post(name, body=BODY, key=None)
        board.messages.send(BODY, about=task.number)
        board.messages.send(name + "\n" + BODY)
        board.agents.announce(doing=name)
    Story(place.open, 7, place.advance).tell(100)
    write_vault(board, tmp_path / "vault")
    place.close()
    assert {each.name for each in tmp_path.iterdir()} >= {"vault", "board.db"}
    return snapshot(tmp_path / "vault").generated


def test_hostile_names_make_file_names_that_are_safe_on_every_system(notes: dict[str, bytes]) -> None:
    for path in notes:
        name = path.rpartition("/")[2]
        assert path.count("/") <= 1
        assert not name.startswith(".")
        assert name.endswith(".md")
        assert len(name.encode()) < 200
        assert not set(name) & set('\\/:*?"<>|#^[]\0')
        assert name.isprintable()
        assert not WINDOWS.fullmatch(name)
        assert not name.removesuffix(".md").endswith((".", " "))
    folded = [unicodedata.normalize("NFC", path).casefold() for path in notes]
    assert len(set(folded)) == len(folded)


def test_agents_whose_names_differ_only_in_case_have_different_notes() -> None:
    stems = [agent_stem(name, "p", alone=True) for name in ("ada", "Ada", "ADA", "con", "a/b", "a-b", "a:b", "x" * 100)]
    assert len({stem.casefold() for stem in stems}) == len(stems)
    assert agent_stem("ada", "p", alone=False) != agent_stem("ada", "q", alone=False)
    assert agent_stem("ada", "p", alone=True) == "ada"


def test_the_number_makes_names_unique_that_are_the_same_to_people() -> None:
    assert numbered(1, "a/b") == "1 a b"
    assert numbered(2, "a\\b") == "2 a b"
    assert numbered(3, "///") == "3"


def test_front_matter_is_valid_whatever_a_name_contains(notes: dict[str, bytes]) -> None:
    for path, note in notes.items():
        start, front, _ = note.decode().split("---\n", 2)
        found = yaml.safe_load(front)
        assert not start, path
        assert found["tiebreak"] in ("task", "agent", "thread", "board"), path


def test_text_from_the_board_makes_no_link_html_comment_or_code(notes: dict[str, bytes]) -> None:
    known = {path.removesuffix(".md") for path in notes}
    for path, note in notes.items():
        text = note.decode()
        for target in re.findall(r"\[\[([^|\]]*)", text):
            assert target in known, (path, target)
        generated = text.rpartition("%% tiebreak")[0]
        body = generated.split("---\n", 2)[2]
        inert = re.sub("```json\n.*?\n```\n", "", generated, flags=re.DOTALL)
        for mark in ("<%", "%%", "<script", "![["):
            assert mark not in generated, (path, mark)
        for mark in ("```", "://"):
            assert mark not in inert, (path, mark)
        tokens = [inner for each in MarkdownIt().parse(body) for inner in (each, *(each.children or ()))]
        kinds = {each.type for each in tokens}
        assert not kinds & {"html_block", "html_inline", "image", "link_open", "code_inline", "code_block", "hr"}, path
        assert {each.info for each in tokens if each.type == "fence"} <= {"json"}
        assert {each.tag for each in tokens if each.type == "heading_open"} <= {"h1", "h2"}


def test_a_mark_in_a_body_does_not_end_the_generated_part(notes: dict[str, bytes]) -> None:
    for note in notes.values():
        found = parts(note)
        assert found is not None
        assert found.unchanged
        assert found.kept == b""


def test_text_is_shown_as_it_was_written() -> None:
    shown = MarkdownIt().render(prose("a <b> & [[c]] *d* `e` 1_000\n- f\n1. g"))
    assert shown == "<p>a &lt;b&gt; &amp; [[c]] *d* `e` 1_000\n- f\n1. g</p>\n"
    assert line("a\u202eb\n\x1b[31m") == "a\\\\u202eb\\\\n\\\\x1b&#91;31m"
    assert caption("[[a|b]] <x> %%") == "((a/b)) ‹x› ％％"
