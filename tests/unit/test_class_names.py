"""A class name stands for one thing, so a reader who meets it need not ask which of two classes is meant."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import tiebreak

PACKAGE = Path(tiebreak.__file__).parent


def test_no_two_public_classes_share_a_name() -> None:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(str(path.relative_to(PACKAGE)))  # one may be declared twice for type checkers
    assert len(found) > 100, "the package was not found"
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
