"""Names and values: every rule holds at its boundary, and says what is wrong."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiebreak import Invalid, limits, names
from tiebreak.advice import advice
from tiebreak.cli.advice import COMMANDS
from tiebreak.kinds import RULES, Kind, check
from tiebreak.names import checksum, json_text, seconds, short, shown
from tiebreak.operations import every

UUID = "0190b3a0-7e5a-7cc3-98a3-2f5f9c1d0e11"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


class Text(str):
    """A kind of text."""


GOOD: dict[str, list[Any]] = {
    "Name": ["a", "x" * 800, "日" * 266, "😀" * 200, "é 日本 😀", "a\u00a0b", " a ", "'\"$(x)`"],
    "Note": ["x" * 4000, "é" * 2000],
    "Text": ["a\nb\tc", "x" * 65_536, "日" * 21_845, "\x1b[31m"],
    "AnyText": ["", "a\nb\tc", "x" * 65_536],
    "Label": ["a", "_a", "0", "A-b_c.d:e/f+g@h", "x" * 64],
    "Key": ["a", "x" * 800, "日" * 266, "é/日本", "a#b", UUID[:35], UUID + "0"],
    "Ref": ["a", "#1", UUID, "x" * 800, "日" * 266, 1, 2**53],
    "AgentId": ["a", "a~1", "x" * 64 + "~" + "y" * 64, "claude-4@host~a.b-c_d"],
    "Project": ["demo", "x" * 64],
    "Resource": [
        "file:a",
        "file:src/**/*.py",
        "lock:a",
        "seat:x",
        "pool:gpu/0",
        "lock:" + "x" * 64,
        "file:" + "x" * 2043,
        "file:" + "日" * 681,
    ],
    "Priority": ["low", "normal", "high", "urgent"],
    "State": ["blocked", "pending", "claimed", "completed", "failed", "cancelled"],
    "AgentStatus": ["active", "idle", "stale", "gone"],
    "Policy": ["skip", "run-once", "run-all"],
    "Role": ["coordinator", "worker"],
    "Order": ["priority", "critical"],
    "Seconds": [0, 0.0, 1e-9, "0", limits.MAX_DELAY, "3650d"],
    "Lease": [0.001, "1ms", 7 * 86400, "7d", "1w"],
    "Count": [1, 100],
    "Limit": [1, 1000],
    "HoldLimit": [1, 100_000],
    "Slots": [1, 10_000],
    "Attempts": [1, 1000],
    "Number": [0, 2**53],
    "Epoch": [0, 2**53],
    "Json": [None, 0, "", [], {}, {"a": [1, 2.5, None, True]}, "x" * (limits.MAX_JSON - 2), nested(100)],
    "bool": [True, False],
    "CommandOrCall": [
        "true",
        "a | b\n",
        ["ls", ""],
        {"call": "m.f"},
        {"call": "m.f", "args": [1], "kwargs": {"a": None}},
    ],
    "Environ": [{}, {"A": ""}, {"A": "x" * 65_536}, {"日" * 266: ""}],
    "Folder": ["/", "/" + "x" * 4095],
    "Bounds": [{}, {"memory": 1, "cpu": 1, "files": 1}],
    "GroupLimit": ["g=1", "a/b=10000"],
    "Size": [0, 1 << 26],
    "Moment": [0, 1.5, "2026-01-01T00:00:00Z"],
    "Lasting": [0.001, "1ms", "3650d"],
    "Percent": [0, 99.5, 100],
    "NumberAndEpoch": [[1, 1], [2**53, 2**53]],
    "Outcome": [{"number": 1, "epoch": 1, "ok": True}, {"number": 1, "epoch": 1, "ok": False, "reason": "x" * 4000}],
    "Chunk": [{"start": 0, "text": "a\n"}, {"start": 2**53, "text": "x" * 65_536, "stream": 2}],
    "TaskEntry": [
        {"name": "a"},
        {"name": "日" * 266, "id": 7, "parent": 8, "after": [1, "#2", "k"], "key": None, "body": None},
        {"name": "a", "id": UUID, "state": "failed", "reason": "x" * 4000, "result": [1], "max_attempts": 1000},
        {"name": "a", "at": "2026-01-01T00:00:00Z", "backoff": "5m", "number": 2**53, "comments": []},
        {"name": "a", "comments": [{"author": "Jane Doe", "text": "a\nb", "at": 1.5}] * limits.MAX_LIST},
    ],
}

BAD: dict[str, list[Any]] = {
    "Name": [
        "",
        "  ",
        "\u3000",
        "x" * 801,
        "日" * 267,
        "😀" * 201,
        "a\nb",
        "a\tb",
        "a\0",
        "\x7f",
        "\u202e",
        "\u200b",
        "\ud800",
        1,
        None,
        b"a",
        ["a"],
    ],
    "Note": ["", "x" * 4001, "é" * 2001, "a\nb"],
    "Text": ["", " \n ", "x" * 65_537, "日" * 21_846, "a\0b", "\ud800", 1],
    "AnyText": [" \n ", "x" * 65_537, "a\0b", 1, None],
    "Label": ["", "-a", ".a", "a b", "é", "x" * 65, "a~b", "a*", "a,b"],
    "Key": ["", "#1", "#", UUID, UUID.upper(), "a b", "a\u00a0b", "x" * 801, "日" * 267],
    "Ref": ["", 0, -1, True, 2**53 + 1, "x" * 801, "日" * 267, 1.0],
    "AgentId": ["", "~", "~1", "a~", "a~b~c", "a~é", "a~ b", "x" * 65, "a~" + "y" * 65, 1],
    "Project": ["", "a b", "x" * 65, None],
    "Resource": [
        "",
        "a",
        "file:",
        "lock:",
        "lock:a b",
        "disk:a",
        "FILE:a",
        "file:../a",
        "file:/a",
        "lock:" + "x" * 65,
        "file:" + "x" * 2044,
        "file:" + "日" * 682,
    ],
    "Priority": ["", "LOW", "medium", 1, None, ["low"]],
    "State": ["", "done", "Pending"],
    "AgentStatus": ["", "dead"],
    "Policy": ["", "run", "run-twice", None],
    "Role": ["", "boss", "Worker", None, 1],
    "Order": ["", "Critical", "age", None, 1],
    "Seconds": [
        -1,
        -0.001,
        "-1s",
        float("nan"),
        float("inf"),
        limits.MAX_DELAY + 1,
        10**400,
        True,
        None,
        "soon",
        "",
    ],
    "Lease": [0, 0.0009, "0", 7 * 86400 + 1, "8d", -1],
    "Count": [0, 101, 1.0, "1", True, None],
    "Limit": [0, 1001],
    "HoldLimit": [0, 100_001],
    "Slots": [0, 10_001],
    "Attempts": [0, 1001],
    "Number": [-1, 2**53 + 1, "1", True],
    "Epoch": [-1, 2**53 + 1, 1.5],
    "Json": [
        float("nan"),
        float("inf"),
        {1, 2},
        b"a",
        ...,
        "\ud800",
        "x" * (limits.MAX_JSON - 1),
        nested(101),
        10**5000,
    ],
    "bool": [1, 0, "true", None, "yes"],
    "CommandOrCall": ["", "x" * 65_537, "a\0b", [], [""], ["a", 1], {}, {"call": "a b"}, {"call": "f", "x": 1}, 1],
    "Environ": [[], {"": "x"}, {"A=B": "x"}, {"A": 1}, {"A": "\0"}, {"A": "x" * 65_537}, {1: "x"}],
    "Folder": ["", "a", "/\0", "/" + "x" * 4096, "/" + "é" * 2048],
    "Bounds": [[], {"disk": 1}, {"memory": 0}, {"cpu": 1.5}, {"files": True}],
    "GroupLimit": ["", "g", "g=", "=1", "g=0", "g=10001", "g=x", "g h=1", 1, "g=\u0661"],
    "Size": [-1, (1 << 26) + 1, 1.5, True],
    "Moment": [-1, "soon", True, None, float("nan"), 1e300],
    "Lasting": [0, 0.0009, -1, "3651d", True],
    "Percent": [-0.1, 100.1, "50", True, float("nan")],
    "NumberAndEpoch": [[], [1], [1, 0], [0, 1], [1, 2, 3], ["1", 1], [True, 1], 7],
    "Outcome": [
        [],
        {},
        {"number": 1, "epoch": 1},
        {"number": 1, "epoch": 1, "ok": 1},
        {"number": 0, "epoch": 1, "ok": True},
    ],
    "Chunk": [
        "x",
        {},
        {"start": 0, "text": ""},
        {"start": -1, "text": "x"},
        {"start": 0, "text": "x" * 65_537},
        {"start": 0, "text": "日" * 21_846},
    ],
    "TaskEntry": [
        {},
        [],
        {"name": ""},
        {"name": "x" * 801},
        {"name": "a", "other": 1},
        {"name": "a", "id": "a b"},
        {"name": "a", "key": UUID},
        {"name": "a", "id": "#7"},
        {"name": "a", "id": True},
        {"name": "a", "id": "cron:x"},
        {"name": "a", "kind": "job"},
        {"name": "a", "kind": "question"},
        {"name": "a", "after": "b"},
        {"name": "a", "after": ["a"] * (limits.MAX_LIST + 1)},
        {"name": "a", "state": "open"},
        {"name": "a", "state": "pending", "result": 1},
        {"name": "a", "comments": [{"author": "a"}]},
        {"name": "a", "comments": [{"author": "a\nb", "text": "x"}]},
        {"name": "a", "comments": ["x"]},
    ],
}


def test_every_rule_is_tried_at_its_boundary() -> None:
    assert GOOD.keys() == BAD.keys() == RULES.keys()


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, values in GOOD.items() for value in values], ids=shown
)
def test_allowed_values_pass(kind: str, value: Any) -> None:
    check(kind, value, "thing")


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, values in BAD.items() for value in values], ids=shown
)
def test_forbidden_values_are_refused_in_one_short_line(kind: str, value: Any) -> None:
    with pytest.raises(Invalid) as refusal:
        check(kind, value, "thing")
    said = str(refusal.value)
    assert "thing" in said or kind == "Resource"
    assert said.isprintable()
    assert len(said) < 400


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    for kind in sorted(RULES):
        with pytest.raises(Invalid):
            check(kind, loop, "thing")


ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.lists(st.text()))


@given(value=ANYTHING)
def test_a_rule_passes_or_refuses_and_never_breaks(value: Any) -> None:
    for kind in RULES:
        try:
            passed = check(kind, value, "thing")
        except Invalid:
            continue
        assert check(kind, passed, "thing") == passed, "checking twice changes nothing"


# ── Declared types ───────────────────────────────────────────────────────────────────────────────────────


def test_none_is_only_allowed_where_it_is_declared() -> None:
    assert check("Name | None", None, "x") is None
    assert check("list[Label | None]", ["a", None], "x") == ["a", None]
    assert check("list[Label] | None", None, "x") is None
    for kind in ("Name", "list[Label]"):
        with pytest.raises(Invalid):
            check(kind, None, "x")


def test_a_list_has_an_end_and_names_its_wrong_entry() -> None:
    assert check("list[Label]", ("a",) * limits.MAX_LIST, "tags") == ["a"] * limits.MAX_LIST
    with pytest.raises(Invalid, match="1001 entries, the limit is 1000"):
        check("list[Label]", ["a"] * (limits.MAX_LIST + 1), "tags")
    with pytest.raises(Invalid, match=re.escape("tags[1]")):
        check("list[Label]", ["a", ""], "tags")
    for wrong in ("abc", {"a": 1}, {"a"}, 1):
        with pytest.raises(Invalid, match="expected a list"):
            check("list[Label]", wrong, "tags")


def test_every_parameter_of_every_operation_has_a_rule_and_a_schema() -> None:
    for operation in every().values():
        for name, kind in operation.parameters.items():
            made = kind.schema()
            jsonschema_rs.meta.validate(made)
            assert json.loads(json.dumps(made)) == made, f"{operation.name} {name}"


@pytest.mark.parametrize("kind", sorted(RULES))
def test_a_schema_allows_whatever_the_server_accepts(kind: str) -> None:
    for value in GOOD[kind]:
        assert allows(kind, value), f"the schema of {kind} refuses {shown(value)}"


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS)
DURATIONS = st.builds("{}{}".format, st.integers(0, 10**4), st.sampled_from(["", "ms", "s", " m", "h30m", "d", "w"]))
NAMES = st.builds("{}{}".format, st.sampled_from(["", "_", "#", "file:", "lock:", "a~", "/", "g="]), TEXTS)


@given(value=st.one_of(JSON, DURATIONS, NAMES))
def test_no_schema_is_narrower_than_its_check(value: Any) -> None:
    for kind in RULES:
        try:
            check(kind, value, "thing")
        except Invalid:
            continue
        assert allows(kind, value), f"the schema of {kind} refuses {value!r}"


def allows(kind: str, value: Any) -> bool:
    return VALIDATORS[kind].is_valid(value)


VALIDATORS = {kind: jsonschema_rs.validator_for(Kind.of(kind).schema()) for kind in RULES}


def test_a_kind_says_what_it_is_in_the_words_of_each_reader() -> None:
    kind = Kind.of("list[Label | None] | None")
    assert kind is Kind.of("list[Label | None] | None")
    assert (kind.optional, kind.base, kind.name) == (True, "Label", "list[Label | None]")
    assert kind.words() == "list of Label or null or null"
    assert kind.python == "Sequence[str | None] | None"
    assert kind.schema()["anyOf"][1] == {"type": "null"}
    assert Kind.of("Json | None").python == "Any"
    assert Kind.of("Task").words(str.upper) == "TASK"


def test_a_kind_that_nobody_declared_is_not_let_through() -> None:
    with pytest.raises(LookupError):
        check("Nothing", 1, "thing")


@pytest.mark.parametrize("kind", sorted(RULES))
def test_a_schema_refuses_what_is_too_large_too(kind: str) -> None:
    described = RULES[kind].schema
    if "maxLength" in described:
        long = "x" * (described["maxLength"] + 1)
        assert not allows(kind, long)
        with pytest.raises(Invalid):
            check(kind, long, "thing")
    for bound, wrong in (("maximum", 1), ("minimum", -1)):
        if bound in described:
            with pytest.raises(Invalid):
                check(kind, described[bound] + wrong, "thing")


def test_a_duration_is_written_as_it_is_read() -> None:
    for duration, text in ((300.0, "5m"), (90.0, "90s"), (3600.0, "1h"), (30 * limits.DAY, "30d"), (0.5, "0.5s")):
        assert names.written(duration) == text
        assert seconds(text) == duration


def test_every_rule_says_what_it_wants() -> None:
    for kind, rule in RULES.items():
        assert rule.doc, kind
        for limit in re.findall(r"at most (\d+)", rule.doc):
            assert rule.schema.get("maxLength") == int(limit) or "days" in rule.doc or "KiB" in rule.doc, kind


# ── Durations ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (90, 90.0),
        (1.5, 1.5),
        ("90", 90.0),
        ("90s", 90.0),
        ("5m", 300.0),
        ("1h", 3600.0),
        ("2d", 172_800.0),
        ("1w", 604_800.0),
        ("250ms", 0.25),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("5.s", 5.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        ("1m30", 90.0),
        ("1d2h3m4s5ms", 93_784.005),
        ("  5m  ", 300.0),
        ("5 m", 300.0),
        ("0", 0.0),
        ("0s", 0.0),
        ("007s", 7.0),
    ],
)
def test_a_duration_means_what_is_written(written: Any, meant: float) -> None:
    assert seconds(written) == pytest.approx(meant)
    assert isinstance(seconds(written), float)


NO_DURATIONS = [
    *("", " ", "s", "m", "5x", "5S", "5min", "5M", "1e3", "1e3s", "-5s", "+5s", "--", "5s-", "1,5s", "1..5s", "1.5.5"),
    *("5\tm", "5\nm", "²s", "inf", "nan", "infs", "0x10", "1_000", "five", "5ss", "ms5", "99999999d", "9" * 5000),
    *("1 0s", "2 30m", "5 m s"),  # a blank that was meant to say something is not passed over
]


@pytest.mark.parametrize("written", NO_DURATIONS, ids=shown)
def test_a_text_that_is_no_duration_is_refused(written: str) -> None:
    with pytest.raises(Invalid, match="timeout"):
        seconds(written, "timeout")


@given(st.floats(0, limits.MAX_DELAY))
def test_a_number_of_seconds_is_that_number(value: float) -> None:
    assert seconds(value) == value


@given(st.integers(0, 100), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_units_add_up(days: int, hours: int, minutes: int, rest: int) -> None:
    written = f"{days}d{hours}h{minutes}m{rest}s"
    assert seconds(written) == days * 86400 + hours * 3600 + minutes * 60 + rest


# ── Small things that others build on ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b"", 0xCBF29CE484222325),
        (b"a", 0xAF63DC4C8601EC8C),
        (b"foobar", 0x85944171F73967E8),
        ("project é".encode(), 0x4B98043A7B416EF6),
    ],
)
def test_a_checksum_is_the_same_in_every_version(data: bytes, number: int) -> None:
    """Projects and sessions are named by it: another number would be another project."""
    assert checksum(data) == number
    assert 0 <= number < 2**64


@given(st.binary(max_size=200))
def test_a_checksum_fits_in_64_bits(data: bytes) -> None:
    assert 0 <= checksum(data) < 2**64


@given(st.one_of(st.text(), st.binary(), st.integers(), st.floats(), st.lists(st.text())))
def test_a_quoted_value_is_short_and_printable(value: Any) -> None:
    assert len(shown(value)) <= 60
    assert shown(value).isascii()
    assert shown(value).isprintable()


def test_a_quoted_value_may_be_anything() -> None:
    loop: list[Any] = []
    loop.append(loop)
    for value in (10**5000, nested(100_000), loop, object(), Text("x")):
        assert len(shown(value)) <= 60


def test_the_name_of_an_agent_is_what_stands_before_its_session() -> None:
    assert (short("a~1"), short("a"), short("a~1~2")) == ("a", "a", "a")


def test_an_agent_that_was_known_is_checked_like_a_new_one() -> None:
    """The shortcut for agents that act again and again must not let others through."""
    for _ in range(2):
        assert check("AgentId", "alice~1", "agent") == "alice~1"
        for wrong in ("alice~", "alice ~1", "alice~1 "):
            with pytest.raises(Invalid):
                check("AgentId", wrong, "agent")
    for number in range(2000):
        assert check("AgentId", f"agent-{number}~1", "agent") == f"agent-{number}~1"
    assert len(names._known) <= 1000


def test_missing_agents_and_projects_say_what_to_do() -> None:
    for kind, what, option in (("AgentId", "agent", "--as"), ("Project", "project", "--project")):
        with pytest.raises(Invalid) as refusal:
            check(kind, "", what)
        assert option in advice(refusal.value, COMMANDS)


def test_a_missing_recipient_is_not_taken_for_a_missing_sender() -> None:
    with pytest.raises(Invalid, match=r"^to: required$") as refusal:
        check("AgentId", "", "to")
    assert refusal.value.hint == ""


@pytest.mark.parametrize(
    ("value", "stored"),
    [(None, None), (0, "0"), ("é", '"é"'), ({"b": 1, "a": [True, None]}, '{"b":1,"a":[true,null]}'), ((1, 2), "[1,2]")],
)
def test_json_is_stored_without_blanks_and_without_escapes(value: Any, stored: str | None) -> None:
    assert json_text(value) == stored


def test_brackets_in_a_text_are_not_depth() -> None:
    assert json_text("[" * 500)
    assert json_text(["[" * 500] * 50)


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(-(2**60), 2**60), st.text()), lambda x: st.lists(x, max_size=3)
    )
)
def test_stored_json_is_the_same_value(value: Any) -> None:
    try:
        stored = json_text(value)
    except Invalid:
        return
    assert (None if stored is None else json.loads(stored)) == value
