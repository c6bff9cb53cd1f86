"""Strangers: what somebody who calls an open daemon without the token may change and see.

A stranger changes no job. Whether a task is a job is known on the board alone, so no look at the parameters can decide
it, and a look at the board beforehand could be outdated when the write happens. Here the write itself decides: a
stranger's call gets a transaction that lets every statement which writes tasks return the kind of each row that it
wrote. If one of them is a job, the call ends there and all that it did is undone. So it makes no difference by which
operation a job is reached, nor whether it was named, found, or touched by a cascade. Tables that belong to jobs,
schedules and sessions cannot be written at all.

A stranger claims no task that a job comes after, near or far. It could only let the claim lapse until no attempt is
left, and the job would be cancelled by whoever writes that down.

Reading is allowed where the operation declares it. The fields that tell how something is run are left out.
"""

from __future__ import annotations

import re

from ..errors import Unauthorised
from ..model import Schedule, Session, Task, record, row_of
from ..names import JOB
from . import Operation
from .claims import CLAIMED
from .rows import given, listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from . import Transaction

TABLES = frozenset(
    ("tasks", "edges", "chores", "events", "holds", "pools", "waits", "messages", "acks", "cursors", "agents", "board")
)
"""Where a stranger's call may write; of `tasks` only rows that are no jobs, and of `board` only its probe."""
NEEDED = "jobs-need-token"
_WITHHELD: dict[type, tuple[str, ...]] = {
    Task: ("command",),
    Schedule: ("command",),
    Session: ("command", "cwd", "facts", "ticket"),
}
"""The fields that strangers do not see: how something is run."""
_WRITES = re.compile(r"(?<!DO )\b(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)")
_READS = re.compile(r"\s*(?:SELECT|WITH)\b")
_RETURNING = " RETURNING "
_KIND = "tasks.number, tasks.kind"
_JOB_AFTER = (
    "EXISTS (WITH RECURSIVE later (n) AS (SELECT edges.task FROM edges WHERE edges.after = tasks.number "
    "UNION SELECT edges.task FROM later JOIN edges ON edges.after = later.n) SELECT 1 FROM later "
    f"JOIN tasks AS job ON job.number = later.n AND job.kind = '{JOB}' AND job.state = 'blocked')"
)
"""A condition: a job that has not begun comes after the task, near or far."""


class _TouchesJob(BaseException):
    """A statement wrote what strangers do not write. Not an `Exception`: no operation may take it for a refusal."""


class StrangersTransaction:
    """A transaction that undoes a call which changes a job."""

    changeable = f" AND kind <> '{JOB}'"
    """What `operations.changeable` answers with."""
    claimable = f" AND NOT {_JOB_AFTER}"
    """What `operations.claimable` answers with."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.passes_over = tx.passes_over
        self.serialize = tx.serialize
        self.wait_for_locked = tx.wait_for_locked
        self.leave = tx.leave
        self.refuse = tx.refuse
        self.refusals = tx.refusals
        self.write_event = tx.write_event
        self.process_of = tx.process_of
        self.is_alive = tx.is_alive

    @property
    def now(self) -> int:
        """Board time."""
        return self._tx.now

    def all(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows; ends the call if one of the rows that it wrote is a job."""
        statement, writes_tasks, returns = _statements.get(sql) or _examined(sql)
        rows = self._tx.all(statement, **params)
        if not writes_tasks:
            return rows
        for row in rows:
            if row[-1] == JOB:
                raise _TouchesJob(f"would change #{row[-2]}, which is a job")
        if CLAIMED in sql:
            self._refuse_before_jobs([row[-2] for row in rows])
        return [row[:-2] for row in rows] if returns else []

    def _refuse_before_jobs(self, claimed: list[int]) -> None:
        """End the call if a job comes after a task that it has claimed."""
        for these, params in listed("n", claimed):
            found = f"SELECT number FROM tasks WHERE number IN ({these}) AND {_JOB_AFTER}"
            if row := self._tx.first(found, **params):
                raise _TouchesJob(f"would claim #{row[0]}, which a job comes after")

    def first(self, sql: str, **params: Any) -> tuple[Any, ...] | None:
        """Run a statement and return its first row."""
        rows = self.all(sql, **params)
        return rows[0] if rows else None


