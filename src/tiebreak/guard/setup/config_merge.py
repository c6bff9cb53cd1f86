"""Adds missing entries to configuration files (JSON, TOML, Markdown) and leaves every other byte as it is.

A JSON file is not parsed and written again, which would lose comments, order and layout. Instead it is read for the
positions of its values, and missing members are inserted as text. Comments and trailing commas, which editors allow in
their settings, are understood.
"""

from __future__ import annotations

import json

from ...errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEEPEST = 100
BEGIN, END = "<!-- tiebreak:begin -->", "<!-- tiebreak:end -->"


class JsonPart:
    """A JSON value in a text: where it begins and ends, and its members or items."""

    __slots__ = ("end", "items", "last_comma", "members", "start", "value")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.value: Any = None
        self.members: dict[str, JsonPart] | None = None
        self.items: list[JsonPart] | None = None
        self.last_comma = False


class _JsonReader:
    """Reads JSON with comments and trailing commas, and remembers positions."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def wrong(self, what: str) -> Invalid:
        line = self.text.count("\n", 0, self.at) + 1
        return Invalid(f"line {line}: {what}")

    def skip(self) -> None:
        """Skip blanks and comments."""
        while self.at < len(self.text):
            if self.text[self.at] in " \t\r\n\ufeff":
                self.at += 1
            elif self.text.startswith("//", self.at):
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text.startswith("/*", self.at):
                end = self.text.find("*/", self.at + 2)
                if end < 0:
                    raise self.wrong("a comment does not end")
                self.at = end + 2
            else:
                return

    def value(self, depth: int = 0) -> JsonPart:
        self.skip()
        if depth > DEEPEST:
            raise self.wrong("nested too deeply")
        part = JsonPart(self.at)
        char = self.text[self.at : self.at + 1]
        if char == "{":
            self._object(part, depth)
        elif char == "[":
            self._array(part, depth)
        else:
            part.value = self._scalar()
        part.end = self.at
        return part

    def _scalar(self) -> Any:
        try:
            value, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
        except ValueError:
            raise self.wrong("this is not JSON") from None
        return value

    def _object(self, part: JsonPart, depth: int) -> None:
        part.members = {}
        self.at += 1
        while not self._closed("}"):
            key = self._scalar()
            if not isinstance(key, str):
                raise self.wrong("a member has no name")
            self.skip()
            if self.text[self.at : self.at + 1] != ":":
                raise self.wrong("a colon is missing")
            self.at += 1
            part.members[key] = self.value(depth + 1)
            self._comma("}", part)

    def _array(self, part: JsonPart, depth: int) -> None:
        part.items = []
        self.at += 1
        while not self._closed("]"):
            part.items.append(self.value(depth + 1))
            self._comma("]", part)

    def _closed(self, bracket: str) -> bool:
        self.skip()
        if self.text[self.at : self.at + 1] != bracket:
            return False
        self.at += 1
        return True

    def _comma(self, bracket: str, part: JsonPart) -> None:
        self.skip()
        char = self.text[self.at : self.at + 1]
        part.last_comma = char == ","
        if char == ",":
            self.at += 1
        elif char != bracket:
            raise self.wrong(f"a comma or {bracket} is missing")


def read(text: str) -> JsonPart:
    """The value of a whole text; raises `Invalid` with the line if it is not JSON."""
    reader = _JsonReader(text)
    whole = reader.value()
    reader.skip()
    if reader.at != len(text):
        raise reader.wrong("something follows the value")
    return whole


def load_json(text: str) -> Any:
    """The value of a text with comments and trailing commas; raises `Invalid` with the line if it is not JSON."""
    return _loaded(read(text))


def _loaded(part: JsonPart) -> Any:
    if part.members is not None:
        return {name: _loaded(each) for name, each in part.members.items()}
    return [_loaded(each) for each in part.items] if part.items is not None else part.value


def merge_json(text: str, wanted: dict[str, Any]) -> str:
    """The text with the missing parts of `wanted` added; existing members stay as they are."""
    if not text.strip("\ufeff \t\r\n"):
        return json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"
    newline = "\r\n" if "\r\n" in text else "\n"
    while True:
        edit = _missing(text, read(text), wanted, 0)
        if edit is None:
            return text
        at, length, piece = edit
        text = text[:at] + piece.replace("\n", newline) + text[at + length :]


def _missing(text: str, part: JsonPart, wanted: Any, depth: int) -> tuple[int, int, str] | None:
    """The first missing part: its position, how many characters it replaces, and its text."""
    if isinstance(wanted, dict):
        if part.members is None:
            raise Invalid(f"line {text.count(chr(10), 0, part.start) + 1}: an object was expected here")
        for name, value in wanted.items():
            if name not in part.members:
                return _insertion(text, part, f"{json.dumps(name)}: ", value, depth)
            if isinstance(value, dict) and "command" in value:
                continue  # an existing server of this name keeps its own settings
            edit = _missing(text, part.members[name], value, depth + 1)
            if edit is not None:
                return edit
    elif isinstance(wanted, list):
        if part.items is None:
            raise Invalid(f"line {text.count(chr(10), 0, part.start) + 1}: a list was expected here")
        for value in wanted:
            if not _has(text, part, value):
                return _insertion(text, part, "", value, depth)
    return None


def _has(text: str, part: JsonPart, value: Any) -> bool:
    """Whether a list has an entry that runs the same command already, whatever its other members."""
    there = text[part.start : part.end]
    return all(json.dumps(command) in there for command in _commands(value))


def _commands(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["command"]] if isinstance(value.get("command"), str) else []
        return own + [each for inner in value.values() for each in _commands(inner)]
    return [each for inner in value for each in _commands(inner)] if isinstance(value, list) else []


def _insertion(text: str, part: JsonPart, name: str, value: Any, depth: int) -> tuple[int, int, str]:
    """A new member at the end of an object or list, with the indentation of the existing ones."""
    unit = _indent(text)
    own = _line_indent(text, part.start)
    inside = own + unit
    lines = json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", "\n" + inside)
    entries = list(part.members.values()) if part.members is not None else part.items or []
    if not entries:
        return part.start + 1, 0, f"\n{inside}{name}{lines}\n{own}"
    last = entries[-1].end
    if part.last_comma:
        comma = text.index(",", _after_comments(text, last))
        comment = _comment(text, comma + 1)
        return comma + 1, len(comment), f"{comment}\n{inside}{name}{lines},"
    if "\n" not in text[part.start : part.end]:
        return last, 0, f", {name}{json.dumps(value, ensure_ascii=False)}"
    comment = _comment(text, last)
    return last, len(comment), f",{comment}\n{_line_indent(text, entries[-1].start)}{name}{lines}"


def _comment(text: str, at: int) -> str:
    """The rest of a line, if it is a comment."""
    rest = text[at:].partition("\n")[0].rstrip("\r")
    return rest if rest.lstrip().startswith("//") else ""


def _after_comments(text: str, at: int) -> int:
    reader = _JsonReader(text)
    reader.at = at
    reader.skip()
    return reader.at


def _indent(text: str) -> str:
    """One step of the file's indentation."""
    for line in text.splitlines():
        blank = line[: len(line) - len(line.lstrip(" \t"))]
        if blank and line.strip() and not line.strip().startswith(("*", "//")):
            return "\t" if blank.startswith("\t") else blank
    return "  "


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


