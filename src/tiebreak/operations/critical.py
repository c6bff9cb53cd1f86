"""Critical tasks: which ready tasks the most others wait for, directly or indirectly.

Only blocked tasks wait, so the graph that counts is made of the edges that lead to blocked tasks. It is read anew for
each call, up to a bound. So the cost does not grow with the board, and nothing has to be kept up to date. Of more
blocked tasks than the bound, the oldest are counted.

This module only reads. Winning a task that it names is up to `picking`, whose statement checks the task's row again.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Transaction

MOST_BLOCKED = 10_000
"""How many blocked tasks are counted."""
_MOST_EDGES = 50_000
"""How many dependencies of theirs are read."""


def waiting_for(tx: Transaction, project: str) -> dict[int, int]:
    """For each unfinished, unblocked task that others wait for: how many do, directly or indirectly."""
    edges = tx.all(
        "WITH waiting AS MATERIALIZED (SELECT number AS n FROM tasks WHERE project = :project AND state = 'blocked' "
        "ORDER BY number LIMIT :most) "
        "SELECT edges.after, edges.task FROM waiting JOIN edges ON edges.task = waiting.n LIMIT :edges",
        project=project,
        most=MOST_BLOCKED,
        edges=_MOST_EDGES,
    )
    return count_reachable(edges)


def count_reachable(edges: list[tuple[int, int]]) -> dict[int, int]:
    """How many nodes can be reached from each node that no edge leads to, in a graph without cycles.

    The nodes below a node are the bits of one integer, so a node that two paths lead to is counted once.
    """
    below: dict[int, list[int]] = {}
    for before, later in edges:
        below.setdefault(before, []).append(later)
    bits = {later: 1 << i for i, later in enumerate(dict.fromkeys(later for _, later in edges))}
    reached: dict[int, int] = {}
    for node in _children_first(below):
        these = 0
        for later in below.get(node, ()):
            these |= bits[later] | reached[later]
        reached[node] = these
    return {node: these.bit_count() for node, these in reached.items() if node not in bits}


def _children_first(below: dict[int, list[int]]) -> list[int]:
    """All nodes, each after those that can be reached from it; without recursion, because chains may be long."""
    order: list[int] = []
    seen: set[int] = set()
    for top in below:
        left = [(top, False)]
        while left:
            node, done = left.pop()
            if done:
                order.append(node)
            elif node not in seen:
                seen.add(node)
                left.append((node, True))
                left += [(later, False) for later in below.get(node, ()) if later not in seen]
    return order
