"""The git guard: real commits and pushes, refused when they are not one's own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak.guard.commits.git_hooks import NAMES, line

from ..cli.command import Answer, Tb
from .actors import Claude, git

Start = Callable[..., Claude]


@pytest.fixture
def guarded(repo: Path, tb: Tb) -> Path:
    """A repository with the guard in its hooks."""
    tb.ok("guard", "install")
    return repo


def run(tb: Tb, *words: str, cwd: Path, **environ: str) -> Answer:
    """A git command as an agent runs it in its shell."""
    done = subprocess.run(
        ["git", *words],
        cwd=cwd,
        env=tb.changed({**environ}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def dirty(repo: Path, *names: str) -> None:
    for name in names:
        (repo / name).write_text((repo / name).read_text() + "changed\n")


def test_a_commit_with_anothers_file_is_refused_and_told_who(guarded: Path, tb: Tb, claude: Start) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    dirty(guarded, "src/b.py")
    refused = run(tb, "commit", "-a", "-m", "all", cwd=guarded, CLAUDE_SESSION_ID="ben")
    assert refused.code == 1
    assert f"this commit has files that others hold: a.py by {ann.name}" in refused.err
    assert "tb commit" in refused.err
    assert run(tb, "commit", "-a", "-m", "all", cwd=guarded, CLAUDE_SESSION_ID="ann").code == 0


def test_a_worktree_is_guarded_by_the_same_hooks(guarded: Path, tb: Tb, claude: Start, tmp_path: Path) -> None:
    git("worktree", "add", "--quiet", str(tmp_path / "tree"), cwd=guarded)
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    dirty(tmp_path / "tree", "a.py")
    refused = run(tb, "commit", "-a", "-m", "mine", cwd=tmp_path / "tree", CLAUDE_SESSION_ID="ben")
    assert f"a.py by {ann.name}" in refused.err


def test_a_commit_says_who_made_it_for_which_task_under_which_epoch(guarded: Path, tb: Tb, claude: Start) -> None:
    ann = claude("ann")
    ann.board.tasks.claim(ref="login")
    ann.edit("a.py", "one", "ONE")
    assert run(tb, "commit", "-a", "-m", "Move the login", cwd=guarded, CLAUDE_SESSION_ID="ann").code == 0
    body = git("log", "-1", "--format=%B", cwd=guarded)
    assert body.startswith("Move the login\n\n")
    assert body.splitlines()[2:] == [f"Tiebreak-Agent: {ann.name}", f"Tiebreak-Grant: login epoch 1 of {ann.name}", ""]
    amended = run(tb, "commit", "--amend", "--no-edit", "--allow-empty", cwd=guarded, CLAUDE_SESSION_ID="ann")
    assert amended.code == 0
    assert git("log", "-1", "--format=%B", cwd=guarded) == body


@pytest.mark.parametrize("words", [["--no-edit"], ["-m", "bring the rest"]])
def test_a_merge_has_its_trailer_below_the_subject(guarded: Path, tb: Tb, claude: Start, words: list[str]) -> None:
    ann = claude("ann")
    git("checkout", "--quiet", "-b", "side", cwd=guarded)
    git("commit", "--quiet", "--allow-empty", "-m", "aside", cwd=guarded)
    git("checkout", "--quiet", "main", cwd=guarded)
    assert run(tb, "merge", "--no-ff", *words, "side", cwd=guarded, CLAUDE_SESSION_ID="ann").code == 0
    assert git("log", "-1", "--format=%(trailers)", cwd=guarded).strip() == f"Tiebreak-Agent: {ann.name}"
    assert "Tiebreak" not in git("log", "-1", "--format=%s", cwd=guarded)


def test_commits_of_a_person_without_a_claim_get_no_trailers(guarded: Path, tb: Tb) -> None:
    dirty(guarded, "a.py")
    assert run(tb, "commit", "-a", "-m", "by hand", cwd=guarded).code == 0
    assert "Tiebreak" not in git("log", "-1", "--format=%B", cwd=guarded)


def lose_claim(ann: Claude, ben: Claude) -> None:
    """Ann worked on a task, fell silent, and ben has it now."""
    ann.board.tasks.claim(ref="login")
    ann.say("PostToolUse", tool_name="Grep", tool_input={}, tool_use_id="t", tool_response="")
    ann.stop()
    ann.board.tasks.release(ref="login")
    ben.board.tasks.claim(ref="login")


def test_an_agent_that_lost_its_claim_can_neither_commit_nor_push(
    guarded: Path, tb: Tb, claude: Start, tmp_path: Path
) -> None:
    git("init", "--quiet", "--bare", str(tmp_path / "far.git"), cwd=guarded)
    git("remote", "add", "far", str(tmp_path / "far.git"), cwd=guarded)
    ann, ben = claude("ann"), claude("ben")
    lose_claim(ann, ben)
    dirty(guarded, "a.py")
    for words in (("commit", "-a", "-m", "late"), ("push", "far", "main")):
        refused = run(tb, *words, cwd=guarded, CLAUDE_SESSION_ID="ann")
        assert refused.code == 1, words
        assert (
            f"your grant (epoch 1) is not the current one any more (claimed, epoch 2, held by {ben.name})"
            in refused.err
        )
    assert run(tb, "commit", "-a", "-m", "mine", cwd=guarded, CLAUDE_SESSION_ID="ben").code == 0
    assert run(tb, "push", "far", "main", cwd=guarded, CLAUDE_SESSION_ID="ben").code == 0


def test_a_commit_made_under_an_old_epoch_does_not_leave_by_its_makers_hand(
    guarded: Path, tb: Tb, claude: Start, tmp_path: Path
) -> None:
    git("init", "--quiet", "--bare", str(tmp_path / "far.git"), cwd=guarded)
    git("remote", "add", "far", str(tmp_path / "far.git"), cwd=guarded)
    ann, ben = claude("ann"), claude("ben")
    ann.board.tasks.claim(ref="login")
    ann.edit("a.py", "one", "ONE")
    assert run(tb, "commit", "-a", "-m", "early", cwd=guarded, CLAUDE_SESSION_ID="ann").code == 0
    ann.board.tasks.release(ref="login")
    ben.board.tasks.claim(ref="login")
    refused = run(tb, "push", "far", "main", cwd=guarded, CLAUDE_SESSION_ID="ann")
    assert "your grant (epoch 1) is not the current one any more" in refused.err
    assert run(tb, "push", "far", "main", cwd=guarded, CLAUDE_SESSION_ID="ben").code == 0


@pytest.mark.parametrize(("epoch", "code"), [("1", 0), ("2", 1), ("", 0), ("x", 2)])
def test_the_grant_that_the_environment_names_is_checked(
    guarded: Path, tb: Tb, claude: Start, epoch: str, code: int
) -> None:
    ann = claude("ann")
    ann.board.tasks.claim(ref="login")
    named = {"TIEBREAK_TASK": "login", "TIEBREAK_EPOCH": epoch, "CLAUDE_SESSION_ID": "ann"}
    assert tb("guard", "check", "pre-commit", cwd=guarded, env={**named}).code == code


def test_a_task_that_is_done_and_deleted_stops_no_commit(guarded: Path, tb: Tb, claude: Start) -> None:
    ann = claude("ann")
    ann.board.tasks.claim(ref="login")
    ann.board.tasks.complete(ref="login")
    ann.board.tasks.post("newer")  # the newest one is never deleted
    assert ann.board.upkeep.prune(older_than=0).tasks == 1
    named = {"TIEBREAK_TASK": "login", "CLAUDE_SESSION_ID": "ann"}
    dirty(guarded, "a.py")
    assert run(tb, "commit", "-am", "x", cwd=guarded, **named, TIEBREAK_EPOCH="1").code == 0
    assert git("log", "-1", "--format=%(trailers)", cwd=guarded).strip() == f"Tiebreak-Agent: {ann.name}"
    dirty(guarded, "a.py")
    assert run(tb, "commit", "-am", "x", cwd=guarded, **named).code != 0, "it may be misspelt"


def test_a_board_that_cannot_be_reached_stops_nobody_unless_the_policy_says_so(guarded: Path, tb: Tb) -> None:
    dirty(guarded, "a.py")
    nowhere = {"TIEBREAK_BOARD": "unix:/nowhere/at/all"}
    open_answer = run(tb, "commit", "-a", "-m", "x", cwd=guarded, **nowhere)
    assert open_answer.code == 0
    assert "tb: " in open_answer.err
    git("config", "tiebreak.hooks", "closed", cwd=guarded)
    dirty(guarded, "a.py")
    assert run(tb, "commit", "-a", "-m", "x", cwd=guarded, **nowhere).code != 0


# ── Installing ───────────────────────────────────────────────────────────────────────────────────────


def hook(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_a_hook_that_was_there_runs_first_gets_its_input_and_comes_back(repo: Path, tb: Tb, tmp_path: Path) -> None:
    hooks = repo / ".git" / "hooks"
    hook(hooks / "pre-commit", f"echo before >> {tmp_path}/seen")
    hook(hooks / "pre-push", f"cat >> {tmp_path}/seen")
    before = {name: (hooks / name).read_bytes() for name in ("pre-commit", "pre-push")}
    tb.ok("guard", "install")
    tb.ok("guard", "install")
    git("init", "--quiet", "--bare", str(tmp_path / "far.git"), cwd=repo)
    dirty(repo, "a.py")
    assert run(tb, "commit", "-a", "-m", "x", cwd=repo).code == 0
    assert run(tb, "push", str(tmp_path / "far.git"), "main", cwd=repo).code == 0
    assert (tmp_path / "seen").read_text().startswith("before\nrefs/heads/main ")
    tb.ok("guard", "uninstall")
    assert {name: (hooks / name).read_bytes() for name in before} == before
    assert not (hooks / "prepare-commit-msg").exists()
    assert not list(hooks.glob("*.before-tiebreak"))


def test_a_hook_that_was_there_can_still_refuse(repo: Path, tb: Tb) -> None:
    hook(repo / ".git" / "hooks" / "pre-commit", "echo lint >&2; exit 7")
    tb.ok("guard", "install")
    dirty(repo, "a.py")
    refused = run(tb, "commit", "-a", "-m", "x", cwd=repo)
    assert refused.code != 0
    assert "lint" in refused.err


def test_hooks_in_a_folder_of_the_repositorys_own_choice_are_found(repo: Path, tb: Tb) -> None:
    git("config", "core.hooksPath", ".githooks", cwd=repo)
    tb.ok("guard", "install")
    assert sorted(path.name for path in (repo / ".githooks").iterdir()) == sorted(NAMES)
    assert tb("guard", "status").code == 0


def test_husky_is_told_what_to_add_and_believed_when_it_has_it(repo: Path, tb: Tb) -> None:
    git("config", "core.hooksPath", ".husky/_", cwd=repo)
    (repo / ".husky" / "_").mkdir(parents=True)
    refused = tb("guard", "install")
    assert refused.code == 1
    assert "husky" in refused.err
    assert 'tb guard check pre-commit -- "$@"' in refused.err
    assert list((repo / ".husky" / "_").iterdir()) == []
    assert 'tb guard check pre-merge-commit -- "$@"' in refused.err
    for name in NAMES:
        (repo / ".husky" / name).write_text(line(name) + "\n")
    assert "already" in tb.ok("guard", "install")
    assert tb("guard", "status").code == 0


def test_the_hook_that_husky_does_not_know_is_put_beside_its_own(repo: Path, tb: Tb) -> None:
    git("config", "core.hooksPath", ".husky/_", cwd=repo)
    (repo / ".husky" / "_").mkdir(parents=True)
    for name in NAMES[:-1]:
        (repo / ".husky" / name).write_text(line(name) + "\n")
    tb.ok("guard", "install")
    assert [path.name for path in (repo / ".husky" / "_").iterdir()] == ["reference-transaction"]
    assert tb("guard", "status").code == 0
    tb.ok("guard", "uninstall")
    assert list((repo / ".husky" / "_").iterdir()) == []


def test_an_installation_of_an_older_version_is_completed(repo: Path, tb: Tb) -> None:
    hooks = repo / ".git" / "hooks"
    for name in ("pre-commit", "prepare-commit-msg", "pre-push"):
        hook(hooks / name, f"# tiebreak guard: `tb guard uninstall` takes it away again.\ntb guard check {name}")
    hook(hooks / "pre-commit.before-tiebreak", "exit 0")
    assert tb("guard", "status").code == 1
    said = tb.ok("guard", "install")
    assert "pre-commit: brought up to date" in said
    assert "reference-transaction: installed" in said
    assert tb("guard", "status").code == 0
    assert tb.ok("guard", "status").split()[::2] == list(NAMES)
    assert "pre-commit: already installed" in tb.ok("guard", "install")
    tb.ok("guard", "uninstall")
    assert [path.name for path in hooks.iterdir() if "." not in path.name] == ["pre-commit"]


def test_a_chained_hook_gets_the_words_and_the_whole_input_of_git(repo: Path, tb: Tb, tmp_path: Path) -> None:
    hook(repo / ".git/hooks/reference-transaction", f'echo "$@" >> {tmp_path}/words; cat >> {tmp_path}/seen')
    tb.ok("guard", "install")
    commit = git("rev-parse", "HEAD", cwd=repo).strip()
    refs = [f"refs/heads/b{number}" for number in range(300)]
    git("update-ref", "--stdin", cwd=repo, input="".join(f"create {ref} {commit}\n" for ref in refs))
    assert (tmp_path / "words").read_text() == "prepared\ncommitted\n"
    assert sorted((tmp_path / "seen").read_text().splitlines()) == sorted(
        2 * [f"{'0' * 40} {commit} {ref}" for ref in refs]
    )


def test_a_chained_hook_can_refuse_a_move_of_a_branch(repo: Path, tb: Tb) -> None:
    hook(repo / ".git/hooks/reference-transaction", "grep -q refs/heads/wip && exit 1; exit 0")
    tb.ok("guard", "install")
    assert run(tb, "branch", "wip", cwd=repo).code != 0
    assert run(tb, "branch", "good", cwd=repo).code == 0


def test_git_starts_no_python_unless_a_branch_gets_new_commits(guarded: Path, tb: Tb, tmp_path: Path) -> None:
    far = tmp_path / "far"
    git("clone", "-q", str(guarded), str(far), cwd=tmp_path)
    for number in range(5):
        git("branch", f"b{number}", cwd=far)
    hook(tmp_path / "bin/tb", f'echo "$@" >> {tmp_path}/started')
    path = f"{tmp_path / 'bin'}:{tb.environment['PATH']}"

    def started(script: str, **environ: str) -> list[str]:
        done = subprocess.run(
            ["sh", "-ec", script],
            cwd=guarded,
            env=tb.changed({"PATH": path, "CLAUDE_SESSION_ID": "ben", **environ}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done
        log = tmp_path / "started"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [each for each in lines if "reference-transaction" in each]

    checked = ["guard check reference-transaction -- prepared"]
    assert started("echo x >> a.py; git commit --no-verify -qam x") == checked
    quiet = (
        f"git fetch -q {far} 'refs/heads/*:refs/remotes/far/*'",
        "git tag t; git tag -am t u",
        "echo y >> a.py; git stash -q; git stash pop -q; git checkout -q -- a.py",
        "git branch new; git branch -m new newer; git switch -q newer; git merge -q --ff-only main; git switch -q main",
        "git worktree add -q ../tree; git worktree remove ../tree; git branch -qD newer",
        "git pack-refs --all; git gc -q; git reset -q --hard HEAD~1; git checkout -q --detach; git checkout -q main",
        "git symbolic-ref HEAD refs/heads/b; git symbolic-ref HEAD refs/heads/main",
    )
    for script in quiet:
        assert started(script) == [], script
    made = git("commit-tree", "-p", "HEAD", "-m", "x", "HEAD^{tree}", cwd=guarded).strip()
    assert started(f"git update-ref HEAD {made}", TIEBREAK_COMMIT=made) == [], "tb commit has checked it"
    other = git("commit-tree", "-p", "HEAD", "-m", "y", "HEAD^{tree}", cwd=guarded).strip()
    assert started(f"git update-ref HEAD {other}", TIEBREAK_COMMIT=made) == checked


def test_a_folder_of_hooks_for_all_repositories_is_left_alone(repo: Path, tb: Tb, tmp_path: Path) -> None:
    (tmp_path / "everywhere").mkdir()
    git("config", "core.hooksPath", str(tmp_path / "everywhere"), cwd=repo)
    assert tb("guard", "install").code == 1
    assert os.listdir(tmp_path / "everywhere") == []


def test_a_missing_tb_stops_nobody_unless_the_policy_says_so(guarded: Path) -> None:
    script = (guarded / ".git/hooks/pre-commit").read_text()
    lines = [
        "tb=$(command -v no-such-tb) || tb=/no/such" if line.startswith("tb=") else line for line in script.splitlines()
    ]
    hook(guarded / ".git/hooks/pre-commit", "\n".join(lines[1:]))
    dirty(guarded, "a.py")
    git("commit", "-a", "-m", "x", cwd=guarded)
    for chosen in ("closed", "Closed", "typo"):
        git("config", "tiebreak.hooks", chosen, cwd=guarded)
        assert not _commits(guarded)
    git("config", "--unset", "tiebreak.hooks", cwd=guarded)
    (guarded / ".tiebreak.toml").write_text('[hooks]\nfailure = "closed"\n')
    assert not _commits(guarded)
    git("config", "tiebreak.hooks", "open", cwd=guarded)
    assert _commits(guarded)
    git("config", "--unset", "tiebreak.hooks", cwd=guarded)
    (guarded / ".tiebreak.toml").write_text('[hooks]\nfailure = "open"  # for now\n')
    assert _commits(guarded)


def _commits(repo: Path) -> bool:
    """Whether a change can be committed."""
    dirty(repo, "a.py")
    return subprocess.run(["git", "commit", "-am", "x"], cwd=repo, capture_output=True, check=False).returncode == 0
