"""The import contract sees `import`, not text: code in a string, or a program started by name, could reach upward."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import tiebreak

PACKAGE = Path(tiebreak.__file__).parent
UPPER = {"program"}
"""What starts `python -m tiebreak` is above everything that this runs."""


def texts() -> Iterator[tuple[Path, str]]:
    """The string constants of the package except docstrings, each with its file."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                yield path.relative_to(PACKAGE), node.value


def test_no_import_hides_in_a_string() -> None:
    assert sum(1 for _ in texts()) > 5000, "the package was not found"
    assert [(path, text) for path, text in texts() if re.search(r"\b(from|import) tiebreak\b", text)] == []


def test_only_the_top_starts_the_whole_program_or_a_module_by_its_full_name() -> None:
    named = {path.parts[0] for path, text in texts() if re.fullmatch(r"tiebreak(\.[a-z_]+)+", text)}
    assert named <= UPPER
    started = {
        path.relative_to(PACKAGE).parts[0]
        for path in sorted(PACKAGE.rglob("*.py"))
        if re.search(r'"-m", "tiebreak"', path.read_text(encoding="utf-8"))
    }
    assert started == UPPER
