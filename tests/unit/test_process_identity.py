"""Identities of processes, and default names of agents: tested with real processes, shells and terminals."""

from __future__ import annotations

import contextlib
import os
import platform
import pty
import shlex
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tiebreak
from tiebreak import agent_names, process_identity
from tiebreak.agent_names import default_agent, incarnation, session
from tiebreak.agent_words import are_two_words
from tiebreak.errors import Invalid
from tiebreak.process_identity import Identity, alive, identity, token

SRC = str(Path(tiebreak.__file__).parents[1])
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc or setsid")

# What a command of a session sees. The first argument says which clients it knows, because the tests
# themselves may run below one.
PROBE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from tiebreak import agent_names
agent_names._CLIENTS = frozenset(sys.argv[2:])
print(agent_names.default_agent(os.environ), agent_names.incarnation(os.environ), agent_names.session().pid)
"""


def probe(*clients: str) -> str:
    """A shell command that prints name, incarnation and anchor."""
    return shlex.join([sys.executable, "-S", "-E", "-c", PROBE, SRC, *clients])


def client_probe(*clients: str) -> str:
    """A shell command that prints whether a client runs it."""
    code = PROBE.rpartition("print")[0] + "print(agent_names.in_client({}))"
    return shlex.join([sys.executable, "-S", "-E", "-c", code, SRC, *clients])


def fresh(command: str) -> str:
    """The command in a shell and a session of its own, as a client runs it."""
    return shlex.join(["setsid", "sh", "-c", command + "; true"])


class Shell:
    """A shell that leads a session of its own, as in a terminal, and runs one command after another."""

    def __init__(self, program: str = "/bin/sh", **env: str) -> None:
        self.process = subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={"PATH": os.environ["PATH"], "LOGNAME": "dana", **env},
        )
        self.pid = self.process.pid

    def start(self, command: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self) -> list[str]:
        assert self.process.stdout
        return self.process.stdout.readline().split()

    def run(self, command: str) -> list[str]:
        self.start(command)
        return self.answer()

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.communicate()


@pytest.fixture
def shell() -> Iterator[Callable[..., Shell]]:
    opened: list[Shell] = []

    def start(program: str = "/bin/sh", **env: str) -> Shell:
        opened.append(Shell(program, **env))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    """A process that lives until it is told otherwise."""
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, text=True) as process:
        yield process


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no client were in sight, wherever the tests run."""
    monkeypatch.setattr(agent_names, "_CLIENTS", frozenset())
    monkeypatch.setattr(agent_names, "_found", {})


def changed(who: Identity, **other: str | int) -> Identity:
    facts = {"host": who.host, "boot": who.boot, "pid": who.pid, "started": who.started, **other}
    return Identity(str(facts["host"]), str(facts["boot"]), int(facts["pid"]), int(facts["started"]))


def named(directory: Path, name: str) -> str:
    """A shell that the kernel knows under another name."""
    path = directory / name
    path.symlink_to("/bin/sh")
    return str(path)


# ------------------------------------------------------------------------------------------- life


def test_a_live_process_is_alive(child: subprocess.Popen[str]) -> None:
    assert alive(identity()) is True
    assert alive(identity(child.pid)) is True


def test_an_identity_is_a_plain_tuple_that_cannot_be_changed() -> None:
    who = identity()
    assert Identity(*who) == who
    assert hash(Identity(*who)) == hash(who)
    assert repr(Identity("desk", "a.b", 7, 9)) == "Identity(host='desk', boot='a.b', pid=7, started=9)"
    with pytest.raises(AttributeError):
        who.pid = 1  # type: ignore[misc]


def test_a_process_that_is_gone_is_dead(child: subprocess.Popen[str]) -> None:
    who = identity(child.pid)
    child.communicate()
    assert alive(who) is False
    assert identity(child.pid).started == 0


def test_a_reused_pid_is_not_the_process_that_had_it(child: subprocess.Popen[str]) -> None:
    who = identity(child.pid)
    assert alive(changed(who, started=who.started - 1)) is False
    assert alive(changed(who, started=who.started + 1)) is False


def test_a_zombie_is_dead_although_its_pid_is_taken() -> None:
    process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    who = identity(process.pid)
    assert process.stdin
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert identity(process.pid) == who
    assert alive(who) is False
    process.wait()


