"""One small board on which all samples meet, how it is put back, and what is compared of it afterwards.

The set-up is made once by ordinary calls, copied into tables beside the board, and put back by SQL before each run.
It was made two minutes ago; all its leases end 30 seconds after now, so one step of the clock passes all of them. What
the samples take lasts much longer. So whether a grant is live at the end does not depend on which of the two times
a transaction has read.

An outcome leaves out what may differ without meaning: ids, numbers, and the exact times. A task is called by its key or
name, a message by its rank; a time is only zero or not, `until` only live or lapsed. Refusals are compared by
their class, and the events by which refusals are remembered are left out.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, cast
from unittest.mock import patch

import psycopg

import tiebreak
from tiebreak.engine.postgres.engine import PostgresEngine
from tiebreak.engine.schema import TABLES
from tiebreak.errors import TiebreakError
from tiebreak.model import encode
from tiebreak.operations import deferred_work

from ..postgres import WRITES, Server
from .daemons import GroupingDaemon, side_by_side
from .scheduler import Client, Schedule, Scheduler, Script, Trace

NOW = 1_800_000_000_000_000
AGE = 120_000_000
STEP = 60_000_000
LEASE = AGE // 1_000_000 + 30.0
LONG = 36_000.0
"""The lease of everything that a sample takes, in seconds: no step of the clock ends it."""
PROJECT = "p"

Call = tuple[str, dict[str, Any], str | None]
"""The name of an operation, its parameters, and the key of `once`; or one of `GROUPS`, with the calls in it."""
GROUPS = ("batch", "daemon")
"""Calls that share transactions: those of one caller's batch, or those of several callers of a daemon."""
Turn = tuple[int, int] | None
"""A client and which of its calls; None: the clock is stepped."""

_SEQUENCES = ("tasks_number_seq", "messages_number_seq", "events_number")
_TIDY = 150
"""After so many runs the dead rows are removed."""


