"""Strangers: what a caller without the token may change and see on an open daemon.

A stranger changes no job. Only the board knows whether a task is a job, so the parameters of a call cannot decide it,
and a check beforehand could be outdated when the write happens. So the write itself decides. A stranger's call gets a
transaction in which every statement that writes tasks also returns the kind of each written row. If one of them is a
job, the call ends there and everything that it did is rolled back. So it makes no difference by which operation a job
is reached, nor whether it was named, found, or changed as a dependent of another task. Tables that belong to jobs,
schedules and sessions cannot be written at all.

A stranger claims no task that a job comes after, directly or indirectly. It could let the claim lapse until no attempt
is left, and then the job would be cancelled by the call that writes the lapse.

Reading is allowed if the operation declares it. Fields that show how something is run are left out of the answer.
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
"""The tables that a stranger's call may write: in `tasks` only rows that are not jobs, in `board` only the probe."""
NEEDED = "jobs-need-token"
_WITHHELD: dict[type, tuple[str, ...]] = {
    Task: ("command",),
    Schedule: ("command",),
    Session: ("command", "cwd", "facts", "ticket"),
}
"""The fields that strangers do not see, because they show how something is run."""
_WRITES = re.compile(r"(?<!DO )\b(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)")
_READS = re.compile(r"\s*(?:SELECT|WITH)\b")
_RETURNING = " RETURNING "
_KIND = "tasks.number, tasks.kind"
_JOB_AFTER = (
    "EXISTS (WITH RECURSIVE later (n) AS (SELECT edges.task FROM edges WHERE edges.after = tasks.number "
    "UNION SELECT edges.task FROM later JOIN edges ON edges.after = later.n) SELECT 1 FROM later "
    f"JOIN tasks AS job ON job.number = later.n AND job.kind = '{JOB}' AND job.state = 'blocked')"
)
"""A condition: a blocked job comes after the task, directly or indirectly."""


class _TouchesJob(BaseException):
    """A stranger's call would change a job. Not an `Exception`, so that no operation handles it like a refusal."""


class StrangersTransaction:
    """A transaction that ends a call which changes a job."""

    changeable = f" AND kind <> '{JOB}'"
    """The answer of `operations.changeable`."""
    claimable = f" AND NOT {_JOB_AFTER}"
    """The answer of `operations.claimable`."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.shared = tx.shared
        self.project_rows = tx.project_rows
        self.skips_locked_rows = tx.skips_locked_rows
        self.serialize = tx.serialize
        self.wait_for_locked = tx.wait_for_locked
        self.report_deferred_work = tx.report_deferred_work
        self.refuse = tx.refuse
        self.refusals = tx.refusals
        self.search_words = tx.search_words
        self.write_event = tx.write_event
        self.process_of = tx.process_of
        self.is_alive = tx.is_alive
        self.is_this_boot = tx.is_this_boot
        self.is_of_earlier_boot = tx.is_of_earlier_boot

    @property
    def now(self) -> int:
        """Board time."""
        return self._tx.now

    def all(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows; end the call if one of the written rows is a job."""
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
    """End a stranger's call if work that it would defer reaches a job.

    `ends` are the numbers of ended tasks, each with the last task after it that was updated. Deferred work is done
    later and not by the stranger, so this call checks all tasks that the work can reach: those directly after a
    completed task, and those directly or indirectly after one that failed or was cancelled.
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
    """The statement as a stranger's call runs it, whether it writes tasks, and whether the original returns rows.

    Raises `Unauthorised` for a statement that writes a table which is not in `TABLES`.
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
    """The operation as strangers run it: with the same name, parameters and scopes, but without effect on jobs."""
    made = _cache.get(wanted.name)
    if made is None or made[0] is not wanted:
        made = _cache[wanted.name] = (wanted, _StrangersOperation(wanted))
    return made[1]


_cache: dict[str, tuple[Operation[..., Any], Operation[..., Any]]] = {}


class _StrangersOperation(Operation[..., "Any"]):
    """An operation whose function runs in a `StrangersTransaction`; engines run it like any other."""

    def __init__(self, wanted: Operation[..., Any]) -> None:
        self.__dict__.update(wanted.__dict__)
        self.settles_names = False  # somebody else's names could be taken so, and rows of jobs moved
        self._wanted = wanted.function
        self.function = self._run

    def redacted(self, answer: Any) -> Any:
        """An answer without the fields that strangers do not see."""
        return redacted(answer)

    def _run(self, tx: Transaction, **params: Any) -> Any:
        try:
            return redacted(self._wanted(StrangersTransaction(tx), **params))
        except _TouchesJob as touched:
            raise Unauthorised(f"this call {touched}", reason=NEEDED) from None


def redacted(answer: Any) -> Any:
    """An answer without the fields that strangers do not see."""
    if type(answer) is list:
        return [redacted(each) for each in answer]
    hidden = _WITHHELD.get(type(answer))
    if hidden is None:
        return answer
    values = zip(answer.fields, row_of(answer), strict=True)
    return record(type(answer), tuple(None if field in hidden else value for field, value in values))
