"""A list shows all matching tasks and no others, newest first, page by page."""

from __future__ import annotations

import pytest

from tiebreak import Board
from tiebreak.errors import NotFound
from tiebreak.names import STATES

from .engines import Place
from .tasks_support import claimed, in_state, unchanged


def names(board: Board, **filters: object) -> list[str]:
    """The names of what is listed, in order."""
    return [task.name for task in board.call("tasks.list", filters)]


# ── Order and pages ──────────────────────────────────────────────────────────────────────────────────


def test_an_empty_board_lists_nothing(alice: Board) -> None:
    assert alice.tasks.list() == []


def test_the_newest_comes_first(alice: Board) -> None:
    for name in ("a", "b", "c"):
        alice.tasks.post(name=name)

    assert names(alice) == ["c", "b", "a"]


def test_a_list_shows_what_get_shows(alice: Board) -> None:
    task = claimed(alice)

    assert alice.tasks.list() == [alice.tasks.get(ref=task.id)]


def test_a_hundred_are_listed_if_nothing_is_said(alice: Board) -> None:
    alice.batch([("tasks.post", {"name": f"{i}"}) for i in range(101)])

    assert names(alice) == [f"{i}" for i in range(100, 0, -1)]


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_a_list_is_not_longer_than_asked_for(alice: Board, limit: int) -> None:
    for i in range(4):
        alice.tasks.post(name=f"{i}")

    assert names(alice, limit=limit) == ["3", "2", "1", "0"][:limit]


def test_paging_shows_every_task_once(alice: Board) -> None:
    for i in range(10):
        alice.tasks.post(name=f"{i}")
    seen: list[str] = []
    before = None
    while page := alice.tasks.list(limit=3, before=before):
        seen += [task.name for task in page]
        before = page[-1].number

    assert seen == [f"{i}" for i in range(9, -1, -1)]


def test_paging_goes_on_where_it_was_when_something_new_comes(alice: Board) -> None:
    for name in ("a", "b", "c"):
        alice.tasks.post(name=name)
    page = alice.tasks.list(limit=2)
    alice.tasks.post(name="d")

    assert names(alice, before=page[-1].number) == ["a"]


def test_before_the_first_there_is_nothing(alice: Board) -> None:
    task = alice.tasks.post(name="work")

    assert names(alice, before=task.number) == []
    assert names(alice, before=0) == []


# ── Filters ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "filters",
    [
        pytest.param({"kind": "job"}, id="kind"),
        pytest.param({"queue": "gpu"}, id="queue"),
        pytest.param({"priority": "high"}, id="priority"),
        pytest.param({"tag": "big"}, id="tag"),
        pytest.param({"name_contains": "ante"}, id="name"),
        pytest.param({"states": ["claimed"]}, id="state"),
        pytest.param({"agent": "alice"}, id="agent"),
        pytest.param(
            {
                "kind": "job",
                "queue": "gpu",
                "priority": "high",
                "tag": "big",
                "name_contains": "want",
                "states": ["claimed", "failed"],
                "agent": "alice",
                "project": "demo",
            },
            id="all at once",
        ),
    ],
)
def test_only_what_matches_is_listed(alice: Board, bob: Board, filters: dict[str, object]) -> None:
    wanted = alice.tasks.post(name="wanted", kind="job", queue="gpu", priority="high", tags=["small", "big"])
    alice.tasks.claim(ref=wanted.id)
    bob.tasks.complete(ref=claimed(bob, name="done").id)
    alice.tasks.post(name="plain", tags=["bigger"])

    assert names(alice, **filters) == ["wanted"]


def test_the_lowest_priority_is_a_filter_too(alice: Board) -> None:
    alice.tasks.post(name="low", priority="low")
    alice.tasks.post(name="normal")

    assert names(alice, priority="low") == ["low"]


def test_all_filters_must_match(alice: Board) -> None:
    alice.tasks.post(name="job", kind="job")
    alice.tasks.post(name="tagged", tags=["big"])

    assert names(alice, kind="job", tag="big") == []


