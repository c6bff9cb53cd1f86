"""Stored text cannot control a terminal or a page, and tables are aligned."""

from __future__ import annotations

import io
import subprocess
import sys
import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tiebreak import text
from tiebreak.errors import Invalid
from tiebreak.text import (
    Styled,
    ago,
    block,
    colour_wanted,
    cut,
    html,
    parse_rfc3339,
    plain,
    rfc3339,
    span,
    style,
    table,
    width,
)

# Unlike plain text(), this includes lone surrogates.
anything = st.text(st.characters(exclude_categories=()))
printable_ascii = st.text(st.characters(min_codepoint=32, max_codepoint=126))
words = st.one_of(printable_ascii, anything, st.text("日本ab ", max_size=80))

ACTING = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def acts(shown: str) -> set[str]:
    """The characters of `shown` that a terminal would obey, reorder by, or not show at all."""
    return {char for char in shown if unicodedata.category(char) in ACTING}


# -------------------------------------------------------------------------------- what text can do


@pytest.mark.parametrize(
    ("attack", "shown"),
    [
        ("\x1b[2J\x1b[H", r"\x1b[2J\x1b[H"),
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("\x1b]52;c;ZXZpbA==\x1b\\", "\\x1b]52;c;ZXZpbA==\\x1b\\"),
        ("done\rfailed", r"done\rfailed"),
        ("a\x08b\x7f", r"a\x08b\x7f"),
        ("one\ntwo\tthree\0", r"one\ntwo\tthree\x00"),
    ],
)
def test_escape_in_a_name_cannot_move_the_cursor_or_change_the_title(attack: str, shown: str) -> None:
    assert plain(attack) == shown
    assert table([[attack, "x"]]) == f"{shown}  x"


@pytest.mark.parametrize("code", [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x061C])
def test_bidi_override_cannot_reorder_a_line(code: int) -> None:
    assert plain(f"file{chr(code)}gpj.exe") == f"file\\u{code:04x}gpj.exe"


@pytest.mark.parametrize("code", [*range(0x200B, 0x2010), 0x2028, 0x2029, 0xFEFF, 0x2060, 0x3164, 0xD800])
def test_invisible_character_cannot_make_two_names_look_alike(code: int) -> None:
    assert plain(f"a{chr(code)}b") == f"a\\u{code:04x}b"


@pytest.mark.parametrize("code", [0xE0041, 0xE0101])
def test_invisible_tags_cannot_smuggle_words(code: int) -> None:
    assert plain(chr(code)) == f"\\U{code:08x}"


def test_ordinary_text_of_the_world_is_left_alone() -> None:
    ordinary = "naïve Grüße — 日本語\u3000テスト, Привет, عربي, שלום, ❤\ufe0f 🚀 \U0001fae8 10\u00a0% a\\b"
    assert plain(ordinary) == ordinary
    assert block(ordinary) == ordinary
    assert html(ordinary) == ordinary


def test_block_keeps_lines_and_nothing_else() -> None:
    assert block("a\n\tb\r\n\x1b[1mc\u202e") == "a\n\tb\\r\n\\x1b[1mc\\u202e"


def test_html_cannot_open_a_tag_or_leave_an_attribute() -> None:
    assert html("""<a href="x" id='y'>&\x1b\n""") == ("&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;\\x1b\\n")


@given(anything)
def test_plain_is_printable_for_any_text(value: str) -> None:
    shown = plain(value)
    assert not acts(shown)
    assert plain(shown) == shown
    shown.encode()


@given(printable_ascii)
def test_plain_changes_no_printable_ascii(value: str) -> None:
    assert plain(value) == value == block(value)


@given(anything)
def test_block_acts_only_by_newline_and_tab(value: str) -> None:
    assert acts(block(value)) <= {"\n", "\t"}


@given(anything)
def test_html_has_no_raw_markup(value: str) -> None:
    shown = html(value)
    assert not set(shown) & set("<>\"'")
    assert not acts(shown)
    for entity in ("&amp;", "&lt;", "&gt;", "&quot;", "&#39;"):
        shown = shown.replace(entity, "")
    assert "&" not in shown


