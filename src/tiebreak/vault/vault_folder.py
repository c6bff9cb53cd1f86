"""The folder of a vault: what it mirrors, who writes it, how far, and its notes.

`.tiebreak/` has what is not for people: `vault.json` says what is mirrored, `cursor.json` how far, `lock` keeps a
second writer out, and `taken.json` names the files of people that have the name of a note. `agents/`, `about/` and
`threads/` have what the board does not list: what an agent did (see `agent_history`), which tasks are about a task, and
which threads there are.

A file without our mark is somebody's own and is never replaced. The note gets another name, and all links lead there.
"""

from __future__ import annotations

import json
import os
import re
import socket
from hashlib import sha256
from typing import Any

from ..errors import Invalid, Refused
from ..files import try_lock
from ..text import plain
from .kept_text import is_marked_pruned, joined, marked_pruned, parts
from .note_names import ASIDE, FOLDERS, MESSAGES, NUMBERED, OF_TASKS, other_stems, readable
from .open_folder import OpenFolder

OWN = ".tiebreak"
FORMAT = 1
KEEP, REMOVE = "keep", "remove"
_ID = re.compile(rb'^id: "([0-9a-f-]{36})"', re.MULTILINE)


class NameTaken(Exception):
    """A file of somebody's own has appeared where a note was to be written: `find_taken`, and make all links anew."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class VaultFolder:
    """An open vault. Only one process at a time has it open for writing."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.changed = 0
        """How many notes were written or removed."""
        self._top = OpenFolder(self.path)
        self._own = OpenFolder(OWN, self._top)
        self._lock = self._take_lock()
        self._state = {name: OpenFolder(name, self._own) for name in ("agents", "about", "threads")}
        self._folders = {name: OpenFolder(name, self._top) for name in FOLDERS}
        for each in (self._top, self._own, *self._state.values(), *self._folders.values()):
            each.remove_unfinished()
        self._touched: set[OpenFolder] = set()
        self._numbered: dict[str, dict[int, list[str]]] = {name: {} for name in (*OF_TASKS, MESSAGES)}
        for folder, known in self._numbered.items():
            for name in self._folders[folder].names():
                if found := NUMBERED.fullmatch(name):
                    known.setdefault(int(found[1]), []).append(name)
        self.settings: dict[str, Any] = self._json(self._own, "vault.json") or {}
        self.taken: set[str] = set(self._json(self._own, "taken.json") or ())

    def _take_lock(self) -> int:
        fd = self._own.open_file("lock")
        if not try_lock(fd):
            who = os.pread(fd, 500, 0).decode("utf-8", "replace").strip() or "another process"
            os.close(fd)
            raise Refused(f"vault {plain(self.path)}: {plain(who)} writes it", hint="a vault has one writer at a time")
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"pid {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        return fd

    def close(self) -> None:
        """Let others write it."""
        for each in (*self._folders.values(), *self._state.values(), self._own, self._top):
            each.close()
        os.close(self._lock)

    # ── What is not for people ───────────────────────────────────────────────────────────────────────

    def _json(self, folder: OpenFolder, name: str) -> Any:
        found = folder.read(name)
        try:
            return None if found is None else json.loads(found)
        except ValueError:
            return None  # made anew

    def save_settings(self, **settings: Any) -> None:
        """Change what the vault mirrors, and how. All notes are made anew if other ones are to stay than before."""
        wanted = {"format": FORMAT, **self.settings, **settings}
        if wanted != self.settings:
            if self.settings and wanted.get("pruned") != self.settings.get("pruned"):
                self.forget()  # first: after a kill the new choice must not look as if it were done
            self.settings = wanted
            self._own.write("vault.json", json.dumps(wanted, indent=1).encode())
            self._own.sync()

    def cursor(self) -> dict[str, Any]:
        """How far the vault is; empty if it has to be made anew."""
        return self._json(self._own, "cursor.json") or {}

    def save_cursor(self, cursor: dict[str, Any]) -> None:
        """Say how far the vault is, after everything up to there is on the disk."""
        for folder in self._touched:
            folder.sync()
        self._touched.clear()
        self._own.write("cursor.json", json.dumps(cursor).encode())
        self._own.sync()

    def state(self, kind: str, name: str) -> Any:
        """What was stored by `save_state`, or None."""
        return self._json(self._state[kind], f"{name}.json")

    def save_state(self, kind: str, name: str, value: Any) -> None:
        """Store what notes are made from and the board does not list."""
        self._state[kind].write(f"{name}.json", json.dumps(value, ensure_ascii=False).encode())
        self._touched.add(self._state[kind])

    def states(self, kind: str) -> list[str]:
        """The names under which something is stored."""
        return sorted(name.removesuffix(".json") for name in self._state[kind].names() if name.endswith(".json"))

    def forget(self) -> None:
        """Forget everything that is not for people, so that all notes are made anew. No note is lost."""
        self._own.remove("cursor.json")
        for kind, folder in self._state.items():
            for name in self.states(kind):
                folder.remove(f"{name}.json")

    # ── Notes ────────────────────────────────────────────────────────────────────────────────────────

    def find_taken(self, *known: str) -> None:
        """Look for files of people that have the name of a note: those without our mark in the folders of notes.

        `known` are paths of others. Where upper and lower case are the same, a file may be listed by another name.
        """
        places = {"": self._top, **{name: place for name, place in self._folders.items() if name != ASIDE}}
        found = {
            _path(folder, name.removesuffix(".md"))
            for folder, place in places.items()
            for name in place.names()
            if name.endswith(".md") and _is_own(place, name)
        }.union(known)
        if found != self.taken:
            self.taken = found
            self._own.write("taken.json", json.dumps(sorted(found), ensure_ascii=False).encode())
            self._own.sync()

    def path_of(self, path: str) -> str:
        """Where the note of this path is, as links have it: beside a file of somebody's own that has its name."""
        if path not in self.taken:
            return path
        folder, _, stem = path.rpartition("/")
        return next(found for each in other_stems(stem) if (found := _path(folder, each)) not in self.taken)

    def write(self, folder: str, stem: str, generated: str, number: int | None = None) -> None:
        """Write a note, with the text of people that it has. A note of this number under another name is renamed.

        Raises `NameTaken` if its place has a file of somebody's own that `find_taken` did not know.
        """
        place = self._folders[folder] if folder else self._top
        wanted, stem = stem, self.path_of(_path(folder, stem)).rpartition("/")[2]
        name = f"{stem}.md"
        if _is_own(place, name):
            raise NameTaken(_path(folder, stem))
        if number is not None:
            self._rename(folder, number, name)
        else:
            self._move_back(place, wanted, name)
        while True:
            version, old = place.version(name), place.read(name)
            kept = self._kept(folder, stem, old)
            self._refuse_other_board(name, generated.encode(), old or b"")
            new = joined(generated, kept)
            if new == old:
                return
            if place.version(name) == version:
                break  # else somebody saves it at this moment
        place.write(name, new)
        self._touched.add(place)
        self.changed += 1

    def _move_back(self, place: OpenFolder, wanted: str, name: str) -> None:
        """A note without a number that got its other name, or lost it, takes the text of people along."""
        before = (f"{each}.md" for each in (wanted, next(other_stems(wanted))))
        for old in before:
            if old != name and place.version(name) is None and parts(place.read(old) or b""):
                place.rename(old, name)
                self._touched.add(place)

    def _refuse_other_board(self, name: str, generated: bytes, old: bytes) -> None:
        """Numbers are unique on one board only: a note with this number and another id is from another board."""
        ids = [_ID.search(text) for text in (generated, old)]
        if all(ids) and ids[0][1] != ids[1][1]:  # type: ignore[index]
            raise Refused(
                f"vault {plain(self.path)}: {plain(name)} is a note of another board", hint="name another folder"
            )

    def _rename(self, folder: str, number: int, name: str) -> None:
        place, known = self._folders[folder], self._numbered[folder].setdefault(number, [])
        if name in known:
            return
        ours = sorted((each for each in known if parts(place.read(each) or b"")), key=lambda each: (len(each), each))
        if ours:
            self._kept(folder, name.removesuffix(".md"), place.read(name), other=True)
            place.rename(ours[0], name)
            self._touched.add(place)
            known.remove(ours[0])
        known.append(name)

    def _kept(self, folder: str, stem: str, note: bytes | None, *, other: bool = False) -> bytes:
        """The text of people in a note. If they changed the rest of it, the whole note is copied aside first."""
        found = None if note is None else parts(note)
        if note is not None and (other or found is None or not found.unchanged):
            digest = sha256(note).hexdigest()[:8]
            self._folders[ASIDE].write(f"{readable(f'{folder} {stem}')} {digest}.md", note)
            self._folders[ASIDE].sync()
        return found.kept if found else b""

    def numbers(self, folder: str) -> list[int]:
        """The numbers of the notes in a folder."""
        return sorted(self._numbered[folder])

    def stems(self, folder: str) -> list[str]:
        """The names of the notes in a folder, without `.md`."""
        return sorted(name.removesuffix(".md") for name in self._folders[folder].names() if name.endswith(".md"))

    def retire(self, folder: str, number: int) -> None:
        """Retire the notes with a number: see `retire_note`."""
        known = self._numbered[folder]
        known[number] = [name for name in known[number] if not self.retire_note(folder, name)]
        if not known[number]:
            del known[number]

    def retire_note(self, folder: str, name: str) -> bool:
        """What a note is about is not on the board any more: mark the note; whether it was removed instead.

        It is removed if the vault is to have nothing that was pruned and people have neither written into it nor
        changed it. A file that is not one of ours stays as it is.
        """
        place = self._folders[folder]
        found = parts(note := place.read(name) or b"")
        if found is None:
            return False
        remove = self.settings["pruned"] == REMOVE and found.unchanged and not found.kept.strip()
        if remove:
            place.remove(name)
        elif is_marked_pruned(found.generated):
            return False
        else:
            self._kept(folder, name.removesuffix(".md"), note)
            place.write(name, joined(marked_pruned(found.generated), found.kept))
        self._touched.add(place)
        self.changed += 1
        return remove


def _path(folder: str, stem: str) -> str:
    return f"{folder}/{stem}" if folder else stem


def _is_own(place: OpenFolder, name: str) -> bool:
    """Whether something is there that is none of our notes, so it belongs to somebody."""
    found = place.read(name)
    return place.version(name) is not None if found is None else parts(found) is None


def open_vault(path: str, *, into: bool) -> VaultFolder:
    """Open a vault, or make one in a new or empty folder; `into` accepts a folder that has other files."""
    if os.path.lexists(path) and not os.path.isdir(path):
        raise Invalid(f"vault {plain(path)}: is no folder")
    try:
        there = os.listdir(path)
    except FileNotFoundError:
        there = []
    except OSError as exc:
        raise Refused(f"vault {plain(path)}: {exc.strerror or exc}") from None
    if OWN not in there and not into and any(not name.startswith(".") for name in there):
        raise Refused(
            f"vault {plain(path)}: is a folder with other files, and no vault of tiebreak",
            reason="vault-not-empty",
        )
    return VaultFolder(path)
