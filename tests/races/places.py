"""Where the boards of these tests live: a new engine is one function here, and no test changes.

Workers get nothing but the address, as agents do, and open it themselves.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest

from tests.daemons import Serving
from tests.log import boards
from tests.postgres import Server, server

_MARK = "tb-state-"


def _own_state() -> None:
    """Give this process and all that it starts one folder in which daemons leave tokens and clients find them."""
    folder, pid = tempfile.mkdtemp(prefix=_MARK), os.getpid()
    os.environ["XDG_STATE_HOME"] = folder

    def remove() -> None:
        if os.getpid() == pid:  # and not in a forked child
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)


# Now, not in a fixture: the server that workers are forked from takes its environment along when it starts.
if _MARK not in os.environ.get("XDG_STATE_HOME", ""):
    _own_state()


@contextmanager
def sqlite(folder: Path) -> Iterator[str]:
    """A file that does not exist yet."""
    yield os.fspath(folder / "board.db")


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Serving]:
    """A daemon in a process of its own, whose token is found by every process that a test starts."""
    made = Serving(folder, *options)
    made.environment["XDG_STATE_HOME"] = os.environ["XDG_STATE_HOME"]
    try:
        yield made.start()
    finally:
        made.close()


@contextmanager
def daemon(folder: Path) -> Iterator[str]:
    """A file behind a daemon, over TCP."""
    with served(folder) as made:
        yield made.url


_databases = count(1)


@contextmanager
def database(where: Server, template: str = "template1") -> Iterator[str]:
    """A copy of a database; of one with nothing in it, not even the tables: making them at once is a race too."""
    name = f"race_{next(_databases)}"
    with psycopg.connect(where.address(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield where.address(name)
        boards.keep(where.address(name))
    finally:
        with psycopg.connect(where.address(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # whoever was killed may still be connected


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """A database of its own on the server of this process."""
    with database(server()) as made:
        yield made


PLACES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "sqlite": sqlite,
    "daemon": daemon,
    "postgres": postgres,
}


@pytest.fixture(params=sorted(PLACES))
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh board on each engine."""
    with PLACES[request.param](tmp_path) as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A fresh SQLite file, for hazards that only a file has."""
    return os.fspath(tmp_path / "board.db")
