"""Runs samples by all schedules with at most two cuts, and compares each outcome with those of the serial orders.

An outcome is right if some serial order of the same calls on the same set-up has it: any order of the calls (those of
one client in theirs); with the clock stepped before, between or after them, if it was stepped; and with any number of
the calls of a client that died, from the first on.

Four things count beside the outcome, whatever the serial orders say: two live holders of one thing at the end; a task
that was told as finished and is something else later; a deadlock that the server had to end; a transaction that takes
a scope after it has looked at something (see `scheduler.Rules`).

Five relaxations. `next` may skip tasks that somebody else is changing when there is another one to take; a sweep
and a pruning may leave such tasks for the next time. So a serial order also counts in which, while it has its turn, a
bystander has locked some of the tasks that the sample declares in `skips`, but not all. A sample of `next` for
which there is only one task declares none: it must wait for whoever changes that one, and may not answer that there is
nothing. A call may go by the time at which it began although the clock was stepped since: a clock that is read too
early makes a lapse be noticed later, and that it never lets two have one thing is counted by itself. The calls of a
batch, or of a daemon's group commit, are of different callers, so each of them has a place of its own in the order, and
the transaction may deadlock with others: it locks the rows of one call after those of another. A call that is refused
may have written down lapses that it met; they are true by themselves, so outcomes also count as the same if they are
once all lapses are written. And of `tasks.retry_many`, and of `tasks.claim_many` in groups with a limit, which decide
about each task by itself, the outcome is not compared.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations, permutations, product
from typing import Any, NamedTuple

from tiebreak import Board
from tiebreak.globs import overlap
from tiebreak.names import FINAL

from .samples import Sample
from .scheduler import Cut, Effect, Schedule, Trace, shortened
from .world import GROUPS, Call, Turn, World, units

EFFECTS: tuple[Effect, ...] = ("", "clock", "death", "late death")
MOST_CUTS = 2


class Finding(NamedTuple):
    """Something that must not happen, and the schedule by which it does."""

    kind: str
    """`outcome`, `two holders`, `not final`, `deadlock` or `scope`."""
    samples: tuple[str, ...]
    schedule: Schedule
    details: str

    def __str__(self) -> str:
        return f"[{self.kind}] {' | '.join(self.samples)}\n  {self.schedule}\n{self.details}"


@dataclass
class Explored:
    """What came of exploring."""

    schedules: int = 0
    serial_runs: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Explored) -> None:
        """Count another one in."""
        self.schedules += other.schedules
        self.serial_runs += other.serial_runs
        self.findings += other.findings

    def kinds(self) -> set[str]:
        """The kinds of what was found."""
        return {finding.kind for finding in self.findings}


class Explorer:
    """Explores samples that run side by side."""

    def __init__(
        self, world: World, samples: Sequence[Sample], *, scopes_first: bool = True, batches_too: bool = False
    ) -> None:
        self._world, self._samples = world, tuple(samples)
        self._scripts = [sample.calls for sample in samples]
        self._scopes_first, self._batches_too = scopes_first, batches_too
        self._grouped = any(script[0][0] in GROUPS for script in self._scripts)
        # A daemon that loses its connection asks again; tests/faults and tests/histories test that it recovers.
        daemon = any(script[0][0] == "daemon" for script in self._scripts)
        self._effects = EFFECTS[:2] if daemon else EFFECTS
        self._known: dict[Any, str] = {}
        self.result = Explored()

    # ── Schedules ────────────────────────────────────────────────────────────────────────────────────

    def everything(self, most: int | None = None, seed: int = 0, *, enough: str = "") -> Explored:
        """Every schedule, those with fewer cuts first; at most so many, then the last ones are chosen by a seed.

        It ends early when it has found something of the kind that is `enough`.
        """
        chance = random.Random(seed)
        level = [Schedule(order) for order in permutations(range(len(self._samples)))]
        while level:
            below: list[Schedule] = []
            for schedule in level:
                if self.result.schedules == most or enough in self.result.kinds():
                    return self.result
                trace = self.check(schedule)
                below += [schedule._replace(cuts=(*schedule.cuts, cut)) for cut in self._next_cuts(schedule, trace)]
            level = below
            if most is not None:
                chance.shuffle(level)
        return self.result

    def _next_cuts(self, schedule: Schedule, trace: Trace) -> Iterator[Cut]:
        if len(schedule.cuts) == MOST_CUTS:
            return
        last = schedule.cuts[-1].after if schedule.cuts else 0
        effects = self._effects if all(not cut.effect for cut in schedule.cuts) else ("",)
        for after, others in trace.possible:
            if after > last:
                yield from (Cut(after, effect, other) for effect in effects for other in others)

    # ── One schedule ─────────────────────────────────────────────────────────────────────────────────

    def check(self, schedule: Schedule) -> Trace:
        """Run one schedule, and remember what was wrong with it."""
        trace, outcome = self._world.interleaved(self._scripts, schedule)
        self.result.schedules += 1
        seen = json.loads(outcome)
        for rivals in two_holders(seen["tables"]):
            self._found("two holders", schedule, trace, rivals)
        for change in changed_ends(seen):
            self._found("not final", schedule, trace, change)
        for statement in trace.deadlocks if self._batches_too or not self._grouped else ():
            self._found("deadlock", schedule, trace, shortened(statement))
        if self._scopes_first:
            for fault in trace.faults:
                self._found("scope", schedule, trace, fault)
        stepped = any(cut.effect == "clock" for cut in schedule.cuts[: trace.cuts_made])
        compared = not any(sample.one_by_one for sample in self._samples)
        dead, seen_order = frozenset(trace.dead), self._order_of_commits(schedule, trace)
        fits = not compared or any(outcome == serial for serial in self._serial(stepped, dead, seen_order))
        if not fits and not (stepped and self._fits_when_swept(schedule)):
            self._found("outcome", schedule, trace, self._difference(outcome, dead))
        return trace

    def _fits_when_swept(self, schedule: Schedule) -> bool:
        """Whether a serial order has the same outcome once everything that has lapsed is written down."""
        self._world.sweeps = True
        try:
            trace, outcome = self._world.interleaved(self._scripts, schedule)
            dead, seen_order = frozenset(trace.dead), self._order_of_commits(schedule, trace)
            return any(outcome == serial for serial in self._serial(True, dead, seen_order))
        finally:
            self._world.sweeps = False

    def _order_of_commits(self, schedule: Schedule, trace: Trace) -> list[Turn]:
        """In which order calls were committed and the clock was stepped: most likely the order to compare with."""
        steps = {cut.after for cut in schedule.cuts[: trace.cuts_made] if cut.effect == "clock"}
        left = [[list(part) for part in _transactions(i, script)] for i, script in enumerate(self._scripts)]
        order: list[Turn] = []
        for number, (who, message) in enumerate(trace.messages, 1):
            if message.endswith("COMMIT") and left[who]:
                order += left[who].pop(0)
            if number in steps:
                order.append(None)
        return order

    def _found(self, kind: str, schedule: Schedule, trace: Trace, details: str) -> None:
        sent = "\n".join(f"    {who + 1}: {shortened(message)}" for who, message in trace.messages)
        names = tuple(sample.name for sample in self._samples)
        self.result.findings.append(Finding(kind, names, schedule, f"  {details}\n  messages:\n{sent}"))

    def check_freely(self, boards: Sequence[Board], step_after: float) -> None:
        """Run the samples on these boards without a schedule, with a step of the clock, and remember what was wrong."""
        outcome = self._world.freely(self._scripts, boards, step_after)
        self.result.schedules += 1
        seen = json.loads(outcome)
        for rivals in two_holders(seen["tables"]):
            self._found("two holders", Schedule(()), Trace(), rivals)
        for change in changed_ends(seen):
            self._found("not final", Schedule(()), Trace(), change)
        if not any(outcome == serial for serial in self._serial(True, frozenset())):
            self._found("outcome", Schedule(()), Trace(), self._difference(outcome, frozenset()))

    # ── Serial orders ────────────────────────────────────────────────────────────────────────────────

    def _serial(self, stepped: bool, dead: frozenset[int], like: Sequence[Turn] = ()) -> Iterator[str]:
        """The outcomes of the serial orders, the plain ones first, those most like another order before the rest.

        What was worked out once is kept.
        """
        orders = sorted(self._orders(stepped, dead), key=lambda order: _distance(order, like))
        for order in orders:
            yield self._outcome_of(order, dead)
        for number, script in enumerate(self._scripts) if stepped else ():
            for early in _first_calls(script):
                for order in orders:
                    yield self._outcome_of(order, dead, slow=frozenset((number, call) for call in early))
        for number, sample in enumerate(self._samples):
            turns = [(number, call) for call in range(len(units(self._scripts[number])))]
            for some, passing in product(_some_of(sample.skips), [turns, *([turn] for turn in turns[1:] and turns)]):
                for order in orders:
                    yield self._outcome_of(order, dead, (frozenset(passing), some))

    def most_serial_orders(self) -> int:
        """How many serial orders an outcome may have to be compared with; usually one of the first fits."""
        ways = 1 + sum(len(list(_first_calls(script))) for script in self._scripts)
        for sample, script in zip(self._samples, self._scripts, strict=True):
            calls = len(units(script))
            ways += len(_some_of(sample.skips)) * (1 + calls if calls > 1 else 1)
        return ways * sum(1 for _ in self._orders(True, frozenset()))

    def _orders(self, stepped: bool, dead: frozenset[int]) -> Iterator[tuple[Turn, ...]]:
        """Every order of the calls, with the step of the clock as a turn of its own."""
        lines = [line for i, script in enumerate(self._scripts) for line in _lines(i, script)]
        clock: list[list[Turn]] = [[None]] if stepped else []
        lengths = [range(len(line) + 1) if line[0][0] in dead else [len(line)] for line in lines]
        for done in product(*lengths):
            counts = (*done, *(1 for _ in clock))
            for merged in _merges(counts):
                turns: list[Iterator[Turn]] = [iter(line) for line in lines] + [iter(line) for line in clock]
                yield tuple(next(turns[each]) for each in merged)

    def _outcome_of(
        self,
        order: tuple[Turn, ...],
        dead: frozenset[int],
        passed: tuple[frozenset[tuple[int, int]], tuple[str, ...]] = (frozenset(), ()),
        slow: frozenset[tuple[int, int]] = frozenset(),
    ) -> str:
        key = (order, dead, passed, slow, self._world.sweeps)
        if key not in self._known:
            self.result.serial_runs += 1
            self._known[key] = self._world.serial(self._scripts, order, dead, passed, slow)
        return self._known[key]

    def _difference(self, outcome: str, dead: frozenset[int]) -> str:
        """How the outcome differs from the serial one that is most like it, of those that were worked out already."""
        found = json.loads(outcome)
        serial = [json.loads(each) for key, each in self._known.items() if key[1] == dead and not key[-1]]
        return min((_differences(found, each) for each in serial), key=len)


def _some_of(tasks: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Some of them, but not all: then there would be nothing else to take."""
    return [some for size in range(1, min(len(tasks), 4)) for some in combinations(tasks, size)]


