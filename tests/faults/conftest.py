"""Servers that may be stopped, and boards on them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.postgres import Server
from tiebreak.engine.postgres import engine as postgres

_projects = (f"project-{i}" for i in count())


@pytest.fixture(scope="package")
def _mortal() -> Iterator[Server]:
    made = Server()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def mortal(_mortal: Server) -> Iterator[Server]:
    """A server that a test may stop, crash and start again; it runs again afterwards, and its board is empty."""
    _mortal.empty_board()
    before = _mortal._process
    yield _mortal
    if _mortal._process is None or _mortal._process.poll() is not None:
        _mortal.start()
    if _mortal._process is not before:
        for cleaner in _mortal._cleaners.values():
            cleaner.close()  # the connection it had is dead and does not know yet


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boards of this process wait for a server for as long as a loaded machine may take to start one."""
    monkeypatch.setattr(postgres, "PATIENCE", 90.0)


@pytest.fixture
def project() -> str:
    """A project in which nothing has happened yet."""
    return next(_projects)
