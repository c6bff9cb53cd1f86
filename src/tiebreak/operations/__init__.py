"""Operations: everything that can be done on a board, each declared once.

An operation is a function of a transaction with keyword parameters. Its decorator gives it a name (`tasks.claim`) and
says whether it writes and whether strangers may call it. The local call, the JSON-RPC method, the remote client, the
validation of parameters and the reference are all made from that one declaration. Nothing in this package knows which
database it runs on.

A stranger is a caller without the token on a daemon that was started with `tb serve --open`. Every operation declares
whether strangers may call it at all. `strangers` limits what such a call can write, whatever the operation does.

Locks before reads. A decision over several rows needs a scope (`tx.serialize`): of all transactions that name the same
scope, one runs at a time. An operation declares the scopes that it will need. The engine takes them in sorted order
when the transaction begins, before it reads any row or the clock. An operation that needs another scope midway is
rolled back and starts again with that scope, so it never relies on anything that it read before it had the scope. Any
other row that an operation reads and relies on is locked (`{share}`, `{lock}`) or checked again in the condition of the
write.

All operations take locks in one order: scopes (sorted; the key of a repeatable call is one of them), sessions,
schedules, the deferred work of this step, tasks (a task before the tasks that come after it, otherwise by number),
holds, then the rows that belong to them. One exception: `picking.win` may have written lapses when it finds that it has
to wait for deferred work. If that makes a deadlock, PostgreSQL rolls one transaction back, and the engine repeats it.
"""

from __future__ import annotations

from ..errors import Invalid, Refused
from ..kinds import Kind
from ..limits import MAX_ONCE, MIN_ONCE
from ..names import BY_COMMIT, BY_PATH, JOB, OLD_NAME, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
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
            """Append an event to the log, with a value for each column; perhaps together with later ones."""

        def search_words(self, words: Iterable[str]) -> str:
            """A search for rows with all these words, as `{search}` takes it; `word*` is every word that begins so."""

        def process_of(self, session: str) -> Identity | None:
            """The process that a session's token names, if it is on this machine; None for any other token."""

        def is_alive(self, process: Identity) -> bool | None:
            """Whether exactly this process is running; None if this machine cannot know."""

        shared: bool
        """Whether other machines use the board, so that a project must not be named after a path of this one."""

        def project_rows(self, names: tuple[str, ...]) -> list[tuple[str, str, str]]:
            """What table `projects` says about these names: name, name of the rows, rule."""

        def is_of_earlier_boot(self, process: Identity) -> bool:
            """Whether a process certainly ran on this machine before it booted last."""

        def is_this_boot(self, boot: str) -> bool:
            """Whether an agent's `boot` is the present boot and pid namespace of this machine."""

        def serialize(self, *names: str, shared: bool = False) -> None:
            """Be the only transaction with this scope. If it was not declared, the operation starts again with it."""

        changeable: str
        """The answer of `changeable`, which says what it is for."""
        claimable: str
        """The answer of `claimable`."""
        skips_locked_rows: bool
        """Whether `{skip_locked}` can skip rows at all: only where other writers run at the same time."""

        def wait_for_locked(self) -> None:
            """Make `{skip_locked}` wait from now on. A call in a batch is run again in its own transaction."""

        def report_deferred_work(self, project: str) -> None:
            """Report that this transaction has deferred work in a project, so that the caller continues it."""

        def refuse(self, event: str, **facts: Any) -> None:
            """Remember a refusal. It is written to the log together with a later change."""

        def refusals(self, subject: str) -> list[tuple[Any, ...]]:
            """The remembered refusals about a subject that are not in the log yet, as rows of events."""

    Call = tuple["Operation[..., Any]", dict[str, Any], str | None]
    """An operation, its parameters, and its idempotency key, if it has one."""

else:

    class Generic:
        """Stands in for `typing.Generic`, so that `typing` is not imported at run time."""

        def __class_getitem__(cls, _):
            return cls

    P = R = None

