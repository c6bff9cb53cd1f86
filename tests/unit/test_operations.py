"""Operations are declared once: every other description of them says the same."""

from __future__ import annotations

import ast
import inspect
import keyword
import os
import pydoc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import tiebreak
from tiebreak import Board, Invalid, operations
from tiebreak import board as board_module
from tiebreak.aio import AsyncBoard
from tiebreak.kinds import RULES
from tiebreak.model import RECORDS
from tiebreak.operations import MODULES, Operation, every, find, operation

if TYPE_CHECKING:
    from tiebreak.names import AgentId, Label, Lease, Name

EVERY = sorted(every())


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    with tiebreak.open(tmp_path / "board.db", agent="alice~1", project="demo") as opened:
        yield opened


# ── The typed view ───────────────────────────────────────────────────────────────────────────────────────


def method_of(board: Board, name: str) -> Any:
    """The method of the board that runs an operation."""
    group, _, last = name.partition(".")
    return getattr(getattr(board, group), f"{last}_" if keyword.iskeyword(last) else last)


def test_the_board_has_a_method_for_each_operation_and_no_others(board: Board) -> None:
    assert set(MODULES) <= set(dir(board))
    for group in MODULES:
        methods = [name for name in dir(getattr(board, group)) if not name.startswith("_")]
        operations = [name.partition(".")[2] for name in EVERY if name.startswith(f"{group}.")]
        assert [name.rstrip("_") for name in methods] == operations


@pytest.mark.parametrize("name", EVERY)
def test_a_method_has_the_parameters_defaults_and_text_of_its_operation(name: str, board: Board) -> None:
    method, declared = method_of(board, name), find(name)
    taken = inspect.signature(method).parameters
    assert list(taken) == list(declared.parameters)
    for parameter in taken.values():
        default = declared.defaults.get(parameter.name, inspect.Parameter.empty)
        assert parameter.default == (tuple(default) if isinstance(default, list) else default)
    text = inspect.getdoc(declared) or "nothing"
    assert inspect.getdoc(method) == text
    assert text in pydoc.plain(pydoc.render_doc(method)).replace("\n    ", "\n")


@pytest.mark.parametrize("name", EVERY)
def test_what_a_call_is_about_may_be_given_by_position(name: str, board: Board, monkeypatch: Any) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(Board, "call", lambda self, name, params: sent.append((name, params)))
    method, declared = method_of(board, name), find(name)
    first = next(iter(declared.parameters), "")
    if first and first not in declared.defaults:
        method("this")
        assert sent == [(name, {first: "this"})]
        with pytest.raises(TypeError, match="multiple values"):
            method("this", **{first: "that"})
        with pytest.raises(TypeError, match="positional"):
            method("this", "that")
    else:
        with pytest.raises(TypeError, match="positional"):
            method("this")


@pytest.mark.parametrize("name", EVERY)
def test_a_method_sends_what_it_was_given_and_no_default(name: str, board: Board, monkeypatch: Any) -> None:
    """What is left out is decided by whoever runs the operation, which may be a daemon of another version."""
    sent: list[Any] = []
    monkeypatch.setattr(Board, "call", lambda self, name, params: sent.append(params))
    given = dict(list(find(name).defaults.items())[:1])
    method_of(board, name)()
    method_of(board, name)(**given)
    assert sent == [{}, given]


def test_a_type_checker_knows_the_groups_as_they_are(tmp_path: Path) -> None:
    program = tmp_path / "typed.py"
    program.write_text(
        "import tiebreak, tiebreak.aio\n"
        "async def main(board: tiebreak.Board, other: tiebreak.aio.AsyncBoard) -> None:\n"
        "    task = board.tasks.claim('login-bug', lease='5m')\n"
        "    number: int = board.tasks.list(limit=1)[0].number\n"
        "    board.holds.break_('lock:x', reason='stuck')\n"
        "    (await other.tasks.claim(1)).epoch + 1\n"
        "    board.tasks.clam('login-bug')\n"
        "    await other.tasks.clam('login-bug')\n"
        "    board.taks\n"
        "    board.tasks.claim('login-bug', leese='5m')\n"
        "    task.stat\n"
        "    task.state = 'completed'\n"
    )
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(program)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(Path(tiebreak.__file__).parents[1])},
    )
    wrong = [line.partition(":")[2].partition(":")[0] for line in checked.stdout.splitlines() if ": error: " in line]
    assert wrong == ["7", "8", "9", "10", "11", "12"], checked.stdout


WRITTEN_BY_HAND = [
    (Board.claim, "tasks.claim"),
    (Board.win, "tasks.claim"),
    (Board.next, "tasks.next"),
    (Board.hold, "holds.take"),
    (Board.settled, "tasks.get"),
    (AsyncBoard.claim, "tasks.claim"),
]


