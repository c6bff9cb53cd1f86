"""The palette of `tb top`: any `tb` command, run beside the screen, with its output in the peek."""

from __future__ import annotations

import shlex
from functools import partial

from ..text import plain
from .app import WatchApp
from .command_run import CommandRun
from .dialogs import Confirm, Palette
from .peek_pane import PeekPane

UNASKED = frozenset(("--yes", "--dry-run", "--help", "-h"))
"""With one of these, a command that asks in a terminal does not."""


class CommandApp(WatchApp):
    """The screen, and commands."""

    def action_palette(self) -> None:
        """Choose and run any command of `tb`."""
        self.push_screen(Palette(self._commands()), self._run_command)

    def _run_command(self, typed: str | None) -> None:
        """Run a command; one that asks in a terminal cannot ask here, so the screen does."""
        if not typed:
            return
        try:
            words = shlex.split(typed)
        except ValueError as exc:
            self.tell(f"{typed}: {exc}", "bad")
            return
        asks = next((each for each in self._commands() if each.name == words[0] and each.asks), None)
        if asks is None or UNASKED.intersection(words):
            self._start_command(typed, words)
            return

        def decided(yes: bool | None) -> None:
            if yes:
                self._start_command(typed, [words[0], "--yes", *words[1:]])
            else:
                self.tell("nothing was run", "dim")

        self.push_screen(Confirm(f"Run tb {plain(typed)}? {asks.text}"), decided)

    def _start_command(self, typed: str, words: list[str]) -> None:
        self.action_peek(True)
        for run in self.main.query_one(PeekPane).unseen:
            if run.typed == typed:  # it still runs, and is to be seen again
                self._show_command(run)
                return

        def start() -> None:
            run = CommandRun(self._program, typed, words, self.board)
            self.post_message(self.Told(None, then=partial(self._follow_command, run)))

        self.run_worker(start, thread=True, group="actions")

    def _follow_command(self, run: CommandRun) -> None:
        self._show_command(run)
        run.follow(lambda: self.post_message(self.Told(None, then=partial(self._command_changed, run))))

    def _show_command(self, run: CommandRun) -> None:
        self.main.query_one(PeekPane).show_command(run)

    def _command_changed(self, run: CommandRun) -> None:
        if self.main.query_one(PeekPane).follow_command(run):
            last = f": {run.lines[-1]}" if run.lines else ""
            self.tell(f"tb {run.typed}: {run.state}{last}", "warn" if run.code else "good")
