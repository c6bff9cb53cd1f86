"""Lets several clients run on one PostgreSQL board, one message to the server at a time.

Each client is a board with connections of its own, and its calls run in a thread of their own. Every message that it
wants to send stops at a gate; the scheduler decides who may send next. A message that does not come back is looked for
with `pg_blocking_pids`: a client that waits for a lock is left alone, and another one goes on.

A schedule is the order in which clients begin, and the cuts: after that many messages in all, the client that is
running is stopped although it could go on, and another one goes on. At a cut the clock may be stepped past every
lease of the set-up, or the client that is stopped dies: at once, or late, when nobody else can go on without it. So a
schedule can be repeated exactly.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any, Literal, NamedTuple, cast

import psycopg
from psycopg import errors as pg

import tiebreak
from tiebreak.engine.postgres.engine import PostgresEngine

PATIENCE = 60.0
"""Seconds after which a client that neither sends, ends nor waits for a lock counts as stuck."""
SOON = 0.003
"""Seconds that a message may take before somebody looks whether it waits for a lock."""

Effect = Literal["", "clock", "death", "late death"]
Script = Callable[[tiebreak.Board], list[Any]]
"""What a client does: calls on its board; the answers so far, also when it dies."""


class Cut(NamedTuple):
    """After so many messages in all, whoever runs is stopped; what else happens then, and who goes on."""

    after: int
    effect: Effect = ""
    target: int = -1
    """The client that goes on; -1: the next one that can."""


class Schedule(NamedTuple):
    """Who begins, who comes next when somebody ends or waits, and where they are cut."""

    order: tuple[int, ...]
    cuts: tuple[Cut, ...] = ()

    def __str__(self) -> str:
        cuts = ", ".join(f"cut after {c.after}{f' ({c.effect})' if c.effect else ''}" for c in self.cuts)
        return f"order {'-'.join(str(i + 1) for i in self.order)}{', ' if cuts else ''}{cuts}"


class Died(BaseException):
    """What ends the thread of a client that dies; nothing catches it on the way."""


@dataclass
class Trace:
    """What happened in one run."""

    messages: list[tuple[int, str]] = field(default_factory=list)
    """Which client sent what, in order."""
    possible: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    """After how many messages a cut was possible, and who could have gone on instead."""
    cuts_made: int = 0
    deadlocks: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Scopes that were taken too late (see `Rules`)."""
    disorder: list[str] = field(default_factory=list)
    """Rows that were locked in another order than that of `ORDER`."""
    dead: set[int] = field(default_factory=set)


class Wire:
    """A connection whose messages stop at the gate of its client, and may be rewritten there (see `plants`)."""

    def __init__(self, connection: Any, client: Client) -> None:
        self._connection, self._client = connection, client
        self._rules = Rules(client)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: Any, *rest: Any) -> Any:
        """Wait at the gate, then send."""
        client = self._client
        text = str(statement)
        if client.gated and not self._connection.closed:
            client.stop_at_gate(self._connection, text)
            self._rules.check(text)
        for rewrite in client.rewrites:
            statement = rewrite(statement)
        try:
            return self._connection.execute(statement, *rest)
        except pg.DeadlockDetected:
            client.deadlocks.append(text)
            raise


ORDER = ("sessions", "schedules", "tasks", "holds")
"""The order in which a transaction locks rows of these tables; the rest comes after them in any order."""
_LOCKS = re.compile(
    r"\b(?:UPDATE|DELETE FROM) (?P<written>\w+)\b|\bFROM (?P<read>\w+)\b.*\bFOR (?:SHARE|UPDATE)\b", re.DOTALL
)


class Rules:
    """The rules of locking that can be seen on the wire, for each transaction.

    Scopes come first: no advisory lock after the first look or write. Then come rows, table by table in their order.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._looked: str | None = None
        self._locked: list[str] = []

    def check(self, text: str) -> None:
        """Look at one message."""
        if text.startswith("BEGIN"):
            self._looked, self._locked = None, []
        elif "pg_advisory_xact_lock" in text:
            if self._looked is not None:
                self._client.faults.append(f"takes a scope after: {shortened(self._looked)}")
        elif re.match(r"\s*(SELECT|WITH|UPDATE|INSERT|DELETE)\b", text):
            self._looked = self._looked or text
            self._check_order(text)

    def _check_order(self, text: str) -> None:
        """What is locked already may be written later."""
        found = _LOCKS.search(text)
        table = found and (found["written"] or found["read"])
        if table not in ORDER or table in self._locked:
            return
        after = [each for each in self._locked if ORDER.index(each) > ORDER.index(table)]
        if after:
            self._client.disorder.append(f"locks {table} after {after[0]}: {shortened(text)}")
        self._locked.append(table)


class Client:
    """One client of the board: its connections, its thread, and where it is."""

    def __init__(self, address: str, clock: Callable[[], int], agent: str, project: str) -> None:
        self.board = tiebreak.open(address, agent=agent, project=project, clock=clock)
        assert isinstance(self.board.engine, PostgresEngine)
        self.engine = cast(Any, self.board.engine)
        self.rewrites: list[Callable[[Any], Any]] = []
        self.turn = threading.Condition()
        self.gated = False
        self.deadlocks: list[str] = []
        self.faults: list[str] = []
        self.disorder: list[str] = []
        connect = self.engine._connect
        self.engine._forget_idle()
        self.engine._connect = lambda: Wire(connect(), self)
        self.engine._notifications.notify = lambda connection: None  # a hint to those who sleep; here nobody does
        self.place = "done"
        self.message = ""
        self.pid = 0
        self.answers: list[Any] = []

    def begin(self, turn: threading.Condition, script: Script) -> None:
        """Start the script in a thread; it comes to its first gate by itself."""
        self.turn, self.place, self.gated, self._orders = turn, "running", True, ""
        self.deadlocks, self.faults, self.disorder, self.answers = [], [], [], []
        self._thread = threading.Thread(target=self._live, args=(script,), daemon=True)
        self._thread.start()

    def _live(self, script: Script) -> None:
        try:
            self.answers = script(self.board)
        except Died:
            pass
        except BaseException as problem:  # a bug of the harness or of the code; it is reported as an answer
            self.answers = [f"{type(problem).__name__}: {problem}"]
        with self.turn:
            self.place, self.gated = "done", False
            self.turn.notify_all()

    def stop_at_gate(self, connection: Any, message: str) -> None:
        """Wait until the scheduler lets this message pass; the client may die here instead."""
        with self.turn:
            self.message, self.place, self.pid = message, "gate", connection.info.backend_pid
            self.turn.notify_all()
            self.turn.wait_for(lambda: self._orders)
            orders, self._orders = self._orders, ""
            if orders == "die":
                connection.close()
                raise Died

    def go(self) -> None:
        """Let the message at the gate pass."""
        self.order("go")

    def order(self, what: str) -> None:
        """Tell the client at the gate to go on, or to die."""
        with self.turn:
            assert self.place == "gate"
            self.place, self._orders = "running", what
            self.turn.notify_all()

    def end(self) -> None:
        """Wait for the thread."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "a client is stuck"


