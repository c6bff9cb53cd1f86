"""`tb run`: the command runs only while the hold lasts, and nothing of it is left when it is lost."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tiebreak

from ..daemons import serving
from ..postgres import server
from .command import PATIENCE, TB, Tb, complaint, ended, gone, until, until_asleep, until_catching
from .terminals import terminal

pytestmark = pytest.mark.usefixtures("counted")

HOLD = ("run", "--hold", "lock:x")


def held(tb: Tb) -> list[str]:
    return [hold["resource"] for hold in tb.json("holds")]


def pids(file: Path, count: int) -> list[int]:
    """The process ids that a script wrote into a file, once all of them are there."""
    until(lambda: file.exists() and len(file.read_text().split()) >= count, f"{count} processes run")
    return [int(word) for word in file.read_text().split()]


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_is_passed_on(code: int, tb: Tb) -> None:
    assert tb(*HOLD, "--", "sh", "-c", f"exit {code}").code == code
    assert held(tb) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1])
def test_a_signal_becomes_128_and_its_number(number: signal.Signals, tb: Tb) -> None:
    assert tb(*HOLD, "--", "sh", "-c", f"kill -{int(number)} $$").code == 128 + number
    assert held(tb) == []


def test_what_it_reads_and_writes_is_the_commands_own(tb: Tb) -> None:
    answer = tb(*HOLD, "--", "sh", "-c", "cat; echo error >&2", stdin="text")
    assert (answer.out, answer.err) == ("text", "error\n")


def test_the_command_learns_its_fence(tb: Tb) -> None:
    tb.ok("hold", "lock:x")
    tb.ok("drop", "lock:x")
    script = 'echo "$TIEBREAK_EPOCH $TIEBREAK_PROJECT $TIEBREAK_HOLD $TIEBREAK_BOARD"; tb whoami --json'
    fence, me = tb.ok(*HOLD, "--as", "alice", "--", "sh", "-c", script).splitlines()
    assert fence == f"2 demo lock:x {tb.path}"
    assert '"agent": "alice"' in me


def test_the_command_acts_as_the_incarnation_that_holds(tb: Tb) -> None:
    """From a session of its own too."""
    elsewhere = "import os; os.setsid(); os.execvp('tb', ['tb', 'renew', 'lock:x'])"
    assert tb(*HOLD, "--as", "alice", "--", "sh", "-c", f'python -c "{elsewhere}"; exit $?').code == 0


def test_the_slot_of_a_pool_is_told(tb: Tb) -> None:
    tb.ok("hold", "pool:ports", "--slots", "2")
    assert tb.ok("run", "--hold", "pool:ports", "--", "sh", "-c", "echo $TIEBREAK_SLOT") == "1\n"


@pytest.mark.parametrize(("command", "code"), [("no-such-command", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_started(command: str, code: int, tb: Tb) -> None:
    assert command in complaint(tb(*HOLD, "--", command), code)
    assert held(tb) == []


def test_the_command_never_starts_when_the_hold_is_refused(tb: Tb) -> None:
    tb.ok("hold", "lock:x", "--as", "alice")
    said = complaint(tb(*HOLD, "--as", "bob", "--", "touch", "started"), 1)
    assert "held by alice" in said
    assert not (tb.folder / "started").exists()


def test_one_of_two_holds_is_not_enough(tb: Tb) -> None:
    tb.ok("hold", "lock:y", "--as", "alice")
    complaint(tb(*HOLD, "--hold", "lock:y", "--as", "bob", "--", "touch", "started"), 1)
    assert held(tb) == ["lock:y"]
    assert not (tb.folder / "started").exists()


def test_waiting_gets_the_hold_when_it_is_dropped(tb: Tb) -> None:
    tb.ok("hold", "lock:x", "--as", "alice")
    with tb.start(*HOLD, "--wait", "60s", "--as", "bob", "--", "touch", "started") as running:
        until_asleep(running)
        assert not (tb.folder / "started").exists()
        tb.ok("drop", "lock:x", "--as", "alice")
        assert ended(running).code == 0
    assert (tb.folder / "started").exists()


def test_the_hold_outlives_its_lease_while_the_command_runs(tb: Tb) -> None:
    script = "sleep 7; tb --as bob hold lock:x --json; tb holds --json"
    answer = tb(*HOLD, "--as", "alice", "--lease", "6s", "--", "sh", "-c", script)
    refused, live = answer.out.splitlines()
    assert '"error": "Lost"' in refused
    assert '"holder": "alice"' in live
    assert '"epoch": 1' in live
    assert held(tb) == []


@pytest.mark.parametrize("manners", ["", "trap '' TERM;"], ids=["gentle", "deaf to SIGTERM"])
def test_a_broken_hold_ends_the_whole_group(manners: str, tb: Tb) -> None:
    script = f"{manners} sleep 300 & echo $! >> pids; (sleep 300; :) & echo $! >> pids; echo $$ >> pids; wait"
    with tb.start(*HOLD, "--lease", "6s", "--grace", "200ms", "--", "sh", "-c", script) as running:
        started = pids(tb.folder / "pids", 3)
        tb.ok("break", "lock:x", "--reason", "needed elsewhere", "--as", "operator")
        answer = ended(running)
    complaint(answer, 1)
    for pid in started:
        until(lambda pid=pid: gone(pid), f"{pid} is gone")  # type: ignore[misc]
    assert held(tb) == []


def test_a_broken_hold_ends_what_left_for_a_session_of_its_own(tb: Tb) -> None:
    detached = "setsid sh -c 'setsid sh -c \"echo \\$\\$ >> pids; exec sleep 300\" & exit 0'"
    with tb.start(*HOLD, "--lease", "30s", "--", "sh", "-c", f"{detached}; echo $$ >> pids; sleep 300") as running:
        started = pids(tb.folder / "pids", 2)
        tb.ok("break", "lock:x", "--reason", "needed elsewhere", "--as", "operator")
        for pid in started:
            until(lambda pid=pid: gone(pid), f"{pid} is gone", 60.0)  # type: ignore[misc]
        complaint(ended(running), 1)


@pytest.fixture(params=["file", "daemon", "postgres"])
def anywhere(request: pytest.FixtureRequest, tb: Tb) -> Iterator[Tb]:
    """The command on a board of each kind."""
    if request.param == "postgres":
        tb.environment["TIEBREAK_BOARD"] = server().empty_board(server().database("run"))
        yield tb
    elif request.param == "daemon":
        with serving(tb.folder) as daemon:
            tb.environment["TIEBREAK_BOARD"] = f"unix:{daemon.socket}"
            yield tb
    else:
        yield tb


def test_a_command_does_not_go_on_until_the_next_renewal_of_a_broken_hold(anywhere: Tb) -> None:
    """The next renewal would come in twenty minutes."""
    tb = anywhere
    script = "echo $$ > pids; exec sleep 300"
    with tb.start(*HOLD, "--lease", "1h", "--as", "alice", "--", "sh", "-c", script) as running:
        (pid,) = pids(tb.folder / "pids", 1)
        tb.ok("break", "lock:x", "--reason", "the tab was closed", "--as", "operator")
        said = complaint(ended(running), 1)
    assert "lock:x: operator broke your hold: the tab was closed; the command was ended" in said
    assert gone(pid)


def test_a_program_that_runs_a_command_can_read_who_broke_the_hold_and_why(tb: Tb) -> None:
    with tb.start(*HOLD, "--lease", "1h", "--json", "--", "sh", "-c", "echo $$ > pids; exec sleep 300") as running:
        pids(tb.folder / "pids", 1)
        tb.ok("break", "lock:x", "--reason", "stuck: since noon", "--as", "operator")
        error = ended(running).json
    assert (error["broken_by"], error["broken_because"]) == ("operator", "stuck: since noon")


def test_the_command_is_gone_before_another_can_hold_it(tb: Tb) -> None:
    """When the board cannot be reached the lease runs out by itself; the command has to end before that."""
    lease = 12.0
    script = "echo $$ > pids; exec sleep 300"
    with tb.start(*HOLD, "--lease", f"{lease}s", "--as", "alice", "--", "sh", "-c", script) as running:
        (pid,) = pids(tb.folder / "pids", 1)
        with open(f"{tb.path}-gate") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            renewed_last = time.monotonic()
            until(lambda: gone(pid), "the command is gone")
            assert time.monotonic() - renewed_last < lease
        assert ended(running).code == 1


def test_sigterm_is_forwarded_and_the_hold_released(tb: Tb) -> None:
    script = "trap 'echo got it > trapped; exit 5' TERM; echo $$ > pids; while :; do sleep 0.05; done"
    with tb.start(*HOLD, "--", "sh", "-c", script) as running:
        pids(tb.folder / "pids", 1)
        until_catching(running, signal.SIGTERM)
        running.send_signal(signal.SIGTERM)
        assert ended(running).code == 5
    assert (tb.folder / "trapped").exists()
    assert held(tb) == []


def test_a_signal_that_comes_at_once_is_not_lost(tb: Tb) -> None:
    """The command is there already, so whoever stops `tb run` has to be sure that both end and the hold with them."""
    for _ in range(5):
        with tb.start(*HOLD, "--", "sh", "-c", "kill -TERM $PPID; exec sleep 300") as running:
            assert running.wait(PATIENCE) == 128 + signal.SIGTERM
        assert held(tb) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tie a command to its parent")
class TestKilled:
    """`kill -9` leaves `tb run` no time for anything."""

    def test_the_command_does_not_outlive_it(self, tb: Tb) -> None:
        script = "echo $$ > pids; exec sleep 300"
        with tb.start(*HOLD, "--lease", "1s", "--as", "alice", "--", "sh", "-c", script) as running:
            (pid,) = pids(tb.folder / "pids", 1)
            running.kill()
            running.wait(PATIENCE)
            until(lambda: gone(pid), "the command is gone")
        assert tb("hold", "lock:x", "--as", "bob", "--wait", "60s").code == 0, "the lease has run out"

    def test_nor_do_the_processes_that_the_command_started(self, tb: Tb) -> None:
        """`make deploy` does its work in them, and the hold passes on while they go on."""
        script = "sleep 300 & echo $! > pids; wait"
        with tb.start(*HOLD, "--lease", "1s", "--as", "alice", "--", "sh", "-c", script) as running:
            (pid,) = pids(tb.folder / "pids", 1)
            running.kill()
            running.wait(PATIENCE)
            try:
                until(lambda: gone(pid), "what the command started is gone")
            finally:
                if not gone(pid):
                    os.kill(pid, signal.SIGKILL)


HOUR = ("run", "--hold", "lock:x", "--lease", "1h", "--as", "alice", "--")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody can be certain that the whole command has ended")
class TestDead:
    """What a killed `tb run` held is given back, though its lease is an hour."""

    def test_its_hold_does_not_last_until_the_lease_ends(self, anywhere: Tb) -> None:
        tb = anywhere
        with tb.start(*HOUR, "sh", "-c", "echo $$ > pids; exec sleep 300") as running:
            (pid,) = pids(tb.folder / "pids", 1)
            running.kill()
            running.wait(PATIENCE)
            assert tb("hold", "lock:x", "--as", "bob", "--wait", "60s").code == 0
        assert gone(pid)
        with tiebreak.open(tb.environment["TIEBREAK_BOARD"], agent="me~1", project="demo") as board:
            [end] = board.events.read(event="hold.expired")
        assert (end.agent, end.epoch) == ("alice", 1)
        assert f"its process {running.pid} on " in (end.note or "")

    def test_it_is_not_given_back_while_a_process_that_left_the_group_runs(self, tb: Tb) -> None:
        """Its hold would pass on while the work goes on."""
        detached = (
            "setsid sh -c 'echo $$ >> pids; trap \"\" TERM HUP; while :; do sleep 0.02; date +%s%N > alive; done'"
        )
        with tb.start(*HOUR, "sh", "-c", f"{detached} & while :; do sleep 1; done") as running:
            (pid,) = pids(tb.folder / "pids", 1)
            running.kill()
            running.wait(PATIENCE)
            assert tb("hold", "lock:x", "--as", "bob", "--wait", "60s").code == 0
            assert gone(pid)

    def test_nothing_else_that_its_agent_holds_ends_with_it(self, tb: Tb) -> None:
        tb.ok("hold", "lock:other", "--as", "alice~1")
        tb.ok("claim", "work", "--as", "alice~1")
        words = [word if word != "alice" else "alice~1" for word in HOUR]
        with tb.start(*words, "sh", "-c", "tb hold lock:inside; echo $$ > pids; exec sleep 300") as running:
            pids(tb.folder / "pids", 1)
            running.kill()
            running.wait(PATIENCE)
            assert tb("hold", "lock:x", "--as", "bob", "--wait", "60s").code == 0
        assert sorted(held(tb)) == ["lock:inside", "lock:other", "lock:x"]
        assert tb.json("show", "work")["holder"] == "alice"

    def test_a_later_grant_of_the_same_agent_is_not_given_back_with_the_dead_one(self, tb: Tb) -> None:
        with tb.start(*HOUR, "sh", "-c", "echo $PPID > pids; exec sleep 300") as running:
            (guardian,) = pids(tb.folder / "pids", 1)
            os.kill(running.pid, signal.SIGSTOP)
            tb.ok("break", "lock:x", "--reason", "stuck", "--as", "operator")
            tb.ok("hold", "lock:x", "--as", "alice")
            running.kill()
            running.wait(PATIENCE)
            until(lambda: gone(guardian), "its guardian has ended")
        assert [(hold["holder"], hold["epoch"]) for hold in tb.json("holds")] == [("alice", 2)]

    def test_a_stopped_one_is_not_dead(self, tb: Tb) -> None:
        with tb.start(*HOUR, "sh", "-c", "echo $$ > pids; exec sleep 300") as running:
            (pid,) = pids(tb.folder / "pids", 1)
            os.kill(running.pid, signal.SIGSTOP)
            assert tb("hold", "lock:x", "--as", "bob", "--wait", "1s").code == 1
            assert not gone(pid)
            os.kill(running.pid, signal.SIGCONT)
            running.send_signal(signal.SIGTERM)
            assert running.wait(PATIENCE) == 128 + signal.SIGTERM
        assert held(tb) == []

    def test_the_command_does_not_go_on_without_its_guardian(self, tb: Tb) -> None:
        """If `tb run` were killed next, nobody would end the command."""
        with tb.start(*HOUR, "sh", "-c", "echo $PPID $$ > pids; exec sleep 300") as running:
            guardian, pid = pids(tb.folder / "pids", 2)
            assert guardian != running.pid
            os.kill(guardian, signal.SIGKILL)
            said = complaint(ended(running), 1)
        assert "the process that guards the command was killed; the command was ended" in said
        assert gone(pid)
        assert held(tb) == []


def test_a_command_that_reads_the_terminal_at_once_is_not_stopped_for_ever(tb: Tb) -> None:
    """It may read before it has got the terminal, and is then stopped by the kernel; so this is tried often."""
    for _ in range(6):
        with terminal(echo=False) as screen:
            running = screen.start(tb, TB, *HOLD, "--", "cat")
            try:
                screen.type("hello\n")
                assert screen.read(until=b"hello", patience=PATIENCE), "the command never read what was typed"
                screen.type("\x04")
                assert running.wait(PATIENCE) == 0
            finally:
                _end(tb, running)


def test_the_keyboard_interrupts_the_command_and_the_hold_is_released(tb: Tb) -> None:
    with terminal(echo=False) as screen:
        running = screen.start(
            tb,
            TB,
            *HOLD,
            "--",
            "sh",
            "-c",
            "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.05; done",
        )
        try:
            assert screen.read(until=b"ready")
            until_catching(running, signal.SIGTERM)
            screen.type("\x03")
            assert screen.read(until=b"interrupted")
            assert running.wait(PATIENCE) == 9
        finally:
            _end(tb, running)
    assert held(tb) == []


def test_a_closed_window_releases_the_hold_without_a_traceback(tb: Tb) -> None:
    errors = tb.folder / "errors"
    with terminal() as screen:
        running = screen.start(tb, TB, *HOLD, "--", "sh", "-c", "echo $$ > pids; exec sleep 300", stderr=errors)
        (pid,) = pids(tb.folder / "pids", 1)
        until_catching(running, signal.SIGTERM)
        screen.hang_up()
        try:
            running.wait(PATIENCE)
        finally:
            _end(tb, running)
    assert gone(pid)
    assert held(tb) == []
    assert "Traceback" not in errors.read_text()


def _end(tb: Tb, running: subprocess.Popen[bytes]) -> None:
    """Leave nothing behind when a test fails: a stopped command is not ended by the death of its parent's parent."""
    if running.poll() is None:
        running.kill()
        running.wait()


def test_a_file_that_somebody_else_changed_is_no_reason_to_fail(tb: Tb, board: tiebreak.Board) -> None:
    assert tb("run", "--hold", "file.txt", "--", "sh", "-c", "echo mine > file.txt").code == 0
    assert board.holds.list() == []
