"""Event streams: numbered, resumable, filtered by the server; no event is lost or sent twice."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

import tiebreak
from tiebreak.daemon import event_stream

from ..daemons import PATIENCE, InProcessDaemon, Serving
from .conftest import WHO, Connection, Crowd, Stream, ask, gauge, last, post, request, result, stream
from .test_waiting import FILTERS

HERE = {"project": "demo"}
MANY = 500


def numbers(events: list[dict[str, str]]) -> list[int]:
    """The ids of events."""
    return [int(event["id"]) for event in events]


def post_many(place: Serving | InProcessDaemon, count: int, name: str = "x") -> None:
    """Put many tasks on the board in one transaction."""
    batch = [request("tasks.post", i, name=f"{name} {i}", **WHO) for i in range(count)]
    assert all("result" in answer for answer in ask(place, "POST", "/rpc", batch).json)


# ── What is told ─────────────────────────────────────────────────────────────────────────────────────


def test_a_stream_tells_the_number_the_name_and_the_whole_event(served: Serving) -> None:
    begin = last(served)
    with stream(served) as reading:
        assert reading.answer.getheader("content-type") == "text/event-stream; charset=utf-8"
        assert reading.answer.getheader("cache-control") == "no-store"
        task = post(served, "told ünïcode")
        won = result(served, "tasks.claim", ref=task["id"], **WHO)
        result(served, "tasks.complete", ref=task["id"], epoch=won["epoch"], **WHO)
        told = reading.events(3)
    assert [event["event"] for event in told] == ["task.posted", "task.claimed", "task.completed"]
    assert [json.loads(event["data"]) for event in told] == result(served, "events.read", after=begin, **HERE)
    assert numbers(told) == [json.loads(event["data"])["number"] for event in told]


def test_a_brief_stream_counts_every_event_once_in_few_messages(served: Serving) -> None:
    begin = last(served)
    with stream(served, "?brief=true&project=demo") as reading:
        for i in range(5):
            post_many(served, 100, f"brief {i}")
        told: list[dict[str, Any]] = []
        while sum(each["events"]["task.posted"] for each in told) < 500:
            [message] = reading.events(1)
            told.append(json.loads(message["data"]))
            assert (int(message["id"]), set(message)) == (told[-1]["number"], {"id", "data"})
    assert sum(each["events"]["task.posted"] for each in told) == 500
    assert len(told) <= 10
    numbers_told = [each["number"] for each in told]
    assert numbers_told == sorted(set(numbers_told))
    assert numbers_told[-1] - begin == 500


def test_a_brief_stream_goes_on_where_it_was_cut(served: Serving) -> None:
    begin = last(served)
    post_many(served, 30)
    with stream(served, f"?brief=true&project=demo&after={begin + 10}") as reading:
        [message] = reading.events(1)
    assert json.loads(message["data"]) == {"number": begin + 30, "events": {"task.posted": 20}}


def test_a_brief_stream_pauses_between_two_messages(
    near: Callable[..., InProcessDaemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "PAUSE", 1.0)
    place = near()
    with stream(place, "?brief=true") as reading:
        began = time.monotonic()
        for name in "ab":
            post(place, name)
            reading.events(1)
        assert time.monotonic() - began >= 1.0


def test_a_stream_that_is_neither_brief_nor_whole_is_refused(served: Serving) -> None:
    assert ask(served, "GET", "/events?brief=perhaps").status == 400


@pytest.mark.parametrize("name", FILTERS)
def test_the_server_filters(name: str, served: Serving) -> None:
    filters, other, wanted = FILTERS[name]
    [(key, value)] = filters.items()
    with stream(served, f"?{key}={value}") as reading:
        other(served)
        task = wanted(served)
        [event] = reading.events(1)
        assert json.loads(event["data"])["subject"] == task["id"]
        again = wanted(served)
        assert json.loads(reading.events(1)[0]["data"])["subject"] == again["id"]


def test_without_a_project_a_stream_is_about_all_of_them(served: Serving) -> None:
    with stream(served) as reading:
        for project in ("demo", "there", "demo"):
            post(served, "x", project=project)
        assert [json.loads(event["data"])["project"] for event in reading.events(3)] == ["demo", "there", "demo"]


# ── Where it begins ──────────────────────────────────────────────────────────────────────────────────


def test_a_stream_begins_after_the_number_it_is_given(served: Serving) -> None:
    begin = last(served)
    post_many(served, 4)
    with stream(served, f"?after={begin + 1}") as reading:
        assert numbers(reading.events(3)) == [begin + 2, begin + 3, begin + 4]
    with stream(served, resume=begin + 2) as reading:
        assert numbers(reading.events(2)) == [begin + 3, begin + 4]


def test_a_browser_that_reconnects_goes_on_where_it_stopped_and_not_where_it_began(served: Serving) -> None:
    begin = last(served)
    post_many(served, 4)
    # It repeats the address it was given first and adds how far it has come.
    with stream(served, f"?after={begin}", resume=begin + 3) as reading:
        assert numbers(reading.events(1)) == [begin + 4]


def test_without_a_number_only_new_events_are_told(served: Serving) -> None:
    post(served, "old")
    begin = last(served)
    with stream(served) as reading:
        post(served, "new")
        assert numbers(reading.events(1)) == [begin + 1]


@pytest.mark.parametrize("query", ["?after=x", "?after=-1", "?after=1.5", "?after=", "?after=1&after=2", "?after=1e3"])
def test_a_stream_from_an_invalid_number_is_refused(query: str, served: Serving) -> None:
    answer = ask(served, "GET", f"/events{query}")
    assert (answer.status, answer.json["error"]) == (400, "Invalid")


@pytest.mark.parametrize("query", ["?colour=red", "?state=asleep", "?limit=5", "?newest=true", "?wait_ms=5"])
def test_a_stream_with_an_unknown_filter_is_refused(query: str, served: Serving) -> None:
    answer = ask(served, "GET", f"/events{query}")
    assert (answer.status, answer.json["error"]) == (400, "Invalid")
    assert gauge(served, "waiters") == 0


# ── Nothing lost, nothing twice ──────────────────────────────────────────────────────────────────────


def test_five_hundred_events_of_many_writers_arrive_in_order_and_once(served: Serving, crowd: Crowd) -> None:
    begin = last(served)

    def through_the_daemon(number: int) -> None:
        with contextlib.closing(Connection(served.socket)) as connection:
            for i in range(100):
                connection.ask("POST", "/rpc", request("tasks.post", name=f"{number}/{i}", **WHO))

    def beside_it(number: int) -> None:
        with tiebreak.open(served.board, agent="local~1", project="demo") as board:
            for i in range(100):
                board.tasks.post(name=f"{number}/{i}")

    with stream(served, f"?after={begin}") as reading:
        working = [crowd(work, i) for i, work in enumerate([through_the_daemon] * 3 + [beside_it] * 2)]
        told = reading.events(MANY)
        assert [each.result(PATIENCE) for each in working] == [None] * 5
    assert numbers(told) == list(range(begin + 1, begin + 1 + MANY))
    assert len({json.loads(event["data"])["name"] for event in told}) == MANY


def test_a_reader_that_comes_and_goes_sees_everything_once(served: Serving, crowd: Crowd) -> None:
    begin = last(served)
    posting = [crowd(post_many, served, 20) for _ in range(10)]
    seen: list[int] = []
    while len(seen) < 200:
        with contextlib.closing(Stream(served, resume=(seen or [begin])[-1])) as reading:
            seen += numbers(reading.events(min(17, 200 - len(seen))))
    assert seen == list(range(begin + 1, begin + 201))
    assert [each.result(PATIENCE) for each in posting] == [None] * 10


def test_a_slow_reader_loses_nothing_and_keeps_nobody_waiting(served: Serving) -> None:
    begin = last(served)
    with stream(served, f"?after={begin}", buffer=4096) as slow, stream(served, f"?after={begin}") as quick:
        for _ in range(4):
            post_many(served, 1000, "n" * 150)
        assert numbers(quick.events(4000))[-1] == begin + 4000
        assert ask(served, "GET", "/health").status == 200
        assert numbers(slow.events(4000)) == list(range(begin + 1, begin + 4001))


def test_a_write_that_bypasses_the_daemon_is_streamed(served: Serving) -> None:
    with stream(served) as reading, tiebreak.open(served.board, agent="local~1", project="demo") as board:
        task = board.tasks.post(name="x")
        assert json.loads(reading.events(1)[0]["data"])["subject"] == task.id


# ── Silence ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_idle_stream_sends_comments(near: Callable[..., InProcessDaemon], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "STREAM_HEARTBEAT", 0.05)
    place = near()
    with stream(place) as reading:
        blocks = reading.blocks()
        assert next(blocks) == ["retry: 1000"]
        assert [next(blocks) for _ in range(3)] == [[": still here"]] * 3
        post(place, "x")
        told: dict[str, Any] = {}
        while "id" not in told:
            told = dict(line.split(": ", 1) for line in next(blocks))
        assert told["event"] == "task.posted"


def test_the_head_of_a_stream_is_answered_without_a_stream(served: Serving) -> None:
    answer = ask(served, "HEAD", "/events")
    assert (answer.status, answer.body) == (200, b"")
    assert gauge(served, "waiters") == 0
