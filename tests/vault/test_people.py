"""What people write into a vault is kept, and one writer at a time touches it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import TB, Tb, clean_environment, until
from tests.conformance.engines import SqlitePlace
from tests.daemons import PATIENCE, Serving
from tiebreak import Board, Refused
from tiebreak.vault.mirror import Mirror
from tiebreak.vault.note_names import ASIDE
from tiebreak.vault.vault_folder import KEEP, REMOVE, open_vault

from .story import Story
from .vaults import rebuilt, snapshot, write_vault


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SqlitePlace]:
    made = SqlitePlace(tmp_path)
    yield made
    made.close()


@pytest.fixture
def board(file: SqlitePlace) -> Board:
    return file.open("ada~1")


def only(folder: Path) -> Path:
    [found] = folder.glob("*.md")
    return found


def test_text_below_the_mark_moves_with_a_renamed_note(board: Board, tmp_path: Path) -> None:
    board.tasks.post("old name")
    write_vault(board, tmp_path / "vault")
    note = tmp_path / "vault" / "Tasks" / "1 old name.md"
    note.write_bytes(note.read_bytes() + b"my own words \xff\r\n")
    board.tasks.edit(1, name="new name")
    write_vault(board, tmp_path / "vault")
    moved = only(tmp_path / "vault" / "Tasks")
    assert moved.name == "1 new name.md"
    assert moved.read_bytes().endswith(b"is kept %%\nmy own words \xff\r\n")
    assert b"# new name" in moved.read_bytes()


def test_a_changed_generated_part_is_kept_aside_and_written_again(board: Board, tmp_path: Path) -> None:
    board.tasks.post("work")
    write_vault(board, tmp_path / "vault")
    note = only(tmp_path / "vault" / "Tasks")
    mine = note.read_bytes().replace(b"# work", b"# my title") + b"below"
    note.write_bytes(mine)
    for _ in range(2):
        board.messages.send("hello", about=1)
        write_vault(board, tmp_path / "vault")
    assert b"# work" in note.read_bytes()
    assert note.read_bytes().endswith(b"below")
    assert only(tmp_path / "vault" / ASIDE).read_bytes() == mine


# ── Files of people that have the name of a note ────────────────────────────────────────────────────────


def with_own_files(vault: Path) -> dict[Path, str]:
    """A folder in which somebody has files of their own, where notes belong and elsewhere."""
    own = {vault / name: f"my {name}" for name in ("Board.md", "diary.md", "Tasks/1 work.md", "Agents/ada.md")}
    for path, text in own.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return own


def into(board: Board, folder: Path) -> None:
    vault = open_vault(str(folder), into=True)
    vault.save_settings(project="demo", pruned=KEEP)
    Mirror(board, vault).catch_up()
    vault.close()


def test_files_of_people_are_never_replaced_and_links_lead_to_the_notes_beside_them(
    board: Board, tmp_path: Path
) -> None:
    own = with_own_files(tmp_path / "vault")
    board.tasks.post("work")
    into(board, tmp_path / "vault")
    board.tasks.post("more", after=[1])
    board.tasks.claim(1)
    write_vault(board, tmp_path / "vault")
    assert {path: path.read_text() for path in own} == own
    found = snapshot(tmp_path / "vault")
    assert not found.aside
    assert {path.relative_to(tmp_path / "vault") for path in own} == {Path(name) for name in found.others}
    assert set(found.generated) == {
        *("Board (tiebreak).md", "Tasks/1 work (tiebreak).md", "Tasks/2 more.md", "Agents/ada (tiebreak).md")
    }
    assert b"[[Tasks/1 work (tiebreak)|#1 work]]" in found.generated["Tasks/2 more.md"]
    assert b"[[Tasks/1 work (tiebreak)|#1 work]] by [[Agents/ada (tiebreak)|" in found.generated["Board (tiebreak).md"]
    assert b"[[Tasks/1 work (tiebreak)|" in found.generated["Agents/ada (tiebreak).md"]


def test_a_file_that_appears_in_the_place_of_a_note_stays_and_all_links_change(board: Board, tmp_path: Path) -> None:
    board.tasks.post("before", after=[])
    write_vault(board, tmp_path / "vault")
    (tmp_path / "vault" / "Tasks" / "2 work.md").write_text("my plan")
    (tmp_path / "vault" / "Tasks" / "2 more thoughts.md").write_text("my thoughts")
    mine = tmp_path / "vault" / "Tasks" / "1 before.md"
    mine.write_text("only this")  # the mark is gone with the rest
    board.tasks.post("work", after=[1])
    write_vault(board, tmp_path / "vault")
    found = snapshot(tmp_path / "vault")
    assert found.others == {
        "Tasks/1 before.md": b"only this",
        "Tasks/2 more thoughts.md": b"my thoughts",
        "Tasks/2 work.md": b"my plan",
    }
    assert not found.aside
    assert b"[[Tasks/2 work (tiebreak)|" in found.generated["Tasks/1 before (tiebreak).md"]
    assert b"[[Tasks/1 before (tiebreak)|" in found.generated["Tasks/2 work (tiebreak).md"]
    assert write_vault(board, tmp_path / "vault").vault.changed == 0


def test_a_note_that_gets_another_name_takes_the_words_of_people_along(board: Board, tmp_path: Path) -> None:
    own = with_own_files(tmp_path / "vault")
    board.tasks.post("work")
    into(board, tmp_path / "vault")
    for name in ("Board (tiebreak).md", "Tasks/1 work (tiebreak).md", "Agents/ada (tiebreak).md"):
        with (tmp_path / "vault" / name).open("a") as note:
            note.write("mine")
    for path in own:
        path.unlink()
    (tmp_path / "vault" / ".tiebreak" / "cursor.json").unlink()
    write_vault(board, tmp_path / "vault")
    found = snapshot(tmp_path / "vault")
    assert set(found.generated) == {"Board.md", "Tasks/1 work.md", "Agents/ada.md"}
    assert list(found.kept.values()) == [b"mine"] * 3


def test_what_the_pruned_log_told_of_an_agent_survives_a_change_of_names(file: SqlitePlace, tmp_path: Path) -> None:
    board = file.open("ada~1")
    board.tasks.post("old work")
    board.tasks.claim(1)
    board.tasks.complete(1)
    write_vault(board, tmp_path / "vault")
    file.advance(100 * 86_400)
    board.tasks.post("new work")
    while board.upkeep.prune(older_than="1d").more:
        pass
    write_vault(board, tmp_path / "vault")
    (tmp_path / "vault" / "Board.md").write_text("mine")
    board.tasks.post("newer work")
    write_vault(board, tmp_path / "vault")
    assert "old work: completed" in (tmp_path / "vault" / "Agents" / "ada.md").read_text()
    assert (tmp_path / "vault" / "Board.md").read_text() == "mine"


def test_windows_line_ends_are_no_change_by_people(board: Board, tmp_path: Path) -> None:
    board.tasks.post("work")
    write_vault(board, tmp_path / "vault")
    note = only(tmp_path / "vault" / "Tasks")
    note.write_bytes(note.read_bytes().replace(b"\n", b"\r\n") + b"mine")
    board.tasks.claim(1)
    write_vault(board, tmp_path / "vault")
    assert note.read_bytes().endswith(b"%%\nmine")
    assert not list((tmp_path / "vault" / ASIDE).iterdir())


def test_a_link_in_a_vault_is_not_followed(board: Board, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "target").write_text("precious")
    write_vault(board, tmp_path / "vault")
    (tmp_path / "vault" / "Tasks" / "1 work.md").symlink_to(outside / "target")
    board.tasks.post("work")
    write_vault(board, tmp_path / "vault")
    assert (outside / "target").read_text() == "precious"
    assert not snapshot(tmp_path / "vault").aside, "what a link leads to is nobody's note"
    assert (tmp_path / "vault" / "Tasks" / "1 work.md").is_symlink(), "the link is somebody's own"
    (tmp_path / "vault" / "Agents").rename(tmp_path / "elsewhere")
    (tmp_path / "vault" / "Agents").symlink_to(outside)
    with pytest.raises(Refused, match="not a link to one"):
        write_vault(board, tmp_path / "vault")
    assert {each.name for each in outside.iterdir()} == {"target"}


def test_a_second_writer_is_told_who_writes(board: Board, tmp_path: Path) -> None:
    vault = open_vault(str(tmp_path / "vault"), into=False)
    with pytest.raises(Refused, match=rf"pid {os.getpid()} on \S+ writes it"):
        open_vault(str(tmp_path / "vault"), into=False)
    vault.close()
    open_vault(str(tmp_path / "vault"), into=False).close()


def test_a_vault_of_another_board_is_refused(board: Board, tmp_path: Path) -> None:
    board.tasks.post("work")
    write_vault(board, tmp_path / "vault")
    (tmp_path / "other").mkdir()
    other = SqlitePlace(tmp_path / "other")
    other.open("ada~1").tasks.post("work")
    (tmp_path / "vault" / ".tiebreak" / "cursor.json").unlink()
    with pytest.raises(Refused, match="of another board"):
        write_vault(other.open("ada~1"), tmp_path / "vault")
    other.close()


# ── What was pruned ──────────────────────────────────────────────────────────────────────────────────


def pruned_board(file: SqlitePlace, folder: Path, pruned: str) -> Board:
    """A board whose vault was written, into which somebody wrote, and from which all that is old was then pruned."""
    Story(file.open, 11, file.advance).tell(150)
    board = file.open("ada~1")
    for name in ("thrown away", "with words"):
        board.tasks.cancel(board.tasks.post(name).number)
    write_vault(board, folder, pruned=pruned)
    [note] = folder.glob("Tasks/* with words.md")
    note.write_bytes(note.read_bytes() + b"mine")
    file.advance(100 * 86_400)
    board.tasks.post("the newest")
    while board.upkeep.prune(older_than="1d").more:
        pass
    write_vault(board, folder, pruned=pruned)
    return board


def test_notes_of_what_was_pruned_are_kept_and_marked(file: SqlitePlace, tmp_path: Path) -> None:
    pruned_board(file, tmp_path / "vault", "keep")
    [note] = tmp_path.glob("vault/Tasks/* thrown away.md")
    assert note.read_bytes().startswith(b"---\npruned: true\ntiebreak:")
    [words] = tmp_path.glob("vault/Tasks/* with words.md")
    assert words.read_bytes().endswith(b"mine")
    assert not snapshot(tmp_path / "vault").aside


def test_with_remove_nothing_is_left_of_what_was_pruned_but_what_people_wrote(
    file: SqlitePlace, tmp_path: Path
) -> None:
    board = pruned_board(file, tmp_path / "vault", REMOVE)
    found, anew = snapshot(tmp_path / "vault"), rebuilt(board, tmp_path / "anew", pruned=REMOVE)
    [words] = tmp_path.glob("vault/Tasks/* with words.md")
    name = str(words.relative_to(tmp_path / "vault"))
    assert found.generated.pop(name).startswith(b"---\npruned: true")
    assert words.read_bytes().endswith(b"mine")
    assert found.generated == anew.generated


def test_a_vault_that_kept_what_was_pruned_removes_it_when_told_so(file: SqlitePlace, tmp_path: Path) -> None:
    board = pruned_board(file, tmp_path / "vault", KEEP)
    write_vault(board, tmp_path / "vault", pruned=REMOVE)
    found, anew = snapshot(tmp_path / "vault"), rebuilt(board, tmp_path / "anew", pruned=REMOVE)
    [words] = tmp_path.glob("vault/Tasks/* with words.md")
    assert found.generated.pop(str(words.relative_to(tmp_path / "vault"))).startswith(b"---\npruned: true")
    assert found.generated == anew.generated
    assert words.read_bytes().endswith(b"mine")


def test_a_vault_that_removed_what_was_pruned_keeps_it_when_told_so(file: SqlitePlace, tmp_path: Path) -> None:
    board = pruned_board(file, tmp_path / "vault", REMOVE)
    board.tasks.cancel(board.tasks.post("kept now").number)
    write_vault(board, tmp_path / "vault", pruned=KEEP)
    file.advance(100 * 86_400)
    board.tasks.post("even newer")
    while board.upkeep.prune(older_than="1d").more:
        pass
    write_vault(board, tmp_path / "vault", pruned=KEEP)
    [note] = tmp_path.glob("vault/Tasks/* kept now.md")
    assert note.read_bytes().startswith(b"---\npruned: true\n")


def test_a_writer_that_is_killed_after_another_choice_about_pruned_notes_still_makes_it(
    file: SqlitePlace, tmp_path: Path
) -> None:
    board = pruned_board(file, tmp_path / "vault", KEEP)
    vault = open_vault(str(tmp_path / "vault"), into=False)
    vault.save_settings(pruned=REMOVE)
    vault.close()  # killed before it wrote a note
    write_vault(board, tmp_path / "vault", pruned=REMOVE)
    assert not list(tmp_path.glob("vault/Tasks/* thrown away.md"))


def test_a_renamed_project_is_written_anew(file: SqlitePlace, tmp_path: Path) -> None:
    board = file.open("ada~1")
    board.tasks.post("work")
    write_vault(board, tmp_path / "vault")
    board.projects.rename(name="renamed")
    board.tasks.post("more work")
    mirror = write_vault(board, tmp_path / "vault", project="demo")
    assert mirror.vault.settings["project"] == "renamed"
    assert snapshot(tmp_path / "vault").generated == rebuilt(board, tmp_path / "anew", project="renamed").generated


# ── The command ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def tb(tmp_path: Path) -> Tb:
    return Tb(tmp_path)


def test_a_folder_with_other_files_is_refused_unless_asked_for(tb: Tb, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.md").write_text("dear diary")
    (tmp_path / "mine" / ".obsidian").mkdir()
    tb.ok("post", "work")
    refused = tb("vault", "mine")
    assert refused.code == 1
    assert "no vault of tiebreak" in refused.err
    assert "`tb vault DIR --into`" in refused.err
    served = tb("serve", "--addr", "none", "--vault", "mine")
    assert served.code == 1
    assert "`tb vault DIR --into`" in served.err, "which is not an option of tb serve"
    assert json.loads(tb.ok("vault", "mine", "--into", "--json"))["written"] == 3
    (tmp_path / "mine" / "diary.md").unlink()
    assert json.loads(tb.ok("vault", "mine", "--json"))["written"] == 0


def test_wrong_words_are_explained(tb: Tb, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "is no folder" in tb("vault", "file").err
    assert tb("vault", "file").code == 2
    assert tb("vault", "v", "--pruned", "perhaps").code == 2
    tb.ok("post", "work")
    tb.ok("vault", "v", "--pruned", "remove")
    other = tb("--project", "another", "vault", "v")
    assert other.code == 1
    assert "it mirrors project demo" in other.err
    assert tb("vault", "v", "--every-project").code == 1
    assert json.loads((tmp_path / "v" / ".tiebreak" / "vault.json").read_text())["pruned"] == "remove"


def test_a_second_command_is_refused_while_one_follows(tb: Tb, tmp_path: Path) -> None:
    tb.ok("post", "work")
    words = [TB, "vault", "v", "--follow", "--json"]
    environment = clean_environment(tmp_path)
    with subprocess.Popen(words, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["written"] == 3
        refused = tb("vault", "v")
        assert refused.code == 1
        assert f"pid {following.pid} on" in refused.err
        tb.ok("post", "more work")
        assert json.loads(following.stdout.readline())["written"] >= 5
        following.send_signal(2)
        assert following.wait(PATIENCE) == 130


def writer_of(vault: Path) -> int:
    return int((vault / ".tiebreak" / "lock").read_text().split()[1])


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_daemon_keeps_its_vault_up_to_date_and_its_writer_ends_with_it(tmp_path: Path) -> None:
    serving = Serving(tmp_path, "--vault", str(tmp_path / "v"))
    serving.start()
    tb = Tb(tmp_path)
    tb.ok("post", "work")
    until(lambda: list(tmp_path.glob("v/Tasks/1 work.md")), "the first note")
    pid = writer_of(tmp_path / "v")
    serving.kill()
    until(lambda: not is_running(pid), "the writer has ended with the daemon")
    tb.ok("post", "more work")
    serving.start()
    until(lambda: list(tmp_path.glob("v/Tasks/2 more work.md")), "the second note")
    serving.stop()
    until(lambda: not is_running(writer_of(tmp_path / "v")), "the writer has ended with the daemon")
