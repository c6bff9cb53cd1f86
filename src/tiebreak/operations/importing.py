"""Importing: many tasks at once, with the parents, dependencies and comments that they have among each other.

All entries of a call are posted by one transaction, or none of them. An entry whose key the project knows already is
left as it is, so importing the same entries again posts nothing twice, and continues an import that was interrupted.

Imported tasks are new tasks. They have ids, numbers and times of their own, nobody holds them, and the epochs of a key
continue. Whoever imports is the one who posted them. Comments are what somebody else wrote elsewhere: the sender of
such a message is `NAME (imported)`, which is no agent's name, so nobody can be taken for a present agent.

Why no circle is closed: an existing task never comes after a new one and is never a part of one, so a circle would lie
among the entries, where it is refused. Why no key is posted twice: imports of a project exclude each other by a scope;
a task that is posted at the same moment in another way violates the unique index, and the engine runs the import again.
Why no end of a predecessor is missed: the tasks of the board that entries come after are locked (shared) in the order
of their numbers before they are looked at, as in `dependencies`. Parents are kept by the scope of `parents`.
"""

from __future__ import annotations

from ..clock import micros
from ..errors import Invalid, NotFound, Refused
from ..limits import ATTEMPTS, BACKOFF, MAX_IMPORTED
from ..model import Imported, Task, record
from ..names import ANNOUNCEMENTS, FINAL, PRIORITIES, is_uuid, json_text, key_of
from ..task_entries import FROM_ID, key_of_entry, means_board
from ..task_entries import called as entry_called
from ..task_order import circle, groups
from . import PARENTS, keys_scope, operation, scope
from .events import append, task_event
from .grants import beginning_each
from .messages import first_line
from .references import SHOWN, STORED, called, find
from .rows import among, given, listed
from .tasks import new_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..names import AgentId, Project, TaskEntry
    from . import Scope, Transaction


IMPORTED = " (imported)"
"""The end of the sender of an imported comment. No agent's name has blanks or brackets."""


def _import_scopes(params: dict[str, Any]) -> list[Scope]:
    """Imports of a project exclude each other. Keys are added, and perhaps messages."""
    project = params["project"]
    commented = any(entry.get("comments") for entry in params["entries"])
    return [
        scope("imports", project),
        scope(PARENTS, shared=True),
        keys_scope(project),
        *([scope("messages", project)] if commented else []),
    ]


@operation("tasks.import", writes=True, strangers=True, scopes=_import_scopes)
def import_tasks(
    tx: Transaction, *, entries: list[TaskEntry], agent: AgentId = "", project: Project = "", dry_run: bool = False
) -> list[Imported]:
    """Post many tasks at once, all or none; one answer for each entry. An entry whose key is known is left as it is.

    `parent` and `after` name other entries by their `id` or `key`, in any order, or tasks of the board. An entry
    without a `key` has its `id` as key; with neither, its task has no key and is posted each time. An entry whose `id`
    is that of a task of the project is known, too. Entries that are completed, failed or cancelled stay so; all others
    are ready or blocked. With `dry_run` everything is checked and nothing is posted.
    """
    _refuse_too_many(entries)
    keys = [key_of_entry(entry) for entry in entries]
    local = _local_names(entries, keys)
    tx.serialize("imports", project)
    tx.serialize(PARENTS, shared=True)
    tx.serialize("keys", project, shared=True)
    known = _known(tx, entries, keys, project)
    plan = _Plan(tx, entries, local, known, project)
    states = [known[i].state if i in known else plan.state(i)[0] for i in range(len(entries))]
    numbers = {i: task.number for i, task in known.items()}
    if not dry_run:
        posted = _post(tx, entries, keys, plan, agent, project)
        numbers.update((i, task.number) for i, task in posted.items())
        _comment(tx, entries, posted, agent, project)
    return [record(Imported, (numbers.get(i, 0), keys[i], states[i], int(i in known))) for i in range(len(entries))]


def _refuse_too_many(entries: list[TaskEntry]) -> None:
    rows = sum(1 + len(entry.get("after", ())) + len(entry.get("comments", ())) for entry in entries)
    if rows > MAX_IMPORTED:
        raise Invalid(
            f"entries: {rows} tasks, dependencies and comments, the limit is {MAX_IMPORTED}",
            hint="import them in several calls",
        )


