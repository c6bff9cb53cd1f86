"""What is referred to comes first, and circles are found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiebreak.task_order import circle, groups


def test_without_references_the_order_stays() -> None:
    assert groups([[], [], []]) == [[0], [1], [2]]
    assert groups([]) == []


def test_what_is_referred_to_comes_first() -> None:
    assert groups([[2], [], [1]]) == [[1], [2], [0]]


def test_a_circle_is_one_group_in_the_order_of_its_places() -> None:
    assert groups([[2], [], [3], [0, 1]]) == [[1], [0, 2, 3]]
    assert circle([[2], [], [3], [1, 0]]) == [0, 2, 3]
    assert circle([[0]]) == [0]
    assert circle([[], [0], [1]]) == []


def test_a_chain_may_be_longer_than_the_stack() -> None:
    long = 50_000
    refs = [[i + 1] for i in range(long)] + [[]]
    assert groups(refs) == [[i] for i in range(long, -1, -1)]
    assert circle(refs) == []
    assert len(circle([*refs[:-1], [0]])) == long + 1


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    size = draw(st.integers(1, 12))
    return draw(st.lists(st.lists(st.integers(0, size - 1), max_size=4), min_size=size, max_size=size))


@given(graphs())
def test_a_group_refers_to_itself_and_to_earlier_ones_alone(refs: list[list[int]]) -> None:
    found = groups(refs)
    seen: set[int] = set()
    for group in found:
        seen.update(group)
        assert all(ref in seen for place in group for ref in refs[place])
    assert sorted(place for group in found for place in group) == list(range(len(refs)))


@given(graphs())
def test_a_circle_leads_from_place_to_place_and_back(refs: list[list[int]]) -> None:
    way = circle(refs)
    for here, following in zip(way, [*way[1:], *way[:1]], strict=True):
        assert following in refs[here]
    ordered = all(len(group) == 1 and group[0] not in refs[group[0]] for group in groups(refs))
    assert bool(way) is not ordered
