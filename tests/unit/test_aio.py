"""The board for asyncio: the same answers, a loop that is not blocked, and no grant kept for a cancelled task."""

from __future__ import annotations

import asyncio
import fcntl
import functools
import gc
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, assert_type

import pytest

import tiebreak
from tiebreak import Board, Claim, Event, Fenced, Holding, Invalid, Lost, NotFound, Task, TimedOut, Unavailable, aio
from tiebreak.aio import AsyncBoard, AsyncGrant

LONG = 90.0
"""Seconds within which anything that is going to happen has happened, also on a busy machine."""
SOON = 60.0
"""What must not take as long as the patience of those who wait."""


def awaited(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 2 * LONG))

    return run


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "board.db")


@pytest.fixture
def bob(path: str) -> Iterator[Board]:
    """Another agent, without asyncio."""
    with tiebreak.open(path, agent="bob~1", project="demo") as board:
        yield board


def open_board(path: str) -> Awaitable[AsyncBoard]:
    return aio.open(path, agent="alice~1", project="demo")


class Checkpoint:
    """A place in the board's threads at which a test can stop them."""

    def __init__(self, board: AsyncBoard, method: str) -> None:
        self._engine: Any = board.sync.engine
        self._real = getattr(self._engine, method)
        self._reached = threading.Semaphore(0)
        self._go_on = threading.Event()
        self.inside = 0
        setattr(self._engine, method, self._pass)

    def _pass(self, *args: Any, **kwargs: Any) -> Any:
        self.inside += 1
        self._reached.release()
        self._go_on.wait(LONG)
        try:
            return self._real(*args, **kwargs)
        finally:
            self.inside -= 1

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.acquire, timeout=LONG)

    def go_on(self) -> None:
        self._go_on.set()


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def soon(condition: Callable[[], bool], within: float = LONG) -> bool:
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.005)
    return True


# ── The same as without asyncio ──────────────────────────────────────────────────────────────────────────


@awaited
async def test_answers_are_those_of_the_board_itself(path: str) -> None:
    async with await open_board(path) as board:
        posted = await board.tasks.post(name="work", key="work", tags=["a"], payload={"a": 1})
        assert posted == board.sync.tasks.get(ref="work")
        assert await board.tasks.list() == board.sync.tasks.list() == [posted]
        assert await board.events.last() == board.sync.events.last() == 1
        assert await board.upkeep.status(project=None)
        assert (await board.holds.take(resources=["lock:x"]))[0].holder == "alice"
        assert (await board.agents.announce(doing="testing")).doing == "testing"
        assert (await board.messages.send(body="hello")).sender == "alice"


@awaited
async def test_errors_are_those_of_the_board_itself(path: str, bob: Board) -> None:
    bob.tasks.claim(ref="work")
    bob.holds.take(resources=["lock:x"])
    async with await open_board(path) as board:
        for call in (board.claim("work"), board.tasks.claim(ref="work"), board.hold("lock:x")):
            with pytest.raises(Lost) as refusal:
                await call
            assert (refusal.value.holder, refusal.value.epoch) == ("bob", 1)
        with pytest.raises(NotFound):
            await board.tasks.get(ref="#99")
        with pytest.raises(Invalid, match="unknown parameter"):
            await board.tasks.list(colour="red")  # type: ignore[call-arg]
        with pytest.raises(Invalid, match="name"):
            await board.tasks.post(name="")


@awaited
async def test_a_missing_name_is_no_attribute(path: str) -> None:
    async with await open_board(path) as board:
        with pytest.raises(AttributeError, match="nothing"):
            board.nothing  # type: ignore[attr-defined]  # noqa: B018
        with pytest.raises(AttributeError, match=r"board\.sync"):
            board.agent  # type: ignore[attr-defined]  # noqa: B018
        with pytest.raises(AttributeError, match="nothing"):
            board.tasks.nothing  # type: ignore[attr-defined]  # noqa: B018
        assert {"tasks", "holds", "claim", "run"} <= set(dir(board))
        assert inspect.iscoroutinefunction(board.tasks.claim)
        assert str(inspect.signature(board.tasks.claim)) == str(inspect.signature(board.sync.tasks.claim))
        assert (await board.tasks.claim("by-position")).key == "by-position"


