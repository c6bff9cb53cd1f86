"""At the edges of commands and tools: nothing slips through between two hooks, and nobody is blamed wrongly."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tiebreak import Refused
from tiebreak.guard.files.safety_copies import copies
from tiebreak.guard.files.watched_files import quarantined

from ..cli.command import Tb
from .actors import Claude, Denied, git, put, repository

Start = Callable[..., Claude]
RUN: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "…"}}


def begin(agent: Claude, use: str = "1") -> None:
    agent.say("PreToolUse", **RUN, tool_use_id=use)


def context(said: dict[str, Any]) -> str:
    return str(said.get("hookSpecificOutput", {}).get("additionalContext", ""))


def finish(agent: Claude, use: str = "1") -> str:
    return context(agent.say("PostToolUse", **RUN, tool_use_id=use, tool_response={}))


def messages(agent: Claude) -> list[str]:
    return [each.body for each in agent.board.messages.inbox()]


def edit_call(path: Path) -> dict[str, Any]:
    return {"tool_name": "Edit", "tool_input": {"file_path": str(path), "old_string": "a", "new_string": "b"}}


# ── Held after the command had begun ─────────────────────────────────────────────────────────────────


def test_a_file_taken_during_a_command_is_guarded_against_that_command(claude: Start, tb: Tb, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    begin(ben)
    ann.edit("a.py", "one", "ONE")
    put(repo / "a.py", "junk\n")
    assert f"a.py (held by {ann.name})" in finish(ben)
    assert f"a.py changed while a shell command of {ben.name} ran" in messages(ann)[0]
    with pytest.raises(Refused, match=f"changed while a command of {ben.name} ran"):
        ann.commit("a.py")
    assert tb("--as", ann.agent, "recover", "a.py").code == 0
    assert (repo / "a.py").read_text() == "ONE\ntwo\n"


def test_a_file_taken_during_a_command_that_leaves_it_alone_is_told_to_nobody(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    begin(ben)
    ann.edit("a.py", "one", "ONE")
    ann.bash("echo three >> docs/c.md")
    assert "a.py" not in finish(ben)
    assert messages(ann) == []
    ann.commit("a.py")


# ── Between the hooks of an edit ─────────────────────────────────────────────────────────────────────


def test_a_command_that_ends_while_the_holder_edits_is_not_blamed(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    ann.say("PreToolUse", **edit_call(repo / "a.py"), tool_use_id="e")
    put(repo / "a.py", "ONE\nTWO\n")
    with ThreadPoolExecutor() as threads:
        told = threads.submit(finish, ben)
        with pytest.raises(TimeoutError):
            told.result(0.2)  # it waits
        ann.say("PostToolUse", **edit_call(repo / "a.py"), tool_use_id="e", tool_response="ok")
        assert told.result() == ""
    assert messages(ann) == []
    ann.commit("a.py")


def test_an_edit_that_waits_for_a_person_does_not_cover_what_a_command_does(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    ann.say("PreToolUse", **edit_call(repo / "a.py"), tool_use_id="e")
    ann.say("PermissionRequest", **edit_call(repo / "a.py"))
    put(repo / "a.py", "junk\n")
    assert f"a.py (held by {ann.name})" in finish(ben)
    assert quarantined(str(repo / "a.py")) is not None


def test_a_command_that_waits_for_a_person_has_changed_nothing(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    begin(ann)
    ann.say("PermissionRequest", **RUN)
    put(repo / "a.py", "junk\n")
    assert f"a.py (held by {ann.name})" in finish(ben)
    assert quarantined(str(repo / "a.py")) is not None


# ── Reading ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_read_during_the_command_is_told_to_both(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    put(repo / "a.py", "junk\n")
    file = {"filePath": str(repo / "a.py"), "content": "junk\n", "numLines": 1, "startLine": 1, "totalLines": 1}
    read = {"tool_name": "Read", "tool_input": {"file_path": str(repo / "a.py")}, "tool_use_id": "r"}
    said = ann.say("PostToolUse", **read, tool_response={"type": "text", "file": file})
    assert f"a.py, which you hold, changed while your command and one of {ben.name} ran" in context(said)
    assert f"a.py (held by {ann.name})" in finish(ben)


@pytest.mark.parametrize("reader", ["the holder reads a part", "a sub-agent reads"])
def test_a_read_of_a_part_or_by_somebody_else_leaves_the_quarantine(claude: Start, repo: Path, reader: str) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ben.bash("echo junk >> a.py")
    who, lines = (ann, 1) if "part" in reader else (claude("ann", part="helper"), 3)
    file = {"filePath": str(repo / "a.py"), "content": "ONE\n", "numLines": lines, "startLine": 1, "totalLines": 3}
    read = {"tool_name": "Read", "tool_input": {"file_path": str(repo / "a.py")}, "tool_use_id": "r"}
    who.say("PostToolUse", **read, tool_response={"type": "text", "file": file})
    assert quarantined(str(repo / "a.py")) is not None


# ── Agents and their sub-agents ──────────────────────────────────────────────────────────────────────


def test_a_sub_agent_is_told_what_its_main_agent_does_to_its_file(claude: Start, tb: Tb, repo: Path) -> None:
    ann = claude("ann")
    helper = claude("ann", part="helper")
    helper.edit("a.py", "one", "ONE")
    ann.bash("git checkout -q -- .")
    told = helper.bash("true")
    assert f"a.py, which you hold, changed while a shell command of {ann.name} ran" in told
    words = shlex.split(told.partition("`tb ")[2].partition("`")[0])
    assert tb("--as", helper.agent, *words, cwd=repo / "docs").code == 0
    assert (repo / "a.py").read_text() == "ONE\ntwo\n"


def test_a_main_agent_is_told_what_a_sub_agent_removes(claude: Start, repo: Path) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    claude("ann", part="helper").bash("rm a.py")
    assert "a.py, which you hold, was removed while a shell command of" in ann.bash("true")
    assert b"ONE\ntwo\n" in [each.contents() for each in copies(str(repo / "a.py"))]


def test_a_main_agent_commits_what_its_sub_agent_wrote(claude: Start, repo: Path) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    claude("ann", part="helper").bash("echo three >> a.py")
    assert ann.commit("a.py")["paths"] == ["a.py"]


# ── Other checkouts and projects ─────────────────────────────────────────────────────────────────────


def test_a_change_in_another_checkout_is_told_as_what_it_is_and_once(claude: Start, repo: Path, tmp_path: Path) -> None:
    git("worktree", "add", "--quiet", str(tmp_path / "tree"), cwd=repo)
    ann, ben = claude("ann"), claude("ben", cwd=tmp_path / "tree")
    ann.edit("a.py", "one", "ONE")
    ben.bash("echo more >> a.py")
    assert f"a.py changed in the checkout {tmp_path}/tree while a shell command of {ben.name} ran" in messages(ann)[0]
    assert "Yours is not touched" in messages(ann)[0]
    assert ben.bash("git checkout -q a.py") == ""
    assert len(messages(ann)) == 1
    ann.commit("a.py")


def test_the_holder_is_told_in_the_project_of_its_session(claude: Start, repo: Path, tmp_path: Path) -> None:
    elsewhere = repository(tmp_path / "elsewhere", {"b.py": "b\n"})
    ann, ben = claude("ann"), claude("ben", cwd=elsewhere)
    ann.tool(
        "Edit",
        {"file_path": str(elsewhere / "b.py"), "old_string": "b", "new_string": "B"},
        lambda: put(elsewhere / "b.py", "B\n"),
    )
    ben.bash("rm b.py")
    said = context(ann.say("UserPromptSubmit", prompt="go on"))
    assert f"b.py was removed while a shell command of {ben.name} ran" in said


def test_what_a_command_did_is_told_although_it_removed_its_own_folder(claude: Start, repo: Path) -> None:
    (repo / "work").mkdir()
    ann, ben = claude("ann"), claude("ben", cwd=repo / "work")
    ann.edit("a.py", "one", "ONE")
    told = ben.bash("cd .. && rm -r work && echo junk > a.py")
    assert f"a.py (held by {ann.name})" in told
    assert "a.py changed while a shell command of" in messages(ann)[0]


# ── What is remembered ───────────────────────────────────────────────────────────────────────────────


def test_the_prompt_of_one_session_keeps_the_marks_of_another_of_the_same_agent(
    claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    monkeypatch.setenv("TIEBREAK_AGENT", "ben~1")
    one, other = claude("ben"), claude("ben again")
    begin(one)
    other.say("UserPromptSubmit", prompt="go on")
    put(repo / "a.py", "junk\n")
    assert "a.py (held by" in finish(one)
    monkeypatch.delenv("TIEBREAK_AGENT")
    assert "a.py changed while a shell command of ben ran" in messages(ann)[0]


def test_what_nobody_explains_does_not_replace_what_a_holder_with_hooks_left(claude: Start, tb: Tb, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    put(repo / "a.py", "by a program in the background\n")
    ben.bash("rm a.py")
    assert tb("--as", ann.agent, "recover", "a.py").code == 0
    assert (repo / "a.py").read_text() == "ONE\ntwo\n"


def test_a_lost_executable_bit_is_a_change(claude: Start, repo: Path) -> None:
    os.chmod(repo / "a.py", 0o755)
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    os.chmod(repo / "a.py", 0o755)
    ann.bash("true")
    ann.say("PostToolUse", **edit_call(repo / "a.py"), tool_use_id="e", tool_response="ok")
    assert f"a.py (held by {ann.name})" in ben.bash("chmod 644 a.py")
    with pytest.raises(Refused, match=r"a\.py"):
        ann.commit("a.py")
    ben.bash("chmod 755 a.py")
    ann.commit("a.py")


def test_a_stopped_process_with_the_lock_delays_a_hook_once(
    claude: Start, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    from tiebreak.files import lock_file
    from tiebreak.guard.agent_state import folder
    from tiebreak.guard.files import watched_files

    monkeypatch.setattr(watched_files._Lock, "patience", 0.3)
    ann, ben = claude("ann"), claude("ben")
    for number in range(20):
        ann.write(f"new{number}.py", "hers\n")
    begin(ben)
    for number in range(20):
        put(repo / f"new{number}.py", "junk\n")
    fd = lock_file(os.path.join(folder(), watched_files.LOCK))
    assert fd is not None
    start = time.monotonic()
    told = finish(ben)
    os.close(fd)
    assert "new0.py" in told
    assert time.monotonic() - start < 20 * 0.3


# ── What is said ─────────────────────────────────────────────────────────────────────────────────────


def test_many_files_are_told_in_one_message(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    for number in range(30):
        ann.write(f"lib/new{number}.py", f"hers {number}\n")
    ben.bash("rm -rf lib")
    assert len(messages(ann)) == 1
    assert f"30 files that you hold changed while a shell command of {ben.name} ran" in messages(ann)[0]
    assert "and 18 more" in messages(ann)[0]


def test_the_prompt_shows_the_whole_hint_of_the_guard(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    name = "a folder/with a long name/" * 6 + "new.py"
    ann.write(name, "hers\n")
    ben.bash("rm -rf 'a folder'")
    said = context(ann.say("UserPromptSubmit", prompt="go on"))
    assert str(repo / name) in said
    assert "brings back what you left" in said


def test_an_own_change_beside_a_long_command_is_told_once(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    begin(ben)
    assert "a.py" in ann.bash("echo three >> a.py")
    assert ann.bash("echo four >> a.py") == ""


def test_a_removal_before_a_command_began_is_not_laid_on_it(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.write("lib/new.py", "hers\n")
    begin(ann)
    (repo / "lib/new.py").unlink()
    begin(ben)
    assert finish(ann) == ""
    assert finish(ben) == ""


def test_a_file_that_is_gone_can_be_written_again(claude: Start, repo: Path) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.write("new.py", "hers\n")
    ann.bash("rm new.py")
    ann.write("new.py", "hers again\n")
    ben.bash("rm new.py")
    with pytest.raises(Denied, match=r"the file is gone") as denied:
        ann.write("new.py", "hers once more\n")
    assert f"while a command of {ben.name} ran" in denied.value.reason
    ann.write("new.py", "hers once more\n")
    assert (repo / "new.py").read_text() == "hers once more\n"


def test_a_holder_without_hooks_is_told_how_to_say_that_it_was_its_own_work(claude: Start, tb: Tb, repo: Path) -> None:
    ben = claude("ben")
    assert tb("--as", "ann~1", "hold", "a.py").code == 0
    begin(ben)
    put(repo / "a.py", "ann saved this\n")
    finish(ben)
    told = tb("--as", "ann~1", "inbox").out
    assert "If that was you, `tb renew" in told
    assert tb("--as", "ann~1", "renew", str(repo / "a.py")).code == 0
    assert tb("--as", "ann~1", "commit", "a.py", "-m", "work").code == 0


def test_recovering_beside_a_long_command_is_no_change_of_that_command(claude: Start, tb: Tb, repo: Path) -> None:
    ann, ben, cat = claude("ann"), claude("ben"), claude("cat")
    ann.edit("a.py", "one", "ONE")
    cat.bash("rm a.py")
    begin(ben)
    begin(ann)
    assert tb("--as", ann.agent, "recover", "a.py").code == 0
    assert finish(ann) == ""
    assert "a.py" not in finish(ben)
