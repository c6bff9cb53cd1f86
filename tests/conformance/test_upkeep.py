"""Upkeep: correct numbers, and pruning that removes history but nothing that a decision needs."""

from __future__ import annotations

from typing import Any

import pytest

from tiebreak import Board, Invalid, NotFound

from .engines import Place

DAY = 86_400.0


def prune_all(board: Board, **params: Any) -> None:
    while board.upkeep.prune(**params).more:
        pass


# ── Numbers ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_empty_board_counts_nothing(alice: Board) -> None:
    status = alice.upkeep.status()
    states = (status.blocked, status.pending, status.claimed, status.completed, status.failed, status.cancelled)
    assert (*states, status.holds, status.agents, status.messages, status.events) == (0,) * 10
    assert status.project == "demo"


def test_the_events_of_other_projects_are_not_counted(alice: Board) -> None:
    for name in ("one", "two", "three"):
        alice.tasks.post(name=name, project="elsewhere")
    alice.tasks.post(name="here")
    assert alice.upkeep.status().events == 1
    assert alice.upkeep.status(project="elsewhere").events == 3
    assert alice.upkeep.status(project=None).events == 4
    assert alice.upkeep.status(count_events=False).events == 0
    assert alice.upkeep.status(count_events=False).pending == 1


def test_every_task_is_counted_in_its_state(alice: Board) -> None:
    for i in range(6):
        alice.tasks.post(name=f"pending {i}", key=f"t{i}")
    alice.tasks.post(name="blocked", after=["t0"])
    for i in range(2, 6):
        alice.tasks.claim(ref=f"t{i}")
    alice.tasks.complete(ref="t3")
    alice.tasks.fail(ref="t4", retry=False)
    alice.tasks.cancel(ref="t5")
    status = alice.upkeep.status()
    assert (status.blocked, status.pending, status.claimed) == (1, 2, 1)
    assert (status.completed, status.failed, status.cancelled) == (1, 1, 1)


def test_a_lapsed_claim_counts_as_pending(place: Place, alice: Board) -> None:
    alice.tasks.claim(ref="work", lease=60)
    place.advance(60)
    status = alice.upkeep.status()
    assert (status.pending, status.claimed, status.failed) == (1, 0, 0)


def test_a_lapsed_last_attempt_counts_as_claimed_until_its_failure_is_written(place: Place, alice: Board) -> None:
    alice.tasks.post(name="work", key="work", max_attempts=1)
    alice.tasks.claim(ref="work", lease=60)
    place.advance(60)
    status = alice.upkeep.status()
    assert (status.pending, status.claimed, status.failed) == (0, 1, 0)
    alice.tasks.sweep()
    status = alice.upkeep.status()
    assert (status.pending, status.claimed, status.failed) == (0, 0, 1)


def test_only_live_holds_are_counted(place: Place, alice: Board) -> None:
    alice.holds.take(resources=["lock:short"], lease=60)
    alice.holds.take(resources=["lock:live", "lock:released"], lease=600)
    alice.holds.release(resources=["lock:released"])
    place.advance(61)
    assert alice.upkeep.status().holds == 1


def test_only_agents_that_are_here_are_counted(alice: Board, bob: Board) -> None:
    alice.agents.announce()
    bob.agents.announce()
    bob.agents.leave()
    assert alice.upkeep.status().agents == 1


def test_messages_and_events_are_counted(place: Place, alice: Board) -> None:
    alice.messages.send(body="one")
    alice.messages.send(later=True, body="two", to="bob")
    status = alice.upkeep.status()
    assert (status.messages, status.events) == (2, alice.events.last())


def test_the_status_tells_board_time(place: Place, alice: Board) -> None:
    before = alice.upkeep.status().now
    place.advance(60)
    assert alice.upkeep.status().now == pytest.approx(before + 60)


def test_the_numbers_are_those_of_one_project_or_of_all(place: Place, alice: Board) -> None:
    alice.tasks.post(name="here")
    place.open("bob", project="other").tasks.post(name="there")
    assert [alice.upkeep.status(project=p).pending for p in ("demo", "other", None)] == [1, 1, 2]


