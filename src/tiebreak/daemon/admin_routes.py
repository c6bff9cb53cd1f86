"""Routes for whoever looks after the daemon: health, metrics, the state of the board, a copy of it."""

from __future__ import annotations

import os
import tempfile
from time import time
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import TiebreakError, Unavailable
from .advice import body_of
from .routes import Response, problem_of, route
from .rpc import Wrong, parsed
from .security import refuse_strangers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .routes import Request
    from .service import Service

PIECE = 256 * 1024


@route(
    "GET",
    "/health",
    "Whether the board takes writes and gives them back: a real round trip, and the state of the file.",
    answers={200: "all is well", 503: "it is not: the disk is full, the database is damaged, the board is held"},
    strangers=True,
)
async def health(service: Service, request: Request) -> Response:
    """Write, read, look."""
    try:
        written = await service.call("upkeep.probe", {})
        seen = await service.call("upkeep.probed", {})
        if seen < written:
            raise Unavailable("what was written cannot be read back")
        await service.threaded(service.engine.probe)
    except TiebreakError as exc:
        body = {"healthy": False, **body_of(exc)}
        return Response(msgspec.json.encode(body), status=503, headers=((b"retry-after", b"5"),))
    facts = {
        "healthy": True,
        "written": written,
        "up_seconds": round(time() - service.began, 1),
        "pid": os.getpid(),
        "wal_bytes": _wal_size(service.engine.path),
        "wal_kept_by": service.log_kept_by,
    }
    return Response(msgspec.json.encode(facts))


@route("GET", "/metrics", "Counters for Prometheus.", answers={200: "text in Prometheus' format"}, strangers=True)
async def metrics(service: Service, request: Request) -> Response:
    """Everything that is counted."""
    gauges = {
        "waiters": ("Open waits and streams.", len(service.hub)),
        "queue_depth": ("Writes that wait or are being written.", service.writer.depth),
        "wal_bytes": ("Size of the write-ahead log.", _wal_size(service.engine.path)),
        "wal_kept_by_pid": ("A process that keeps it from being shortened, 0 if there is none.", _pid(service)),
        "refusals_dropped_total": ("Refusals that the log does not tell of.", service.engine.refusals_dropped),
        "up_seconds": ("Seconds since the start.", time() - service.began),
    }
    return Response(service.metrics.text(gauges).encode(), type=b"text/plain; version=0.0.4; charset=utf-8")


def _pid(service: Service) -> int:
    return int(service.log_kept_by[0].split()[1]) if service.log_kept_by else 0


def _wal_size(path: str | None) -> int:
    from ..engine.sqlite.opening import wal_size

    return wal_size(path) if path else 0


@route(
    "POST",
    "/doctor",
    "Examine the board, and mend what can be mended safely.",
    body={"type": "object", "properties": {"repair": {"type": "boolean"}}},
    answers={200: "a list of findings: level, what, details"},
    strangers=True,
)
async def doctor(service: Service, request: Request) -> Response:
    """The engine's own findings."""
    from ..names import boolean

    given = _object(request.body)
    repair = boolean(given.get("repair", False), "repair")
    if repair:
        refuse_strangers()
    findings = await service.threaded(lambda: service.engine.diagnose(repair=repair))
    return Response(msgspec.json.encode([dict(zip(("level", "what", "details"), f, strict=True)) for f in findings]))


def _object(body: bytes) -> dict[str, Any]:
    from ..errors import Invalid

    try:
        given = parsed(body) if body else {}
    except Wrong as wrong:
        raise Invalid(str(wrong)) from None
    if not isinstance(given, dict):
        raise Invalid("the body must be a JSON object")
    return given


@route(
    "GET",
    "/backup",
    "A copy of the board, made while others use it.",
    answers={200: "a SQLite database"},
    strangers=False,
)
async def backup(service: Service, request: Request) -> Response:
    """Make it beside the board, send it, forget it."""
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