MODULES = {
    "tasks": (
        "claims",
        "picking",
        "tasks",
        "dependencies",
        "editing",
        "parents",
        "deferred_work",
        "breaking",
        "adoption",
        "importing",
        "exporting",
    ),
    "jobs": ("jobs", "outputs", "graphs"),
    "questions": ("questions",),
    "queues": ("queues", "queue_figures"),
    "holds": ("holds", "adoption", "death"),
    "waits": ("waits",),
    "messages": ("messages",),
    "agents": ("agents", "death"),
    "sessions": ("sessions",),
    "events": ("events", "timeline"),
    "schedules": ("schedules",),
    "projects": ("projects",),
    "overview": ("needs", "overview"),
    "upkeep": ("upkeep", "pruning"),
}
"""The modules that declare the operations of each group. Modules that are needed most often come first."""


Scope = tuple[str, bool]
"""A named lock that a transaction holds until it ends: its name, and whether it is shared."""


def scope(*names: str, shared: bool = False) -> Scope:
    """Name a scope. With `shared`, it excludes only transactions that take it exclusively."""
    return "\0".join(names), shared


def keys_scope(project: str, *, shared: bool = True) -> Scope:
    """The scope of a project's keys: shared by calls that may add a task with a key, exclusive for pruning."""
    return scope("keys", project, shared=shared)


def edges_scope(project: str, *, shared: bool = False) -> Scope:
    """The scope of the dependencies between a project's tasks.

    `tasks.depend`, which adds dependencies between existing tasks, takes it exclusively. Operations that rely on the
    dependencies not changing share it.
    """
    return scope("edges", project, shared=shared)


PARENTS = "parents"
"""The scope of parents: shared by writes that give a task a parent, exclusive for pruning.

A row lock on the parent would break the order in which tasks are locked: a parent may come after its parts, or before.
"""

PROJECTS = "projects"
"""The scope of the names of projects. Every write shares it; `project_names` takes it exclusively to settle names."""

SPAWNED = "~spawn-"
"""Part of the id of every agent that tiebreak started itself. `session_fence` checks the writes of these agents."""


class Operation(Generic[P, R]):
    """A declared operation. Call it with a transaction, or pass it to an engine to run."""

    def __init__(
        self,
        name: str,
        function: Callable[Concatenate[Transaction, P], R],
        writes: bool,
        precheck: Callable[..., None] | None,
        strangers: bool | Callable[[dict[str, Any]], bool],
        withheld: tuple[str, Callable[..., None]] | None = None,
        scopes: Callable[[dict[str, Any]], list[Scope]] | None = None,
        reads_log: bool = False,
    ) -> None:
        self.name = name
        self.writes = writes
        self.reads_log = reads_log
        """Whether it reads the log of events without gaps (`{settled}`, `{newest}`). The engine then finds out how far
        that is. Statements that do not mind gaps, as long as they see the events of this transaction, read `{log}`."""
        self._scopes = scopes
        self.strangers = strangers
        """Whether strangers may call it, or a function that decides by the parameters."""
        self.precheck = precheck
        """A read that runs first and may already refuse the call, so that a loser does not wait for the write lock."""
        self.withheld = withheld
        """The secret field of its records, which is not stored with the answer, and a function that restores it."""
        self.function = function
        self.__doc__ = function.__doc__
        self.defaults: dict[str, Any] = function.__kwdefaults__ or {}
        """The optional parameters with their defaults; the board fills in those whose default is ''."""
        self.settles_names = True
        """Whether its caller may settle what the names of a repository mean (see `project_names`)."""
        self._declared: dict[str, str] = function.__annotations__
        self._kinds: dict[str, Kind] = {}

    def redacted(self, answer: R) -> R:
        """A stored answer without the fields that this caller may not see: here, all fields are visible."""
        return answer

    def __call__(self, tx: Transaction, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run inside a transaction, trusting the parameters."""
        return self.function(tx, *args, **kwargs)

    @property
    def parameters(self) -> dict[str, Kind]:
        """Each parameter's name and kind. Parsed on first use, because a process calls few operations of a group."""
        if not self._kinds:
            declared = self._declared.items()
            self._kinds = {name: Kind.of(kind) for name, kind in declared if name not in ("tx", "return")}
        return self._kinds

    @property
    def returns(self) -> Kind:
        """The kind of its answer."""
        return Kind.of(self._declared["return"])

    def required(self, name: str) -> bool:
        """Whether a caller over the wire must give this parameter. A local board fills in the agent and the project."""
        return bool(self.defaults.get(name, "") == "")

    def open_to_strangers(self, params: dict[str, Any]) -> bool:
        """Whether a stranger may make this call, as far as its parameters tell."""
        return self.strangers(params) if callable(self.strangers) else self.strangers

    def scopes(self, params: dict[str, Any], once: str | None = None) -> list[Scope]:
        """The scopes that a call with these checked parameters takes before it reads anything."""
        given = params.get("project")
        if given and " " in given:  # most likely its rows are kept under the first of its names
            params = {**params, "project": given.partition(" ")[0]}
        needed = [] if self._scopes is None else self._scopes(params)
        return [*needed, scope("once", _once_key(params, once))] if isinstance(once, str) else needed

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
    precheck: Callable[..., None] | None = None,
    withheld: tuple[str, Callable[..., None]] | None = None,
    scopes: Callable[[dict[str, Any]], list[Scope]] | None = None,
    reads_log: bool = False,
) -> Callable[[Callable[Concatenate[Transaction, P], R]], Operation[P, R]]:
    """Declare a function of a transaction as an operation; `scopes` are those that a call nearly always needs.

    `strangers` has no default, so that the author of an operation must decide. It is False for an operation that puts
    commands on the board, lets them run, stops them, deletes jobs, or shows a job's settings or output. It is a
    function where the parameters decide, and True otherwise.
    """

    def declare(function: Callable[Concatenate[Transaction, P], R]) -> Operation[P, R]:
        made = Operation(name, function, writes, precheck, strangers, withheld, scopes, reads_log)
        REGISTRY[name] = made
        return made

    return declare


