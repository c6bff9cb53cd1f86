"""Group commit: waiting writes share a commit, a failed write fails alone, and reads are not blocked meanwhile."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Event
from typing import Any

import apsw
import pytest

from tiebreak.daemon import writer
from tiebreak.engine.sqlite.opening import allow_writing
from tiebreak.operations import find

from ..cli.command import until
from ..daemons import PATIENCE, InProcessDaemon, Serving
from .conftest import (
    LONG,
    WHO,
    Connection,
    Crowd,
    Place,
    ask,
    gauge,
    growth,
    held_gate,
    last,
    post,
    request,
    result,
    rpc,
    stream,
    until_waiting,
)

MANY = 30
BATCH = 50


class Queue:
    """Requests that the daemon has taken and cannot write yet: the first alone, the others behind it."""

    def __init__(self, place: Place, crowd: Crowd) -> None:
        self._place = place
        self._crowd = crowd
        self._depth = 0
        self.waiting: list[Future[Any]] = []

    def add(self, method: str, **params: Any) -> Future[Any]:
        """Send one, and come back when it stands in the queue."""
        self.waiting.append(self._crowd(rpc, self._place, method, **{**WHO, **params}))
        self._depth += 1
        until(lambda: gauge(self._place, "queue_depth") == self._depth, f"{self._depth} writes wait")
        return self.waiting[-1]

    def answers(self) -> list[Any]:
        """What became of them."""
        return [each.result(PATIENCE) for each in self.waiting]


# ── Together ─────────────────────────────────────────────────────────────────────────────────────────


def test_writes_that_wait_at_the_same_moment_share_one_commit(served: Serving, crowd: Crowd) -> None:
    post(served, "makes the gate")
    queue = Queue(served, crowd)

    def work() -> None:
        with held_gate(served.board):
            for i in range(MANY):
                queue.add("tasks.post", name=f"together {i}")
        assert all("result" in answer for answer in queue.answers())

    # The first is under way alone when the others arrive; these are one commit, whoever sent them.
    assert growth(served, work, "batch_size_count", "batch_size_sum") == [2, MANY]
    names = [task["name"] for task in result(served, "tasks.list", project="demo", name_contains="together")]
    assert sorted(names) == sorted(f"together {i}" for i in range(MANY))


def test_many_clients_share_commits_also_when_nothing_blocks_the_board(served: Serving) -> None:
    assert served.process
    with contextlib.ExitStack() as opened:
        crowd = [opened.enter_context(contextlib.closing(Connection(served.socket))) for _ in range(MANY)]
        for connection in crowd:
            connection.ask("GET", "/metrics")

        def work() -> None:
            # It finds all of them when it wakes up, as a busy daemon does after each commit.
            served.process.send_signal(signal.SIGSTOP)  # type: ignore[union-attr]
            try:
                for i, connection in enumerate(crowd):
                    body = json.dumps(request("tasks.post", name=f"burst {i}", **WHO)).encode()
                    connection.request("POST", "/rpc", body, {"Content-Type": "application/json"})
            finally:
                served.process.send_signal(signal.SIGCONT)  # type: ignore[union-attr]
            assert all("result" in json.load(connection.getresponse()) for connection in crowd)

        commits, writes = growth(served, work, "batch_size_count", "batch_size_sum")
    assert writes == MANY
    assert commits <= MANY / 2


def test_a_batch_is_one_transaction_whose_parts_see_each_other(served: Serving) -> None:
    batch = [
        request("tasks.post", "a", name="first", key="in-a-batch", **WHO),
        request("tasks.claim", "b", ref="in-a-batch", create=False, **WHO),
        request("tasks.get", "c", ref="in-a-batch", project="demo"),
    ]
    answers: list[Any] = []
    assert growth(
        served,
        lambda: answers.extend(ask(served, "POST", "/rpc", batch).json),
        "batch_size_count",
        "batch_size_sum",
    ) == [1, 3]
    assert [(answer["id"], answer["result"]["state"]) for answer in answers] == [
        ("a", "pending"),
        ("b", "claimed"),
        ("c", "claimed"),
    ]


def test_readers_see_all_of_a_batch_or_nothing(served: Serving, crowd: Crowd) -> None:
    enough = Event()

    def look() -> set[int]:
        seen = set()
        with contextlib.closing(Connection(served.socket)) as connection:
            while not enough.is_set():
                question = request("tasks.list", project="whole", limit=1000)
                seen.add(len(connection.ask("POST", "/rpc", question).json["result"]) % BATCH)
        return seen

    looking = [crowd(look) for _ in range(3)]
    who = {"agent": "me~1", "project": "whole"}
    try:
        for _ in range(15):
            ask(served, "POST", "/rpc", [request("tasks.post", i, name=f"{i}", **who) for i in range(BATCH)])
    finally:
        enough.set()
    assert [each.result(PATIENCE) for each in looking] == [{0}] * 3


# ── Apart ────────────────────────────────────────────────────────────────────────────────────────────


class Planted(Exception):
    """A mistake in an operation."""


def plant(monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    """Let posting fail for tasks of one name, after everything was written."""
    operation = find("tasks.post")
    right = operation.function

    def wrong(tx: Any, **params: Any) -> Any:
        task = right(tx, **params)
        if params["name"] == "planted":
            raise problem
        return task

    monkeypatch.setattr(operation, "function", wrong)


@pytest.mark.parametrize("problem", [Planted("secret"), apsw.ConstraintError("secret"), apsw.SQLError("secret")])
def test_an_operation_that_fails_in_a_batch_fails_alone(
    problem: Exception, near: Callable[..., InProcessDaemon], crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = near()
    taken = result(place, "tasks.claim", ref="taken", agent="other~1", project="demo")
    mine = result(place, "tasks.claim", ref="mine", **WHO)
    seen = last(place)
    plant(monkeypatch, problem)
    queue = Queue(place, crowd)

    def work() -> None:
        with held_gate(place.board):
            queue.add("tasks.post", name="alone")
            queue.add("tasks.post", name="good 1")
            queue.add("tasks.post", name="planted")
            queue.add("tasks.post", name="good 2")
            queue.add("tasks.claim", ref=taken["id"])
            queue.add("tasks.post", name="")
            queue.add("tasks.complete", ref=mine["id"], epoch=mine["epoch"] + 1)
            queue.add("tasks.cancel", ref="no-such-task")
            queue.add("tasks.post", name="good 3")
        queue.answers()

    assert growth(place, work, "batch_size_count", "batch_size_sum") == [2, 9]
    codes = [answer.get("error", {}).get("code") for answer in queue.answers()]
    broken = -32603 if isinstance(problem, Planted) else -32006
    assert codes == [None, None, broken, None, -32001, -32602, -32003, -32004, None]
    names = [event["name"] for event in result(place, "events.read", after=seen, event="task.posted", project="demo")]
    assert names == ["alone", "good 1", "good 2", "good 3"]
    assert result(place, "tasks.get", ref=mine["id"], project="demo")["state"] == "claimed"
    assert ask(place, "GET", "/health").status == 200


# ── While somebody holds the board ───────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def write_lock(board: Path) -> Iterator[object]:
    """A program that knows nothing of the gate, in the middle of a transaction."""
    connection = apsw.Connection(str(board))
    allow_writing(connection)
    connection.execute("BEGIN IMMEDIATE; UPDATE tasks SET name = 'not committed'")
    try:
        yield connection
    finally:
        connection.execute("ROLLBACK")
        connection.close()


HOLDERS: dict[str, Callable[[Path], contextlib.AbstractContextManager[object]]] = {
    "gate": held_gate,
    "write lock": write_lock,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_reads_waits_and_streams_go_on_while_writes_wait(holder: str, served: Serving, crowd: Crowd) -> None:
    name = f"while {holder}"
    before = post(served, name)
    seen = last(served)
    queue = Queue(served, crowd)
    with stream(served, f"?after={seen - 1}") as reading:
        with HOLDERS[holder](served.board):
            queue.add("tasks.post", name="afterwards")
            assert result(served, "tasks.get", ref=before["id"], project="demo")["name"] == name
            assert result(served, "events.last") == seen
            assert result(served, "events.read", after=seen, project="demo", wait_ms=50) == []
            waiting = crowd(result, served, "events.read", after=seen, project="demo", wait_ms=LONG)
            until_waiting(served, 2)
            assert [event["id"] for event in reading.events(1)] == [str(seen)]
            assert not queue.waiting[0].done()
        [written] = [answer["result"] for answer in queue.answers()]
        assert [event["subject"] for event in waiting.result(PATIENCE)] == [written["id"]]
        assert [event["id"] for event in reading.events(1)] == [str(seen + 1)]


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_write_that_waits_too_long_is_refused_and_the_next_one_is_not(
    holder: str, near: Callable[..., InProcessDaemon]
) -> None:
    place = near(deadline=0.4)
    post(place, "before")
    with HOLDERS[holder](place.board):
        error = rpc(place, "tasks.post", name="in vain", **WHO)["error"]
        assert error["code"] == -32006
        assert error["data"]["error"] == "Unavailable"
        assert "busy" in error["message"]
        assert error["data"]["hint"]
        assert gauge(place, "queue_depth") == 0
    post(place, "after")
    names = {task["name"] for task in result(place, "tasks.list", project="demo")}
    assert names == {"before", "after"}


def test_a_full_queue_refuses_writes_and_then_empties_again(
    near: Callable[..., InProcessDaemon], crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MOST_WAITING", 3)
    place = near()
    post(place, "before")
    queue = Queue(place, crowd)
    with held_gate(place.board):
        for i in range(3):
            queue.add("tasks.post", name=f"accepted {i}")
        error = rpc(place, "tasks.post", name="too many", **WHO)["error"]
        assert (error["code"], error["message"]) == (-32006, "3 writes are waiting already")
        assert "try again" in error["data"]["hint"]
        assert len(result(place, "tasks.list", project="demo")) == 1
    assert all("result" in answer for answer in queue.answers())
    post(place, "after")
    names = [task["name"] for task in result(place, "tasks.list", project="demo")]
    assert sorted(names) == ["accepted 0", "accepted 1", "accepted 2", "after", "before"]
    assert gauge(place, "queue_depth") == 0


def test_a_client_that_disconnects_does_not_affect_others_in_the_same_commit(served: Serving, crowd: Crowd) -> None:
    post(served, "makes the gate")
    body = json.dumps(request("tasks.post", name="gone", **WHO)).encode()
    with held_gate(served.board):
        first = crowd(post, served, "first")
        until(lambda: gauge(served, "queue_depth") == 1, "the first waits")
        with contextlib.closing(Connection(served.socket)) as connection:
            connection.request("POST", "/rpc", body, {"Content-Type": "application/json"})
            until(lambda: gauge(served, "queue_depth") == 2, "the second waits")
        third = crowd(post, served, "third")
        until(lambda: gauge(served, "queue_depth") == 3, "the third waits")
    assert [each.result(PATIENCE)["name"] for each in (first, third)] == ["first", "third"]
    assert gauge(served, "queue_depth") == 0