def _local_names(entries: list[TaskEntry], keys: list[str | None]) -> dict[str, int]:
    """The ids and keys of the entries, and the entry of each."""
    local: dict[str, int] = {}
    for i, entry in enumerate(entries):
        for name in dict.fromkeys((entry.get("id"), keys[i])):
            if name is not None and local.setdefault(name, i) != i:
                raise Invalid(f"entries[{i}]: entries[{local[name]}] is called {name}, too", other=local[name])
    return local


def _known(tx: Transaction, entries: list[TaskEntry], keys: list[str | None], project: str) -> dict[int, Task]:
    """The entries whose tasks the project has already: by their key, or by the id of a task that was exported here."""
    by_key = _found(tx, "key", [key for key in keys if key is not None], project)
    ids = [_id_of(entry, key) for entry, key in zip(entries, keys, strict=True)]
    by_id = _found(tx, "id", [id_ for id_ in ids if is_uuid(id_)], project)
    known = {}
    for i, id_ in enumerate(ids):
        task = by_key.get(keys[i] or "") or by_id.get(id_)
        if task is not None:
            known[i] = task
    return known


def _id_of(entry: TaskEntry, key: str | None) -> str:
    """The id that the task of an entry had where it was exported, perhaps before it was imported elsewhere."""
    return key.removeprefix(FROM_ID) if key and key.startswith(FROM_ID) else str(entry.get("id", ""))


def _found(tx: Transaction, column: str, values: list[str], project: str) -> dict[str, Task]:
    found: dict[str, Task] = {}
    for these, params in among("v", values):
        sql = f"SELECT {SHOWN}, {column} FROM tasks WHERE project = :project AND {column} IN ({these})"
        found.update((row[-1], record(Task, row[:-1])) for row in tx.all(sql, project=project, **params))
    return found


