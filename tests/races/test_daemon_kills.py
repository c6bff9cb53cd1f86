"""Everything over 64 connections while the daemon is killed three times: the history holds.

Clients go on by themselves. What each of them asked and was told is written down, and `history` holds it against the
board afterwards. That it finds what it is there for is shown below, on doctored histories and on daemons with a bug.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import changed_command
from tests.daemons import Serving
from tiebreak import Board, Event, Refused, Task, Unavailable
from tiebreak.model import record
from tiebreak.remote import RemoteEngine

from . import checkers, history, plants
from .checkers import Broken
from .crew import PROJECT, Crew, Plant, race_threads
from .history import OK, REFUSED, UNKNOWN, Call
from .places import served
from .scenarios import Run, open_board

SECONDS = 16.0
KILLS = 3
TURNS = 12
"""How many things each client does at least, so that all kinds of calls occur on a busy machine too."""


class Client:
    """One connection's worth of work, and a record of every call."""

    def __init__(self, engine: RemoteEngine, agent: str) -> None:
        self.board = Board(engine, agent=f"{agent}~1", project=PROJECT)
        self.agent = agent
        self.chance = random.Random(agent)
        self.calls: list[Call] = []
        self.held: list[tuple[str, int]] = []

    def call(self, name: str, /, **params: Any) -> list[tuple[str, int, str]]:
        """Make a call and write it down; the tasks in its answer."""
        begin, outcome, found = time.monotonic(), OK, []
        try:
            answer = self.board.call(name, params)
            found = [(t.id, t.epoch, t.state) for t in (answer if isinstance(answer, list) else [answer])]
        except Refused:
            outcome = REFUSED
        except Unavailable:
            outcome = UNKNOWN
        self.calls.append(Call(begin, time.monotonic(), self.agent, name, params, outcome, found))
        return found

    def turn(self) -> None:
        """Do one thing."""
        self.chance.choice([self.post, self.claim, self.claim, self.next, self.use, self.use, self.wait])()

    def post(self) -> None:
        self.call("tasks.post", name=f"{self.agent}/{len(self.calls)}", max_attempts=1000, backoff=0.0)

    def claim(self) -> None:
        seen = [ref for ref, _, _ in self.call("tasks.list", states=["pending", "claimed"], limit=10)]
        if seen:
            self.win("tasks.claim", ref=self.chance.choice(seen))

    def next(self) -> None:
        self.win("tasks.next")

    def win(self, name: str, **params: Any) -> None:
        won = self.call(name, lease=self.chance.choice([0.2, 2.0, 30.0]), **params)
        self.held += [(ref, epoch) for ref, epoch, _ in won]

    def use(self) -> None:
        """Do something with what was won, perhaps too late."""
        if not self.held:
            return
        ref, epoch = grant = self.chance.choice(self.held)
        end = self.chance.choice(["complete", "complete", "release", "extend"])
        more: dict[str, dict[str, Any]] = {
            "complete": {"result": f"by {self.agent}, call {len(self.calls)}"},
            "extend": {"lease": 2.0},
        }
        done = self.call(f"tasks.{end}", ref=ref, epoch=epoch, **more.get(end, {}))
        if end != "extend" or not done:
            self.held.remove(grant)

    def wait(self) -> None:
        try:
            self.board.engine.wait(self.board.events.last(), 0.02)
        except Unavailable:
            self.calls.append(Call(0.0, 0.0, self.agent, "wait", {}, UNKNOWN, []))


def client(engine: RemoteEngine, agent: str, seconds: float) -> Run:
    """One of those who share an engine, in a thread."""
    life = Client(engine, agent)
    yield
    end = time.monotonic() + seconds
    for number in count():
        if number >= TURNS and time.monotonic() >= end:
            return life.calls
        life.turn()


def clients(address: str, crew: str, seconds: float, patience: float) -> Run:
    """Eight of them in a process; those of every other process have one engine for all."""
    shared = RemoteEngine(address, patience=patience)
    engines = [shared if crew.endswith("0") else RemoteEngine(address, patience=patience) for _ in range(8)]
    yield
    each = [(engine, f"{crew}-{i}", seconds) for i, engine in enumerate(engines)]
    return [call for calls in race_threads(client, each, patience=seconds + 100) for call in calls]


