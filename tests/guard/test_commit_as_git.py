"""`tb commit` makes the same tree as git would, whatever kind of change, name, setting or index there is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak import Refused

from ..cli.command import Tb
from .actors import Claude, git, repository

Start = Callable[..., Claude]
Prepare = Callable[[Path], list[str]]
FILES = {"top": "t\n", "src/a/f": "a\n", "src/b/f": "b\n", "src/link-target": "x\n", "run.sh": "echo\n"}


def intent_to_add(repo: Path) -> list[str]:
    (repo / "new").write_text("new\n")
    git("add", "-N", "new", cwd=repo)
    return ["new"]


def renamed(repo: Path) -> list[str]:
    git("mv", "src/a/f", "src/a/g", cwd=repo)
    return ["src/a/f", "src/a/g"]


def staged_and_changed_again(repo: Path) -> list[str]:
    (repo / "top").write_text("staged\n")
    git("add", "top", cwd=repo)
    (repo / "top").write_text("as it is\n")
    return ["top"]


def modes_and_links(repo: Path) -> list[str]:
    (repo / "run.sh").chmod(0o755)
    (repo / "top").unlink()
    (repo / "top").symlink_to("src/link-target")
    (repo / "src/a/dangling").symlink_to("nowhere")
    return ["run.sh", "top", "src/a"]


def file_becomes_folder(repo: Path) -> list[str]:
    (repo / "src/b/f").unlink()
    (repo / "src/b/f").mkdir()
    (repo / "src/b/f/x").write_text("x\n")
    return ["src/b"]


def folder_becomes_file(repo: Path) -> list[str]:
    shutil.rmtree(repo / "src/b")
    (repo / "src/b").write_text("file\n")
    return ["src"]


def folder_becomes_link(repo: Path) -> list[str]:
    """The file of the folder can still be reached by its path."""
    shutil.rmtree(repo / "src/b")
    (repo.parent / "elsewhere").mkdir(exist_ok=True)
    (repo.parent / "elsewhere/f").write_text("b\n")
    (repo / "src/b").symlink_to("../../elsewhere")
    return ["src"]


def deleted_folder(repo: Path) -> list[str]:
    shutil.rmtree(repo / "src/a")
    return ["src/a"]


def strange_names(repo: Path) -> list[str]:
    names = [":(top)x", "*", "-n", "new\nline", '"quoted"', "src/\udcff", "src/[a]", "tab\there", "src/ä"]
    for name in names:
        (repo / name).write_text(f"{name!a}\n")
    return names


def clean_filter(repo: Path) -> list[str]:
    git("config", "filter.upper.clean", "tr a-z A-Z", cwd=repo)
    git("config", "filter.upper.smudge", "tr A-Z a-z", cwd=repo)
    (repo / ".gitattributes").write_text("*.big filter=upper\n")
    (repo / "src/x.big").write_text("shout\n")
    return [".gitattributes", "src"]


def line_ends(repo: Path) -> list[str]:
    git("config", "core.autocrlf", "true", cwd=repo)
    (repo / "top").write_bytes(b"a\r\nb\r\n")
    return ["top"]


def split_index(repo: Path) -> list[str]:
    git("update-index", "--split-index", cwd=repo)
    (repo / "top").write_text("changed\n")
    git("add", "top", cwd=repo)
    (repo / "src/a/f").write_text("changed\n")
    return ["src/a/f", "top"]


def untracked_cache(repo: Path) -> list[str]:
    git("update-index", "--untracked-cache", cwd=repo)
    git("status", cwd=repo)
    (repo / "src/a/new").write_text("new\n")
    return ["src"]


def monitored(repo: Path) -> list[str]:
    """The file system monitor never reports a change, and git believes it. A commit looks for itself."""
    monitor = repo / ".git/monitor"
    monitor.write_text("#!/bin/sh\nprintf 'token\\0'\n")
    monitor.chmod(0o755)
    git("config", "core.fsmonitor", str(monitor), cwd=repo)
    git("update-index", "--fsmonitor", cwd=repo)
    git("status", cwd=repo)
    (repo / "src/a/f").write_text("changed\n")
    return ["src"]


CASES = [value for value in list(globals().values()) if getattr(value, "__annotations__", {}).get("repo") == "Path"]


@pytest.mark.parametrize("prepare", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("format_", ["sha1", "sha256"])
def test_the_tree_is_the_one_that_git_would_commit(
    claude: Start, tmp_path: Path, prepare: Prepare, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DEFAULT_HASH", format_)
    ours = repository(tmp_path / "ours", FILES)
    theirs = repository(tmp_path / "theirs", FILES)
    names = prepare(ours)
    claude("ann", ours).commit(*names)
    prepare(theirs)
    unwatched = ("-c", "core.fsmonitor=false")
    git(*unwatched, "add", "--all", cwd=theirs)
    git(*unwatched, "commit", "--quiet", "-m", "x", cwd=theirs)
    assert git("ls-tree", "-r", "HEAD", cwd=ours) == git("ls-tree", "-r", "HEAD", cwd=theirs)
    assert git(*unwatched, "status", "--porcelain", cwd=ours) == ""
    assert git("fsck", "--no-dangling", cwd=ours) == ""


def test_a_deletion_in_a_repository_with_sha256_reaches_the_index(
    claude: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    repo = repository(tmp_path / "new", FILES)
    (repo / "top").unlink()
    claude("ann", repo).commit("top")
    assert git("status", "--porcelain", cwd=repo) == ""


def test_a_file_changed_in_the_same_moment_as_the_index_was_written_is_seen(claude: Start, repo: Path) -> None:
    ann, moment = claude("ann"), (1_700_000_000, 1_700_000_000)
    git("config", "core.trustctime", "false", cwd=repo)
    os.utime(repo / "a.py", moment)
    git("add", "a.py", cwd=repo)
    os.utime(repo / ".git/index", moment)
    (repo / "a.py").write_text("ONE\nTWO\n")  # as long as before
    os.utime(repo / "a.py", moment)
    ann.commit("a.py")
    assert git("show", "HEAD:a.py", cwd=repo) == "ONE\nTWO\n"


def test_a_staged_file_that_is_reached_by_a_link_now_is_not_committed(claude: Start, tmp_path: Path) -> None:
    repo = repository(tmp_path / "linked", FILES)
    (repo / "src/b/new").write_text("new\n")
    git("add", "src/b/new", cwd=repo)
    folder_becomes_link(repo)
    (tmp_path / "elsewhere/new").write_text("new\n")
    assert claude("ann", repo).commit("src")["paths"] == ["src/b", "src/b/f"]


def test_a_filter_that_fails_stops_the_commit(claude: Start, repo: Path) -> None:
    git("config", "filter.broken.clean", "false", cwd=repo)
    git("config", "filter.broken.required", "true", cwd=repo)
    (repo / ".gitattributes").write_text("*.py filter=broken\n")
    (repo / "a.py").write_text("changed\n")
    with pytest.raises(Refused, match="clean filter 'broken' failed"):
        claude("ann").commit("a.py")
    assert git("log", "--format=%s", cwd=repo) == "begin\n"


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY"])
def test_the_callers_environment_does_not_lead_to_another_repository(
    claude: Start, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    other = repository(tmp_path / "other", {"a.py": "other\n"})
    places = {
        "GIT_DIR": ".git",
        "GIT_INDEX_FILE": ".git/index",
        "GIT_WORK_TREE": ".",
        "GIT_OBJECT_DIRECTORY": ".git/objects",
    }
    (repo / "a.py").write_text("mine\n")
    ann = claude("ann")
    monkeypatch.setenv(name, str(other / places[name]))
    ann.commit("a.py")
    monkeypatch.delenv(name, raising=False)
    assert git("show", "HEAD:a.py", cwd=repo) == "mine\n"
    assert git("status", "--porcelain", cwd=repo) == git("status", "--porcelain", cwd=other) == ""
    assert git("log", "--format=%s", cwd=other) == "begin\n"


def test_unchanged_files_of_a_named_folder_are_not_read_again(claude: Start, repo: Path) -> None:
    reads = repo / ".git/reads"
    git("config", "filter.count.clean", f"echo %f >> '{reads}'; cat", cwd=repo)
    (repo / ".gitattributes").write_text("*.py filter=count\n")
    for number in range(5):
        (repo / f"src/{number}.py").write_text("x\n")
    git("add", "--all", cwd=repo)
    git("commit", "--quiet", "-m", "many", cwd=repo)
    for path in [*repo.glob("*.py"), *repo.glob("src/*.py")]:
        os.utime(path, (1_000_000_000, 1_000_000_000))  # long before the index was written
    git("update-index", "-q", "--refresh", cwd=repo)
    reads.write_text("")
    (repo / "src/3.py").write_text("changed\n")
    claude("ann").commit("src")
    assert set(reads.read_text().split()) == {"src/3.py"}


def _staged_contents(repo: Path) -> None:
    (repo / "a.py").write_text("staged, and nowhere else\n")
    git("add", "a.py", cwd=repo)
    (repo / "a.py").write_text("one\ntwo\n")


def _staged_removal(repo: Path) -> None:
    git("rm", "--quiet", "--cached", "a.py", cwd=repo)


def _staged_mode(repo: Path) -> None:
    git("update-index", "--chmod=+x", "a.py", cwd=repo)


def _staged_and_gone(repo: Path) -> None:
    (repo / "src/gone").write_text("x\n")
    git("add", "src/gone", cwd=repo)
    (repo / "src/gone").unlink()


@pytest.mark.parametrize("stage", [_staged_contents, _staged_removal, _staged_mode, _staged_and_gone])
@pytest.mark.parametrize("by_git", [True, False])
def test_what_was_staged_in_the_paths_and_is_not_on_disk_comes_into_no_later_commit(
    claude: Start, repo: Path, stage: Callable[[Path], None], *, by_git: bool
) -> None:
    stage(repo)
    (repo / "docs/c.md").write_text("staged by somebody else\n")
    git("add", "docs/c.md", cwd=repo)
    (repo / "docs/ita").write_text("i\n")
    git("add", "--intent-to-add", "docs/ita", cwd=repo)
    (repo / "src/b.py").write_text("mine\n")
    if by_git:
        git("commit", "--quiet", "-m", "x", "--", "a.py", "src", cwd=repo)
    else:
        claude("ann").commit("a.py", "src")
    assert git("diff", "--name-only", "HEAD~1", "HEAD", cwd=repo) == "src/b.py\n"
    assert git("status", "--porcelain", cwd=repo).splitlines() == ["M  docs/c.md", " A docs/ita"]


def test_each_message_is_a_paragraph(repo: Path, tb: Tb) -> None:
    words = ("-m", "one", "-m", "two\nlines", "--message=three")
    (repo / "a.py").write_text("changed\n")
    git("commit", "--quiet", "-m", "one", "-m", "two\nlines", "-m", "three", "a.py", cwd=repo)
    of_git = git("log", "-1", "--format=%B", cwd=repo)
    (repo / "a.py").write_text("again\n")
    tb.ok("commit", "a.py", *words)
    assert git("log", "-1", "--format=%B", cwd=repo) == of_git
    assert "--message" in tb("commit", "a.py").err


@pytest.mark.parametrize("by_git", [True, False])
def test_a_staged_mode_that_is_not_on_disk_stays_staged(claude: Start, repo: Path, *, by_git: bool) -> None:
    git("config", "core.fileMode", "false", cwd=repo)
    git("update-index", "--chmod=+x", "a.py", cwd=repo)
    (repo / "a.py").write_text("changed\n")
    if by_git:
        git("commit", "--quiet", "-m", "x", "a.py", cwd=repo)
    else:
        claude("ann").commit("a.py")
    assert git("ls-tree", "HEAD", "a.py", cwd=repo).startswith("100644")
    assert git("ls-files", "-s", "a.py", cwd=repo).startswith("100755")


def test_a_path_through_a_link_is_answered_with_the_file_that_was_committed(repo: Path, tb: Tb) -> None:
    (repo / "link").symlink_to("src")
    (repo / "src/b.py").write_text("changed\n")
    (repo / "a.py").write_text("changed\n")
    said = tb.ok("commit", "link/b.py", "docs/../a.py", "-m", "x").splitlines()
    assert said[1:] == ["link/b.py leads through a link: committed as src/b.py"]
    assert git("show", "--format=", "--name-only", "HEAD", cwd=repo).split() == ["a.py", "src/b.py"]
