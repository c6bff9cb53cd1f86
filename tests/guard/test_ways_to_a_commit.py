"""Every way that git has to a commit: none of them takes a held file along, and each refusal names a way back."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ..cli.command import Answer, Tb
from .actors import Claude, git

Start = Callable[..., Claude]
LINE = "a line that ann has written here and nobody else\n"


class Checkout:
    """A guarded checkout: git runs there as an agent, or as a person."""

    def __init__(self, tb: Tb, root: Path) -> None:
        self.tb = tb
        self.root = root

    def run(self, *words: str, agent: str = "ben", cwd: Path | None = None, **environ: str) -> Answer:
        """A command in the shell of an agent; with "" of a person."""
        named = {"CLAUDE_SESSION_ID": agent} if agent else {}
        done = subprocess.run(
            words,
            cwd=cwd or self.root,
            env=self.tb.changed({**named, **environ}),
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def git(self, *words: str, agent: str = "ben", **environ: str) -> Answer:
        """A git command of an agent."""
        return self.run("git", *words, agent=agent, cwd=None, **environ)

    def commit(self, message: str, **contents: str) -> str:
        """A person's commit of files, as it was made before anybody held one."""
        for name, content in contents.items():
            (self.root / name.replace("__", "/").replace("_", ".")).write_text(content)
        git("add", "--all", cwd=self.root)
        git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", message, cwd=self.root)
        return self.head()

    def head(self) -> str:
        return git("rev-parse", "HEAD", cwd=self.root).strip()

    def branch(self, name: str, **contents: str) -> None:
        """A branch with one commit more, beside main, which has one more, too."""
        git("checkout", "--quiet", "-b", name, cwd=self.root)
        self.commit(f"on {name}", **contents)
        git("checkout", "--quiet", "main", cwd=self.root)
        self.commit("on main", docs__c_md="c on main\n")


@pytest.fixture
def here(repo: Path, tb: Tb) -> Checkout:
    """A repository with the guard in its hooks."""
    tb.ok("guard", "install")
    return Checkout(tb, repo)


def hold(agent: Claude, name: str) -> None:
    """Hold a file without changing it."""
    content = (agent.cwd / name).read_text()
    agent.edit(name, content, content)


def plumbing(message: str = "x", *, ref: str = "HEAD") -> str:
    """A commit by the lowest commands of git."""
    return f"git add -A; git update-ref {ref} $(git commit-tree -p HEAD -m {message} $(git write-tree))"


# ── Each way is closed ───────────────────────────────────────────────────────────────────────────────

ABORT = r"`(git (?:stash push --staged|[a-z-]+ --abort))`"


@pytest.mark.parametrize(
    ("words", "way_back"),
    [
        ("git cherry-pick other", "git cherry-pick --abort"),
        ("git cherry-pick other~1 other", "git cherry-pick --abort"),
        ("git merge --no-ff -m m other", "git merge --abort"),
        ("git merge --no-ff --no-verify -m m other", "git merge --abort"),
        ("git pull --no-rebase --no-edit . other", "git merge --abort"),
        ("git revert --no-edit main~1", "git stash push --staged"),
        ("git revert --no-edit main main~1", "git revert --abort"),
        ("git format-patch -1 other --stdout | git am -3", "git am --abort"),
        ("git rebase --no-verify --onto other main~2", "git rebase --abort"),
        ("git rebase --no-verify --apply --onto other~1 main~2", "git rebase --abort"),
        ("git rebase --no-verify --root --force-rebase", "git rebase --abort"),
    ],
)
def test_an_operation_that_would_commit_a_held_file_is_refused_and_can_be_undone(
    here: Checkout, claude: Start, words: str, way_back: str
) -> None:
    here.branch("other", src__b_py="b on other\n")
    git("checkout", "--quiet", "other", cwd=here.root)
    here.commit("a on other", a_py="one\ntwo\nthree\n")
    git("checkout", "--quiet", "main", cwd=here.root)
    here.commit("a on main", a_py="zero\none\ntwo\n")
    here.commit("more on main", docs__c_md="c again\n")
    ann, before = claude("ann"), here.head()
    hold(ann, "a.py")
    # In the second in which a commit was made, a rebase makes the very same one.
    refused = here.run("sh", "-c", words, GIT_COMMITTER_DATE="2030-01-01T00:00:00Z")
    assert refused.code != 0, refused
    assert f"a.py by {ann.name}" in refused.err, refused
    assert re.findall(ABORT, refused.err) == [way_back], refused
    assert git("diff", "--name-only", before, "main", "--", "a.py", cwd=here.root) == ""
    done = here.run(*way_back.split())
    assert done.code == 0, done
    assert (here.head(), git("status", "--porcelain", cwd=here.root)) == (before, "")
    assert git("symbolic-ref", "HEAD", cwd=here.root) == "refs/heads/main\n"


