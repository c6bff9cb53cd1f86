"""Board time: whole microseconds since the Unix epoch, by a clock that nobody can set.

Setting the wall clock must neither expire a lease nor prolong it. So a SQLite board uses the
machine's boot-time clock and adds an offset, which is stored on the board once per boot. The offset
is chosen so that board time starts at the wall clock's time, but never before the latest time that is
already on the board. So board time does not run backwards across a reboot.
"""

from __future__ import annotations

import os
import time

SECOND = 1_000_000
"""One second in board time."""
TOLERANCE = 1.0
"""Seconds by which two readings of one clock may differ, because the process can be stopped in between."""

# Linux: counts through suspend. macOS has no BOOTTIME; its MONOTONIC counts through sleep.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def micros(seconds: float) -> int:
    """Seconds as board time."""
    return round(seconds * SECOND)


def since_boot() -> int:
    """Microseconds since this machine booted."""
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1000


def off_by() -> float:
    """Seconds by which this process's boot-time clock differs from the machine's; 0 if that cannot be found out.

    All processes that use a board file must count leases by the machine's clock. In a time namespace the kernel shows
    another clock, and a program that fakes the time (`faketime`) does so inside the process. `/proc/uptime` is the
    kernel's own clock.
    """
    try:
        with open("/proc/self/timens_offsets", encoding="utf-8") as offsets:
            shifted = next((line.split()[1:] for line in offsets if line.startswith("boottime")), ("0", "0"))
        if shift := int(shifted[0]) + int(shifted[1]) / 1e9:
            return shift
        # Some containers have an uptime of their own, in a file that is mounted over this one.
        if os.stat("/proc/uptime").st_dev != os.stat("/proc").st_dev:
            return 0.0
        with open("/proc/uptime", encoding="utf-8") as uptime:
            shift = since_boot() / SECOND - float(uptime.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    return shift if abs(shift) > TOLERANCE else 0.0


def elapsed() -> float:
    """Seconds since this machine booted, including suspends: to measure leases as the board does."""
    return since_boot() / SECOND


def wall() -> int:
    """Microseconds since the Unix epoch by the wall clock; never used to measure a lease."""
    return time.time_ns() // 1000


def offset(seen: int) -> int:
    """The offset for a new boot, given the latest time on the board."""
    return max(wall(), seen) - since_boot()
