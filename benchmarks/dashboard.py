"""What it costs to watch: CPU of the daemon and of the watcher, and bytes, while nothing happens and under load.

The board has 10,000 tasks and a long log. A real Chromium shows one page for a while; then the same with a writer that
makes a thousand events a second. `tb top` is watched in the same way, in a terminal of 200 × 60. The load without a
watcher is measured too: only what comes on top of it is the cost of watching. First paint is what the browser reports
for each page, once it has loaded the scripts and the style; for `tb top` it is the time from its start to its rows.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, Protocol

import apsw
from tests import chromium

import tiebreak
from tiebreak.engine.sqlite.opening import allow_writing
from tiebreak.process_tree import descendants

from . import boards
from .measure import REPOSITORY, Report, Settings, folder, in_turns, progress
from .servers import Server, server

if TYPE_CHECKING:
    from typing import Any

PAGES = ("/", "/timeline", "/tasks", "/tasks?view=board", "/queues", "/agents", "/messages", "/board")
PER_SECOND = 1000
_LOG = (
    "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :many) "
    "INSERT INTO events (at, event, project, subject, name, kind, agent, epoch) SELECT :at - (:many - n) * 5000, "
    "iif(n % 2, 'task.claimed', 'task.completed'), :project, 'past-' || (n / 2 % 5000), 'task ' || (n / 2 % 5000), "
    "'task', 'agent-' || (n % 40) || '~one', 1 FROM numbers"
)


class Cost(NamedTuple):
    """What was used in a while."""

    daemon: float
    """Seconds of CPU, as of one second."""
    watcher: float
    size: float
    """Bytes, as of one minute: to the browser, or to the terminal."""


class Watcher(Protocol):
    """A program that shows the board."""

    received: int
    """Bytes until now."""

    def wait(self, seconds: float) -> None:
        """Let it work for so long."""

    def cpu(self) -> float:
        """Seconds of CPU that it has used."""


def run(settings: Settings) -> Report:
    """Seconds of CPU and bytes."""
    seconds = settings.size(20, 2)
    report = Report(
        "dashboard",
        f"A page of the daemon's, or `tb top`, on a board with {settings.size(10_000, 200):,} tasks and "
        f"{settings.size(1_000_000, 1000):,} events. CPU in percent of one core; busy: {PER_SECOND:,} events a second.",
        [
            *("page", "first paint ms"),
            *("idle: daemon %", "watcher %", "KiB a minute", "busy: daemon %", "watcher %", "KiB a minute"),
        ],
    )
    with folder() as place:
        path = os.path.join(place, "board.db")
        _fill(path, settings)
        with server("tb", place, path) as daemon:
            with Writer(path):
                alone = _used(daemon, None, seconds)
            pages = PAGES if not settings.quick else PAGES[:2]
            with Window(daemon, place) as window:
                paints = in_turns({page: partial(window.show, page) for page in pages}, settings.size(15, 1))
                window.show("/")
                shown = [_until_shown(window, path, number) for number in range(settings.size(15, 2))]
            for page in pages:
                progress(f"dashboard: {page}")
                with Window(daemon, place) as window:
                    window.show(page)
                    _row(report, page, paints[page], *_idle_and_busy(daemon, window, path, seconds))
            for board in (path, f"http://127.0.0.1:{daemon.port}"):
                name = f"tb top {'on the file' if board == path else 'through the daemon'}"
                progress(f"dashboard: {name}")
                starts = []
                for _ in range(settings.size(4, 0)):
                    with Terminal(board, place) as terminal:
                        starts.append(terminal.paint)
                with Terminal(board, place) as terminal:
                    _row(report, name, [*starts, terminal.paint], *_idle_and_busy(daemon, terminal, path, seconds))
    report.notes.append(
        f"A claim by another process is on the page Now after {1000 * median(shown):.0f} ms "
        f"(at most {1000 * max(shown):.0f}, {len(shown)} claims)."
    )
    report.notes.append(
        f"The daemon under the same load without a watcher: {100 * alone.daemon:.1f} % (it follows the file)."
    )
    return report


def _idle_and_busy(daemon: Server, watcher: Watcher, path: str, seconds: float) -> tuple[Cost, Cost]:
    idle = _used(daemon, watcher, seconds)
    with Writer(path):
        return idle, _used(daemon, watcher, seconds)


def _until_shown(window: Window, path: str, number: int) -> float:
    """Claim a task beside the daemon, and wait until the page shows it."""
    key = f"claimed-{number}"
    with tiebreak.open(path, agent="claimer~one", project=boards.PROJECT) as board:
        board.tasks.post(name=key, key=key)
        began = time.monotonic()
        board.tasks.claim(ref=key)
        window.wait_for("task.claimed", key)
        return time.monotonic() - began


def _row(report: Report, page: str, paints: list[float], idle: Cost, busy: Cost) -> None:
    cells: list[object] = [page, median(paints)]
    for cost in (idle, busy):
        cells += [100 * cost.daemon, 100 * cost.watcher, cost.size / 1024]
    report.add(*cells)


def _fill(path: str, settings: Settings) -> None:
    """Tasks, and a long log."""
    board = boards.board(path, settings.size(10_000, 200))
    now = int(board.upkeep.now() * 1_000_000)
    board.close()
    loader = apsw.Connection(path)
    allow_writing(loader)
    loader.execute("PRAGMA synchronous = OFF")
    with loader:
        loader.execute(_LOG, {"many": settings.size(1_000_000, 1000), "at": now, "project": boards.PROJECT})
    loader.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    loader.close()


def _used(daemon: Server, watcher: Watcher | None, seconds: float) -> Cost:
    """What daemon and watcher use from now on, for so long."""
    began = time.monotonic()
    before = daemon.cpu(), watcher.cpu() if watcher else 0.0, watcher.received if watcher else 0
    while (left := began + seconds - time.monotonic()) > 0:
        if watcher:
            watcher.wait(min(left, 0.5))
        else:
            time.sleep(left)
    took = time.monotonic() - began
    after = daemon.cpu(), watcher.cpu() if watcher else 0.0, watcher.received if watcher else 0
    return Cost((after[0] - before[0]) / took, (after[1] - before[1]) / took, (after[2] - before[2]) * 60 / took)


def _ticks(pid: int) -> int:
    """Of CPU, that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


