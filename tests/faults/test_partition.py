"""An agent is cut off from the board for longer than its lease: it stops in time, and what it says later is refused."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Tb, gone, until
from tests.races.crew import PROJECT, Crew, processes
from tests.races.scenarios import Run, open_board
from tiebreak import Board, Lost, TiebreakError, Unavailable

from .hosts import Network, enter, inside, network

PATIENCE = 90.0
LEASE = 12.0


@pytest.fixture(scope="module")
def net() -> Iterator[Network]:
    """A database and one agents' host, with a cable in between."""
    with network(1) as made:
        yield made


@pytest.fixture
def here(net: Network) -> Iterator[Board]:
    """The board, empty, as seen by one who is not cut off; afterwards the cable is whole again."""
    assert net.server
    net.server.empty_board()
    with open_board(net.here, "rival") as board:
        yield board
    net.cables[0].heal()


def remote_tb(net: Network, folder: Path) -> Tb:
    """The command on the agents' host, acting as `early`; start it `inside` that host."""
    tb = Tb(folder)
    board = net.seen_from(net.cables[0])
    tb.environment.update(TIEBREAK_BOARD=board, TIEBREAK_PROJECT=PROJECT, TIEBREAK_AGENT="early~1")
    return tb


def outcome(deed: Callable[[], Any]) -> str:
    """How something ended, as a word."""
    try:
        deed()
    except TiebreakError as exc:
        return type(exc).__name__
    return "accepted"


# ── The whole story ──────────────────────────────────────────────────────────────────────────────────


def claimant(host: str, address: str, said: Connection, told: Connection) -> Run:
    """Hold a claim, renewed in the background, through a partition; then try to write as if nothing had been."""
    enter(host)
    board = open_board(address, "early")
    yield
    with board.claim("t", lease=LEASE) as claim:
        said.send(claim.epoch)
        told.recv()
        late: dict[str, Any] = {"ref": "t", "epoch": claim.epoch}
        claim.over = True
        return [
            outcome(lambda: board.tasks.extend(**late)),
            outcome(lambda: board.tasks.complete(**late, result="early")),
            outcome(lambda: board.tasks.fail(**late)),
            outcome(lambda: board.tasks.release(**late)),
        ]


def test_an_agent_that_is_cut_off_stops_in_time_and_is_refused_afterwards(
    net: Network, here: Board, tmp_path: Path
) -> None:
    cable, tb = net.cables[0], remote_tb(net, tmp_path)
    script = "trap '' TERM; sleep 300 & echo $! >> pids; (sleep 300; :) & echo $! >> pids; echo $$ >> pids; wait; wait"
    words = ("run", "--hold", "lock:x", "--lease", f"{LEASE}s", "--grace", "1s", "--", "sh", "-c", script)
    heard, said = processes.Pipe(duplex=False)
    told, tell = processes.Pipe(duplex=False)
    with Crew(claimant, [(cable.host, net.seen_from(cable), said, told)]) as crew, on_host(net, tb, *words) as running:
        crew.go()
        assert heard.poll(PATIENCE)
        assert heard.recv() == 1
        pids = started(tmp_path / "pids", 3)
        until(lambda: {"hold.renewed", "task.extended"} <= happened(here), "both are renewed while the line is good")
        cable.cut()
        with pytest.raises(Lost):
            here.take("lock:x")
        [hold] = here.take("lock:x", wait=PATIENCE)
        still = [pid for pid in pids if not gone(pid)]
        assert not still, "the command still ran when somebody else had the lock"
        task = here.win("t", wait=PATIENCE, lease=60.0)
        assert (hold.epoch, task.epoch) == (2, 2)
        here.tasks.complete(ref="t", epoch=2, result="rival")
        cable.heal()
        tell.send("healed")
        assert crew.reports() == [["Fenced"] * 4]
        assert running.wait(PATIENCE) == 1
        with inside(cable.host):
            assert [tb(*late).code for late in LATE] == [1] * len(LATE)
    assert here.tasks.get(ref="t").result == "rival"
    assert [(held.holder, held.epoch) for held in here.holds.list()] == [("rival", 2)]
    ends = [event for event in here.events.read(limit=1000) if event.event in ("task.completed", "hold.released")]
    assert [(event.agent, event.epoch) for event in ends] == [("rival", 2)]


LATE = [
    ("extend", "t", "--epoch", "1"),
    ("complete", "t", "--epoch", "1", "--result", '"early"'),
    ("release", "t", "--epoch", "1"),
    ("renew", "lock:x"),
    ("drop", "lock:x"),
]


class on_host:  # noqa: N801  (reads as a phrase)
    """A command that runs on the agents' host; it is ended with the block."""

    def __init__(self, net: Network, tb: Tb, *words: str) -> None:
        self._host, self._starting = net.cables[0].host, tb.start(*words)

    def __enter__(self) -> subprocess.Popen[str]:
        with inside(self._host):
            return self._starting.__enter__()

    def __exit__(self, *_: Any) -> None:
        self._starting.__exit__(None, None, None)


def started(path: Path, count: int) -> list[int]:
    """The processes that the command wrote down."""
    until(lambda: path.exists() and len(path.read_text().split()) == count, "the command has started")
    return [int(pid) for pid in path.read_text().split()]


def happened(board: Board) -> set[str]:
    """The kinds of events so far."""
    return {event.event for event in board.events.read(limit=1000)}


# ── Cut off for good ─────────────────────────────────────────────────────────────────────────────────


def hopeful(host: str, address: str, deed: str, said: Connection, told: Connection) -> Run:
    """With a connection that was good a moment ago, do something when told to, and tell how it ended."""
    enter(host)
    board = open_board(address, deed)
    board.tasks.list()
    yield
    said.send("ready")
    told.recv()
    deeds: dict[str, Callable[[], Any]] = {
        "post": lambda: board.tasks.post(name="t"),
        "list": lambda: board.tasks.list(),
        "wait": lambda: board.wait(timeout=300.0),
    }
    return outcome(deeds[deed])


def test_an_agent_that_stays_cut_off_gets_an_error_and_does_not_hang(net: Network, here: Board, tmp_path: Path) -> None:
    """Nothing comes back from a cut line, not even an error; somebody has to look at the clock."""
    cable, tb = net.cables[0], remote_tb(net, tmp_path)
    words = ("run", "--hold", "lock:y", "--lease", "6s", "--", "sh", "-c", "echo $$ >> pids; exec sleep 300")
    pipes = [(deed, processes.Pipe(duplex=False), processes.Pipe(duplex=False)) for deed in ("post", "list", "wait")]
    each = [(cable.host, net.seen_from(cable), deed, said[1], told[0]) for deed, said, told in pipes]
    with on_host(net, tb, *words) as running, Crew(hopeful, each, patience=2 * PATIENCE) as crew:
        [pid] = started(tmp_path / "pids", 1)
        crew.go()
        for _, (ready, _), _ in pipes:
            assert ready.poll(PATIENCE)
        cable.cut()
        for _, _, (_, tell) in pipes:
            tell.send("go")
        try:
            until(lambda: gone(pid), "the command was ended", PATIENCE)
            with inside(cable.host):
                assert tb("tasks").code == 3
            until(lambda: running.poll() is not None, "tb run has ended", PATIENCE)
            assert running.returncode == 1
            until(lambda: not any(each.is_alive() for each in crew.processes), "everybody was told", PATIENCE)
        finally:
            cable.heal()
        assert crew.reports() == [Unavailable.__name__] * 3
