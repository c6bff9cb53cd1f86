"""Random lives of a board, compared step by step with the plain reference."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.engines import ENGINES
from tests.races import plants
from tests.races.crew import Plant

from .machine import BoardMachine

BASE = settings(
    deadline=None,
    database=None,
    stateful_step_count=50,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
NORMAL = settings(BASE, max_examples=40, derandomize=True)
FEWER = {"daemon": 12, "postgres": 12, "postgres-daemon": 5}
"""Lives on a server, where each step is a commit to a disk."""
SOAK = settings(BASE, max_examples=2000, derandomize=False)
HUNT = settings(BASE, max_examples=300, derandomize=True, phases=[Phase.generate], report_multiple_bugs=False)


def machine(engine: str) -> type[BoardMachine]:
    return type(f"{engine.title()}Machine", (BoardMachine,), {"engine": engine})


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_a_board_does_what_its_reference_does(engine: str) -> None:
    examples = FEWER.get(engine, NORMAL.max_examples)
    run_state_machine_as_test(machine(engine), settings=settings(NORMAL, max_examples=examples))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_a_board_does_what_its_reference_does_for_a_long_time(engine: str) -> None:
    run_state_machine_as_test(machine(engine), settings=SOAK)


@pytest.mark.parametrize(
    "plant",
    [
        plants.taken_counts_as_free,
        plants.expired_counts_as_taken,
        plants.epoch_stands_still,
        plants.epoch_jumps,
        plants.epoch_is_not_asked,
        plants.holder_is_not_asked,
        plants.transfer_keeps_the_epoch,
        plants.giving_back_keeps_the_time,
    ],
)
def test_the_reference_finds(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch.setattr)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine("sqlite"), settings=HUNT)


@pytest.mark.parametrize("plant", [plants.taken_counts_as_free, plants.epoch_jumps, plants.epoch_is_not_asked])
def test_the_reference_finds_on_a_server(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch.setattr)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine("postgres"), settings=HUNT)
