"""The parser of the command line: every word ends up where it was meant, or is refused by name."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiebreak import Invalid
from tiebreak.cli.help import about
from tiebreak.cli.parser import (
    COMMANDS,
    GLOBAL,
    Args,
    Argument,
    Command,
    Option,
    json_argument,
    parse,
    split,
    usage,
    whole,
)
from tiebreak.kinds import RULES
from tiebreak.program import find, names


def command(*parts: Argument | Option, rest: str = "") -> Command:
    arguments = tuple(part for part in parts if isinstance(part, Argument))
    options = tuple(part for part in parts if isinstance(part, Option))
    return Command("try", "try it", lambda _context, _args: None, arguments, options, rest, "")


def parsed(wanted: Command, *words: str) -> Args:
    """What `tb try WORDS` would get."""
    name, options, left = split(["try", *words])
    assert name == "try"
    return parse(wanted, left, options)


PLAIN = command(
    Argument("ref", "a task"),
    Argument("more", "more of them", many=True, optional=True),
    Option("note", "TEXT", "why"),
    Option("count", "N", "how many", default=1, convert=whole),
    Option("tag", "TAG", "a tag", many=True),
    Option("run-anyway", text="a flag"),
)
RUN = command(Argument("resources", "what to hold", many=True), Option("wait", "TIME", "how long"), rest="COMMAND")


# ── Options ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (["--note", "x"], "x"),
        (["--note=x"], "x"),
        (["--note="], ""),
        (["--note", ""], ""),
        (["--note=a=b"], "a=b"),
        (["--note=--run-anyway"], "--run-anyway"),
        (["--note", "-"], "-"),
        (["--note=--"], "--"),
        (["--note", "-h"], "-h"),
        (["--note", "first", "--note", "last"], "last"),
        ([], None),
    ],
)
def test_the_value_of_an_option_is_the_word_that_was_given(words: list[str], note: str | None) -> None:
    args = parsed(PLAIN, "#1", *words)
    assert args.note == note
    assert (args.ref, args.run_anyway, args.help) == ("#1", False, False)


def test_options_may_stand_before_between_and_after_arguments() -> None:
    args = parsed(PLAIN, "--note", "x", "#1", "--tag=a", "#2", "--json", "#3", "--tag", "b")
    assert (args.ref, args.more, args.note, args.tag, args.json) == ("#1", ["#2", "#3"], "x", ["a", "b"], True)


def test_a_repeated_option_does_not_remember_the_last_call() -> None:
    assert parsed(PLAIN, "#1", "--tag", "a", "--tag", "b").tag == ["a", "b"]
    assert parsed(PLAIN, "#1").tag == []
    assert parsed(PLAIN, "#1", "--tag", "c").tag == ["c"]


def test_a_default_is_what_is_not_given() -> None:
    args = parsed(PLAIN, "#1")
    assert (args.count, args.note, args.tag, args.run_anyway, args.rest, args.more) == (1, None, [], False, [], [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--note"], "--note needs a value"),
        (["--note", "--"], "--note needs a value"),
        (["--note", "--run-anyway"], "--note needs a value"),
        (["--run-anyway=yes"], "--run-anyway takes no value"),
        (["--run-anyway="], "--run-anyway takes no value"),
        (["--json=1"], "--json takes no value"),
        (["--help=1"], "--help takes no value"),
        (["--run_anyway"], "unknown option '--run_anyway'"),
        (["--not", "x"], "unknown option '--not'"),
        (["--NOTE", "x"], "unknown option '--NOTE'"),
        (["--=x"], "unknown option '--'"),
        (["---note", "x"], "unknown option '---note'"),
        (["-n", "x"], "unknown option '-n'"),
        (["-5x"], "unknown option '-5x'"),
        (["-hx"], "unknown option '-hx'"),
        (["--count", "many"], "whole number"),
        (["--count="], "whole number"),
    ],
)
def test_a_wrong_option_is_named(words: list[str], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        parsed(PLAIN, "#1", *words)


def test_an_option_that_is_nearly_right_gets_a_hint() -> None:
    with pytest.raises(Invalid) as refusal:
        parsed(PLAIN, "#1", "--notes", "x")
    assert refusal.value.hint == "did you mean --note?"
    with pytest.raises(Invalid) as refusal:
        parsed(PLAIN, "#1", "--xyzzy")
    assert "try" in refusal.value.hint


# ── Arguments ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("word", ["-", "-5", "-0", "#1", "a=b", "=", "a--b", "é", "  "])
def test_a_word_that_is_no_option_is_an_argument(word: str) -> None:
    assert parsed(PLAIN, word).ref == word


def test_after_two_dashes_everything_is_an_argument() -> None:
    args = parsed(PLAIN, "--", "--note", "-x", "--help", "--")
    assert (args.ref, args.more, args.note, args.help) == ("--note", ["-x", "--help", "--"], None, False)


def test_after_two_dashes_comes_the_command_to_run_word_by_word() -> None:
    args = parsed(RUN, "lock:x", "--wait", "5s", "--", "make", "--json", "-h", "--", "--wait=1", "")
    assert (args.resources, args.wait, args.json, args.help) == (["lock:x"], "5s", False, False)
    assert args.rest == ["make", "--json", "-h", "--", "--wait=1", ""]


def test_two_dashes_with_nothing_behind_are_nothing() -> None:
    assert parsed(RUN, "lock:x", "--").rest == []
    assert parsed(PLAIN, "#1", "--").more == []


@pytest.mark.parametrize("words", [[], ["--note", "x"], [""], ["--"]])
def test_a_missing_argument_is_named_with_the_usage(words: list[str]) -> None:
    with pytest.raises(Invalid, match="try: REF is missing") as refusal:
        parsed(PLAIN, *words)
    assert refusal.value.hint.startswith("usage: tb try REF [MORE…] [OPTIONS]; a shell takes #7 for a comment")


def test_a_word_too_many_is_named() -> None:
    with pytest.raises(Invalid, match="unexpected 'two'"):
        parsed(command(Argument("ref", "")), "one", "two", "three")


def test_at_least_one_of_many_is_needed() -> None:
    with pytest.raises(Invalid, match="RESOURCES is missing"):
        parsed(RUN, "--", "make")


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["--note", "x", "-h"], ["#1", "#2", "--help"]])
def test_help_is_given_whatever_else_is_missing(words: list[str]) -> None:
    assert parsed(PLAIN, *words).help is True


def test_the_usage_shows_what_may_be_left_out() -> None:
    assert usage(PLAIN) == "tb try REF [MORE…] [OPTIONS]"
    assert usage(RUN) == "tb try RESOURCES… [OPTIONS] -- COMMAND"
    assert usage(command()) == "tb try"


# ── Before the command ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "name", "left"),
    [
        ([], None, []),
        (["claim"], "claim", []),
        (["claim", "--json"], "claim", ["--json"]),
        (["--json", "claim", "x"], "claim", ["x"]),
        (["--board", "b.db", "--as=alice", "claim", "x"], "claim", ["x"]),
        (["--board=", "claim"], "claim", []),
        (["--as", "claim", "claim"], "claim", []),
        (["--help"], None, []),
        (["-h", "claim"], "claim", []),
        (["--version"], "version", []),
        (["--json", "--version", "x"], "version", ["x"]),
        ([""], "", []),
    ],
)
def test_the_command_is_the_first_word_that_is_no_option(words: list[str], name: str | None, left: list[str]) -> None:
    assert split(words)[::2] == (name, left)


def test_global_options_are_found_on_both_sides_and_the_later_one_wins() -> None:
    _, options, left = split(["--as", "alice", "--project", "p", "try", "#1", "--as", "bob"])
    args = parse(PLAIN, left, options)
    assert (args["as"], args.project, args.board) == ("bob", "p", None)


def test_the_words_that_were_given_are_not_changed() -> None:
    words = ["--json", "try", "#1"]
    _, _, left = split(words)
    before = list(left)
    parse(PLAIN, left, split(words)[1])
    assert (words, left) == (["--json", "try", "#1"], before)


@pytest.mark.parametrize(
    "words", [["-"], ["--"], ["-x"], ["--note", "x"], ["--board"], ["--as", "--"], ["--json=1"], ["--=1"]]
)
def test_a_wrong_word_before_the_command_is_refused(words: list[str]) -> None:
    with pytest.raises(Invalid, match=r"unknown option|needs a value|takes no value"):
        split(words)


@given(
    st.lists(
        st.one_of(
            st.text(max_size=8), st.sampled_from(["--", "-", "--note", "--tag=a", "-h", "--json", "x", "--count"])
        )
    )
)
def test_any_words_are_parsed_or_refused(words: list[str]) -> None:
    try:
        name, options, left = split(words)
        if name is not None:
            parse(PLAIN, left, options)
    except Invalid as refusal:
        assert refusal.message  # noqa: PT017


def test_a_value_that_was_not_parsed_is_no_attribute() -> None:
    args = Args(note="x")
    assert args.note == "x"
    with pytest.raises(AttributeError, match="other"):
        args.other  # noqa: B018


# ── Values ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("written", "number"), [("0", 0), ("5", 5), ("-5", -5), ("007", 7), ("9" * 15, 10**15 - 1)])
def test_a_whole_number(written: str, number: int) -> None:
    assert whole(written) == number


@pytest.mark.parametrize(
    "written", ["", "-", "--5", "+5", "5.0", "5 ", " 5", "1_000", "0x5", "²", "five", "1e3", "9" * 5000]
)
def test_what_is_no_whole_number_is_refused(written: str) -> None:
    with pytest.raises(Invalid, match="whole number"):
        whole(written)


@pytest.mark.parametrize("value", [None, 0, "", "é", [1, 2], {"a": {"b": None}}, 1e300, True])
@pytest.mark.parametrize("way", ["text", "file", "stdin"])
def test_json_comes_as_text_from_a_file_or_from_standard_input(
    way: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps(value, ensure_ascii=False)
    if way == "text":
        assert json_argument(text) == value
    elif way == "file":
        (tmp_path / "value").write_text(f"\n{text}\n", encoding="utf-8")
        assert json_argument(f"@{tmp_path / 'value'}") == value
    else:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        assert json_argument("-") == value


@pytest.mark.parametrize(
    "written", ["", "{", "{a: 1}", "'x'", "[1,]", "1 2", "nul", "\ufeff1", "[" * 100_000, "1" * 5000]
)
def test_what_is_no_json_is_refused(written: str) -> None:
    with pytest.raises(Invalid, match="not valid JSON"):
        json_argument(written)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"", b"\x00", b"{"])
@pytest.mark.parametrize("way", ["file", "stdin"])
def test_a_source_that_holds_no_json_is_refused(
    way: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "value").write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))
    with pytest.raises(Invalid):
        json_argument(f"@{tmp_path / 'value'}" if way == "file" else "-")


@pytest.mark.parametrize("name", ["missing", "", "."])
def test_a_file_that_cannot_be_read_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid, match="cannot read"):
        json_argument(f"@{name}")


# ── The commands that there are ──────────────────────────────────────────────────────────────────────────

EVERY = sorted(names())


@pytest.mark.parametrize("name", EVERY)
def test_a_command_can_be_told_apart_from_itself(name: str) -> None:
    """No two of its parts have one name, nor that of what every command has."""
    wanted = find(name)
    keys = [option.key for option in (*wanted.options, *GLOBAL)] + [argument.name for argument in wanted.arguments]
    assert len(set(keys)) == len(keys)
    assert "rest" not in keys
    assert COMMANDS[name] is wanted


@pytest.mark.parametrize("name", EVERY)
def test_the_arguments_of_a_command_leave_no_doubt(name: str) -> None:
    arguments = find(name).arguments
    assert not [each for each in arguments[:-1] if each.many], "what comes after `many` never gets a word"
    optional = [each.optional for each in arguments]
    assert optional == sorted(optional), "what may be missing comes last"


@pytest.mark.parametrize("name", EVERY)
def test_everything_about_a_command_is_explained(name: str) -> None:
    wanted = find(name)
    assert wanted.text
    assert all(argument.text for argument in wanted.arguments)
    assert all(option.text for option in wanted.options)
    assert all(option.metavar == option.metavar.upper() for option in wanted.options)


@pytest.mark.parametrize("name", EVERY)
def test_no_option_repeats_the_words_of_a_kind(name: str) -> None:
    """They would be wrong as soon as a kind got another word."""
    words = [rule.schema["enum"] for rule in RULES.values() if "enum" in rule.schema]
    assert not [
        each.shown for each in find(name).options for first, second, *_ in words if f"{first}, {second}" in each.text
    ]


def test_help_names_the_words_and_the_default_of_the_parameter() -> None:
    told = {option.name: about(option) for option in find("send").options}
    assert told["importance"] == "its importance: low, normal, high or urgent (default normal)"
    assert told["channel"] == "the channel (default general)"
    assert told["reply-to"] == "reply to this message, in its thread"
