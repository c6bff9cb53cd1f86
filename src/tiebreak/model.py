"""The records that the board answers with: a record is a read-only row of a table, with its columns as fields.

A row has what a database stores: microseconds, JSON text, numbers. A field has what Python code wants: seconds as
`float`, decoded JSON, names. The kind of a field selects its conversion in `_VIEWS`. A record keeps its row and
converts a field when it is read, so making a record costs nothing, and unread fields cost nothing. Records are neither
tuples nor dictionaries: a value is read by its field, and the row by `row_of`.

Records are built without `typing` or `dataclasses`, whose import alone would double the time of a command. To a type
checker each record is a frozen data class whose constructor takes all fields by name. At run time a record has that
constructor, and it is compared, hashed and shown by its fields. But the functions of `dataclasses` do not take it:
`fields` has the names of its fields.
"""

from __future__ import annotations

from .kinds import Kind
from .names import PRIORITIES, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, TypeVar, dataclass_transform

    Time = float
    Json = Any
    Priority = str
    Holder = str
    Words = tuple[str, ...]
    Row = tuple[Any, ...]
    R = TypeVar("R", bound="Record")

    @dataclass_transform(frozen_default=True, kw_only_default=True)
    class RecordType(type):
        """What a type checker has to know about record classes."""

else:

    class RecordType(type):
        """The type of record classes. It makes the properties of a class when one of them is first read.

        Most commands use one class of fourteen, and making the properties of all would slow every command down.
        """

        def __new__(cls, name, bases, body):  # noqa: D102
            body.setdefault("__slots__", ())
            body["fields"] = tuple(body.get("__annotations__", ())) if bases else ()
            return super().__new__(cls, name, bases, body)

        def __getattr__(cls, name):
            if name not in cls.fields:
                raise AttributeError(f"{cls.__name__} has no field {name!r}")
            _make_properties(cls)
            return getattr(cls, name)

        def __dir__(cls):
            _make_properties(cls)
            return super().__dir__()


class Record(metaclass=RecordType):
    """A row whose columns are the annotations of its class."""

    __slots__ = ("_row",)

    if TYPE_CHECKING:
        _row: ClassVar[Row]  # each record has it, but it is not a field that the constructor takes
        fields: ClassVar[tuple[str, ...]]
        """The names of the fields, in the order of the columns."""
    else:

        def __init__(self, **values):
            cls = type(self)
            for name in (*cls.fields, *values):
                if name not in values or name not in cls.fields:
                    wrong = "is missing" if name in cls.fields else "is no field"
                    raise TypeError(f"{cls.__name__}: {name!r} {wrong}")
            self._row = tuple(_stored(kind.name, values[name]) for name, kind in kinds_of(cls).items())

        def __getattr__(self, name):
            # Called only until a field of this class is first read: then all fields are properties.
            cls = type(self)
            if name not in cls.fields:
                raise AttributeError(f"{cls.__name__} has no field {name!r}")
            _make_properties(cls)
            return object.__getattribute__(self, name)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and row_of(other) == self._row

    def __hash__(self) -> int:
        return hash(self._row)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields)
        return f"{type(self).__name__}({shown})"

    def __reduce__(self) -> tuple[Any, ...]:
        return record, (type(self), self._row)


def record(cls: type[R], row: Row) -> R:
    """Make a record from a row, which is kept as it is."""
    made = _new(cls)
    made._row = row  # type: ignore[misc]
    return made


_new = object.__new__


def row_of(record: Record) -> Row:
    """The row of a record: the stored values, in the order of its fields."""
    return record._row


def kinds_of(cls: type[Record]) -> dict[str, Kind]:
    """The kind of each field."""
    found = _kinds.get(cls)
    if found is None:
        found = _kinds[cls] = {}
        for name, text in cls.__annotations__.items():
            found[name] = Kind.of(text)
    return found


_kinds: dict[type[Record], dict[str, Kind]] = {}


def _make_properties(cls: type[Record]) -> None:
    for i, (name, kind) in enumerate(kinds_of(cls).items()):
        if name not in cls.__dict__:
            view = _VIEWS.get(kind.name)
            setattr(cls, name, property(_viewed(i, view[0]) if view else _plain(i), doc=kind.text))


def _plain(i: int) -> Callable[[Record], Any]:
    return lambda record: record._row[i]


def _viewed(i: int, view: Callable[[Any], Any]) -> Callable[[Record], Any]:
    return lambda record: view(record._row[i])


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


