"""The board as Python sees it: one API, the same wherever the board is.

`board.tasks.post(…)`, `board.holds.list(…)` and so on run one operation each, with `agent` and `project` filled in.
`claim`, `next` and `hold` return a handle (see `handles`): it knows its epoch, renews its lease while it is used as a
context manager, and tells when the grant is lost.
"""

from __future__ import annotations

import os

from . import operations
from .clock import elapsed
from .engine import connect, fork_safety
from .errors import Fenced, Invalid, Lost, NotFound, Refused, TiebreakError, TimedOut, Unavailable, as_answer
from .limits import CLAIM_LEASE, HOLD_LEASE, MAX_LIMIT
from .names import agent as check_agent
from .names import project as check_project
from .names import project_names, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, ParamSpec, TypeVar

    from .engine.protocol import Engine
    from .functions import JobFunction
    from .groups.agents import Agents
    from .groups.events import Events
    from .groups.holds import Holds
    from .groups.jobs import Jobs
    from .groups.messages import Messages
    from .groups.overview import Overview
    from .groups.projects import Projects
    from .groups.questions import Questions
    from .groups.queues import Queues
    from .groups.schedules import Schedules
    from .groups.sessions import Sessions
    from .groups.tasks import Tasks
    from .groups.upkeep import Upkeep
    from .groups.waits import Waits
    from .handles import Claim, Holding
    from .model import Event, Hold, Task
    from .operations import Operation
    from .waiting import WaitQueuePlace

    P = ParamSpec("P")
    R = TypeVar("R")


LOOK_AGAIN = 2.0
"""Seconds after which a waiter looks again whether the process of a holder has ended."""
SOON = 0.5
"""Seconds after which a waiter tries again while a free resource is reserved for the first in line, who may be dead."""

fork_safety.LATER += [
    f"tiebreak.{name}" for name in ("functions", "handles", "loss_watch", "project_findings", "waiting")
]
fork_safety.LATER += [f"tiebreak.groups.{name}" for name in operations.MODULES]


def default_address(environ: Mapping[str, str] = os.environ) -> str:
    """The address of the board that is used by default: `TIEBREAK_BOARD`, else one file in the user's state folder."""
    if environ.get("TIEBREAK_BOARD"):
        return environ["TIEBREAK_BOARD"]
    from .user_folders import state_folder

    return os.path.join(state_folder(environ), "board.db")


def open(
    address: str | os.PathLike[str] | None = None,
    *,
    agent: str | None = None,
    project: str | None = None,
    clock: Callable[[], int] | None = None,
) -> Board:
    """Open a board; a file that does not exist yet is made.

    Without `address`, `TIEBREAK_BOARD` or the user's own board is opened. Without `agent` and `project`,
    `TIEBREAK_AGENT` and `TIEBREAK_PROJECT` or names derived from this session and repository are used.
    """
    if agent is not None:
        check_agent(agent)
    if project is not None:
        project_names(project)
    place = os.fspath(address) if address is not None else default_address()
    if not place.startswith(("http://", "https://", "unix:")):
        return Board(connect(place, clock=clock), agent=agent, project=project)
    from .remote import RemoteEngine

    return Board(RemoteEngine(place), agent=agent, project=project)


def acting_agent(given: str | None) -> str:
    """The full id of the agent that acts: the given one, else `TIEBREAK_AGENT`, else a name for this session."""
    name = (os.environ.get("TIEBREAK_AGENT") or None) if given is None else given
    if name is None or "~" not in check_agent(name):
        from .agent_names import default_agent, incarnation

        name = default_agent(os.environ) if name is None else name
        name = name if "~" in check_agent(name) else f"{name}~{incarnation(os.environ)}"
    return check_agent(name)


def here() -> str:
    """The current folder."""
    try:
        return os.getcwd()
    except OSError:
        raise Invalid("the current folder does not exist any more") from None


LOOK_AGAIN = 30.0
"""Seconds after which a caller that waits for the end of a task calls `settled` again, even without an event."""


LOOK_AT_HOLDER = 2.0
"""Seconds after which a waiter tries again while the holder is bound to a process, whose end no event may tell."""


