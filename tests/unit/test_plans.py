"""On SQLite, too, the next tasks and jobs come from the head of an index, whatever is paused or full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tiebreak
from tiebreak import Board, Lost, Refused
from tiebreak.engine.sqlite import transaction

Plans = list[tuple[str, str]]


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    return tiebreak.open(tmp_path / "board.db", agent="alice~1", project="demo")


def plans(
    board: Board, monkeypatch: pytest.MonkeyPatch, operation: str, steps: list[str] | None = None, **params: Any
) -> list[str]:
    """The steps of all statements that a call runs, also if it is refused."""
    steps = [] if steps is None else steps

    def explained(original: Any) -> Any:
        def explain(self: Any, sql: str, **given: Any) -> Any:
            text, order = transaction._translated.get(sql) or transaction._translate(sql)
            values = order({**given, "now": self.now})
            steps.extend(row[-1] for row in self._cursor.execute(f"EXPLAIN QUERY PLAN {text}", values).fetchall())
            return original(self, sql, **given)

        return explain

    with monkeypatch.context() as patched:
        for name in ("all", "first"):
            patched.setattr(
                transaction.SqliteTransaction, name, explained(getattr(transaction.SqliteTransaction, name))
            )
        board.call(operation, params)
    return steps


def check(steps: list[str], index: str) -> None:
    """This index is followed, and tasks are neither read from end to end nor sorted."""
    assert any(f"INDEX {index} " in step for step in steps), steps
    bad = [step for step in steps if (step.startswith("SCAN tasks") and "USING" not in step) or "TEMP B-TREE" in step]
    assert not bad, bad


NEXTS: list[tuple[str, dict[str, Any], str]] = [
    ("tasks.next", {}, "tasks_ready"),
    ("tasks.next", {"kind": "k"}, "tasks_ready_kind"),
    ("tasks.next", {"queue": "q"}, "tasks_ready_queue"),
    ("tasks.next", {"queue": "q", "kind": "k"}, "tasks_ready_both"),
    ("tasks.next", {"tag": "t"}, "tasks_ready_tagged"),
    ("jobs.next", {"queues": ["q"]}, "tasks_ready_jobs"),
    ("jobs.next", {"queues": ["q", "r"]}, "tasks_ready_jobs"),
    ("jobs.next", {"calls": ["m.f", "m.g"], "queues": ["q"]}, "tasks_ready_jobs"),
    ("jobs.next", {}, "tasks_ready_jobs"),
]


@pytest.mark.parametrize(("operation", "params", "index"), NEXTS)
def test_the_next_ones_are_the_head_of_an_index(
    board: Board, monkeypatch: pytest.MonkeyPatch, operation: str, params: dict[str, Any], index: str
) -> None:
    board.jobs.submit(command="true", queue="q")

    check(plans(board, monkeypatch, operation, **params), index)


def test_the_queues_that_are_open_are_found_by_skipping(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    for queue in "abc":
        board.tasks.post(name="work", queue=queue)
    board.queues.pause(queue="a")

    check(plans(board, monkeypatch, "tasks.next"), "tasks_ready_queue")


def test_the_groups_that_have_work_are_found_by_skipping(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    for group in "abc":
        board.jobs.submit(command="true", limit=f"{group}=1")

    steps = plans(board, monkeypatch, "jobs.next")

    check(steps, "tasks_ready_limited")
    check(steps, "tasks_limited")


@pytest.mark.parametrize(
    ("operation", "params"), [("tasks.claim", {"ref": "work"}), ("holds.take", {"resources": ["lock:x"]})]
)
def test_a_refusal_passes_by_no_refusals_before_it(
    board: Board, monkeypatch: pytest.MonkeyPatch, operation: str, params: dict[str, Any]
) -> None:
    board.call(operation, params)
    steps: list[str] = []
    with pytest.raises(Lost):
        plans(board, monkeypatch, operation, steps, agent="bob~1", **params)

    check(steps, "events_granted")


def test_plain_tasks_are_won_with_as_many_statements_as_before_there_were_jobs(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    for name in ("all", "first"):
        original = getattr(transaction.SqliteTransaction, name)

        def counted(self: Any, sql: str, original: Any = original, **given: Any) -> Any:
            ran.append(sql)
            return original(self, sql, **given)

        monkeypatch.setattr(transaction.SqliteTransaction, name, counted)
    task = board.tasks.post(name="work")
    board.tasks.post(name="work")
    ran.clear()

    board.tasks.claim(ref=task.id)
    claim, ran[:] = len(ran), []
    board.tasks.next()

    name = "what the name of the project means"
    assert claim <= 6, f"{name}, twice, the precheck, the claim, its event and the number of that"
    assert len(ran) <= 5, f"{name}, a look at what time has done, the claim, its event and the number of that"


def test_near_keys_are_sought_in_the_index_of_keys_alone(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("login-bug", "login-page", "login-test"):
        board.tasks.post(name="work", key=key)
    steps: list[str] = []
    with pytest.raises(Refused):
        plans(board, monkeypatch, "tasks.claim", steps, ref="logn-bug")
    check([step for step in steps if "tasks" in step], "tasks_key")


@pytest.mark.parametrize("operation", ["events.timeline", "queues.figures"])
def test_a_picture_reads_no_table_from_end_to_end(
    board: Board, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    board.holds.take(resources=["lock:a"])
    board.tasks.claim(ref="work")
    board.tasks.cancel(ref="work")  # the figures look for what it was before
    board.holds.release(resources=["lock:a"])  # the window of one event has no beginning of it
    params: dict[str, Any] = {"limit": 1} if operation == "events.timeline" else {}

    steps = plans(board, monkeypatch, operation, **params)

    bad = [step for step in steps if step.startswith("SCAN") and step.split()[1] in ("tasks", "events", "holds")]
    assert not [step for step in bad if "USING" not in step], steps
    index = "events_granted" if operation == "events.timeline" else "events_subject"
    assert any(f"INDEX {index} " in step for step in steps), steps
