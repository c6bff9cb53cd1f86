"""How many jobs a worker takes at once: as many as it was told, and fewer while it is short of something."""

from __future__ import annotations

AGAIN = 30.0
"""Seconds until a worker that was short tries one job more than it can run."""
SOON = 1.0
"""Seconds until one that could not start a single job tries again."""
TRIES = 5
"""How often that is tried in a row."""


class Capacity:
    """What a worker can run, as it turns out."""

    def __init__(self, wanted: int) -> None:
        self.most = wanted
        """CommandRunner that may run at once."""
        self.again_at = float("inf")
        """When one more is tried."""
        self._wanted = wanted
        self._in_vain = 0

    def __str__(self) -> str:
        if self.most:
            return f"{self.most} at once from now on, one more in {AGAIN:g} s"
        return f"nothing can be started, another try in {SOON:g} s"

    def lower(self, running: int, now: float) -> bool:
        """One more than these could not be started; False when nothing could be for too long."""
        self.most = min(self.most, running)
        self.again_at = now + (AGAIN if running else SOON)
        if not running:
            self._in_vain += 1
        return self._in_vain < TRIES

    def started(self) -> None:
        """Something could be started."""
        self._in_vain = 0

    def grow(self, now: float) -> bool:
        """Try one more, if it is time; whether there is room for more than before."""
        if now < self.again_at:
            return False
        self.most = min(self._wanted, self.most + 1)
        self.again_at = float("inf") if self.most == self._wanted else now + AGAIN
        return True