# ── What is forgotten ────────────────────────────────────────────────────────────────────────────────


def test_old_tasks_messages_and_agents_are_pruned(place: Place, alice: Board, bob: Board) -> None:
    alice.agents.announce()
    alice.tasks.claim(ref="old")
    alice.tasks.complete(ref="old")
    alice.messages.send(body="old")
    place.advance(40 * DAY)
    bob.tasks.post(name="newer")
    bob.messages.send(body="newer")
    pruned = bob.upkeep.prune()
    assert (pruned.tasks, pruned.messages, pruned.agents, pruned.more) == (1, 1, 1, False)
    assert pruned.events == 5
    with pytest.raises(NotFound):
        alice.tasks.get(ref="old")
    assert bob.upkeep.status().messages == 1


@pytest.mark.parametrize(("age", "forgotten"), [(2 * DAY, 1), (0.5 * DAY, 0)])
def test_only_rows_older_than_asked_are_pruned(place: Place, alice: Board, age: float, forgotten: int) -> None:
    alice.tasks.claim(ref="old")
    alice.tasks.complete(ref="old")
    alice.tasks.post(name="newer")
    place.advance(age)
    assert alice.upkeep.prune(older_than="1d").tasks == forgotten


def test_a_pruned_message_is_not_found_by_a_search(place: Place, alice: Board) -> None:
    alice.messages.send(body="forgettable")
    place.advance(40 * DAY)
    alice.messages.send(body="memorable")
    alice.upkeep.prune()
    assert alice.messages.search(query="forgettable") == []
    assert len(alice.messages.search(query="memorable")) == 1


def test_pruning_goes_in_steps_until_nothing_is_left(place: Place, alice: Board) -> None:
    for i in range(5):
        alice.tasks.claim(ref=f"old{i}")
        alice.tasks.complete(ref=f"old{i}")
    place.advance(40 * DAY)
    alice.tasks.post(name="newer")
    steps = [alice.upkeep.prune(limit=2) for _ in range(2)]
    assert [(step.tasks, step.more) for step in steps] == [(2, True), (2, True)]
    prune_all(alice, limit=2)
    assert alice.upkeep.status().completed == 0
    assert len(alice.events.read(after=0)) <= 2  # the newest, and perhaps that of pruning


def test_pruning_step_by_step_comes_to_an_end(place: Place, alice: Board) -> None:
    for i in range(3):
        alice.messages.send(body=f"old {i}")
    place.advance(DAY)
    steps = 0
    while alice.upkeep.prune(older_than=0, limit=1).more:
        steps += 1
        assert steps < 20, "every step made more work for the next"


def test_pruning_is_not_held_up_by_what_is_kept(place: Place, alice: Board, bob: Board) -> None:
    bob.agents.announce()
    place.advance(1)
    place.open("carol").agents.announce()
    place.advance(40 * DAY)
    bob.tasks.post(name="still here")
    prune_all(alice, limit=1)
    kept = alice.agents.list()
    assert [agent.id for agent in kept] == ["bob~test"]


def test_pruning_forgets_remembered_answers_after_a_day(place: Place, alice: Board) -> None:
    def send() -> int:
        number: int = alice.call("messages.send", {"body": "hello"}, once="send-hello-1").number
        return number

    first = send()
    place.advance(0.5 * DAY)
    alice.upkeep.prune()
    assert send() == first
    place.advance(DAY)
    assert alice.upkeep.prune().answers >= 1  # a daemon's client repeats every write safely
    assert send() > first


# ── What is kept ─────────────────────────────────────────────────────────────────────────────────────


def test_unfinished_tasks_are_never_forgotten(place: Place, alice: Board) -> None:
    alice.tasks.post(name="pending", key="pending")
    alice.tasks.post(name="blocked", key="blocked", after=["pending"])
    alice.tasks.claim(ref="claimed", lease=60)
    place.advance(400 * DAY)
    alice.tasks.post(name="newer")
    prune_all(alice)
    assert [alice.tasks.get(ref=ref).state for ref in ("pending", "blocked", "claimed")] == [
        "pending",
        "blocked",
        "pending",
    ]