def find(name: str) -> Operation[..., Any]:
    """The operation with this name. Its module is imported on first use."""
    for module in MODULES.get(name.partition(".")[0], ()):
        if name in REGISTRY:
            break
        __import__(f"{__name__}.{module}")
    if name not in REGISTRY:
        raise Invalid(f"unknown operation {shown(name)}", reason="operation-unknown")
    return REGISTRY[name]


def every() -> dict[str, Operation[..., Any]]:
    """All operations by name, sorted by group, then by module, then by their place in the source."""
    for module in (module for modules in MODULES.values() for module in modules):
        __import__(f"{__name__}.{module}")
    return dict(sorted(REGISTRY.items(), key=lambda item: _sort_key(item[1])))


def _sort_key(wanted: Operation[..., Any]) -> tuple[int, int, int]:
    """The group, the module and the line of an operation, whichever module was imported first."""
    group = wanted.name.partition(".")[0]
    modules = [*MODULES[group], wanted.function.__module__.rpartition(".")[2]]
    return list(MODULES).index(group), modules.index(modules[-1]), wanted.function.__code__.co_firstlineno


def changeable(tx: Transaction) -> str:
    """A further SQL condition for tasks that a call wants to change: for strangers it excludes jobs, otherwise ''.

    Safety does not depend on it (see `strangers`). It keeps a stranger's call from finding a job and being refused.
    """
    return tx.changeable


def claimable(tx: Transaction) -> str:
    """A further SQL condition for tasks that a call wants to claim: for strangers, no job may come after the task."""
    return tx.claimable


def by_stranger(tx: Transaction) -> bool:
    """Whether a stranger makes this call."""
    return changeable(tx) != ""


def asks_for_no_job(params: dict[str, Any]) -> bool:
    """Whether the call names no kind, or another kind than jobs: a stranger may post or claim such tasks."""
    return params.get("kind") != JOB


def is_dead(tx: Transaction, process: Identity | None) -> bool:
    """Whether a process is known to have ended; False if this machine cannot know, and if no process is known."""
    return process is not None and tx.is_alive(process) is False


def holds_scopes(params: dict[str, Any]) -> list[Scope]:
    """The scope of a decision over several holds of a project."""
    return [scope("holds", params["project"])]


def perform(tx: Transaction, wanted: Operation[..., R], params: dict[str, Any], once: str | None = None) -> R | Refused:
    """Run an operation with checked parameters; with `once`, give a repeated call the answer of the first one.

    A refusal that relies on changes of this call (`kept`) is returned, not raised, so that the engine commits first.
    """
    try:
        given, params = params, in_its_project(tx, wanted, params)
        if wanted.writes and SPAWNED in (params.get("agent") or ""):  # in a read, the agent may be a mere filter
            from .session_fence import refuse_if_fenced

            refuse_if_fenced(tx, params["agent"])
        if once is None or not wanted.writes:
            return wanted.function(tx, **params)
        return _run_once(tx, wanted, params, once, given)
    except Refused as refusal:
        if not refusal.kept:
            raise
        return refusal


