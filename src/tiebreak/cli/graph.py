"""`tb graph`: the dependencies and dependents of a task, as text, as a Mermaid diagram, or as a picture."""

from __future__ import annotations

import os

from ..errors import Invalid, Unavailable
from ..text import plain
from .claims import REF
from .logs import percent_of
from .parser import Option, command
from .tasks import STYLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .context import Context
    from .parser import Args


@command(
    "graph",
    "Show the tasks that a task depends on, and those that depend on it.",
    REF,
    Option("mermaid", text="as a Mermaid diagram, for Markdown"),
    Option("svg", "FILE", "as an SVG picture in this file; - for standard output"),
    example="tb graph '#42' --svg graph.svg",
)
def graph(context: Context, args: Args) -> None:
    """As text by default."""
    if args.mermaid and args.svg:
        raise Invalid("graph: --mermaid and --svg exclude each other")
    found = context.board.jobs.graph(ref=args.ref)
    if args.svg:
        from ..graph_svg import svg

        picture = svg(found["nodes"], found["edges"], found["number"])
        if args.svg == "-":
            context.answer(found, picture.rstrip())
            return
        _write(args.svg, picture)
        context.answer(
            {**found, "file": os.path.abspath(args.svg)}, f"drew {len(found['nodes'])} tasks in {plain(args.svg)}"
        )
        return
    context.answer(found, mermaid(found) if args.mermaid else tree(context, found))


def _write(path: str, picture: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(picture)
    except OSError as exc:
        raise Unavailable(f"graph: cannot write {path}: {exc.strerror or exc}") from exc


def tree(context: Context, found: dict[str, Any]) -> str:
    """A tree of lines. A task with several dependencies is shown in full once, with its other dependencies."""
    nodes = {node["number"]: node for node in found["nodes"]}
    after: dict[int, list[int]] = {number: [] for number in nodes}
    before: dict[int, list[int]] = {number: [] for number in nodes}
    for earlier, later in found["edges"]:
        after[earlier].append(later)
        before[later].append(earlier)
    lines: list[str] = []
    told: set[int] = set()
    # (number, parent, prefix of its line, prefix of its children's lines)
    left = [(number, 0, "", "") for number in reversed(nodes) if not before[number]]
    while left:
        number, parent, mark, indent = left.pop()
        others = [f"#{each}" for each in before[number] if each != parent]
        again = number in told
        told.add(number)
        lines.append(mark + _line(context, nodes[number], number == found["number"], others, again))
        children = [] if again else after[number]
        for i, child in reversed(list(enumerate(children))):
            last = i == len(children) - 1
            left.append((child, number, indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  ")))
    return "\n".join([*lines, *(["… and more"] if found["cut"] else [])])


def _line(context: Context, node: dict[str, Any], chosen: bool, others: list[str], again: bool) -> str:
    name = f"#{node['number']} {plain(node['name'])}"
    if again:
        return context.styled(f"{name}  (see above)", "dim")
    said = f"  {context.styled(node['state'], STYLES.get(node['state'], 'dim'))}{percent_of(node['progress'])}"
    also = context.styled(f"  also after {', '.join(others)}", "dim") if others else ""
    return (context.styled(name, "bold") if chosen else name) + said + also


def mermaid(found: dict[str, Any]) -> str:
    """A Mermaid diagram, for a code block of Markdown."""
    from ..graph_svg import COLOURS

    lines = ["graph LR"]
    for node in found["nodes"]:
        label = f"#{node['number']} {node['name']}"
        lines.append(f'  n{node["number"]}["{_quoted(label)}<br/>{node["state"]}"]:::{node["state"]}')
    lines += [f"  n{earlier} --> n{later}" for earlier, later in found["edges"]]
    lines += [f"  classDef {state} stroke:{colour},stroke-width:2px" for state, colour in COLOURS.items()]
    return "\n".join(lines)


def _quoted(label: str) -> str:
    """A label with Mermaid's escapes, which begin with #."""
    escaped = plain(label).replace("#", "#35;").replace('"', "#quot;")
    return escaped.replace("<", "#lt;").replace(">", "#gt;").replace("`", "#96;")
