"""Records which statements each operation sends, by running the sample calls on a SQLite board.

Recorded is the SQL that an operation gives to its transaction, with its named fragments. The engine runs each operation
as always, but the operation gets a transaction that takes notes.
"""

from __future__ import annotations

import copy
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import tiebreak
from tiebreak.errors import TiebreakError
from tiebreak.operations import Operation, every, perform

from .samples import REPEATED, SPAWNED, STORIES, Call, Id, Later, Number, Place

START = 1_800_000_000_000_000
TICK = 1000
"""Microseconds between two calls."""
_EVENT = "INSERT INTO events ("


class Sent(NamedTuple):
    """A statement, and the function that sends it."""

    sql: str
    function: str
    purpose: str
    """The first sentence of the function's docstring; empty if it has none, or if it is the operation itself."""


class Notes:
    """What one operation was seen to do."""

    def __init__(self) -> None:
        self.statements: dict[str, Sent] = {}
        self.scopes: dict[str, set[bool]] = {}
        """The names of its scopes, each with whether it is shared."""
        self.events = False

    def statement(self, sql: str, frame: FrameType | None) -> None:
        """Note a statement. If it is sent for different numbers of rows, only the one for one row is noted."""
        if sql.startswith(_EVENT):
            self.events = True
            return
        smallest = _smallest(sql)
        if smallest not in self.statements:
            self.statements[smallest] = Sent(smallest, *_sender(frame))

    def scope(self, name: str, shared: bool) -> None:
        """Note a scope."""
        self.scopes.setdefault(name.partition("\0")[0], set()).add(shared)


_SUFFIX = re.compile(r"_[a-z]{3}\b")
_MORE_ROWS = re.compile(r"(\((?:, )?(?:(?:, )?:\w+_aaa)+\))(?:, \((?:(?:, )?:\w+_aa[b-z]|(?:, )?:\w+_a[b-z]\w)+\))+")
_MORE_VALUES = re.compile(r"(\(:\w+_aaa)(?:, :\w+_(?!aaa\b)[a-z]{3})+\)")


def _smallest(sql: str) -> str:
    """The statement as it is sent for one row, if its length depends on how many rows are given."""
    sql = _MORE_VALUES.sub(r"\1)", _MORE_ROWS.sub(r"\1", sql))
    arms: list[str] = []
    for arm in sql.split(" UNION ALL "):
        if not arms or _alike(arm) != _alike(arms[-1]):
            arms.append(arm)
    return " UNION ALL ".join(arms)


def _alike(arm: str) -> str:
    return re.sub(r"\b\d+ AS ", "0 AS ", _SUFFIX.sub("_aaa", arm))


def _sender(frame: FrameType | None) -> tuple[str, str]:
    """The name of the function that runs in this frame, and the first sentence of its docstring."""
    while frame is not None and frame.f_code.co_name.startswith("<"):  # a comprehension, which some versions inline
        frame = frame.f_back
    if frame is None:
        return "", ""
    found: Any = None
    for name in frame.f_code.co_qualname.split("."):
        found = frame.f_globals.get(name) if found is None else getattr(found, name, None)
    module = frame.f_globals["__name__"].removeprefix("tiebreak.operations").lstrip(".") or "operations"
    doc = "" if isinstance(found, Operation) or frame.f_code.co_name == "__init__" else getattr(found, "__doc__", "")
    return f"{module}.{frame.f_code.co_qualname}", first_sentence(doc or "")


def first_sentence(doc: str) -> str:
    """The first sentence of a docstring, in one line."""
    return re.split(r"(?<=[.])\s+(?=[A-Z`])", " ".join(doc.split("\n\n", maxsplit=1)[0].split()), maxsplit=1)[0]


