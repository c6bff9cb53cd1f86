"""After a shell command: what it changed is held, reported, or put in quarantine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak import Lost, Refused

from ..cli.command import Tb, complaint
from .actors import Claude, Denied, git

Start = Callable[..., Claude]


def holders(agent: Claude) -> dict[str, str | None]:
    return {hold.resource: hold.holder for hold in agent.board.holds.list()}


def test_free_files_that_a_command_changed_are_held_and_told(claude: Start) -> None:
    ann = claude("ann")
    told = ann.bash("sed -i s/one/ONE/ a.py && echo new > src/new.py")
    assert "while that command ran, a.py, src/new.py changed; you hold them now" in told
    assert holders(ann) == {"file:a.py": ann.name, "file:src/new.py": ann.name}


def test_a_command_that_changes_nothing_says_nothing(claude: Start) -> None:
    ann = claude("ann")
    ann.bash("echo dirty >> a.py")
    assert ann.bash("cat a.py; git status") == ""


def test_a_file_of_somebody_else_is_quarantined_and_both_are_told(claude: Start) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    told = ben.bash("sed -i s/two/TWO/ a.py")
    assert f"a.py (held by {ann.name})" in told
    assert "cannot be committed" in told
    assert f"a.py changed while a shell command of {ben.name} ran" in ann.board.messages.inbox()[0].body
    with pytest.raises(Lost, match=f"a.py by {ann.name}"):
        ben.commit("a.py")
    with pytest.raises(Refused, match=f"changed while a command of {ben.name} ran"):
        ann.commit("a.py")
    with pytest.raises(Denied, match="was changed since you last saw it"):
        ann.write("a.py", "mine\n")


def test_its_holder_lifts_the_quarantine_by_reading_it(claude: Start) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ben.bash("sed -i s/two/TWO/ a.py")
    ben.read("a.py")
    with pytest.raises(Refused):
        ann.commit("a.py")
    ann.read("a.py")
    ann.commit("a.py")


def test_giving_a_file_back_as_it_was_lifts_the_quarantine(claude: Start) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ben.bash("sed -i s/two/TWO/ a.py")
    ben.bash("sed -i s/TWO/two/ a.py")
    ann.commit("a.py")


def test_a_checkout_that_throws_away_anothers_work_is_noticed(claude: Start) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    assert f"a.py (held by {ann.name})" in ben.bash("git checkout -- .")


def test_a_file_that_a_command_removed_is_noticed(claude: Start) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    assert f"a.py (was removed, held by {ann.name})" in ben.bash("rm a.py")


def test_what_others_changed_before_the_command_is_not_blamed_on_it(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    (repo / "src/b.py").write_text("by a person\n")
    assert ben.bash("true") == ""
    assert holders(ben) == {"file:a.py": ann.name}


def test_a_failed_command_is_looked_at_too(claude: Start, repo: Path) -> None:
    ann = claude("ann")
    given = {"command": "sed -i s/one/ONE/ a.py; false"}
    ann.say("PreToolUse", tool_name="Bash", tool_input=given, tool_use_id="t")
    (repo / "a.py").write_text("ONE\ntwo\n")
    said = ann.say("PostToolUseFailure", tool_name="Bash", tool_input=given, tool_use_id="t", error="exit 1")
    assert "a.py" in said["hookSpecificOutput"]["additionalContext"]


def test_after_a_command_of_ones_own_an_edit_goes_on_and_a_replacement_does_not(claude: Start) -> None:
    ann = claude("ann")
    ann.read("a.py")
    ann.edit("a.py", "one", "ONE")
    ann.bash("sed -i s/two/TWO/ a.py")
    with pytest.raises(Denied, match="by your own command"):
        ann.write("a.py", "ONE\ntwo\n")
    ann.edit("a.py", "TWO", "2")


def test_other_tools_that_may_write_are_watched_like_the_shell(claude: Start, repo: Path) -> None:
    ann = claude("ann")
    given = {"path": "a.py"}
    ann.say("PreToolUse", tool_name="mcp__files__write", tool_input=given, tool_use_id="t")
    (repo / "a.py").write_text("by a server\n")
    said = ann.say("PostToolUse", tool_name="mcp__files__write", tool_input=given, tool_use_id="t", tool_response={})
    assert "you hold them now" in said["hookSpecificOutput"]["additionalContext"]


def test_an_index_that_is_locked_by_another_git_does_not_matter(claude: Start, repo: Path) -> None:
    ann = claude("ann")
    (repo / ".git" / "index.lock").touch()
    assert "a.py" in ann.bash("sed -i s/one/ONE/ a.py")
    (repo / ".git" / "index.lock").unlink()
    assert git("status", "--porcelain", cwd=repo).strip() == "M a.py"


def test_a_glob_that_is_held_is_not_taken_for_a_file(claude: Start) -> None:
    ann = claude("ann")
    ann.board.holds.take(resources=["file:src/**"])
    told = ann.bash("echo new > src/new.py; rm src/new.py")
    assert told == ""
    assert list(holders(ann)) == ["file:src/**"]


def test_a_held_file_is_found_among_many_others(claude: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiebreak.guard.files.shell_changes.MOST", 3)
    ann, ben = claude("ann"), claude("ben")
    ann.edit("src/b.py", "b", "B")
    ann.board.holds.take(resources=["file:www/**"])
    told = ben.bash("touch 1 2 3 4 5 6; mkdir www; echo x > www/page; echo x >> src/b.py")
    assert f"src/b.py, www/page (held by {ann.name})" in told
    assert "4 more files changed" in told


def test_a_change_right_after_the_hook_has_a_later_time_than_the_hook(claude: Start, repo: Path) -> None:
    ann = claude("ann")
    for number in range(20):
        given = {"command": "…"}
        ann.say("PreToolUse", tool_name="Bash", tool_input=given, tool_use_id="t")
        (repo / f"new-{number}").touch()
        told = ann.say("PostToolUse", tool_name="Bash", tool_input=given, tool_use_id="t", tool_response={})
        assert f"new-{number} changed" in told["hookSpecificOutput"]["additionalContext"]


def test_a_failing_git_status_does_not_mean_that_nothing_was_changed(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ann.edit("src/b.py", "b", "B")
    index = (repo / ".git/index").read_bytes()
    (repo / ".git/index").write_bytes(b"broken")
    ann.stop()
    assert set(holders(ann)) == {"file:a.py", "file:src/b.py"}, "who knows what is uncommitted there"
    said = ben.tool("Bash", {"command": "x"}, lambda: (repo / "a.py").write_text("x"))
    assert "git status failed" in said["systemMessage"]
    assert f"a.py (held by {ann.name})" in said["hookSpecificOutput"]["additionalContext"]
    (repo / ".git/index").write_bytes(index)


@pytest.mark.parametrize(("path", "reason"), [("none.py", "neither there nor in quarantine"), ("src", "is a folder")])
def test_a_quarantine_that_does_not_exist_is_not_said_to_be_cleared(
    tb: Tb, claude: Start, path: str, reason: str
) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ben.bash("echo junk > a.py")
    assert reason in complaint(tb("guard", "clear", "a.py", path), 2)
    with pytest.raises(Refused):
        ann.commit("a.py")


def test_a_name_with_a_bracket_is_shown_as_it_is_on_disk(tb: Tb, repo: Path, claude: Start) -> None:
    (repo / "src/[x].py").write_text("x\n")
    git("add", "--all", cwd=repo)
    git("commit", "--quiet", "-m", "more", cwd=repo)
    assert tb("--as", "ann~1", "hold", "src/**").code == 0
    assert "src/[x].py (was removed, held by ann)" in claude("ben").bash("rm src/*x*")
