"""Browsers: who gets a link, what its cookie is good for, and what can be read without a token."""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tiebreak.program.daemon_assembly  # noqa: F401  (declares the routes)
from tests.cli.command import until
from tests.daemons import PATIENCE, Serving, serving
from tiebreak.daemon import browser_sessions
from tiebreak.daemon.browser_sessions import MOST_CODES, MOST_SESSIONS, BrowserSessions, SignedIn
from tiebreak.daemon.peer_user import find_user
from tiebreak.daemon.routes import ROUTES, Problem, Public, Route, route
from tiebreak.daemon.security import Access, AccessCheck, Caller, caller

from .conftest import Door, Headers, Seen, Starting, door_of
from .test_every_route import EVERY, body_of, let_in, path_of, state

NOBODY: Headers = {"Authorization": None}
PERSON: Headers = {**NOBODY, "Accept": "text/html,application/xhtml+xml", "Sec-Fetch-Site": "none"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("browsed"), "--log-requests", "--host", "board.example") as started:
        yield started


@pytest.fixture(scope="module")
def door(daemon: Serving) -> Door:
    return door_of(daemon)


def link(door: Door, **body: Any) -> str:
    """The path of a new link."""
    return str(json.loads(door.ask("POST", "/web/code", None, json.dumps(body).encode()).body)["path"])


def cookie_of(seen: Seen) -> str:
    return seen.header("set-cookie").partition(";")[0]


def signed_in(door: Door) -> Headers:
    """The headers of a browser that has followed a link."""
    seen = door.ask("GET", link(door), PERSON)
    assert (seen.status, seen.header("location")) == (303, "/")
    return {**PERSON, "Cookie": cookie_of(seen)}


# ── Links ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_link_signs_in_once(door: Door) -> None:
    path = link(door)
    seen = door.ask("GET", path, PERSON)
    assert seen.status == 303
    assert door.ask("GET", "/", {**PERSON, "Cookie": cookie_of(seen)}).status == 200
    again = door.ask("GET", path, PERSON)
    assert again.status == 401
    assert not again.header("set-cookie")
    assert "used already" in again.body.decode()