def _first_calls(script: Sequence[Call]) -> Iterator[tuple[int, ...]]:
    """The calls of a client that may have been run before the clock was stepped: of a daemon, in whatever order."""
    first, *rest = range(len(units(script)))
    for size in range(len(rest), -1, -1):
        some = combinations(rest, size) if script[0][0] == "daemon" else [rest[:size]]
        yield from ((first, *each) for each in some)


def _lines(number: int, script: Sequence[Call]) -> list[list[tuple[int, int]]]:
    """The calls of a client that come one after another; those of a group come in any order."""
    turns = [(number, i) for i in range(len(units(script)))]
    return [[turn] for turn in turns] if script[0][0] in GROUPS else [turns]


def _transactions(number: int, script: Sequence[Call]) -> list[list[tuple[int, int]]]:
    """The calls of a client as it commits them; see `daemons.GroupingDaemon` for those of a daemon."""
    turns = [(number, i) for i in range(len(units(script)))]
    if script[0][0] == "batch":
        return [turns]
    return [turns[:1], turns[1:]] if script[0][0] == "daemon" else [[turn] for turn in turns]


def _distance(order: Sequence[Turn], other: Sequence[Turn]) -> int:
    """How many pairs of turns come in the opposite order."""
    places = {turn: place for place, turn in enumerate(order)}
    return sum(places[one] > places[two] for one, two in combinations([t for t in other if t in places], 2))


