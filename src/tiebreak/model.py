"""The records that the board answers with: a record is a row, read-only, with its columns as fields.

Records are tuples in the order of their columns, so making one costs nothing, and they are built
without `typing` or `dataclasses`, whose import alone would double the time of a command. To a type
checker each record is an ordinary `NamedTuple`; at run time `Record` below gives it the same fields.

A row stores what a database can: microseconds, JSON text, numbers. A field shows what Python wants:
seconds as `float`, decoded JSON, names. The annotation of a field chooses its `_VIEWS` entry.
"""

from __future__ import annotations

from _operator import itemgetter

from .names import PRIORITIES, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NamedTuple, TypeVar

    Record = NamedTuple
    Time = float
    Json = Any
    Priority = str
    Holder = str
    Words = tuple[str, ...]
    R = TypeVar("R")
else:

    class Record(tuple):
        """A tuple whose fields are the annotations of its class."""

        __slots__ = ()

        def __init_subclass__(cls):
            cls._fields = tuple(cls.__annotations__)
            cls._kinds = tuple(kind.removesuffix(" | None") for kind in cls.__annotations__.values())

        def __getattr__(self, name):
            # Only before the first look at a field of this class: most commands look at one class of eleven.
            cls = type(self)
            if name not in cls._fields:
                raise AttributeError(f"{cls.__name__} has no field {name!r}")
            for i, (field, kind) in enumerate(zip(cls._fields, cls._kinds, strict=True)):
                view = _VIEWS.get(kind)
                setattr(cls, field, property(_viewed(i, view[0]) if view else itemgetter(i)))
            return getattr(self, name)

        def __setattr__(self, name, value):
            raise AttributeError(f"{type(self).__name__} cannot be changed")

        def __repr__(self):
            shown = ", ".join(f"{f}={getattr(self, f)!r}" for f in self._fields)
            return f"{type(self).__name__}({shown})"

        def __getnewargs__(self):
            return (tuple(self),)


def _viewed(i: int, view: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda row: view(row[i])


def _seconds(stored: int | None) -> float | None:
    return stored / 1_000_000 if stored else None


def _stored_time(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        from .text import stored

        return stored(value)
    return round(float(value) * 1_000_000)


def _parsed(stored: str | None) -> Any:
    if stored is None:
        return None
    import json

    return json.loads(stored)


def _stored_json(value: Any) -> str | None:
    from .names import json_text

    return json_text(value)


# What a field's type means: how a stored value is shown, and how a shown value is stored again.
_VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "Time": (_seconds, _stored_time),
    "Json": (_parsed, _stored_json),
    "Priority": (PRIORITIES.__getitem__, PRIORITIES.index),
    "Words": (lambda stored: tuple(stored.split()), lambda words: f" {' '.join(words)} " if words else ""),
    "Holder": (lambda stored: short(stored) if stored else None, lambda value: value),
    "bool": (lambda stored: None if stored is None else bool(stored), int),
}


class Task(Record):
    """A piece of work. `holder`, `epoch` and `until` are the current grant, if it is claimed.

    `lapsed`: its lease has run out, and nobody has written that down yet. Until then the holder may still come.
    """

    number: int
    id: str
    project: str
    kind: str
    name: str
    key: str | None
    queue: str
    priority: Priority
    state: str
    payload: Json
    result: Json
    reason: str | None
    holder: Holder | None
    epoch: int
    until: Time | None
    attempts: int
    max_attempts: int
    ready_at: Time | None
    tags: Words
    about: str | None
    blockers: int
    created_by: Holder | None
    created_at: Time
    updated_at: Time
    claimed_at: Time | None
    finished_at: Time | None
    command: Json
    progress: Json
    lapsed: bool


class Job(Record):
    """A claimed job as whoever has to run it needs it. `settings` may hold secrets and is in no other record."""

    number: int
    id: str
    project: str
    name: str
    queue: str
    holder: Holder | None
    epoch: int
    until: Time | None
    attempts: int
    max_attempts: int
    command: Json
    settings: Json
    claimed_at: Time | None


class Queue(Record):
    """A queue and what waits in it. `paused_at` is set while nobody takes from it."""

    project: str
    queue: str
    ready: int
    paused_at: Time | None
    paused_by: Holder | None
    reason: str | None


class Hold(Record):
    """A right to a resource. `slot` counts from 0 in a pool and is 0 for everything else."""

    project: str
    resource: str
    slot: int
    holder: Holder | None
    epoch: int
    until: Time | None
    taken_at: Time | None
    note: str | None
    hash: str | None


class Released(Record):
    """What the board says about a resource that was given back.

    `changed` compares a file with what its holder last vouched for (when taking or renewing the
    hold): True means that somebody else wrote to it meanwhile, None that nothing is known.
    """

    resource: str
    slot: int
    epoch: int
    changed: bool | None


class Wait(Record):
    """A place in line. `waits_for` are those in the way: `{agent, resource, how}`, `how` being `holds` or `ahead`."""

    number: int
    project: str
    agent: Holder
    resources: Json
    note: str | None
    since_at: Time
    until: Time
    waits_for: Json


class Message(Record):
    """A message. No `recipient`: it is for everybody. `thread` is the number of the first one."""

    number: int
    project: str
    sender: str
    recipient: str | None
    channel: str
    thread: int
    importance: Priority
    ack_requested: bool
    body: str
    sent_at: Time
    acked_at: Time | None


class Agent(Record):
    """One incarnation of somebody who acts, and when it was last heard of."""

    id: str
    project: str
    status: str
    doing: str | None
    program: str | None
    parent: Holder | None
    host: str | None
    boot: str | None
    pid: int
    started: int
    joined_at: Time
    seen_at: Time
    left_at: Time | None


class Session(Record):
    """An agent that tiebreak started in a terminal of its own, and the processes that answer for it."""

    agent: Holder
    project: str
    role: str
    state: str
    command: Json
    cwd: str | None
    tmux: str | None
    facts: Json
    host: str
    boot: str
    pid: int
    started: int
    child: int
    child_started: int
    epoch: int
    fenced_by: str | None
    replaces: str | None
    replaced_by: str | None
    ticket: str | None
    code: int | None
    note: str | None
    started_by: Holder
    created_at: Time
    alive_at: Time | None
    ended_at: Time | None


class Event(Record):
    """Something that happened, numbered. It tells its story alone, also when its subject is gone."""

    number: int
    at: Time
    event: str
    project: str
    subject: str | None
    name: str | None
    kind: str | None
    state: str | None
    priority: Priority
    agent: Holder | None
    epoch: int
    until: Time | None
    note: str | None
    times: int
    data: Json


class Sentence(Record):
    """One line of a story that `why` tells. `event` is the event's number, 0 for what is so now."""

    event: int
    at: Time
    text: str


class Schedule(Record):
    """A job that comes round. `due` is the next instant, `last` the one before; `epoch` counts those that were won."""

    project: str
    name: str
    expression: str
    zone: str
    policy: str
    command: Json
    holder: Holder | None
    epoch: int
    due: Time | None
    last: Time | None
    paused_at: Time | None
    reason: str | None
    created_by: Holder | None
    created_at: Time
    updated_at: Time


class Status(Record):
    """The board in numbers."""

    project: str
    blocked: int
    pending: int
    claimed: int
    completed: int
    failed: int
    cancelled: int
    holds: int
    agents: int
    messages: int
    events: int
    now: Time


class Pruned(Record):
    """How many rows a pruning step removed, and whether there is more to do."""

    tasks: int
    events: int
    messages: int
    agents: int
    answers: int
    more: bool


RECORDS: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        Task,
        Job,
        Queue,
        Hold,
        Released,
        Wait,
        Message,
        Agent,
        Session,
        Event,
        Sentence,
        Schedule,
        Status,
        Pruned,
    )
}


