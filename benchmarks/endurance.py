"""Whether a daemon stays as it is: `tb serve` on a SQLite board under a mixed load for `--minutes`.

The load (see `load_mix`) comes from a process of its own. This one asks `/health` up to twenty times a second, and
looks at the daemon's memory, descriptors, threads and log every few seconds. It begins once everything has been
answered a few times, and the first third does not count. A resource is flat if its median in the last third is not
above that of the middle third by more than the share and the amount that `LIMITS` grants for noise. If one is not, or
if far fewer requests are answered than before, the benchmark fails. What was seen is drawn, too.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import shutil
import subprocess
import time
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from .drawing import Line, Panel, figure
from .load_mix import COUNTED, HELD, Target, call, load
from .measure import REPOSITORY, Report, Settings, folder, percentile, progress
from .servers import Server, server

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERVAL = 5.0
"""Seconds between two looks; less in a short run, so that there are enough of them."""
LEAST_LOOKS = 36
WARM = 20
"""How often everything has been answered before the first look: by then the daemon has loaded what it needs."""
WARM_UP = 120.0
"""Seconds after which a daemon that has not answered everything counts as broken."""
SLOW_GIT = """#!/bin/sh
case " $* " in *" status "*) sleep 0.3;; esac
exec {git} "$@"
"""
MIB = 1024 * 1024


class Limit(NamedTuple):
    """How much more the last third may have than the middle one: a share of that, and an amount."""

    share: float
    amount: float


LIMITS = {
    "memory": Limit(0.03, 1.5),
    "descriptors": Limit(0.05, 3),
    "threads": Limit(0.0, 2),
    "WAL": Limit(0.25, 4),
}
LEAST = 0.6
"""The share of requests that the last third answers at least, of those in the middle one."""
UNITS = {"memory": "MiB", "WAL": "MiB", "requests": "per second", "health p50": "ms", "health p99": "ms"}


class Look(NamedTuple):
    """What one look at the daemon saw, and what was answered since the one before."""

    minute: float
    memory: float
    descriptors: int
    threads: int
    wal: float
    rates: dict[str, float]
    p50: float
    p99: float


class Endured(NamedTuple):
    """A whole run."""

    looks: list[Look]

    def series(self) -> dict[str, list[float]]:
        """Everything that was looked at, by its name."""
        return {
            "memory": [each.memory for each in self.looks],
            "descriptors": [float(each.descriptors) for each in self.looks],
            "threads": [float(each.threads) for each in self.looks],
            "WAL": [each.wal for each in self.looks],
            "requests": [sum(each.rates.values()) for each in self.looks],
            "health p50": [each.p50 for each in self.looks],
            "health p99": [each.p99 for each in self.looks],
        }

    def rate(self, what: str) -> float:
        """The median of what was answered in a second."""
        return median(each.rates[what] for each in self.looks)

    def grown(self) -> list[str]:
        """What is not flat, in words: resources that grow, and requests that take longer and longer."""
        found = []
        for name, limit in LIMITS.items():
            middle, last = thirds(self.series()[name])
            if last > middle * (1 + limit.share) + limit.amount:
                found.append(f"{name} grew from {middle:,.1f} to {last:,.1f} {UNITS.get(name, '')}".rstrip())
        middle, last = thirds(self.series()["requests"])
        if last < middle * LEAST:
            found.append(f"requests fell from {middle:,.0f} to {last:,.0f} {UNITS['requests']}")
        return found


def thirds(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the middle and of the last third."""
    third = len(values) // 3
    return median(values[third : 2 * third]), median(values[2 * third :])


def run(settings: Settings) -> Report:
    """Load, look, draw, judge."""
    minutes = 0.5 if settings.quick else settings.minutes
    endured = endure(minutes * 60)
    report = Report(
        "endurance",
        f"`tb serve` on a SQLite board under a mixed load for {minutes:g} min: medians of the middle and of the "
        "last third. Aim: memory, descriptors, threads and the WAL do not grow, and requests do not become fewer.",
        ["what", "middle third", "last third", "may change by", "verdict"],
    )
    grown = {each.partition(" ")[0] for each in endured.grown()}
    for name, values in endured.series().items():
        middle, last = thirds(values)
        limit = LIMITS.get(name)
        allowed = (
            f"{limit.share:.0%} and {limit.amount:g}" if limit else f"-{1 - LEAST:.0%}" if name == "requests" else "-"
        )
        verdict = "not flat" if name in grown else "flat" if allowed != "-" else "-"
        report.add(f"{name} ({UNITS[name]})" if name in UNITS else name, middle, last, allowed, verdict)
    report.failures = endured.grown()
    rates = ", ".join(f"{endured.rate(what):,.0f} {what}" for what in COUNTED)
    report.notes.append(f"Answered in a second (medians): {rates}.")
    report.notes.append("`/health` is not judged: it checks the file, which grows here, for 0.2 s at most.")
    where = _drawn(endured, minutes, settings)
    report.notes.append(f"![The daemon under load](../{where})" if settings.write else f"Figure: {where}")
    return report


