"""A fresh folder, board and environment for each test; the real command, and the same in this process."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

import tiebreak
from tiebreak.program import main

from .command import Answer, Tb, clean_environment, measured

Rows = dict[str, list[tuple[object, ...]]]


@pytest.fixture
def tb(tmp_path: Path) -> Tb:
    """The real command beside this interpreter."""
    return Tb(tmp_path)


@pytest.fixture
def counted(tb: Tb) -> None:
    """The real command counts for the coverage, where tests run what no other test runs in its own process."""
    tb.environment.update(measured())


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """The command line in this process: the same folder, board and environment, without the cost of a start."""
    for name in os.environ:
        if name not in ("PATH", "PYTEST_CURRENT_TEST") and not name.startswith("COV"):
            monkeypatch.delenv(name)
    for name, value in clean_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def call(*words: str, stdin: str = "") -> Answer:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = main(list(words))
        return Answer(code, *capsys.readouterr())

    return call


@pytest.fixture
def board(tmp_path: Path) -> Iterator[tiebreak.Board]:
    """The same board from Python, to put things on it quickly; acts as `me~1`."""
    with tiebreak.open(tmp_path / "board.db", agent="me~1", project="demo") as opened:
        yield opened


@pytest.fixture
def rows(tmp_path: Path) -> Callable[[], Rows]:
    """Every row of every table: what must not differ when nothing may have changed."""

    def read() -> Rows:
        connection = apsw.Connection(str(tmp_path / "board.db"))
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        found = {name: list(connection.execute(f'SELECT * FROM "{name}"')) for name in names}
        connection.close()
        return found

    return read
