"""The gate: one process at a time may bring a coordinator of a project to life on this machine.

It is a lock file that is never removed, for a lock on an unlinked file protects nobody. Nobody waits for it: who comes
second is told at once who is in there and since when, and can look at what comes out. The kernel opens it when its
holder dies, however it dies.
"""

from __future__ import annotations

import os
import time

from ..errors import Lost, Unavailable
from ..files import try_lock
from ..processes import Identity, identity, is_dead
from ..text import json, read_json, rfc3339
from .state_files import project_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LOOKS = 25


class SpawnLock:
    """The right to start the coordinator of a project; a context manager that raises `Lost` if somebody else has it."""

    def __init__(self, project: str, doing: str = "spawn") -> None:
        self.project = project
        self.path = os.path.join(project_folder(project), "coordinator.lock")
        self._doing = doing
        self._fd = -1

    def enter(self) -> None:
        """Go in, or raise `Lost` at once."""
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
        self._sign({**facts, "doing": self._doing, "since": time.time()})

    def leave(self) -> None:
        """Let the next one in; the file stays."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            self._close()

    def _sign(self, facts: dict[str, Any]) -> None:
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, json(facts).encode() + b"\n", 0)

    def _close(self) -> None:
        os.close(self._fd)
        self._fd = -1

    def _refusal(self) -> Lost:
        who = self._occupant()
        text = f"another {who.get('doing', 'spawn')} is in progress"
        if who:
            text += f" (pid {who['pid']} since {rfc3339(who['since'])})"
        return Lost(
            f"no coordinator is started for project {self.project}: {text}",
            hint="wait until it has finished, then `tb ps` shows the coordinator and `tb attach` leads to it",
            project=self.project,
            **{name: who[name] for name in ("pid", "started", "since") if name in who},
        )

    def _occupant(self) -> dict[str, Any]:
        """Who is in there; {} if it has not signed yet. A signature of the dead is one that nobody has replaced yet."""
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
        self.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
