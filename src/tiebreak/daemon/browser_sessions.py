"""Browsers that are signed in: one-time codes, and the cookies that they are exchanged for.

A browser cannot send the token by itself, so `tb web` asks for a code with the token and opens a link that contains it.
Following the link exchanges the code for a cookie. The cookie is weaker than the token on purpose: a browser sends it
to every port of this machine, so any local server that the user visits may see it. It only reads, it ends after
`SESSION_LIFE`, and what shows how jobs are run stays hidden (see `security`).

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


class _Secret(NamedTuple):
    value: bytes
    until: float
    https: bool


class BrowserSessions:
    """The codes and sessions of one daemon."""

    def __init__(self, port: int, clock: Callable[[], float] = elapsed) -> None:
        # Cookies do not distinguish ports. With the port in its name, the cookies of two daemons exist side by side.
        self.cookie = f"tiebreak-{port}"
        self._clock = clock
        self._codes: list[_Secret] = []
        self._sessions: list[_Secret] = []

    def new_code(self, *, https: bool) -> str:
        """A code for one browser. `https`: whether the link is an https one, so that the cookie needs it too."""
        code = secrets.token_urlsafe(32)
        self._codes = [*self._alive(self._codes), self._secret(code, CODE_LIFE, https)][-MOST_CODES:]
        return code

    def exchange(self, code: str) -> str | None:
        """Use a code up and begin a session; the `Set-Cookie` header. None if the code is unknown, used or too old."""
        used = self._find(self._codes, code.encode())
        if used is None:
            return None
        self._codes.remove(used)
        value = secrets.token_urlsafe(32)
        begun = self._secret(value, SESSION_LIFE, used.https)
        self._sessions = [*self._alive(self._sessions), begun][-MOST_SESSIONS:]
        secure = "; Secure" if used.https else ""
        return f"{self.cookie}={value}; Max-Age={SESSION_LIFE:.0f}; Path=/; HttpOnly; SameSite=Strict{secure}"

    def signed_in(self, headers: dict[bytes, bytes]) -> bool:
        """Whether a request has the cookie of a session.

        Another server on this machine can set a cookie of the same name for a longer path. The browser then sends
        both, so each of them counts.
        """
        if not self._sessions:
            return False
        pairs = (pair.strip().partition(b"=") for pair in headers.get(b"cookie", b"").split(b";"))
        given = [value for name, _, value in pairs if name == self.cookie.encode()]
        return any(self._find(self._sessions, value) is not None for value in given)

    def sign_out(self) -> int:
        """End all sessions and codes; how many browsers were signed in."""
        count = len(self._alive(self._sessions))
        self._sessions, self._codes = [], []
        return count

    def _secret(self, value: str, life: float, https: bool) -> _Secret:
        return _Secret(value.encode(), self._clock() + life, https)

    def _alive(self, those: list[_Secret]) -> list[_Secret]:
        now = self._clock()
        return [each for each in those if each.until > now]

    def _find(self, those: list[_Secret], value: bytes) -> _Secret | None:
        """Compares with all of them in constant time, so that the time tells nothing about a guess."""
        found = None
        for each in self._alive(those):
            if compare_digest(each.value, value):
                found = each
        return found
