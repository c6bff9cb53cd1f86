"""`next` in the order `critical`: first the task that the most others wait for."""

from __future__ import annotations

import pytest

from tiebreak import Board, Invalid
from tiebreak.operations.critical import count_reachable


def test_the_task_that_the_most_others_wait_for_is_won_first(alice: Board) -> None:
    alice.tasks.post(name="urgent alone", key="urgent", priority="urgent")
    alice.tasks.post(name="one waits", key="one")
    alice.tasks.post(name="three wait", key="three")
    alice.tasks.post(name="x", after=["one"])
    alice.tasks.post(name="direct", key="direct", after=["three"])
    alice.tasks.post(name="indirect", key="indirect", after=["direct"])
    alice.tasks.post(name="last", after=["indirect"])
    order = [alice.tasks.next(order="critical")[0].key for _ in range(3)]
    assert order == ["three", "one", "urgent"]
    assert alice.tasks.next(order="critical") == []


def test_several_are_won_in_that_order(alice: Board) -> None:
    for key in ("a", "b", "c"):
        alice.tasks.post(name=key, key=key)
    alice.tasks.post(name="after b", key="after-b", after=["b"])
    assert [task.key for task in alice.tasks.next(order="critical", count=2)] == ["b", "a"]
    assert [task.key for task in alice.tasks.next(count=5)] == ["c"]


def test_of_equally_critical_tasks_the_more_urgent_one_is_won(alice: Board) -> None:
    alice.tasks.post(name="old", key="old")
    alice.tasks.post(name="urgent", key="urgent", priority="urgent")
    alice.tasks.post(name="x", after=["old"])
    alice.tasks.post(name="y", after=["urgent"])
    assert [task.key for task in alice.tasks.next(order="critical")] == ["urgent"]


def test_a_task_that_two_paths_lead_to_is_counted_once(alice: Board) -> None:
    alice.tasks.post(name="diamond", key="diamond")
    for side in ("left", "right"):
        alice.tasks.post(name=side, key=side, after=["diamond"])
    alice.tasks.post(name="end", after=["left", "right"])
    alice.tasks.post(name="fan", key="fan")
    for i in range(4):
        alice.tasks.post(name=f"leaf {i}", after=["fan"])
    assert [task.key for task in alice.tasks.next(order="critical")] == ["fan"], "four wait for it, three for the other"


def test_filters_and_paused_queues_hold_also_for_critical_tasks(alice: Board) -> None:
    alice.tasks.post(name="paused", key="paused", queue="slow")
    alice.tasks.post(name="other kind", key="kind", kind="docs")
    alice.tasks.post(name="taken", key="taken")
    for key in ("paused", "kind", "taken"):
        alice.tasks.post(name=f"after {key}", after=[key])
    plain = alice.tasks.post(name="plain")
    alice.queues.pause(queue="slow")
    alice.tasks.claim(ref="taken")
    assert [task.id for task in alice.tasks.next(order="critical", kind="task")] == [plain.id]
    assert alice.tasks.next(order="critical", kind="task") == []


def test_a_finished_dependent_does_not_count(alice: Board) -> None:
    alice.tasks.post(name="a", key="a")
    alice.tasks.post(name="b", key="b")
    for i in range(2):
        alice.tasks.post(name=f"gone {i}", key=f"gone-{i}", after=["a"])
        alice.tasks.cancel(ref=f"gone-{i}")
    alice.tasks.post(name="waits", after=["b"])
    assert [task.key for task in alice.tasks.next(order="critical")] == ["b"]


def test_an_unknown_order_is_refused(alice: Board) -> None:
    with pytest.raises(Invalid, match="order: one of priority, critical"):
        alice.tasks.next(order="random")


def test_a_long_chain_is_counted_without_recursion() -> None:
    chain = [(i, i + 1) for i in range(10_000)]
    assert count_reachable(chain) == {0: 10_000}
    assert count_reachable([]) == {}