# ── TOML and Markdown ────────────────────────────────────────────────────────────────────────────────


def merge_toml(text: str, blocks: list[str]) -> str:
    """The text with the first of these blocks appended that keeps it valid TOML; raises `Invalid` if none does."""
    import tomllib

    newline = "\r\n" if "\r\n" in text else "\n"
    try:
        tomllib.loads(text.removeprefix("\ufeff"))
    except ValueError as exc:
        raise Invalid(f"this is not TOML: {exc}") from None
    head = blocks[-1].splitlines()
    if all(any(line.strip() == wanted for line in text.splitlines()) for wanted in head if wanted):
        return text
    gap = "" if not text.strip("\ufeff") else "\n" if text.endswith("\n") else "\n\n"
    for block in blocks:
        merged = text + (gap + block).replace("\n", newline)
        try:
            tomllib.loads(merged.removeprefix("\ufeff"))
            return merged
        except ValueError:
            continue
    raise Invalid("there is no place to add to it", hint="add this by hand:\n" + blocks[0])


def merge_section(text: str, section: str) -> str:
    """The text with the section between its marks: replaced if it is there, else appended."""
    newline = "\r\n" if "\r\n" in text else "\n"
    whole = f"{BEGIN}\n{section.strip()}\n{END}".replace("\n", newline)
    start, end = text.find(BEGIN), text.find(END)
    if 0 <= start < end:
        return text[:start] + whole + text[end + len(END) :]
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    return text + gap + whole + newline
