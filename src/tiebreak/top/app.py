"""The Textual application of `tb top`: puts the parts together and says which key does what.

It never calls the board itself: frames come from the `Follower`, and every action and peek runs in a thread.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from textual.app import App
from textual.containers import Horizontal
from textual.message import Message

from ..errors import TiebreakError
from ..text import plain
from .drawing import notice_lines
from .follower import CALM, Follower
from .frame import FrameLine, body, header, lag_text, tabs
from .peek_pane import PeekPane
from .rows import Cell, sections
from .targets import is_same, target
from .widgets import RowList, StyledLines, Ticker

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult
    from textual.events import Resize
    from textual.screen import Screen

    from ..board import Board
    from .dialogs import CommandEntry
    from .snapshot import Snapshot
    from .targets import Target

WIDE = 110
"""From so many columns on, the peek has a place of its own on the right."""
SHORT = "Space peek  Enter attach  d dispatch  m message  w why  / filter  : run  ? help"


class WatchApp(App[None]):
    """One screen: what needs a person, who works, waits and is idle, a peek, and the events.

    `keys.TopApp` adds what the keys do.
    """

    AUTO_FOCUS = None  # keys are for the list, until a person wants to type
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "top.tcss"
    TITLE = "tb top"

    class FrameRead(Message):
        """A thread has read a frame."""

    class Told(Message):
        """A thread has something to say to the person, or to do on the screen."""

        def __init__(self, text: str | None, style: str = "good", then: Callable[[], object] | None = None) -> None:
            super().__init__()
            self.text = text
            self.style = style
            self.then = then

    def __init__(
        self,
        board: Board,
        *,
        program: list[str],
        commands: Callable[[], list[CommandEntry]],
        explain: Callable[[TiebreakError], str],
        view: str = "agents",
        words: str = "",
        calm: float = CALM,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`program` starts `tb`, `commands` lists what it can do, `explain` puts an error into words.

        The screen begins with this `view`, and only with the rows that have these `words`.
        """
        super().__init__(ansi_color=True)
        self.board = board
        self.follower = Follower(board, self._frame, self._cut_off, calm=calm)
        self.follower.view, self.follower.find = view, words.strip()
        self.words = words
        self.frames_drawn = 0
        self._program = program
        self._commands = commands
        self._explain = explain
        self._clock = clock
        self._taken: Snapshot | None = None
        self._taken_at = 0.0
        self._newest: Snapshot | None = None
        self._broken = ""
        self._told = ""  # the message that is shown
        self._view = ""  # of the rows that are shown

    def compose(self) -> ComposeResult:
        """From the top down."""
        yield StyledLines(id="head")
        yield StyledLines(id="tabs")
        with Horizontal(id="main"):
            yield RowList(id="rows")
            yield PeekPane(self.board, id="peek")
        yield Ticker(id="ticker")
        yield StyledLines(id="notice")
        yield StyledLines(id="keys")

    def on_mount(self) -> None:
        """Begin to follow the board. The clock only redraws ages."""
        self._fit(self.size.width, self.size.height)
        self.main.query_one("#head", StyledLines).show(
            [FrameLine((Cell("reading the board …", "dim"),)), FrameLine(())]
        )
        self.follower.start()
        self.set_interval(1.0, self._draw)

    def on_unmount(self) -> None:
        """Read nothing any more."""
        self.follower.stop()

    @property
    def main(self) -> Screen[object]:
        """The screen below all dialogs."""
        return self.screen_stack[0]

    @property
    def _is_over(self) -> bool:
        """Whether the screen is being taken down: what a thread or the clock brings now has no place any more."""
        return not self.main.query("#keys")

    # ── Frames ───────────────────────────────────────────────────────────────────────────────────────

    def _frame(self, taken: Snapshot) -> None:
        """Called by a thread. Only the newest frame is drawn, however long the screen was busy."""
        waiting, self._newest = self._newest, taken
        if waiting is None:
            self.post_message(self.FrameRead())

    def _cut_off(self, why: str) -> None:
        self.post_message(self.Told(why, "lost"))

    def on_watch_app_frame_read(self) -> None:
        """Draw the newest frame, and read anew what is peeked at."""
        taken, self._newest = self._newest, None
        if taken is None or self._is_over:
            return
        if self._broken and self._told == self._broken:
            self.tell("")  # the board answers again
        self._taken, self._taken_at, self._broken = taken, self._clock(), ""
        self.frames_drawn += 1
        self._draw()
        self.main.query_one(Ticker).show(taken.events)
        self._follow_selection()

    def _draw(self) -> None:
        """Draw what is known, with ages as of now."""
        if self._taken is None or self._is_over:
            return
        later = self._clock() - self._taken_at
        taken = replace(self._taken, later=later)
        columns = self.size.width
        lag = lag_text(taken.behind, later, self._broken)
        self.main.query_one("#head", StyledLines).show(header(taken, columns, lag))
        self.main.query_one("#tabs", StyledLines).show([tabs(taken.view, self.words, columns)])
        rows = self.main.query_one(RowList)
        lines = body(sections(taken, self.words), rows.size.width or columns)
        rows.show(lines, anew=taken.view != self._view)
        self._view = taken.view

    def on_resize(self, event: Resize) -> None:
        """The peek moves over the list where there is no room beside it."""
        if self._is_over:
            return
        self._fit(event.size.width, event.size.height)
        self.call_after_refresh(self._draw)

    def _fit(self, columns: int, rows: int) -> None:
        self.main.set_class(columns < WIDE, "narrow")
        if columns >= WIDE:
            self.main.remove_class("peeking")  # it is beside the list now, and Esc leaves it there
        self.main.query_one(Ticker).styles.height = max(4, min(11, rows // 5))
        self.main.query_one("#keys", StyledLines).show([FrameLine((Cell(SHORT[:columns], "dim"),))])

    # ── Selecting ────────────────────────────────────────────────────────────────────────────────────

    def _target(self) -> Target | None:
        return target(self._taken, self.main.query_one(RowList).selected) if self._taken else None

    def on_row_list_row_selected(self, event: RowList.RowSelected) -> None:
        """Peek at what is selected now. What a frame selects never takes away what a person looks at or types."""
        if not event.by_person:
            self._follow_selection()
            return
        pane, wanted = self.main.query_one(PeekPane), self._target()
        pane.leave_command()
        if not is_same(wanted, pane.wanted):  # else a key that came before this message has led to its reply
            self.main.set_focus(None)
        pane.show(wanted)

    def _follow_selection(self) -> None:
        """Peek at what is selected, as it is now, unless a reply is typed or a command is shown."""
        pane = self.main.query_one(PeekPane)
        if pane.command is not None:
            return
        wanted = self._target()
        if not pane.is_replying:
            pane.show(wanted, only_why=pane.only_why and is_same(wanted, pane.wanted))
        elif self._taken and pane.wanted and not is_same(target(self._taken, pane.wanted.row), pane.wanted):
            pane.lose_target()
        else:
            pane.read()

    def on_peek_pane_target_gone(self, gone: PeekPane.TargetGone) -> None:
        """A reply is for something that is not there any more."""
        self.tell(f"{plain(gone.wanted.title)} is gone: what you type is not sent (Esc leaves it)", "bad")

    def on_row_list_clicked(self) -> None:
        """A second click opens the peek."""
        self.action_peek(True)

    def action_move(self, by: int) -> None:
        """Select another row."""
        self.main.query_one(RowList).move(by)

    def action_view(self, view: str) -> None:
        """Show another view."""
        self.follower.ask(view=view)

    def action_peek(self, opened: bool | None = None) -> None:
        """Open or close the peek."""
        main = self.main
        if main.has_class("narrow"):
            main.set_class(not main.has_class("peeking") if opened is None else opened, "peeking")
        else:
            main.set_class(not main.has_class("unpeeked") if opened is None else not opened, "unpeeked")
        self.call_after_refresh(self._peek_again)

    def _peek_again(self) -> None:
        self._draw()
        pane = self.main.query_one(PeekPane)
        if pane.command is None:  # else its output is what the person wants to see
            pane.show(self._target(), only_why=pane.only_why)

    def action_scroll_peek(self, by: int) -> None:
        """Scroll the peek."""
        self.main.query_one(PeekPane).scroll_by(by)

    def action_leave(self) -> None:
        """Leave one thing: the line to reply, the output of a command, the peek over the list, the filter."""
        pane = self.main.query_one(PeekPane)
        self.tell("")
        if self.focused is not None:
            self.screen.set_focus(None)
            self._follow_selection()
        elif pane.command is not None:
            pane.command.end()
            pane.command = None
            pane.show(self._target())
        elif self.main.has_class("peeking"):
            self.action_peek(False)
        else:
            self._filter("")

    # ── Saying and doing ─────────────────────────────────────────────────────────────────────────────

    def tell(self, text: str, style: str = "good") -> None:
        """Show a message to the person, until there is another one or Esc is pressed."""
        self._told = text
        lines = notice_lines(text, self.size.width)
        styled = [FrameLine((Cell(line.text, style),)) for line in lines]
        self.main.query_one("#notice", StyledLines).show(styled)

    def on_watch_app_told(self, told: Told) -> None:
        """A thread has something to say."""
        if self._is_over:
            return
        if told.style == "lost":
            self._broken = told.text or "?"
            self._draw()
        if told.text is not None:
            self.tell(told.text, "bad" if told.style == "lost" else told.style)
        if told.then is not None:
            told.then()

    def act(self, action: Callable[[], str], refused: Callable[[], object] | None = None) -> None:
        """Run an action in a thread, say what became of it, and show the board as it is then."""
        self.tell("…", "dim")
        self.run_worker(partial(self._acted, action, refused), thread=True, group="actions")

    def _acted(self, action: Callable[[], str], refused: Callable[[], object] | None) -> None:
        try:
            told = self.Told(action())
        except TiebreakError as exc:
            told = self.Told(self._explain(exc), "bad", refused)
        self.post_message(told)
        self.follower.ask()

    def _filter(self, words: str) -> None:
        """Show only what matches; tasks are also looked for beyond those that are listed."""
        if words != self.words:
            self.words = words
            self._draw()
            self.follower.ask(find=words.strip())
