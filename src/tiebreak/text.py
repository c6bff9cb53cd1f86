r"""Text for people: the one module that makes text safe to show, and formats times and tables.

Names, bodies and payloads come from agents, which may repeat anything they have read. Everything that
is printed goes through `plain` or `block`, and everything in a web page through `html`. They show
characters that move a cursor, reorder a line or are invisible as escapes such as `\x1b` and `\u202e`.
`style` adds colour afterwards, so no stored text can have a colour of its own.

Shown as escapes are all characters that Unicode does not call printable (controls, format characters,
surrogates, line separators, private and unassigned code points) and the few letters that are
invisible by definition. Spaces of other scripts stay, and so do emoji that are newer than this Python.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Set
    from typing import Any, TextIO

_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_SPACES = frozenset("\u00a0\u1680\u202f\u205f\u3000") | {chr(code) for code in range(0x2000, 0x200B)}
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
_CODES = {"good": "32", "bad": "31", "warn": "33", "accent": "36", "bold": "1", "dim": "2"}
_GAP = "  "


def plain(text: str) -> str:
    """`text` for one line of a terminal: control characters and invisible ones are shown as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_PLAIN)


def argument(word: str) -> str:
    """A word, such as a path, as a shell takes it: for commands that a reader pastes."""
    from shlex import quote

    return quote(plain(word))


def block(text: str) -> str:
    """Like `plain`, but newlines and tabs stay, for bodies of several lines."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_BLOCK)


def json(value: object) -> str:
    """A value of dicts, lists, strings, numbers, booleans and None as JSON, in ASCII.

    The result is that of `json.dumps`, whose import would cost every command 8 ms.
    """
    from _json import encode_basestring_ascii

    if isinstance(value, str):
        return str(encode_basestring_ascii(value))
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json(str(key))}: {json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(json, value)) + "]"
    if isinstance(value, (int, float)) and abs(value) < float("inf"):  # NaN is not
        return repr(value)
    raise TypeError(f"not a JSON value: {value!r}")


def read_json(text: str) -> Any:
    """The value of a JSON text, like `json.loads` but without its import; raises `ValueError`."""
    try:
        from _json import make_scanner
    except ImportError:
        import json as standard

        return standard.loads(text)
    try:
        value, end = make_scanner(_ScannerSettings)(text, 0)  # type: ignore[arg-type]
    except (
        StopIteration,
        RecursionError,
        SystemError,
    ) as exc:  # SystemError: if the scanner cannot import its own exception
        raise ValueError(f"not JSON: {text[:40]!r}") from exc
    if text[end:].strip():
        raise ValueError("not JSON: something follows the value")
    return value


class _ScannerSettings:
    """The settings that the standard library's scanner reads."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int

    @staticmethod
    def parse_constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")


def html(text: str) -> str:
    """Like `plain`, and safe as the content of an element or of a quoted attribute."""
    return text.translate(_HTML)


