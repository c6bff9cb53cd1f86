"""Which process acts, whether it still lives, and which one stands for its session.

A process id alone names nobody: it is used again after a death, after a reboot and in every
container. So a process is known by its host, its boot (with the pid namespace), its pid and its
start time, and nobody else ever has all four. `alive` answers from the kernel's own records or says
that it cannot know; it never declares a live process dead.

Commands come and go, but what they claim must belong to something that stays. That is the *session*:
the coding agent or the shell below which the command runs. Machines that are cloned while they run
share all of this; they are told apart by `TIEBREAK_SESSION`, as are several agents in one shell.
"""

from __future__ import annotations

import os
import sys

from .errors import TiebreakError
from .names import checksum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MACOS = sys.platform == "darwin"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_NAME = frozenset(_DIGITS + "._-")
_SESSION = _NAME | frozenset(_DIGITS.upper())
_MAX_SESSION = 64
_MAX_FAMILY = 50
_MAX_LOGIN = 20
_MAX_DEPTH = 64

_CLIENTS = frozenset(
    ("claude", "codex", "cursor-agent", "cursor", "gemini", "gptme", "aider", "opencode", "goose", "amp")
)
_EDITORS = ("cursor",)
_RUNTIMES = ("node", "bun", "deno", "mainthread", "node-mainthread")  # newer Node names its main thread
_CODE_FLAGS = ("-c", "-e", "-p", "--eval", "--print")
_ADOPTERS = ("systemd", "init", "tini", "dumb-init", "docker-init")

_CLIENT_VARIABLES = (
    ("CLAUDE_SESSION_ID", "claude"),
    ("CLAUDE_CODE_SESSION_ID", "claude"),
    ("CODEX_SESSION_ID", "codex"),
    ("GEMINI_SESSION_ID", "gemini"),
)

_FIRST_PID_NAMESPACE = "4026531836"  # fixed by the kernel (PROC_PID_INIT_INO), the same at every boot
_FIRST_TIME_NAMESPACE = "4026531834"
_NO_NAMESPACES = "0"
_NAMELESS_HOSTS = ("", "(none)", "localhost", "localhost.localdomain")

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_PS_COLUMNS = "stat=,ppid=,tty=,lstart=,comm="


class Identity(tuple[str, str, int, int]):
    """One process, as nobody else is it: `(host, boot, pid, started)`."""

    __slots__ = ()

    def __new__(cls, host: str, boot: str, pid: int, started: int) -> Identity:
        """Put the four together; `identity` finds them out."""
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
    return Identity(_host(), _boot(), pid, process.started if process else 0)


