"""`tb commit` beside other commands of git that have the branch or the index locked."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tiebreak import Refused
from tiebreak.guard.commits import private_index

from ..cli.command import TB, Tb
from .actors import Claude, git

Start = Callable[..., Claude]
EACH = 5
RETRIED = "until git commit -q -m {0} -- {0}; do tries=$((tries+1)); [ $tries -lt 300 ] || exit 1; sleep 0.05; done"
"""git does not wait for the locks of others, so a person tries again."""


@pytest.mark.parametrize("name", ["refs/heads/main.lock", "HEAD.lock"])
def test_while_another_process_has_the_branch_locked_the_commit_waits(
    claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    lock, waits = repo / ".git" / name, list[float]()
    lock.touch()

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            lock.unlink()

    monkeypatch.setattr(private_index, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    (repo / "a.py").write_text("mine\n")
    claude("ann").commit("a.py")
    assert len(waits) == 3
    assert git("status", "--porcelain", cwd=repo) == ""


def test_a_branch_that_stays_locked_is_told_without_the_advice_to_remove_anything(
    claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_index, "PATIENCE", 0.0)
    (repo / ".git/refs/heads/main.lock").touch()
    (repo / "a.py").write_text("mine\n")
    with pytest.raises(Refused, match=r"^main has been locked by another command of git for 0 s$") as refused:
        claude("ann").commit("a.py")
    assert "nothing was committed" in refused.value.hint
    assert "remove" not in str(refused.value.to_dict())
    assert git("status", "--porcelain", cwd=repo) == " M a.py\n"


def test_commits_by_tb_and_by_git_at_once_are_all_made_once(repo: Path, tb: Tb) -> None:
    tb.ok("guard", "install")
    mine, theirs = ([f"{who}{number}" for number in range(EACH)] for who in ("tb", "git"))
    for content in ("before\n", "after\n"):
        for name in mine + theirs:
            (repo / name).write_text(content)
        if content == "before\n":
            git("add", "--all", cwd=repo)
            git("commit", "--quiet", "-m", "files", cwd=repo)
    start = threading.Barrier(2 * EACH)
    failed: list[str] = []

    def run(*words: str) -> None:
        start.wait(60)
        done = subprocess.run(words, cwd=repo, env=tb.changed({}), capture_output=True, text=True, check=False)
        if done.returncode:
            failed.append(f"{words}: {done.stderr}")

    commands: list[tuple[str, ...]] = [(TB, "commit", name, "-m", name) for name in mine]
    commands += [("sh", "-c", RETRIED.format(name)) for name in theirs]
    threads = [threading.Thread(target=run, args=words) for words in commands]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failed == []
    made = git("log", "--format=%s", "--name-only", f"-{2 * EACH}", cwd=repo).split()
    assert sorted(made) == sorted([*mine, *mine, *theirs, *theirs])
    assert int(git("rev-list", "--count", "HEAD", cwd=repo)) == 2 * EACH + 2
    assert git("status", "--porcelain", cwd=repo) == ""
