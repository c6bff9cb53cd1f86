"""`Daemon` serves a board from start to shutdown: lock, sockets and token; serving; draining.

SIGTERM and SIGINT drain the daemon: it refuses new requests, answers running ones, and answers waiting ones with an
empty result, all within a few seconds. A second signal ends it at once. A daemon with workers first lets them finish
their jobs, while it still serves. A second signal then stops the workers, and the daemon drains.

A daemon that is killed loses nothing that was acknowledged, because each answer is sent after its commit.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import secrets
import signal
import socket
import threading
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple, Protocol

import uvicorn
import uvloop
from uvicorn.server import ServerState

from ..clock import wall
from ..errors import Invalid, Refused, Unavailable
from ..files import replace_file
from ..limits import MIN_TOKEN, RECEIPT
from ..text import moment
from ..user_folders import DEFAULT_ADDRESS, LOOPBACK, host_and_port, socket_for, token_file
from .app import App
from .http_protocol import ALWAYS, FlushQueue, HttpProtocol
from .lock import DaemonLock
from .machine_view import MachineView
from .security import Access, AccessCheck
from .service import SHORTEN_LOG, SWEEP, Service
from .web.sign_in import enter_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ..engine.protocol import Engine

DRAIN = 4.0
"""Seconds that running requests have to be answered after SIGTERM."""
TELL, MAX_TOLD = 0.5, 50
"""Seconds between two lines about what a draining daemon waits for, and the most pids in one."""
FINISH = 0.8
"""More seconds for a commit that no request waits for, such as a sweep."""
KEEP_ALIVE = 75
log = logging.getLogger("tiebreak")


class Settings(NamedTuple):
    """The options of `tb serve` that concern the daemon."""

    address: str | None = DEFAULT_ADDRESS
    """HOST:PORT for TCP; None for the unix socket only. Port 0 chooses a free port."""
    socket: str | None = None
    """The path of the unix socket; None for the default path."""
    hosts: tuple[str, ...] = ()
    """More host names that requests may be addressed to."""
    token_file: str | None = None
    """A file with a permanent token. None creates a new token at each start."""
    open: bool = False
    open_jobs: bool = False
    receipt: float = RECEIPT
    """Seconds within which a whole request must arrive."""
    sweep: float = SWEEP
    """Seconds between two sweeps for lapsed leases and due schedules."""
    called: Mapping[str, str] = {}
    """What the operator calls a setting, for refusals: `--addr` for `address`."""

    def name(self, setting: str) -> str:
        """A setting, as the operator calls it."""
        return self.called.get(setting, setting)


class Companion(Protocol):
    """Something that runs beside the daemon while it serves, such as its workers."""

    @property
    def pids(self) -> list[int]:
        """The processes that the daemon waits for before it stops serving."""

    async def run(self, addresses: list[str]) -> None:
        """Work until cancelled, which happens when the daemon ends. `addresses` are those of the board."""

    async def drain(self) -> None:
        """Finish the work under way, while the daemon still answers requests."""

    def hurry(self) -> None:
        """End at once, because the operator has asked a second time."""


class Daemon:
    """Serves one board. Creating it takes the lock and opens the sockets; `serve` runs it until it is told to stop."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        companions: Sequence[Companion] = (),
        machine: MachineView = MachineView(),  # noqa: B008  (it cannot be changed)
    ) -> None:
        self.engine = engine
        self.settings = settings
        self._companions = companions
        self._machine = machine
        self.addresses: list[str] = []
        self.token = ""
        self._files: list[str] = []
        self._sockets: list[socket.socket] = []
        self.stuck = False
        """Whether a write was still waiting at the end, because another process has the board locked.

        The engine cannot be closed cleanly then.
        """
        self._since = moment(wall())
        self._stopping = False
        self._wake: Callable[[], object] = lambda: None
        self._lock = DaemonLock(engine.address, settings.address)
        try:
            self._check = AccessCheck(self._prepare())
        except BaseException:
            self._clean_up()
            raise

    # ── Preparing ────────────────────────────────────────────────────────────────────────────────────

    def _prepare(self) -> Access:
        _allow_many_files()
        usual = self.engine.path or f"{self.engine.address} {self.settings.address}"
        path = os.path.abspath(self.settings.socket) if self.settings.socket else socket_for(usual)
        self._sockets.append(_unix_socket(path))
        self._files.append(path)
        self.addresses.append(f"unix:{path}")
        if self.settings.address is None:
            return Access()
        called = self.settings.name("address")
        host, port = host_and_port(self.settings.address, called)
        found = _resolved(host, port, called)
        if not ip_address(found[-1][0].partition("%")[0]).is_loopback:
            self._refuse_exposure(host)
            self.engine.shared = True
        listening = _tcp_socket(host, port, found, called)
        self._sockets.append(listening)
        port = listening.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        self.addresses.append(f"http://{shown}:{port}")
        self.token = self._publish_token(port)
        names = tuple(dict.fromkeys((*LOOPBACK, host.lower(), *(name.lower() for name in self.settings.hosts))))
        here = ip_address(found[-1][0].partition("%")[0])
        url = f"http://127.0.0.1:{port}" if here.is_unspecified else self.addresses[-1]
        open_jobs = self.settings.open and self.settings.open_jobs
        return Access(self.token, names, port, self.settings.open, open_jobs, url)

    def _refuse_exposure(self, host: str) -> None:
        if self.settings.open:
            raise Invalid(f"{self.settings.name('open')} is for loopback only, not for {host}")
        if not self.settings.token_file:
            raise Invalid(
                f"{self.settings.name('address')} {host} can be reached from other machines: "
                "refusing to start without a token",
                reason="token-file-missing",
            )

    def _publish_token(self, port: int) -> str:
        """The operator's permanent token, or a new one. Also written where this user's clients look for it."""
        permanent = self.settings.token_file
        token = _token_in_file(permanent, self.settings.name("token_file")) if permanent else secrets.token_urlsafe(32)
        path = token_file(port)
        _write_private(path, token)
        self._files.append(path)
        return token

    # ── Serving ──────────────────────────────────────────────────────────────────────────────────────

    async def run(self, ready: Callable[[], None] | None = None) -> None:
        """Serve until told to stop, then drain. `ready` is called when requests are accepted."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        self._wake = lambda: loop.call_soon_threadsafe(stop.set)
        if self._stopping:
            stop.set()
        known_as = [*self.addresses, self.engine.full_address]
        service = Service(self.engine, self._check, self._machine, known_as)
        config = uvicorn.Config(
            App(service),
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            ws="none",
            proxy_headers=False,  # a client must not choose its own address by a header
            timeout_keep_alive=KEEP_ALIVE,
        )
        config.load()
        state, flush_queue = ServerState(), FlushQueue()
        state.default_headers = list(ALWAYS)
        servers = [await self._listen(each, lambda: HttpProtocol(config, state, flush_queue)) for each in self._sockets]
        regular = (service.sweep(self.settings.sweep), service.shorten_log(SHORTEN_LOG), self._end_slow_requests(state))
        background = [asyncio.ensure_future(each) for each in regular]
        self._handle_signals(loop)
        self._lock.sign(self.facts())
        log.info("serving", extra={"facts": self.facts()})
        background += [asyncio.ensure_future(each.run(known_as)) for each in self._companions]
        if ready is not None:
            ready()
        try:
            await stop.wait()
            background.append(asyncio.ensure_future(self._tell_draining()))
            for each in self._companions:
                if each.pids:
                    log.info("stopping the workers", extra={"facts": {"pids": each.pids}})
                await each.drain()
            log.info(
                "draining", extra={"facts": {"waiters": len(service.waiters), "connections": len(state.connections)}}
            )
        finally:
            service.drain()
            for server in servers:
                server.close()
            for connection in list(state.connections):
                connection.shutdown()
            if state.tasks:
                await asyncio.wait(list(state.tasks), timeout=DRAIN)
            for task in [*background, *state.tasks]:
                task.cancel()
            end = loop.time() + FINISH
            while service.writer.depth and loop.time() < end:
                await asyncio.sleep(0.01)
            self.stuck = service.writer.depth > 0
            service.close()
            log.info("ended", extra={"facts": {"unanswered": len(state.tasks)}})

    @staticmethod
    async def _listen(listening: socket.socket, connected: Callable[[], HttpProtocol]) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        if listening.family == socket.AF_UNIX:
            return await loop.create_unix_server(connected, sock=listening, backlog=1024)
        return await loop.create_server(connected, sock=listening, backlog=1024)

    async def _end_slow_requests(self, state: ServerState) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(1.0, self.settings.receipt / 4))
            since = loop.time() - self.settings.receipt
            for connection in list(state.connections):
                connection.end_if_slow(since)  # type: ignore[union-attr]

    async def _tell_draining(self) -> None:
        """Tell in the lock file what is being waited for, again and again: `tb serve --stop` waits as long as it is."""
        facts, beats = self.facts(), 0
        while True:
            pids = [pid for each in self._companions for pid in each.pids]
            self._lock.sign({**facts, "draining": {"workers": pids[:MAX_TOLD], "beats": beats}})
            await asyncio.sleep(TELL)
            beats += 1

    def _handle_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        busy = [each for each in self._companions if each.pids] if self._stopping else []
        for each in busy:
            each.hurry()  # then their `drain` ends soon, and the daemon continues to drain
        if self._stopping and not busy:  # a second signal
            os._exit(1)
        self.stop()

    def stop(self) -> None:
        """Begin to drain. May be called from any thread."""
        self._stopping = True
        self._wake()

    def link(self) -> str:
        """A link that signs one browser in; "" if no browser can reach this daemon."""
        return self._check.url and self._check.url + enter_path(self._check.sessions.new_code(os.geteuid()))

    def facts(self) -> dict[str, Any]:
        """What the lock file says about this daemon and `tb status` shows."""
        return {"pid": os.getpid(), "addresses": self.addresses, "since": self._since, "board": self.engine.address}

    def serve(self, ready: Callable[[], None] | None = None) -> None:
        """Serve in a new event loop until the end. Removes all files except the lock file."""
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self.run(ready))
        finally:
            self._clean_up()

    def _clean_up(self) -> None:
        for each in self._sockets:
            each.close()
        for path in self._files:
            try:
                os.unlink(path)
            except OSError:
                pass  # gone already
        self._lock.release()


def _unix_socket(path: str) -> socket.socket:
    """A unix socket bound to a path. Replaces a socket file that a killed daemon left, but not one that answers."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        if _answers(path):
            raise Refused(f"socket {path}: another process listens there", reason="socket-taken")
        if os.path.lexists(path):
            os.unlink(path)
        made.bind(path)
    except OSError as exc:
        made.close()
        raise Unavailable(f"socket {path}: {exc.strerror or exc}") from exc
    except Refused:
        made.close()
        raise
    finally:
        os.umask(before)
    return made


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(path)
        except FileNotFoundError:
            return False
        except OSError:
            if not os.path.exists(path) or _is_socket(path):
                return False
            raise
    return True


