"""A repository, a board, and agents that work there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tiebreak.engine import connect

from ..cli.command import TB, Tb, measured
from .actors import Claude, repository

if TYPE_CHECKING:
    from tiebreak.engine.protocol import Engine


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the caller's: no name, no session, a state folder of its own."""
    for name in list(os.environ):
        if name.startswith(("TIEBREAK", "CLAUDE", "CODEX", "GEMINI", "CURSOR", "GIT_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TIEBREAK_BOARD", str(tmp_path / "board.db"))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a few files."""
    return repository(tmp_path / "repo", {"a.py": "one\ntwo\n", "src/b.py": "b\n", "docs/c.md": "c\n"})


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """The board's database."""
    opened = connect(str(tmp_path / "board.db"))
    yield opened
    opened.close()


@pytest.fixture
def claude(repo: Path, engine: Engine) -> Callable[..., Claude]:
    """`claude("s1")`: a session that has started."""

    def start(session: str, cwd: Path = repo, part: str = "") -> Claude:
        made = Claude(session, cwd, lambda: engine, part)
        made.start()
        return made

    return start


@pytest.fixture
def ann(claude: Callable[..., Claude]) -> Claude:
    """She holds a.py and src/b.py, and has edited both."""
    made = claude("ann")
    made.edit("a.py", "one", "ONE")
    made.edit("src/b.py", "b", "B")
    return made


@pytest.fixture
def tb(tmp_path: Path, repo: Path) -> Tb:
    """The real command, called in the repository."""
    made = Tb(tmp_path)
    made.environment.pop("TIEBREAK_PROJECT")
    made.environment.update(measured(), HOME=str(tmp_path / "home"), SHELL="/bin/sh")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.profile").write_text(f"PATH={os.path.dirname(TB)}:$PATH\n")  # new shells find it, too
    made.folder = repo
    return made