@pytest.mark.parametrize(
    "words",
    [
        "git commit -am x",
        "git commit --no-verify -am x",
        "git commit --no-verify -m x a.py",
        "git commit --no-verify --amend --no-edit -a",
        "git stash && git stash branch new && git commit --no-verify -am x",
        "git switch -c new && git commit --no-verify -am x",
        "git checkout --detach && git commit --no-verify -am x",
        plumbing(),
        plumbing(ref="refs/heads/main"),
        plumbing(ref="refs/heads/new"),
        "git stash && git reset --hard stash@{0}",
        "git stash && git branch new stash@{0}",
        "git add -A; git branch new $(git commit-tree -p HEAD -m x $(git write-tree))",
    ],
)
def test_no_branch_ever_gets_a_commit_with_a_held_file(here: Checkout, claude: Start, words: str) -> None:
    ann, before = claude("ann"), here.head()
    ann.edit("a.py", "one", LINE)
    refused = here.run("sh", "-c", words)
    assert refused.code != 0, refused
    assert f"a.py by {ann.name}" in refused.err, refused
    assert "tb commit PATH" in refused.err
    assert set(git("for-each-ref", "--format=%(objectname)", "refs/heads", cwd=here.root).split()) == {before}
    assert LINE.strip() not in git("log", "--branches", "-p", cwd=here.root)


def test_a_squashed_merge_is_refused_when_it_is_committed(here: Checkout, claude: Start) -> None:
    here.branch("other", a_py="one\ntwo\nthree\n")
    ann = claude("ann")
    hold(ann, "a.py")
    assert here.git("merge", "--squash", "other").code == 0
    for words in (["commit", "-m", "x"], ["commit", "--no-verify", "-m", "x"]):
        assert f"a.py by {ann.name}" in here.git(*words).err


def test_a_rebase_is_refused_before_anything_is_changed(here: Checkout, claude: Start) -> None:
    here.branch("other", src__b_py="b on other\n")
    here.commit("a on main", a_py="zero\none\ntwo\n")
    ann, before = claude("ann"), here.head()
    hold(ann, "a.py")
    for words in (["rebase", "other"], ["pull", "--rebase", ".", "other"], ["rebase", "other", "main"]):
        refused = here.git(*words)
        assert refused.code != 0
        assert f"this rebase makes commits anew that have files which others hold: a.py by {ann.name}" in refused.err
        assert "nothing was changed" in refused.err
    assert (here.head(), git("status", "--porcelain", cwd=here.root)) == (before, "")


def test_a_rebase_does_not_change_files_under_the_hands_of_whoever_works_here(
    here: Checkout, claude: Start, tmp_path: Path
) -> None:
    here.branch("other", a_py="one\ntwo\nthree\n")
    git("worktree", "add", "--quiet", "-b", "beside", str(tmp_path / "tree"), "main", cwd=here.root)
    ann, before = claude("ann"), here.head()
    hold(ann, "a.py")
    refused = here.git("rebase", "other")
    assert f"this rebase would change files in this checkout that others hold: a.py by {ann.name}" in refused.err
    assert here.head() == before
    elsewhere = here.run("git", "rebase", "other", cwd=tmp_path / "tree")
    assert elsewhere.code == 0, elsewhere


