"""This version beside an earlier one, in turns: what a change of the rules has cost.

The earlier one is a commit of this repository (`TIEBREAK_BEFORE`, by default the one before record 22). Each version
has a process and a board of its own, made by the version that is measured. The two take turns, a few operations each,
so that what else the machine does meets both alike.
"""

from __future__ import annotations

import io
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
TURNS = 200
AT_ONCE = 10
"""Operations of one turn."""
OPERATIONS = ("post", "claim", "extend", "complete", "next", "hold", "renew", "release", "glob")
"""In this order: some use what earlier ones have made."""


def run(settings: Settings) -> Report:
    """Both versions on both engines, one process that waits for each answer."""
    ref = os.environ.get("TIEBREAK_BEFORE", BEFORE)
    report = Report(
        "versions",
        f"Operations per second, one process, this version and {ref} in turns, medians of {TURNS} turns.",
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
    turns = settings.size(TURNS, 2)
    versions = {name: _Version(source, _board(engine, name, place, server)) for name, source in sources.items()}
    try:
        for each in OPERATIONS:
            progress(f"versions: {engine}, {each} …")
            rates: dict[str, list[float]] = {name: [] for name in versions}
            for turn in range(turns + 1):  # the first one only warms up
                for name in sorted(versions, reverse=bool(turn % 2)):
                    rate = versions[name].rate(each, turn)
                    rates[name] += [rate] if turn else []
            ratio = [new / old for new, old in zip(rates["now"], rates["before"], strict=True)]
            old, new = (median(rates[name]) for name in ("before", "now"))
            report.add(f"{engine}: {each}", old, new, f"{median(ratio):.2f}×", spread(ratio))
    finally:
        for version in versions.values():
            version.close()


def _board(engine: str, name: str, place: str, server: object) -> str:
    if engine == "SQLite":
        return f"{place}/{name}.db"
    import psycopg

    with psycopg.connect(server.address(), autocommit=True) as connection:  # type: ignore[attr-defined]
        connection.execute(f"CREATE DATABASE {name}")
    return str(server.address(name))  # type: ignore[attr-defined]


class _Version:
    """A process that works with one version."""

    def __init__(self, source: str, address: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.versions", address],
            env={**os.environ, "PYTHONPATH": f"{source}:{REPOSITORY}"},
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def rate(self, operation: str, turn: int) -> float:
        """How many per second, in this turn."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{operation} {turn}\n")
        self._process.stdin.flush()
        return AT_ONCE / float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


# ── In the process that is measured ──────────────────────────────────────────────────────────────────


def measured(address: str) -> None:
    """Read the name of an operation and the number of the turn from each line, and print how many seconds it took."""
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

    steps: dict[str, Callable[[int], object]] = {
        "post": post,
        "claim": claim,
        "extend": lambda i: board.tasks.extend(ref=won[i][0], epoch=won[i][1]),
        "complete": lambda i: board.tasks.complete(ref=won[i][0], epoch=won[i][1]),
        "next": lambda i: board.tasks.next(),
        "hold": lambda i: board.holds.take(resources=[f"lock:{i}"]),
        "renew": lambda i: board.holds.renew(resources=[f"lock:{i}"], epochs=[1]),
        "release": lambda i: board.holds.release(resources=[f"lock:{i}"], epochs=[1]),
        "glob": lambda i: board.holds.take(resources=[f"file:src/{i}/*.py"]),
    }
    for line in sys.stdin:
        name, turn = line.split()
        numbers = range(int(turn) * AT_ONCE, (int(turn) + 1) * AT_ONCE)
        if name == "next":
            for i in numbers:
                post(i)
        step = steps[name]
        begin = time.perf_counter()
        for i in numbers:
            step(i)
        print(time.perf_counter() - begin, flush=True)
    board.close()


if __name__ == "__main__":
    measured(sys.argv[1])