def test_of_many_that_follow_one_link_at_once_one_is_signed_in(door: Door) -> None:
    path, seen = link(door), list[Seen]()
    threads = [threading.Thread(target=lambda: seen.append(door.ask("GET", path, PERSON))) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    assert sorted(each.status for each in seen) == [303] + 7 * [401]
    assert sum(bool(each.header("set-cookie")) for each in seen) == 1


def test_a_reload_of_a_used_link_does_not_refuse_the_browser_that_used_it(door: Door) -> None:
    path = link(door)
    mine = {**PERSON, "Cookie": cookie_of(door.ask("GET", path, PERSON))}
    seen = door.ask("GET", path, mine)
    assert (seen.status, seen.header("set-cookie")) == (303, "")


def test_looking_at_a_link_without_following_it_does_not_use_it_up(door: Door) -> None:
    path = link(door)
    assert door.ask("HEAD", path, PERSON).status == 200
    assert door.ask("GET", path, PERSON).status == 303


@pytest.mark.parametrize("code", ["", "x", "%00", "é", "a" * 43, "%C3%A9", "../../etc/passwd", "code&code=x"])
def test_a_guessed_code_signs_nobody_in(code: str, door: Door) -> None:
    path = link(door)
    seen = door.ask("GET", f"/web/enter?code={code}", PERSON)
    assert seen.status in (400, 401)
    assert not seen.header("set-cookie")
    assert door.ask("GET", path, PERSON).status == 303, "a wrong guess does not use the right code up"


def test_the_code_goes_nowhere_else(daemon: Serving, door: Door) -> None:
    path = link(door)
    seen = door.ask("GET", path, PERSON)
    assert seen.header("referrer-policy") == "no-referrer"
    assert seen.header("cache-control") == "no-store"
    assert len(path.partition("=")[2]) >= 43, "256 bits"
    number = seen.header("x-request-id")
    until(lambda: any(line.get("request") == number for line in daemon.lines()), "the request is in the log")
    assert path.partition("=")[2] not in daemon.log.read_text()
    assert cookie_of(seen).partition("=")[2] not in daemon.log.read_text()


def test_neither_a_cookie_nor_nothing_gets_a_link(door: Door) -> None:
    for changes in (NOBODY, {**signed_in(door), "Accept": "*/*"}):
        for path in ("/web/code", "/web/out"):
            seen = door.ask("POST", path, {**changes, "Origin": f"http://127.0.0.1:{door.port}"}, b"{}")
            assert (seen.status, b"code" in seen.body) == (401, False)


def test_an_open_daemon_gives_strangers_no_link(start: Starting) -> None:
    door = door_of(start(open=True))
    assert door.ask("POST", "/web/code", NOBODY, b"{}").status == 401
    assert door.ask("GET", "/", NOBODY).status == 200


def test_a_daemon_that_no_browser_reaches_makes_no_link(start: Starting) -> None:
    from tiebreak.remote import RemoteEngine

    engine = RemoteEngine(f"unix:{start(address=None).socket}")
    with pytest.raises(Exception, match="unix socket alone"):
        engine.ask("POST", "/web/code", b"{}")
    engine.close()


# ── The cookie ───────────────────────────────────────────────────────────────────────────────────────


def test_the_cookie_is_hidden_from_scripts_from_other_sites_and_from_other_daemons(door: Door) -> None:
    name, *attributes = door.ask("GET", link(door), PERSON).header("set-cookie").split("; ")
    assert re.fullmatch(rf"tiebreak-{door.port}=[\w-]{{43}}", name)
    assert attributes == ["Max-Age=43200", "Path=/", "HttpOnly", "SameSite=Strict"]


def test_the_cookie_of_an_https_link_is_never_sent_without_it(door: Door) -> None:
    assert door.ask("GET", link(door, https=True), PERSON).header("set-cookie").endswith("; Secure")


PAGES = {"/", "/agent", "/agents", "/board", "/messages", "/queues", "/tasks", "/tasks/{number}", "/timeline"}
READ_BY_BROWSERS = {
    *PAGES,
    *("/docs", "/events", "/health", "/metrics", "/openapi.json", "/static/{version}/{name}", "/web/enter"),
}


def test_a_further_route_for_browsers_is_a_decision() -> None:
    assert {each.path for each in ROUTES if each.browsers} == READ_BY_BROWSERS
    assert {each.path for each in ROUTES if each.acting} == {"/web/act", "/web/output", "/web/terminal"}
    assert all(each.method == "GET" for each in ROUTES if each.browsers or each.public is not Public.NO)
    with pytest.raises(ValueError, match="only GET"):
        route("POST", "/x", "x", group=ROUTES[0].group, strangers=False, browsers=True)


@EVERY
def test_a_cookie_reads_what_is_declared_and_writes_nothing(route: Route, door: Door) -> None:
    before = state(door)
    seen = door.ask(route.method, path_of(route), {**signed_in(door), "Accept": "*/*"}, body_of(route))
    assert let_in(seen) if route.browsers else seen.status == 401
    assert state(door) == before


@EVERY
def test_a_cookie_does_not_let_pages_of_other_ports_in(route: Route, door: Door) -> None:
    for changes in ({"Sec-Fetch-Site": "same-site"}, {"Origin": f"http://127.0.0.1:{door.port + 1}"}):
        mine = {**signed_in(door), **changes}
        assert door.ask(route.method, path_of(route), mine, body_of(route)).status == 403
        assert door.ask(route.method, path_of(route), {**mine, "Host": "evil.example"}, body_of(route)).status == 421


def test_a_cookie_beside_a_wrong_token_does_not_hide_that_it_is_wrong(door: Door) -> None:
    assert door.ask("GET", "/", {**signed_in(door), "Authorization": "Bearer wrong"}).status == 401


def test_a_cookie_that_another_server_set_beside_ours_does_not_sign_out(door: Door) -> None:
    mine = str(signed_in(door)["Cookie"])
    for both in (
        f"{mine.partition('=')[0]}=planted; {mine}",
        f"{mine}; {mine.partition('=')[0]}=planted",
        f"a=b; {mine}",
    ):
        assert door.ask("GET", "/", {**PERSON, "Cookie": both}).status == 200
    for wrong in (mine[:-1], mine + "x", mine.replace("tiebreak-", "tiebreak"), mine.partition("=")[0], "é", "=;=;"):
        assert door.ask("GET", "/", {**PERSON, "Cookie": wrong.encode()}).status == 401


def test_two_daemons_on_one_host_keep_their_browsers_apart(start: Starting) -> None:
    doors, jar = [door_of(start()), door_of(start())], http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar), urllib.request.ProxyHandler({}))

    def status(door: Door, path: str = "/") -> int:
        try:
            with browser.open(f"http://127.0.0.1:{door.port}{path}", timeout=PATIENCE) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code

    assert status(doors[0], link(doors[0])) == 200, "led on to the page"
    assert [status(each) for each in doors] == [200, 401], "the other one gets the cookie, too, and it means nothing"
    assert status(doors[1], link(doors[1])) == 200
    assert [status(each) for each in doors] == [200, 200]


