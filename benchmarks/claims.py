"""What the API adds to the statement that it runs.

Compared: operations through `board.tasks` in one process, each call one durable transaction, against the bare SQL of
the same change on the same schema with the same indexes (`BEGIN IMMEDIATE`, one statement, `COMMIT`; WAL,
`synchronous=FULL`; apsw in a loop). The bare statement checks no parameters, queues behind nobody, writes no event and
remembers no refusal; a second yardstick, for claims, adds the event. Aim: a claim at 0.7 of the bare rate or more.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import tiebreak

from . import boards
from .measure import Report, Settings, folder, in_turns, seconds, spread, times

if TYPE_CHECKING:
    from collections.abc import Callable

    import apsw

GRANT = (
    "UPDATE tasks SET displaced = holder, holder = :agent, epoch = epoch + 1, until = :now + 300000000, "
    "state = 'claimed', attempts = attempts + 1, ready_at = 0, claimed_at = :now, updated_at = :now "
)
READY = (
    "state IN ('pending', 'claimed') AND ready_at <= :now AND attempts < max_attempts "
    "AND (holder IS NULL OR until <= :now) "
)
CLAIM = f"{GRANT} WHERE number = :number AND {READY} RETURNING number, id, holder, epoch, until"
NEXT = (
    "WITH picked AS MATERIALIZED (SELECT number AS n FROM tasks WHERE state = 'pending' AND ready_at = 0 "
    "AND project = :project ORDER BY priority DESC, number LIMIT :count) "
    f"{GRANT} FROM picked WHERE number = picked.n AND {READY} RETURNING number, id, holder, epoch, until"
)
COMPLETE = (
    "UPDATE tasks SET state = 'completed', displaced = NULL, until = 0, finished_at = :now, updated_at = :now "
    "WHERE number = :number AND state = 'claimed' AND holder = :agent AND until > :now RETURNING number, id, epoch"
)
EVENT = (
    "INSERT INTO events (at, event, project, subject, name, kind, state, agent, epoch, until) "
    "VALUES (:now, 'task.claimed', :project, :id, 'task', 'task', 'claimed', :agent, :epoch, :until)"
)


class Raw:
    """The same changes, said to SQLite directly."""

    def __init__(self, connection: apsw.Connection, now: int) -> None:
        self._run = connection.cursor().execute
        self._values = {"agent": boards.AGENT, "project": boards.PROJECT, "now": now}

    def one(self, sql: str, **values: object) -> int:
        """One statement, one transaction; how many rows it changed."""
        self._run("BEGIN IMMEDIATE")
        rows = self._run(sql, {**self._values, **values}).fetchall()
        self._run("COMMIT" if rows else "ROLLBACK")
        return len(rows)

    def one_and_tell(self, sql: str, **values: object) -> int:
        """A claim with the event that a board appends in the same transaction."""
        self._run("BEGIN IMMEDIATE")
        rows = self._run(sql, {**self._values, **values}).fetchall()
        for _, id, _, epoch, until in rows:
            self._run(EVENT, {**self._values, "id": id, "epoch": epoch, "until": until})
        self._run("COMMIT" if rows else "ROLLBACK")
        return len(rows)

    def many(self, numbers: range) -> int:
        """Several statements, one transaction."""
        self._run("BEGIN IMMEDIATE")
        won = sum(len(self._run(CLAIM, {**self._values, "number": each}).fetchall()) for each in numbers)
        self._run("COMMIT")
        return won


class Supply:
    """Numbers of tasks that nobody has asked for yet: by reference from the top, leaving the oldest to `next`."""

    def __init__(self, top: int) -> None:
        self._top = top
        self.claimed: list[int] = []

    def fresh(self) -> int:
        """A task to claim."""
        self._top -= 1
        self.claimed.append(self._top + 1)
        return self._top + 1

    def some(self, count: int) -> range:
        """Several."""
        self._top -= count
        return range(self._top + 1, self._top + count + 1)


def run(settings: Settings) -> Report:
    """Rates of each operation and of its yardstick, and how they compare."""
    rounds, calls = settings.size(9, 2), settings.size(300, 10)
    with folder() as place:
        ready = (rounds + 1) * calls * 16 + 1000
        board, bare = boards.board(f"{place}/board.db", ready), boards.board(f"{place}/bare.db", ready)
        bare.close()
        connection = boards.raw(f"{place}/bare.db")
        raw = Raw(connection, int(board.upkeep.status().now * 1_000_000))
        work = _work(board, raw, ready, calls)
        found = in_turns({name: timed for name, (timed, _) in work.items()}, rounds)
        board.close()
        connection.close()
    return _report(found, {name: rows for name, (_, rows) in work.items()})


def _work(board: tiebreak.Board, raw: Raw, ready: int, calls: int) -> dict[str, tuple[Callable[[], float], int]]:
    """Each piece of work: how long a round of it takes, and how many rows that concerns."""
    mine, bare = Supply(ready), Supply(ready)
    tasks = board.tasks
    few = max(1, calls // 20)

    def round_of(call: Callable[[], object], count: int) -> Callable[[], float]:
        return lambda: seconds(lambda: [call() for _ in range(count)])

    def lose() -> None:
        try:
            tasks.claim(ref=f"#{ready}", agent="other~one")
            raise AssertionError("a claimed task was won")
        except tiebreak.Lost:
            pass

    raw.one(CLAIM, number=bare.fresh())
    tasks.claim(ref=f"#{mine.fresh()}")
    return {
        "claim": (round_of(lambda: tasks.claim(ref=f"#{mine.fresh()}"), calls), calls),
        "claim, bare": (round_of(lambda: raw.one(CLAIM, number=bare.fresh()), calls), calls),
        "claim, bare with event": (round_of(lambda: raw.one_and_tell(CLAIM, number=bare.fresh()), calls), calls),
        "complete": (round_of(lambda: tasks.complete(ref=f"#{mine.claimed.pop()}"), calls // 2), calls // 2),
        "complete, bare": (round_of(lambda: raw.one(COMPLETE, number=bare.claimed.pop()), calls // 2), calls // 2),
        "next": (round_of(lambda: tasks.next(), calls), calls),
        "next, bare": (round_of(lambda: raw.one(NEXT, count=1), calls), calls),
        "next, 100 at once": (round_of(lambda: tasks.next(count=100), few), few * 100),
        "next, 100 at once, bare": (round_of(lambda: raw.one(NEXT, count=100), few), few * 100),
        "claim_many of 100": (
            round_of(lambda: tasks.claim_many(refs=[f"#{each}" for each in mine.some(100)]), few),
            few * 100,
        ),
        "claim_many of 100, bare": (round_of(lambda: raw.many(bare.some(100)), few), few * 100),
        "lost claim": (round_of(lose, calls), calls),
        "lost claim, bare": (round_of(lambda: raw.one(CLAIM, number=ready), calls), calls),
    }


def _report(found: dict[str, list[float]], rows: dict[str, int]) -> Report:
    report = Report(
        "claims",
        "Rows per second in one process through the API, and through the bare SQL. Aim: claim ≥ 0.70×.",
        ["what", "tiebreak/s", "bare/s", "ratio", "noise"],
    )
    rates = {name: [rows[name] / each for each in found[name]] for name in found}
    for name in found:
        if ", bare" in name:
            continue
        mine, bare = median(rates[name]), median(rates[f"{name}, bare"])
        report.add(name, mine, bare, times(mine, bare), f"{spread(rates[name])} / {spread(rates[f'{name}, bare'])}")
    told = median(rates["claim, bare with event"])
    mine = median(rates["claim"])
    report.rows.insert(
        1, ["claim, against bare with event", *(f"{x:,.0f}" for x in (mine, told)), times(mine, told), ""]
    )
    return report
