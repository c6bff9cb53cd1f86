"""Long polls: only matching changes wake them, no change is missed, and a wait ends when its client disconnects."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from concurrent.futures import Future
from threading import Barrier
from typing import Any

import pytest

import tiebreak

from ..cli.command import Tb, until
from ..daemons import PATIENCE, Serving
from .conftest import LONG, WHO, Connection, Crowd, ask, gauge, last, post, request, result, rpc, until_waiting

ROUNDS = 200
HERE = {"project": "demo"}
Change = Callable[[Serving], Any]

FILTERS: dict[str, tuple[dict[str, Any], Change, Change]] = {
    "name_contains": (
        {"name_contains": "LOGIN"},
        lambda at: post(at, "the logout page"),
        lambda at: post(at, "the login page"),
    ),
    "kind": ({"kind": "bug"}, lambda at: post(at, "x", kind="chore"), lambda at: post(at, "x", kind="bug")),
    "state": (
        {"state": "claimed"},
        lambda at: post(at, "x"),
        lambda at: result(at, "tasks.claim", ref=post(at, "x")["id"], **WHO),
    ),
    "priority": (
        {"priority": "urgent"},
        lambda at: post(at, "x", priority="high"),
        lambda at: post(at, "x", priority="urgent"),
    ),
    "agent": (
        {"agent": "alice"},
        lambda at: post(at, "x", agent="alicia~1"),
        lambda at: post(at, "x", agent="alice~2"),
    ),
    "event": (
        {"event": "task.cancelled"},
        lambda at: post(at, "x"),
        lambda at: result(at, "tasks.cancel", ref=post(at, "x")["id"], **WHO),
    ),
    "project": ({"project": "there"}, lambda at: post(at, "x"), lambda at: post(at, "x", project="there")),
}


def wait(place: Serving, crowd: Crowd, **filters: Any) -> Future[Any]:
    """A wait for new events that has begun."""
    waiting = crowd(result, place, "events.read", **{**HERE, "after": last(place), "wait_ms": LONG, **filters})
    until_waiting(place)
    return waiting


# ── Woken ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", FILTERS)
def test_a_wait_is_woken_by_what_matches_and_sleeps_through_the_rest(name: str, served: Serving, crowd: Crowd) -> None:
    filters, other, wanted = FILTERS[name]
    waiting = wait(served, crowd, **filters)
    for _ in range(3):
        other(served)
    task = wanted(served)
    # A wake-up in vain would be an answer without it, and a filter that lets too much through one with more.
    assert [event["subject"] for event in waiting.result(PATIENCE)] == [task["id"]]


def test_a_wait_for_what_is_there_already_answers_at_once(served: Serving) -> None:
    before = last(served)
    task = post(served, "already there")
    found = result(served, "events.read", after=before, wait_ms=LONG, **HERE)
    assert [event["subject"] for event in found] == [task["id"]]
    assert gauge(served, "waiters") == 0


def test_a_wait_in_vain_ends_with_an_empty_list(served: Serving) -> None:
    assert result(served, "events.read", after=last(served), wait_ms=80, **HERE) == []
    assert result(served, "tasks.list", kind="never", wait_ms=80, **HERE) == []
    assert result(served, "events.read", after=last(served), wait_ms=0, **HERE) == []


def test_a_list_of_tasks_can_be_waited_for(served: Serving, crowd: Crowd) -> None:
    waiting = crowd(result, served, "tasks.list", states=["pending"], kind="listed", wait_ms=LONG, **HERE)
    until_waiting(served)
    post(served, "x", kind="other")
    task = post(served, "x", kind="listed")
    assert [found["id"] for found in waiting.result(PATIENCE)] == [task["id"]]


def test_a_list_is_woken_by_a_task_that_turns_into_one_that_matches(served: Serving, crowd: Crowd) -> None:
    task = post(served, "x", kind="turning")
    waiting = crowd(result, served, "tasks.list", states=["completed"], kind="turning", wait_ms=LONG, **HERE)
    until_waiting(served)
    won = result(served, "tasks.claim", ref=task["id"], **WHO)
    result(served, "tasks.complete", ref=task["id"], epoch=won["epoch"], **WHO)
    assert [found["id"] for found in waiting.result(PATIENCE)] == [task["id"]]


def test_a_wait_begun_at_the_moment_of_the_change_never_misses_it(served: Serving, crowd: Crowd) -> None:
    start = Barrier(2)

    def poster() -> list[str]:
        with contextlib.closing(Connection(served.socket)) as connection:
            ids = []
            for i in range(ROUNDS):
                start.wait(PATIENCE)
                ask_for = request("tasks.post", name=f"round {i}", kind="raced", **WHO)
                ids.append(connection.ask("POST", "/rpc", ask_for).json["result"]["id"])
                start.wait(PATIENCE)
            return ids

    # Somebody else waits all the time: the hub has always just looked when this one comes.
    idle = wait(served, crowd, kind="idle")
    posting = crowd(poster)
    seen, number = [], last(served)
    with contextlib.closing(Connection(served.socket)) as connection:
        for _ in range(ROUNDS):
            question = request("events.read", after=number, kind="raced", wait_ms=LONG, **HERE)
            start.wait(PATIENCE)
            [event] = connection.ask("POST", "/rpc", question).json["result"]
            seen.append(event["subject"])
            number = event["number"]
            start.wait(PATIENCE)
    assert seen == posting.result(PATIENCE)
    post(served, "x", kind="idle")
    assert len(idle.result(PATIENCE)) == 1


def test_many_waiters_each_see_their_own_events_once(served: Serving, crowd: Crowd) -> None:
    waiters, posts = 20, 200
    begin = last(served)

    def follow(number: int) -> list[str]:
        after, seen = begin, list[str]()
        with contextlib.closing(Connection(served.socket)) as connection:
            while len(seen) < posts // waiters:
                question = request("events.read", after=after, kind=f"own-{number}", wait_ms=LONG, **HERE)
                found = connection.ask("POST", "/rpc", question).json["result"]
                assert found, "woken by nothing"
                seen += [event["name"] for event in found]
                after = found[-1]["number"]
        return seen

    following = [crowd(follow, number) for number in range(waiters)]
    with contextlib.closing(Connection(served.socket)) as connection:
        for i in range(posts):
            connection.ask("POST", "/rpc", request("tasks.post", name=f"{i}", kind=f"own-{i % waiters}", **WHO))
    for number, each in enumerate(following):
        assert each.result(PATIENCE) == [str(i) for i in range(number, posts, waiters)]


# ── By others, and by time ───────────────────────────────────────────────────────────────────────────


def test_a_write_that_bypasses_the_daemon_wakes_its_waiters(served: Serving, crowd: Crowd) -> None:
    waiting = wait(served, crowd, kind="beside")
    with tiebreak.open(served.board, agent="local~1", project="demo") as board:
        board.tasks.post(name="x", kind="other")
        task = board.tasks.post(name="x", kind="beside")
    assert [event["subject"] for event in waiting.result(PATIENCE)] == [task.id]


def test_a_command_that_bypasses_the_daemon_wakes_its_waiters(served: Serving, crowd: Crowd) -> None:
    waiting = wait(served, crowd, kind="commanded")
    task = Tb(served.folder).json("post", "x", "--kind", "commanded")
    assert [event["subject"] for event in waiting.result(PATIENCE)] == [task["id"]]


def test_a_lapsed_lease_wakes_waiters_without_anybody_claiming(served: Serving, crowd: Crowd) -> None:
    task = post(served, "x", kind="lapsing")
    seen = last(served)
    result(served, "tasks.claim", ref=task["id"], lease=1, **WHO)
    waiting = wait(served, crowd, event="task.expired", kind="lapsing", after=seen)
    [event] = waiting.result(PATIENCE)
    assert (event["subject"], event["state"]) == (task["id"], "pending")


# ── Gone ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_hangs_up_is_forgotten_at_once(how: str, served: Serving) -> None:
    body = json.dumps(request("events.read", after=last(served), wait_ms=60_000, **HERE)).encode()
    gone = [Connection(served.socket) for _ in range(5)]
    for connection in gone:
        connection.request("POST", "/rpc", body, {"Content-Type": "application/json"})
    until_waiting(served, 5)
    for connection in gone:
        if how == "reset":
            connection.sock.shutdown(2)
        connection.close()
    until(lambda: gauge(served, "waiters") == 0, "they are forgotten")
    assert post(served, "nobody is woken")


# ── Refused ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wait_ms", [-1, 60_001, 1.5, "100", True, None, [1], 10**30])
def test_an_invalid_wait_is_refused(wait_ms: object, served: Serving) -> None:
    error = rpc(served, "events.read", after=0, wait_ms=wait_ms, **HERE)["error"]
    assert (error["code"], error["message"].partition(":")[0]) == (-32602, "wait_ms")


def test_only_a_single_read_can_wait(served: Serving) -> None:
    batch = [request("events.read", 1, wait_ms=10, **HERE), request("events.last", 2)]
    first, second = ask(served, "POST", "/rpc", batch).json
    assert (first["error"]["code"], second["id"]) == (-32602, 2)
    assert "result" in second
    assert rpc(served, "tasks.post", name="x", wait_ms=10, **WHO)["error"]["code"] == -32602


def test_a_wait_with_a_wrong_filter_is_refused_at_once(served: Serving) -> None:
    error = rpc(served, "events.read", after=0, state="asleep", wait_ms=LONG, **HERE)["error"]
    assert error["code"] == -32602
    assert gauge(served, "waiters") == 0
