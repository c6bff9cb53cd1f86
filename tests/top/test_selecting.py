"""Rows that look alike are different things, and each key acts on the one that is selected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tiebreak
from tiebreak.top.snapshot import take
from tiebreak.top.widgets import RowList

from .conftest import Agents
from .watching import Clock, Watcher, watch


@pytest.fixture
def second_ada(agents: Agents, tmp_path: Path, clock: Clock) -> Iterator[tiebreak.Board]:
    """Another session of the name ada."""
    with tiebreak.open(tmp_path / "board.db", agent="ada~2", project="shop", clock=clock) as board:
        yield board


def place(watcher: Watcher) -> str:
    """The row that is selected, as text."""
    rows = watcher.app.main.query_one(RowList)
    return rows._lines[rows._place].text


def test_slots_of_one_pool_are_different_things(agents: Agents) -> None:
    agents("ada").holds.take(resources=["pool:browsers"], slots=2)
    agents("bob").holds.take(resources=["pool:browsers"])

    async def story(watcher: Watcher) -> None:
        await watcher.press("3")
        await watcher.sees("Held  2")
        await watcher.press("home", "down")
        await watcher.until(lambda: watcher.peeked and watcher.peeked.agent == "bob", "the second row is bob's")
        agents("me").tasks.post(name="an event")
        await watcher.draws()
        assert "bob" in place(watcher)
        await watcher.press("m")
        await watcher.sees("Message to bob:")

    watch(agents("me"), story)


def test_two_sessions_of_one_name_are_different_things(agents: Agents, second_ada: tiebreak.Board) -> None:
    for name in ("first", "second"):
        agents("me").tasks.post(name=name)
    agents("ada").tasks.claim(ref="#1")
    second_ada.tasks.claim(ref="#2")

    async def story(watcher: Watcher) -> None:
        await watcher.sees("Working  2")
        seen = set()
        for key in ("home", "down"):
            await watcher.press(key)
            await watcher.draws()
            assert watcher.peeked
            assert f"#{watcher.peeked.number} " in place(watcher)
            seen.add(watcher.peeked.number)
        assert seen == {1, 2}

    watch(agents("me"), story)


def test_no_two_rows_of_a_view_have_the_same_key(busy: Agents, second_ada: tiebreak.Board) -> None:
    from tiebreak.top.rows import sections

    second_ada.agents.announce(doing="again")
    busy("ada").waits.enter(resources=["lock:schema"])
    second_ada.waits.enter(resources=["lock:schema"])
    for view in ("agents", "tasks", "holds", "jobs", "messages"):
        keys = [row.selected for section in sections(take(busy("me"), view)) for row in section.rows]
        assert len(keys) == len(set(keys)), view


def test_another_view_begins_at_its_first_row(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("end")
        await watcher.press("2")
        await watcher.sees("Questions  1")
        await watcher.until(lambda: watcher.peeked and watcher.peeked.number == 5, "the first row is selected")
        assert "#5" in place(watcher)

    watch(busy("me"), story)


def test_a_message_is_found_that_is_older_than_those_that_are_listed(agents: Agents) -> None:
    agents("bob").messages.send(body="first line\nthe needle is here")
    for number in range(60):
        agents("bob").messages.send(body=f"note {number}")

    async def story(watcher: Watcher) -> None:
        await watcher.press("5")
        await watcher.sees("Messages  50")
        await watcher.press("slash")
        await watcher.types("needl", "enter")
        await watcher.sees("Messages  1", "first line")

    watch(agents("me"), story)


@pytest.mark.parametrize("words", ['"', "-", "a-b (c", "*"])
def test_a_filter_that_is_no_word_breaks_nothing(busy: Agents, words: str) -> None:
    assert take(busy("me"), "messages", find=words).messages


def test_a_screen_can_begin_with_another_view_and_a_filter(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.sees("/image", "#7", "build the image")
        assert "#2" not in watcher.text
        await watcher.press("escape")
        await watcher.sees("#2")

    watch(busy("me"), story, view="tasks", words="image")
