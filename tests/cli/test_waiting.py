"""Waiting without a daemon: woken by other processes, by nothing else, and idle in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tiebreak

from .command import TB, Answer, Tb, complaint, ended, until_asleep
from .terminals import terminal

Change = Callable[[tiebreak.Board], object]
OTHER = {
    "kind": lambda board: board.tasks.post(name="x", kind="chore"),
    "name": lambda board: board.tasks.post(name="another"),
    "state": lambda board: board.tasks.post(name="x", key="k"),
    "priority": lambda board: board.tasks.post(name="x", priority="low"),
    "project": lambda board: board.tasks.post(name="x", project="elsewhere"),
    "agent": lambda board: board.tasks.post(name="x", agent="bob~1"),
    "event": lambda board: board.tasks.post(name="x"),
}
WANTED: dict[str, tuple[list[str], Change]] = {
    "kind": (["--kind", "bug"], lambda board: board.tasks.post(name="y", kind="bug")),
    "name": (["--name-contains", "LOGIN"], lambda board: board.tasks.post(name="the login page")),
    "state": (["--state", "claimed"], lambda board: board.tasks.claim(ref="k")),
    "priority": (["--priority", "urgent"], lambda board: board.tasks.post(name="y", priority="urgent")),
    "project": ([], lambda board: board.tasks.post(name="y")),
    "agent": (["--agent", "alice"], lambda board: board.tasks.post(name="y", agent="alice~9")),
    "event": (["--event", "hold"], lambda board: board.holds.take(resources=["lock:y"])),
}


@pytest.mark.parametrize("filter", WANTED)
def test_a_wait_passes_over_what_does_not_match(filter: str, cli: Callable[..., Answer], board: tiebreak.Board) -> None:
    words, change = WANTED[filter]
    OTHER[filter](board)
    complaint(cli("wait", "--after", "0", "--timeout", "0s", *words), 2)
    change(board)
    number = cli("wait", "--after", "0", "--timeout", "0s", "--json", *words).json["number"]
    assert number == board.events.last()


def test_every_project_means_every_one(cli: Callable[..., Answer], board: tiebreak.Board) -> None:
    OTHER["project"](board)
    words = ("wait", "--after", "0", "--timeout", "0s", "--json")
    assert cli(*words).code == 2
    assert cli(*words, "--every-project").json["project"] == "elsewhere"


@pytest.mark.parametrize("filter", ["kind", "state"])
def test_a_sleeping_wait_is_woken_by_another_process(filter: str, tb: Tb, board: tiebreak.Board) -> None:
    words, change = WANTED[filter]
    with tb.start("wait", "--timeout", "60s", "--json", *words) as running:
        until_asleep(running)
        OTHER[filter](board)
        change(board)
        answer = ended(running)
    assert answer.code == 0
    assert answer.json["number"] == board.events.last()


def test_many_sleepers_are_all_woken_by_one_post(tb: Tb) -> None:
    tb.ok("status")
    with (
        tb.start("wait", "--timeout", "60s") as one,
        tb.start("wait", "--timeout", "60s") as two,
        tb.start("wait", "--timeout", "60s") as three,
    ):
        for each in (one, two, three):
            until_asleep(each)
        tb.ok("post", "news")
        assert [ended(each).code for each in (one, two, three)] == [0, 0, 0]


def test_a_wait_starts_now_and_not_in_the_past(tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.post(name="old news")
    assert tb("wait", "--timeout", "200ms").code == 2


@pytest.mark.parametrize(
    ("end", "code", "state"),
    [
        (lambda board: board.tasks.complete(ref="work"), 0, "completed"),
        (lambda board: board.tasks.fail(ref="work", retry=False), 1, "failed"),
        (lambda board: board.tasks.cancel(ref="work"), 1, "cancelled"),
    ],
)
def test_waiting_for_a_task_ends_with_it(end: Change, code: int, state: str, tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.claim(ref="work")
    with tb.start("wait", "work", "--timeout", "60s", "--json") as running:
        until_asleep(running)
        board.tasks.extend(ref="work")
        board.tasks.post(name="another")
        assert running.poll() is None
        end(board)
        answer = ended(running)
    assert (answer.code, answer.json["state"]) == (code, state)
    assert tb("wait", "work").code == code, "what is over already needs no waiting"


def test_waiting_for_a_task_that_time_ends(cli: Callable[..., Answer], board: tiebreak.Board) -> None:
    """Its worker died in its last attempt: nobody will ever write that down, and `tb show` calls it failed."""
    board.tasks.post(name="work", key="work", max_attempts=1)
    board.tasks.claim(ref="work", lease=0.3)
    answer = cli("wait", "work", "--timeout", "60s", "--json")
    assert (answer.code, answer.json.get("state")) == (1, "failed")


def test_a_task_that_does_not_end_in_time(cli: Callable[..., Answer], board: tiebreak.Board) -> None:
    board.tasks.claim(ref="work")
    assert "still claimed" in complaint(cli("wait", "work", "--timeout", "50ms"), 2)


def test_a_waiting_hold_gets_it_when_it_is_dropped(tb: Tb, board: tiebreak.Board) -> None:
    board.holds.take(resources=["lock:x"])
    with tb.start("hold", "lock:x", "--wait", "60s", "--as", "bob", "--json") as running:
        until_asleep(running)
        board.holds.take(resources=["lock:y"])
        board.holds.release(resources=["lock:x"])
        answer = ended(running)
    assert answer.code == 0
    assert [(hold["holder"], hold["epoch"]) for hold in answer.json] == [("bob", 2)]


def test_a_waiting_hold_gets_it_when_the_lease_ends(cli: Callable[..., Answer], board: tiebreak.Board) -> None:
    board.holds.take(resources=["lock:x"], lease=0.3)
    assert cli("hold", "lock:x", "--wait", "60s", "--as", "bob").code == 0


def test_a_waiting_hold_gets_the_file_when_a_glob_is_dropped(tb: Tb) -> None:
    tb.ok("hold", "src/", "src/**", "--as", "alice")
    with tb.start("hold", "src/a.py", "--wait", "60s", "--as", "bob") as running:
        until_asleep(running)
        tb.ok("drop", "--all", "--as", "alice")
        assert ended(running).code == 0


def test_a_hold_that_waits_in_vain_names_the_holder(cli: Callable[..., Answer], board: tiebreak.Board) -> None:
    board.holds.take(resources=["lock:x"])
    answer = cli("hold", "lock:x", "--wait", "100ms", "--as", "bob")
    assert answer.code in (1, 2)
    assert "held by me" in answer.err


def test_a_waiting_claim_gets_it_when_it_is_released(tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.claim(ref="work")
    with tb.start("claim", "work", "--wait", "60s", "--as", "bob", "--json") as running:
        until_asleep(running)
        board.tasks.release(ref="work")
        answer = ended(running)
    assert (answer.code, answer.json["holder"]) == (0, "bob")


def test_a_waiting_claim_gets_it_when_its_delay_is_over(cli: Callable[..., Answer], board: tiebreak.Board) -> None:
    board.tasks.post(name="work", key="work", delay=0.3)
    assert cli("claim", "work", "--wait", "60s").code == 0


def test_a_waiting_claim_gets_it_when_nothing_blocks_it_any_more(tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.claim(ref="first")
    board.tasks.post(name="work", key="work", after=["first"])
    with tb.start("claim", "work", "--wait", "60s", "--as", "bob", "--json") as running:
        until_asleep(running)
        board.tasks.complete(ref="first")
        answer = ended(running)
    assert (answer.code, answer.json["holder"]) == (0, "bob")


def test_a_waiting_worker_gets_the_next_task(tb: Tb, board: tiebreak.Board) -> None:
    with tb.start("next", "--kind", "bug", "--wait", "60s", "--as", "bob", "--json") as running:
        until_asleep(running)
        board.tasks.post(name="x", kind="chore")
        board.tasks.post(name="y", kind="bug")
        answer = ended(running)
    assert [(task["name"], task["holder"]) for task in answer.json] == [("y", "bob")]


def test_a_waiting_worker_gets_a_task_whose_delay_is_over(cli: Callable[..., Answer], board: tiebreak.Board) -> None:
    board.tasks.post(name="x", delay=0.3)
    assert [task["name"] for task in cli("next", "--wait", "60s", "--json").json] == ["x"]


def test_of_two_waiting_workers_one_wins_and_the_other_goes_on(tb: Tb, board: tiebreak.Board) -> None:
    with (
        tb.start("next", "--wait", "60s", "--as", "alice", "--json") as one,
        tb.start("next", "--wait", "60s", "--as", "bob", "--json") as two,
    ):
        until_asleep(one)
        until_asleep(two)
        board.tasks.post(name="x")
        board.tasks.post(name="y")
        won = [ended(each).json for each in (one, two)]
    assert sorted(task["name"] for tasks in won for task in tasks) == ["x", "y"]


def seconds_of_work(tb: Tb, *words: str) -> float:
    """Processor time of a command, from start to end."""
    running = subprocess.Popen(
        [TB, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tb.folder, env=tb.environment
    )
    _, _, usage = os.wait4(running.pid, 0)
    running.returncode = 0  # it has been waited for
    return usage.ru_utime + usage.ru_stime


def test_an_idle_wait_costs_nothing(tb: Tb) -> None:
    tb.ok("post", "x")
    start = seconds_of_work(tb, "whoami")
    assert seconds_of_work(tb, "wait", "--timeout", "3s") - start < 0.25


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_sleeping_wait_holds_no_lock(tb: Tb) -> None:
    """Whoever writes must never have to wait for somebody who merely waits."""
    with tb.start("wait", "--timeout", "60s", "--event", "nothing") as running:
        until_asleep(running)
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        assert [line for line in locks if line[-4] == str(running.pid) and line[3] == "WRITE"] == []
        assert json.loads(tb.ok("post", "x", "--json"))["state"] == "pending"


# ── What is said meanwhile ───────────────────────────────────────────────────────────────────────────


def blocked(board: tiebreak.Board) -> None:
    """Something to wait for: a lock that alice holds, a task that she has claimed."""
    board.call("holds.take", {"resources": ["lock:x"], "agent": "alice~1", "lease": 600})
    board.call("tasks.claim", {"ref": "work", "agent": "alice~1", "lease": 600})


WAITS = {
    "hold": (["hold", "lock:x", "--wait", "90s"], "waiting up to 1m", "lock:x is held by alice for another "),
    "run": (["run", "--hold", "lock:x", "--wait", "90s", "--", "true"], "waiting up to 1m", "lock:x is held by alice"),
    "claim": (["claim", "work", "--wait", "90s"], "waiting up to 1m", "#1 'work' is held by alice for another "),
    "next": (["next", "--wait", "90s"], "waiting up to 1m", "for a task to become ready"),
    "wait for a task": (["wait", "work"], "waiting for #1 work to be finished; it is claimed by alice", ""),
    "wait for an event": (
        ["wait", "--event", "queue", "--timeout", "90s"],
        "waiting up to 1m",
        "an event that matches",
    ),
    "submit": (["submit", "true", "--wait"], "waiting for a worker to run #2 true; it is pending", ""),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_command_does_not_wait_in_silence(name: str, tb: Tb, board: tiebreak.Board) -> None:
    """Its standard error is a pipe, so it says so only after a moment."""
    words, first, more = WAITS[name]
    blocked(board)
    with tb.start(*words, "--as", "bob") as running:
        assert running.stderr is not None
        said, hint = running.stderr.readline(), running.stderr.readline()
        running.kill()
        out, err = running.communicate()
    assert said.startswith("tb: waiting")
    assert first in said
    assert more in said
    assert hint.startswith("    Ctrl-C stops waiting")
    assert (out, err) == ("", ""), "nothing of it is in the answer, and it is said once"


def test_a_terminal_is_told_at_once_for_whom_it_waits_and_what_to_do(tb: Tb, board: tiebreak.Board) -> None:
    blocked(board)
    with terminal() as screen:
        running = screen.start(
            tb, TB, "hold", "lock:x", "--wait", "90s", "--as", "bob", "--json", env={"NO_COLOR": "1"}
        )
        assert screen.read(until=b"`tb send alice \xe2\x80\xa6` asks for it; `tb waits` shows who else waits")
        board.call("holds.release", {"resources": ["lock:x"], "agent": "alice~1"})
        assert screen.read()
        assert running.wait(60) == 0
    assert b"tb: waiting up to 1m" in screen.screen
    assert b": lock:x is held by alice for another " in screen.screen


def test_a_program_that_reads_json_hears_nothing_of_the_wait(tb: Tb, board: tiebreak.Board) -> None:
    blocked(board)
    answer = tb("hold", "lock:x", "--wait", "1500ms", "--as", "bob", "--json")
    assert (answer.code, answer.err) == (1, "")
    assert answer.json["holder"] == "alice"


def test_a_short_wait_is_not_worth_a_word(tb: Tb, board: tiebreak.Board) -> None:
    blocked(board)
    answer = tb("hold", "lock:x", "--wait", "200ms", "--as", "bob")
    assert "waiting" not in complaint(answer, 1)


def test_who_waits_is_told_when_somebody_else_has_it(tb: Tb, board: tiebreak.Board) -> None:
    blocked(board)
    with tb.start("hold", "lock:x", "--wait", "90s", "--as", "bob") as running:
        assert running.stderr is not None
        assert "held by alice" in running.stderr.readline()
        running.stderr.readline()
        board.call("holds.transfer", {"resource": "lock:x", "to": "carol~1", "agent": "alice~1"})
        assert "held by carol" in running.stderr.readline()
        running.kill()
        running.communicate()
