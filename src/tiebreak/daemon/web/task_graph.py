"""The picture of what comes after what, as a part of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...graph_svg import svg
from .templates import href

if TYPE_CHECKING:
    from markupsafe import Markup


def drawn(nodes: list[dict[str, Any]], edges: list[list[int]], chosen: int, project: str | None) -> Markup:
    """A graph as HTML, with a link on each task; `svg` escapes what it shows."""
    from markupsafe import Markup

    def link(number: int) -> str:
        return href(f"/tasks/{number}", project=project)

    return Markup(svg(nodes, edges, chosen, link))  # noqa: S704