def uncommitted(here: Checkout) -> tuple[str, ...]:
    """Staged and unstaged changes, one file with both, and an untracked file; what git and the disk say of them."""
    (here.root / "src/b.py").write_text("staged\n")
    git("add", "src/b.py", cwd=here.root)
    (here.root / "src/b.py").write_text("staged\nand changed\n")
    (here.root / "a.py").write_text("ann's work\n")
    (here.root / "new.py").write_text("new\n")
    return changes(here)


def changes(here: Checkout) -> tuple[str, ...]:
    commands = (("status", "--porcelain"), ("diff",), ("diff", "--cached"), ("stash", "list"), ("rev-parse", "HEAD"))
    return tuple(git(*words, cwd=here.root) for words in commands)


@pytest.mark.parametrize("backend", ["--merge", "--apply"])
@pytest.mark.parametrize("place", ["repo", "tree"])
def test_a_refused_rebase_gives_back_what_git_has_stashed_for_it(
    here: Checkout, claude: Start, tmp_path: Path, backend: str, place: str
) -> None:
    here.branch("other", docs__c_md="c on other\n")
    if place == "tree":
        git("worktree", "add", "--quiet", "-b", "beside", str(tmp_path / "tree"), "main", cwd=here.root)
        here.root = tmp_path / "tree"
    ann = claude("ann", here.root)
    hold(ann, "docs/c.md")
    before = uncommitted(here)
    refused = here.git("rebase", "--autostash", backend, "other")
    assert refused.code != 0
    assert f"others hold: docs/c.md by {ann.name}" in refused.err
    assert "nothing was changed" in refused.err
    assert changes(here) == before
    assert "rebas" not in git("status", cwd=here.root)
    again = here.git("-c", "rebase.autoStash=true", "pull", "--rebase", ".", "other")
    assert "nothing was changed" in again.err
    assert changes(here) == before


def test_changes_that_cannot_be_given_back_after_a_refused_rebase_are_found_by_the_commands_that_it_names(
    here: Checkout, claude: Start
) -> None:
    here.branch("other", docs__c_md="c on other\n")
    ann = claude("ann")
    hold(ann, "docs/c.md")
    before = uncommitted(here)
    hook = here.root / ".git/hooks/pre-rebase.before-tiebreak"
    hook.write_text("#!/bin/sh\necho in the way > a.py\n")
    hook.chmod(0o755)
    refused = here.git("rebase", "--autostash", "other")
    assert "nothing was changed" not in refused.err
    assert "cannot apply them: `git rebase --quit`, then `git stash pop --index`" in refused.err
    elsewhere = here.root / "docs/c.md"
    elsewhere.write_text("mine\n")
    (here.root / "a.py").write_text("one\ntwo\n")
    assert "a rebase did not start" in here.git("commit", "-am", "x").err
    elsewhere.write_text(git("show", "HEAD:docs/c.md", cwd=here.root))
    git("rebase", "--quit", cwd=here.root)
    git("stash", "pop", "--index", cwd=here.root)
    assert changes(here) == before


@pytest.fixture
def beside(here: Checkout, claude: Start, tmp_path: Path) -> Path:
    """A worktree with an earlier commit of a file that an agent of another worktree edits now."""
    here.branch("topic", a_py="zero\none\ntwo\n")
    git("worktree", "add", "--quiet", str(tmp_path / "tree"), "topic", cwd=here.root)
    claude("ann").edit("a.py", "two", LINE)
    return tmp_path / "tree"


@pytest.mark.parametrize("words", ["rebase main", "rebase --apply main", "pull --rebase . main", "rebase -i main"])
def test_a_rebase_that_only_repeats_earlier_commits_of_a_file_held_elsewhere_goes_through(
    here: Checkout, beside: Path, words: str
) -> None:
    done = here.run("git", *words.split(), cwd=beside, GIT_EDITOR="true")
    assert done.code == 0, done
    assert git("show", "HEAD:a.py", cwd=beside) == "zero\none\ntwo\n"
    assert git("rev-parse", "HEAD~1", cwd=beside).strip() == here.head()


