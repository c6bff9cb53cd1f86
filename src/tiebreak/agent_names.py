"""Default names of agents, and the session that they are derived from.

A command runs for a moment, but what it claims must belong to something that lasts. That is the *session*: the coding
agent or the shell under which the command runs. All commands of one session get the same agent id, `name~session`, and
two sessions never share one. There are two exceptions: machines that were cloned while running, and several agents in
one shell. Set `TIEBREAK_SESSION` to keep those apart. The name is two words that a person can say. Two sessions rarely
share the words, and never the id (docs/decisions/032).
"""

from __future__ import annotations

import os

from .errors import TiebreakError
from .limits import MAX_LABEL
from .names import checksum
from .process_identity import DIGITS, arguments, base36, exists, look, on_this_machine, read_start, token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .process_identity import Identity, Process

_NAME = frozenset(DIGITS + "._-")
_SESSION = _NAME | frozenset(DIGITS.upper())
_MAX_FAMILY = 50
_MAX_LOGIN = 20
_MADE = 10
"""Digits at the end of a name that was made: at least so many."""
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
    """The process that identifies this session: the same one for all commands of one shell or agent.

    1. The nearest ancestor that is a known agent client. Clients run each command in a shell of its
       own, often in a session of its own, so nothing below them is stable. An editor counts only
       without a terminal: its terminal tabs are shells like any other.
    2. Otherwise the session leader: the shell of a terminal, pane or login, or the top of a cron job.
    3. If the leader is dead, hidden, or the container's first process: the topmost ancestor in this
       session. If there is none: the parent, unless it is an init process, which adopts orphans.
    4. If this process leads its session (`setsid tb …`): the parent, with the same exception.

    It is determined once per process, so that it cannot change later.
    """
    return _session_process()[0]


def default_agent(environ: Mapping[str, str], known: tuple[str, str] = ("", "")) -> str:
    """The name of an agent without a given name: two words such as `brave-otter`, always the same for one session.

    `known` is the client and the client's own id for the session, if the caller knows them.
    """
    from .agent_words import two_words

    given = environ.get("TIEBREAK_SESSION")
    # The login belongs to it: two people may choose the same short session id, and must not become one agent.
    source = f"{_login(environ)}-{given}" if given else incarnation(environ, known)
    number = checksum(source.encode("utf-8", "surrogatepass"))
    return two_words(number >> 32 ^ number)  # the lower digits of a checksum alone differ too little


def former_agent(agent: str, holder: str) -> str | None:
    """The id that version 0.1 gave to this session, if `holder` is its name and `agent` has a default name now.

    A session that was at work during the upgrade can so finish what it began under the old name.
    """
    from .agent_words import are_two_words

    name, _, session = agent.partition("~")
    if not are_two_words(name) or not session:
        return None
    endings = [session, _digest(session)]
    if set(session) <= set(DIGITS):
        endings.append(_spread_digits(session))
    prefix, mark, ending = holder.rpartition("-")
    return f"{holder}~{session}" if prefix and mark and ending in endings else None


def _spread_digits(text: str) -> str:
    """A token as version 0.1 had it in its names: multiplied, so that all its digits differ from one to the next."""
    size = len(text)
    return base36(int(text, 36) * 0x9E3779B97F4A7C15 % 36**size).rjust(size, "0")


def incarnation(environ: Mapping[str, str], known: tuple[str, str] = ("", "")) -> str:
    """The session part of an agent's id: `TIEBREAK_SESSION`, or the client's session, or `session()`."""
    given = environ.get("TIEBREAK_SESSION")
    if given:
        return _checked(given)
    client, value = known if known[1] else _client_session(environ)
    return _digest(f"{client}={value}") if value else token(session())


def in_client(environ: Mapping[str, str]) -> bool:
    """Whether an agent client runs this command, and not a person at a shell."""
    return bool(_client_session(environ)[1] or _session_process()[1])


def client_name() -> str:
    """The name of the agent client that runs this process; "" if there is none."""
    return _session_process()[1]


def own_client(agent: str, environ: Mapping[str, str]) -> tuple[Identity, str] | None:
    """The client that is this agent itself, as its process and its name; None if there is none.

    The agent's session must have been derived from that client. If somebody gave it (`TIEBREAK_AGENT`,
    `TIEBREAK_SESSION`), other processes act as the same agent, and the end of this client does not end it.
    """
    who, name = _session_process()
    client, value = _client_session(environ)
    own = token(who) if not value else _digest(f"{client}={value}") if client == name else ""
    return (who, name) if name and agent.partition("~")[2] == own else None


def within(agent: str, part: str) -> str:
    """The id of a sub-agent: an agent of its own, whose id shows that it belongs to `agent`."""
    name, _, session = agent.partition("~")
    made = _digest(part)
    return f"{name[:_MAX_FAMILY]}.{made[-4:]}~{session[:_MAX_FAMILY]}.{made}"


def same_family(agent: str, other: str) -> bool:
    """Whether two agents are the same, or one is a sub-agent of the other."""
    one, two = agent.partition("~")[2], other.partition("~")[2]
    below = two.startswith(f"{one[:_MAX_FAMILY]}.") or one.startswith(f"{two[:_MAX_FAMILY]}.")
    return agent == other or (below and bool(one and two))


