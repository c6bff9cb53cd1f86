"""What the guard remembers about an agent between two hook calls: small files that only the user can read.

A hook is a process that lives for milliseconds, and several hooks of one agent may run at once. So each fact is a file
of its own, replaced as a whole: nothing has to be locked or repaired. Exclusion does not depend on these files, only on
the board. If they are lost, an agent may have to read a file once more, or may miss that a file has changed.
"""

from __future__ import annotations

import os
import time

from ..errors import Unavailable
from ..files import replace_file
from ..limits import DAY
from ..names import checksum
from ..user_folders import state_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST = 256 * 1024
"""Largest file in bytes whose contents are kept, to show later what has changed."""
MOST = 400
"""Most files whose last read is remembered for one agent."""
PROMPT_FACT = "prompt"
"""The fact that a person is asked whether the agent may go on."""
BORN_FACT = "born"
"""The fact that the agent's session has begun."""
MAIN_FACT = "main"
"""Whose sub-agent it is. No session of its own begins."""
CLIENT_FACT = "client"
"""The process of the agent's client, as its token, if the agent ends with it."""
DAYS = 7
"""Days without a hook call after which an agent's state is deleted."""


def folder(environ: Mapping[str, str] = os.environ) -> str:
    """The folder of the guard's state."""
    return _made(os.path.join(state_folder(environ), "guard"))


def _made(path: str) -> str:
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as exc:
        raise _unavailable(path, exc) from exc
    return path


def _unavailable(path: str, exc: OSError) -> Unavailable:
    return Unavailable(f"the guard's state in {os.path.dirname(path)}: {exc.strerror or exc}")


def key(name: str) -> str:
    """A file name for any text."""
    return f"{checksum(name.encode('utf-8', 'surrogateescape')):016x}"


class AgentState:
    """The remembered facts of one agent."""

    def __init__(self, agent: str, environ: Mapping[str, str] = os.environ) -> None:
        self.agent = agent
        self.home = os.path.join(folder(environ), key(agent))

    @property
    def has_hooks(self) -> bool:
        """Whether hooks of the agent's client have run here, so that they say what it leaves in its files."""
        return self.moment(BORN_FACT) > 0 or self.moment(MAIN_FACT) > 0

    def get(self, name: str, most: int = LARGEST + 8192) -> bytes | None:
        """The value of a fact, at most its first bytes, or all for -1; None when it is not known."""
        try:
            with open(os.path.join(self.home, name), "rb") as file:
                return file.read(most)
        except OSError:
            return None

    def put(self, name: str, value: bytes) -> None:
        """Store a fact, in place of the earlier one of that name."""
        path = os.path.join(self.home, name)
        try:
            try:
                replace_file(path, value)
            except FileNotFoundError:
                _made(os.path.dirname(path))
                replace_file(path, value)
        except OSError as exc:
            raise _unavailable(path, exc) from exc

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
        """Seconds since a fact was stored; infinite if it never was."""
        at = self.moment(name)
        return max(0.0, time.time() - at / 1e9) if at else float("inf")

    def moment(self, name: str) -> int:
        """When a fact was stored, as the file's modification time in nanoseconds; 0 if it never was."""
        try:
            return os.stat(os.path.join(self.home, name)).st_mtime_ns
        except OSError:
            return 0

    def forget_older(self, days: float) -> None:
        """Forget the facts that nobody has stored again for so many days."""
        for name in self.names(""):
            if self.age(name) > days * DAY:
                self.forget(name)

    def tidy(self) -> None:
        """Delete the oldest reads beyond the limit, and the state of agents that are long gone."""
        looks = sorted(self.names("reads"), key=self.moment)
        for name in looks[: max(0, len(looks) - MOST)]:
            self.forget(name)
        above = os.path.dirname(self.home)
        old = time.time() - DAYS * DAY
        for name in os.listdir(above):
            place = os.path.join(above, name)
            if place != self.home and _newest(place) < old:
                import shutil

                shutil.rmtree(place, ignore_errors=True)


def common_facts(name: str) -> AgentState:
    """Facts of this user and machine that are not one agent's."""
    facts = AgentState("")
    facts.home = os.path.join(folder(), name)
    return facts


def _newest(place: str) -> float:
    try:
        below = [os.path.join(place, name) for name in os.listdir(place)]
        return max(os.stat(each).st_mtime for each in (place, *below))
    except OSError:
        return time.time()
