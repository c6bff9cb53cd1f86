"""A thousand posts, fifty waiters with fifty filters: each sees what it asked for, all of it, each thing once."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.daemons import Serving
from tiebreak.user_folders import token_for

from .crew import Crew, race
from .places import served
from .scenarios import Run, open_board

POSTS = 1000
PROJECTS = ["alpha", "beta"]
KINDS = ["task", "review", "build", "decision"]
PRIORITIES = ["low", "normal", "high", "urgent"]
WORDS = ["apple", "banana", "cherry", "date", "elder", "fig", "grape"]
POSTERS = [f"poster-{i}" for i in range(8)]

Filter = dict[str, str]
Post = dict[str, str]


def posts() -> list[Post]:
    """A thousand of them, no two of the same name, with every mix of what can be filtered by."""
    return [
        {
            "name": f"{WORDS[i % 7]} {WORDS[(i // 7) % 7].upper()} {i}",
            "kind": KINDS[i % 4],
            "priority": PRIORITIES[(i // 4) % 4],
            "project": PROJECTS[(i // 3) % 2],
            "agent": POSTERS[i % 8],
        }
        for i in range(POSTS)
    ]


def filters() -> list[Filter]:
    """Fifty, all different: alone, in pairs, all at once, and none."""
    alone: list[Filter] = [
        {},
        *({"kind": kind} for kind in KINDS),
        *({"priority": priority} for priority in PRIORITIES),
        *({"name_contains": word} for word in WORDS),
        *({"project": project} for project in PROJECTS),
        *({"agent": agent} for agent in POSTERS),
    ]
    pairs = [
        {"kind": kind, "project": project, "name_contains": word, "priority": priority}
        for (kind, word), (project, priority) in zip(
            itertools.product(KINDS, WORDS), itertools.cycle(itertools.product(PROJECTS, PRIORITIES)), strict=False
        )
    ]
    return [*alone, *pairs][:50]


def matches(post: Post, wanted: Filter) -> bool:
    """What a filter means, said once more and without a database."""
    return all(
        value in post["name"].lower() if field == "name_contains" else post[field] == value
        for field, value in wanted.items()
    )


def last_for(waiter: int, wanted: Filter) -> Post:
    """The post by which a waiter knows that there is nothing more to come."""
    plain = {"kind": "task", "priority": "normal", "project": PROJECTS[0], "agent": POSTERS[0]}
    word = wanted.get("name_contains", "")
    return {**plain, **{k: v for k, v in wanted.items() if k in plain}, "name": f"end of {waiter} {word}"}


# ── Those who wait ───────────────────────────────────────────────────────────────────────────────────


def follower(url: str, waiter: int, wanted: Filter, after: int) -> Run:
    """Follow through the library."""
    with open_board(url, f"waiter-{waiter}") as board:
        found = board.follow(after=after, timeout=180.0, event="task.posted", **{"project": None, **wanted})
        yield
        names: list[str | None] = []
        for event in found:
            if event.name and event.name.startswith("end of "):
                if event.name.split()[2] == str(waiter):
                    return names
            else:
                names.append(event.name)
    raise AssertionError(f"the end never came; {len(names)} events did")


class Raw:
    """A connection of a client that gives itself a name, since one client has but so many places to wait."""

    def __init__(self, url: str, client: str) -> None:
        self.port = int(url.rpartition(":")[2])
        self.headers = {"Authorization": f"Bearer {token_for('127.0.0.1', self.port)}", "Tiebreak-Client": client}
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=180)

    def rpc(self, method: str, params: dict[str, Any]) -> Any:
        """The result of an operation."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        self.connection.request("POST", "/rpc", body, {**self.headers, "Content-Type": "application/json"})
        return json.loads(self.connection.getresponse().read())["result"]

    def stream(self, wanted: Filter, after: int | None) -> Iterator[dict[str, Any]]:
        """Server-sent events, first of all a nothing that tells that the stream has begun."""
        resumed = {} if after is None else {"Last-Event-ID": str(after)}
        query = urlencode({"event": "task.posted", **wanted})
        self.connection.request("GET", f"/events?{query}", headers={**self.headers, **resumed})
        answer = self.connection.getresponse()
        assert answer.status == 200, answer.read()
        yield {}
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


