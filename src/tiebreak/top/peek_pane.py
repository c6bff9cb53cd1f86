"""The right side of `tb top`: what is known of the selected thing, and a line to reply.

It reads in a thread, once at a time: if something changes meanwhile, it reads once more afterwards.

While a person types a reply, the thing that it is for stays the same, whatever becomes of the rows: a reply never goes
to something else. And a command's output stays until the person leaves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input

from ..errors import TiebreakError
from ..text import plain
from .actions import reply_hint
from .drawing import peek_lines
from .peek import look
from .peek_parts import Peeked, PeekPart
from .targets import is_same
from .widgets import TextLines

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from ..board import Board
    from .command_run import CommandRun
    from .targets import Target

LIVE = 1.0
"""Seconds between two looks at a terminal or a running job's output, which change without an event."""
DRAFTS = 20
"""How many replies that were begun and left are kept."""


class PeekPane(Vertical):
    """What is known of one thing, or the output of a command."""

    class Replied(Message):
        """A line was typed for the thing that is shown."""

        def __init__(self, wanted: Target, text: str) -> None:
            super().__init__()
            self.wanted = wanted
            self.text = text

    class TargetGone(Message):
        """What a reply was typed for is not there any more: nothing is sent."""

        def __init__(self, wanted: Target) -> None:
            super().__init__()
            self.wanted = wanted

    class PeekRead(Message):
        """A thread has read what is to be shown."""

        def __init__(self, wanted: Target, peeked: Peeked, hint: str) -> None:
            super().__init__()
            self.wanted = wanted
            self.peeked = peeked
            self.hint = hint

    def __init__(self, board: Board, id: str) -> None:
        super().__init__(id=id)
        self._board = board
        self._wanted: Target | None = None
        self._peeked = Peeked("", [])
        self._only_why = False
        self._reading = False
        self._again = False
        self._replying = False
        self._gone = False
        self._drafts: dict[object, str] = {}
        self._scrolled = False  # by the person: then nothing scrolls by itself any more
        self._hidden = 0
        self.command: CommandRun | None = None
        """The command whose output is shown."""
        self.unseen: list[CommandRun] = []
        """The commands that go on although something else is shown."""

    def compose(self) -> ComposeResult:
        """The text, which can be scrolled, and the line to reply."""
        with VerticalScroll(id="peek-scroll", can_focus=False):
            yield TextLines(id="peek-text")
        yield Input(id="reply", compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        """Look again from time to time at what changes without an event."""
        self._line.display = False
        self.set_interval(LIVE, self._look_at_live)

    def on_unmount(self) -> None:
        """Commands that still run end with the screen."""
        for run in [self.command, *self.unseen]:
            if run is not None:
                run.end()

    def _look_at_live(self) -> None:
        if self._peeked.live and self.command is None:
            self.read()

    @property
    def _line(self) -> Input:
        return self.query_one("#reply", Input)

    @property
    def _scroll(self) -> VerticalScroll:
        return self.query_one("#peek-scroll", VerticalScroll)

    @property
    def wanted(self) -> Target | None:
        """What is shown."""
        return self._wanted

    @property
    def only_why(self) -> bool:
        """Whether only its history is shown."""
        return self._only_why

    @property
    def is_replying(self) -> bool:
        """Whether the person types a reply."""
        return self.screen.focused is self._line

    def show(self, wanted: Target | None, *, only_why: bool = False) -> None:
        """Show a thing; the same one again is read anew, stays where it is scrolled to, and keeps what was typed."""
        same = is_same(wanted, self._wanted)
        if not same:
            self._keep_draft()
            self._line.value = self._drafts.pop(wanted.identity, "") if wanted else ""
            self._replying = self._gone = False
        if not same or only_why != self._only_why:
            self._scroll.scroll_home(animate=False)
            self._scrolled = False
            self._peeked = Peeked(plain(wanted.title) if wanted else "", [])
        self._wanted, self._only_why = wanted, only_why
        self.read()

    def read(self) -> None:
        """Read it in a thread, if it is in sight."""
        if self.command is not None or not self.display or self._wanted is None:
            if self._wanted is None and self.command is None:
                self._draw(Peeked("", [PeekPart("", ["nothing is selected"], "dim")]), "")
            return
        if self._reading:
            self._again = True
            return
        self._reading = True
        wanted, only_why = self._wanted, self._only_why
        self.run_worker(lambda: self._look(wanted, only_why), thread=True, group="peek")

    def _look(self, wanted: Target, only_why: bool) -> None:
        try:
            peeked, hint = look(self._board, wanted, only_why=only_why), reply_hint(self._board, wanted)
        except TiebreakError as exc:
            peeked, hint = Peeked(plain(wanted.title), [PeekPart("", [plain(exc.message)], "warn")]), ""
        self.post_message(self.PeekRead(wanted, peeked, hint))

    def on_peek_pane_peek_read(self, found: PeekRead) -> None:
        """Draw what was read, unless something else is wanted by now."""
        self._reading = False
        if is_same(found.wanted, self._wanted) and self.command is None:
            self._draw(found.peeked, found.hint)
        if self._again:
            self._again = False
            self.read()

    # ── Drawing and scrolling ────────────────────────────────────────────────────────────────────────

    def _draw(self, peeked: Peeked, hint: str) -> None:
        self._peeked = peeked
        line = self._line
        line.display = bool(hint) or self.is_replying
        line.placeholder = f"Tab › {hint}" if hint else ""
        self._focus_reply()
        self.redraw()

    def redraw(self) -> None:
        """Draw it for the present size: of what is live, the last lines that fit."""
        columns = max(20, self.size.width - 2)
        rows = 0 if self._scrolled else self.size.height - self._line.display
        lines, self._hidden = peek_lines(
            self._peeked if self.command is None else command_peek(self.command), columns, rows
        )
        self.query_one("#peek-text", TextLines).show(lines)

    def on_resize(self) -> None:
        """Lines are cut to the width."""
        self.redraw()

    def scroll_by(self, rows: int) -> None:
        """Scroll; what was left out of a live part is shown if the person goes up to it."""
        hidden = self._hidden if rows < 0 and not self._scroll.scroll_y else 0
        if self.command is not None or hidden:
            self._scrolled = rows < 0 or not self._scroll.is_vertical_scroll_end
        if hidden:
            self.redraw()
            self._scroll.scroll_to(y=max(0, hidden + rows), animate=False)
        else:
            self._scroll.scroll_relative(y=rows, animate=False)

    def on_mouse_scroll_up(self) -> None:
        """Only what is at its top lets the wheel through: show what was left out."""
        if self._hidden:
            self.scroll_by(-3)

    # ── A command's output ───────────────────────────────────────────────────────────────────────────

    def show_command(self, run: CommandRun) -> None:
        """Show a command's output, from now on."""
        self.leave_command()
        if run in self.unseen:
            self.unseen.remove(run)
        self.command = run
        self._line.display = self._scrolled = False
        self.redraw()

    def leave_command(self) -> None:
        """Show the thing again. A command that still runs goes on: it may write, and a part of that is no use."""
        if self.command is not None and self.command.code is None:
            self.unseen.append(self.command)
        self.command = None

    def follow_command(self, run: CommandRun) -> bool:
        """Draw what a command has printed since, its end in sight; returns whether it ended unseen."""
        if run is self.command:
            self.redraw()
            if not self._scrolled:
                self._scroll.scroll_end(animate=False)
        elif run in self.unseen and run.code is not None:
            self.unseen.remove(run)
            return True
        return False

    # ── Replying ─────────────────────────────────────────────────────────────────────────────────────

    def want_reply(self) -> None:
        """Let the person type, as soon as it is known what a reply would do."""
        self._replying = True
        self._focus_reply()

    def _focus_reply(self) -> None:
        if self._replying and self._line.display:
            self._replying = False
            self.screen.set_focus(self._line)  # at once: the next key is already for the line

    def lose_target(self) -> None:
        """What the person types a reply for is not there any more: say so once, and keep what is typed."""
        if not self._gone and self._wanted is not None:
            self._gone = True
            self.post_message(self.TargetGone(self._wanted))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The line is typed."""
        event.stop()
        text, wanted = event.value.strip(), self._wanted
        if text and wanted is not None:
            if self._gone:
                self.post_message(self.TargetGone(wanted))
                return
            self.post_message(self.Replied(wanted, text))
        event.input.value = ""
        self.screen.set_focus(None)

    def give_back(self, wanted: Target, text: str) -> None:
        """A reply was refused: nobody has to type it again."""
        if is_same(wanted, self._wanted) and not self._line.value:
            self._line.value = text
            self._line.cursor_position = len(text)
        else:
            self._drafts[wanted.identity] = text

    def _keep_draft(self) -> None:
        if self._wanted is not None and self._line.value.strip():
            self._drafts[self._wanted.identity] = self._line.value
            while len(self._drafts) > DRAFTS:
                del self._drafts[next(iter(self._drafts))]


def command_peek(run: CommandRun) -> Peeked:
    """The output of a command."""
    return Peeked(f"$ tb {plain(run.typed)}", [PeekPart(run.state, run.lines, "" if not run.code else "warn")])