@cache
def _merges(counts: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """All orders of so many turns of each."""
    if not any(counts):
        return ((),)
    out = []
    for i, count in enumerate(counts):
        if count:
            rest = (*counts[:i], count - 1, *counts[i + 1 :])
            out += [(i, *others) for others in _merges(rest)]
    return tuple(out)


def two_holders(tables: dict[str, Any]) -> Iterator[str]:
    """Live holds of different holders that mean the same file, and pools and groups that are more than full."""
    live = [row for rows in tables["holds"].values() for row in rows if row["holder"] and row["until"] == "live"]
    for one, other in combinations(live, 2):
        files = one["resource"].startswith("file:") and other["resource"].startswith("file:")
        apart = one["project"] != other["project"] or one["holder"] == other["holder"]
        if files and not apart and overlap(one["resource"][5:], other["resource"][5:]):
            yield f"{one['holder']} holds {one['resource']} and {other['holder']} holds {other['resource']}"
    for rows in tables["pools"].values():
        for pool in rows:
            taken = sum((row["project"], row["resource"]) == (pool["project"], pool["resource"]) for row in live)
            if taken > pool["slots"]:
                yield f"{taken} of {pool['slots']} slots of {pool['resource']} are held"
    claimed = [row for rows in tables["tasks"].values() for row in rows if row["state"] == "claimed"]
    for task in claimed:
        group = [row for row in claimed if row["limit_group"] == task["limit_group"] and row["until"] == "live"]
        if task["limit_group"] and len(group) > task["limit_size"]:
            yield f"{len(group)} of the group {task['limit_group']} are claimed, the limit is {task['limit_size']}"


def changed_ends(seen: dict[str, Any]) -> Iterator[str]:
    """Tasks that a client was told to be finished, and that were something else later, without being reopened.

    The answers to one call, or to a group, are of one moment: they have no order among themselves.
    """
    rows = {name: rows[0]["state"] for name, rows in seen["tables"]["tasks"].items()}
    for answers in seen["answers"]:
        told: dict[str, str] = {}
        known = [[(name, state) for name, state in _states(answer) if name in rows] for answer in answers or ()]
        for moment in [*known, list(rows.items())]:
            for name, state in moment:
                reopened = any(event == "task.reopened" for event, *_ in seen["events"].get(name, ()))
                if told.get(name) in FINAL and state != told[name] and not reopened:
                    yield f"{name} was told to be {told[name]}, and is {state} later"
            told.update(sorted(moment, key=lambda each: each[1] in FINAL))


def _states(answers: Any) -> Iterator[tuple[str, str]]:
    """The tasks in answers, each with its state."""
    if isinstance(answers, dict) and {"id", "state", "attempts"} <= set(answers):
        yield answers["id"], answers["state"]
    elif isinstance(answers, list):
        for each in answers:
            yield from _states(each)


def _differences(found: Any, expected: Any, path: str = "") -> str:
    if type(found) is type(expected) and isinstance(found, dict):
        keys = sorted({*found, *expected})
        return "".join(_differences(found.get(k), expected.get(k), f"{path}.{k}") for k in keys)
    if type(found) is type(expected) and isinstance(found, list) and len(found) == len(expected):
        return "".join(_differences(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(found, expected, strict=True)))
    return "" if found == expected else f"\n    {path}: {_brief(found)} instead of {_brief(expected)}"


def _brief(value: Any) -> str:
    return shortened(json.dumps(value), 300)
