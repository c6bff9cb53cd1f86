"""`tb commit` takes no file that somebody keeps out of commits, and says so: marks, sparse checkouts, repositories."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak import Refused

from ..cli.command import Tb
from .actors import Claude, git, repository

Start = Callable[..., Claude]
MARKS = ("assume-unchanged", "skip-worktree")


def tree(repo: Path) -> dict[str, str]:
    """What is committed: the object of each file."""
    lines = git("ls-tree", "-r", "HEAD", cwd=repo).splitlines()
    return {line.partition("\t")[2]: line.split()[2] for line in lines}


def marks(repo: Path) -> list[str]:
    """The files in the index that have a mark."""
    return [line for line in git("ls-files", "-v", cwd=repo).splitlines() if not line.startswith("H ")]


def secret(repo: Path, mark: str) -> None:
    (repo / "src/local.env").write_text("example\n")
    git("add", "src/local.env", cwd=repo)
    git("commit", "--quiet", "-m", "settings", "--", "src/local.env", cwd=repo)
    git("update-index", f"--{mark}", "src/local.env", cwd=repo)
    (repo / "src/local.env").write_text("password\n")


@pytest.mark.parametrize("mark", MARKS)
def test_a_marked_file_stays_out_of_the_commit_of_its_folder_and_keeps_its_mark(
    claude: Start, repo: Path, mark: str
) -> None:
    secret(repo, mark)
    before, known = tree(repo), marks(repo)
    (repo / "src/b.py").write_text("B\n")
    made = claude("ann").commit("src")
    assert made["paths"] == ["src/b.py"]
    assert made["left_out"] == [{"path": "src/local.env", "why": mark}]
    assert tree(repo)["src/local.env"] == before["src/local.env"]
    assert marks(repo) == known
    assert len(known) == 1
    assert git("status", "--porcelain", cwd=repo) == ""


@pytest.mark.parametrize("mark", MARKS)
def test_a_marked_file_stays_out_also_if_it_was_staged_before(claude: Start, repo: Path, mark: str) -> None:
    for name in ("src/b.py", "src/new.env"):
        (repo / name).write_text("staged\n")
        git("add", name, cwd=repo)
        git("update-index", f"--{mark}", name, cwd=repo)
        (repo / name).write_text("local\n")
    (repo / "src/mine.py").write_text("mine\n")
    known = marks(repo)
    made = claude("ann").commit("src")
    assert made["paths"] == ["src/mine.py"]
    assert [each["path"] for each in made["left_out"]] == ["src/b.py", "src/new.env"]
    assert marks(repo) == known
    assert git("show", ":src/new.env", cwd=repo) == "staged\n"


@pytest.mark.parametrize("mark", MARKS)
def test_a_marked_file_that_was_named_is_refused_with_the_command_that_takes_the_mark_away(
    claude: Start, repo: Path, tb: Tb, mark: str
) -> None:
    secret(repo, mark)
    answer = tb("commit", "local.env", "b.py", "-m", "x", cwd=repo / "src")
    assert answer.code == 1
    hint = f"git update-index --no-{mark} local.env"
    assert f"`{hint}`" in answer.err
    subprocess.run(hint, shell=True, check=True, cwd=repo / "src")
    assert "1 file" in tb.ok("commit", "src/local.env", "-m", "x")


@pytest.mark.parametrize("mark", MARKS)
def test_a_marked_file_that_has_not_changed_is_not_worth_a_word(claude: Start, repo: Path, mark: str) -> None:
    git("update-index", f"--{mark}", "src/b.py", cwd=repo)
    (repo / "src/new.py").write_text("new\n")
    assert claude("ann").commit("src")["left_out"] == []


def test_the_deletion_of_a_file_assumed_unchanged_stays_out(claude: Start, repo: Path) -> None:
    secret(repo, "assume-unchanged")
    (repo / "src/local.env").unlink()
    (repo / "src/b.py").write_text("B\n")
    assert claude("ann").commit("src")["left_out"] == [{"path": "src/local.env", "why": "assume-unchanged"}]
    assert "src/local.env" in tree(repo)


def test_where_git_marks_every_file_by_itself_marked_files_are_committed(claude: Start, repo: Path) -> None:
    git("config", "core.ignoreStat", "true", cwd=repo)
    git("update-index", "--really-refresh", cwd=repo)
    git("update-index", "--assume-unchanged", "src/b.py", "a.py", cwd=repo)
    (repo / "src/b.py").write_text("B\n")
    assert claude("ann").commit("src/b.py")["paths"] == ["src/b.py"]


def test_only_marked_files_have_changed_and_the_refusal_says_so(claude: Start, repo: Path) -> None:
    secret(repo, "assume-unchanged")
    with pytest.raises(Refused, match="nothing to commit") as refused:
        claude("ann").commit("src")
    assert "src/local.env (assume-unchanged)" in refused.value.hint


def test_a_file_in_the_place_of_a_folder_with_marked_files_does_not_remove_them(claude: Start, repo: Path) -> None:
    git("update-index", "--skip-worktree", "src/b.py", cwd=repo)
    (repo / "src/b.py").unlink()
    (repo / "src").rmdir()
    (repo / "src").write_text("a file now\n")
    with pytest.raises(Refused, match="in the place of marked files"):
        claude("ann").commit("src")
    assert marks(repo) == ["S src/b.py"]


def test_the_lines_of_the_command_name_what_was_left_out(repo: Path, tb: Tb) -> None:
    secret(repo, "skip-worktree")
    (repo / "src/b.py").write_text("B\n")
    first, *more = tb.ok("commit", "src", "-m", "Mine").splitlines()
    assert first.endswith(" on main Mine (1 file)")
    assert more == ["left out: src/local.env (skip-worktree)"]


@pytest.mark.parametrize("how", [("--cone",), ("--cone", "--sparse-index"), ("--no-cone",)])
def test_what_is_outside_of_a_sparse_checkout_is_neither_deleted_nor_changed(
    claude: Start, tmp_path: Path, how: tuple[str, ...]
) -> None:
    names = ["top.py", "src/in/a.py", "src/out/b.py", "src/out/c.py"]
    repo = repository(tmp_path / "sparse", dict.fromkeys(names, "x\n"))
    git("sparse-checkout", "set", *how, "src/in" if how[0] == "--cone" else "/src/in/", cwd=repo)
    assert not (repo / "src/out").exists()
    known = marks(repo)
    (repo / "src/in/a.py").write_text("changed\n")
    (repo / "src/in/new.py").write_text("new\n")
    made = claude("ann", repo).commit("src")
    assert (made["paths"], made["left_out"]) == (["src/in/a.py", "src/in/new.py"], [])
    assert sorted(tree(repo)) == sorted([*names, "src/in/new.py"])
    assert marks(repo) == known
    assert git("status", "--porcelain", cwd=repo) == ""


def test_a_file_outside_of_a_sparse_checkout_is_refused_when_it_is_named(claude: Start, tmp_path: Path) -> None:
    repo = repository(tmp_path / "sparse", {"in/a.py": "x\n", "out/b.py": "x\n"})
    git("sparse-checkout", "set", "in", cwd=repo)
    with pytest.raises(Refused, match=r"out/b\.py is outside of this sparse checkout"):
        claude("ann", repo).commit("out/b.py")


# ── Other repositories ───────────────────────────────────────────────────────────────────────────────


def test_another_repository_in_a_folder_is_left_out_and_never_becomes_a_submodule(claude: Start, repo: Path) -> None:
    repository(repo / "src/inner", {"f": "f\n"})
    (repo / "src/b.py").write_text("B\n")
    ann = claude("ann")
    made = ann.commit("src")
    assert made["paths"] == ["src/b.py"]
    assert made["left_out"] == [{"path": "src/inner", "why": "another repository"}]
    for name in ("src/inner", "src/inner/f"):
        with pytest.raises(Refused, match="another repository") as refused:
            ann.commit(name)
        assert "cd src/inner" in refused.value.hint


def test_another_repository_in_the_place_of_a_file_is_left_out_and_the_file_stays_committed(
    claude: Start, repo: Path
) -> None:
    (repo / "src/b.py").unlink()
    repository(repo / "src/b.py", {"f": "f\n"})
    (repo / "src/new.py").write_text("new\n")
    ann = claude("ann")
    made = ann.commit("src")
    assert (made["paths"], made["left_out"]) == (["src/new.py"], [{"path": "src/b.py", "why": "another repository"}])
    assert "src/b.py" in tree(repo)
    with pytest.raises(Refused, match="another repository"):
        ann.commit("src/b.py")


def test_a_worktree_below_the_checkout_is_another_repository_too(claude: Start, repo: Path) -> None:
    (repo / ".gitignore").write_text("trees/\n")
    git("worktree", "add", "--quiet", "trees/one", cwd=repo)
    (repo / "trees/one/a.py").write_text("changed\n")
    with pytest.raises(Refused, match="another repository, trees/one"):
        claude("ann").commit("trees/one/a.py")


def test_a_submodule_is_committed_as_the_commit_that_it_is_at(claude: Start, repo: Path, tmp_path: Path) -> None:
    other = repository(tmp_path / "other", {"f": "f\n"})
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "src/mod", cwd=repo)
    ann = claude("ann")
    assert ann.commit("src/mod", ".gitmodules")["paths"] == [".gitmodules", "src/mod"]
    for key in ("user.name", "user.email"):
        git("config", key, "dana", cwd=repo / "src/mod")
    (repo / "src/mod/f").write_text("changed\n")
    git("commit", "--quiet", "-am", "next", cwd=repo / "src/mod")
    (repo / "src/mod/f").write_text("not committed\n")
    assert ann.commit("src")["paths"] == ["src/mod"]
    assert tree(repo)["src/mod"] == git("rev-parse", "HEAD", cwd=repo / "src/mod").strip()
    with pytest.raises(Refused, match="src/mod/f is in another repository, src/mod"):
        ann.commit("src/mod/f")


# ── Ignored files ────────────────────────────────────────────────────────────────────────────────────


def test_a_folder_with_ignored_files_alone_is_left_out_and_no_hint_adds_them(claude: Start, repo: Path) -> None:
    (repo / ".gitignore").write_text("*.pyc\nbuild/\n")
    for name in ("cache/x.pyc", "build/x", ":(glob)*/x.pyc", "new.py"):
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text("x\n")
    made = claude("ann").commit("new.py", "cache")
    assert made["left_out"] == [{"path": "cache", "why": "nothing in it that git commits"}]
    with pytest.raises(Refused, match="nothing to commit"):
        claude("ann").commit("cache")
    for name in ("build", ":(glob)*/x.pyc"):
        with pytest.raises(Refused, match=re.escape(f"git ignores {name}")):
            claude("ann").commit(name)


def test_an_ignored_file_is_refused_when_named_and_silently_left_out_of_its_folder(
    claude: Start, repo: Path, tb: Tb
) -> None:
    (repo / ".gitignore").write_text("*.log\nbuild/\n")
    (repo / "src/x.log").write_text("log\n")
    (repo / "src/b.py").write_text("B\n")
    (repo / "build").mkdir()
    (repo / "build/out").write_text("out\n")
    ann = claude("ann")
    for name in ("src/x.log", "build", "build/out"):
        with pytest.raises(Refused, match=f"git ignores {name}"):
            ann.commit(name)
    made = ann.commit("src")
    assert (made["paths"], made["left_out"]) == (["src/b.py"], [])
    git("add", "-f", "src/x.log", cwd=repo)
    assert ann.commit("src/x.log")["paths"] == ["src/x.log"]
    (repo / "src/x.log").write_text("more\n")
    assert ann.commit("src")["paths"] == ["src/x.log"]


def test_an_empty_folder_is_no_error_beside_other_paths(claude: Start, repo: Path) -> None:
    (repo / "empty").mkdir()
    (repo / "a.py").write_text("A\n")
    made = claude("ann").commit("empty", "a.py")
    assert made["paths"] == ["a.py"]
    assert made["left_out"] == [{"path": "empty", "why": "nothing in it that git commits"}]
    with pytest.raises(Refused, match="nothing to commit"):
        claude("ann").commit("empty")


@pytest.mark.parametrize("name", ["pipe", ".git/config"])
def test_a_named_path_that_git_cannot_commit_is_refused(claude: Start, repo: Path, name: str) -> None:
    os.mkfifo(repo / "pipe")
    (repo / "a.py").write_text("changed\n")
    with pytest.raises(Refused, match=f"{name} is nothing that git commits"):
        claude("ann").commit("a.py", name)


def test_a_new_file_that_git_does_not_take_is_named(claude: Start, repo: Path) -> None:
    (repo / "src/.gitmodules").symlink_to("b.py")
    (repo / ".gitmodules").symlink_to("a.py")
    (repo / "src/b.py").write_text("changed\n")
    with pytest.raises(Refused, match="gitmodules cannot be committed"):
        claude("ann").commit("src", ".gitmodules")
    made = claude("ann").commit("src")
    assert made["paths"] == ["src/b.py"]
    assert [each["path"] for each in made["left_out"]] == ["src/.gitmodules"]


@pytest.mark.parametrize("mark", MARKS)
def test_a_marked_file_that_is_staged_and_not_in_the_last_commit_is_named(claude: Start, repo: Path, mark: str) -> None:
    for name in ("src/new.env", "src/new.py"):
        (repo / name).write_text("new\n")
        git("add", name, cwd=repo)
    git("update-index", f"--{mark}", "src/new.env", cwd=repo)
    made = claude("ann").commit("src")
    assert made["paths"] == ["src/new.py"]
    assert made["left_out"] == [{"path": "src/new.env", "why": mark}]
