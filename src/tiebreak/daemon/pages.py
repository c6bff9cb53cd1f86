"""The documentation of the daemon's API: `GET /openapi.json` for programs, `GET /docs` for people.

The page for people is one file without scripts that loads nothing else, so it can be saved and read anywhere. Its prose
is in `static/docs.html`. Routes, operations, records and limits are inserted from their declarations.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from .. import __version__, limits
from ..model import RECORDS
from ..operations import description
from ..text import html
from ..user_folders import DEFAULT_ADDRESS
from . import openapi, rpc
from .routes import DOCUMENTATION as GROUP
from .routes import HTML, ROUTES, Public, Response, groups, route

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..kinds import Kind
    from ..operations.description import OperationDescription, Parameter, RecordDescription
    from .routes import Request, Route
    from .service import Service

STATIC = Path(__file__).parent / "static"
_DOCUMENT = {
    "type": "object",
    "properties": {"openapi": {"type": "string"}, "info": {"type": "object"}, "paths": {"type": "object"}},
    "required": ["openapi", "info", "paths"],
}


@route(
    "GET",
    "/openapi.json",
    "This API as an OpenAPI 3.1 document.",
    answers={200: "the document"},
    content={"application/json": _DOCUMENT},
    group=GROUP,
    strangers=True,
    browsers=True,
)
async def openapi_json(service: Service, request: Request) -> Response:
    """The OpenAPI document, which is the same for all clients."""
    return Response(msgspec.json.encode(openapi.document()))


@route(
    "GET",
    "/docs",
    "This API for people: one page that loads nothing else.",
    answers={200: "a page"},
    content={"text/html": {"type": "string"}},
    group=GROUP,
    strangers=True,
    browsers=True,
    public=Public.LOOPBACK,
)
async def docs(service: Service, request: Request) -> Response:
    """The page. Its examples use the host name of the request."""
    host = request.headers.get(b"host", b"").decode("latin-1")
    return Response(page(host), type=HTML, headers=_POLICY)


@cache
def _style() -> str:
    return (STATIC / "docs.css").read_text(encoding="utf-8")


def page_policy(style: str) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of a page that has this style, no scripts, and loads nothing."""
    allowed = b64encode(sha256(style.encode()).digest())
    policy = b"default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return (
        (b"content-security-policy", policy % allowed),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-resource-policy", b"same-origin"),
    )


_POLICY = page_policy(_style())


def page(host: str) -> bytes:
    """The page, with this host name in its examples."""
    if host == "localhost":  # by the unix socket, where there is no port
        host = DEFAULT_ADDRESS
    return filled(host, ROUTES, description.operations()).encode()


