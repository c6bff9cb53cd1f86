"""Commands that run at the same time, in one checkout: whose change it was, what is kept, and who is told."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiebreak import Refused
from tiebreak.guard.files import disk_state, interference
from tiebreak.guard.files.safety_copies import copies
from tiebreak.guard.files.watched_files import quarantined, watched

from ..cli.command import Tb
from .actors import Claude, git, put

Start = Callable[..., Claude]
RUN: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "…"}}
BOTH_RAN = "changed while your command and one of {} ran"


def begin(agent: Claude, use: str = "1") -> None:
    """The hook before a command."""
    agent.say("PreToolUse", **RUN, tool_use_id=use)


def finish(agent: Claude, use: str = "1") -> str:
    """The hook after it; what the agent is told."""
    said = agent.say("PostToolUse", **RUN, tool_use_id=use, tool_response={})
    return str(said.get("hookSpecificOutput", {}).get("additionalContext", ""))


def messages(agent: Claude) -> list[str]:
    """All that an agent has been sent."""
    return [each.body for each in agent.board.messages.inbox()]


def kept(path: Path) -> list[bytes]:
    """The contents that can be brought back, the newest first."""
    return [each.contents() for each in copies(str(path))]


# ── Both commands may have done it ───────────────────────────────────────────────────────────────────


def test_a_change_beside_a_command_that_goes_on_is_told_to_both_holder_first(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    begin(ann)
    put(repo / "a.py", "who wrote this?\n")
    told = finish(ann)
    assert "a.py" in told
    assert BOTH_RAN.format(ben.name) in told
    told = finish(ben)
    assert f"a.py (held by {ann.name})" in told
    assert BOTH_RAN.format(ann.name) in told
    assert kept(repo / "a.py")[:2] == [b"who wrote this?\n", b"ONE\ntwo\n"]
    assert messages(ann) == []
    assert quarantined(str(repo / "a.py")) is None


def test_a_change_beside_a_command_that_goes_on_is_told_to_both_holder_last(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    begin(ann)
    put(repo / "a.py", "who wrote this?\n")
    told = finish(ben)
    assert f"a.py (held by {ann.name})" in told
    assert BOTH_RAN.format(ann.name) in told
    told = finish(ann)
    assert "a.py" in told
    assert BOTH_RAN.format(ben.name) in told
    assert kept(repo / "a.py")[:2] == [b"who wrote this?\n", b"ONE\ntwo\n"]
    assert quarantined(str(repo / "a.py")) is None
    ann.commit("a.py")


def test_of_three_commands_each_is_told(claude: Start, repo: Path) -> None:
    ann, ben, cat = claude("ann"), claude("ben"), claude("cat")
    ann.edit("a.py", "one", "ONE")
    for agent in (ben, cat, ann):
        begin(agent)
    put(repo / "a.py", "who wrote this?\n")
    assert BOTH_RAN.format(ann.name) in finish(ben)
    told = finish(ann)
    assert ben.name in told
    assert cat.name in told
    assert BOTH_RAN.format(ann.name) in finish(cat)


def test_a_change_during_a_command_that_began_later_than_the_holders_is_in_quarantine(
    claude: Start, repo: Path
) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ann)
    ben.bash("echo junk > a.py")
    assert f"a.py changed while a shell command of {ben.name} ran" in messages(ann)[0]
    finish(ann)
    with pytest.raises(Refused, match=f"changed while a command of {ben.name} ran"):
        ann.commit("a.py")


def test_the_holders_own_edit_beside_a_command_is_told_to_nobody(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    ann.edit("a.py", "two", "TWO")
    assert finish(ben) == ""
    assert messages(ann) == []


def test_a_change_before_the_holders_command_began_is_the_others_alone(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    put(repo / "a.py", "ben wrote this\n")
    begin(ann)
    told = finish(ben)
    assert f"a.py (held by {ann.name})" in told
    assert "your command and one of" not in told
    assert f"a.py changed while a shell command of {ben.name} ran" in messages(ann)[0]
    assert quarantined(str(repo / "a.py")) is not None


def test_a_change_before_the_others_command_began_is_the_holders_alone(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ann)
    put(repo / "a.py", "hers\n")
    begin(ben)
    assert BOTH_RAN.format(ben.name) not in finish(ann)
    assert finish(ben) == ""
    assert quarantined(str(repo / "a.py")) is None


def test_a_held_file_that_vanishes_while_both_ran_stays_held_and_comes_back(claude: Start, tb: Tb, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.write("new.py", "hers\n")
    begin(ben)
    begin(ann)
    (repo / "new.py").unlink()
    told = finish(ann)
    assert f"new.py, which you hold, was removed while your command and one of {ben.name} ran" in told
    assert "was removed" in finish(ben)
    ann.stop()
    assert [hold.resource for hold in ann.board.holds.list()] == ["file:new.py"]
    assert tb("--as", ann.agent, "recover", "new.py").code == 0
    assert (repo / "new.py").read_text() == "hers\n"


def test_a_holder_that_moved_its_own_file_beside_a_long_command_commits_it(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    begin(ann)
    git("mv", "a.py", "z.py", cwd=repo)
    finish(ann)
    finish(ben)
    ann.commit("a.py", "z.py")
    assert git("show", "--format=", "--name-status", "--no-renames", cwd=repo) == "D\ta.py\nA\tz.py\n"
    assert messages(ann) == []


# ── What was destroyed just now is not what the holder left ──────────────────────────────────────────


def test_a_look_while_another_command_destroys_a_file_keeps_what_its_holder_left(
    claude: Start, tb: Tb, repo: Path
) -> None:
    ann, ben, cat = claude("ann"), claude("ben"), claude("cat")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    put(repo / "a.py", "destroyed\n")
    cat.bash("true")
    assert f"a.py (held by {ann.name})" in finish(ben)
    assert tb("--as", ann.agent, "recover", "a.py").code == 0
    assert (repo / "a.py").read_text() == "ONE\ntwo\n"


def test_a_file_that_two_commands_destroyed_is_as_its_holder_left_it_again(claude: Start, tb: Tb, repo: Path) -> None:
    ann, ben, cat = claude("ann"), claude("ben"), claude("cat")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    put(repo / "a.py", "destroyed\n")
    begin(cat)
    put(repo / "a.py", "once more\n")
    for each in (cat, ben):
        assert f"a.py (held by {ann.name})" in finish(each)
    assert tb("--as", ann.agent, "recover", "a.py").code == 0
    assert (repo / "a.py").read_text() == "ONE\ntwo\n"
    assert b"destroyed\n" in kept(repo / "a.py")


def test_what_a_holder_without_hooks_left_beside_a_command_is_kept_too(claude: Start, tb: Tb, repo: Path) -> None:
    ben, cat = claude("ben"), claude("cat")
    assert tb("--as", "ann~1", "hold", "a.py").code == 0
    begin(ben)
    put(repo / "a.py", "hers\n")
    cat.bash("true")
    finish(ben)
    assert b"hers\n" in kept(repo / "a.py")


# ── Branches ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_branch_that_a_bystander_sees_change_is_told_as_the_change_of_who_runs(claude: Start, repo: Path) -> None:
    git("branch", "other", cwd=repo)
    ann, ben, cat = claude("ann"), claude("ben"), claude("cat")
    ann.edit("a.py", "one", "ONE")
    ben.edit("docs/c.md", "c", "C")
    begin(ben)
    git("checkout", "--quiet", "other", cwd=repo)
    cat.bash("true")
    assert f"while a shell command of {ben.name} ran" in messages(ann)[0]
    assert messages(ben) == []
    assert "changed from branch main to branch other" in finish(ben)
    assert ben.commit("docs/c.md")["branch"] == "other"


# ── Reports that must not get lost ───────────────────────────────────────────────────────────────────


class Killed(BaseException):
    """The hook's process ends here."""


