"""Refused requests of strangers at an open daemon never block the writes of others."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.daemons import PATIENCE, free_port
from tests.postgres import server
from tiebreak.daemon.server import Settings
from tiebreak.engine import connect, refusal_counts
from tiebreak.program.daemon_assembly import assemble_daemon

from .conftest import Door

STRANGER = {"Authorization": None}
ENGINES: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: str(folder / "board.db"),
    "postgres": lambda folder: server().empty_board(),
}


@contextmanager
def opened(address: str, folder: Path) -> Iterator[tuple[Door, Any]]:
    """A daemon that serves everybody, and its engine."""
    port = free_port()
    engine = connect(address)
    daemon = assemble_daemon(engine, Settings(address=f"127.0.0.1:{port}", socket=str(folder / "s"), open=True))
    ready = threading.Event()
    thread = threading.Thread(target=daemon.serve, args=(ready.set,))
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield Door(port, ""), engine
    finally:
        daemon.stop()
        thread.join(PATIENCE)
        engine.close()


@pytest.fixture(params=sorted(ENGINES))
def place(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Door, Any]]:
    monkeypatch.setenv("XDG_STATE_HOME", os.fspath(tmp_path))
    with opened(ENGINES[request.param](tmp_path), tmp_path) as made:
        yield made


def chinese(length: int) -> str:
    some = random.Random(length)
    return "".join(chr(some.randrange(0x4E00, 0x9FFF)) for _ in range(length))


def stranger(door: Door, length: int) -> Any:
    """Somebody without a token renews what it does not hold."""
    return door.rpc(
        "holds.renew", STRANGER, agent="mallory", project="demo", resources=["file:" + chinese(length)], epochs=[1]
    )["error"]


def victim(door: Door, *keys: str) -> list[int]:
    return [door.rpc("tasks.claim", STRANGER, agent="vic", project="demo", ref=key)["result"]["epoch"] for key in keys]


def dropped(door: Door) -> bytes:
    [line] = [
        line
        for line in door.ask("GET", "/metrics", STRANGER).body.splitlines()
        if line.startswith(b"tiebreak_refusals_dropped_total")
    ]
    return line.split()[1]


@pytest.mark.parametrize("length", [600, 1000])
def test_a_stranger_with_long_names_blocks_nobody(place: tuple[Door, Any], length: int) -> None:
    door, _ = place
    assert victim(door, "before") == [1]
    assert stranger(door, length)["data"]["error"] == ("Fenced" if length == 600 else "Invalid")
    assert victim(door, "after", "later") == [1, 1]
    assert door.ask("GET", "/health", STRANGER).status == 200
    assert dropped(door) == b"0"


def test_what_the_board_rejects_is_dropped_and_shown(place: tuple[Door, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a limit had been forgotten somewhere: a number that no database takes."""
    door, _ = place
    really = refusal_counts.event_row
    monkeypatch.setattr(refusal_counts, "event_row", lambda key, count, at: really(key, count, 2**70))
    stranger(door, 600)
    assert victim(door, "after", "later") == [1, 1]
    assert dropped(door) == b"1"
    assert b"1 dropped" in door.ask("POST", "/doctor", STRANGER, b"{}").body
