"""What a command costs beyond starting the interpreter.

Compared: hot commands (`tb claim '#7'` and others, each doing its work on a board with a few hundred tasks) against
`python -c pass` of the same environment, in turns. The environment is a plain one, made for this run: an editable
installation adds a `.pth` file that each start pays for. No agent and no project are named unless a row says so; the
command finds both out from its session and from the git repository it is called in. Aim: within 1.8 of bare.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from statistics import median
from typing import TYPE_CHECKING

from .measure import REPOSITORY, Report, Settings, folder, progress, spread, times

if TYPE_CHECKING:
    from collections.abc import Iterator

DETAILS = 25
"""How many imports are listed."""
LOOKS = 7
"""How often they are looked at."""


def run(settings: Settings) -> Report:
    """Milliseconds of each command and of the bare interpreter."""
    runs = settings.size(80, 5)
    with folder() as place:
        shop = Workshop(place)
        shop.post(2 * (runs + 1) + LOOKS, "normal")
        shop.post(runs + 1, "urgent")  # these are what `tb next` finds
        found = _measure(shop, runs)
        report = Report(
            "startup",
            f"Milliseconds from start to end of a command, median of {runs} runs in turns. Aim: ≤ 1.80× of bare.",
            ["command", "ms", "of bare", "noise"],
        )
        bare = median(found["python -c pass"])
        for name, taken in found.items():
            report.add(name, median(taken) * 1000, times(median(taken), bare), spread(taken))
        if settings.verbose:
            report.details = shop.import_times(2 * (runs + 1) + 1)
        return report


def _measure(shop: Workshop, runs: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for number in range(1, runs + 2):  # the first round warms the caches up
        for name, words in shop.round(number, runs):
            taken = shop.time(words)
            if number > 1:
                found.setdefault(name, []).append(taken)
        if number % 20 == 0:
            progress(f"round {number} of {runs}")
    return found


class Workshop:
    """A plain environment with tiebreak in it, a git repository, and a board."""

    def __init__(self, place: str) -> None:
        self.python = _install(place)
        self.tb = os.path.join(os.path.dirname(self.python), "tb")
        self.here = os.path.join(place, "repository")
        subprocess.run(["git", "init", "--quiet", self.here], check=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIEBREAK", "PYTHON"))}
        self.environ = {**kept, "TIEBREAK_BOARD": os.path.join(place, "board.db")}
        self.named = {**self.environ, "TIEBREAK_AGENT": "bench~one", "TIEBREAK_PROJECT": "repository"}
        self._null = os.open(os.devnull, os.O_RDWR)

    def post(self, count: int, priority: str) -> None:
        """Fill the board, in one transaction."""
        params = {"name": "task", "priority": priority}
        lines = [json.dumps({"method": "tasks.post", "params": params})] * count
        self._run([self.tb, "batch"], input="\n".join(lines).encode())

    def round(self, number: int, runs: int) -> Iterator[tuple[str, list[str]]]:
        """One call of each command; `number` is a task that nobody has claimed yet."""
        ref, later = f"#{number}", f"#{number + runs + 1}"
        yield "python -c pass", [self.python, "-c", "pass"]
        yield "tb claim", [self.tb, "claim", ref]
        yield "tb extend", [self.tb, "extend", ref]
        yield "tb complete", [self.tb, "complete", ref]
        yield "tb claim, agent and project named", ["named", self.tb, "claim", later]
        yield "tb release, agent and project named", ["named", self.tb, "release", later]
        yield "tb next", [self.tb, "next"]
        yield "tb hold", [self.tb, "hold", f"src/{number}.py"]
        yield "tb drop", [self.tb, "drop", f"src/{number}.py"]
        yield "tb heartbeat", [self.tb, "heartbeat"]
        yield "tb post", [self.tb, "post", f"another {number}"]
        yield "tb claim KEY --json", [self.tb, "claim", f"key-{number}", "--json"]

    def time(self, words: list[str]) -> float:
        """Seconds from start to end; nothing between this process and the command."""
        environ = self.environ
        if words[0] == "named":
            environ, words = self.named, words[1:]
        output = [(os.POSIX_SPAWN_DUP2, self._null, 1)]
        before = os.getcwd()
        os.chdir(self.here)
        try:
            start = time.perf_counter()
            pid = os.posix_spawn(words[0], words, environ, file_actions=output)
            _, status = os.waitpid(pid, 0)
            taken = time.perf_counter() - start
        finally:
            os.chdir(before)
        if status:
            raise AssertionError(f"{' '.join(words[1:])} ended with {os.waitstatus_to_exitcode(status)}")
        return taken

    def import_times(self, first: int) -> list[str]:
        """Which modules a claim imports that the bare interpreter does not, slowest first, by their own time."""
        bare = {name for name, _ in self._imports(["-c", "pass"])}
        best: dict[str, int] = {}
        for number in range(first, first + LOOKS):
            for name, micros in self._imports([self.tb, "claim", f"#{number}"]):
                best[name] = min(micros, best.get(name, micros))
        mine = sorted(((micros, name) for name, micros in best.items() if name not in bare), reverse=True)
        total = sum(micros for micros, _ in mine)
        lines = [f"imports of `tb claim`, best of {LOOKS}, µs by themselves ({total} in all):"]
        return lines + [f"  {micros:6}  {name}" for micros, name in mine[:DETAILS]]

    def _imports(self, words: list[str]) -> list[tuple[str, int]]:
        done = self._run([self.python, "-X", "importtime", *words])
        lines = [line.split("|") for line in done.stderr.decode().splitlines() if line.startswith("import time:")]
        return [(name.strip(), int(own.partition(":")[2])) for own, _, name in lines[1:]]

    def _run(self, words: list[str], **more: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(words, env=self.environ, cwd=self.here, check=True, capture_output=True, **more)


def _install(place: str) -> str:
    """Make the environment without a network: build with the tools that are here, copy what is needed from here."""
    progress("making a plain environment")
    home, wheels = os.path.join(place, "environment"), os.path.join(place, "wheels")
    venv.create(home, symlinks=True)
    python = os.path.join(home, "bin", "python")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-index"]
    subprocess.run([*pip, "wheel", *offline, "--no-build-isolation", "-w", wheels, REPOSITORY], check=True)
    subprocess.run([*pip, "--python", python, "install", *offline, *glob.glob(f"{wheels}/*.whl")], check=True)
    target = sysconfig.get_path("platlib", vars={"platbase": home, "base": home})
    for found in glob.glob(f"{sysconfig.get_path('platlib')}/apsw*"):
        shutil.copytree(found, os.path.join(target, os.path.basename(found)))
    return python
