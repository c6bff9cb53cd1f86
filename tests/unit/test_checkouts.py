"""Checkouts with holds of their own: the setting is read as git means it, and no two checkouts have one identity."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from tiebreak import Invalid
from tiebreak.checkouts import PIN, checkout_of, holds_setting, identity, known_identity
from tiebreak.repository import Repository, repository


def git(folder: Path, *words: str) -> str:
    options = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.run(
        ["git", *options, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def found(folder: Path) -> Repository:
    there = repository(str(folder))
    assert there is not None
    return there


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, without settings for git."""
    made = tmp_path / "home"
    made.mkdir()
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.delenv(name, raising=False)
    return made


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = tmp_path / "shop"
    made.mkdir()
    git(made, "init", "-q", "-b", "main")
    git(made, "commit", "-q", "--allow-empty", "-m", "first")
    return made


@pytest.fixture
def tree(repo: Path) -> Path:
    """A worktree of it."""
    git(repo, "worktree", "add", "-q", "-b", "feature", "../Shop Feature")
    return repo.parent / "Shop Feature"


# ── The setting ──────────────────────────────────────────────────────────────────────────────────────


def test_without_a_setting_nothing_is_pinned(repo: Path) -> None:
    assert holds_setting(found(repo)) == ("repository", "")
    assert checkout_of(found(repo)) == ""
    assert not (repo / ".git" / PIN).exists()


def test_a_setting_of_the_repository_counts_in_its_worktrees_at_once(repo: Path, tree: Path) -> None:
    for value in ("checkout", "repository", "checkout"):
        git(repo, "config", "tiebreak.holds", value)
        assert [holds_setting(found(each))[0] for each in (repo, tree)] == [value, value]


def test_a_setting_of_one_worktree_counts_there_alone(repo: Path, tree: Path) -> None:
    git(repo, "config", "extensions.worktreeConfig", "true")
    git(tree, "config", "--worktree", "tiebreak.holds", "checkout")
    assert [holds_setting(found(each))[0] for each in (repo, tree)] == ["repository", "checkout"]
    git(repo, "config", "--worktree", "tiebreak.holds", "checkout")
    git(tree, "config", "--worktree", "tiebreak.holds", "repository")
    assert [holds_setting(found(each))[0] for each in (repo, tree)] == ["checkout", "repository"]


def test_a_file_of_a_worktrees_settings_that_git_ignores_is_ignored(repo: Path) -> None:
    (repo / ".git" / "config.worktree").write_text("[tiebreak]\n\tholds = checkout\n")
    assert git(repo, "config", "--default", "none", "tiebreak.holds") == "none"
    assert holds_setting(found(repo))[0] == "repository"


def test_a_global_setting_counts_unless_the_repository_has_its_own(repo: Path, home: Path) -> None:
    git(repo, "config", "--global", "tiebreak.holds", "checkout")
    assert holds_setting(found(repo)) == ("checkout", str(home / ".gitconfig"))
    git(repo, "config", "tiebreak.holds", "repository")
    assert holds_setting(found(repo))[0] == "repository"


@pytest.mark.parametrize("where", [".config/git/config", "mine"])
def test_global_settings_in_other_places_count(
    repo: Path, home: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path = home / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[tiebreak] holds = checkout\n")
    if where == "mine":
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(path))
    assert git(repo, "config", "tiebreak.holds") == "checkout"
    assert holds_setting(found(repo)) == ("checkout", str(path))


def test_an_included_file_counts_where_it_is_included(repo: Path, home: Path) -> None:
    (home / "more").write_text("[tiebreak]\n\tholds = checkout\n")
    (home / ".gitconfig").write_text("[tiebreak]\n\tholds = repository\n[include]\n\tpath = ~/more\n")
    assert holds_setting(found(repo))[0] == git(repo, "config", "tiebreak.holds") == "checkout"
    (home / ".gitconfig").write_text("[include]\n\tpath = more\n[Tiebreak]\n\tHolds = repository # as before\n")
    assert holds_setting(found(repo))[0] == git(repo, "config", "tiebreak.holds") == "repository"


