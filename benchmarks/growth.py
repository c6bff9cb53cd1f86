"""Whether a board gets slower as it fills.

Compared: the same calls on boards with 1,000, 10,000, 100,000 and 1,000,000 ready tasks, one board after the other in
each round. What was won is given back and what was completed is posted anew, so a board keeps its size. The filters
match one task in a hundred, and these are less urgent than all others, so that a search without an index passes over
everything. Aim: 0.8 of the rate of the smallest board or more. The CPU time of a call knows nothing of waiting for the
disk: where the rates are noisy, it tells whether there is more work to do.
"""

from __future__ import annotations

import random
import time
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from tiebreak import TiebreakError

from . import boards
from .measure import Report, Settings, folder, in_turns, progress, seconds, spread, times

if TYPE_CHECKING:
    from collections.abc import Callable

    from tiebreak import Board, Task

SIZES = (1_000, 10_000, 100_000, 1_000_000)
BUDGET = 0.25
"""Seconds after which a turn ends, however many calls it has made: what grows would take for ever."""


class Cost(NamedTuple):
    """Seconds for one call."""

    wall: float
    cpu: float


def cost(call: Callable[[], object], most: int) -> Cost:
    """What one of up to so many calls costs on average."""
    wall, cpu = time.perf_counter(), time.thread_time()
    calls = 0
    while calls < most and time.perf_counter() - wall < BUDGET:
        call()
        calls += 1
    return Cost((time.perf_counter() - wall) / calls, (time.thread_time() - cpu) / calls)


class Filled:
    """A board with so many ready tasks, and what can be done on it without changing how many there are."""

    def __init__(self, place: str, size: int) -> None:
        self.size = size
        self.board: Board = boards.board(f"{place}/{size}.db", size)
        numbers = [number for number in range(1, size + 1) if boards.common(number)]
        random.Random(size).shuffle(numbers)
        self._fresh = iter(numbers)

    def next(self, most: int, **filters: Any) -> Cost:
        """Win the next one."""
        won: list[Task] = []
        taken = cost(lambda: won.append(self.board.tasks.next(**filters)[0]), most)
        self._give_back(won)
        return taken

    def claim(self, most: int) -> Cost:
        """Win a given one, anywhere on the board."""
        ids = iter([self.board.tasks.get(ref=ref).id for ref in self._refs(most)])
        won: list[Task] = []
        taken = cost(lambda: won.append(self.board.tasks.claim(ref=next(ids))), most)
        self._give_back(won)
        return taken

    def complete(self, most: int) -> Cost:
        """Finish a claimed one; `post` puts as many back."""
        refs = iter([f"#{task.number}" for task in self.board.tasks.claim_many(refs=self._refs(most))])
        return cost(lambda: self.board.tasks.complete(ref=next(refs)), most)

    def post(self, most: int) -> Cost:
        """Add one."""
        return cost(lambda: self.board.tasks.post(name="another"), most)

    def page(self, most: int, **filters: Any) -> Cost:
        """List a hundred."""
        return cost(lambda: self.board.tasks.list(**filters), most)

    def status(self, most: int) -> Cost:
        """Count everything."""
        return cost(lambda: self.board.upkeep.status(), most)

    def _refs(self, count: int) -> list[str]:
        return [f"#{number}" for number in islice(self._fresh, count)]

    def _give_back(self, won: list[Task]) -> None:
        answers = self.board.batch([("tasks.release", {"ref": f"#{task.number}"}) for task in won])
        for answer in answers:
            if isinstance(answer, TiebreakError):
                raise answer


CALLS: dict[str, Callable[[Filled, int], Cost]] = {
    "next": lambda on, most: on.next(most),
    "next, by kind": lambda on, most: on.next(min(most, 8), kind="rare"),
    "next, by queue": lambda on, most: on.next(min(most, 8), queue="rare"),
    "next, by rare kind and common queue": lambda on, most: on.next(min(most, 8), kind="rare", queue="default"),
    "next, by common kind and rare queue": lambda on, most: on.next(min(most, 8), kind="task", queue="rare"),
    "next, critical first": lambda on, most: on.next(min(most, 8), order="critical"),
    "next, by tag": lambda on, most: on.next(min(most, 8), tag="rare"),
    "claim by id": lambda on, most: on.claim(most),
    "complete": lambda on, most: on.complete(most),
    "post": lambda on, most: on.post(most),
    "list, newest page": lambda on, most: on.page(most),
    "list, page from the middle": lambda on, most: on.page(most, before=on.size // 2),
    "list, newest page of the pending": lambda on, most: on.page(most, states=["pending"]),
    "status": lambda on, most: on.status(most),
}


def run(settings: Settings) -> Report:
    """Rates and CPU time of each call on each board."""
    rounds, most = settings.size(15, 2), settings.size(25, 5)
    sizes = SIZES[: settings.size(len(SIZES), 2)]
    with folder() as place:
        filled: list[Filled] = []
        loading = seconds(lambda: filled.extend(Filled(place, size) for size in sizes))
        progress(f"{sum(sizes):,} tasks loaded in {loading:.1f} s")
        work = {f"{name} {on.size}": _turn(call, on, most) for name, call in CALLS.items() for on in filled}
        found = in_turns(work, rounds)
        for on in filled:
            on.board.close()
    return _report(found, sizes)


def _turn(call: Callable[[Filled, int], Cost], on: Filled, most: int) -> Callable[[], Cost]:
    return lambda: call(on, most)


def _report(found: dict[str, list[Cost]], sizes: tuple[int, ...]) -> Report:
    small, *larger = sizes
    report = Report(
        "growth",
        f"Calls per second with {small:,} ready tasks, how the rate with more compares, and CPU time of a call. "
        "Aim: ≥ 0.80× everywhere.",
        [
            "call",
            f"/s at {small:,}",
            *(f"{size:,}" for size in larger),
            *(f"CPU µs at {size:,}" for size in sizes),
            "noise",
        ],
    )
    for name in CALLS:
        costs = {size: found[f"{name} {size}"] for size in sizes}
        rates = {size: [1 / each.wall for each in costs[size]] for size in sizes}
        base = median(rates[small])
        ratios = [times(median(rates[size]), base) for size in larger]
        cpu = [median(each.cpu for each in costs[size]) * 1e6 for size in sizes]
        report.add(name, base, *ratios, *cpu, f"{spread(rates[small])} / {spread(rates[sizes[-1]])}")
    return report