@pytest.mark.parametrize("state", STATES)
def test_a_state_lists_exactly_the_tasks_in_it(alice: Board, state: str) -> None:
    tasks = {state: in_state(alice, state) for state in STATES}

    listed = [task for task in alice.tasks.list(states=[state]) if task.name == "work"]

    assert [task.id for task in listed] == [tasks[state].id]


def test_several_states_list_their_union(alice: Board) -> None:
    tasks = [in_state(alice, state) for state in ("completed", "failed", "claimed")]

    assert [task.id for task in alice.tasks.list(states=["failed", "completed"])] == [
        tasks[1].id,
        tasks[0].id,
    ]


def test_a_state_named_twice_lists_once(alice: Board) -> None:
    alice.tasks.post(name="work")

    assert names(alice, states=["pending", "pending"]) == ["work"]


def test_no_state_lists_nothing(alice: Board) -> None:
    alice.tasks.post(name="work")

    assert names(alice, states=[]) == []


@pytest.mark.parametrize("tag", ["bi", "ig", "b_g", "BIG"])
def test_a_tag_that_only_resembles_the_wanted_one_does_not_match(alice: Board, tag: str) -> None:
    alice.tasks.post(name="work", tags=["big"])

    assert names(alice, tag=tag) == []


@pytest.mark.parametrize(
    "part", ["Fix", "fix", "FIX THE", "100%", "a_b", "äÖ", "ÄÖ", "äö", "!", "'", "Fix the 100% a_b ÄÖ! it's"]
)
def test_a_part_of_a_name_is_found_whatever_its_case(alice: Board, part: str) -> None:
    alice.tasks.post(name="Fix the 100% a_b ÄÖ! it's")

    assert names(alice, name_contains=part) == ["Fix the 100% a_b ÄÖ! it's"]


@pytest.mark.parametrize("part", ["F%x", "F_x", "axb", "fixthe"])
def test_a_part_of_a_name_is_no_pattern(alice: Board, part: str) -> None:
    alice.tasks.post(name="Fix the a_b")

    assert names(alice, name_contains=part) == []


@pytest.mark.parametrize("agent", ["alice", "alice~one", "alice~three"])
def test_an_agent_is_meant_in_all_its_incarnations(place: Place, agent: str) -> None:
    one, two = place.open("alice~one"), place.open("alice~two")
    claimed(one, name="a")
    claimed(two, name="b")
    claimed(place.open("alice2~one"), name="c")

    assert names(one, agent=agent) == ["b", "a"]


@pytest.mark.parametrize("state", ["claimed", "completed", "failed"])
def test_who_finished_a_task_is_found_by_name(alice: Board, state: str) -> None:
    task = in_state(alice, state)

    assert [found.id for found in alice.tasks.list(agent="alice")] == [task.id]


@pytest.mark.parametrize("way", ["id", "number", "key"])
def test_what_is_about_a_task_is_found(alice: Board, way: str) -> None:
    subject = alice.tasks.post(name="subject", key="subject")
    alice.tasks.post(name="note", kind="knowledge", about=subject.id)
    alice.tasks.post(name="other note", kind="knowledge")

    ref = {"id": subject.id, "number": f"#{subject.number}", "key": "subject"}[way]
    assert names(alice, about=ref) == ["note"]


def test_a_list_about_an_unknown_task_is_refused(alice: Board) -> None:
    with pytest.raises(NotFound):
        alice.tasks.list(about="#999")


# ── Projects ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("filters", "listed"),
    [({}, ["ours"]), ({"project": "other"}, ["theirs"]), ({"project": None}, ["theirs", "ours"])],
    ids=["the caller's", "another", "all"],
)
def test_a_list_is_of_one_project_unless_all_are_asked_for(
    place: Place, alice: Board, filters: dict[str, object], listed: list[str]
) -> None:
    alice.tasks.post(name="ours")
    place.open("bob", "other").tasks.post(name="theirs")

    assert names(alice, **filters) == listed


def test_reading_leaves_no_trace(alice: Board) -> None:
    first = alice.tasks.post(name="first")
    alice.tasks.post(name="second", after=[first.id])

    with unchanged(alice):
        alice.tasks.list()
        alice.tasks.get(ref=first.id)
        alice.tasks.after(ref=first.id)
        alice.tasks.due()
