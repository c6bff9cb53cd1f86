"""Records: read-only rows that lose nothing on the wire."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tiebreak
from tiebreak import Board, Lost
from tiebreak.errors import TiebreakError, from_dict
from tiebreak.kinds import Kind
from tiebreak.model import (
    RECORDS,
    Event,
    Hold,
    Message,
    Queue,
    Record,
    Task,
    Wait,
    columns,
    decode,
    encode,
    holder_id,
    kinds_of,
    record,
    row_of,
)
from tiebreak.names import PRIORITIES, json_text
from tiebreak.operations import every

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
WORDS = st.text(LETTERS + "._:/+@-", min_size=1, max_size=20)
LINES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
JSON = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), LINES),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(LINES, inner, max_size=4)),
    max_leaves=8,
)
AGENTS = st.one_of(WORDS, st.builds("{}~{}".format, WORDS, st.text(LETTERS + "._-", min_size=1, max_size=20)))

STORED: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(0, 2**53),
    "str": LINES,
    "Time": st.integers(0, 4_102_444_800_000_000),  # 0 is none; up to the year 2100
    "Json": st.one_of(st.none(), JSON.map(json_text)),
    "Priority": st.integers(0, len(PRIORITIES) - 1),
    "Words": st.lists(WORDS, max_size=4).map(lambda words: f" {' '.join(words)} " if words else ""),
    "Holder": AGENTS,
    "bool": st.booleans(),
}


def rows(cls: Any) -> st.SearchStrategy[Any]:
    """Rows as a database would answer them."""
    fields = []
    for name, kind in kinds_of(cls).items():
        plain = kind.name
        optional = (kind.optional and plain != "Time") or plain == "Json"
        fields.append(st.one_of(st.none(), STORED[plain]) if optional else STORED[plain])
        assert name in cls.fields
    return st.tuples(*fields).map(lambda row: record(cls, row))


def over_the_wire(value: Any) -> Any:
    return json.loads(json.dumps(encode(value), ensure_ascii=False))


@pytest.mark.parametrize("name", sorted(RECORDS))
@given(data=st.data())
def test_a_record_survives_the_wire_unchanged(name: str, data: st.DataObject) -> None:
    went = data.draw(rows(RECORDS[name]))
    came = decode(Kind.of(name), over_the_wire(went))
    assert came == went
    assert type(came) is RECORDS[name]
    assert repr(came) == repr(went)


@given(went=st.lists(rows(Task), max_size=3))
def test_a_list_of_records_survives_the_wire(went: list[Task]) -> None:
    assert decode(Kind.of("list[Task]"), over_the_wire(went)) == went


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 7),
        ("int | None", None),
        ("float | None", 1.5),
        ("Task | None", None),
        ("list[Task]", []),
        ("str", "x"),
        ("bool", False),
    ],
)
def test_values_that_are_no_records_survive_the_wire(kind: str, value: Any) -> None:
    assert decode(Kind.of(kind), over_the_wire(value)) == value


@given(task=rows(Task))
def test_the_wire_tells_name_and_session_apart(task: Task) -> None:
    whole = holder_id(task)
    wire = encode(task)
    assert wire["holder"] == (None if whole is None else whole.partition("~")[0])
    assert wire["session"] == (None if whole is None else whole.partition("~")[2] or None)
    assert task.holder == wire["holder"]


def test_every_field_of_every_record_has_a_known_type() -> None:
    for cls in RECORDS.values():
        for kind in kinds_of(cls).values():
            assert kind.name in STORED, f"{cls.__name__}: {kind}"


def test_every_answer_of_every_operation_can_be_decoded() -> None:
    known = {*RECORDS, "Json", "int", "float", "bool", "str", "None"}
    for operation in every().values():
        assert operation.returns.base in known, operation.name


def test_real_answers_survive_the_wire_unchanged(tmp_path: Path) -> None:
    """What a database really answers: its numbers, its NULLs, its zeros."""
    with (
        tiebreak.open(tmp_path / "board.db", agent="alice~1", project="demo") as alice,
        tiebreak.open(tmp_path / "board.db", agent="bob~1", project="demo") as bob,
    ):
        alice.tasks.post(name="a", tags=["x", "y"], payload={"a": [1, None, "é"]}, priority="urgent", delay=60)
        alice.tasks.post(name="b", after=["#1"])
        alice.tasks.claim(ref="work")
        with pytest.raises(Lost):
            bob.tasks.claim(ref="work")
        alice.tasks.complete(ref="work", result=[1])
        held = alice.holds.take(resources=["file:a.py", "lock:x"], note="why")
        answers: dict[str, Any] = {
            "list[Hold]": held,
            "list[Released]": alice.holds.release(resources=["file:a.py"], hashes=["abc"]),
            "Message": alice.messages.send(later=True, body="two\nlines", to="bob", ack_requested=True),
            "list[Message]": bob.messages.inbox(),
            "Agent": alice.agents.announce(doing="testing", pid=1, host="h", boot="b", parent="bob~1"),
            "list[Agent]": alice.agents.list(),
            "list[Task]": alice.tasks.list(),
            "list[Event]": alice.events.read(limit=1000),
            "list[Sentence]": alice.events.why(ref="work"),
            "Status": alice.upkeep.status(),
            "Pruned": alice.upkeep.prune(older_than=0.0),
        }
    for kind, answer in answers.items():
        assert answer
        assert decode(Kind.of(kind), over_the_wire(answer)) == answer, kind


# ── Records at run time ──────────────────────────────────────────────────────────────────────────────────

# What measures coverage in the processes that tests start imports more than what it measures.
UNMEASURED = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
HOLD = record(Hold, ("demo", "lock:x", 0, "alice~1", 3, 5_000_000, 0, None, None))


def test_a_field_shows_what_python_wants() -> None:
    assert (HOLD.holder, HOLD.until, HOLD.taken_at, HOLD.epoch) == ("alice", 5.0, None, 3)
    assert holder_id(HOLD) == "alice~1"


@pytest.mark.parametrize("field", ["epoch", "extra"])
@pytest.mark.parametrize("looked_at", [False, True])
def test_a_record_cannot_be_changed(field: str, looked_at: bool) -> None:
    class Another(Record):
        epoch: int

    made = record(Another, (3,))
    assert not looked_at or made.epoch == 3
    with pytest.raises(AttributeError):
        setattr(made, field, 4)
    assert made.epoch == 3


def test_a_field_that_does_not_exist_is_an_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="Hold has no field 'owner'"):
        HOLD.owner  # type: ignore[attr-defined]  # noqa: B018


def test_a_record_survives_copying_and_pickling() -> None:
    for made in (copy.copy(HOLD), copy.deepcopy(HOLD), pickle.loads(pickle.dumps(HOLD))):
        assert made == HOLD
        assert made.holder == "alice"


def test_a_record_tells_its_fields() -> None:
    assert repr(HOLD).startswith("Hold(project='demo', resource='lock:x', slot=0, holder='alice', epoch=3, until=5.0")


def test_a_record_gives_no_stored_value_but_by_its_row() -> None:
    """Microseconds and JSON text were once a `[5]` away from the seconds and the value that the field shows."""
    held: Any = HOLD
    for use in (iter, len, lambda it: it[0], lambda it: [*it], lambda it: (0, *it), lambda it: it + it):
        with pytest.raises(TypeError):
            use(held)
    assert not isinstance(HOLD, (tuple, dict, list))
    assert row_of(HOLD) == ("demo", "lock:x", 0, "alice~1", 3, 5_000_000, 0, None, None)
    assert Hold.fields == tuple(kinds_of(Hold)) == ("project", *columns(Hold).split(", ")[1:])


def test_records_are_equal_when_class_and_row_are() -> None:
    same = record(Hold, tuple(row_of(HOLD)))
    assert same == HOLD
    assert len({same, HOLD}) == 1
    assert same != record(Hold, (*row_of(HOLD)[:-1], "hash"))
    assert row_of(HOLD) != HOLD
    assert record(Queue, ("p", "q", 1, 0, None, None)) != record(Wait, ("p", "q", 1, 0, None, None))


@given(task=rows(Task))
def test_a_record_is_what_its_repr_says(task: Task) -> None:
    made = Task(**{name: getattr(task, name) for name in Task.fields})
    assert repr(made) == repr(task)
    assert made.until == task.until


@pytest.mark.parametrize("wrong", [{}, {"resource": "lock:x"}, {"owner": "ada"}])
def test_a_record_is_made_of_all_its_fields_and_no_others(wrong: dict[str, Any]) -> None:
    good = {name: getattr(HOLD, name) for name in Hold.fields}
    assert Hold(**good) == Hold(**good)
    with pytest.raises(TypeError, match=r"Hold: '(project|owner)'"):
        Hold(**(wrong if "owner" not in wrong else {**good, **wrong}))


def test_help_tells_the_fields_of_a_record_that_nobody_looked_at() -> None:
    code = "import pydoc, tiebreak.model as m; print(pydoc.render_doc(m.Schedule, renderer=pydoc.plaintext))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True, env=UNMEASURED)
    assert "expression\n |      str\n" in told.stdout
    assert "paused_at\n |      Time | None\n" in told.stdout


def test_a_row_of_the_wrong_length_is_not_mistaken() -> None:
    with pytest.raises(IndexError):
        record(Hold, ("demo",)).holder  # noqa: B018


def test_columns_are_the_fields_in_their_order() -> None:
    assert columns(Hold) == "project, resource, slot, holder, epoch, until, taken_at, note, hash"
    assert columns(Hold, "h.").startswith("h.project, h.resource")


def test_an_event_of_the_future_still_has_its_time() -> None:
    """What another version adds to the wire is passed over; what it leaves out is none."""
    wire = {**encode(HOLD), "colour": "red"}
    del wire["note"]
    assert decode(Kind.of("Hold"), wire) == HOLD


def test_no_record_needs_typing_or_dataclasses() -> None:
    code = "import sys, tiebreak.model; print('typing' in sys.modules, 'dataclasses' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True, env=UNMEASURED)
    assert told.stdout.split() == ["False", "False"]


def test_times_are_told_to_the_microsecond() -> None:
    at = 1_800_000_000_123_457
    event = record(Event, (1, at, "task.posted", "demo", *[None] * 4, 1, None, 0, 0, None, 1, None))
    assert encode(event)["at"] == "2027-01-15T08:00:00.123457Z"
    assert decode(Kind.of("Event"), encode(event)) == event


def test_an_unacknowledged_message_has_no_time_of_acknowledgement() -> None:
    message = record(Message, (1, "demo", "alice", None, "general", 1, 1, 0, "hi", 5_000_000, None, 0, 0))
    assert (message.acked_at, message.ack_requested, message.importance) == (None, False, "normal")
    assert encode(message)["acked_at"] is None


# ── Errors on the wire ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["Refused", "Lost", "Fenced", "NotFound", "Invalid", "TimedOut", "Unavailable"])
def test_an_error_keeps_its_class_on_the_wire(name: str) -> None:
    went = getattr(tiebreak, name)("no", hint="do this", holder="bob", until=1_800_000_000.5, epoch=3)
    came = from_dict(json.loads(json.dumps(went.to_dict())))
    assert type(came) is type(went)
    assert (came.message, came.hint, came.data) == (went.message, went.hint, went.data)
    assert str(came) == "no"


def test_an_error_of_an_unknown_kind_is_still_an_error() -> None:
    came = from_dict({"error": "Exploded", "message": "boom"})
    assert type(came) is TiebreakError
    assert came.message == "boom"


def test_a_real_refusal_keeps_all_its_facts_on_the_wire(tmp_path: Path) -> None:
    with (
        tiebreak.open(tmp_path / "board.db", agent="alice~1", project="demo") as alice,
        tiebreak.open(tmp_path / "board.db", agent="bob~1", project="demo") as bob,
    ):
        alice.tasks.claim(ref="work")
        went = _refusal(bob)
    came = from_dict(json.loads(json.dumps(went.to_dict())))
    assert isinstance(came, Lost)
    assert (came.holder, came.until, came.epoch, came.data) == (went.holder, went.until, went.epoch, went.data)


def _refusal(board: Board) -> Lost:
    with pytest.raises(Lost) as refusal:
        board.tasks.claim(ref="work")
    return refusal.value
