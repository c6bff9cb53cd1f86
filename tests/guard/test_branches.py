"""A branch that changes under agents is told to all who hold files there, and no commit lands on another unseen."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak import Refused

from ..cli.command import Tb
from .actors import Claude, git

Start = Callable[..., Claude]


@pytest.fixture(autouse=True)
def branches(repo: Path) -> None:
    """A second branch, which differs in one file."""
    git("checkout", "--quiet", "-b", "other", cwd=repo)
    (repo / "docs/c.md").write_text("other\n")
    git("commit", "--quiet", "-am", "other", cwd=repo)
    git("checkout", "--quiet", "main", cwd=repo)


def messages(agent: Claude) -> list[str]:
    """All that an agent has been sent."""
    return [each.body for each in agent.board.messages.inbox()]


def test_a_branch_that_changes_under_a_holder_is_told_to_both_and_its_commit_is_refused(
    claude: Start, repo: Path
) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    told = ben.bash("git checkout -q other")
    assert f"changed from branch main to branch other, while a shell command of {ben.name} ran" in told
    assert f"{ann.name} holds a.py" in told
    [message] = messages(ann)
    assert "changed from branch main to branch other" in message
    assert "You hold a.py there" in message
    with pytest.raises(Refused, match="this checkout is on branch other now, and you worked on branch main"):
        ann.commit("a.py")
    assert git("log", "-1", "--format=%s", "other", cwd=repo) == "other\n"
    assert "You hold" not in ben.bash("git checkout -q main")
    ann.commit("a.py")
    assert git("log", "-1", "--format=%s", "main", cwd=repo) == "work\n"


def test_the_holder_may_name_the_branch(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ben.bash("git checkout -q other")
    with pytest.raises(Refused, match="on branch other, not on branch main"):
        ann.commit("a.py", branch="main")
    ann.commit("a.py", branch="other")
    ann.edit("a.py", "two", "TWO")
    ann.commit("a.py")
    assert git("rev-list", "--count", "main..other", cwd=repo) == "3\n"


def test_who_changes_the_branch_goes_on_there(claude: Start, repo: Path) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    assert ann.bash("git checkout -q -b new") == ""
    ann.commit("a.py")
    assert messages(ann) == []
    assert git("branch", "--show-current", cwd=repo) == "new\n"


def test_a_commit_in_the_same_command_as_the_change_is_on_the_new_branch(claude: Start, tb: Tb, repo: Path) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    done = tb("--as", ann.agent, "commit", "a.py", "-m", "too early")
    assert done.code == 0
    ann.edit("a.py", "two", "TWO")

    def use() -> str:
        git("checkout", "--quiet", "-b", "new", cwd=repo)
        done = tb("--as", ann.agent, "commit", "a.py", "-m", "new")
        assert done.code == 0, done.err
        assert " on new" in done.out
        return "ok"

    ann.tool("Bash", {"command": "git checkout -b new && tb commit"}, use)


def test_while_two_commands_run_nobody_is_taken_to_have_changed_it(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    run = {"tool_name": "Bash", "tool_input": {"command": "…"}}
    ann.say("PreToolUse", **run, tool_use_id="a")
    ben.say("PreToolUse", **run, tool_use_id="b")
    git("checkout", "--quiet", "other", cwd=repo)
    ann.say("PostToolUse", **run, tool_use_id="a", tool_response={})
    ben.say("PostToolUse", **run, tool_use_id="b", tool_response={})
    with pytest.raises(Refused, match="you worked on branch main"):
        ann.commit("a.py")


def test_a_change_by_a_person_is_told_by_the_next_event(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    subprocess.run(["git", "checkout", "-q", "other"], cwd=repo, check=True)
    ben.bash("true")
    assert "by nobody that tiebreak knows" in messages(ann)[0]
    with pytest.raises(Refused, match="you worked on branch main"):
        ann.commit("a.py")


def test_an_agent_that_holds_nothing_works_on_whatever_branch_is_there(claude: Start, repo: Path) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    ann.commit("a.py")
    ann.stop()
    git("checkout", "--quiet", "other", cwd=repo)
    ann.edit("src/b.py", "b", "B")
    ann.commit("src/b.py")
    assert messages(ann) == []


def test_without_hooks_only_the_named_branch_counts(tb: Tb, repo: Path) -> None:
    assert tb("--as", "ann~1", "hold", "a.py").code == 0
    git("checkout", "--quiet", "other", cwd=repo)
    (repo / "a.py").write_text("hers\n")
    refused = tb("--as", "ann~1", "commit", "a.py", "-m", "x", "--branch", "main")
    assert refused.code == 1
    assert "this checkout is on branch other, not on branch main" in refused.err
    assert tb("--as", "ann~1", "commit", "a.py", "-m", "x").code == 0


def test_a_detached_head_is_a_change_too(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    assert "to no branch" in ben.bash("git checkout -q --detach")
    with pytest.raises(Refused, match="this checkout is on no branch now"):
        ann.commit("a.py")
