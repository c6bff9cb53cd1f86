"""A name of a class or a type stands for one thing, so a reader who meets it need not ask which of two is meant."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import tiebreak

PACKAGE = Path(tiebreak.__file__).parent


def classes(tree: ast.Module, path: str) -> Iterator[tuple[str, str]]:
    """The names of a module's classes, each with its place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name, path  # one may be declared twice for type checkers


def aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names of a module's type aliases, each with what it stands for: the same alias may stand in two modules."""
    blocks = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.If))]
    for node in (node for block in blocks for node in block):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and value and target.id[:1].isupper() and not target.id.isupper():
            yield target.id, ast.unparse(value)


def test_no_two_classes_or_type_aliases_share_a_name() -> None:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name, what in (*classes(tree, str(path.relative_to(PACKAGE))), *aliases(tree)):
            found[name].add(what)
    assert len(found) > 150, "the package was not found"
    assert "Scope" in found, "no alias was found"
    assert {name: what for name, what in found.items() if len(what) > 1} == {}