@awaited
async def test_a_call_keeps_its_type(path: str) -> None:
    async with await open_board(path) as board:
        posted = await board.run(board.sync.tasks.post, name="work")
        assert_type(posted, Task)
        listed = await board.run(board.sync.tasks.list, limit=5)
        assert_type(listed, list[Task])
        assert listed == [posted]
        assert_type(await board.claim("work"), AsyncGrant[Claim])
        assert_type(await board.hold("lock:x"), AsyncGrant[Holding])
        with pytest.raises(NotFound):
            await board.run(board.sync.tasks.get, ref="#99")


# ── Blocks ───────────────────────────────────────────────────────────────────────────────────────────────


@awaited
async def test_a_claim_completes_at_the_end_of_its_block(path: str) -> None:
    async with await open_board(path) as board:
        async with await board.claim("work") as claim:
            assert (claim.task.state, claim.epoch) == ("claimed", 1)
            claim.check()
        assert (await board.tasks.get(ref="work")).state == "completed"


@awaited
async def test_an_exception_fails_the_claim_and_goes_on(path: str) -> None:
    async with await open_board(path) as board:
        with pytest.raises(ZeroDivisionError):
            async with await board.claim("work"):
                raise ZeroDivisionError("by nothing")
        task = await board.tasks.get(ref="work")
        assert task.attempts == 1
        assert "by nothing" in ((await board.events.read(event="task"))[-1].note or "")


@awaited
async def test_a_claim_can_be_ended_inside_its_block(path: str) -> None:
    async with await open_board(path) as board:
        async with await board.claim("work") as claim:
            await claim.complete({"answer": 42})
        assert (await board.tasks.get(ref="work")).result == {"answer": 42}
        async with await board.claim("other") as claim:
            await claim.release("later")
        assert (await board.tasks.get(ref="other")).state == "pending"


@awaited
async def test_a_cancelled_block_gives_the_task_back_without_using_the_attempt_up(path: str, bob: Board) -> None:
    async with await open_board(path) as board:
        inside = asyncio.Event()

        async def work() -> None:
            async with await board.claim("work"):
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await inside.wait()
        await cancelled(task)
        found = bob.tasks.get(ref="work")
        assert (found.state, found.attempts) == ("pending", 0)


@pytest.mark.parametrize("error", [None, ZeroDivisionError, asyncio.CancelledError])
@awaited
async def test_a_holding_is_given_back_however_its_block_ends(
    path: str, bob: Board, error: type[BaseException] | None
) -> None:
    async with await open_board(path) as board:
        try:
            async with await board.hold("lock:x", "lock:y") as holding:
                assert [hold.resource for hold in holding.holds] == ["lock:x", "lock:y"]
                assert len(bob.holds.list()) == 2
                if error is not None:
                    raise error
        except (ZeroDivisionError, asyncio.CancelledError) as exc:
            assert type(exc) is error  # noqa: PT017
        assert bob.holds.list() == []


@awaited
async def test_a_lost_grant_is_reported(path: str, bob: Board) -> None:
    async with await open_board(path) as board:
        grant = await board.hold("lock:x")
        bob.call("holds.break", {"resource": "lock:x", "reason": "stuck"})
        with pytest.raises(Fenced):
            await grant.renew()
        with pytest.raises(Fenced):
            async with grant:
                pass
        assert await grant.left() > 0


@awaited
async def test_a_grant_renews_itself_while_its_block_lasts(path: str, bob: Board) -> None:
    async with await open_board(path) as board:
        async with await board.hold("lock:x", lease=6.0):
            event = await asyncio.to_thread(bob.wait, after=1, event="hold", timeout=LONG)
            assert event.event == "hold.renewed"
        assert bob.holds.list() == []


