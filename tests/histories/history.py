"""A history: eight processes on a stage, what is done to them meanwhile, and all that is known of it afterwards."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count, cycle
from pathlib import Path

from tests.log.checker import read
from tests.races.crew import Crew
from tiebreak import Board, Event, Unavailable

from . import diary
from .judge import History, Trouble
from .lives import BELL_LOCK, POOL, SLOTS, churner, last_ring, listener, open_board, ringer, stander, tell_read
from .stages import LONGEST, Stage

CHURNERS = 5
PATIENCE = 150.0
AFTERMATH = 2.0
"""Seconds after a restart in which clients still find their way back."""


class Chronicle:
    """Reads the log while it is written, because the oldest events are pruned meanwhile."""

    def __init__(self, board: Board, folder: Path) -> None:
        self.events: list[Event] = []
        self._board, self._folder = board, folder
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._over.wait(0.1):
            with contextlib.suppress(Unavailable):
                self._read()

    def _read(self) -> None:
        self.events += read(self._board, self.events[-1].number if self.events else 0)
        if self.events:
            tell_read(str(self._folder), self.events[-1].number)

    def close(self) -> list[Event]:
        """All events, the last ones among them."""
        self._over.set()
        self._thread.join(PATIENCE)
        self._read()
        return self.events


class Company:
    """The processes: those that may die are replaced by others with another name."""

    def __init__(self, stage: Stage, folder: Path, stack: ExitStack, seconds: float) -> None:
        self._stage, self._folder, self._stack = stage, str(folder), stack
        self._patience = seconds + PATIENCE
        self._numbers = count()
        self._names = [f"churner-{i}" for i in range(CHURNERS)]
        quick = stage.quick
        self._waiting = [
            self._begin(life, quick[i % len(quick)], name)
            for i, (life, name) in enumerate([(listener, "listener"), (stander, "stander"), (ringer, "ringer")])
        ]
        self._churning = [self._churner(i) for i in range(CHURNERS)]
        for crew in [*self._waiting, *self._churning]:
            crew.go()

    def _begin(self, life: Callable[..., object], *args: object) -> Crew:
        each = [(args[0], args[1], self._folder, *args[2:])]
        return self._stack.enter_context(Crew(life, each, patience=self._patience))  # type: ignore[arg-type]

    def _churner(self, place: int) -> Crew:
        """The first ones have slow lines, if there are any."""
        ways = self._stage.slow if place < len(self._stage.slow) else self._stage.quick
        number = next(self._numbers)
        name = self._names[number] if number < CHURNERS else f"churner-{number}"
        return self._begin(churner, ways[place % len(ways)], name, self._names)

    def kill(self, chance: random.Random) -> None:
        """SIGKILL, anywhere; another one takes its place."""
        place = chance.randrange(CHURNERS)
        self._churning[place].kill()
        self._churning[place] = self._churner(place)
        self._churning[place].go()

    def stop(self, chance: random.Random, seconds: float) -> None:
        """SIGSTOP, anywhere, and SIGCONT after a while."""
        pid = chance.choice(self._churning).processes[0].pid
        assert pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    def end(self) -> None:
        """Ask all of them to finish; fails if one of them has met an error."""
        Path(self._folder, "over").touch()
        for crew in self._churning:
            crew.reports()
        last_ring(self._stage.board)
        for crew in self._waiting:
            crew.reports()


class Troubles:
    """What is done to a company, one thing after the other, and when."""

    def __init__(self, stage: Stage, company: Company, chance: random.Random) -> None:
        self.done: list[Trouble] = []
        self._stage, self._company, self._chance = stage, company, chance

    def go_on(self, seconds: float) -> None:
        """Until the time is over: mostly kills and stops, and every sixth time a server goes down."""
        end = time.monotonic() + seconds
        pause = min(2.0, seconds / 8)
        deeds = [self._kill, self._stop, self._restart, self._kill, self._stop, self._kill]
        for deed in cycle(deeds):
            time.sleep(self._chance.uniform(0.2, 1.0) * pause)
            if time.monotonic() > end:
                return
            deed(pause)

    def _kill(self, pause: float) -> None:
        self._note("kill", lambda: self._company.kill(self._chance))

    def _stop(self, pause: float) -> None:
        self._note("stop", lambda: self._company.stop(self._chance, self._chance.uniform(0.1, 1.0) * pause))

    def _restart(self, pause: float) -> None:
        if self._stage.restarts:
            self._note("restart", self._chance.choice(self._stage.restarts), AFTERMATH)

    def _note(self, what: str, deed: Callable[[], object], after: float = 0.0) -> None:
        begin = time.monotonic()
        deed()
        self.done.append(Trouble(what, begin, time.monotonic() + after))


@contextmanager
def lived(stage: Stage, folder: Path, seconds: float, seed: int) -> Iterator[History]:
    """Let eight processes live for that long; what is known afterwards, with the board still open."""
    with open_board(stage.board, "judge~1") as board:
        board.holds.take(resources=[POOL], slots=SLOTS[0])
        board.holds.release(resources=[POOL])
        board.holds.release(resources=[board.holds.take(resources=[BELL_LOCK])[0].resource])
        chronicle = Chronicle(board, folder)
        with ExitStack() as stack:
            company = Company(stage, folder, stack, seconds)
            troubles = Troubles(stage, company, random.Random(seed))
            troubles.go_on(seconds)
            company.end()
        slack = 10 * LONGEST if stage.slow else 0.0
        yield History(chronicle.close(), diary.read(folder), troubles.done, slack, board)


def summary(history: History) -> str:
    """The history in numbers."""
    troubles = Counter(trouble.what for trouble in history.troubles)
    answers = Counter(entry.what for entry in history.diary)
    grants = answers[diary.GRANTED]
    refused, unknown = answers[diary.REFUSED], answers[diary.UNKNOWN]
    done = ", ".join(f"{troubles[what]} {what}s" for what in ("kill", "stop", "restart"))
    said = f"{len(history.diary)} answers ({refused} refused, {unknown} unknown), {grants} grants"
    return f"{said}, {len(history.events)} events, {done}"
