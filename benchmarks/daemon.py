"""What the daemon makes of many clients: group commit, batches, wake-ups, and what it costs when nothing happens.

Compared, all in one run: durable claims over 64 keep-alive connections, each request a task that nobody had yet,
against a bare echo of the same server stack, against the raw statement of a claim in transactions of 64, and against
the same daemon with one commit for each request; JSON-RPC batches of 100 against single requests. The load comes from
one process beside the daemon, so on two cores each has about one.
"""

from __future__ import annotations

import json
import time
from statistics import median
from typing import TYPE_CHECKING

from . import boards
from .claims import Raw, Supply
from .load import Run, drive, request
from .measure import Report, Settings, folder, in_turns, percentile, progress, seconds, spread, times
from .servers import server

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .servers import Server

CONNECTIONS = 64
BATCH = 100


def run(settings: Settings) -> Report:
    """Rates, latencies and costs."""
    report = Report(
        "daemon",
        "Durable claims through `tb serve` over 64 connections, and what they are measured against. Aims: ≥ 0.4× of "
        "the echo, ≥ 0.3× of the raw statement, ≥ 3× of one commit per request, batches ≥ 5× single requests, wake-up "
        "p50 ≤ 2 ms.",
        ["what", "per second", "ratio", "of what", "noise"],
    )
    with folder() as place:
        _rates(settings, place, report)
    with folder() as place:
        _latencies(settings, place, report)
    with folder() as place:
        _wake_ups(settings, place, report)
    with folder() as place:
        _waiters(settings, place, report)
    with folder() as place:
        _memory(settings, place, report)
    return report


def _claim(number: int, id: int = 1) -> dict[str, Any]:
    params = {"ref": f"#{number}", "agent": boards.AGENT, "project": boards.PROJECT}
    return {"jsonrpc": "2.0", "id": id, "method": "tasks.claim", "params": params}


