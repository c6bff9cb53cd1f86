"""A fresh board for each test, and one on which much happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tiebreak

from .watching import Clock, opened

Agents = Callable[[str], tiebreak.Board]


@pytest.fixture
def clock() -> Clock:
    """The clock of the boards of `agents`, which stands still."""
    return Clock()


@pytest.fixture
def agents(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agents]:
    """Boards on one file, each used by the agent that it was asked for; nothing else of this machine is seen."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TIEBREAK_TMUX_SOCKET", "nobody")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()  # the events are shown with the time of the person's clock
    monkeypatch.chdir(tmp_path)
    with opened(tmp_path / "board.db", clock) as as_agent:
        as_agent("me").engine.address = "/home/me/board.db"  # as it is shown: the same in every run
        yield as_agent
    monkeypatch.delenv("TZ")
    time.tzset()


@pytest.fixture
def me(agents: Agents) -> tiebreak.Board:
    """The board as the person before the screen uses it."""
    return agents("me")


@pytest.fixture
def busy(agents: Agents, clock: Clock) -> Agents:
    """Agents at work, waiting and idle; a question, a failed job, a running job, messages."""
    me = agents("me")
    names = ("fix the login redirect", "speed up the search", "migrate the orders", "flaky test: cart totals")
    for name in names:
        me.tasks.post(name=name)
    for name in ("ada", "bob", "carol", "dave", "erin", "frank"):
        agents(name).agents.announce(program="claude", host="dev1")
    clock.later(200)
    for number, name in enumerate(("ada", "bob", "carol"), 1):
        agents(name).tasks.claim(ref=f"#{number}")
    agents("ada").holds.take(resources=["file:src/auth.py", "file:src/session.py"])
    agents("carol").holds.take(resources=["lock:schema"], note="migration 42")
    clock.later(20)
    agents("dave").waits.enter(resources=["file:src/auth.py"])
    agents("erin").questions.ask("Which database?\nFor the tests only.", choices=["sqlite", "postgres"], about="#4")
    me.jobs.submit(command="make e2e", name="end-to-end tests", queue="ci", max_attempts=1)
    me.jobs.submit(command="make image", name="build the image", queue="ci")
    me.jobs.submit(command="make lint", name="lint", queue="ci")
    [job] = agents("worker-1").jobs.next(queues=["ci"], lease=300)
    text = "running 214 tests\nFAILED cart totals\n"
    agents("worker-1").jobs.append(ref="#6", epoch=job.epoch, chunks=[{"start": 0, "stream": 1, "text": text}])
    agents("worker-1").tasks.fail(ref="#6", epoch=job.epoch, reason="exit 1", retry=False)
    [job] = agents("worker-2").jobs.next(queues=["ci"], lease=300)
    agents("worker-2").jobs.append(ref="#7", epoch=job.epoch, chunks=[{"start": 0, "stream": 1, "text": "step 1\n"}])
    agents("worker-2").jobs.progress(ref="#7", percent=40, note="layer 4 of 9")
    me.messages.send(body="please rebase on main")
    agents("ada").messages.send(body="I need session.py for ten minutes", to="dave")
    clock.later(5)
    return agents
