"""`GET /static/{version}/{name}`: the style and the scripts of the pages.

The files are read once, at the start. The version in the path is a hash of all of them together, so browsers may keep
them for ever, and a script that imports `./merge.js` gets the version that belongs to it.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from ...errors import NotFound
from ..http_protocol import CACHED
from ..pages import STATIC
from ..routes import BROWSER, Problem, Response, route

if TYPE_CHECKING:
    from ..routes import Request
    from ..service import Service

_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml; charset=utf-8",
}
_FILES = {path.name: path.read_bytes() for path in sorted(STATIC.iterdir()) if path.suffix in _TYPES}
VERSION = sha256(b"".join(b"%b %b" % (name.encode(), body) for name, body in _FILES.items())).hexdigest()[:16]
"""Changes whenever one of the files does."""
_KEEP = (
    (b"cache-control", b"private, max-age=31536000, immutable"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def address(name: str) -> str:
    """Where a browser finds a file. Raises `KeyError` if there is no such file."""
    _FILES[name]
    return f"{CACHED}{VERSION}/{name}"


@route(
    "GET",
    CACHED + "{version}/{name}",
    "A style or script of the pages.",
    answers={200: "the file", 404: "no such file, or another version of it"},
    content={kind.decode().partition(";")[0]: {"type": "string"} for kind in _TYPES.values()},
    group=BROWSER,
    strangers=True,
    browsers=True,
)
async def static(service: Service, request: Request) -> Response:
    """Only names that were found at the start count, so no path leads anywhere else."""
    name = request.parameters["name"]
    body = _FILES.get(name)
    if body is None or request.parameters["version"] != VERSION:
        raise Problem(404, NotFound("static: no such file in this version of the daemon", hint="load the page again"))
    return Response(body, type=_TYPES[name[name.rindex(".") :]], headers=_KEEP)
