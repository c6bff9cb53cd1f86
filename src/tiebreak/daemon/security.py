"""Who may ask: Host, then Origin, then the token, before anything else of a request is looked at.

Host and Origin keep the pages of a browser out, also those that reach this machine by a name of their own (DNS
rebinding). The token keeps other users and other programs out; on the unix socket the kernel vouches for the
user instead. There is no route without these checks.
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

    from ..engine.protocol import Call
    from ..operations import Operation

_stranger: ContextVar[bool] = ContextVar("stranger", default=False)
"""Whether the request at hand was let in without a token, because the daemon is open."""


def refuse_strangers() -> None:
    """Raise `Problem` 401 if nobody vouches for the request at hand."""
    if _stranger.get():
        raise unauthorised()


def admitted(wanted: Operation[..., Any], params: dict[str, Any]) -> Operation[..., Any]:
    """The operation as whoever asks may run it; `Problem` 401 if it is closed to strangers and one of them asks."""
    if not _stranger.get():
        return wanted
    if not wanted.open_to_strangers(params):
        raise unauthorised()
    from ..operations.strangers import for_strangers

    return for_strangers(wanted)


def all_admitted(calls: list[Call]) -> list[Call]:
    """The calls as whoever asks may make them; `Problem` 401 if one of them is closed to strangers."""
    if not _stranger.get():
        return calls
    return [(admitted(wanted, params), params, once) for wanted, params, once in calls]


def told(answer: Any) -> Any:
    """The answer of a single call; a refusal is raised, for want of a token as `Problem` 401."""
    if isinstance(answer, Unauthorised):
        raise unauthorised(answer)
    if isinstance(answer, BaseException):
        raise answer
    return answer


class Access(NamedTuple):
    """What the operator decided."""

    token: str = ""
    """What a client over TCP has to show."""
    hosts: tuple[str, ...] = LOOPBACK
    """The names under which this daemon may be reached."""
    port: int = 0
    open: bool = False
    """No token on loopback, except for what is closed to strangers (`Route.strangers`, `Operation.strangers`)."""
    open_jobs: bool = False
    """No token for that either."""


class Guard:
    """Checks requests against what the operator decided."""

    def __init__(self, access: Access) -> None:
        self._access = access
        names = [f"[{name}]" if ":" in name else name for name in access.hosts]
        self._hosts = {f"{name}:{access.port}".encode() for name in names}
        if access.port in (0, 80):
            self._hosts |= {name.encode() for name in names}
        self._origins = {b"http://" + host for host in self._hosts}
        self._bearer = b"Bearer " + access.token.encode()

    def check(self, headers: dict[bytes, bytes], peer: str) -> None:
        """Raise `Problem` 421, 403 or 401."""
        local = peer.startswith("unix")
        host = headers.get(b"host", b"").lower()
        if host not in self._hosts and not (local and host == b"localhost"):
            raise Problem(421, Invalid("Host: this is not the name of this daemon"), close=True)
        origin = headers.get(b"origin")
        if origin is not None and origin not in self._origins:
            raise Problem(403, Refused("Origin: pages of other sites may not ask this daemon"), close=True)
        if headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):
            raise Problem(403, Refused("Sec-Fetch-Site: pages of other sites may not ask this daemon"), close=True)
        if not (local or self._access.open or self._shown(headers)):
            raise unauthorised()

    def check_route(self, route: Route, headers: dict[bytes, bytes], peer: str) -> None:
        """Keep strangers out of the routes that are closed to them, and remember them on the others."""
        if not self._access.open or self._access.open_jobs or peer.startswith("unix") or self._shown(headers):
            return
        if not route.strangers:
            raise unauthorised()
        _stranger.set(True)

    def _shown(self, headers: dict[bytes, bytes]) -> bool:
        token = self._access.token
        return bool(token) and compare_digest(headers.get(b"authorization", b""), self._bearer)


def unauthorised(error: Unauthorised | None = None) -> Problem:
    """A request without the right token, or one that turned out to need it."""
    error = error or Unauthorised(
        "the token is missing or wrong",
        reason="token-missing",
    )
    return Problem(401, error, (b"www-authenticate", b"Bearer"), close=True)
