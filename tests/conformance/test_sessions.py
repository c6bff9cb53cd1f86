"""Sessions: one seat for each project, passed on and returned in one step, and a fence for the session that lost it."""

from __future__ import annotations

from typing import Any

import pytest

from tiebreak import Board, Fenced, Invalid, Lost, NotFound, Refused
from tiebreak.model import Session, agent_id, holder_id

from .engines import Place

LEAD, NEXT = "lead~spawn-1", "next~spawn-2"
SEAT = "seat:coordinator"


def process(pid: int) -> dict[str, Any]:
    return {"host": "here", "boot": "1.1", "pid": pid, "started": 10 * pid}


def begin(board: Board, session: str = LEAD, **more: Any) -> Session:
    words = {"role": "coordinator", "command": ["agent", "--x"], **process(7), **more}
    return board.call("sessions.begin", {"session": session, **words})


def adopt(board: Board, session: str = LEAD, pid: int = 8, **more: Any) -> Session:
    child = {"child": pid + 1, "child_started": 10 * pid + 10}
    return board.call("sessions.adopt", {"session": session, **process(pid), **child, **more})


def alive(board: Board, session: str = LEAD, pid: int = 8) -> Session:
    return board.sessions.alive(session=session, pid=pid, started=10 * pid)


def live(board: Board, session: str = LEAD, pid: int = 8, **more: Any) -> Session:
    begin(board, session, **more)
    adopt(board, session, pid)
    return alive(board, session, pid)


def seat(board: Board) -> tuple[str | None, int]:
    holds = board.holds.list(matching=SEAT)
    return (holder_id(holds[0]), holds[0].epoch) if holds else (None, 0)


def state(board: Board, session: str) -> Session:
    return board.sessions.list(session=session, every=True)[0]


# ── The seat ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_coordinator_has_its_seat_from_its_first_record_on(alice: Board, bob: Board) -> None:
    made = begin(alice)
    assert (agent_id(made), made.state, made.epoch, made.command) == (LEAD, "starting", 1, ["agent", "--x"])
    assert (made.started_by, seat(bob)) == ("alice", (LEAD, 1))
    assert bob.sessions.list() == [made]


def test_a_second_coordinator_is_refused_and_leaves_no_record(alice: Board, bob: Board) -> None:
    begin(alice)
    with pytest.raises(Lost) as refusal:
        begin(bob, NEXT)
    assert (refusal.value.holder, refusal.value.data["session"]) == ("lead", "spawn-1")
    assert [agent_id(each) for each in bob.sessions.list(every=True)] == [LEAD]
    assert begin(bob, "hand~spawn-3", role="worker").epoch == 0
    assert begin(bob, "other~spawn-4", project="other").epoch == 1


def test_a_session_id_is_used_once(alice: Board) -> None:
    begin(alice, role="worker")
    with pytest.raises(Refused, match="already"):
        begin(alice, role="worker")


