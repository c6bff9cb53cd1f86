"""`/metrics` has the format of Prometheus, and each metric counts what its name says."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest

from ..cli.command import until
from ..daemons import Serving
from .conftest import (
    LONG,
    WHO,
    Crowd,
    ask,
    gauge,
    held_gate,
    metrics,
    post,
    result,
    rpc,
    samples,
    stream,
    until_waiting,
)

HERE = {"project": "demo"}
OF_THE_SWEEP = re.compile(r'"(tasks|schedules)\.due"')
"""What the daemon itself asks once a second."""
TYPES = {
    "operations_total": "counter",
    "lost_races_total": "counter",
    "fenced_writes_total": "counter",
    "http_requests_total": "counter",
    "batch_size": "histogram",
    "commit_seconds": "histogram",
    "waiters": "gauge",
    "queue_depth": "gauge",
    "wal_bytes": "gauge",
    "wal_kept_by_pid": "gauge",
}


def text(place: Serving) -> str:
    """The metrics as they are sent."""
    return ask(place, "GET", "/metrics").body.decode()


def counted(operation: str, outcome: str) -> str:
    """The name of a counter."""
    return f'tiebreak_operations_total{{operation="{operation}",outcome="{outcome}"}}'


def grown(place: Serving, work: Callable[[], object]) -> dict[str, float]:
    """The counters of operations that grew while something was done, and by how much."""
    before = metrics(place)
    work()
    after = metrics(place)
    return {
        name: value - before.get(name, 0)
        for name, value in after.items()
        if value != before.get(name, 0) and name.partition("{")[0].endswith("_total") and not OF_THE_SWEEP.search(name)
    }


# ── The form ─────────────────────────────────────────────────────────────────────────────────────────


def test_every_sample_has_a_help_and_a_type_before_it(served: Serving) -> None:
    post(served, "x")
    answer = ask(served, "GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    body = answer.body.decode()
    assert body.endswith("\n")
    assert samples(body)
    helped, typed = set[str](), dict[str, str]()
    for line in body.splitlines():
        if line.startswith("# HELP "):
            helped.add(line.split(" ", 3)[2])
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name in helped
            assert name not in typed, "a family is in one piece"
            typed[name] = kind
            current = name
        else:
            assert line.startswith(current)
    assert {f"tiebreak_{name}": kind for name, kind in TYPES.items()}.items() <= typed.items()
    assert set(typed) == helped


@pytest.mark.parametrize("name", ["batch_size", "commit_seconds"])
def test_the_buckets_of_a_histogram_add_up(name: str, served: Serving) -> None:
    post(served, "x")
    found = metrics(served)
    prefix = f'tiebreak_{name}_bucket{{le="'
    buckets = [(key[len(prefix) : -2], value) for key, value in found.items() if key.startswith(prefix)]
    bounds = [float(bound) for bound, _ in buckets]
    counts = [count for _, count in buckets]
    assert bounds == sorted(bounds)
    assert bounds[-1] == float("inf")
    assert counts == sorted(counts)
    assert counts[-1] == found[f"tiebreak_{name}_count"] > 0
    assert found[f"tiebreak_{name}_sum"] > 0


# ── The numbers ──────────────────────────────────────────────────────────────────────────────────────


def lose(place: Serving) -> Any:
    """Claim what somebody else has."""
    return rpc(place, "tasks.claim", ref="taken", agent="late~1", **HERE)


def fence(place: Serving) -> Any:
    """Complete with a grant that is not the current one."""
    return rpc(place, "tasks.complete", ref="taken", epoch=7, **WHO)


ENDS: dict[str, tuple[Callable[[Serving], Any], str, str]] = {
    "ok": (lambda at: post(at, "x"), "tasks.post", "ok"),
    "a read": (lambda at: result(at, "events.last"), "events.last", "ok"),
    "lost": (lose, "tasks.claim", "lost"),
    "fenced": (fence, "tasks.complete", "fenced"),
    "refused": (lambda at: rpc(at, "tasks.cancel", ref="no-such", **WHO), "tasks.cancel", "refused"),
    "a read refused": (lambda at: rpc(at, "tasks.get", ref="no-such", **HERE), "tasks.get", "refused"),
    "invalid": (lambda at: rpc(at, "tasks.post", name="", **WHO), "tasks.post", "invalid"),
    "a read invalid": (lambda at: rpc(at, "tasks.list", limit=-1, **HERE), "tasks.list", "invalid"),
    "a wait": (lambda at: result(at, "tasks.list", kind="never", wait_ms=20, **HERE), "tasks.list", "ok"),
    "a wait invalid": (lambda at: rpc(at, "tasks.list", limit=-1, wait_ms=20, **HERE), "tasks.list", "invalid"),
}


@pytest.mark.parametrize("end", ENDS)
def test_operations_are_counted_by_name_and_outcome(end: str, served: Serving) -> None:
    work, operation, outcome = ENDS[end]
    rpc(served, "tasks.claim", ref="taken", **WHO)
    extra = {"lost": {"tiebreak_lost_races_total": 2}, "fenced": {"tiebreak_fenced_writes_total": 2}}
    assert grown(served, lambda: [work(served), work(served)]) == {
        counted(operation, outcome): 2,
        **extra.get(outcome, {}),
        'tiebreak_http_requests_total{status="200"}': 3,  # the first look at the metrics is the third
    }


def test_each_part_of_a_batch_is_counted(served: Serving) -> None:
    rpc(served, "tasks.claim", ref="taken", **WHO)
    batch = [
        {"jsonrpc": "2.0", "id": i, "method": method, "params": params}
        for i, (method, params) in enumerate(
            [
                ("tasks.post", {"name": "a", **WHO}),
                ("tasks.post", {"name": "b", **WHO}),
                ("tasks.claim", {"ref": "taken", "agent": "late~1", **HERE}),
            ]
        )
    ]
    assert grown(served, lambda: ask(served, "POST", "/rpc", batch)) == {
        counted("tasks.post", "ok"): 2,
        counted("tasks.claim", "lost"): 1,
        "tiebreak_lost_races_total": 1,
        'tiebreak_http_requests_total{status="200"}': 2,
    }


def test_requests_are_counted_by_status(served: Serving) -> None:
    def work() -> None:
        assert ask(served, "GET", "/nowhere").status == 404
        assert served.ask("GET", "/health", token="wrong").status == 401

    assert grown(served, work) == {
        'tiebreak_http_requests_total{status="200"}': 1,
        'tiebreak_http_requests_total{status="401"}': 1,
        'tiebreak_http_requests_total{status="404"}': 1,
    }


def test_open_waits_and_streams_are_counted_for_as_long_as_they_last(served: Serving, crowd: Crowd) -> None:
    assert gauge(served, "waiters") == 0
    waiting = crowd(result, served, "tasks.list", kind="awaited", wait_ms=LONG, **HERE)
    until_waiting(served, 1)
    with stream(served):
        assert gauge(served, "waiters") == 2
    post(served, "x", kind="awaited")
    assert len(waiting.result()) == 1
    assert gauge(served, "waiters") == 0


def test_the_queue_is_counted_while_it_cannot_be_written(served: Serving, crowd: Crowd) -> None:
    post(served, "makes the gate")
    with held_gate(served.board):
        writing = [crowd(post, served, f"{i}") for i in range(3)]
        until(lambda: gauge(served, "queue_depth") == 3, "three writes wait")
    assert all(each.result() for each in writing)
    assert gauge(served, "queue_depth") == 0


def test_the_size_of_the_log_is_the_size_of_its_file(served: Serving) -> None:
    post(served, "x")
    assert gauge(served, "wal_bytes") == os.path.getsize(f"{served.board}-wal") > 0
