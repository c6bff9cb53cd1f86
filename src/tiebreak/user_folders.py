"""The user's folders: boards and other state, and the private folder where clients find a daemon's socket and token.

The private folder has mode 0700 and belongs to the user; otherwise nothing in it is trusted. A daemon writes its token
to a file there that is named after its port. Each start makes a new token: a program of another user that took over the
port meanwhile may have received the old one from clients, which is then worthless.
"""

from __future__ import annotations

import os

from .errors import Invalid, Unavailable
from .names import checksum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_SOCKET = 100
"""The kernel's limit is 107 bytes on Linux and 103 on macOS."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
DEFAULT_PORT = 7777
DEFAULT_ADDRESS = f"127.0.0.1:{DEFAULT_PORT}"
"""Where a daemon listens unless it is told otherwise."""


def state_folder(environ: Mapping[str, str] = os.environ) -> str:
    """The user's folder for tiebreak's state; created if it does not exist."""
    state = environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    folder = os.path.join(state, "tiebreak")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as exc:
        raise Unavailable(f"board folder {folder}: {exc.strerror or exc}") from exc
    return folder


def private_folder() -> str:
    """The folder for sockets and tokens, which nobody else can enter."""
    return private(os.path.join(state_folder(), "run"))


def socket_for(board: str) -> str:
    """The path of the socket on which the daemon of a board listens for the same user on the same machine."""
    stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in os.path.basename(board).partition(".")[0])[:20]
    name = f"{stem or 'board'}-{checksum(board.encode()):016x}.sock"
    path = os.path.join(private_folder(), name)
    if len(os.fsencode(path)) <= LONGEST_SOCKET:
        return path
    return os.path.join(private(f"/tmp/tiebreak-{os.geteuid()}"), name)  # noqa: S108  (checked to be ours)


def private(folder: str) -> str:
    """A folder that belongs to this user, and that nobody else can enter; created if it does not exist."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError as exc:
        raise Unavailable(f"folder {folder}: {exc.strerror or exc}") from exc
    if found.st_uid != os.geteuid() or found.st_mode & 0o170000 != 0o040000:
        raise Unavailable(f"folder {folder}: does not belong to you", hint="remove it, or set XDG_STATE_HOME")
    if found.st_mode & 0o077:
        os.chmod(folder, 0o700)
    return folder


def token_file(port: int) -> str:
    """The path of the token of the daemon on a port of this machine."""
    return os.path.join(private_folder(), f"{port}.token")


def token_for(host: str, port: int, environ: Mapping[str, str] = os.environ) -> str:
    """The token for a daemon: `TIEBREAK_TOKEN`, or for this machine the daemon's own file; "" if there is none."""
    given = environ.get("TIEBREAK_TOKEN", "")
    if given or host not in LOOPBACK:
        return given.strip()
    try:
        fd = os.open(token_file(port), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return ""
    try:
        return os.read(fd, 1000).decode("ascii", "replace").strip()
    finally:
        os.close(fd)


def host_and_port(text: str, what: str = "address") -> tuple[str, int]:
    """Parse `HOST:PORT`, `[IPV6]:PORT`, or a host alone, which means the default port."""
    host, mark, port = text.rpartition(":")
    if not mark or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or len(port) > 5 or int(port) > 65535 or not host.isprintable() or " " in host:
        raise Invalid(f"{what}: expected HOST:PORT, got {text!r}")
    return host, int(port)
