"""Two clients far from the server: nobody decides who comes first, only how late each piece arrives."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from ..slow_line import slow_line
from .explore import Explored, Explorer
from .plants import TAKE_FILE, TAKE_GLOB, planted, planted_bugs
from .samples import DEFECTS, pairs
from .scheduler import Client
from .test_serial_orders import SEED, told
from .world import PROJECT, world

LONGEST = 0.5
"""Seconds that a slow line holds a piece back at most."""
ROUNDS = 14
SOAK_ROUNDS = 2000
MOST_ROUNDS = 40
"""Within so many, both have decided at the same moment."""


@pytest.fixture(scope="module")
def far() -> Iterator[list[Client]]:
    """Clients over slow lines. Nothing stops at their gates, because no script of the scheduler runs."""
    here = world()
    with slow_line(here.server.folder / ".s.PGSQL.5432", LONGEST) as line:
        address = here.address.replace(str(here.server.folder), str(line.folder))
        made = [Client(address, here.clock, agent, PROJECT) for agent in ("bob~1", "eve~1")]
        yield made
        for client in made:
            client.board.close()


def explored(rounds: int, far: list[Client], seed: int) -> Explored:
    """The pairs of the defects first, then others."""
    chance = random.Random(seed)
    known = [(one, other) for found in DEFECTS.values() for _, one, other in found] + [(TAKE_FILE, TAKE_GLOB)]
    rest = chance.choices(sorted(pairs(), key=str), k=max(0, rounds - len(known)))
    out = Explored()
    for pair in [*known, *rest][:rounds]:
        if any(sample.one_by_one for sample in pair):
            continue
        explorer = Explorer(world(), pair)
        explorer.check_freely([client.board for client in far], chance.random())
        out.add(explorer.result)
    return out


def test_slow_lines_lead_to_the_outcome_of_some_serial_order(
    far: list[Client], capsys: pytest.CaptureFixture[str]
) -> None:
    told(capsys, "slow lines", explored(ROUNDS, far, SEED))


def test_a_bug_behind_slow_lines_is_found(far: list[Client]) -> None:
    """Decisions about several holds take no turns."""
    [bug] = [each for each in planted_bugs() if each.name == "decisions about several holds take no turns"]
    explorer = Explorer(world(), (TAKE_FILE, TAKE_GLOB))
    with planted(far, bug.plant):
        while bug.kind not in explorer.result.kinds() and explorer.result.schedules < MOST_ROUNDS:
            explorer.check_freely([client.board for client in far], 0.0)
    assert bug.kind in explorer.result.kinds(), "the bug is there, and nobody noticed"


@pytest.mark.soak
def test_slow_lines_for_a_long_time(far: list[Client], capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "slow lines", explored(SOAK_ROUNDS, far, SEED + 1))
