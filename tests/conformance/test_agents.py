"""Agents: their status follows from the clock and from their process, never from a guess."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tiebreak import Agent, Board, Invalid, Lost, NotFound
from tiebreak.process_identity import Identity, identity

from .engines import Place


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A real process that lives until it is told to end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        yield started
        started.kill()


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def announce(board: Board, who: Identity, **more: Any) -> Agent:
    return board.agents.announce(host=who.host, boot=who.boot, pid=who.pid, started=who.started, **more)


def status(board: Board, name: str) -> str:
    return board.agents.list(agent=name)[0].status


# ── Announcing ───────────────────────────────────────────────────────────────────────────────────────


def test_an_announcement_says_who_where_and_what(alice: Board, bob: Board) -> None:
    me = identity()
    announce(alice, me, doing="reviewing", program="codex", parent="lead~one")
    found = bob.agents.list(agent="alice")[0]
    assert (found.id, found.project, found.status) == ("alice~test", "demo", "active")
    assert (found.doing, found.program, found.parent) == ("reviewing", "codex", "lead")
    assert (found.host, found.boot, found.pid, found.started) == tuple(me)


def test_the_board_itself_can_announce_this_session(alice: Board) -> None:
    found = alice.announce("reviewing", program="codex")
    assert (found.status, found.doing, found.program) == ("active", "reviewing", "codex")
    assert found.pid > 0


def test_announcing_again_keeps_fields_that_are_not_given(place: Place, alice: Board) -> None:
    first = announce(alice, identity(), doing="reviewing", program="codex")
    place.advance(10)
    second = alice.agents.announce(doing="testing")
    assert (second.doing, second.program, second.pid) == ("testing", "codex", first.pid)
    assert second.joined_at == first.joined_at
    assert second.seen_at == pytest.approx(first.seen_at + 10)


def test_every_incarnation_of_a_name_is_listed(place: Place, alice: Board) -> None:
    for session in ("one", "two"):
        place.open(f"bob~{session}").agents.announce()
    place.open("bobby~one").agents.announce()
    assert sorted(agent.id for agent in alice.agents.list(agent="bob")) == ["bob~one", "bob~two"]


def test_the_same_agent_in_two_projects_is_two_entries(place: Place, alice: Board) -> None:
    alice.agents.announce(doing="here")
    place.open("alice", project="other").agents.announce(doing="there")
    assert [agent.doing for agent in alice.agents.list()] == ["here"]
    assert sorted(agent.project for agent in alice.agents.list(project=None)) == ["demo", "other"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"doing": "two\nlines"},
        {"doing": "x" * 4001},
        {"program": "x" * 801},
        {"parent": "no body"},
        {"pid": -1},
        {"started": "now"},
        {"host": ""},
        {"agent": "x" * 200},
        {"mood": "good"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_an_announcement_with_something_wrong_is_refused(alice: Board, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        alice.call("agents.announce", wrong)
    assert alice.agents.list() == []


@pytest.mark.parametrize(
    ("operation", "wrong"),
    [("agents.heartbeat", {"doing": ""}), ("agents.leave", {"reason": "two\nlines"}), ("agents.leave", {"agent": "~"})],
    ids=str,
)
def test_an_invalid_heartbeat_is_no_sign_of_life(place: Place, alice: Board, operation: str, wrong: Any) -> None:
    before = alice.agents.announce()
    place.advance(10)
    with pytest.raises(Invalid):
        alice.call(operation, wrong)
    assert alice.agents.list() == [before]


# ── Signs of life ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("silence", "expected"),
    [
        (0, "active"),
        (60, "active"),
        (61, "idle"),
        (1800, "idle"),
        (1801, "stale"),
        (86_400, "stale"),
        (86_401, "gone"),
    ],
)
def test_silence_turns_active_into_idle_stale_and_gone(
    place: Place, alice: Board, bob: Board, silence: float, expected: str
) -> None:
    bob.agents.announce()
    place.advance(silence)
    assert status(alice, "bob") == expected


def test_a_heartbeat_keeps_an_agent_active(place: Place, alice: Board, bob: Board) -> None:
    bob.agents.announce(doing="reviewing")
    place.advance(100)
    beat = bob.agents.heartbeat()
    assert (beat.status, beat.doing) == ("active", "reviewing")
    assert status(alice, "bob") == "active"


def test_a_bare_heartbeat_leaves_no_event(bob: Board) -> None:
    bob.agents.announce()
    before = bob.events.last()
    bob.agents.heartbeat()
    assert bob.events.last() == before


def test_a_heartbeat_may_say_what_the_agent_does_now(alice: Board, bob: Board) -> None:
    bob.agents.announce(doing="reviewing")
    bob.agents.heartbeat(doing="testing")
    assert alice.agents.list(agent="bob")[0].doing == "testing"
    assert [e.note for e in alice.events.read(event="agent.doing")] == ["testing"]


def test_a_heartbeat_of_an_unknown_agent_announces_it(alice: Board, bob: Board) -> None:
    bob.agents.heartbeat(doing="testing")
    assert alice.agents.list(agent="bob")[0].doing == "testing"
    assert [e.agent for e in alice.events.read(event="agent.announced")] == ["bob"]


def test_the_heartbeat_of_one_incarnation_does_not_revive_another(place: Place, alice: Board) -> None:
    place.open("bob~one").agents.announce()
    place.advance(4000)
    place.open("bob~two").agents.heartbeat()
    assert {a.id: a.status for a in alice.agents.list()} == {"bob~one": "stale", "bob~two": "active"}


def test_acting_is_a_sign_of_life(place: Place, alice: Board, bob: Board) -> None:
    bob.agents.announce()
    place.advance(4000)
    bob.tasks.post(name="work")
    assert status(alice, "bob") == "active"


def test_an_agent_that_never_announced_itself_is_seen_by_its_acts(place: Place, alice: Board, bob: Board) -> None:
    bob.tasks.post(name="work")
    place.advance(100)
    found = alice.agents.list()
    assert [(a.id, a.status, a.pid) for a in found] == [("bob~test", "idle", 0)]


@pytest.mark.parametrize("asked", ["bob", "bob~test"])
def test_an_unannounced_agent_is_found_by_its_name(alice: Board, bob: Board, asked: str) -> None:
    bob.tasks.post(name="work")
    alice.tasks.post(name="other work")
    assert [a.id for a in alice.agents.list(agent=asked)] == ["bob~test"]


@pytest.mark.parametrize("asked", ["bob", "bob~test"])
def test_an_announced_agent_is_found_by_its_name(alice: Board, bob: Board, asked: str) -> None:
    bob.agents.announce()
    assert [a.id for a in alice.agents.list(agent=asked)] == ["bob~test"]


def test_losing_a_lease_is_no_sign_of_life(place: Place, alice: Board, bob: Board) -> None:
    bob.agents.announce()
    bob.holds.take(resources=["lock:deploy"], lease=60)
    place.advance(4000)
    alice.holds.take(resources=["lock:deploy"])
    assert status(alice, "bob") == "stale"


def test_receiving_a_hold_is_no_sign_of_life(place: Place, alice: Board, bob: Board) -> None:
    bob.agents.announce()
    place.advance(4000)
    alice.holds.take(resources=["lock:deploy"])
    alice.holds.transfer(resource="lock:deploy", to=bob.agent)
    assert status(alice, "bob") == "stale"


def test_losing_a_place_in_the_queue_is_no_sign_of_life(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["lock:deploy"], lease=86_400)
    bob.agents.announce()
    bob.waits.enter(resources=["lock:deploy"])
    place.advance(4000)
    place.open("carol").waits.enter(resources=["lock:deploy"])
    assert status(alice, "bob") == "stale"


def test_giving_a_place_in_the_queue_up_is_a_sign_of_life(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["lock:deploy"], lease=86_400)
    number = bob.waits.enter(resources=["lock:deploy"]).number
    place.advance(25)
    assert bob.waits.leave(place=number)
    place.advance(50)
    assert status(alice, "bob") == "active"  # 50 seconds after it left, 75 after it came


def test_being_refused_leaves_the_same_trace_for_tasks_and_holds(place: Place, alice: Board) -> None:
    task = alice.tasks.post(name="work", key="work")
    alice.tasks.claim(ref=task.id, lease=86_400)
    alice.holds.take(resources=["lock:deploy"], lease=86_400)
    at_task, at_hold = place.open("bob"), place.open("carol")
    for board in (at_task, at_hold):
        board.agents.announce()
    place.advance(4000)
    with pytest.raises(Lost):
        at_task.tasks.claim(ref=task.id)
    with pytest.raises(Lost):
        at_hold.holds.take(resources=["lock:deploy"])
    for board in (at_task, at_hold):
        board.messages.mark(upto=0)  # a write that is no event itself carries the refusals
    assert status(alice, "bob") == status(alice, "carol")


# ── Processes ────────────────────────────────────────────────────────────────────────────────────────


def test_a_dead_process_is_gone_at_once(alice: Board, bob: Board, process: subprocess.Popen[bytes]) -> None:
    announce(bob, identity(process.pid))
    end(process)
    assert status(alice, "bob") == "gone"


def test_a_live_process_is_not_gone_however_silent(
    place: Place, alice: Board, bob: Board, process: subprocess.Popen[bytes]
) -> None:
    announce(bob, identity(process.pid))
    place.advance(3600)
    assert status(alice, "bob") == "stale"


def test_a_process_with_the_same_number_is_not_the_same_process(
    alice: Board, bob: Board, process: subprocess.Popen[bytes]
) -> None:
    who = identity(process.pid)
    announce(bob, Identity(who.host, who.boot, who.pid, who.started + 1))
    assert status(alice, "bob") == "gone"


def test_a_process_on_another_machine_is_judged_by_the_clock(
    place: Place, alice: Board, bob: Board, process: subprocess.Popen[bytes]
) -> None:
    who = identity(process.pid)
    end(process)
    announce(bob, Identity("elsewhere.example", who.boot, who.pid, who.started))
    assert status(alice, "bob") == "active"


def test_an_agent_that_comes_back_in_a_new_process_is_judged_by_that_one(
    alice: Board, bob: Board, process: subprocess.Popen[bytes]
) -> None:
    announce(bob, identity(process.pid))
    end(process)
    announce(bob, identity())
    assert status(alice, "bob") == "active"


# ── Leaving ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_agent_that_left_is_gone(place: Place, alice: Board, bob: Board) -> None:
    bob.agents.announce()
    place.advance(5)
    left = bob.agents.leave(reason="done for today")
    assert left.status == "gone"
    assert left.left_at == pytest.approx(left.joined_at + 5)
    assert [e.note for e in alice.events.read(event="agent.left")] == ["done for today"]


def test_leaving_does_not_release_claims_and_holds(alice: Board, bob: Board) -> None:
    bob.agents.announce()
    bob.holds.take(resources=["lock:deploy"])
    bob.agents.leave()
    with pytest.raises(Lost):
        alice.holds.take(resources=["lock:deploy"])


def test_an_unknown_agent_cannot_leave(place: Place, bob: Board) -> None:
    place.open("bob~other").agents.announce()
    before = bob.events.last()
    with pytest.raises(NotFound):
        bob.agents.leave()
    assert bob.events.last() == before


@pytest.mark.parametrize("sign", ["agents.heartbeat", "agents.announce"])
def test_an_agent_that_comes_back_is_not_gone(alice: Board, bob: Board, sign: str) -> None:
    bob.agents.announce()
    bob.agents.leave()
    bob.call(sign, {})
    assert alice.agents.list(agent="bob")[0].left_at is None
    assert status(alice, "bob") == "active"


def test_an_agent_that_acts_after_leaving_is_not_gone(place: Place, alice: Board, bob: Board) -> None:
    bob.agents.announce()
    bob.agents.leave()
    place.advance(5)
    bob.tasks.post(name="one more thing")
    assert status(alice, "bob") == "active"


# ── The list ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_list_starts_with_the_agent_that_was_seen_last(place: Place, alice: Board, bob: Board) -> None:
    bob.agents.announce()
    place.advance(1)
    alice.agents.announce()
    place.advance(1)
    bob.agents.heartbeat()
    assert [a.id for a in alice.agents.list()] == ["bob~test", "alice~test"]


@pytest.mark.parametrize("wanted", ["active", "idle", "stale", "gone"])
def test_a_status_filters_by_the_present_status(place: Place, alice: Board, wanted: str) -> None:
    for name, silence in (("gone", 86_000), ("stale", 3900), ("idle", 100), ("active", 0)):
        place.open(name).agents.announce()
        place.advance(silence)
    assert [a.id for a in alice.agents.list(status=wanted)] == [f"{wanted}~test"]


def test_the_list_is_bounded(place: Place, alice: Board) -> None:
    for i in range(3):
        place.open(f"agent{i}").agents.announce()
    assert len(alice.agents.list(limit=2)) == 2


@pytest.mark.parametrize("wrong", [{"status": "dead"}, {"limit": 0}, {"agent": "no body"}, {"project": "a b"}], ids=str)
def test_a_senseless_list_is_refused(alice: Board, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        alice.call("agents.list", wrong)


# ── Everything that an agent has ─────────────────────────────────────────────────────────────────────


def test_one_renewal_keeps_claims_and_holds(place: Place, alice: Board) -> None:
    alice.tasks.claim(ref="work", lease=100)
    alice.holds.take(resources=["file:a.py", "lock:db"], lease=100)
    place.advance(90)
    claims = alice.agents.renew(lease=300, hold_lease=1800)
    assert [(task.key, task.epoch) for task in claims] == [("work", 1)]
    place.advance(200)
    assert alice.tasks.get(ref="work").state == "claimed"
    assert len(alice.holds.list()) == 2
    alice.tasks.complete(ref="work")


def test_a_renewal_shortens_nothing(place: Place, alice: Board) -> None:
    task = alice.tasks.claim(ref="work", lease=5000)
    hold = alice.holds.take(resources=["lock:db"], lease=5000)[0]
    alice.agents.renew()
    assert alice.tasks.get(ref="work").until == task.until
    assert alice.holds.list()[0].until == hold.until


def test_a_renewal_brings_nothing_back_that_has_run_out(place: Place, alice: Board, bob: Board) -> None:
    alice.tasks.claim(ref="work", lease=10)
    alice.holds.take(resources=["lock:db"], lease=10)
    place.advance(11)
    assert alice.agents.renew() == []
    assert bob.holds.take(resources=["lock:db"])[0].epoch == 2
    assert bob.tasks.claim(ref="work").epoch == 2


def test_a_renewal_touches_nobody_elses_grants(place: Place, alice: Board, bob: Board) -> None:
    bob.tasks.claim(ref="work", lease=10)
    bob.holds.take(resources=["lock:db"], lease=10)
    again = place.open("alice~later")
    alice.tasks.claim(ref="mine", lease=10)
    assert alice.agents.renew(resources=["lock:db"], hashes=["forged"])[0].key == "mine"
    assert again.agents.renew() == []
    assert [hold.hash for hold in bob.holds.list()] == [None]
    place.advance(11)
    assert bob.holds.list() == []


def test_a_renewal_can_vouch_for_files(alice: Board) -> None:
    alice.holds.take(resources=["file:a.py", "file:b.py"], hashes=["old", "old"])
    alice.agents.renew(resources=["file:a.py"], hashes=["new"])
    assert {hold.resource: hold.hash for hold in alice.holds.list()} == {"file:a.py": "new", "file:b.py": "old"}


def test_a_warning_is_recorded_as_an_event(alice: Board, bob: Board) -> None:
    alice.agents.warn(note="the guard could not check this")
    [event] = bob.events.read(event="agent.warned")
    assert (event.agent, event.note) == ("alice", "the guard could not check this")