def test_a_task_is_kept_while_something_unfinished_comes_after_it(place: Place, alice: Board) -> None:
    alice.tasks.claim(ref="first")
    alice.tasks.post(name="second", key="second", after=["first"])
    alice.tasks.complete(ref="first")
    place.advance(40 * DAY)
    alice.tasks.post(name="newer")
    prune_all(alice)
    assert [task.key for task in alice.tasks.after(ref="second")] == ["first"]


def test_a_key_goes_on_counting_after_its_task_was_forgotten(place: Place, alice: Board) -> None:
    alice.tasks.claim(ref="nightly")
    alice.tasks.release(ref="nightly")
    alice.tasks.claim(ref="nightly")
    alice.tasks.complete(ref="nightly")
    place.advance(40 * DAY)
    alice.tasks.post(name="newer")
    prune_all(alice)
    assert alice.tasks.claim(ref="nightly").epoch == 3


def test_a_key_that_was_forgotten_twice_still_goes_on_counting(place: Place, alice: Board) -> None:
    for _ in range(2):
        alice.tasks.claim(ref="nightly")
        alice.tasks.complete(ref="nightly")
        place.advance(40 * DAY)
        alice.tasks.post(name="newer")
        prune_all(alice)
    assert alice.tasks.claim(ref="nightly").epoch == 3


def test_a_hold_goes_on_counting_after_pruning(place: Place, alice: Board) -> None:
    alice.holds.take(resources=["lock:deploy"])
    alice.holds.release(resources=["lock:deploy"])
    place.advance(400 * DAY)
    prune_all(alice)
    assert alice.holds.take(resources=["lock:deploy"])[0].epoch == 2


def test_a_live_hold_is_kept(place: Place, alice: Board) -> None:
    alice.holds.take(resources=["lock:deploy"], lease=7 * DAY)
    place.advance(6 * DAY)
    prune_all(alice, older_than=DAY)
    assert [hold.resource for hold in alice.holds.list()] == ["lock:deploy"]


def test_a_pool_keeps_its_size(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["pool:ports"], slots=2)
    place.advance(400 * DAY)
    prune_all(alice)
    assert [board.holds.take(resources=["pool:ports"])[0].slot for board in (alice, bob)] == [0, 1]


def test_no_number_is_given_twice(place: Place, alice: Board) -> None:
    task = alice.tasks.claim(ref="old")
    alice.tasks.complete(ref="old")
    message = alice.messages.send(body="old")
    event = alice.events.last()
    place.advance(400 * DAY)
    prune_all(alice, older_than=0)
    assert alice.tasks.post(name="new").number > task.number
    assert alice.messages.send(body="new").number > message.number
    assert alice.events.last() > event


def test_a_reader_does_not_read_again_after_pruning(place: Place, alice: Board, bob: Board) -> None:
    bob.messages.mark(upto=alice.messages.send(body="read").number)
    place.advance(40 * DAY)
    prune_all(alice)
    assert bob.messages.inbox() == []


def test_an_agent_that_still_acts_is_kept(place: Place, alice: Board, bob: Board) -> None:
    bob.agents.announce(doing="a long story", program="codex")
    place.advance(40 * DAY)
    bob.tasks.post(name="work")
    alice.upkeep.prune()
    assert [(a.status, a.doing) for a in alice.agents.list(agent="bob")] == [("active", "a long story")]


def test_an_agent_that_sends_heartbeats_is_kept(place: Place, alice: Board, bob: Board) -> None:
    bob.agents.announce(doing="a long story")
    place.advance(40 * DAY)
    bob.agents.heartbeat()
    assert alice.upkeep.prune().agents == 0