def same_person(agent: str, other: str) -> bool:
    """Whether two agents may be the same person or program in two sessions.

    They have the same name, or nobody named either of them: a new terminal gets two new words.
    """
    one, two = agent.partition("~")[0], other.partition("~")[0]
    return one == two or (_is_made(one) and _is_made(two))


def _is_made(name: str) -> bool:
    """Whether a name was made by `default_agent`, or by version 0.1, which put a login and digits together."""
    from .agent_words import are_two_words

    ending = name.rpartition("-")[2]
    return are_two_words(name) or (len(ending) >= _MADE and frozenset(DIGITS).issuperset(ending))


def _checked(given: str) -> str:
    if len(given) > MAX_LABEL or not _SESSION.issuperset(given):
        from .errors import Invalid

        raise Invalid(
            f"TIEBREAK_SESSION: letters, digits and ._- only, at most {MAX_LABEL}, got {given[:80]!a}",
            hint="choose a short identifier, or unset it",
        )
    return given


def _client_session(environ: Mapping[str, str]) -> tuple[str, str]:
    """The client's name and its own id for the session; empty if no variable can be trusted.

    Environments are inherited: a client that another client started has the other's variable too,
    and must not use the other's name.
    """
    for variable, client in _CLIENT_VARIABLES:
        value = environ.get(variable)
        if value and _session_process()[1] in ("", client, *_EDITORS):
            return client, value
    # A Codex passes this one on to a Codex that it starts, so it counts only if no client process is found.
    thread = environ.get("CODEX_THREAD_ID")
    return ("codex", thread) if thread and not _session_process()[1] else _stored_session()


def store_session(client: str, value: str) -> None:
    """Store the session id of this client, so that its other processes find it.

    Some clients give a session id to their hooks, but not to the shells and servers that they start.
    """
    who, found = _session_process()
    if found == client and client not in _EDITORS:  # an editor has several sessions at once
        from .files import replace_file

        replace_file(_stored_session_path(who), value.encode())


def _stored_session() -> tuple[str, str]:
    who, client = _session_process()
    if not client or client in _EDITORS:
        return "", ""
    try:
        value = read_start(_stored_session_path(who)).decode("utf-8", "replace")
    except TiebreakError:  # there is no private folder, so nothing is stored there
        value = ""
    return (client, value) if value else ("", "")


def _stored_session_path(who: Identity) -> str:
    from .user_folders import private_folder

    return os.path.join(private_folder(), f"{token(who)}.session")


def _digest(value: str) -> str:
    """A stable short name for any text: ten digits, 51 bits. It need not resist forgery, because it proves nothing."""
    return base36(checksum(value.encode("utf-8", "surrogatepass")) % 36**10).rjust(10, "0")


def _login(environ: Mapping[str, str]) -> str:
    given = (environ.get("LOGNAME") or environ.get("USER") or "").lower()
    clean = "".join(c if c in _NAME else "-" for c in given)[:_MAX_LOGIN].strip("._-")
    return clean or f"uid{os.getuid()}"


_found: dict[int, tuple[Identity, str]] = {}


def _session_process() -> tuple[Identity, str]:
    """The process that identifies the session, and the client's name if it is a client."""
    me = os.getpid()
    found = _found.get(me)
    if found is None:  # a forked child looks again
        pid, started, client = _find_session_process(me)
        found = _found[me] = on_this_machine(pid, started), client
    return found


def _find_session_process(me: int) -> tuple[int, int, str]:
    ancestors: list[Process] = []
    for process in _ancestors():
        client = _client(process)
        if client and not (client in _EDITORS and _has_terminal(me)):
            return process.pid, process.started, client
        ancestors.append(process)
    pid, started = _shell_process(me, ancestors)
    return pid, started, ""


def _shell_process(me: int, ancestors: list[Process]) -> tuple[int, int]:
    """The pid and start time of the process that identifies the session if there is no client."""
    leader = os.getsid(0)
    has_leader = leader not in (0, 1, me)
    process = look(leader) if has_leader else None
    if process and not process.dead:
        return leader, process.started
    below = [p for p in ancestors if p.session == leader and p.pid > 1]
    if below:
        return below[-1].pid, below[-1].started
    if has_leader and process is None and exists(leader):
        return leader, 0
    # All orphans have the same parent. A session without a leader may have the container's shell as parent.
    if not has_leader and ancestors and ancestors[0].name not in _ADOPTERS and (ancestors[0].pid > 1 or leader != me):
        return ancestors[0].pid, ancestors[0].started
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
    """The name of the agent client that this process is; "" if it is none."""
    name = process.name.lower()
    if name in _CLIENTS:
        return name
    # The file of a client may be named after its version; its arguments then have the name of the command.
    if name in _RUNTIMES or name.startswith("python") or name[:1].isdigit():
        return _client_in_arguments(arguments(process.pid))
    return ""


def _client_in_arguments(arguments: list[str]) -> str:
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