@pytest.mark.parametrize(
    "wrong",
    [
        {"session": "lead~1"},
        {"command": []},
        {"command": "agent"},
        {"command": [1]},
        {"command": ["a\0b"]},
        {"command": ["x"] * 1001},
        {"role": "king"},
    ],
)
def test_what_is_no_session_is_refused(alice: Board, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        begin(alice, **wrong)
    assert alice.events.last() == 0


# ── Whose hands it is in ─────────────────────────────────────────────────────────────────────────────


def test_a_supervisor_takes_over_once(alice: Board, bob: Board) -> None:
    begin(alice)
    found = adopt(bob)
    assert (found.pid, found.child, found.state) == (8, 9, "starting")
    with pytest.raises(Fenced):
        adopt(alice, pid=20)
    assert alive(bob).state == "alive"
    assert state(alice, LEAD).alive_at


def test_a_supervisor_that_comes_too_late_is_refused(alice: Board, bob: Board) -> None:
    begin(alice)
    alice.sessions.end(session=LEAD, note="the spawner was found dead", pid=7, started=70)
    begin(bob, NEXT)
    with pytest.raises(Fenced):
        adopt(alice)
    assert seat(bob) == (NEXT, 2)


def test_a_supervisor_without_the_seat_may_not_begin(place: Place, alice: Board, bob: Board) -> None:
    begin(alice, lease=10)
    place.advance(11)
    begin(bob, NEXT)
    with pytest.raises(Fenced):
        adopt(alice)
    assert state(alice, LEAD).child == 0, "nothing was written"


def test_only_the_supervisor_itself_can_say_that_it_lives(alice: Board) -> None:
    begin(alice)
    with pytest.raises(Fenced):
        alive(alice)
    adopt(alice)
    with pytest.raises(Fenced):
        alive(alice, pid=20)
    alive(alice)


def test_ending_for_a_dead_starter_spares_a_session_that_was_adopted(alice: Board, bob: Board) -> None:
    begin(alice)
    adopt(alice)
    with pytest.raises(Refused, match="pid 8"):
        bob.sessions.end(session=LEAD, note="its spawner is dead", pid=7, started=70)
    with pytest.raises(Refused):
        bob.sessions.end(session=LEAD, note="a later process with the same number", pid=8, started=81)
    assert seat(alice) == (LEAD, 1)
    assert bob.sessions.end(session=LEAD, note="dead", pid=8, started=80).state == "ended"
    assert seat(alice) == (None, 0)


def test_ending_twice_is_ending_once(alice: Board) -> None:
    live(alice)
    over = alice.sessions.end(session=LEAD, note="first", code=3)
    assert alice.sessions.end(session=LEAD, note="second") == over
    assert (over.code, over.note) == (3, "first")
    assert [agent.status for agent in alice.agents.list(agent="lead")] == ["gone"]


def test_what_an_ended_session_held_is_free(alice: Board) -> None:
    live(alice)
    alice.holds.take(resources=["lock:a", "file:b"], agent=LEAD)
    alice.holds.take(resources=["lock:c"])
    alice.sessions.end(session=LEAD, note="over")
    assert [hold.resource for hold in alice.holds.list()] == ["lock:c"]


# ── Renewing ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_renewed_seat_does_not_lapse(place: Place, alice: Board, bob: Board) -> None:
    live(alice, lease=60)
    for _ in range(5):
        place.advance(50)
        assert alice.sessions.renew(session=LEAD, lease=60).fenced_by is None
    with pytest.raises(Lost):
        begin(bob, NEXT)
    assert seat(bob) == (LEAD, 1)


def test_a_seat_that_lapsed_unnoticed_by_others_is_kept(place: Place, alice: Board) -> None:
    live(alice, lease=60)
    place.advance(100)
    assert alice.sessions.renew(session=LEAD).epoch == 1
    assert seat(alice) == (LEAD, 1)


def test_a_seat_that_lapsed_was_taken_and_is_free_again_is_won_by_the_next_grant(
    place: Place, alice: Board, bob: Board
) -> None:
    live(alice, lease=60)
    place.advance(100)
    bob.holds.take(resources=[SEAT])
    bob.holds.release(resources=[SEAT])
    assert alice.sessions.renew(session=LEAD).epoch == 3
    assert seat(alice) == (LEAD, 3)


def test_a_session_whose_lapsed_seat_was_taken_is_fenced_from_that_moment(
    place: Place, alice: Board, bob: Board
) -> None:
    live(alice, lease=60)
    place.advance(100)
    live(bob, NEXT, 20)
    with pytest.raises(Fenced):
        alice.tasks.post(name="late order", agent=LEAD)


def test_losing_a_lapsed_seat_is_no_sign_of_life(place: Place, alice: Board, bob: Board) -> None:
    live(alice, lease=60)
    place.advance(4000)
    live(bob, NEXT, 20)
    assert [agent.status for agent in bob.agents.list(agent=LEAD)] == ["stale"]


def test_a_seat_that_was_taken_meanwhile_is_not_won_back(place: Place, alice: Board, bob: Board) -> None:
    live(alice, lease=60)
    place.advance(100)
    live(bob, NEXT, 20)
    assert alice.sessions.renew(session=LEAD).fenced_by == NEXT
    before = alice.events.last()
    assert alice.sessions.renew(session=LEAD).fenced_by == NEXT
    assert alice.events.last() == before, "it is said once"
    assert seat(bob) == (NEXT, 2)
    bob.sessions.end(session=NEXT, note="over")
    assert (alice.sessions.renew(session=LEAD).fenced_by, seat(alice)) == (None, (LEAD, 3))


def test_an_ended_session_cannot_be_renewed(alice: Board) -> None:
    live(alice)
    alice.sessions.end(session=LEAD, note="over")
    with pytest.raises(Fenced):
        alice.sessions.renew(session=LEAD)
    with pytest.raises(NotFound):
        alice.sessions.renew(session="nobody~spawn-9")


# ── Handing over ─────────────────────────────────────────────────────────────────────────────────────


def test_a_seat_passes_on_with_the_next_epoch_and_the_old_one_is_fenced(alice: Board, bob: Board) -> None:
    live(alice)
    alice.tasks.claim(ref="work", agent=LEAD)
    made = begin(bob, NEXT, replaces=LEAD)
    assert (made.epoch, seat(bob)) == (2, (NEXT, 2))
    assert (state(bob, LEAD).fenced_by, state(bob, LEAD).replaced_by) == (NEXT, None)
    with pytest.raises(Fenced, match="nothing was written"):
        alice.tasks.complete(ref="work", agent=LEAD)
    assert alice.tasks.get(ref="work").state == "claimed"


WRITES: dict[str, dict[str, Any]] = {
    "tasks.post": {"name": "x"},
    "tasks.claim": {"ref": "x"},
    "tasks.next": {},
    "holds.take": {"resources": ["lock:x"]},
    "holds.break": {"resource": SEAT, "reason": "mine"},
    "messages.send": {"body": "x"},
    "agents.heartbeat": {},
    "sessions.remove": {"session": LEAD},
}


@pytest.mark.parametrize("who", [LEAD, "helper~spawn-1"])
@pytest.mark.parametrize("name", sorted(WRITES))
def test_a_fenced_session_is_refused_whatever_it_writes_and_under_any_name(alice: Board, name: str, who: str) -> None:
    live(alice)
    begin(alice, NEXT, replaces=LEAD)
    before = alice.events.last()
    with pytest.raises(Fenced):
        alice.call(name, {**WRITES[name], "agent": who})
    assert alice.events.last() == before
    [answer] = alice.batch([(name, {**WRITES[name], "agent": who})])
    assert isinstance(answer, Fenced)


def test_a_list_of_what_a_fenced_session_did_is_answered_in_a_batch_too(alice: Board) -> None:
    live(alice)
    alice.tasks.claim(ref="work", agent=LEAD)
    begin(alice, NEXT, replaces=LEAD)
    alone = alice.tasks.list(agent=LEAD)
    [answer] = alice.batch([("tasks.list", {"agent": LEAD})])
    assert [task.key for task in alone] == ["work"]
    assert answer == alone


def test_the_fence_is_in_the_story_of_the_seat(alice: Board) -> None:
    live(alice)
    begin(alice, NEXT, replaces=LEAD)
    with pytest.raises(Fenced):
        alice.messages.send(body="late", agent=LEAD)
    told = [each.text for each in alice.events.why(ref=SEAT)]
    assert any("passed to next" in text for text in told)
    assert any(text.startswith("lead ") and "refused" in text for text in told)


def test_a_replacement_that_never_lived_gives_the_seat_back(alice: Board, bob: Board) -> None:
    live(alice)
    begin(bob, NEXT, replaces=LEAD)
    adopt(bob, NEXT, 20)
    bob.sessions.end(session=NEXT, note="exited with 1", code=1)
    assert seat(alice) == (LEAD, 3)
    assert (state(alice, LEAD).fenced_by, state(alice, LEAD).epoch) == (None, 3)
    alice.tasks.post(name="as before", agent=LEAD)


def test_a_replacement_that_lived_keeps_the_old_one_out(alice: Board, bob: Board) -> None:
    live(alice)
    live(bob, NEXT, 20, replaces=LEAD)
    assert state(alice, LEAD).replaced_by == NEXT
    assert alice.sessions.renew(session=LEAD).replaced_by == NEXT
    bob.sessions.end(session=NEXT, note="over")
    assert seat(alice) == (None, 0)
    assert alice.sessions.renew(session=LEAD).epoch == 1, "what was replaced does not come back"
    assert seat(alice) == (None, 0)
    with pytest.raises(Fenced):
        alice.tasks.post(name="late", agent=LEAD)


def test_a_seat_does_not_return_to_an_ended_session(alice: Board, bob: Board) -> None:
    live(alice)
    begin(bob, NEXT, replaces=LEAD)
    alice.sessions.end(session=LEAD, note="over")
    assert seat(bob) == (NEXT, 2), "it does not take the seat along"
    bob.sessions.end(session=NEXT, note="did not start")
    assert seat(bob) == (None, 0)


def test_replacing_a_session_without_the_seat_still_has_to_win_it(place: Place, alice: Board, bob: Board) -> None:
    live(alice, lease=60)
    place.advance(100)
    live(bob, NEXT, 20)
    with pytest.raises(Lost):
        begin(alice, "third~spawn-3", replaces=LEAD)
    alice.sessions.end(session=LEAD, note="over")
    bob.sessions.end(session=NEXT, note="over")
    assert begin(alice, "third~spawn-3", replaces=LEAD).epoch == 3


def test_a_message_as_the_coordinator_needs_the_seat_by_that_epoch(place: Place, alice: Board) -> None:
    live(alice, lease=60)
    alice.messages.send(body="to all", agent=LEAD, epoch=1)
    with pytest.raises(Fenced):
        alice.messages.send(body="to all", agent=LEAD, epoch=2)
    with pytest.raises(Fenced):
        alice.messages.send(body="to all", epoch=1)
    place.advance(100)
    alice.messages.send(body="late, but nobody else has the seat", agent=LEAD, epoch=1)
    alice.holds.take(resources=[SEAT])
    with pytest.raises(Fenced):
        alice.messages.send(body="to all", agent=LEAD, epoch=1)


def test_breaking_an_earlier_grant_changes_nothing(alice: Board, bob: Board) -> None:
    live(alice)
    live(bob, NEXT, 20, replaces=LEAD)
    with pytest.raises(NotFound):
        alice.call("holds.break", {"resource": SEAT, "reason": "lead is dead", "epoch": 1})
    assert seat(bob) == (NEXT, 2)


# ── Listing and forgetting ───────────────────────────────────────────────────────────────────────────


def test_a_list_can_be_narrowed(alice: Board) -> None:
    live(alice)
    begin(alice, "hand~spawn-2", role="worker", ticket="t-1")
    begin(alice, "far~spawn-3", role="worker", project="other")
    alice.sessions.end(session="hand~spawn-2", note="over")

    def names(**filters: Any) -> list[str]:
        return sorted(each.agent for each in alice.sessions.list(**filters))

    assert names() == ["lead"]
    assert names(every=True) == ["hand", "lead"]
    assert names(project=None) == ["far", "lead"]
    assert names(ticket="t-1", every=True) == names(session="hand", every=True) == ["hand"]
    assert names(role="coordinator", every=True) == ["lead"]
    assert names(session="lead~spawn-9", every=True) == []


def test_only_an_ended_session_can_be_removed(alice: Board) -> None:
    live(alice)
    with pytest.raises(Refused):
        alice.sessions.remove(session=LEAD)
    alice.sessions.end(session=LEAD, note="over")
    assert agent_id(alice.sessions.remove(session=LEAD)) == LEAD
    assert alice.sessions.list(every=True) == []
    assert begin(alice, NEXT).epoch == 2, "its epochs are not forgotten"


def test_a_removed_coordinator_stays_fenced(alice: Board) -> None:
    live(alice)
    live(alice, NEXT, 18, replaces=LEAD)
    for each in (LEAD, NEXT):
        alice.sessions.end(session=each, note="over")
        alice.sessions.remove(session=each)
        with pytest.raises(Fenced):
            alice.tasks.post(name="late", agent=each)
        with pytest.raises(NotFound):
            alice.sessions.remove(session=each)
    assert alice.sessions.list(every=True) == []
    with pytest.raises(Refused):
        begin(alice, LEAD)
