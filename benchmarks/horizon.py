"""How long a claim takes on a board of a thousand or a million tasks, also when vacuum can remove nothing.

Finished tasks stay in the table of the live ones and leave the indexes by which live ones are found; `finished` shows
whether that keeps them apart well enough.

A transaction that somebody keeps open holds the horizon of vacuum: nothing that was claimed or completed since can be
removed, neither from the table nor from its indexes, and whoever looks for the next ready task steps over all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from tests.postgres import WRITES

from . import boards
from .crew import BATCH, TASKS, Latency, board, filled, finish, latency
from .measure import Report, Settings, progress

if TYPE_CHECKING:
    from tests.postgres import Server


class Looking:
    """Measures claims on a board again and again, and leaves as many ready tasks as there were."""

    def __init__(self, address: str, count: int) -> None:
        self.board = board(address)
        self._count = count
        self._newest: list[int] = []
        self.churn(count + BATCH)

    def now(self) -> tuple[Latency, Latency]:
        """`next`, which gets the oldest, and a claim by number, of the newest."""
        found: list[int] = []
        wanted = self._newest[-self._count :]
        given = latency(lambda _: found.extend(task.number for task in self.board.tasks.next()), self._count)
        named = latency(lambda n: self.board.tasks.claim(ref=f"#{wanted[n]}"), self._count)
        self._renew(found + wanted)
        return given, named

    def churn(self, count: int) -> None:
        """Claim, complete and post so many."""
        for _ in range(0, count, BATCH):
            self._renew([task.number for task in self.board.tasks.next(count=BATCH)])

    def _renew(self, numbers: list[int]) -> None:
        for low in range(0, len(numbers), BATCH):
            some = numbers[low : low + BATCH]
            finish(self.board, some)
            posted = self.board.batch([("tasks.post", {"name": "again"}) for _ in some])
            self._newest = [*self._newest[-self._count :], *(task.number for task in posted)]


def latencies(settings: Settings, server: Server, report: Report) -> None:
    """At both sizes: as it is, then with a reader in the way, then after it has gone."""
    count = settings.size(300, 20)
    steps = (5_000, 20_000) if not settings.quick else (200, 400)
    for ready in (settings.size(1_000, 500), settings.size(1_000_000, 2_000)):
        progress(f"latency with {ready:,} ready tasks …")
        address = filled(server, "latency", ready)
        looking = Looking(address, count)
        lines = [f"nothing in the way {_both(looking.now())}"]
        looking.churn(steps[-1])
        lines.append(f"after {steps[-1]:,} claims and completions {_both(looking.now())}")
        lines += _with_a_reader(address, looking, steps)
        looking.board.close()
        head = f"Claim latency with {ready:,} ready tasks, p50 / p99 in ms, of `next` and of a claim by number: "
        report.notes.append(head + "; ".join(lines) + ".")


def _with_a_reader(address: str, looking: Looking, steps: tuple[int, ...]) -> list[str]:
    lines, done = [], 0
    with psycopg.connect(address) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM board")
        for step in steps:
            looking.churn(step - done)
            done = step
            lines.append(f"with a transaction open for {step:,} of them {_both(looking.now())}")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("VACUUM tasks")
    return [*lines, f"after it has ended and vacuum has run {_both(looking.now())}"]


def _both(found: tuple[Latency, Latency]) -> str:
    return f"{found[0]} and {found[1]}"


_FINISHED = (
    "INSERT INTO tasks (number, id, project, kind, name, queue, priority, state, holder, epoch, attempts, "
    "max_attempts, backoff, created_by, created_at, updated_at, claimed_at, finished_at) "
    "SELECT n, '00000000-0000-7000-9000-' || lpad(to_hex(n), 12, '0'), %s, 'task', 'task ' || n, 'default', 1, "
    "'completed', 'x~1', 1, 1, 3, 1000000, 'x', 1, 1, 1, n FROM generate_series(1000001, 1000000 + %s) n"
)


def finished(settings: Settings, server: Server, report: Report) -> None:
    """The same thousand ready tasks beside ever more finished ones."""
    count, lines = settings.size(300, 20), []
    address = filled(server, "latency", 3000)
    for ended in (0, settings.size(1_000, 100), settings.size(1_000_000, 2_000)):
        progress(f"latency with {ended:,} finished tasks …")
        with psycopg.connect(address, autocommit=True, options=WRITES) as connection:
            connection.execute("SET synchronous_commit = off")
            connection.execute("DELETE FROM tasks WHERE number > 1000000")
            connection.execute(_FINISHED, (boards.PROJECT, ended))
            connection.execute("VACUUM ANALYZE tasks")
            connection.execute("CHECKPOINT")
        with board(address) as mine:
            taken: list[str] = []
            given = latency(lambda _, b=mine, t=taken: t.extend(task.id for task in b.tasks.next()), count)
            done = latency(lambda n, b=mine, t=taken: b.tasks.complete(ref=t[n]), count)
        lines.append(f"{ended:,}: {given} and {done}")
    what = "Latency by how many finished tasks are kept, p50 / p99 in ms, of `next` and of `complete`"
    report.notes.append(f"{what}: {'; '.join(lines)}.")


def crowded(settings: Settings, server: Server, report: Report) -> None:
    """`next` looks whether a claim of the project has lapsed."""
    count, found = settings.size(200, 20), []
    address = filled(server, "latency", 1000)
    for claimed in (0, 1_000, 10_000):
        with psycopg.connect(address, autocommit=True, options=WRITES) as connection, board(address) as mine:
            connection.execute("DELETE FROM tasks")
            connection.execute(TASKS, {"project": boards.PROJECT, "agent": "x", "at": 1, "ready": claimed + 1000})
            claim = "UPDATE tasks SET state = 'claimed', holder = 'x~1', until = 9000000000000000, epoch = 1"
            connection.execute(f"{claim} WHERE number <= %s", (claimed,))
            connection.execute("VACUUM ANALYZE tasks")
            found.append(f"{claimed:,}: {latency(lambda _: mine.tasks.next(), count)}")
    report.notes.append(f"`next` by how many tasks of the project are claimed, p50 / p99 in ms: {'; '.join(found)}.")
