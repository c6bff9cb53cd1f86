"""Engines know no operations, and operations say in their SQL where they read the log of events.

An engine that knew an operation would have to change with it. An engine that does not know that a statement reads the
log would let it read without the events that the same transaction has yet to write.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tiebreak
from tiebreak.engine.postgres import transaction as postgres
from tiebreak.engine.schema import TABLES
from tiebreak.engine.sqlite import transaction as sqlite
from tiebreak.operations import every

PACKAGE = Path(tiebreak.__file__).parent


def texts(folder: str) -> Iterator[tuple[str, str]]:
    """The string constants below a folder of the package, each with its place."""
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node.value


def test_no_engine_names_an_operation() -> None:
    assert [(place, text) for place, text in texts("engine") if text in every()] == []


@pytest.mark.parametrize("engine", [sqlite, postgres])
def test_no_fragment_names_a_table_that_its_own_name_does_not_tell(engine: Any) -> None:
    """Except for the log of events, which the engine itself writes."""
    for name, fragment in engine._FRAGMENTS.items():
        filled = fragment if isinstance(fragment, str) else f"{fragment:words.text :sought}"
        named = {table for table in TABLES if re.search(rf"\b{table}\b", filled)}
        assert {table for table in named if table not in name} <= {"events"}, name


def test_no_operation_reads_the_log_without_saying_so() -> None:
    assert len(list(texts("operations"))) > 1000, "the package was not found"
    assert [place for place, text in texts("operations") if re.search(r"\b(FROM|JOIN) events\b", text)] == []
