"""What the guard does when git calls a hook: `tb guard check HOOK`.

git runs its hooks in the top of the checkout, and may set `GIT_DIR`, `GIT_WORK_TREE` and `GIT_INDEX_FILE`. The checks
run git again, which then uses the same repository and the same index as the command that is being checked.
"""

from __future__ import annotations

import os
from functools import partial

from ...board import here
from ...errors import Invalid, Refused, TiebreakError, Unavailable
from ...repository import common_of, repository
from ..failure_policy import CLOSED, policy
from .commit_files import CommitFiles, changed_between, commits_in, empty_tree, files_of, staged
from .commit_rules import CommitRules
from .commit_trailers import check_push, finish_message, prepare_message
from .git import check_grants, git, is_agent
from .git_hooks import NAMES
from .git_operation import earlier_heads, operation, put_back_autostash, way_out
from .ref_updates import MOST, check_updates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...board import Board
    from ...repository import Repository

    HookCheck = Callable[["HookRun"], None]

UNCHANGED = "nothing was changed"
_ABSOLUTE = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")


class HookRun:
    """One run of a git hook. The board is opened only when it is asked for, and so is standard input read."""

    def __init__(
        self, found: Repository, words: list[str], board: Callable[[], Board], given: Callable[[], str]
    ) -> None:
        self.found = found
        self.words = words
        """The arguments that git gives to the hook."""
        self._board = board
        self.given = given
        """Reads what git says on standard input."""

    @property
    def board(self) -> Board:
        """The board as the agent sees it that runs git."""
        return self._board()


def check(name: str, words: list[str], board: Callable[[], Board], given: Callable[[], str]) -> None:
    """Run the check of one hook; raises `Lost`, `Refused` or `Fenced` if git must not go on."""
    if name not in NAMES:
        raise Invalid(f"guard: unknown hook {name!r}", hint=f"one of {', '.join(NAMES)}")
    if name in ("prepare-commit-msg", "commit-msg"):
        if not words:
            raise Invalid("the file of the message is missing")
        words = [os.path.abspath(words[0]), *words[1:]]
    found = _enter_repository()
    if found is not None:  # in a bare repository nobody holds a file
        _CHECKS[name](HookRun(found, words, board, given))


def _enter_repository() -> Repository | None:
    """The checkout that git works on, which becomes the current folder; None for a bare repository."""
    folder, given = here(), os.environ.get("GIT_DIR", "")
    found = repository(folder)
    private = os.path.realpath(given) if given else common_of(folder)
    if private and (found is None or private not in (found.private, found.common)):
        found = repository(os.path.dirname(private))  # its working tree is elsewhere: `git --git-dir … --work-tree …`
        if found is None or private not in (found.private, found.common):
            return None
    if found is not None:
        os.environ.update({name: os.path.abspath(os.environ[name]) for name in _ABSOLUTE if os.environ.get(name)})
        os.chdir(found.root)
    return found


# ── Commits ──────────────────────────────────────────────────────────────────────────────────────────


def _pre_commit(run: HookRun) -> None:
    check_grants(run.board)
    files = staged(run.found.root, others=_merge_heads(run.found), earlier=earlier_heads(run.found))
    CommitRules(run.board, run.found.root, way_out=partial(way_out, run.found)).check(files)


def _pre_merge_commit(run: HookRun) -> None:
    """`git merge` names the merged commits in its environment; it writes MERGE_HEAD only if it stops."""
    check_grants(run.board)
    others = [name.removeprefix("GITHEAD_") for name in os.environ if name.startswith("GITHEAD_")]
    files = staged(run.found.root, others=others or _merge_heads(run.found))
    CommitRules(run.board, run.found.root, way_out=partial(way_out, run.found, "merge")).check(files, "this merge")