@linux
def test_a_process_whose_main_thread_has_ended_still_lives() -> None:
    exit_thread = {"x86_64": 60, "aarch64": 93}.get(platform.machine())
    if exit_thread is None:
        pytest.skip("the number of the exit system call is not known here")
    script = f"""
import ctypes, os, threading, time
def work():
    while b") Z " not in open(f"/proc/self/task/{{os.getpid()}}/stat", "rb").read():
        time.sleep(0.001)
    os.write(1, b"ended\\n")
    os.read(0, 1)
    os._exit(0)
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall({exit_thread}, 0)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ended\n"
        who = identity(process.pid)
        assert who.started > 0
        assert alive(who) is True
        process.communicate("x")
    assert alive(who) is False


@linux
def test_a_name_with_parentheses_and_blanks_is_not_mistaken_for_the_fields(tmp_path: Path) -> None:
    path = tmp_path / "x) Z 1 (y"
    path.write_text("#!/bin/sh\necho ready\nread line\n")
    path.chmod(0o700)
    with subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        seen = process_identity.look(process.pid)
        assert seen is not None
        assert (seen.name, seen.parent, seen.dead) == (path.name, os.getpid(), False)
        assert alive(identity(process.pid)) is True
        process.communicate("go\n")


def test_a_process_of_another_user_is_not_taken_for_dead(child: subprocess.Popen[str]) -> None:
    if os.geteuid() != 0:
        assert alive(identity(1)) is not False
        return
    who = identity(child.pid)
    reader = os.fork()
    if reader == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        os._exit(0 if alive(who) is True else 1)
    assert os.waitpid(reader, 0)[1] == 0


def test_a_process_that_is_hidden_is_not_taken_for_dead(
    child: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    who = identity(child.pid)
    monkeypatch.setattr(process_identity, "read_start", lambda path: b"" if path.endswith("stat") else real(path))
    assert alive(who) is True
    assert alive(identity(child.pid)) is None


def real(path: str) -> bytes:
    return Path(path).read_bytes()


def test_an_unknown_start_time_proves_nothing(child: subprocess.Popen[str]) -> None:
    who = changed(identity(child.pid), started=0)
    assert alive(who) is None
    child.communicate()
    assert alive(who) is False


@pytest.mark.parametrize("pid", [0, -1, 2**40])
def test_a_pid_that_names_no_single_process_proves_nothing(pid: int) -> None:
    assert alive(changed(identity(), pid=pid)) is None


def test_another_host_cannot_be_known_from_here() -> None:
    assert alive(changed(identity(), host="elsewhere")) is None


def test_another_pid_namespace_cannot_be_known_from_here() -> None:
    who = identity()
    boot = who.boot.partition(".")[0]
    for other in (f"{boot}.1", f"{boot}.", boot, "", "0a0b0c0d.1"):
        assert alive(changed(who, boot=other)) is None


@pytest.mark.parametrize(
    ("host", "namespace", "verdict"),
    [
        ("desk", "4026531836", False),
        ("localhost", "4026531836", None),
        ("worker", "4026532281", None),
    ],
    ids=["a machine", "a name that every machine can have", "a container, perhaps on two machines"],
)
def test_a_process_from_before_a_reboot_is_dead_if_it_was_this_machine(
    host: str, namespace: str, verdict: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_identity, "_host", lambda: host)
    monkeypatch.setattr(process_identity, "_boot", lambda: f"22222222.{namespace}")
    assert alive(Identity(host, f"11111111.{namespace}", os.getpid(), 1)) is verdict


def inside(*namespaces: str) -> Identity:
    """The identity that a process sees of itself inside other namespaces."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); from tiebreak import agent_names, process_identity; "
    code += "agent_names.session(); print(*process_identity.identity())"
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs unshare")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = [unshare, *user, *namespaces, "--fork", sys.executable, "-S", "-E", "-c", code, SRC]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare:" in done.stderr:
        pytest.skip(done.stderr)
    host, boot, pid, started = done.stdout.split()
    return Identity(host, boot, int(pid), int(started))


