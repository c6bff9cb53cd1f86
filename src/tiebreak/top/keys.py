"""The keys of `tb top`: each opens a dialog or runs one of `actions` on what is selected."""

from __future__ import annotations

import os
import shlex
import subprocess
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported
from textual.binding import Binding

from ..errors import TiebreakError
from ..text import plain
from . import actions
from .command_keys import CommandApp
from .dialogs import AskLine, Confirm, HelpScreen, KeyHelp
from .peek_pane import PeekPane
from .snapshot import VIEWS
from .targets import is_same
from .widgets import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..model import Session
    from .targets import Target

KEYS = (
    KeyHelp("↑ ↓", "select (PgUp, PgDn, Home, End)"),
    KeyHelp("Space", "peek: open or close it"),
    KeyHelp("Tab", "reply: answer, comment, or type into its terminal"),
    KeyHelp("Enter", "attach to its terminal, or answer it"),
    KeyHelp("a", "attach to the coordinator, or start one"),
    KeyHelp("d", "dispatch a task (@name: to an agent)"),
    KeyHelp("m", "message to the selected agent, or to everybody"),
    KeyHelp("n", "nudge: remind an agent"),
    KeyHelp("w", "why: the history of a task or a hold"),
    KeyHelp("h", "hand a session off to a new one"),
    KeyHelp("r", "retry a failed or cancelled task"),
    KeyHelp("k", "cancel a task (asks twice)"),
    KeyHelp("/", "filter the rows"),
    KeyHelp(":", "run any tb command"),
    KeyHelp("1–5", "agents, tasks, holds, jobs and queues, messages"),
    KeyHelp("p", "pause the events"),
    KeyHelp("[ ]", "scroll the peek"),
    KeyHelp("Esc", "close the peek, clear the filter"),
    KeyHelp("?", "this help"),
    KeyHelp("q", "quit"),
)


