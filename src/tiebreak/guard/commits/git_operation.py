"""The operation of git that is in progress in a checkout, and the command that ends it without losing anything."""

from __future__ import annotations

import os

from .commit_rules import OWN_ALONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...repository import Repository

SIGNS = (
    ("rebase-merge", "rebase"),
    ("rebase-apply/applying", "am"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("MERGE_HEAD", "merge"),
)
"""The files in the git directory of a checkout by which git itself knows what is in progress."""


def operation(found: Repository) -> str:
    """`merge`, `rebase`, `cherry-pick`, `revert` or `am`; "" if nothing is in progress."""
    for sign, name in SIGNS:
        if os.path.exists(os.path.join(found.private, sign)):
            return name
    return _of_series(os.path.join(found.private, "sequencer", "todo"))


def _of_series(path: str) -> str:
    """The operation of several commits, of which none has left a sign of its own; "" if there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return "revert" if file.read(6) == "revert" else "cherry-pick"
    except OSError:
        return ""


REBASED = ("rebase-merge/orig-head", "rebase-apply/orig-head", "rebase-apply/original-commit")
"""The files that name what is being rebased. The last one names a single commit of the branch."""


def rebased(found: Repository) -> str:
    """The commit at which the branch was that is being rebased; "" if none is."""
    for sign in REBASED:
        try:
            with open(os.path.join(found.private, sign), encoding="ascii", errors="replace") as file:
                return file.read().strip()
        except OSError:
            continue
    return ""


def way_out(found: Repository, name: str = "") -> str:
    """What to do when git has begun something, and the commit is refused. `name` is an operation that git knows."""
    name = name or operation(found)
    if name:
        return f"`git {name} --abort` gives the checkout back as it was"
    if all(os.path.exists(os.path.join(found.private, sign)) for sign in ("AUTO_MERGE", "MERGE_MSG")):
        # One reverted commit: git has applied and staged it, and knows nothing of it any more.
        return "it is staged; `git stash push --staged` puts away what is staged, and keeps it"
    return OWN_ALONE
