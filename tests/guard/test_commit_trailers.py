"""The trailers of commits: each grant is checked before a push, and only what somebody wrote gets trailers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak.guard.commits.commit_trailers import grants_of

from ..cli.command import Answer, Tb
from .actors import Claude, git

Start = Callable[..., Claude]
DASHES = "subject\n\nbody\n\n---\nbelow a line of dashes"


class Checkout:
    """A guarded checkout with a remote, in which git runs as an agent."""

    def __init__(self, tb: Tb, root: Path) -> None:
        self.tb = tb
        self.root = root

    def git(self, *words: str, agent: str = "ann", **environ: str) -> Answer:
        """A git command of an agent; with "" of a person."""
        named = {"CLAUDE_SESSION_ID": agent} if agent else {}
        done = subprocess.run(
            ["git", *words],
            cwd=self.root,
            env=self.tb.changed({**named, "GIT_EDITOR": "true", **environ}),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def change(self, name: str = "a.py", line: str = "more\n") -> None:
        (self.root / name).write_text((self.root / name).read_text() + line if (self.root / name).exists() else line)
        git("add", name, cwd=self.root)

    def trailers(self, revision: str = "HEAD") -> list[str]:
        shown = git("log", "-1", "--format=%(trailers:only,unfold)", revision, cwd=self.root)
        return [line for line in shown.splitlines() if line.startswith("Tiebreak-")]

    def head(self) -> str:
        return git("rev-parse", "HEAD", cwd=self.root).strip()


@pytest.fixture
def here(repo: Path, tb: Tb, tmp_path: Path) -> Checkout:
    git("init", "--quiet", "--bare", str(tmp_path / "far"), cwd=repo)
    git("remote", "add", "far", str(tmp_path / "far"), cwd=repo)
    git("push", "--quiet", "far", "main", cwd=repo)
    tb.ok("guard", "install")
    return Checkout(tb, repo)


def pass_on(ann: Claude, ben: Claude, task: str) -> None:
    ann.board.tasks.release(ref=task)
    ben.board.tasks.claim(ref=task)


# ── Before a push ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("lost", ["login", "logout"])
def test_no_grant_of_several_with_one_epoch_is_forgotten(here: Checkout, claude: Start, lost: str) -> None:
    ann, ben = claude("ann"), claude("ben")
    for task in ("login", "logout"):
        ann.board.tasks.claim(ref=task)
    here.change()
    ann.commit("a.py")
    assert here.trailers()[1:] == [f"Tiebreak-Grant: {task} epoch 1 of {ann.name}" for task in ("login", "logout")]
    pass_on(ann, ben, lost)
    refused = here.git("push", "far", "main")
    assert refused.code == 1
    assert f"{lost}: your grant (epoch 1) is not the current one any more" in refused.err


@pytest.mark.parametrize("by_git", [True, False])
def test_a_line_of_dashes_in_the_message_does_not_hide_the_trailers(
    here: Checkout, claude: Start, *, by_git: bool
) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.board.tasks.claim(ref="login")
    here.change()
    if by_git:
        assert here.git("commit", "-m", DASHES).code == 0
    else:
        ann.commit("a.py", message=DASHES)
    assert here.trailers() == [f"Tiebreak-Agent: {ann.name}", f"Tiebreak-Grant: login epoch 1 of {ann.name}"]
    pass_on(ann, ben, "login")
    assert here.git("push", "far", "main").code == 1


@pytest.mark.parametrize(
    ("lines", "grants"),
    [
        ("Tiebreak-Grant: log in epoch 2 of ann\nTiebreak-Grant: b epoch 2 of ann", [("log in", 2), ("b", 2)]),
        ("Tiebreak-Grant: a epoch 1 of ben\nTiebreak-Grant: b of x epoch 2 of ann", [("b of x", 2)]),
        ("Tiebreak-Grant: b epoch 2\nTiebreak-Agent: ann", [("b", 2)]),
        ("Tiebreak-Agent: ann\nTiebreak-Task: a\nTiebreak-Epoch: 2\nTiebreak-Task: b\nTiebreak-Epoch: 3", None),
        # Older versions left out an epoch that was there already.
        ("Tiebreak-Agent: ann\nTiebreak-Task: a\nTiebreak-Epoch: 2\nTiebreak-Task: b", [("a", 2), ("b", 2)]),
        ("Tiebreak-Agent: ann\nTiebreak-Task: a", [("a", 0)]),
        ("Tiebreak-Agent: ann\nTiebreak-Grant: a", [("a", 0)]),
        ("Signed-off-by: ann", []),
    ],
)
def test_every_grant_of_a_commit_is_read(lines: str, grants: list[tuple[str, int]] | None) -> None:
    assert grants_of("ann", lines) == (grants if grants is not None else [("a", 2), ("b", 3)])


def test_each_grant_of_a_commit_that_agents_amend_in_turn_is_its_own_agents(here: Checkout, claude: Start) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.board.tasks.claim(ref="first")
    ben.board.tasks.claim(ref="second")
    here.change()
    assert here.git("commit", "-m", "x").code == 0
    assert here.git("commit", "--amend", "--no-edit", agent="ben").code == 0
    ann.board.tasks.claim(ref="third")
    assert here.git("commit", "--amend", "--no-edit").code == 0
    lines = "\n".join(here.trailers())
    assert grants_of(ann.name, lines) == [("first", 1), ("third", 1)]
    assert grants_of(ben.name, lines) == [("second", 1)]
    pass_on(ann, ben, "third")
    assert here.git("push", "far", "main").code == 1


@pytest.mark.parametrize(
    "setting",
    [
        "trailer.where=start",
        "trailer.ifmissing=doNothing",
        "trailer.ifexists=replace",
        "trailer.separators==",
        "trailer.tiebreak-grant.ifmissing=doNothing",
    ],
)
def test_settings_of_the_user_do_not_change_the_trailers(here: Checkout, claude: Start, setting: str) -> None:
    ann, ben = claude("ann"), claude("ben")
    for task in ("login", "logout"):
        ann.board.tasks.claim(ref=task)
    git("config", *setting.split("=", 1), cwd=here.root)
    here.change()
    ann.commit("a.py", message="x\n\nReviewed-by: dana")
    shown = git("log", "-1", "--format=%B", cwd=here.root).split()
    assert [word for word in shown if word.startswith("Tiebreak-")] == [
        "Tiebreak-Agent:",
        "Tiebreak-Grant:",
        "Tiebreak-Grant:",
    ]
    assert shown[-5:] == ["logout", "epoch", "1", "of", ann.name]
    pass_on(ann, ben, "logout")
    assert here.git("push", "far", "main").code == 1


# ── Commits that somebody gives up ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("words", [[], ["-v"], ["-s"], ["-t", "template"], ["-c", "commit.template=template"]])
def test_a_commit_that_is_given_up_in_the_editor_is_not_made(here: Checkout, claude: Start, words: list[str]) -> None:
    claude("ann").board.tasks.claim(ref="login")
    (here.root / "template").write_text("What and why?\n# a comment\n")
    here.change()
    before = here.head()
    options = [*words, "commit"] if words[:1] == ["-c"] else ["commit", *words]
    refused = here.git(*options)
    assert refused.code == 1, refused
    assert here.head() == before
    assert here.git("commit", "-m", "").code == 1
    assert here.head() == before


@pytest.mark.parametrize("words", [[], ["-v"], ["-t", "template"]])
def test_a_message_that_is_written_in_the_editor_gets_its_trailers(
    here: Checkout, claude: Start, words: list[str]
) -> None:
    ann = claude("ann")
    (here.root / "template").write_text("What and why?\n")
    here.change()
    writes = """sh -c 'printf "Why it is so\\n\\n" | cat - "$1" > "$1.new"; mv "$1.new" "$1"' --"""
    assert here.git("commit", *words, GIT_EDITOR=writes).code == 0
    assert here.trailers() == [f"Tiebreak-Agent: {ann.name}"]
    assert git("log", "-1", "--format=%s", cwd=here.root) == "Why it is so\n"
    here.change()
    before = here.head()
    assert here.git("commit", *words).code == 1
    assert here.head() == before


def test_a_message_that_a_hook_of_the_repository_wrote_gets_its_trailers(here: Checkout, claude: Start) -> None:
    ann = claude("ann")
    path = here.root / ".git/hooks/prepare-commit-msg.before-tiebreak"
    path.write_text('#!/bin/sh\n[ -n "$2" ] || { echo Written; cat "$1"; } > "$1.n" && mv "$1.n" "$1"\n')
    path.chmod(0o755)
    here.change()
    assert here.git("commit").code == 0
    assert git("log", "-1", "--format=%s", cwd=here.root) == "Written\n"
    assert here.trailers() == [f"Tiebreak-Agent: {ann.name}"]


@pytest.mark.parametrize("cleanup", ["whitespace", "verbatim", "scissors"])
def test_a_message_that_begins_like_a_comment_has_trailers_where_git_keeps_comments(
    here: Checkout, claude: Start, cleanup: str
) -> None:
    ann = claude("ann")
    git("config", "commit.cleanup", cleanup, cwd=here.root)
    here.change()
    assert here.git("commit", GIT_EDITOR="""sh -c 'echo "#12 is done" > "$1"' --""").code == 0
    assert here.trailers() == [f"Tiebreak-Agent: {ann.name}"]
    here.change()
    before = here.head()
    assert here.git("commit", GIT_EDITOR="""sh -c ': > "$1"' --""").code == 1
    assert here.head() == before


def test_a_subject_that_looks_like_a_comment_has_trailers(here: Checkout, claude: Start) -> None:
    ann = claude("ann")
    here.change()
    assert here.git("commit", "-m", "#12 is done").code == 0
    assert here.trailers() == [f"Tiebreak-Agent: {ann.name}"]


# ── Commits that are made anew ───────────────────────────────────────────────────────────────────────


@pytest.fixture
def beside(here: Checkout, claude: Start) -> Checkout:
    """On a branch beside main: a commit of a person, and one that ann made under a grant."""
    ann = claude("ann")
    ann.board.tasks.claim(ref="login")
    git("checkout", "--quiet", "-b", "side", cwd=here.root)
    here.change("by-dana.py")
    assert here.git("commit", "-m", "by dana", agent="").code == 0
    here.change("by-ann.py")
    assert here.git("commit", "-m", "by ann").code == 0
    git("checkout", "--quiet", "main", cwd=here.root)
    here.change("main.py")
    assert here.git("commit", "-m", "on main", agent="").code == 0
    return here


@pytest.mark.parametrize(
    "words",
    [
        ["rebase", "main", "side"],
        ["rebase", "--apply", "main", "side"],
        ["rebase", "-i", "--exec", "true", "main", "side"],
        ["cherry-pick", "side~1", "side"],
    ],
)
def test_a_commit_that_is_made_anew_keeps_the_trailers_of_its_author(
    beside: Checkout, claude: Start, words: list[str]
) -> None:
    ann, ben = claude("ann"), claude("ben")
    ben.board.tasks.claim(ref="other")
    assert beside.git(*words, agent="ben").code == 0
    assert beside.trailers("HEAD~1") == []
    assert beside.trailers() == [f"Tiebreak-Agent: {ann.name}", f"Tiebreak-Grant: login epoch 1 of {ann.name}"]


def test_a_reworded_or_squashed_commit_of_another_keeps_its_author(beside: Checkout, claude: Start) -> None:
    ann = claude("ann")
    claude("ben")
    edits = "sed -i -e 1s/pick/reword/ -e 2s/pick/squash/"
    assert beside.git("rebase", "-i", "main", "side", agent="ben", GIT_SEQUENCE_EDITOR=edits).code == 0
    assert git("rev-list", "--count", "main..side", cwd=beside.root) == "1\n"
    assert beside.trailers() == [f"Tiebreak-Agent: {ann.name}", f"Tiebreak-Grant: login epoch 1 of {ann.name}"]


def test_an_own_commit_that_was_rebased_under_another_grant_is_checked_under_its_first(
    beside: Checkout, claude: Start
) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.board.tasks.claim(ref="next")
    assert beside.git("rebase", "main", "side").code == 0
    pass_on(ann, ben, "login")
    assert beside.trailers() == [f"Tiebreak-Agent: {ann.name}", f"Tiebreak-Grant: login epoch 1 of {ann.name}"]
    refused = beside.git("push", "far", "side")
    assert refused.code == 1
    assert "login: your grant (epoch 1)" in refused.err
    assert beside.git("push", "far", "side", agent="ben").code == 0


def test_an_own_commit_in_the_middle_of_a_rebase_and_a_revert_have_trailers(beside: Checkout, claude: Start) -> None:
    ben = claude("ben")
    assert beside.git("rebase", "-i", "main", "side", agent="ben", GIT_SEQUENCE_EDITOR="sed -i 1s/pick/edit/").code == 0
    beside.change("between.py")
    assert beside.git("commit", "-m", "between", agent="ben").code == 0
    assert beside.trailers() == [f"Tiebreak-Agent: {ben.name}"]
    assert beside.git("rebase", "--continue", agent="ben").code == 0
    assert beside.git("revert", "--no-edit", "HEAD", agent="ben").code == 0
    assert beside.trailers() == [f"Tiebreak-Agent: {ben.name}"]
