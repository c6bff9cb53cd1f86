"""Draws a dependency graph as SVG, in layers from left to right (Sugiyama's layout).

A node's layer is the length of the longest path to it. An edge that spans several layers gets an invisible node in each
layer between. The nodes of a layer are ordered by the mean position of their neighbours, forwards and backwards, and
the order with the fewest crossings is kept. Finally each node is moved towards its neighbours as far as there is room.
"""

from __future__ import annotations

from itertools import pairwise

from .text import cut, html, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Place = tuple[int, int]
    """A node: (its number, -1). An edge that passes through a layer: (the edge's number, the layer)."""

HEIGHT, GAP, ROOM, EDGE = 46, 18, 64, 24
LETTER = 7.4
LONGEST = 30
COLOURS = {
    "blocked": "#8b93a1",
    "pending": "#2f7de1",
    "claimed": "#d98a00",
    "completed": "#2a9d4e",
    "failed": "#d43d3d",
    "cancelled": "#8b93a1",
}
_STYLE = """
  svg { background: #ffffff; font: 13px ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif }
  .node rect.card { fill: #f7f8fa; stroke: #cfd4dc }
  .node.chosen rect.card { stroke: #1f2733; stroke-width: 2 }
  .name { fill: #1f2733 }
  .more { fill: #5d6675; font-size: 11px }
  .edge { fill: none; stroke: #a9b1bd; stroke-width: 1.5 }
  .edge.done { stroke: #2a9d4e }
  @media (prefers-color-scheme: dark) {
    svg { background: #14181f }
    .node rect.card { fill: #1f2630; stroke: #3a4452 }
    .node.chosen rect.card { stroke: #e8ecf2 }
    .name { fill: #e8ecf2 }
    .more { fill: #9aa5b5 }
    .edge { stroke: #566172 }
  }"""


class GraphLayout:
    """The positions of all nodes and edges."""

    def __init__(self, nodes: list[dict[str, Any]], edges: list[list[int]]) -> None:
        self.nodes = {node["number"]: node for node in nodes}
        self.edges = [(before, after) for before, after in edges]
        self.rank = _ranks(list(self.nodes), self.edges)
        self.paths = [self._path(i) for i in range(len(self.edges))]
        self.layers: list[list[Place]] = [[] for _ in range(max(self.rank.values(), default=0) + 1)]
        for number, layer in self.rank.items():
            self.layers[layer].append((number, -1))
        self.before: dict[Place, list[Place]] = {}
        self.after: dict[Place, list[Place]] = {}
        for path in self.paths:
            for place in path[1:-1]:
                self.layers[place[1]].append(place)
            for one, other in pairwise(path):
                self.after.setdefault(one, []).append(other)
                self.before.setdefault(other, []).append(one)
        self._order()
        self.x, self.widths = self._columns()
        self.y = self._rows()

    def _path(self, edge: int) -> list[Place]:
        before, after = self.edges[edge]
        passed: list[Place] = [(edge, layer) for layer in range(self.rank[before] + 1, self.rank[after])]
        return [(before, -1), *passed, (after, -1)]

    def _order(self) -> None:
        best, fewest = [list(layer) for layer in self.layers], self._crossings()
        for turn in range(12):
            forward = turn % 2 == 0
            near = self.before if forward else self.after
            span = range(1, len(self.layers)) if forward else range(len(self.layers) - 2, -1, -1)
            for i in span:
                stands = {place: at for at, place in enumerate(self.layers[i - 1 if forward else i + 1])}
                own = {place: at for at, place in enumerate(self.layers[i])}
                self.layers[i].sort(key=lambda place: _middle(near.get(place, []), stands, own[place]))
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(layer) for layer in self.layers], crossings
        self.layers = best

    def _crossings(self) -> int:
        total = 0
        for left, right in pairwise(self.layers):
            stands = {place: at for at, place in enumerate(right)}
            ends = [stands[end] for place in left for end in sorted(self.after.get(place, []), key=stands.__getitem__)]
            total += sum(one > other for i, one in enumerate(ends) for other in ends[i + 1 :])
        return total

    def _columns(self) -> tuple[list[float], list[float]]:
        widths, x, at = [], [], float(EDGE)
        for layer in self.layers:
            names = [_title(self.nodes[place[0]]) for place in layer if place[1] < 0]
            widths.append(max((40 + LETTER * max(width(a), width(b) * 0.85) for a, b in names), default=0.0))
            x.append(at)
            at += widths[-1] + ROOM
        return x, widths

    def _rows(self) -> dict[Place, float]:
        y: dict[Place, float] = {}
        for layer in self.layers:
            y.update({place: at * (HEIGHT + GAP) for at, place in enumerate(layer)})
        for turn in range(24):
            near = self.before if turn % 2 == 0 else self.after
            for layer in self.layers if turn % 2 == 0 else reversed(self.layers):
                wanted = [_middle(near.get(place, []), y, y[place]) for place in layer]
                for place, at in zip(layer, _spread(layer, wanted), strict=True):
                    y[place] = at
        top = min(y.values(), default=0.0)
        return {place: at - top + EDGE for place, at in y.items()}


