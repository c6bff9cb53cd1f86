"""Who changed a held file: only what another agent is known to have done is told as another agent's."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ..cli.command import Tb, until
from .actors import Claude, Denied, git, put

Start = Callable[..., Claude]
ACCUSATION = re.compile(r"somebody|someone|changed|not by you")


def as_agent(tb: Tb, name: str, *words: str, cwd: Path | None = None) -> str:
    """What a command of this agent printed; it has to succeed."""
    answer = tb("--as", f"{name}~1", *words, cwd=cwd)
    assert answer.code == 0, answer
    return answer.out + answer.err


def all_that_was_told(tb: Tb, name: str = "ann") -> str:
    """What the history of a.py tells afterwards."""
    return as_agent(tb, name, "why", "a.py") + as_agent(tb, name, "events", "--json")


def test_the_ordinary_cycle_accuses_nobody(tb: Tb, repo: Path) -> None:
    told = as_agent(tb, "ann", "hold", "a.py")
    (repo / "a.py").write_text("mine\n")
    told += as_agent(tb, "ann", "drop", "a.py") + as_agent(tb, "ann", "hold", "a.py")
    (repo / "a.py").write_text("mine again\n")
    told += as_agent(tb, "ann", "renew", "a.py")
    (repo / "a.py").write_text("and again\n")
    told += as_agent(tb, "ann", "drop", "--all")
    assert not ACCUSATION.search(told + all_that_was_told(tb))


def test_the_work_of_an_agent_that_held_it_before_is_no_intrusion(tb: Tb, repo: Path) -> None:
    told = ""
    for name in ("ann", "ben", "ann"):
        told += as_agent(tb, name, "hold", "a.py")
        (repo / "a.py").write_text(f"by {name}\n")
        told += as_agent(tb, name, "drop", "a.py")
    assert not ACCUSATION.search(told + all_that_was_told(tb))


def test_a_commit_and_a_checkout_of_the_holder_accuse_nobody(tb: Tb, repo: Path) -> None:
    git("branch", "before", cwd=repo)
    told = as_agent(tb, "ann", "hold", "a.py")
    (repo / "a.py").write_text("mine\n")
    as_agent(tb, "ann", "commit", "a.py", "-m", "work")
    told += as_agent(tb, "ann", "drop", "a.py") + as_agent(tb, "ann", "hold", "a.py")
    git("checkout", "--quiet", "before", cwd=repo)
    told += as_agent(tb, "ann", "drop", "a.py")
    assert not ACCUSATION.search(told + all_that_was_told(tb))


def test_other_contents_in_another_worktree_are_no_change(tb: Tb, repo: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    git("worktree", "add", "--quiet", str(tree), cwd=repo)
    (tree / "a.py").write_text("another branch\n")
    told = as_agent(tb, "ann", "hold", "a.py")
    told += as_agent(tb, "ann", "drop", "a.py", cwd=tree)
    as_agent(tb, "ann", "hold", "a.py")
    answer = tb("--as", "ann~1", "drop", "a.py", "--json", cwd=tree).json
    assert answer[0]["changed"] is None
    assert not ACCUSATION.search(told + all_that_was_told(tb))


def test_a_hold_that_lapsed_while_its_holder_worked_accuses_nobody(tb: Tb, repo: Path) -> None:
    told = as_agent(tb, "ann", "hold", "a.py", "--lease", "1s")
    (repo / "a.py").write_text("mine\n")
    until(lambda: "nothing is held" in as_agent(tb, "ann", "holds"), "the hold has lapsed")
    told += as_agent(tb, "ann", "drop", "a.py")
    assert not ACCUSATION.search(told + all_that_was_told(tb))


def test_what_changed_during_another_agents_command_is_told_when_it_is_dropped(
    claude: Start, tb: Tb, repo: Path
) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ben.bash("sed -i s/two/TWO/ a.py")
    ann.board.holds.take(resources=["file:src/b.py"])
    dropped = tb("--as", ann.agent, "drop", "a.py", "src/b.py")
    assert f"a.py changed while a command of {ben.name} ran and you held it" in dropped.out
    assert "src/b.py changed" not in dropped.out


def test_a_command_beside_the_holders_own_work_is_not_said_to_have_done_it(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.board.holds.take(resources=["file:a.py"], hashes=["then"])

    def ann_saves_in_her_editor() -> str:
        return put(repo / "a.py", "hers\n")

    said = ben.tool("Bash", {"command": "make test"}, ann_saves_in_her_editor)
    told = said["hookSpecificOutput"]["additionalContext"]
    assert "these files changed while that command ran, and other agents hold them" in told
    assert "that command changed" not in told
    message = ann.board.messages.inbox()[0].body
    assert f"a.py changed while a shell command of {ben.name} ran, and you hold it" in message


def test_a_change_that_no_agent_made_is_not_put_on_who_held_the_file_before(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ben.read("a.py")
    ben.edit("a.py", "one", "1")
    ben.commit("a.py")
    ben.stop()
    ann.read("a.py")
    put(repo / "a.py", "a person wrote this\n")
    with pytest.raises(Denied) as denied:
        ann.write("a.py", "mine\n")
    assert "a.py was changed since you last saw it, by nobody that tiebreak knows" in denied.value.reason
    assert ben.name not in denied.value.reason
    assert "not by you" not in denied.value.reason