def _body(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def _rates(settings: Settings, place: str, report: Report) -> None:
    rounds, claims, few = settings.size(7, 2), settings.size(6000, 200), settings.size(1500, 100)
    ready = (rounds + 1) * (claims * 2 + few + 64) + 1000
    for name in ("board", "alone", "bare"):
        boards.board(f"{place}/{name}.db", ready).close()
    connection = boards.raw(f"{place}/bare.db")
    raw = Raw(connection, time.time_ns() // 1000)
    supplies = {name: Supply(ready) for name in ("board", "alone", "bare")}
    with (
        server("echo", place) as echo,
        server("daemon", place, f"{place}/board.db") as daemon,
        server("alone", place, f"{place}/alone.db") as alone,
    ):

        def claiming(where: Server, supply: Supply, count: int) -> Run:
            bodies = [_body(_claim(supply.fresh())) for _ in range(count)]
            return _checked(drive(where.port, [_request(where, body) for body in bodies], CONNECTIONS))

        def batches(where: Server, supply: Supply, count: int) -> Run:
            groups = [[_claim(n) for n in supply.some(BATCH)] for _ in range(count // BATCH)]
            return _checked(drive(where.port, [_request(where, _body(group)) for group in groups], 4))

        def echoes(count: int) -> Run:
            return drive(echo.port, [_request(echo, _body(_claim(n))) for n in range(count)], CONNECTIONS)

        def raw_claims(count: int) -> float:
            groups = [supplies["bare"].some(64) for _ in range(count // 64)]
            return len(groups) * 64 / seconds(lambda: [raw.many(group) for group in groups])

        work: dict[str, Callable[[], float]] = {
            "claims": lambda: claiming(daemon, supplies["board"], claims).rate,
            "echo": lambda: echoes(claims).rate,
            "raw": lambda: raw_claims(claims),
            "alone": lambda: claiming(alone, supplies["alone"], few).rate,
            "batches": lambda: batches(daemon, supplies["board"], claims).rate * BATCH,
        }
        claiming(daemon, supplies["board"], 64)
        found = in_turns(work, rounds)
    connection.close()
    _report_rates(report, found)


def _report_rates(report: Report, found: dict[str, list[float]]) -> None:
    rates = {name: median(each) for name, each in found.items()}
    for what, name, other, of in (
        ("claims, one a request", "claims", "echo", "a bare echo of the same stack"),
        ("", "claims", "raw", "the raw statement, 64 in a transaction"),
        ("", "claims", "alone", "the same, one commit per request"),
        ("claims, 100 in a JSON-RPC batch", "batches", "claims", "claims, one a request"),
    ):
        noise = f"{spread(found[name])} / {spread(found[other])}"
        report.add(what or "″", rates[name], times(rates[name], rates[other]), f"{of}: {rates[other]:,.0f}", noise)


def _request(where: Server, body: bytes) -> bytes:
    return request("/rpc", body, where.token, where.port)


def _checked(run: Run) -> Run:
    assert run.refused == 0, f"{run.refused} of {run.requests} claims were refused"
    return run


def _latencies(settings: Settings, place: str, report: Report) -> None:
    """Claims for as long as it takes the log to be copied into the database several times."""
    claims = settings.size(60_000, 500)
    boards.board(f"{place}/board.db", claims + 10).close()
    with server("daemon", place, f"{place}/board.db") as daemon:
        messages = [_request(daemon, _body(_claim(n))) for n in range(1, claims + 1)]
        run = _checked(drive(daemon.port, messages, CONNECTIONS))
    took = {p: percentile(run.latencies, p) * 1000 for p in (50, 99, 99.9)}
    report.notes.append(
        f"Latency of {claims:,} claims over {CONNECTIONS} connections while checkpoints run ({run.rate:,.0f}/s): "
        f"p50 {took[50]:.1f} ms, p99 {took[99]:.1f} ms, p99.9 {took[99.9]:.1f} ms, longest "
        f"{max(run.latencies) * 1000:.1f} ms."
    )


def _wake_ups(settings: Settings, place: str, report: Report) -> None:
    """From just before a post is sent until a waiter on another connection has the event."""
    import os
    import threading

    import tiebreak

    rounds = settings.size(400, 10)
    with server("daemon", place, f"{place}/board.db") as daemon:
        os.environ["TIEBREAK_TOKEN"] = daemon.token
        address = f"http://127.0.0.1:{daemon.port}"
        waiter = tiebreak.open(address, agent="waiter~1", project=boards.PROJECT)
        poster = tiebreak.open(address, agent=boards.AGENT, project=boards.PROJECT)
        posted = [0.0]
        took: list[float] = []
        ready, seen = threading.Semaphore(0), threading.Semaphore(0)

        def wait() -> None:
            after = waiter.events.last()
            for _ in range(rounds):
                ready.release()
                event = waiter.wait(after=after, timeout=20, event="task.posted")
                took.append(time.perf_counter() - posted[0])
                after = event.number
                seen.release()

        thread = threading.Thread(target=wait)
        thread.start()
        for number in range(rounds):
            ready.acquire()
            time.sleep(0.005)
            posted[0] = time.perf_counter()
            poster.tasks.post(name=f"task {number}")
            seen.acquire()
        thread.join()
        waiter.close()
        poster.close()
        del os.environ["TIEBREAK_TOKEN"]
    p50, p99 = (percentile(took, p) * 1000 for p in (50, 99))
    report.notes.append(f"Wake-up, from sending a post to the waiter's event: p50 {p50:.2f} ms, p99 {p99:.2f} ms.")


def _waiters(settings: Settings, place: str, report: Report) -> None:
    """The CPU of a daemon in which many wait and nothing happens."""
    import socket

    count, span = settings.size(1000, 50), settings.size(10, 1)
    with server("daemon", place, f"{place}/board.db") as daemon:
        params = {"after": 0, "project": "other", "wait_ms": 60000}
        message = _body({"jsonrpc": "2.0", "id": 1, "method": "events.read", "params": params})
        waiting = []
        for number in range(count):
            made = socket.create_connection(("127.0.0.1", daemon.port))
            made.sendall(request("/rpc", message, daemon.token, daemon.port, f"client-{number // 30}"))
            waiting.append(made)
        time.sleep(2)
        before = daemon.cpu()
        time.sleep(span)
        used = (daemon.cpu() - before) / span
        memory = daemon.memory()
        for made in waiting:
            made.close()
    report.notes.append(f"Idle with {count:,} waiters: {used:.1%} of a core, {memory:.0f} MiB.")


def _memory(settings: Settings, place: str, report: Report) -> None:
    """What a daemon holds in memory when the board is large."""
    tasks, claims = settings.size(1_000_000, 1000), settings.size(5000, 100)
    progress(f"{tasks:,} tasks …")
    boards.board(f"{place}/board.db", tasks).close()
    with server("daemon", place, f"{place}/board.db") as daemon:
        empty = daemon.memory()
        messages = [_request(daemon, _body(_claim(tasks - n))) for n in range(claims)]
        rate = _checked(drive(daemon.port, messages, CONNECTIONS)).rate
        listing = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tasks.list",
            "params": {"project": boards.PROJECT, "limit": 1000},
        }
        drive(daemon.port, [_request(daemon, _body(listing))] * 20, 4)
        memory = daemon.memory()
    report.notes.append(
        f"Memory with {tasks:,} tasks on the board: {empty:.0f} MiB at the start, {memory:.0f} MiB after {claims:,} "
        f"claims ({rate:,.0f}/s) and lists."
    )