class _Noting:
    """A transaction that takes notes. It claims to pass over locked rows, as PostgreSQL's does."""

    skips_locked_rows = True

    def __init__(self, tx: Any, notes: Notes) -> None:
        self._tx, self._notes = tx, notes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    def all(self, sql: str, **params: Any) -> Any:
        self._notes.statement(sql, sys._getframe(1))
        return self._tx.all(sql, **params)

    def first(self, sql: str, **params: Any) -> Any:
        self._notes.statement(sql, sys._getframe(1))
        return self._tx.first(sql, **params)

    def serialize(self, *names: str, shared: bool = False) -> None:
        self._notes.scope(names[0], shared)


class Recorder:
    """Runs sample calls, and keeps notes about each operation."""

    def __init__(self, folder: Path) -> None:
        self._now = START
        self._engine = tiebreak.open(folder / "board.db", agent="alice~1", project="demo", clock=self._clock).engine
        self._operations = every()
        self._places: dict[str, int] = {}
        self.notes: dict[str, Notes] = {name: Notes() for name in self._operations}

    def _clock(self) -> int:
        return self._now

    def close(self) -> None:
        """Close the board."""
        self._engine.close()

    def run(self, project: str, calls: Iterable[Call | Later], around: Notes | None = None) -> None:
        """Run the calls of a story. With `around`, what is sent around the operations is noted there as well."""
        for each in calls:
            self._now += TICK
            if isinstance(each, Later):
                self._now += int(each.seconds * 1_000_000)
                continue
            operation = self._operations[each.name]
            given = {name: self._resolved(value, name, project) for name, value in each.params.items()}
            own = {"agent": each.by, "project": project}
            params = {**{name: value for name, value in own.items() if operation.defaults.get(name) == ""}, **given}
            noting = self._noting(operation, each.once, around)
            for name, shared in operation.scopes(operation.checked(params)):
                self.notes[each.name].scope(name, shared)
            try:
                if each.times > 1:
                    self._engine.batch([(noting, params, None)] * each.times)
                    continue
                answer = self._engine.run(noting, params)
            except TiebreakError as refusal:
                if not each.refused:
                    raise AssertionError(f"{project}: {each} was refused: {refusal}") from refusal
                continue
            if each.refused:
                raise AssertionError(f"{project}: {each} should have been refused")
            if each.name == "waits.enter":
                self._places[each.by.partition("~")[0]] = answer.number

    def _noting(self, operation: Operation[..., Any], once: str | None, around: Notes | None) -> Operation[..., Any]:
        """The operation, run with a transaction that takes notes."""
        noting, notes, precheck = copy.copy(operation), self.notes[operation.name], operation.precheck
        noting.function = lambda tx, **params: operation.function(_Noting(tx, notes), **params)
        if precheck is not None:
            noting.precheck = lambda tx, **params: precheck(_Noting(tx, notes), **params)
        if around is None:
            return noting
        outer = copy.copy(operation)
        outer.function = lambda tx, **params: perform(_Noting(tx, around), noting, params, once)
        return outer

    def _resolved(self, value: Any, name: str, project: str) -> Any:
        """A value of the samples, with each placeholder (`Number`, `Id`, `Place`) replaced by what it stands for."""
        if isinstance(value, list):
            return [self._resolved(each, name, project) for each in value]
        if isinstance(value, dict):
            return {key: self._resolved(each, key, project) for key, each in value.items()}
        if isinstance(value, Place):
            return self._places[value]
        if isinstance(value, Number | Id):
            task = self._engine.run(self._operations["tasks.get"], {"ref": str(value), "project": project})
            return task.id if isinstance(value, Id) else f"#{task.number}" if name == "ref" else task.number
        return value


def recorded() -> tuple[dict[str, Notes], dict[str, Notes]]:
    """The notes about each operation, and those about what is sent around operations."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder))
        around = {"once": Notes(), "spawned": Notes()}
        try:
            recorder.run("once", REPEATED, around["once"])
            recorder.run("spawned", SPAWNED, around["spawned"])
            for project, calls in STORIES.items():
                recorder.run(project, calls)
        finally:
            recorder.close()
        return recorder.notes, around
