"""One coordinator, whatever happens at the same time: many spawners, handoffs, kills at any moment, two homes.

Every agent takes a lock that only one can have, so two coordinators at once leave a note even if nobody was looking.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tiebreak.model import agent_id
from tiebreak.process_identity import Identity, alive, identity
from tiebreak.process_tree import send
from tiebreak.sessions.records import ALIVE, command, fate, supervisor

from ..cli.command import Answer
from ..daemons import serving
from .arena import AGENT, QUICK, Arena, Crowd

SPAWN = ("spawn", "lead", "--coordinator", *QUICK, "--json", "--", *AGENT, "slow")


@pytest.fixture
def crowd(arena: Arena) -> Iterator[Crowd]:
    """Many commands at the same moment."""
    made = Crowd(arena)
    yield made
    made.close()


def refused_clearly(answer: Answer) -> bool:
    """Exit 1, and a message that names the holder of the spawn lock or the live coordinator, and how to get there."""
    if answer.code != 1:
        return False
    told = answer.json
    named = "in progress" in told["message"] or "coordinator already" in told["message"]
    return told["error"] == "Lost" and named and "tb attach" in told["hint"]


# ── Many at once ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rounds", [10, pytest.param(50, marks=pytest.mark.soak)])
def test_of_twenty_spawners_one_wins_and_nineteen_are_told_why(arena: Arena, crowd: Crowd, rounds: int) -> None:
    for number in range(1, rounds + 1):
        answers = crowd(20, *SPAWN)
        won = [answer for answer in answers if answer.code == 0]
        assert len(won) == 1, answers
        assert sum(map(refused_clearly, answers)) == 19, answers
        assert arena.terminals() == [won[0].json["tmux"]]
        assert [agent_id(each) for each in arena.living()] == [arena.holder()]
        assert arena.board.holds.list()[0].epoch == number, "each grant is the next one"
        assert len(arena.starts(number)) == number
        found = arena.session("lead")
        assert [answer.code for answer in crowd(1, "stop", "lead")] == [0]
        arena.until(lambda found=found: alive(supervisor(found)) is False, "the terminal is closed")
    assert arena.notes("overlaps") == []


# ── The race that was seen in production ─────────────────────────────────────────────────────────────


@contextmanager
def watched(arena: Arena) -> Iterator[list[tuple[int, int]]]:
    """While the block runs: how many terminals there are, and how many unfenced coordinators on the board."""
    seen: list[tuple[int, int]] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            claims = [each for each in arena.board.sessions.list(role="coordinator") if not each.fenced_by]
            seen.append((len(arena.terminals()), len(claims)))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("spawns", [1, 2])
def test_a_second_attempt_during_a_handoff_makes_no_second_coordinator(arena: Arena, crowd: Crowd, spawns: int) -> None:
    """The old coordinator has written its notes and is gone; its replacement takes its time; a person sees nobody."""
    old = arena.lead("slow")
    assert arena("handoff", "lead", "--queue", "--doc", "-", stdin="notes").code == 0
    arena("tell", "lead", "/exit")
    arena.until_ended(old)
    arena.until(lambda: arena.terminals() == [], "its terminal is closed")
    with watched(arena) as seen, arena.tb.start("drain", "--wait", "60s", "--json") as draining:
        for _ in range(spawns):
            answers = crowd(2, *SPAWN)
            assert sum(answer.code == 0 for answer in answers) <= 1
            assert all(answer.code == 0 or refused_clearly(answer) for answer in answers)
        arena.until(lambda: draining.poll() is not None or arena.living(), "somebody coordinates")
        draining.terminate()
        draining.wait()
    assert len(seen) > 3
    assert max(terminals for terminals, _ in seen) <= 1
    assert max(claims for _, claims in seen) <= 1
    assert arena.notes("overlaps") == []
    arena.until(lambda: len(arena.living()) == 1, "one coordinator in the end")


def test_a_second_attempt_while_a_live_coordinator_hands_over_makes_no_third(arena: Arena, crowd: Crowd) -> None:
    arena.lead("slow")
    with watched(arena) as seen, arena.tb.start("handoff", "lead", "--json") as handing:
        refused = [answer for _ in range(3) for answer in crowd(2, *SPAWN)]
        assert handing.wait(100) == 0
    assert all(map(refused_clearly, refused)), refused
    assert max(claims for _, claims in seen) == 1
    assert min(claims for _, claims in seen) == 1, "never two, never none"
    assert len(arena.starts(2)) == 2
    arena.until(lambda: len(arena.terminals()) == 1, "the old terminal is closed")
    assert [each.epoch for each in arena.living()] == [2]


# ── Kills ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(600)
@pytest.mark.parametrize("times", [10, pytest.param(100, marks=pytest.mark.soak)])
@pytest.mark.parametrize("victim", ["spawner", "supervisor", "command"])
def test_a_kill_at_any_moment_leaves_neither_two_nor_a_stuck_project(
    arena: Arena, crowd: Crowd, victim: str, times: int
) -> None:
    """One is killed while it comes to life, and whoever comes next finds a way."""
    dice = random.Random(f"{victim} 7")
    for _ in range(times):
        spawner = identity(crowd.begin(1, *SPAWN)[0])
        threading.Event().wait(dice.uniform(0.0, 0.5))
        _kill(arena, _victim(arena, victim, spawner))
        crowd.finish()
        arena.until(lambda: _comes_to_life(arena, crowd), "the project has a coordinator again")
        [only] = arena.living()
        assert agent_id(only) == arena.holder()
        _kill(arena, dice.choice([supervisor(only), command(only)]))
    assert arena.notes("overlaps") == []
    answered_for = {each.child for each in arena.board.sessions.list(every=True)}
    assert {each["pid"] for each in arena.notes("starts")} <= answered_for, "no command ran before the board knew it"
    epochs = [each.epoch for each in arena.board.sessions.list(every=True)]
    assert sorted(epochs) == list(range(1, len(epochs) + 1)), "one grant for each session, without a gap"


def _kill(arena: Arena, who: Identity) -> None:
    """Kill a process, and come back when it is dead: until then it would count as one that lives."""
    send(who, signal.SIGKILL)
    arena.until(lambda: alive(who) is False, "what was killed is dead")


def _victim(arena: Arena, wanted: str, spawner: Identity) -> Identity:
    """The process to kill, as far as it exists by now."""
    found = next((each for each in arena.board.sessions.list() if each.child), None)
    if wanted == "spawner" or found is None:
        return spawner
    return supervisor(found) if wanted == "supervisor" else command(found)


def _comes_to_life(arena: Arena, crowd: Crowd) -> bool:
    """A new spawn wins, or is refused because one lives with all of its processes."""
    [answer] = crowd(1, *SPAWN)
    assert answer.code in (0, 1), answer
    living = arena.living()
    assert len(living) <= 1
    if not living or living[0].state != "alive":
        return False
    return bool(alive(supervisor(living[0])) and alive(command(living[0])))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("times", [5, pytest.param(50, marks=pytest.mark.soak)])
def test_a_drain_that_is_killed_at_any_moment_and_run_again_makes_exactly_one_replacement(
    arena: Arena, crowd: Crowd, times: int
) -> None:
    dice = random.Random(11)
    for number in range(1, times + 1):
        if not arena.living():
            assert crowd(1, *SPAWN)[0].code == 0
        [old] = arena.living()
        assert crowd(1, "handoff", "lead", "--queue")[0].code == 0
        drainer = identity(crowd.begin(1, "drain")[0])
        threading.Event().wait(dice.uniform(0.0, 0.6))
        send(drainer, signal.SIGKILL)
        crowd.finish()
        assert [answer.code for answer in crowd(1, "drain", "--wait", "60s")] == [0]
        assert (arena.queue(), len(arena.queue("done"))) == ([], number)
        arena.until_ended(old)
        alive_ones = [each for each in arena.board.sessions.list(every=True) if each.replaces == agent_id(old)]
        assert len([each for each in alive_ones if each.alive_at]) == 1
        assert [each.replaces for each in arena.living()] == [agent_id(old)]


# ── Two homes ────────────────────────────────────────────────────────────────────────────────────────


def test_two_homes_on_one_board_behind_a_daemon_have_one_coordinator(tmp_path: Path) -> None:
    """Their lock files and their tmux servers know nothing of each other; the board does."""
    with serving(tmp_path) as daemon:
        homes = [Arena(_made(tmp_path / name), f"unix:{daemon.socket}") for name in ("one", "two")]
        for home in homes:
            home.tb.environment["ARENA"] = str(tmp_path)
        try:
            for number in range(1, 4):
                crowds = [Crowd(home) for home in homes]
                for each in crowds:
                    each.begin(3, *SPAWN)
                answers = [answer for each in crowds for answer in each.finish()]
                for each in crowds:
                    each.close()
                assert sorted(answer.code for answer in answers) == [0, 1, 1, 1, 1, 1], answers
                assert sum(map(refused_clearly, answers)) == 5
                assert sum(len(home.terminals()) for home in homes) == 1
                [found] = homes[0].living()
                assert (found.epoch, homes[1].holder()) == (number, agent_id(found))
                # Either home can end it or take its place when it is dead: both see its processes.
                os.kill(found.pid, signal.SIGKILL)
        finally:
            for home in homes:
                home.close()
    assert not (tmp_path / "overlaps").exists()


def test_two_hosts_that_know_nothing_of_each_others_processes_have_one_coordinator(tmp_path: Path) -> None:
    """Here the seat alone decides: neither can see whether the other's processes live."""
    with serving(tmp_path) as daemon:
        homes = [Arena(_made(tmp_path / name), f"unix:{daemon.socket}") for name in ("one", "two")]
        for home in homes:
            home.tb.environment["ARENA"] = str(tmp_path)
        crowds = [Crowd(home, f"host-{number}") for number, home in enumerate(homes)]
        try:
            for number in range(1, 4):
                for each in crowds:
                    each.begin(3, *SPAWN)
                answers = [each.finish() for each in crowds]
                told = [answer for some in answers for answer in some]
                assert sorted(answer.code for answer in told) == [0, 1, 1, 1, 1, 1], told
                assert sum(map(refused_clearly, told)) == 5
                [found] = homes[0].board.sessions.list(role="coordinator")
                assert (found.epoch, homes[1].holder()) == (number, agent_id(found))
                winner = int(found.host[-1])
                assert any(answer.code == 0 for answer in answers[winner])
                assert [answer.code for answer in crowds[1 - winner](1, "stop", "lead")] == [1], "not from over there"
                assert [answer.code for answer in crowds[winner](1, "stop", "lead")] == [0]
        finally:
            for each in crowds:
                each.close()
            for home in homes:
                home.close()
    assert not (tmp_path / "overlaps").exists()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_coordinator_on_another_host_keeps_its_seat_while_its_lease_lasts(arena: Arena) -> None:
    process = {"host": "elsewhere", "boot": "1.1", "pid": 7, "started": 70}
    begin = {"session": "far~spawn-1", "role": "coordinator", "command": ["x"], "lease": "1h", **process}
    arena.board.call("sessions.begin", begin)
    arena.board.call("sessions.adopt", {"session": "far~spawn-1", "child": 8, "child_started": 80, **process})
    answer = arena.spawn("near", "ok", "--coordinator")
    assert (answer.code, answer.json["holder"]) == (1, "far")
    [far] = arena.board.sessions.list()
    assert fate(far) == "unknown" != ALIVE