# -------------------------------------------------------------------------------------------- width


@pytest.mark.parametrize(
    ("value", "columns"),
    [
        ("", 0),
        ("abc", 3),
        ("日本", 4),
        ("é", 1),
        ("e\u0301", 1),
        ("🚀", 2),
        ("❤\ufe0f", 2),
        ("ｗ", 2),
        ("…", 1),
    ],
)
def test_width_counts_columns_not_characters(value: str, columns: int) -> None:
    assert width(value) == columns


@pytest.mark.parametrize(
    ("value", "columns", "shown"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("abcdef", 1, "…"),
        ("abcdef", 0, ""),
        ("abcdef", -1, ""),
        ("", 0, ""),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("日", 1, "…"),
        ("e\u0301e\u0301", 2, "e\u0301e\u0301"),
        ("e\u0301e\u0301e", 2, "e\u0301…"),
    ],
)
def test_cut_splits_no_wide_character(value: str, columns: int, shown: str) -> None:
    assert cut(value, columns) == shown


@given(words, st.integers(-1, 40))
def test_cut_never_exceeds_and_cuts_only_what_does_not_fit(value: str, columns: int) -> None:
    shown = cut(value, columns)
    assert width(shown) <= max(columns, 0)
    if width(value) <= columns:
        assert shown == value


# -------------------------------------------------------------------------------------------- table


def test_wide_characters_align() -> None:
    shown = table([["日本", "1"], ["abc", "2"]], header=["name", "n"])
    assert shown.splitlines() == ["name  n", "日本  1", "abc   2"]


def test_numbers_align_to_the_right_and_blanks_at_the_end_go() -> None:
    shown = table([["a", "1", "x "], ["b", "100", ""], ["c"]], right={1})
    assert shown == "a    1  x\nb  100\nc"


def test_colour_does_not_disturb_alignment() -> None:
    rows: list[list[str]] = [[Styled("ok", "good"), "x"], [Styled("failed", "bad"), Styled("", "dim")]]
    assert table(rows) == "ok      x\nfailed"
    assert table(rows, colour=True) == "\x1b[32mok\x1b[0m      x\n\x1b[31mfailed\x1b[0m"


def test_styled_cell_cannot_smuggle_an_escape() -> None:
    assert table([[Styled("\x1b[2J", "good")]], colour=True) == "\x1b[32m\\x1b[2J\x1b[0m"


def test_only_the_widest_column_is_cut() -> None:
    shown = table([["a" * 50, "short", "b" * 12]], limit=40)
    assert shown == "a" * 18 + "…" + "  short  " + "b" * 12


def test_empty_table_is_empty() -> None:
    assert table([]) == table([], limit=10) == ""
    assert table([[]]) == ""
    assert table([], header=["a", "b"]) == "a  b"


@given(st.lists(st.lists(words, max_size=6), max_size=6), st.integers(1, 60))
@example([["a"] * 30], 10)
@example([["日本", "日本"]], 4)
def test_table_never_exceeds_limit(rows: list[list[str]], limit: int) -> None:
    lines = table(rows, header=["one", "two"], right={0}, limit=limit).split("\n")
    assert len(lines) == len(rows) + 1
    assert all(width(line) <= limit and line == line.rstrip() for line in lines)


