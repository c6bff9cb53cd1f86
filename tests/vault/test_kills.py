"""The writer of a vault is killed again and again: the vault is complete in the end, and what people wrote is there."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tiebreak
from tests.cli.command import PATIENCE, TB, clean_environment
from tests.conformance.engines import Place, SqlitePlace
from tiebreak import Board
from tiebreak.vault import kept_text, vault_folder
from tiebreak.vault.mirror import Mirror
from tiebreak.vault.open_folder import OpenFolder
from tiebreak.vault.vault_folder import VaultFolder

from .story import Story
from .vaults import Snapshot, rebuilt, snapshot, write_vault

KILLS, EVENTS = 50, 1000
TEXT = "mine: \u00e9 %% ---\r\n[[my link]]\n\n".encode()


def write_into(folder: Path, count: int, chance: random.Random) -> None:
    """A person writes into a few notes, as an editor does while the writer is not running."""
    notes = sorted(file for file in folder.glob("[TDKAQM]*/*.md"))
    for note in chance.sample(notes, min(count, len(notes))):
        content = note.read_bytes()
        assert kept_text.parts(content) is not None, note
        if TEXT not in content:
            note.write_bytes(content + TEXT)


def kept_by(folder: Path) -> set[str]:
    return set(snapshot(folder).kept)


class Writer:
    """A real `tb vault --follow`."""

    def __init__(self, folder: Path) -> None:
        environment = clean_environment(folder)
        words = [TB, "vault", str(folder / "vault"), "--follow", "--json"]
        self._process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lock = folder / "vault" / ".tiebreak" / "lock"
        end = time.monotonic() + PATIENCE
        while not (lock.exists() and lock.read_text().startswith(f"pid {self._process.pid} ")):
            assert self._process.poll() is None, self._process.communicate()
            assert time.monotonic() < end
            time.sleep(0.002)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()
        assert self._process.returncode == -signal.SIGKILL

    def until_written(self, event: int) -> None:
        """Read what it tells until it has written that event."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if int(line.rpartition(b'"after": ')[2].rstrip(b"}\n")) >= event:
                return


def test_a_writer_that_is_killed_fifty_times_leaves_a_complete_vault(tmp_path: Path) -> None:
    (tmp_path / "board.db").touch(0o600)
    chance = random.Random(1)
    path = str(tmp_path / "board.db")
    story = Story(lambda agent: tiebreak.open(path, agent=agent, project="demo"), 3, lambda seconds: None)
    board = tiebreak.open(path, agent="judge~1", project="demo")
    over = threading.Event()

    def tell() -> None:
        while board.events.last() < EVENTS:
            story.tell(5)
        over.set()

    teller = threading.Thread(target=tell)
    teller.start()
    wrote: set[str] = set()
    kills = 0
    while kills < KILLS or not over.is_set():
        writer = Writer(tmp_path)
        time.sleep(chance.random() * 0.15)  # at a random moment of its work
        writer.kill()
        kills += 1
        if kills % 10 == 0:
            write_into(tmp_path / "vault", 5, chance)
            wrote |= kept_by(tmp_path / "vault")
    teller.join()
    last = Writer(tmp_path)
    last.until_written(board.events.last())
    last.kill()
    found, anew = snapshot(tmp_path / "vault"), rebuilt(board, tmp_path / "anew")
    assert found.generated == anew.generated
    assert wrote
    assert set(found.kept) == wrote
    assert set(found.kept.values()) == {TEXT}
    assert not found.aside
    assert not found.others
    board.close()


# ── Every step of a run, one after the other ─────────────────────────────────────────────────────────


class Killed(BaseException):
    """As if the process ended here: nothing runs after it but the release of the lock, which the kernel does."""