@pytest.mark.parametrize(
    "words",
    [
        "git rebase -x 'echo more >> a.py; git commit --no-verify -qam x' main",
        "git rebase -x 'echo more >> a.py; git commit --no-verify -qa --amend --no-edit' main",
        "git cherry-pick topic~1..topic",
    ],
)
def test_new_work_in_a_file_held_elsewhere_is_refused_in_a_rebase_too(here: Checkout, beside: Path, words: str) -> None:
    if "cherry-pick" in words:
        git("checkout", "--quiet", "--detach", "main", cwd=beside)
    before = git("rev-parse", "HEAD", cwd=beside)
    refused = here.run("sh", "-c", words, cwd=beside)
    assert refused.code != 0
    assert "a.py by" in refused.err
    assert f"`git {words.split()[1]} --abort`" in refused.err
    here.run("git", words.split()[1], "--abort", cwd=beside)
    assert git("rev-parse", "HEAD", cwd=beside) == before


def test_a_rebase_that_commits_by_a_command_of_its_own_is_stopped(here: Checkout, claude: Start) -> None:
    here.commit("more", src__b_py="more\n")
    ann, before = claude("ann"), here.head()
    hold(ann, "a.py")
    refused = here.git("rebase", "-x", "echo x >> a.py; git commit --no-verify -qam x", "HEAD~1")
    assert f"a.py by {ann.name}" in refused.err
    assert "`git rebase --abort`" in refused.err
    assert git("rev-parse", "main", cwd=here.root).strip() == before


def test_a_commit_onto_a_merge_with_conflicts_is_refused(here: Checkout, claude: Start) -> None:
    here.branch("other", a_py="other\n", src__b_py="b on other\n")
    here.commit("a on main", a_py="main\n")
    ann = claude("ann")
    hold(ann, "a.py")
    assert here.git("merge", "other").code != 0
    (here.root / "a.py").write_text("both\n")
    git("add", "a.py", cwd=here.root)
    refused = here.git("commit", "-m", "merged")
    assert f"a.py by {ann.name}" in refused.err
    assert "`git merge --abort` gives the checkout back" in refused.err


# ── What is nobody's stays open ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "words",
    [
        "git cherry-pick other",
        "git merge --no-ff -m m other",
        "git revert --no-edit main",
        "git format-patch -1 other --stdout | git am -3",
        "git rebase other",
        "git checkout other",
        "git reset --hard HEAD~1 && git reset --hard HEAD@{1}",
        "git branch new other && git tag t other && git stash list && git worktree add ../more other~1",
        "echo x >> src/b.py && git commit -qm x src/b.py && git commit --amend -qm y",
        "git fetch . other:refs/remotes/x/other && git merge --no-ff -m m x/other && git gc -q",
    ],
)
def test_what_touches_no_held_file_goes_through(here: Checkout, claude: Start, words: str) -> None:
    here.branch("other", src__b_py="b on other\n")
    hold(claude("ann"), "a.py")
    done = here.run("sh", "-ec", words)
    assert done.code == 0, done
    assert "tiebreak" not in done.err, done
    assert "Traceback" not in done.err, done


def test_amending_a_commit_that_has_a_held_file_goes_through_if_the_file_stays(here: Checkout, claude: Start) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    assert here.git("commit", "-qam", "mine", agent="ann").code == 0
    hold(ann, "a.py")
    (here.root / "src/b.py").write_text("by ben\n")
    git("add", "src/b.py", cwd=here.root)
    assert here.git("commit", "--amend", "-qm", "more").code == 0
    (here.root / "a.py").write_text("by ben\n")
    assert f"a.py by {ann.name}" in here.git("commit", "--no-verify", "--amend", "-qam", "more").err