def alive(who: Identity) -> bool | None:
    """Whether that very process lives: True, False, or None where this process cannot know.

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


def session() -> Identity:
    """The process that stands for this session; the same for all commands of one shell or agent.

    1. The nearest ancestor that is a known agent client. Clients run each command in a shell of its
       own, often in a session of its own, so nothing below them is stable. An editor counts only
       without a terminal: its terminal tabs are shells like any other.
    2. Else the session leader: the shell of a terminal, pane or login; the top of a cron job.
    3. If the leader is dead, hidden, or the container's first process: the topmost ancestor in this
       session; failing that the parent, unless it merely adopts orphans.
    4. If this process leads its session (`setsid tb …`): the parent, on the same condition.

    It is found once per process, so that it cannot change between two questions.
    """
    return _anchor()[0]


def token(who: Identity) -> str:
    """The incarnation as short text, for `name~session`: 12 to 20 of `[a-z0-9]`.

    Seven digits for host and boot, then pid and start time. The pid comes with its length, so two
    processes of one boot never share a token.
    """
    place = checksum(f"{who.host}\0{who.boot}".encode("utf-8", "surrogatepass")) % 36**7
    pid = _base36(who.pid)
    return _base36(place).rjust(7, "0") + _base36(len(pid)) + pid + _base36(who.started)


def from_token(text: str) -> Identity | None:
    """The process behind a token that was made on this host during this boot; None for any other text."""
    host, boot = _host(), _boot()
    place = token(Identity(host, boot, 0, 0))[:7]
    size = _DIGITS.find(text[7:8])
    pid, started = text[8 : 8 + size], text[8 + size :]
    if not text.startswith(place) or size < 1 or len(pid) < size or not started:
        return None
    try:
        return Identity(host, boot, int(pid, 36), int(started, 36))
    except ValueError:
        return None


def default_agent(environ: Mapping[str, str], known: tuple[str, str] = ("", "")) -> str:
    """The name of an agent that was given none: `claude-…` or `login-…`, one for each session.

    `known`: the client and its own id for the session, for a caller whom the client has told.
    """
    given = environ.get("TIEBREAK_SESSION")
    if given:
        return f"{_login(environ)}-{_digest(given)}"
    client, value = known if known[1] else _client_session(environ)
    if value:
        return f"{client}-{_digest(f'{client}={value}')}"
    who, client = _anchor()
    return f"{client or _login(environ)}-{_scattered(token(who))}"


def _scattered(text: str) -> str:
    """A token in another spelling, so that people can tell two apart at a glance; never two tokens in one.

    Tokens of one machine differ in a digit or two in the middle. Multiplying by a number without a factor of 36 moves
    every digit and can be undone, so nothing is lost.
    """
    size = len(text)
    return _base36(int(text, 36) * 0x9E3779B97F4A7C15 % 36**size).rjust(size, "0")


def incarnation(environ: Mapping[str, str], known: tuple[str, str] = ("", "")) -> str:
    """The session part of an agent's id: `TIEBREAK_SESSION`, else the client's session, else `session()`."""
    given = environ.get("TIEBREAK_SESSION")
    if given:
        return _checked(given)
    client, value = known if known[1] else _client_session(environ)
    return _digest(f"{client}={value}") if value else token(session())


def in_client(environ: Mapping[str, str]) -> bool:
    """Whether an agent client is at work here, and not a person at a shell."""
    return bool(_client_session(environ)[1] or _anchor()[1])


def within(agent: str, part: str) -> str:
    """The id of a part of an agent (a sub-agent): an agent of its own, and by its id under that one."""
    name, _, session = agent.partition("~")
    made = _digest(part)
    return f"{name[:_MAX_FAMILY]}.{made[-4:]}~{session[:_MAX_FAMILY]}.{made}"


def same_family(agent: str, other: str) -> bool:
    """Whether two agents are one, or one is a part of the other."""
    one, two = agent.partition("~")[2], other.partition("~")[2]
    below = two.startswith(f"{one[:_MAX_FAMILY]}.") or one.startswith(f"{two[:_MAX_FAMILY]}.")
    return agent == other or (below and bool(one and two))


# ------------------------------------------------------------------------------- names of sessions


def _checked(given: str) -> str:
    if len(given) > _MAX_SESSION or not _SESSION.issuperset(given):
        from .errors import Invalid

        raise Invalid(
            f"TIEBREAK_SESSION: letters, digits and ._- only, at most {_MAX_SESSION}, got {given[:80]!a}",
            hint="choose a short identifier, or unset it",
        )
    return given


def _client_session(environ: Mapping[str, str]) -> tuple[str, str]:
    """The client's name and its own id for the session; empty when no variable can be trusted.

    An environment is inherited: a client that another one started carries the other's variable too,
    and must not act as the other.
    """
    for variable, client in _CLIENT_VARIABLES:
        value = environ.get(variable)
        if value and _anchor()[1] in ("", client, *_EDITORS):
            return client, value
    # Codex leaves this one as it is for a Codex that it starts, so any client in sight is better.
    thread = environ.get("CODEX_THREAD_ID")
    return ("codex", thread) if thread and not _anchor()[1] else _introduced()


def introduce(client: str, value: str) -> None:
    """Leave word, for the other processes of this client, of the session that it told one of them about.

    Some clients tell their hooks a session's id and keep it from the shells and servers that they start.
    """
    who, found = _anchor()
    if found == client and client not in _EDITORS:  # an editor has several sessions at once
        from .files import replace_file

        replace_file(_introduction(who), value.encode())


def _introduced() -> tuple[str, str]:
    who, client = _anchor()
    if not client or client in _EDITORS:
        return "", ""
    try:
        value = _read(_introduction(who)).decode("utf-8", "replace")
    except TiebreakError:  # no folder of our own: then nothing was left there either
        value = ""
    return (client, value) if value else ("", "")


def _introduction(who: Identity) -> str:
    from .rendezvous import private_folder

    return os.path.join(private_folder(), f"{token(who)}.session")


def _digest(value: str) -> str:
    """A stable name for any text: ten digits, 51 bits. It proves nothing, so it need not resist forgery."""
    return _base36(checksum(value.encode("utf-8", "surrogatepass")) % 36**10).rjust(10, "0")


def _login(environ: Mapping[str, str]) -> str:
    given = (environ.get("LOGNAME") or environ.get("USER") or "").lower()
    clean = "".join(c if c in _NAME else "-" for c in given)[:_MAX_LOGIN].strip("._-")
    return clean or f"uid{os.getuid()}"


def _base36(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if number <= 0:
            return digits


# --------------------------------------------------------------------------------- life and death


def _host() -> str:
    return os.uname().nodename


def _boot() -> str:
    """This boot and pid namespace; without its second part where that cannot be read."""
    if _MACOS:
        # Not kern.boottime: setting the clock moves it, and every live process would seem dead.
        return f"{_run('/usr/sbin/sysctl', '-n', 'kern.bootsessionuuid')[:8].lower()}.{_NO_NAMESPACES}"
    boot = _read("/proc/sys/kernel/random/boot_id")[:8].decode("ascii", "replace")
    namespace = _namespace("pid")
    clock = _namespace("time")
    # Start times are shown shifted in another time namespace: its processes cannot be compared.
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
    return namespace in (_FIRST_PID_NAMESPACE, _NO_NAMESPACES) and _host() not in _NAMELESS_HOSTS


def _runs(pid: int, started: int) -> bool | None:
    exists = _exists(pid)
    if not exists:
        return exists
    process = look(pid)
    if process is None:  # there, but hidden from us
        return True if started else None
    if process.dead:
        return False
    return process.started == started if process.started and started else None


def _exists(pid: int) -> bool | None:
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


# ------------------------------------------------------------------------------------- the anchor


_found: dict[int, tuple[Identity, str]] = {}


def _anchor() -> tuple[Identity, str]:
    """The session's process, and the client's name if it is one."""
    me = os.getpid()
    found = _found.get(me)
    if found is None:  # a forked child asks anew
        pid, started, client = _find_anchor(me)
        found = _found[me] = Identity(_host(), _boot(), pid, started), client
    return found


def _find_anchor(me: int) -> tuple[int, int, str]:
    line: list[Process] = []
    for process in _ancestors():
        client = _client(process)
        if client and not (client in _EDITORS and _has_terminal(me)):
            return process.pid, process.started, client
        line.append(process)
    pid, started = _shell(me, line)
    return pid, started, ""


def _shell(me: int, line: list[Process]) -> tuple[int, int]:
    """Pid and start time of what stands for the session when no client does."""
    leader = os.getsid(0)
    led = leader not in (0, 1, me)
    process = look(leader) if led else None
    if process and not process.dead:
        return leader, process.started
    below = [p for p in line if p.session == leader and p.pid > 1]
    if below:
        return below[-1].pid, below[-1].started
    if led and process is None and _exists(leader):
        return leader, 0
    # An orphan's parent is shared by all orphans; an unled session's may be the container's shell.
    if not led and line and line[0].name not in _ADOPTERS and (line[0].pid > 1 or leader != me):
        return line[0].pid, line[0].started
    process = look(me)
    return me, process.started if process else 0


def _ancestors() -> Iterator[Process]:
    pid = os.getppid()
    for _ in range(_MAX_DEPTH):
        process = look(pid) if pid > 0 else None
        if process is None:
            return
        yield process
        pid = process.parent


def _client(process: Process) -> str:
    """The agent client that this process is, or ""."""
    name = process.name.lower()
    if name in _CLIENTS:
        return name
    # A client's file may be named after its version; what it was called as stands in its arguments.
    if name in _RUNTIMES or name.startswith("python") or name[:1].isdigit():
        return _called(_arguments(process.pid))
    return ""


def _called(arguments: list[str]) -> str:
    """The client in `claude …`, `node --flag /usr/bin/gemini …` or `python -m aider …`, or ""."""
    for position, argument in enumerate(arguments):
        name = argument.rpartition("/")[2].lower()
        if name in _CLIENTS:
            return name
        if argument in _CODE_FLAGS:
            return ""
        if position and argument != "run" and not argument.startswith("-"):
            return ""
    return ""


def _has_terminal(me: int) -> bool:
    process = look(me)
    return bool(process and process.terminal)


# ----------------------------------------------------------------------------- the kernel's records


class Process:
    """What the kernel tells about a process."""

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
    """A process of this machine, a zombie too; None if it is gone or hidden."""
    if _MACOS:
        return _parse_ps(pid, _run("/bin/ps", "-o", _PS_COLUMNS, "-p", str(pid)))
    # A /proc that was mounted for another pid namespace shows other processes under our numbers.
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return None
    except OSError:
        return None
    return _parse_stat(pid, _read(f"/proc/{pid}/stat"))


def table() -> dict[int, Process]:
    """Every process of this machine that can be seen from here, zombies too.

    Raises an `OSError` when this process is too short of descriptors or memory to look: nothing seen would then be
    taken for nothing there.
    """
    if _MACOS:
        listed = (line.split(None, 1) for line in _run("/bin/ps", "-axo", f"pid=,{_PS_COLUMNS}").splitlines())
        found = [_parse_ps(int(words[0]), words[1]) for words in listed if len(words) == 2]
    else:
        pids = [int(name) for name in _pids()]
        found = [_parse_stat(pid, _read_if_able(f"/proc/{pid}/stat")) for pid in pids]
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
    """The variables that a process was started with; none if it is gone, None where they cannot be read.

    Raises an `OSError` when this process is too short of something to look, as `table` does.
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
    """The control group of a process; "" for the topmost one, and where there are none."""
    for line in _read_if_able(f"/proc/{pid}/cgroup").decode("utf-8", "replace").splitlines():
        number, kind, path = line.split(":", 2)
        if (number == "0" or kind == "name=systemd") and path != "/":
            return path
    return ""