@pytest.mark.parametrize("wrong", [{"older_than": -1}, {"older_than": "old"}, {"limit": 0}, {"limit": 1001}], ids=str)
def test_senseless_pruning_is_refused(alice: Board, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        alice.call("upkeep.prune", wrong)


# ── One project ──────────────────────────────────────────────────────────────────────────────────────


def furnish(board: Board) -> None:
    """Something old of every sort that is pruned."""
    board.agents.announce()
    board.tasks.claim(ref="old")
    board.call("tasks.complete", {"ref": "old"}, once=f"once-in-{board.project}")
    board.messages.send(body="old")


def pruned(board: Board, project: str | None) -> list[int]:
    """How much of everything all steps together have forgotten: tasks, events, messages, agents, answers."""
    total = [0] * 5
    more = True
    while more:
        step = board.upkeep.prune(project=project)
        more = step.more
        found = (step.tasks, step.events, step.messages, step.agents, step.answers)
        total = [sum(both) for both in zip(total, found, strict=True)]
    return total


def counts(board: Board, project: str) -> tuple[int, int, int, int]:
    events = board.events.read(project=project, limit=1000)
    status = board.upkeep.status(project=project)
    return status.completed, len(events), status.messages, len(board.agents.list(project=project))


def furnished(place: Place) -> tuple[Board, Board]:
    """Two projects with something old in each, and something new on the board."""
    here, there = place.open("alice"), place.open("alice", project="other")
    furnish(here)
    furnish(there)
    place.advance(40 * DAY)
    place.open("bob", project="third").tasks.post(name="new")
    place.open("bob", project="third").messages.send(body="new")
    return here, there


def test_pruning_a_project_leaves_the_others_as_they_were(place: Place) -> None:
    here, there = furnished(place)
    before = counts(here, "demo")
    *gone, answers = pruned(there, "other")
    assert gone == [1, 5, 1, 1]
    assert counts(here, "demo") == before
    assert counts(here, "other")[0] == 0
    assert pruned(there, "demo") == [*gone, answers], "as much as in the other: a client of a daemon leaves answers"


def test_a_project_that_was_pruned_alone_goes_on_with_its_epochs(place: Place) -> None:
    _, there = furnished(place)
    prune_all(there, project="other")
    assert there.tasks.claim(ref="old").epoch == 2


def test_without_a_project_all_are_pruned(place: Place) -> None:
    here, _ = furnished(place)
    prune_all(here)
    assert (counts(here, "demo")[0], counts(here, "other")[0]) == (0, 0)
    assert here.agents.list(project=None, agent="alice") == []


@pytest.mark.parametrize("project", ["demo", "other", "third", "fourth", None])
def test_what_is_counted_is_what_is_pruned(place: Place, project: str | None) -> None:
    here, _ = furnished(place)
    newest = here.events.last()
    would = here.upkeep.prunable(project=project)
    assert here.events.last() == newest
    assert would == here.upkeep.prunable(project=project), "counting changes nothing"
    assert [would.tasks, would.events, would.messages, would.agents, would.answers] == pruned(here, project)


def test_what_is_kept_is_not_counted_as_prunable(place: Place, alice: Board) -> None:
    alice.tasks.claim(ref="first")
    alice.tasks.complete(ref="first")
    alice.tasks.post(name="second", after=["first"])
    place.advance(40 * DAY)
    assert alice.upkeep.prunable().tasks == 0
    alice.tasks.cancel(ref="#2")
    assert alice.upkeep.prunable().tasks == 1


def test_the_log_of_a_pruned_project_says_so(place: Place) -> None:
    here, there = furnished(place)
    there.upkeep.prune(project="other")
    assert [event.project for event in here.events.read(event="board.pruned", project=None)] == ["other"]


def test_pruning_a_project_in_steps_comes_to_an_end(place: Place) -> None:
    here, there = furnished(place)
    steps = 0
    while there.upkeep.prune(project="other", limit=1).more:
        steps += 1
        assert steps < 20, "every step made more work for the next"
    assert counts(here, "other")[0] == 0