def test_a_merge_brings_a_held_file_only_where_its_holder_does_not_work(
    here: Checkout, claude: Start, tmp_path: Path
) -> None:
    here.branch("other", a_py="one\ntwo\nthree\n")
    git("worktree", "add", "--quiet", "-b", "beside", str(tmp_path / "tree"), "main", cwd=here.root)
    ann = claude("ann")
    hold(ann, "a.py")
    refused = here.git("merge", "--no-ff", "-m", "m", "other")
    assert f"this merge has files that others hold: a.py by {ann.name}" in refused.err
    done = here.run("git", "merge", "--no-ff", "-m", "m", "other", cwd=tmp_path / "tree")
    assert done.code == 0, done


def test_a_merge_that_changes_a_held_file_itself_is_refused_everywhere(
    here: Checkout, claude: Start, tmp_path: Path
) -> None:
    here.branch("other", a_py="one\ntwo\nthree\n")
    git("worktree", "add", "--quiet", "-b", "beside", str(tmp_path / "tree"), "main", cwd=here.root)
    ann = claude("ann")
    hold(ann, "a.py")
    script = "git merge --no-ff --no-commit other; echo evil >> a.py; git commit --no-verify -am m"
    refused = here.run("sh", "-c", script, cwd=tmp_path / "tree")
    assert f"a.py by {ann.name}" in refused.err


def test_a_person_may_go_past_the_checks_and_the_holder_itself_needs_not(here: Checkout, claude: Start) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    assert f"a.py by {ann.name}" in here.git("commit", "-am", "x", agent="").err
    assert here.git("commit", "--no-verify", "-am", "by a person", agent="").code == 0
    ann.edit("a.py", "two", "TWO")
    assert here.git("commit", "--no-verify", "-am", "by ann", agent="ann").code == 0


def test_a_merge_of_a_person_is_refused_like_a_commit_and_both_can_be_forced(here: Checkout, claude: Start) -> None:
    here.branch("other", a_py="one\ntwo\nthree\n")
    ann = claude("ann")
    hold(ann, "a.py")
    refused = here.git("merge", "--no-ff", "-m", "m", "other", agent="")
    assert f"this merge has files that others hold: a.py by {ann.name}" in refused.err
    assert here.git("merge", "--abort", agent="").code == 0
    assert here.git("merge", "--no-ff", "--no-verify", "-m", "m", "other", agent="").code == 0


def test_many_commits_at_once_are_checked_as_one(here: Checkout, claude: Start) -> None:
    ann = claude("ann")
    hold(ann, "a.py")
    stream = "".join(
        f"commit refs/heads/many\ncommitter d <d@example.org> {1_700_000_000 + at} +0000\ndata 1\nx"
        f"{'' if at else f'{chr(10)}from refs/heads/main^0'}\nM 100644 inline {name}\ndata 2\n{at % 10}\n\n"
        for at, name in enumerate(["a.py", *(f"f{number}" for number in range(250))])
    )
    made = subprocess.run(
        ["git", "-c", "core.hooksPath=/dev/null", "fast-import", "--quiet"],
        input=stream.encode(),
        cwd=here.root,
        check=True,
        capture_output=True,
    )
    assert made.returncode == 0
    many = git("rev-parse", "many", cwd=here.root).strip()
    git("-c", "core.hooksPath=/dev/null", "update-ref", "-d", "refs/heads/many", cwd=here.root)
    assert f"a.py by {ann.name}" in here.git("branch", "new", many).err
    ann.board.holds.release(resources=["file:a.py"])
    assert here.git("branch", "new", many).code == 0


