"""The peek and the dialogs say what is so: the newest output, the session that is meant, what a cancel would do."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

import tiebreak
from tiebreak.errors import Unavailable
from tiebreak.top import follower as following
from tiebreak.top.frame import event_line
from tiebreak.top.snapshot import Snapshot, take

from .conftest import Agents
from .test_keys import session
from .test_selecting import second_ada  # noqa: F401  (a fixture)
from .watching import NARROW, WIDE, Clock, Watcher, watch


@pytest.mark.parametrize("size", [NARROW, (120, 20)])
def test_the_newest_lines_of_a_running_job_are_in_sight(busy: Agents, size: tuple[int, int]) -> None:
    text = "".join(f"compiled part {number}\n" for number in range(60))
    chunk = [{"start": 7, "stream": 1, "text": text}]
    busy("worker-2").jobs.append(ref="#7", epoch=1, chunks=chunk)

    async def story(watcher: Watcher) -> None:
        await watcher.press("4")
        await watcher.selects("#7")
        if size == NARROW:
            await watcher.press("space")
        await watcher.sees("compiled part 59", "of 40 lines ([ shows all)")
        more = [{"start": 7 + len(text), "stream": 1, "text": "linked\n"}]
        busy("worker-2").jobs.append(ref="#7", epoch=1, chunks=more)
        await watcher.sees("linked")
        await watcher.press("left_square_bracket")
        await watcher.until(lambda: "linked" not in watcher.text and "compiled part 4" in watcher.text, "it scrolls up")
        await watcher.press(*["left_square_bracket"] * 4)
        await watcher.sees("compiled part 21")

    watch(busy("me"), story, size=size)


def test_the_peek_shows_the_session_that_is_meant_and_not_a_later_seen_one(
    agents: Agents,
    clock: Clock,
    second_ada: tiebreak.Board,  # noqa: F811
) -> None:
    agents("me").tasks.post(name="work")
    agents("ada").agents.announce(doing="the work")
    agents("ada").tasks.claim(ref="#1")
    clock.later(5)
    second_ada.agents.announce(doing="something else")
    second_ada.agents.leave()

    async def story(watcher: Watcher) -> None:
        await watcher.selects("ada", who="ada~1")
        await watcher.sees("the work", "active, seen 5s ago")
        assert "gone, seen" not in watcher.text

    watch(agents("me"), story)


def test_why_of_an_agent_with_two_tasks_shows_both(busy: Agents) -> None:
    busy("ada").tasks.claim(ref="#4")

    async def story(watcher: Watcher) -> None:
        await watcher.selects("ada")
        await watcher.press("w")
        await watcher.sees("why #1 fix the login redirect", "why #4 flaky test", "ada claimed it")

    watch(busy("me"), story)


def test_cancelling_says_which_tasks_are_cancelled_too_and_that_nobody_is_stopped(busy: Agents) -> None:
    me = busy("me")
    for name, after in (("deploy", ["#1"]), ("announce?", ["#9"])):
        me.tasks.post(name=name, after=after)

    async def story(watcher: Watcher) -> None:
        await watcher.press("2")
        await watcher.selects("#1 ")
        await watcher.press("k")
        await watcher.sees("Cancel #1 fix the login redirect?")
        await watcher.press("y")
        await watcher.sees("its next write is refused.", "#9, #10 come after it and are cancelled, too.")
        await watcher.press("n")
        await watcher.selects("#10")
        await watcher.press("k")
        await watcher.sees("Cancel #10 announce?")
        assert "??" not in watcher.text
        await watcher.press("y")
        await watcher.sees("Really cancel #10 announce?")
        assert "after it" not in watcher.text
        await watcher.press("n")
        await watcher.selects("#7")
        await watcher.press("k")
        await watcher.sees("Cancel #7")
        await watcher.press("y")
        await watcher.sees("worker-2 runs it: the job is ended.")

    watch(me, story)


def test_a_coordinator_without_a_session_here_is_named(busy: Agents) -> None:
    busy("lead").holds.take(resources=["seat:coordinator"])

    async def story(watcher: Watcher) -> None:
        await watcher.press("a")
        await watcher.sees("lead is the coordinator, but has no terminal on this machine that tb knows of")
        assert len(watcher.app.screen_stack) == 1

    watch(busy("me"), story)


def test_a_refused_coordinator_is_not_told_of_options_that_a_key_does_not_have(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("a")
        await watcher.sees("There is no coordinator. Start one")
        busy("ada").holds.take(resources=["seat:coordinator"])
        await watcher.press("enter")
        await watcher.sees("held by ada")
        assert "--wait" not in watcher.text

    watch(busy("me"), story)


def test_the_notice_of_a_lost_board_goes_when_the_board_is_back(busy: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = threading.Event()

    def take_or_fail(*args: Any, **options: Any) -> Snapshot:
        if broken.is_set():
            raise Unavailable("connection refused")
        return take(*args, **options)

    monkeypatch.setattr(following, "take", take_or_fail)
    monkeypatch.setattr(following, "AGAIN", 0.1)

    async def story(watcher: Watcher) -> None:
        broken.set()
        watcher.app.follower.ask()
        await watcher.sees("connection refused")
        broken.clear()
        await watcher.until(lambda: "connection refused" not in watcher.text, "the notice is gone")

    watch(busy("me"), story)


def test_the_peek_at_a_task_and_at_a_hold_shows_the_terminal_of_its_holder(
    busy: Agents, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiebreak.sessions.terminal.screen", lambda found: "a line in the terminal")
    me = busy("me")
    session(me, "zoe")
    with tiebreak.open(tmp_path / "board.db", agent="zoe~spawn-1", project="shop", clock=clock) as zoe:
        zoe.tasks.claim(ref="#4")
        zoe.holds.take(resources=["lock:release"])
        busy("ada").messages.send(body="may I have the lock?", to="zoe")

        async def story(watcher: Watcher) -> None:
            await watcher.press("2")
            await watcher.selects("#4")
            await watcher.sees("terminal of zoe", "a line in the terminal", "lock:release · epoch 1")
            await watcher.press("3")
            await watcher.selects("lock:release")
            await watcher.sees("terminal of zoe", "unread messages of zoe", "may I have the lock?")

        watch(me, story, size=WIDE)


def test_a_dead_holder_of_a_hold_has_its_history(busy: Agents) -> None:
    carol = busy("carol")
    carol.tasks.release(ref="#3", epoch=1)
    carol.agents.leave()
    [need] = [each for each in busy("me").overview.needs() if each.kind == "dead"]
    assert need.ref == "lock:schema"

    async def story(watcher: Watcher) -> None:
        await watcher.selects("lock:schema")
        await watcher.sees("gone, seen", "carol took lock:schema")

    watch(busy("me"), story)


def test_events_have_the_time_of_the_persons_clock(busy: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    event = busy("me").events.read(limit=1)[0]
    before = event_line(event, 80).text[:8]
    monkeypatch.setenv("TZ", "XYZ-3")
    time.tzset()
    assert int(event_line(event, 80).text[:2]) == (int(before[:2]) + 3) % 24
    assert event_line(event, 80).text[2:8] == before[2:]


def test_a_screen_on_which_only_ages_change_draws_only_ages(busy: Agents, clock: Clock) -> None:
    from tiebreak.top.drawing import changed
    from tiebreak.top.frame import body
    from tiebreak.top.rows import sections

    before = body(sections(take(busy("me"))), 110)
    clock.later(1)
    after = body(sections(take(busy("me"))), 110)
    regions = [each for row, pair in enumerate(zip(before, after, strict=True)) for each in changed(row, 110, *pair)]
    assert regions
    assert max(region.width for region in regions) < 20
    assert sum(region.width for region in regions) < 300
