"""*Jobs*: the queues with the figures of the last hour, limits, schedules in words, and the jobs that failed last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...names import JOB
from ...operations.cron_times import in_words
from ...text import span
from .page import page

if TYPE_CHECKING:
    from ...model import Schedule
    from .page import Visit

MINUTES = 60
RUNS = 3
"""Coming runs of a schedule that are shown."""
MOST_SCHEDULES = 50
"""Schedules whose coming runs are computed: each takes a moment."""
LATEST = 20
"""Failed and running jobs that are shown."""
_SPARKS = (
    ("completed", "line", "Done", "tasks completed each minute"),
    ("depth", "line", "Ready", "ready tasks at the end of each minute"),
    ("waited", "dots", "Wait", "seconds that tasks had been ready when they were claimed, the median of each minute"),
    ("failed", "bars", "Failed", "attempts that failed each minute"),
)


@page(
    "/queues",
    "queues.html",
    "The queues with throughput, depth, latency and failures, limits, and schedules in words.",
    title="Jobs",
    module="queues.js",
    watch=("task.", "queue.", "schedule.", "job."),
)
async def queues(visit: Visit) -> dict[str, Any]:
    """What runs, what waits, what failed, and what comes next."""
    figures, schedules, running, failed = await visit.together(
        visit.read("queues.figures", minutes=MINUTES),
        visit.read("schedules.list"),
        visit.read("tasks.list", kind=JOB, states=["claimed"], limit=LATEST),
        visit.read("tasks.list", kind=JOB, states=["failed"], limit=LATEST),
    )
    long = _counted_for(figures)
    return {
        "figures": figures,
        "sparks": _SPARKS,
        "period": f"in the last {long or 'hour'}",
        "numbers": {
            (each["project"], each["queue"]): _numbers(each, f"in the last {long}" if long else "in an hour")
            for each in figures["queues"]
        },
        "schedules": [await _schedule(visit, each, i) for i, each in enumerate(schedules)],
        "running": running,
        "failed": failed,
    }


def _counted_for(figures: dict[str, Any]) -> str:
    """For how long events were counted, in words; "" if it was the hour that was asked for."""
    return span(figures["now"] - figures["since"]) if figures["cut"] else ""


def _numbers(queue: dict[str, Any], period: str) -> dict[str, str]:
    """The figure beside each sparkline, in words. A sum is worth nothing without the time in which it was reached."""
    done, failed = (sum(each or 0 for each in queue[name]) for name in ("completed", "failed"))
    median = "-" if queue["median"] is None else span(queue["median"])
    p95 = "" if queue["p95"] is None else f", p95 {span(queue['p95'])}"
    return {
        "completed": f"{done:,} {period}",
        "depth": f"{queue['ready']:,} now, {queue['claimed']:,} claimed",
        "waited": f"{median}{p95}",
        "failed": f"{failed:,} {period}",
    }


async def _schedule(visit: Visit, schedule: Schedule, place: int) -> dict[str, Any]:
    """A schedule with its expression in words and its next runs, unless it is paused."""
    coming: list[float] = []
    if schedule.paused_at is None and place < MOST_SCHEDULES:
        coming = await visit.read("schedules.next", name=schedule.name, project=schedule.project, count=RUNS)
    return {"it": schedule, "words": in_words(schedule.expression), "coming": coming}
