"""Sockets and tokens: only the owner uses the socket, tokens stay secret, other machines are shut out by default."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Environment, Tb, complaint
from tests.daemons import PATIENCE, Serving, free_port, serving
from tiebreak import user_folders
from tiebreak.daemon.routes import OPERATIONS, ROUTES, Request, Response, Route
from tiebreak.daemon.service import Service
from tiebreak.errors import Invalid, Unavailable

from .conftest import Door, Headers, Starting, call, door_of

NOBODY = 65534
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
KNOCK = f"""
import os, socket, sys
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
knocking = socket.socket(socket.AF_UNIX)
try:
    knocking.connect(sys.argv[1])
    print("connected")
    knocking.sendall({HEALTH!r})
    print(knocking.recv(100))
except OSError as exc:
    print(type(exc).__name__)
"""


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def over_unix(path: str | Path, request: bytes = HEALTH) -> bytes:
    with socket.socket(socket.AF_UNIX) as knocking:
        knocking.settimeout(PATIENCE)
        knocking.connect(os.fspath(path))
        knocking.sendall(request)
        return knocking.recv(1000)


def somebody_else(path: str | Path) -> list[str]:
    """What a process of another user gets at a socket, line by line."""
    words = [sys.executable, "-c", KNOCK, os.fspath(path)]
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout.splitlines()


@pytest.fixture
def careless() -> Iterator[None]:
    """Somebody's umask hides nothing."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short name, so that sockets fit in."""
    folder = Path(tempfile.mkdtemp(prefix="tb-"))
    yield folder
    shutil.rmtree(folder)


# ── The unix socket ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("careless")
def test_the_socket_is_where_only_its_owner_gets_and_needs_no_token(short: Path) -> None:
    tb, port = Tb(short), free_port()
    facts = tb.json("serve", "--detach", "--addr", f"127.0.0.1:{port}")
    try:
        path = Path(facts["addresses"][0].removeprefix("unix:"))
        assert path.parent == short / "state" / "tiebreak" / "run"
        assert (mode(path), mode(path.parent)) == (0o600, 0o700)
        assert over_unix(path).startswith(b"HTTP/1.1 200 ")
        assert mode(path.parent / f"{port}.token") == 0o600
        assert mode(facts["log"]) == 0o600
    finally:
        tb.ok("serve", "--stop")
    assert not path.exists()


