"""Signing a browser in, for reading or for acting, and signing all out.

`POST /web/code` needs the token or the unix socket and makes a one-time code. `GET /web/enter` exchanges the code for a
cookie and leads on to an address without it, so that the code is neither in the history nor sent to anybody else. A
link for acting leads on to `/#write=KEY`: what follows `#` is never sent to a server, and the page removes it at once
(`static/acting.js`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...errors import Invalid, Refused, Unauthorised
from ...names import agent, boolean, short
from ..browser_sessions import CODE_LIFE
from ..routes import BROWSER, HTML, Problem, Public, Response, route
from ..rpc import parse_object
from . import refusal_page, templates

if TYPE_CHECKING:
    from ..routes import Request
    from ..service import Service

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
    body={
        "type": "object",
        "properties": {"https": {"type": "boolean"}, "write": {"type": "boolean"}, "person": _TEXT},
    },
    answers={200: "the path of the link, and where a browser on the daemon's machine finds it", 409: "no TCP address"},
    content={"application/json": _LINK},
    group=BROWSER,
    strangers=False,
)
async def new_link(service: Service, request: Request) -> Response:
    """Only the owner gets here.

    `https`: the link will be an https one, so the cookie must not travel without it. `write`: the browser may act, in
    the name of `person`.
    """
    given = parse_object(request.body)
    https, write = (boolean(given.get(name, False), name) for name in ("https", "write"))
    person = short(agent(given["person"], "person")) if given.get("person") else ""
    if write and not person:
        raise Invalid("person: a browser acts in somebody's name", hint="give `person` with `write`")
    if not service.access.url:
        raise Problem(409, Refused("this daemon listens on its unix socket alone, which no browser can reach"))
    code = service.access.sessions.new_code(request.user(), https=https, person=person, write=write)
    path = enter_path(code)
    await service.threaded(templates.load)  # a browser is about to come
    return Response(msgspec.json.encode({"path": path, "url": service.access.url, "seconds": CODE_LIFE}))


@route(
    "GET",
    "/web/enter",
    "Exchange the code of a link for a cookie that reads, perhaps for a key that writes, and go on to the page.",
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
    begun = service.access.sessions.exchange(code, request.user)
    if begun is None and not service.access.sessions.signed_in(request.headers, request.user):
        raise Problem(
            401,
            Unauthorised(
                "this link was used already, is older than a minute, or was made for another user",
                reason="token-missing",
            ),
            (b"www-authenticate", b"Bearer"),
        )
    key = f"#write={begun.key}" if begun is not None and begun.key else ""
    headers = [(b"location", f"/{key}".encode()), *refusal_page.POLICY]
    if begun is not None:
        headers.append((b"set-cookie", begun.cookie.encode()))
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
