"""Two clients far from the server: nobody decides who comes first, only how late each piece arrives."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import tiebreak

from ..slow_line import slow_line
from .explore import Explored, Explorer
from .plants import TAKE_FILE, TAKE_GLOB
from .samples import DEFECTS, pairs
from .test_serial_orders import SEED, told
from .world import PROJECT, world

LONGEST = 0.5
"""Seconds that a slow line holds a piece back at most."""
ROUNDS = 14
SOAK_ROUNDS = 2000


@pytest.fixture(scope="module")
def far() -> Iterator[list[tiebreak.Board]]:
    """Boards over slow lines, with the clock and the agents of the clients."""
    here = world()
    with slow_line(here.server.folder / ".s.PGSQL.5432", LONGEST) as line:
        address = here.address.replace(str(here.server.folder), str(line.folder))
        made = [tiebreak.open(address, agent=who, project=PROJECT, clock=here.clock) for who in ("bob~1", "eve~1")]
        yield made
        for board in made:
            board.close()


def explored(rounds: int, boards: list[tiebreak.Board], seed: int) -> Explored:
    """The pairs of the defects first, then others."""
    chance = random.Random(seed)
    known = [(one, other) for found in DEFECTS.values() for _, one, other in found] + [(TAKE_FILE, TAKE_GLOB)]
    rest = chance.choices(sorted(pairs(), key=str), k=max(0, rounds - len(known)))
    out = Explored()
    for pair in [*known, *rest][:rounds]:
        if any(sample.one_by_one for sample in pair):
            continue
        explorer = Explorer(world(), pair)
        explorer.check_freely(boards, chance.random())
        out.add(explorer.result)
    return out


def test_slow_lines_lead_to_the_outcome_of_some_serial_order(
    far: list[tiebreak.Board], capsys: pytest.CaptureFixture[str]
) -> None:
    told(capsys, "slow lines", explored(ROUNDS, far, SEED))


@pytest.mark.soak
def test_slow_lines_for_a_long_time(far: list[tiebreak.Board], capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "slow lines", explored(SOAK_ROUNDS, far, SEED + 1))
