"""Events: the numbered log of what happened, and the only source for waiting and for stories.

An event is appended by the same transaction that makes the change, so the log and the state cannot
disagree. It carries what a filter or a reader needs (name, kind, state, agent, epoch …) and so stays
readable when its task has been pruned. A few writes leave no event, because nothing changes hands: a bare
heartbeat, jobs that are kept, what they write, a read cursor and the mark of a health check.

Refusals are the exception to "in the same transaction": losing a race changes nothing and must not cost
a commit, so a refusal waits in memory (or beside the board) and is written with a later change, counted
per agent.
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
"""What an event is told with; its number it gets from the database."""
INSERT = f"INSERT INTO events ({', '.join(WRITTEN)}) VALUES ({', '.join(':' + each for each in WRITTEN)})"
"""How an event is written. Engines send it for `Transaction.write_event`, or write several events at once."""


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
    """Write down what this transaction did."""
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


def carry(tx: Transaction, rows: list[tuple[Any, ...]]) -> None:
    """Write down what was refused earlier; the rows are those of events whose number is still to come."""
    for row in rows:
        tx.write_event(**dict(zip(WRITTEN, row[1:], strict=True)))


def contains(column: str) -> str:
    """A condition: the column contains the text of `:name_contains`, which is in lower case, whatever its own case."""
    return f"{{position}}({{lower}}({column}), :name_contains) > 0"


def last(tx: Transaction) -> int:
    """The number of the newest event; 0 on an empty board."""
    row = tx.first("SELECT {newest}")
    return (row and row[0]) or 0


@operation("events.last", writes=False, strangers=True, reads_log=True)
def newest(tx: Transaction) -> int:
    """The number of the newest event: where to start reading what happens from now on."""
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
    """The events after a number that match all the given filters, oldest first.

    With more than `limit` of them, the first ones, or the last ones with `newest`.
    `event` may be a whole name (`task.claimed`) or its first half (`task`). `agent` matches every
    incarnation of that name.
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
        f"SELECT {COLUMNS} FROM events WHERE {' AND '.join(where)} "
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
    """The story of a task or of a resource, in plain sentences: every grant, refusal, renewal, expiry and break."""
    from .why import story

    return story(tx, ref, project, limit)


_PRIORITY = Task.fields.index("priority")


def of_task(
    tx: Transaction,
    event: str,
    task: Task,
    *,
    state: str | None = None,
    agent: str | None = None,
    epoch: int = 0,
    until: int = 0,
    note: str | None = None,
) -> None:
    """Write down what happened to a task, and the state that it led to."""
    # Not by way of `append`: every claim passes here.
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
        data=None,
    )