@linux
def test_a_container_on_this_very_machine_cannot_be_known_from_here() -> None:
    who = inside("--pid", "--mount-proc")
    assert who.boot.partition(".")[0] == identity().boot.partition(".")[0]
    assert who.pid == 1
    assert who.started > 0
    assert alive(who) is None


@linux
def test_a_proc_of_another_namespace_does_not_lend_its_start_times() -> None:
    assert inside("--pid").started == 0


@linux
def test_a_shifted_clock_does_not_make_a_live_process_dead() -> None:
    assert alive(changed(inside("--time", "--boottime", "1000"), pid=os.getpid())) is None


# --------------------------------------------------------------------------------------- sessions


def test_one_shell_keeps_its_name_over_many_commands(shell: Callable[..., Shell]) -> None:
    sh = shell()
    first = sh.run(probe())
    assert are_two_words(first[0])
    assert first[2] == str(sh.pid)
    assert sh.run(probe()) == first
    assert sh.run(f"echo $({probe()})") == first
    assert sh.run(shlex.join(["sh", "-c", probe() + "; true"])) == first


def test_two_shells_never_share_a_name(shell: Callable[..., Shell]) -> None:
    one, two = shell(), shell()
    assert not set(one.run(probe())) & set(two.run(probe()))


def test_two_hundred_shells_at_once_have_two_hundred_ids(shell: Callable[..., Shell]) -> None:
    shells = [shell() for _ in range(200)]
    answers = []
    for i in range(0, 200, 8):
        for each in shells[i : i + 8]:
            each.start(probe())
        answers += [each.answer() for each in shells[i : i + 8]]
    _, sessions, pids = zip(*answers, strict=True)  # of 200 names two may be the same: the session tells them apart
    assert len(set(sessions)) == len(set(pids)) == 200


def test_two_terminals_never_share_a_name() -> None:
    command = f"{probe()}; {probe()}; read line"
    terminals = [terminal("/bin/sh", command) for _ in range(2)]
    answers = []
    for _, master in terminals:
        lines = read_lines(master, 2)
        assert lines[0] == lines[1]
        answers.append(lines[0])
    for pid, master in terminals:
        os.write(master, b"\n")
        os.waitpid(pid, 0)
        os.close(master)
    assert not set(answers[0].split()) & set(answers[1].split())
    assert [answer.split()[2] for answer in answers] == [str(pid) for pid, _ in terminals]


def terminal(program: str, command: str) -> tuple[int, int]:
    """A shell that leads a terminal: its pid and the terminal's other end."""
    pid, master = pty.fork()
    if pid == 0:
        env = {"PATH": os.environ["PATH"], "LOGNAME": "dana"}
        os.execve(program, [program, "-c", command], env)
    return pid, master


def read_lines(master: int, count: int) -> list[str]:
    data = b""
    while data.count(b"\n") < count:
        data += os.read(master, 4096)
    return data.decode().splitlines()


@linux
def test_a_session_of_its_own_for_a_command_does_not_change_who_acts(shell: Callable[..., Shell]) -> None:
    sh = shell()
    assert sh.run(f"setsid {probe()}") == sh.run(probe())


@linux
def test_a_client_that_gives_each_command_a_session_keeps_its_name(shell: Callable[..., Shell], tmp_path: Path) -> None:
    claude = shell(named(tmp_path, "claude"))
    answers = [claude.run(fresh(probe("claude"))) for _ in range(3)]
    assert are_two_words(answers[0][0])
    assert answers[0][2] == str(claude.pid)
    assert answers == [answers[0]] * 3


@linux
def test_two_clients_of_one_kind_never_share_a_name(shell: Callable[..., Shell], tmp_path: Path) -> None:
    program = named(tmp_path, "claude")
    one, two = (shell(program).run(probe("claude")) for _ in range(2))
    assert not set(one) & set(two)


@linux
def test_a_client_that_a_runtime_executes_is_recognised(shell: Callable[..., Shell], tmp_path: Path) -> None:
    script = tmp_path / "gemini"
    script.write_text(2 * (fresh(probe("gemini")) + "\n"))
    sh = shell()
    sh.start(shlex.join([named(tmp_path, "node"), str(script)]))
    first, second = sh.answer(), sh.answer()
    assert are_two_words(first[0])
    assert first[2] != str(sh.pid)
    assert first == second


