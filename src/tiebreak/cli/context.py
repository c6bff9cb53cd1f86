"""What every command needs: the board, the options, and functions that print its answer."""

from __future__ import annotations

import os
import sys

from ..errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..board import Board
    from ..errors import Refused, TiebreakError
    from .parser import Args
    from .waiting_notice import WaitingNotice


class Context:
    """One run of the command line."""

    def __init__(self, options: Args) -> None:
        self.json: bool = options.json
        self.code = 0
        """The exit code to use if writing the answer fails."""
        self.answering = False
        """Whether an answer is being written at the moment."""
        self._options = options
        self._board: Board | None = None
        self._colour: bool | None = None
        self._notice: WaitingNotice | None = None

    def use(self, options: Args) -> None:
        """Use the options of the command line from now on."""
        self.json = options.json
        self._options = options

    @property
    def board(self) -> Board:
        """The board, opened on first use."""
        if self._board is None:
            from ..board import open

            given = self._options
            self._board = open(given.board, agent=given["as"], project=given.project)
            self._board.on_wait = self.waiting
        return self._board

    def waiting(self, what: Refused | str, left: float = float("inf")) -> float:
        """Say on standard error what the command waits for, if it is time; returns the seconds until the next call.

        The words of `what` complete "waiting for …"; a refusal speaks for itself.
        """
        if self._notice is None:
            from .waiting_notice import WaitingNotice

            self._notice = WaitingNotice(as_json=self.json)
        return self._notice(what, left)

    @property
    def address(self) -> str:
        """The address of the board, which is not opened for it."""
        from ..board import default_address

        return str(self._options.board or default_address())

    def who(self) -> tuple[str, str]:
        """The agent's name and the project, found without opening the board."""
        from ..agent_names import default_agent
        from ..board import here
        from ..project_identity import project_names

        given = self._options
        agent = given["as"] or os.environ.get("TIEBREAK_AGENT") or default_agent(os.environ)
        project = given.project or os.environ.get("TIEBREAK_PROJECT") or project_names(here())
        return agent, project.partition(" ")[0]

    @property
    def colour(self) -> bool:
        """Whether to colour standard output."""
        if self._colour is None:
            from ..text import colour_wanted

            self._colour = colour_wanted(sys.stdout, os.environ)
        return self._colour

    @property
    def width(self) -> int:
        """The terminal's width; 0 if the output is not a terminal, so that nothing is cut off."""
        if not sys.stdout.isatty():
            return 0
        try:
            return os.get_terminal_size(sys.stdout.fileno()).columns
        except OSError:
            return 80

    def styled(self, text: str, style: str) -> str:
        """Text in the colour of a style, if colour is on."""
        from ..text import style as styled

        return styled(text, style, on=self.colour)

    def say(self, text: str) -> None:
        """Print a line for a person."""
        self._print(text)

    def answer(self, value: Any, text: str | None = None) -> None:
        """Print the result: as JSON with --json, else as text."""
        if self.json:
            from ..model import encode
            from ..text import json

            self._print(json(encode(value)))
        elif text:
            self._print(text)

    def _print(self, text: str) -> None:
        self.answering = True
        print(text, flush=not sys.stdout.isatty())  # a program that reads through a pipe waits for each line
        self.answering = False

    def progress(self, text: str) -> None:
        """Show progress in a line of the terminal that is overwritten; "" clears it."""
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Print a line on standard error that must not be overlooked."""
        from ..text import colour_wanted, plain, style

        try:
            print(f"{style('tb:', 'warn', on=colour_wanted(sys.stderr, os.environ))} {plain(text)}", file=sys.stderr)
        except OSError:
            pass  # nobody reads it

    @property
    def has_person(self) -> bool:
        """Whether a person runs the command in a terminal. In the session of a coding agent nobody does."""
        from ..agent_names import in_client

        return sys.stdin.isatty() and not in_client(os.environ)

    @property
    def can_ask(self) -> bool:
        """Whether a person sees what is printed and can answer."""
        return not self.json and sys.stderr.isatty() and self.has_person

    def ask(self, question: str) -> str:
        """Ask a person at the terminal for one of a few words: see `ask_text`."""
        return self.ask_text(question).lower()

    def ask_text(self, question: str) -> str:
        """Ask a person at the terminal, on standard error; "" if nobody is there to answer."""
        from ..text import block

        if not self.can_ask:
            return ""
        print(block(question), end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip()

    def agrees(self, question: str) -> bool:
        """Ask a person for a yes; anything else means no."""
        return self.ask(f"{question} [y/N] ") in ("y", "yes")

    def complain(self, error: TiebreakError) -> None:
        """Print an error: as JSON on standard output with --json, else as a line and a hint on standard error."""
        from ..advice import advice
        from ..text import colour_wanted, json, plain, style
        from .advice import COMMANDS

        hint = advice(error, COMMANDS)
        self.code = error.exit_code
        if self.json:
            self._print(json(error.to_dict(hint)))
            return
        on = colour_wanted(sys.stderr, os.environ)
        try:
            print(f"{style('tb:', 'bad', on=on)} {plain(error.message)}", file=sys.stderr)
            if hint:
                print(f"    {style(plain(hint), 'dim', on=on)}", file=sys.stderr)
        except OSError:
            pass  # nobody reads it; the exit code stays

    def close(self) -> None:
        """Close the board."""
        if self._board is not None:
            self._board.close()


def standard_input() -> str:
    """All of standard input, as text."""
    try:
        return sys.stdin.read()
    except (OSError, UnicodeDecodeError) as exc:
        raise Invalid(f"standard input cannot be read: {exc}") from None


def needed(value: Any, what: str) -> None:
    """Raise `Invalid` if a value is missing."""
    if not value:
        raise Invalid(f"{what} is missing")