class _Plan:
    """The new tasks of an import: what each refers to, in which order they are posted, and in which state."""

    def __init__(
        self, tx: Transaction, entries: list[TaskEntry], local: dict[str, int], known: dict[int, Task], project: str
    ) -> None:
        self._entries = entries
        self._local = local
        self._known = known
        self._numbers: dict[str, int] = {}
        self._tx, self._project = tx, project
        new = [i for i in range(len(entries)) if i not in known]
        # What each entry refers to: another new entry by its index, a task of the board by its number.
        self._parents = {i: self._target(i, "parent", entries[i]["parent"]) for i in new if "parent" in entries[i]}
        self._after = {
            i: list(dict.fromkeys(self._target(i, "after", ref) for ref in entries[i].get("after", ()))) for i in new
        }
        self._refuse_circles()
        self._board = self._locked()
        for i in new:
            self._refuse_parent_elsewhere(i)
        self._states = {i: self._state_alone(entries[i]) for i in new}
        for i in new:
            self._refuse_ended_badly(i)
        both = [[*self._new_parent(i), *self._new_before(i)] for i in range(len(entries))]
        self.order = [i for group in groups(both) for i in group if i not in known]
        """The new entries, those that others refer to first."""

    def _target(self, i: int, what: str, ref: str) -> tuple[bool, int]:
        """Whether a reference names a new entry, and the entry's index or the number of a task of the board."""
        j = None if means_board(ref) else self._local.get(key_of(ref))
        if j is not None:
            return (False, self._known[j].number) if j in self._known else (True, j)
        if ref not in self._numbers:
            try:
                self._numbers[ref] = find(self._tx, ref, self._project).number
            except (NotFound, Invalid) as exc:
                raise type(exc)(f"entries[{i}]: {what}: {exc.message}", hint=exc.own_hint, reason=exc.reason) from None
        return False, self._numbers[ref]

    def _locked(self) -> dict[int, Task]:
        """The tasks of the board that new entries refer to; those that they come after are locked, so none ends."""
        before = {number for i in self._after for new, number in self._after[i] if not new}
        parents = {number for i in self._after for new, number in self._parent_of(i) if not new} - before
        found: dict[int, Task] = {}
        for numbers, lock in ((before, "{share}"), (parents, "")):
            for these, params in listed("n", sorted(numbers)):
                sql = f"SELECT {SHOWN} FROM tasks WHERE number IN ({these}) ORDER BY number {lock}"
                found.update((row[0], record(Task, row)) for row in self._tx.all(sql, **params))
        for number in sorted(before | parents):
            if number not in found:
                raise NotFound(f"no task #{number}", reason="task-unknown")
        return found

    def _parent_of(self, i: int) -> list[tuple[bool, int]]:
        return [self._parents[i]] if i in self._parents else []

    def _new_parent(self, i: int) -> list[int]:
        return [j for new, j in self._parent_of(i) if new]

    def _new_before(self, i: int) -> list[int]:
        return [j for new, j in self._after.get(i, ()) if new]

    def _refuse_circles(self) -> None:
        every = range(len(self._entries))
        for refs, words in (
            ([self._new_parent(i) for i in every], "is a part of itself"),
            ([self._new_before(i) for i in every], "comes after itself"),
        ):
            if way := circle(refs):
                names = [entry_called(self._entries[i]) for i in (*way, way[0])]
                told = " → ".join(names if len(names) <= _TOLD else [*names[: _TOLD - 1], "…", names[-1]])
                raise Refused(f"entries[{way[0]}]: {words}: {told}")

    def _refuse_parent_elsewhere(self, i: int) -> None:
        for new, number in self._parent_of(i):
            if not new and self._board[number].project != self._project:
                task = self._board[number]
                raise Invalid(
                    f"entries[{i}]: parent: {called(task)} is in project {task.project}, not in {self._project}"
                )

    @staticmethod
    def _state_alone(entry: TaskEntry) -> str:
        """The state of an entry that waits for nothing."""
        if entry.get("kind") in ANNOUNCEMENTS:
            return "completed"
        return entry["state"] if entry.get("state") in FINAL else "pending"

    def _states_before(self, i: int) -> Iterator[tuple[str, str]]:
        """What an entry comes after: the name for messages, and the state."""
        for new, at in self._after[i]:
            yield (
                (entry_called(self._entries[at]), self._states[at])
                if new
                else (called(self._board[at]), self._board[at].state)
            )

    def _refuse_ended_badly(self, i: int) -> None:
        entry = self._entries[i]
        if self._states[i] in FINAL or entry.get("run_anyway"):
            return
        for name, state in self._states_before(i):
            if state in ("failed", "cancelled"):
                raise Refused(
                    f"entries[{i}]: cannot come after {name}, which is {state}",
                    hint="retry that one first, or run anyway",
                )

    def state(self, i: int) -> tuple[str, int]:
        """The state in which a new task begins, and for how many tasks it waits."""
        alone = self._states[i]
        waiting = sum(state not in FINAL for _, state in self._states_before(i)) if alone == "pending" else 0
        return "blocked" if waiting else alone, waiting

    def board_parent(self, i: int) -> int:
        """The number of its parent, if that is a task of the board; else 0."""
        return next((number for new, number in self._parent_of(i) if not new), 0)

    def parents(self, posted: dict[int, Task]) -> list[tuple[int, int]]:
        """The number of each new task whose parent is new, too, and the number of the parent."""
        return [(posted[i].number, posted[j].number) for i in self.order for j in self._new_parent(i)]

    def edges(self, posted: dict[int, Task]) -> list[tuple[int, int]]:
        """All dependencies: the number of a new task, and that of the task before it."""
        return [(posted[i].number, posted[at].number if new else at) for i in self.order for new, at in self._after[i]]


_TOLD = 6
"""How many entries of a circle a message names."""
_COLUMNS = ("kind", "name", "key", "queue", "payload", "result", "reason", "state", "tags", "body")
_NUMBERS = ("priority", "max_attempts", "backoff", "ready_at", "run_anyway", "blockers", "finished_at", "parent")