def poller(url: str, waiter: int, wanted: Filter, after: int) -> Run:
    """Ask for what is new, again and again; the daemon answers when there is something."""
    raw = Raw(url, f"poller-{waiter % 3}")
    yield
    names: list[str] = []
    while True:
        params = {"event": "task.posted", "project": None, **wanted, "after": after, "limit": 7, "wait_ms": 60_000}
        for event in raw.rpc("events.read", params):
            after = event["number"]
            if not event["name"].startswith("end of "):
                names.append(event["name"])
            elif event["name"].split()[2] == str(waiter):
                return names


def listener(url: str, waiter: int, wanted: Filter, after: int) -> Run:
    """Listen to a stream; every other one hangs up now and then and goes on where it was."""
    raw = Raw(url, f"listener-{waiter % 3}")
    stream = raw.stream(wanted, None)  # from now on: whoever begins to listen misses nothing that comes
    next(stream)
    yield
    names: list[str] = []
    for seen in itertools.count(1):
        event = next(event for event in stream if event)
        if not event["name"].startswith("end of "):
            names.append(event["name"])
        elif event["name"].split()[2] == str(waiter):
            return names
        if waiter % 2 and seen % 17 == 0:
            raw.connection.close()
            raw = Raw(url, f"listener-{waiter % 3}")
            stream = raw.stream(wanted, event["number"])
    return names


WAYS = [follower, poller, listener]


def waiters(url: str, some: list[tuple[int, Filter]], after: int) -> Run:
    """Some of the waiters in one process, a thread each; the line is passed when all of them wait."""
    ready = threading.Semaphore(0)
    reports: dict[int, Any] = {}

    def live(waiter: int, wanted: Filter) -> None:
        try:
            running = WAYS[waiter % 3](url, waiter, wanted, after)
            next(running)
            ready.release()
            next(running)
        except StopIteration as end:
            reports[waiter] = end.value
        except BaseException as exc:
            reports[waiter] = repr(exc)
            ready.release()

    threads = [threading.Thread(target=live, args=each, daemon=True) for each in some]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert ready.acquire(timeout=120)
    yield
    for thread in threads:
        thread.join(180.0)
    return reports


def poster(address: str, some: list[Post]) -> Run:
    """Post these, alone and in batches."""
    board = open_board(address)
    yield
    for start in range(0, len(some), 5):
        first, *rest = some[start : start + 5]
        board.call("tasks.post", {**first, "agent": f"{first['agent']}~1"})
        answers = board.batch([("tasks.post", {**post, "agent": f"{post['agent']}~1"}) for post in rest])
        assert not [answer for answer in answers if isinstance(answer, Exception)], answers


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Serving]:
    """A daemon, and something that happened before anybody waits."""
    with served(tmp_path) as made:
        with open_board(made.url) as board:
            board.tasks.post(name="apple before", project=PROJECTS[0], agent=f"{POSTERS[0]}~1")
        yield made


def test_fifty_waiters_see_what_they_wait_for_exactly_once(daemon: Serving) -> None:
    every, wanted = posts(), filters()
    assert len({json.dumps(each, sort_keys=True) for each in wanted}) == 50
    assert len({post["name"] for post in every}) == POSTS
    with open_board(daemon.url) as board:
        after = board.events.last()
    numbered = list(enumerate(wanted))
    crews = [(daemon.url, numbered[i::5], after) for i in range(5)]
    ways = [daemon.url, os.fspath(daemon.board)]
    with Crew(waiters, crews) as crew:
        crew.go()
        race(poster, [(ways[i % 2], every[i::8]) for i in range(8)])
        race(poster, [(daemon.url, [last_for(*each) for each in numbered])])
        seen = {waiter: names for report in crew.reports() for waiter, names in report.items()}
    assert len(seen) == 50
    for waiter, names in seen.items():
        assert isinstance(names, list), f"waiter {waiter}: {names}"
        due = Counter(post["name"] for post in every if matches(post, wanted[waiter]))
        assert due, f"nothing to see for {wanted[waiter]}"
        assert Counter(names) - due == Counter(), f"waiter {waiter}, {wanted[waiter]}: seen too often"
        assert due - Counter(names) == Counter(), f"waiter {waiter}, {wanted[waiter]}: missed"


def sleeper(url: str, program: int) -> Run:
    """Wait for something that does not come, for long enough to do so at the same time as all others."""
    with open_board(url, f"program-{program}") as board:
        after = board.events.last()
        yield
        return board.engine.wait(after, 1.5)


def test_forty_programs_that_wait_on_one_machine_are_all_let_in(daemon: Serving) -> None:
    assert race(sleeper, [(daemon.url, i) for i in range(40)]) == [False] * 40
