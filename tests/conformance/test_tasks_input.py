"""An invalid call is refused in one line and changes nothing, whichever parameter is wrong and however."""

from __future__ import annotations

from typing import Any

import pytest

from tiebreak import Board
from tiebreak.errors import Invalid, TiebreakError
from tiebreak.limits import MAX_JSON, MAX_KEY, MAX_LABEL, MAX_LIST, MAX_NAME, MAX_NOTE

from .tasks_support import changes, unchanged

NAN, INFINITY = float("nan"), float("inf")
KEY = "build"
"""The key of a task that the caller has claimed, so that a value that is let through changes something."""

# ── Wrong values, each with what is wrong about it ───────────────────────────────────────────────────

Wrong = dict[str, Any]

LINE: Wrong = {
    "empty": "",
    "blank": "   ",
    "nul": "a\0b",
    "newline": "a\nb",
    "tab": "a\tb",
    "terminal escape": "\x1b[2J",
    "line separator": "a\u2028b",
    "right-to-left override": "a\u202eb",
    "lone surrogate": "a\ud800b",
    "number": 7.5,
    "truth": True,
    "list": ["a"],
    "bytes": b"a",
}
NAME = LINE | {"too long": "n" * (MAX_NAME + 1)}
NOTE = LINE | {"too long": "n" * (MAX_NOTE + 1)}
LABEL = LINE | {
    "too long": "a" * (MAX_LABEL + 1),
    "blank inside": "a b",
    "leading dot": ".a",
    "percent": "a%",
    "not ascii": "ключ",
    "quote": "a'b",
}
NEW_KEY = LINE | {
    "too long": "k" * (MAX_KEY + 1),
    "blank inside": "a b",
    "like a number": "#1",
    "like an id": "00000000-0000-7000-8000-000000000000",
}
REF = LINE | {
    "too long": "k" * (MAX_KEY + 1),
    "zero": 0,
    "negative": -1,
    "hash alone": "#",
    "hash and word": "#x",
}
AGENT = LINE | {
    "too long": "a" * (MAX_LABEL + 1),
    "session too long": "a~" + "s" * (MAX_LABEL + 1),
    "no session": "a~",
    "no name": "~s",
    "two sessions": "a~b~c",
    "blank inside": "a b",
}
WHOLE: Wrong = {
    "negative": -1,
    "fraction": 1.5,
    "float": 1.0,
    "nan": NAN,
    "text": "1",
    "truth": True,
    "beyond what JSON carries": 2**53 + 1,
}
DURATION: Wrong = {
    "nan": NAN,
    "infinite": INFINITY,
    "negative": -1,
    "negative text": "-5m",
    "eleven years": "4015d",
    "unknown unit": "5 parsecs",
    "unit alone": "m",
    "empty": "",
    "truth": True,
    "list": [5],
}
LEASE = DURATION | {"none at all": 0, "under a millisecond": 0.0009, "over a week": "7d1s"}
JSON: Wrong = {
    "nan inside": {"a": [NAN]},
    "infinity": INFINITY,
    "bytes": b"a",
    "set": {1, 2},
    "object": object(),
    "lone surrogate": "\ud800",
    "one byte too large": "a" * (MAX_JSON - 1),
    "too large in bytes alone": "ä" * (MAX_JSON // 2),
}
CHOICE: Wrong = {"unknown": "soon", "capitals": "HIGH", "empty": "", "number": 1, "list": ["high"]}
STATES: Wrong = {"text": "pending", "unknown": ["done"], "capitals": ["PENDING"], "number": [1], "none": [None]}
BOOLEAN: Wrong = {"one": 1, "zero": 0, "text": "true"}
LABELS: Wrong = {"text": "a", "one bad": ["a", "b c"], "nested": [["a"]], "too many": ["a"] * (MAX_LIST + 1)}
REFS: Wrong = {"text": KEY, "one bad": [KEY, ""], "nested": [[KEY]], "too many": [KEY] * (MAX_LIST + 1)}
NONE: Wrong = {"none": None}

PARAMETERS: list[tuple[str, str, Wrong]] = [
    ("post", "name", NAME | NONE),
    ("post", "kind", LABEL | NONE),
    ("post", "queue", LABEL | NONE),
    ("post", "priority", CHOICE | NONE),
    ("post", "payload", JSON),
    ("post", "key", NEW_KEY),
    ("post", "after", REFS | NONE),
    ("post", "run_anyway", BOOLEAN | NONE),
    ("post", "delay", DURATION | NONE),
    ("post", "backoff", DURATION | NONE),
    ("post", "max_attempts", WHOLE | NONE | {"zero": 0, "too many": 1001}),
    ("post", "tags", LABELS | NONE),
    ("post", "about", REF),
    ("post", "parent", REF),
    ("post", "body", {"empty": "", "blank": " \n ", "nul": "a\0b", "number": 1, "too long": "x" * 65_537}),
    ("post", "agent", AGENT | NONE),
    ("post", "project", LABEL | NONE),
    ("depend", "ref", REF | NONE),
    ("depend", "after", REFS | NONE),
    ("depend", "agent", AGENT | NONE),
    ("depend", "project", LABEL | NONE),
    ("claim", "ref", REF | NONE),
    ("claim", "lease", LEASE | NONE),
    ("claim", "create", BOOLEAN),
    ("claim", "agent", AGENT | NONE),
    ("claim", "project", LABEL | NONE),
    ("claim_many", "refs", REFS | NONE),
    ("claim_many", "lease", LEASE | NONE),
    ("claim_many", "agent", AGENT | NONE),
    ("claim_many", "project", LABEL | NONE),
    ("next", "kind", LABEL),
    ("next", "queue", LABEL),
    ("next", "tag", LABEL),
    ("next", "order", {"unknown": "soonest", "empty": "", "a number": 1} | NONE),
    ("next", "count", WHOLE | NONE | {"zero": 0, "too many": 101}),
    ("next", "lease", LEASE | NONE),
    ("next", "agent", AGENT | NONE),
    ("next", "project", LABEL | NONE),
    ("extend", "ref", REF | NONE),
    ("extend", "epoch", WHOLE | NONE),
    ("extend", "lease", LEASE | NONE),
    ("extend", "agent", AGENT | NONE),
    ("extend", "project", LABEL | NONE),
    ("complete", "ref", REF | NONE),
    ("complete", "epoch", WHOLE | NONE),
    ("complete", "result", JSON),
    ("complete", "ack", BOOLEAN | NONE),
    ("complete", "ack_name", NAME),
    ("complete", "ack_priority", CHOICE | NONE),
    ("complete", "ack_payload", JSON),
    ("complete", "agent", AGENT | NONE),
    ("complete", "project", LABEL | NONE),
    ("fail", "ref", REF | NONE),
    ("fail", "epoch", WHOLE | NONE),
    ("fail", "reason", NOTE),
    ("fail", "retry", BOOLEAN | NONE),
    ("fail", "result", JSON),
    ("fail", "agent", AGENT | NONE),
    ("fail", "project", LABEL | NONE),
    ("release", "ref", REF | NONE),
    ("release", "epoch", WHOLE | NONE),
    ("release", "reason", NOTE),
    ("release", "agent", AGENT | NONE),
    ("release", "project", LABEL | NONE),
    ("cancel", "ref", REF | NONE),
    ("cancel", "reason", NOTE),
    ("cancel", "agent", AGENT | NONE),
    ("cancel", "project", LABEL | NONE),
    ("retry", "ref", REF | NONE),
    ("retry", "reason", NOTE),
    ("retry", "agent", AGENT | NONE),
    ("retry", "project", LABEL | NONE),
    ("retry_many", "states", STATES | NONE | {"open": ["pending"]}),
    ("retry_many", "kind", LABEL),
    ("retry_many", "queue", LABEL),
    ("retry_many", "tag", LABEL),
    ("retry_many", "name_contains", NAME),
    ("retry_many", "reason", NOTE),
    ("retry_many", "limit", WHOLE | NONE | {"zero": 0, "too many": 1001}),
    ("retry_many", "agent", AGENT | NONE),
    ("retry_many", "project", LABEL | NONE),
    ("check", "ref", REF | NONE),
    ("check", "epoch", WHOLE | NONE),
    ("check", "agent", AGENT | NONE),
    ("check", "project", LABEL | NONE),
    ("forfeit", "holder", AGENT | NONE | {"no incarnation": "alice"}),
    ("forfeit", "reason", NOTE),
    ("forfeit", "agent", AGENT | NONE),
    ("forfeit", "project", LABEL | NONE),
    ("get", "ref", REF | NONE),
    ("get", "project", LABEL | NONE),
    ("after", "ref", REF | NONE),
    ("after", "project", LABEL | NONE),
    ("due", "project", LABEL),
    ("sweep", "project", LABEL),
    ("list", "project", LABEL),
    ("list", "states", STATES),
    ("list", "kind", LABEL),
    ("list", "queue", LABEL),
    ("list", "priority", CHOICE),
    ("list", "tag", LABEL),
    ("list", "agent", AGENT),
    ("list", "name_contains", NAME),
    ("list", "about", REF),
    ("list", "parent", REF),
    ("list", "before", WHOLE),
    ("list", "limit", WHOLE | NONE | {"zero": 0, "too many": 1001}),
]
REQUIRED: dict[str, dict[str, Any]] = {
    "post": {"name": "work"},
    "depend": {"ref": KEY, "after": [KEY]},
    "claim_many": {"refs": [KEY]},
    "next": {},
    "retry_many": {},
    "forfeit": {"holder": "alice~gone"},
    "list": {},
    "due": {},
    "sweep": {},
}
"""What a call cannot do without; `ref` alone where nothing is said."""
OPERATIONS = sorted({operation for operation, _, _ in PARAMETERS})


def params(operation: str) -> dict[str, Any]:
    """Parameters that are right."""
    return dict(REQUIRED.get(operation, {"ref": KEY}))


def answer(board: Board, operation: str, given: dict[str, Any]) -> str:
    """`Invalid` if the call was refused as it should be, else what happened instead."""
    try:
        board.call(f"tasks.{operation}", given)
    except Invalid as exc:
        return "Invalid" if exc.message.isprintable() else f"not one line: {exc.message!r}"
    except Exception as exc:
        return f"{type(exc).__name__}: {exc}"
    return "let through"


@pytest.mark.parametrize(("operation", "parameter", "wrong"), PARAMETERS)
def test_a_wrong_value_is_refused_in_one_line(alice: Board, operation: str, parameter: str, wrong: Wrong) -> None:
    alice.tasks.claim(ref=KEY)

    with unchanged(alice):
        answers = {what: answer(alice, operation, params(operation) | {parameter: v}) for what, v in wrong.items()}

    assert answers == dict.fromkeys(wrong, "Invalid")


def test_no_parameter_is_without_such_a_test(alice: Board) -> None:
    tested = {(f"tasks.{operation}", parameter) for operation, parameter, _ in PARAMETERS}
    for operation in OPERATIONS:
        with pytest.raises(Invalid) as refusal:
            alice.call(f"tasks.{operation}", params(operation) | {"unheard_of": 1})
        known = refusal.value.hint.removeprefix("it takes: ").split(", ")
        assert {(f"tasks.{operation}", parameter) for parameter in known} <= tested


@pytest.mark.parametrize(("operation", "parameter"), [("next", "count"), ("claim", "lease"), ("claim", "ref")])
def test_a_number_too_long_to_print_is_refused_like_any_other(alice: Board, operation: str, parameter: str) -> None:
    with unchanged(alice):
        assert answer(alice, operation, params(operation) | {parameter: 10**5000}) == "Invalid"


def nested(depth: int) -> Any:
    """A list in a list in a list …"""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_payload_nested_without_end_is_refused(alice: Board) -> None:
    with unchanged(alice):
        assert answer(alice, "post", {"name": "work", "payload": nested(100_000)}) == "Invalid"


def test_a_payload_that_could_be_stored_can_be_read_by_a_caller_with_less_stack(alice: Board) -> None:
    depths = (depth for depth in range(1000, 0, -25))
    depth = next(d for d in depths if answer(alice, "post", {"name": "deep", "payload": nested(d)}) != "Invalid")

    def from_further_down(frames: int) -> Any:
        return from_further_down(frames - 1) if frames else alice.tasks.list(limit=1)[0].payload

    assert from_further_down(200) == nested(depth)


def test_a_payload_that_contains_itself_is_refused(alice: Board) -> None:
    circle: list[Any] = []
    circle.append(circle)

    with unchanged(alice):
        assert answer(alice, "post", {"name": "work", "payload": circle}) == "Invalid"


@pytest.mark.parametrize(
    ("operation", "wrong", "named"),
    [
        ("post", {"name": ""}, "name"),
        ("post", {"tags": ["a", "b c"]}, "tags[1]"),
        ("post", {"payload": NAN}, "payload"),
        ("claim", {"lease": NAN}, "lease"),
        ("next", {"count": 0}, "count"),
        ("list", {"states": ["done"]}, "states[0]"),
    ],
)
def test_a_refusal_names_the_parameter(alice: Board, operation: str, wrong: Wrong, named: str) -> None:
    with pytest.raises(Invalid) as refusal:
        alice.call(f"tasks.{operation}", params(operation) | wrong)
    assert named in refusal.value.message


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_unknown_parameter_is_not_passed_over(alice: Board, operation: str) -> None:
    alice.tasks.claim(ref=KEY)

    with unchanged(alice), pytest.raises(Invalid, match="unheard_of"):
        alice.call(f"tasks.{operation}", params(operation) | {"unheard_of": 1})


@pytest.mark.parametrize("operation", [operation for operation in OPERATIONS if params(operation)])
def test_a_missing_parameter_is_named(alice: Board, operation: str) -> None:
    for missing in params(operation):
        given = {name: value for name, value in params(operation).items() if name != missing}
        with unchanged(alice), pytest.raises(Invalid, match=missing):
            alice.call(f"tasks.{operation}", given)


@pytest.mark.parametrize("name", ["tasks.explode", "tasks", "tasks.", "", "nonsense.post", "tasks.post\n"])
def test_an_unknown_operation_is_refused(alice: Board, name: str) -> None:
    with unchanged(alice), pytest.raises(Invalid) as refusal:
        alice.call(name, {})
    assert refusal.value.message.isprintable()


def test_a_name_that_does_not_exist_is_no_operation(alice: Board) -> None:
    with pytest.raises(AttributeError):
        alice.tasks.explode()  # type: ignore[attr-defined]


def test_the_largest_of_everything_is_accepted(alice: Board) -> None:
    alice.tasks.post(
        name="n" * MAX_NAME,
        key="k" * MAX_KEY,
        kind="a" * MAX_LABEL,
        queue="_" * MAX_LABEL,
        payload="p" * (MAX_JSON - 2),
        tags=[f"t{i}" for i in range(MAX_LIST)],
        max_attempts=1000,
        delay=3650 * 86400.0,
        backoff=3650 * 86400.0,
    )

    assert len(changes(alice)) == 1


def test_every_refusal_is_one_of_ours(alice: Board) -> None:
    with pytest.raises(TiebreakError) as refusal:
        alice.tasks.get(ref="x'; DROP TABLE tasks; --")
    assert "\n" not in str(refusal.value)
