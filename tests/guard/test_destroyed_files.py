"""What a command does to the folders above a held file, or puts in its place: noticed, told to both, and recovered."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak import Lost, Refused, TiebreakError
from tiebreak.fingerprints import read_file
from tiebreak.guard.files.recovery import kept_file, recover

from ..cli.command import Tb
from .actors import Claude, Denied, git

Start = Callable[..., Claude]
LINE = "ann wrote this line and nobody has committed it\n"


@pytest.fixture
def ann(claude: Start) -> Claude:
    """She holds src/b.py, and has edited it."""
    made = claude("ann")
    made.edit("src/b.py", "", LINE)
    return made


@pytest.fixture
def ben(claude: Start) -> Claude:
    """Somebody else in the same checkout."""
    return claude("ben")


def messages(agent: Claude) -> str:
    """All that an agent has been sent."""
    return "\n".join(each.body for each in agent.board.messages.inbox())


def add_branch(repo: Path, name: str, change: str) -> None:
    """A branch on which a command has changed something, long ago."""
    git("checkout", "--quiet", "-b", name, cwd=repo)
    subprocess.run(change, shell=True, cwd=repo, check=True)
    git("add", "--all", cwd=repo)
    long_ago = {**os.environ, "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}
    git("commit", "--quiet", "-m", name, cwd=repo, env=long_ago)
    git("checkout", "--quiet", "main", cwd=repo)


GONE = {
    "rm of the folder": "rm -rf src",
    "mv of the folder": "mv src lib",
    "mv of the folder out of the repository": "mv src ../elsewhere",
    "git mv of the folder": "git mv src lib",
    "mv of the file": "mv src/b.py src/c.py",
    "git rm": "git rm -rfq src",
    "git stash of a new file": "git stash -uq && rm -rf src",
    "find": "find . -name b.py -delete",
}


@pytest.mark.parametrize("command", GONE.values(), ids=GONE.keys())
def test_a_held_file_that_is_gone_is_told_to_both_and_recovered(ann: Claude, ben: Claude, command: str) -> None:
    told = ben.bash(command)
    assert f"src/b.py (was removed, held by {ann.name})" in told
    assert "src/b.py was removed while a shell command of" in messages(ann)
    assert f"`tb recover {ann.cwd}/src/b.py` brings back what you left" in messages(ann)
    recover(ann.board, kept_file("src/b.py", str(ann.cwd)), 0)
    assert (ann.cwd / "src/b.py").read_text() == "b\n" + LINE
    ann.commit("src/b.py")


def test_a_clean_held_file_that_a_checkout_removes_is_told_to_both(claude: Start, repo: Path) -> None:
    add_branch(repo, "other", "git rm -rq src")
    ann, ben = claude("ann"), claude("ben")
    ann.board.holds.take(resources=["file:src/b.py"])
    told = ben.bash("git checkout -q other")
    assert f"src/b.py (was removed, held by {ann.name})" in told
    assert "src/b.py was removed while a shell command of" in messages(ann)


def test_a_new_file_that_git_clean_removes_is_recovered(claude: Start, ben: Claude) -> None:
    ann = claude("ann")
    ann.write("new/x.py", LINE)
    assert "new/x.py (was removed" in ben.bash("git clean -fdxq")
    recover(ann.board, kept_file("new/x.py", str(ann.cwd)), 0)
    assert (ann.cwd / "new/x.py").read_text() == LINE


def test_what_git_stash_hides_stays_held_when_its_holder_stops(ann: Claude, ben: Claude) -> None:
    assert f"src/b.py (held by {ann.name})" in ben.bash("git stash -q")
    ann.stop()
    assert [hold.resource for hold in ann.board.holds.list()] == ["file:src/b.py"]
    ben.bash("git stash pop -q")
    ann.commit("src/b.py")
    assert LINE in git("show", "HEAD:src/b.py", cwd=ann.cwd)


@pytest.mark.parametrize("command", ["rm -rf src", "mv src ../out && ln -s ../out src"])
def test_a_file_under_a_glob_of_an_agent_without_hooks_is_watched(
    claude: Start, tb: Tb, repo: Path, command: str
) -> None:
    assert tb("--as", "ann~1", "hold", "src/**").code == 0
    with (repo / "src/b.py").open("a") as file:
        file.write(LINE)
    ben = claude("ben")
    assert "held by ann" in ben.bash(command)
    inbox = tb("--as", "ann~1", "inbox").out
    assert "src/b.py" in inbox
    assert f"tb recover {repo}/src/b.py" in inbox
    if "ln" in command:
        assert tb("--as", "ann~1", "recover", "src/b.py").code == 1
        (repo / "src").unlink()
    assert tb("--as", "ann~1", "recover", "src/b.py").code == 0
    assert (repo / "src/b.py").read_text() == "b\n" + LINE


REPLACED = {
    "a link to a file inside": ("ln -sf ../a.py src/b.py", "was replaced by a symbolic link to ../a.py"),
    "a link to a file outside": ("ln -sf /etc/hostname src/b.py", "was replaced by a symbolic link to /etc/hostname"),
    "a link that leads nowhere": ("ln -sf nowhere src/b.py", "was replaced by a symbolic link to nowhere"),
    "a folder": ("rm src/b.py; mkdir src/b.py", "was replaced by a folder"),
    "a pipe": ("rm src/b.py; mkfifo src/b.py", "was replaced by a pipe, socket or device"),
    "a link above": ("mv src ../out; ln -s ../out src", "because its folder src was replaced by a symbolic link"),
    "another repository above": ("git init -q src", "because its folder src became another repository"),
}


@pytest.mark.parametrize(("command", "words"), REPLACED.values(), ids=REPLACED.keys())
def test_what_is_put_in_the_place_of_a_held_file_is_told_and_stays_out_of_commits(
    ann: Claude, ben: Claude, command: str, words: str
) -> None:
    assert words in ben.bash(command)
    assert words in messages(ann)
    with pytest.raises(TiebreakError):
        ben.commit("src/b.py")
    with pytest.raises(Denied):
        ann.write("src/b.py", "ann believes that this is her file\n")
    assert (ann.cwd / "a.py").read_text() == "one\ntwo\n"


def test_a_pipe_in_the_place_of_a_held_file_blocks_no_hook(ann: Claude, ben: Claude) -> None:
    ben.bash("rm src/b.py; mkfifo src/b.py")
    for agent in (ann, ben):
        agent.bash("true")
        with pytest.raises(Denied):
            agent.edit("src/b.py", "", "x\n")
        agent.stop()
    recover(ann.board, kept_file("src/b.py", str(ann.cwd)), 0)
    assert (ann.cwd / "src/b.py").read_text() == "b\n" + LINE


def test_the_contents_of_a_large_file_are_not_read(claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.truncate(repo / "a.py", 3 << 30)
    read: list[str] = []

    def noted(path: str, most: int = 0) -> bytes:
        read.append(path)
        return read_file(path)

    for module in ("fingerprints", "guard.files.safety_copies", "guard.files.interference"):
        monkeypatch.setattr(f"tiebreak.{module}.read_file", noted)
    ann, ben = claude("ann"), claude("ben")
    ann.edit("src/b.py", "", LINE)
    given = {"file_path": str(repo / "a.py"), "old_string": "a", "new_string": "b"}
    ann.say("PreToolUse", tool_name="Edit", tool_input=given, tool_use_id="e")
    os.utime(repo / "a.py")
    ann.say("PostToolUse", tool_name="Edit", tool_input=given, tool_use_id="e", tool_response="ok")
    assert [hold.resource for hold in ann.board.holds.list()] == ["file:a.py", "file:src/b.py"]
    assert f"a.py (held by {ann.name})" in ben.bash("truncate -s 1G a.py")
    assert str(repo / "src/b.py") in read
    assert str(repo / "a.py") not in read


def test_a_move_keeps_the_holders_lines_out_of_the_commit_under_the_new_name(ann: Claude, ben: Claude) -> None:
    told = ben.bash("mv src lib")
    assert f"lib/b.py (from src/b.py, held by {ann.name})" in told
    assert "lib/b.py got uncommitted lines of src/b.py, which you hold" in messages(ann)
    with pytest.raises(Refused, match=r"lib/b\.py"):
        ben.commit("lib")
    ben.edit("lib/b.py", "", "ben adds a line of his own\n")
    with pytest.raises(Refused, match=r"lib/b\.py"):
        ben.commit("lib/b.py")
    with pytest.raises(Lost):
        ben.commit("src")


def test_a_copy_of_the_holders_lines_cannot_be_committed_by_another(ann: Claude, ben: Claude) -> None:
    assert f"copy.py (from src/b.py, held by {ann.name})" in ben.bash("cp src/b.py copy.py")
    with pytest.raises(Refused, match=r"copy\.py"):
        ben.commit("copy.py")


def test_what_everybody_can_have_from_git_may_be_copied(claude: Start, ben: Claude, repo: Path) -> None:
    ann = claude("ann")
    ann.board.holds.take(resources=["file:a.py"])
    assert "uncommitted lines" not in ben.bash("cp a.py copy.py")
    ben.commit("copy.py")
    assert messages(ann) == ""


def test_a_short_line_that_two_agents_write_is_nobodys_copy(claude: Start, ben: Claude) -> None:
    ann = claude("ann")
    ann.write("one/__init__.py", '"""Tests."""\n')
    assert "uncommitted lines" not in ben.bash('mkdir two; echo \'"""Tests."""\' > two/__init__.py')
    ben.commit("two")


def test_the_holder_may_move_its_own_file(ann: Claude) -> None:
    assert "uncommitted lines" not in ann.bash("git mv src/b.py src/c.py")
    ann.commit("src/b.py", "src/c.py")
    assert LINE in git("show", "HEAD:src/c.py", cwd=ann.cwd)


def test_when_the_holder_has_committed_its_lines_everybody_may_move_them(ann: Claude, ben: Claude) -> None:
    ann.commit("src/b.py")
    ann.stop()
    assert "uncommitted lines" not in ben.bash("cp src/b.py copy.py")
    ben.commit("copy.py")


def test_destroying_a_file_in_another_worktree_is_told_to_both(
    claude: Start, repo: Path, tmp_path: Path, ann: Claude
) -> None:
    git("worktree", "add", "--quiet", "-b", "other", str(tmp_path / "tree"), cwd=repo)
    ben = claude("ben", cwd=tmp_path / "tree")
    told = ben.bash(f"rm -rf {repo}/src")
    assert f"../repo/src/b.py (was removed, held by {ann.name})" in told
    assert "src/b.py was removed" in messages(ann)


def test_another_branch_in_ones_own_worktree_is_no_interference(claude: Start, repo: Path, tmp_path: Path) -> None:
    add_branch(repo, "further", "echo further >> a.py; echo further >> src/b.py")
    git("worktree", "add", "--quiet", "-b", "other", str(tmp_path / "tree"), cwd=repo)
    ann, ben = claude("ann"), claude("ben", cwd=tmp_path / "tree")
    ann.edit("src/b.py", "", LINE)
    assert ben.bash("git merge -q --ff-only further") == ""
    assert messages(ann) == ""


def test_a_command_whose_end_no_hook_told_is_looked_at_by_the_next_event(ann: Claude, ben: Claude, repo: Path) -> None:
    ben.say("PreToolUse", tool_name="Bash", tool_input={"command": "rm -rf src"}, tool_use_id="lost")
    subprocess.run("rm -rf src", shell=True, cwd=repo, check=True)
    told = ben.say("UserPromptSubmit", prompt="go on")["hookSpecificOutput"]["additionalContext"]
    assert f"src/b.py (was removed, held by {ann.name})" in told
    assert "src/b.py was removed" in messages(ann)
    assert ben.say("UserPromptSubmit", prompt="go on") == {}


def test_what_nobodys_command_did_is_told_to_the_holder_once(ann: Claude, repo: Path) -> None:
    (repo / "src/b.py").unlink()
    told = ann.say("UserPromptSubmit", prompt="go on")["hookSpecificOutput"]["additionalContext"]
    assert f"src/b.py, which you hold, was removed, by nobody that tiebreak knows. `tb recover {repo}/src/b.py`" in told
    assert ann.say("UserPromptSubmit", prompt="go on") == {}


def test_a_command_of_the_holder_that_ends_first_does_not_vouch_for_what_another_destroyed(
    ann: Claude, ben: Claude, repo: Path
) -> None:
    run = {"tool_name": "Bash", "tool_input": {"command": "…"}}
    ann.say("PreToolUse", **run, tool_use_id="a")
    ben.say("PreToolUse", **run, tool_use_id="b")
    subprocess.run("rm -rf src", shell=True, cwd=repo, check=True)
    ann.say("PostToolUse", **run, tool_use_id="a", tool_response={})
    told = ben.say("PostToolUse", **run, tool_use_id="b", tool_response={})
    assert f"src/b.py (was removed, held by {ann.name})" in told["hookSpecificOutput"]["additionalContext"]
    recover(ann.board, kept_file("src/b.py", str(repo)), 0)
    assert (repo / "src/b.py").read_text() == "b\n" + LINE


def test_a_file_that_is_given_back_as_it_was_leaves_quarantine(ann: Claude, ben: Claude) -> None:
    ben.bash("mv src lib")
    ben.bash("mv lib src")
    ann.commit("src/b.py")


def test_who_copied_lines_into_a_file_of_its_own_does_not_keep_their_writer_from_committing(
    claude: Start, ben: Claude
) -> None:
    ben.write("copy.py", "ben wrote a file of his own, which he holds\n")
    ann = claude("ann")
    ann.edit("src/b.py", "", LINE)
    assert "uncommitted lines" in ben.bash("cp src/b.py copy.py")
    assert "uncommitted lines" not in ben.bash("echo more >> copy.py")  # told once
    assert "uncommitted lines" not in ann.bash("touch src/b.py")
    ann.commit("src/b.py")


def test_lines_that_another_file_of_the_last_commit_has_are_nobodys(claude: Start, ben: Claude, repo: Path) -> None:
    (repo / "long.py").write_text("this line is committed, and everybody can have it\n")
    git("add", "long.py", cwd=repo)
    git("commit", "-qm", "long", cwd=repo)
    ann = claude("ann")
    ann.bash("cp long.py one.py")
    assert "uncommitted lines" not in ben.bash("cp long.py two.py")
    ben.commit("two.py")


def test_what_a_holder_without_hooks_wrote_last_is_kept_before_a_command(claude: Start, tb: Tb, repo: Path) -> None:
    assert tb("--as", "ann~1", "hold", "src/b.py").code == 0
    ben = claude("ben")
    ben.bash("true")
    (repo / "src/b.py").write_text(LINE)
    ben.bash("rm -rf src")
    assert tb("--as", "ann~1", "recover", "src/b.py").code == 0
    assert (repo / "src/b.py").read_text() == LINE


def test_free_files_that_go_with_their_folder_are_held_by_who_removed_it(ben: Claude) -> None:
    assert "docs/c.md changed; you hold them now" in ben.bash("rm -rf docs")
    assert ben.bash("mkdir docs; rmdir docs") == ""


@pytest.mark.parametrize("mark", ["--skip-worktree", "--assume-unchanged"])
def test_a_marked_file_with_changes_stays_held_when_its_holder_stops(ann: Claude, ben: Claude, mark: str) -> None:
    ben.bash(f"git update-index {mark} src/b.py")
    ann.stop()
    assert [hold.resource for hold in ann.board.holds.list()] == ["file:src/b.py"]


def test_a_stop_in_one_checkout_keeps_what_was_changed_in_another(
    claude: Start, repo: Path, tmp_path: Path, ann: Claude
) -> None:
    git("worktree", "add", "--quiet", "-b", "other", str(tmp_path / "tree"), cwd=repo)
    ann.cwd = tmp_path / "tree"
    ann.stop()
    assert [hold.resource for hold in ann.board.holds.list()] == ["file:src/b.py"]


def test_a_change_below_a_repository_inside_is_told_too(ann: Claude, ben: Claude) -> None:
    ben.bash("git init -q src")
    ann.bash("echo 'ann goes on there' >> src/b.py")
    assert f"src/b.py (is out of reach, because its folder src became another repository, held by {ann.name})" in (
        ben.bash("git checkout -q main -- src")
    )


def test_what_is_in_quarantine_and_only_touched_is_not_told_again(ann: Claude, ben: Claude) -> None:
    ben.bash("echo x >> src/b.py")
    assert ben.bash("touch src/b.py") == ""


def test_two_agents_may_make_the_same_small_change(claude: Start, ben: Claude, repo: Path) -> None:
    ann = claude("ann")
    same = "import pytest\nfrom product.things import Thing, make_thing\n"
    ann.write("test_one.py", same + "\n\ndef test_one():\n    assert make_thing(1)\n")
    assert "uncommitted lines" not in ben.bash(f"printf '{same}\\n\\ndef test_two():\\n    pass\\n' > test_two.py")
    ben.commit("test_two.py")


def test_a_command_of_the_holder_that_ends_later_does_not_lift_the_quarantine(
    ann: Claude, ben: Claude, repo: Path
) -> None:
    run = {"tool_name": "Bash", "tool_input": {"command": "…"}}
    ann.say("PreToolUse", **run, tool_use_id="a")
    ben.bash("echo junk > src/b.py")
    ann.say("PostToolUse", **run, tool_use_id="a", tool_response={})
    with pytest.raises(Refused, match=f"changed while a command of {ben.name} ran"):
        ann.commit("src/b.py")
    recover(ann.board, kept_file("src/b.py", str(repo)), 0)
    ann.commit("src/b.py")


def test_what_was_found_at_the_end_of_a_turn_is_told_at_the_next(ann: Claude, ben: Claude, repo: Path) -> None:
    ben.say("PreToolUse", tool_name="Bash", tool_input={"command": "rm -rf src"}, tool_use_id="lost")
    subprocess.run("rm -rf src", shell=True, cwd=repo, check=True)
    ben.stop()
    told = ben.say("UserPromptSubmit", prompt="go on")["hookSpecificOutput"]["additionalContext"]
    assert f"src/b.py (was removed, held by {ann.name})" in told
    assert ben.say("UserPromptSubmit", prompt="go on") == {}
