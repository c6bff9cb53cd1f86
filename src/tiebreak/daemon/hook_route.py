"""Hooks of agent clients over HTTP: the same decisions as `tb hook`, without the start of an interpreter for each.

A hook tells of files and is told what changed in them, so a request that shows no token gets no answer, also when the
daemon is open. Nothing is known of the client's process here, nor of its environment: who acts is the session that it
names, and the project is that of its folder, unless the address says otherwise.

A decision reads files and may run git, which can take many seconds in a large repository. So decisions have threads of
their own; what they ask of the board goes the way of every other request. A slow one delays other hooks at most.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..errors import Invalid, NotFound
from ..guard.client_hooks import CLIENTS, refused, respond
from ..names import agent, project
from ..text import json
from .routes import Response, route
from .service_engine import Inside

if TYPE_CHECKING:
    from .routes import Request
    from .service import Service

_TEXT = {"type": "string"}


@route(
    "POST",
    "/hooks/{client}/{event}",
    "Answer a hook of an agent client (claude, codex, cursor, gemini) that runs on this machine.",
    body={"type": "object"},
    query={"agent": _TEXT, "project": _TEXT},
    answers={
        200: "the client's own answer: empty, a refusal, or something to tell the agent",
        404: "no such client",
        429: "too many hooks are being answered",
    },
    strangers=False,
)
async def hook(service: Service, request: Request) -> Response:
    """Decide on a thread for hooks."""
    client, event = request.parameters["client"], request.parameters["event"]
    if client not in CLIENTS:
        raise NotFound(f"no client {client[:40]!a}", hint=f"one of {', '.join(CLIENTS)}")
    environ = _environ(request.query())
    board: Any = Inside(service)

    def decide() -> bytes:
        answer = respond(client, event, request.body, lambda: board, environ, own_process=False)
        if answer.code == 2:
            answer = refused(client, event, answer.err)
        warning = {"systemMessage": answer.err} if answer.err else {}
        return json({**warning, **(answer.out or {})}).encode()

    return Response(await service.hooks.run(decide))


def _environ(query: dict[str, str]) -> dict[str, str]:
    """Where things are, from this process; who acts, never."""
    environ = {name: os.environ[name] for name in ("HOME", "XDG_STATE_HOME") if name in os.environ}
    for name, value in query.items():
        if name == "agent":
            environ["TIEBREAK_AGENT"] = agent(value)
        elif name == "project":
            environ["TIEBREAK_PROJECT"] = project(value)
        else:
            raise Invalid(f"query: unknown parameter {name[:40]!a}", hint="agent, project")
    return environ