class Steps:
    """Counts the writes of a run, and kills it before or after one of them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.left = -1
        for name in ("write", "rename", "remove", "sync"):
            self._count(patch, name)

    def step(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1

    def _count(self, patch: pytest.MonkeyPatch, name: str) -> None:
        real = getattr(OpenFolder, name)

        def counted(*args: object) -> object:
            self.step()
            return real(*args)

        patch.setattr(OpenFolder, name, counted)


@pytest.fixture
def chapter(tmp_path: Path) -> Iterator[tuple[Place, Path]]:
    """A board with a vault that people wrote into, and that is a few renames, posts and ends behind."""
    place = SqlitePlace(tmp_path)
    story = Story(place.open, 5, place.advance)
    story.tell(25)
    write_vault(place.open("vault~1"), tmp_path / "vault")
    write_into(tmp_path / "vault", 1000, random.Random(2))
    story.tell(6)
    for number in (1, 2):
        story.board.tasks.edit(number, name=f"called {number}")
    yield place, tmp_path
    place.close()


def killed_at(number: int, board: Board, folder: Path, steps: Steps) -> bool:
    """Kill the writer of a copy, `tried`, at a step, and let another one finish; whether it was done before that."""
    shutil.rmtree(folder / "tried", ignore_errors=True)
    shutil.copytree(folder / "vault", folder / "tried")
    steps.left = number
    try:
        write_vault(board, folder / "tried")
        done = True
    except Killed:
        done = False
    steps.left = -1
    write_vault(board, folder / "tried")
    return done


def judged(place: Place, folder: Path, steps: Steps) -> list[str]:
    """Kill the writer at each step of its run, let another one finish, and say after which steps something is wrong."""
    board = place.open("vault~2")
    before = snapshot(folder / "vault")
    anew = rebuilt(board, folder / "anew")
    wrong: list[str] = []
    for number in range(400):
        done = killed_at(number, board, folder, steps)
        if not _is_right(snapshot(folder / "tried"), before, anew):
            wrong.append(f"killed at step {number}")
        if done:
            assert number > 10
            return wrong
    raise AssertionError("the run does not end")


def _is_right(found: Snapshot, before: Snapshot, anew: Snapshot) -> bool:
    same_kept = {**dict.fromkeys(before.kept, TEXT)} == found.kept
    return found.generated == anew.generated and same_kept and not found.aside and not found.others


def test_a_kill_at_any_step_leaves_a_vault_that_the_next_run_completes(
    chapter: tuple[Place, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judged(*chapter, Steps(monkeypatch)) == []


def test_a_cursor_that_is_written_before_the_notes_is_caught(
    chapter: tuple[Place, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Mirror._apply

    def too_early(self: Mirror, changes: object) -> None:
        self._save(after=self._board.events.last())
        real(self, changes)  # type: ignore[arg-type]

    steps = Steps(monkeypatch)
    monkeypatch.setattr(Mirror, "_apply", too_early)
    assert judged(*chapter, steps)


def test_a_note_that_is_written_in_place_is_caught(
    chapter: tuple[Place, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch)

    def in_place(self: OpenFolder, name: str, content: bytes) -> None:
        steps.step()
        with open(os.path.join(self.path, name), "wb") as file:
            file.write(content[: len(content) // 2])
            file.flush()
            steps.step()
            file.write(content[len(content) // 2 :])

    monkeypatch.setattr(OpenFolder, "write", in_place)
    assert judged(*chapter, steps)


def test_a_writer_that_forgets_what_people_wrote_is_caught(
    chapter: tuple[Place, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch)
    monkeypatch.setattr(vault_folder, "joined", lambda generated, kept: kept_text.joined(generated, b""))
    assert judged(*chapter, steps)


def test_a_rename_that_leaves_the_old_note_is_caught(
    chapter: tuple[Place, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch)
    monkeypatch.setattr(VaultFolder, "_rename", lambda *args: None)
    assert judged(*chapter, steps)


def test_a_kill_while_a_note_makes_room_for_a_file_of_somebody_leaves_all_links_right(
    chapter: tuple[Place, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, folder = chapter
    board = place.open("vault~2")
    first = board.tasks.post("first").number
    board.tasks.post("second", after=[first])
    write_vault(board, folder / "vault")
    own = folder / "vault" / "Tasks" / f"{first} first.md"
    own.write_text("mine")
    board.messages.send("changes no other note by itself", about=first)
    steps = Steps(monkeypatch)
    shutil.copytree(folder / "vault", folder / "whole")
    write_vault(board, folder / "whole")
    whole = snapshot(folder / "whole")
    assert set(whole.others) == {f"Tasks/{own.name}"}
    assert not whole.aside
    number, done = 0, False
    while not done:
        done = killed_at(number, board, folder, steps)
        assert snapshot(folder / "tried") == whole, f"killed at step {number}"
        number += not done
    assert number > 10
