"""Requests that fail the access checks get nothing, on any route: made from the route table, so none is forgotten."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tiebreak.program.daemon_assembly  # noqa: F401  (declares the routes)
from tests.cli.command import until
from tests.daemons import PATIENCE, Serving, serving
from tiebreak.daemon.routes import ROUTES, Public, Route
from tiebreak.limits import MAX_BODY

from .conftest import Door, Headers, Seen, Value, door_of, ended

EVERY = pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
GUARDED = pytest.mark.parametrize(
    "route", [each for each in ROUTES if each.public is Public.NO], ids=lambda route: f"{route.method} {route.path}"
)
READING = pytest.mark.parametrize(
    "route", [each for each in ROUTES if each.method == "GET"], ids=lambda route: f"HEAD {route.path}"
)
refuses = pytest.mark.usefixtures("unchanged")
EVIL = "http://evil.example"
NOBODY: Headers = {"Authorization": None}
Made = Callable[[Door], Value]


def cases(name: str, table: dict[str, Made]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(name, table.values(), ids=table)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("served"), "--log-requests") as started:
        yield started


@pytest.fixture(scope="module")
def door(daemon: Serving) -> Door:
    return door_of(daemon)


@pytest.fixture
def unchanged(door: Door) -> Iterator[None]:
    """The board is the same after the test as before it."""
    before = state(door)
    yield
    assert state(door) == before


def state(door: Door) -> Any:
    status = door.rpc("upkeep.status", project=None)["result"]
    return door.rpc("events.last")["result"], {name: value for name, value in status.items() if name != "now"}


def path_of(route: Route) -> str:
    return re.sub(r"\{\w+\}", "harmless", route.path)


def body_of(route: Route) -> bytes | None:
    """What would change the board if it were let in, whichever dialect the route speaks."""
    if route.body is None:
        return None
    method, params = ("tasks.post", {"name": "x", "project": "p", "agent": "a~1"})
    if route.path == "/":
        method, params = "tasks/send", {"name": "x", "kind": "task"}
    rest = {"id": "w1", "command": "true", "worker_id": "w1", "repair": True}
    return json.dumps({**rest, "jsonrpc": "2.0", "method": method, "params": params}).encode()


def ask(door: Door, route: Route, changes: Headers | None = None, method: str = "") -> Seen:
    return door.ask(method or route.method, path_of(route), changes, body_of(route))


def let_in(seen: Seen) -> bool:
    """Whether the route itself has answered: that there is no such job is an answer, that there is no route is none."""
    if seen.status == 404:
        return not seen.message.startswith("no such route")
    return seen.status in (200, 201, 204, 400, 409)


def methods_at(path: str) -> set[str]:
    return {each.method for each in ROUTES if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", each.path), path)}


def test_the_table_has_routes_that_read_that_write_and_that_stream() -> None:
    assert {("POST", "/rpc"), ("GET", "/events"), ("GET", "/health")} <= {(r.method, r.path) for r in ROUTES}


def test_what_is_refused_here_would_change_the_board_if_it_were_let_in(door: Door) -> None:
    before = state(door)
    assert let_in(ask(door, next(route for route in ROUTES if route.path == "/rpc")))
    assert state(door) != before


# ── The token ────────────────────────────────────────────────────────────────────────────────────────

TOKENS: dict[str, Made] = {
    "none": lambda door: None,
    "empty": lambda door: "",
    "scheme alone": lambda door: "Bearer",
    "scheme and a space": lambda door: "Bearer ",
    "wrong": lambda door: "Bearer " + "x" * len(door.token),
    "a prefix": lambda door: f"Bearer {door.token[:-1]}",
    "one letter": lambda door: f"Bearer {door.token[:1]}",
    "too long": lambda door: f"Bearer {door.token}x",
    "other scheme": lambda door: f"Basic {door.token}",
    "no scheme": lambda door: door.token,
    "not ASCII": lambda door: b"Bearer \xff\xfe\xc3\xa9" + door.token.encode(),
    "two tokens": lambda door: f"Bearer {door.token}, Bearer {door.token}",
}


@refuses
@cases("shown", TOKENS)
@EVERY
def test_a_request_without_the_right_token_is_refused(route: Route, shown: Made, door: Door) -> None:
    if route.public is not Public.NO and shown(door) is None:
        return  # test_browsers tells who may read it then
    seen = ask(door, route, {"Authorization": shown(door)})
    assert seen.status == 401
    assert seen.header("www-authenticate") == "Bearer"


@refuses
@GUARDED
def test_the_token_counts_in_its_header_and_nowhere_else(route: Route, door: Door) -> None:
    changes = {**NOBODY, "Cookie": f"token={door.token}", "Proxy-Authorization": f"Bearer {door.token}"}
    target = f"{path_of(route)}?token={door.token}&access_token={door.token}"
    assert door.ask(route.method, target, changes, body_of(route)).status == 401


@refuses
@GUARDED
def test_a_stranger_cannot_tell_a_route_from_one_that_does_not_exist(route: Route, door: Door) -> None:
    def told(method: str, path: str) -> tuple[int, list[tuple[str, str]], bytes]:
        seen = door.ask(method, path, NOBODY)
        return seen.status, [pair for pair in seen.headers if pair[0] != "x-request-id"], seen.body

    nowhere = told(route.method, "/no/such/route")
    assert nowhere[0] == 401
    assert told(route.method, path_of(route)) == nowhere
    assert told("DELETE", path_of(route)) == nowhere


@refuses
@GUARDED
def test_trailers_after_the_body_do_not_count_as_headers(route: Route, door: Door) -> None:
    changes = {**NOBODY, "Transfer-Encoding": "chunked", "Content-Type": "application/json"}
    body = body_of(route) or b"{}"
    whole = b"%x\r\n%b\r\n0\r\nAuthorization: Bearer %b\r\n\r\n" % (len(body), body, door.token.encode())
    with door.open() as knocking:
        knocking.sendall(door.head(route.method, path_of(route), changes) + whole)
        assert door.answer(knocking).status == 401


# ── Host, before anything else ───────────────────────────────────────────────────────────────────────

HOSTS: dict[str, Made] = {
    "another name": lambda door: f"evil.example:{door.port}",
    "a name that leads here": lambda door: f"rebound.evil.example:{door.port}",
    "a name that begins like ours": lambda door: f"127.0.0.1.evil.example:{door.port}",
    "a name that ends like ours": lambda door: f"evil.localhost:{door.port}",
    "another port": lambda door: f"127.0.0.1:{door.port + 1}",
    "no port": lambda door: "127.0.0.1",
    "missing": lambda door: None,
    "empty": lambda door: "",
    "another address": lambda door: f"0.0.0.0:{door.port}",
    "a user before it": lambda door: f"evil@127.0.0.1:{door.port}",
    "two in one": lambda door: f"127.0.0.1:{door.port}, evil.example",
    "not ASCII": lambda door: b"127.0.0.1\xff:" + str(door.port).encode(),
}


@refuses
@cases("host", HOSTS)
@EVERY
def test_a_request_for_another_host_is_misdirected_whoever_sends_it(route: Route, host: Made, door: Door) -> None:
    assert ask(door, route, {"Host": host(door)}).status == 421
    assert ask(door, route, {"Host": host(door), "Origin": EVIL, **NOBODY}).status == 421


@refuses
@EVERY
def test_a_request_line_that_names_another_host_is_misdirected_whatever_its_header_says(
    route: Route, door: Door
) -> None:
    target = EVIL + path_of(route)
    assert door.ask(route.method, target, {"Host": "evil.example"}, body_of(route)).status == 421
    assert door.ask(route.method, target, None, body_of(route)).status == 421


@refuses
@EVERY
def test_two_host_headers_are_refused(route: Route, door: Door) -> None:
    ours, other = f"127.0.0.1:{door.port}", "evil.example"
    for hosts in ([ours, other], [other, ours], [ours, ours]):
        assert ask(door, route, {"Host": hosts}).status == 400


@EVERY
def test_the_names_of_this_machine_are_let_in(route: Route, door: Door) -> None:
    for name in ("localhost", "LOCALHOST", "[::1]"):
        assert let_in(ask(door, route, {"Host": f"{name}:{door.port}"})), name


# ── Origin, before the token ─────────────────────────────────────────────────────────────────────────

ORIGINS: dict[str, Made] = {
    "another site": lambda door: EVIL,
    "null": lambda door: "null",
    "empty": lambda door: "",
    "another port": lambda door: f"http://127.0.0.1:{door.port + 1}",
    "no port": lambda door: "http://127.0.0.1",
    "https on another port": lambda door: f"https://127.0.0.1:{door.port + 1}",
    "https on its own port, which may be another program's": lambda door: "https://127.0.0.1",
    "another scheme": lambda door: f"ws://127.0.0.1:{door.port}",
    "a name that begins like ours": lambda door: f"http://127.0.0.1:{door.port}.evil.example",
    "an extension": lambda door: "chrome-extension://abcdefgh",
}


@refuses
@cases("origin", ORIGINS)
@EVERY
def test_a_page_of_another_site_is_kept_out_even_with_the_token(route: Route, origin: Made, door: Door) -> None:
    assert ask(door, route, {"Origin": origin(door)}).status == 403
    assert ask(door, route, {"Origin": origin(door), **NOBODY}).status == 403


@refuses
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@EVERY
def test_a_request_that_a_browser_says_comes_from_elsewhere_is_kept_out(route: Route, site: str, door: Door) -> None:
    assert ask(door, route, {"Sec-Fetch-Site": site}).status == 403
    assert ask(door, route, {"Sec-Fetch-Site": site, **NOBODY}).status == 403


@refuses
@EVERY
def test_a_browser_that_asks_beforehand_whether_another_site_may_is_told_no(route: Route, door: Door) -> None:
    asking = {"Origin": EVIL, "Access-Control-Request-Method": route.method, **NOBODY}
    assert ask(door, route, asking, "OPTIONS").status == 403


@EVERY
def test_our_own_pages_are_let_in(route: Route, door: Door) -> None:
    for name in ("127.0.0.1", "localhost", "[::1]"):
        for scheme in ("http", "https"):  # https: a proxy with TLS is in front
            origin = f"{scheme}://{name}:{door.port}"
            assert let_in(ask(door, route, {"Origin": origin, "Sec-Fetch-Site": "same-origin"})), origin


# ── The body ─────────────────────────────────────────────────────────────────────────────────────────

KINDS: dict[str, Value] = {
    "text": "text/plain",
    "a form": "application/x-www-form-urlencoded",
    "a form in parts": "multipart/form-data; boundary=x",
    "missing": None,
    "empty": "",
    "JSON only as a parameter": "text/plain; application/json",
    "nearly JSON": "application/jsonp",
}


@refuses
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@EVERY
def test_a_body_that_a_form_could_have_sent_is_not_understood(route: Route, kind: Value, door: Door) -> None:
    body = body_of(route) or b"{}"
    assert door.ask(route.method, path_of(route), {"Content-Type": kind}, body).status == 415


@refuses
@EVERY
def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(route: Route, door: Door) -> None:
    for size in (MAX_BODY + 1, 10**15):
        changes = {"Content-Type": "application/json", "Content-Length": str(size)}
        status = door.ask(route.method, path_of(route), changes).status
        assert status == 413 if route.body is not None else 400 <= status < 500


@refuses
@EVERY
def test_a_body_that_grows_too_large_without_saying_so_is_refused(route: Route, door: Door) -> None:
    changes = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    with door.begin(route.method, path_of(route), changes) as knocking:
        knocking.sendall(b"%x\r\n" % (MAX_BODY + 1) + b" " * (MAX_BODY + 1))
        status = door.answer(knocking).status
    assert status == 413 if route.body is not None else 400 <= status < 500


@pytest.mark.parametrize("route", [r for r in ROUTES if r.body is not None], ids=lambda route: route.path)
def test_the_largest_body_that_is_allowed_is_taken(route: Route, door: Door) -> None:
    body = body_of(route) or b""
    assert let_in(door.ask(route.method, path_of(route), None, body + b" " * (MAX_BODY - len(body))))


# ── Slow ones ────────────────────────────────────────────────────────────────────────────────────────


def half_of(door: Door, route: Route) -> bytes:
    """A request whose body has not come."""
    changes = {"Content-Type": "application/json", "Content-Length": "1000"}
    return door.head(route.method, path_of(route), changes)


def refused_or_closed(came: bytes) -> bool:
    return came == b"" or came.split(b" ")[1] == b"408"


def test_a_body_that_never_comes_holds_no_connection(hasty: Door) -> None:
    knocking = [hasty.open() for _ in ROUTES]
    for route, each in zip(ROUTES, knocking, strict=True):
        each.sendall(half_of(hasty, route) + b"{")
    for route, each in zip(ROUTES, knocking, strict=True):
        assert refused_or_closed(ended(each)), route
        each.close()


def test_headers_that_never_end_hold_no_connection(hasty: Door) -> None:
    knocking = [hasty.open() for _ in ROUTES]
    for route, each in zip(ROUTES, knocking, strict=True):
        each.sendall(hasty.head(route.method, path_of(route))[:-2])
    for route, each in zip(ROUTES, knocking, strict=True):
        assert refused_or_closed(ended(each)), route
        each.close()


def drip(knocking: socket.socket, over: threading.Event) -> None:
    try:
        while not over.wait(0.05):
            knocking.sendall(b" ")
    except OSError:
        pass  # it has hung up


@pytest.mark.parametrize("what", ["headers", "body"])
def test_sending_a_byte_now_and_then_does_not_extend_the_deadline(what: str, hasty: Door) -> None:
    over = threading.Event()
    with hasty.open() as knocking:
        whole = half_of(hasty, next(route for route in ROUTES if route.body is not None))
        knocking.sendall(whole if what == "body" else whole[:-2] + b"X: ")
        dripping = threading.Thread(target=drip, args=(knocking, over))
        dripping.start()
        try:
            assert refused_or_closed(ended(knocking))
        finally:
            over.set()
            dripping.join(PATIENCE)


def test_a_connection_on_which_nothing_is_said_is_not_held(hasty: Door) -> None:
    with hasty.open() as knocking:
        assert refused_or_closed(ended(knocking))


def test_a_second_request_on_a_connection_has_to_come_in_time_too(hasty: Door) -> None:
    with hasty.begin("GET", "/health") as knocking:
        assert hasty.answer(knocking).status == 200
        knocking.sendall(hasty.head("GET", "/health")[:-2])
        assert refused_or_closed(ended(knocking))


def test_a_refused_request_whose_body_never_comes_holds_no_connection(hasty: Door) -> None:
    with hasty.begin("POST", "/no/such/route", {"Content-Length": "1000"}) as knocking:
        assert hasty.answer(knocking).status == 404
        assert ended(knocking) == b""


# ── Methods ──────────────────────────────────────────────────────────────────────────────────────────


METHODS = ("GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE")
WRONG = [(route, method) for route in ROUTES for method in METHODS if method not in methods_at(path_of(route))]


@refuses
@pytest.mark.parametrize(("route", "method"), WRONG, ids=[f"{method} {route.path}" for route, method in WRONG])
def test_a_method_that_a_route_does_not_have_is_refused_with_those_it_has(
    route: Route, method: str, door: Door
) -> None:
    seen = ask(door, route, method=method)
    assert seen.status == 405
    assert set(seen.header("allow").split(", ")) - {"HEAD"} == methods_at(path_of(route))


@READING
def test_head_answers_like_get_without_a_body(route: Route, door: Door) -> None:
    with door.begin("HEAD", path_of(route), {"Connection": "close"}) as knocking:
        head, _, body = ended(knocking).partition(b"\r\n\r\n")
    assert body == b""
    assert int(head.split(b" ")[1]) == ask(door, route).status


@refuses
@READING
def test_head_is_guarded_like_get(route: Route, door: Door) -> None:
    if route.public is Public.NO:
        assert ask(door, route, NOBODY, "HEAD").status == 401
    assert ask(door, route, {"Authorization": "Bearer wrong"}, "HEAD").status == 401
    assert ask(door, route, {"Origin": EVIL}, "HEAD").status == 403
    assert ask(door, route, {"Host": "evil.example"}, "HEAD").status == 421


# ── What is left behind ──────────────────────────────────────────────────────────────────────────────


def test_the_token_is_in_no_line_of_the_log(daemon: Serving, door: Door) -> None:
    for route in ROUTES:
        for changes in ({}, {"Origin": EVIL}, {"Authorization": f"Basic {door.token}"}):
            door.ask(route.method, f"{path_of(route)}?token={door.token}", changes, body_of(route))
    last = door.ask("GET", "/no/such/route").header("x-request-id")
    until(lambda: any(line.get("request") == last for line in daemon.lines()), "the last request is in the log")
    assert {path_of(route) for route in ROUTES} <= {line.get("path") for line in daemon.lines()}
    assert door.token not in daemon.log.read_text()


MANGLED: dict[str, Callable[[Door], bytes]] = {
    "not HTTP": lambda door: b"\x16\x03\x01 hello\r\n\r\n",
    "no such method": lambda door: door.head("FROB", "/health"),
    "too many headers": lambda door: door.head("GET", "/health", {f"X-{i}": "x" for i in range(200)}),
    "late": lambda door: door.head("GET", "/health")[:-2],
}


@pytest.mark.parametrize("mangled", MANGLED.values(), ids=MANGLED)
def test_requests_refused_by_the_parser_get_the_usual_headers_too(
    mangled: Callable[[Door], bytes], hasty: Door
) -> None:
    with hasty.open() as knocking:
        knocking.sendall(mangled(hasty))
        assert 400 <= hasty.answer(knocking).status < 500
