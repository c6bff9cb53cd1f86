"""`tb commit PATH… -m …`: a commit of exactly these paths, whatever else is staged, changed or being committed.

It is what `git commit -- PATH…` would make, with the new files below the paths. The commit's tree is built in a
temporary index: HEAD's tree, and these paths as they are on disk. Then the branch that was checked moves to the new
commit by compare-and-swap (`git update-ref`), so a commit that somebody else made meanwhile is neither lost nor undone.
Finally the entries at and below these paths, and no others, become in the checkout's index what they are in the commit:
git does not show them as changed, and nothing that was staged there before comes into a later commit.

If this process is killed, the branch has moved or has not. A temporary index or message that nobody reads may be left.
If the branch has moved, git may show what was committed as staged changes back to what was before. The next `tb commit`
in the checkout puts both right (see `interrupted_commit`).
"""

from __future__ import annotations

import os

from ...errors import Invalid, Refused
from ...files import lock_file
from ...repository import repository
from ...text import argument
from ..files.left_contents import accept_removed
from . import interrupted_commit
from .checkout_branch import branch_of, check_branch
from .commit_message import Hooks, MessageFile
from .commit_paths import select
from .commit_rules import check_commit
from .commit_settings import CommitSettings
from .git import git
from .git_operation import check_no_operation, end_revert
from .index_entries import ABSENT
from .new_commits import mark_checked
from .private_index import PATIENCE, PrivateIndex, index_line, set_entries, with_patience

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...board import Board
    from ...repository import Repository
    from .commit_paths import Selection

TRIES = 20
AT_ONCE = ("-c", "core.filesRefLockTimeout=0")
"""git must not wait for a lock of one ref while it has that of another: `git commit` takes them in the other order."""
REDIRECTIONS = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_NAMESPACE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_QUARANTINE_PATH"),
    *("GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS"),
)
"""Variables by which git works on something else than the checkout that a command runs in."""


def commit(board: Board, root: str, folder: str, given: list[str], message: str, branch: str = "") -> dict[str, object]:
    """Commit these paths; returns the commit, its branch, subject and changed paths, what was left out, and more.

    With `branch`, only to that branch. Variables of the environment that redirect git are removed from this process.
    """
    if not message.strip():
        raise Invalid("commit: the message is empty", hint="-m 'what and why'")
    for name in REDIRECTIONS:
        os.environ.pop(name, None)
    found = repository(root)
    if found is None:
        raise Invalid("commit: not in a git repository")
    settings = CommitSettings(found.root)
    if settings.is_true("core.bare") and found.private == found.common:
        raise _bare(found.root, os.path.join(folder, given[0]))
    named = {path: _name(path, found.root, folder) for path in given}
    names = list(dict.fromkeys(named.values()))
    # One commit at a time in one checkout.
    lock = lock_file(os.path.join(found.private, "tiebreak-commit.lock"), PATIENCE)
    if lock is None:
        raise Refused(f"somebody else has been committing here for {PATIENCE:g} s")
    try:
        attempt = _Attempt(board, found, names, folder, branch, settings)
        made = attempt.repeat(message)
    finally:
        os.close(lock)
    followed = [{"path": path, "is": name} for path, name in named.items() if _is_elsewhere(path, name, found, folder)]
    return {**made, "followed": followed, "hook_output": _after(found.root, attempt.hooks, settings)}


def _name(path: str, root: str, folder: str) -> str:
    """A path relative to the top of the repository, as git writes it."""
    full = os.path.join(folder, path).rstrip("/")
    if os.path.basename(full) in (".", ".."):
        full = os.path.realpath(full)
    # Links in the folders above are followed. A file that is a link itself is not: git commits the link.
    above = os.path.realpath(os.path.dirname(full) or "/")
    real = os.path.join(above, os.path.basename(full))
    if os.path.realpath(full) == os.path.realpath(root):
        raise Invalid("commit: name the paths, not the whole repository", hint="a folder below it is fine")
    if not f"{above}/".startswith(f"{os.path.realpath(root)}/"):
        raise Invalid(f"{path!r} is outside the repository {root!r}")
    return os.path.relpath(real, os.path.realpath(root))


