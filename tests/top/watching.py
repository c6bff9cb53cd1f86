"""`tb top` without a terminal: keys go in, the text of the screen comes out, and a real board is behind it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Input

import tiebreak
import tiebreak.program
from tiebreak.cli.advice import in_one_line
from tiebreak.cli.top import entries
from tiebreak.top.keys import TopApp
from tiebreak.top.peek_pane import PeekPane

if TYPE_CHECKING:
    from tiebreak.top.targets import Target

PATIENCE = 30.0
PROGRAM = [sys.executable, "-P", "-m", "tiebreak"]
NARROW, WIDE = (80, 24), (200, 60)
START = 1_790_000_000_000_000
"""The time on a board whose clock stands still, in microseconds."""


class Clock:
    """A board's clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now

    def later(self, seconds: float) -> None:
        self.now += int(seconds * 1_000_000)


class Watcher:
    """A person before the screen."""

    def __init__(self, app: TopApp, pilot: Pilot[Any]) -> None:
        self.app = app
        self._pilot = pilot

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def types(self, text: str, *then: str) -> None:
        """Paste into the line that has the cursor, as soon as one has it; then press keys."""
        await self.until(lambda: self.app.focused, "there is a line to type into")
        assert self.app.focused
        self.app.focused.post_message(Paste(text))
        await self._pilot.press(*then)

    @property
    def text(self) -> str:
        """What is on the screen."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    @property
    def peeked(self) -> Target | None:
        return self.app.main.query_one(PeekPane).wanted

    @property
    def reply(self) -> Input:
        """The line to reply."""
        return self.app.main.query_one("#reply", Input)

    async def draws(self) -> None:
        """Wait until a frame is drawn that was read from now on, and what it selects is known."""
        before = self.app.frames_drawn
        self.app.follower.ask()
        await self.until(lambda: self.app.frames_drawn > before, "a frame is drawn")
        await self._pilot.pause()

    async def until(self, happened: Callable[[], object], what: str) -> None:
        """Let the screen work until something is so."""
        end = time.monotonic() + PATIENCE
        while not happened():
            assert time.monotonic() < end, f"still not so: {what}\n{self.text}"
            await self._pilot.pause(0.01)

    async def sees(self, *texts: str) -> None:
        """Wait until all of these are on the screen."""
        await self.until(lambda: all(text in self.text for text in texts), f"sees {texts}")

    async def selects(self, text: str, *, who: str | None = None) -> None:
        """Move down until the selected thing is called so; `who` is the full id of its agent."""
        await self.press("home")
        for _ in range(60):
            await self._pilot.pause()
            if self.peeked and text in self.peeked.title and (who is None or self.peeked.who == who):
                return
            await self.press("down")
        raise AssertionError(f"{text} cannot be selected\n{self.text}")


def watch(
    board: tiebreak.Board,
    story: Callable[[Watcher], Awaitable[None]],
    *,
    size: tuple[int, int] = WIDE,
    **options: Any,
) -> TopApp:
    """Run the screen on a board while somebody does what the story says."""
    app = TopApp(board, program=PROGRAM, commands=entries, explain=in_one_line, **options)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            watcher = Watcher(app, pilot)
            await watcher.until(lambda: app.frames_drawn, "a frame was drawn")
            await story(watcher)

    asyncio.run(run())
    return app


@contextmanager
def opened(path: Path, clock: Clock | None = None) -> Iterator[Callable[[str], tiebreak.Board]]:
    """Boards on one file, one for each name."""
    made: dict[str, tiebreak.Board] = {}

    def as_agent(name: str) -> tiebreak.Board:
        if name not in made:
            made[name] = tiebreak.open(path, agent=f"{name}~1", project="shop", clock=clock)
        return made[name]

    try:
        yield as_agent
    finally:
        for board in made.values():
            board.close()
