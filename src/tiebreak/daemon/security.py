"""Who may ask: Host, then Origin, then the token, before anything else of a request is looked at.

Host and Origin keep the pages of a browser out, also those that reach this machine by a name of their own (DNS
rebinding). The token keeps other users and other programs out; on the unix socket the kernel vouches for the
user instead. There is no route without these checks.
"""

from __future__ import annotations

from contextvars import ContextVar
from hmac import compare_digest
from typing import TYPE_CHECKING, NamedTuple

from ..errors import Invalid, Refused, Unavailable
from ..rendezvous import LOOPBACK
from .routes import Problem, Route

if TYPE_CHECKING:
    from ..engine import Call

_unproven: ContextVar[bool] = ContextVar("unproven", default=False)
"""Whether the request at hand was let in without a token, and so may not put commands on the board."""


def refuse_commands(calls: list[Call]) -> None:
    """Raise `Problem` 401 if a request that nobody vouched for carries a command, whichever way it came."""
    if _unproven.get() and any(wanted.brings_commands(params) for wanted, params, _ in calls):
        raise unauthorised()


class Access(NamedTuple):
    """What the operator decided."""

    token: str = ""
    """What a client over TCP has to show."""
    hosts: tuple[str, ...] = LOOPBACK
    """The names under which this daemon may be reached."""
    port: int = 0
    open: bool = False
    """No token on loopback, except for routes that can run commands."""
    open_jobs: bool = False
    """Not for those either."""


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
        """An open daemon is not open for commands: not by their own routes, and not by way of another one."""
        if not self._access.open or self._access.open_jobs or peer.startswith("unix") or self._shown(headers):
            return
        if route.commands:
            raise unauthorised()
        _unproven.set(True)

    def _shown(self, headers: dict[bytes, bytes]) -> bool:
        token = self._access.token
        return bool(token) and compare_digest(headers.get(b"authorization", b""), self._bearer)


def unauthorised() -> Problem:
    """A request without the right token."""
    error = Unavailable(
        "the token is missing or wrong",
        hint="set TIEBREAK_TOKEN; on the daemon's machine its own user needs none: `tb status` names the file",
    )
    return Problem(401, error, (b"www-authenticate", b"Bearer"), close=True)