@pytest.mark.parametrize(
    ("arguments", "client"),
    [
        ("claude --resume", "claude"),
        ("/opt/claude/claude -p hello", "claude"),
        ("node /usr/local/bin/gemini", "gemini"),
        ("node --no-warnings=DEP0040 /usr/bin/gemini -y", "gemini"),
        ("bun run opencode", "opencode"),
        ("python3 -m aider --model x", "aider"),
        ("python3 -c claude", ""),
        ("node -e claude", ""),
        ("node server.js claude", ""),
        ("python3 -m pytest claude", ""),
        ("", ""),
    ],
)
def test_a_client_is_recognised_by_what_is_run_and_by_nothing_else(arguments: str, client: str) -> None:
    assert agent_names._client_in_arguments(arguments.split()) == client


def test_a_client_whose_file_is_named_after_its_version_is_recognised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_names, "arguments", lambda pid: ["claude", "--continue"])
    assert agent_names._client(process_identity.Process(9, "2.1.139", False, 1, 9, True, 5)) == "claude"
    assert agent_names._client(process_identity.Process(9, "bash", False, 1, 9, True, 5)) == ""


@linux
def test_terminal_tabs_of_an_editor_are_sessions_of_their_own(shell: Callable[..., Shell], tmp_path: Path) -> None:
    cursor = named(tmp_path, "cursor")
    assert shell(cursor).run(fresh(client_probe("cursor"))) == ["True"]
    pid, master = terminal(cursor, f"{client_probe('cursor')}; read line")
    assert read_lines(master, 1) == ["False"]
    os.write(master, b"\n")
    os.waitpid(pid, 0)
    os.close(master)


def test_an_orphan_keeps_its_name_after_its_session_leader_died() -> None:
    orphans = []
    for _ in range(2):
        sh = Shell()
        sh.start(f"exec 3<&0; (read go; {probe()}; read go; {probe()}; read end) <&3 & exit")
        os.waitid(os.P_PID, sh.pid, os.WEXITED | os.WNOWAIT)
        first = sh.run("go")
        sh.process.wait()  # now it is not even a zombie any more
        assert sh.run("go") == first
        assert first[2] != str(sh.pid)
        orphans.append((sh, first))
    assert not set(orphans[0][1]) & set(orphans[1][1])
    for sh, _ in orphans:
        sh.close()


