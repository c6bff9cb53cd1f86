"""Where agent clients look for `tb`: the PATH of a new login shell, or that of the shell a person starts them from.

Client configuration is committed and shared, so it has the bare name `tb` and never the path of one machine. Editors
with a window (Cursor, VS Code) take their PATH from the user's login shell, wherever they are started; clients in a
terminal have the PATH of that terminal's shell. So a login shell is asked for its PATH, in an environment without ours.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

from ..bounded_command import run_bounded

if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE = 5.0
"""Seconds for the start-up files of a shell."""
LEAST = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
"""The PATH of a program that was not started from a shell."""
_MARK = "tiebreak-path="
_KEPT = ("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "XDG_CONFIG_HOME", "ZDOTDIR")


class ClientPath(NamedTuple):
    """The PATHs with which clients start here."""

    here: str
    """Of this process, which is that of a client started from the same shell."""
    login: str | None
    """Of a new login shell; None if it cannot be told."""

    def for_client(self, *, desktop: bool) -> str:
        """The PATH of a client: that of a login shell, unless only a client in this terminal can find `tb`."""
        if self.login is None or (not desktop and not self.in_login_shell()):
            return self.here
        return self.login

    def in_login_shell(self) -> bool:
        """Whether a new login shell finds `tb`."""
        return self.login is not None and shutil.which("tb", path=self.login) is not None

    def anywhere(self) -> bool:
        """Whether `tb` is found by its name at all."""
        return self.in_login_shell() or shutil.which("tb", path=self.here) is not None


def client_path(environ: Mapping[str, str] = os.environ) -> ClientPath:
    """The PATHs of clients that this user starts."""
    return ClientPath(environ.get("PATH", os.defpath), _login_path(environ))


def _login_path(environ: Mapping[str, str]) -> str | None:
    """The PATH of a new login shell. It is an interactive one, as editors ask it: many set their PATH only there."""
    words = [_shell(environ), "-i", "-l", "-c", f'printf "\\n{_MARK}%s\\n" "$PATH"']
    clean = {name: environ[name] for name in _KEPT if name in environ} | {"PATH": LEAST, "TERM": "dumb"}
    done = run_bounded(words, clean, None, b"", PATIENCE)
    lines = done.out.splitlines()
    found = [line.removeprefix(_MARK) for line in lines if line.startswith(_MARK)]
    return found[-1] if found and found[-1] else None


def _shell(environ: Mapping[str, str]) -> str:
    given = environ.get("SHELL")
    if given:
        return given
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:
        return "/bin/sh"
