"""What an agent is called that nobody named, and which process stands for its session.

Commands come and go, but what they claim must belong to something that stays. That is the *session*: the coding agent
or the shell below which the command runs. All commands of one session get the same agent name and the same session
id, and two sessions never share them. Machines that are cloned while they run share everything that this is derived
from; they are told apart by `TIEBREAK_SESSION`, as are several agents in one shell.
"""

from __future__ import annotations

import os

from .errors import TiebreakError
from .names import checksum
from .process_identity import DIGITS, arguments, base36, exists, look, on_this_machine, read_start, token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .process_identity import Identity, Process

_NAME = frozenset(DIGITS + "._-")
_SESSION = _NAME | frozenset(DIGITS.upper())
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
    return base36(int(text, 36) * 0x9E3779B97F4A7C15 % 36**size).rjust(size, "0")


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
        place = _introduction(who)
        with open(f"{place}.{os.getpid()}", "w", encoding="utf-8", opener=_privately) as file:
            file.write(value)
        os.replace(f"{place}.{os.getpid()}", place)


def _introduced() -> tuple[str, str]:
    who, client = _anchor()
    if not client or client in _EDITORS:
        return "", ""
    try:
        value = read_start(_introduction(who)).decode("utf-8", "replace")
    except TiebreakError:  # no folder of our own: then nothing was left there either
        value = ""
    return (client, value) if value else ("", "")


def _introduction(who: Identity) -> str:
    from .user_folders import private_folder

    return os.path.join(private_folder(), f"{token(who)}.session")


def _privately(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _digest(value: str) -> str:
    """A stable name for any text: ten digits, 51 bits. It proves nothing, so it need not resist forgery."""
    return base36(checksum(value.encode("utf-8", "surrogatepass")) % 36**10).rjust(10, "0")


def _login(environ: Mapping[str, str]) -> str:
    given = (environ.get("LOGNAME") or environ.get("USER") or "").lower()
    clean = "".join(c if c in _NAME else "-" for c in given)[:_MAX_LOGIN].strip("._-")
    return clean or f"uid{os.getuid()}"


_found: dict[int, tuple[Identity, str]] = {}


def _anchor() -> tuple[Identity, str]:
    """The session's process, and the client's name if it is one."""
    me = os.getpid()
    found = _found.get(me)
    if found is None:  # a forked child asks anew
        pid, started, client = _find_anchor(me)
        found = _found[me] = on_this_machine(pid, started), client
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
    if led and process is None and exists(leader):
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
        return _called(arguments(process.pid))
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
