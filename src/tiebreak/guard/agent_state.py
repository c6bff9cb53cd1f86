"""What the guard remembers of one agent between two calls: small files, for the owner's eyes only.

A hook is a process that lives for milliseconds, and several of one agent can run at once. So each fact is a file of its
own, replaced as a whole: there is nothing to lock and nothing to repair. Losing all of it loses no exclusion, which
is the board's; an agent would only be asked to read a file once more, or not be asked.
"""

from __future__ import annotations

import os
import time

from ..files import replace_file
from ..names import checksum
from ..rendezvous import state_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST = 256 * 1024
"""Bytes of a file that are kept to show what has changed in it."""
MOST = 400
"""Files of which one agent's last look is kept."""
DAYS = 7
"""After so many days without a sign, an agent's memory is thrown away."""


def folder(environ: Mapping[str, str] = os.environ) -> str:
    """Where the guard keeps what it remembers."""
    return _made(os.path.join(state_folder(environ), "guard"))


def _made(path: str) -> str:
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def key(name: str) -> str:
    """A name of any kind as the name of a file."""
    return f"{checksum(name.encode('utf-8', 'surrogateescape')):016x}"


class AgentState:
    """The memory of one agent."""

    def __init__(self, agent: str, environ: Mapping[str, str] = os.environ) -> None:
        self.agent = agent
        self.home = os.path.join(folder(environ), key(agent))

    def get(self, name: str) -> bytes | None:
        """A fact; None when nothing is known."""
        try:
            with open(os.path.join(self.home, name), "rb") as file:
                return file.read(LARGEST + 8192)
        except OSError:
            return None

    def put(self, name: str, value: bytes) -> None:
        """Remember a fact in place of the last one of that name."""
        path = os.path.join(self.home, name)
        try:
            replace_file(path, value)
        except FileNotFoundError:
            _made(os.path.dirname(path))
            replace_file(path, value)

    def forget(self, name: str) -> None:
        """Forget a fact."""
        try:
            os.unlink(os.path.join(self.home, name))
        except OSError:
            pass  # it was not known

    def names(self, under: str) -> list[str]:
        """The facts in a folder."""
        try:
            return [os.path.join(under, name) for name in os.listdir(os.path.join(self.home, under))]
        except OSError:
            return []

    def age(self, name: str) -> float:
        """Seconds since a fact was put; for ever, when it never was."""
        at = self.moment(name)
        return max(0.0, time.time() - at / 1e9) if at else float("inf")

    def moment(self, name: str) -> int:
        """When a fact was put, by the clock that files have, in nanoseconds; 0 when it never was."""
        try:
            return os.stat(os.path.join(self.home, name)).st_mtime_ns
        except OSError:
            return 0

    def tidy(self) -> None:
        """Keep to the bounds: the oldest looks go, and what agents left behind who are long gone."""
        looks = sorted(self.names("reads"), key=self.moment)
        for name in looks[: max(0, len(looks) - MOST)]:
            self.forget(name)
        above = os.path.dirname(self.home)
        old = time.time() - DAYS * 86_400
        for name in os.listdir(above):
            place = os.path.join(above, name)
            if place != self.home and _newest(place) < old:
                import shutil

                shutil.rmtree(place, ignore_errors=True)


def _newest(place: str) -> float:
    try:
        below = [os.path.join(place, name) for name in os.listdir(place)]
        return max(os.stat(each).st_mtime for each in (place, *below))
    except OSError:
        return time.time()
