"""Access checks: every request must pass Host and Origin, then its caller must be one that the route is for.

Host and Origin keep web pages out, also pages whose own host name resolves to this machine (DNS rebinding). They are
checked first, on every route and for every caller. There are five kinds of callers (`Caller`):

- The **owner** has the token, which keeps other users and other programs out. On the unix socket no token is needed,
  because the kernel tells which user is connected. Only the owner can use every route.
- A **browser** that is signed in has a cookie (see `browser_sessions`). It reads the routes that are declared
  `browsers`, and sees what a stranger would see: other servers on this machine can get hold of its cookie.
- A **person** is at a browser that was signed in for acting: beside the cookie it sends the write key of its session,
  which no other site and no other port can get hold of. A person uses the routes that are declared `acting`.
- A **stranger** has nothing, but the daemon was started with `--open`. Strangers may use only the routes and
  operations that are declared open to them.
- A **visitor** has nothing and gets only the routes that are declared `public`.

Everybody else is refused with 401, and cannot tell a route from one that does not exist.
"""

from __future__ import annotations

from contextvars import ContextVar
from enum import Enum
from hmac import compare_digest
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

from ..errors import Invalid, Refused, Unauthorised
from ..user_folders import LOOPBACK
from .browser_sessions import BrowserSessions
from .routes import Problem, Public, Route

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..operations import Call, Operation


class Caller(Enum):
    """Who sent a request."""

    OWNER = "owner"
    BROWSER = "browser"
    PERSON = "person"
    STRANGER = "stranger"
    VISITOR = "visitor"


_caller: ContextVar[Caller] = ContextVar("caller", default=Caller.OWNER)
"""Who sent the current request. What the daemon does by itself counts as done by the owner."""


def caller() -> Caller:
    """Who sent the current request."""
    return _caller.get()


def trusted() -> bool:
    """Whether the current request may run every operation and see every field."""
    return caller() in (Caller.OWNER, Caller.PERSON)


def refuse_strangers() -> None:
    """Raise `Problem` 401 unless the current request comes from the owner."""
    if caller() is not Caller.OWNER:
        raise unauthorised()


def admitted(wanted: Operation[..., Any], params: dict[str, Any]) -> Operation[..., Any]:
    """The version of an operation that the current caller may run. Raises `Problem` 401 if there is none for it."""
    if trusted():
        return wanted
    if not wanted.open_to_strangers(params):
        raise unauthorised()
    from ..operations.strangers import for_strangers

    return for_strangers(wanted)


def all_admitted(calls: list[Call]) -> list[Call]:
    """`admitted` for each of several calls. Raises `Problem` 401 if one of them is closed to the caller."""
    if trusted():
        return calls
    return [(admitted(wanted, params), params, once) for wanted, params, once in calls]


def result_or_raise(answer: Any) -> Any:
    """Return the answer of one call, or raise it if it is an error. A missing token becomes `Problem` 401."""
    if isinstance(answer, Unauthorised):
        raise unauthorised(answer)
    if isinstance(answer, BaseException):
        raise answer
    return answer


class Access(NamedTuple):
    """Who may connect, as the operator configured it."""

    token: str = ""
    """The token that clients over TCP must send."""
    hosts: tuple[str, ...] = LOOPBACK
    """The host names that requests may be addressed to."""
    port: int = 0
    open: bool = False
    """Whether no token is needed, except for what is closed to strangers (`Route.strangers`, `Operation.strangers`)."""
    open_jobs: bool = False
    """Whether no token is needed for that either."""
    url: str = ""
    """Where a browser on this machine reaches the daemon; "" if it listens on its unix socket alone."""


