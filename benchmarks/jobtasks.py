"""The job that does nothing, for `tb work --import benchmarks.jobtasks`."""

from __future__ import annotations

import tiebreak


@tiebreak.job(name="nothing", queue="bench")
def nothing() -> None:
    """The job."""