class Clock:
    """The clock that all clients of the board share."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now

    def step(self) -> None:
        """Go past all leases of the set-up."""
        self.now += STEP


class Task(str):
    """Stands for the number of a task of the set-up in the parameters of a sample."""


_SESSION: dict[str, tuple[str, dict[str, Any]]] = {
    "begin": ("sessions.begin", {"role": "coordinator"}),
    "work": ("sessions.begin", {"role": "worker"}),
    "replace": ("sessions.begin", {"role": "coordinator", "replaces": "first~spawn-3"}),
    "adopt": ("sessions.adopt", {"child": 2, "child_started": 1}),
    "alive": ("sessions.alive", {"pid": 1, "started": 1}),
    "end": ("sessions.end", {"note": "over"}),
}
SETUP: list[tuple[str, str, dict[str, Any]]] = [
    # Finished ones, with an epoch to remember.
    *(
        (who, what, how)
        for key in ("F", "G")
        for who, what, how in (
            ("carol~1", "tasks.post", {"name": key, "key": key}),
            ("carol~1", "tasks.claim", {"ref": key}),
            ("carol~1", "tasks.fail", {"ref": key, "retry": False}),
        )
    ),
    # Tasks: A is claimed, B comes after it, C too but was cancelled; L is at its last attempt, M and N come after it.
    ("carol~1", "tasks.post", {"name": "A", "key": "A", "backoff": LONG}),
    ("carol~1", "tasks.post", {"name": "B", "key": "B", "after": ["A"]}),
    ("carol~1", "tasks.post", {"name": "C", "key": "C", "after": ["A"]}),
    ("carol~1", "tasks.cancel", {"ref": "C"}),
    ("carol~1", "tasks.post", {"name": "L", "key": "L", "max_attempts": 1}),
    ("carol~1", "tasks.post", {"name": "M", "key": "M", "after": ["L"]}),
    ("carol~1", "tasks.post", {"name": "N", "key": "N", "after": ["L"], "run_anyway": True}),
    ("carol~1", "tasks.post", {"name": "H", "key": "H"}),
    ("alice~1", "tasks.claim", {"ref": "A", "lease": LEASE}),
    ("alice~1", "tasks.claim", {"ref": "L", "lease": LEASE}),
    ("dead~1", "tasks.claim", {"ref": "H", "lease": LEASE}),
    ("carol~1", "tasks.post", {"name": "K", "key": "K"}),
    ("carol~1", "tasks.claim", {"ref": "K"}),
    ("carol~1", "tasks.complete", {"ref": "K"}),
    # Ready ones: two in the default queue, one alone in a queue.
    ("carol~1", "tasks.post", {"name": "D", "key": "D"}),
    ("carol~1", "tasks.post", {"name": "E", "key": "E"}),
    ("carol~1", "tasks.post", {"name": "Q", "key": "Q", "queue": "lonely"}),
    # Jobs: R runs, J waits.
    ("carol~1", "jobs.submit", {"name": "R", "key": "R", "command": ["true"], "queue": "jobs", "backoff": LONG}),
    ("alice~1", "jobs.next", {"queues": ["jobs"], "lease": LEASE}),
    ("alice~1", "jobs.append", {"ref": "R", "epoch": 1, "chunks": [{"start": 0, "stream": 1, "text": "hello"}]}),
    ("carol~1", "jobs.submit", {"name": "J", "key": "J", "command": ["true"], "queue": "jobs"}),
    # Limits: of a group at most one is claimed.
    ("carol~1", "jobs.submit", {"name": "S1", "key": "S1", "command": ["true"], "limit": "g=1", "project": "limits"}),
    ("alice~1", "tasks.claim", {"ref": "S1", "lease": LEASE, "project": "limits"}),
    ("carol~1", "jobs.submit", {"name": "S2", "key": "S2", "command": ["true"], "limit": "g=1", "project": "limits"}),
    ("carol~1", "jobs.submit", {"name": "S3", "key": "S3", "command": ["true"], "limit": "g=1", "project": "limits"}),
    # Queues: one is paused. P3 waits for the task of the other.
    ("carol~1", "tasks.post", {"name": "P1", "key": "P1", "queue": "slow", "project": "queues"}),
    ("carol~1", "tasks.post", {"name": "P2", "key": "P2", "queue": "fast", "project": "queues"}),
    ("carol~1", "tasks.post", {"name": "P3", "key": "P3", "after": ["P2"], "project": "queues"}),
    ("carol~1", "queues.pause", {"queue": "slow", "project": "queues"}),
    # Holds of alice: a glob, a lock, a file, and the second of two slots.
    ("alice~1", "holds.take", {"resources": ["file:src/**"], "lease": LEASE}),
    ("alice~1", "holds.take", {"resources": ["file:docs/a.md", "lock:deploy"], "lease": LEASE}),
    ("carol~1", "holds.take", {"resources": ["pool:x"], "slots": 2}),
    ("alice~1", "holds.take", {"resources": ["pool:x"], "lease": LEASE}),
    ("carol~1", "holds.release", {"resources": ["pool:x"]}),
    # A line: zoe waits for what alice has.
    ("alice~1", "holds.take", {"resources": ["lock:a"], "lease": LEASE, "project": "line"}),
    ("zoe~1", "waits.enter", {"resources": ["lock:a"], "project": "line"}),
    # Seats: one coordinator that lives; in another project one that is being replaced.
    *(
        ("carol~1", what, {"session": session, "project": project, **how})
        for session, project, steps in (
            ("old~spawn-1", PROJECT, ("begin", "adopt", "alive")),
            ("gone~spawn-2", PROJECT, ("work", "end")),
            ("first~spawn-3", "handoff", ("begin", "adopt", "alive")),
            ("second~spawn-4", "handoff", ("replace", "adopt")),
            ("third~spawn-5", "starting", ("begin",)),
        )
        for what, how in (_SESSION[step] for step in steps)
    ),
    ("alice~1", "agents.announce", {"doing": "work"}),
    ("dead~1", "agents.announce", {"host": "far", "boot": "1.1", "pid": 7, "started": 7, "bound": True}),
    ("carol~1", "messages.send", {"body": "hello all"}),
    # A question, and what waits for the answer.
    ("carol~1", "questions.ask", {"text": "O", "key": "O", "choices": ["yes", "no"]}),
    ("carol~1", "tasks.post", {"name": "OA", "key": "OA", "after": ["O"]}),
    ("carol~1", "messages.send", {"body": "hello bob", "to": "bob", "ack_requested": True, "later": True}),
    ("carol~1", "schedules.add", {"name": "tick", "expression": "* * * * *", "command": ["true"]}),
    ("carol~1", "schedules.add", {"name": "rest", "expression": "0 0 * * *", "command": ["true"]}),
    ("carol~1", "schedules.pause", {"name": "rest"}),
    # The newest of everything is of now, so that pruning finds the same old things whatever comes after them.
    ("carol~1", "now", {}),
    ("carol~1", "messages.send", {"body": "latest"}),
    ("carol~1", "tasks.post", {"name": "news", "kind": "decision"}),
]
FAMILIES: list[tuple[str, str, dict[str, Any]]] = [
    # V is completed, and W1 to W3 come after it; W3 also comes after U, which alice has, W4 after U and T. zoe has W1.
    ("carol~1", "tasks.post", {"name": "V", "key": "V"}),
    ("carol~1", "tasks.post", {"name": "U", "key": "U"}),
    ("carol~1", "tasks.post", {"name": "T", "key": "T"}),
    ("carol~1", "tasks.post", {"name": "W1", "key": "W1", "after": ["V"]}),
    ("carol~1", "tasks.post", {"name": "W2", "key": "W2", "after": ["V"]}),
    ("carol~1", "tasks.post", {"name": "W3", "key": "W3", "after": ["V", "U"]}),
    ("carol~1", "tasks.post", {"name": "W4", "key": "W4", "after": ["U", "T"]}),
    ("alice~1", "tasks.claim", {"ref": "U", "lease": LEASE}),
    ("alice~1", "tasks.claim", {"ref": "T", "lease": LEASE}),
    ("carol~1", "tasks.claim", {"ref": "V"}),
    ("carol~1", "tasks.complete", {"ref": "V"}),
    ("zoe~1", "tasks.claim", {"ref": "W1", "lease": LONG}),
    # Z is cancelled, and Y1 to Y3 come after it; X comes after Y2, and Y3 runs anyway.
    ("carol~1", "tasks.post", {"name": "Z", "key": "Z"}),
    ("carol~1", "tasks.post", {"name": "Y1", "key": "Y1", "after": ["Z"]}),
    ("carol~1", "tasks.post", {"name": "Y2", "key": "Y2", "after": ["Z"]}),
    ("carol~1", "tasks.post", {"name": "Y3", "key": "Y3", "after": ["Z"], "run_anyway": True, "queue": "last"}),
    ("carol~1", "tasks.post", {"name": "X", "key": "X", "after": ["Y2"]}),
    ("carol~1", "tasks.cancel", {"ref": "Z"}),
    ("carol~1", "now", {}),
    ("carol~1", "tasks.post", {"name": "news", "kind": "decision"}),
]
"""A set-up in which whoever ended V and Z has died: of those that come after them, only W1 and Y1 were told."""
_PROCESS = {"host": "h", "boot": "b", "pid": 1, "started": 1}
PLACE = NOW - AGE
"""The number of zoe's place in line."""