class TopApp(CommandApp):
    """The screen with its keys."""

    BINDINGS = [
        Binding("up", "move(-1)"),
        Binding("down", "move(1)"),
        Binding("pageup", "move(-10)"),
        Binding("pagedown", "move(10)"),
        Binding("home", "move(-100000)"),
        Binding("end", "move(100000)"),
        Binding("space", "peek"),
        Binding("tab", "reply", priority=True),
        Binding("enter", "attach"),
        Binding("a", "coordinator"),
        Binding("d", "dispatch"),
        Binding("m", "message"),
        Binding("n", "nudge"),
        Binding("w", "why"),
        Binding("h", "handoff"),
        Binding("r", "retry"),
        Binding("k", "cancel"),
        Binding("slash", "filter"),
        Binding("colon", "palette"),
        Binding("p", "pause"),
        Binding("left_square_bracket", "scroll_peek(-10)"),
        Binding("right_square_bracket", "scroll_peek(10)"),
        Binding("escape", "leave"),
        Binding("question_mark", "help"),
        Binding("q,ctrl+c", "quit", priority=False),
        *(Binding(str(place), f"view('{name}')") for place, name in enumerate(VIEWS, 1)),
    ]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Tab belongs to a dialog while one is open."""
        return not (action == "reply" and len(self.screen_stack) > 1)

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(HelpScreen(KEYS))

    def action_pause(self) -> None:
        """Let the ticker stand still, or go on."""
        self.main.query_one(Ticker).pause()

    # ── Terminals ────────────────────────────────────────────────────────────────────────────────────

    def action_attach(self) -> None:
        """Attach to the terminal of the selected agent; a question is answered, anything else is peeked at."""
        wanted = self._target()
        if wanted is None:
            return
        if wanted.kind in ("question", "message", "queue"):
            self.action_reply()
            return
        name, who = wanted.agent, wanted.who
        self._look_for(lambda: actions.session_of(self.board, name, who), lambda: self._without_terminal(name))

    def _without_terminal(self, name: str | None) -> None:
        self.action_peek(True)
        if name:
            self.tell(f"{plain(name)} has no terminal on this machine that tb knows of; m sends a message", "warn")

    def action_coordinator(self) -> None:
        """Attach to the coordinator. If there is none, start one; the gate refuses a second one."""
        self._look_for(lambda: actions.coordinator(self.board), self._ask_for_coordinator)

    def _look_for(self, find: Callable[[], Session | None], missing: Callable[[], object]) -> None:
        """Look for a session in a thread; attach to it, or do something else."""

        def look() -> None:
            try:
                found = find()
                words = actions.attach_words(found) if found else []
            except TiebreakError as exc:
                self.post_message(self.Told(self._explain(exc), "bad"))
                return
            then = partial(self.attach, words) if words else missing
            self.post_message(self.Told(None, then=then))

        self.run_worker(look, thread=True, group="actions")

    def attach(self, words: list[str]) -> None:
        """Give the terminal to tmux, until the person detaches (Ctrl-b d)."""
        try:
            with self.suspend():
                done = subprocess.run(words, env=actions.outside_tmux(dict(os.environ)), check=False)
        except SuspendNotSupported:
            self.tell(f"this terminal cannot be lent; in another one, run: {shlex.join(words)}", "warn")
            return
        except OSError as exc:
            self.tell(f"{words[0]}: {exc.strerror}", "bad")
            return
        self.refresh(layout=True)
        self.follower.ask()
        if done.returncode:
            self.tell(f"tmux ended with {done.returncode}: is the session still there?", "warn")

    def _ask_for_coordinator(self) -> None:
        def look() -> None:
            try:
                seat = actions.coordinator_hold(self.board)
                words = actions.coordinator_words(self.board)
            except TiebreakError as exc:
                self.post_message(self.Told(self._explain(exc), "bad"))
                return
            if seat is not None:
                who = plain(seat.holder or "somebody")
                told = f"{who} is the coordinator, but has no terminal on this machine that tb knows of"
                self.post_message(self.Told(told, "warn"))
            else:
                self.post_message(self.Told(None, then=partial(self._ask_to_spawn, words)))

        self.run_worker(look, thread=True, group="actions")

    def _ask_to_spawn(self, words: str) -> None:
        self._ask(
            "There is no coordinator. Start one: NAME COMMAND…",
            lambda text: actions.spawn_coordinator(self.board, text),
            value=words,
        )

    def action_handoff(self) -> None:
        """Replace the selected session by a new one."""
        wanted = self._target()
        if wanted is None or not wanted.agent:
            self.tell("select an agent: only a session can be handed off", "warn")
            return
        self._ask(
            f"Hand {plain(wanted.agent)} off to a new session. A document for it (may be empty):",
            lambda text: actions.hand_off(self.board, wanted, text),
            empty=True,
        )

    # ── Words ────────────────────────────────────────────────────────────────────────────────────────

    def _ask(
        self, title: str, action: Callable[[str], str], *, hint: str = "", value: str = "", empty: bool = False
    ) -> None:
        """Ask for a line, and do something with it."""

        def typed(text: str | None) -> None:
            if text is not None and (text.strip() or empty):
                self.act(lambda: action(text.strip()))

        self.push_screen(AskLine(title, hint, value), typed)

    def action_reply(self) -> None:
        """Open the peek, and type into its line."""
        pane = self.main.query_one(PeekPane)
        if not pane.is_replying and not is_same(self._target(), pane.wanted):
            pane.show(self._target())  # a row was selected just now, and the pane does not know of it yet
        if pane.display:
            pane.want_reply()
        else:
            self.action_peek(True)
            self.call_after_refresh(pane.want_reply)

    def on_peek_pane_replied(self, replied: PeekPane.Replied) -> None:
        """Answer, comment, or reach the agent."""
        wanted, text = replied.wanted, replied.text
        back = partial(self.main.query_one(PeekPane).give_back, wanted, text)
        self.act(lambda: actions.reply(self.board, wanted, text), refused=back)

    def action_message(self) -> None:
        """Send a message to the agent that is selected, or that has what is selected; else to everybody."""
        wanted = self._target()
        name = wanted.agent if wanted else None
        self._ask(
            f"Message to {plain(name) if name else 'everybody'}:", lambda text: actions.send(self.board, name, text)
        )

    def action_nudge(self) -> None:
        """Remind an agent: in its terminal if that is here, else by a message."""
        wanted = self._target()
        if wanted is None or not wanted.agent:
            self.tell("select an agent, or something that one holds, to nudge it", "warn")
            return
        title = f"Nudge {plain(wanted.agent)}:"
        self._ask(title, lambda text: actions.reach(self.board, wanted, text), value=actions.NUDGE)

    def action_dispatch(self) -> None:
        """Post a task; with an agent selected, for that one unless its name is deleted."""
        wanted = self._target()
        name = f"@{wanted.agent} " if wanted and wanted.kind == "agent" and wanted.agent else ""
        self._ask(
            "Dispatch a task:",
            lambda text: actions.dispatch(self.board, text),
            hint="@name at the beginning: for that agent   Enter: post it   Esc: leave it",
            value=name,
        )

    # ── Tasks ────────────────────────────────────────────────────────────────────────────────────────

    def action_why(self) -> None:
        """Show the history of what is selected, or go back to the peek."""
        pane = self.main.query_one(PeekPane)
        self.action_peek(True)
        wanted, only_why = self._target(), not pane.only_why
        pane.leave_command()
        self.call_after_refresh(lambda: pane.show(wanted, only_why=only_why))

    def action_retry(self) -> None:
        """Reopen a task."""
        wanted = self._target()
        if wanted is None:
            self.tell("nothing is selected", "warn")
            return
        self.act(lambda: actions.retry(self.board, wanted))

    def action_cancel(self) -> None:
        """Cancel a task, after two questions."""
        wanted = self._target()
        if wanted is None or not wanted.number:
            self.tell("select a task to cancel it (2 lists them)", "warn")
            return
        self.run_worker(partial(self._look_at_what_is_lost, wanted), thread=True, group="actions")

    def _look_at_what_is_lost(self, wanted: Target) -> None:
        try:
            questions = actions.cancel_questions(self.board, wanted)
        except TiebreakError as exc:
            self.post_message(self.Told(self._explain(exc), "bad"))
            return
        self.post_message(self.Told(None, then=partial(self._ask_to_cancel, wanted, questions)))

    def _ask_to_cancel(self, wanted: Target, questions: list[str]) -> None:
        def decided(yes: bool | None) -> None:
            if yes:
                self.act(lambda: actions.cancel(self.board, wanted))
            else:
                self.tell("nothing was cancelled", "dim")

        self.push_screen(Confirm(*questions), decided)

    # ── Filter ─────────────────────────────────────────────────────────────────────────────────────

    def action_filter(self) -> None:
        """Filter the rows while it is typed."""

        def typed(text: str | None) -> None:
            self._filter("" if text is None else text)

        self.push_screen(AskLine("Filter:", "Enter: keep it   Esc: show everything", self.words, self._filter), typed)