@pytest.mark.parametrize("line", ["holds = worktree", "holds = true", "holds", "holds =", "holds = Checkout"])
def test_another_value_is_named_with_its_file(repo: Path, line: str) -> None:
    with (repo / ".git" / "config").open("a") as config:
        config.write(f"[tiebreak]\n\t{line}\n")
    with pytest.raises(Invalid, match=r"git config tiebreak\.holds is '.*' \(in .*/\.git/config\)") as problem:
        checkout_of(found(repo))
    assert "'checkout' or 'repository'" in str(problem.value.own_hint)


def test_git_is_not_run(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(repo, "config", "tiebreak.holds", "checkout")
    monkeypatch.setattr(subprocess, "Popen", None)
    monkeypatch.setenv("PATH", "")
    assert checkout_of(found(repo))


# ── The identity ─────────────────────────────────────────────────────────────────────────────────────


def test_each_worktree_and_clone_is_another_checkout(repo: Path, tree: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(repo), "clone/shop")
    names = [identity(found(each)) for each in (repo, tree, tmp_path / "clone" / "shop")]
    assert len(set(names)) == 3
    assert [name.rpartition("-")[0] for name in names] == ["shop", "shop-feature", "shop"]
    (repo / "folder").mkdir()
    assert identity(found(repo / "folder")) == names[0]


def test_a_new_clone_at_the_same_path_is_another_checkout(repo: Path, tmp_path: Path) -> None:
    """As on two hosts that use one board."""
    names = []
    for host in ("one", "two"):
        git(tmp_path, "clone", "-q", str(repo), "work")
        names.append(identity(found(tmp_path / "work")))
        (tmp_path / "work").rename(tmp_path / host)
    assert names[0] != names[1]
    assert [identity(found(tmp_path / host)) for host in ("one", "two")] == names


def test_a_checkout_that_is_seen_under_two_paths_is_one(repo: Path, tmp_path: Path) -> None:
    name = identity(found(repo))
    os.symlink(repo, tmp_path / "link")
    assert identity(found(tmp_path / "link")) == name
    repo.rename(tmp_path / "moved")
    assert identity(found(tmp_path / "moved")) == name


def test_a_copy_with_its_git_directory_is_another_checkout(repo: Path, tmp_path: Path) -> None:
    name = identity(found(repo))
    shutil.copytree(repo, tmp_path / "copy", symlinks=True)
    copy = identity(found(tmp_path / "copy"))
    assert copy != name
    assert identity(found(tmp_path / "copy")) == copy
    assert identity(found(repo)) == name


def _identity(folder: str) -> str:
    return identity(found(Path(folder)))


@pytest.mark.parametrize("copied", [False, True], ids=["first use", "a copy"])
def test_processes_that_come_at_once_agree(repo: Path, tmp_path: Path, copied: bool) -> None:
    folder, before = repo, ""
    if copied:
        before = identity(found(repo))
        shutil.copytree(repo, tmp_path / "copy")
        folder = tmp_path / "copy"
    with ProcessPoolExecutor(8, mp_context=get_context("fork")) as pool:
        names = set(pool.map(_identity, [str(folder)] * 32))
    assert len(names) == 1
    assert before not in names
    left = [each for each in os.listdir(folder / ".git") if each.startswith(PIN)]
    assert left == [PIN]


@pytest.mark.parametrize("text", ["", "tiebreak checkout 1\nshop-", "tiebreak checkout 1\n../x\n/\n", "noise\n" * 9])
def test_a_damaged_pin_is_replaced(repo: Path, text: str) -> None:
    (repo / ".git" / PIN).write_text(text)
    assert known_identity(found(repo)) == ""
    assert identity(found(repo)) == identity(found(repo)) != ""


def test_a_checkout_that_cannot_get_a_name_is_told_and_not_taken_for_the_repository(repo: Path) -> None:
    git(repo, "config", "tiebreak.holds", "checkout")
    (repo / ".git" / PIN).mkdir()
    with pytest.raises(Invalid, match=r"cannot get a name for its holds: .*tiebreak-checkout: "):
        checkout_of(found(repo))


@pytest.mark.parametrize("folder", ["日本", "...", "A B", "x" * 100])
def test_any_folder_has_a_name_that_can_be_read(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    git(tmp_path / folder, "init", "-q")
    assert identity(found(tmp_path / folder)) == identity(found(tmp_path / folder))