@pytest.mark.parametrize(
    "words", ["git merge -q --ff-only stash@{0}", "git reset -q --hard stash@{0}", "git reset -q --keep stash@{0}"]
)
def test_what_git_has_changed_before_it_was_refused_can_be_put_away(here: Checkout, claude: Start, words: str) -> None:
    ann, before = claude("ann"), here.head()
    ann.edit("a.py", "one", "ONE")
    git("stash", "--quiet", cwd=here.root)
    refused = here.run("sh", "-c", words)
    assert f"a.py by {ann.name}" in refused.err
    assert re.findall(ABORT, refused.err) == ["git stash push --staged"], refused
    (here.root / "docs/c.md").write_text("somebody else is at it\n")
    assert here.git("stash", "push", "--staged").code == 0
    assert (here.root / "a.py").read_text() == "one\ntwo\n"
    assert (here.head(), git("status", "--porcelain", cwd=here.root)) == (before, " M docs/c.md\n")


@pytest.mark.parametrize(
    "words",
    [
        "git reset -q --soft HEAD~2; git commit -qm squashed",
        "git reset -q --soft HEAD~2; git commit --no-verify -qm squashed",
        "git reset -q HEAD~2; git commit -qam squashed",
        "GIT_SEQUENCE_EDITOR='sed -i 2s/pick/squash/' GIT_EDITOR=true git rebase -q -i HEAD~2",
    ],
)
def test_an_agent_squashes_its_earlier_commits_though_somebody_elsewhere_holds_the_file_now(
    here: Checkout, claude: Start, tmp_path: Path, words: str
) -> None:
    git("worktree", "add", "--quiet", "-b", "beside", str(tmp_path / "tree"), cwd=here.root)
    beside = Checkout(here.tb, tmp_path / "tree")
    for content in ("1\n", "1\n2\n"):
        beside.commit("own", a_py=content)
    ann = claude("ann")
    hold(ann, "a.py")
    done = beside.run("sh", "-c", words)
    assert done.code == 0, done
    assert git("rev-list", "--count", "main..beside", cwd=here.root) == "1\n"
    (beside.root / "a.py").write_text("3\n")
    changed = "git reset -q --soft HEAD~1; git commit -qam squashed"
    assert f"a.py by {ann.name}" in beside.run("sh", "-c", changed).err


# ── Names and contents ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("target", ["src/b.py", "/etc/hosts", "nowhere"])
def test_a_link_in_place_of_a_held_file_is_that_file(here: Checkout, claude: Start, target: str) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    (here.root / "a.py").unlink()
    (here.root / "a.py").symlink_to(target)
    git("add", "a.py", cwd=here.root)
    for words in (["commit", "-m", "x"], ["commit", "--no-verify", "-m", "x"]):
        assert f"a.py by {ann.name}" in here.git(*words).err


def test_a_link_in_place_of_the_folder_of_a_held_file_does_not_hide_it(
    here: Checkout, claude: Start, tmp_path: Path
) -> None:
    ann = claude("ann")
    ann.edit("src/b.py", "b", "B")
    (here.root / "src").rename(tmp_path / "elsewhere")
    (here.root / "src").symlink_to(tmp_path / "elsewhere")
    refused = here.run("sh", "-c", "git add -A; git commit -m x")
    assert f"src/b.py by {ann.name}" in refused.err


@pytest.mark.parametrize("no_verify", [(), ("--no-verify",)])
def test_lines_of_another_agent_are_not_committed_under_another_name(
    here: Checkout, claude: Start, no_verify: tuple[str, ...]
) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", LINE)
    (here.root / "copy.py").write_text((here.root / "a.py").read_text())
    git("add", "copy.py", cwd=here.root)
    refused = here.git("commit", *no_verify, "-m", "x")
    assert f"lines that {ann.name} wrote in a.py and has not committed: in copy.py" in refused.err, refused
    assert f"tb send {ann.name}" in refused.err
    assert here.tb("guard", "clear", "copy.py").code == 0
    assert here.git("commit", *no_verify, "-m", "x").code == 0


def test_a_holder_commits_its_own_lines_under_any_name(here: Checkout, claude: Start) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", LINE)
    (here.root / "copy.py").write_text((here.root / "a.py").read_text())
    git("add", "copy.py", cwd=here.root)
    assert here.git("commit", "-m", "x", agent="ann").code == 0


