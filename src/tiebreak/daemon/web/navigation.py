"""The pages that the navigation lists, in its order, each with the key that follows `g`.

A page is listed as soon as it is declared with `@page`.
"""

from __future__ import annotations

from typing import NamedTuple


class PageLink(NamedTuple):
    """One link of the navigation."""

    path: str
    name: str
    key: str
    """`g` and this key go to the page."""


PAGES = (
    PageLink("/", "Now", "n"),
    PageLink("/timeline", "Timeline", "l"),
    PageLink("/tasks", "Tasks", "t"),
    PageLink("/queues", "Jobs", "j"),  # `/jobs` belongs to the Workron protocol
    PageLink("/agents", "Agents", "a"),
    PageLink("/messages", "Messages", "m"),
    PageLink("/board", "Board", "b"),
)
