"""Whatever agents write, the terminal gets neither its escape sequences nor markup of its own."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest

import tiebreak
from tiebreak.engine.sqlite.opening import allow_writing
from tiebreak.top.frame import as_text
from tiebreak.top.snapshot import VIEWS, take

from .conftest import Agents
from .watching import NARROW, WIDE, Watcher, watch

EVIL = "\x1b[31mred\x1b]0;title\x07 [red]bold[/red] [@click=app.quit]x[/] \u202eabc\u200b \x9b2J"
SHOWN = "\\x1b[31mred"


MARK = "PLACE-OF-EVIL"
"""Stands for the text while the board checks what it is given; a board of another program need not have checked."""
PLACES = {
    "tasks": ("name", "body", "reason", "payload"),
    "agents": ("doing", "program", "host"),
    "holds": ("note",),
    "messages": ("body", "channel"),
    "events": ("name", "note"),
    "outputs": ("text",),
    "queues": ("reason",),
}


@pytest.fixture
def hostile(agents: Agents, tmp_path: Path) -> tiebreak.Board:
    """The same text in everything that takes text."""
    fill(agents)
    connection = apsw.Connection(str(tmp_path / "board.db"))
    allow_writing(connection)
    for table, columns in PLACES.items():
        for column in columns:
            text = json.dumps(EVIL)[1:-1] if column == "payload" else EVIL
            connection.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (MARK, text))
            assert connection.changes(), (table, column)
    connection.close()
    return agents("me")


def fill(agents: Agents) -> None:
    """Put the mark everywhere."""
    me, eve = agents("me"), agents("eve")
    eve.agents.announce(doing=MARK, program=MARK, host=MARK)
    me.tasks.post(name=MARK, body=MARK + "\n" + MARK, queue="q")
    eve.tasks.claim(ref="#1")
    eve.holds.take(resources=["lock:evil"], note=MARK)
    eve.questions.ask(MARK + "\n" + MARK, choices=[MARK, "b"])
    me.jobs.submit(command="x", name=MARK, queue="ci", max_attempts=1)
    [job] = agents("worker").jobs.next(queues=["ci"])
    agents("worker").jobs.append(ref="#3", epoch=job.epoch, chunks=[{"start": 0, "stream": 1, "text": MARK + "\n"}])
    agents("worker").tasks.fail(ref="#3", epoch=job.epoch, reason=MARK, retry=False)
    eve.messages.send(body=MARK, to="me", channel=MARK, later=True)
    eve.messages.send(body=MARK, about="#1")
    me.queues.pause("q", reason=MARK)


def is_safe(text: str) -> None:
    assert not [char for char in text if char != "\n" and (not char.isprintable() or char in "\u202e\u200b\x9b")]


@pytest.mark.parametrize("view", VIEWS)
def test_a_printed_frame_shows_hostile_text_as_escapes(hostile: tiebreak.Board, view: str) -> None:
    text = as_text(take(hostile, view), 400)
    is_safe(text)
    assert SHOWN in text
    if view != "holds":
        assert "[red]bold[/red] [@click=app.quit]x[/]" in text


@pytest.mark.parametrize("size", [NARROW, WIDE])
def test_no_row_peek_or_notice_carries_an_escape_sequence(hostile: tiebreak.Board, size: tuple[int, int]) -> None:
    async def story(watcher: Watcher) -> None:
        for view in "12345":
            await watcher.press(view, "home")
            if size == NARROW:
                await watcher.press("space")
            for _ in range(4):
                await watcher.sees("Events")
                await watcher.until(lambda: not watcher.app.workers, "the peek is read")
                is_safe(watcher.text)
                await watcher.press("down")
            if size == NARROW:
                await watcher.press("escape")
        await watcher.press("1", "home", "w")
        await watcher.sees("why")
        is_safe(watcher.text)
        await watcher.press("escape", "slash")
        await watcher.types(EVIL, "enter")
        await watcher.sees("nothing matches")
        is_safe(watcher.text)

    watch(hostile, story, size=size)


def test_markup_in_names_is_shown_as_it_is_written(hostile: tiebreak.Board) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("2")
        await watcher.sees("[red]bold[/red]", "Claimed")
        await watcher.press("k")
        await watcher.sees("Cancel #2", "[red]bold[/red]")
        await watcher.press("n", "m")
        await watcher.sees("Message to")

    watch(hostile, story)
