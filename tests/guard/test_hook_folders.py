"""Folders of hooks that are not git's own: tracked ones are left alone, and unguarded worktrees are named."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tiebreak.guard.commits.git_hooks import NAMES, calls_all, line

from ..cli.command import Tb
from .actors import git


def hook(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def tracked(repo: Path) -> Path:
    """A repository with a tracked folder of hooks."""
    hook(repo / ".githooks/pre-commit", "echo own hook")
    git("add", "--all", cwd=repo)
    git("commit", "--quiet", "-m", "hooks", cwd=repo)
    git("config", "core.hooksPath", ".githooks", cwd=repo)
    return repo


def test_a_tracked_folder_of_hooks_is_not_changed_and_told_what_to_add(tracked: Path, tb: Tb) -> None:
    refused = tb("guard", "install")
    assert refused.code == 1
    assert "the hooks belong to the folder .githooks, which git tracks: nothing was changed" in refused.err
    assert 'tb guard check pre-commit -- "$@"' in refused.err
    assert git("status", "--porcelain", cwd=tracked) == ""
    for name in NAMES:
        hook(tracked / ".githooks" / name, line(name))
    assert "already" in tb.ok("guard", "install")
    assert tb("guard", "status").code == 0


def test_the_guard_of_an_older_version_in_a_tracked_folder_can_be_removed(tracked: Path, tb: Tb) -> None:
    hook(tracked / ".githooks/pre-push", "# tiebreak guard")
    assert "pre-push: removed" in tb.ok("guard", "uninstall")


def test_worktrees_that_lack_the_hooks_are_named_with_the_command_that_guards_them(
    repo: Path, tb: Tb, tmp_path: Path
) -> None:
    git("config", "core.hooksPath", ".hooks", cwd=repo)
    git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "the tree"), cwd=repo)
    said = tb.ok("guard", "install")
    assert f"not guarded: {tmp_path}/the tree (`cd '{tmp_path}/the tree' && tb guard install`)" in said
    status = tb("guard", "status")
    assert status.code == 1
    assert f"not guarded: {tmp_path}/the tree" in status.out
    assert tb("guard", "install", cwd=tmp_path / "the tree").code == 0
    assert tb("guard", "status").code == 0
    assert "not guarded" not in tb.ok("guard", "install")


def test_worktrees_share_gits_own_folder_of_hooks(repo: Path, tb: Tb, tmp_path: Path) -> None:
    git("worktree", "add", "--quiet", str(tmp_path / "tree"), cwd=repo)
    assert "not guarded" not in tb.ok("guard", "install")
    assert tb("guard", "status", cwd=tmp_path / "tree").code == 0


def test_a_worktree_on_a_branch_without_the_added_lines_is_named(tracked: Path, tb: Tb, tmp_path: Path) -> None:
    git("worktree", "add", "--quiet", "-b", "old", str(tmp_path / "tree"), cwd=tracked)
    for name in NAMES:
        hook(tracked / ".githooks" / name, line(name))
    git("add", "--all", cwd=tracked)
    git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "guard", cwd=tracked)
    assert f"not guarded: {tmp_path}/tree" in tb.ok("guard", "install")
    git("reset", "--quiet", "--hard", "main", cwd=tmp_path / "tree", env=tb.changed({}))
    assert "not guarded" not in tb.ok("guard", "install")


def test_husky_in_another_worktree_is_looked_at_too(repo: Path, tb: Tb, tmp_path: Path) -> None:
    git("config", "core.hooksPath", ".husky/_", cwd=repo)
    for name in NAMES[:-1]:
        hook(repo / ".husky" / name, line(name))
        hook(repo / ".husky/_" / name, ". ../h")
    git("worktree", "add", "--quiet", str(tmp_path / "tree"), cwd=repo)
    assert f"not guarded: {tmp_path}/tree" in tb.ok("guard", "install")


def test_a_worktree_without_husky_is_not_taken_for_guarded(repo: Path, tb: Tb, tmp_path: Path) -> None:
    for name in NAMES[:-1]:
        hook(repo / ".husky" / name, line(name))
    git("add", "--all", cwd=repo)
    git("commit", "--quiet", "-m", "husky", cwd=repo)
    git("config", "core.hooksPath", ".husky/_", cwd=repo)
    git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "tree"), cwd=repo)
    hook(repo / ".husky/_/pre-commit", ". ../h")
    assert f"not guarded: {tmp_path}/tree" in tb.ok("guard", "install")
    refused = tb("guard", "install", cwd=tmp_path / "tree")
    assert (refused.code, "husky is not installed in this checkout" in refused.err) == (1, True)
    (tmp_path / "tree/.husky/_").mkdir()
    assert tb("guard", "install", cwd=tmp_path / "tree").code == 0
    assert tb("guard", "status").code == 0


@pytest.mark.parametrize("aside", ["pre-commit.old", "pre-commit.legacy"])
@pytest.mark.parametrize("newer", [True, False])
def test_the_guard_comes_back_after_a_manager_wrote_its_hooks_anew(
    repo: Path, tb: Tb, aside: str, *, newer: bool
) -> None:
    hooks = repo / ".git/hooks"
    # A manager that runs what it has put aside, as pre-commit does.
    text = f'echo by manager; [ ! -x "$0.legacy" ] || exec .git/hooks/{aside}'
    hook(hooks / "pre-commit", text)
    first = (hooks / "pre-commit").read_text()
    tb.ok("guard", "install")
    (hooks / "pre-commit").rename(hooks / aside)
    hook(hooks / "pre-commit", f"echo anew; {text}" if newer else text)
    assert "pre-commit: installed, before it runs what was there" in tb.ok("guard", "install")
    assert tb("guard", "status").code == 0
    assert sorted(each.name for each in hooks.glob("pre-commit.*-tiebreak*")) == [
        "pre-commit.before-tiebreak",
        *(["pre-commit.before-tiebreak.1"] if newer else []),
    ]
    if newer:
        assert (hooks / "pre-commit.before-tiebreak.1").read_text() == first
    (repo / "a.py").write_text("changed\n")
    done = subprocess.run(
        ["git", "commit", "-am", "x"], cwd=repo, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stderr.count("by manager") == 1
    tb.ok("guard", "uninstall")
    assert (hooks / "pre-commit").read_text() == (first.replace("echo by", "echo anew; echo by") if newer else first)


def test_a_git_that_is_too_old_to_call_all_hooks_is_named(repo: Path, tb: Tb, tmp_path: Path) -> None:
    tb.ok("guard", "install")
    assert "installed, and they find tb" in tb("doctor").out
    real = shutil.which("git")
    hook(tmp_path / "bin/git", f'case "$*" in *" version") echo git version 2.27.0;; *) exec {real} "$@";; esac')
    tb.environment["PATH"] = f"{tmp_path / 'bin'}:{tb.environment['PATH']}"
    assert "git version 2.27.0 does not call all of them; version 2.28 does" in tb("doctor").out
    assert calls_all("git version 2.50.1 (Apple Git-155)")
    assert calls_all("git version unknown")
    assert not calls_all("git version 1.8.3.1")
