"""Events: the numbered log of everything that happened, which waits and `why` read.

An event is appended by the same transaction that makes the change, so the log and the state cannot disagree. It carries
all that a filter or a reader needs (name, kind, state, agent, epoch …), so it stays readable after its task was pruned.
A few writes leave no event, because nothing changes hands: heartbeats and the renewals that come with them, a kept
place in the wait queue, the output of jobs, a read cursor and the mark of a health check.

Refusals are not written at once. Losing a race changes nothing and must not cost a commit. So a refusal is kept in
memory (or in a file beside the board) and is written together with a later change, with a count for each agent.
"""

from __future__ import annotations

from ..limits import LISTED, SENTENCES
from ..model import Event, Sentence, Task, columns, record, row_of
from ..names import PRIORITIES, json_text
from . import operation
from .grants import by_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import AgentId, Label, Limit, Name, Note, Number, Priority, Project, State
    from . import Transaction

COLUMNS = columns(Event)
WRITTEN = Event.fields[1:]
"""The columns that are written; the database assigns the number."""
INSERT = f"INSERT INTO events ({', '.join(WRITTEN)}) VALUES ({', '.join(':' + each for each in WRITTEN)})"
"""The statement that writes an event. Engines send it for `Transaction.write_event`, or write several at once."""


def append(
    tx: Transaction,
    event: str,
    project: str,
    *,
    subject: str | None = None,
    name: str | None = None,
    kind: str | None = None,
    state: str | None = None,
    priority: int = 1,
    agent: str | None = None,
    epoch: int = 0,
    until: int = 0,
    note: str | None = None,
    times: int = 1,
    data: Any = None,
) -> None:
    """Append an event about what this transaction did."""
    tx.write_event(
        at=tx.now,
        event=event,
        project=project,
        subject=subject,
        name=name,
        kind=kind,
        state=state,
        priority=priority,
        agent=agent,
        epoch=epoch,
        until=until,
        note=note,
        times=times,
        data=None if data is None else json_text(data),
    )


def append_refusals(tx: Transaction, rows: list[tuple[Any, ...]]) -> None:
    """Append refusals that were remembered earlier, as rows of events without their numbers."""
    for row in rows:
        tx.write_event(**dict(zip(WRITTEN, row[1:], strict=True)))


def contains(column: str) -> str:
    """A condition: the column contains `:name_contains`, which is in lower case; upper and lower case are the same."""
    return f"{{position}}({{lower}}({column}), :name_contains) > 0"


def last(tx: Transaction) -> int:
    """The number of the newest event; 0 on an empty board."""
    row = tx.first("SELECT {newest}")
    return (row and row[0]) or 0


@operation("events.last", writes=False, strangers=True, reads_log=True)
def newest(tx: Transaction) -> int:
    """Return the number of the newest event: read on from it to see what happens from now on."""
    return last(tx)


@operation("events.read", writes=False, strangers=True, reads_log=True)
def read(
    tx: Transaction,
    *,
    after: Number = 0,
    limit: Limit = LISTED,
    event: Label | None = None,
    project: Project | None = "",
    subject: Note | None = None,
    kind: Label | None = None,
    name_contains: Name | None = None,
    state: State | None = None,
    priority: Priority | None = None,
    agent: AgentId | None = None,
    newest: bool = False,
) -> list[Event]:
    """List the events after a number that match all the given filters, oldest first.

    If there are more than `limit`, the answer has the first ones, or with `newest` the last ones. `event` may be a
    whole name (`task.claimed`) or its first half (`task`). `agent` matches every incarnation of that name.
    """
    where = ["number > :after", "number <= {settled}"]
    if event is not None:
        where.append("(event = :event OR substr(event, 1, length(:event) + 1) = :event || '.')")
    if name_contains is not None:
        where.append(contains("name"))
    if agent is not None:
        where.append(by_name("agent", "agent"))
    given = {"project": project, "subject": subject, "kind": kind, "state": state, "priority": priority}
    where += [f"{column} = :{column}" for column, value in given.items() if value is not None]
    rows = tx.all(
        f"SELECT {COLUMNS} FROM {{log}} WHERE {' AND '.join(where)} "
        f"ORDER BY number{' DESC' if newest else ''} LIMIT :limit",
        after=after,
        limit=limit,
        event=event,
        name_contains=name_contains and name_contains.lower(),
        agent=agent and agent.partition("~")[0],
        **{**given, "priority": None if priority is None else PRIORITIES.index(priority)},
    )
    return [record(Event, row) for row in (reversed(rows) if newest else rows)]


@operation("events.why", writes=False, strangers=True, reads_log=True)
def why(tx: Transaction, *, ref: Note, project: Project = "", limit: Limit = SENTENCES) -> list[Sentence]:
    """Tell the history of a task or a resource in plain sentences: every grant, refusal, renewal, expiry and break."""
    from .why import story

    return story(tx, ref, project, limit)


_PRIORITY = Task.fields.index("priority")


def task_event(
    tx: Transaction,
    event: str,
    task: Task,
    *,
    state: str | None = None,
    agent: str | None = None,
    epoch: int = 0,
    until: int = 0,
    note: str | None = None,
    data: Any = None,
) -> None:
    """Append an event about a task, with the state that it led to."""
    # Does not call `append`, to save time: every claim comes through here.
    tx.write_event(
        at=tx.now,
        event=event,
        project=task.project,
        subject=task.id,
        name=task.name,
        kind=task.kind,
        state=state or task.state,
        priority=row_of(task)[_PRIORITY],
        agent=agent,
        epoch=epoch,
        until=until,
        note=note,
        times=1,
        data=None if data is None else json_text(data),
    )


def refuse_task(tx: Transaction, event: str, task: Task, *, agent: str, epoch: int, note: str | None = None) -> None:
    """Remember a refusal about a task for the log."""
    tx.refuse(
        event,
        project=task.project,
        subject=task.id,
        name=task.name,
        kind=task.kind,
        agent=agent,
        epoch=epoch,
        note=note,
    )