def is_shortage(problem: OSError) -> bool:
    """Whether this process, or the machine, has no more descriptors, processes or memory to give."""
    from errno import EAGAIN, EMFILE, ENFILE, ENOMEM

    return problem.errno in (EMFILE, ENFILE, EAGAIN, ENOMEM)


def _parse_stat(pid: int, line: bytes) -> Process | None:
    head, _, tail = line.rpartition(b")")  # the name may contain anything, also ") ("
    fields = tail.split()
    if len(fields) < 20:
        return None
    # A main thread that has ended shows as a zombie while the others run on.
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
    """A moment as a number that no other moment has; not Unix time, which would need more imports."""
    hours, minutes, seconds = clock.split(":")
    days = ((int(year) - 2000) * 12 + _MONTHS.index(month)) * 31 + int(day) - 1
    return ((days * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)


def _arguments(pid: int) -> list[str]:
    if _MACOS:
        return _run("/bin/ps", "-o", "args=", "-p", str(pid)).split()
    return _read(f"/proc/{pid}/cmdline").decode("utf-8", "replace").rstrip("\0").split("\0")


def _read(path: str) -> bytes:
    """The beginning of a small file of the kernel, or nothing."""
    try:
        return _read_all(path, 4096)
    except OSError:  # it may have died between the two calls
        return b""


def _read_if_able(path: str) -> bytes:
    """The same, but an `OSError` when this process is too short of something to read at all."""
    try:
        return _read_all(path, 4096)
    except OSError as exc:
        if is_shortage(exc):
            raise
        return b""


def _read_all(path: str, most: int = 0) -> bytes:
    """A file of the kernel, or so many bytes of it."""
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
        # The start time must read the same whatever the caller's language and time zone.
        done = subprocess.run(command, env={"LC_ALL": "C", "TZ": "UTC0"}, capture_output=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")
