"""The server stops and starts again: open boards continue, and callers get an error if it stays down."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

import tiebreak
from tests.cli.command import Tb, changed_command, complaint
from tests.postgres import Server
from tests.races.crew import race_threads
from tests.races.scenarios import Run, open_board
from tiebreak import Board, Unavailable

from .toil import judge, toiling

PATIENCE = 60.0
HOW = [pytest.param(signal.SIGINT, id="fast restart"), pytest.param(signal.SIGQUIT, id="crash")]


@pytest.mark.parametrize("how", HOW)
def test_writers_go_on_and_nothing_is_lost_or_doubled(mortal: Server, tmp_path: Path, how: signal.Signals) -> None:
    with toiling(mortal.address(), tmp_path) as toil:
        for _ in range(3):
            toil.go_on(100)
            mortal.stop(how)
            mortal.start()
        toil.go_on(100)
        diary = toil.stop()
    judge(mortal.address(), diary)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("how", HOW)
def test_connections_that_rested_meanwhile_are_not_missed(mortal: Server, how: signal.Signals) -> None:
    """Each thread leaves a connection behind, and after the restart each of them is dead."""
    with open_board(mortal.address(), "me") as board:
        race_threads(poster, [(board, f"before {i}") for i in range(8)])
        mortal.stop(how)
        mortal.start()
        race_threads(poster, [(board, f"after {i}") for i in range(8)])
        assert len(board.tasks.list()) == 16


def poster(board: Board, name: str) -> Run:
    """Post one task."""
    yield
    board.tasks.post(name=name)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("how", HOW)
def test_a_waiter_sees_events_after_a_restart(mortal: Server, how: signal.Signals) -> None:
    with open_board(mortal.address(), "me") as board, open_board(mortal.address(), "other") as other:
        seen = board.events.last()
        heard: list[str | None] = []
        news = f"afterwards {how.name}"  # the server is the same for all tests, and so is its board

        def listen() -> None:
            heard.append(board.wait(after=seen, timeout=200.0, name_contains=news).name)

        waiter = threading.Thread(target=listen, daemon=True)
        waiter.start()
        mortal.stop(how)
        mortal.start()
        assert not heard
        other.tasks.post(name=news)
        waiter.join(PATIENCE)
        assert heard == [news]


def test_a_command_that_comes_while_the_server_is_down_waits_for_it(
    mortal: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = changed_command(
        tmp_path, "from tiebreak.engine.postgres import engine as postgres", "postgres.PATIENCE = 90.0"
    )
    monkeypatch.setattr("tests.cli.command.TB", patient)
    mortal.stop(signal.SIGQUIT)
    tb = Tb(tmp_path)
    with tb.start("--board", mortal.address(), "post", "meanwhile", "--json") as running:
        mortal.start()
        out, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0, err
    assert '"name": "meanwhile"' in out


def test_a_server_that_stays_away_is_named_and_nobody_hangs(mortal: Server, tmp_path: Path) -> None:
    """All at once, because each of them is patient for a while."""
    tb, address = Tb(tmp_path), mortal.address()
    board = open_board(address, "me")
    task = board.tasks.claim(ref="t")
    mortal.stop()
    deeds = {
        "post": lambda: board.tasks.post(name="u"),
        "claim": lambda: board.tasks.claim(ref="t"),
        "complete": lambda: board.tasks.complete(ref="t", epoch=task.epoch),
        "batch": lambda: board.batch([("tasks.post", {"name": "u"}), ("tasks.post", {"name": "v"})]),
        "list": lambda: board.tasks.list(),
        "wait": lambda: board.wait(timeout=60.0),
        "open": lambda: tiebreak.open(address),
    }
    commands = [["claim", "t"], ["tasks"], ["wait", "--timeout", "60s"], ["run", "--hold", "lock:x", "--", "true"]]
    for words in commands:
        deeds[" ".join(words)] = lambda words=words: complaint(tb("--board", address, *words), 3)  # type: ignore[misc]
    for name, outcome in race_threads(doer, deeds.items()):
        assert isinstance(outcome, Unavailable) or str(mortal.folder) in str(outcome), (name, outcome)
    mortal.start()
    assert board.tasks.complete(ref="t", epoch=task.epoch).state == "completed", "it is not given up for ever"
    board.close()


def doer(name: str, deed: object) -> Run:
    """Do one thing, and tell how it ended."""
    yield
    try:
        return name, deed()  # type: ignore[operator]
    except Unavailable as exc:
        return name, exc
