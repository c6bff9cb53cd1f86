"""Process trees: no process escapes by leaving its group or session, and no other process ever gets a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tiebreak import process_identity, process_tree
from tiebreak.process_identity import Identity, alive, identity

PATIENCE = 60.0

# A parent, a child, and a grandchild that left for a session of its own: each writes its number down.
FAMILY = """
import os, sys, time
def note():
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()}\\n")
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        note()
        time.sleep(600)
    note()
    time.sleep(600)
note()
time.sleep(600)
"""


def until(happened: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, what
        time.sleep(0.005)


def lines(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


@contextmanager
def family(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """Three generations that run, and all of their numbers."""
    file = folder / "pids"
    with subprocess.Popen([sys.executable, "-c", FAMILY, str(file)]) as top:
        until(lambda: len(lines(file)) == 3, "three generations run")
        members = lines(file)
        who = [identity(pid) for pid in members]
        try:
            yield top, members
        finally:
            process_tree.signal_tree(who, signal.SIGKILL)


def test_a_process_that_left_its_session_is_still_a_descendant(tmp_path: Path) -> None:
    with family(tmp_path) as (top, members):
        found = process_tree.descendants(top.pid)
        assert {who.pid for who in found} == set(members) - {top.pid}
        assert {who.pid for who in process_tree.descendants(os.getpid())} >= set(members)


def test_parents_come_before_their_children(tmp_path: Path) -> None:
    with family(tmp_path) as (top, _):
        first, second = process_tree.descendants(top.pid)
        assert [process.parent for pid in (first.pid, second.pid) if (process := process_identity.look(pid))] == [
            top.pid,
            first.pid,
        ]


def test_the_whole_tree_ends_when_it_ignores_a_request(tmp_path: Path) -> None:
    with family(tmp_path) as (top, members):
        who = [identity(pid) for pid in members]
        assert process_tree.end(lambda: [each for each in who if alive(each)])
        assert top.wait() == -signal.SIGKILL
        assert [alive(each) for each in who] == [False] * 3


def test_a_tree_that_listens_is_asked_and_not_killed() -> None:
    listening = "trap 'kill $!; exit 7' TERM; sleep 600 & echo ready; wait"
    with subprocess.Popen(["sh", "-c", listening], stdout=subprocess.PIPE) as top:
        assert top.stdout is not None
        top.stdout.readline()
        who = identity(top.pid)
        assert process_tree.end(lambda: [who] if alive(who) else [], grace=PATIENCE)
        assert top.wait() == 7


def test_processes_started_while_others_are_ended_are_ended_too(tmp_path: Path) -> None:
    """Each that gets SIGTERM leaves a child in a session of its own behind, as a stubborn service does."""
    file = tmp_path / "pids"
    respawn = """
import os, signal, sys, time
def again(*_):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with open(sys.argv[1], "a") as file:
            file.write(f"{os.getpid()}\\n")
    time.sleep(600)
signal.signal(signal.SIGTERM, again)
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", respawn, str(file)]) as top:
        until(lambda: lines(file), "it runs")
        mine = process_tree.identities(
            [process for process in process_identity.table().values() if process.pid == top.pid]
        )

        def find() -> list[Identity]:
            return [who for who in [*mine, *process_tree.descendants(top.pid)] if alive(who)]

        asked: list[int] = []

        def find_and_wait() -> list[Identity]:
            if asked:  # the signal has been sent: only now is the child born
                until(lambda: len(lines(file)) == 2, "it left a child")
            asked.append(1)
            return find()

        assert process_tree.end(find_and_wait, grace=0.001)
        assert top.wait() == -signal.SIGKILL
        seen = [process_identity.look(pid) for pid in lines(file)]
        assert [process is None or process.dead for process in seen] == [True, True]


def test_a_process_that_got_an_old_number_is_not_hit() -> None:
    with subprocess.Popen(["sleep", "600"]) as stranger:
        me = identity(stranger.pid)
        former = Identity(me.host, me.boot, me.pid, me.started - 1)
        assert not process_tree.send(former, signal.SIGKILL)
        assert stranger.poll() is None
        assert process_tree.send(me, signal.SIGKILL)
        assert stranger.wait() == -signal.SIGKILL


@pytest.mark.parametrize("handles", [True, False])
def test_a_process_that_has_ended_gets_no_signal(handles: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not handles:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    with subprocess.Popen(["sleep", "600"]) as child:
        who = identity(child.pid)
        assert process_tree.send(who, signal.SIGKILL)
        child.wait()
    assert not process_tree.send(who, signal.SIGKILL)


def test_only_the_subreaper_adopts_orphans(tmp_path: Path) -> None:
    """In a process of its own: there is no way back from being one."""
    script = f"""
import os, subprocess, sys, time
from tiebreak import process_tree
assert process_tree.become_subreaper()
top = subprocess.Popen([sys.executable, "-c", {FAMILY!r}, {str(tmp_path / "pids")!r}])
while not os.path.exists({str(tmp_path / "pids")!r}) or len(open({str(tmp_path / "pids")!r}).read().split()) < 3:
    time.sleep(0.01)
members = {{int(line) for line in open({str(tmp_path / "pids")!r})}}
top.kill()
top.wait()
child = next(iter(process_tree.children()))
os.kill(child, 9)
os.waitpid(child, 0)
found = {{who.pid for who in process_tree.descendants(os.getpid())}}
assert found == members - {{top.pid, child}} == process_tree.children()
process_tree.end(lambda: process_tree.descendants(os.getpid()))
assert process_tree.descendants(os.getpid()) == []
print("all gone")
"""
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "all gone\n"


def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    child = f"""
import os, signal, time
from tiebreak import process_tree
parent = os.getpid()
if os.fork() == 0:
    assert process_tree.die_with_parent(signal.SIGKILL, parent)
    with open({str(file)!r}, "a") as out:
        out.write(f"{{os.getpid()}}\\n")
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", child]) as parent:
        until(lambda: lines(file), "the child runs")
        who = identity(lines(file)[0])
        parent.kill()
    until(lambda: alive(who) is False, "the child died with its parent")


def test_a_child_whose_parent_died_first_dies_at_once() -> None:
    script = """
import os, signal
from tiebreak import process_tree
process_tree.die_with_parent(signal.SIGKILL, os.getppid() + 1)
print("still here")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")


# ── Telling how a process ended ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", ["exit 0", "exit 7", "kill -TERM $$", "kill -KILL $$"])
def test_a_process_that_a_signal_killed_has_the_exit_code_that_a_shell_gives_it(command: str) -> None:
    alone = subprocess.run(["sh", "-c", command], check=False)
    by_a_shell = subprocess.run(
        ["sh", "-c", 'sh -c "$1"; exit $?', "sh", command], check=False, stderr=subprocess.DEVNULL
    )
    assert process_tree.exit_code(alone.returncode) == by_a_shell.returncode