def _is_socket(path: str) -> bool:
    import stat

    return stat.S_ISSOCK(os.lstat(path).st_mode)


def _resolved(host: str, port: int, called: str) -> Any:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as exc:
        raise Invalid(f"{called} {host}:{port}: {exc.strerror or exc}") from exc


def _tcp_socket(host: str, port: int, found: Any, called: str) -> socket.socket:
    family, kind, protocol, _, where = found
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(where)
        return made
    except OSError as exc:
        made.close()
        raise Refused(f"{called} {host}:{port}: {exc.strerror or exc}", reason="address-taken") from exc


def _token_in_file(path: str, called: str) -> str:
    """The token in the operator's file, which is created if it does not exist."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            mode, token = os.fstat(file.fileno()).st_mode, file.read(4096).strip()
    except FileNotFoundError:
        token = secrets.token_urlsafe(32)
        _write_private(path, token)
        return token
    except OSError as exc:
        raise Unavailable(f"{called} {path}: {exc.strerror or exc}") from exc
    if mode & 0o077:
        raise Refused(f"{called} {path}: others can read it", hint="chmod 600 makes it yours")
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise Invalid(f"{called} {path}: a token has at least {MIN_TOKEN} printable characters in one line")
    return token


def _write_private(path: str, token: str) -> None:
    """Write a file that only its owner can ever read."""
    try:
        replace_file(path, f"{token}\n".encode())
    except OSError as exc:
        raise Unavailable(f"token file {path}: {exc.strerror or exc}") from exc


def _allow_many_files() -> None:
    """Raise the limit of open files: each waiting client needs a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
