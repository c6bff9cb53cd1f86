"""How many jobs a worker runs at once: as many as it was told, fewer while it lacks processes or memory."""

from __future__ import annotations

AGAIN = 30.0
"""Seconds until a worker that had to run fewer jobs tries one more."""
SOON = 1.0
"""Seconds until a worker that could not start a single job tries again."""
TRIES = 5
"""How often it tries in a row before it gives up."""


class Capacity:
    """The number of commands that may run at once, lowered and raised by what happens."""

    def __init__(self, wanted: int) -> None:
        self.most = wanted
        """Most commands at once, for now."""
        self.again_at = float("inf")
        """When to try one more."""
        self._wanted = wanted
        self._failed_tries = 0

    def __str__(self) -> str:
        if self.most:
            return f"{self.most} at once from now on, one more in {AGAIN:g} s"
        return f"nothing can be started, another try in {SOON:g} s"

    def lower(self, running: int, now: float) -> bool:
        """A command could not be started beside `running` others; False after too many tries that started nothing."""
        self.most = min(self.most, running)
        self.again_at = now + (AGAIN if running else SOON)
        if not running:
            self._failed_tries += 1
        return self._failed_tries < TRIES

    def started(self) -> None:
        """A command was started."""
        self._failed_tries = 0

    def grow(self, now: float) -> bool:
        """Allow one more command if it is time; whether it was allowed."""
        if now < self.again_at:
            return False
        self.most = min(self._wanted, self.most + 1)
        self.again_at = float("inf") if self.most == self._wanted else now + AGAIN
        return True
