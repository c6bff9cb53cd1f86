"""The screen stays calm and up to date: storms of events, boards that fall silent, ten thousand tasks."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import tiebreak
from tiebreak.errors import Unavailable
from tiebreak.top import follower as following
from tiebreak.top.follower import Follower
from tiebreak.top.rows import sections
from tiebreak.top.snapshot import ROWS, Snapshot, take

from .conftest import Agents
from .watching import Watcher, watch

PATIENCE = 30.0
BATCH = 100


class Frames:
    """What a follower shows, for a test that waits for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.taken: list[Snapshot] = []
        self.losses: list[str] = []

    def show(self, taken: Snapshot) -> None:
        with self._changed:
            self.taken.append(taken)
            self._changed.notify_all()

    def lost(self, why: str) -> None:
        with self._changed:
            self.losses.append(why)
            self._changed.notify_all()

    def until(self, happened: Any) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: happened(self), PATIENCE)


def storm(board: tiebreak.Board, count: int) -> None:
    """So many events, in few commits."""
    for first in range(0, count, BATCH):
        board.batch([("tasks.post", {"name": f"task {first + number}"}) for number in range(BATCH)])


def test_a_storm_of_events_costs_few_frames_and_no_key_waits(busy: Agents) -> None:
    calm, over = 5.0, threading.Event()
    stormy = busy("stormy")

    def rages() -> None:
        storm(stormy, 3000)
        over.set()

    async def story(watcher: Watcher) -> None:
        raging = threading.Thread(target=rages)
        before, began = watcher.app.follower.frames, time.monotonic()
        raging.start()
        pressed = 0
        while not over.is_set():
            for key, text in {"2": "Ready", "3": "Held", "1": "Needs you"}.items():
                await watcher.press(key)
                await watcher.sees(text)
                pressed += 1
        raging.join()
        frames = watcher.app.follower.frames - before
        assert pressed >= 3
        # A frame for each key, and one for each moment of calm, but not one for each event.
        assert frames <= pressed + (time.monotonic() - began) / calm + 2
        assert frames < 1000
        await watcher.press("2")
        await watcher.sees("task 2999")

    watch(busy("me"), story, calm=calm)


def test_an_event_while_a_frame_is_read_is_in_a_later_frame(
    me: tiebreak.Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames, real, late = Frames(), take, threading.Event()

    def slowly(board: tiebreak.Board, *args: Any, **options: Any) -> Snapshot:
        taken = real(board, *args, **options)
        if not late.is_set():
            late.set()
            board.tasks.post(name="after the look")  # the frame that is being read cannot know of it
        return taken

    monkeypatch.setattr(following, "take", slowly)
    monkeypatch.setattr(following, "QUIET", 1000.0)  # only the event can lead to another frame
    follower = Follower(me, frames.show, frames.lost, calm=0.0)
    follower.start()
    frames.until(lambda seen: any(each.counts.ready == 1 for each in seen.taken))
    follower.stop()
    assert frames.taken[0].counts.ready == 0


def test_a_quiet_board_is_not_read_again_and_again(me: tiebreak.Board) -> None:
    frames = Frames()
    follower = Follower(me, frames.show, frames.lost, calm=0.0)
    follower.start()
    frames.until(lambda seen: seen.taken)
    follower.ask(view="tasks")
    frames.until(lambda seen: seen.taken[-1].view == "tasks")
    me.tasks.post(name="wakes it")
    frames.until(lambda seen: seen.taken[-1].counts.ready == 1)
    follower.stop()
    # One to begin with, one that was asked for, one for the event, and perhaps one for an event seen twice.
    assert len(frames.taken) <= 4


def test_a_board_that_does_not_answer_is_said_to_and_comes_back(busy: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = threading.Event()
    real = take

    def take_or_fail(*args: Any, **options: Any) -> Snapshot:
        if broken.is_set():
            raise Unavailable("the daemon does not answer")
        return real(*args, **options)

    monkeypatch.setattr(following, "take", take_or_fail)
    monkeypatch.setattr(following, "AGAIN", 0.1)

    async def story(watcher: Watcher) -> None:
        broken.set()
        busy("me").tasks.post(name="in the dark")
        await watcher.sees("the daemon does not answer", "no answer for")
        assert "Needs you" in watcher.text  # what was known stays in sight
        broken.clear()
        await watcher.sees("live")
        await watcher.press("2")
        await watcher.sees("in the dark")

    watch(busy("me"), story)


def test_ten_thousand_tasks_are_bounded_rows_and_all_can_be_found(me: tiebreak.Board) -> None:
    for first in range(0, 10_000, 1000):
        me.tasks.import_(entries=[{"name": f"chore {first + number:05}"} for number in range(1000)])
    taken = take(me, "tasks")
    assert {len(rows) for rows in taken.tasks.values()} == {ROWS, 0}
    assert taken.counts.ready == 10_000

    async def story(watcher: Watcher) -> None:
        await watcher.press("2")
        await watcher.sees("10,000+ ready", f"Ready  {ROWS}+", "chore 09999")
        await watcher.press("slash")
        await watcher.types("chore 00017", "enter")
        await watcher.sees("#18 ")

    watch(me, story)
    found = take(me, "tasks", find="chore 00017")
    assert any(row.what.text == "chore 00017" for section in sections(found, "chore 00017") for row in section.rows)