# --------------------------------------------------------------------------------------------- time


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (0.9, "0s"),
        (-0.9, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (239, "3m"),
        (7199, "1h"),
        (7200, "2h"),
        (86399, "23h"),
        (5.5 * 86400, "5d"),
        (400 * 86400, "400d"),
        (-200, "in 3m"),
        (-1, "in 1s"),
    ],
)
def test_ages_are_rounded_down(seconds: float, shown: str) -> None:
    assert ago(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (0.012, "12ms"),
        (0.9996, "1s"),
        (1.24, "1.2s"),
        (5, "5s"),
        (9.96, "10s"),
        (42.4, "42s"),
        (59.6, "1m00s"),
        (90, "1m30s"),
        (3599.6, "1h00m"),
        (7500, "2h05m"),
        (86400 * 3 + 3600 * 4, "3d04h"),
        (-90, "-1m30s"),
    ],
)
def test_durations_carry_over_when_rounded(seconds: float, shown: str) -> None:
    assert span(seconds) == shown


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1794770561.123456, "2026-11-15T19:22:41.123456Z"),
        (1794770561, "2026-11-15T19:22:41.000000Z"),
        (1.9999996, "1970-01-01T00:00:02.000000Z"),
        (951782400.5, "2000-02-29T00:00:00.500000Z"),
        (-0.25, "1969-12-31T23:59:59.750000Z"),
    ],
)
def test_times_have_six_decimals(at: float, shown: str) -> None:
    assert rfc3339(at) == shown
    assert abs(parse_rfc3339(shown) - at) < 1e-6


@given(st.datetimes(datetime(1970, 1, 1), datetime(2200, 12, 31, 23, 59, 59, 999999)))
@example(datetime(2199, 7, 1, 12, 30, 15, 123457))
def test_round_trip_is_exact_to_the_microsecond(moment: datetime) -> None:
    shown = moment.replace(tzinfo=UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    at = parse_rfc3339(shown)
    assert rfc3339(at) == shown
    assert parse_rfc3339(rfc3339(at)) == at


@pytest.mark.parametrize(
    "same",
    [
        "2026-11-15T19:22:41Z",
        "2026-11-15t19:22:41.0z",
        "2026-11-15 20:22:41+01:00",
        "2026-11-15T13:52:41-05:30",
    ],
)
def test_offsets_are_understood(same: str) -> None:
    assert parse_rfc3339(same) == 1794770561


@pytest.mark.parametrize(
    "nonsense",
    [
        "",
        "now",
        "2026-11-15",
        "2026-11-15T19:22:41",
        "20261115T192241Z",
        "2026-W46-7T19:22:41Z",
        "2026-13-15T19:22:41Z",
        "2026-11-15T19:22:41,5Z",
        "2026-11-15T19:22:41Zulu",
        "２026-11-15T19:22:41Z",
        "\x1b[2J" + "x" * 1000,
    ],
)
def test_nonsense_is_not_a_time(nonsense: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_rfc3339(nonsense)
    assert not acts(caught.value.message)
    assert len(caught.value.message) < 100


@given(anything)
def test_no_text_makes_the_parser_fail_otherwise(value: str) -> None:
    with pytest.raises(Invalid):
        parse_rfc3339(value)


# ------------------------------------------------------------------------------------------- colour


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "terminal", "elsewhere"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"CLICOLOR_FORCE": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"TERM": "dumb"}, False, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, True),
        ({"CLICOLOR": "0"}, False, False),
        ({"TERM": "xterm-256color"}, True, False),
    ],
)
def test_colour_only_where_it_is_wanted(environ: dict[str, str], terminal: bool, elsewhere: bool) -> None:
    assert colour_wanted(Terminal(), environ) is terminal
    assert colour_wanted(io.StringIO(), environ) is elsewhere


def test_closed_stream_wants_no_colour() -> None:
    stream = Terminal()
    stream.close()
    assert not colour_wanted(stream, {})


@pytest.mark.parametrize("name", ["good", "bad", "warn", "dim", "bold", "accent"])
def test_style_is_undone_at_its_end_and_absent_when_off(name: str) -> None:
    shown = style("x", name, on=True)
    assert shown.startswith("\x1b[")
    assert shown.endswith("x\x1b[0m")
    assert style("x", name, on=False) == "x"
    assert style("", name, on=True) == ""


# ------------------------------------------------------------------------------------------ start-up

COLD = """
import sys
before = set(sys.modules)
exec(compile(open(sys.argv[1]).read(), "text", "exec"), {"__name__": "text"})
print(*set(sys.modules) - before - {"__future__", "time"})
"""


def test_import_loads_nothing_else() -> None:
    command = [sys.executable, "-I", "-S", "-c", COLD, text.__file__]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == []
