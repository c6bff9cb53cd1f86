"""The explorer knows every operation that it has to explore."""

from __future__ import annotations

import pytest

from tiebreak.operations import every

from .samples import READERS_THAT_DECIDE, SAMPLES, Sample, pairs
from .world import world

SAMPLED = {
    each
    for sample in SAMPLES
    for name, params, _ in sample.calls
    for each in ([call[0] for call in params["calls"]] if name == "batch" else [name])
}


@pytest.mark.parametrize("name", sorted(every()))
def test_an_operation_on_which_somebody_relies_is_explored(name: str) -> None:
    relied_on = every()[name].writes or name in READERS_THAT_DECIDE
    assert not relied_on or name in SAMPLED, f"{name} has no sample in tests/interleavings/samples.py"


def test_no_sample_is_invalid() -> None:
    """A call that is refused whatever the board looks like explores nothing."""
    refused = []
    for sample in SAMPLES:
        outcome = world().alone(sample.calls)
        if '"Invalid"' in outcome:
            refused.append(sample.name)
    assert not refused


def test_samples_have_different_names() -> None:
    assert len({sample.name for sample in SAMPLES}) == len({(s.name, str(s.calls)) for s in SAMPLES})


def test_every_sample_meets_another_one() -> None:
    met = {name for pair in pairs() for name in _names(pair)}
    assert {sample.name for sample in SAMPLES} <= met


def _names(pair: tuple[Sample, Sample]) -> set[str]:
    one, other = pair
    return {one.name, other.name} if one.name != other.name else {one.name}
