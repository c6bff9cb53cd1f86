"""A connection may break anywhere: what was asked happens once and is answered the same.

Daemons go and come meanwhile, hang, and are shared by threads and forked children."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Tb, complaint
from tests.daemons import Serving, free_port
from tests.deeds import DEEDS, Calls
from tiebreak import Board, Lost, Unavailable, remote
from tiebreak.model import encode
from tiebreak.remote import RemoteEngine
from tiebreak.user_folders import token_for

from .crew import PROJECT, race, race_threads
from .places import served
from .proxy import FAULTS, PASS, Proxy, between
from .scenarios import Run, open_board

_projects = (f"project-{i}" for i in count())


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A daemon that nobody stops."""
    with served(tmp_path_factory.mktemp("daemon")) as made:
        yield made


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Serving]:
    """A daemon that a test may stop, kill and start again."""
    with served(tmp_path) as made:
        yield made


@pytest.fixture(params=["tcp", "unix"])
def proxy(request: pytest.FixtureRequest, daemon: Serving) -> Iterator[Proxy]:
    """A proxy before the daemon."""
    at = daemon.private / "proxy" if request.param == "unix" else None
    with between(daemon.socket, at) as made:
        yield made


@pytest.fixture
def project() -> str:
    """A project in which nothing has happened yet."""
    return next(_projects)


def board_at(address: str, agent: str = "me", project: str = PROJECT, patience: float = 90.0) -> Board:
    """A board behind a daemon, with more patience than a busy machine needs."""
    return Board(RemoteEngine(address, patience=patience), agent=f"{agent}~1", project=project)


# ── Once, and answered the same ──────────────────────────────────────────────────────────────────────


def made(board: Board, calls: Calls) -> list[Any]:
    """Make the calls in one request; their answers as they travel."""
    if len(calls) == 1:
        return [encode(board.call(*calls[0]))]
    answers = board.batch(calls)
    assert not [answer for answer in answers if isinstance(answer, Exception)], answers
    return [encode(answer) for answer in answers]


def answers_in(message: Any) -> list[Any]:
    """The results in what the daemon answered; empty when it turned the request away."""
    return [one["result"] for one in (message if isinstance(message, list) else [message]) if "result" in one]


def keys_in(message: Any) -> list[tuple[str, Any, str | None]]:
    """What a request asks for, and the keys by which the daemon knows it again."""
    return [
        (one["method"], one["params"], one.get("once")) for one in (message if isinstance(message, list) else [message])
    ]


