"""The register of a worker: a file that lists the process sessions which it started and which may still run.

Each job runs in a process session of its own. A job can clear its environment, but its first process cannot leave the
session that it leads. So another worker on the same machine, which cleans up after a dead one, reads its register.

An entry is written before its process starts, gets the pid and start time a moment later, and is blanked when no
process of the job is left. So a job that its worker's register does not list does not run. An entry without a pid means
that the worker died between the two writes, so the process may or may not run. If the register is missing (its folder
cannot be used, or somebody deleted it), nothing is known about any job. Nothing is synced to disk: a register must
outlive its worker, but not a reboot, which ends the processes too.
"""

from __future__ import annotations

import json
import os
import sys
from time import time

from ..errors import TiebreakError
from ..files import remove_file, replace_file
from ..limits import MAX_LEASE
from ..process_identity import from_token, identity, is_dead, is_shortage, look, token
from ..user_folders import private_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..process_identity import Identity
    from .job_processes import JobMark

WIDTH = 128
"""Bytes of an entry."""
END = "."
"""The last word of a complete entry; an entry that was only partly written lacks it."""
HELPER: JobMark = ("-", "0")
"""Stands in place of a job for children that run functions."""
_SUFFIX = ".worker"


class Register:
    """The register that this process writes."""

    def __init__(self, board: str) -> None:
        self._entries: list[bytes] = []
        self._free: list[int] = []
        self._by_pid: dict[int, int] = {}
        self._file: int | None = None
        self._first = 0
        if sys.platform != "linux":
            return  # elsewhere the process table does not tell enough to be certain, so a register would be of no use
        try:
            self._path = _path(identity())
            _delete_old(os.path.dirname(self._path))
            self._create(board)
        except (TiebreakError, OSError):
            self.close()  # without a register: if this worker is killed, its jobs wait for their leases

    def _create(self, board: str) -> None:
        head = json.dumps(board).encode() + b"\n"
        data = head + b"".join(self._entries)
        replace_file(self._path, data)
        try:
            made = os.open(self._path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            remove_file(self._path)  # nobody would keep it up to date
            raise
        old, self._file, self._first = self._file, made, len(head)
        if old is not None:
            os.close(old)

    def moved(self, board: str) -> None:
        """Write the board's new address."""
        if self._file is None:
            return
        try:
            self._create(board)
        except OSError:
            self.close()

    def intend(self, mark: JobMark) -> int:
        """Write an entry for a session that is about to start; returns its place in the file."""
        if self._free:
            place = self._free.pop()
        else:
            place = len(self._entries)
            self._entries.append(b"")
        self._write(place, f"{mark[0]} {mark[1]}")
        return place

    def started(self, place: int, pid: int) -> None:
        """The session has started; `pid` leads it."""
        self._by_pid[pid] = place

    def confirm(self, pid: int) -> None:
        """Add the session's leader to its entry. The leader may have ended, but must not have been reaped.

        This is not done at once: looking up a process that is just starting takes longer than most jobs run.
        """
        leader = look(pid) if self._file is not None else None
        if leader is not None and leader.started:
            place = self._by_pid[pid]
            self._write(place, f"{self._entries[place].decode().rstrip()} {pid} {leader.started} {END}")

    def cancel(self, place: int) -> None:
        """Blank an entry: its process could not be started, or has ended."""
        self._write(place, "")
        self._free.append(place)

    def ended(self, pid: int) -> None:
        """No process of this session is left."""
        place = self._by_pid.pop(pid, None)
        if place is not None:
            self.cancel(place)

    def _write(self, place: int, text: str) -> None:
        self._entries[place] = entry = text.encode().ljust(WIDTH - 1) + b"\n"
        if self._file is None:
            return
        try:
            if os.pwrite(self._file, entry, self._first + place * WIDTH) != WIDTH:
                raise OSError(f"{self._path}: not written")
        except OSError:
            self.close()  # no register is better than one in which an entry is missing

    def close(self) -> None:
        """Delete the register: nothing runs any more, or it cannot be kept complete."""
        if self._file is None:
            return
        os.close(self._file)
        self._file = None
        remove_file(self._path)


class RegisterContents:
    """A register as read from its file."""

    def __init__(self, data: bytes) -> None:
        head, *lines = data.decode("utf-8", "replace").split("\n")
        self.board: str = json.loads(head)
        self.leaders: dict[int, tuple[JobMark, int]] = {}
        """For each session: its job, and when its leader started."""
        self.complete = not lines.pop()
        """Whether it lists everything that may run."""
        for words in filter(None, map(str.split, lines)):
            if len(words) == 5 and words[4] == END:
                self.leaders[int(words[2])] = (words[0], words[1]), int(words[3])
            else:
                self.complete = False

    def sessions(self) -> dict[int, int]:
        """The numbers of the sessions, and when each leader started."""
        return {pid: started for pid, (_, started) in self.leaders.items()}

    def earlier(self, jobs: Mapping[str, int]) -> dict[int, int]:
        """The sessions of attempts at these jobs that are earlier than the current epochs."""
        return {
            pid: started
            for pid, ((job, epoch), started) in self.leaders.items()
            if job in jobs and epoch.isdecimal() and int(epoch) < jobs[job]
        }


def register_of(who: Identity) -> RegisterContents | None:
    """The register of that worker; None if there is none that can be read.

    Raises `OSError` when this process has too few descriptors or too little memory to look.
    """
    try:
        return _read(_path(who))
    except TiebreakError:
        return None


def registers() -> Iterator[tuple[Identity, RegisterContents]]:
    """The registers of this user's workers that run, or died, on this machine since it booted."""
    try:
        folder = private_folder()
        names = os.listdir(folder)
    except (TiebreakError, OSError):
        return
    for name in names:
        who = from_token(name.removesuffix(_SUFFIX)) if name.endswith(_SUFFIX) else None
        listed = _read(os.path.join(folder, name)) if who is not None else None
        if who is not None and listed is not None:
            yield who, listed


def forget(who: Identity) -> None:
    """Delete the register of a dead worker whose jobs have been given back."""
    try:
        os.unlink(_path(who))
    except (TiebreakError, OSError):
        pass  # a later worker deletes it when it is old


def _path(who: Identity) -> str:
    return os.path.join(private_folder(), token(who) + _SUFFIX)


def _read(path: str) -> RegisterContents | None:
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW)) as file:
            return RegisterContents(file.read())
    except OSError as exc:
        if is_shortage(exc):
            raise
        return None
    except (ValueError, IndexError):
        return None


def _delete_old(folder: str) -> None:
    """Delete registers of dead workers that are so old that every lease of theirs has run out."""
    for name in os.listdir(folder):
        stem, dot, _ = name.partition(_SUFFIX)
        path = os.path.join(folder, name)
        try:
            if dot and os.stat(path).st_mtime < time() - MAX_LEASE:
                who = from_token(stem)
                if who is None or is_dead(who):
                    os.unlink(path)
        except OSError:
            pass
