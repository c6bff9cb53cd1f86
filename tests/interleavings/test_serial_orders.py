"""Whatever the interleaving, the outcome is that of some serial order."""

from __future__ import annotations

import random
import sys

import pytest

from .explore import Explored, Explorer
from .samples import DEFECTS, HAZARDS, TRIPLES, Sample, pairs
from .world import world

SHARDS = 8
SEED = 10
EACH_DEFECT = 45
EACH_PAIR = 5
PAIRS_OF_A_SHARD = 18
SOAK_SHARDS = 40


def told(capsys: pytest.CaptureFixture[str], what: str, explored: Explored) -> None:
    """Print how much was explored, also when tests run in several processes; fail if anything was found."""
    with capsys.disabled():
        counts = f"{explored.schedules} schedules, {explored.serial_runs} serial orders"
        print(f"\ninterleavings: {what}: {counts}, {len(explored.findings)} findings", file=sys.stderr)
    shown = "\n".join(str(finding) for finding in explored.findings[:3])
    assert not explored.findings, f"{len(explored.findings)} findings, the first of them:\n{shown}"


PROBLEMS = [(f"{number}: {title}", one, other) for number, found in DEFECTS.items() for title, one, other in found]


@pytest.mark.parametrize(
    ("one", "other"),
    [pytest.param(one, other, id=title) for title, one, other in (*PROBLEMS, *HAZARDS)],
)
def test_no_defect_that_was_there_comes_back(one: Sample, other: Sample, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, f"{one.name} | {other.name}", Explorer(world(), [one, other]).everything(EACH_DEFECT, SEED))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_some_schedules_of_some_pairs(shard: int, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = random.Random(SEED).sample(sorted(pairs(), key=str), SHARDS * PAIRS_OF_A_SHARD)
    explored = Explored()
    for i, pair in enumerate(chosen[shard::SHARDS]):
        explored.add(Explorer(world(), pair).everything(EACH_PAIR, SEED + i))
    told(capsys, f"pairs, part {shard + 1} of {SHARDS}", explored)


def test_some_schedules_of_three_clients(capsys: pytest.CaptureFixture[str]) -> None:
    explored = Explored()
    for triple in TRIPLES:
        explored.add(Explorer(world(), triple).everything(12, SEED))
    told(capsys, "triples", explored)


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(SOAK_SHARDS))
def test_all_schedules_of_all_pairs(shard: int, capsys: pytest.CaptureFixture[str]) -> None:
    explored = Explored()
    for pair in sorted(pairs(), key=str)[shard::SOAK_SHARDS]:
        explored.add(Explorer(world(), pair).everything())
    told(capsys, f"all pairs, part {shard + 1} of {SOAK_SHARDS}", explored)


@pytest.mark.soak
@pytest.mark.parametrize("triple", TRIPLES, ids=lambda triple: " | ".join(sample.name for sample in triple))
def test_all_schedules_of_three_clients(triple: tuple[Sample, ...], capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "triple", Explorer(world(), triple).everything())
