"""Browsers that are signed in: one-time codes, and the cookies that they are exchanged for.

A browser cannot send the token by itself, so `tb web` asks for a code with the token and opens a link that contains it.
Following the link exchanges the code for a cookie. The cookie is weaker than the token on purpose: a browser sends it
to every port of this machine, so any local server that the user visits may see it. It only reads, it ends after
`SESSION_LIFE`, and what shows how jobs are run stays hidden (see `security`). Where the kernel tells which user is at
the other end of a connection (see `peer_user`), codes and cookies count only for the user who asked for the link.

A link made for acting also gives the page a *write key*. The page keeps it where only pages of this very port can read
it and sends it in a header, which no other site and no other port can do. The key counts only together with the cookie
of the same session, so neither of the two is enough to change anything.

Everything here is in memory: a daemon that is restarted has signed all browsers out.
"""

from __future__ import annotations

import secrets
from hmac import compare_digest
from typing import TYPE_CHECKING, NamedTuple

from ..clock import elapsed

if TYPE_CHECKING:
    from collections.abc import Callable

CODE_LIFE = 60.0
"""Seconds within which a link must be followed."""
SESSION_LIFE = 12 * 3600.0
"""Seconds after which a browser has to be signed in again."""
MOST_CODES = 16
"""Codes that are not used yet. A further one replaces the oldest."""
MOST_SESSIONS = 32
"""Browsers that are signed in at the same time. A further one replaces the oldest."""


WRITE_HEADER = b"tiebreak-write"
"""The header in which a page sends its write key."""


class BrowserSession(NamedTuple):
    """What is known about a browser that is signed in, or about the code that will sign it in."""

    value: bytes
    until: float
    https: bool
    user: int | None
    person: str
    """Who asked for the link: what the browser does is done in this name."""
    key: bytes
    """The write key; empty for a browser that only reads."""


class SignedIn(NamedTuple):
    """The answer to a browser that has followed its link."""

    cookie: str
    """The `Set-Cookie` header."""
    key: str
    """The write key; "" for a browser that only reads."""


class BrowserSessions:
    """The codes and sessions of one daemon."""

    def __init__(self, port: int, clock: Callable[[], float] = elapsed) -> None:
        # Cookies do not distinguish ports. With the port in its name, the cookies of two daemons exist side by side.
        self.cookie = f"tiebreak-{port}"
        self._clock = clock
        self._codes: list[BrowserSession] = []
        self._sessions: list[BrowserSession] = []

    def new_code(self, user: int | None, *, https: bool = False, person: str = "", write: bool = False) -> str:
        """A code for one browser of a user.

        `https`: the link is an https one, so the cookie must not go without it. `write`: the browser may act for
        `person`, too.
        """
        code = secrets.token_urlsafe(32)
        key = secrets.token_urlsafe(32).encode() if write else b""
        made = BrowserSession(code.encode(), self._clock() + CODE_LIFE, https, user, person, key)
        self._codes = [*self._alive(self._codes), made][-MOST_CODES:]
        return code

    def exchange(self, code: str, user: Callable[[], int | None]) -> SignedIn | None:
        """Use a code up and begin a session. None if the code is unknown, used or too old.

        Nor does it count for another user, who does not use it up either.
        """
        used = self._find(self._codes, code.encode(), user)
        if used is None:
            return None
        self._codes.remove(used)
        value = secrets.token_urlsafe(32)
        begun = used._replace(value=value.encode(), until=self._clock() + SESSION_LIFE)
        self._sessions = [*self._alive(self._sessions), begun][-MOST_SESSIONS:]
        secure = "; Secure" if used.https else ""
        cookie = f"{self.cookie}={value}; Max-Age={SESSION_LIFE:.0f}; Path=/; HttpOnly; SameSite=Strict{secure}"
        return SignedIn(cookie, used.key.decode())

    def signed_in(self, headers: dict[bytes, bytes], user: Callable[[], int | None]) -> bool:
        """Whether a request has the cookie of a session."""
        return bool(self._found(headers, user))

    def person(self, headers: dict[bytes, bytes], user: Callable[[], int | None]) -> str:
        """Who asked for the link that signed this browser in; "" if nobody did."""
        return next((each.person for each in self._found(headers, user)), "")

    def acting(self, headers: dict[bytes, bytes], user: Callable[[], int | None]) -> BrowserSession | None:
        """The session of a request that may act: it has the cookie of a session and the write key of the same one."""
        given = headers.get(WRITE_HEADER, b"")
        found = None
        for each in self._found(headers, user):
            if each.key and compare_digest(each.key, given):
                found = each
        return found

    def _found(self, headers: dict[bytes, bytes], user: Callable[[], int | None]) -> list[BrowserSession]:
        """The sessions of a request's cookies.

        Another server on this machine can set a cookie of the same name for a longer path. The browser then sends
        both, so each of them counts.
        """
        if not self._sessions:
            return []
        pairs = (pair.strip().partition(b"=") for pair in headers.get(b"cookie", b"").split(b";"))
        given = [value for name, _, value in pairs if name == self.cookie.encode()]
        found = (self._find(self._sessions, value, user) for value in given)
        return [each for each in found if each is not None]

    def counted(self) -> tuple[int, int]:
        """How many browsers are signed in, and how many of these may act."""
        alive = self._alive(self._sessions)
        return len(alive), sum(bool(each.key) for each in alive)

    def sign_out(self) -> int:
        """End all sessions and codes; how many browsers were signed in."""
        count = len(self._alive(self._sessions))
        self._sessions, self._codes = [], []
        return count

    def _alive(self, those: list[BrowserSession]) -> list[BrowserSession]:
        now = self._clock()
        return [each for each in those if each.until > now]

    def _find(self, those: list[BrowserSession], value: bytes, user: Callable[[], int | None]) -> BrowserSession | None:
        """Compares with all of them in constant time, so that the time tells nothing about a guess."""
        found = None
        for each in self._alive(those):
            if compare_digest(each.value, value):
                found = each
        return found if found is not None and _same_user(found.user, user()) else None


def _same_user(owner: int | None, user: int | None) -> bool:
    """Whether a secret of one user may be used by another: only root may, and anybody where users are not known."""
    return owner is None or user in (None, owner, 0)