def _post(
    tx: Transaction, entries: list[TaskEntry], keys: list[str | None], plan: _Plan, agent: str, project: str
) -> dict[int, Task]:
    """Insert the new tasks with their edges and events; the task of each new entry."""
    ids = {new_id(tx.now): i for i in plan.order}
    rows = [(place, id_, *_row(tx, entries[i], keys[i], plan, i)) for place, (id_, i) in enumerate(ids.items(), 1)]
    posted: dict[int, Task] = {}
    for table, params in given(("place", "id", *_COLUMNS, *_NUMBERS), rows):
        inserted = tx.all(
            beginning_each(table, _COLUMNS, _NUMBERS, STORED), project=project, created_by=agent, **params
        )
        posted.update((ids[task.id], task) for task in (record(Task, row) for row in inserted))
    for table, params in given(("n", "p"), plan.parents(posted)):
        tx.all(f"{table}UPDATE tasks SET parent = given.p FROM given WHERE number = given.n RETURNING number", **params)
    for table, params in given(("t", "a"), plan.edges(posted)):
        tx.all(f"{table}INSERT INTO edges (task, after) SELECT t, a FROM given WHERE t > 0", **params)
    for i in plan.order:
        task_event(tx, "task.posted", posted[i], agent=agent, note="imported")
    return posted


def _row(tx: Transaction, entry: TaskEntry, key: str | None, plan: _Plan, i: int) -> tuple[Any, ...]:
    """The values of `_COLUMNS` and `_NUMBERS`."""
    state, waiting = plan.state(i)
    tags = dict.fromkeys(entry.get("tags", ()))
    due = micros(entry.get("at", 0))
    return (
        entry.get("kind", "task"),
        entry["name"],
        key,
        entry.get("queue", "default"),
        json_text(entry.get("payload")),
        json_text(entry.get("result")),
        entry.get("reason"),
        state,
        f" {' '.join(tags)} " if tags else "",
        entry.get("body"),
        PRIORITIES.index(entry.get("priority", "normal")),
        entry.get("max_attempts", ATTEMPTS),
        micros(entry.get("backoff", BACKOFF)),
        due if due > tx.now and state not in FINAL else 0,
        int(entry.get("run_anyway", False)),
        waiting,
        tx.now if state in FINAL else 0,
        plan.board_parent(i),
    )


def _comment(tx: Transaction, entries: list[TaskEntry], posted: dict[int, Task], agent: str, project: str) -> None:
    """Add the comments of the new tasks, each task's as one thread that is in nobody's inbox."""
    rows = [
        (place, task.number, comment["author"] + IMPORTED, comment["text"], _time(tx, comment))
        for task, comments in ((task, entries[i].get("comments", ())) for i, task in posted.items())
        for place, comment in enumerate(comments)
    ]
    if not rows:
        return
    tx.serialize("messages", project)  # a reader's cursor must not pass a number that is not committed yet
    sent: list[tuple[Any, ...]] = []
    for table, params in given(("place", "task", "sender", "body", "sent"), rows):
        sent += tx.all(f"{table}{_INSERT_COMMENTS}", project=project, **params)
    sent.sort()
    threads: dict[int, int] = {}
    for number, task, _, _ in sent:
        threads.setdefault(task, number)
    for table, params in given(("t", "f"), sorted(threads.items())):
        tx.all(
            f"{table}UPDATE messages SET thread = given.f FROM given WHERE task = given.t RETURNING number", **params
        )
    ids = {task.number: task.id for task in posted.values()}
    for number, task, sender, body in sent:
        append(
            tx,
            "message.sent",
            project,
            subject=ids[task],
            name=first_line(body),
            kind="general",
            agent=agent,
            note=f"written by {sender}",
            data={"message": number, "to": "", "thread": threads[task]},
        )


_INSERT_COMMENTS = (
    "INSERT INTO messages "
    "(project, sender, recipient, channel, thread, importance, ack_requested, body, sent_at, task) "
    "SELECT CAST(:project AS TEXT), given.sender, '', 'general', 0, 1, 0, given.body, given.sent, given.task "
    "FROM given WHERE given.task > 0 ORDER BY given.task, given.place RETURNING number, task, sender, body"
)


def _time(tx: Transaction, comment: dict[str, Any]) -> int:
    """When a comment was written, as far as the entry says so; never in the future."""
    return min(micros(comment["at"]), tx.now) if "at" in comment else tx.now
