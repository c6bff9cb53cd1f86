"""A server that a history may take down."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.postgres import Server


@pytest.fixture(scope="package")
def mortal() -> Iterator[Callable[[], Server]]:
    """Makes one when it is first asked for: a file needs none."""
    made: list[Server] = []

    def server() -> Server:
        if not made:
            made.append(Server())
        return made[0]

    yield server
    for each in made:
        each.close()