def live(daemon: Serving, crews: int, seconds: float, kills: int) -> tuple[list[Call], list[float]]:
    """Let crews of eight live while the daemon is killed and started again; their history, and when it was killed."""
    # The last crew has no patience: around a kill it learns nothing of what became of its calls.
    each = [(daemon.url, f"crew-{i}{i % 2}", seconds, 0.001 if i == crews - 1 else 90.0) for i in range(crews)]
    moments = []
    with Crew(clients, each, patience=seconds + 150) as crew:
        crew.go()
        for _ in range(kills):
            time.sleep(seconds / (2 * kills))  # the other half is for daemons that take their time to start
            moments.append(time.monotonic())
            daemon.kill()
            daemon.start()
        calls = [call for report in crew.reports() for call in report]
    return calls, moments


def found_on(daemon: Serving) -> history.Board:
    """The board, read from its file when nobody serves it any more."""
    assert daemon.stop() == 0
    with open_board(os.fspath(daemon.board)) as board:
        events = checkers.read_log(board)
        refs = [event.subject for event in events if event.event == "task.posted"]
        tasks = [board.tasks.get(ref=ref) for ref in refs if ref]
        checkers.sound(board)
    return history.Board(events, {task.id: task for task in tasks})


def test_three_kills_of_the_daemon_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        calls, moments = live(daemon, 8, SECONDS, KILLS)
        history.judge(calls, found_on(daemon))
    answered = [call for call in calls if call.outcome == OK]
    assert {call.name for call in answered} == {*history.TOLD, *history.WINNING, "tasks.list"}
    assert len(answered) > 10 * SECONDS, "hardly anything happened"
    assert len(moments) == KILLS
    for moment in moments:
        across = [call for call in answered if call.begin < moment < call.end]
        assert across, "nobody was in the middle of something"
    given_up = {call.agent.rpartition("-")[0] for call in calls if call.outcome == UNKNOWN}
    assert given_up <= {"crew-71"}, "a restart was noticed by one who had the patience"


# ── Planted ──────────────────────────────────────────────────────────────────────────────────────────


