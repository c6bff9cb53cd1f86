"""The hub: everybody who waits for something to happen, and the one thread that looks for all of them.

A waiter registers first and looks afterwards, so what happens in between is seen by the hub's next look. The hub
sleeps in the engine's own `wait`, which is woken by commits of any process; then it asks each waiter's question
anew. A question is an operation with its filters, so the server, not the client, decides what matches, by the same
SQL as everywhere. While nobody waits nothing runs, and a waiter that sleeps costs nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from threading import Condition, Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from ..errors import TiebreakError, Unavailable
from ..operations import find
from .routes import Problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Executor

    from ..engine.protocol import Engine

MOST_FOR_A_CLIENT = 32
MOST_IN_ALL = 4096
NAP = 5.0
LONGEST_REST = 0.05


class Question:
    """What a waiter wants to know; an empty answer means: not yet. Equal keys have equal answers."""

    __slots__ = ("ask", "future", "key")

    def __init__(self, ask: Callable[[], Any], key: Any) -> None:
        self.ask = ask
        self.key = key
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class Hub:
    """The waiters of a daemon."""

    def __init__(self, engine: Engine, threads: Executor) -> None:
        self._engine = engine
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._questions: set[Question] = set()
        self._changed = Condition()
        self._clients: Counter[str] = Counter()
        self._last = find("events.last")
        self._ended = False
        self._thread: Thread | None = None

    def __len__(self) -> int:
        return self._clients.total()

    def place(self, client: str) -> contextlib.AbstractContextManager[None]:
        """A place among those who wait, for as long as the context lasts; `Problem` 429 when there is none."""
        if self._clients[client] >= MOST_FOR_A_CLIENT:
            raise _too_many(f"this client has {MOST_FOR_A_CLIENT} open waits already")
        if len(self) >= MOST_IN_ALL:
            raise _too_many(f"{MOST_IN_ALL} waits are open already")
        return self._seated(client)

    @contextlib.contextmanager
    def _seated(self, client: str) -> Any:
        self._clients[client] += 1
        try:
            yield
        finally:
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]

    async def wait(
        self, ask: Callable[[], Any], key: Any, timeout: float, gone: Callable[[], Awaitable[None]] | None = None
    ) -> Any:
        """The first answer that is not empty; the last, empty one when time is up, the client gone or the end near."""
        question = Question(ask, key)
        with self._changed:
            self._questions.add(question)
            self._changed.notify()
        if self._thread is None:
            self._thread = Thread(target=self._watch, name="tiebreak-hub", daemon=True)
            self._thread.start()
        left = asyncio.ensure_future(gone()) if gone is not None else None
        try:
            answer = await self._loop.run_in_executor(self._threads, ask)
            if answer or self._ended:
                return answer
            awaited = {question.future} if left is None else {question.future, left}
            await asyncio.wait(awaited, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            return question.future.result() if question.future.done() else answer
        finally:
            self._forget(question)
            if left is not None:
                left.cancel()

    def _forget(self, question: Question) -> None:
        with self._changed:
            self._questions.discard(question)
        if question.future.done() and not question.future.cancelled():
            question.future.exception()  # seen, whether or not anybody asks
        question.future.cancel()

    def end(self) -> None:
        """Send everybody away with an empty answer."""
        self._ended = True
        with self._changed:
            questions = list(self._questions)
            self._changed.notify()
        for question in questions:
            _give(question, [])

    # ── In the hub's own thread ──────────────────────────────────────────────────────────────────────

    def _watch(self) -> None:
        seen = 0
        while not self._ended:
            with self._changed:
                self._changed.wait_for(lambda: self._questions or self._ended)
            try:
                if self._engine.wait(seen, NAP):
                    began = monotonic()
                    seen = self._look()
                    sleep(min(LONGEST_REST, monotonic() - began))  # looking takes at most half of the time
            except TiebreakError as exc:
                self._tell_all(exc)
                seen = 0

    def _look(self) -> int:
        """Ask all questions; the number that was the newest before the first of them."""
        newest: int = self._engine.run(self._last, {})
        answers: dict[Any, Any] = {}
        with self._changed:
            questions = list(self._questions)
        for question in questions:
            if question.key not in answers:
                try:
                    answers[question.key] = question.ask()
                except TiebreakError as exc:
                    answers[question.key] = exc
            if answers[question.key]:
                self._tell(question, answers[question.key])
        return newest

    def _tell_all(self, problem: TiebreakError) -> None:
        """The board cannot be read: whoever waits learns it."""
        with self._changed:
            questions, self._questions = list(self._questions), set()
        for question in questions:
            self._tell(question, problem)

    def _tell(self, question: Question, answer: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(_give, question, answer)


def _give(question: Question, answer: Any) -> None:
    if question.future.done():
        return
    if isinstance(answer, BaseException):
        question.future.set_exception(answer)
    else:
        question.future.set_result(answer)


def _too_many(what: str) -> Problem:
    return Problem(429, Unavailable(what, hint="close one, or try again later"), (b"retry-after", b"1"))