@pytest.mark.parametrize(("method", "name"), WRITTEN_BY_HAND, ids=lambda each: getattr(each, "__qualname__", each))
def test_a_method_that_is_written_by_hand_takes_what_its_operation_takes(method: Any, name: str) -> None:
    kinds = find(name).parameters
    shared = {each: said for each, said in method.__annotations__.items() if each in kinds and each != "resources"}
    assert shared
    assert shared == {each: kinds[each].python for each in shared}


def test_no_kind_has_the_name_of_a_record() -> None:
    """The references name both, and a reader could not tell which is meant."""
    assert set(RULES) & set(RECORDS) == set()


def test_a_group_loads_no_operations_before_one_is_called() -> None:
    program = (
        "import sys, tiebreak; from tiebreak.board import Board; from tiebreak.groups import tasks, awaited; "
        "print([name for name in sys.modules if name.startswith('tiebreak.operations.')])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(ast.literal_eval(told.stdout)) <= {"tiebreak.operations.events", "tiebreak.operations.upkeep"}


def test_what_is_no_operation_is_no_attribute(board: Board) -> None:
    for wrong in ("nothing", "claim_", "__wrapped__", "Claim", "tasks"):
        assert not hasattr(board.tasks, wrong)


# ── Declarations ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", EVERY)
def test_an_operation_says_what_it_does_and_what_it_takes(name: str) -> None:
    declared = find(name)
    assert declared.name == name
    assert declared.__doc__
    assert declared.__doc__.strip()[0].isupper()
    signature = inspect.signature(declared.function)
    first, *rest = signature.parameters.values()
    assert first.name == "tx"
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in rest)
    assert list(declared.parameters) == [parameter.name for parameter in rest]


@pytest.mark.parametrize("name", EVERY)
def test_every_default_is_allowed_by_its_own_rule(name: str) -> None:
    declared = find(name)
    for parameter, default in declared.defaults.items():
        kind = declared.parameters[parameter]
        if default == "":
            assert parameter in ("agent", "project"), "filled in by the board"
        else:
            kind.check(default, parameter)


@pytest.mark.parametrize("name", EVERY)
def test_every_parameter_has_a_rule(name: str) -> None:
    for kind in find(name).parameters.values():
        assert kind.base in RULES


@pytest.mark.parametrize("name", [name for name in EVERY if every()[name].precheck is not None])
def test_a_precheck_takes_what_its_operation_takes(name: str) -> None:
    declared = find(name)
    assert declared.precheck is not None
    assert declared.writes
    taken = inspect.signature(declared.precheck).parameters
    if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken.values()):
        assert set(declared.parameters) <= set(taken)
    for parameter in taken.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.default is inspect.Parameter.empty:
            required = parameter.name not in declared.defaults or declared.defaults[parameter.name] == ""
            assert required, f"{name} may be called without {parameter.name}"


def test_reading_does_not_write(board: Board, tmp_path: Path) -> None:
    """A read runs without the gate, so a write in it would come without its turn."""
    board.jobs.submit(command="true", key="work")
    board.tasks.claim(ref="work")
    board.messages.send(later=True, body="hello", to="alice")
    board.schedules.add(name="daily", expression="@daily", command="true")
    writer = board.engine._writer  # type: ignore[attr-defined]
    board.questions.ask("which?", key="open")
    values: dict[str, Any] = {"ref": "work", "query": "hello", "name": "daily", "thread": 1}
    tried = 0
    for name, declared in every().items():
        if not declared.writes:
            needed = {p: values[p] for p in declared.parameters if p not in declared.defaults}
            needed |= {"ref": "open"} if name == "questions.get" else {}
            before = writer.total_changes()
            board.call(name, needed)
            assert writer.total_changes() == before, name
            tried += 1
    assert tried > 5


def test_each_operation_is_found_alone_in_a_new_process() -> None:
    """Only the modules of its group are loaded for it, so each must be in one that MODULES names."""
    script = """
import os, sys
from tiebreak.operations import find
for name in sys.argv[1:]:
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if find(name).name == name else 1)
        except BaseException:
            os._exit(2)
    if os.waitpid(pid, 0)[1]:
        print(name)
"""
    told = subprocess.run([sys.executable, "-c", script, *EVERY], capture_output=True, check=True, text=True)
    assert told.stdout == ""


# ── Finding and checking ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "name", ["", ".", "tasks", "tasks.", ".claim", "tasks.Claim", "nosuch.claim", "tasks.claim.x", "é.é"]
)
def test_an_unknown_operation_is_refused(board: Board, name: str) -> None:
    with pytest.raises(Invalid, match="unknown operation"):
        board.call(name)
    (answer,) = board.batch([(name, {})])
    assert isinstance(answer, Invalid)