def width(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def cut(text: str, width: int) -> str:
    """`text` in at most `width` columns, with `…` at the end if some of it is missing."""
    if len(text) <= width and text.isascii():
        return text
    if width < 1:
        return ""
    if text.isascii():
        return text[: width - 1] + "…"
    return _cut_wide(text, width)


def ago(seconds: float) -> str:
    """An age, rounded down to its largest unit: `59s`, `3m`, `2h`, `5d`; a time to come is `in 3m`."""
    count, unit = int(abs(seconds)), "s"
    for size, larger in ((60, "m"), (60, "h"), (24, "d")):
        if count < size:
            break
        count, unit = count // size, larger
    return f"in {count}{unit}" if seconds <= -1 else f"{count}{unit}"


def span(seconds: float) -> str:
    """A duration: `12ms`, `1.2s`, `42s`, `1m30s`, `2h05m`, `3d04h`."""
    if seconds < 0:
        return "-" + span(-seconds)
    if round(seconds * 1000) < 1000:
        return f"{round(seconds * 1000)}ms" if seconds else "0s"
    if round(seconds * 10) < 100:
        return f"{round(seconds * 10) / 10:g}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours < 24 else f"{hours // 24}d{hours % 24:02}h"


def rfc3339(at: float) -> str:
    """Unix seconds as `2026-11-15T19:22:41.123456Z`, to the nearest microsecond."""
    # Split first: the product of a whole Unix time and a million has no bits left to round correctly.
    seconds = int(at // 1)
    micros = round((at - seconds) * 1_000_000)
    if micros == 1_000_000:
        seconds, micros = seconds + 1, 0
    return f"{_second(seconds)}.{micros:06}Z"


def moment(stored: int) -> str:
    """Board time, which is in microseconds, as text like that of `rfc3339`."""
    seconds, micros = divmod(stored, 1_000_000)
    return f"{_seconds.get(seconds) or _second(seconds)}.{micros:06}Z"


# A cache: most times that are shown together are within a few seconds.
_seconds: dict[int, str] = {}


def _second(seconds: int) -> str:
    year, month, day, hour, minute, second = time.gmtime(seconds)[:6]
    if len(_seconds) > 1000:
        _seconds.clear()
    made = _seconds[seconds] = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
    return made


def stored(text: str) -> int:
    """The board time of a text that `moment` made, without rounding to a float; other spellings are read too."""
    if len(text) != 27 or text[26] != "Z" or text[10] != "T":
        return round(parse_rfc3339(text) * 1_000_000)
    try:
        year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
        hour, minute, second, micros = int(text[11:13]), int(text[14:16]), int(text[17:19]), int(text[20:26])
    except ValueError:
        raise _not_a_time(text) from None
    # Days since 1970-01-01 by the civil calendar, with years that begin in March so that leap days come last.
    shifted = year - (month < 3)
    days = shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400
    days += (153 * ((month + 9) % 12) + 2) // 5 + day - 1 - 719_468
    return (days * 86_400 + hour * 3_600 + minute * 60 + second) * 1_000_000 + micros


def parse_rfc3339(text: str) -> float:
    """Unix seconds of a time with `Z` or an offset; `Invalid` for anything else."""
    from datetime import datetime

    try:
        at = datetime.fromisoformat(text.upper()) if _looks_like_time(text) else None
        if at is not None and at.tzinfo is not None:
            return at.timestamp()
    except (ValueError, OverflowError):
        pass
    raise _not_a_time(text)


class Styled(str):
    """A cell of a table with the name of its style, see `style`."""

    name: str

    def __new__(cls, text: str, name: str) -> Styled:
        """`text`, to be shown as `name` ("good", "bad", …)."""
        cell = super().__new__(cls, text)
        cell.name = name
        return cell


def style(text: str, name: str, *, on: bool) -> str:
    """`text` in the colour of its meaning: good, bad, warn, dim, bold or accent; unchanged if not `on`."""
    return f"\x1b[{_CODES[name]}m{text}\x1b[0m" if on and text else text


def colour_wanted(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether to colour output to `stream`: NO_COLOR decides, then FORCE_COLOR, then whether it is a terminal."""
    if environ.get("NO_COLOR"):
        return False
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        if environ.get(name):
            return environ[name] != "0"
    if environ.get("TERM") == "dumb" or environ.get("CLICOLOR") == "0":
        return False
    return not stream.closed and stream.isatty()


def table(
    rows: list[list[str]],
    *,
    header: list[str] | None = None,
    right: Set[int] = frozenset(),
    limit: int = 0,
    colour: bool = False,
) -> str:
    """Aligned columns, two spaces apart, made safe by `plain`; no newline at the end.

    `right` are the columns to align to the right, by index. With a `limit` no line is wider than it:
    the widest column is cut, and if not even one character of each fits, the last columns are omitted.
    `Styled` cells are coloured if `colour`.
    """
    lines = [header, *rows] if header else rows
    if limit > 0:
        lines = [line[: (limit + len(_GAP)) // (1 + len(_GAP))] for line in lines]
    cells = [[(plain(cell).rstrip(), _style_of(cell)) for cell in line] for line in lines]
    widths = _fit_widths(_widths([[text for text, _ in line] for line in cells]), limit)
    return "\n".join(_line(line, widths, right, colour) for line in cells)


def _line(cells: list[tuple[str, str]], widths: list[int], right: Set[int], colour: bool) -> str:
    out = []
    for index, (text, name) in enumerate(cells):
        shown = cut(text, widths[index])
        # The padding is outside of the colour codes, which take no columns, so that blanks at the end can be removed.
        blanks = " " * (widths[index] - width(shown))
        shown = style(shown, name, on=colour and bool(name))
        out.append(blanks + shown if index in right else shown + blanks)
    return _GAP.join(out).rstrip()


def _style_of(cell: str) -> str:
    return cell.name if isinstance(cell, Styled) else ""


def _widths(lines: list[list[str]]) -> list[int]:
    widths = [0] * max(map(len, lines), default=0)
    for line in lines:
        for index, text in enumerate(line):
            widths[index] = max(widths[index], width(text))
    return widths


def _fit_widths(widths: list[int], limit: int) -> list[int]:
    if limit <= 0:
        return widths
    widths = [min(each, limit) for each in widths]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - limit
    for _ in range(excess):
        widths[widths.index(max(widths))] -= 1
    return widths


def _cut_wide(text: str, limit: int) -> str:
    used = kept = 0
    for index, char in enumerate(text):
        used += _columns(char)
        if used > limit:
            return text[:kept] + "…"
        if used < limit:
            kept = index + 1
    return text


def _columns(char: str) -> int:
    if char.isascii():
        return 1
    from unicodedata import category, east_asian_width

    # This selector widens the narrow sign before it to an emoji.
    if char == "\ufe0f":
        return 1
    kind = category(char)
    if kind in ("Mn", "Me"):
        return 0
    # Unassigned: an emoji that is newer than this Python's tables.
    return 2 if kind == "Cn" or east_asian_width(char) in "WF" else 1


def _looks_like_time(text: str) -> bool:
    # fromisoformat alone also takes dates without a time, weeks and other forms of ISO 8601.
    marks = (text[4:5], text[7:8], text[10:11], text[13:14], text[16:17])
    return text.isascii() and "," not in text and "".join(marks).upper() in ("--T::", "-- ::")


def _not_a_time(text: str) -> Exception:
    from tiebreak.errors import Invalid

    return Invalid(f"not a time: {plain(cut(text, 40))}", hint="write it as 2026-11-15T19:22:41Z")


def _is_unsafe(char: str) -> bool:
    if char.isprintable():
        return char in _FILLERS or "\U000e0100" <= char <= "\U000e01ef"
    newer_emoji = "\U0001f000" <= char <= "\U0001faff"
    return char not in _SPACES and not newer_emoji


def _escape(char: str) -> str:
    code = ord(char)
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return f"\\u{code:04x}" if code > 0xFF else _SHORT.get(char) or f"\\x{code:02x}"


class _EscapeTable(dict[int, str]):
    """The table for `str.translate`: ASCII characters are in it, all others are decided when they occur."""

    def __missing__(self, code: int) -> str:
        # Not stored in the table: texts of others must not decide how much memory it takes.
        char = chr(code)
        return _escape(char) if _is_unsafe(char) else char


_PLAIN = _EscapeTable({code: chr(code) if 32 <= code < 127 else _escape(chr(code)) for code in range(128)})
_BLOCK = _EscapeTable({**_PLAIN, ord("\n"): "\n", ord("\t"): "\t"})
_HTML = _EscapeTable(
    {
        **_PLAIN,
        ord("&"): "&amp;",
        ord("<"): "&lt;",
        ord(">"): "&gt;",
        ord('"'): "&quot;",
        ord("'"): "&#39;",
    }
)
