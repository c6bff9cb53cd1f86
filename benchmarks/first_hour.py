"""How long a newcomer waits: from `git clone` to the first won claim, from `pip install` to the first refused edit.

Nearly all of it is the work of others: making an environment, fetching and unpacking packages. So each way is measured
in turns with its yardstick, `python -m venv` and `pip install` of the same packages without tiebreak, and the report
has the difference of the two: the share that is ours. Seconds depend on what else the machine does and on the way to
the index, so ratio and share are those of the CPU time of all processes.

Packages come from the index that pip is configured for, with an empty cache; or from a folder of wheels, as with a full
cache. (Some indexes do not let pip cache anything.)
"""

from __future__ import annotations

import glob
import os
import resource
import shutil
import subprocess
import sys
import time
from functools import partial
from importlib.metadata import requires
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from .measure import REPOSITORY, Report, Settings, figure, folder, progress, spread, times

if TYPE_CHECKING:
    from collections.abc import Callable

    Way = Callable[[str, dict[str, str]], dict[str, float]]
    Ways = dict[tuple[str, str], tuple[Callable[[], "Taken"], Callable[[], "Taken"]]]

Laps = dict[str, float]
PYTHON = os.path.realpath(sys.executable)
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check", "install")


class Taken(NamedTuple):
    """What one way took: seconds of each step, and CPU seconds of all processes."""

    laps: Laps
    cpu: float


def run(settings: Settings) -> Report:
    """Each way with packages from both places, in turns with its yardstick."""
    places = ("folder",) if settings.quick else ("index", "folder")
    busy = os.getloadavg()[0]
    with folder() as place:
        trip = Trip(place)
        found, rounds = _rounds({each: work for source in places for each, work in trip.ways(source).items()}, settings)
    report = Report(
        "first_hour",
        "Until a newcomer sees it work, in turns with a bare environment that has the same packages without tiebreak. "
        f"Rounds: {rounds}, medians. Ratio, ours (the difference) and noise: of CPU time.",
        ["from … to …", "packages from", "seconds", "bare", "CPU s", "bare CPU s", "of bare", "ours", "noise"],
        left=2,
    )
    for (way, source), both in found.items():
        bare, ours = both
        waited = [median([sum(each.laps.values()) for each in taken]) for taken in (ours, bare)]
        cpu, bare_cpu = ([each.cpu for each in taken] for taken in (ours, bare))
        share = median([mine - its for mine, its in zip(cpu, bare_cpu, strict=True)])
        ratio = times(median(cpu), median(bare_cpu))
        noise = f"{spread(cpu)} / {spread(bare_cpu)}" if rounds > 1 else "-"
        report.add(way, source, *waited, median(cpu), median(bare_cpu), ratio, share, noise)
        if source == "folder":
            steps = ", ".join(f"{lap} {figure(median([each.laps[lap] for each in ours]))}" for lap in ours[0].laps)
            report.notes.append(f"{way}, packages from a folder, step by step in seconds: {steps}.")
    report.notes.append("The clone is local, and the index is as fast as the way to it.")
    if busy > 1:
        report.notes.append(f"Other work ran on the machine (load {busy:.1f} before): the seconds are too many.")
    return report


def _rounds(work: Ways, settings: Settings) -> tuple[dict[tuple[str, str], tuple[list[Taken], list[Taken]]], int]:
    """Take each way and its yardstick once a round, until the minutes are over; what was found, and how many rounds."""
    found: dict[tuple[str, str], tuple[list[Taken], list[Taken]]] = {each: ([], []) for each in work}
    begin, rounds = time.monotonic(), 0
    while not rounds or (not settings.quick and time.monotonic() < begin + 60 * settings.minutes):
        for each, both in work.items():
            for number in (0, 1) if rounds % 2 == 0 else (1, 0):
                found[each][number].append(both[number]())
        rounds += 1
        progress(f"round {rounds}")
    return found, rounds


