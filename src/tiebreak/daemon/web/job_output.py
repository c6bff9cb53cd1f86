"""`GET /web/output`: what a job printed, for a browser that was signed in for acting.

A cookie alone does not get it (see `browser_sessions`): output may hold secrets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import Invalid
from ...text import block
from ..routes import BROWSER, Response, route
from .act_route import KEY_HEADER

if TYPE_CHECKING:
    from ..routes import Request
    from ..service import Service

MOST = 128 * 1024
"""Bytes that are shown: the last ones."""
_PLAIN = b"text/plain; charset=utf-8"


@route(
    "GET",
    "/web/output",
    "What the last attempt of a job has printed, as text.",
    query={"number": {"type": "string", "description": "the number of the job"}},
    headers=KEY_HEADER,
    answers={200: "the end of its output", 404: "no such job"},
    content={"text/plain": {"type": "string"}},
    group=BROWSER,
    strangers=False,
    acting=True,
)
async def job_output(service: Service, request: Request) -> Response:
    """The newest output; control characters are shown as escapes."""
    number = request.query().get("number", "")
    if not (number.isascii() and number.isdecimal() and len(number) < 16):
        raise Invalid("number: expected the number of a job")
    this = {"ref": f"#{number}", "project": "any"}
    found = await service.call("jobs.output", this)
    if found["next"] < found["total"]:  # there is more than one call answers with: show the end
        found = await service.call(
            "jobs.output", {**this, "epoch": found["epoch"], "after": max(0, found["total"] - MOST)}
        )
    text = "".join(("\n…\n" if each["cut"] else "") + each["text"] for each in found["chunks"])
    return Response(block(text).encode("utf-8", "replace"), type=_PLAIN)
