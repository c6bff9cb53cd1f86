"""The board for asyncio: the same board, its calls made in threads.

    board = await tiebreak.aio.open()
    await board.tasks.post(name="fix the login bug", key="login-bug")
    async with await board.claim("login-bug") as claim:
        ...

This module has no rules of its own: every call runs the call of the same name on `Board`, `Claim` or `Holding` in a
thread. It adds only what asyncio needs. If a task is cancelled while it wins something, the grant is given back, and
a wait ends soon after its task is cancelled.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from . import board as sync
from .errors import Refused, TiebreakError, TimedOut, Unavailable
from .groups import awaited
from .handles import Grant
from .limits import MAX_LIMIT
from .names import seconds
from .operations import MODULES

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable

    from .board import Board
    from .handles import Claim, Holding
    from .model import Event

P = ParamSpec("P")
R = TypeVar("R")
G = TypeVar("G", bound=Grant)

THREADS = 64
SHORT_WAIT = 1.0
"""Seconds that a thread waits at once, and then again: a cancelled task blocks its thread no longer than this."""


async def open(
    address: str | os.PathLike[str] | None = None, *, agent: str | None = None, project: str | None = None
) -> AsyncBoard:
    """Open a board; the same as `tiebreak.open`."""
    return AsyncBoard(await asyncio.to_thread(sync.open, address, agent=agent, project=project))


class AsyncBoard:
    """A board whose operations are awaited. `board.sync` is the board itself."""

    def __init__(self, board: Board, threads: ThreadPoolExecutor | None = None) -> None:
        self.sync = board
        self._threads = threads or ThreadPoolExecutor(THREADS, thread_name_prefix="tiebreak")
        self._winning: set[Future[Any]] = set()
        self._closed = False

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call anything of the board in a thread: `await board.run(board.sync.tasks.get, ref="#1")`."""
        return await asyncio.shield(asyncio.wrap_future(self._start(lambda: function(*args, **kwargs))))

    def _start(self, function: Callable[[], R]) -> Future[R]:
        if self._closed:
            raise Unavailable("the board is closed here")
        return self._threads.submit(function)

    if TYPE_CHECKING:
        tasks: awaited.AsyncTasks
        jobs: awaited.AsyncJobs
        questions: awaited.AsyncQuestions
        queues: awaited.AsyncQueues
        holds: awaited.AsyncHolds
        waits: awaited.AsyncWaits
        messages: awaited.AsyncMessages
        agents: awaited.AsyncAgents
        sessions: awaited.AsyncSessions
        events: awaited.AsyncEvents
        schedules: awaited.AsyncSchedules
        projects: awaited.AsyncProjects
        overview: awaited.AsyncOverview
        upkeep: awaited.AsyncUpkeep
    else:

        def __getattr__(self, name):
            """A group of operations, made when it is first used."""
            if name not in MODULES:
                raise AttributeError(f"AsyncBoard has no attribute {name!r}; perhaps board.sync has")
            made = getattr(awaited, f"Async{name.capitalize()}")
            group = self.__dict__[name] = made(self, getattr(self.sync, name))
            return group

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *MODULES})

    async def claim(self, ref: str | int, **options: Any) -> AsyncGrant[Claim]:
        """Win a task; raises `Lost`."""
        return AsyncGrant(self, await self._try_until_won(partial(self.sync.claim, ref), options))

    async def next(self, **options: Any) -> list[AsyncGrant[Claim]]:
        """Win the next ready tasks; an empty list when there are none."""
        wait = options.pop("wait", 0.0)
        end = monotonic() + seconds(wait, "wait")
        while True:
            left = max(0.0, end - monotonic())
            won = await self._win(partial(self.sync.next, wait=min(left, SHORT_WAIT), **options))
            if won or left <= 0:
                return [AsyncGrant(self, claim) for claim in won]

    async def hold(self, *resources: str, **options: Any) -> AsyncGrant[Holding]:
        """Take resources, all or none; raises `Lost`."""
        line = self.sync.in_line(*resources, note=options.get("note"))
        try:
            return AsyncGrant(self, await self._try_until_won(partial(self.sync.hold, *resources, line=line), options))
        except BaseException:
            leaving = self._threads.submit(line.leave)
            self._winning.add(leaving)  # closing waits for it
            leaving.add_done_callback(self._winning.discard)
            raise

    async def _try_until_won(self, attempt: Callable[..., G], options: dict[str, Any]) -> G:
        """Try in short waits, so that a thread never waits long on behalf of a cancelled task."""
        wait = options.pop("wait", 0.0)
        end = monotonic() + seconds(wait, "wait")
        while True:
            left = max(0.0, end - monotonic())
            try:
                [won] = await self._win(partial(_listed, partial(attempt, wait=min(left, SHORT_WAIT), **options)))
                return won
            except Refused as refusal:
                if left <= 0 or not sync.may_change(refusal):
                    raise

    async def _win(self, attempt: Callable[[], list[G]]) -> list[G]:
        """Run an attempt to win. If the task is cancelled meanwhile, what the attempt wins is given back."""
        started = self._start(attempt)
        self._winning.add(started)
        started.add_done_callback(self._winning.discard)
        answer = asyncio.wrap_future(started)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            # Read its exception, or asyncio would warn that nobody did.
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._afterwards(started, _give_back)
            raise

    def _afterwards(self, started: Future[R], undo: Callable[[R], None]) -> None:
        """Undo what a cancelled task has started, as soon as it is done; `close` waits for that."""

        def then() -> None:
            if started.exception() is None:
                undo(started.result())

        undone = self._threads.submit(then)
        self._winning.add(undone)
        undone.add_done_callback(self._winning.discard)

    async def ask(self, text: str, *, wait: float | str | None = None, **options: Any) -> str:
        """Ask a person, and wait for the answer; raises `TimedOut` if none came in time."""
        asked = await self.questions.ask(text, **options)
        return await self.answer_to(asked.number, wait=wait)

    async def answer_to(self, ref: str | int, *, wait: float | str | None = None) -> str:
        """The answer to a question; raises `TimedOut` if none came in time."""
        end = None if wait is None else monotonic() + seconds(wait, "wait")
        while True:
            left = SHORT_WAIT if end is None else max(0.0, min(SHORT_WAIT, end - monotonic()))
            try:
                return await self.run(partial(self.sync.answer_to, ref, wait=left))
            except TimedOut:
                if end is not None and monotonic() >= end:
                    raise

    async def wait(self, *, timeout: float | str | None = None, **options: Any) -> Event:
        """The next event that matches; raises `TimedOut`."""
        async for event in self.follow(timeout=timeout, **options):
            return event
        raise TimedOut(f"nothing matched within {timeout}")

    async def follow(
        self, *, after: int | None = None, timeout: float | str | None = None, **filters: Any
    ) -> AsyncIterator[Event]:
        """Yield every matching event after a number, as they happen."""
        end = None if timeout is None else monotonic() + seconds(timeout, "timeout")
        seen = await self.run(self.sync.events.last) if after is None else after
        while True:
            left = SHORT_WAIT if end is None else min(SHORT_WAIT, max(0.0, end - monotonic()))
            newest = await self.run(self.sync.events.last)
            found = await self.run(_next_events, self.sync, seen, left, filters)
            for event in found:
                yield event
            seen = found[-1].number if found else max(seen, newest)
            if end is not None and monotonic() >= end and not found:
                return

    async def close(self) -> None:
        """Close the board after the grants of cancelled tasks have been given back; waiting calls end."""
        if self._closed:
            return
        self._closed = True
        while self._winning:
            await asyncio.to_thread(wait_for, list(self._winning), SHORT_WAIT)
        await asyncio.to_thread(self.sync.close)
        await asyncio.to_thread(self._threads.shutdown)

    async def __aenter__(self) -> AsyncBoard:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _next_events(board: Board, seen: int, nap: float, filters: dict[str, Any]) -> list[Event]:
    """The events that are there now, or that come within `nap` seconds."""
    for event in board.follow(after=seen, timeout=nap, **filters):
        more = board.events.read(after=event.number, limit=MAX_LIMIT, **filters)
        return [event, *more]
    return []


