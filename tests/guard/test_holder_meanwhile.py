"""What a holder does to its file while it is in quarantine, or while a command of another agent runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiebreak import Lost, Refused
from tiebreak.guard.agent_notes import leave_notes
from tiebreak.guard.agent_state import AgentState
from tiebreak.guard.files import interference
from tiebreak.guard.files.left_contents import remember_here
from tiebreak.guard.files.watched_files import quarantined, watched

from ..cli.command import Tb
from .actors import git, put
from .test_overlapping_commands import Killed, Start, begin, finish, kept, killed, messages


def test_what_a_holder_brought_back_beside_a_command_that_destroys_it_again_is_told(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    put(repo / "a.py", "junk\n")
    begin(ben)
    ann.read("a.py")
    ann.write("a.py", "ONE\ntwo\n")
    put(repo / "a.py", "junk\n")  # as before the command
    assert f"a.py (held by {ann.name})" in finish(ben)
    assert f"a.py changed while a shell command of {ben.name} ran" in messages(ann)[0]
    assert b"ONE\ntwo\n" in kept(repo / "a.py")


def test_a_file_that_was_made_and_removed_beside_a_command_is_told(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ann.bash("rm a.py")
    begin(ben)
    ann.write("a.py", "made anew\n")
    (repo / "a.py").unlink()
    assert f"a.py (was removed, held by {ann.name})" in finish(ben)
    assert f"a.py was removed while a shell command of {ben.name} ran" in messages(ann)[0]
    assert b"made anew\n" in kept(repo / "a.py")


def test_the_work_of_a_holders_command_that_still_runs_is_not_taken_back_unseen(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ann)
    (repo / "a.py").write_text("by the command of ann\n")
    ben.bash("printf 'ONE\\ntwo\\n' > a.py")  # as ann left it before
    assert f"a.py changed while a shell command of {ben.name} ran" in messages(ann)[0]
    assert b"by the command of ann\n" in kept(repo / "a.py")
    assert quarantined(str(repo / "a.py")) is not None


def test_what_a_holders_command_made_of_a_file_in_quarantine_is_not_taken_back_unseen(
    claude: Start, repo: Path
) -> None:
    ann, ben, cat = claude("ann"), claude("ben"), claude("cat")
    ann.edit("a.py", "one", "ONE")
    ben.bash("echo junk >> a.py")
    ann.bash("sed -i 1d a.py")
    cat.bash("printf 'ONE\\ntwo\\n' > a.py")  # as ann left it before
    assert f"a.py changed while a shell command of {cat.name} ran" in messages(ann)[1]
    assert b"two\njunk\n" in kept(repo / "a.py")
    with pytest.raises(Refused, match=f"changed while a command of {ben.name} ran"):
        ann.commit("a.py")


def test_a_folder_in_the_place_of_a_file_is_told_once_whatever_happens_in_it(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    ann.bash("rm a.py; mkdir a.py")
    assert f"a.py (was replaced by a folder, held by {ann.name})" in finish(ben)
    assert "held by" not in ben.bash("touch a.py/inside")
    assert messages(ann) == []


def test_a_held_file_that_is_in_another_checkout_alone_is_not_taken_for_removed_here(
    claude: Start, repo: Path, tmp_path: Path
) -> None:
    ann = claude("ann")
    ann.write("new.py", "only here\n")
    git("worktree", "add", "--quiet", str(tmp_path / "other"), cwd=repo)
    ann.cwd = tmp_path / "other"
    ann.bash("echo more > own.py")
    assert watched(str(tmp_path / "other" / "own.py")) is not None
    assert watched(str(tmp_path / "other" / "new.py")) is None


# ── In quarantine ────────────────────────────────────────────────────────────────────────────────────


def test_what_a_holder_without_hooks_saves_in_quarantine_is_kept(claude: Start, tb: Tb, repo: Path) -> None:
    held = tb("hold", "a.py", "--as", "hank")
    assert held.code == 0, held.err
    ben = claude("ben")
    begin(ben)
    put(repo / "a.py", "saved while a test ran\n")
    finish(ben)
    assert quarantined(str(repo / "a.py")) is not None
    put(repo / "a.py", "saved in quarantine\n")
    ben.bash("git checkout -q a.py")
    assert b"saved while a test ran\n" in kept(repo / "a.py")
    assert b"saved in quarantine\n" in kept(repo / "a.py")


def test_a_file_that_is_removed_twice_is_told_twice(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ben.bash("rm a.py")
    ann.bash("echo anew > a.py")
    ben.bash("rm a.py")
    assert [f"a.py was removed while a shell command of {ben.name} ran" in each for each in messages(ann)] == [True] * 2


def test_nobody_gives_back_a_file_over_what_its_holder_made_of_it_since(claude: Start, tb: Tb, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ben.bash("echo junk >> a.py")
    ann.bash("sed -i 1d a.py")
    given_back = tb("recover", "a.py", "--as", ben.agent)
    assert given_back.code == 1
    assert f"a.py is held by {ann.name}" in given_back.err
    assert (repo / "a.py").read_text() == "two\njunk\n"


def test_a_change_after_an_edit_that_failed_is_told(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    given = {"file_path": str(repo / "a.py"), "old_string": "not there", "new_string": ""}
    ann.say("PreToolUse", tool_name="Edit", tool_input=given, tool_use_id="e")
    ann.say("PostToolUseFailure", tool_name="Edit", tool_input=given, tool_use_id="e", error="no such string")
    assert f"a.py (held by {ann.name})" in ben.bash("echo junk > a.py")
    assert f"a.py changed while a shell command of {ben.name} ran" in messages(ann)[0]


# ── Nothing is cut off ───────────────────────────────────────────────────────────────────────────────


def test_a_command_beside_very_many_held_files_is_looked_at(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    names = [f"{'long' * 50}/{'name' * 50}-{number}.py" for number in range(700)]
    for start in range(0, len(names), 100):
        held = ann.board.holds.take(resources=[f"file:{name}" for name in names[start : start + 100]])
        remember_here(ann.board, held, str(repo))
    begin(ben)
    (repo / "a.py").unlink()
    assert "a.py (was removed" in finish(ben)
    assert f"a.py was removed while a shell command of {ben.name} ran" in messages(ann)[0]


def test_the_last_of_very_many_holds_counts_like_the_first(claude: Start, repo: Path) -> None:
    ann, ben, cat = claude("ann"), claude("ben"), claude("cat")
    for start in range(0, 1200, 100):
        names = [f"file:made-{number}.py" for number in range(start, start + 100)]
        cat.board.holds.take(resources=names, lease=60)  # listed before a.py, which is held for longer
    ann.edit("a.py", "one", "ONE")
    with pytest.raises(Lost, match=f"files that others hold: a.py by {ann.name}"):
        ben.commit("a.py")
    assert f"a.py (was removed, held by {ann.name})" in ben.bash("rm a.py")


def test_notes_that_a_prompt_has_no_room_for_come_with_the_next(claude: Start, repo: Path) -> None:
    ann = claude("ann")
    names = [f"{'far/' * 20}file-{number}.py" for number in range(20)]
    for name in names:
        ann.write(name, "ann\n")
    for name in names:
        put(repo / name, "by a person\n")
    told = "".join(
        str(ann.say("UserPromptSubmit", prompt="go on").get("hookSpecificOutput", {}).get("additionalContext", ""))
        for _ in range(5)
    )
    assert [name for name in names if name not in told] == []


def test_a_long_note_keeps_back_neither_other_notes_nor_messages(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    leave_notes(AgentState(ann.agent), ["a long note " * 500])
    leave_notes(AgentState(ann.agent), ["another note"])
    ben.board.messages.send(to=ann.name, body="a message")
    told = [
        str(ann.say("UserPromptSubmit", prompt="go on").get("hookSpecificOutput", {}).get("additionalContext", ""))
        for _ in range(3)
    ]
    assert told[0].startswith("a long note")
    assert "another note" in told[1]
    assert "a message" in told[1]
    assert told[2] == ""


def test_a_hook_that_is_killed_when_it_has_accepted_a_change_tells_it_later(
    claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    begin(ann)
    put(repo / "a.py", "who wrote this?\n")
    with monkeypatch.context() as planted:
        planted.setattr(interference, "harmed", killed)  # comes after the own files
        with pytest.raises(Killed):
            finish(ann)
    told = ann.say("UserPromptSubmit", prompt="go on").get("hookSpecificOutput", {}).get("additionalContext", "")
    assert f"a.py, which you hold, changed while your command and one of {ben.name} ran" in told