def killed(*_: object, **__: object) -> None:
    raise Killed


@pytest.mark.parametrize(
    "place", ["files.interference.tell_holder", "commits.checkout_branch.tell", "commits.new_commits.tell"]
)
def test_a_hook_that_is_killed_before_it_tells_is_made_up_for(
    claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    git("branch", "other", cwd=repo)
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    put(repo / "a.py", "destroyed\n")
    git("checkout", "--quiet", "other", cwd=repo)
    git("commit", "--quiet", "--no-verify", "-am", "past the checks", cwd=repo)
    with monkeypatch.context() as planted:
        planted.setattr(f"tiebreak.guard.{place}", killed)
        with pytest.raises(Killed):
            finish(ben)
    ben.say("UserPromptSubmit", prompt="go on")
    told = "\n".join(messages(ann))
    assert "a.py changed while a shell command of" in told
    assert "changed from branch main to branch other" in told
    assert "no check has passed it" in told


def test_a_hook_that_is_repeated_tells_once(claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    put(repo / "a.py", "destroyed\n")
    with monkeypatch.context() as planted:
        planted.setattr("tiebreak.guard.files.shell_changes.status_of", killed)
        with pytest.raises(Killed):
            finish(ben)
    assert len(messages(ann)) == 1
    ben.stop()
    assert len(messages(ann)) == 1


def test_an_edit_of_the_holder_between_look_and_record_is_not_lost(
    claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    put(repo / "a.py", "destroyed\n")
    real, once = disk_state.look, [True]

    def look_and_pause(root: str, name: str) -> Any:
        found = real(root, name)
        if name == "a.py" and once.pop():
            once.append(False)
            monkeypatch.setattr(interference, "look", real)
            ann.read("a.py")
            ann.edit("a.py", "destroyed", "hers again")
        return found

    monkeypatch.setattr(interference, "look", look_and_pause)
    finish(ben)
    record = watched(str(repo / "a.py"))
    assert record is not None
    assert record.by == ""
    assert record.seen == real(str(repo), "a.py").signature
    ann.commit("a.py")


def test_a_holder_does_not_commit_unseen_what_a_running_command_wrote(claude: Start, tb: Tb, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    put(repo / "a.py", "junk\n")
    begin(ann)
    refused = tb("--as", ann.agent, "commit", "a.py", "-m", "work")
    assert refused.code == 1
    assert f"a.py changed while a command of {ben.name} runs, and you have not read it since" in refused.err
    words = shlex.split(refused.err.partition("`tb ")[2].partition("`")[0])
    assert tb("--as", ann.agent, *words, cwd=repo / "docs").code == 0
    assert tb("--as", ann.agent, "commit", "a.py", "-m", "work").code == 0


def test_a_holder_commits_what_it_wrote_itself_beside_a_running_command(claude: Start, tb: Tb, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    begin(ben)
    ann.edit("a.py", "one", "ONE")
    ann.bash("echo three >> a.py")
    begin(ann)
    put(repo / "docs/c.md", "the same command\n")
    assert tb("--as", ann.agent, "commit", "a.py", "docs/c.md", "-m", "work").code == 0


def test_what_a_holder_left_last_comes_back_after_a_long_command(claude: Start, tb: Tb, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ann)
    put(repo / "a.py", "first\n")
    begin(ben)
    put(repo / "a.py", "first\nsecond\n")
    finish(ann)
    put(repo / "a.py", "junk\n")
    assert f"a.py (held by {ann.name})" in finish(ben)
    assert tb("--as", ann.agent, "recover", "a.py").code == 0
    assert (repo / "a.py").read_text() == "first\nsecond\n"


# ── What no command is known to have done ────────────────────────────────────────────────────────────


def test_a_file_that_a_person_overwrote_is_told_with_the_holders_next_command(claude: Start, repo: Path) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    put(repo / "a.py", "a person wrote this\n")
    told = ann.bash("true")
    assert "a.py, which you hold, changed after you left it, by nobody that tiebreak knows" in told
    assert "tb recover" in told
    assert ann.bash("true") == ""


def test_a_commit_says_when_a_person_overwrote_what_it_commits(claude: Start, tb: Tb, repo: Path) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    put(repo / "a.py", "a person wrote this\n")
    begin(ann)
    done = tb("--as", ann.agent, "commit", "a.py", "-m", "work")
    assert done.code == 0
    assert "a.py, which you hold, changed after you left it, by nobody that tiebreak knows" in done.err


def test_a_commit_of_what_the_own_command_wrote_says_nothing(claude: Start, tb: Tb, repo: Path) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    begin(ann)
    put(repo / "a.py", "her own command wrote this\n")
    done = tb("--as", ann.agent, "commit", "a.py", "-m", "work")
    assert done.code == 0
    assert "changed" not in done.err


def test_a_file_that_the_holder_has_read_again_is_told_no_more(claude: Start, tb: Tb, repo: Path) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    put(repo / "a.py", "a person wrote this\n")
    ann.read("a.py")
    assert ann.bash("true") == ""
    assert "changed" not in tb("--as", ann.agent, "commit", "a.py", "-m", "work").err


# ── From elsewhere ───────────────────────────────────────────────────────────────────────────────────


def test_a_command_from_outside_of_any_repository_is_seen(claude: Start, tb: Tb, repo: Path, tmp_path: Path) -> None:
    ann, ben = claude("ann"), claude("ben", cwd=tmp_path)
    ann.write("src/new.py", "hers\n")
    told = ben.bash(f"rm -rf {repo}/src")
    assert f"{repo}/src/new.py (was removed, held by {ann.name})" in told
    assert "src/new.py was removed while a shell command of" in messages(ann)[0]
    assert tb("--as", ann.agent, "recover", "src/new.py").code == 0


def test_a_command_in_another_repository_is_seen(claude: Start, repo: Path, tmp_path: Path) -> None:
    from .actors import repository

    elsewhere = repository(tmp_path / "elsewhere", {"b.py": "b\n"})
    ann, ben = claude("ann"), claude("ben", cwd=elsewhere)
    ann.edit("a.py", "one", "ONE")
    told = ben.bash(f"git -C {repo} checkout -q -- . && git -C {repo} checkout -q -b new")
    assert f"a.py (held by {ann.name})" in told
    assert "changed from branch main to branch new" in told
    assert f"a.py changed while a shell command of {ben.name} ran" in messages(ann)[0]
    assert "changed from branch main to branch new" in messages(ann)[1]


def test_a_hint_works_from_anywhere(claude: Start, tb: Tb, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.write("src/with space.py", "hers\n")
    ben.bash("rm 'src/with space.py'")
    words = shlex.split(messages(ann)[0].partition("`tb ")[2].partition("`")[0])
    assert words[0] == "recover"
    done = tb("--as", ann.agent, *words, cwd=repo / "docs")
    assert done.code == 0, done.err
    assert (repo / "src/with space.py").read_text() == "hers\n"