def _is_elsewhere(path: str, name: str, found: Repository, folder: str) -> bool:
    """Whether a path led through a link to a file that has another name in the repository."""
    below = os.path.relpath(os.path.realpath(folder), os.path.realpath(found.root))
    return not os.path.isabs(path) and os.path.normpath(os.path.join(below, path)) != name


def _bare(root: str, path: str) -> Invalid:
    """The refusal to commit in a folder that has a bare repository, and worktrees beside it."""
    meant = repository(os.path.dirname(path))
    hint = "`git worktree list` shows where its files are"
    if meant is not None and meant.root != root:
        hint = f"`cd {argument(meant.root)}` first"
    return Invalid(f"commit: {root} has a bare repository and no files of it", hint=hint)


def _after(root: str, hooks: Hooks, settings: CommitSettings) -> str:
    """What git does after a commit: maintenance if it is due, and `post-commit`. What all hooks printed."""
    if settings.is_true("maintenance.auto", "true"):
        _maintain(root)
    try:
        hooks.run("post-commit")
    except Refused:
        pass  # the commit is made
    return hooks.printed


def _maintain(root: str) -> None:
    """Begin the maintenance of the repository if it is due. It goes on in the background."""
    for options in (("--detach",), ()):  # git before 2.47 does not know the option, and detaches by itself
        try:
            git("maintenance", "run", "--auto", "--quiet", *options, root=root)
            return
        except Refused:
            pass  # the commit is made


class _Attempt:
    """One commit of these paths, attempted until nobody moves the branch meanwhile."""

    def __init__(
        self, board: Board, found: Repository, names: list[str], folder: str, chosen: str, settings: CommitSettings
    ) -> None:
        self.board = board
        self.found = found
        self.root = found.root
        self.names = names
        self.folder = folder
        self.chosen = chosen
        self.settings = settings
        self.hooks = Hooks(board, found, "", self.settings)

    def repeat(self, message: str) -> dict[str, object]:
        """Commit; raises `Refused` if that is not possible."""
        interrupted_commit.finish(self.found)
        for _ in range(TRIES):
            made = self.once(message)
            if made is not None:
                self.hooks.environ["GIT_INDEX_FILE"] = os.path.join(self.found.private, "index")
                return made
        raise Refused("the branch kept moving while this was committed", hint="try again")

    def once(self, message: str) -> dict[str, object] | None:
        """Try once; None when the branch moved meanwhile."""
        branch = self._checked()
        ref = _head_ref(self.root)
        if ref.removeprefix("refs/heads/") != (branch or "HEAD"):
            raise _switched(branch, branch_of(self.found))
        parent = _tip(self.root, ref)
        chosen = select(self.root, self.names, parent, self.folder, self.settings)
        with PrivateIndex(self.found) as index, MessageFile(self.found, self.settings) as text:
            index.start(parent, ignores_stat=chosen.ignores_stat)
            chosen.take(index.changed_on_disk(self.names))
            index.stage(chosen)
            changes = index.changes(parent)
            chosen.check_taken(changes)
            if not changes:
                raise _nothing(chosen)
            check_commit(self.board, self.root, list(changes), environ=index.environ)
            self.hooks = Hooks(self.board, self.found, index.path, self.settings)
            if self.hooks.run("pre-commit"):
                # It may change the committed paths. Others that it stages (`git add -u`) may be somebody else's work.
                changes = index.keep_only(changes, parent)
                if not changes:
                    raise _nothing(chosen)
            tree = index.write_tree()
            subject = text.write(self.board, message, self.hooks)
            made = _commit_tree(self.root, tree, parent, text.path, self.settings)
            # Hooks can take long: the branch may be another one by now, and the files somebody else's.
            if self._checked() != branch:
                raise _switched(branch, branch_of(self.found))
            check_commit(self.board, self.root, list(changes), environ=index.environ)
            mark_checked(made)
            refreshed = {**changes, **chosen.leftovers(changes)}
            trusts_mode = self.settings.is_true("core.filemode", "true")
            modes = {
                path: each.mode if trusts_mode else chosen.staged_mode(path, each) for path, each in refreshed.items()
            }
            interrupted_commit.record(self.found, refreshed, chosen.entries, modes)
            if not self._move(ref, parent, made, f"commit: {subject}"):
                return None
        self._refresh(made, (index_line(path, modes[path], each.object) for path, each in refreshed.items()))
        accept_removed(self.board.agent, self.root, [path for path, each in changes.items() if each.mode == ABSENT])
        left_out = [{"path": path, "why": why} for path, why in sorted(chosen.left_out.items())]
        facts = {"commit": made, "branch": branch or None, "parent": parent or None, "subject": subject}
        return {**facts, "paths": list(changes), "left_out": left_out}

    def _checked(self) -> str:
        """The branch to commit to, "" for none; raises `Refused` if it is not the expected one, or in an operation."""
        check_no_operation(self.found)
        return check_branch(self.board, self.found, self.chosen)

    def _move(self, ref: str, parent: str, made: str, reason: str) -> bool:
        """Move the branch from one commit to another; False if it was not at the one."""
        none = "0" * len(made)
        try:
            _update_ref(self.root, ref, made, parent or none, reason)
        except Refused as exc:
            interrupted_commit.forget(self.found)
            if _tip(self.root, ref) == parent:
                exc.own_hint = exc.own_hint or "nothing was committed; try again"
                raise
            return False
        if ref != "HEAD" and _head_ref(self.root) != ref:
            # Somebody changed branches in this very moment. If somebody has built on the commit already, it stays.
            _update_ref(self.root, ref, parent or none, made, "commit: taken back")
            interrupted_commit.forget(self.found)
            raise _switched(ref.removeprefix("refs/heads/"), branch_of(self.found))
        return True

    def _refresh(self, made: str, lines: Iterable[bytes]) -> None:
        """Update these entries in the checkout's index."""
        try:
            set_entries(self.root, lines)
        except Refused as exc:
            raise Refused(
                f"committed as {made[:12]}, but the index could not be brought up to date: {exc.message}",
                hint="the next `tb commit` here repairs the index; until then git shows old contents as staged",
            ) from None
        interrupted_commit.forget(self.found)
        end_revert(self.found)


