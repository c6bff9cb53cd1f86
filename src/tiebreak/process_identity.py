"""The identity of a process, and whether that process still lives.

A process id alone identifies nothing: the same number is used again after the process has ended,
after a reboot and in every container. So a process is identified by its host, its boot (with the pid
namespace), its pid and its start time. No two processes ever have all four in common. `alive` answers
from the kernel's records or says that it cannot know; it never calls a live process dead.
"""

from __future__ import annotations

import os
import sys

from .names import checksum

_MACOS = sys.platform == "darwin"
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


_FIRST_PID_NAMESPACE = "4026531836"  # fixed by the kernel (PROC_PID_INIT_INO), the same at every boot
_FIRST_TIME_NAMESPACE = "4026531834"
_NO_NAMESPACES = "0"
NAMELESS_HOSTS = ("", "(none)", "localhost", "localhost.localdomain")
"""Host names that any machine can have."""

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_PS_COLUMNS = "stat=,ppid=,tty=,lstart=,comm="


class Identity(tuple[str, str, int, int]):
    """What identifies one process: `(host, boot, pid, started)`."""

    __slots__ = ()

    def __new__(cls, host: str, boot: str, pid: int, started: int) -> Identity:
        """Make an identity of known values; `identity` finds them for a process."""
        return super().__new__(cls, (host, boot, pid, started))

    @property
    def host(self) -> str:
        """The machine's name."""
        return self[0]

    @property
    def boot(self) -> str:
        """The boot and the namespace in which the pid counts: `5f0c1d2e.4026531836`."""
        return self[1]

    @property
    def pid(self) -> int:
        """The process id."""
        return self[2]

    @property
    def started(self) -> int:
        """When it started: clock ticks since boot (macOS: seconds by the calendar); 0 if unknown."""
        return self[3]

    def __repr__(self) -> str:
        return f"Identity(host={self[0]!r}, boot={self[1]!r}, pid={self[2]}, started={self[3]})"


def identity(pid: int | None = None) -> Identity:
    """The identity of a process on this machine; without a pid, of this one."""
    pid = os.getpid() if pid is None else pid
    process = look(pid)
    return on_this_machine(pid, process.started if process else 0)


def on_this_machine(pid: int, started: int) -> Identity:
    """The identity of a process of this machine and boot whose start time is known."""
    return Identity(_host(), _boot(), pid, started)


def alive(who: Identity) -> bool | None:
    """Whether that very process lives: True, False, or None if it cannot be known here.

    False needs proof: the pid is gone, belongs to a later process or is a zombie, or the machine has
    booted since. Another host or another pid namespace gives None.
    """
    if who.host != _host() or who.pid < 1:
        return None
    boot, _, namespace = who.boot.partition(".")
    boot_here, _, namespace_here = _boot().partition(".")
    if not (boot and boot_here and namespace) or namespace != namespace_here:
        return None
    if boot != boot_here:
        return False if _rebooted(namespace) else None
    return _runs(who.pid, who.started)


def is_dead(who: Identity | None) -> bool:
    """Whether that very process has ended, by proof; False for a process that nobody named, or that cannot be seen."""
    return who is not None and alive(who) is False


def token(who: Identity) -> str:
    """An identity as short text, for `name~session`: 10 to 20 characters of `[a-z0-9]`.

    Seven digits for host and boot, then pid and start time. The pid comes with its length, so two
    processes of one boot never share a token.
    """
    place = checksum(f"{who.host}\0{who.boot}".encode("utf-8", "surrogatepass")) % 36**7
    pid = base36(who.pid)
    return base36(place).rjust(7, "0") + base36(len(pid)) + pid + base36(who.started)


