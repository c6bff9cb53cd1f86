"""What 10,000 agents on 1,000 projects need: a simulation, fed with service times measured in the same run.

Measured here, one after the other: each operation on a SQLite file by one process, and what 16 processes lose to each
other; the same behind `tb serve` with 1 and with 64 requests at a time; on a PostgreSQL with 1 and 16 processes, and
behind `tb serve`. From one and many at a time follow the two parts of a transaction's cost: what it costs once (mostly
the sync of the disk), and what each operation in it adds.

Simulated, by a list of events in time order with a fixed seed: every agent thinks, asks for one operation, waits for
its answer, and thinks again. What it asks queues for what is scarce: SQLite's write lock, the daemon's one core, the
daemon's turn to write, the database server. Several servers share the projects between them, and each stands on a
machine like this one. All further assumptions are the constants below.

It leaves out: the start of a command (20 ms for each `tb`), tables that grow, vacuum, fail-over, and projects of
unequal size. Clients share the cores while service times are measured, so a server with a machine to itself is faster.
"""

from __future__ import annotations

import heapq
import os
import random
from collections import deque
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

from .measure import Report, Settings, percentile, progress
from .service import READS, Batched, Measured, measure

if TYPE_CHECKING:
    from collections.abc import Callable

# ── Assumptions ──────────────────────────────────────────────────────────────────────────────────────

AGENTS = (50, 500, 5_000, 10_000)
AGENTS_PER_PROJECT = 10
TASK = 60.0
"""Seconds that an agent works on one task, on average."""
LEASE = 60.0
"""A claim is extended three times in this time, so an answer that takes longer than a third of it is late."""
PER_TASK = {"next": 1.0, "complete": 1.0, "extend": TASK / (LEASE / 3), "post": 1.0, "list": 3.0, "wait": 1.0}
"""What an agent asks for in the course of a task. `wait` is what a waiter asks for when it is woken: the events."""
THINK = TASK / sum(PER_TASK.values())
"""Seconds between an answer and the next question, on average, distributed exponentially."""
BURST_EVERY, BURST_SHARE = 30.0, 0.05
"""So often, so many of all agents stop thinking at the same moment: a merge, a finished build, a decision."""
NETWORK = 0.0005
"""Seconds for a question and its answer between machines; SQLite is used on its own machine."""
ROUND_TRIPS = {"next": 6, "complete": 6, "extend": 5, "post": 5, "list": 6, "wait": 4}
"""Statements of an operation on PostgreSQL, each with an answer that is waited for. Behind a daemon there is one."""
MOST_CONNECTIONS = 200
"""What a PostgreSQL server is set to accept; each agent that goes there by itself needs one, and one to listen."""
DAEMONS = 4
"""In front of each PostgreSQL server."""
WRITERS, MOST_TOGETHER = 4, 256
"""Transactions of a daemon at the same time on PostgreSQL, and operations in one of them (one on SQLite)."""
CORES = os.cpu_count() or 2
LATE = 0.1
"""A board carries as many agents as it can answer 99 % of the writes of within this many seconds."""
SECONDS = 120.0
SEED = 1


# ── Simulating ───────────────────────────────────────────────────────────────────────────────────────


class Station:
    """Something scarce: so many at a time, the others queue in order."""

    def __init__(self, name: str, servers: int = 1) -> None:
        self.name = name
        self.servers = servers
        self.busy = 0.0
        self._free = servers
        self._queue: deque[tuple[float, Callable[[], None]]] = deque()

    def enter(self, clock: Clock, service: float, done: Callable[[], None]) -> None:
        """Be served for so many seconds, in turn."""
        self._queue.append((service, done))
        self._serve(clock)

    @property
    def occupied(self) -> bool:
        """Whether one who comes now has to wait."""
        return not self._free

    def _serve(self, clock: Clock) -> None:
        while self._free and self._queue:
            service, done = self._queue.popleft()
            self._free -= 1
            self.busy += service

            def leave(done: Callable[[], None] = done) -> None:
                self._free += 1
                done()
                self._serve(clock)

            clock.after(service, leave)

    def utilisation(self, span: float) -> float:
        """The share of the time that it was busy."""
        return min(1.0, self.busy / self.servers / span)


class Clock:
    """Events in the order of time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, delay: float, event: Callable[[], None]) -> None:
        """Let something happen later."""
        self._count += 1
        heapq.heappush(self._events, (self.now + delay, self._count, event))

    def run(self, until: float) -> None:
        """Let everything happen until then."""
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            event()


class Batcher:
    """A daemon's writer: all that waits goes into one transaction, a few transactions at a time."""

    def __init__(self, target: Station, cost: Batched, writers: int) -> None:
        self._target = target
        self._cost = cost
        self._free = writers
        self._waiting: deque[Callable[[], None]] = deque()

    def enter(self, clock: Clock, done: Callable[[], None]) -> None:
        """Wait for the next transaction, and for its end."""
        self._waiting.append(done)
        self._begin(clock)

    def _begin(self, clock: Clock) -> None:
        if not self._free or not self._waiting:
            return
        taken = [self._waiting.popleft() for _ in range(min(MOST_TOGETHER, len(self._waiting)))]
        self._free -= 1

        def end() -> None:
            self._free += 1
            for done in taken:
                done()
            self._begin(clock)

        self._target.enter(clock, self._cost.cost(len(taken)), end)