_ABOUT_NAMES = frozenset(("projects.show", "projects.alias", "projects.rename"))
"""The operations that help a project which is known by its path alone to a better name."""


def run_precheck(tx: Transaction, wanted: Operation[..., Any], params: dict[str, Any], once: str | None = None) -> None:
    """Run the precheck of an operation, outside of any transaction."""
    if wanted.precheck is not None:
        wanted.precheck(tx, **in_its_project(tx, wanted, params, precheck=True))


def in_its_project(
    tx: Transaction, wanted: Operation[..., Any], params: dict[str, Any], *, precheck: bool = False
) -> dict[str, Any]:
    """The parameters with the name under which the board keeps the rows of the project (see `project_names`).

    It is looked up in the transaction of the call, so that it is the name at that moment. A precheck runs before the
    transaction and writes nothing.
    """
    given = params.get("project")
    if not given:
        return params
    name, *others = given.split(" ")
    known = {each: (rows, rule) for each, rows, rule in tx.project_rows((name, *others))}
    if others and (name not in known or any(_is_unsettled(each, known) for each in others)):
        from .project_names import settle

        writes = wanted.writes and wanted.settles_names and not precheck
        project = settle(tx, name, tuple(others), known, writes=writes)
    else:
        project = known[name][0] if name in known else name
    if tx.shared and project.startswith(BY_PATH) and wanted.name not in _ABOUT_NAMES:
        raise Refused(
            f"project {project} is known by its path alone, which means nothing to the other machines of this board",
            reason="project-known-by-path",
            project=project,
        )
    if project == given:
        return params
    params = {**params, "project": project}
    if project != name and wanted.writes and not precheck:
        for needed, shared in wanted.scopes(params):
            tx.serialize(needed, shared=shared)
    return params


def _is_unsettled(other: str, known: dict[str, tuple[str, str]]) -> bool:
    """Whether a further name of a repository has rows to take over, or is one by commit or path that is new."""
    return known[other][1] == OLD_NAME if other in known else other.startswith((BY_COMMIT, BY_PATH))


def _once_key(params: dict[str, Any], once: str) -> str:
    """The key under which an answer is stored: a caller's `once` belongs to one project.

    Calls without a project, and calls for all projects, share the name "", which no project has. Neither a project nor
    a `once` contains a line break. It is the name that the caller gave, so that a repeated call finds its answer after
    the project was renamed.
    """
    return f"{(params.get('project') or '').partition(' ')[0]}\n{once}"


def _run_once(
    tx: Transaction, wanted: Operation[..., R], params: dict[str, Any], once: Any, given: dict[str, Any]
) -> R:
    """Run a call, or return its stored answer. A call is recognised by its parameters as they were `given`."""
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
    if given.get("project"):  # further names of a repository differ from clone to clone
        given = {**given, "project": given["project"].partition(" ")[0]}
    request = f"{wanted.name} {blake2b(json.dumps(given, sort_keys=True).encode(), digest_size=16).hexdigest()}"
    key = _once_key(given, once)
    tx.serialize("once", key)
    # Older versions stored answers without the project: such an answer counts only if the request is the same.
    found = "SELECT request, answer FROM answers WHERE once = :key OR (once = :once AND request = :request)"
    known = tx.first(f"{found} ORDER BY length(once) DESC", key=key, once=once, request=request)
    if known is not None:
        if known[0] != request:
            raise Invalid(f"once: {shown(once)} was already used for another call ({known[0].partition(' ')[0]})")
        remembered = json.loads(known[1])
        if wanted.withheld is not None:
            wanted.withheld[1](tx, remembered)
        return wanted.redacted(decode(wanted.returns, remembered))
    answer = wanted.function(tx, **params)
    stored = encode(answer)
    if wanted.withheld is not None:
        stored = [{**each, wanted.withheld[0]: None} for each in stored]
    tx.all(
        "INSERT INTO answers (once, request, answer, at) VALUES (:once, :request, :answer, {now})",
        once=key,
        request=request,
        answer=json.dumps(stored),
    )
    return answer