def from_token(text: str) -> Identity | None:
    """The process behind a token that was made on this host during this boot; None for any other text."""
    host, boot = _host(), _boot()
    place = token(Identity(host, boot, 0, 0))[:7]
    size = DIGITS.find(text[7:8])
    pid, started = text[8 : 8 + size], text[8 + size :]
    if not text.startswith(place) or size < 1 or len(pid) < size or not started:
        return None
    try:
        return Identity(host, boot, int(pid, 36), int(started, 36))
    except ValueError:
        return None


def base36(number: int) -> str:
    """A number in the digits 0-9 and a-z."""
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = DIGITS[digit] + digits
        if number <= 0:
            return digits


# --------------------------------------------------------------------------------- life and death


def _host() -> str:
    return os.uname().nodename


def _boot() -> str:
    """This boot and pid namespace; without the namespace if it cannot be read."""
    if _MACOS:
        # Not kern.boottime: setting the clock moves it, and every live process would seem dead.
        return f"{_run('/usr/sbin/sysctl', '-n', 'kern.bootsessionuuid')[:8].lower()}.{_NO_NAMESPACES}"
    boot = read_start("/proc/sys/kernel/random/boot_id")[:8].decode("ascii", "replace")
    namespace = _namespace("pid")
    clock = _namespace("time")
    # In another time namespace the kernel shifts start times, so processes there cannot be compared with those here.
    if namespace and clock not in ("", _FIRST_TIME_NAMESPACE):
        namespace += "-" + clock
    return f"{boot}.{namespace}"


def _namespace(kind: str) -> str:
    try:
        return os.readlink(f"/proc/self/ns/{kind}").partition("[")[2].rstrip("]")
    except OSError:
        return ""


def _rebooted(namespace: str) -> bool:
    """Whether another boot id under the same host name means that this machine has booted since.

    Not for a container, whose host name may be in use on another machine, and not for a name that
    any machine can have.
    """
    return namespace in (_FIRST_PID_NAMESPACE, _NO_NAMESPACES) and _host() not in NAMELESS_HOSTS


def _runs(pid: int, started: int) -> bool | None:
    known = exists(pid)
    if not known:
        return known
    process = look(pid)
    if process is None:  # there, but hidden from us
        return True if started else None
    if process.dead:
        return False
    return process.started == started if process.started and started else None


def exists(pid: int) -> bool | None:
    """Whether there is a process, or a zombie, with this pid; None for a number that is no pid."""
    # Not by looking into /proc, which may hide other users' processes.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    except OverflowError:
        return None
    return True


# ----------------------------------------------------------------------------- the kernel's records


class Process:
    """The kernel's record of a process."""

    __slots__ = ("dead", "name", "parent", "pid", "session", "started", "terminal")

    def __init__(
        self, pid: int, name: str, dead: bool, parent: int, session: int, terminal: bool, started: int
    ) -> None:
        self.pid = pid
        self.name = name
        self.dead = dead
        self.parent = parent
        self.session = session
        self.terminal = terminal
        self.started = started


def look(pid: int) -> Process | None:
    """A process of this machine, or a zombie; None if it has ended or is hidden."""
    if _MACOS:
        return _parse_ps(pid, _run("/bin/ps", "-o", _PS_COLUMNS, "-p", str(pid)))
    # A /proc that was mounted for another pid namespace shows other processes under our numbers.
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return None
    except OSError:
        return None
    return _parse_stat(pid, read_start(f"/proc/{pid}/stat"))


def table() -> dict[int, Process]:
    """Every process of this machine that this process can see, including zombies.

    Raises `OSError` if this process has no descriptors or memory left to look: an empty result would seem to mean that
    there are no processes.
    """
    if _MACOS:
        listed = (line.split(None, 1) for line in _run("/bin/ps", "-axo", f"pid=,{_PS_COLUMNS}").splitlines())
        found = [_parse_ps(int(words[0]), words[1]) for words in listed if len(words) == 2]
    else:
        pids = [int(name) for name in _pids()]
        found = [_parse_stat(pid, _read_or_shortage(f"/proc/{pid}/stat")) for pid in pids]
    return {process.pid: process for process in found if process is not None}


