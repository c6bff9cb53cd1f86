"""Shutdown and restart of a daemon: nothing acknowledged is lost, no client is left hanging, clients continue."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import tiebreak
from tiebreak import Board
from tiebreak.model import Task
from tiebreak.remote import RemoteEngine

from ..cli.command import changed_command, until
from ..daemons import PATIENCE, Serving
from .conftest import LONG, WHO, Connection, Crowd, gauge, held_gate, post, request, result, stream, until_waiting

HERE = {"project": "demo"}
WRITERS = 6
TOGETHER = 20
DRAINED = 25.0
"""Seconds within which a told daemon has ended: five, and more for a busy machine, but before a write gives up."""


def files(place: Serving) -> list[Path]:
    """What a living daemon leaves for its clients."""
    run = place.folder / "state" / "tiebreak" / "run"
    return [path for path in [place.socket, run / f"{place.port}.token"] if path.exists()]


def tell(place: Serving, number: signal.Signals = signal.SIGTERM) -> None:
    """Send it a signal, and come back when it has begun to heed it."""
    assert place.process
    place.process.send_signal(number)
    until(lambda: any(line["message"] == "draining" for line in place.lines()), "it drains")


def ended(place: Serving) -> int:
    """How it ended."""
    assert place.process
    return place.process.wait(DRAINED)


@pytest.fixture
def known(own: Serving, monkeypatch: pytest.MonkeyPatch) -> Serving:
    """A daemon whose token the boards of this process find by themselves."""
    monkeypatch.setenv("XDG_STATE_HOME", str(own.folder / "state"))
    monkeypatch.delenv("TIEBREAK_TOKEN", raising=False)
    return own


def open_patiently(address: str, agent: str = "me~1") -> Board:
    """A board that waits for its daemon for as long as a restart may take on a busy machine."""
    return Board(RemoteEngine(address, patience=PATIENCE), agent=agent, project="demo")


def addresses(place: Serving) -> dict[str, str]:
    """Both ways to it."""
    return {"tcp": place.url, "unix": f"unix:{place.socket}"}


# ── Being told to end ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_draining_answers_waiters_with_an_empty_result(number: signal.Signals, own: Serving, crowd: Crowd) -> None:
    waiting = [crowd(result, own, "events.read", after=0, kind="never", wait_ms=LONG, **HERE) for _ in range(3)]
    waiting.append(crowd(result, own, "tasks.list", kind="never", wait_ms=LONG, **HERE))
    until_waiting(own, 4)
    assert len(files(own)) == 2
    tell(own, number)
    assert [each.result(PATIENCE) for each in waiting] == [[]] * 4
    assert ended(own) == 0
    assert files(own) == []


def test_draining_ends_a_stream_between_two_events(own: Serving) -> None:
    post(own, "x")
    with contextlib.suppress(OSError), stream(own, "?after=0") as reading:  # afterwards nobody counts it any more
        assert len(reading.events(1)) == 1
        tell(own)
        assert reading.answer.read() == b""  # raises when the last chunk is missing
    assert ended(own) == 0


def test_a_running_request_is_answered_and_a_new_one_is_not_taken(
    own: Serving, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = changed_command(own.folder, "from tiebreak.daemon import server", "server.DRAIN = 60.0")
    monkeypatch.setattr("tests.daemons.TB", patient)  # a busy test may take longer than a drain
    own.kill()
    own.start()
    post(own, "before")
    with held_gate(own.board) as let_go:
        running = crowd(post, own, "under way")
        until(lambda: gauge(own, "queue_depth") == 1, "the request waits for the gate")
        tell(own)
        assert refuses(own)
        let_go()
        acknowledged = running.result(PATIENCE)
    assert ended(own) == 0
    with tiebreak.open(own.board, agent="me~1", project="demo") as board:
        assert board.tasks.get(ref=acknowledged["id"]).name == "under way"


def refuses(place: Serving) -> bool:
    """Whether a new request is refused, by the daemon or because nobody listens."""
    try:
        answer = place.ask("GET", "/metrics")
    except ConnectionError:
        return True
    return answer.status == 503 and "retry-after" in answer.headers


def test_an_idle_connection_does_not_delay_draining(own: Serving) -> None:
    connection = Connection(own.socket)
    with contextlib.closing(connection):
        assert connection.ask("GET", "/health").status == 200
        tell(own)
        assert ended(own) == 0


def test_a_locked_board_does_not_keep_the_daemon_from_ending(own: Serving, crowd: Crowd) -> None:
    post(own, "before")
    with held_gate(own.board):
        running = crowd(post, own, "never")
        until(lambda: gauge(own, "queue_depth") == 1, "the request waits for the gate")
        tell(own)
        ended(own)
    assert running.exception(PATIENCE) is not None
    with tiebreak.open(own.board, agent="me~1", project="demo") as board:
        assert [task.name for task in board.tasks.list()] == ["before"]


def test_a_second_signal_ends_it_at_once(own: Serving, crowd: Crowd) -> None:
    post(own, "before")
    assert own.process
    with held_gate(own.board):
        running = crowd(post, own, "never")
        until(lambda: gauge(own, "queue_depth") == 1, "the request waits for the gate")
        tell(own)
        own.process.terminate()
        assert own.process.wait(DRAINED) == 1
    assert running.exception(PATIENCE) is not None
    assert not any(line["message"] == "ended" for line in own.lines())
    assert gauge(own.start(), "queue_depth") == 0


# ── Beginning again ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["told", "killed"])
def test_open_clients_work_again_after_a_restart(how: str, known: Serving) -> None:
    boards = {way: open_patiently(address) for way, address in addresses(known).items()}
    with contextlib.ExitStack() as opened:
        for way, board in boards.items():
            opened.enter_context(board)
            board.tasks.post(name=f"{way} before")
        token = known.token
        known.stop() if how == "told" else known.kill()
        known.start()
        assert known.token != token
        for way, board in boards.items():
            board.tasks.post(name=f"{way} after")
            names = Counter(task.name for task in board.tasks.list() if task.name.startswith(way))
            assert names == {f"{way} before": 1, f"{way} after": 1}


@pytest.mark.parametrize("way", ["tcp", "unix"])
def test_a_wait_continues_over_a_restart_by_itself(way: str, known: Serving, crowd: Crowd) -> None:
    with open_patiently(addresses(known)[way]) as board:
        found = crowd(board.wait, kind="wanted", timeout=2 * PATIENCE)
        until_waiting(known)
        assert known.stop() == 0
        known.start()
        until_waiting(known)
        post(known, "other")
        wanted = post(known, "at last", kind="wanted")
        assert found.result(PATIENCE).subject == wanted["id"]


def test_a_stream_is_resumed_after_a_kill_without_a_gap_or_a_repetition(own: Serving) -> None:
    for i in range(3):
        post(own, f"before {i}")
    with contextlib.suppress(OSError), stream(own, "?after=0") as reading:
        seen = [int(event["id"]) for event in reading.events(2)]
        own.kill()
    own.start()
    post(own, "after")
    with stream(own, resume=seen[-1]) as reading:
        seen += [int(event["id"]) for event in reading.events(2)]
    assert seen == [1, 2, 3, 4]


def every_task(board: Board) -> Iterator[Task]:
    """All tasks of a board, page by page."""
    before = None
    while page := board.tasks.list(limit=1000, before=before):
        yield from page
        before = min(task.number for task in page)


class PostingThreads:
    """Threads that post without pause, and what was acknowledged to them."""

    def __init__(self, place: Serving) -> None:
        self.acknowledged: list[str] = []
        self.failed: list[BaseException] = []
        self._enough = threading.Event()
        ways = list(addresses(place).values())
        self._threads = [threading.Thread(target=self._write, args=(i, ways[i % 2])) for i in range(WRITERS)]

    def _write(self, number: int, address: str) -> None:
        with open_patiently(address, f"writer-{number}~1") as board:
            count = 0
            while not self._enough.is_set():
                try:
                    self.acknowledged.append(board.tasks.post(name=f"{number}/{count}").name)
                except Exception as exc:
                    self.failed.append(exc)
                    return
                count += 1

    def until_more(self, count: int) -> None:
        """Until so many more posts were acknowledged."""
        wanted = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= wanted or self.failed, f"{count} more posts are acknowledged")

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """They write while the block lasts."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._enough.set()
            for thread in self._threads:
                thread.join(2 * PATIENCE)