def serve_with(plant: Plant, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on `tb` has a bug."""
    script = changed_command(folder, "from tests.races import plants", f"plants.{plant.__name__}(setattr)")
    monkeypatch.setattr("tests.daemons.TB", script)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (plants.answers_before_commit, "acknowledged|issued 2 times|was undone"),
        (plants.taken_counts_as_free, "issued|while|is said to have run out|but .* had it"),
        (plants.epoch_jumps, "follows|gap"),
    ],
)
def test_a_daemon_with_a_bug_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Plant, found: str
) -> None:
    serve_with(plant, tmp_path, monkeypatch)

    def look(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        with served(folder) as daemon:
            calls, _ = live(daemon, 2, 3.0, 1)
            history.judge(calls, found_on(daemon))

    checkers.finds(found, look, rounds=10)


A, B = "task-a", "task-b"


def event(number: int, what: str, ref: str, agent: str, epoch: int = 0, until: float = 0.0) -> Event:
    """An event of a small board."""
    who = (ref, f"name of {ref}", "task", None, 1, f"{agent}~1")
    return record(Event, (number, number * 10**6, what, PROJECT, *who, epoch, int(until * 10**6), None, 1, None))


def task(ref: str, state: str, epoch: int, holder: str | None, result: str | None) -> Task:
    """A task of a small board."""
    facts: dict[str, Any] = dict.fromkeys(Task.fields)
    facts |= {"id": ref, "name": f"name of {ref}", "state": state, "epoch": epoch, "priority": 1, "tags": ""}
    facts |= {"holder": holder and f"{holder}~1", "result": result and f'"{result}"'}
    return record(Task, tuple(facts.values()))


def small() -> tuple[dict[str, Call], list[Event], dict[str, Task]]:
    """A sound history: x posts a, wins and releases it; y wins it and completes it; z gave up posting b."""
    calls = {
        "post": Call(1, 2, "x", "tasks.post", {"name": f"name of {A}"}, OK, [(A, 0, "pending")]),
        "win": Call(3, 4, "x", "tasks.claim", {"ref": A}, OK, [(A, 1, "claimed")]),
        "release": Call(5, 6, "x", "tasks.release", {"ref": A, "epoch": 1}, OK, [(A, 1, "pending")]),
        "look": Call(5, 6, "z", "tasks.list", {}, OK, [(A, 1, "pending")]),
        "again": Call(7, 8, "y", "tasks.next", {}, OK, [(A, 2, "claimed")]),
        "late": Call(8, 9, "x", "tasks.complete", {"ref": A, "epoch": 1, "result": "x"}, REFUSED, []),
        "done": Call(9, 10, "y", "tasks.complete", {"ref": A, "epoch": 2, "result": "y"}, OK, [(A, 2, "completed")]),
        "gone": Call(1, 9, "z", "tasks.post", {"name": f"name of {B}"}, UNKNOWN, []),
    }
    events = [
        event(1, "task.posted", A, "x"),
        event(2, "task.posted", B, "z"),
        event(3, "task.claimed", A, "x", 1, 100.0),
        event(4, "task.released", A, "x", 1),
        event(5, "task.claimed", A, "y", 2, 100.0),
        event(6, "task.completed", A, "y", 2),
    ]
    return calls, events, {A: task(A, "completed", 2, "y", "y"), B: task(B, "pending", 0, None, None)}


Doctor = Callable[[dict[str, Call], list[Event], dict[str, Task]], Any]
DOCTORED: dict[str, tuple[Doctor, str]] = {
    "two winners": (
        lambda calls, *_: calls.update(too=calls["again"]._replace(agent="z")),
        "epoch 2 was issued 2 times",
    ),
    "an event is missing": (lambda _, events, __: events.pop(1), "event 2 is missing"),
    "an event is there twice": (lambda _, events, __: events.append(events[-1]), "event 7 is missing, 6 comes"),
    "an epoch is left out": (
        lambda _, events, __: events.__setitem__(4, event(5, "task.claimed", A, "y", 3, 100.0)),
        "epoch 3 follows 1",
    ),
    "the board stands elsewhere": (
        lambda _, __, tasks: tasks.update({A: task(A, "completed", 3, "y", "y")}),
        "2 grants, but the board stands at epoch 3",
    ),
    "two holders": (lambda _, events, __: events.__setitem__(3, event(4, "agent.left", A, "x")), "while .* had it"),
    "a grant is lost": (
        lambda calls, *_: calls.update(more=Call(3, 4, "x", "tasks.claim", {"ref": B}, OK, [(B, 1, "claimed")])),
        "acknowledged and lost",
    ),
    "a ghost won": (lambda calls, *_: calls.update(win=calls["win"]._replace(outcome=REFUSED)), "was not told"),
    "a call without an answer won twice": (
        lambda calls, *_: calls.update(
            win=calls["win"]._replace(agent="y", outcome=UNKNOWN), again=calls["again"]._replace(outcome=REFUSED)
        ),
        "was not told",
    ),
    "a release is lost": (
        lambda calls, *_: calls.update(more=calls["release"]._replace(params={"ref": B, "epoch": 1})),
        "acknowledged and lost",
    ),
    "a refused write happened": (
        lambda calls, *_: calls.update(release=calls["release"]._replace(outcome=REFUSED)),
        "happened 1 times, asked for 0 times",
    ),
    "a post happened twice": (
        lambda _, events, __: events.append(event(7, "task.posted", B, "z")),
        "was posted before",
    ),
    "a post is not on the board": (lambda _, __, tasks: tasks.pop(A), "not on the board"),
    "a name is on the board twice": (
        lambda _, __, tasks: tasks.update({"other": tasks[B]}),
        "posted 2 times",
    ),
    "completed twice": (
        lambda _, events, __: events.append(event(7, "task.completed", A, "y", 2)),
        "after it was completed",
    ),
    "a completion was undone": (
        lambda _, __, tasks: tasks.update({A: task(A, "pending", 2, None, None)}),
        "was undone",
    ),
    "a completion has another's result": (
        lambda _, __, tasks: tasks.update({A: task(A, "completed", 2, "y", "x")}),
        "was undone",
    ),
    "epochs against time": (
        lambda calls, *_: calls.update(win=calls["win"]._replace(begin=8.5, end=9.0)),
        "asked for after a later one",
    ),
    "a look into the past": (
        lambda calls, *_: calls.update(look=calls["look"]._replace(begin=11.0, end=12.0)),
        "after its completion was acknowledged",
    ),
}


def test_a_sound_history_is_not_condemned() -> None:
    calls, events, tasks = small()
    history.judge(list(calls.values()), history.Board(events, tasks))


@pytest.mark.parametrize("doctored", DOCTORED)
def test_a_doctored_history_is_found(doctored: str) -> None:
    doctor, found = DOCTORED[doctored]
    calls, events, tasks = small()
    doctor(calls, events, tasks)
    with pytest.raises(Broken, match=found):
        history.judge(list(calls.values()), history.Board(events, tasks))


def test_a_task_that_was_completed_twice_is_found() -> None:
    calls, events, tasks = small()
    events.append(event(7, "task.completed", A, "y", 2))
    with pytest.raises(Broken, match="completed 2 times"):
        history.completions_are_final(calls.values(), history.Board(events, tasks))
