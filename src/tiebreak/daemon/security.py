"""Access checks: every request must pass Host, Origin and token, in this order, before its body is read.

Host and Origin keep web pages out, also pages whose own host name resolves to this machine (DNS rebinding). The token
keeps other users and other programs out. On the unix socket no token is needed, because the kernel tells which user
is connected. No route is exempt.

A daemon started with `--open` accepts requests on loopback without a token. Such a request comes from a *stranger*.
Strangers may use only the routes and operations that are declared open to them.
"""

from __future__ import annotations

from contextvars import ContextVar
from hmac import compare_digest
from typing import TYPE_CHECKING, NamedTuple

from ..errors import Invalid, Refused, Unauthorised
from ..user_folders import LOOPBACK
from .routes import Problem, Route

if TYPE_CHECKING:
    from typing import Any

    from ..operations import Call, Operation

_stranger: ContextVar[bool] = ContextVar("stranger", default=False)
"""Whether the current request comes from a stranger: it has no token, and the daemon is open."""


def refuse_strangers() -> None:
    """Raise `Problem` 401 if the current request comes from a stranger."""
    if _stranger.get():
        raise unauthorised()


def admitted(wanted: Operation[..., Any], params: dict[str, Any]) -> Operation[..., Any]:
    """The version of an operation that the current caller may run. Raises `Problem` 401 if there is none for it."""
    if not _stranger.get():
        return wanted
    if not wanted.open_to_strangers(params):
        raise unauthorised()
    from ..operations.strangers import for_strangers

    return for_strangers(wanted)


def all_admitted(calls: list[Call]) -> list[Call]:
    """`admitted` for each of several calls. Raises `Problem` 401 if one of them is closed to the caller."""
    if not _stranger.get():
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


class AccessCheck:
    """Checks requests against the configured `Access`."""

    def __init__(self, access: Access) -> None:
        self._access = access
        names = [f"[{name}]" if ":" in name else name for name in access.hosts]
        self._hosts = {f"{name}:{access.port}".encode() for name in names}
        if access.port in (0, 80):
            self._hosts |= {name.encode() for name in names}
        self._origins = {b"http://" + host for host in self._hosts}
        self._bearer = b"Bearer " + access.token.encode()

    def check(self, headers: dict[bytes, bytes], peer: str) -> None:
        """Check Host, Origin and token. Raises `Problem` 421, 403 or 401."""
        local = peer.startswith("unix")
        host = headers.get(b"host", b"").lower()
        if host not in self._hosts and not (local and host == b"localhost"):
            raise Problem(421, Invalid("Host: this is not a name of this daemon"), close=True)
        origin = headers.get(b"origin")
        if origin is not None and origin not in self._origins:
            raise Problem(403, Refused("Origin: pages of other sites may not use this daemon"), close=True)
        if headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):
            raise Problem(403, Refused("Sec-Fetch-Site: pages of other sites may not use this daemon"), close=True)
        if not (local or self._access.open or self._has_token(headers)):
            raise unauthorised()

    def check_route(self, route: Route, headers: dict[bytes, bytes], peer: str) -> None:
        """Refuse strangers on routes that are closed to them, and mark them as strangers on the others."""
        if not self._access.open or self._access.open_jobs or peer.startswith("unix") or self._has_token(headers):
            return
        if not route.strangers:
            raise unauthorised()
        _stranger.set(True)

    def _has_token(self, headers: dict[bytes, bytes]) -> bool:
        token = self._access.token
        return bool(token) and compare_digest(headers.get(b"authorization", b""), self._bearer)


def unauthorised(error: Unauthorised | None = None) -> Problem:
    """`Problem` 401, for a request without the right token."""
    error = error or Unauthorised(
        "the token is missing or wrong",
        reason="token-missing",
    )
    return Problem(401, error, (b"www-authenticate", b"Bearer"), close=True)