def test_a_kill_loses_nothing_acknowledged_and_repeats_nothing(known: Serving) -> None:
    posting = PostingThreads(known)
    with posting.at_work():
        for _ in range(2):
            posting.until_more(100)
            known.kill()
            known.start()
        posting.until_more(100)
    assert posting.failed == []
    with tiebreak.open(known.board, agent="me~1", project="demo") as board:
        stored = Counter(task.name for task in every_task(board))
    assert set(stored.values()) == {1}
    assert set(posting.acknowledged) == set(stored)


def test_a_kill_keeps_a_batch_whole_or_not_at_all(own: Serving, crowd: Crowd) -> None:
    acknowledged: list[str] = []

    def write(number: int) -> None:
        with contextlib.closing(Connection(own.socket)) as connection, contextlib.suppress(OSError):
            for count in range(10_000):
                key = f"{number}-{count}"
                batch = [request("tasks.post", i, name=f"{i}", queue=key, **WHO) for i in range(TOGETHER)]
                assert connection.ask("POST", "/rpc", batch).status == 200
                acknowledged.append(key)

    writing = [crowd(write, i) for i in range(4)]
    until(lambda: len(acknowledged) > 20, "batches are acknowledged")
    own.kill()
    assert [each.result(PATIENCE) for each in writing] == [None] * 4
    with tiebreak.open(own.board, agent="me~1", project="demo") as board:
        stored = Counter(task.queue for task in every_task(board))
    assert set(stored.values()) == {TOGETHER}
    assert set(acknowledged) <= set(stored)
