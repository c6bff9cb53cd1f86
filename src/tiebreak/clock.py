"""Time on a board: whole microseconds since the Unix epoch, counted by a clock that nobody can turn.

A lease must neither expire nor live longer because somebody set the wall clock. So a SQLite board
counts with the machine's boot-time clock and adds an offset that is stored on the board once per
boot. The offset is chosen so that board time starts at the wall clock's time, but never before the
last moment that the board has already seen: time does not run backwards across a reboot.
"""

from __future__ import annotations

import time

SECOND = 1_000_000
"""One second in board time."""

# Linux: counts through suspend. macOS has no BOOTTIME; its MONOTONIC counts through sleep.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def micros(seconds: float) -> int:
    """Seconds as board time."""
    return round(seconds * SECOND)


def since_boot() -> int:
    """Microseconds since this machine booted."""
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1000


def elapsed() -> float:
    """Seconds since this machine booted: for measuring leases here as the board does, also through a suspend."""
    return since_boot() / SECOND


def wall() -> int:
    """Microseconds since the Unix epoch by the wall clock; only ever used to choose an offset."""
    return time.time_ns() // 1000


def offset(seen: int) -> int:
    """The offset for a new boot, given the latest moment that the board has seen."""
    return max(wall(), seen) - since_boot()
