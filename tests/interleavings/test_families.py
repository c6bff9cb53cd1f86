"""Between two steps of a cascade, others find the board as if all of it had happened, or none of it."""

from __future__ import annotations

import random
from itertools import combinations_with_replacement

import pytest

from .explore import Explored, Explorer
from .plants import Plant, planted
from .samples import BETWEEN_STEPS, Sample
from .test_serial_orders import SEED, told
from .world import families

EACH = 3
SHARDS = 2
PAIRS_OF_A_SHARD = 20
PAIRS = [
    pair
    for pair in combinations_with_replacement(BETWEEN_STEPS, 2)
    if "all" in pair[0].touches | pair[1].touches or pair[0].touches & pair[1].touches
]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_some_schedules_between_two_steps(shard: int, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = random.Random(SEED).sample(PAIRS, SHARDS * PAIRS_OF_A_SHARD)
    explored = Explored()
    for number, pair in enumerate(chosen[shard::SHARDS]):
        explored.add(Explorer(families(), pair).everything(EACH, SEED + number))
    told(capsys, f"between two steps, part {shard + 1} of {SHARDS}", explored)


def named(name: str) -> Sample:
    """The one sample of that name."""
    [found] = [sample for sample in BETWEEN_STEPS if sample.name.startswith(name)]
    return found


def test_a_step_that_counts_before_it_locks_is_found() -> None:
    """Both would see the other one's task as unfinished, and nobody would release what comes after them."""
    bug = Plant((r"\bORDER BY number FOR UPDATE", "ORDER BY number"), about="run_anyway, blockers FROM tasks")
    pair = named("tasks.complete(ref=T"), named("tasks.complete(ref=U")
    with planted(families().clients, bug):
        explored = Explorer(families(), pair, scopes_first=False).everything(enough="outcome")
    assert bug.count, "there was nothing to rewrite: the plant has to follow the code"
    assert "outcome" in explored.kinds(), "the bug is there, and nobody noticed"


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(20))
def test_all_schedules_between_two_steps(shard: int, capsys: pytest.CaptureFixture[str]) -> None:
    explored = Explored()
    for pair in PAIRS[shard::20]:
        explored.add(Explorer(families(), pair).everything())
    told(capsys, f"between two steps, all, part {shard + 1} of 20", explored)
