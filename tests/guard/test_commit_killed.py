"""A `tb commit` that is killed leaves nothing that the next one does not put right, whenever it happens."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tiebreak import Refused
from tiebreak.guard.commits import commit as module
from tiebreak.guard.commits import private_index

from ..cli.command import TB, Tb
from .actors import Claude, git, repository

Start = Callable[..., Claude]

KILLER = """#!/bin/sh
# A git that counts its calls by tb, and kills tb before or after one of them.
mine=$(cat "$KILL_FOLDER/tb" 2>/dev/null)
if [ "$PPID" != "$mine" ]; then exec "$REAL_GIT" "$@"; fi
echo "$@" >> "$KILL_FOLDER/calls"
number=$(wc -l < "$KILL_FOLDER/calls")
if [ "$number" = "$KILL_AT" ] && [ "$KILL_WHEN" = before ]; then kill -9 "$PPID"; exit 1; fi
"$REAL_GIT" "$@"
code=$?
if [ "$number" = "$KILL_AT" ]; then kill -9 "$PPID"; fi
exit $code
"""


def killed_at(number: int, when: str, repo: Path, tb: Tb, folder: Path) -> bool:
    """Commit, and be killed at this call of git; whether there was such a call."""
    (folder / "calls").write_text("")
    begin = 'echo $$ > "$KILL_FOLDER/tb"; exec "$0" "$@"'
    environ = {
        "PATH": f"{folder}:{tb.environment['PATH']}",
        "REAL_GIT": str(shutil.which("git")),
        "KILL_FOLDER": str(folder),
        "KILL_AT": str(number),
        "KILL_WHEN": when,
    }
    words = ["sh", "-c", begin, TB, "commit", "src", "gone", "-m", "killed"]
    done = subprocess.run(words, cwd=repo, env=tb.changed(dict(environ)), capture_output=True, check=False, timeout=120)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def prepare(folder: Path) -> Path:
    """A repository with a marked file, something that somebody else has staged, and changes of each kind."""
    repo = repository(folder, {"src/a": "a\n", "src/marked": "m\n", "theirs": "t\n", "gone": "g\n", "later": "l\n"})
    git("update-index", "--skip-worktree", "src/marked", cwd=repo)
    (repo / "src/marked").write_text("local\n")
    (repo / "theirs").write_text("staged\n")
    git("add", "theirs", cwd=repo)
    (repo / "src/a").write_text("staged before\n")
    git("add", "src/a", cwd=repo)
    (repo / "src/a").write_text("A\n")
    (repo / "src/new").write_text("new\n")
    (repo / "gone").unlink()
    return repo


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_between_any_two_calls_of_git_the_next_commit_puts_everything_right(
    tmp_path: Path, tb: Tb, when: str
) -> None:
    killer = tmp_path / "killer"
    killer.mkdir()
    (killer / "git").write_text(KILLER)
    (killer / "git").chmod(0o755)
    number, moved = 1, set()
    while killed_at(number, when, repo := prepare(tmp_path / f"{number}"), tb, killer):
        committed = git("log", "-1", "--format=%s", cwd=repo) == "killed\n"
        moved.add(committed)
        (repo / "later").write_text("changed\n")
        answer = tb("commit", "later", "-m", "next", cwd=repo)
        assert answer.code == 0, answer
        left = ["M  theirs"] if committed else ["MM src/a", " D gone", "M  theirs", "?? src/new"]
        assert sorted(git("status", "--porcelain", cwd=repo).splitlines()) == sorted(left), number
        assert "S src/marked" in git("ls-files", "-v", cwd=repo).splitlines()
        assert git("show", "HEAD:src/marked", cwd=repo) == "m\n"
        names = {path.name for path in (repo / ".git").iterdir() if path.name.startswith("tiebreak")}
        assert names == {"tiebreak-commit.lock", "tiebreak-project"}
        shutil.rmtree(repo)
        number += 1
    assert moved == {True, False}
    assert number > 10


def killed_before_the_index(claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit a.py, and end between the branch and the index."""

    def killed(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(module, "set_entries", killed)
        with pytest.raises(SystemExit):
            claude("ann").commit("a.py")
    assert git("status", "--porcelain", cwd=repo).splitlines()[0] == "MM a.py"


def test_a_staged_mode_that_is_not_on_disk_stays_staged_after_an_interrupted_commit(
    claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git("config", "core.fileMode", "false", cwd=repo)
    git("update-index", "--chmod=+x", "a.py", cwd=repo)
    (repo / "a.py").write_text("mine\n")
    killed_before_the_index(claude, repo, monkeypatch)
    (repo / "src/b.py").write_text("B\n")
    claude("ben").commit("src/b.py")
    assert git("show", ":a.py", cwd=repo) == "mine\n"
    assert git("ls-files", "-s", "a.py", cwd=repo).startswith("100755")


def test_what_somebody_staged_after_an_interrupted_commit_stays_staged(
    claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repo / "a.py").write_text("mine\n")
    killed_before_the_index(claude, repo, monkeypatch)
    (repo / "a.py").write_text("newer\n")
    git("add", "a.py", cwd=repo)
    (repo / "src/b.py").write_text("B\n")
    claude("ben").commit("src/b.py")
    assert git("show", ":a.py", cwd=repo) == "newer\n"


def test_an_interrupted_commit_that_was_taken_back_does_not_come_again(
    claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repo / "a.py").write_text("mine\n")
    killed_before_the_index(claude, repo, monkeypatch)
    git("update-ref", "refs/heads/main", "HEAD~1", cwd=repo)
    (repo / "src/b.py").write_text("B\n")
    claude("ben").commit("src/b.py")
    assert git("show", ":a.py", cwd=repo) == "one\ntwo\n"
    assert git("status", "--porcelain", cwd=repo) == " M a.py\n"


def test_while_another_process_has_the_index_locked_the_commit_waits(
    claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, waits = repo / ".git/index.lock", list[float]()
    hook = repo / ".git/hooks/reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\n[ "$1" = committed ] && : > {lock}\nexit 0\n')
    hook.chmod(0o755)

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        lock.unlink()

    monkeypatch.setattr(private_index, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    (repo / "a.py").write_text("mine\n")
    claude("ann").commit("a.py")
    assert len(waits) == 1
    assert git("status", "--porcelain", cwd=repo) == ""


def test_an_index_that_stays_locked_is_repaired_by_the_next_commit(
    claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = claude("ann")
    with monkeypatch.context() as patch:
        patch.setattr(private_index, "PATIENCE", 0.0)
        (repo / "a.py").write_text("mine\n")
        lock = repo / ".git/index.lock"
        lock.touch()
        with pytest.raises(Refused, match=r"committed as .* could not be brought up to date"):
            ann.commit("a.py")
    lock.unlink()
    (repo / "src/b.py").write_text("B\n")
    ann.commit("src/b.py")
    assert git("status", "--porcelain", cwd=repo) == ""