def _pre_applypatch(run: HookRun) -> None:
    check_grants(run.board)
    name = operation(run.found) or "am"
    if name == "rebase":
        return  # `pre-rebase` was asked, and `reference-transaction` sees whether the commit is the same as before
    rules = CommitRules(run.board, run.found.root, way_out=partial(way_out, run.found, name))
    rules.check(staged(run.found.root), "this patch")


def _merge_heads(found: Repository) -> list[str]:
    try:
        with open(os.path.join(found.private, "MERGE_HEAD"), encoding="ascii", errors="replace") as file:
            return file.read().split()
    except OSError:
        return []


def _prepare_commit_msg(run: HookRun) -> None:
    message, source = [*run.words, ""][:2]
    prepare_message(run.board, run.found, message, source)


def _commit_msg(run: HookRun) -> None:
    finish_message(run.board, run.found, run.words[0])


def _reference_transaction(run: HookRun) -> None:
    if is_agent(os.environ) and run.words[:1] in ([], ["prepared"]):
        check_updates(run.board, run.found, run.given())


# ── Rebases and pushes ───────────────────────────────────────────────────────────────────────────────


def _pre_rebase(run: HookRun) -> None:
    """Refuse before anything is changed under somebody's hands.

    The commits are checked one by one, too, when they are replayed: only then is it known what is in them.
    """
    try:
        _check_rebase(run)
    except TiebreakError as exc:
        if not isinstance(exc, Unavailable) or policy(here()) == CLOSED:
            _take_back_rebase(run.found, exc)
        raise


def _take_back_rebase(found: Repository, refusal: TiebreakError) -> None:
    """Give the checkout back as it was before git stashed its changes for a rebase that is refused."""
    todo = put_back_autostash(found)
    if todo:
        refusal.own_hint = "; ".join(filter(None, (todo, refusal.own_hint.removeprefix(f"{UNCHANGED}; "))))


def _check_rebase(run: HookRun) -> None:
    check_grants(run.board)
    upstream, branch = [*run.words, "", ""][:2]
    root, branch = run.found.root, branch or "HEAD"
    rules = CommitRules(run.board, root, way_out=lambda: UNCHANGED)
    try:
        replayed, moved = _replayed(root, upstream, branch), _checked_out(root, upstream)
    except Refused:
        return  # git says what is wrong with these names
    for names, what in (
        (replayed, "this rebase makes commits anew that have files which others hold"),
        (moved, "this rebase would change files in this checkout that others hold"),
    ):
        theirs = [each for each in rules.held(CommitFiles(root, names)) if rules.works_here(each[1])]
        if theirs:
            raise rules.refusal(theirs, what)


def _replayed(root: str, upstream: str, branch: str) -> list[str]:
    """The files that are changed by the commits which a rebase makes anew."""
    if upstream == "--root":
        chosen = [branch]
    else:
        chosen = ["--no-merges", "--cherry-pick", "--right-only", f"{upstream}...{branch}"]
    commits = commits_in(root, f"--max-count={MOST + 1}", *chosen)
    if len(commits) > MOST:
        base = git("merge-base", upstream, branch, root=root).decode().strip() if upstream != "--root" else ""
        return changed_between(root, base or empty_tree(root), branch)
    return sorted({name for _, files in files_of(root, commits) for name in files.names})


def _checked_out(root: str, upstream: str) -> list[str]:
    """The files that are others when upstream is checked out, on which the commits are made anew."""
    return [] if upstream == "--root" else changed_between(root, "HEAD", upstream)


def _pre_push(run: HookRun) -> None:
    check_push(run.board, run.found.root, run.given())


_CHECKS: dict[str, HookCheck] = {
    "pre-commit": _pre_commit,
    "pre-merge-commit": _pre_merge_commit,
    "prepare-commit-msg": _prepare_commit_msg,
    "commit-msg": _commit_msg,
    "pre-applypatch": _pre_applypatch,
    "pre-rebase": _pre_rebase,
    "pre-push": _pre_push,
    "reference-transaction": _reference_transaction,
}