class AccessCheck:
    """Checks requests against the configured `Access`."""

    def __init__(self, access: Access) -> None:
        self._access = access
        names = [f"[{name}]" if ":" in name else name for name in access.hosts]
        self._hosts = {f"{name}:{access.port}".encode() for name in names}
        if access.port in (0, 80):
            self._hosts |= {name.encode() for name in names}
        self._origins = {scheme + host for host in self._hosts for scheme in (b"http://", b"https://")}
        # The daemon speaks no TLS itself: a page with an https origin came through a proxy in front of it. That is as
        # safe as http. The browser writes the header, so only a page that was served under this very name and port
        # has it: with our own port nobody else's, and without a port (443) only under a name that the operator gave,
        # where whoever has the certificate answers. On loopback, 443 may be another program's: it is not ours.
        # A page of another scheme, port or host still has another origin and is refused, and CORS is never granted.
        self._origins |= {b"https://" + name.encode() for name in names if _name_of(name.encode()) not in LOOPBACK}
        self._here = {host for host in self._hosts if _name_of(host) in LOOPBACK}
        self._bearer = b"Bearer " + access.token.encode()
        self.url = access.url
        self.sessions = BrowserSessions(access.port)

    @property
    def rules(self) -> Access:
        """Who may connect, as the operator configured it. It has the token: never show it as it is."""
        return self._access

    @property
    def token_file(self) -> str:
        """Where this daemon's user finds the token, in words that tell other users nothing about this one."""
        return f"${{XDG_STATE_HOME:-~/.local/state}}/tiebreak/run/{self._access.port}.token"

    def check(self, headers: dict[bytes, bytes], peer: str) -> None:
        """Check Host and Origin. Raises `Problem` 421 or 403."""
        host = headers.get(b"host", b"").lower()
        if host not in self._hosts and not (peer.startswith("unix") and host == b"localhost"):
            raise Problem(421, Invalid("Host: this is not a name of this daemon"), close=True)
        origin = headers.get(b"origin")
        if origin is not None and origin not in self._origins:
            raise Problem(403, Refused("Origin: pages of other sites may not use this daemon"), close=True)
        if headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):
            raise Problem(403, Refused("Sec-Fetch-Site: pages of other sites may not use this daemon"), close=True)

    def check_route(
        self, route: Route | None, method: str, headers: dict[bytes, bytes], peer: str, user: Callable[[], int | None]
    ) -> None:
        """Find out who asks, and raise `Problem` 401 if the route is not for them.

        `route` is None if there is none. Then only those who may see the routes get past this, and learn of it.
        """
        reads = method in ("GET", "HEAD")
        found = self._caller_without_cookie(route, reads, headers, peer)
        for_browsers = reads and (route is None or route.browsers) and b"authorization" not in headers
        if found is not Caller.OWNER and for_browsers and self.sessions.signed_in(headers, user):
            found = Caller.BROWSER
        for_persons = route is not None and route.acting and b"authorization" not in headers
        if found is not Caller.OWNER and for_persons and self.sessions.acting(headers, user) is not None:
            found = Caller.PERSON
        if found is None:
            raise unauthorised()
        _caller.set(found)

    def _caller_without_cookie(
        self, route: Route | None, reads: bool, headers: dict[bytes, bytes], peer: str
    ) -> Caller | None:
        if peer.startswith("unix") or self._access.open_jobs or self._has_token(headers):
            return Caller.OWNER
        if self._access.open and (route is None or route.strangers):
            return Caller.STRANGER
        if b"authorization" in headers:  # a wrong one: its sender has to learn that
            return None
        if reads and route is not None and self._is_public(route, headers, peer):
            return Caller.VISITOR
        return None

    def _is_public(self, route: Route, headers: dict[bytes, bytes], peer: str) -> bool:
        if route.public is Public.LOOPBACK:
            return self._comes_from_here(headers, peer)
        return route.public is Public.WITH_CODE

    def _comes_from_here(self, headers: dict[bytes, bytes], peer: str) -> bool:
        """Whether a program on this machine asks for itself. A proxy on this machine asks for others."""
        address = ip_address(peer.removeprefix("tcp:").partition("%")[0])
        loopback = getattr(address, "ipv4_mapped", None) or address
        direct = headers.get(b"host", b"").lower() in self._here and not _PROXIED & headers.keys()
        return bool(loopback.is_loopback) and direct

    def _has_token(self, headers: dict[bytes, bytes]) -> bool:
        token = self._access.token
        return bool(token) and compare_digest(headers.get(b"authorization", b""), self._bearer)


_PROXIED = frozenset((b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"))
"""Headers by which proxies tell for whom they ask."""


def _name_of(host: bytes) -> str:
    """The name in a Host header."""
    name = host.decode("latin-1")
    return name[1 : name.index("]")] if name.startswith("[") else name.partition(":")[0]


def unauthorised(error: Unauthorised | None = None) -> Problem:
    """`Problem` 401, for a request without the right token."""
    error = error or Unauthorised(
        "the token is missing or wrong",
        reason="token-missing",
    )
    return Problem(401, error, (b"www-authenticate", b"Bearer"), close=True)