def refuse_jobs_after(tx: Transaction, ends: list[tuple[int, int]]) -> None:
    """End a stranger's call if a chore that it would leave reaches a job.

    `ends` are numbers of ended tasks, each with the last one after it that was dealt with. A chore is done later and
    not by the stranger, so the call that leaves it looks at all that it can reach: those right after a completed
    task, those near and far after one that failed or was cancelled.
    """
    for table, params in given(("n", "p"), ends):
        row = tx.first(f"{table}{_NEAR}", **params) or tx.first(
            f"{table.replace('WITH', _RECURSIVE, 1)}{_FAR}", **params
        )
        if row is not None:
            raise _TouchesJob(f"would change #{row[0]}, which is a job")


_RECURSIVE = "WITH RECURSIVE"
_BLOCKED_JOB = (
    f"JOIN tasks AS job ON job.number = edges.task WHERE job.state = 'blocked' AND job.kind = '{JOB}' LIMIT 1"
)
_NEAR = f"SELECT job.number FROM given JOIN edges ON edges.after = given.n AND edges.task > given.p {_BLOCKED_JOB}"
_FAR = (
    ", cancelled (c) AS (SELECT edges.task FROM given "
    "JOIN tasks AS ended ON ended.number = given.n AND ended.state <> 'completed' "
    "JOIN edges ON edges.after = given.n AND edges.task > given.p "
    "JOIN tasks AS near ON near.number = edges.task AND near.state = 'blocked' AND near.run_anyway = 0 "
    "UNION SELECT edges.task FROM cancelled JOIN edges ON edges.after = cancelled.c "
    "JOIN tasks AS far ON far.number = edges.task AND far.state = 'blocked' AND far.run_anyway = 0) "
    f"SELECT job.number FROM cancelled JOIN edges ON edges.after = cancelled.c {_BLOCKED_JOB}"
)


_statements: dict[str, tuple[str, bool, bool]] = {}


def _examined(sql: str) -> tuple[str, bool, bool]:
    """The statement as a stranger's call runs it, whether it writes tasks, and whether it returned rows before.

    Raises `Unauthorised` for a statement that writes to a table of jobs.
    """
    written = set(_WRITES.findall(sql))
    if not written <= TABLES or not (written or _READS.match(sql)):
        raise Unauthorised("this call would change what belongs to jobs", reason=NEEDED)
    returns, statement = _RETURNING in sql, sql
    if "tasks" in written:
        statement = f"{sql}, {_KIND}" if returns else f"{sql}{_RETURNING}{_KIND}"
    done = _statements[sql] = statement, "tasks" in written, returns
    return done


def for_strangers(wanted: Operation[..., Any]) -> Operation[..., Any]:
    """The operation as strangers run it: the same name, parameters and scopes, and no effect on jobs."""
    made = _made.get(wanted.name)
    if made is None or made[0] is not wanted:
        made = _made[wanted.name] = (wanted, _StrangersOperation(wanted))
    return made[1]


_made: dict[str, tuple[Operation[..., Any], Operation[..., Any]]] = {}


class _StrangersOperation(Operation[..., "Any"]):
    """An operation with another function; whatever runs operations runs it like any other."""

    def __init__(self, wanted: Operation[..., Any]) -> None:
        self.__dict__.update(wanted.__dict__)
        self._wanted = wanted.function
        self.function = self._run

    def seen(self, answer: Any) -> Any:
        """An answer without the fields that strangers do not see."""
        return seen(answer)

    def _run(self, tx: Transaction, **params: Any) -> Any:
        try:
            return seen(self._wanted(StrangersTransaction(tx), **params))
        except _TouchesJob as touched:
            raise Unauthorised(f"this call {touched}", reason=NEEDED) from None


def seen(answer: Any) -> Any:
    """An answer without the fields that strangers do not see."""
    if type(answer) is list:
        return [seen(each) for each in answer]
    hidden = _WITHHELD.get(type(answer))
    if hidden is None:
        return answer
    values = zip(answer.fields, row_of(answer), strict=True)
    return record(type(answer), tuple(None if field in hidden else value for field, value in values))