class Window:
    """A browser with one page open."""

    def __init__(self, daemon: Server, place: str) -> None:
        from playwright.sync_api import sync_playwright

        self.received = 0
        environment = {**os.environ, "XDG_STATE_HOME": place, "TIEBREAK_BOARD": f"http://127.0.0.1:{daemon.port}"}
        tb = os.path.join(os.path.dirname(sys.executable), "tb")
        made = subprocess.run(
            [tb, "--json", "web", "--print"], env=environment, capture_output=True, text=True, check=True
        )
        self._playwright = sync_playwright().start()
        self._before = {each.pid for each in descendants(os.getpid())}
        self._browser = chromium.start(self._playwright)
        self._page = self._browser.new_page()
        self._page.goto(json.loads(made.stdout)["link"])
        self._address = f"http://127.0.0.1:{daemon.port}"
        network = self._page.context.new_cdp_session(self._page)
        network.send("Network.enable")
        network.on("Network.dataReceived", self._count)
        network.on("Network.eventSourceMessageReceived", self._count_message)

    def show(self, page: str) -> float:
        """Load a page; returns the milliseconds until its first paint."""
        self._page.goto(self._address + page)
        self._page.wait_for_function("() => document.getElementById('live-status').textContent === 'Live'")
        paints = "performance.getEntriesByName('first-contentful-paint').map((each) => each.startTime)"
        self._page.wait_for_function(f"() => {paints}.length")
        return float(self._page.evaluate(paints)[0])

    def _count(self, message: dict[str, Any]) -> None:
        self.received += int(message.get("encodedDataLength") or message.get("dataLength") or 0)

    def _count_message(self, message: dict[str, Any]) -> None:
        self.received += len(message.get("data", ""))

    def wait_for(self, *texts: str) -> None:
        """Wait until an event on the page has all these texts."""
        event = self._page.locator("li.event")
        for text in texts:
            event = event.filter(has_text=text)
        event.first.wait_for()

    def wait(self, seconds: float) -> None:
        """Let the browser work."""
        self._page.wait_for_timeout(1000 * seconds)

    def cpu(self) -> float:
        """Seconds of CPU that all its processes have used."""
        total = 0
        for each in descendants(os.getpid()):
            if each.pid in self._before:
                continue
            try:
                with open(f"/proc/{each.pid}/comm", encoding="ascii", errors="replace") as file:
                    total += _ticks(each.pid) * ("chrom" in file.read())
            except OSError:
                continue  # a process of the browser that has ended
        return total / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.close()
        self._playwright.stop()


class Terminal:
    """`tb top` in a terminal of 200 × 60."""

    def __init__(self, board: str, place: str) -> None:
        self.received = 0
        began = time.monotonic()
        environment = {**os.environ, "XDG_STATE_HOME": place, "TIEBREAK_BOARD": board, "TERM": "xterm-256color"}
        tb = os.path.join(os.path.dirname(sys.executable), "tb")
        self._pid, self._screen = pty.fork()
        if not self._pid:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 200, 0, 0))
            os.execve(tb, [tb, "--project", boards.PROJECT, "top"], environment)
        drawn = b""
        while b"Needs you" not in drawn:
            drawn += self._read(10)
        self.paint = 1000 * (time.monotonic() - began)
        """Milliseconds until it had drawn the board."""

    def _read(self, seconds: float) -> bytes:
        if not select.select([self._screen], [], [], seconds)[0]:
            return b""
        drawn = os.read(self._screen, 1 << 16)
        self.received += len(drawn)
        return drawn

    def wait(self, seconds: float) -> None:
        """Read what it draws, as a terminal would."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._read(left)

    def cpu(self) -> float:
        """Seconds of CPU that it has used."""
        return _ticks(self._pid) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._screen)


_WRITES = """
import sys, time, tiebreak
board = tiebreak.open(sys.argv[1], agent="writer~one", project=sys.argv[2])
while True:
    began = time.monotonic()
    board.engine.batch([(board_operation, {"note": "busy", "agent": "writer~one", "project": sys.argv[2]}, None)
                        for board_operation in [tiebreak.operations.find("agents.warn")] * int(sys.argv[3])])
    time.sleep(max(0.0, 0.1 - (time.monotonic() - began)))
"""


class Writer:
    """A process that writes events, a tenth of a second's worth at a time."""

    def __init__(self, path: str) -> None:
        words = [sys.executable, "-c", "import tiebreak.operations\n" + _WRITES, path, boards.PROJECT]
        self._process = subprocess.Popen([*words, str(PER_SECOND // 10)], cwd=REPOSITORY)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