def filled(what: str, how: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a call with what every session needs."""
    more: dict[str, Any] = {}
    if what == "sessions.begin":
        more = {"command": ["x"], "lease": LEASE, **_PROCESS}
    elif what == "sessions.adopt":
        more = {"lease": LEASE, **_PROCESS}
    return {**more, **how}


def units(calls: Sequence[Call]) -> Sequence[Call]:
    """The calls of a script, those of a group one by one."""
    name, params, _ = calls[0]
    return params["calls"] if name in GROUPS else calls


class World:
    """A board with the set-up on it, three clients, and a scheduler."""

    def __init__(self, server: Server, setup: Sequence[tuple[str, str, dict[str, Any]]] = SETUP) -> None:
        self.server, self.address, self._setup = server, server.address(), setup
        self.clock = Clock()
        self.raw: psycopg.Connection[Any] = psycopg.connect(self.address, autocommit=True, options=WRITES)
        self.bystander: psycopg.Connection[Any] = psycopg.connect(self.address, options=WRITES)
        self._set_up()
        agents = ("bob~1", "eve~1", "fay~1")
        self.clients = [Client(self.address, self.clock, agent, PROJECT) for agent in agents]
        self.scheduler = Scheduler(self.clients, self.raw, self.clock.step)
        self.daemons: dict[tiebreak.Board, GroupingDaemon] = {}
        """For a client's board, the daemon through which its calls go that belong to several callers."""
        self.sweeps = False
        """Whether all that has lapsed is written down at the end of a run."""
        self._runs = 0

    def _set_up(self) -> None:
        self.clock.now = NOW - AGE
        with tiebreak.open(self.address, agent="carol~1", project=PROJECT, clock=self.clock) as board:
            for agent, what, how in self._setup:
                if what == "now":
                    self.clock.now = NOW
                    continue
                given = (
                    {} if what.startswith(("sessions.adopt", "sessions.alive", "sessions.end")) else {"agent": agent}
                )
                board.call(what, {**given, **filled(what, how)})
        # A place in line lasts only 30 seconds.
        self.raw.execute("UPDATE waits SET until = %s", (NOW - AGE + int(LEASE * 1_000_000),))
        self.raw.execute("CREATE SCHEMA saved")
        for table in TABLES:
            self.raw.execute(f"CREATE TABLE saved.{table} AS SELECT * FROM {table}")
        self.numbers = {
            key: number for number, key in self._rows("SELECT number, key FROM tasks WHERE key IS NOT NULL")
        }
        rest = "".join(
            f"; SELECT setval('{name}', {number})"
            for name in _SEQUENCES
            for (number,) in self._rows(f"SELECT last_value FROM {name}")
        )
        tables = "; ".join(f"DELETE FROM {each}; INSERT INTO {each} SELECT * FROM saved.{each}" for each in TABLES)
        board_table = "DELETE FROM board WHERE name = 'probe'"
        self._restore = f"BEGIN; {tables}; {board_table}{rest}; COMMIT"

    def _rows(self, sql: str) -> list[Any]:
        return self.raw.execute(sql).fetchall()

    def restore(self) -> None:
        """Put the set-up back."""
        self.raw.execute(self._restore)
        self.clock.now = NOW
        for client in self.clients:
            _forget_the_last_run(client.engine)
        self._runs += 1
        if self._runs % _TIDY == 0:
            self.raw.execute("VACUUM " + ", ".join(TABLES))

    # ── Running ──────────────────────────────────────────────────────────────────────────────────────

    def interleaved(self, scripts: Sequence[Sequence[Call]], schedule: Schedule) -> tuple[Trace, str]:
        """Run the calls of several clients by a schedule; what happened, and the outcome."""
        self.restore()
        answers: list[list[Any]] = [[] for _ in scripts]
        made = [self.script(calls, found) for calls, found in zip(scripts, answers, strict=True)]
        trace = self.scheduler.run(made, schedule)
        return trace, self._outcome(answers, trace.dead)

    def freely(self, scripts: Sequence[Sequence[Call]], boards: Sequence[tiebreak.Board], step_after: float) -> str:
        """The outcome of the calls of several clients, each as fast as its line allows.

        `step_after`: seconds until the clock is stepped.
        """
        self.restore()
        for board in boards:
            _forget_the_last_run(cast(PostgresEngine, board.engine))
        answers: list[list[Any]] = [[] for _ in scripts]
        made = [self.script(calls, found) for calls, found in zip(scripts, answers, strict=True)]
        stepping = threading.Timer(step_after, self.clock.step)
        stepping.start()
        side_by_side([partial(script, board) for script, board in zip(made, boards, strict=True)])
        stepping.join()
        return self._outcome(answers, frozenset())

    def script(self, calls: Sequence[Call], answers: list[Any]) -> Script:
        """What a client does that makes these calls; its answers, in words that can be compared later."""

        def script(board: tiebreak.Board) -> list[Any]:
            for call in calls:
                answers.append(self._ask(board, call))
            return answers

        return script

    def serial(
        self,
        scripts: Sequence[Sequence[Call]],
        order: Sequence[Turn],
        dead: frozenset[int] = frozenset(),
        locked: tuple[frozenset[tuple[int, int]], tuple[str, ...]] = (frozenset(), ()),
        slow: frozenset[tuple[int, int]] = frozenset(),
    ) -> str:
        """The outcome of calls one after another. Those of a group have turns of their own.

        `locked`: turns, and the tasks that somebody else is changing meanwhile. `slow`: turns of calls that
        have read the clock before it was stepped.
        """
        self.restore()
        answers: list[dict[int, Any]] = [{} for _ in scripts]
        for turn in order:
            if turn is None:
                self.clock.step()
                continue
            client, number = turn
            now = self.clock.now
            with self._locked(locked[1] if turn in locked[0] else ()):
                self.clock.now = NOW if turn in slow else now
                call = units(scripts[client])[number]
                answers[client][number] = self._ask(self.clients[client].board, call)
                self.clock.now = now
        told = [[given[number] for number in sorted(given)] for given in answers]
        together = [[given] if script[0][0] in GROUPS else given for given, script in zip(told, scripts, strict=True)]
        return self._outcome(together, dead)

    def alone(self, calls: Sequence[Call]) -> str:
        """The outcome of the calls of one client."""
        return self.serial([calls], [(0, number) for number in range(len(units(calls)))])

    @contextmanager
    def _locked(self, tasks: tuple[str, ...]) -> Iterator[None]:
        """Somebody else is changing tasks, schedules or deferred work, and gives up as soon as anybody waits."""
        if not tasks:
            yield
            return
        self.bystander.execute("SELECT 1 FROM tasks WHERE key = ANY(%s) FOR UPDATE", (list(tasks),))
        self.bystander.execute("SELECT 1 FROM schedules WHERE name = ANY(%s) FOR UPDATE", (list(tasks),))
        of_them = "SELECT CAST(number AS text) FROM tasks WHERE key = ANY(%s)"
        self.bystander.execute(f"SELECT 1 FROM chores WHERE subject IN ({of_them}) FOR UPDATE", (list(tasks),))
        over = threading.Event()
        watching = threading.Thread(target=self._give_up_when_waited_for, args=(over,), daemon=True)
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()
            self.bystander.rollback()

    def _give_up_when_waited_for(self, over: threading.Event) -> None:
        pid = self.bystander.info.backend_pid
        while not over.wait(0.005):
            if self._rows(f"SELECT 1 FROM pg_locks WHERE NOT granted AND {pid} = ANY(pg_blocking_pids(pid))"):
                self.bystander.rollback()
                return

    def _ask(self, board: tiebreak.Board, call: Call) -> Any:
        name, params, once = call
        try:
            if name == "daemon":
                asks = [partial(self._ask, call=each) for each in params["calls"]]
                return self.daemons[board].ask_together(asks)
            if name == "batch":
                calls = [(each, self._resolved(filled(each, how)), key) for each, how, key in params["calls"]]
                return [each if isinstance(each, TiebreakError) else encode(each) for each in board.batch(calls)]
            return encode(board.call(name, self._resolved(filled(name, params)), once=once))
        except TiebreakError as refusal:
            return refusal

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, Task):
            return self.numbers[value]
        if isinstance(value, dict):
            return {key: self._resolved(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._resolved(each) for each in value]
        return value

    # ── What is compared ─────────────────────────────────────────────────────────────────────────────

    def _outcome(self, answers: Sequence[Sequence[Any]], dead: set[int] | frozenset[int]) -> str:
        if self.sweeps:
            self.clients[-1].board.tasks.sweep(project=None)
        [(rows,)] = self._rows(_ALL)
        seen = Seen(rows, self.clock.now)
        told = [None if i in dead else [seen.answer(each) for each in given] for i, given in enumerate(answers)]
        return json.dumps({"answers": told, **seen.board()}, sort_keys=True, default=str)


def _forget_the_last_run(engine: PostgresEngine) -> None:
    """The numbers of events begin anew with each run, and no refusal is left for the next one."""
    engine._highest_settled = 0
    engine.refusals = type(engine.refusals)("")


_ALL = (
    "SELECT json_build_object("
    + ", ".join(f"'{each}', (SELECT coalesce(json_agg(t), '[]') FROM {each} AS t)" for each in TABLES)
    + ")"
)
_KEYS = {
    "tasks": ("number",),
    "edges": ("task", "after"),
    "chores": ("project", "chore", "subject"),
    "marks": ("project", "key"),
    "queues": ("project", "queue"),
    "outputs": ("task", "epoch", "start"),
    "holds": ("project", "resource", "slot"),
    "pools": ("project", "resource"),
    "messages": ("number",),
    "acks": ("message", "agent"),
    "cursors": ("project", "agent"),
    "agents": ("project", "id"),
    "sessions": ("session",),
    "answers": ("once",),
    "schedules": ("project", "name"),
    "waits": ("project", "agent"),
    "projects": ("name",),
}
"""By what a row is called."""
_VAGUE = {"at", "due", "last", "since", "left", "number", "until", "thread", "event", "events", "message"}
"""Fields of answers of which only counts whether they are zero: times, and numbers of tasks, messages and events."""
_LEFT_OUT = {"ready", "waits_for"}
"""What is read without a lock, as a service: how much is ready in a queue that is paused, and who is in a waiter's way.
Nothing is decided by it. Whoever is named may have left the line or released by the time that the place is written."""
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_SPAN = re.compile(r"\b(\d+(\.\d+)?(ms|s|m|h|d))+\b|\d\d:\d\d(:\d\d)?")
_MADE_UP = re.compile(r".*\n[0-9a-f]{32}$")
"""The key that a client of a daemon gives to each of its writes, so that it can repeat it."""
_QUIET = ("task.refused", "task.fenced", "hold.refused", "hold.fenced")


class Seen:
    """A board as it was found, in words that do not depend on chance."""

    def __init__(self, rows: dict[str, list[dict[str, Any]]], now: int) -> None:
        self._rows, self._now = rows, now
        self._ids: dict[str, str] = {}
        self._tasks: dict[int, str] = {}
        counts: dict[str, int] = {}
        for row in sorted(rows["tasks"], key=lambda row: int(row["number"])):
            name = row["key"] or row["name"]
            counts[name] = counts.get(name, 0) + 1
            label = name if counts[name] == 1 else f"{name}/{counts[name]}"
            self._ids[row["id"]], self._tasks[row["number"]] = label, label
        numbers = sorted(row["number"] for row in rows["messages"])
        self._messages = {number: f"message {rank}" for rank, number in enumerate(numbers, 1)}

    def board(self) -> dict[str, Any]:
        """The rows of every table, and the events."""
        hints = ("events", "stirred")  # the one is told below, the other one decides nothing
        tables = {name: self._table(name, rows) for name, rows in self._rows.items() if name not in hints}
        told: dict[str, list[Any]] = {}
        for row in sorted(self._rows["events"], key=lambda row: int(row["number"])):
            if row["event"] not in _QUIET:
                subject = self._text(row["subject"] or row["event"])
                told.setdefault(subject, []).append([row["event"], row["agent"], row["epoch"], row["state"]])
        for subject, events in told.items():
            if "." in subject:  # no subject: in any order
                told[subject] = sorted(events, key=str)
        return {"tables": tables, "events": told}

    def _table(self, name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
        out = []
        for row in rows:
            if name == "answers" and _MADE_UP.match(row["once"]):
                continue
            shown = {column: self._cell(name, column, value) for column, value in row.items()}
            if name in ("edges", "outputs"):
                shown.update({each: self._tasks.get(row[each], "gone") for each in ("task", "after") if each in row})
            if name == "messages":
                shown["number"], shown["thread"] = (self._messages.get(row[each]) for each in ("number", "thread"))
                shown["task"] = row["task"] and self._tasks.get(row["task"], "gone")
            if name in ("acks", "cursors"):
                shown["message"] = self._messages.get(row["message"])
            if name == "tasks":
                shown["id"] = shown["number"] = self._tasks[row["number"]]
                shown["parent"] = row["parent"] and self._tasks.get(row["parent"], "gone")
            if name == "answers":
                shown["answer"] = bool(row["answer"])
            out.append(shown)
        named: dict[str, list[Any]] = {}
        for shown in out:
            named.setdefault(" ".join(str(shown[each]) for each in _KEYS[name]), []).append(shown)
        return {key: sorted(alike, key=lambda row: json.dumps(row, sort_keys=True)) for key, alike in named.items()}

    def _cell(self, table: str, column: str, value: Any) -> Any:
        if column == "until":
            return value and ("live" if value > self._now else "lapsed")
        if column.endswith("_at") or column == "at":
            return bool(value)
        if table == "waits" and column == "number":
            return "place"
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        text = _ID.sub(lambda found: self._ids.get(found.group(), "id"), text)
        text = re.sub(r"#(\d+)", lambda found: "#" + self._tasks.get(int(found.group(1)), "gone"), text)
        return _SPAN.sub("…", text)

    def answer(self, value: Any, name: str = "") -> Any:
        """An answer in such words."""
        if isinstance(value, TiebreakError):
            return type(value).__name__
        if isinstance(value, dict):
            return {key: self.answer(each, key) for key, each in value.items() if key not in _LEFT_OUT}
        if isinstance(value, list | tuple):
            return [self.answer(each, name) for each in value]
        if name in ("parent", "task") and isinstance(value, int):
            return self._tasks.get(value, "gone")
        if name in _VAGUE or name.endswith("_at"):
            return bool(value)
        return self._text(value) if isinstance(value, str) else value


@cache
def world() -> World:
    """One world for all tests of this process: on a server that forgets at a crash, and sees deadlocks soon."""
    return World(Server(*_SERVER))


@cache
def families() -> World:
    """Another one, with `FAMILIES` on it."""
    with (
        patch.object(deferred_work, "BUDGET", 1),
        patch.object(tiebreak.Board, "_finish_deferred_work", lambda _: None),
    ):
        return World(Server(*_SERVER), FAMILIES)


_SERVER = ("fsync=off", "autovacuum=off", "deadlock_timeout=30ms", "jit=off")
