"""Operations are declared once: every other description of them says the same."""

from __future__ import annotations

import ast
import importlib
import inspect
import keyword
import os
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
from tiebreak.kinds import RULES
from tiebreak.operations import MODULES, Operation, every, find, operation

if TYPE_CHECKING:
    from tiebreak.names import AgentId, Label, Lease, Name

EVERY = sorted(every())


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    with tiebreak.open(tmp_path / "board.db", agent="alice~1", project="demo") as opened:
        yield opened


# ── The typed view ───────────────────────────────────────────────────────────────────────────────────────


def typed_view() -> dict[str, str]:
    """What board.py tells a type checker: the operation's name, and the function that is bound to it."""
    found: dict[str, str] = {}
    for cls in ast.parse(Path(inspect.getfile(board_module)).read_text()).body:
        if not isinstance(cls, ast.ClassDef) or "Namespace" not in [ast.unparse(base) for base in cls.bases]:
            continue
        prefix = next(ast.literal_eval(part.value) for part in cls.body if _assigns(part, "prefix"))  # type: ignore[attr-defined]
        for part in cls.body:
            if isinstance(part, ast.If):
                for line in part.body:
                    assert isinstance(line, ast.Assign)
                    found[f"{prefix}.{ast.unparse(line.targets[0])}"] = ast.unparse(line.value)
    return found


def _assigns(part: ast.stmt, name: str) -> bool:
    return isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == name


def test_the_typed_view_names_exactly_the_operations() -> None:
    assert sorted(typed_view()) == [name for name in EVERY if name != "holds.break"]


@pytest.mark.parametrize("name", sorted(typed_view()))
def test_the_typed_view_binds_the_operation_of_that_name(name: str) -> None:
    bound = typed_view()[name]
    assert bound.startswith("Bound(_")
    module, _, function = bound.removeprefix("Bound(_").removesuffix(")").partition(".")
    assert getattr(importlib.import_module(f"tiebreak.operations.{module}"), function) is find(name)


def test_only_a_keyword_is_missing_from_the_typed_view(board: Board) -> None:
    assert keyword.iskeyword("break")
    board.holds.take(resources=["lock:x"])
    assert board.call("holds.break", {"resource": "lock:x", "reason": "stuck"})


def test_every_group_is_on_the_board_and_calls_its_own_operations(board: Board) -> None:
    for name in EVERY:
        group, _, last = name.partition(".")
        assert callable(getattr(getattr(board, group), last)), name
    assert {name.partition(".")[0] for name in EVERY} == set(MODULES)


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


@pytest.mark.parametrize("name", [name for name in EVERY if every()[name].glance is not None])
def test_a_glance_takes_what_its_operation_takes(name: str) -> None:
    declared = find(name)
    assert declared.glance is not None
    assert declared.writes
    taken = inspect.signature(declared.glance).parameters
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
    board.messages.send(body="hello", to="alice")
    board.schedules.add(name="daily", expression="@daily", command="true")
    writer = board.engine._writer  # type: ignore[attr-defined]
    values: dict[str, Any] = {"ref": "work", "query": "hello", "name": "daily"}
    tried = 0
    for name, declared in every().items():
        if not declared.writes:
            needed = {p: values[p] for p in declared.parameters if p not in declared.defaults}
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