def test_pages_are_kept_from_the_socket_as_from_the_port(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        for line, status in ((b"Host: evil.example", b"421"), (b"Host: localhost\r\nOrigin: http://x", b"403")):
            answer = over_unix(daemon.socket, HEALTH.replace(b"Host: localhost", line))
            assert answer.split(b" ")[1] == status


def test_another_user_who_reaches_the_socket_is_refused_by_who_he_is(
    start: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = start()
    path = inside.private / "s"
    path.chmod(0o666)
    inside.private.chmod(0o755)
    assert over_unix(path).startswith(b"HTTP/1.1 200 ")
    if os.geteuid() != 0:  # nobody but root can become somebody else, so the daemon has to
        monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    connected, got = somebody_else(path)
    assert connected == "connected"
    assert got in ("b''", "ConnectionResetError", "BrokenPipeError")


def test_another_user_who_enters_the_folder_cannot_even_connect(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        daemon.private.chmod(0o755)
        assert mode(daemon.socket) == 0o600
        if os.geteuid() == 0:
            assert somebody_else(daemon.socket) == ["PermissionError"]


# ── The token ────────────────────────────────────────────────────────────────────────────────────────


def status(daemon: Serving, token: str | None) -> int:
    return daemon.ask("GET", "/metrics", token=token).status


@pytest.mark.usefixtures("careless")
def test_the_token_is_new_with_each_start_for_its_owner_alone_and_gone_with_the_end(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        path = tmp_path / "state" / "tiebreak" / "run" / f"{daemon.port}.token"
        first = daemon.token
        assert len(first) >= 43, "256 bits"
        assert (mode(path), mode(path.parent)) == (0o600, 0o700)
        daemon.kill()
        assert path.exists()
        daemon.start()
        assert daemon.token != first
        assert mode(path) == 0o600
        assert (status(daemon, first), status(daemon, daemon.token)) == (401, 200)
        assert daemon.stop() == 0
        assert not path.exists()
        assert not daemon.socket.exists()


def test_the_command_line_finds_the_token_by_itself_and_only_its_own(tmp_path: Path) -> None:
    tb = Tb(tmp_path)
    with serving(tmp_path) as daemon:
        ours: Environment = {"TIEBREAK_BOARD": daemon.url}
        tb.ok("post", "x", env=ours)
        theirs = {**ours, "XDG_STATE_HOME": str(tmp_path / "theirs")}
        assert "token" in complaint(tb("post", "y", env=theirs), 3)
        assert "token" in complaint(tb("post", "y", env={**ours, "TIEBREAK_TOKEN": "x" * 43}), 3)
        tb.ok("post", "z", env={**theirs, "TIEBREAK_TOKEN": daemon.token})
        assert sorted(task["name"] for task in tb.json("tasks", env=ours)) == ["x", "z"]


class Listener:
    """Somebody who is no daemon, and remembers what he was sent."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.heard = b""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        try:
            while True:
                connected, _ = self._socket.accept()
                with connected:
                    self.heard += connected.recv(65536)
                    connected.sendall(b"HTTP/1.1 418 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        except OSError:
            pass  # closed at the end of the test

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


def test_the_token_of_this_machine_is_sent_to_this_machine_only(tmp_path: Path, listener: Listener) -> None:
    tb, token = Tb(tmp_path), "t" * 43
    folder = tmp_path / "state" / "tiebreak" / "run"
    folder.mkdir(parents=True, mode=0o700)
    (folder / f"{listener.port}.token").write_text(token)
    tb("tasks", env={"TIEBREAK_BOARD": f"http://0.0.0.0:{listener.port}"})  # leads here, and is no loopback address
    assert listener.heard.startswith(b"POST /rpc ")
    assert token.encode() not in listener.heard
    tb("tasks", env={"TIEBREAK_BOARD": f"http://127.0.0.1:{listener.port}"})
    assert token.encode() in listener.heard


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process' own folder for sockets and tokens, which does not exist yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "tiebreak" / "run"


def test_no_other_host_is_given_the_token(run: Path) -> None:
    Path(user_folders.token_file(7)).write_text("secret")
    assert user_folders.token_for("localhost", 7, {}) == "secret"
    for host in ("example.org", "192.0.2.1", "127.0.0.1.example.org", "localhost.example.org", "0.0.0.0", "::", ""):
        assert user_folders.token_for(host, 7, {}) == ""


def test_a_token_that_is_a_link_is_not_followed(run: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    Path(user_folders.token_file(7)).symlink_to(tmp_path / "secret")
    assert user_folders.token_for("localhost", 7, {}) == ""


# ── The folder for both ──────────────────────────────────────────────────────────────────────────────


def test_a_folder_that_is_a_link_is_not_trusted(tmp_path: Path) -> None:
    theirs, tb = tmp_path / "theirs", Tb(tmp_path)
    theirs.mkdir(mode=0o700)
    (tmp_path / "state" / "tiebreak").mkdir(parents=True)
    (tmp_path / "state" / "tiebreak" / "run").symlink_to(theirs)
    complaint(tb("serve", "--addr", f"127.0.0.1:{free_port()}"), 3)
    assert list(theirs.iterdir()) == []


def test_a_folder_of_another_user_is_not_trusted(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run.mkdir(parents=True, mode=0o700)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(Unavailable, match="does not belong to you"):
        user_folders.private_folder()


def test_a_folder_that_others_can_enter_is_closed_to_them(run: Path) -> None:
    run.mkdir(parents=True)
    run.chmod(0o777)
    user_folders.private_folder()
    assert mode(run) == 0o700


# ── Beyond this machine ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "0"])
@pytest.mark.parametrize("more", [[], ["--open"], ["--open", "--token-file", "t"]], ids=" ".join)
def test_it_does_not_serve_other_machines_without_a_token(tmp_path: Path, host: str, more: list[str]) -> None:
    complaint(Tb(tmp_path)("serve", "--addr", f"{host}:{free_port()}", *more), 2)
    assert list((tmp_path / "state" / "tiebreak" / "run").iterdir()) == [], "nothing is left behind"
    assert not (tmp_path / "t").exists()


def test_a_name_that_only_looks_like_loopback_is_not(start: Starting, monkeypatch: pytest.MonkeyPatch) -> None:
    everywhere = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("0.0.0.0", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: everywhere)
    with pytest.raises(Invalid, match="without a token"):
        start(address="127.example.org:0")


@pytest.mark.usefixtures("careless")
def test_a_lasting_token_is_made_for_its_owner_and_lasts(tmp_path: Path) -> None:
    path, port = tmp_path / "lasting", free_port()
    daemon = Serving(tmp_path, "--addr", f"0.0.0.0:{port}", "--token-file", str(path), port=port)
    try:
        daemon.start()
        token = path.read_text().strip()
        assert mode(path) == 0o600
        assert len(token) >= 43
        assert (status(daemon, None), status(daemon, token)) == (401, 200)
        assert daemon.stop() == 0
        daemon.start()
        assert path.read_text().strip() == token
        assert (status(daemon, None), status(daemon, token)) == (401, 200)
    finally:
        daemon.close()


@pytest.mark.parametrize(
    ("text", "bits", "code"),
    [
        ("t" * 43, 0o640, 1),
        ("t" * 43, 0o604, 1),
        ("t" * 31, 0o600, 2),
        ("", 0o600, 2),
        ("t" * 20 + " " + "t" * 22, 0o600, 2),
        ("t" * 20 + "\n" + "t" * 22, 0o600, 2),
        ("é" * 43, 0o600, 2),
    ],
    ids=["group can read it", "others can read it", "short", "empty", "with a space", "two lines", "not ASCII"],
)
def test_a_token_that_protects_nothing_is_refused(tmp_path: Path, text: str, bits: int, code: int) -> None:
    path = tmp_path / "lasting"
    path.write_text(text)
    path.chmod(bits)
    said = complaint(Tb(tmp_path)("serve", "--addr", f"127.0.0.1:{free_port()}", "--token-file", str(path)), code)
    assert "--token-file" in said
    assert not text or text not in said


def test_a_folder_in_place_of_a_token_file_is_refused_with_a_sentence(tmp_path: Path) -> None:
    words = ("serve", "--addr", f"127.0.0.1:{free_port()}", "--token-file", str(tmp_path))
    assert f"--token-file {tmp_path}: Is a directory" in complaint(Tb(tmp_path)(*words), 3)


def test_a_further_name_lets_in_requests_for_it_and_for_no_other(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "Board.example", "--host", "other.example") as daemon:
        door = door_of(daemon)
        for name, code in (("board.example", 200), ("other.example", 200), ("third.example", 421)):
            host = f"{name}:{door.port}"
            assert door.ask("GET", "/health", {"Host": host, "Origin": f"http://{host}"}).status == code
        assert door.ask("GET", "/health", {"Host": f"board.example:{door.port}", "Authorization": None}).status == 401


def test_pages_behind_tls_are_let_in_under_a_configured_name_and_no_other(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "board.example") as daemon:
        door = door_of(daemon)
        port = door.port
        let_in = ["https://board.example", f"https://board.example:{port}"]
        kept_out = [
            "http://board.example",
            "https://board.example:8443",
            "https://board.example.evil.example",
            "https://evil.example",
            "https://localhost",
            "https://127.0.0.1",
            "https://",
        ]
        for host in (f"127.0.0.1:{port}", f"board.example:{port}"):
            seen = {
                each: door.ask("GET", "/health", {"Host": host, "Origin": each}).status for each in let_in + kept_out
            }
            assert seen == dict.fromkeys(let_in, 200) | dict.fromkeys(kept_out, 403)


# ── Open ─────────────────────────────────────────────────────────────────────────────────────────────

WITHOUT: Headers = {"Authorization": None}


async def _run_something(service: Service, request: Request) -> Response:
    return Response(b"{}")


@pytest.fixture
def dangerous(monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of a route that can run commands."""
    route = Route(
        "POST", "/test/run", _run_something, "", {"type": "object"}, {}, {}, strangers=False, group=OPERATIONS
    )
    monkeypatch.setattr("tiebreak.daemon.app.ROUTES", [*ROUTES, route])
    return route.path


def asked(door: Door, path: str, headers: Headers) -> int:
    return door.ask("POST", path, headers, b"{}").status


def test_an_open_daemon_asks_for_no_token_but_still_keeps_pages_out(start: Starting) -> None:
    door = door_of(start(open=True))
    assert door.rpc("events.last", WITHOUT)["result"] == 0
    for route in ROUTES:
        path = route.path.replace("{", "").replace("}", "")
        assert door.ask(route.method, path, {**WITHOUT, "Host": "evil.example"}).status == 421
        assert door.ask(route.method, path, {**WITHOUT, "Origin": "http://evil.example"}).status == 403


def test_an_open_daemon_is_not_open_for_commands(start: Starting, dangerous: str) -> None:
    door = door_of(start(open=True))
    assert asked(door, dangerous, WITHOUT) == 401
    assert asked(door, dangerous, {"Authorization": "Bearer "}) == 401
    for route in ROUTES:
        path = route.path.replace("{", "").replace("}", "")
        assert (door.ask(route.method, path, WITHOUT).status == 401) != route.strangers, route


def job(kind: str = "job") -> dict[str, Any]:
    return json.loads(call("tasks.post", name="x", kind=kind, project="p", agent="a~1"))


SESSION = {
    **{"session": "x~spawn-1", "role": "worker", "command": ["x"], "project": "p", "agent": "a~1"},
    **{"host": "here", "boot": "1.1", "pid": 7, "started": 70},
}
SIDEWAYS: dict[str, tuple[str, Any]] = {
    "natively": ("/rpc", job()),
    "without asking for an answer": ("/rpc", {name: value for name, value in job().items() if name != "id"}),
    "among others": ("/rpc", [job("task"), job()]),
    "submitted": ("/rpc", json.loads(call("jobs.submit", command="x", project="p", agent="a~1"))),
    "submitted with others": (
        "/rpc",
        json.loads(call("jobs.submit_many", jobs=[{"command": "x"}], project="p", agent="a~1")),
    ),
    "in a session's record": ("/rpc", {**job(), "method": "sessions.begin", "params": SESSION}),
    "as coord says it": ("/", {**job(), "method": "tasks/send", "params": {"name": "x", "kind": "job"}}),
}


@pytest.mark.parametrize(("path", "body"), SIDEWAYS.values(), ids=SIDEWAYS)
def test_no_other_route_of_an_open_daemon_takes_commands(path: str, body: Any, start: Starting) -> None:
    door, text = door_of(start(open=True)), json.dumps(body).encode()
    assert door.ask("POST", path, WITHOUT, text).status == 401
    assert door.rpc("events.last", WITHOUT)["result"] == 0
    assert door.ask("POST", path, None, text).status in (200, 204)
    assert door.rpc("events.last", WITHOUT)["result"] > 0


def test_strangers_do_not_see_the_environment_of_a_job(start: Starting) -> None:
    door = door_of(start(open=True))
    submitted = call("jobs.submit", command="x", env={"TOKEN": "geheim"}, project="p", agent="a~1")
    assert door.ask("POST", "/rpc", None, submitted).status == 200
    taking = call("jobs.next", project="p", agent="a~1")
    answer = door.ask("POST", "/rpc", WITHOUT, taking)
    assert answer.status == 401
    assert b"geheim" not in answer.body
    assert b"geheim" in door.ask("POST", "/rpc", None, taking).body


AGAIN: dict[str, tuple[str, dict[str, Any]]] = {
    "retried": ("tasks.retry", {"ref": "#1"}),
    "retried with others": ("tasks.retry_many", {"states": ["cancelled"]}),
    "in a queue that was stopped": ("queues.resume", {"queue": "default"}),
}


@pytest.mark.parametrize(("method", "params"), AGAIN.values(), ids=AGAIN)
def test_strangers_cannot_resume_a_paused_or_cancelled_command(
    method: str, params: dict[str, Any], start: Starting
) -> None:
    door = door_of(start(open=True))
    us: dict[str, Any] = {"project": "p", "agent": "a~1"}
    begun: dict[str, dict[str, Any]] = {
        "jobs.submit": {"command": "x"},
        "tasks.cancel": {"ref": "#1"},
        "queues.pause": {"queue": "default"},
    }
    for name, given in begun.items():
        assert "result" in json.loads(door.ask("POST", "/rpc", None, call(name, **us, **given)).body)
    before, again = door.rpc("events.last", WITHOUT)["result"], call(method, **us, **params)
    assert door.ask("POST", "/rpc", WITHOUT, again).status == 401
    assert door.rpc("events.last", WITHOUT)["result"] == before
    assert door.ask("POST", "/rpc", None, again).status == 200
    assert door.rpc("events.last", WITHOUT)["result"] > before


@pytest.mark.parametrize("kind", ["JOB", " job", "job ", "job\0", "\u017fob", "jo\u200bb"])
def test_no_other_spelling_of_the_kind_makes_a_job(kind: str, start: Starting) -> None:
    door = door_of(start(open=True))
    answer = json.loads(door.ask("POST", "/rpc", WITHOUT, json.dumps(job(kind)).encode()).body)
    assert answer.get("result", {}).get("kind") != "job"


def test_a_client_with_the_token_of_an_open_daemon_may_run_commands(start: Starting, dangerous: str) -> None:
    inside = start(open=True)
    token = user_folders.token_for("127.0.0.1", inside.port)
    assert asked(door_of(inside), dangerous, {"Authorization": f"Bearer {token}"}) == 200


def test_an_open_daemon_runs_commands_for_everybody_only_when_told_so(start: Starting, dangerous: str) -> None:
    door = door_of(start(open=True, open_jobs=True))
    assert asked(door, dangerous, WITHOUT) == 200
    assert asked(door, dangerous, {**WITHOUT, "Origin": "http://evil.example"}) == 403


def test_open_jobs_alone_opens_nothing(tmp_path: Path, start: Starting, dangerous: str) -> None:
    complaint(Tb(tmp_path)("serve", "--open-jobs", "--addr", f"127.0.0.1:{free_port()}"), 2)
    assert asked(door_of(start(open_jobs=True)), dangerous, WITHOUT) == 401


# ── The unix socket alone ────────────────────────────────────────────────────────────────────────────


def listening_ports(pid: int) -> list[str]:
    """The TCP ports on which a process listens, as the kernel lists them."""
    own = {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()}
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()
    ]
    return [words[1] for words in lines if words[3] == "0A" and f"socket:[{words[9]}]" in own]


def listens(daemon: Serving) -> bool:
    assert daemon.process
    if sys.platform == "linux":
        return bool(listening_ports(daemon.process.pid))
    words = ["lsof", "-a", "-p", str(daemon.process.pid), "-iTCP", "-sTCP:LISTEN"]
    return bool(subprocess.run(words, capture_output=True, check=False).stdout)


@pytest.mark.parametrize(("options", "expected"), [([], True), (["--addr", "none"], False)], ids=["both", "none"])
def test_without_an_address_nothing_listens_but_the_socket(tmp_path: Path, options: list[str], expected: bool) -> None:
    with serving(tmp_path, *options) as daemon:
        assert listens(daemon) is expected
        assert over_unix(daemon.socket).startswith(b"HTTP/1.1 200 ")
        kinds = [
            address.partition(":")[0] for address in json.loads(Path(f"{daemon.board}-daemon").read_text())["addresses"]
        ]
        assert kinds == (["unix", "http"] if expected else ["unix"])