@pytest.mark.parametrize("kept", [False, True], ids=["new connection", "kept connection"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("deed", DEEDS)
def test_a_write_whose_connection_breaks_happens_once(
    daemon: Serving, proxy: Proxy, project: str, deed: str, fault: str, kept: bool
) -> None:
    before, calls, told = DEEDS[deed]
    with board_at(f"unix:{daemon.socket}", project=project) as direct, board_at(proxy.address, project=project) as mine:
        for call in before:
            direct.call(*call)
        seen = direct.events.last()
        if kept:
            mine.events.last()
        proxy.next(fault)
        answers = made(mine, calls)
        assert len(proxy.requests) == 2
        assert keys_in(proxy.requests[0]) == keys_in(proxy.requests[1]), "the second try is not the first one again"
        ghosts = proxy.deliver()
        assert len(ghosts) == (fault == "request late")
        assert all(answers_in(ghost) in ([], answers) for ghost in ghosts)
        assert sorted(event.event for event in direct.events.read(after=seen, limit=1000)) == told
        assert made(direct, [("tasks.list", {})]) == made(mine, [("tasks.list", {})])


def test_a_claim_survives_a_bad_line(daemon: Serving, proxy: Proxy, project: str) -> None:
    with board_at(proxy.address, project=project) as board:
        proxy.next(*FAULTS, *FAULTS)
        task = board.tasks.claim(ref="t")
        assert (task.holder, task.epoch) == ("me", 1)
        assert len(proxy.deliver()) == 2
        assert board.tasks.get(ref="t") == task
        assert board.tasks.extend(ref="t", epoch=1).epoch == 1


def test_a_ghost_changes_nothing_when_the_world_has_moved_on(daemon: Serving, proxy: Proxy, project: str) -> None:
    with board_at(proxy.address, project=project) as mine, board_at(proxy.address, "rival", project) as rival:
        proxy.next("request late")
        mine.tasks.claim(ref="t")
        mine.tasks.release(ref="t")
        rival.tasks.claim(ref="t")
        rival.tasks.release(ref="t")
        assert len(proxy.deliver()) == 1
        now = mine.tasks.get(ref="t")
        assert (now.state, now.holder, now.epoch) == ("pending", None, 2)


def test_a_claim_that_was_answered_as_lost_is_not_won_by_its_ghost(daemon: Serving, proxy: Proxy, project: str) -> None:
    with board_at(proxy.address, project=project) as mine, board_at(proxy.address, "rival", project) as rival:
        rival.tasks.claim(ref="t")
        proxy.next("request late")
        with pytest.raises(Lost):
            mine.tasks.claim(ref="t")
        rival.tasks.release(ref="t")
        proxy.deliver()
        now = rival.tasks.get(ref="t")
        assert (now.state, now.holder, now.epoch) == ("pending", None, 1), "held by one who was told that it lost"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wait_whose_connection_breaks_goes_on(daemon: Serving, proxy: Proxy, project: str, fault: str) -> None:
    with board_at(proxy.address, project=project) as mine, board_at(f"unix:{daemon.socket}", project=project) as other:
        seen = mine.events.last()
        proxy.next(PASS, PASS, PASS, fault)  # wrong filters, the newest event, nothing there yet, the wait
        poster = threading.Timer(0.1, lambda: other.tasks.post(name="t"))
        poster.start()
        assert mine.wait(after=seen, timeout=90.0).name == "t"
        poster.join()


# ── Daemons that go and come ─────────────────────────────────────────────────────────────────────────


def test_a_daemon_that_is_down_is_named_within_the_patience() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with board_at(address, patience=0.2) as board, pytest.raises(Unavailable, match=rf"board {address}: .*refused"):
        board.tasks.post(name="t")
    with board_at("unix:/nonexistent/socket", patience=0.2) as board, pytest.raises(Unavailable, match="No such file"):
        board.tasks.list()


def test_the_command_says_that_the_daemon_is_down(tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    for words in (["claim", "t"], ["wait", "--timeout", "5s"]):
        said = complaint(Tb(tmp_path)("--board", address, *words), 3)
        assert address in said
        assert "tb serve" in said


@pytest.mark.parametrize("way", ["tcp", "unix"])
@pytest.mark.parametrize("kept", [False, True], ids=["new connection", "kept connection"])
def test_a_daemon_that_comes_back_in_time_is_not_missed(mortal: Serving, way: str, kept: bool) -> None:
    with board_at(mortal.url if way == "tcp" else f"unix:{mortal.socket}") as board:
        if kept:
            board.tasks.post(name="before")
        mortal.kill()
        starter = threading.Thread(target=mortal.start)
        starter.start()
        task = board.tasks.post(name="after")
        starter.join()
        assert [each.name for each in board.tasks.list(limit=1)] == [task.name]


def test_threads_that_share_a_board_all_find_the_new_token(mortal: Serving) -> None:
    names = [f"t{i}" for i in range(8)]
    with board_at(mortal.url) as board:
        for turn in range(5):
            race_threads(poster, [(board, f"warm {turn}")] * 8)
            mortal.kill()
            mortal.start()
            assert race_threads(poster, [(board, f"{name} {turn}") for name in names]) == [
                f"{name} {turn}" for name in names
            ]


def test_a_wait_longer_than_the_patience_survives_a_restart(mortal: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    late = [0.0]
    monkeypatch.setattr(remote, "monotonic", lambda: time.monotonic() + late[0])
    seen: list[Any] = []
    with board_at(mortal.url) as board:
        last = board.tasks.post(name="before").number
        waiter = threading.Thread(target=lambda: seen.append(board.wait(after=last, timeout=1000.0).name))
        waiter.start()
        while "tiebreak_waiters 1" not in mortal.ask("GET", "/metrics", token=_token(mortal)).body.decode():
            time.sleep(0.01)
        late[0] = 200.0  # minutes go by
        mortal.kill()
        mortal.start()
        with open_board(os.fspath(mortal.board)) as direct:
            direct.tasks.post(name="after")
        waiter.join(90.0)
    assert seen == ["after"]


def _token(daemon: Serving) -> str:
    return token_for("127.0.0.1", daemon.port)


@contextlib.contextmanager
def stopped(daemon: Serving) -> Iterator[None]:
    """A daemon that hears everything and answers nothing, for as long as the context lasts."""
    assert daemon.process
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("kept", [False, True], ids=["new connection", "kept connection"])
def test_a_daemon_that_hangs_ends_in_a_clear_error(
    mortal: Serving, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    key = "the same for both"
    with board_at(mortal.url) as board:
        if kept:
            board.events.last()
        monkeypatch.setattr(remote, "ANSWER", 0.3)
        with stopped(mortal):
            with pytest.raises(Unavailable, match=r"no answer within 0\.3 s") as caught:
                board.call("tasks.post", {"name": "t"}, once=key)
            assert "once" in caught.value.hint
        monkeypatch.undo()
        board.call("tasks.post", {"name": "t"}, once=key)
        assert len(board.tasks.list()) == 1


# ── Sharing ──────────────────────────────────────────────────────────────────────────────────────────


def poster(board: Board, name: str) -> Run:
    """Post one task and tell what the answer says its name is."""
    yield
    return board.tasks.post(name=name).name


def chatter(board: Board, agent: str, turns: int) -> Run:
    """Post and read back, again and again; how many answers were meant for somebody else."""
    yield
    wrong = 0
    for turn in range(turns):
        task = board.tasks.post(name=f"{agent} {turn}")
        wrong += task.name != f"{agent} {turn}"
        wrong += board.tasks.get(ref=task.id).id != task.id
        wrong += [each.name for each in board.batch([("tasks.get", {"ref": task.id})])] != [task.name]
    return wrong


def test_threads_that_share_a_board_get_their_own_answers(daemon: Serving, project: str) -> None:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns in the middle of everything
    try:
        with board_at(daemon.url, project=project) as board:
            assert race_threads(chatter, [(board, f"thread-{i}", 60) for i in range(12)]) == [0] * 12
            assert board.upkeep.status().pending == 12 * 60
    finally:
        sys.setswitchinterval(usual)


def forker(address: str, project: str, children: int) -> Run:
    """Use a board from a parent and its forked children at once, all with the connection that the parent had."""
    board = board_at(address, project=project)
    board.events.last()
    yield
    pids = []
    for child in range(children):
        pid = os.fork()
        if pid == 0:
            wrong = 1
            with contextlib.suppress(BaseException):
                wrong = race_threads(chatter, [(board, f"child-{child}", 20)])[0]
            os._exit(wrong)
        pids.append(pid)
    wrong = race_threads(chatter, [(board, "parent", 60)])[0]
    return wrong, [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def test_forked_children_do_not_read_their_parents_answers(daemon: Serving, project: str) -> None:
    assert race(forker, [(daemon.url, project, 6)]) == [(0, [0] * 6)]
    with board_at(daemon.url, project=project) as board:
        assert board.upkeep.status().pending == 60 + 6 * 20
