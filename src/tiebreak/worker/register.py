"""The register of a worker: a file that lists the sessions which it started and which may still run.

Each job runs in a session of its own. A job can clear or overwrite its environment, but its first process cannot
leave the session that it leads. So whoever cleans up after a dead worker on the same machine looks into its register.

An entry is written before its process is started, and gets the pid and the start time a moment later. It is blanked
when nothing of the job is left. So a job that is not in a register does not run. An entry without a pid is in doubt:
the worker died in that moment. A register that is missing, because its folder cannot be used or somebody deleted
it, leaves everything in doubt. Nothing is synced to disk: a register outlives its worker, and need not outlive the
machine.
"""

from __future__ import annotations

import json
import os
import sys
from time import time

from ..errors import TiebreakError
from ..files import remove_file, replace_file
from ..names import MAX_LEASE
from ..processes import from_token, identity, is_dead, is_shortage, look, token
from ..rendezvous import private_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..processes import Identity
    from .job_processes import Mark

WIDTH = 128
"""Bytes of an entry."""
END = "."
"""The last word of a whole entry. One that was cut while it was written lacks it."""
HELPER: Mark = ("-", "0")
"""Stands for the job of a child that runs functions."""
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
            return  # nobody could tell elsewhere that nothing else is left
        try:
            self._path = _path(identity())
            _delete_old(os.path.dirname(self._path))
            self._create(board)
        except (TiebreakError, OSError):
            self.close()  # others wait for this worker's leases, should it be killed

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
        """The board is somewhere else from now on."""
        if self._file is None:
            return
        try:
            self._create(board)
        except OSError:
            self.close()

    def intend(self, mark: Mark) -> int:
        """A session is about to be started for a job; the place of its entry."""
        if self._free:
            place = self._free.pop()
        else:
            place = len(self._entries)
            self._entries.append(b"")
        self._write(place, f"{mark[0]} {mark[1]}")
        return place

    def started(self, place: int, pid: int) -> None:
        """The session has started, and this process leads it."""
        self._by_pid[pid] = place

    def confirm(self, pid: int) -> None:
        """Write down which session it is, by its leader: a child that may have ended, but was not reaped.

        Not at once: to look at a process that is just being started takes longer than most jobs.
        """
        leader = look(pid) if self._file is not None else None
        if leader is not None and leader.started:
            place = self._by_pid[pid]
            self._write(place, f"{self._entries[place].decode().rstrip()} {pid} {leader.started} {END}")

    def cancel(self, place: int) -> None:
        """It could not be started."""
        self._write(place, "")
        self._free.append(place)

    def ended(self, pid: int) -> None:
        """Nothing is left of what was started with this process."""
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
            self.close()  # rather none than one in which something is missing

    def close(self) -> None:
        """Delete it: nothing runs any more, or it cannot be kept."""
        if self._file is None:
            return
        os.close(self._file)
        self._file = None
        remove_file(self._path)


class RegisterContents:
    """What a register says."""

    def __init__(self, data: bytes) -> None:
        head, *lines = data.decode("utf-8", "replace").split("\n")
        self.board: str = json.loads(head)
        self.leaders: dict[int, tuple[Mark, int]] = {}
        """For each session its job, and when its leader started."""
        self.whole = not lines.pop()
        """Whether it tells all that may run."""
        for words in filter(None, map(str.split, lines)):
            if len(words) == 5 and words[4] == END:
                self.leaders[int(words[2])] = (words[0], words[1]), int(words[3])
            else:
                self.whole = False

    def sessions(self) -> dict[int, int]:
        """The sessions, by their numbers, and when each leader started."""
        return {pid: started for pid, (_, started) in self.leaders.items()}

    def earlier(self, jobs: Mapping[str, int]) -> dict[int, int]:
        """Those of attempts at these jobs before the epochs that count now."""
        return {
            pid: started
            for pid, ((job, epoch), started) in self.leaders.items()
            if job in jobs and epoch.isdecimal() and int(epoch) < jobs[job]
        }


def listed_by(who: Identity) -> RegisterContents | None:
    """What the register of that worker says; None if it has none that can be read.

    Raises an `OSError` when this process is too short of something to look.
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
        pass  # it is deleted when it is old


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
    """Delete what dead workers left here so long ago that no lease of theirs is left."""
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