def _listed(attempt: Callable[[], G]) -> list[G]:
    return [attempt()]


def _give_back(grants: list[G]) -> None:
    for grant in grants:
        _release(grant)


def _release(grant: Grant) -> None:
    try:
        grant.leave()
    except TiebreakError:
        pass  # it ran out or was taken away: nothing is left to give back


class AsyncGrant(Generic[G]):
    """A claim or a holding whose methods are awaited; as an async context manager it renews itself."""

    def __init__(self, board: AsyncBoard, grant: G) -> None:
        self._board = board
        self.sync = grant

    @property
    def epoch(self) -> int:
        """The epoch of the grant."""
        return self.sync.epoch

    def check(self) -> None:
        """Raise `Fenced` if the grant is lost, as far as this process knows."""
        self.sync.check()

    def __getattr__(self, name: str) -> Any:
        """Fields are read directly; methods have to be awaited."""
        value = getattr(self.sync, name)
        if not callable(value):
            return value
        return lambda *args, **kwargs: self._board.run(value, *args, **kwargs)

    async def __aenter__(self) -> AsyncGrant[G]:
        started = self._board._start(self.sync.__enter__)
        try:
            await asyncio.shield(asyncio.wrap_future(started))
        except asyncio.CancelledError:
            self._board._afterwards(started, _release)  # the block was never entered
            raise
        return self

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        await self._board.run(self.sync.__exit__, kind, error, trace)
