"""Where a daemon and its clients meet: the user's own folder for sockets and tokens.

The folder is 0700 and belongs to the user, or nothing in it is trusted. A token is in a file named after the
port, made anew with each start of a daemon, so what a stranger may have learned while posing as a daemon on that
port is worth nothing once the real one is back.
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


def state_folder(environ: Mapping[str, str] = os.environ) -> str:
    """The user's folder for what tiebreak keeps; made if it does not exist."""
    state = environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    folder = os.path.join(state, "tiebreak")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as exc:
        raise Unavailable(f"board folder {folder}: {exc.strerror or exc}") from exc
    return folder


def private_folder() -> str:
    """The folder for sockets and tokens, which nobody else can enter."""
    return _private(os.path.join(state_folder(), "run"))


def socket_for(board: str) -> str:
    """Where the daemon of a board listens, for who is on the same machine and the same user."""
    stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in os.path.basename(board).partition(".")[0])[:20]
    name = f"{stem or 'board'}-{checksum(board.encode()):016x}.sock"
    path = os.path.join(private_folder(), name)
    if len(os.fsencode(path)) <= LONGEST_SOCKET:
        return path
    return os.path.join(_private(f"/tmp/tiebreak-{os.geteuid()}"), name)  # noqa: S108  (checked to be ours)


def _private(folder: str) -> str:
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
    """Where the daemon on a port of this machine leaves its token for its own user."""
    return os.path.join(private_folder(), f"{port}.token")


def token_for(host: str, port: int, environ: Mapping[str, str] = os.environ) -> str:
    """What to show to the daemon there: `TIEBREAK_TOKEN`, or on this machine the file that it left; "" if none."""
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
    """`HOST:PORT`, `[IPV6]:PORT`, or a host alone for the usual port."""
    host, mark, port = text.rpartition(":")
    if not mark or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or len(port) > 5 or int(port) > 65535 or not host.isprintable() or " " in host:
        raise Invalid(f"{what}: expected HOST:PORT, got {text!r}")
    return host, int(port)
