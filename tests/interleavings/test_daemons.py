"""The same through a daemon: the calls of several callers share a transaction, and each has its place in the order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from .daemons import GroupingDaemon
from .explore import Explored, Explorer
from .plants import TAKE_FILE, TAKE_GLOB, planted, planted_bugs
from .samples import COMPLETE_A, DEPEND_D, RENEW_GLOB, RETRY_C, group_commits, through_daemon
from .scheduler import Schedule
from .test_serial_orders import SEED, told
from .world import World, world

EACH_GROUP = 5
GROUPS_OF_A_SHARD = 14
SHARDS = 2
SOAK_SHARDS = 20
AFFORDABLE = 3000
"""Serial orders of one group, at most: those with tens of thousands may take minutes, and belong to `make soak`."""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world, with a daemon for each of the first two clients."""
    made = world()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))  # where daemons have their locks
        with ExitStack() as stack:
            stack.callback(made.daemons.clear)
            for client in made.clients[:2]:
                made.daemons[client.board] = daemon = GroupingDaemon(client, client.board.agent)
                stack.callback(daemon.close)
            yield made


def test_calls_that_arrive_together_are_committed_together(here: World) -> None:
    trace, _ = here.interleaved([through_daemon(COMPLETE_A, DEPEND_D, RENEW_GLOB).calls], Schedule((0,)))
    commits = [message for _, message in trace.messages if message.endswith("COMMIT")]
    assert len(commits) == 2, "the first call by itself, the two others together"


def test_group_commits_of_two_daemons_are_like_calls_one_by_one(
    here: World, capsys: pytest.CaptureFixture[str]
) -> None:
    first = through_daemon(TAKE_FILE, COMPLETE_A, RENEW_GLOB)
    second = through_daemon(RETRY_C, TAKE_GLOB)
    told(capsys, "two daemons", Explorer(here, [first, second]).everything(40, SEED))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_group_commit_beside_a_client_is_like_calls_one_by_one(
    shard: int, here: World, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = [pair for pair in group_commits() if Explorer(here, pair).most_serial_orders() <= AFFORDABLE]
    assert len(groups) > 500
    chosen = random.Random(SEED).sample(groups, SHARDS * GROUPS_OF_A_SHARD)
    explored = Explored()
    for number, pair in enumerate(chosen[shard::SHARDS]):
        explored.add(Explorer(here, pair).everything(EACH_GROUP, SEED + number))
    told(capsys, f"group commits, part {shard + 1} of {SHARDS}", explored)


def test_a_bug_in_a_group_commit_is_found(here: World) -> None:
    """Decisions about several holds take no turns."""
    [bug] = [each for each in planted_bugs() if each.name == "decisions about several holds take no turns"]
    with planted(here.clients, bug.plant):
        pair = through_daemon(COMPLETE_A, TAKE_FILE, DEPEND_D), TAKE_GLOB
        explored = Explorer(here, pair, scopes_first=False).everything(enough=bug.kind)
    assert bug.plant.count, "there was nothing to rewrite: the plant has to follow the code"
    assert bug.kind in explored.kinds(), "the bug is there, and nobody noticed"


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(SOAK_SHARDS))
def test_all_schedules_of_group_commits(shard: int, here: World, capsys: pytest.CaptureFixture[str]) -> None:
    explored = Explored()
    for number, pair in enumerate(group_commits()[shard::SOAK_SHARDS]):
        explored.add(Explorer(here, pair).everything(100, SEED + number))
    told(capsys, f"all group commits, part {shard + 1} of {SOAK_SHARDS}", explored)