# ── Odd surroundings ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("no_verify", [(), ("--no-verify",)])
def test_a_subfolder_a_worktree_and_named_folders_of_git_make_no_difference(
    here: Checkout, claude: Start, tmp_path: Path, no_verify: tuple[str, ...]
) -> None:
    git("worktree", "add", "--quiet", str(tmp_path / "tree"), cwd=here.root)
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    (tmp_path / "tree/a.py").write_text("by ben\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/a.py").write_text("by ben\n")
    commit = ["commit", *no_verify, "-am", "x"]
    root, own = str(here.root), str(here.root / ".git")
    for words, cwd, environ in (
        (["git", *commit], here.root / "src", {}),
        (["git", *commit], tmp_path / "tree", {}),
        (["git", "-C", root, *commit], tmp_path, {}),
        (["git", f"--git-dir={own}", f"--work-tree={root}", *commit], tmp_path, {}),
        (["git", "--git-dir=.git", *commit], here.root, {}),
        (["git", *commit], tmp_path, {"GIT_DIR": own, "GIT_WORK_TREE": root}),
        (["git", *commit], tmp_path / "tree", {"GIT_DIR": own}),
        (["git", *commit], tmp_path / "elsewhere", {"GIT_DIR": own}),
        (["git", "--git-dir=../repo/.git", "--work-tree=.", *commit], tmp_path / "elsewhere", {}),
        (["sh", "-c", f"git add -A; git {' '.join(commit)}"], here.root, {"GIT_INDEX_FILE": "other-index"}),
    ):
        refused = here.run(*words, cwd=cwd, **environ)
        assert f"a.py by {ann.name}" in refused.err, (words, refused)


def test_a_submodule_is_guarded_by_its_own_hooks(here: Checkout, claude: Start, tmp_path: Path, tb: Tb) -> None:
    from .actors import repository

    part = repository(tmp_path / "part", {"x.py": "x\n"})
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part), "part", cwd=here.root)
    for key, value in (("user.name", "dana"), ("user.email", "dana@example.org")):
        git("config", key, value, cwd=here.root / "part")
    assert tb("guard", "install", cwd=here.root / "part").code == 0
    ann = claude("ann", here.root / "part")
    ann.edit("x.py", "x", "X")
    for words in (["commit", "-am", "x"], ["commit", "--no-verify", "-am", "x"]):
        assert f"x.py by {ann.name}" in here.run("git", *words, cwd=here.root / "part").err
    assert here.git("commit", "-m", "add the part").code == 0


def test_a_bare_repository_takes_what_is_pushed(here: Checkout, claude: Start, tmp_path: Path) -> None:
    far = here.root / "far.git"
    git("init", "--quiet", "--bare", str(far), cwd=here.root)
    for script in (here.root / ".git/hooks").iterdir():
        (far / "hooks" / script.name).write_bytes(script.read_bytes())
        (far / "hooks" / script.name).chmod(0o755)
    made = here.commit("mine", a_py="mine\n")
    hold(claude("ann"), "a.py")
    done = here.git("push", str(far), "main")
    assert done.code == 0, done
    assert here.run("git", "update-ref", "refs/heads/more", made, cwd=far).code == 0


def test_a_board_that_is_away_stops_a_command_only_under_the_closed_policy(here: Checkout) -> None:
    (here.root / "a.py").write_text("x\n")
    nowhere = {"TIEBREAK_BOARD": "unix:/nowhere/at/all"}
    assert here.git("commit", "--no-verify", "-qam", "x", **nowhere).code == 0
    git("config", "tiebreak.hooks", "closed", cwd=here.root)
    (here.root / "a.py").write_text("y\n")
    assert here.git("commit", "--no-verify", "-qam", "x", **nowhere).code != 0


def test_an_unknown_hook_is_told_which_there_are(here: Checkout, tb: Tb) -> None:
    refused = tb("guard", "check", "pre-receive")
    assert refused.code == 2
    assert "pre-merge-commit" in refused.err
    assert "reference-transaction" in refused.err
