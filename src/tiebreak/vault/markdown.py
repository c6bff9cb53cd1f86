"""Text from the board in Markdown: shown as it is, and never acted on.

A name or a body may contain anything. In a note it must not become a link, an embedded file, HTML, a comment that hides
what follows, a tag, a field, a formula, a query or a template. So every character that could begin one of these is
written as a character reference or with a backslash. A reference is decoded after all syntax was recognised, so it can
never be syntax, and plugins that search the raw text (queries, templates such as `<% … %>`) do not find theirs.
"""

from __future__ import annotations

import re

from ..text import block, moment, plain
from ..text import cut as cut_to_width

_REFERENCES = {ord(char): f"&#{ord(char)};" for char in "&<>[]%`$#^@{}"}
_BACKSLASHES = {ord(char): f"\\{char}" for char in "\\*_~=|!"}
_INERT = {**_REFERENCES, **_BACKSLASHES}
_LIST = re.compile(r"^([-+]|\d+(?=[.)]))", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
_FIELD_OR_ADDRESS = re.compile(r":(?=[:/])|(?<=:):|(?<=www)\.", re.IGNORECASE)
# Inside of a link nothing is decoded, so there these characters are replaced by similar ones.
_SIMILAR = str.maketrans({"[": "(", "]": ")", "|": "/", "<": "‹", ">": "›", "`": "'", "%": "％", "\\": "/", "^": "'"})
NAME_WIDTH = 80


def prose(text: str) -> str:
    """Text of several lines. Indented lines stay indented and do not become code."""
    lines = _INDENT.sub(lambda found: "\u00a0" * len(found[0].expandtabs(4)), block(text))
    escaped = _FIELD_OR_ADDRESS.sub(lambda found: f"&#{ord(found[0])};", lines.translate(_INERT))
    return _LIST.sub(_no_list, escaped).rstrip()


def _no_list(found: re.Match[str]) -> str:
    return f"\\{found[0]}" if found[0] in "-+" else f"{found[0]}\\"


def line(text: str) -> str:
    """Text of one line."""
    return prose(plain(text))


def caption(text: str) -> str:
    """Text inside of a link or a property, where nothing can be escaped: without what would end it, or an address."""
    return cut_to_width(plain(text).translate(_SIMILAR).replace("://", ": //"), NAME_WIDTH)


def link(path: str, text: str) -> str:
    """A link to a note of the vault; `path` comes from `note_names`."""
    return f"[[{path}|{caption(text)}]]"


def quoted(text: str) -> str:
    """A string of YAML, which is also one of JSON."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def properties(values: dict[str, object]) -> list[str]:
    """The front matter of a note; what is None is left out. Texts have to be links or captions."""
    lines = ["---"]
    for name, value in values.items():
        if isinstance(value, list):
            lines += [f"{name}:", *(f"  - {quoted(each)}" for each in value)] if value else []
        elif isinstance(value, bool):
            lines.append(f"{name}: {'true' if value else 'false'}")
        elif value is not None:
            lines.append(f"{name}: {value if isinstance(value, int) else quoted(str(value))}")
    return [*lines, "---"]


def json_block(value: object) -> list[str]:
    """A JSON value as a block of code, without what a template, a link or the end of the block begins with."""
    import json

    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=True)
    for mark in ("<", "`", "%", "[["):  # with its indentation, only a string has two brackets side by side
        text = text.replace(mark, "".join(f"\\u{ord(char):04x}" for char in mark))
    return ["```json", *text.split("\n"), "```"]


def time(seconds: float | None) -> str | None:
    """A time of the board for a property, to the second."""
    return None if seconds is None else f"{moment(round(seconds * 1_000_000))[:19]}Z"


def time_shown(seconds: float) -> str:
    """A time of the board for people, in UTC."""
    return moment(round(seconds * 1_000_000))[:19].replace("T", " ")
