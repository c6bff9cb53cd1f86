"""The spawn lock: on this machine, one process at a time may start a coordinator of a project.

It is a lock file that is never removed, because a lock on an unlinked file keeps nobody out. Nobody waits for it: a
second process is told at once which process has it and since when. The kernel releases it when its holder dies.
"""

from __future__ import annotations

import os
import time

from ..errors import Lost, Unavailable
from ..files import try_lock
from ..process_identity import Identity, identity, is_dead
from ..text import json, read_json, rfc3339
from .state_files import project_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LOOKS = 25
"""How often to look for the name of the holder, which writes it just after it has the lock."""


class SpawnLock:
    """The right to start a project's coordinator: a context manager that raises `Lost` if another process has it."""

    def __init__(self, project: str, doing: str = "spawn") -> None:
        self.project = project
        self.path = os.path.join(project_folder(project), "coordinator.lock")
        self._doing = doing
        self._fd = -1

    def acquire(self) -> None:
        """Take the lock, or raise `Lost` at once."""
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise Unavailable(f"lock file {self.path}: {exc.strerror or exc}") from exc
        if not try_lock(self._fd):
            refusal = self._refusal()
            self._close()
            raise refusal
        me = identity()
        facts = {"pid": me.pid, "started": me.started, "host": me.host, "boot": me.boot}
        self._write_holder({**facts, "doing": self._doing, "since": time.time()})

    def release(self) -> None:
        """Release the lock; the file stays."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            self._close()

    def _write_holder(self, facts: dict[str, Any]) -> None:
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, json(facts).encode() + b"\n", 0)

    def _close(self) -> None:
        os.close(self._fd)
        self._fd = -1

    def _refusal(self) -> Lost:
        who = self._holder()
        text = f"another {who.get('doing', 'spawn')} is in progress"
        if who:
            text += f" (pid {who['pid']} since {rfc3339(who['since'])})"
        return Lost(
            f"no coordinator is started for project {self.project}: {text}",
            reason="spawn-under-way",
            project=self.project,
            **{name: who[name] for name in ("pid", "started", "since") if name in who},
        )

    def _holder(self) -> dict[str, Any]:
        """The process that has the lock; {} if it has not written its name yet, or only a dead one's name is there."""
        for _ in range(_LOOKS):
            try:
                found = read_json(os.pread(self._fd, 4096, 0).decode("utf-8", "replace"))
                who = Identity(found["host"], found["boot"], found["pid"], found["started"])
                if not is_dead(who):
                    return dict(found)
            except (ValueError, KeyError, TypeError):
                pass
            time.sleep(0.002)
        return {}

    def __enter__(self) -> SpawnLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
