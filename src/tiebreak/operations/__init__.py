"""Operations: everything that can be done on a board, each declared once.

An operation is a function of a transaction with keyword parameters. Its decorator gives it a name
(`tasks.claim`) and says whether it writes, and whether strangers may call it. From that one
declaration come the local call, the JSON-RPC method, the remote client, the validation of parameters
and the reference. Nothing in this package knows which database it runs on.

A stranger is somebody who calls a daemon that is open (`tb serve --open`) without the token. Every operation declares
whether strangers may call it at all; what such a call writes is limited by `strangers`, whatever the operation does.

Locks before looks. A decision over several rows needs a scope (`tx.serialize`): of all transactions that name it, one
runs at a time. Scopes are taken when the transaction begins, before anything is looked at and before the clock is read,
all of them sorted. An operation declares those that it will need; one that needs another scope midway is undone and
begins again with that scope, so nothing that was seen before the scope was taken is ever relied on. Whatever else an
operation reads and relies on is locked (`{share}`, `{lock}`) or repeated in the condition of its write. The order of
locks, for all operations: scopes (sorted; a key for repeated calls is one), sessions, schedules, chores that are gone
on with, tasks (a task before those that come after it, else by number), holds, then what belongs to them.
"""

from __future__ import annotations

from ..errors import Invalid, Refused
from ..kinds import Kind
from ..limits import MAX_ONCE, MIN_ONCE
from ..names import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

    from ..process_identity import Identity

    P = ParamSpec("P")
    R = TypeVar("R")

    class Transaction(Protocol):
        """What an engine offers to an operation, inside one transaction."""

        @property
        def now(self) -> int:
            """Board time, read when this call began to run: after all scopes were taken."""

        def all(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
            """Run a statement and return its rows."""

        def first(self, sql: str, **params: Any) -> tuple[Any, ...] | None:
            """Run a statement and return its first row."""

        def write_event(self, **event: Any) -> None:
            """Append an event to the log, with a value for each column; perhaps written together with later ones."""

        def process_of(self, session: str) -> Identity | None:
            """The process of this machine that a session's token names; None for any other token."""

        def is_alive(self, process: Identity) -> bool | None:
            """Whether that very process lives; None if that cannot be known from here."""

        def serialize(self, *names: str, shared: bool = False) -> None:
            """Be the only transaction with this scope, since it began; begins anew with the scope if need be."""

        passes_over: bool
        """Whether `{skip_locked}` can pass over rows at all, because others change rows at the same time."""

        def wait_for_locked(self) -> None:
            """Let `{skip_locked}` wait from now on; a call of a batch is run again, in a transaction of its own."""

        def leave(self, project: str) -> None:
            """Tell that this transaction leaves chores of a project behind, which somebody should go on with."""

        def refuse(self, event: str, **facts: Any) -> None:
            """Remember a refusal; it is written down together with a later change."""

        def refusals(self, subject: str) -> list[tuple[Any, ...]]:
            """The refusals about a subject that no change has carried yet, as rows of events."""

else:

    class Generic:
        """A stand-in, so that nothing imports `typing` at run time."""

        def __class_getitem__(cls, _):
            return cls

    P = R = None

MODULES = {
    "tasks": ("claims", "picking", "tasks", "dependencies", "chores"),
    "jobs": ("jobs", "outputs", "graphs"),
    "queues": ("queues",),
    "holds": ("holds",),
    "waits": ("waits",),
    "messages": ("messages",),
    "agents": ("agents",),
    "sessions": ("sessions",),
    "events": ("events",),
    "schedules": ("schedules",),
    "upkeep": ("upkeep",),
}
"""Where the operations of each group are, those that are called most often first."""


Scope = tuple[str, bool]
"""What transactions take turns in: a name, and whether this one shares it with others that share it."""


def scope(*names: str, shared: bool = False) -> Scope:
    """A scope; with `shared`, it keeps out only those who do not share it."""
    return "\0".join(names), shared


def keys_of(project: str, *, shared: bool = True) -> Scope:
    """The scope of a project's keys: shared by those who may add a task with a key, taken alone by pruning."""
    return scope("keys", project, shared=shared)


def edges_of(project: str, *, shared: bool = False) -> Scope:
    """The scope of what the tasks of a project come after.

    Taken alone by `depend`, which changes it among existing tasks; shared by operations that rely on it staying as it
    is.
    """
    return scope("edges", project, shared=shared)


SPAWNED = "~spawn-"
"""What tells the ids of agents that tiebreak started itself: their writes are refused once they were replaced."""


class Operation(Generic[P, R]):
    """A declared operation. Call it with a transaction, or hand it to an engine to run."""

    def __init__(
        self,
        name: str,
        function: Callable[Concatenate[Transaction, P], R],
        writes: bool,
        glance: Callable[..., None] | None,
        strangers: bool | Callable[[dict[str, Any]], bool],
        withheld: tuple[str, Callable[..., None]] | None = None,
        scopes: Callable[[dict[str, Any]], list[Scope]] | None = None,
        reads_log: bool = False,
    ) -> None:
        self.name = name
        self.writes = writes
        self.reads_log = reads_log
        """Whether it reads the log of events, of which a reader must see a part without gaps."""
        self._scopes = scopes
        self.strangers = strangers
        """Whether strangers may call it; a function decides by the parameters."""
        self.glance = glance
        """A read that may already refuse, so that whoever loses need not queue behind those who write."""
        self.withheld = withheld
        """The field of its records that is secret, and what puts it into remembered ones again."""
        self.function = function
        self.__doc__ = function.__doc__
        self.defaults: dict[str, Any] = function.__kwdefaults__ or {}
        """The parameters that may be left out, and what they are then; '' is filled in by the board."""
        self._declared: dict[str, str] = function.__annotations__
        self._kinds: dict[str, Kind] = {}

    def seen(self, answer: R) -> R:
        """An answer that was remembered, as whoever repeats the call may see it."""
        return answer

    def __call__(self, tx: Transaction, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run inside a transaction, trusting the parameters."""
        return self.function(tx, *args, **kwargs)

    @property
    def parameters(self) -> dict[str, Kind]:
        """Each parameter's name and kind; parsed when first asked for, as most operations of a group are not called."""
        if not self._kinds:
            declared = self._declared.items()
            self._kinds = {name: Kind.of(kind) for name, kind in declared if name not in ("tx", "return")}
        return self._kinds

    @property
    def returns(self) -> Kind:
        """The kind of its answer."""
        return Kind.of(self._declared["return"])

    def required(self, name: str) -> bool:
        """Whether a caller that nothing is filled in for must give a parameter: who acts, and where, among them."""
        return bool(self.defaults.get(name, "") == "")

    def open_to_strangers(self, params: dict[str, Any]) -> bool:
        """Whether a stranger may make this call, as far as its parameters tell."""
        return self.strangers(params) if callable(self.strangers) else self.strangers

    def scopes(self, params: dict[str, Any], once: str | None = None) -> list[Scope]:
        """What a call with these checked parameters takes before it looks at anything."""
        needed = [] if self._scopes is None else self._scopes(params)
        return [*needed, scope("once", _key(params, once))] if isinstance(once, str) else needed

    def checked(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters, validated and normalised; raises `Invalid`."""
        out = {}
        for name, kind in self.parameters.items():
            if name in params:
                out[name] = kind.check(params[name], name)
            elif name not in self.defaults:
                raise Invalid(f"{self.name}: parameter {name!r} is missing")
            elif self.defaults[name] == "":
                out[name] = kind.check("", name)
        if len(params) > len(out):
            unknown = sorted(set(params) - set(self.parameters))
            if unknown:
                known = ", ".join(self.parameters)
                raise Invalid(f"{self.name}: unknown parameter {shown(unknown[0])}", hint=f"it takes: {known}")
        return out


REGISTRY: dict[str, Operation[..., Any]] = {}


def operation(
    name: str,
    *,
    writes: bool,
    strangers: bool | Callable[[dict[str, Any]], bool],
    glance: Callable[..., None] | None = None,
    withheld: tuple[str, Callable[..., None]] | None = None,
    scopes: Callable[[dict[str, Any]], list[Scope]] | None = None,
    reads_log: bool = False,
) -> Callable[[Callable[Concatenate[Transaction, P], R]], Operation[P, R]]:
    """Declare a function of a transaction as an operation; `scopes` are those that a call nearly always needs.

    `strangers` has no default, so that nobody adds an operation without deciding. False for whatever puts commands on
    the board, lets them run, stops them, or tells what a job is run with or writes. True for the rest.
    """

    def declare(function: Callable[Concatenate[Transaction, P], R]) -> Operation[P, R]:
        made = Operation(name, function, writes, glance, strangers, withheld, scopes, reads_log)
        REGISTRY[name] = made
        return made

    return declare


def find(name: str) -> Operation[..., Any]:
    """The operation of that name; its module is loaded on first use."""
    for module in MODULES.get(name.partition(".")[0], ()):
        if name in REGISTRY:
            break
        __import__(f"{__name__}.{module}")
    if name not in REGISTRY:
        raise Invalid(f"unknown operation {shown(name)}", reason="operation-unknown")
    return REGISTRY[name]


def every() -> dict[str, Operation[..., Any]]:
    """All operations, group by group, each group in the order of its modules and of what stands in them."""
    for module in (module for modules in MODULES.values() for module in modules):
        __import__(f"{__name__}.{module}")
    return dict(sorted(REGISTRY.items(), key=lambda item: _place(item[1])))


def _place(wanted: Operation[..., Any]) -> tuple[int, int, int]:
    """Where an operation stands, whichever module was loaded first."""
    group = wanted.name.partition(".")[0]
    modules = [*MODULES[group], wanted.function.__module__.rpartition(".")[2]]
    return list(MODULES).index(group), modules.index(modules[-1]), wanted.function.__code__.co_firstlineno


def changeable(tx: Transaction) -> str:
    """A further condition for tasks that a call looks for in order to change them; for strangers it excludes jobs.

    It only spares a stranger refusals: that no job is changed does not depend on it (see `strangers`).
    """
    return getattr(tx, "changeable", "")


def claimable(tx: Transaction) -> str:
    """A further condition for tasks that a call looks for in order to claim them; for strangers none before a job."""
    return getattr(tx, "claimable", "")


def holds_of(params: dict[str, Any]) -> list[Scope]:
    """The scope of whoever decides about several holds of a project."""
    return [scope("holds", params["project"])]


def perform(tx: Transaction, wanted: Operation[..., R], params: dict[str, Any], once: str | None = None) -> R | Refused:
    """Run an operation with checked parameters; with `once`, answer a repeated call as the first time.

    A refusal that speaks of what it has written down is an answer, so that it is committed before it is raised.
    """
    try:
        if SPAWNED in (params.get("agent") or ""):
            from .session_fence import admit

            admit(tx, params["agent"])
        if once is None or not wanted.writes:
            return wanted.function(tx, **params)
        return _repeatable(tx, wanted, params, once)
    except Refused as refusal:
        if not refusal.kept:
            raise
        return refusal


def _key(params: dict[str, Any], once: str) -> str:
    """What an answer is remembered under: a key of a caller belongs to one project.

    A call that names no project, or all of them, has keys of its own; no project is called "". Neither a project nor a
    key contains a line break.
    """
    return f"{params.get('project') or ''}\n{once}"


def _repeatable(tx: Transaction, wanted: Operation[..., R], params: dict[str, Any], once: Any) -> R:
    import json
    from hashlib import blake2b

    from ..model import decode, encode

    if (
        not isinstance(once, str)
        or not once.isascii()
        or not once.isprintable()
        or not MIN_ONCE <= len(once) <= MAX_ONCE
    ):
        raise Invalid(f"once: {MIN_ONCE} to {MAX_ONCE} printable ASCII characters")
    request = f"{wanted.name} {blake2b(json.dumps(params, sort_keys=True).encode(), digest_size=16).hexdigest()}"
    key = _key(params, once)
    tx.serialize("once", key)
    # An answer that was remembered before keys belonged to projects is that of this call, or none of ours.
    found = "SELECT request, answer FROM answers WHERE once = :key OR (once = :once AND request = :request)"
    known = tx.first(f"{found} ORDER BY length(once) DESC", key=key, once=once, request=request)
    if known is not None:
        if known[0] != request:
            raise Invalid(f"once: {shown(once)} was already used for another call ({known[0].partition(' ')[0]})")
        remembered = json.loads(known[1])
        if wanted.withheld is not None:
            wanted.withheld[1](tx, remembered)
        return wanted.seen(decode(wanted.returns, remembered))
    answer = wanted.function(tx, **params)
    shown_again = encode(answer)
    if wanted.withheld is not None:
        shown_again = [{**each, wanted.withheld[0]: None} for each in shown_again]
    tx.all(
        "INSERT INTO answers (once, request, answer, at) VALUES (:once, :request, :answer, {now})",
        once=key,
        request=request,
        answer=json.dumps(shown_again),
    )
    return answer
