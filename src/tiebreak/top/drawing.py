"""Lines of text with their styles, as the parts of the screen draw them, and which parts of a line have changed.

Colours are those of the terminal, by name: they fit a dark and a light one. Texts are `rich.text.Text`, which has no
markup.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from rich.text import Text
from textual.geometry import Region

from ..text import cut, plain, width
from .frame import FrameLine
from .rows import Cell

if TYPE_CHECKING:
    from .peek_parts import Peeked, PeekPart

STYLES = {
    "good": "green",
    "bad": "red",
    "warn": "yellow",
    "accent": "cyan",
    "bold": "bold",
    "dim": "dim",
    "reverse": "reverse bold",
    "": "",
}
DIFF = {"+": "green", "-": "red", "@": "cyan"}
BELOW = 10
"""How many lines are shown of a live part that is out of sight until somebody scrolls."""


def as_rich(line: FrameLine, columns: int = 0, *, selected: bool = False) -> Text:
    """A line with its styles; a selected one is reversed, which shows without colours too."""
    text = Text(no_wrap=True, end="")
    for piece in line.pieces:
        text.append(piece.text, STYLES[piece.style] if not selected else "")
    if selected:
        text.pad_right(max(0, columns - text.cell_len))
        text.stylize("reverse")
    return text


def as_lines(lines: list[Text], columns: int) -> Text:
    """Several lines as one text. Each is one row: where lines were made for a wider screen, none may wrap."""
    for line in lines:
        if line.cell_len > columns:
            line.truncate(columns)
    return Text("\n", no_wrap=True).join(lines)


def changed(row: int, columns: int, before: FrameLine, after: FrameLine) -> list[Region]:
    """The parts of a line that have to be drawn anew: of most rows it is the age alone, once a second or a minute."""
    if before.pieces == after.pieces:
        return []
    widths = [width(piece.text) for piece in after.pieces]
    if widths != [width(piece.text) for piece in before.pieces]:
        return [Region(0, row, columns, 1)]
    places = accumulate(widths, initial=0)
    parts = zip(before.pieces, after.pieces, places, widths, strict=False)
    return [Region(place, row, wide, 1) for old, new, place, wide in parts if old != new]


def peek_lines(found: Peeked, columns: int, rows: int = 0) -> tuple[list[Text], int]:
    """What is shown of one thing; lines are cut, because a terminal or a diff that is wrapped cannot be read.

    With `rows`, live parts are cut to their last lines that fit in so many; also returns how many were left out.
    """
    lines = [Text(cut(found.title, columns), "bold")]
    hidden = 0
    for part in found.parts:
        made = _part_lines(part, columns)
        room = rows - len(lines) - 2 if rows and part.live else len(made)
        room = room if room > 0 else BELOW
        above = max(0, len(made) - room)
        if part.title:
            title = f"{part.title} · the last {room} of {len(made)} lines ([ shows all)" if above else part.title
            lines += [Text(""), Text(cut(title, columns), "cyan")]
        lines += made[above:]
        hidden += above
    return lines, hidden


WRAPPED = ("why", "description", "comments", "unread messages")
"""How the titles of those parts begin that are prose."""


def _part_lines(part: PeekPart, columns: int) -> list[Text]:
    lines = []
    for line in part.lines:
        style = DIFF.get(line[:1], "") if part.style == "diff" else STYLES.get(part.style, "")
        wraps = not part.title or part.title.startswith(WRAPPED)
        lines += _wrapped(line, columns, style) if wraps else [Text(cut(line, columns), style)]
    return lines


def _wrapped(line: str, columns: int, style: str) -> list[Text]:
    from textwrap import wrap

    blanks = len(line) - len(line.lstrip())
    hang = " " * (6 if line[:4].strip() and line[4:6] == "  " else min(blanks, columns // 2))
    found = wrap(line, max(20, columns), subsequent_indent=hang, break_on_hyphens=False) or [""]
    return [Text(cut(each, columns), style) for each in found]


def notice_lines(text: str, columns: int, rows: int = 3) -> list[FrameLine]:
    """A message to the person, in a few lines."""
    from textwrap import wrap

    found = wrap(plain(text), max(20, columns)) if text else []
    return [FrameLine((Cell(line),)) for line in found[:rows]]