class World:
    """A way to set up a board: what is scarce, and the way of an operation through it."""

    def __init__(self, found: Measured, chance: random.Random) -> None:
        self.found = found
        self.chance = chance
        self.stations: list[Station] = []

    def station(self, name: str, servers: int = 1) -> Station:
        """One more."""
        made = Station(name, servers)
        self.stations.append(made)
        return made

    def ask(self, clock: Clock, project: int, name: str, done: Callable[[], None]) -> None:
        """An operation of an agent in a project."""
        raise NotImplementedError

    def refuses(self, agents: int) -> str:
        """What does not even admit so many."""
        return ""


class File(World):
    """One SQLite file, which all processes open."""

    def __init__(self, found: Measured, chance: random.Random) -> None:
        super().__init__(found, chance)
        self._lock = self.station("the write lock (one fsync each)")
        self._cores = self.station("the machine's cores", CORES)

    def ask(self, clock: Clock, project: int, name: str, done: Callable[[], None]) -> None:
        """Reads use a core, writes the lock."""
        took = self.chance.choice(self.found.sqlite[name])
        if name in READS:
            self._cores.enter(clock, took, done)
        else:
            self._lock.enter(clock, took + (self.found.contention if self._lock.occupied else 0.0), done)


class ServedFile(World):
    """One SQLite file behind a daemon."""

    def __init__(self, found: Measured, chance: random.Random) -> None:
        super().__init__(found, chance)
        self._core = self.station("the daemon's core")
        self._writer = Batcher(self._core, found.daemon, 1)

    def ask(self, clock: Clock, project: int, name: str, done: Callable[[], None]) -> None:
        """Everything needs its one thread."""
        if name in READS:
            self._core.enter(clock, self.found.daemon_read, done)
        else:
            self._writer.enter(clock, done)


class Direct(World):
    """One PostgreSQL, to which every agent has a connection."""

    def __init__(self, found: Measured, chance: random.Random) -> None:
        super().__init__(found, chance)
        self._server = self.station("the database server", _servers(found))

    def refuses(self, agents: int) -> str:
        """One connection for asking, one for listening."""
        return "connections" if agents * 2 > MOST_CONNECTIONS else ""

    def ask(self, clock: Clock, project: int, name: str, done: Callable[[], None]) -> None:
        """Many round trips."""
        took = self.chance.choice(self.found.postgres[name]) * _servers(self.found) / self.found.parallel
        travel = NETWORK * ROUND_TRIPS[name]
        self._server.enter(clock, took, lambda: clock.after(travel, done))


class Served(World):
    """PostgreSQL servers, each with daemons in front and a part of the projects."""

    def __init__(self, found: Measured, chance: random.Random, shards: int = 1) -> None:
        super().__init__(found, chance)
        slower = _servers(found) / found.parallel
        cost = Batched(found.postgres_batch.once * slower, found.postgres_batch.each * slower)
        # What the daemon itself adds to an operation: all of it, less what the server takes in a batch.
        self._own = max(0.00005, found.postgres_daemon.each - found.postgres_batch.each)
        self._read = slower
        self._shards = [self.station("the database server", _servers(found)) for _ in range(shards)]
        self._cores = [[self.station("a daemon's core") for _ in range(DAEMONS)] for _ in range(shards)]
        self._writers = [[Batcher(shard, cost, WRITERS) for _ in range(DAEMONS)] for shard in self._shards]

    def ask(self, clock: Clock, project: int, name: str, done: Callable[[], None]) -> None:
        """First the daemon's core, then its next transaction; a read goes alone."""
        shard, which = project % len(self._shards), self.chance.randrange(DAEMONS)

        def back() -> None:
            clock.after(NETWORK, done)

        def on() -> None:
            if name in READS:
                took = self.chance.choice(self.found.postgres[name]) * self._read
                self._shards[shard].enter(clock, took, back)
            else:
                self._writers[shard][which].enter(clock, back)

        self._cores[shard][which].enter(clock, self._own, on)


def _servers(found: Measured) -> int:
    return max(1, round(found.parallel))


class Outcome(NamedTuple):
    """What a simulated run found."""

    rate: float
    """Operations answered per second."""
    p50: float
    p99: float
    busiest: str
    utilisation: float