# For each kind of field: how a stored value is shown, and how a shown value is stored.
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

    `lapsed`: its lease has run out, but the lapse is not written yet. Until then the holder may still renew or finish.
    `body` is its description, `parent` the number of the task that it is a part of.
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
    body: str | None
    parent: int | None
    blockers: int
    created_by: Holder | None
    created_at: Time
    updated_at: Time
    claimed_at: Time | None
    finished_at: Time | None
    command: Json
    progress: Json
    lapsed: bool


class Imported(Record):
    """One entry of `tasks.import`: its task, and whether the board had that already (`known`).

    In a dry run, the `number` of a task that would be posted is 0.
    """

    number: int
    key: str | None
    state: str
    known: bool


class Job(Record):
    """A claimed job, with all that a worker needs to run it. `settings` may hold secrets and is in no other record."""

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


class Question(Record):
    """An open question to a person.

    `choices` are the answers to choose from, if any. `about` is the task that it is about, and `waiting` lists the
    first open tasks that come after it; each is `{number, name, state, holder}`.
    """

    number: int
    id: str
    project: str
    name: str
    body: str | None
    choices: Json
    key: str | None
    asked_by: Holder | None
    asked_at: Time
    about: Json
    waiting: Json


class Queue(Record):
    """A queue of tasks. `ready` is the number of its ready tasks; `paused_at` is set while it is paused."""

    project: str
    queue: str
    ready: int
    paused_at: Time | None
    paused_by: Holder | None
    reason: str | None


class KnownProject(Record):
    """A project as the board knows it.

    `project` is the name under which its rows are kept, `names` has every name that means it with the rule by which it
    was found, `roots` the first commits of its repositories, and `live` counts what is live in it, up to a thousand of
    each kind.
    """

    project: str
    names: Json
    roots: Json
    live: Json


class Hold(Record):
    """An exclusive right to a resource. `slot` counts from 0 in a pool and is 0 for all other resources."""

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
    """The answer about a hold that was released.

    `changed` compares a file with the hash that its holder gave last (when taking or renewing the hold). True means
    that the contents are others now. It does not say who wrote them: usually the holder did. None: nothing is known.
    """

    resource: str
    slot: int
    epoch: int
    changed: bool | None


class Wait(Record):
    """A place in the wait queue. `waits_for` lists `{agent, resource, how}`, where `how` is `holds` or `ahead`."""

    number: int
    project: str
    agent: Holder
    resources: Json
    note: str | None
    since_at: Time
    until: Time
    waits_for: Json


class Message(Record):
    """A message. Without a `recipient` it is for everybody. `thread` is the number of the first one in its thread.

    `task` is the number of the task that it is a comment on. A comment whose `recipient` is empty is in no inbox.
    `gone_since`: when the recipient was last here, if it was gone when the message was sent. Only the sender learns it.
    """

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
    task: int | None
    acked_at: Time | None
    gone_since: Time | None


class Agent(Record):
    """One incarnation of an agent, and when it was last seen."""

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
    bound: bool


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
    """A numbered entry of the log. It has all that a reader needs, even if its subject was pruned."""

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
    """One sentence of the history that `why` tells. `event` is the event's number, 0 for the present state."""

    event: int
    at: Time
    text: str


class Schedule(Record):
    """A scheduled job. `due` is its next instant, `last` the one before; `epoch` counts the instants that were won."""

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


class Need(Record):
    """Something that waits for a person. `kind` is one of `operations.needs.NEEDS`.

    `ref` names it in other calls: the number of a task, a resource, or the name of an agent. `number` is that of the
    task, or 0, and `task_kind` its kind. `epoch` is that of the grant that it is about, or 0: who takes it away names
    it, so that nobody else loses it meanwhile. `agent` is whom it is about, `spawned` whether `tb` started it (so that
    its terminal can be reached), and `note` says in one line why.
    """

    kind: str
    project: str
    ref: str
    number: int
    task_kind: str | None
    epoch: int
    name: str
    agent: Holder | None
    spawned: bool
    since_at: Time
    note: str | None


class Activity(Record):
    """An agent that is here, and what it does. `section` is `working`, `waiting` or `idle`, and `since_at` since when.

    `tasks` are its claims (`{number, name, kind, priority, epoch, left, lapsed}`) and `holds` its holds (`{resource,
    slot, epoch, left}`), with the seconds that are left. `waits_for` lists `{agent, resource, how}` as a `Wait` does,
    and `{question, name}` or `{prompt}` where it waits for a person.
    """

    agent: Holder
    project: str
    section: str
    status: str
    doing: str | None
    program: str | None
    parent: Holder | None
    host: str | None
    since_at: Time
    seen_at: Time
    tasks: Json
    holds: Json
    waits_for: Json


