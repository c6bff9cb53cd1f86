"""Every operation takes its locks in the one order: scopes before any look, then sessions, schedules, tasks, holds."""

from __future__ import annotations

import pytest

from .explore import two_holders
from .samples import SAMPLES, Sample
from .scheduler import Schedule
from .world import world

ALONE = [sample for sample in SAMPLES if sample.calls[0][0] != "batch"]
"""A batch takes the rows of one call after those of another: only its scopes are in order."""


@pytest.mark.parametrize("lapsed", [False, True], ids=["live", "lapsed"])
def test_an_operation_alone_takes_its_locks_in_order(lapsed: bool) -> None:
    wrong = []
    for sample in ALONE:
        wrong += [f"{sample.name}: {each}" for each in _disorder(sample, lapsed)]
    assert not wrong, "\n".join(wrong)


def _disorder(sample: Sample, lapsed: bool) -> list[str]:
    here = world()
    here.restore()
    if lapsed:
        here.clock.step()
    trace = here.scheduler.run([here.script(sample.calls, [])], Schedule((0,)))
    return trace.faults + trace.disorder


def test_the_rule_of_two_holders_sees_them() -> None:
    row = {"project": "p", "slot": 0, "until": "live"}
    holds = [
        {**row, "resource": "file:src/**", "holder": "a~1"},
        {**row, "resource": "file:src/x.py", "holder": "b~1"},
        {**row, "resource": "pool:x", "holder": "a~1"},
        {**row, "resource": "pool:x", "holder": "b~1", "slot": 1},
    ]
    pools = {"x": [{"project": "p", "resource": "pool:x", "slots": 1}]}
    assert len(list(two_holders({"holds": {"all": holds}, "pools": pools, "tasks": {}}))) == 2
