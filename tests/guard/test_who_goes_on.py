"""Nobody goes on with a file unseen: neither by an edit, nor as a sub-agent, nor after a tool that has failed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak import Refused
from tiebreak.guard.files import edit_marks
from tiebreak.guard.files.watched_files import quarantined

from ..cli.command import Tb
from .actors import Claude, Denied, git, put
from .test_overlapping_commands import begin, finish, messages

Start = Callable[..., Claude]


class Codex(Claude):
    """Codex has no tool that reads, so the guard knows of a file only what its commands and patches left."""

    client = "codex"

    def patch(self, name: str, old: str, new: str) -> None:
        """Apply a patch of one line."""
        path = self.cwd / name
        patch = f"*** Begin Patch\n*** Update File: {name}\n@@\n-{old}\n+{new}\n*** End Patch"
        self.tool("apply_patch", {"command": patch}, lambda: put(path, path.read_text().replace(old, new)))


@pytest.fixture
def codex(claude: Start, repo: Path) -> Codex:
    """A session of Codex beside those of Claude Code."""
    made = Codex("cod", repo, claude("ann").connect)
    made.start()
    return made


def edit_while(agent: Claude, new: str, *written: str) -> str:
    """An edit of a.py between whose hooks this is written, one after the other; what the agent is told."""
    path = agent.cwd / "a.py"
    edit = {"file_path": str(path), "old_string": "two", "new_string": new}
    agent.say("PreToolUse", tool_name="Edit", tool_input=edit, tool_use_id="e")
    for contents in written:
        put(path, contents)
    said = agent.say("PostToolUse", tool_name="Edit", tool_input=edit, tool_use_id="e", tool_response="ok")
    return str(said.get("hookSpecificOutput", {}).get("additionalContext", ""))


# ── Files that no tool has read ──────────────────────────────────────────────────────────────────────


def test_an_edit_does_not_end_a_quarantine_that_its_holder_has_not_looked_at(codex: Codex, claude: Start) -> None:
    ben = claude("ben")
    codex.bash("sed -i s/one/ONE/ a.py")
    ben.bash("printf 'junk\\ntwo\\n' > a.py")
    with pytest.raises(Denied) as denied:
        codex.patch("a.py", "two", "TWO")
    assert f"while a command of {ben.name} ran" in denied.value.reason
    assert "-ONE\n+junk" in denied.value.reason
    assert "`tb recover" in denied.value.reason
    codex.patch("a.py", "two", "TWO")  # it has seen the difference
    assert codex.commit("a.py")["paths"] == ["a.py"]


def test_an_edit_beside_a_command_that_has_just_overwritten_the_file_is_refused(
    codex: Codex, claude: Start, repo: Path
) -> None:
    ben = claude("ben")
    codex.bash("sed -i s/one/ONE/ a.py")
    begin(ben)
    put(repo / "a.py", "junk\ntwo\n")
    with pytest.raises(Denied, match="was changed since you left it"):
        codex.patch("a.py", "two", "TWO")
    codex.patch("a.py", "two", "TWO")
    assert f"a.py (held by {codex.name})" in finish(ben)
    assert f"your command and one of {ben.name} ran" in codex.bash("true")


def test_an_agent_goes_on_with_what_its_own_commands_left(codex: Codex) -> None:
    codex.bash("sed -i s/one/ONE/ a.py")
    codex.bash("sed -i s/ONE/first/ a.py")
    codex.patch("a.py", "two", "TWO")
    assert codex.commit("a.py")["paths"] == ["a.py"]


# ── Around an edit ───────────────────────────────────────────────────────────────────────────────────


def test_what_a_command_wrote_over_an_edit_is_not_taken_for_the_edit(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    told = edit_while(ann, "second line", "ONE\nsecond line\n", "junk\n")
    assert f"has nothing of this edit any more: it was written while a command of {ben.name} ran" in told
    begin(ann)
    with pytest.raises(Refused, match="you have not read it since"):
        ann.commit("a.py")
    finish(ann)
    assert f"a.py (held by {ann.name})" in finish(ben)
    assert ["a.py" in each for each in messages(ann)] == [True]
    assert quarantined(str(repo / "a.py")) is not None


def test_a_formatter_beside_a_command_of_somebody_else_is_no_interference(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    assert edit_while(ann, "if  two :\n  call( )\n", "ONE\nif two:\n    call( )\n") == ""
    assert finish(ben) == ""
    assert messages(ann) == []
    ann.commit("a.py")


def test_an_edit_of_which_nothing_more_is_heard_hides_no_change(
    codex: Codex, claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edit_marks, "PATIENCE", 0.05)
    ben = claude("ben")
    codex.patch("a.py", "one", "ONE")
    begin(ben)
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-not there\n+TWO\n*** End Patch"
    codex.say("PreToolUse", tool_name="apply_patch", tool_input={"command": patch}, tool_use_id="e")
    (repo / "a.py").unlink()
    assert f"a.py (was removed, held by {codex.name})" in finish(ben)
    assert ["a.py was removed" in each for each in messages(codex)] == [True]


# ── Sub-agents ───────────────────────────────────────────────────────────────────────────────────────


def test_the_main_agent_is_told_what_happened_to_a_file_of_its_sub_agent(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    part = claude("ann", part="helper")
    part.edit("a.py", "one", "ONE")
    part.write("new.py", "hers\n")
    ben.bash("rm a.py new.py")
    said = ann.say("UserPromptSubmit", prompt="go")["hookSpecificOutput"]["additionalContext"]
    assert f"To your sub-agent {part.name}: 2 files that you hold changed" in said
    assert "2 files that you hold changed" in part.bash("true")


def test_a_main_agent_takes_over_what_its_sub_agent_lost_and_did_not_see(claude: Start, tb: Tb, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    part = claude("ann", part="helper")
    part.edit("a.py", "one", "ONE")
    part.edit("docs/c.md", "c", "C")
    begin(part)
    ben.bash("rm a.py")
    part.say("SubagentStop", stop_hook_active=False)
    assert [(hold.resource, hold.holder) for hold in ann.board.holds.list()] == [("file:a.py", ann.name)]
    for agent in (ann, ben):
        with pytest.raises(Refused):
            agent.commit("a.py")
    told = ann.say("UserPromptSubmit", prompt="go")["hookSpecificOutput"]["additionalContext"]
    assert told.count("a.py was removed while a shell command of") == 1
    assert tb("--as", ann.agent, "recover", "a.py").code == 0
    assert (repo / "a.py").read_text() == "ONE\ntwo\n"


def test_a_sub_agent_does_not_go_on_unseen_with_what_its_main_agent_lost(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ben.bash("printf 'junk\\ntwo\\n' > a.py")
    with pytest.raises(Denied, match=f"while a command of {ben.name} ran"):
        claude("ann", part="helper").edit("a.py", "two", "TWO")
    assert quarantined(str(repo / "a.py")) is not None


def test_a_command_beside_one_of_a_sub_agent_is_told_what_it_may_have_changed(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    part = claude("ann", part="helper")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    begin(part)
    put(repo / "a.py", "who?\n")
    assert f"a.py, which {ann.name} of the same session holds, changed" in finish(part)
    assert f"a.py (held by {ann.name})" in finish(ben)
    assert f"while shell commands of {part.name} and {ben.name} ran" in ann.bash("true")


def test_a_main_agent_is_told_whose_file_its_command_changed(claude: Start, repo: Path) -> None:
    ann = claude("ann")
    part = claude("ann", part="helper")
    part.edit("a.py", "one", "ONE")
    told = ann.bash("rm a.py")
    assert f"a.py, which {part.name} of the same session holds, was removed while that command ran" in told
    told = part.bash("true")
    assert f"was removed while a shell command of {ann.name} ran" in told
    assert "by nobody" not in told
    assert "by nobody" not in part.bash("true")


def test_what_a_sub_agents_own_command_wrote_is_its_own_beside_one_of_its_main_agent(
    claude: Start, tb: Tb, repo: Path
) -> None:
    ann = claude("ann")
    part = claude("ann", part="helper")
    part.edit("a.py", "one", "ONE")
    begin(part)
    begin(ann)
    put(repo / "a.py", "by the helper's command\n")
    assert part.name in finish(ann)
    assert ann.name in finish(part)
    (repo / "a.py").unlink()
    assert tb("--as", part.agent, "recover", "a.py").code == 0
    assert (repo / "a.py").read_text() == "by the helper's command\n"


# ── Own work ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_holder_goes_on_in_a_folder_that_it_has_made_a_repository(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.write("app/main.py", "main\n")
    ann.bash("git init -q app")
    with pytest.raises(Denied, match=f"which {ann.name} holds, is out of reach"):
        ben.write("app/main.py", "his\n")
    ann.write("app/main.py", "main again\n")


def test_a_holder_goes_on_with_a_folder_that_it_has_moved_and_linked(claude: Start, repo: Path) -> None:
    ann = claude("ann")
    ann.edit("src/b.py", "b", "B")
    ann.bash("mv src lib && ln -s lib src")
    ann.edit("src/b.py", "B", "BB")
    assert (repo / "lib/b.py").read_text() == "BB\n"


def test_a_folder_that_somebody_else_made_a_repository_stops_edits(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("src/b.py", "b", "B")
    ben.bash("git init -q src")
    with pytest.raises(Denied, match="out of reach"):
        ann.edit("src/b.py", "B", "BB")


def test_an_own_removal_that_is_committed_beside_a_long_command_frees_the_file(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    ann.bash("git rm -qf a.py")
    ann.commit("a.py")
    finish(ben)
    ann.stop()
    assert ann.board.holds.list() == []


def test_what_a_holder_without_hooks_saved_last_comes_back(claude: Start, tb: Tb, repo: Path) -> None:
    ben = claude("ben")
    assert tb("--as", "ann", "hold", "a.py").code == 0
    put(repo / "a.py", "saved last\n")
    ben.bash("true")
    (repo / "a.py").unlink()
    assert tb("--as", "ann", "recover", "a.py").code == 0
    assert (repo / "a.py").read_text() == "saved last\n"


def test_a_file_that_another_put_back_as_it_was_at_first_is_not_as_its_holder_left_it(
    claude: Start, tb: Tb, repo: Path
) -> None:
    ben, cat = claude("ben"), claude("cat")
    assert tb("--as", "ann", "hold", "a.py").code == 0
    put(repo / "a.py", "saved last\n")
    cat.bash("true")
    assert "a.py (held by ann)" in ben.bash("git checkout -q a.py")


def test_a_change_of_a_sub_agents_file_by_nobody_that_is_known_is_not_its_own(
    claude: Start, tb: Tb, repo: Path
) -> None:
    ben = claude("ben")
    claude("ann")
    part = Claude("ann", repo, ben.connect, "helper")  # clients announce no start of a sub-agent
    part.edit("a.py", "one", "ONE")
    put(repo / "a.py", "a person's\n")
    ben.bash("true")
    assert "a.py, which you hold, changed after you left it, by nobody" in part.bash("true")
    assert tb("--as", part.agent, "recover", "a.py").code == 0
    assert (repo / "a.py").read_text() == "ONE\ntwo\n"


def test_what_a_main_agent_took_over_is_released_when_it_is_clean(claude: Start, tb: Tb) -> None:
    ann, ben = claude("ann"), claude("ben")
    part = claude("ann", part="helper")
    part.edit("a.py", "one", "ONE")
    ben.bash("git checkout -q a.py")
    part.say("SubagentStop", stop_hook_active=False)
    ann.read("a.py")
    ann.stop()
    assert ann.board.holds.list() == []


def test_a_sub_agent_that_holds_a_glob_is_told_what_its_main_agent_changes_there(claude: Start, tb: Tb) -> None:
    ann = claude("ann")
    part = claude("ann", part="helper")
    part.board.holds.take(resources=["file:src/**"])
    assert f"src/new.py (held by {part.name})" in ann.bash("touch src/new.py")
    assert f"src/new.py, which you hold, changed while a shell command of {ann.name} ran" in part.bash("true")


@pytest.mark.parametrize(
    ("written", "formatted", "is_lost"),
    [
        ("name = 'ann'", 'name = "ann",', False),
        ("{'a': 1,\n 'b': 2}", '{ "a": 1, "b": 2 }', False),
        ("name = 'ann'", "NAME = 'ann'", False),
        ("name = 'ann'", "who = 'ben'", True),
        ("}", "who = 'ben'", False),
    ],
)
def test_an_edit_of_one_line_that_was_formatted_is_still_the_edit(
    claude: Start, repo: Path, written: str, formatted: str, is_lost: bool
) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    assert bool(edit_while(ann, written, f"ONE\n{formatted}\n")) == is_lost


def test_a_change_of_a_file_that_was_held_unseen_is_not_put_on_who_held_it_before(
    claude: Start, tb: Tb, repo: Path
) -> None:
    cat, ben = claude("cat"), claude("ben")
    cat.edit("a.py", "one", "ONE")
    cat.commit("a.py")
    cat.end()
    ben.board.holds.take(resources=["file:a.py", "file:new.py"])
    ben.bash("true; touch docs/c.md")
    assert tb("--as", ben.agent, "renew", "a.py", "new.py").code == 0
    put(repo / "a.py", "a person's\n")
    put(repo / "new.py", "a person's\n")
    for name in ("a.py", "new.py"):
        with pytest.raises(Denied) as denied:
            ben.edit(name, "a person's", "mine")
        assert "since you left it, by nobody that tiebreak knows" in denied.value.reason
        assert "+a person's" in denied.value.reason


# ── What is told once, and only when it was shown ────────────────────────────────────────────────────


def test_a_message_that_had_no_room_at_the_start_comes_with_the_next_turn(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    for number in range(5):
        ben.board.messages.send(to=ann.name, body=f"{number} " + "much to read " * 100, channel="guard")
    shown = ann.start()
    assert "0 much" in shown
    assert "4 much" not in shown
    turns = [ann.say("UserPromptSubmit", prompt="go") for _ in range(6)]
    assert any("4 much" in str(turn) for turn in turns)


def test_more_notes_than_fit_after_a_command_come_with_the_next_one(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    names = [f"docs/{number:02}-{'long' * 20}.md" for number in range(30)]
    for name in names:
        ann.write(name, "hers\n")
    begin(ben)
    begin(ann)
    for name in names:
        put(repo / name, "who?\n")
    told = [finish(ann), *(ann.bash("true") for _ in range(15))]
    assert max(map(len, told)) < 4000
    assert all(any(name in each for each in told) for name in names)


def test_all_files_below_a_folder_that_was_replaced_are_named(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    names = [f"src/{number}-of-several-files.txt" for number in range(8)]
    for name in names:
        ann.write(name, "hers\n")
    told = ben.bash("mv src elsewhere && ln -s elsewhere src")
    assert ", ".join(names) + " (is out of reach, because its folder src was replaced" in told
    assert all(name in messages(ann)[0] for name in names)


# ── Repositories inside ──────────────────────────────────────────────────────────────────────────────


def test_a_repository_inside_is_held_by_nobody(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.bash("git init -q inner && git -C inner commit -q --allow-empty -m begin && touch inner/file")
    assert ann.board.holds.list() == []
    assert ben.bash("touch inner/other") == ""


def test_who_puts_a_repository_over_a_held_file_holds_nothing_in_it(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("src/b.py", "b", "B")
    ben.bash("rm -rf src && git init -q src && touch src/n.py")
    assert [hold.holder for hold in ann.board.holds.list()] == [ann.name]
    ann.bash(f"mv src {repo.parent}/elsewhere")
    assert messages(ben) == []


def test_a_session_stays_in_its_project_when_its_worktree_is_gone_and_one_file_is_back(
    claude: Start, tb: Tb, repo: Path, tmp_path: Path
) -> None:
    git("worktree", "add", "-q", str(tmp_path / "fix"), cwd=repo)
    ann, ben = claude("ann", tmp_path / "fix"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ann.say("UserPromptSubmit", prompt="go")
    ben.bash(f"git worktree remove --force {tmp_path / 'fix'}")
    assert tb("--as", ann.agent, "recover", str(tmp_path / "fix/a.py")).code == 0
    assert "a.py was removed" in str(ann.say("UserPromptSubmit", prompt="go"))
    ann.end()
    assert ben.board.holds.list() == []


def test_a_file_that_vanishes_while_its_holder_commits_an_edit_is_not_left_so(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    hook = repo / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nrm a.py\n")  # while it runs, ben's command removes the file
    hook.chmod(0o755)
    begin(ben)
    ann.commit("a.py")
    assert f"a.py (was removed, held by {ann.name})" in finish(ben)
    assert ["a.py was removed" in each for each in messages(ann)] == [True]
