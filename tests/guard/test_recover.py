"""`tb recover`: what it brings back, what it refuses, and that it destroys nothing itself."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ..cli.command import Tb, complaint
from .actors import Claude, Denied, put, repository

Start = Callable[..., Claude]


@pytest.fixture
def destroyed(claude: Start) -> tuple[Claude, Claude]:
    """Ann edited src/b.py twice, and a command of ben destroyed it."""
    ann, ben = claude("ann"), claude("ben")
    ann.edit("src/b.py", "", "first\n")
    ann.edit("src/b.py", "", "second\n")
    ben.bash("echo junk > src/b.py")
    return ann, ben


def test_it_brings_back_what_the_holder_left_and_keeps_what_was_there(
    tb: Tb, repo: Path, destroyed: tuple[Claude, Claude]
) -> None:
    ann, _ = destroyed
    said = tb("--as", ann.agent, "recover", "src/b.py")
    assert (said.code, said.err) == (0, "")
    assert f"recovered src/b.py, as {ann.name} left it" in said.out
    assert (repo / "src/b.py").read_text() == "b\nfirst\nsecond\n"
    every = tb("--as", ann.agent, "recover", "--list", "src/b.py", "--json").json
    assert [row["left_by"] for row in every] == [ann.name, "", *[ann.name] * 3]
    assert tb("--as", ann.agent, "recover", "src/b.py", "--copy", "2").code == 0
    assert (repo / "src/b.py").read_text() == "junk\n"


def test_it_lists_what_is_kept_with_what_happened_to_it(tb: Tb, repo: Path, destroyed: tuple[Claude, Claude]) -> None:
    (repo / "src/b.py").unlink()
    listed = tb("recover", "--json").json
    assert [(row["file"], row["left_by"], row["state"]) for row in listed] == [
        ("src/b.py", destroyed[0].name, "was removed")
    ]
    every = tb("recover", "--list", "src/b.py", "--json").json
    assert [row["copy"] for row in every] == [1, 2, 3]
    assert tb("recover", "src/b.py", "--copy", "2", "--into", "-").out == "b\nfirst\n"
    assert not (repo / "src/b.py").exists()


def test_who_destroyed_a_file_may_give_it_back_and_do_nothing_else(
    tb: Tb, repo: Path, destroyed: tuple[Claude, Claude], claude: Start
) -> None:
    ann, ben = destroyed
    other = claude("cleo")
    refused = tb("--as", other.agent, "recover", "src/b.py")
    assert refused.code == 1
    assert f"src/b.py is held by {ann.name}" in refused.err
    assert tb("--as", ben.agent, "recover", "src/b.py", "--copy", "2").code == 1
    assert (repo / "src/b.py").read_text() == "junk\n"
    assert tb("--as", ben.agent, "recover", "src/b.py").code == 0
    assert (repo / "src/b.py").read_text() == "b\nfirst\nsecond\n"
    ann.commit("src/b.py")


def test_anybody_may_take_a_copy_elsewhere_but_not_over_a_file(
    tb: Tb, repo: Path, destroyed: tuple[Claude, Claude], claude: Start
) -> None:
    other = claude("cleo").agent
    assert tb("--as", other, "recover", "src/b.py", "--into", "copy.txt").code == 0
    assert (repo / "copy.txt").read_text() == "b\nfirst\nsecond\n"
    refused = tb("--as", other, "recover", "src/b.py", "--into", "a.py")
    assert (refused.code, refused.err.splitlines()[0]) == (1, "tb: a.py exists already")
    assert (repo / "a.py").read_text() == "one\ntwo\n"


def test_the_kind_of_the_file_comes_back_too(tb: Tb, repo: Path, claude: Start) -> None:
    (repo / "run.sh").write_text("#!/bin/sh\n")
    (repo / "run.sh").chmod(0o755)
    (repo / "link").symlink_to("a.py")
    ann, ben = claude("ann"), claude("ben")
    for name in ("run.sh", "link"):
        assert tb("--as", ann.agent, "hold", name).code == 0
    ben.bash("rm run.sh link a.py")
    for name in ("run.sh", "a.py"):
        assert tb("--as", ann.agent, "recover", name).code == 0
    assert stat.S_IMODE(os.stat(repo / "run.sh").st_mode) == 0o755
    assert not (repo / "a.py").is_symlink()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("rm -rf src && ln -s docs src", "its folder src was replaced by a symbolic link"),
        ("rm -rf src && echo x > src", "was removed, and its folder src replaced by a file"),
        ("rm -rf src && git init -q src", "its folder src became another repository"),
        ("rm -rf src/b.py && mkdir src/b.py", "was replaced by a folder"),
    ],
)
def test_what_cannot_be_replaced_is_left_alone(
    tb: Tb, repo: Path, destroyed: tuple[Claude, Claude], change: str, reason: str
) -> None:
    ann, ben = destroyed
    ben.bash(change)
    refused = tb("--as", ann.agent, "recover", "src/b.py")
    assert refused.code == 1
    assert reason in refused.err
    assert "--into" in refused.err
    assert tb("--as", ann.agent, "recover", "src/b.py", "--into", "back.py").code == 0
    assert (repo / "back.py").read_text() == "b\nfirst\nsecond\n"


def test_without_a_copy_it_says_so(tb: Tb, repo: Path) -> None:
    for words in (["a.py"], ["nowhere/x"], ["../outside"]):
        refused = tb("recover", *words)
        assert refused.code == 1
        assert "no copy of it is kept" in refused.err
    assert tb("recover").out == "no copies are kept\n"
    assert tb("recover", "a.py", "src/b.py", "--into", "x").code == 2
    assert tb("recover", "a.py", "--copy", "x").code == 2


def test_nothing_to_do_is_said(tb: Tb, claude: Start) -> None:
    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    refused = tb("--as", ann.agent, "recover", "a.py")
    assert (refused.code, refused.err.splitlines()[0]) == (1, "tb: a.py is as it was left")
    assert tb("--as", ann.agent, "recover", "a.py", "--copy", "7").code == 2


def test_copies_are_for_their_user_alone_and_end(
    tb: Tb, tmp_path: Path, destroyed: tuple[Claude, Claude], monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = tmp_path / "state/tiebreak/guard/copies"
    files = [each for each in copies.rglob("*") if each.is_file()]
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
    assert stat.S_IMODE(copies.stat().st_mode) == 0o700
    ann = destroyed[0]
    ann.read("src/b.py")
    for _ in range(30):
        ann.bash("date +%N >> src/b.py")
    from tiebreak.guard.files import safety_copies

    assert len(list(safety_copies.copies(str(ann.cwd / "src/b.py")))) == safety_copies.KEPT
    monkeypatch.setattr(safety_copies, "DAYS", 0)
    safety_copies.tidy()
    assert len([each for each in copies.rglob("*") if each.is_file()]) == 1  # what its holder left
    ann.end()
    safety_copies.tidy()
    assert not list(copies.rglob("*"))


def test_the_oldest_copy_can_be_brought_back_and_the_holders_own_is_never_dropped(
    tb: Tb, repo: Path, destroyed: tuple[Claude, Claude]
) -> None:
    from tiebreak.guard.files import safety_copies

    ann, _ = destroyed
    for number in range(safety_copies.KEPT):  # as somebody else's commands see it
        (repo / "src/b.py").write_text(f"junk {number}\n")
        safety_copies.keep(str(repo / "src/b.py"), "")
    oldest = len(list(safety_copies.copies(str(repo / "src/b.py"))))
    assert oldest == safety_copies.KEPT + 1
    assert tb("--as", ann.agent, "recover", "src/b.py", "--copy", str(oldest)).code == 0
    assert (repo / "src/b.py").read_text() == "b\nfirst\nsecond\n"
    assert tb("--as", ann.agent, "recover", "src/b.py").code == 1
    safety_copies.tidy()
    assert tb("--as", ann.agent, "recover", "src/b.py", "--into", "-").code == 1


def test_a_file_that_appears_meanwhile_is_not_overwritten(
    repo: Path, destroyed: tuple[Claude, Claude], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiebreak import Refused
    from tiebreak.guard.files import recovery

    (repo / "src/b.py").unlink()
    file = recovery.kept_file("src/b.py", str(repo))
    (repo / "src/b.py").write_text("somebody is faster\n")
    with pytest.raises(Refused, match="changed just now"):
        recovery.recover(destroyed[0].board, file, 0)
    assert (repo / "src/b.py").read_text() == "somebody is faster\n"


def test_the_permissions_of_the_file_stay(tb: Tb, repo: Path, destroyed: tuple[Claude, Claude]) -> None:
    (repo / "src/b.py").chmod(0o600)
    assert tb("--as", destroyed[0].agent, "recover", "src/b.py").code == 0
    assert (repo / "src/b.py").read_text() == "b\nfirst\nsecond\n"
    assert stat.S_IMODE(os.stat(repo / "src/b.py").st_mode) == 0o600


def test_without_a_place_for_copies_files_can_be_held_and_dropped_all_the_same(
    tb: Tb, repo: Path, tmp_path: Path
) -> None:
    tb.ok("tasks")  # makes the state folder
    (tmp_path / "state/tiebreak").mkdir(parents=True, exist_ok=True)
    (tmp_path / "state/tiebreak/guard").write_text("in its place\n")
    held = tb("hold", "a.py")
    assert held.code == 0
    assert "no copy of these files is kept: the guard's state in" in held.err
    assert tb("drop", "a.py").code == 0
    assert tb("recover").err.startswith("tb: the guard's state in")


# ── Arguments ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wanted", ["0", "-1", "-99", "", "4321", "12345", "abcde", "abcdefg", "link-abc", "²"])
def test_a_copy_that_is_neither_a_number_nor_a_fingerprint_is_refused(
    tb: Tb, repo: Path, destroyed: tuple[Claude, Claude], wanted: str
) -> None:
    said = complaint(tb("--as", destroyed[0].agent, "recover", "src/b.py", "--copy", wanted), 2)
    assert "numbered from 1" in said if wanted == "0" else "expected a number from 1, or at least 6 hex digits" in said
    assert (repo / "src/b.py").read_text() == "junk\n"


def test_an_empty_name_for_the_new_file_does_not_mean_the_file_itself(
    tb: Tb, repo: Path, destroyed: tuple[Claude, Claude]
) -> None:
    assert "--into needs the name of a file" in complaint(
        tb("--as", destroyed[0].agent, "recover", "src/b.py", "--into", ""), 2
    )
    assert (repo / "src/b.py").read_text() == "junk\n"


def test_a_copy_without_a_file_is_refused(tb: Tb) -> None:
    assert "--copy needs a file" in complaint(tb("recover", "--copy", "2"), 2)


# ── Names of copies ──────────────────────────────────────────────────────────────────────────────────


def pasted(told: str) -> list[str]:
    """The words of the last `tb recover …` in what an agent is told."""
    [*_, hint] = re.findall(r"`tb (recover [^`]*)`", told)
    return shlex.split(hint)


def test_a_fingerprint_names_the_same_copy_after_later_edits(
    tb: Tb, repo: Path, destroyed: tuple[Claude, Claude]
) -> None:
    ann, _ = destroyed
    listed = tb("recover", "--list", "src/b.py", "--json").json
    name = listed[1]["fingerprint"]
    assert re.fullmatch("[0-9a-f]{8}", name)
    assert name in tb("recover", "--list", "src/b.py").out
    ann.read("src/b.py")
    ann.edit("src/b.py", "", "third\n")
    ann.edit("src/b.py", "", "fourth\n")
    for word in (name, name[:6], name.upper()):
        assert tb("recover", "src/b.py", "--copy", word, "--into", "-").out == "b\nfirst\n"
    assert tb("--as", ann.agent, "recover", "src/b.py", "--copy", name).code == 0
    assert (repo / "src/b.py").read_text() == "b\nfirst\n"


def test_an_unknown_or_ambiguous_fingerprint_is_refused(
    repo: Path, destroyed: tuple[Claude, Claude], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiebreak import Invalid, NotFound
    from tiebreak.guard.files import recovery, safety_copies

    with pytest.raises(NotFound, match=r"src/b\.py has no copy that begins with 00000000"):
        recovery.kept_file("src/b.py", str(repo)).chosen("00000000")
    monkeypatch.setattr(safety_copies, "hash_of", lambda content: f"abcdef{len(content):026}")
    for content in ("one\n", "three\n"):
        (repo / "src/b.py").write_text(content)
        safety_copies.keep(str(repo / "src/b.py"), destroyed[0].agent)
    file = recovery.kept_file("src/b.py", str(repo))
    with pytest.raises(Invalid, match=r"src/b\.py has 2 copies that begin with abcdef"):
        file.chosen("abcdef")
    assert file.chosen(f"abcdef{4:026}").contents() == b"one\n"


def test_the_hint_after_commands_at_the_same_time_stays_true_after_further_edits(
    tb: Tb, repo: Path, tmp_path: Path, claude: Start
) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("src/b.py", "", "what ann had left\n")
    run = {"tool_name": "Bash", "tool_input": {"command": "…"}}
    ben.say("PreToolUse", **run, tool_use_id="b")
    ann.say("PreToolUse", **run, tool_use_id="a")
    (repo / "src/b.py").write_text("junk\n")
    told = ann.say("PostToolUse", **run, tool_use_id="a", tool_response={})
    ben.say("PostToolUse", **run, tool_use_id="b", tool_response={})
    ann.read("src/b.py")
    ann.edit("src/b.py", "", "one\n")
    ann.edit("src/b.py", "", "two\n")
    words = pasted(str(told))
    assert words[-2] == "--copy"
    assert tb("--as", ann.agent, *words, cwd=tmp_path).code == 0
    assert (repo / "src/b.py").read_text() == "b\nwhat ann had left\n"


# ── Other names and places of the file ───────────────────────────────────────────────────────────────


def test_a_file_of_another_repository_is_held_there(tb: Tb, repo: Path, tmp_path: Path, claude: Start) -> None:
    other = repository(tmp_path / "other", {"z.py": "z\n"})
    ann, ben = claude("ann", cwd=other), claude("ben", cwd=other)
    ann.edit("z.py", "", "first\n")
    ann.edit("z.py", "", "second\n")
    refused = tb("--as", "cleo~1", "recover", str(other / "z.py"), "--copy", "2", cwd=repo)
    assert (refused.code, refused.err.splitlines()[0]) == (1, f"tb: z.py is held by {ann.name}")
    assert (other / "z.py").read_text() == "z\nfirst\nsecond\n"
    ben.bash("echo junk > z.py")
    assert tb("--as", ann.agent, "recover", str(other / "z.py"), cwd=repo).code == 0
    ann.commit("z.py")  # not in quarantine any more


def test_a_file_of_a_repository_that_is_gone_is_still_held(
    tb: Tb, repo: Path, tmp_path: Path, destroyed: tuple[Claude, Claude]
) -> None:
    repo.rename(tmp_path / "moved")
    words = ("recover", str(repo / "src/b.py"))
    assert tb("--as", "cleo~1", *words, cwd=tmp_path).code == 1
    assert tb("--as", destroyed[0].agent, *words, cwd=tmp_path).code == 0
    assert (repo / "src/b.py").read_text() == "b\nfirst\nsecond\n"


@pytest.mark.parametrize("command", ["echo junk > src/b.py", "rm src/b.py", "rm -rf src"])
@pytest.mark.parametrize("name", ["alias/src/b.py", "up/repo/src/b.py"])
def test_a_path_through_a_link_to_the_checkout_means_the_file_in_it(
    tb: Tb, repo: Path, tmp_path: Path, destroyed: tuple[Claude, Claude], command: str, name: str
) -> None:
    ann, ben = destroyed
    (tmp_path / "alias").symlink_to(repo)
    (tmp_path / "up").symlink_to(tmp_path)
    ben.bash(command)
    done = tb("--as", ann.agent, "recover", str(tmp_path / name), cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert (repo / "src/b.py").read_text() == "b\nfirst\nsecond\n"


def test_a_link_that_a_command_put_in_the_place_of_a_folder_leads_to_no_other_held_file(
    tb: Tb, repo: Path, tmp_path: Path, destroyed: tuple[Claude, Claude]
) -> None:
    ann, ben = destroyed
    (tmp_path / "alias").symlink_to(repo)
    ann.write("docs/b.py", "another file of ann's\n")
    ben.bash("rm -rf src && ln -s docs src")
    (repo / "docs/b.py").unlink()
    refused = tb("--as", ann.agent, "recover", str(tmp_path / "alias/src/b.py"))
    assert "src/b.py is out of reach, because its folder src was replaced by a symbolic link" in refused.err
    assert not (repo / "docs/b.py").exists()


def test_hints_work_when_they_are_pasted_in_another_folder(tb: Tb, repo: Path, tmp_path: Path, claude: Start) -> None:
    ann, ben, name = claude("ann"), claude("ben"), "src/my file.py"
    ann.write(name, "first\n")
    ann.write(name, "second\n")
    told = [tb("--as", ann.agent, "recover", name).err]
    told += [tb("--as", ann.agent, "recover", name, "--copy", wanted).err for wanted in ("9", "00000000")]
    for each in told:
        assert tb("--as", ann.agent, *pasted(each), cwd=tmp_path).out.count("src/my file.py") == 2
    ben.bash("rm src/my*; mkdir 'src/my file.py'")
    refused = tb("--as", ann.agent, "recover", name)
    words = [each.replace("PATH", "back.py") for each in pasted(refused.err)]
    assert tb("--as", "cleo~1", *words, cwd=tmp_path).code == 0
    assert (tmp_path / "back.py").read_text() == "second\n"
    (repo / name).rmdir()
    ben.bash("ln -s ../a.py 'src/my file.py'")
    with pytest.raises(Denied) as denied:
        ann.write(name, "third\n")
    assert tb("--as", ann.agent, *pasted(denied.value.reason), cwd=tmp_path).code == 0
    assert (repo / name).read_text() == "second\n"


# ── The executable bit ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("before", "change", "words", "after"),
    [
        (0o755, "chmod 644", "lost its executable bit", 0o755),
        (0o700, "chmod 600", "lost its executable bit", 0o700),
        (0o644, "chmod 755", "became executable", 0o644),
        (0o755, "cat a.py >new; mv new", "changed", 0o755),
    ],
)
def test_the_executable_bit_comes_back(
    tb: Tb, repo: Path, claude: Start, before: int, change: str, words: str, after: int
) -> None:
    run = repo / "run.sh"
    run.write_text("#!/bin/sh\n")
    run.chmod(before)
    ann = claude("ann")
    assert tb("--as", ann.agent, "hold", "run.sh").code == 0
    subprocess.run(f"{change} run.sh", shell=True, cwd=repo, check=True)
    assert [row["state"] for row in tb("recover", "--json").json] == [words]
    assert words in tb("recover").out
    assert tb("--as", ann.agent, "recover", "run.sh").code == 0
    assert (run.read_text(), stat.S_IMODE(run.stat().st_mode)) == ("#!/bin/sh\n", after)
    assert tb("recover", "--json").json[0]["state"] == "as it was left"
    assert tb("--as", ann.agent, "recover", "run.sh").code == 1


# ── What the holder has only read ────────────────────────────────────────────────────────────────────


def test_reading_what_another_wrote_does_not_make_it_what_the_holder_left(
    tb: Tb, repo: Path, destroyed: tuple[Claude, Claude]
) -> None:
    ann, _ = destroyed
    assert ann.read("src/b.py") == "junk\n"
    [row] = tb("recover", "--json").json
    assert (row["left_by"], row["state"]) == (ann.name, "changed")
    newest = tb("recover", "--list", "src/b.py", "--json").json[0]
    assert (newest["copy"], newest["left_by"]) == (1, "")
    assert tb("--as", ann.agent, "recover", "src/b.py").code == 0
    assert (repo / "src/b.py").read_text() == "b\nfirst\nsecond\n"
    assert tb("--as", ann.agent, "recover", "src/b.py").code == 1


@pytest.mark.parametrize("how", ["edit", "command", "hold", "renew"])
def test_what_the_holder_leaves_after_reading_is_brought_back_next_time(
    tb: Tb, repo: Path, destroyed: tuple[Claude, Claude], how: str
) -> None:
    ann, ben = destroyed
    ann.read("src/b.py")
    if how == "edit":
        ann.edit("src/b.py", "junk", "mended")
    elif how == "command":
        ann.bash("echo mended > src/b.py")
    else:
        put(repo / "src/b.py", "mended\n")
        assert tb("--as", ann.agent, how, "src/b.py").code == 0
    ben.bash("rm src/b.py")
    assert tb("--as", ann.agent, "recover", "src/b.py").code == 0
    assert (repo / "src/b.py").read_text() == "mended\n"


def test_what_the_holder_wrote_last_stays_while_it_only_reads(
    repo: Path, destroyed: tuple[Claude, Claude], tb: Tb, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiebreak.guard.files import safety_copies

    ann, ben = destroyed
    for number in range(safety_copies.KEPT + 3):
        ben.bash(f"echo {number} > src/b.py")
        ann.read("src/b.py")
    monkeypatch.setattr(safety_copies, "DAYS", 0)
    safety_copies.tidy()
    assert len(list(safety_copies.copies(str(repo / "src/b.py")))) == 2  # what she wrote, and what she read last
    assert tb("--as", ann.agent, "recover", "src/b.py").code == 0
    assert (repo / "src/b.py").read_text() == "b\nfirst\nsecond\n"


def test_who_destroyed_a_file_twice_may_give_back_what_its_holder_wrote(
    tb: Tb, repo: Path, destroyed: tuple[Claude, Claude]
) -> None:
    ann, ben = destroyed
    ann.read("src/b.py")
    ben.bash("rm src/b.py")
    assert tb("--as", ben.agent, "recover", "src/b.py").code == 0
    assert (repo / "src/b.py").read_text() == "b\nfirst\nsecond\n"
    ann.commit("src/b.py")


def test_copies_do_not_pile_up_while_a_file_changes_its_permissions_to_and_fro(repo: Path, claude: Start) -> None:
    from tiebreak.guard.files import safety_copies

    ann = claude("ann")
    ann.edit("a.py", "one", "ONE")
    for number in range(2 * safety_copies.KEPT):
        ann.bash(f"chmod {'+-'[number % 2]}x a.py")
    assert len(list(safety_copies.copies(str(repo / "a.py")))) == safety_copies.KEPT


# ── Permissions, and the order of copies ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("change", ["rm a.py", "echo junk > new && mv new a.py", "ln -sf src a.py"])
def test_a_private_file_stays_private(tb: Tb, repo: Path, claude: Start, change: str) -> None:
    ann, ben = claude("ann"), claude("ben")
    ann.edit("a.py", "one", "ONE")
    ann.bash("chmod 600 a.py")
    ben.bash(change)
    assert tb("--as", ann.agent, "recover", "a.py").code == 0
    assert (repo / "a.py").read_text() == "ONE\ntwo\n"
    assert stat.S_IMODE(os.lstat(repo / "a.py").st_mode) == 0o600
    assert tb("--as", ann.agent, "recover", "a.py", "--copy", "1", "--into", "new.py").code == 0
    assert stat.S_IMODE(os.stat(repo / "new.py").st_mode) == 0o600


def test_after_the_clock_is_set_back_the_newest_copy_is_still_the_first(
    repo: Path, destroyed: tuple[Claude, Claude], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiebreak.guard.files import safety_copies

    monkeypatch.setattr("tiebreak.guard.files.safety_copies.time.time_ns", lambda: 1)
    for word in (b"three", b"four"):
        (repo / "src/b.py").write_bytes(word)
        safety_copies.keep(str(repo / "src/b.py"), destroyed[0].agent)
    found = [each.contents() for each in safety_copies.copies(str(repo / "src/b.py"))]
    assert found[:3] == [b"four", b"three", b"b\nfirst\nsecond\n"]


def test_listing_the_copies_of_a_file_without_any_is_refused(tb: Tb, repo: Path) -> None:
    answer = tb("recover", "--list", "a.py")
    assert answer.code == 1
    assert f"{repo}/a.py: no copy of it is kept" in answer.err