class Board:
    """An open board, used by one agent in one project."""

    def __init__(self, engine: Engine, *, agent: str | None = None, project: str | None = None) -> None:
        fork_safety.board_opened()
        self.engine = engine
        self._agent = agent
        self._names = project
        self._project: str | None = None
        self.on_wait: Callable[[Refused | str, float], float] | None = None
        """Called by a call that waits, before it sleeps: with what it waits for, and the seconds left.

        That is the refusal that names the holder, or words that complete "waiting for …". It returns the seconds after
        which it wants to be called again.
        """

    if TYPE_CHECKING:
        tasks: Tasks
        jobs: Jobs
        questions: Questions
        queues: Queues
        holds: Holds
        waits: Waits
        messages: Messages
        agents: Agents
        sessions: Sessions
        events: Events
        schedules: Schedules
        projects: Projects
        overview: Overview
        upkeep: Upkeep
    else:

        def __getattr__(self, name):
            """A group of operations, made when it is first used: most commands use one or two."""
            if name not in operations.MODULES:
                raise AttributeError(f"a board has no {name!r}")
            from .groups import load

            group = self.__dict__[name] = load(name)(self)
            return group

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *operations.MODULES})

    # ── Who and where ────────────────────────────────────────────────────────────────────────────────

    @property
    def agent(self) -> str:
        """The full id of the agent that acts: `name~session`."""
        if self._agent is None or "~" not in self._agent:
            self._agent = acting_agent(self._agent)
        return self._agent

    @property
    def project(self) -> str:
        """The project of every call that names none, by the name under which the board keeps its rows.

        It is settled by asking for it, because it may be passed on: to another process, or to the name of a file.
        """
        if self._project is None:
            names = self.project_names
            asked = operations.find("projects.settle" if " " in names else "projects.resolve")
            project: str = self.engine.run(asked, {"project": names})
            self._project = project
        return self._project

    @property
    def project_names(self) -> str:
        """The names of this project as calls give them, found without asking the board (see `names.project_names`)."""
        if self._names is None:
            if given := os.environ.get("TIEBREAK_PROJECT"):
                self._names = check_project(given)
            else:
                from .project_identity import project_names

                self._names = project_names(here())
        return self._names

    def root(self) -> str:
        """The folder that paths are relative to: the top of the repository around the current folder, else `/`."""
        from .repository import repository

        found = repository(here())
        return found.root if found else "/"

    def checkout(self) -> str:
        """The checkout around the current folder if its file holds are its own (see `checkouts`), else empty."""
        from .checkouts import checkout_of
        from .repository import repository

        return checkout_of(repository(here()))

    def resource(self, text: str) -> str:
        """A resource as a person writes it, in its one spelling; a text without a type is a path from here."""
        from .names import RESOURCE_TYPES
        from .names import resource as check_resource

        kind, mark, rest = text.partition(":")
        if mark and kind in RESOURCE_TYPES and kind != "file":
            return check_resource(text)
        from .paths import confine

        if mark and kind.isalpha() and kind != "file" and not os.path.lexists(text):
            known = ", ".join(f"{each}:" for each in RESOURCE_TYPES)
            raise Invalid(f"{kind}: is none of {known}", hint=f"./{text} would be a file of that name")
        path = rest if mark and kind == "file" else text
        if path.startswith("//") and mark and kind == "file":
            return check_resource(text)  # the full name of a file of a checkout
        if path and os.path.isdir(path) and not path.endswith("/"):
            path += "/"  # a folder means everything below it
        from .held_files import file_resource

        return file_resource(confine(path, root=self.root(), base=here()), self.checkout())

    def held_resource(self, text: str) -> str:
        """A resource as a person writes it, by the name that it is held under at present, if it is.

        Whoever took it may have had another `git config tiebreak.holds`: then it is held in the whole repository, or in
        this checkout alone.
        """
        wanted = self.resource(text)
        if not wanted.startswith("file:") or text.startswith("file://"):
            return wanted
        from .checkouts import known_identity
        from .held_files import file_resource, path_of
        from .repository import repository

        found = repository(here())
        checkout = known_identity(found) if found else ""
        if not checkout:
            return wanted
        held: list[Hold] = self.call("holds.list", {"matching": wanted})
        names = (wanted, file_resource(path_of(wanted)), file_resource(path_of(wanted), checkout))
        return next((name for name in names if any(hold.resource == name for hold in held)), wanted)

    def reference(self, ref: str) -> str:
        """A task or resource as a person writes it, as `events.why` takes it: a path may mean this checkout's file."""
        from .names import RESOURCE_TYPES

        typed = ref.startswith("#") or (":" in ref and ref.partition(":")[0] in RESOURCE_TYPES)
        if typed or not self.checkout():
            return ref
        try:
            self.call("tasks.get", {"ref": ref})
        except (Invalid, NotFound):
            try:
                return self.resource(ref)
            except Invalid:
                pass
        return ref

    def is_me(self, row: Task | Hold) -> bool:
        """Whether the holder is this agent in this session."""
        from .model import holder_id

        return holder_id(row) == self.agent

    # ── Running operations ───────────────────────────────────────────────────────────────────────────

    def call(self, name: str, params: Mapping[str, Any] | None = None, *, once: str | None = None) -> Any:
        """Run an operation by its name. A repeated call with the same `once` key gets the answer of the first."""
        operation = operations.find(name)
        try:
            filled = self._filled(operation, params or {})
            try:
                return self.engine.run(operation, filled, once)
            except (Lost, Fenced) as exc:
                former = self._former_agent(exc, filled)
                if former is None:
                    raise
            return self.engine.run(operation, {**filled, "agent": former}, once)
        finally:
            if self.engine.deferred_work:
                self._finish_deferred_work()

    def _former_agent(self, refusal: Lost | Fenced, params: Mapping[str, Any]) -> str | None:
        """This very session under its name of version 0.1, if that is who has what this call was refused."""
        holder = refusal.data.get("holder")
        if not holder or params.get("agent") != self.agent:
            return None
        from .agent_names import former_agent

        return former_agent(self.agent, str(holder))

    def batch(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run several operations in one transaction; each answer is a result, or the error that undid that call alone.

        A call is the name of an operation, its parameters and, optionally, a `once` key.
        """
        out: list[Any] = []
        ready = []
        for name, params, *once in calls:
            try:
                operation = operations.find(name)
                ready.append((operation, self._filled(operation, params), once[0] if once else None))
                out.append(None)
            except TiebreakError as exc:
                out.append(as_answer(exc))
        answers = iter(self.engine.batch(ready) if ready else [])
        if self.engine.deferred_work:
            self._finish_deferred_work()
        return [next(answers) if answer is None else answer for answer in out]

    def _finish_deferred_work(self) -> None:
        """Finish, step by step, the work that earlier calls have deferred; other writers run between two steps.

        Those calls are committed already, so an error here is not reported: the rest of the work is on the board, and
        other processes continue it.
        """
        step, projects = operations.find("tasks.cascade"), self.engine.deferred_work
        while projects:
            try:
                project = projects.pop()
                self.engine.let_others_pass()
                while self.engine.run(step, {"project": project}):
                    self.engine.let_others_pass()
            except (KeyError, TiebreakError):  # another thread was faster, or the board is gone
                return

    def _filled(self, operation: Operation[..., Any], params: Mapping[str, Any]) -> dict[str, Any]:
        filled = dict(params)
        if "agent" not in filled and operation.defaults.get("agent") == "":
            filled["agent"] = self.agent
        if "project" not in filled and operation.defaults.get("project") == "":
            filled["project"] = self.project_names
        return filled

    # ── Winning ──────────────────────────────────────────────────────────────────────────────────────
    # These use `call` instead of the groups' methods, so that the most frequent commands need not import `groups`.

    def claim(
        self, ref: str | int, *, lease: float | str = CLAIM_LEASE, create: bool | None = None, wait: float | str = 0.0
    ) -> Claim:
        """Claim a task, waiting for it at most `wait`; raises `Lost`, which names the holder.

        A key that no task has is posted as well, and then `created` of the claim is true. A key that is one slip away
        from a known one is refused unless `create` is true; if it is false, nothing is posted.
        """
        from .handles import Claim

        task, asked = self._try_until_won(self._claiming(ref, lease, create), wait)
        return Claim(self, task, lease, asked)

    def win(
        self, ref: str | int, *, lease: float | str = CLAIM_LEASE, create: bool | None = None, wait: float | str = 0.0
    ) -> Task:
        """Like `claim`, but return the task without a handle that renews the claim."""
        return self._try_until_won(self._claiming(ref, lease, create), wait)[0]

    def _claiming(self, ref: str | int, lease: float | str, create: bool | None) -> Callable[[], Task]:
        params = {"ref": ref, "lease": lease, "create": create}
        return lambda: self.call("tasks.claim", params)

    def next(
        self,
        *,
        kind: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        count: int = 1,
        order: str = "priority",
        lease: float | str = CLAIM_LEASE,
        wait: float | str = 0.0,
    ) -> list[Claim]:
        """Claim the next ready tasks, waiting at most `wait` for the first; an empty list if none became ready.

        With the order `critical`, first the tasks that the most others wait for.
        """
        from .handles import Claim

        filters = {"kind": kind, "queue": queue, "tag": tag, "count": count, "order": order}
        won, asked = self._next(filters, lease, wait)
        return [Claim(self, task, lease, asked) for task in won]

    def win_next(self, *, lease: float | str = CLAIM_LEASE, wait: float | str = 0.0, **filters: Any) -> list[Task]:
        """Like `next`, but return the tasks without handles that renew the claims."""
        return self._next(filters, lease, wait)[0]

    def _next(self, filters: dict[str, Any], lease: float | str, wait: float | str) -> tuple[list[Task], float]:
        patience = seconds(wait, "wait")
        end = elapsed() + patience
        while True:
            seen = self.events.last() if patience else 0
            asked = elapsed()
            won: list[Task] = self.call("tasks.next", {"lease": lease, **filters})
            left = end - elapsed()
            if won or left <= 0:
                return won, asked
            due = self.tasks.due()
            left = min(left, self.waiting("a task to become ready", left))
            self.engine.wait(seen, left if due is None else min(left, due + 0.001), project=self.project)

    def hold(
        self,
        *resources: str,
        lease: float | str = HOLD_LEASE,
        note: str | None = None,
        slots: int | None = None,
        again: bool = False,
        wait: float | str = 0.0,
        line: WaitQueuePlace | None = None,
    ) -> Holding:
        """Take resources, all or none, waiting in line for them at most `wait`; raises `Lost`, which names the holder.

        Raises `Deadlock` as soon as the wait could never end. A `line` from `in_line` keeps its place over several
        calls; the caller that made it has to call its `leave`.
        """
        from .handles import Holding

        root = self.root()
        holds, asked = self._take(
            resources, root, lease=lease, note=note, slots=slots, again=again, wait=wait, line=line
        )
        return Holding(self, holds, lease, asked, root)

    def take(
        self, *resources: str, lease: float | str = HOLD_LEASE, wait: float | str = 0.0, **options: Any
    ) -> list[Hold]:
        """Like `hold`, but return the holds without a handle that renews them."""
        return self._take(resources, self.root(), lease=lease, wait=wait, **options)[0]

    def in_line(self, *resources: str, note: str | None = None) -> WaitQueuePlace:
        """A place in the wait queue for resources, not entered yet."""
        from .waiting import WaitQueuePlace

        return WaitQueuePlace(self, resources, note)

    def resources(self, resources: tuple[str, ...]) -> list[str]:
        """Several resources as a person writes them, each once, in its one spelling."""
        return list(dict.fromkeys(self.resource(text) for text in resources))

    def _take(
        self,
        resources: tuple[str, ...],
        root: str,
        *,
        wait: float | str,
        line: WaitQueuePlace | None = None,
        **options: Any,
    ) -> tuple[list[Hold], float]:
        from .fingerprints import fingerprint

        wanted = self.resources(resources)
        own = self.in_line(*resources, note=options.get("note")) if line is None and seconds(wait, "wait") else None
        place = line or own

        def attempt() -> list[Hold]:
            hashes = [fingerprint(resource, root) for resource in wanted]
            asked = {"resources": wanted, "hashes": hashes, "place": place.number if place else 0, **options}
            won: list[Hold] = self.call("holds.take", asked)
            return won

        try:
            won = self._try_until_won(attempt, wait, place)
            if place:
                place.won()
            return won
        finally:
            if own:
                own.leave()

    def _try_until_won(
        self, attempt: Callable[[], R], wait: float | str, line: WaitQueuePlace | None = None
    ) -> tuple[R, float]:
        """Try until it is won or `wait` is over; what was won, and the time at which the winning try began."""
        patience = seconds(wait, "wait")
        end = elapsed() + patience
        while True:
            seen = self.events.last() if patience else 0
            asked = elapsed()
            try:
                return attempt(), asked
            except Refused as refusal:
                if end - elapsed() <= 0 or not may_change(refusal):
                    raise
                if line is None or not line.keep():
                    wake = end if line is None else min(end, elapsed() + line.due())
                    told = elapsed() + self.waiting(refusal, end - elapsed())
                    self._until_it_changes(refusal, seen, min(wake, told))

    def waiting(self, what: Refused | str, left: float) -> float:
        """Tell `on_wait` what this caller waits for; returns the seconds after which it wants to be told again."""
        return float("inf") if self.on_wait is None else self.on_wait(what, left)

    def _until_it_changes(self, refusal: Refused, seen: int, end: float) -> None:
        """Sleep until an event tells that the obstacle may be gone, or until its lease has run out."""
        left = refusal.data.get("left")
        # Free, but reserved for the first in line: if that one is dead, no event will tell.
        if "waiting" in refusal.data:
            left = SOON if left is None else min(left, SOON)
        if refusal.data.get("bound"):  # if its process ends, perhaps no event tells
            left = LOOK_AT_HOLDER if left is None else min(left, LOOK_AT_HOLDER)
        if left is None and refusal.data.get("state") in ("blocked", "pending"):
            left = self.tasks.due(project=None)  # it may become ready only because a claim lapses
            left = None if left is None else max(left, 0.05)
        wake = end if left is None else min(end, elapsed() + left + 0.001)
        subject = refusal.data.get("resource") or refusal.data.get("id")
        while (nap := wake - elapsed()) > 0:
            if self.engine.wait(seen, nap, subject=subject, project=None):
                seen, about = self._has_changed(seen, subject)
                if about:
                    return

    def _has_changed(self, seen: int, subject: str | None) -> tuple[int, bool]:
        newest = self.events.last()
        found = self.events.read(after=seen, subject=subject, project=None, limit=MAX_LIMIT)
        # Refusals and new waiters free nothing; this caller's own refusal may be among these events.
        return newest, any(not event.event.endswith((".refused", ".fenced", ".queued")) for event in found)

    # ── Python functions as jobs ─────────────────────────────────────────────────────────────────────

    def job(self, *, name: str | None = None, **options: Any) -> Callable[[Callable[P, R]], JobFunction[P, R]]:
        """Declare a function as a job of this board: see `functions`. Options as for `jobs.submit`."""
        from .functions import job

        return job(name=name, board=self, **options)

    # ── Waiting ──────────────────────────────────────────────────────────────────────────────────────

    def wait(self, *, after: int | None = None, timeout: float | str | None = None, **filters: Any) -> Event:
        """The next event that matches the filters of `events.read`; raises `TimedOut`."""
        for event in self.follow(after=after, timeout=timeout, **filters):
            return event
        raise TimedOut(f"nothing matched within {timeout}")

    def settled(self, ref: str | int) -> Task:
        """Get a task, after recording what is overdue for it. For callers that wait for its end.

        A task whose last lease has run out fails only when that is recorded. A blocked task becomes ready, or is
        cancelled, only when the end of the task before it has been passed on, and the process that did so may have
        died. Daemons record both; without a daemon, the waiting caller has to.
        """
        task: Task = self.tasks.get(ref=ref)
        if task.state == "claimed" and task.lapsed:
            self.tasks.sweep(project=task.project)
        elif task.state == "blocked" and self.tasks.due(project=None) == 0:
            self.tasks.sweep(project=None)
        else:
            return task
        return self.tasks.get(ref=task.id)

    def ask(
        self,
        text: str,
        *,
        choices: Sequence[str] = (),
        about: str | int | None = None,
        key: str | None = None,
        wait: float | str | None = None,
    ) -> str:
        """Ask a person, wait for the answer and return it. `board.questions.ask` asks without waiting.

        Raises `TimedOut` after `wait`, and `Refused` if the question was cancelled. A question stays open when its
        asker stops waiting, whatever the reason. With a `key` it is not asked twice: asking again waits for the same
        answer.
        """
        asked = self.questions.ask(text, choices=list(choices), about=about, key=key)
        return self.answer_to(asked.number, wait=wait)

    def answer_to(self, ref: str | int, *, wait: float | str | None = None) -> str:
        """The answer to a question, waiting for it at most `wait`; raises as `ask` does."""
        from .waiting import answer_to

        return answer_to(self, ref, wait)

    def follow(
        self, *, after: int | None = None, timeout: float | str | None = None, **filters: Any
    ) -> Iterator[Event]:
        """Yield every matching event after a number, as they happen; without a number, those from now on."""
        end = None if timeout is None else elapsed() + seconds(timeout, "timeout")
        filters = self._filled(operations.find("events.read"), filters)
        seen = self.events.last() if after is None else after
        while True:
            left = 3600.0 if end is None else max(0.0, end - elapsed())
            found, seen = (self.engine.follow or self._read_or_wait)(seen, left, filters)
            yield from found
            if not found and left <= 0:
                return

    def _read_or_wait(self, after: int, timeout: float, filters: dict[str, Any]) -> tuple[list[Event], int]:
        """`Engine.follow` for an engine in this process: read the events, and wait if none matches."""
        last, read, end = operations.find("events.last"), operations.find("events.read"), elapsed() + timeout
        while True:
            newest = self.engine.run(last, {})
            found = self.engine.run(read, {**filters, "after": after, "limit": MAX_LIMIT})
            if found:
                return found, found[-1].number
            after = max(after, newest)  # no event up to that number matches
            remaining = end - elapsed()
            if remaining <= 0:
                return [], after
            self.engine.wait(after, remaining)

    # ── Upkeep ───────────────────────────────────────────────────────────────────────────────────────

    def announce(self, doing: str | None = None, *, program: str | None = None) -> Any:
        """Register this agent and what it is doing, with the process of its session as proof that it is alive."""
        from .agent_names import session

        who = session()
        return self.agents.announce(
            doing=doing, program=program, host=who.host, boot=who.boot, pid=who.pid, started=who.started
        )

    def doctor(self, *, repair: bool = False) -> list[tuple[str, str, str]]:
        """Check the board: (`ok`, `warn` or `bad`; what; details). With `repair`, repair what is safe to repair."""
        findings = self.engine.diagnose(repair=repair)
        try:
            if repair:
                self.report_dead_agents()
            return findings + self._holds_of_the_gone() + self._projects_that_disagree()
        except Unavailable as exc:
            return [*findings, ("bad", "holds", f"cannot be read: {exc.message}")]

    def report_dead_agents(self) -> int:
        """Give back what agents of this machine hold whose process has ended; how many agents there were."""
        from .operations.death import reports

        count = 0
        for dead in reports(self.call("agents.bound", {"project": None})):
            try:
                self.call("agents.report_dead", dead)
                count += 1
            except Refused:
                pass  # somebody else reported it, or the agent is back
        return count

    def _holds_of_the_gone(self) -> list[tuple[str, str, str]]:
        from .model import holder_id

        gone = {agent.id for agent in self.agents.list(project=None, status="gone")}
        dead = [hold for hold in self.holds.list(project=None) if holder_id(hold) in gone]
        if not dead:
            return [("ok", "holds", "none is held by somebody who is known to be gone")]
        bound = {agent.id for agent in self.agents.list(project=None, status="gone") if agent.bound}
        ends = {True: "whoever wants it gets it", False: "it runs out by itself"}
        return [
            (
                "warn",
                "holds",
                f"{h.resource} in {h.project} is held by {h.holder}, who is gone; {ends[holder_id(h) in bound]}",
            )
            for h in dead
        ]

    def _projects_that_disagree(self) -> list[tuple[str, str, str]]:
        from .project_findings import findings

        return findings(self)

    def backup(self, target: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None) -> None:
        """Copy the board to a new file while others use it."""
        self.engine.backup(os.fspath(target), progress)

    def close(self) -> None:
        """Close the connections; grants that are still held last until their leases run out."""
        self.engine.close()

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Board {self.engine.address} project={self.project_names.partition(' ')[0]} agent={self.agent}>"


def may_change(refusal: Refused) -> bool:
    """Whether waiting can help: another agent has it, or it is not ready yet."""
    return isinstance(refusal, Lost) or refusal.data.get("state") in ("blocked", "pending")
