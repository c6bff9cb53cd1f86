"""What `doctor` finds about projects: who calls the same repository by different names."""

from __future__ import annotations

import os

from .errors import Invalid, Refused
from .names import OLD_NAME, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .board import Board
    from .model import KnownProject

_MOST_AGENTS = 5


def findings(board: Board) -> list[tuple[str, str, str]]:
    """(`ok`, `warn` or `bad`; what; details) about the projects of a board and of the current folder."""
    known = board.projects.list()
    found = [*_of_this_clone(board), *_same_first_commit(board, known), *_not_taken_over(known)]
    return found or [("ok", "projects", f"{len(known)} on this board, and no repository is known as two of them")]


def _of_this_clone(board: Board) -> list[tuple[str, str, str]]:
    """Whether the board refuses this clone's names, and whether others would come to another name."""
    out = []
    try:
        board.projects.resolve()
    except Refused as refusal:
        out.append(("bad", "project", refusal.message))
    except Invalid as problem:
        return [("bad", "project", problem.message)]
    try:
        board.checkout()
    except Invalid as problem:
        out.append(("bad", "holds", problem.message))
    if os.environ.get("TIEBREAK_PROJECT"):
        return out
    from .board import here
    from .project_identity import identify
    from .project_rules import derive
    from .repository import repository

    clone = repository(here())
    pinned = identify(clone)
    if clone is not None and pinned.rule in ("origin", "commit", "path"):
        now = derive(clone.common)
        if now.name != pinned.name and now.rule != "path":
            text = f"this clone is known as {pinned.name}, but a new clone of it would be {now.name}"
            out.append(("warn", "project", text))
    return out


def _same_first_commit(board: Board, known: list[KnownProject]) -> list[tuple[str, str, str]]:
    """Repositories with the same first commit and different remotes: forks, or one that is written in two ways."""
    by_root: dict[str, list[KnownProject]] = {}
    for each in known:
        for root in each.roots:
            by_root.setdefault(root, []).append(each)
    return [
        (
            "warn",
            "projects",
            f"{' and '.join(each.project for each in same)} have the same first commit: forks are two projects, but if "
            f"it is one repository, it needs an alias ({'; '.join(_users(board, each.project) for each in same)})",
        )
        for same in by_root.values()
        if len(same) > 1
    ]


def _users(board: Board, project: str) -> str:
    """Who works in a project, and where."""
    agents = board.agents.list(project=project)
    names = list(dict.fromkeys(f"{short(each.id)}@{each.host or '?'}" for each in agents))
    more = f" and {len(names) - _MOST_AGENTS} more" if len(names) > _MOST_AGENTS else ""
    return f"{project}: {', '.join(names[:_MOST_AGENTS]) or 'nobody at present'}{more}"


def _not_taken_over(known: list[KnownProject]) -> list[tuple[str, str, str]]:
    """Projects of older versions with something open, to which no clone has come back."""
    out = []
    for each in known:
        if each.names.get(each.project) == OLD_NAME and any(each.live.values()):
            live = ", ".join(f"{count} {what}" for what, count in each.live.items() if count)
            text = f"{each.project} was named by an older version, and no clone has taken it over yet: {live}"
            out.append(("ok", "projects", text))
    return out
