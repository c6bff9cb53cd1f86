"""Server-sent events at `GET /events`: streams the events of the board as they happen, filtered by the server.

The number of an event is its id in the stream. A client that reconnects with `Last-Event-ID` continues after that
event, so it misses none and sees none twice. Browsers do this by themselves.

A page that only wants to know whether to draw itself again asks for a `brief` stream: at a thousand events a second,
the events themselves would keep a browser busy.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import Invalid
from ..kinds import RULES
from ..limits import MAX_LIMIT, STREAM_HEARTBEAT
from ..model import encode
from ..operations import find
from .routes import CLIENT_HEADER, EVENTS, Response, route
from .security import Caller, caller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .routes import Request
    from .service import Service

AT_ONCE = 100
"""Events that are read and sent at once."""
PAUSE = 0.1
"""Seconds between two messages of a brief stream: a page is not drawn more often than a few times a second."""
FILTERS = {
    name: kind for name, kind in find("events.read").parameters.items() if name not in ("after", "limit", "newest")
}
_DIGITS = 15
"""The most digits of a number that a client names."""
_NUMBER = {"type": "integer", "minimum": 0, "maximum": 10**_DIGITS - 1}
_QUERY = {
    "after": {**_NUMBER, "description": "only events after this number (default: only new events)"},
    "brief": {
        **RULES["bool"].schema,
        "description": "true: only how many events of each name there were, a few times a second at most",
    },
    **{name: RULES[kind.name].schema for name, kind in FILTERS.items()},
}
_HEADERS = {
    **CLIENT_HEADER,
    "Last-Event-ID": {**_NUMBER, "description": "the last event that arrived; it takes precedence over `after`"},
}
_SSE = b"text/event-stream; charset=utf-8"


@route(
    "GET",
    "/events",
    "Stream events as they happen: server-sent events, resumable by number, filtered by the server.",
    query=_QUERY,
    headers=_HEADERS,
    answers={200: "a stream of events", 429: "too many open waits"},
    content={"text/event-stream": {"type": "string"}},
    group=EVENTS,
    strangers=True,
    browsers=True,
)
async def events(service: Service, request: Request) -> Response:
    """Check the filters and begin the stream."""
    params: dict[str, Any] = {"project": None, **request.query()}
    resumed = request.headers.get(b"last-event-id")
    after = resumed.decode("latin-1") if resumed else params.pop("after", None)
    params.pop("after", None)
    brief = params.pop("brief", "false")
    if brief not in ("true", "false"):
        raise Invalid("brief: expected true or false")
    if after is None:
        number = await service.call("events.last", {})
    elif str(after).isdecimal() and len(str(after)) <= _DIGITS:
        number = int(after)
    else:
        raise Invalid("after: expected the number of an event")
    unknown = set(params) - set(FILTERS)
    if unknown:
        raise Invalid(f"unknown filter {min(unknown)!a}", hint=f"there are: after, brief, {', '.join(FILTERS)}")
    params = find("events.read").checked(
        {**params, "after": number, "limit": MAX_LIMIT if brief == "true" else AT_ONCE}
    )
    if request.method == "HEAD":
        return Response(type=_SSE)
    slot = service.waiters.slot(request.client)
    return Response(type=_SSE, stream=_stream(service, request, params, slot, brief == "true"))


async def _stream(
    service: Service, request: Request, params: dict[str, Any], slot: Any, brief: bool
) -> AsyncIterator[bytes]:
    read = find("events.read")
    with slot:
        gone = asyncio.ensure_future(request.gone())
        try:
            yield b"retry: 1000\n\n"
            while not gone.done() and not service.draining and _admitted(service, request):
                question = dict(params)
                found = await service.waiters.wait(
                    lambda question=question: service.engine.run(read, question),  # type: ignore[misc]
                    ("events.read", msgspec.json.encode(question)),
                    STREAM_HEARTBEAT,
                    lambda: asyncio.shield(gone),
                )
                if found:
                    yield _summary(found) if brief else b"".join(map(_shown, found))
                    params["after"] = found[-1].number
                    if brief:
                        await asyncio.wait([gone], timeout=PAUSE)
                elif not gone.done() and not service.draining:
                    yield b": still here\n\n"
        finally:
            gone.cancel()


def _admitted(service: Service, request: Request) -> bool:
    """Whether the stream may go on. A browser's stream ends when the browser is signed out."""
    return caller() is not Caller.BROWSER or service.access.sessions.signed_in(request.headers, request.user)


def _shown(event: Any) -> bytes:
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (
        event.number,
        event.event.encode(),
        msgspec.json.encode(encode(event)),
    )


def _summary(events: list[Any]) -> bytes:
    """One message about several events: the number of the last one, and how many there were of each name."""
    counts = Counter(event.event for event in events)
    last = events[-1].number
    return b"id: %d\ndata: %b\n\n" % (last, msgspec.json.encode({"number": last, "events": counts}))
