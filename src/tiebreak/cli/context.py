"""What a command has in its hands: the board, who asks, and how to answer."""

from __future__ import annotations

import os
import sys

from ..errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..board import Board
    from ..errors import TiebreakError
    from .parser import Args


class Context:
    """One run of the command line."""

    def __init__(self, options: Args) -> None:
        self.json: bool = options.json
        self.code = 0
        """The exit code that was decided before the answer was written."""
        self.answering = False
        """Whether what fails now would be the writing of an answer."""
        self._options = options
        self._board: Board | None = None
        self._colour: bool | None = None

    def use(self, options: Args) -> None:
        """From now on, what the command line said."""
        self.json = options.json
        self._options = options

    @property
    def board(self) -> Board:
        """The board, opened on first use."""
        if self._board is None:
            from ..board import open

            given = self._options
            self._board = open(given.board, agent=given["as"], project=given.project)
        return self._board

    @property
    def colour(self) -> bool:
        """Whether standard output wants colour."""
        if self._colour is None:
            from ..text import colour_wanted

            self._colour = colour_wanted(sys.stdout, os.environ)
        return self._colour

    @property
    def width(self) -> int:
        """The terminal's width; 0 when the output goes elsewhere and must not be cut."""
        if not sys.stdout.isatty():
            return 0
        try:
            return os.get_terminal_size(sys.stdout.fileno()).columns
        except OSError:
            return 80

    def styled(self, text: str, style: str) -> str:
        """Text in a colour by its meaning, if colour is wanted."""
        from ..text import style as styled

        return styled(text, style, on=self.colour)

    def say(self, text: str) -> None:
        """A line for a person."""
        self._print(text)

    def answer(self, value: Any, text: str | None = None) -> None:
        """The result: as JSON for programs, as text for people."""
        if self.json:
            from ..model import encode
            from ..text import json

            self._print(json(encode(value)))
        elif text:
            self._print(text)

    def _print(self, text: str) -> None:
        self.answering = True
        print(text, flush=not sys.stdout.isatty())  # whoever follows a stream through a pipe waits for each line
        self.answering = False

    def progress(self, text: str) -> None:
        """How far a long command is, in one line of the terminal that is drawn over; "" clears it."""
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def complain(self, error: TiebreakError) -> None:
        """An error: as JSON on standard output for programs, as one line and a hint for people."""
        from ..text import colour_wanted, json, plain, style

        self.code = error.exit_code
        if self.json:
            self._print(json(error.to_dict()))
            return
        on = colour_wanted(sys.stderr, os.environ)
        try:
            print(f"{style('tb:', 'bad', on=on)} {plain(error.message)}", file=sys.stderr)
            if error.hint:
                print(f"    {style(plain(error.hint), 'dim', on=on)}", file=sys.stderr)
        except OSError:
            pass  # nobody is left to be told; the exit code stays

    def close(self) -> None:
        """Give the board back."""
        if self._board is not None:
            self._board.close()


def standard_input() -> str:
    """All of standard input, as text."""
    try:
        return sys.stdin.read()
    except (OSError, UnicodeDecodeError) as exc:
        raise Invalid(f"standard input cannot be read: {exc}") from None


def needed(value: Any, what: str) -> None:
    """Refuse to go on without it."""
    if not value:
        raise Invalid(f"{what} is missing")
