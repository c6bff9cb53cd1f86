"""The operation of git that is in progress in a checkout, and the command that ends it without losing anything."""

from __future__ import annotations

import os

from ...errors import Refused
from .checkout_branch import REBASES
from .commit_rules import OWN_ALONE
from .git import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

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
SERIES = "sequencer/todo"
"""The commits that are still to be picked or reverted, if there are several."""
_REFUSED = ("MERGE_HEAD", "CHERRY_PICK_HEAD")
"""The signs by which git refuses to commit single paths."""


def operation(found: Repository) -> str:
    """`merge`, `rebase`, `cherry-pick`, `revert` or `am`; "" if nothing is in progress."""
    for sign, name in SIGNS:
        path = os.path.join(found.private, sign)
        if os.path.exists(path) and not _has_only_autostash(path):
            return name
    return _of_series(os.path.join(found.private, SERIES))


def check_no_operation(found: Repository) -> None:
    """Raise `Refused` if `tb commit` would commit in the middle of an operation.

    git refuses single paths only during a merge or a cherry-pick. During a rebase, `am` or a series of reverts it
    allows them, and whoever is at it may commit so. For everybody else in the checkout it would go wrong: the commit
    becomes a part of the operation, and `git rebase --abort` takes it from the branch. One revert alone is no danger:
    `git revert --abort` keeps the commits that were made meanwhile.
    """
    name = operation(found)
    if not name or (name == "revert" and not os.path.exists(os.path.join(found.private, SERIES))):
        return
    what = f"an {name}" if name == "am" else f"a {name}"
    if any(os.path.exists(os.path.join(found.private, sign)) for sign in _REFUSED) and name != "rebase":
        raise Refused(
            f"{what} is in progress in this checkout: git commits no single paths then",
            hint=f"whoever began it finishes it with `git {name} --continue`; everybody else waits until it is done",
        )
    lost = "would take it away" if name == "rebase" else "would no longer go back to where it began"
    raise Refused(
        f"{what} is in progress in this checkout: this commit would become a part of it, "
        f"and `git {name} --abort` {lost}",
        hint=f"whoever began it commits with `git commit -m … -- PATH…` and goes on with `git {name} --continue`; "
        "everybody else waits until it is done",
    )


def is_replay(found: Repository, source: str) -> bool:
    """Whether git makes commits of somebody anew. `source` is what `prepare-commit-msg` is told of the message."""
    signs = ("CHERRY_PICK_HEAD", "rebase-merge/current-fixups")  # the second one: commits are squashed
    if any(os.path.exists(os.path.join(found.private, sign)) for sign in signs):
        return True
    return source == "commit" and operation(found) == "rebase"


def end_revert(found: Repository) -> None:
    """End a revert of which nothing is staged any more, as `git commit` does: all of it is committed."""
    if operation(found) == "revert" and not os.path.exists(os.path.join(found.private, SERIES)):
        try:
            git("diff", "--cached", "--quiet", root=found.root)
            git("revert", "--quit", root=found.root)
        except Refused:
            pass  # the rest of it is staged, or has conflicts


def _of_series(path: str) -> str:
    """The operation of several commits, of which none has left a sign of its own; "" if there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return "revert" if file.read(6) == "revert" else "cherry-pick"
    except OSError:
        return ""


REBASED = ("rebase-merge/orig-head", "rebase-apply/orig-head", "rebase-apply/original-commit")
"""The files that name what is being rebased. The last one names a single commit of the branch."""


PUT_AWAY = "`git stash push --staged` puts away what is staged, and keeps it"


def rebased(found: Repository) -> str:
    """The commit at which the branch was that is being rebased; "" if none is."""
    return next(iter(_named_in(found, REBASED)), "")


def earlier_heads(found: Repository) -> list[str]:
    """Where HEAD was before a reset, a merge or a rebase, and where the branch was that is being rebased."""
    return _named_in(found, ("ORIG_HEAD", *REBASED))


def _named_in(found: Repository, files: Iterable[str]) -> list[str]:
    names = []
    for each in files:
        try:
            with open(os.path.join(found.private, each), encoding="ascii", errors="replace") as file:
                names.append(file.read().strip())
        except OSError:
            continue
    return list(dict.fromkeys(filter(None, names)))


def way_out(found: Repository, name: str = "", *, new: str = "") -> str:
    """What to do when git has begun something, and the commit is refused.

    `name` is an operation that git knows, and `new` the commit that HEAD would have moved to.
    """
    name = name or operation(found)
    if name:
        return f"`git {name} --abort` gives the checkout back as it was"
    if _autostash(found):
        return f"a rebase did not start, and its autostash has changes of this checkout: {FROM_AUTOSTASH}"
    if all(os.path.exists(os.path.join(found.private, sign)) for sign in ("AUTO_MERGE", "MERGE_MSG")):
        # One reverted commit: git has applied and staged it, and knows nothing of it any more.
        return f"it is staged; {PUT_AWAY}"
    return f"{OWN_ALONE}; {PUT_AWAY}" if new and _is_staged(found, new) else OWN_ALONE


def _is_staged(found: Repository, commit: str) -> bool:
    """Whether the index is as a commit: a fast-forward and a reset change the files first, and move HEAD afterwards."""
    try:
        git("diff-index", "--cached", "--quiet", commit, root=found.root)
    except Refused:
        return False
    return True


# ── The autostash of a rebase that does not start ────────────────────────────────────────────────────

AUTOSTASH = "autostash"
FROM_AUTOSTASH = "`git rebase --quit`, then `git stash pop --index`, brings them back"


def _autostash(found: Repository) -> str:
    """The folder of a rebase that has not started: it has nothing but an autostash; "" if there is none."""
    folders = (os.path.join(found.private, name) for name in REBASES)
    return next((each for each in folders if _has_only_autostash(each)), "")


def _has_only_autostash(folder: str) -> bool:
    try:
        return os.listdir(folder) == [AUTOSTASH]
    except OSError:
        return False


def put_back_autostash(found: Repository) -> str:
    """Undo the autostash of a rebase that is refused; returns "", or what to do about changes that are stashed still.

    git stashes all uncommitted changes before it asks `pre-rebase`. If that refuses, git (before 2.47) ends at once:
    the changes are in no file and no stash, and the rebase can be neither continued nor aborted.
    """
    folder = _autostash(found)
    if not folder:
        return ""
    path = os.path.join(folder, AUTOSTASH)
    with open(path, encoding="ascii", errors="replace") as file:
        name = file.read().strip()
    try:
        git("stash", "apply", "--quiet", "--index", name, root=found.root)
    except Refused:
        return f"git has stashed the changes of this checkout, and cannot apply them: {FROM_AUTOSTASH}"
    # A hook that is killed before this leaves the changes in their files, and the same ones in an autostash.
    os.unlink(path)
    os.rmdir(folder)
    return ""
