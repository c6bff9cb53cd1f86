"""The order of things that refer to each other: what is referred to comes first.

Tasks refer to their parents and to the tasks that they come after. Each of the two relations has no circle, but both
together may have one: a parent often comes after its own children. Such tasks are one group, in which any order will
do.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def groups(refs: Sequence[Iterable[int]]) -> list[list[int]]:
    """The places 0, 1, 2 … in groups; `refs` has for each place those that it refers to.

    A group comes after all groups that it refers to. Otherwise the places stay in their order. A group with more than
    one place is a circle. (Tarjan's algorithm, without recursion: a chain may be as long as a file.)
    """
    found: list[list[int]] = []
    seen: list[int] = [0] * len(refs)
    """When a place was first seen, counted from 1; 0 if it was not."""
    lowest: list[int] = [0] * len(refs)
    grouped = bytearray(len(refs))
    path: list[int] = []
    count = 0
    for start in range(len(refs)):
        if seen[start]:
            continue
        count += 1
        seen[start] = lowest[start] = count
        path.append(start)
        work = [(start, iter(refs[start]))]
        while work:
            here, left = work[-1]
            following = next(left, None)
            if following is None:
                work.pop()
                if work:
                    above = work[-1][0]
                    lowest[above] = min(lowest[above], lowest[here])
                if lowest[here] == seen[here]:
                    found.append(_taken_from(path, here, grouped))
            elif not seen[following]:
                count += 1
                seen[following] = lowest[following] = count
                path.append(following)
                work.append((following, iter(refs[following])))
            elif not grouped[following]:
                lowest[here] = min(lowest[here], seen[following])
    return found


def _taken_from(path: list[int], first: int, grouped: bytearray) -> list[int]:
    """The end of the path from this place on, which is a complete group."""
    group = []
    while True:
        place = path.pop()
        grouped[place] = 1
        group.append(place)
        if place == first:
            return sorted(group)


def circle(refs: Sequence[Iterable[int]]) -> list[int]:
    """The places of one circle in the order in which they refer to each other, beginning with the first; [] if none."""
    for group in groups(refs):
        inside = set(group)
        if len(group) == 1 and group[0] not in refs[group[0]]:
            continue
        way, here = [group[0]], group[0]
        places: dict[int, int] = {group[0]: 0}
        while True:  # every place of a group refers to another one of it, so this ends where it has been before
            here = next(each for each in refs[here] if each in inside)
            if here in places:
                return way[places[here] :]
            places[here] = len(way)
            way.append(here)
    return []