class Scheduler:
    """Runs scripts on clients by a schedule."""

    def __init__(self, clients: Sequence[Client], monitor: psycopg.Connection[Any], step: Callable[[], None]) -> None:
        self.clients, self._monitor, self._step = list(clients), monitor, step

    def run(self, scripts: Sequence[Script], schedule: Schedule) -> Trace:
        """Run them all to their ends; what happened."""
        turn, trace = threading.Condition(), Trace()
        clients = self.clients[: len(scripts)]
        for client, script in zip(clients, scripts, strict=True):
            client.begin(turn, script)
        self._settle(turn, clients)
        cuts, current = list(schedule.cuts), schedule.order[0]
        while any(client.place != "done" for client in clients):
            if clients[current].place != "gate":
                current = self._someone(clients, schedule.order, trace)
                if current in trace.dead:
                    self._kill(clients[current])
                    self._settle(turn, clients)
                    continue
            trace.messages.append((current, clients[current].message))
            clients[current].go()
            self._settle(turn, clients)
            alive = [i for i in schedule.order if i not in trace.dead]
            others = tuple(i for i in alive if i != current and clients[i].place == "gate")
            if clients[current].place == "gate" and others:
                trace.possible.append((len(trace.messages), others))
                if cuts and cuts[0].after == len(trace.messages):
                    cut = cuts.pop(0)
                    trace.cuts_made += 1
                    self._happen(cut.effect, clients[current], current, trace)
                    self._settle(turn, clients)
                    current = cut.target if cut.target in others else others[0]
        for client in clients:
            client.end()
            trace.deadlocks += client.deadlocks
            trace.faults += client.faults
            trace.disorder += client.disorder
        return trace

    def _someone(self, clients: Sequence[Client], order: tuple[int, ...], trace: Trace) -> int:
        """The next client that can send; one that is to die late only if there is no other."""
        waiting = [i for i in order if clients[i].place == "gate"]
        return next((i for i in waiting if i not in trace.dead), waiting[0])

    def _happen(self, effect: Effect, client: Client, number: int, trace: Trace) -> None:
        if effect == "clock":
            self._step()
        elif effect:
            trace.dead.add(number)
            if effect == "death":
                self._kill(client)

    def _kill(self, client: Client) -> None:
        """Let a client at the gate die, and wait until the server has noticed."""
        pid, end = client.pid, monotonic() + PATIENCE
        client.order("die")
        while self._monitor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_get_activity(%s)", (pid,)).rowcount:
            assert monotonic() < end, "a client does not die"
            sleep(0.0005)

    def _settle(self, turn: threading.Condition, clients: Sequence[Client]) -> None:
        """Wait until everybody is at a gate, at the end, or waits for a lock; somebody can send or all are done."""
        end = monotonic() + PATIENCE
        with turn:
            while running := [client for client in clients if client.place == "running"]:
                if turn.wait_for(lambda: all(c.place != "running" for c in clients), SOON):
                    return
                running = [client for client in clients if client.place == "running"]
                if running and self._all_blocked(running) and any(client.place == "gate" for client in clients):
                    return
                assert monotonic() < end, f"stuck: {[(c.place, c.message) for c in clients]}"

    def _all_blocked(self, running: Sequence[Client]) -> bool:
        pids = [client.pid for client in running]
        row = self._monitor.execute(
            "SELECT bool_and(cardinality(pg_blocking_pids(pid)) > 0) FROM unnest(%s::int[]) AS pid", (pids,)
        ).fetchone()
        return bool(row and row[0])


def shortened(text: str, most: int = 110) -> str:
    """A message in one short line."""
    return " ".join(text.split())[:most]
