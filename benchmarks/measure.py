"""What all benchmarks share: a place for their boards, rounds taken in turns, and a report."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
import tempfile
import time
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tiebreak.text import table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Settings(NamedTuple):
    """How a run was asked for."""

    quick: bool = False
    """Small sizes, to see whether a benchmark works; its figures mean nothing."""
    verbose: bool = False
    write: bool = False
    """Keep what was found in the repository."""
    minutes: float = 10.0
    """For those that go on for as long as they are told."""

    def size(self, full: int, quick: int) -> int:
        """One of two sizes."""
        return quick if self.quick else full


class Report:
    """What a benchmark found: a table, and what is to be known about it."""

    def __init__(self, name: str, title: str, header: list[str], *, left: int = 1) -> None:
        self.name = name
        self.title = title
        self.header = header
        self.left = left
        """How many columns are text, on the left."""
        self.rows: list[list[str]] = []
        self.notes: list[str] = []
        self.failures: list[str] = []
        """What must not be; the run ends with an error."""
        self.details: list[str] = []
        """For `--verbose`: shown, not written."""

    def add(self, *cells: object) -> None:
        """One more row."""
        self.rows.append([cell if isinstance(cell, str) else figure(cell) for cell in cells])

    def text(self) -> str:
        """As people read it in a terminal."""
        right = frozenset(range(self.left, len(self.header)))
        lines = [f"{self.name}: {self.title}", table(self.rows, header=self.header, right=right)]
        return "\n".join([*lines, *self.notes, *self.details, *(f"FAILED: {each}" for each in self.failures)])

    def markdown(self) -> str:
        """As people read it in RESULTS.md."""
        marks = ["---" if i < self.left else "---:" for i in range(len(self.header))]
        lines = ["| " + " | ".join(cells) + " |" for cells in (self.header, marks, *self.rows)]
        notes = "".join(f"\n{note}\n" for note in self.notes)
        return f"## {self.name}\n\n{self.title}\n\n" + "\n".join(lines) + "\n" + notes


def figure(value: object) -> str:
    """A number with as many digits as mean something."""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def times(value: float, yardstick: float) -> str:
    """A ratio, such as `1.62×`."""
    return f"{value / yardstick:.2f}×" if yardstick else "-"


def percentile(values: list[float], percent: float) -> float:
    """The value below which so many percent of the values are."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def spread(values: list[float]) -> str:
    """How far the rounds were apart: the middle half, as a share of the median."""
    return f"±{(percentile(values, 75) - percentile(values, 25)) / 2 / median(values):.0%}"


def progress(text: str) -> None:
    """What is going on, for whoever waits."""
    print(f"  {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """A folder on the repository's disk, gone afterwards: in memory, a commit would cost nothing."""
    parent = os.path.join(REPOSITORY, "build")
    os.makedirs(parent, exist_ok=True)
    made = tempfile.mkdtemp(prefix="bench-", dir=parent)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def in_turns(work: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Run each piece of work once a round, so that a noisy moment hits all alike; returns what they returned."""
    found: dict[str, list[T]] = {name: [] for name in work}
    for number in range(rounds):
        order = list(work) if number % 2 == 0 else list(work)[::-1]
        for name in order:
            found[name].append(work[name]())
        if (number + 1) % max(1, rounds // 15) == 0:
            progress(f"round {number + 1} of {rounds}")
    return found


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def machine() -> list[tuple[str, str]]:
    """What the figures were measured on."""
    import apsw

    load = ", ".join(f"{each:.2f}" for each in os.getloadavg())
    return [
        ("cores", str(os.cpu_count())),
        ("processor", _processor()),
        ("system", f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"),
        ("Python", platform.python_version()),
        ("SQLite", apsw.sqlite_lib_version()),
        ("file system", _file_system(REPOSITORY)),
        ("load before", load),
    ]


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _file_system(path: str) -> str:
    """The type of the file system that a path is on, as far as this system tells."""
    best, found = "", "unknown"
    with contextlib.suppress(OSError), open("/proc/mounts", encoding="utf-8") as file:
        for line in file:
            _, mount, kind, *_ = line.split()
            if len(mount) >= len(best) and (path + "/").startswith(mount.rstrip("/") + "/"):
                best, found = mount, kind
    return found