def _pids() -> list[str]:
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return []  # as in `look`
        return [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError as exc:
        if is_shortage(exc):
            raise
        return []


def environment(pid: int) -> dict[bytes, bytes] | None:
    """The environment that a process was started with; empty if it has ended, None if it cannot be read.

    Raises `OSError` like `table`.
    """
    if _MACOS:
        return None
    try:
        words = _read_all(f"/proc/{pid}/environ").split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return {}
    except PermissionError:
        return None
    return dict(word.split(b"=", 1) for word in words if b"=" in word)


def control_group(pid: int) -> str:
    """The control group of a process; "" for the root group, and on systems without control groups."""
    for line in _read_or_shortage(f"/proc/{pid}/cgroup").decode("utf-8", "replace").splitlines():
        number, kind, path = line.split(":", 2)
        if (number == "0" or kind == "name=systemd") and path != "/":
            return path
    return ""


def is_shortage(problem: OSError) -> bool:
    """Whether the error means that this process or machine has no descriptors, processes or memory left."""
    from errno import EAGAIN, EMFILE, ENFILE, ENOMEM

    return problem.errno in (EMFILE, ENFILE, EAGAIN, ENOMEM)


def _parse_stat(pid: int, line: bytes) -> Process | None:
    head, _, tail = line.rpartition(b")")  # the name may contain anything, also ") ("
    fields = tail.split()
    if len(fields) < 20:
        return None
    # If the main thread has ended, the process is shown as a zombie while its other threads run.
    dead = fields[0] in (b"Z", b"X", b"x") and int(fields[17]) < 2
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    return Process(pid, name, dead, int(fields[1]), int(fields[3]), fields[4] != b"0", int(fields[19]))


def _parse_ps(pid: int, line: str) -> Process | None:
    words = line.split(None, 8)
    if len(words) < 9:
        return None
    state, parent, terminal, _, month, day, clock, year, command = words
    try:
        session = os.getsid(pid)
    except OSError:
        session = 0
    try:
        started = _calendar_seconds(year, month, day, clock)
        name = command.strip().rpartition("/")[2]
        return Process(pid, name, state[0] == "Z", int(parent), session, terminal.isalnum(), started)
    except ValueError:
        return None


def _calendar_seconds(year: str, month: str, day: str, clock: str) -> int:
    """A number that is different for every time; not Unix time, which would need more imports."""
    hours, minutes, seconds = clock.split(":")
    days = ((int(year) - 2000) * 12 + _MONTHS.index(month)) * 31 + int(day) - 1
    return ((days * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)


def arguments(pid: int) -> list[str]:
    """The command line of a process, as a list."""
    if _MACOS:
        return _run("/bin/ps", "-o", "args=", "-p", str(pid)).split()
    return read_start(f"/proc/{pid}/cmdline").decode("utf-8", "replace").rstrip("\0").split("\0")


def read_start(path: str, most: int = 4096) -> bytes:
    """The first bytes of a file in /proc, or of another small file; empty if it cannot be read."""
    try:
        return _read_all(path, most)
    except OSError:  # the process may have ended meanwhile
        return b""


def _read_or_shortage(path: str) -> bytes:
    """Like `read_start`, but raises `OSError` if this process has no descriptors or memory left."""
    try:
        return _read_all(path, 4096)
    except OSError as exc:
        if is_shortage(exc):
            raise
        return b""


def _read_all(path: str, most: int = 0) -> bytes:
    """A file in /proc, or its first `most` bytes."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(fd, most or 65536)
        while not most and (more := os.read(fd, 65536)):
            data += more
        return data
    finally:
        os.close(fd)


def _run(*command: str) -> str:
    import subprocess

    try:
        # The start time must not depend on the caller's language and time zone.
        done = subprocess.run(command, env={"LC_ALL": "C", "TZ": "UTC0"}, capture_output=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")
