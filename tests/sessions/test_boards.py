"""The same life on every kind of board: a file, a daemon's socket, its port, and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tiebreak.model import agent_id

from ..daemons import serving
from ..log import boards
from ..postgres import server
from .arena import AGENT, Arena


@pytest.fixture(params=["file", "socket", "port", "postgres"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Arena]:
    """An arena whose board is somewhere else each time."""
    home = tmp_path / "home"
    home.mkdir()
    if request.param in ("file", "postgres"):
        made = Arena(home, None if request.param == "file" else server().empty_board())
        yield made
        made.close()
        if request.param == "postgres":
            boards.keep(made.tb.environment["TIEBREAK_BOARD"])
        return
    with serving(tmp_path) as daemon:
        monkeypatch.setenv("TIEBREAK_TOKEN", daemon.token)
        made = Arena(home, f"unix:{daemon.socket}" if request.param == "socket" else daemon.url)
        made.tb.environment["TIEBREAK_TOKEN"] = daemon.token
        yield made
        made.close()


def test_a_coordinator_lives_hands_over_and_ends_on_any_board(anywhere: Arena) -> None:
    arena = anywhere
    old = arena.lead()
    assert arena.holder() == agent_id(old)
    refused = arena.spawn("other", "ok", "--coordinator")
    assert (refused.code, refused.json["holder"]) == (1, "lead")
    inside = {n: v for n, v in arena.starts(1)[0]["environment"].items() if n.startswith("TIEBREAK_")}
    assert arena("claim", "work", env=inside).code == 0
    assert arena("handoff", "lead", "--settle", "50s", "--", *AGENT, "exits").code == 1
    assert arena("extend", "work", env=inside).code == 0
    assert arena("handoff", "lead", "--queue").code == 0
    arena.until(lambda: arena("drain", "--wait", "20s").code == 0, "the queue is drained, by us or by the daemon")
    assert arena("complete", "work", env=inside).code == 1
    [new] = arena.living()
    assert (arena.holder(), new.epoch) == (agent_id(new), 4)
    assert arena("stop", "lead").code == 0
    assert arena.holder() is None


def test_a_daemon_drains_the_queue_by_itself(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        arena = Arena(tmp_path, f"unix:{daemon.socket}")
        # The daemon is at home where the queue is, and starts terminals where these are.
        daemon.stop()
        daemon.environment.update({n: v for n, v in arena.environment.items() if n != "TIEBREAK_BOARD"})
        daemon.start()
        try:
            old = arena.lead()
            assert arena("handoff", "lead", "--queue").code == 0
            arena.until(lambda: not arena.queue(), "the daemon has drained it")
            arena.until_ended(old)
            assert [(each.replaces, each.epoch) for each in arena.living()] == [(agent_id(old), 2)]
        finally:
            arena.close()
