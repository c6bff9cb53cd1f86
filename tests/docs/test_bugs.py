"""Every defect in tests/bugs.md names a command that still selects a test."""

from __future__ import annotations

import re
from functools import cache

import pytest

from .snippets import ROOT

COMMANDS = re.findall(r"pytest (tests/\S+?)(?: -k (\"[^\"]+\"|\S+?))?[`\n]", (ROOT / "tests" / "bugs.md").read_text())


@cache
def words_of(path: str) -> str:
    """All that a test of this file or folder may be selected by: names, and texts that become part of them."""
    found = ROOT / path
    files = sorted(found.rglob("*.py")) if found.is_dir() else [found, *sorted(found.parent.glob("[!t]*.py"))]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def test_the_table_of_defects_names_commands() -> None:
    assert len(COMMANDS) > 50


@pytest.mark.parametrize(("path", "chosen"), sorted(set(COMMANDS)))
def test_a_defect_is_found_by_a_test_that_exists(path: str, chosen: str) -> None:
    assert (ROOT / path).exists()
    ways = re.split(r"\bor\b", chosen.strip('"')) if chosen else []
    for way in ways:
        words = [word for word in re.split(r"\band\b|\bnot\b", way) if len(word.strip()) > 3]
        assert all(word.strip() in words_of(path) for word in words), way
