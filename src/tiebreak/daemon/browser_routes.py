"""Routes for people with a browser: signing it in, signing all out, and the page that it lands on.

`POST /web/code` needs the token or the unix socket and makes a one-time code. `GET /web/enter` exchanges the code for a
cookie and leads on to an address without it, so that the code is neither in the history nor sent to anybody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import Invalid, Refused, Unauthorised
from ..names import boolean
from ..operations import find
from . import browser_pages
from .browser_sessions import CODE_LIFE
from .routes import BROWSER, HTML, Problem, Public, Response, route
from .rpc import parse_object
from .security import Caller, caller

if TYPE_CHECKING:
    from .routes import Request
    from .service import Service

_TEXT = {"type": "string"}
_LINK = {
    "title": "Link",
    "type": "object",
    "properties": {"path": _TEXT, "url": _TEXT, "seconds": {"type": "number"}},
    "required": ["path", "url", "seconds"],
}
_COUNT = {"type": "object", "properties": {"signed_out": {"type": "integer"}}, "required": ["signed_out"]}


def enter_path(code: str) -> str:
    """The path of the link with this code."""
    return f"/web/enter?code={code}"


@route(
    "POST",
    "/web/code",
    "Make a link that signs one browser in: it works once, within a minute.",
    body={"type": "object", "properties": {"https": {"type": "boolean"}}},
    answers={200: "the path of the link, and where a browser on the daemon's machine finds it", 409: "no TCP address"},
    content={"application/json": _LINK},
    group=BROWSER,
    strangers=False,
)
async def new_link(service: Service, request: Request) -> Response:
    """Only the owner gets here. `https`: the link will be an https one, so the cookie must not travel without it."""
    https = boolean(parse_object(request.body).get("https", False), "https")
    if not service.access.url:
        raise Problem(409, Refused("this daemon listens on its unix socket alone, which no browser can reach"))
    path = enter_path(service.access.sessions.new_code(request.user(), https=https))
    return Response(msgspec.json.encode({"path": path, "url": service.access.url, "seconds": CODE_LIFE}))


@route(
    "GET",
    "/web/enter",
    "Exchange the code of a link for a cookie that reads, and go on to the page.",
    query={"code": _TEXT},
    required=("code",),
    answers={200: "to HEAD, which uses no code up", 303: "signed in"},
    content={"text/html": _TEXT},
    group=BROWSER,
    strangers=True,
    browsers=True,
    public=Public.WITH_CODE,
)
async def enter(service: Service, request: Request) -> Response:
    """Sign the browser in. A browser that is signed in already is led on even if the code was used: by a reload."""
    code = request.query().get("code")
    if not code:
        raise Invalid("code: is missing")
    if request.method == "HEAD":
        return Response(type=HTML)
    cookie = service.access.sessions.exchange(code, request.user)
    if cookie is None and not service.access.sessions.signed_in(request.headers, request.user):
        raise Problem(
            401,
            Unauthorised(
                "this link was used already, is older than a minute, or was made for another user",
                reason="token-missing",
            ),
            (b"www-authenticate", b"Bearer"),
        )
    headers = [(b"location", b"/"), *browser_pages.POLICY]
    if cookie is not None:
        headers.append((b"set-cookie", cookie.encode()))
    return Response(status=303, type=HTML, headers=tuple(headers))


@route(
    "POST",
    "/web/out",
    "Sign all browsers out.",
    body={"type": "object"},
    answers={200: "how many were signed in"},
    content={"application/json": _COUNT},
    group=BROWSER,
    strangers=False,
)
async def sign_out(service: Service, request: Request) -> Response:
    """Unused links are void from now on, too."""
    parse_object(request.body)
    return Response(msgspec.json.encode({"signed_out": service.access.sessions.sign_out()}))


@route(
    "GET",
    "/",
    "What happens now: agents, holds, open tasks and the latest events, as a page for people.",
    query={"project": {**_TEXT, "description": "only this project (default: all)"}},
    answers={200: "a page"},
    content={"text/html": _TEXT},
    group=BROWSER,
    strangers=True,
    browsers=True,
)
async def now(service: Service, request: Request) -> Response:
    """Read the board by its operations, as the caller may see it."""
    given = request.query()
    if unknown := set(given) - {"project"}:
        raise Invalid(f"unknown parameter {min(unknown)!a}", hint="there is: project")
    project = given.get("project") or None
    if request.method == "HEAD":
        find("upkeep.status").checked({"project": project})
        return Response(type=HTML, headers=browser_pages.POLICY)
    most = browser_pages.MOST
    seen = browser_pages.Seen(
        project=project,
        board=service.engine.address,
        status=await service.call("upkeep.status", {"project": project}),
        agents=await _list(service, "agents.list", project, limit=most),
        holds=await _list(service, "holds.list", project, limit=most),
        claimed=await _list(service, "tasks.list", project, states=["claimed"], limit=most),
        waiting=await _list(service, "tasks.list", project, states=["pending", "blocked"], limit=most),
        events=await _list(service, "events.read", project, newest=True, limit=most),
        signed_in=caller() is Caller.BROWSER,
    )
    return Response(browser_pages.now(seen).encode(), type=HTML, headers=browser_pages.POLICY)


async def _list(service: Service, name: str, project: str | None, **params: Any) -> Any:
    return await service.call(name, {"project": project, **params})