# ── Cancelled while winning ──────────────────────────────────────────────────────────────────────────────


def claim(board: AsyncBoard) -> Awaitable[Any]:
    return board.claim("work")


def claim_next(board: AsyncBoard) -> Awaitable[Any]:
    return board.next(count=3)


def hold(board: AsyncBoard) -> Awaitable[Any]:
    return board.hold("lock:x", "lock:y")


WAYS = pytest.mark.parametrize("way", [claim, claim_next, hold], ids=lambda way: way.__name__)


def held(board: Board) -> list[Any]:
    return [*board.tasks.list(states=["claimed"]), *board.holds.list()]


def won(board: Board) -> int:
    """How much was ever won."""
    return len(board.events.read(event="task.claimed")) + len(board.events.read(event="hold.taken"))


@WAYS
@awaited
async def test_a_grant_for_a_cancelled_task_is_released(
    path: str, bob: Board, way: Callable[[AsyncBoard], Awaitable[Any]]
) -> None:
    for number in range(3):
        bob.tasks.post(name=f"task {number}")
    async with await open_board(path) as board:
        at_the_door = Checkpoint(board, "_write")
        task = asyncio.ensure_future(way(board))
        await at_the_door.reached()
        await cancelled(task)
        at_the_door.go_on()
        assert await soon(lambda: won(bob) > 0 and held(bob) == [])
        assert {task.attempts for task in bob.tasks.list()} == {0}


