"""`tb commit` goes to the branch that was checked or not at all, and makes no commit in the middle of an operation."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiebreak import Refused
from tiebreak.guard.commits import commit as module
from tiebreak.guard.commits.checkout_branch import branch_of, commit_of
from tiebreak.repository import repository

from ..cli.command import Tb
from .actors import Claude, git

Start = Callable[..., Claude]


def two_branches(repo: Path) -> None:
    """`other` has two commits; the first one is in conflict with `main`."""
    git("checkout", "--quiet", "-b", "other", cwd=repo)
    (repo / "a.py").write_text("other\n")
    git("commit", "--quiet", "-am", "other one", cwd=repo)
    (repo / "docs/c.md").write_text("other\n")
    git("commit", "--quiet", "-am", "other two", cwd=repo)
    git("checkout", "--quiet", "main", cwd=repo)
    (repo / "a.py").write_text("main\n")
    git("commit", "--quiet", "-am", "main", cwd=repo)


def begin(repo: Path, *words: str) -> None:
    """Begin an operation that stops at a conflict."""
    done = subprocess.run(["git", *words], cwd=repo, capture_output=True, check=False, timeout=60)
    assert done.returncode != 0


def state(repo: Path) -> tuple[str, ...]:
    """Branches, the index and what git reports."""
    words = (("for-each-ref",), ("rev-parse", "HEAD"), ("ls-files", "-s", "-v"), ("status", "--porcelain=v2"))
    return tuple(git(*each, cwd=repo) for each in words)


def patch(repo: Path) -> str:
    (repo.parent / "patch").write_text(git("format-patch", "--stdout", "-1", "other~1", cwd=repo))
    return str(repo.parent / "patch")


OPERATIONS: dict[str, Callable[[Path], tuple[str, ...]]] = {
    "merge": lambda repo: ("merge", "other"),
    "cherry-pick": lambda repo: ("cherry-pick", "other~1", "other"),
    "revert": lambda repo: ("revert", "--no-edit", "other~1", "other"),
    "rebase": lambda repo: ("rebase", "other"),
    "am": lambda repo: ("am", "-3", patch(repo)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_in_the_middle_of_an_operation_nothing_is_committed(claude: Start, repo: Path, name: str) -> None:
    two_branches(repo)
    begin(repo, *OPERATIONS[name](repo))
    (repo / "src/b.py").write_text("mine\n")
    before = state(repo)
    for path in ("src/b.py", "a.py", "src"):
        with pytest.raises(Refused, match=f"{name} is in progress") as refused:
            claude("ann").commit(path)
        assert f"git {name} --continue" in refused.value.hint
        assert ("git commits no single paths" in refused.value.message) == (name in ("merge", "cherry-pick"))
        assert ("git commit -m … -- PATH…" in refused.value.hint) == (name not in ("merge", "cherry-pick"))
    assert state(repo) == before
    git(name, "--abort", cwd=repo)
    (repo / "src/b.py").write_text("mine\n")
    assert claude("ann").commit("src/b.py")["paths"] == ["src/b.py"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_git_commits_single_paths_in_an_operation_just_where_the_refusal_says_so(
    claude: Start, repo: Path, name: str
) -> None:
    two_branches(repo)
    begin(repo, *OPERATIONS[name](repo))
    (repo / "src/b.py").write_text("mine\n")
    with pytest.raises(Refused) as refused:
        claude("ann").commit("src/b.py")
    words = ["git", "commit", "--quiet", "-m", "x", "--", "src/b.py"]
    done = subprocess.run(words, cwd=repo, capture_output=True, check=False)
    assert (done.returncode == 0) == ("git commits no single paths" not in refused.value.message)


def test_a_rebase_that_stops_to_edit_a_commit_is_split_as_the_refusal_says(
    claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.py", "src/b.py"):
        (repo / name).write_text("new\n")
    git("commit", "--quiet", "-am", "both", cwd=repo)
    monkeypatch.setenv("GIT_SEQUENCE_EDITOR", "sed -i s/^pick/edit/")
    git("rebase", "--quiet", "--interactive", "HEAD~1", cwd=repo)
    git("reset", "--quiet", "HEAD~1", cwd=repo)
    with pytest.raises(Refused, match="`git rebase --abort` would take it away") as refused:
        claude("ann").commit("a.py")
    assert "git commit -m … -- PATH…" in refused.value.hint
    for name in ("a.py", "src/b.py"):
        git("commit", "--quiet", "-m", name, "--", name, cwd=repo)
    git("rebase", "--continue", cwd=repo)
    assert git("log", "--format=%s", cwd=repo).split() == ["src/b.py", "a.py", "begin"]


def test_a_revert_that_is_not_committed_yet_hinders_nobody_and_ends_with_its_commit(claude: Start, repo: Path) -> None:
    (repo / "a.py").write_text("new\n")
    git("commit", "--quiet", "-am", "new", cwd=repo)
    git("revert", "--no-commit", "HEAD", cwd=repo)
    (repo / "src/b.py").write_text("mine\n")
    ann, ben = claude("ann"), claude("ben")
    assert ben.commit("src/b.py")["paths"] == ["src/b.py"]
    assert (repo / ".git/REVERT_HEAD").exists()
    assert git("status", "--porcelain", cwd=repo) == "M  a.py\n"
    assert ann.commit("a.py")["paths"] == ["a.py"]
    assert not (repo / ".git/REVERT_HEAD").exists()
    assert git("status", "--porcelain", cwd=repo) == ""


def test_a_revert_that_is_given_up_keeps_the_commit_of_somebody_else(claude: Start, repo: Path) -> None:
    two_branches(repo)
    begin(repo, "revert", "--no-edit", "other~1")
    (repo / "src/b.py").write_text("mine\n")
    ann = claude("ann")
    with pytest.raises(Refused, match=r"a\.py: the conflicts of a merge are open"):
        ann.commit("a.py")
    made = ann.commit("src/b.py")["commit"]
    git("revert", "--abort", cwd=repo)
    assert git("rev-parse", "HEAD", cwd=repo).strip() == made
    assert git("status", "--porcelain", cwd=repo) == ""


def test_between_two_commits_of_a_cherry_pick_nothing_is_committed(claude: Start, repo: Path) -> None:
    two_branches(repo)
    begin(repo, "cherry-pick", "other~1", "other")
    git("commit", "--quiet", "-am", "resolved", cwd=repo)
    assert not (repo / ".git/CHERRY_PICK_HEAD").exists()
    (repo / "src/b.py").write_text("mine\n")
    with pytest.raises(Refused, match="cherry-pick is in progress"):
        claude("ann").commit("src/b.py")


def test_a_merge_that_begins_while_the_hooks_run_stops_the_commit(claude: Start, repo: Path) -> None:
    two_branches(repo)
    hook = repo / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nunset GIT_INDEX_FILE\ngit merge other\nexit 0\n")
    hook.chmod(0o755)
    (repo / "src/b.py").write_text("mine\n")
    tip = git("rev-parse", "HEAD", cwd=repo)
    with pytest.raises(Refused, match="merge is in progress"):
        claude("ann").commit("src/b.py")
    assert git("rev-parse", "HEAD", cwd=repo) == tip
    assert git("status", "--porcelain", cwd=repo).splitlines() == ["UU a.py", "M  docs/c.md", " M src/b.py"]


def test_a_bisection_hinders_nobody(claude: Start, repo: Path) -> None:
    git("bisect", "start", cwd=repo)
    (repo / "src/b.py").write_text("mine\n")
    assert claude("ann").commit("src/b.py")["branch"] == "main"


def test_conflicts_that_no_operation_explains_are_not_committed(claude: Start, repo: Path) -> None:
    (repo / "a.py").write_text("stashed\n")
    git("stash", "--quiet", cwd=repo)
    (repo / "a.py").write_text("committed\n")
    git("commit", "--quiet", "-am", "x", cwd=repo)
    begin(repo, "stash", "pop")
    (repo / "src/b.py").write_text("mine\n")
    ann = claude("ann")
    with pytest.raises(Refused, match=r"a\.py: the conflicts of a merge are open"):
        ann.commit("a.py")
    ann.commit("src/b.py")
    assert git("status", "--porcelain", cwd=repo) == "UU a.py\n"


# ── Branches ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_answer_names_the_branch(repo: Path, tb: Tb) -> None:
    git("checkout", "--quiet", "-b", "feature/x", cwd=repo)
    (repo / "a.py").write_text("mine\n")
    assert tb.json("commit", "a.py", "-m", "x", "--branch", "feature/x")["branch"] == "feature/x"
    git("checkout", "--quiet", "--detach", cwd=repo)
    (repo / "a.py").write_text("again\n")
    assert "on no branch (HEAD is detached) x" in tb.ok("commit", "a.py", "-m", "x")
    assert git("log", "--format=%s", "HEAD", cwd=repo) == "x\nx\nbegin\n"
    assert git("log", "--format=%s", "feature/x", cwd=repo) == "x\nbegin\n"


def test_a_commit_meant_for_another_branch_is_refused(repo: Path, tb: Tb) -> None:
    git("branch", "feature", cwd=repo)
    (repo / "a.py").write_text("mine\n")
    before = state(repo)
    answer = tb("commit", "a.py", "-m", "x", "--branch", "feature")
    assert answer.code == 1
    assert "main" in answer.err
    assert state(repo) == before


def switching(repo: Path, monkeypatch: pytest.MonkeyPatch, step: str, *, after: bool) -> None:
    """Somebody changes to a branch at the same commit, before or after a step of the commit."""
    real: Callable[..., Any] = getattr(module, step)
    done: list[int] = []

    def switched(*words: Any) -> Any:
        made = real(*words) if after else None
        if not done:
            done.append(1)
            git("checkout", "--quiet", "-b", "feature", cwd=repo)
        return made if after else real(*words)

    monkeypatch.setattr(module, step, switched)


@pytest.mark.parametrize(
    ("step", "after"), [("_head_ref", False), ("_commit_tree", False), ("_commit_tree", True), ("_update_ref", False)]
)
def test_a_branch_changed_meanwhile_gets_no_commit_and_neither_does_the_one_before(
    claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    (repo / "a.py").write_text("mine\n")
    ann, tip = claude("ann"), git("rev-parse", "HEAD", cwd=repo)
    switching(repo, monkeypatch, step, after=after)
    with pytest.raises(Refused, match="feature"):
        ann.commit("a.py")
    assert git("rev-parse", "main", cwd=repo) == git("rev-parse", "feature", cwd=repo) == tip
    assert git("status", "--porcelain", cwd=repo) == " M a.py\n"
    assert [path.name for path in (repo / ".git").glob("tiebreak-commit.*")] == ["tiebreak-commit.lock"]


def test_a_head_that_is_detached_for_a_moment_stays_on_its_branch(
    claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repo / "a.py").write_text("mine\n")
    ann, before = claude("ann"), state(repo)
    monkeypatch.setattr(module, "_head_ref", lambda root: "HEAD")
    with pytest.raises(Refused, match="somebody took this checkout"):
        ann.commit("a.py")
    assert git("symbolic-ref", "HEAD", cwd=repo) == "refs/heads/main\n"
    assert state(repo) == before


def test_reference_transaction_hooks_learn_that_the_commit_was_checked(claude: Start, repo: Path) -> None:
    hook = repo / ".git/hooks/reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\n[ "$1" = prepared ] && echo "$TIEBREAK_COMMIT" > .git/checked\nexit 0\n')
    hook.chmod(0o755)
    (repo / "a.py").write_text("mine\n")
    made = claude("ann").commit("a.py")
    assert (repo / ".git/checked").read_text().strip() == made["commit"] == git("rev-parse", "main", cwd=repo).strip()


def test_the_reflogs_tell_of_the_commit_as_of_one_by_git(claude: Start, repo: Path) -> None:
    (repo / "a.py").write_text("mine\n")
    claude("ann").commit("a.py", message="Mine")
    for ref in ("HEAD", "main"):
        assert git("reflog", "-1", "--format=%gs", ref, cwd=repo) == "commit: Mine\n"


# ── How git stores a branch ──────────────────────────────────────────────────────────────────────────


def test_a_branch_that_is_another_name_of_one_can_be_committed_to(claude: Start, repo: Path) -> None:
    git("symbolic-ref", "refs/heads/alias", "refs/heads/main", cwd=repo)
    git("checkout", "--quiet", "alias", cwd=repo)
    (repo / "a.py").write_text("mine\n")
    assert claude("ann").commit("a.py")["branch"] == "main"
    assert git("symbolic-ref", "--no-recurse", "HEAD", cwd=repo) == "refs/heads/alias\n"
    assert git("log", "-1", "--format=%s", "main", cwd=repo) == "work\n"
    assert git("status", "--porcelain", cwd=repo) == ""


def test_where_the_files_do_not_say_the_branch_git_is_asked(claude: Start, repo: Path) -> None:
    head, commit = repo / ".git/HEAD", git("rev-parse", "HEAD", cwd=repo).strip()
    (repo / ".git/reftable").mkdir()  # its format does not matter: this git does not know it
    found = repository(str(repo))
    assert found is not None
    assert (branch_of(found), commit_of(found)) == ("main", commit)
    git("checkout", "--quiet", "--detach", cwd=repo)
    assert (branch_of(found), commit_of(found)) == ("no branch", commit)
    head.write_text("broken\n")
    assert (branch_of(found), commit_of(found)) == ("", "")


def test_beside_a_bare_repository_the_worktree_is_named(repo: Path, tb: Tb, tmp_path: Path) -> None:
    top = tmp_path / "top"
    git("clone", "-q", "--bare", str(repo), str(top / ".bare"), cwd=tmp_path)
    (top / ".git").write_text("gitdir: ./.bare\n")
    git("worktree", "add", "-q", "-b", "x", "tree", cwd=top)
    (top / "tree/a.py").write_text("mine\n")
    refused = tb("commit", "tree/a.py", "-m", "x", cwd=top)
    assert refused.code == 2
    assert f"`cd {top}/tree` first" in refused.err
    for key, value in (("user.name", "dana"), ("user.email", "dana@example.org")):
        git("config", key, value, cwd=top)
    assert tb("commit", "a.py", "-m", "x", cwd=top / "tree").code == 0
