"""*Board*: what the doctor finds, how far the board is from its limits, the daemons, and who may ask them."""

from __future__ import annotations

import asyncio
import os
from time import time
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..lock import daemons
from ..routes import Response
from .page import POLICY, TEXT, page
from .templates import href

if TYPE_CHECKING:
    from ..service import Service
    from .page import Visit

AGENTS = {"sqlite": 6500, "postgresql": 6500}
"""How many agents a board behind a daemon serves, as measured in docs/scale.md."""
LIMITED_BY = {
    "sqlite": "the one core of the daemon",
    "postgresql": "the server, with four daemons in front of it",
}
"""What reaches its limit first, there."""
_PAUSE = 10.0
"""Seconds for which a finding of the doctor is shown again instead of a new one: the check reads the whole board."""
_looking: WeakKeyDictionary[Service, asyncio.Future[None]] = WeakKeyDictionary()
_checked: WeakKeyDictionary[Service, tuple[float, list[tuple[str, str, str]]]] = WeakKeyDictionary()


@page(
    "/board",
    "board.html",
    "What the doctor finds, capacity, daemons, and who may ask.",
    title="Board",
    query={"check": {**TEXT, "description": "`yes`: let the doctor look first, which reads the whole board"}},
    watch=("board.", "project.", "agent."),
    answers={303: "the doctor has looked: on to the page itself"},
)
async def board(visit: Visit) -> dict[str, Any] | Response:
    """The board as an operator sees it. The doctor is asked only on demand: it reads every page of the database."""
    service = visit.service
    if visit.given.get("check") == "yes":
        await _examine(service)
        # On to the address without it: a page fetches its own address again and again.
        return Response(status=303, headers=((b"location", href("/board", project=visit.project).encode()), *POLICY))
    counts, serving = await visit.together(
        service.call("overview.counts", {"project": None}), service.threaded(daemons, service.engine.address)
    )
    at, findings = _checked.get(service, (0.0, []))
    return {
        "checked_ago": time() - at if at else None,
        "findings": findings,
        "figures": _figures(service, counts),
        "agents": counts.agents,
        "most_agents": AGENTS[_kind(service)],
        "limited_by": LIMITED_BY[_kind(service)],
        "daemons": list(serving.values()),
        "this_pid": os.getpid(),
        "rules": rules(service),
    }


async def _examine(service: Service) -> None:
    """Let the doctor look, unless it has just done so. Whoever asks while it looks gets the same finding."""
    looking = _looking.get(service)
    if looking is None or (looking.done() and time() - _checked.get(service, (0.0, []))[0] > _PAUSE):
        looking = _looking[service] = asyncio.ensure_future(_look(service))
    await asyncio.shield(looking)


async def _look(service: Service) -> None:
    found = await service.threaded(lambda: service.engine.diagnose(repair=False))
    _checked[service] = time(), found


def _kind(service: Service) -> str:
    return "sqlite" if service.engine.path else "postgresql"


def _figures(service: Service, counts: Any) -> list[tuple[str, str]]:
    """How large the board is and how busy the daemon has been since it started."""
    out = [("Newest event", f"{counts.event:,}")]
    path = service.engine.path
    if path and os.path.exists(path):
        beside = os.path.getsize(f"{path}-wal") if os.path.exists(f"{path}-wal") else 0
        out.append(("Size", f"{os.path.getsize(path) / 1e6:,.1f} MB, write-ahead log {beside / 1e6:,.1f} MB"))
    commits, writes = (sum(each.counts) for each in (service.metrics.commit, service.metrics.batch_size))
    if commits and writes:
        mean = service.metrics.commit.sum / commits * 1000
        share = service.metrics.batch_size.sum / writes
        out.append(("Commits", f"{commits:,}, {mean:.1f} ms each, {share:.1f} writes at once"))
    out.append(("Lost races", f"{service.metrics.outcome('lost'):,}"))
    out.append(("Late writes refused", f"{service.metrics.outcome('fenced'):,}"))
    out.append(("Open waits and streams", f"{len(service.waiters):,}"))
    out.append(("Writes in line", f"{service.writer.depth:,}"))
    return out


def rules(service: Service) -> list[tuple[str, str]]:
    """Who may ask this daemon for what, in words."""
    configured = service.access.rules
    signed_in, acting = service.access.sessions.counted()
    out = [("Unix socket", "this user and root: everything")]
    if configured.open_jobs:
        out.append(("Without the token", "everything, also jobs: started with --open-jobs"))
    elif configured.open:
        out.append(("Without the token", "tasks, holds and messages; no job, schedule or session: started with --open"))
    else:
        out.append(("Without the token", "nothing, except whether the board is healthy"))
    out.append(("With the token", "everything"))
    out.append(("Addressed as", ", ".join(configured.hosts)))
    out.append(("Browsers", f"{signed_in} signed in to read, {acting} of them to act"))
    return out
