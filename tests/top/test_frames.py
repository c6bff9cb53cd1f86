"""What the screen looks like in its main states, kept as text beside this file.

`TIEBREAK_RENEW_FRAMES=1 pytest tests/top/test_frames.py` writes the files anew.
Look at the difference before you keep it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import tiebreak
from tiebreak.text import width
from tiebreak.top.frame import as_text
from tiebreak.top.snapshot import VIEWS, take

from .conftest import Agents
from .watching import NARROW, WIDE, Watcher, watch

FRAMES = Path(__file__).parent / "frames"


def is_as_kept(name: str, text: str) -> None:
    """Compare with the file, or write it if the person wants that."""
    file = FRAMES / f"{name}.txt"
    if os.environ.get("TIEBREAK_RENEW_FRAMES"):
        FRAMES.mkdir(exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")
    assert text + "\n" == file.read_text(encoding="utf-8"), f"{file} differs; see the head of {__file__}"


async def nothing(watcher: Watcher) -> None:
    """Only look."""


async def peeks(watcher: Watcher) -> None:
    await watcher.press("space")
    await watcher.sees("1  sqlite")


async def helps(watcher: Watcher) -> None:
    await watcher.press("question_mark")
    await watcher.sees("this help")


async def chooses(watcher: Watcher) -> None:
    await watcher.press("colon")
    await watcher.types("an")
    await watcher.sees("tb answer")


async def filters(watcher: Watcher) -> None:
    await watcher.press("slash")
    await watcher.types("ada")
    await watcher.sees("/ada")
    await watcher.until(lambda: "frank" not in watcher.text, "it is filtered")


async def pauses(watcher: Watcher) -> None:
    await watcher.press("p")
    await watcher.sees("paused, 0 new")


async def cancels(watcher: Watcher) -> None:
    await watcher.selects("ada")
    await watcher.press("k")
    await watcher.sees("Cancel #1 fix the login redirect?")
    await watcher.press("y")
    await watcher.sees("Really cancel #1 fix the login redirect?")


Story = Callable[[Watcher], Awaitable[None]]
STATES: dict[str, tuple[tuple[int, int], Story]] = {
    "busy-narrow": (NARROW, nothing),
    "busy-wide": (WIDE, nothing),
    "peek-narrow": (NARROW, peeks),
    "help-narrow": (NARROW, helps),
    "help-wide": (WIDE, helps),
    "palette-narrow": (NARROW, chooses),
    "filter-narrow": (NARROW, filters),
    "paused-narrow": (NARROW, pauses),
    "cancel-narrow": (NARROW, cancels),
}


async def settled(watcher: Watcher, size: tuple[int, int]) -> None:
    """Until the peek is read, where it is in sight."""
    await watcher.sees("answer #5: sqlite | postgres" if size == WIDE else "Needs you")


@pytest.mark.parametrize("name", STATES)
def test_a_state_looks_as_it_is_kept(busy: Agents, name: str) -> None:
    size, story = STATES[name]
    seen = []

    async def looks(watcher: Watcher) -> None:
        await settled(watcher, size)
        await story(watcher)
        seen.append(watcher.text)

    watch(busy("me"), looks, size=size, clock=lambda: 0.0)
    assert max(map(width, seen[0].splitlines())) <= size[0]
    is_as_kept(name, seen[0])


@pytest.mark.parametrize(("name", "size"), [("empty-narrow", NARROW), ("empty-wide", WIDE)])
def test_an_empty_board_says_what_to_do(me: tiebreak.Board, name: str, size: tuple[int, int]) -> None:
    seen = []

    async def looks(watcher: Watcher) -> None:
        await watcher.sees("nothing is selected" if size == WIDE else "Needs you")
        seen.append(watcher.text)

    watch(me, looks, size=size, clock=lambda: 0.0)
    is_as_kept(name, seen[0])


@pytest.mark.parametrize("view", VIEWS)
def test_a_printed_frame_fits_every_width(busy: Agents, view: str) -> None:
    taken = take(busy("me"), view)
    for columns in (20, 40, 80, 81, 133, 200):
        lines = as_text(taken, columns).splitlines()
        assert max(map(width, lines)) <= columns
    is_as_kept(f"once-{view}", as_text(taken, 100))


def test_a_screen_that_shrinks_and_grows_is_drawn_anew(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await settled(watcher, WIDE)
        await watcher._pilot.resize_terminal(*NARROW)
        await watcher.until(lambda: "sqlite | postgres" not in watcher.text, "the peek has no room any more")
        await watcher.sees("Needs you", "↓")
        assert max(map(width, watcher.text.splitlines())) <= 80
        await watcher._pilot.resize_terminal(*WIDE)
        await settled(watcher, WIDE)

    watch(busy("me"), story)