def columns(cls: type, prefix: str = "") -> str:
    """The columns of a record's table, for a SELECT or RETURNING that makes such records."""
    return ", ".join(prefix + field for field in cls._fields)  # type: ignore[attr-defined]


def record(cls: type[R], row: Sequence[Any]) -> R:
    """Make a record of a row."""
    return tuple.__new__(cls, row)  # type: ignore[type-var]


def holder_id(row: Task | Job | Hold) -> str | None:
    """The full id of who has it, session included; the field `holder` shows the name alone."""
    return tuple.__getitem__(row, row._fields.index("holder"))  # type: ignore[no-any-return]


def agent_id(row: Session) -> str:
    """The full id of a session's agent; the field `agent` shows the name alone."""
    return str(tuple.__getitem__(row, 0))


_WITH_SESSION = ("holder", "agent")


def encode(value: Any) -> Any:
    """A record, a list of records or a plain value as JSON, with times in RFC 3339.

    Who acts is split in a name and a session, so that the wire carries the whole identity and the name is plain.
    """
    cls = type(value)
    if cls is list:
        return [encode(item) for item in value]
    if not hasattr(cls, "_fields"):
        return value
    out = {}
    for key, i, show in _wire.get(cls) or _wire_form(cls):
        out[key] = value[i] if show is None else show(value[i])
    return out


# For each record class what its JSON has: a key, the column that it comes from, and how that is shown.
_wire: dict[type, list[tuple[str, int, Callable[[Any], Any] | None]]] = {}


def _wire_form(cls: Any) -> list[tuple[str, int, Callable[[Any], Any] | None]]:
    from .text import moment

    def _moment(stored: int | None) -> str | None:
        return moment(stored) if stored else None

    shows: dict[str, Callable[[Any], Any]] = {
        **{kind: view[0] for kind, view in _VIEWS.items()},
        "Time": _moment,
        "Words": str.split,
    }
    form: list[tuple[str, int, Callable[[Any], Any] | None]] = []
    for i, (field, kind) in enumerate(zip(cls._fields, cls._kinds, strict=True)):
        if kind == "Holder" and field not in _WITH_SESSION:
            form.append((field, i, None))
        else:
            form.append((field, i, shows.get(kind)))
        if kind == "Holder" and field in _WITH_SESSION:
            form.append(("session", i, _session))
    _wire[cls] = form
    return form


def _session(who: str | None) -> str | None:
    return (who or "").partition("~")[2] or None


def decode(kind: str, data: Any) -> Any:
    """Undo `encode`, given the declared type: `Task`, `list[Task]`, `Task | None`, `int` …"""
    kind = kind.removesuffix(" | None")
    if data is None:
        return None
    if kind.startswith("list["):
        return [decode(kind[5:-1], item) for item in data]
    cls: Any = RECORDS.get(kind)
    if cls is None:
        return data
    for field in _WITH_SESSION:
        if field in cls._fields and data.get("session"):
            data = {**data, field: f"{data[field]}~{data['session']}"}
    return record(cls, [_stored(k, data.get(f)) for f, k in zip(cls._fields, cls._kinds, strict=True)])


def _stored(kind: str, value: Any) -> Any:
    if value is None and kind not in ("Time", "Words"):
        return None
    view = _VIEWS.get(kind)
    return view[1](value or () if kind == "Words" else value) if view else value