class Counts(Record):
    """A board in a few numbers that cost little however large it is: each counts up to 10,000.

    `failed` are the tasks that failed within a day, `event` is the number of the newest event.
    """

    project: str
    agents: int
    claimed: int
    ready: int
    blocked: int
    failed: int
    questions: int
    holds: int
    event: int
    now: Time


class Pruned(Record):
    """How many rows a pruning step removed (or would remove), and whether there is more to do."""

    tasks: int
    events: int
    messages: int
    agents: int
    answers: int
    more: bool


RECORDS: dict[str, type[Record]] = {
    cls.__name__: cls
    for cls in (
        Task,
        Imported,
        Job,
        Question,
        Queue,
        KnownProject,
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
        Need,
        Activity,
        Counts,
        Pruned,
    )
}


def columns(cls: type[Record], prefix: str = "") -> str:
    """The columns of a record's table, for a SELECT or RETURNING that makes such records."""
    return ", ".join(prefix + field for field in cls.fields)


def created_by_claim(task: Task) -> bool:
    """Whether a won task was posted by the claim that won it: both have one agent and one moment."""
    return task.created_at == task.claimed_at and task.attempts == 1 and task.created_by == task.holder


def holder_id(row: Task | Job | Hold) -> str | None:
    """The full id of the holder with its session; the field `holder` shows the name alone."""
    return row._row[row.fields.index("holder")]  # type: ignore[no-any-return]


def agent_id(row: Session) -> str:
    """The full id of a session's agent; the field `agent` shows the name alone."""
    return str(row._row[0])


# ── On the wire ──────────────────────────────────────────────────────────────────────────────────────────────

_WITH_SESSION = ("holder", "agent")


def wire_kinds(cls: type[Record]) -> dict[str, Kind]:
    """The fields of a record on the wire: those of `kinds_of`, and the session beside the holder's name."""
    found = {}
    for name, kind in kinds_of(cls).items():
        found[name] = kind
        if kind.name == "Holder" and name in _WITH_SESSION:
            found["session"] = Kind.of("str | None")
    return found


def encode(value: Any) -> Any:
    """A record, a list of records or a plain value as JSON, with times in RFC 3339.

    An agent is split into a name and a session, so that the wire carries the full id and the name stays readable.
    """
    cls = type(value)
    if cls is list:
        return [encode(item) for item in value]
    form = _wire.get(cls)
    if form is None:
        if not issubclass(cls, Record):
            return value
        form = _wire_form(cls)
    row = value._row
    return {key: row[i] if show is None else show(row[i]) for key, i, show in form}


# For each record class the entries of its JSON: a key, the index of its column, and how the value is shown.
_wire: dict[type, list[tuple[str, int, Callable[[Any], Any] | None]]] = {}


def _wire_form(cls: type[Record]) -> list[tuple[str, int, Callable[[Any], Any] | None]]:
    from .text import moment

    def _moment(stored: int | None) -> str | None:
        return moment(stored) if stored else None

    shows: dict[str, Callable[[Any], Any]] = {
        **{kind: view[0] for kind, view in _VIEWS.items()},
        "Time": _moment,
        "Words": str.split,
    }
    form: list[tuple[str, int, Callable[[Any], Any] | None]] = []
    for i, (field, kind) in enumerate(kinds_of(cls).items()):
        if kind.name != "Holder":
            form.append((field, i, shows.get(kind.name)))
        elif field in _WITH_SESSION:
            form += [(field, i, shows["Holder"]), ("session", i, _session)]
        else:
            form.append((field, i, None))
    _wire[cls] = form
    return form


def _session(who: str | None) -> str | None:
    return (who or "").partition("~")[2] or None


def decode(kind: Kind, data: Any) -> Any:
    """Undo `encode`, given the declared kind: `Task`, `list[Task]`, `Task | None`, `int` …"""
    if data is None:
        return None
    if kind.item is not None:
        return [decode(kind.item, item) for item in data]
    cls = RECORDS.get(kind.name)
    if cls is None:
        return data
    for field in _WITH_SESSION:
        if field in cls.fields and data.get("session"):
            data = {**data, field: f"{data[field]}~{data['session']}"}
    return record(cls, tuple([_stored(kind.name, data.get(field)) for field, kind in kinds_of(cls).items()]))


def _stored(kind: str, value: Any) -> Any:
    if value is None and kind not in ("Time", "Words"):
        return None
    view = _VIEWS.get(kind)
    return view[1](value or () if kind == "Words" else value) if view else value
