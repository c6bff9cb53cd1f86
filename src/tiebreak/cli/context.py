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
    from .spec import Args


class Context:
    """One run of the command line."""

    def __init__(self, options: Args) -> None:
        self.json: bool = options.json
        self._options = options
        self._board: Board | None = None
        self._colour: bool | None = None

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
        print(text)

    def answer(self, value: Any, text: str | None = None) -> None:
        """The result: as JSON for programs, as text for people."""
        if not self.json:
            if text:
                print(text)
            return
        import json

        from ..model import encode

        print(json.dumps(encode(value), ensure_ascii=False), flush=True)

    def complain(self, error: TiebreakError) -> None:
        """An error: as JSON on standard output for programs, as one line and a hint for people."""
        if self.json:
            import json

            print(json.dumps(error.to_dict(), ensure_ascii=False))
            return
        from ..text import colour_wanted, plain, style

        on = colour_wanted(sys.stderr, os.environ)
        print(f"{style('tb:', 'bad', on=on)} {plain(error.message)}", file=sys.stderr)
        if error.hint:
            print(f"    {style(plain(error.hint), 'dim', on=on)}", file=sys.stderr)

    def close(self) -> None:
        """Give the board back."""
        if self._board is not None:
            self._board.close()


def duration(value: str, what: str) -> float:
    """A duration on the command line."""
    from ..names import seconds

    return seconds(value, what)


def refuse_empty(value: list[str], what: str) -> None:
    """At least one is needed."""
    if not value:
        raise Invalid(f"{what}: name at least one")
