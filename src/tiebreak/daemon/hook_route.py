"""`POST /hooks/{client}/{event}`: answers the hooks of agent clients over HTTP.

The answers are those of `tb hook`, without the cost of starting an interpreter for each hook.

A hook names files, and its answer may tell what changed in them. So this route needs the token, even on a daemon
started with `--open`. The daemon knows neither the process nor the environment of the client. The agent is the session
named in the hook, and the project is that of the hook's folder, unless the query parameters `agent` and `project` say
otherwise.

Answering a hook reads files and may run git, which can take many seconds in a large repository. Hooks therefore have
threads of their own, and a slow hook delays only other hooks.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..errors import Invalid, NotFound
from ..guard.client_hooks import CLIENTS, refused, respond
from ..names import agent, project
from ..text import json
from .routes import HOOKS, Response, route
from .service_engine import ServiceEngine

if TYPE_CHECKING:
    from .routes import Request
    from .service import Service

_TEXT = {"type": "string"}


@route(
    "POST",
    "/hooks/{client}/{event}",
    "Answer a hook of an agent client (claude, codex, cursor, gemini) on this machine.",
    body={"type": "object"},
    body_required=True,
    query={"agent": _TEXT, "project": _TEXT},
    answers={
        200: "the answer in the client's own format: empty, a refusal, or a text for the agent",
        404: "no such client",
        429: "too many hooks are being answered",
    },
    group=HOOKS,
    strangers=False,
)
async def hook(service: Service, request: Request) -> Response:
    """Answer the hook on one of the threads for hooks."""
    client, event = request.parameters["client"], request.parameters["event"]
    if client not in CLIENTS:
        raise NotFound(f"no client {client[:40]!a}", hint=f"one of {', '.join(CLIENTS)}")
    environ = _environ(request.query())
    engine = ServiceEngine(service)

    def decide() -> bytes:
        answer = respond(client, event, request.body, lambda: engine, environ, own_process=False)
        if answer.code == 2:
            answer = refused(client, event, answer.err)
        warning = {"systemMessage": answer.err} if answer.err else {}
        given = json({**warning, **(answer.out or {})}).encode()
        answer.was_given()
        return given

    return Response(await service.hooks.run(decide))


def _environ(query: dict[str, str]) -> dict[str, str]:
    """The environment of the hook: folders from this process, agent and project only from the query."""
    environ = {name: os.environ[name] for name in ("HOME", "XDG_STATE_HOME") if name in os.environ}
    for name, value in query.items():
        if name == "agent":
            environ["TIEBREAK_AGENT"] = agent(value)
        elif name == "project":
            environ["TIEBREAK_PROJECT"] = project(value)
        else:
            raise Invalid(f"query: unknown parameter {name[:40]!a}", hint="agent, project")
    return environ
