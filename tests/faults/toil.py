"""A crew that writes without a pause while its server goes and comes, and what must be so afterwards.

The writers are those of the crash tests; here they are not killed but asked to stop. So each of them knows how each of
its calls ended, and the log has to tell of every acknowledged write, once, and of nothing else.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from tests.cli.command import until
from tests.crash.writers import (
    KEYS,
    Acknowledged,
    granted,
    hold,
    nothing_lost,
    read_diary,
    still_completed,
    tussle,
    work,
)
from tests.races import checkers
from tests.races.checkers import Broken, Grant
from tests.races.crew import Crew, processes
from tests.races.scenarios import Run, open_board
from tiebreak.engine.postgres import engine as postgres

CREW = 6
Diary = list[tuple[str, Grant]]


def toiler(address: str, agent: str, folder: str, seed: int, first: Connection) -> Run:
    """Post, claim, complete, hold and give back, until told to stop."""
    postgres.PATIENCE = 90.0  # a loaded machine may take its time to start a server
    board = open_board(address, agent)
    answered, chance = Acknowledged(f"{folder}/{agent}", first), random.Random(seed)
    yield
    with board:
        while not os.path.exists(f"{folder}/stop"):
            chance.choice([work, work, tussle, hold])(board, agent, answered, chance)


class Toil:
    """A crew at work."""

    def __init__(self, crew: Crew, folder: Path) -> None:
        self._crew = crew
        self._folder = folder

    def answers(self) -> int:
        """How many writes were acknowledged so far."""
        return len(self.diary())

    def diary(self) -> Diary:
        """All that anybody was told."""
        return [entry for path in self._folder.glob("toiler-*") for entry in read_diary(str(path))]

    def go_on(self, answers: int) -> None:
        """Come back when that many more writes were acknowledged; a writer that has failed says so here."""
        goal = self.answers() + answers
        until(lambda: self._all_live() and self.answers() >= goal, f"{answers} more writes were acknowledged", 150.0)

    def _all_live(self) -> bool:
        if not all(process.is_alive() for process in self._crew.processes):
            self.stop()
            raise AssertionError("a writer has ended by itself")
        return True

    def stop(self) -> Diary:
        """Ask them to stop; what they were told. Fails if any of them met an error."""
        (self._folder / "stop").touch()
        self._crew.reports()
        return self.diary()


@contextmanager
def toiling(address: str, folder: Path) -> Iterator[Toil]:
    """A crew at work on an empty board, for as long as the context lasts."""
    with open_board(address) as board:
        for key in KEYS:
            board.tasks.post(name=key, key=key, max_attempts=1000)
    mine, theirs = processes.Pipe(duplex=False)
    each = [(address, f"toiler-{i}", str(folder), i, theirs) for i in range(CREW)]
    with Crew(toiler, each) as crew:
        try:
            crew.go()
            assert mine.poll(120.0)
            yield Toil(crew, folder)
        finally:
            (folder / "stop").touch()


def judge(address: str, diary: Diary) -> None:
    """Everything that was acknowledged is there, once, and nothing else; epochs have no gap."""
    with open_board(address) as board:
        events = checkers.read_log(board)
        nothing_lost(events, diary)
        still_completed(board, diary)
        checkers.epochs_count_grants(checkers.grants_in(events))
        checkers.one_holder_at_a_time(events)
        checkers.log_agrees(events, granted(diary))
        one_for_one(
            [event.subject for event in events if event.event == "task.posted" and event.name == "work"],
            [grant.subject for what, grant in diary if what == "task.posted"],
        )
        one_for_one(
            checkers.writes_in(events).elements(),
            [entry for entry in diary if entry[0] not in ("granted", "task.posted")],
        )
        checkers.sound(board)


def one_for_one(told: object, given: object) -> None:
    """What the log tells and what was acknowledged are the same, as often."""
    log, answers = Counter(told), Counter(given)  # type: ignore[call-overload]
    if more := log - answers:
        raise Broken(f"happened, but was acknowledged to nobody: {next(iter(more))}")
    if missing := answers - log:
        raise Broken(f"acknowledged and lost: {next(iter(missing))}")
