"""Figures that callers notice are written in `limits` and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tiebreak

ROOT = Path(tiebreak.__file__).parent
FIGURES = {"lease": 1, "grace": 1, "older_than": 1, "deadline": 1, "limit": 20, "count": 20}
"""What is given with a figure of the interface. Up to these numbers a literal says how much one caller needs."""


def given(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Every value that has a name: arguments, defaults of parameters, entries of dictionaries."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from ((each.arg, each.value) for each in node.keywords if each.arg)
        elif isinstance(node, ast.arguments):
            positional = [*node.posonlyargs, *node.args]
            yield from zip([each.arg for each in positional][-len(node.defaults) :], node.defaults, strict=False)
            pairs = zip(node.kwonlyargs, node.kw_defaults, strict=True)
            yield from ((name.arg, value) for name, value in pairs if value is not None)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value


def literals(source: str) -> list[tuple[str, float, int]]:
    found = []
    for name, value in given(ast.parse(source)):
        number = value.value if isinstance(value, ast.Constant) else None
        if name in FIGURES and isinstance(number, int | float) and number > FIGURES[name]:
            found.append((name, number, value.lineno))
    return found


def test_no_lease_or_limit_is_a_literal_beside_the_one_in_limits() -> None:
    # The generated groups repeat the operations' defaults for readers and type checkers, and a test compares them.
    files = [path for path in ROOT.rglob("*.py") if path.parent.name != "groups"]
    assert {str(path.relative_to(ROOT)): found for path in files if (found := literals(path.read_text()))} == {}


def test_the_search_finds_literals_in_calls_defaults_and_dictionaries() -> None:
    source = 'board.extend(lease=300.0)\ndef take(a, *, limit=100): ...\ndef one(b, lease=60): ...\nx = {"count": 50}\n'
    assert sorted(name for name, _, _ in literals(source)) == ["count", "lease", "lease", "limit"]
