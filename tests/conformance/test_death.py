"""Death: what an agent holds is given back at once when the process that is the agent has ended; never on a guess."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tiebreak import Board, boot_history
from tiebreak.advice import PYTHON, advice
from tiebreak.cli.advice import COMMANDS
from tiebreak.daemon.advice import REQUESTS
from tiebreak.errors import Fenced, Lost, Refused
from tiebreak.mcp.advice import CALLS
from tiebreak.operations import death
from tiebreak.process_identity import identity

from .engines import Place
from .tasks_support import changes


class Life:
    """A real process that is an agent, and the board as that agent sees it."""

    def __init__(self, place: Place, agent: str) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.who = identity(self.process.pid)
        self.board = place.open(agent)

    def announce(self, *, bound: bool = True) -> None:
        """Say which process the agent is."""
        who = self.who
        self.board.agents.announce(host=who.host, boot=who.boot, pid=who.pid, started=who.started, bound=bound)

    def kill(self, *, reap: bool = True) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        if reap:
            self.process.wait(60)
        else:
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)

    def close(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def ann(place: Place) -> Iterator[Life]:
    """An agent that is bound to its process, and holds something of every kind."""
    life = Life(place, "ann~1")
    life.announce()
    hold_everything(life.board)
    yield life
    life.close()


def hold_everything(board: Board) -> None:
    board.tasks.claim(ref="work")
    board.holds.take(resources=["file:src/**", "lock:deploy", "pool:x"], slots=1)


WANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a task": ("tasks.claim", {"ref": "work"}),
    "one of several tasks": ("tasks.claim_many", {"refs": ["work"]}),
    "any task": ("tasks.next", {}),
    "a lock": ("holds.take", {"resources": ["lock:deploy"]}),
    "a file under its glob": ("holds.take", {"resources": ["file:src/a.py"]}),
    "a glob over its glob": ("holds.take", {"resources": ["file:**"]}),
    "its slot of a pool": ("holds.take", {"resources": ["pool:x"]}),
}


@pytest.mark.parametrize("wanted", WANTS)
def test_what_a_dead_agent_holds_is_free_at_once(ann: Life, bob: Board, wanted: str) -> None:
    ann.kill()

    name, params = WANTS[wanted]
    answer = bob.call(name, params)
    [won] = answer if isinstance(answer, list) else [answer]

    assert (won.holder, won.epoch) == ("bob", 1 if "a file" in wanted or "over" in wanted else 2)
    ends = [event for event in changes(bob) if event.event.endswith(".expired")]
    assert [(end.agent, end.epoch) for end in ends] == [("ann", 1)]
    assert f"its process {ann.who.pid} on {ann.who.host} has ended" in (ends[0].note or "")


@pytest.mark.parametrize("wanted", WANTS)
def test_a_stopped_agent_is_not_dead(ann: Life, bob: Board, wanted: str) -> None:
    os.kill(ann.process.pid, signal.SIGSTOP)
    name, params = WANTS[wanted]

    if name in ("tasks.next", "tasks.claim_many"):
        assert bob.call(name, params) == []
    else:
        with pytest.raises(Lost):
            bob.call(name, params)


@pytest.mark.parametrize("wanted", WANTS)
def test_a_grant_does_not_end_because_a_passing_shell_ended(place: Place, bob: Board, wanted: str) -> None:
    shell = Life(place, "ann~2")
    shell.announce(bound=False)
    hold_everything(shell.board)
    shell.close()
    name, params = WANTS[wanted]

    if name in ("tasks.next", "tasks.claim_many"):
        assert bob.call(name, params) == []
    else:
        with pytest.raises(Lost):
            bob.call(name, params)


def test_a_zombie_is_dead(ann: Life, bob: Board) -> None:
    ann.kill(reap=False)
    assert bob.tasks.claim(ref="work").epoch == 2


def test_a_later_process_with_the_same_number_does_not_keep_a_grant(place: Place, ann: Life, bob: Board) -> None:
    who = ann.who
    late = place.open("late~1")
    late.agents.announce(host=who.host, boot=who.boot, pid=who.pid, started=who.started - 1, bound=True)
    late.tasks.claim(ref="other")
    assert bob.tasks.claim(ref="other").epoch == 2


@pytest.mark.parametrize("change", ["host", "boot", "namespace"])
def test_an_agent_of_another_host_boot_or_namespace_is_not_known_to_be_dead(
    place: Place, bob: Board, change: str
) -> None:
    life = Life(place, "ann~1")
    life.close()
    boot, _, namespace = life.who.boot.partition(".")
    places = {
        "host": ("elsewhere", life.who.boot),
        "boot": (life.who.host, f"00000000.{namespace}"),
        "namespace": (life.who.host, f"{boot}.1"),
    }
    host, boot = places[change]
    life.board.agents.announce(host=host, boot=boot, pid=life.who.pid, started=life.who.started, bound=True)
    life.board.tasks.claim(ref="work")

    with pytest.raises(Lost):
        bob.tasks.claim(ref="work")


def test_a_client_that_was_resumed_is_bound_to_its_new_process(place: Place, ann: Life, bob: Board) -> None:
    ann.kill()
    again = Life(place, "ann~1")
    again.announce()
    with pytest.raises(Lost):
        bob.tasks.claim(ref="work")
    again.close()
    assert bob.tasks.claim(ref="work").epoch == 2


def test_an_agent_in_two_live_processes_does_not_die_with_one_of_them(place: Place, ann: Life, bob: Board) -> None:
    second = Life(place, "ann~1")
    second.announce()
    second.close()
    with pytest.raises(Lost):
        bob.tasks.claim(ref="work")
    second.announce()
    ann.announce()
    with pytest.raises(Lost):
        bob.tasks.claim(ref="work")


def test_a_passing_command_does_not_replace_the_process_of_a_bound_agent(place: Place, ann: Life, bob: Board) -> None:
    passing = Life(place, "ann~1")
    passing.announce(bound=False)
    passing.close()
    with pytest.raises(Lost):
        bob.tasks.claim(ref="work")
    ann.kill()
    assert bob.tasks.claim(ref="work").epoch == 2


def test_jobs_and_the_coordinators_seat_are_not_given_back_by_a_refused_caller(ann: Life, bob: Board) -> None:
    ann.board.jobs.submit(command="true", key="job")
    ann.board.jobs.next()
    ann.board.holds.take(resources=["seat:coordinator"])
    ann.kill()

    assert bob.jobs.next() == []
    with pytest.raises(Lost):
        bob.tasks.claim(ref="job")
    with pytest.raises(Lost):
        bob.holds.take(resources=["seat:coordinator"])


def test_the_late_write_of_a_dead_agents_child_is_fenced(ann: Life, bob: Board) -> None:
    ann.kill()
    bob.tasks.claim(ref="work")
    with pytest.raises(Fenced):
        ann.board.tasks.complete(ref="work", epoch=1)


def test_the_last_attempt_of_a_dead_agent_fails_as_if_it_had_lapsed(place: Place, bob: Board) -> None:
    life = Life(place, "ann~3")
    life.announce()
    life.board.tasks.post(name="once", key="once", max_attempts=1)
    life.board.tasks.claim(ref="once")
    life.close()

    with pytest.raises(Refused, match="failed"):
        bob.tasks.claim(ref="once")
    assert "has ended (attempt 1 of 1)" in (bob.tasks.get(ref="once").reason or "")


def test_the_holds_of_a_dead_worker_are_given_back_with_its_jobs(place: Place, bob: Board) -> None:
    worker = place.open("worker~dead")
    worker.jobs.submit(command="true", key="job")
    worker.jobs.next()
    worker.holds.take(resources=["lock:deploy"])

    assert bob.tasks.forfeit(holder="worker~dead") == 1

    assert bob.holds.take(resources=["lock:deploy"])[0].epoch == 2


def report(life: Life) -> dict[str, Any]:
    who = life.who
    return {"holder": "ann~1", "host": who.host, "boot": who.boot, "pid": who.pid, "started": who.started}


def test_somebody_who_looks_gives_back_everything_of_a_dead_agent(ann: Life, bob: Board) -> None:
    ann.kill()

    assert bob.report_dead_agents() == 1

    assert bob.holds.list() == []
    assert bob.tasks.get(ref="work").state == "pending"
    assert (bob.report_dead_agents(), bob.agents.list(agent="ann")[0].status) == (0, "gone")


def test_a_live_agent_cannot_be_reported_dead(ann: Life, bob: Board) -> None:
    assert bob.report_dead_agents() == 0
    with pytest.raises(Refused, match="not known to be dead"):
        bob.agents.report_dead(**report(ann))
    assert bob.tasks.get(ref="work").state == "claimed"


def test_a_report_from_the_host_of_a_dead_agent_is_believed_elsewhere(place: Place, bob: Board) -> None:
    far = place.open("far~1")
    process: dict[str, Any] = {"host": "elsewhere", "boot": "0a0b0c0d.4026531836", "pid": 7, "started": 70}
    far.agents.announce(**process, bound=True)
    far.tasks.claim(ref="work")

    with pytest.raises(Refused):
        bob.agents.report_dead(holder="far~1", **{**process, "started": 71})
    assert bob.agents.report_dead(holder="far~1", **process)

    assert bob.tasks.claim(ref="work").epoch == 2


def test_of_eight_who_want_the_file_of_a_killed_agent_one_gets_it(place: Place, ann: Life) -> None:
    boards = [place.open(f"agent-{i}") for i in range(8)]

    def take(board: Board) -> str:
        try:
            return f"won {board.holds.take(resources=['file:src/a.py', 'lock:deploy'])[1].epoch}"
        except Lost:
            return "lost"

    ann.kill()
    with ThreadPoolExecutor(len(boards)) as pool:
        answers = list(pool.map(take, boards))

    assert sorted(answers) == [*["lost"] * 7, "won 2"]


class Run(Life):
    """A process that holds something under the name of an agent, as `tb run` does."""

    def forfeit(self, **changes: Any) -> Any:
        """Give back its hold, as its guardian does."""
        who = self.who
        process = {"host": who.host, "boot": who.boot, "pid": who.pid, "started": who.started}
        given = {"resources": ["lock:x"], "epochs": [1], **process, **changes}
        return self.board.call("holds.forfeit", given)


@pytest.fixture
def run(place: Place) -> Iterator[Run]:
    """A process that holds a lock for ann, who holds something else herself."""
    life = Run(place, "ann~1")
    life.board.holds.take(resources=["lock:x"])
    life.board.holds.take(resources=["lock:mine"])
    life.board.tasks.claim(ref="work")
    yield life
    life.close()


def test_a_dead_process_gives_back_what_it_took_and_nothing_else_of_its_agent(run: Run, bob: Board) -> None:
    run.kill()

    assert run.forfeit() == 1

    assert [hold.resource for hold in bob.holds.list()] == ["lock:mine"]
    assert bob.tasks.get(ref="work").state == "claimed"
    [end] = [event for event in changes(bob) if event.event == "hold.expired"]
    assert (end.agent, end.epoch, end.note) == ("ann", 1, f"its process {run.who.pid} on {run.who.host} has ended")
    assert bob.holds.take(resources=["lock:x"])[0].epoch == 2


def test_nothing_is_given_back_for_a_process_that_lives_or_is_stopped(run: Run, bob: Board) -> None:
    with pytest.raises(Refused, match="not known to be dead"):
        run.forfeit()
    os.kill(run.process.pid, signal.SIGSTOP)
    with pytest.raises(Refused, match="not known to be dead"):
        run.forfeit()
    assert len(bob.holds.list()) == 2


def test_a_dead_process_does_not_give_back_the_hold_of_another_agent_or_a_later_one(run: Run, bob: Board) -> None:
    bob.holds.take(resources=["lock:bob"])
    run.board.holds.release(resources=["lock:x"])
    run.board.holds.take(resources=["lock:x"])
    run.kill()

    assert run.forfeit() == 0
    assert run.forfeit(resources=["lock:bob"]) == 0

    assert sorted(hold.resource for hold in bob.holds.list()) == ["lock:bob", "lock:mine", "lock:x"]


def test_a_live_process_with_the_number_of_a_dead_one_does_not_keep_the_hold(run: Run) -> None:
    assert run.forfeit(started=run.who.started - 1) == 1


def refused(board: Board, wanted: str) -> Lost:
    name, params = WANTS[wanted]
    with pytest.raises(Lost) as caught:
        board.call(name, params)
    return caught.value


@pytest.mark.parametrize("wanted", ["a task", "a lock"])
def test_a_refusal_does_not_say_break_while_the_holder_may_be_at_work(place: Place, bob: Board, wanted: str) -> None:
    shell = Life(place, "ann~2")
    shell.announce(bound=False)
    hold_everything(shell.board)
    os.kill(shell.process.pid, signal.SIGSTOP)

    said = refused(bob, wanted)

    shell.close()
    assert (said.reason, "gone" in said.data) == ({"a task": "task-held", "a lock": "hold-held"}[wanted], False)
    assert "break" not in advice(said, COMMANDS)
    assert "`tb send ann …`" in advice(said, COMMANDS)
    assert "--wait" in advice(said, COMMANDS)


@pytest.mark.parametrize(("wanted", "thing"), [("a task", "'#1'"), ("a lock", "'lock:deploy'")])
def test_a_refusal_because_of_a_closed_shell_says_that_a_break_helps(
    place: Place, bob: Board, wanted: str, thing: str
) -> None:
    shell = Life(place, "ann~2")
    shell.announce(bound=False)
    hold_everything(shell.board)
    shell.close()

    said = refused(bob, wanted)

    assert said.reason == "holder-gone"
    gone = f"ann is gone (its process {shell.who.pid} on {shell.who.host} has ended)"
    assert advice(said, COMMANDS) == f"{gone}: `tb break {thing} --reason …` takes it away"
    for words in (PYTHON, REQUESTS, CALLS):
        assert "ann is gone" in advice(said, words)
        assert "break" in advice(said, words)


def test_a_refusal_in_a_new_terminal_says_that_adopting_may_help(place: Place) -> None:
    """Nobody named the two terminals, so they may belong to one person."""
    shell = Life(place, "brave-otter~2")
    shell.announce(bound=False)
    shell.board.tasks.claim(ref="work")
    shell.close()

    said = refused(place.open("calm-heron~3"), "a task")

    assert said.reason == "holder-gone-perhaps-you"
    assert "if that was you in another terminal, `tb adopt '#1'` takes it over" in advice(said, COMMANDS)
    assert all("adopt" in advice(said, words) for words in (PYTHON, REQUESTS, CALLS))


def test_an_agent_that_has_left_is_gone_until_it_takes_something_again(place: Place, bob: Board) -> None:
    ann = place.open("ann~2")
    ann.announce()
    ann.tasks.claim(ref="work")
    place.advance(1.0)
    ann.agents.leave()
    assert refused(bob, "a task").data["gone"] == "it has left"
    place.advance(1.0)
    ann.holds.take(resources=["lock:deploy"])
    assert refused(bob, "a lock").reason == "hold-held"


EARLIER = "0a0b0c0d.4026531836"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """This is a machine, which has just booted after a boot that it wrote down; returns the file."""
    monkeypatch.setattr(boot_history, "FOLDER", str(tmp_path))
    monkeypatch.setattr(boot_history, "_is_machine", lambda: True)
    monkeypatch.setattr(death, "since_boot", lambda: 0)
    boot_history.remember_boot()
    listed = tmp_path / f"tiebreak-{os.geteuid()}" / "boots"
    assert listed.read_text() == f"{identity().host} {identity().boot}\n"
    listed.write_text(f"{identity().host} {EARLIER}\n" + listed.read_text())
    return listed


def left_by_earlier_boot(place: Place, **changes: Any) -> None:
    """Something that a client held when its machine went down; its pid is in use again."""
    client = place.open("ann~1")
    process: dict[str, Any] = {"host": identity().host, "boot": EARLIER, "pid": os.getpid(), "started": 7, **changes}
    client.agents.announce(**process, bound=True)
    hold_everything(client)
    place.advance(1.0)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("wanted", ["a task", "any task", "a lock"])
def test_what_an_agent_held_before_its_machine_booted_is_free(place: Place, bob: Board, wanted: str) -> None:
    left_by_earlier_boot(place)

    answer = bob.call(*WANTS[wanted])

    assert (answer[0] if isinstance(answer, list) else answer).epoch == 2
    [end] = [event for event in changes(bob) if event.event.endswith(".expired")]
    assert f"ended when {identity().host} booted again" in (end.note or "")


@pytest.mark.usefixtures("machine")
def test_a_daemon_or_worker_reports_the_agents_of_an_earlier_boot(place: Place, bob: Board) -> None:
    left_by_earlier_boot(place)
    assert bob.report_dead_agents() == 1
    assert bob.holds.list() == []


@pytest.mark.parametrize("doubt", ["another machine of that name", "another host", "a container", "seen since", "lost"])
def test_an_agent_is_not_dead_because_a_machine_of_that_name_has_booted(
    place: Place, bob: Board, machine: Path, monkeypatch: pytest.MonkeyPatch, doubt: str
) -> None:
    """Copies of one disk image have the same host name and machine id, and run at the same time."""
    boot = {"another machine of that name": "99999999.4026531836"}.get(doubt, EARLIER)
    left_by_earlier_boot(place, boot=boot, host="elsewhere" if doubt == "another host" else identity().host)
    if doubt == "a container":
        monkeypatch.setattr(boot_history, "_is_machine", lambda: False)
    elif doubt == "seen since":
        monkeypatch.setattr(death, "since_boot", lambda: 60_000_000)
    elif doubt == "lost":
        machine.unlink()

    assert bob.report_dead_agents() == 0
    assert bob.tasks.next() == []
    with pytest.raises(Lost):
        bob.holds.take(resources=["lock:deploy"])