def _drawn(endured: Endured, minutes: float, settings: Settings) -> str:
    """Draw it into docs/ if the figures are to be kept; else into build/."""
    where = os.path.join(REPOSITORY, "docs/figures" if settings.write else "build", "endurance.svg")
    os.makedirs(os.path.dirname(where), exist_ok=True)
    with open(where, "w", encoding="utf-8") as file:
        file.write(drawing(endured, minutes))
    return os.path.relpath(where, REPOSITORY)


def drawing(endured: Endured, minutes: float) -> str:
    """Four panels."""
    seen = endured.series()

    def line(name: str, shown: str = "") -> Line:
        return Line(shown or name, seen[name], thirds(seen[name]) if name in LIMITS else None)

    rates = " · ".join(f"{endured.rate(what):,.0f} {what}" for what in COUNTED)
    return figure(
        f"tb serve under load for {minutes:g} min",
        [f"Answered in a second: {rates}", "Grey: the middle and the last third; dashed: their medians"],
        [each.minute for each in endured.looks],
        [
            Panel("Memory", "MiB", [line("memory")]),
            Panel("Descriptors and threads", "", [line("descriptors"), line("threads")]),
            Panel("WAL, behind a reader for 6 of 10 s", "MiB", [line("WAL")]),
            Panel("/health, file growing", "ms", [line("health p50", "p50"), line("health p99", "p99")]),
        ],
    )


def endure(seconds: float, kind: str = "tb") -> Endured:
    """Start a daemon of that kind, load it, and look at it all the while."""
    with folder() as place:
        repository = _repository(place)
        path = f"{place}/bin{os.pathsep}{os.environ['PATH']}"
        with server(kind, place, f"{place}/board.db", PATH=path) as daemon:
            target = Target(daemon.port, daemon.token, f"{place}/board.db", repository)
            _ask(target, "POST", "/rpc", call("holds.take", resources=[HELD], agent="keeper~1", lease=86_400))
            processes = multiprocessing.get_context("spawn")
            counts = processes.Array("q", len(COUNTED), lock=False)
            loading = processes.Process(target=load, args=(target, counts, seconds + 2 * WARM_UP), daemon=True)
            loading.start()
            try:
                _warm_up(counts)
                return Endured(_looks(daemon, target, counts, seconds))
            finally:
                loading.kill()
                loading.join()


def _repository(place: str) -> str:
    """A repository for the hooks, and before the real git one that takes its time."""
    made, git = f"{place}/repository", shutil.which("git")
    subprocess.run(["git", "init", "-q", made], check=True)
    os.mkdir(f"{place}/bin")
    with open(f"{place}/bin/git", "w", encoding="utf-8") as file:
        file.write(SLOW_GIT.format(git=git))
    os.chmod(f"{place}/bin/git", 0o755)
    return made


def _ask(target: Target, method: str, path: str, body: object = None) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=30)
    data = None if body is None else json.dumps(body)
    headers = {"Authorization": f"Bearer {target.token}", "Content-Type": "application/json"}
    connection.request(method, path, data, headers)
    answer = connection.getresponse()
    if answer.status != 200 or b'"error"' in answer.read():
        raise RuntimeError(f"{method} {path}: {answer.status}")
    connection.close()


def _warm_up(counts: Sequence[int]) -> None:
    end = time.monotonic() + WARM_UP
    while min(counts) < WARM:
        if time.monotonic() > end:
            raise RuntimeError(f"the daemon does not answer: {dict(zip(COUNTED, counts, strict=True))}")
        time.sleep(0.1)


def _looks(daemon: Server, target: Target, counts: Sequence[int], seconds: float) -> list[Look]:
    """Ask for `/health` all the time, and look at the daemon now and then."""
    began, looks = time.monotonic(), [_first(daemon, target)]
    interval = min(INTERVAL, seconds / LEAST_LOOKS)
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=60)
    before, seen, waits = began, list(counts), []
    while before < began + seconds:
        asked = time.monotonic()
        connection.request("GET", "/health", headers={"Authorization": f"Bearer {target.token}"})
        connection.getresponse().read()
        now = time.monotonic()
        waits.append((now - asked) * 1000)
        if now - before < interval:
            time.sleep(0.05)
            continue
        rates = {what: (counts[i] - seen[i]) / (now - before) for i, what in enumerate(COUNTED)}
        looks.append(_look(daemon, target, (now - began) / 60, rates, waits))
        if len(looks) % 12 == 0:
            progress(f"{looks[-1].minute:.1f} minutes: {looks[-1].memory:.0f} MiB, {sum(rates.values()):,.0f} a second")
        before, seen, waits = now, list(counts), []
    return looks[1:]


def _first(daemon: Server, target: Target) -> Look:
    return _look(daemon, target, 0.0, dict.fromkeys(COUNTED, 0.0), [0.0])


def _look(daemon: Server, target: Target, minute: float, rates: dict[str, float], waits: list[float]) -> Look:
    process = f"/proc/{daemon.process.pid}"
    log = f"{target.board}-wal"
    return Look(
        minute,
        daemon.memory(),
        len(os.listdir(f"{process}/fd")),
        len(os.listdir(f"{process}/task")),
        os.stat(log).st_size / MIB if os.path.exists(log) else 0.0,
        rates,
        percentile(waits, 50),
        percentile(waits, 99),
    )
