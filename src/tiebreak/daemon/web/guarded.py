"""What only a browser that was signed in for acting may see: the terminal of an agent's session.

The cookie alone is not enough for it (see `browser_sessions`). So the page asks for it by a script that sends the write
key, too (`guarded` in `static/acting.js`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...errors import NotFound
from ...text import block
from ..routes import BROWSER, Response, route
from .act_route import KEY_HEADER
from .page import TEXT

if TYPE_CHECKING:
    from ..routes import Request
    from ..service import Service


@route(
    "GET",
    "/web/terminal",
    "What the terminal of an agent's session shows, for a browser that is signed in for acting.",
    query={"name": TEXT, "project": TEXT},
    required=("name", "project"),
    headers=KEY_HEADER,
    answers={200: "its screen", 404: "no session of that agent runs", 409: "its terminal is not on this machine"},
    group=BROWSER,
    strangers=False,
    acting=True,
)
async def terminal(service: Service, request: Request) -> Response:
    """The screen as text, in which nothing can move a cursor or hide."""
    given = request.query()
    wanted = {"session": given.get("name", ""), "project": given.get("project", "")}
    found = await service.call("sessions.list", wanted)
    show = service.machine.screen
    if not found or show is None:
        raise NotFound(f"no session of {wanted['session']} runs in project {wanted['project']}")
    screen = await service.threaded(show, found[0])
    return Response(msgspec.json.encode({"screen": block(screen)}))
