"""Check lists in Markdown: each item with a box (`- [ ] text`) is a task.

An item that is indented below another one is a child of it. Other indented text below an item is its description. A
checked item is posted as completed, and `[-]` as cancelled. The nearest heading above becomes a tag. Code blocks and
HTML comments are not searched for items.

`<!-- key: KEY -->` at the end of an item names its task, and `<!-- id: ID -->` one that was exported without a key.
Every other key is made from the item's text and the texts of the items above it, so that an edited list can be imported
again: only what is new is posted.
"""

from __future__ import annotations

import re

from ..names import is_uuid
from .import_jsonl import tag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .importing import TaskFile

_STATES = {" ": None, "x": "completed", "X": "completed", "-": "cancelled", "/": None, "~": None}
ITEM = re.compile(r"^( *)(?:[-*+]|\d{1,9}[.)]) +\[([ xX/~-])\](?: +(.*))?$")
LIKE_ITEM = re.compile(r"^(\s*(?:[-*+]|\d{1,9}[.)])\s+)(\\*\[[ xX/~-]\])")
"""A line of a description that looks like an item. `tb export` puts a backslash before the box."""
_ESCAPED = re.compile(LIKE_ITEM.pattern.replace(r"(\\*", r"\\(\\*"))
_NAMED = re.compile(r"\s*<!--\s*(key|id):\s*(\S+)\s*-->\s*$")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")
FENCE = re.compile(r"^ *(`{3,}|~{3,})")
_STEP = 2
"""An item with this many more blanks before it is a child."""
_CODE = 4
"""A line with this many blanks before it, outside of any item, is code."""


class _Reader:
    """Reads one file, line by line."""

    def __init__(self, into: TaskFile) -> None:
        self._into = into
        self._open: list[tuple[int, int]] = []
        """The items that the next line may belong to, the innermost last: how far each is indented, and its place."""
        self._text: list[str] = []
        """The description of the innermost item, so far."""
        self._fence: tuple[str, int] | None = None
        """The fence of the code block that is open, and how far the item it is in is indented."""
        self._in_comment = False
        self._heading = ""

    def line(self, number: int, line: str) -> None:
        """Read the next line."""
        indent = len(line) - len(line.lstrip(" "))
        if not line.strip():
            self._text.append("")
            return
        if self._in_comment:
            self._in_comment = "-->" not in line
            return
        if self._fence is not None and indent >= self._fence[1]:
            self._in_code(line, indent)
            return
        self._fence = None
        item = ITEM.match(line)
        if item is not None and not (indent >= _CODE and not self._open):
            self._item(number, indent, item)
            return
        while self._open and indent < self._open[-1][0] + _STEP:
            self._close()
        if self._open:
            self._in_item(line, indent)
        else:
            self._outside(line)

    def _in_code(self, line: str, indent: int) -> None:
        assert self._fence is not None  # noqa: S101
        fence = self._fence[0]
        if self._open:
            self._text.append(_unescaped(line))
        ended = line.strip()
        if ended.startswith(fence) and set(ended) == {fence[0]}:
            self._fence = None

    def _in_item(self, line: str, indent: int) -> None:
        self._text.append(_unescaped(line))
        if fence := FENCE.match(line):
            self._fence = fence[1], self._open[-1][0] + _STEP

    def _outside(self, line: str) -> None:
        if fence := FENCE.match(line):
            self._fence = fence[1], 0
        elif heading := _HEADING.match(line):
            self._heading = tag(heading[1].lower())
        elif line.lstrip().startswith("<!--"):
            self._in_comment = "-->" not in line

    def _item(self, number: int, indent: int, item: re.Match[str]) -> None:
        while self._open and indent < self._open[-1][0] + _STEP:
            self._close()
        self._end_text()
        entry = self._entry(item)
        if not entry["name"]:
            self._into.wrong(number, "an item without text")
            return
        above = self._open[-1][1] if self._open else None
        self._open.append((indent, self._into.add(number, entry, above)))

    def _entry(self, item: re.Match[str]) -> dict[str, Any]:
        text = item[3] or ""
        entry: dict[str, Any] = {}
        if named := _NAMED.search(text):
            kind = "id" if named[1] == "id" and is_uuid(named[2]) else "key"
            text, entry[kind] = text[: named.start()], named[2]
        entry["name"] = " ".join(text.split())
        if state := _STATES[item[2]]:
            entry["state"] = state
        if self._heading:
            entry["tags"] = [self._heading]
        return entry

    def _end_text(self) -> None:
        """Give the text so far to the innermost item."""
        lines, self._text = self._text, []
        if not self._open:
            return
        margin = min((len(line) - len(line.lstrip(" ")) for line in lines if line), default=0)
        if body := "\n".join(line[margin:] for line in lines).strip("\n"):
            known = self._into.entries[self._open[-1][1]]
            known["body"] = f"{known['body']}\n\n{body}" if "body" in known else body

    def _close(self) -> None:
        self._end_text()
        self._open.pop()

    def end(self) -> None:
        """Read no more."""
        while self._open:
            self._close()


def _unescaped(line: str) -> str:
    return _ESCAPED.sub(r"\1\2", line)


def read(text: str, into: TaskFile) -> None:
    """Read a whole file."""
    reader = _Reader(into)
    for number, given in enumerate(text.split("\n"), 1):
        line = given.rstrip()
        start = len(line) - len(line.lstrip())
        reader.line(number, line[:start].expandtabs(_CODE) + line[start:])
    reader.end()
