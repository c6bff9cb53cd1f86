"""One module writes holder, epoch and until. All others use its statements."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiebreak import operations
from tiebreak.operations import grants
from tiebreak.operations.references import ASIDE_IF_READY

FOLDER = Path(operations.__file__).parent
COLUMNS = ("holder", "epoch", "until", "displaced")
GRANTED = ("tasks", "holds", "schedules")
"""The tables whose rows are won. Places in line and sessions use some of the names for other things."""


def texts(source: str) -> Iterator[str]:
    """All texts in a module: of one that is put together from several, the pieces that stand there, in order."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(map(_piece, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _piece(part: ast.expr) -> str:
    if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name) and part.value.id == "ASIDE_IF_READY":
        return ASIDE_IF_READY
    return str(part.value) if isinstance(part, ast.Constant) else "{…}"


def written(sql: str) -> set[str]:
    """The columns of a grant that a piece of SQL writes."""
    found = set()
    for table in GRANTED:
        for change in re.findall(rf"UPDATE {table} SET (.*?)(?: WHERE | FROM |$)", sql, re.DOTALL):
            found |= set(re.findall(r"(?:^|, )(\w+) = ", change))
            if "{…}" in change:
                found.add("…")  # put together elsewhere: it could be anything
        for names in re.findall(rf"INSERT INTO {table} \((.*?)\)", sql, re.DOTALL):
            found |= set(re.findall(r"\w+", names))
    return found & {*COLUMNS, "…"}


def writers(source: str) -> set[str]:
    """The columns of a grant that the SQL of a module writes by itself."""
    return set().union(*(written(sql) for sql in texts(source)))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_only_grants_writes_the_columns_of_a_grant(path: Path) -> None:
    found = writers(path.read_text())
    if path.stem == "grants":
        assert found, "or this test would see nothing"
    elif path.stem == "schedules":
        assert found <= {"…"}, "what it changes are constants of its own, none of which is about the grant"
    else:
        assert not found


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_no_other_module_writes_the_columns_of_a_grant(path: Path) -> None:
    """The pieces that write the columns are private; a statement is had from a function that says what it does."""
    private = [name for name in vars(grants) if name == "_writing" or (name.startswith("_") and name.isupper())]
    used = {name for name in private if re.search(rf"grants(?: import .*|\.){name}\b", path.read_text())}
    assert not used


@pytest.mark.parametrize(
    "planted",
    [
        'tx.all("UPDATE tasks SET state = :state, holder = NULL WHERE number = :number")',
        'tx.all(f"UPDATE holds SET {CHANGE} WHERE resource = :resource")',
        'tx.all("UPDATE schedules SET due = :due, epoch = epoch + 1")',
        'tx.all("INSERT INTO tasks (id, epoch) VALUES (:id, 7)")',
    ],
)
def test_a_second_writer_would_be_found(planted: str) -> None:
    assert writers(planted)