def test_a_group_that_is_no_name_does_not_import_anything() -> None:
    before = set(sys.modules)
    for name in ("os.path", "..errors.x", "__init__.x", "expiry.expire"):
        with pytest.raises(Invalid):
            find(name)
    assert set(sys.modules) == before


@pytest.fixture
def sample() -> Iterator[Operation[..., Any]]:
    @operation("tests.sample", writes=False, strangers=True)
    def declared(
        tx: Any,
        *,
        name: Name,
        tags: list[Label] = [],  # noqa: B006
        lease: Lease | None = None,
        agent: AgentId = "",
    ) -> None:
        """A sample."""

    yield declared
    del operations.REGISTRY["tests.sample"]


def test_parameters_are_checked_and_put_in_one_form(sample: Operation[..., Any]) -> None:
    given = {"name": "n", "tags": ("a", "b"), "lease": "5m", "agent": "alice"}
    assert sample.checked(dict(given)) == {"name": "n", "tags": ["a", "b"], "lease": 300.0, "agent": "alice"}
    assert sample.checked({"name": "n", "agent": "alice"}) == {"name": "n", "agent": "alice"}
    assert sample.checked({"name": "n", "agent": "alice", "lease": None})["lease"] is None


def test_checking_does_not_change_what_was_given(sample: Operation[..., Any]) -> None:
    given = {"name": "n", "tags": ("a",), "lease": "5m", "agent": "alice"}
    sample.checked(given)
    assert given == {"name": "n", "tags": ("a",), "lease": "5m", "agent": "alice"}


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"agent": "alice"}, "'name' is missing"),
        ({"name": "n"}, "agent: required"),
        ({"name": "n", "agent": ""}, "agent: required"),
        ({"name": "n", "agent": "alice", "colour": 1}, "unknown parameter 'colour'"),
        ({"name": "n", "agent": "alice", "tx": 1}, "unknown parameter 'tx'"),
        ({"name": "n", "agent": "alice", "": 1}, "unknown parameter ''"),
        ({"name": "n", "agent": "alice", "return": 1}, "unknown parameter 'return'"),
        ({"name": None, "agent": "alice"}, "name: expected text"),
        ({"name": "n", "agent": "alice", "tags": None}, "tags: expected a list"),
        ({"name": "n", "agent": "alice", "tags": ["a", "b c"]}, r"tags\[1\]"),
    ],
)
def test_wrong_parameters_are_named(sample: Operation[..., Any], params: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        sample.checked(params)


def test_an_unknown_parameter_gets_a_hint_with_the_known_ones(sample: Operation[..., Any]) -> None:
    with pytest.raises(Invalid) as refusal:
        sample.checked({"name": "n", "agent": "alice", "colour": 1})
    assert refusal.value.hint == "it takes: name, tags, lease, agent"


@pytest.mark.parametrize(
    "once", ["", "x" * 7, "x" * 129, "é" * 10, "line\nbreak", "tab\ttab", 12345678, b"12345678", ["x" * 8]]
)
def test_a_key_for_repeating_has_its_bounds(board: Board, once: Any) -> None:
    before = board.events.last()
    with pytest.raises(Invalid, match="once"):
        board.call("tasks.post", {"name": "work"}, once=once)
    assert board.events.last() == before


@pytest.mark.parametrize("once", ["x" * 8, "x" * 128, "with blank", "~!@#$%^&*()"])
def test_a_key_for_repeating_may_be_any_printable_text(board: Board, once: str) -> None:
    first = board.call("tasks.post", {"name": "work"}, once=once)
    assert board.call("tasks.post", {"name": "work"}, once=once) == first


def test_the_public_names_are_all_there() -> None:
    for name in tiebreak.__all__:
        assert getattr(tiebreak, name).__name__ == name
    assert os.path.samefile(os.path.dirname(tiebreak.__file__), os.path.dirname(board_module.__file__))
    with pytest.raises(AttributeError, match="nothing"):
        tiebreak.nothing  # noqa: B018


# ── What is remembered ───────────────────────────────────────────────────────────────────────────────────


def test_secrets_of_jobs_are_not_among_the_remembered_answers(board: Board, tmp_path: Path) -> None:
    board.jobs.submit(command="true", env={"TOKEN": "geheim"})
    [job] = board.call("jobs.next", {}, once="retry-1234")
    assert job.settings == {"env": {"TOKEN": "geheim"}}
    connection = apsw.Connection(str(tmp_path / "board.db"))
    [(answer,)] = connection.execute("SELECT answer FROM answers").fetchall()
    connection.close()
    assert job.id in str(answer)
    assert "geheim" not in str(answer)