def test_a_restarted_daemon_has_signed_all_browsers_out(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        mine = signed_in(door_of(daemon))
        daemon.kill()
        daemon.start()
        assert door_of(daemon).ask("GET", "/", mine).status == 401


def test_signing_out_ends_cookies_links_and_streams(start: Starting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiebreak.daemon.event_stream.STREAM_HEARTBEAT", 0.05)
    door = door_of(start())
    mine, unused = signed_in(door), link(door)
    with door.begin("GET", "/events?after=0", {**mine, "Accept": "text/event-stream"}) as reading:
        assert reading.recv(1000).startswith(b"HTTP/1.1 200 ")
        assert json.loads(door.ask("POST", "/web/out", None, b"{}").body) == {"signed_out": 1}
        reading.settimeout(PATIENCE)
        came = b""
        while not came.endswith(b"0\r\n\r\n"):  # the last chunk
            piece = reading.recv(65536)
            assert piece
            came += piece
    assert door.ask("GET", "/", mine).status == 401
    assert door.ask("GET", unused, PERSON).status == 401


def headers_of(begun: SignedIn | None) -> dict[bytes, bytes]:
    assert begun
    return {b"cookie": begun.cookie.partition(";")[0].encode()}


def me() -> int | None:
    return 1000


def test_a_link_ends_after_a_minute_and_a_cookie_after_half_a_day() -> None:
    time = [1000.0]
    sessions = BrowserSessions(7777, lambda: time[0])
    late, soon = sessions.new_code(1000), sessions.new_code(1000)
    time[0] += 59
    mine = headers_of(sessions.exchange(soon, me))
    time[0] += 1
    assert sessions.exchange(late, me) is None
    time[0] += browser_sessions.SESSION_LIFE - 2
    assert sessions.signed_in(mine, me)
    time[0] += 1
    assert not sessions.signed_in(mine, me)


def test_links_and_cookies_without_end_do_not_fill_the_memory() -> None:
    sessions = BrowserSessions(7777)
    codes = [sessions.new_code(1000) for _ in range(MOST_CODES + 1)]
    assert [sessions.exchange(code, me) is None for code in codes] == [True] + MOST_CODES * [False]
    cookies = [headers_of(sessions.exchange(sessions.new_code(1000), me)) for _ in range(MOST_SESSIONS + 1)]
    assert [sessions.signed_in(each, me) for each in cookies] == [False] + MOST_SESSIONS * [True]


# ── Other users of this machine ──────────────────────────────────────────────────────────────────────


def test_a_code_or_cookie_that_another_user_saw_is_worth_nothing_to_them() -> None:
    sessions = BrowserSessions(7777)
    code = sessions.new_code(1000)
    assert sessions.exchange(code, lambda: 1001) is None
    mine = headers_of(sessions.exchange(code, me))
    assert not sessions.signed_in(mine, lambda: 1001)
    assert sessions.signed_in(mine, me)
    assert sessions.signed_in(mine, lambda: 0), "root"
    assert sessions.signed_in(mine, lambda: None), "where the kernel does not tell"


FOLLOW = """
import os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
with socket.socket() as knocking:
    knocking.connect((b"127.0.0.1", int(sys.argv[1])))  # as bytes: it could not load a codec from our folder
    knocking.sendall(sys.argv[2].encode())
    while piece := knocking.recv(65536):
        sys.stdout.buffer.write(piece)
"""


@pytest.mark.parametrize("stolen", ["code", "cookie"])
def test_the_kernel_tells_which_user_shows_a_code_or_a_cookie(stolen: str, door: Door) -> None:
    mine = signed_in(door)
    path, shown = (link(door), PERSON) if stolen == "code" else ("/", mine)
    if sys.platform == "linux" and os.geteuid() == 0:  # nobody but root can become somebody else
        request = door.head("GET", path, {**shown, "Connection": "close"}).decode()
        words = [sys.executable, "-c", FOLLOW, str(door.port), request]
        said = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
        assert said.startswith("HTTP/1.1 401 ")
        assert "set-cookie" not in said
    assert door.ask("GET", path, shown).status in (200, 303)


def test_a_socket_is_found_by_both_its_addresses() -> None:
    lines = [
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
        "   0: 0100007F:1E61 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 1 1",
        "   1: 0100007F:9C40 0100007F:1E62 01 00000000:00000000 00:00000000 00000000  1001        0 2 1",
        "   2: 0100007F:9C40 0100007F:1E61 01 00000000:00000000 00:00000000 00000000  1002        0 3 1",
    ]
    assert find_user(lines, "0100007F:9C40", "0100007F:1E61") == 1002
    assert find_user(lines, "0100007F:9C41", "0100007F:1E61") is None


# ── Without a token ──────────────────────────────────────────────────────────────────────────────────


def test_a_further_public_route_is_a_decision() -> None:
    public = {each.path: each.public for each in ROUTES if each.public is not Public.NO}
    assert public == {"/docs": Public.LOOPBACK, "/health": Public.LOOPBACK, "/web/enter": Public.WITH_CODE}


def test_docs_and_health_need_no_token_on_this_machine(door: Door) -> None:
    assert door.ask("GET", "/docs", NOBODY).header("content-type") == "text/html; charset=utf-8"
    health = door.ask("GET", "/health", NOBODY)
    assert health.status == 200
    assert sorted(json.loads(health.body)) == ["healthy", "up_seconds"], "nothing about processes and files"
    assert "pid" in json.loads(door.ask("GET", "/health").body)


@pytest.mark.parametrize("path", ["/docs", "/health"])
def test_a_proxy_on_this_machine_does_not_open_them_to_others(path: str, door: Door) -> None:
    for name, value in (("Host", f"board.example:{door.port}"), ("X-Forwarded-For", "10.0.0.5"), ("Via", "1.1 x")):
        assert door.ask("GET", path, {**NOBODY, name: value}).status == 401


def who(peer: str, host: bytes = b"127.0.0.1:7777") -> Caller | None:
    """Who it is that asks for /docs without anything; None: they are refused."""
    check = AccessCheck(Access("t" * 43, ("127.0.0.1", "localhost", "::1", "0.0.0.0"), 7777))
    docs = next(each for each in ROUTES if each.path == "/docs")
    try:
        check.check_route(docs, "GET", {b"host": host}, peer, me)
    except Problem as refused:
        return None if refused.status == 401 else caller()
    return caller()


def test_other_machines_need_the_token_for_them() -> None:
    for here in ("tcp:127.0.0.1", "tcp:127.0.0.9", "tcp:::1", "tcp:::ffff:127.0.0.1"):
        assert who(here) is Caller.VISITOR
    assert who("tcp:127.0.0.1", b"[::1]:7777") is Caller.VISITOR
    for elsewhere in ("tcp:10.0.0.5", "tcp:fe80::1%eth0", "tcp:::ffff:10.0.0.5", "tcp:2001:db8::1"):
        assert who(elsewhere) is None
    assert who("tcp:127.0.0.1", b"0.0.0.0:7777") is None


def test_asking_for_health_without_a_token_again_and_again_does_not_keep_the_disk_busy(
    start: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiebreak.engine.sqlite.engine import SqliteEngine

    probes = list[SqliteEngine]()
    monkeypatch.setattr(SqliteEngine, "probe", lambda engine: probes.append(engine))
    door = door_of(start())
    monkeypatch.setattr("tiebreak.daemon.admin_routes.monotonic", lambda: 5.0)
    assert {door.ask("GET", "/health", NOBODY).status for _ in range(10)} == {200}
    assert len(probes) == 1


# ── Being told how ───────────────────────────────────────────────────────────────────────────────────


def test_a_person_is_told_the_command_and_a_program_the_header_and_the_file(door: Door) -> None:
    person = door.ask("GET", "/", PERSON)
    assert (person.status, person.header("content-type")) == (401, "text/html; charset=utf-8")
    assert "default-src 'none'" in person.header("content-security-policy")
    words = person.body.decode()
    assert "<pre>tb web</pre>" in words
    assert f"<pre>tb --board http://127.0.0.1:{door.port} web</pre>" in words
    program = json.loads(door.ask("GET", "/", NOBODY).body)
    assert "`Authorization: Bearer TOKEN`" in program["hint"]
    assert f"/tiebreak/run/{door.port}.token" in program["hint"]
    assert program["token_file"] in program["hint"]


def test_a_person_who_follows_a_link_from_another_site_is_told_what_to_do(door: Door) -> None:
    seen = door.ask("GET", link(door), {**PERSON, "Sec-Fetch-Site": "cross-site"})
    assert seen.status == 403
    assert "address bar" in seen.body.decode()


# ── The page ─────────────────────────────────────────────────────────────────────────────────────────

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def busy(door: Door) -> None:
    """A board on which every list of the page has something, by agents who mean no good."""
    this: dict[str, Any] = {"project": "shop", "agent": "ann~1"}
    secret = {"command": ["deploy", "--password", "hunter2"], "name": "deploy it"}
    for name, params in (
        ("tasks.post", {"name": f"fix {EVIL}", "key": "a"}),
        ("tasks.claim", {"ref": "a"}),
        ("tasks.post", {"name": "next one"}),
        ("holds.take", {"resources": ["file:src/<b>.py"], "note": EVIL}),
        ("agents.announce", {"doing": EVIL}),
        ("jobs.submit", secret),
    ):
        assert "result" in door.rpc(name, None, **this, **params), name


def test_the_page_tells_what_happens_and_nothing_in_it_is_a_script(start: Starting) -> None:
    inside = start()
    door = door_of(inside)
    busy(door)
    seen = door.ask("GET", "/", signed_in(door))
    page = seen.body.decode()
    for part in ("fix &lt;script&gt;", "next one", "src/&lt;b&gt;.py", "ann", "deploy it", "hold.taken", "shop"):
        assert part in page
    assert str(inside.board) in page
    assert all(each.startswith('<script type="module" src="/static/') for each in re.findall("<script[^>]*>", page))
    assert "<img" not in page
    assert "hunter2" not in page
    assert "default-src 'none'; script-src 'self'; " in seen.header("content-security-policy")
    assert "unsafe" not in seen.header("content-security-policy")
    assert "frame-ancestors 'none'" in seen.header("content-security-policy")


def test_the_page_shows_one_project_or_all(start: Starting) -> None:
    door = door_of(start())
    for project in ("shop", "bank"):
        door.rpc("tasks.post", project=project, agent="ann~1", name=f"work of the {project}")
    mine = signed_in(door)
    one, both = (door.ask("GET", path, mine).body.decode() for path in ("/?project=shop", "/"))
    assert ("work of the shop" in one, "work of the bank" in one) == (True, False)
    assert ("work of the shop" in both, "work of the bank" in both) == (True, True)
    for wrong in ("/?project=a%20b%00", "/?x=1", "/?project=%3Cscript%3E", "/?project=a&project=b"):
        seen = door.ask("GET", wrong, mine)
        assert seen.status == 400
        assert b"<script" not in seen.body