def filled(host: str, routes: list[Route], operations: list[OperationDescription]) -> str:
    """The prose of `docs.html` with its `{{placeholders}}` filled in."""
    parts = {
        **{name: html(value) for name, value in _plain_values(host, routes, operations).items()},
        **{name: _code(text.replace("HOST", host).replace("PORT", _port(host))) for name, text in EXAMPLES.items()},
        "style": _style(),
        "contents": _list(_link(each.name) for each in operations),
        "routes": _routes(routes),
        "operations": "".join(
            _group(name, list(those)) for name, those in groupby(operations, lambda each: each.group)
        ),
        "records": "".join(map(_record, description.records())),
        "codes": _codes(),
        "statuses": _table(("status", "meaning"), ((f"{status}", text) for status, text in _STATUSES.items())),
        "bounds": _table(("what", "at most"), _limits().items()),
    }
    prose = (STATIC / "docs.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], prose)


def _plain_values(host: str, routes: list[Route], operations: list[OperationDescription]) -> dict[str, str]:
    return {
        "version": __version__,
        "host": host,
        "port": _port(host),
        "routes_count": str(len(routes)),
        "operations_count": str(len(operations)),
        "min_once": str(limits.MIN_ONCE),
        "max_once": str(limits.MAX_ONCE),
        "longest_wait": f"{limits.LONGEST_WAIT * 1000:.0f}",
        "most_in_a_batch": str(limits.MOST_IN_A_BATCH),
        "heartbeat": f"{limits.STREAM_HEARTBEAT:g}",
        "everywhere": ", ".join(map(str, openapi.EVERYWHERE)),
    }


def _port(host: str) -> str:
    port = host.rpartition(":")[2]
    return port if port.isdecimal() else "80"


# ── Examples ─────────────────────────────────────────────────────────────────────────────────────────────────

EXAMPLES = {
    "example_setup": """
url=http://HOST
token=$(cat "${XDG_STATE_HOME:-$HOME/.local/state}/tiebreak/run/PORT.token")
ask() { curl -s -H "Authorization: Bearer $token" "$@"; echo; }
call() { ask "$url/rpc" -H "Content-Type: application/json" -d "$1"; }""",
    "example_health": 'ask "$url/health"',
    "example_claim": """
call '{"jsonrpc": "2.0", "id": 1, "method": "tasks.post",
       "params": {"project": "demo", "agent": "ada", "name": "fix the login", "key": "login"}}'
call '{"jsonrpc": "2.0", "id": 2, "method": "tasks.claim",
       "params": {"project": "demo", "agent": "ada", "ref": "login", "lease": "10m"}}'""",
    "example_lost": """
call '{"jsonrpc": "2.0", "id": 3, "method": "tasks.claim",
       "params": {"project": "demo", "agent": "bob", "ref": "login"}}'""",
    "answer_lost": """
{"jsonrpc": "2.0", "id": 3, "error": {
    "code": -32001,
    "message": "login is held by ada until …",
    "data": {"error": "Lost", "hint": "…", "holder": "ada", "until": "2026-11-15T19:22:41Z", "epoch": 1}}}""",
    "example_socket": """
socket=$(tb status | grep -o 'unix:[^ ]*' | cut -c6-)
curl -s --unix-socket "$socket" http://localhost/health""",
    "example_wait": """
# answers at once, or as soon as there is an urgent task; with an empty list after two seconds
call '{"jsonrpc": "2.0", "id": 4, "method": "tasks.list",
       "params": {"project": "demo", "priority": "urgent", "wait_ms": 2000}}'""",
    "example_batch": """
# two in one transaction, safe to send again
call '[{"jsonrpc": "2.0", "id": 5, "method": "tasks.complete", "once": "ada-login-done",
        "params": {"project": "demo", "agent": "ada", "ref": "login", "result": {"commit": "4f2a9c1"}}},
       {"jsonrpc": "2.0", "id": 6, "method": "messages.send", "once": "ada-login-told",
        "params": {"project": "demo", "agent": "ada", "body": "the login works again"}}]'""",
    "example_events": """
# without --max-time it goes on until you end it
ask -N --max-time 2 "$url/events?after=0&project=demo&event=task\"""",
    "answer_events": """
id: 3
event: task.claimed
data: {"number": 3, "event": "task.claimed", "name": "fix the login", "agent": "ada", "epoch": 1, …}""",
}
"""Commands to paste into a shell, and answers. The tests run the commands."""


def _code(text: str) -> str:
    """Lines of code as HTML; comments and JSON are highlighted."""
    return "\n".join(
        f"<i>{html(line)}</i>" if line.startswith("#") else _line(line) for line in text.strip().split("\n")
    )


def _line(line: str) -> str:
    return re.sub(
        r"&quot;([\w…][\w .~:…-]*)&quot;(:?)",
        lambda found: f'<span class="{"k" if found[2] else "s"}">&quot;{found[1]}&quot;</span>{found[2]}',
        html(line),
    )


# ── Parts ────────────────────────────────────────────────────────────────────────────────────────────────────


def prose(text: str) -> str:
    """One paragraph, with `code` between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html(" ".join(text.split())))


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{prose(part)}</p>" for part in text.split("\n\n"))


def _link(name: str, shown: str = "") -> str:
    return f'<a href="#{html(name)}">{html(shown or name)}</a>'


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table that scrolls sideways if it is too wide. Its cells are HTML already."""
    head = "".join(f'<th scope="col">{html(text)}</th>' for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0">{table}</div>'


def _routes(routes: list[Route]) -> str:
    order = groups(routes)
    ordered = sorted(routes, key=lambda each: (order.index(each.group), each.path, each.method))
    return "".join(
        f"<h3>{html(name)}</h3>" + _table(("route", "what for", "answers"), map(_route, those))
        for name, those in groupby(ordered, lambda each: each.group.heading)
    )


def _route(route: Route) -> tuple[str, str, str]:
    method = f'<span class="method {html(route.method.lower())}">{html(route.method)}</span>'
    text = prose(route.text)
    if names := [*route.query, *route.headers]:
        text += f'<br><span class="note">with</span> {", ".join(f"<code>{html(name)}</code>" for name in names)}'
    if not route.strangers:
        text += '<br><span class="tag must">always wants the token</span>'
    if route.browsers:
        text += '<br><span class="tag reads">for signed-in browsers</span>'
    answers = _list(f"<b>{status}</b> {prose(said)}" for status, said in route.answers.items())
    return f'<span class="route">{method} <code>{html(route.path)}</code></span>', text, answers


def _group(name: str, operations: list[OperationDescription]) -> str:
    chips = "".join(_link(each.name) for each in operations)
    return f'<h3>{html(name)}</h3><div class="chips">{chips}</div>{"".join(map(_operation, operations))}'


def _operation(operation: OperationDescription) -> str:
    how = "writes" if operation.writes else "reads"
    head = f'<h4>{_link(operation.name)}<span class="tag {how}">{how}</span></h4>'
    rows = list(map(_parameter, operation.parameters))
    table = _table(("parameter", "kind", "default"), rows) if rows else ""
    returns = f'<p class="returns">Returns {_kind(operation.returns)}</p>'
    text = _paragraphs(operation.text)
    return f'<article class="op" id="{html(operation.name)}">{head}{text}{table}{returns}</article>'


def _parameter(parameter: Parameter) -> tuple[str, str, str]:
    about = _kind(parameter.kind)
    if parameter.kind.base != "bool":
        about += f' <span class="note">· {prose(parameter.about)}</span>'
    default = '<span class="tag must">required</span>'
    if not parameter.required and not parameter.filled:
        written = msgspec.json.encode(parameter.default).decode().removesuffix(".0")
        default = f"<code>{html(written)}</code>"
    return f"<code>{html(parameter.name)}</code>", about, default


def _kind(kind: Kind) -> str:
    """A kind in words. A record is a link."""
    return kind.words(_name_of_kind)


def _name_of_kind(name: str) -> str:
    return _link(f"record-{name}", name) if name in RECORDS else html(description.WORDS.get(name, name))


def _record(record: RecordDescription) -> str:
    name = html(record.name)
    rows = ((f"<code>{html(field)}</code>", _kind(kind)) for field, kind in record.fields.items())
    head = f'<h4><a href="#record-{name}">{name}</a></h4>'
    text = _paragraphs(record.text)
    return f'<article class="op" id="record-{name}">{head}{text}{_table(("field", "kind"), rows)}</article>'


def _codes() -> str:
    """The error codes: those of JSON-RPC, then those of the board."""
    rows = [(str(code), html(name), prose(text)) for code, (name, text) in _OF_JSON_RPC.items()]
    for each in description.error_kinds():
        rows.append((str(each.code), f"<b>{html(each.name)}</b>", prose(each.text.partition("\n\n")[0])))
    return _table(("code", "error", "meaning"), rows)


_OF_JSON_RPC = {
    rpc.PARSE: ("not JSON", "The body is not JSON. Status 400."),
    rpc.REQUEST: ("not a request", "It is JSON, but not a JSON-RPC request. Status 400, except within a batch."),
    rpc.METHOD: ("no such method", "There is no operation with that name."),
    rpc.INTERNAL: (
        "internal error",
        "A defect in the daemon; see its log for the `x-request-id` of the answer.",
    ),
}
_STATUSES = {
    200: "Done; on JSON-RPC routes also for a refusal, which has an `error` in the answer.",
    204: "Done, and the answer has no body.",
    404: "There is no such route, task, job or message.",
    409: "Somebody else has it, or its state does not allow this. JSON-RPC routes answer 200 with an `error` instead.",
    429: "Too many open waits: close one, or try again later.",
    **openapi.EVERYWHERE,
}
_STATUSES = {status: prose(text) for status, text in sorted(_STATUSES.items())}


def _limits() -> dict[str, str]:
    return {
        "A body": f"{limits.MAX_BODY // 1024**2} MiB",
        "A JSON value, such as a payload": f"{limits.MAX_JSON // 1024} KiB, {limits.MAX_DEPTH} levels deep",
        "A batch": f"{limits.MOST_IN_A_BATCH} requests",
        "<code>wait_ms</code>": f"{limits.LONGEST_WAIT:g} seconds",
        "Open waits and streams": f"{limits.MAX_CLIENT_WAITS} for each client, {limits.MAX_OPEN_WAITS} in all",
        "Connections": str(limits.MAX_CONNECTIONS),
        "Headers": f"{limits.MAX_HEAD // 1024} KiB",
        "The time until a request has arrived": f"{limits.RECEIPT:g} seconds",
    }