def _ranks(numbers: list[int], edges: list[tuple[int, int]]) -> dict[int, int]:
    rank = dict.fromkeys(numbers, 0)
    for _ in numbers:
        late = [(after, rank[before] + 1) for before, after in edges if rank[after] <= rank[before]]
        if not late:
            break
        for after, layer in late:
            rank[after] = max(rank[after], layer)
    return rank


def _middle(near: list[Place], stands: dict[Place, Any], own: float) -> float:
    known = sorted(stands[place] for place in near if place in stands)
    return sum(known) / len(known) if known else own


def _spread(layer: list[Place], wanted: list[float]) -> list[float]:
    """The positions closest to the wanted ones, in order and without overlap; neighbours share the shift."""
    groups: list[tuple[float, list[float]]] = []
    for place, at in zip(layer, wanted, strict=True):
        size = HEIGHT + GAP if place[1] < 0 else GAP + 8.0
        groups.append((at, [size]))
        while len(groups) > 1 and groups[-2][0] + sum(groups[-2][1]) > groups[-1][0]:
            (one, mine), (other, theirs) = groups[-2:]
            start = (one * len(mine) + (other - sum(mine)) * len(theirs)) / (len(mine) + len(theirs))
            groups[-2:] = [(start, mine + theirs)]
    out = []
    for start, sizes in groups:
        for i in range(len(sizes)):
            out.append(start + sum(sizes[:i]))
    return out


def _title(node: dict[str, Any]) -> tuple[str, str]:
    name = cut(f"#{node['number']} {node['name']}", LONGEST)
    said = node["state"]
    if node["state"] == "claimed":
        said += f" by {node['holder']}" if node.get("holder") else ""
        if isinstance(node.get("progress"), dict):
            said += f", {node['progress']['percent']:g} %"
    elif node["attempts"] > 1:
        said += f", attempt {node['attempts']}"
    return name, cut(said, LONGEST)


def svg(
    nodes: list[dict[str, Any]], edges: list[list[int]], chosen: int, link: Callable[[int], str] | None = None
) -> str:
    """The graph as an SVG document; with `link`, as a part of a page that has the style, with a link on each node."""
    made = GraphLayout(nodes, edges)
    wide = made.x[-1] + made.widths[-1] + EDGE if made.x else 2 * EDGE
    high = max((y for y in made.y.values()), default=0.0) + HEIGHT + EDGE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" '
        f'viewBox="0 0 {wide:.0f} {high:.0f}" {_ROLE if link is None else _PART}>',
        f"<title>what {f'#{chosen} comes after, and what comes after it' if chosen else 'comes after what'}</title>",
        f"<style>{_STYLE}\n</style>" if link is None else "",
        '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#8b93a1"/></marker></defs>',
        *(_edge(made, i) for i in range(len(made.edges))),
        *(_linked(_node(made, number, number == chosen), number, link) for number in made.nodes),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


_ROLE, _PART = 'role="img"', 'class="task-graph" role="group"'


def _linked(node: str, number: int, link: Callable[[int], str] | None) -> str:
    return node if link is None else f'<a href="{html(link(number))}">{node}</a>'


def _edge(made: GraphLayout, i: int) -> str:
    points: list[tuple[float, float]] = []
    for place in made.paths[i]:
        layer = made.rank[place[0]] if place[1] < 0 else place[1]
        left, y = made.x[layer], made.y[place] + (HEIGHT / 2 if place[1] < 0 else 4)
        right = left + made.widths[layer]
        points += [(left, y)] if place == made.paths[i][-1] else [(right, y)] if not points else [(left, y), (right, y)]
    words = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for at, ((x1, y1), (x2, y2)) in enumerate(pairwise(points)):
        bend = (x2 - x1) / 2
        straight = at % 2 == 1
        words.append(
            f"L{x2:.1f} {y2:.1f}"
            if straight
            else f"C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
        )
    done = " done" if made.nodes[made.edges[i][0]]["state"] == "completed" else ""
    return f'<path class="edge{done}" marker-end="url(#end)" d="{" ".join(words)}"/>'


def _node(made: GraphLayout, number: int, chosen: bool) -> str:
    node, layer = made.nodes[number], made.rank[number]
    x, y, wide = made.x[layer], made.y[number, -1], made.widths[layer]
    name, said = _title(node)
    colour = COLOURS.get(node["state"], "#8b93a1")
    return (
        f'<g class="node{" chosen" if chosen else ""}"><title>{html(node["name"])}</title>'
        f'<rect class="card" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{HEIGHT}" rx="8"/>'
        f'<circle cx="{x + 15:.1f}" cy="{y + 17:.1f}" r="4.5" fill="{colour}"/>'
        f'<text class="name" x="{x + 27:.1f}" y="{y + 21.5:.1f}">{html(name)}</text>'
        f'<text class="more" x="{x + 27:.1f}" y="{y + 37:.1f}">{html(said)}</text></g>'
    )