class Trip:
    """A folder with a wheel of this tree, all packages, and a new environment for each way that is taken."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._count = 0
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("TIEBREAK", "PYTHON", "MAKE"))
        }
        self.environ = {**kept, "HOME": f"{place}/home", "LC_ALL": "C.UTF-8"}
        os.makedirs(f"{place}/home/.config")
        Path(f"{place}/home/.gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.com\n")
        offline = ("wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", f"{place}/wheels", REPOSITORY)
        self._run([sys.executable, *PIP[:-1], *offline])
        [self.wheel] = glob.glob(f"{place}/wheels/*.whl")
        progress("fetching packages")
        for wanted in (self._locked, requirements("all")):
            self._run([sys.executable, *PIP[:-1], "download", "-d", f"{place}/packages", *wanted])

    def ways(self, source: str) -> Ways:
        """What is measured with packages from there: the yardstick, then ours."""
        taken: dict[str, tuple[Way, Way]] = {
            "`git clone` to a won claim": (partial(self._bare, wanted=self._locked), self._clone),
            "`pip install 'tiebreak[all]'` to a refused edit": (
                partial(self._bare, wanted=requirements("all")),
                partial(self._install, extra="all"),
            ),
            "`pip install tiebreak` to a refused edit": (
                partial(self._bare, wanted=requirements("")),
                partial(self._install, extra=""),
            ),
        }
        return {
            (name, source): (partial(self._go, bare, source), partial(self._go, ours, source))
            for name, (bare, ours) in taken.items()
        }

    @property
    def _locked(self) -> list[str]:
        """The packages that `make serve` installs."""
        return ["--require-hashes", "--no-deps", "-r", f"{REPOSITORY}/requirements/runtime.lock"]

    def _go(self, way: Way, source: str) -> Taken:
        new, before = self.new(), _cpu()
        local = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": f"{self.place}/packages"}
        try:
            laps = way(new, self.environ | (local if source == "folder" else {"PIP_CACHE_DIR": f"{new}/cache"}))
            return Taken(laps, _cpu() - before)
        finally:
            shutil.rmtree(new)

    def new(self) -> str:
        """A folder that is empty."""
        self._count += 1
        made = f"{self.place}/{self._count}"
        os.mkdir(made)
        return made

    # ── From a clone ─────────────────────────────────────────────────────────────────────────────────

    def _clone(self, new: str, environ: dict[str, str]) -> Laps:
        """What `make serve` installs, then a claim."""
        watch = Watch()
        self._run(["git", "clone", "--quiet", REPOSITORY, f"{new}/clone"], environ)
        watch.lap("git clone")
        self._run(["make", "--silent", f"PYTHON={PYTHON}", "-C", f"{new}/clone", ".venv/.runtime"], environ)
        watch.lap("make")
        board = environ | {"TIEBREAK_BOARD": f"{new}/board.db"}
        self._run([f"{new}/clone/.venv/bin/tb", "claim", "login-bug"], board, cwd=f"{new}/clone")
        watch.lap("tb claim")
        return watch.laps

    # ── From the wheel ───────────────────────────────────────────────────────────────────────────────

    def _install(self, new: str, environ: dict[str, str], extra: str) -> Laps:
        """An environment, `tb init` in a repository, and two agents that edit one file."""
        from tests.installed.claude import Denied, Session

        repository = Path(new, "shop")
        self._run(["git", "init", "--quiet", str(repository)], environ)
        (repository / "login.py").write_text("form = 1\n")
        environ = environ | {"TIEBREAK_BOARD": f"{new}/board.db", "PATH": f"{new}/env/bin:{environ['PATH']}"}
        watch = Watch()
        self._run([PYTHON, "-m", "venv", f"{new}/env"], environ)
        watch.lap("python -m venv")
        self._run([f"{new}/env/bin/python", *PIP, f"{self.wheel}[{extra}]" if extra else self.wheel], environ)
        watch.lap("pip install")
        tools = [] if extra else ["--no-mcp"]
        self._run(["tb", "init", "--yes", "--client", "claude", *tools], environ, cwd=str(repository))
        watch.lap("tb init")
        Session("ann", repository, environ).edits("login.py", "form = 2")
        watch.lap("an edit")
        try:
            Session("ben", repository, environ).edits("login.py", "form = 3")
        except Denied:
            watch.lap("a refused edit")
            return watch.laps
        raise AssertionError("both agents have edited the file")

    def _bare(self, new: str, environ: dict[str, str], wanted: list[str]) -> Laps:
        """The yardstick: what is needed, without tiebreak."""
        watch = Watch()
        self._run([PYTHON, "-m", "venv", f"{new}/env"], environ)
        self._run([f"{new}/env/bin/python", *PIP, *wanted], environ)
        watch.lap("bare")
        return watch.laps

    def _run(self, words: list[str], environ: dict[str, str] | None = None, cwd: str | None = None) -> None:
        done = subprocess.run(
            words, env=environ or self.environ, cwd=cwd or self.place, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise AssertionError(f"{' '.join(words)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")


class Watch:
    """Seconds since the last lap, by name."""

    def __init__(self) -> None:
        self.laps: Laps = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """What was done just now."""
        now = time.perf_counter()
        self.laps[name], self._last = now - self._last, now


def _cpu() -> float:
    """CPU seconds of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def requirements(extra: str) -> list[str]:
    """What tiebreak requires directly, with or without all its extras."""
    found = [each.partition(";") for each in requires("tiebreak") or ()]
    return [name.strip() for name, _, marker in found if (extra or not marker) and not name.startswith("tiebreak")]
