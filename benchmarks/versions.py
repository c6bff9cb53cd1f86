"""This version beside an earlier one, in turns: what a change of the rules has cost.

The earlier one is a commit of this repository (`TIEBREAK_BEFORE`, by default the one before record 22). Each round runs
in a process of its own, on a board of its own, made by the version that is measured.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from statistics import median
from typing import TYPE_CHECKING

from .measure import REPOSITORY, Report, Settings, folder, progress, spread

if TYPE_CHECKING:
    from collections.abc import Callable

BEFORE = "ff75c33"
ROUNDS = 9
OPERATIONS = ("post", "claim", "next", "extend", "complete", "hold", "renew", "glob", "release")


def run(settings: Settings) -> Report:
    """Both versions on both engines, one process that waits for each answer."""
    ref = os.environ.get("TIEBREAK_BEFORE", BEFORE)
    report = Report(
        "versions",
        f"Operations per second, one process, this version and {ref} in turns, medians of {ROUNDS} rounds.",
        ["what", "before", "now", "now / before", "noise"],
    )
    from tests.postgres import Server

    with folder() as place:
        before = _checkout(ref, place)
        server = Server()
        try:
            for engine in ("SQLite", "PostgreSQL"):
                _compare(settings, report, engine, {"before": before, "now": f"{REPOSITORY}/src"}, place, server)
        finally:
            server.close()
    return report


def _checkout(ref: str, place: str) -> str:
    """The source of an earlier version, in a folder of its own."""
    packed = subprocess.run(["git", "-C", REPOSITORY, "archive", ref, "src"], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(f"{place}/before", filter="data")
    return f"{place}/before/src"


def _compare(
    settings: Settings, report: Report, engine: str, sources: dict[str, str], place: str, server: object
) -> None:
    count = settings.size(300, 5)
    rates: dict[str, dict[str, list[float]]] = {name: {each: [] for each in OPERATIONS} for name in sources}
    for turn in range(settings.size(ROUNDS, 1) + 1):  # the first round only warms up
        progress(f"versions: {engine}, round {turn} …")
        for name in sorted(sources, reverse=bool(turn % 2)):
            found = _round(sources[name], _board(engine, f"{name}_{turn}", place, server), count)
            for each, rate in found.items():
                rates[name][each] += [rate] if turn else []
    for each in OPERATIONS:
        old, new = rates["before"][each], rates["now"][each]
        ratio = [n / o for n, o in zip(new, old, strict=True)]
        report.add(f"{engine}: {each}", median(old), median(new), f"{median(ratio):.2f}×", spread(ratio))


def _board(engine: str, name: str, place: str, server: object) -> str:
    if engine == "SQLite":
        return f"{place}/{name}.db"
    import psycopg

    with psycopg.connect(server.address(), autocommit=True) as connection:  # type: ignore[attr-defined]
        connection.execute(f"CREATE DATABASE {name}")
    return str(server.address(name))  # type: ignore[attr-defined]


def _round(source: str, address: str, count: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.versions", address, str(count)],
        env={**os.environ, "PYTHONPATH": f"{source}:{REPOSITORY}"},
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


# ── In the process that is measured ──────────────────────────────────────────────────────────────────


def measured(address: str, count: int) -> dict[str, float]:
    """How many of each operation per second."""
    import time

    import tiebreak

    board = tiebreak.open(address, agent="alice~1", project="p")
    board.holds.take(resources=["file:elsewhere/**"])
    refs: list[str] = []
    won: list[tuple[str, int]] = []

    def post(i: int) -> None:
        refs.append(board.tasks.post(name=f"task {i}").id)

    def claim(i: int) -> None:
        won.append((refs[i], board.tasks.claim(ref=refs[i]).epoch))

    def take(i: int) -> None:
        [task] = board.tasks.next()
        won.append((task.id, task.epoch))

    steps: dict[str, Callable[[int], object]] = {
        "post": post,
        "claim": claim,
        "extend": lambda i: board.tasks.extend(ref=won[i][0], epoch=won[i][1]),
        "complete": lambda i: board.tasks.complete(ref=won[i][0], epoch=won[i][1]),
        "next": take,
        "hold": lambda i: board.holds.take(resources=[f"lock:{i}"]),
        "renew": lambda i: board.holds.renew(resources=[f"lock:{i}"], epochs=[1]),
        "release": lambda i: board.holds.release(resources=[f"lock:{i}"], epochs=[1]),
        "glob": lambda i: board.holds.take(resources=[f"file:src/{i}/*.py"]),
    }
    rates = {}
    for name, step in steps.items():
        if name == "next":
            for i in range(count):
                post(i)
        begin = time.perf_counter()
        for i in range(count):
            step(i)
        rates[name] = count / (time.perf_counter() - begin)
    board.close()
    return rates


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]))))
