"""The right side of `tb top`: what is known of the selected thing, and a line to reply.

It reads in a thread, once at a time: if something changes meanwhile, it reads once more afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input, Static

from ..errors import TiebreakError
from ..text import plain
from .actions import reply_hint
from .peek import Peeked, PeekPart, look
from .widgets import peek_text

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from ..board import Board
    from .actions import Target
    from .command_run import CommandRun

LIVE = 1.0
"""Seconds between two looks at a terminal or a running job's output, which change without an event."""


class PeekPane(Vertical):
    """What is known of one thing, or the output of a command."""

    class Replied(Message):
        """A line was typed for the thing that is shown."""

        def __init__(self, wanted: Target, text: str) -> None:
            super().__init__()
            self.wanted = wanted
            self.text = text

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
        self.command: CommandRun | None = None

    def compose(self) -> ComposeResult:
        """The text, which can be scrolled, and the line to reply."""
        with VerticalScroll(id="peek-scroll", can_focus=False):
            yield Static(id="peek-text", markup=False)
        yield Input(id="reply", compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        """Look again from time to time at what changes without an event."""
        self.query_one("#reply", Input).display = False
        self.set_interval(LIVE, self._look_at_live)

    def on_unmount(self) -> None:
        """A command that still runs ends with the screen."""
        if self.command is not None:
            self.command.end()

    def _look_at_live(self) -> None:
        if self._peeked.live and self.command is None:
            self.read()

    @property
    def wanted(self) -> Target | None:
        """What is shown."""
        return self._wanted

    @property
    def only_why(self) -> bool:
        """Whether only its history is shown."""
        return self._only_why

    def show(self, wanted: Target | None, *, only_why: bool = False) -> None:
        """Show a thing; the same one again is read anew and stays where it is scrolled to."""
        if self.command is not None:
            self.command.end()
            self.command = None
        if wanted != self._wanted or only_why != self._only_why:
            self.query_one("#peek-scroll", VerticalScroll).scroll_home(animate=False)
            self._peeked = Peeked(plain(wanted.title) if wanted else "", [])
            self.query_one("#reply", Input).value = ""
            self._replying = False
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
        if found.wanted == self._wanted and self.command is None:
            self._draw(found.peeked, found.hint)
        if self._again:
            self._again = False
            self.read()

    def _draw(self, peeked: Peeked, hint: str) -> None:
        self._peeked = peeked
        line = self.query_one("#reply", Input)
        line.display = bool(hint)
        line.placeholder = f"Tab › {hint}" if hint else ""
        self._focus_reply()
        self.redraw()

    def redraw(self) -> None:
        """Draw it for the present width."""
        columns = max(20, self.size.width - 2)
        text = peek_text(self._peeked if self.command is None else self._command_peek(), columns)
        self.query_one("#peek-text", Static).update(text)

    def on_resize(self) -> None:
        """Lines are cut to the width."""
        self.redraw()

    # ── A command's output ───────────────────────────────────────────────────────────────────────────

    def show_command(self, run: CommandRun) -> None:
        """Show a command's output, from now on."""
        if self.command is not None:
            self.command.end()
        self.command = run
        self.query_one("#reply", Input).display = False
        self.redraw()

    def _command_peek(self) -> Peeked:
        run = self.command
        assert run is not None  # noqa: S101
        style = "" if not run.code else "warn"
        return Peeked(f"$ tb {plain(run.typed)}", [PeekPart(run.state, run.lines, style)])

    def follow_command(self) -> None:
        """Draw what a command has printed since, its end in sight."""
        if self.command is not None:
            self.redraw()
            self.query_one("#peek-scroll", VerticalScroll).scroll_end(animate=False)

    # ── Replying ─────────────────────────────────────────────────────────────────────────────────────

    def want_reply(self) -> None:
        """Let the person type, as soon as it is known what a reply would do."""
        self._replying = True
        self._focus_reply()

    def _focus_reply(self) -> None:
        line = self.query_one("#reply", Input)
        if self._replying and line.display:
            self._replying = False
            self.screen.set_focus(line)  # at once: the next key is already for the line

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The line is typed."""
        event.stop()
        text, wanted = event.value.strip(), self._wanted
        if text and wanted is not None:
            self.post_message(self.Replied(wanted, text))
        event.input.value = ""
        self.screen.set_focus(None)