@pytest.mark.parametrize(
    ("leader", "line", "anchor"),
    [
        (1, [(7, "bash", 1), (5, "entry", 1), (1, "entry", 1)], 5),
        (0, [(7, "bash", 0), (1, "sh", 0)], 7),
        (1, [(1, "bash", 1)], 1),
        (1, [(1, "tini", 1)], 50),
        (50, [(7, "agent", 7), (1, "init", 1)], 7),
        (50, [(9, "systemd", 9), (1, "systemd", 1)], 50),
        (50, [(1, "bash", 1)], 50),
        (50, [], 50),
        (40, [(9, "systemd", 9)], 50),
    ],
    ids=[
        "the container's first process leads: the topmost below it",
        "the leader is outside of the container: the topmost inside",
        "the container's first process is the shell",
        "the container's first process only adopts",
        "setsid: the parent",
        "setsid, orphaned to a service manager that has many orphans",
        "setsid, orphaned to the first process",
        "nothing can be seen",
        "the leader is dead and the parent is of another session",
    ],
)
def test_sessions_without_a_usable_leader(
    leader: int, line: list[tuple[int, str, int]], anchor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getsid", lambda pid: leader)
    monkeypatch.setattr(agent_names, "look", lambda pid: None)
    monkeypatch.setattr(agent_names, "exists", lambda pid: False)
    seen = [process_identity.Process(pid, name, False, 1, sid, False, 5) for pid, name, sid in line]
    assert agent_names._shell_process(50, seen)[0] == anchor


def test_a_hidden_leader_still_stands_for_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getsid", lambda pid: 40)
    monkeypatch.setattr(agent_names, "look", lambda pid: None)
    monkeypatch.setattr(agent_names, "exists", lambda pid: True)
    assert agent_names._shell_process(50, []) == (40, 0)


@linux
def test_finding_the_session_reads_little_and_only_once(monkeypatch: pytest.MonkeyPatch, alone: None) -> None:
    ancestors = len(list(agent_names._ancestors()))
    reads: list[str] = []

    def counted(path: str) -> bytes:
        reads.append(path)
        return real(path)

    monkeypatch.setattr(process_identity, "read_start", counted)
    session()
    assert 1 <= len(reads) <= 2 * ancestors + 3
    reads.clear()
    default_agent({})
    incarnation({})
    assert reads == []


def test_a_forked_child_asks_anew(alone: None) -> None:
    session()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os._exit(0 if session().pid == os.getppid() else 1)
    assert os.waitpid(pid, 0)[1] == 0


# ------------------------------------------------------------------------------------------ tokens

pids = st.integers(1, 2**31 - 1) | st.integers(1, 40)
starts = st.integers(0, 2**48) | st.integers(0, 40)


@given(st.tuples(pids, starts), st.tuples(pids, starts))
def test_two_processes_of_one_boot_never_share_a_token(one: tuple[int, int], two: tuple[int, int]) -> None:
    first, second = (token(Identity("desk", "5f0c1d2e.4026531836", *each)) for each in (one, two))
    assert (first == second) == (one == two)


@given(st.text(), st.text(), pids, starts)
def test_a_token_is_short_and_fits_into_an_agent_id(host: str, boot: str, pid: int, started: int) -> None:
    text = token(Identity(host, boot, pid, started))
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789")
    assert 10 <= len(text) <= 24


def test_a_token_differs_between_hosts_boots_and_namespaces() -> None:
    who = Identity("desk", "5f0c1d2e.4026531836", 4711, 815000)
    boots = ("5f0c1d2f.4026531836", "5f0c1d2e.4026532281")
    others = [changed(who, host="lap"), *(changed(who, boot=boot) for boot in boots)]
    assert len({token(each) for each in (who, *others)}) == 4
    assert len(token(who)) <= 16


def test_host_and_boot_cannot_run_into_each_other() -> None:
    assert token(Identity("desk1", "2.3", 1, 1)) != token(Identity("desk", "12.3", 1, 1))


# ------------------------------------------------------------------------------------------- names


def test_a_given_session_is_the_incarnation_word_for_word(alone: None) -> None:
    environ = {"TIEBREAK_SESSION": "Build-7.a", "CLAUDE_SESSION_ID": "c", "USER": "dana"}
    assert incarnation(environ) == "Build-7.a"
    assert are_two_words(default_agent(environ))
    assert default_agent(environ) != default_agent({**environ, "TIEBREAK_SESSION": "Build-8"})


@pytest.mark.parametrize("value", ["a b", "a~b", "a/b", "é", "x" * 65, "a\n", "\ud800"])
def test_a_given_session_that_would_break_an_agent_id_is_refused(value: str) -> None:
    with pytest.raises(Invalid, match="TIEBREAK_SESSION") as refused:
        incarnation({"TIEBREAK_SESSION": value})
    assert refused.value.message.isascii()
    assert refused.value.message.isprintable()


def test_an_empty_variable_counts_as_none(alone: None) -> None:
    empty = {"TIEBREAK_SESSION": "", "CLAUDE_SESSION_ID": "", "CODEX_THREAD_ID": ""}
    assert incarnation(empty) == incarnation({}) == token(session())


@pytest.mark.parametrize(
    ("variable", "client"),
    [
        ("CLAUDE_SESSION_ID", "claude"),
        ("CLAUDE_CODE_SESSION_ID", "claude"),
        ("CODEX_SESSION_ID", "codex"),
        ("GEMINI_SESSION_ID", "gemini"),
        ("CODEX_THREAD_ID", "codex"),
    ],
)
def test_a_client_that_tells_its_session_needs_no_process(variable: str, client: str, alone: None) -> None:
    one, two = {variable: "8a718ed2"}, {variable: "8a718ed3"}
    assert are_two_words(default_agent(one))
    assert default_agent(one) == default_agent({}, (client, "8a718ed2")) != default_agent(two)
    assert len(incarnation(one)) == 10
    assert incarnation(one) != incarnation(two)


def test_the_same_id_from_two_clients_is_two_sessions(alone: None) -> None:
    assert incarnation({"CLAUDE_SESSION_ID": "1"}) != incarnation({"GEMINI_SESSION_ID": "1"})
    assert incarnation({"CLAUDE_SESSION_ID": "1"}) == incarnation({"CLAUDE_CODE_SESSION_ID": "1"})


@linux
def test_a_client_started_by_another_does_not_act_as_the_other(shell: Callable[..., Shell], tmp_path: Path) -> None:
    clients = ("claude", "codex")
    claude = shell(named(tmp_path, "claude"), CLAUDE_SESSION_ID="8a718ed2")
    outer = claude.run(probe(*clients))
    inner = claude.run(shlex.join([named(tmp_path, "codex"), "-c", probe(*clients) + "; true"]))
    assert not set(outer) & set(inner)


@linux
def test_a_codex_started_by_another_does_not_act_as_the_other(shell: Callable[..., Shell], tmp_path: Path) -> None:
    codex = named(tmp_path, "codex")
    outer = shell(codex, CODEX_THREAD_ID="019d1afb")
    inner = shlex.join([codex, "-c", probe("codex") + "; true"])
    assert not set(outer.run(probe("codex"))) & set(outer.run(fresh(inner)))


def test_sessions_with_similar_ids_do_not_collide() -> None:
    values = [str(uuid.UUID(int=n * 0x9E3779B97F4A7C15 % 2**128)) for n in range(150_000)]
    assert len({agent_names._digest(value) for value in values}) == len(values)


def test_one_session_id_of_two_people_makes_two_agents(alone: None) -> None:
    given = {"TIEBREAK_SESSION": "1"}
    names = {default_agent({**given, **who}) for who in ({"LOGNAME": "dana"}, {"USER": "Dana"}, {"USER": "kim"}, {})}
    assert len(names) == 3


# ------------------------------------------------------------------------------------------- macOS


def test_the_columns_of_ps_are_understood() -> None:
    line = "Ss   501 ttys003  Sat Nov 15 19:32:05 2025     /Applications/My App.app/Contents/MacOS/claude\n"
    seen = process_identity._parse_ps(os.getpid(), line)
    assert seen is not None
    assert (seen.name, seen.parent, seen.terminal, seen.dead) == ("claude", 501, True, False)
    line = line.replace("Nov 15 19:32:05", "Dec  1 00:00:00").replace("ttys003", "??")
    later = process_identity._parse_ps(1, line)
    assert later is not None
    assert later.started > seen.started
    assert not later.terminal


@pytest.mark.parametrize("line", ["", "\n", "Z 1 ?? - - - - - x", "Z 1 ?? Sat Foo 15 19:32:05 2025 x"])
def test_a_line_of_ps_that_says_nothing_is_no_process(line: str) -> None:
    assert process_identity._parse_ps(1, line) is None


def test_a_process_is_seen_through_ps_as_through_the_kernel(
    child: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not os.access("/bin/ps", os.X_OK):
        pytest.skip("needs ps")
    monkeypatch.setattr(process_identity, "_MACOS", True)
    seen = process_identity.look(child.pid)
    assert seen is not None
    assert (seen.name, seen.parent, seen.session) == ("cat", os.getpid(), os.getsid(0))
    assert process_identity.arguments(child.pid) == ["/bin/cat"]
    child.send_signal(signal.SIGTERM)
    child.wait()
    assert process_identity.look(child.pid) is None


def test_a_missing_command_is_no_failure() -> None:
    assert process_identity._run("/nonexistent/sysctl") == ""


# ------------------------------------------------------------------------------------------ import


@linux
def test_importing_costs_nothing_that_a_bare_interpreter_does_not_have() -> None:
    code = (
        "import sys, os; sys.path.insert(0, sys.argv[1]); import tiebreak; before = set(sys.modules); "
        "from tiebreak import agent_names, process_identity; agent_names.default_agent({}); "
        "process_identity.alive(agent_names.session()); "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-S", "-E", "-c", code, SRC], capture_output=True, text=True, check=True)
    known = ("agent_names", "agent_words", "process_identity", "limits", "names", "errors")
    assert set(done.stdout.split()) <= {f"tiebreak.{name}" for name in known}