def _nothing(chosen: Selection) -> Refused:
    named = ", ".join(f"{path} ({why})" for path, why in sorted(chosen.left_out.items())[:8])
    return Refused("nothing to commit in these paths", hint=f"left out: {named}" if named else "")


def _switched(branch: str, now: str) -> Refused:
    before = f"branch {branch}" if branch else "no branch"
    return Refused(f"somebody took this checkout from {before} to {now} while you committed; nothing was committed")


def _head_ref(root: str) -> str:
    """The full name of the branch that HEAD points to; HEAD itself when it is detached."""
    try:
        return os.fsdecode(git("symbolic-ref", "--quiet", "HEAD", root=root)).rstrip("\n")
    except Refused:
        return "HEAD"


def _tip(root: str, ref: str) -> str:
    """The commit that a ref points to; "" before the first one."""
    try:
        return git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", root=root).decode().strip()
    except Refused:
        return ""


def _update_ref(root: str, ref: str, new: str, old: str, reason: str) -> None:
    """Move a ref from one commit to another; raises `Refused` if it is at another one, or stays locked."""
    # A hook of tiebreak on the change of branches lets this commit pass, because it is checked already.
    checked = {"TIEBREAK_COMMIT": new}
    words = ("update-ref", "--no-deref", "-m", reason, ref, new, old)
    with_patience(lambda: git(*AT_ONCE, *words, root=root, environ=checked), ref.removeprefix("refs/heads/"))


def _commit_tree(root: str, tree: str, parent: str, text: str, settings: CommitSettings) -> str:
    """Store a commit, signed if `commit.gpgSign` demands it; its name."""
    parents = ["-p", parent] if parent else []
    sign = ["-S"] if settings.is_true("commit.gpgsign") else []
    try:
        return git("commit-tree", tree, *parents, *sign, "-F", text, root=root).decode().strip()
    except Refused:
        _check_identity(root)
        raise


def _check_identity(root: str) -> None:
    """Raise `Refused` if git does not know who commits."""
    for name in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        try:
            git("var", name, root=root)
        except Refused as exc:
            raise Refused(
                f"git does not know who commits: {exc.message.rpartition('fatal: ')[2]}",
                hint="`git config user.name 'Your Name'` and `git config user.email you@example.org` say it",
            ) from None