@pytest.mark.parametrize("hops", range(4))
@awaited
async def test_a_task_that_is_cancelled_in_the_very_moment_of_its_win_has_it_or_gives_it_back(
    path: str, bob: Board, hops: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    async with await open_board(path) as board:
        start: Any = board._start

        def later(hops: int) -> None:
            if hops:
                loop.call_soon(later, hops - 1)
            else:
                task.cancel()

        def started(*args: Any) -> Any:
            future = start(*args)
            future.add_done_callback(lambda _: later(hops))
            return future

        with monkeypatch.context() as patch:
            patch.setattr(board, "_start", started)
            task = asyncio.ensure_future(hold(board))
            await asyncio.wait([task])
        if task.cancelled():
            assert await soon(lambda: won(bob) == 2 and held(bob) == [])
        else:
            assert len(held(bob)) == len(task.result().holds) == 2


@WAYS
@awaited
async def test_a_cancelled_task_that_wins_nothing_gives_nothing_back(
    path: str, bob: Board, way: Callable[[AsyncBoard], Awaitable[Any]]
) -> None:
    bob.tasks.claim(ref="work")
    bob.holds.take(resources=["lock:x"])
    wrong: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
    async with await open_board(path) as board:
        at_the_door = Checkpoint(board, "run")
        task = asyncio.ensure_future(way(board))
        await at_the_door.reached()
        await cancelled(task)
        at_the_door.go_on()
        await board.tasks.list()
    gc.collect()
    assert len(held(bob)) == 2
    assert wrong == []


@awaited
async def test_a_task_that_is_cancelled_at_the_entrance_of_its_block_gives_back(path: str, bob: Board) -> None:
    """`async with await board.hold(…)`: won, but the block was never entered, so nobody would end it."""
    async with await open_board(path) as board:
        grant = await board.hold("lock:x", lease=60.0)
        entered, go_on = threading.Event(), threading.Event()

        def enter() -> Holding:
            entered.set()
            go_on.wait(LONG)
            return Holding.__enter__(grant.sync)

        grant.sync.__enter__ = enter  # type: ignore[method-assign]

        async def work() -> None:
            async with grant:
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await asyncio.to_thread(entered.wait, LONG)
        await cancelled(task)
        go_on.set()
        try:
            assert await soon(lambda: bob.holds.list() == [], SOON)
            assert await soon(lambda: not any("renew" in thread.name for thread in threading.enumerate()), SOON)
        finally:
            if grant.sync._renewer is not None:
                grant.sync._renewer.stop()


@awaited
async def test_a_grant_for_a_cancelled_task_is_released_before_the_board_is_closed(path: str, bob: Board) -> None:
    wrong: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
    board = await open_board(path)
    at_the_door = Checkpoint(board, "_transact")
    task = asyncio.ensure_future(hold(board))
    await at_the_door.reached()
    await cancelled(task)
    closing = asyncio.create_task(board.close())
    await soon(lambda: bool(board.sync.engine._closed), 0.1)  # type: ignore[attr-defined]
    at_the_door.go_on()
    await closing
    assert await soon(lambda: won(bob) > 0 and held(bob) == [], SOON)
    assert wrong == []


def test_a_grant_after_the_end_of_the_loop_is_released(path: str, bob: Board) -> None:
    """The end of `asyncio.run` cancels what is still going on."""
    made: list[Any] = []

    async def main() -> None:
        board = await open_board(path)
        made.append(Checkpoint(board, "_write"))
        task = asyncio.ensure_future(hold(board))
        await made[0].reached()
        await cancelled(task)

    asyncio.run(main())
    made[0].go_on()
    assert asyncio.run(soon(lambda: won(bob) > 0 and held(bob) == [], SOON))


@awaited
async def test_a_write_that_is_under_way_is_done_though_its_task_is_cancelled(path: str, bob: Board) -> None:
    async with await open_board(path) as board:
        at_the_door = Checkpoint(board, "_write")
        task = asyncio.ensure_future(board.tasks.post(name="work"))
        await at_the_door.reached()
        await cancelled(task)
        at_the_door.go_on()
        assert await soon(lambda: len(bob.tasks.list()) == 1)


# ── Cancelled while waiting ──────────────────────────────────────────────────────────────────────────────


def wait_for_claim(board: AsyncBoard) -> Awaitable[Any]:
    return board.claim("work", wait=LONG)


def wait_for_next(board: AsyncBoard) -> Awaitable[Any]:
    return board.next(wait=LONG)


def wait_for_hold(board: AsyncBoard) -> Awaitable[Any]:
    return board.hold("lock:x", wait=LONG)


def wait_for_event(board: AsyncBoard) -> Awaitable[Any]:
    return board.wait(event="agent", timeout=LONG)


@pytest.mark.parametrize(
    "way", [wait_for_claim, wait_for_next, wait_for_hold, wait_for_event], ids=lambda way: way.__name__
)
@awaited
async def test_waiting_ends_soon_after_its_task_is_cancelled(
    path: str, bob: Board, way: Callable[[AsyncBoard], Awaitable[Any]]
) -> None:
    taken = bob.tasks.claim(ref="work")
    bob.holds.take(resources=["lock:x"])
    async with await open_board(path) as board:
        asleep = Checkpoint(board, "wait")
        asleep.go_on()
        task = asyncio.ensure_future(way(board))
        await asleep.reached()
        await cancelled(task)
        try:
            assert await soon(lambda: asleep.inside == 0, SOON), "a thread waits on for nobody"
        finally:
            bob.tasks.release(ref="work", epoch=taken.epoch)
            bob.holds.release(resources=["lock:x"])
        assert await soon(lambda: held(bob) == [])


# ── Events ───────────────────────────────────────────────────────────────────────────────────────────────


@awaited
async def test_following_misses_none_of_three_hundred_events_and_repeats_none(path: str) -> None:
    async with await open_board(path) as board, await open_board(path) as other:
        seen: list[Event] = []
        following = asyncio.Event()

        async def follow() -> None:
            after = await board.events.last()
            following.set()
            async for event in board.follow(after=after, event="task.posted", timeout=LONG):
                seen.append(event)
                if len(seen) == 300:
                    return

        async def post(poster: AsyncBoard, first: int) -> None:
            for number in range(first, first + 75):
                await poster.tasks.post(name=f"task {number}")
                if number % 10 == 0:
                    await poster.agents.announce(doing=f"{number}")

        reader = asyncio.create_task(follow())
        await following.wait()
        await asyncio.gather(*(post(poster, 75 * i) for i, poster in enumerate((board, other, board, other))))
        await reader
        assert sorted(event.name or "" for event in seen) == sorted(f"task {number}" for number in range(300))
        numbers = [event.number for event in seen]
        assert numbers == sorted(set(numbers))


@awaited
async def test_following_reads_on_behind_a_long_backlog(path: str, bob: Board) -> None:
    for _ in range(5):
        bob.batch([("tasks.post", {"name": "old"})] * 500)
    async with await open_board(path) as board:
        numbers = [event.number async for event in board.follow(after=0, timeout=0.01)]
        assert numbers == list(range(1, 2501))


@awaited
async def test_events_that_do_not_match_are_not_read_again(path: str, bob: Board) -> None:
    async with await open_board(path) as board:
        asleep = Checkpoint(board, "wait")
        asleep.go_on()
        task = asyncio.create_task(board.wait(event="agent", timeout=LONG))
        await asleep.reached()
        for number in range(20):
            bob.tasks.post(name=f"noise {number}")
        bob.agents.announce(doing="hello")
        assert (await task).note == "hello"


@pytest.mark.parametrize("timeout", [0.0, 0.05, "50ms"])
@awaited
async def test_a_wait_ends_when_its_time_is_up(path: str, bob: Board, timeout: Any) -> None:
    bob.tasks.post(name="before")
    async with await open_board(path) as board:
        begin = time.monotonic()
        with pytest.raises(TimedOut):
            await board.wait(timeout=timeout)
        assert time.monotonic() - begin < SOON
        assert [event async for event in board.follow(timeout=timeout)] == []
        assert (await board.wait(after=0, timeout=timeout)).name == "before"


@pytest.mark.parametrize(
    "wrong", [{"timeout": -1}, {"timeout": "soon"}, {"colour": "red"}, {"state": "done"}, {"after": -1}]
)
@awaited
async def test_a_senseless_wait_is_refused_at_once(path: str, wrong: dict[str, Any]) -> None:
    async with await open_board(path) as board:
        begin = time.monotonic()
        with pytest.raises(Invalid):
            await board.wait(**{"timeout": LONG, **wrong})
        assert time.monotonic() - begin < SOON


# ── Many at once ─────────────────────────────────────────────────────────────────────────────────────────


@awaited
async def test_fifty_waiters_wake_for_the_same_event(path: str, bob: Board) -> None:
    async with await open_board(path) as board:
        asleep = Checkpoint(board, "wait")
        asleep.go_on()
        waiters = [asyncio.create_task(board.wait(event="task.posted", timeout=LONG)) for _ in range(50)]
        for _ in waiters:
            await asleep.reached()
        posted = bob.tasks.post(name="work")
        assert {event.subject for event in await asyncio.gather(*waiters)} == {posted.id}


@awaited
async def test_fifty_waiters_for_one_lock_get_it_one_after_the_other(path: str) -> None:
    async with await open_board(path) as board:
        inside = most = turns = 0

        async def work() -> None:
            nonlocal inside, most, turns
            grant = await board.hold("lock:x", wait=LONG)
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1
            turns += 1
            await grant.release()

        await asyncio.gather(*(work() for _ in range(50)))
        assert (turns, most) == (50, 1)


@awaited
async def test_fifty_callers_of_next_get_one_task_each(path: str, bob: Board) -> None:
    async with await open_board(path) as board:
        waiters = [asyncio.create_task(board.next(wait=LONG)) for _ in range(50)]
        bob.batch([("tasks.post", {"name": f"task {number}"}) for number in range(50)])
        grants = [grant for won in await asyncio.gather(*waiters) for grant in won]
        assert sorted(grant.task.name for grant in grants) == sorted(f"task {number}" for number in range(50))
        assert await board.next(wait=0.01) == []


@awaited
async def test_more_waiters_than_threads_do_not_keep_the_holder_from_giving_back(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio, "THREADS", 4)
    async with await open_board(path) as board:
        grant = await board.hold("lock:x")
        asleep = Checkpoint(board, "wait")
        asleep.go_on()
        waiters = [asyncio.create_task(board.hold("lock:x", wait=LONG)) for _ in range(6)]
        await asleep.reached()
        try:
            await asyncio.wait_for(grant.release(), SOON)
        finally:
            for waiter in waiters:
                waiter.cancel()
            await asyncio.gather(*waiters, return_exceptions=True)


@awaited
async def test_the_loop_goes_on_while_a_call_waits(path: str) -> None:
    async with await open_board(path) as board:
        await board.tasks.post(name="first")
        with open(path + "-gate", "rb") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            posting = asyncio.ensure_future(board.tasks.post(name="second"))
            for _ in range(20):  # if the loop stood still, nobody would ever open the gate
                await asyncio.sleep(0.005)
                assert not posting.done()
            fcntl.flock(gate, fcntl.LOCK_UN)
        assert (await posting).name == "second"


@awaited
async def test_the_loop_goes_on_while_a_board_is_opened(path: str, bob: Board) -> None:
    engine: Any = bob.engine
    with open(path + "-gate", "rb") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        engine._writer.execute(
            "DELETE FROM board WHERE name = 'clock.boot'"
        )  # the next one starts the clock, in the gate
        opening = asyncio.ensure_future(open_board(path))
        for _ in range(20):
            await asyncio.sleep(0.005)
            assert not opening.done()
        fcntl.flock(gate, fcntl.LOCK_UN)
    await (await opening).close()


@awaited
async def test_next_waits_for_a_task_that_is_posted_meanwhile(path: str, bob: Board) -> None:
    async with await open_board(path) as board:
        asleep = Checkpoint(board, "wait")
        asleep.go_on()
        task = asyncio.create_task(board.next(wait="90s", kind="build", count=2))
        await asleep.reached()
        bob.tasks.post(name="other")
        bob.tasks.post(name="work", kind="build")
        [grant] = await task
        assert grant.task.name == "work"


# ── Closing ──────────────────────────────────────────────────────────────────────────────────────────────


@awaited
async def test_closing_twice_is_closing_once(path: str) -> None:
    board = await open_board(path)
    await board.close()
    await board.close()
    async with await open_board(path) as again:
        await again.close()


@awaited
async def test_a_closed_board_says_that_it_is_closed(path: str) -> None:
    board = await open_board(path)
    await board.close()
    with pytest.raises(Unavailable, match="closed"):
        await board.tasks.list()


@awaited
async def test_closing_wakes_waiters(path: str) -> None:
    board = await open_board(path)
    asleep = Checkpoint(board, "wait")
    asleep.go_on()
    waiters = [asyncio.create_task(board.wait(timeout=LONG)), asyncio.create_task(board.next(wait=LONG))]
    for _ in waiters:
        await asleep.reached()
    await board.close()
    done, pending = await asyncio.wait(waiters, timeout=SOON)
    assert not pending
    for task in done:
        with pytest.raises(Unavailable):
            await task


@awaited
async def test_closing_leaves_no_thread_behind(path: str) -> None:
    async with await open_board(path) as board:
        await asyncio.gather(*(board.tasks.list() for _ in range(30)))
    assert await soon(lambda: not any(thread.name.startswith("tiebreak") for thread in threading.enumerate()))


@awaited
async def test_a_question_is_answered_while_the_loop_goes_on(path: str, bob: Board) -> None:
    async with await open_board(path) as alice:
        with pytest.raises(TimedOut, match="is not answered yet"):
            await alice.ask("which?", key="which", wait=0.01)
        asking = asyncio.create_task(alice.ask("which?", key="which"))
        await asyncio.sleep(0)
        bob.questions.answer("which", answer="this")
        assert await asyncio.wait_for(asking, SOON) == "this"
        assert await alice.answer_to("which", wait=0) == "this"
