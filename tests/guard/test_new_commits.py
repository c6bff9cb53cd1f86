"""Commits that went past the checks: each is told once to those whose files it has, and nothing else is told."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak.guard.commits import checkout_branch, new_commits, worktrees
from tiebreak.repository import repository

from .actors import Claude, git

Start = Callable[..., Claude]
LINE = "a line that ann has written here and nobody else\n"
PAST = ("-c", "core.hooksPath=/dev/null")


def head(root: Path) -> str:
    return git("rev-parse", "HEAD", cwd=root).strip()


def commit(root: Path, *words: str, message: str = "x", age: int = 0) -> None:
    """A commit that no hook sees, made so many seconds ago."""
    made = {**os.environ, "GIT_COMMITTER_DATE": f"{int(time.time()) - age} +0000"}
    git(*PAST, "commit", "--quiet", *words, "-m", message, cwd=root, env=made)


def told(agent: Claude, since: str, *, by_command: bool = True) -> list[str]:
    """What an agent is told after its command, or at the start of its turn."""
    found = repository(str(agent.cwd))
    assert found is not None
    makers = [agent.agent] if by_command else []
    return new_commits.notice(agent.board, found, since, makers).get(agent.agent, [])


def inbox(agent: Claude) -> list[str]:
    """The messages about commits."""
    return [each.body for each in agent.board.messages.inbox() if each.body.startswith("Commit ")]


def test_both_are_told_once_of_a_commit_with_a_held_file(claude: Start, repo: Path) -> None:
    ann, ben, since = claude("ann"), claude("ben"), head(repo)
    ann.edit("a.py", "one", "ONE")
    commit(repo, "-a")
    (said,) = told(ben, since)
    assert f"commit {head(repo)[:10]} was made while that command ran, past the checks" in said
    assert f"a.py of {ann.name}" in said
    assert told(ben, since) == told(ann, since, by_command=False) == []
    (body,) = inbox(ann)
    assert body.startswith(f"Commit {head(repo)[:10]} on main has a.py, which you hold. It was made while a shell")
    assert f"command of {ben.name} ran" in body
    assert inbox(ben) == []


def test_a_commit_of_a_person_is_told_with_its_name(claude: Start, repo: Path) -> None:
    ann, since = claude("ann"), head(repo)
    ann.edit("a.py", "one", "ONE")
    commit(repo, "-a")
    assert told(ann, since, by_command=False) == []
    assert "It was made by dana" in inbox(ann)[0]


def test_a_commit_with_lines_of_another_agent_under_another_name_is_told(claude: Start, repo: Path) -> None:
    ann, ben, since = claude("ann"), claude("ben"), head(repo)
    ann.edit("a.py", "one", LINE)
    (repo / "copy.py").write_text((repo / "a.py").read_text())
    git("add", "copy.py", cwd=repo)
    commit(repo)
    assert f"lines from a.py in copy.py of {ann.name}" in told(ben, since)[0]
    assert "has lines from a.py in copy.py, which you hold" in inbox(ann)[0]


@pytest.mark.parametrize(
    "hide",
    [
        ("git switch -q -c new",),
        ("git branch backup", "git push -q far main", "git fetch -q far"),
        ("git switch -q other",),
        ("git switch -q --detach",),
    ],
)
def test_what_a_command_does_next_does_not_hide_its_commit(
    claude: Start, repo: Path, tmp_path: Path, hide: tuple[str, ...]
) -> None:
    git("init", "--quiet", "--bare", str(tmp_path / "far"), cwd=repo)
    git("remote", "add", "far", str(tmp_path / "far"), cwd=repo)
    git("branch", "other", cwd=repo)
    ann, ben, since = claude("ann"), claude("ben"), head(repo)
    ann.edit("a.py", "one", "ONE")
    commit(repo, "-a")
    for command in hide:
        git(*command.split()[1:], cwd=repo)
    assert len(told(ben, since)) == 1


@pytest.mark.parametrize("how", ["no reflog", "the file of the branch"])
def test_a_commit_without_a_trace_in_the_reflog_is_found(claude: Start, repo: Path, how: str) -> None:
    ann, ben, since = claude("ann"), claude("ben"), head(repo)
    ann.edit("a.py", "one", "ONE")
    git("add", "a.py", cwd=repo)
    tree = git("write-tree", cwd=repo).strip()
    made = git("commit-tree", "-p", "HEAD", "-m", "x", tree, cwd=repo).strip()
    if how == "no reflog":
        (repo / ".git/logs/HEAD").unlink()
        git("config", "core.logAllRefUpdates", "false", cwd=repo)
        git("update-ref", "HEAD", made, cwd=repo)
    else:
        (repo / ".git/refs/heads/main").write_text(f"{made}\n")
    assert len(told(ben, since)) == 1


def test_own_commits_and_checked_ones_are_nothing_to_tell(claude: Start, repo: Path) -> None:
    ann, ben, since = claude("ann"), claude("ben"), head(repo)
    ann.edit("a.py", "one", "ONE")
    commit(repo, "-a", message=f"mine\n\nTiebreak-Agent: {ann.name}")
    assert told(ben, since) == []
    ann.edit("a.py", "two", "TWO")
    commit(repo, "-a")
    assert told(ann, since) == [], "its own command made it"
    new_commits.mark_checked(head(repo))
    assert told(ben, since) == []
    assert inbox(ann) == []


@pytest.mark.parametrize("how", [["checkout", "-q", "other"], ["merge", "-q", "--ff-only", "other"]])
def test_commits_that_came_by_a_checkout_or_a_fast_forward_are_not_new_work(
    claude: Start, repo: Path, how: list[str]
) -> None:
    git("checkout", "-q", "-b", "other", cwd=repo)
    (repo / "a.py").write_text("other\n")
    commit(repo, "-a", age=100)
    git("checkout", "-q", "main", cwd=repo)
    ann, ben, since = claude("ann"), claude("ben"), head(repo)
    content = (repo / "a.py").read_text()
    ann.edit("a.py", content, content)
    git(*how, cwd=repo)
    assert told(ben, since) == []


MAKE = "git add -A; made=$(git commit-tree -p HEAD -m x $(git write-tree)); git reset -q --hard"


@pytest.mark.parametrize(
    "how",
    [
        "git -c core.hooksPath=/dev/null branch side $made; git merge -q --ff-only side",
        "git -c core.hooksPath=/dev/null branch side $made; git checkout -q side",
        "git -c core.hooksPath=/dev/null branch side $made; git pull -q . side",
        "git -c core.hooksPath=/dev/null push -q . $made:refs/heads/side; git reset -q --hard side",
    ],
)
def test_a_commit_past_the_checks_on_another_branch_is_told_when_a_checkout_gets_it(
    claude: Start, repo: Path, how: str
) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    said = ben.bash(f"{MAKE}; {how}")
    assert (repo / "a.py").read_text().startswith("ONE")
    assert f"commit {head(repo)[:10]} was made" in said
    assert len(inbox(ann)) == 1


@pytest.mark.parametrize(
    "how",
    [
        "git pull -q --no-rebase ../far main",
        "git pull -q --rebase ../far main",
        "git commit -q --allow-empty -m x; git pull -q --no-rebase --no-edit ../far main",
        "git commit -q --allow-empty -m x; git pull -q --rebase ../far main",
        "git fetch -q ../far main; git reset -q --hard FETCH_HEAD",
        "git remote add far ../far; git fetch -q far; git fetch -q . main; git merge -q --ff-only far/main",
    ],
)
def test_what_comes_from_another_repository_is_not_told_as_made_here(
    claude: Start, repo: Path, tree: Path, tmp_path: Path, how: str
) -> None:
    git("clone", "-q", str(repo), str(tmp_path / "far"), cwd=tmp_path)
    ann, ben = claude("ann"), claude("ben", tree)
    ann.edit("a.py", "one", "one")
    (tmp_path / "far/a.py").write_text("by somebody far away\n")
    git("-c", "user.name=f", "-c", "user.email=f@example.org", "commit", "-qam", "far", cwd=tmp_path / "far")
    said = ben.bash(how)
    assert (tree / "a.py").read_text() == "by somebody far away\n"
    assert "past the checks" not in said
    ben.bash(": > $(git rev-parse --git-path FETCH_HEAD)")
    git("merge", "-q", "--no-edit", "beside", cwd=repo)
    ben.bash("true")
    assert inbox(ann) == []


def test_what_was_committed_before_somebody_held_the_file_is_no_interference(claude: Start, repo: Path) -> None:
    ann, ben, since = claude("ann"), claude("ben"), head(repo)
    (repo / "a.py").write_text("by a person\n")
    commit(repo, "-a", age=100)
    ann.edit("a.py", "by", "BY")
    assert told(ben, since) == []


def test_a_history_that_is_gone_breaks_nothing(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    for since in ("", "0" * 40, "1234567890" * 4):
        assert told(ben, since) == []
    (repo / ".git/logs/HEAD").write_text("broken\n")
    assert told(ben, head(repo)) == []


def test_what_is_known_of_commits_is_forgotten_after_a_while(claude: Start, repo: Path, tmp_path: Path) -> None:
    new_commits.mark_checked("a" * 40)
    new_commits.mark_checked("b" * 40)
    (known,) = (tmp_path / "state").rglob("a" * 40)
    os.utime(known, (1, 1))
    new_commits.tidy()
    assert not new_commits.is_checked("a" * 40)
    assert new_commits.is_checked("b" * 40)


# ── In other worktrees ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def tree(repo: Path, tmp_path: Path) -> Path:
    git("worktree", "add", "--quiet", "-b", "beside", str(tmp_path / "tree"), cwd=repo)
    return tmp_path / "tree"


def person_commits(root: Path) -> None:
    (root / "a.py").write_text("by a person\n")
    commit(root, "-a")


@pytest.mark.parametrize("looker", ["holder", "bystander", "agent there"])
@pytest.mark.parametrize("looked_before", [True, False])
def test_a_commit_in_a_worktree_is_told_whoever_looks_first(
    claude: Start, repo: Path, tree: Path, looker: str, *, looked_before: bool
) -> None:
    ann = claude("ann")
    if looked_before:
        ann.bash("true")
    ann.edit("a.py", "one", "ONE")
    person_commits(tree)
    chosen = {"holder": ann, "bystander": claude("ben"), "agent there": claude("cem", tree)}[looker]
    chosen.bash("true")
    for each in (ann, chosen, claude("dan")):
        each.bash("true")
    (body,) = inbox(ann)
    assert body.startswith(f"Commit {head(tree)[:10]} on beside has a.py, which you hold. It was made by dana")


def test_a_command_that_goes_to_a_worktree_which_it_makes_itself_is_seen(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    go = "git worktree add -q ../tree -b beside; cd ../tree; echo x >> a.py"
    said = ben.bash(f"{go}; git -c core.hooksPath=/dev/null commit -qam sneaky")
    assert "was made while that command ran, past the checks, and has a.py" in said
    (body,) = inbox(ann)
    assert f"on beside has a.py, which you hold. It was made while a shell command of {ben.name} ran" in body
    person_commits(repo.parent / "tree")
    ben.bash("cd ../tree; git switch -q -c more")
    assert len(inbox(ann)) == 2


def test_a_commit_in_the_main_checkout_is_seen_from_a_worktree(claude: Start, repo: Path, tree: Path) -> None:
    ann = claude("ann", tree)
    ann.edit("a.py", "one", "ONE")
    person_commits(repo)
    ann.bash("true")
    assert inbox(ann)[0].startswith(f"Commit {head(repo)[:10]} on main has a.py, which you hold.")


def test_commits_in_worktrees_from_before_the_hold_are_nothing_to_tell(claude: Start, repo: Path, tree: Path) -> None:
    (tree / "a.py").write_text("early\n")
    commit(tree, "-a", age=100)
    lines = (repo / ".git/worktrees/tree/logs/HEAD").read_text()
    (repo / ".git/worktrees/tree/logs/HEAD").write_text(re.sub(r"> \d+ ", f"> {int(time.time()) - 100} ", lines))
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ben.bash("git worktree add -q ../third -b third beside")
    ben.bash("true")
    assert inbox(ann) == []


def test_no_git_runs_and_little_is_read_while_nothing_moves(
    claude: Start, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(worktrees.MOST + 4):
        git("worktree", "add", "--quiet", "--detach", str(tmp_path / f"t{number}"), cwd=repo)
    ann, found = claude("ann"), repository(str(repo))
    assert found is not None
    ann.edit("a.py", "one", "ONE")
    checkout_branch.notice(ann.board, found, None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("git was run"))
    monkeypatch.setattr(new_commits, "notice", lambda *_: pytest.fail("commits were looked at"))
    assert checkout_branch.notice(ann.board, found, None) == []
    assert len(worktrees.other_checkouts(found)) == worktrees.MOST
