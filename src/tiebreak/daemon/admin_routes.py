"""Routes for operators: `/health`, `/metrics`, `/doctor` and `/backup`."""

from __future__ import annotations

import asyncio
import os
import tempfile
from time import monotonic, time
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import TiebreakError, Unavailable
from .advice import body_of
from .routes import ADMINISTRATION, Public, Response, problem_of, route
from .rpc import parse_object
from .security import Caller, caller, refuse_strangers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .routes import Request
    from .service import Service

PIECE = 256 * 1024
"""Bytes of a backup that are sent at once."""
_TEXT = {"type": "string"}
_HEALTH = {
    "title": "Health",
    "type": "object",
    "properties": {
        "healthy": {"const": True},
        "written": {"type": "number"},
        "up_seconds": {"type": "number", "minimum": 0},
        "pid": {"type": "integer", "minimum": 1},
    },
    "required": ["healthy", "up_seconds"],
}
_FINDING = {
    "title": "Finding",
    "type": "object",
    "properties": {"level": _TEXT, "what": _TEXT, "details": {}},
    "required": ["level", "what", "details"],
}


@route(
    "GET",
    "/health",
    "Write to the board, read it back, and check the file.",
    answers={200: "healthy", 503: "not healthy: the disk is full, the database is damaged, or the board is locked"},
    content={"application/json": _HEALTH},
    group=ADMINISTRATION,
    strangers=True,
    browsers=True,
    public=Public.LOOPBACK,
)
async def health(service: Service, request: Request) -> Response:
    """The whole finding, or for visitors only whether the board is healthy and since when the daemon runs.

    Visitors share one check a second, so that no program without the token can keep the disk busy.
    """
    if caller() is not Caller.VISITOR:
        return _health_answer(await _check(service))
    last = service.visitors_check
    if last is None or (last[1].done() and monotonic() - last[0] > 1.0):
        last = service.visitors_check = monotonic(), asyncio.ensure_future(_check(service))
    found = await asyncio.shield(last[1])
    return _health_answer({name: found[name] for name in ("healthy", "up_seconds", "message", "hint") if name in found})


async def _check(service: Service) -> dict[str, Any]:
    """Write to the board, read the write back, and let the engine check its database."""
    up = round(time() - service.began, 1)
    try:
        written = await service.call("upkeep.probe", {})
        seen = await service.call("upkeep.probed", {})
        if seen < written:
            raise Unavailable("a write was acknowledged but cannot be read back")
        await service.threaded(service.engine.probe)
    except TiebreakError as exc:
        return {"healthy": False, "up_seconds": up, **body_of(exc)}
    return {
        "healthy": True,
        "written": written,
        "up_seconds": up,
        "pid": os.getpid(),
        "wal_bytes": _wal_size(service.engine.path),
        "wal_kept_by": service.wal_kept_by,
    }


def _health_answer(found: dict[str, Any]) -> Response:
    if found["healthy"]:
        return Response(msgspec.json.encode(found))
    return Response(msgspec.json.encode(found), status=503, headers=((b"retry-after", b"5"),))


@route(
    "GET",
    "/metrics",
    "Counters for Prometheus.",
    answers={200: "text in Prometheus' format"},
    content={"text/plain": _TEXT},
    group=ADMINISTRATION,
    strangers=True,
    browsers=True,
)
async def metrics(service: Service, request: Request) -> Response:
    """All counters and gauges."""
    gauges = {
        "waiters": ("Open waits and event streams.", len(service.waiters)),
        "queue_depth": ("Writes that are queued or being committed.", service.writer.depth),
        "wal_bytes": ("Size of the write-ahead log.", _wal_size(service.engine.path)),
        "wal_kept_by_pid": ("Pid of a process that keeps the log from being shortened, or 0.", _pid(service)),
        "refusals_dropped_total": (
            "Refusals that were dropped and not recorded as events.",
            service.engine.refusals_dropped,
        ),
        "up_seconds": ("Seconds since the daemon started.", time() - service.began),
    }
    return Response(service.metrics.text(gauges).encode(), type=b"text/plain; version=0.0.4; charset=utf-8")


def _pid(service: Service) -> int:
    return int(service.wal_kept_by[0].split()[1]) if service.wal_kept_by else 0


def _wal_size(path: str | None) -> int:
    from ..engine.sqlite.opening import wal_size

    return wal_size(path) if path else 0


@route(
    "POST",
    "/doctor",
    "Check the board for damage. With `repair`, fix what can be fixed safely.",
    body={"type": "object", "properties": {"repair": {"type": "boolean"}}},
    answers={200: "a list of findings: level, what, details"},
    content={"application/json": {"type": "array", "items": _FINDING}},
    group=ADMINISTRATION,
    strangers=True,
)
async def doctor(service: Service, request: Request) -> Response:
    """What the engine finds. A repair needs the token."""
    from ..names import boolean

    given = parse_object(request.body)
    repair = boolean(given.get("repair", False), "repair")
    if repair:
        refuse_strangers()
    findings = await service.threaded(lambda: service.engine.diagnose(repair=repair))
    return Response(msgspec.json.encode([dict(zip(("level", "what", "details"), f, strict=True)) for f in findings]))


@route(
    "GET",
    "/backup",
    "Download a copy of the board, made while others use it.",
    answers={200: "a SQLite database"},
    content={"application/vnd.sqlite3": {}},
    group=ADMINISTRATION,
    strangers=False,
)
async def backup(service: Service, request: Request) -> Response:
    """Make a copy in a temporary folder beside the board, stream it, and delete it."""
    if request.method == "HEAD":
        return Response(type=b"application/vnd.sqlite3")
    beside = os.path.dirname(service.engine.path) if service.engine.path else None
    folder = tempfile.TemporaryDirectory(prefix=".tiebreak-backup-", dir=beside)
    try:
        target = os.path.join(folder.name, "board.db")
        await service.threaded(service.engine.backup, target)
        size = os.path.getsize(target)
    except BaseException as exc:
        folder.cleanup()
        if isinstance(exc, TiebreakError):
            raise problem_of(exc) from None
        raise
    headers = ((b"content-length", str(size).encode()),)
    return Response(type=b"application/vnd.sqlite3", headers=headers, stream=_pieces(service, folder, target))


async def _pieces(service: Service, folder: Any, path: str) -> AsyncIterator[bytes]:
    try:
        with open(path, "rb") as file:
            while piece := await service.threaded(file.read, PIECE):
                yield piece
    finally:
        folder.cleanup()
