"""`tb commit` runs the hooks of the repository as git does, signs as git does, and needs a name as git does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak import Refused

from ..cli.command import Tb
from .actors import Claude, git

Start = Callable[..., Claude]


def hook(repo: Path, name: str, script: str, folder: str = ".git/hooks") -> None:
    place = repo / folder / name
    place.parent.mkdir(exist_ok=True, parents=True)
    place.write_text(f"#!/bin/sh\n{script}\n")
    place.chmod(0o755)


def changed(repo: Path) -> Path:
    (repo / "a.py").write_text("changed\n")
    return repo


def test_hooks_run_in_the_order_and_with_the_arguments_of_git(claude: Start, repo: Path) -> None:
    def calls() -> list[str]:
        return (repo / ".git/calls").read_text().splitlines()

    for name in ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"):
        words = '"${2}" "${3}"' if name == "prepare-commit-msg" else '"${2}"'
        hook(repo, name, f'echo {name} $# {words} "$GIT_EDITOR" >> .git/calls')
    (repo / "src/b.py").write_text("changed\n")
    git("commit", "--quiet", "-m", "x", "src/b.py", cwd=repo)
    of_git = calls()
    (repo / ".git/calls").unlink()
    changed(repo)
    claude("ann").commit("a.py")
    assert calls() == of_git
    assert [line.split()[0] for line in of_git] == ["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"]


@pytest.mark.parametrize("name", ["pre-commit", "prepare-commit-msg", "commit-msg"])
def test_a_hook_that_refuses_stops_the_commit_and_is_heard(repo: Path, tb: Tb, name: str) -> None:
    hook(repo, name, "echo all is not well; echo 'see line 3' >&2; exit 1")
    before = git("rev-parse", "HEAD", cwd=repo)
    answer = tb("commit", "a.py", "-m", "x", cwd=changed(repo))
    assert answer.code == 1
    assert "all is not well" in answer.err
    assert f"tb: the {name} hook refused this commit: see line 3" in answer.err
    assert "see line 3" in tb("commit", "a.py", "-m", "x", "--json").json["output"]
    assert git("rev-parse", "HEAD", cwd=repo) == before
    assert git("status", "--porcelain", cwd=repo) == " M a.py\n"


def test_what_hooks_print_is_shown_when_the_commit_is_made(repo: Path, tb: Tb) -> None:
    hook(repo, "pre-commit", "echo checked two files")
    hook(repo, "post-commit", "echo thank you; exit 1")
    answer = tb("commit", "a.py", "-m", "x", cwd=changed(repo))
    assert answer.code == 0
    assert answer.err == "checked two files\nthank you\n"
    assert len(answer.out.splitlines()) == 1


def test_a_hook_changes_the_message_and_git_cleans_it(claude: Start, repo: Path) -> None:
    hook(repo, "prepare-commit-msg", 'printf "\\n\\n\\nTicket: 7  \\n\\n\\n" >> "$1"')
    changed(repo)
    claude("ann").commit("a.py", message="Title  ")
    lines = git("log", "-1", "--format=%B", cwd=repo).rstrip("\n").split("\n")
    assert lines[0] == "Title"
    assert lines[-2:] == ["", "Ticket: 7"]


def test_a_message_that_a_hook_empties_is_refused(claude: Start, repo: Path) -> None:
    hook(repo, "commit-msg", ': > "$1"')
    with pytest.raises(Refused, match="the message is empty"):
        claude("ann", changed(repo)).commit("a.py")


@pytest.mark.parametrize("name", ["pre-commit", "commit-msg", "post-commit"])
def test_a_program_that_a_hook_leaves_behind_stops_nobody(claude: Start, repo: Path, name: str) -> None:
    hook(repo, name, "sleep 60 & echo $! > .git/left; echo done")
    made = claude("ann", changed(repo)).commit("a.py")
    assert made["hook_output"] == "done\n"
    os.kill(int((repo / ".git/left").read_text()), signal.SIGKILL)  # it runs still


def test_a_hook_has_the_surroundings_that_git_gives_it(claude: Start, repo: Path, tmp_path: Path) -> None:
    git("worktree", "add", "--quiet", str(tmp_path / "tree"), cwd=repo)
    hook(
        repo,
        "pre-commit",
        'env | grep -E "^(GIT_(DIR|EDITOR|EXEC_PATH)|PATH)=" | sort > "$(git rev-parse --git-dir)/seen"',
    )
    for place, private in ((repo, repo / ".git"), (tmp_path / "tree", repo / ".git/worktrees/tree")):
        git("commit", "--quiet", "--allow-empty", "-m", "x", cwd=place)
        of_git = (private / "seen").read_text()
        claude("ann", changed(place)).commit("a.py")
        assert (private / "seen").read_text() == of_git


def test_a_hook_that_does_not_name_its_shell_runs_and_one_that_may_not_run_does_not(claude: Start, repo: Path) -> None:
    hook(repo, "pre-commit", "")
    (repo / ".git/hooks/pre-commit").write_text("echo ran\n")
    hook(repo, "commit-msg", "exit 1")
    (repo / ".git/hooks/commit-msg").chmod(0o644)
    assert claude("ann", changed(repo)).commit("a.py")["hook_output"] == "ran\n"


def test_an_old_git_without_a_command_for_hooks_is_enough(
    claude: Start, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("git")
    hook(tmp_path, "git", f'for each in "$@"; do [ "$each" = hook ] && exit 1; done; exec {real} "$@"', "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    hook(repo, "pre-commit", "echo ran")
    assert claude("ann", changed(repo)).commit("a.py")["hook_output"] == "ran\n"


def test_the_guards_own_scripts_do_not_check_again_but_run_what_was_there(repo: Path, tb: Tb, tmp_path: Path) -> None:
    hook(repo, "pre-commit", "echo was there; exit $(cat .git/refuse 2>/dev/null || echo 0)")
    tb.ok("guard", "install")
    hook(tmp_path, "tb", f'echo "$@" >> {tmp_path}/started', "bin")
    tb.environment["PATH"] = f"{tmp_path / 'bin'}:{tb.environment['PATH']}"
    assert tb("commit", "a.py", "-m", "x", cwd=changed(repo)).err == "was there\n"
    assert not (tmp_path / "started").exists()
    (repo / ".git/refuse").write_text("1")
    (repo / "a.py").write_text("again\n")
    assert tb("commit", "a.py", "-m", "x").code == 1


def test_hooks_in_another_folder_run(claude: Start, repo: Path) -> None:
    git("config", "core.hooksPath", ".husky", cwd=repo)
    hook(repo, "pre-commit", "exit 1")
    hook(repo, "commit-msg", 'echo by husky >> "$1"', ".husky")
    changed(repo)
    claude("ann").commit("a.py")
    assert "by husky" in git("log", "-1", "--format=%B", cwd=repo)


def test_the_guards_own_hooks_know_who_commits(repo: Path, tb: Tb) -> None:
    tb.ok("guard", "install")
    tb.ok("hold", "a.py", "--as", "alice")
    changed(repo)
    tb.ok("commit", "a.py", "-m", "Mine", "--as", "alice")
    assert git("log", "-1", "--format=%B", cwd=repo).count("Tiebreak-Agent: alice") <= 1


def test_a_hook_that_looks_at_the_index_sees_the_commit_and_not_what_others_staged(claude: Start, repo: Path) -> None:
    hook(repo, "pre-commit", "git diff --cached --name-only > .git/seen; git diff --name-only >> .git/seen")
    git("update-index", "--skip-worktree", "docs/c.md", cwd=repo)
    (repo / "docs/c.md").unlink()
    (repo / "src/b.py").write_text("staged by ben\n")
    git("add", "src/b.py", cwd=repo)
    claude("ann", changed(repo)).commit("a.py")
    assert (repo / ".git/seen").read_text().split() == ["a.py", "src/b.py"]


# ── Maintenance ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("setting", "knows", "started"), [("true", True, 1), ("true", False, 2), ("false", True, 0)])
def test_maintenance_starts_in_the_background_if_it_is_wanted(
    claude: Start,
    repo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    setting: str,
    knows: bool,
    started: int,
) -> None:
    git("config", "maintenance.auto", setting, cwd=repo)
    real, calls = shutil.which("git"), tmp_path / "calls"
    calls.write_text("")
    detach = "" if knows else 'case "$*" in *--detach*) exit 129;; esac; '
    hook(
        tmp_path,
        "git",
        f'case "$*" in *" maintenance "*) echo "$@" >> {calls}; {detach}exit 0;; esac; exec {real} "$@"',
        "bin",
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    claude("ann", changed(repo)).commit("a.py")
    lines = calls.read_text().splitlines()
    assert len(lines) == started
    assert ["--detach" in line for line in lines] == [True, False][:started]


# ── Signatures and names ─────────────────────────────────────────────────────────────────────────────


def signing(repo: Path, folder: Path) -> Path:
    """The repository signs all commits with a key; returns the key."""
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=60)
    (folder / "signers").write_text(f"dana@example.org {(folder / 'key.pub').read_text()}")
    for name, value in (
        ("gpg.format", "ssh"),
        ("user.signingKey", str(key)),
        ("commit.gpgSign", "true"),
        ("gpg.ssh.allowedSignersFile", str(folder / "signers")),
    ):
        git("config", name, value, cwd=repo)
    return key


def test_a_commit_is_signed_where_the_repository_signs(claude: Start, repo: Path, tmp_path: Path) -> None:
    signing(repo, tmp_path)
    claude("ann", changed(repo)).commit("a.py")
    git("verify-commit", "HEAD", cwd=repo)
    assert git("log", "-1", "--format=%G? %GS", cwd=repo) == "G dana@example.org\n"


def test_a_commit_that_cannot_be_signed_is_not_made(claude: Start, repo: Path, tmp_path: Path) -> None:
    signing(repo, tmp_path).unlink()
    before = git("rev-parse", "HEAD", cwd=repo)
    with pytest.raises(Refused, match="commit-tree"):
        claude("ann", changed(repo)).commit("a.py")
    assert git("rev-parse", "HEAD", cwd=repo) == before
    assert git("status", "--porcelain", cwd=repo) == " M a.py\n"


def test_without_a_name_nothing_is_committed_and_git_says_what_is_missing(repo: Path, tb: Tb) -> None:
    git("config", "user.name", "", cwd=repo)
    git("config", "user.useConfigOnly", "true", cwd=repo)
    before = git("rev-parse", "HEAD", cwd=repo)
    answer = tb("commit", "a.py", "-m", "x", cwd=changed(repo))
    assert answer.code == 1
    assert "Traceback" not in answer.err
    assert answer.err.startswith("tb: git does not know who commits: empty ident name")
    assert "git config user.name" in answer.err
    assert git("rev-parse", "HEAD", cwd=repo) == before
