"""The layout of help: lines that fit the terminal, broken between words only."""

from __future__ import annotations

import os
import sys

from ..text import width

NARROWEST, USUAL, WIDEST = 40, 80, 100
"""Columns: less is not attempted, `USUAL` is for output that is no terminal, and longer lines are hard to read."""
_GAP = 2
_MOST_BEFORE = 28
"""Columns of the names in a list. The text of a longer name begins on the line below it."""


def columns() -> int:
    """How wide help is: as the terminal, or as COLUMNS says, or 80."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and 0 < int(given) < 10_000:
        wide = int(given)
    else:
        try:
            wide = os.get_terminal_size(sys.stdout.fileno()).columns or USUAL
        except (OSError, ValueError):
            wide = USUAL
    return max(NARROWEST, min(wide, WIDEST))


def wrapped(text: str, limit: int, *, first: str = "", later: str = "") -> list[str]:
    """The text in lines of at most `limit` columns. `first` and `later` are what the lines begin with.

    Only a single word that is wider than a line makes a wider line: it is never broken.
    """
    lines, line = [], first
    for word in text.split():
        begun = line.strip() != "" and line != first
        if begun and width(line) + 1 + width(word) > limit:
            lines.append(line)
            line, begun = later, False
        line += f" {word}" if begun else word
    return [*lines, line] if line.strip() else lines


def parts(text: str) -> list[list[str]]:
    """The paragraphs of a docstring, which empty lines separate, as lists of their lines."""
    joined = "\n".join(line.strip() for line in text.strip().splitlines())
    return [part.splitlines() for part in joined.split("\n\n")]


def paragraphs(text: str, limit: int, subcommands: frozenset[str] = frozenset()) -> list[str]:
    """Paragraphs, each wrapped by itself; a list of subcommands has a line for each."""
    lines: list[str] = []
    for part in parts(text):
        lines += [""] if lines else []
        if all(line.partition(" ")[0] in subcommands for line in part):
            for line in part:
                lines += wrapped(line, limit, first="    ", later="        ")
        else:
            lines += wrapped(" ".join(part), limit)
    return lines


def entries(rows: list[tuple[str, str]], limit: int) -> list[str]:
    """Names with their texts beside them, or below where a name is long."""
    most = min(_MOST_BEFORE, limit // 3)
    column = max((width(name) for name, _ in rows if width(name) <= most), default=0)
    later = " " * (2 + column + _GAP)
    lines = []
    for name, text in rows:
        if width(name) <= column:
            lines += wrapped(text, limit, first=f"  {name}{' ' * (column - width(name) + _GAP)}", later=later)
        else:
            lines += [*wrapped(name, limit, first="  ", later="    "), *wrapped(text, limit, first=later, later=later)]
    return lines


def brief(text: str, room: int) -> str:
    """The text if it fits, else its first part: up to a semicolon, a colon or the last comma that leaves it short."""
    if width(text) <= room:
        return text
    for mark in ("; ", ": ", ", "):
        first = text[: room - 1].rpartition(mark)[0] if mark == ", " else text.partition(mark)[0]
        if first and first != text and width(first) < room:
            return f"{first}."
    return text


def shell_command(text: str, limit: int) -> list[str]:
    """A command line in lines of at most `limit` columns that a shell joins again; quoted words stay whole."""
    words, quote = [""], ""
    for char in text:
        if char == " " and not quote:
            words.append("")
            continue
        words[-1] += char
        if char in "'\"" and quote in ("", char):
            quote = "" if quote else char
    lines, line = [], f"  {words[0]}"
    for word in words[1:]:
        if width(line) + 1 + width(word) > limit - 2:
            lines.append(f"{line} \\")
            line = f"    {word}"
        else:
            line += f" {word}"
    return [*lines, line]
