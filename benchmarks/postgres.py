"""The board on PostgreSQL: claims and completions by many processes, beside two other queues on the same server.

Everything in one run on one server of its own (fsync on, settings as they come), on a private socket; clients and
server share this machine's cores. Each process has a board of its own, all work in one project, and a figure counts
from the moment when all begin until the last has ended. procrastinate and pgqueuer are worked by as many processes in
an environment of their own; `peers` says how, how durable each is and that neither fences.

Latency is measured on boards with 1,000 and 1,000,000 ready tasks, and again while somebody keeps a transaction open
that stops vacuum: nothing that was claimed or completed meanwhile can be removed, and `next` has to step over it.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

import psycopg
from tests.postgres import WRITES, Server

from . import boards, horizon, peers
from .crew import BATCH, FORK, Latency, board, database, filled, finish, together
from .measure import REPOSITORY, Report, Settings, in_turns, percentile, progress, times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

    from tiebreak import Board

    from .crew import Action

PROCESSES = (1, 4, 16)
CONTEST = (1, 4)

# ── Rates ────────────────────────────────────────────────────────────────────────────────────────────


class Pile:
    """A board whose tasks are given out by number from the top, so that each is asked for once."""

    def __init__(self, address: str, top: int) -> None:
        self.address = address
        self._top = top

    def claims(self, processes: int, count: int, batch: int) -> dict[str, float]:
        """Rates of claims by number, and of the completions of what was won."""
        share = count // processes // batch * batch
        self._top -= share * processes
        low = self._top + 1

        def numbers(who: int) -> Iterator[list[int]]:
            for first in range(low + who * share, low + (who + 1) * share, batch):
                yield list(range(first, first + batch))

        def claim(mine: Board, who: int) -> None:
            for some in numbers(who):
                if batch == 1:
                    mine.tasks.claim(ref=f"#{some[0]}")
                else:
                    assert len(mine.tasks.claim_many(refs=[f"#{number}" for number in some])) == batch

        def complete(mine: Board, who: int) -> None:
            for some in numbers(who):
                finish(mine, some)

        actions = {"claim": claim, "complete": complete}
        return {name: share * processes / together(self.address, processes, each) for name, each in actions.items()}

    def next(self, processes: int, count: int, batch: int) -> dict[str, float]:
        """The rate of `next`; what it gave is completed afterwards, or it would be looked through every time."""
        calls = count // processes // batch

        def claim(mine: Board, _: int) -> None:
            for _ in range(calls):
                assert len(mine.tasks.next(count=batch)) == batch

        took = together(self.address, processes, claim)
        with psycopg.connect(self.address, autocommit=True, options=WRITES) as connection:
            connection.execute("UPDATE tasks SET state = 'completed', finished_at = 1 WHERE state = 'claimed'")
        return {"next": calls * processes * batch / took}


def _rates(settings: Settings, server: Server, report: Report) -> None:
    rounds, single, many = settings.size(3, 1), settings.size(800, 32), settings.size(3200, 1600)
    ready = len(PROCESSES) * rounds * (single + many) * 2 + 1000
    pile = Pile(filled(server, "rates", ready), ready)
    work: dict[str, Callable[[], dict[str, float]]] = {}
    for count in PROCESSES:
        for rows, batch in ((single, 1), (many, BATCH)):
            work[f"claims {count} {batch}"] = lambda c=count, r=rows, b=batch: pile.claims(c, r, b)
            work[f"next {count} {batch}"] = lambda c=count, r=rows, b=batch: pile.next(c, r, b)
    found = in_turns(work, rounds)

    def of(what: str, count: int, batch: int) -> float:
        group = "next" if what == "next" else "claims"
        return median(each[what] for each in found[f"{group} {count} {batch}"])

    for what, called in (
        ("claim", "claim_many of 100"),
        ("next", "next, 100 at once"),
        ("complete", "report of 100"),
    ):
        one, many_at_once = ([of(what, count, batch) for count in PROCESSES] for batch in (1, BATCH))
        report.add(f"{what}, one at a time", *one, "")
        report.add(called, *many_at_once, _ahead(many_at_once, one))


def _ahead(mine: list[float], other: list[float]) -> str:
    return " / ".join(times(a, b) for a, b in zip(mine, other, strict=True))


# ── Beside others ────────────────────────────────────────────────────────────────────────────────────


def _post(count: int, batch: int) -> Action:
    def post(mine: Board, who: int) -> None:
        for number in range(0, count, batch):
            if batch == 1:
                mine.tasks.post(name=f"job {number}")
            else:
                mine.batch([("tasks.post", {"name": f"job {number + n}"}) for n in range(batch)])

    return post


def _work_off(batch: int) -> Action:
    """Claim and complete until nothing is left."""

    def work(mine: Board, _: int) -> None:
        while won := mine.tasks.next(count=batch):
            finish(mine, [task.number for task in won])

    return work


def _contest(settings: Settings, server: Server, report: Report) -> None:
    """Post, and work off what was posted; the same jobs for all three."""
    jobs, rounds = settings.size(1600, 800), settings.size(3, 1)
    python = peers.environment(f"{REPOSITORY}/build")
    progress(f"beside {peers.versions(python)} …")
    ours = database(server, "contest")
    board(ours).close()
    theirs = {peer: database(server, peer) for peer in peers.PEERS}
    for peer, address in theirs.items():
        peers.rate(python, peer, "install", address, 0)
    found = in_turns(
        {
            "tiebreak": lambda: _own_turn(ours, jobs),
            **{peer: lambda p=peer: _turn(python, p, theirs[p], jobs) for peer in peers.PEERS},
        },
        rounds,
    )
    rates = {name: {what: median(each[what] for each in turns) for what in turns[0]} for name, turns in found.items()}
    _compare(report, rates)
    report.notes.append(f"Beside {peers.versions(python)}, medians of {rounds} turns with {jobs:,} jobs.")
    with psycopg.connect(ours) as connection:
        left = connection.execute("SELECT count(*) FROM tasks WHERE state <> 'completed'").fetchone()
        assert left == (0,), left


def _own_turn(address: str, jobs: int) -> dict[str, float]:
    found = {}
    for count in CONTEST:
        found[f"post {count}"] = jobs / together(address, count, _post(jobs // count, 1))
        found[f"work {count}"] = jobs / together(address, count, _work_off(1))
        found[f"post_many {count}"] = jobs / together(address, count, _post(jobs // count, BATCH))
        found[f"work_many {count}"] = jobs / together(address, count, _work_off(BATCH))
    return found


def _turn(python: str, peer: str, address: str, jobs: int) -> dict[str, float]:
    found = {}
    for count in CONTEST:
        for post, work in (("post", "work_one"), ("post_many", "work")):
            found[f"{post} {count}"] = peers.rate(python, peer, post, address, jobs, count)
            found[f"{work} {count}"] = peers.rate(python, peer, work, address, jobs, count)
    return found


def _compare(report: Report, rates: dict[str, dict[str, float]]) -> None:
    """Our row, and under it the others and how far it is ahead of each."""
    for what, mine, theirs in (
        ("post, one at a time", "post", "post"),
        ("post, 100 at once", "post_many", "post_many"),
        ("claim and complete, one at a time", "work", "work_one"),
        ("claim and complete, 100 at once", "work_many", "work"),
    ):
        own = [rates["tiebreak"][f"{mine} {count}"] for count in CONTEST]
        report.add(f"{what}: tiebreak", *own, "", "")
        for peer in peers.PEERS:
            other = [rates[peer][f"{theirs} {count}"] for count in CONTEST]
            report.add(f"″ {peer}", *other, "", _ahead(own, other))


# ── Waking and holding ──────────────────────────────────────────────────────────────────────────────────────────


def _holds(settings: Settings, server: Server, report: Report) -> None:
    """Holds of one project are taken one after the other."""
    count, processes = settings.size(100, 5), 16
    address = database(server, "holds")
    board(address).close()

    def take(apart: bool) -> Action:
        def work(mine: Board, who: int) -> None:
            project = f"project-{who}" if apart else boards.PROJECT
            for number in range(count):
                mine.holds.take(resources=[f"lock:{who}-{number}"], project=project)

        return work

    one, many = (count * processes / together(address, processes, take(apart)) for apart in (False, True))
    report.notes.append(
        f"Holds taken per second by {processes} processes: {one:,.0f} in one project, {many:,.0f} in one project each."
    )


def _wake_ups(settings: Settings, server: Server, report: Report) -> None:
    """From just before a post until a waiter in another process has the event; the clock is the same for both."""
    rounds, address = settings.size(300, 10), database(server, "waking")
    here, there = FORK.Pipe()
    poster = board(address)
    waiter = FORK.Process(target=_wait, args=(address, there, rounds), daemon=True)
    waiter.start()
    took = []
    for number in range(rounds):
        assert here.recv() == "ready"
        time.sleep(0.02)
        began = time.perf_counter()
        poster.tasks.post(name=f"task {number}")
        took.append((here.recv() - began) * 1000)
    waiter.join()
    poster.close()
    found = Latency(percentile(took, 50), percentile(took, 99))
    report.notes.append(f"Wake-up, from posting to the event in a waiter's process, p50 / p99 in ms: {found}.")


def _wait(address: str, pipe: Connection, rounds: int) -> None:
    with board(address, 1) as mine:
        after = mine.events.last()
        for _ in range(rounds):
            pipe.send("ready")
            after = mine.wait(after=after, timeout=20, event="task.posted").number
            pipe.send(time.perf_counter())


def run(settings: Settings) -> Report:
    """Rates, the others, and latencies."""
    report = Report(
        "postgres",
        "Tasks per second on one PostgreSQL with fsync on, by processes that begin together; ratios of batches to "
        "single calls, and of tiebreak to each of the others (1 / 4 processes). Aim: ahead of both.",
        ["what", *(f"{count} process{'es' if count > 1 else ''}" for count in PROCESSES), "ratio"],
    )
    server = Server()
    try:
        _rates(settings, server, report)
        _contest(settings, server, report)
        _wake_ups(settings, server, report)
        horizon.latencies(settings, server, report)
        horizon.finished(settings, server, report)
        horizon.crowded(settings, server, report)
        _holds(settings, server, report)
    finally:
        server.close()
    return report