def simulate(world: World, agents: int, seconds: float, chance: random.Random) -> Outcome:
    """Let so many agents work for so long. The latencies are those of writes, of unanswered ones as far as they got."""
    clock, took, answers = Clock(), [], 0
    waiting: dict[int, float] = {}
    names, weights = list(PER_TASK), list(PER_TASK.values())
    thinking: list[Callable[[], None] | None] = [None] * agents

    def think(agent: int) -> None:
        def ask() -> None:
            if thinking[agent] is not ask:
                return  # a burst has called it earlier
            thinking[agent] = None
            began, name = clock.now, chance.choices(names, weights)[0]

            def answered() -> None:
                nonlocal answers
                answers += 1
                if waiting.pop(agent, None) is not None:
                    took.append(clock.now - began)
                think(agent)

            if name not in READS:
                waiting[agent] = began
            world.ask(clock, agent // AGENTS_PER_PROJECT, name, answered)

        thinking[agent] = ask
        clock.after(chance.expovariate(1 / THINK), ask)

    def burst() -> None:
        for agent in chance.sample(range(agents), int(agents * BURST_SHARE)):
            if (ask := thinking[agent]) is not None:
                ask()
        clock.after(BURST_EVERY, burst)

    for agent in range(agents):
        think(agent)
    clock.after(BURST_EVERY / 2, burst)
    clock.run(seconds)
    took += [seconds - began for began in waiting.values()]
    busiest = max(world.stations, key=lambda station: station.utilisation(seconds))
    used = busiest.utilisation(seconds)
    return Outcome(answers / seconds, percentile(took, 50), percentile(took, 99), busiest.name, used)


WORLDS: dict[str, Callable[[Measured, random.Random], World]] = {
    "one SQLite file": File,
    "one SQLite file, a daemon": ServedFile,
    "one PostgreSQL, direct": Direct,
    f"one PostgreSQL, {DAEMONS} daemons": Served,
    f"2 PostgreSQL by project, {2 * DAEMONS} daemons": lambda found, chance: Served(found, chance, 2),
    f"4 PostgreSQL by project, {4 * DAEMONS} daemons": lambda found, chance: Served(found, chance, 4),
}


def run(settings: Settings) -> Report:
    """Measure, then simulate every way for every number of agents."""
    report = Report(
        "scale",
        f"Simulated: agents, {AGENTS_PER_PROJECT} in a project, one operation every {THINK:.0f} s each and "
        f"{BURST_SHARE:.0%} of them at once every {BURST_EVERY:.0f} s. What saturates is what was busiest.",
        ["board", "busiest", "agents", "asked/s", "answered/s", "write p50 ms", "p99 ms", "utilised"],
        left=2,
    )
    found = measure(settings)
    carried = []
    seconds = settings.size(int(SECONDS), 10)
    for name, make in WORLDS.items():
        progress(f"{name} …")
        for agents in AGENTS:
            _row(report, name, make(found, random.Random(SEED)), agents, seconds)
        carried.append(f"{name}: {carries(found, make, seconds / 3):,}")
    report.notes.append(
        f"Agents with write p99 within {LATE * 1000:.0f} ms, in steps of a third: {'; '.join(carried)}."
    )
    report.notes += _service_times(found)
    return report


def carries(found: Measured, make: Callable[[Measured, random.Random], World], seconds: float) -> int:
    """How many agents can be added before one in a hundred of their writes is late."""
    agents = last = AGENTS[0]
    while agents < 100_000:
        world = make(found, random.Random(SEED))
        if world.refuses(agents) or simulate(world, agents, seconds, random.Random(SEED)).p99 > LATE:
            break
        last, agents = agents, agents * 4 // 3
    return last


def _row(report: Report, name: str, world: World, agents: int, seconds: float) -> None:
    asked = agents / THINK
    if why := world.refuses(agents):
        report.add(name, why, agents, asked, "-", "-", "-", f"{agents * 2} of {MOST_CONNECTIONS}")
        return
    out = simulate(world, agents, seconds, random.Random(SEED))
    cells = (asked, out.rate, out.p50 * 1000, out.p99 * 1000, f"{out.utilisation:.0%}")
    report.add(name, out.busiest, agents, *cells)


def _service_times(found: Measured) -> list[str]:
    def shown(times: dict[str, list[float]]) -> str:
        return ", ".join(f"{name} {mean(each) * 1000:.2f}" for name, each in times.items())

    def parts(cost: Batched) -> str:
        return f"{cost.once * 1000:.2f} once + {cost.each * 1000:.3f} for each"

    return [
        f"Measured, ms. SQLite: {shown(found.sqlite)}; {found.contention * 1000:.2f} more for a write among 16 "
        f"processes. Behind a daemon: {parts(found.daemon)}, a list {found.daemon_read * 1000:.3f}.",
        f"PostgreSQL: {shown(found.postgres)}; 16 processes get {found.parallel:.2f}× as much done as one. In batches: "
        f"{parts(found.postgres_batch)}; behind a daemon: {parts(found.postgres_daemon)}.",
    ]
