"""Taking holds: one winner, all or nothing, separate by project and incarnation, and free after the lease."""

from __future__ import annotations

from typing import Any

import pytest

from tiebreak import Board, Hold, Invalid, Lost

from .engines import Place


def take(board: Board, *resources: str, **more: Any) -> list[Hold]:
    return board.holds.take(resources=list(resources), **more)


def held(board: Board) -> list[str]:
    return sorted(hold.resource for hold in board.holds.list(project=None))


# ── One winner ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("resource", ["file:src/a.py", "lock:deploy", "seat:coordinator"])
def test_two_agents_never_hold_one_resource(alice: Board, bob: Board, resource: str) -> None:
    take(alice, resource)
    with pytest.raises(Lost):
        take(bob, resource)
    assert [hold.holder for hold in bob.holds.list()] == ["alice"]


def test_a_refused_agent_learns_who_until_when_and_which_grant(place: Place, alice: Board, bob: Board) -> None:
    hold = take(alice, "lock:deploy", lease=60)[0]
    place.advance(20)
    with pytest.raises(Lost) as refusal:
        take(bob, "lock:deploy")
    lost = refusal.value
    assert (lost.holder, lost.until, lost.epoch) == ("alice", hold.until, 1)
    assert lost.data["left"] == 40
    assert lost.data["resource"] == "lock:deploy"


def test_a_refused_agent_learns_what_the_holder_is_doing(alice: Board, bob: Board) -> None:
    take(alice, "lock:deploy", note="rolling out 1.2")
    with pytest.raises(Lost) as refusal:
        take(bob, "lock:deploy")
    assert refusal.value.data["note"] == "rolling out 1.2"
    assert "alice" in str(refusal.value)


def test_resources_of_different_types_do_not_collide(alice: Board, bob: Board) -> None:
    take(alice, "lock:x")
    assert [hold.epoch for hold in take(bob, "seat:x", "file:x")] == [1, 1]


def test_two_projects_never_conflict(place: Place, alice: Board) -> None:
    elsewhere = place.open("bob", project="other")
    take(alice, "lock:deploy", "file:src/**")
    assert [hold.epoch for hold in take(elsewhere, "lock:deploy", "file:src/a.py")] == [1, 1]


def test_the_loser_learns_since_which_event_of_its_own_project(place: Place, alice: Board, bob: Board) -> None:
    take(alice, "lock:deploy")
    [taken] = [event for event in alice.events.read() if event.event == "hold.taken"]
    take(place.open("carol", project="other"), "lock:deploy")
    for _ in range(3):
        with pytest.raises(Lost) as loss:
            take(bob, "lock:deploy")
        assert loss.value.data["since"] == taken.number


def test_a_named_project_is_the_one_that_counts(place: Place, alice: Board, bob: Board) -> None:
    take(alice, "lock:deploy", project="other")
    take(bob, "lock:deploy")
    with pytest.raises(Lost):
        take(bob, "lock:deploy", project="other")


def test_a_restarted_agent_does_not_own_what_its_old_self_held(place: Place) -> None:
    take(place.open("alice~one"), "lock:deploy")
    with pytest.raises(Lost) as refusal:
        take(place.open("alice~two"), "lock:deploy")
    assert (refusal.value.holder, refusal.value.data["session"]) == ("alice", "one")
    assert "another alice" in str(refusal.value)


def test_acting_for_somebody_else_takes_in_their_name(alice: Board, bob: Board) -> None:
    take(alice, "lock:deploy", agent="carol~test")
    with pytest.raises(Lost) as refusal:
        take(alice, "lock:deploy")
    assert refusal.value.holder == "carol"


# ── All or nothing ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("busy", ["lock:a", "lock:b", "lock:c"])
def test_one_busy_resource_leaves_the_others_untouched(place: Place, alice: Board, bob: Board, busy: str) -> None:
    take(alice, busy)
    with pytest.raises(Lost):
        take(bob, "lock:c", "lock:a", "lock:b")
    assert held(bob) == [busy]


def test_what_was_taken_back_with_a_refusal_used_up_no_epoch(place: Place, alice: Board, bob: Board) -> None:
    take(alice, "lock:z")
    with pytest.raises(Lost):
        take(bob, "lock:a", "lock:z")
    assert take(bob, "lock:a")[0].epoch == 1


def test_a_refusal_names_the_resource_that_was_busy(alice: Board, bob: Board) -> None:
    take(alice, "lock:b")
    with pytest.raises(Lost) as refusal:
        take(bob, "lock:a", "lock:b", "lock:c")
    assert refusal.value.data["resource"] == "lock:b"


def test_a_partly_refused_renewal_of_own_holds_changes_nothing(place: Place, alice: Board, bob: Board) -> None:
    before = take(alice, "lock:a", lease=60)[0].until
    take(bob, "lock:b")
    with pytest.raises(Lost):
        take(alice, "lock:a", "lock:b", again=True, lease=600)
    assert alice.holds.list(agent="alice")[0].until == before


def test_answers_come_in_the_order_of_the_question(alice: Board) -> None:
    answer = take(alice, "lock:c", "file:b", "seat:a")
    assert [hold.resource for hold in answer] == ["lock:c", "file:b", "seat:a"]


def test_a_resource_named_twice_is_granted_once(alice: Board) -> None:
    answer = take(alice, "lock:a", "lock:a")
    assert {hold.epoch for hold in answer} == {1}


def test_hashes_stay_with_the_resources_that_they_were_given_for(alice: Board) -> None:
    take(alice, "file:z", "file:a", hashes=["of-z", "of-a"])
    assert {hold.resource: hold.hash for hold in alice.holds.list()} == {"file:a": "of-a", "file:z": "of-z"}


# ── Taking again ─────────────────────────────────────────────────────────────────────────────────────


def test_taking_what_one_has_is_refused_by_default(alice: Board) -> None:
    take(alice, "lock:deploy")
    with pytest.raises(Lost, match="you"):
        take(alice, "lock:deploy")


def test_taking_again_keeps_the_epoch_and_renews_the_lease(place: Place, alice: Board) -> None:
    first = take(alice, "lock:deploy", lease=60)[0]
    place.advance(30)
    second = take(alice, "lock:deploy", lease=60, again=True)[0]
    assert (second.epoch, second.taken_at) == (first.epoch, first.taken_at)
    assert second.until == pytest.approx((first.until or 0) + 30)


def test_taking_again_does_not_take_from_others(alice: Board, bob: Board) -> None:
    take(alice, "lock:deploy")
    with pytest.raises(Lost):
        take(bob, "lock:deploy", again=True)


def test_taking_again_wins_what_is_still_missing(alice: Board) -> None:
    take(alice, "lock:a")
    take(alice, "lock:b")
    alice.holds.release(resources=["lock:b"])
    assert [hold.epoch for hold in take(alice, "lock:a", "lock:b", again=True)] == [1, 2]


def test_taking_again_after_expiry_is_a_new_grant(place: Place, alice: Board) -> None:
    take(alice, "lock:deploy", lease=60)
    place.advance(61)
    assert take(alice, "lock:deploy", again=True)[0].epoch == 2


def test_taking_again_says_what_one_does_now(alice: Board) -> None:
    take(alice, "lock:deploy", note="first")
    take(alice, "lock:deploy", note="second", again=True)
    assert alice.holds.list()[0].note == "second"


def test_a_take_that_is_repeated_by_its_key_is_one_grant(alice: Board) -> None:
    params = {"resources": ["lock:deploy"]}
    first = alice.call("holds.take", params, once="take-deploy-1")
    again = alice.call("holds.take", params, once="take-deploy-1")
    assert again == first


# ── Expiry ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_hold_lasts_as_long_as_was_promised(place: Place, alice: Board, bob: Board) -> None:
    take(alice, "lock:deploy", lease=60)
    place.advance(59.999)
    with pytest.raises(Lost):
        take(bob, "lock:deploy")


def test_a_hold_is_over_at_the_very_moment_it_ends(place: Place, alice: Board, bob: Board) -> None:
    take(alice, "lock:deploy", lease=60)
    place.advance(60)
    assert take(bob, "lock:deploy")[0].epoch == 2


def test_epochs_go_on_counting_over_release_and_expiry(place: Place, alice: Board, bob: Board) -> None:
    epochs = [take(alice, "lock:deploy", lease=60)[0].epoch]
    alice.holds.release(resources=["lock:deploy"])
    epochs.append(take(bob, "lock:deploy", lease=60)[0].epoch)
    place.advance(3600)
    epochs.append(take(alice, "lock:deploy")[0].epoch)
    assert epochs == [1, 2, 3]


def test_the_log_names_who_lost_a_hold_by_expiry(place: Place, alice: Board, bob: Board) -> None:
    take(alice, "lock:deploy", lease=60)
    place.advance(61)
    take(bob, "lock:deploy")
    expired = bob.events.read(event="hold.expired")
    assert [(e.agent, e.epoch, e.subject) for e in expired] == [("alice", 1, "lock:deploy")]


def test_an_expiry_in_the_log_does_not_end_in_the_future(place: Place, alice: Board, bob: Board) -> None:
    ended = take(alice, "lock:deploy", lease=60)[0].until
    place.advance(100)
    take(bob, "lock:deploy", lease=600)
    assert bob.events.read(event="hold.expired")[0].until in (ended, None)


def test_the_log_tells_no_expiry_of_what_was_released(place: Place, alice: Board, bob: Board) -> None:
    take(alice, "lock:deploy", lease=60)
    alice.holds.release(resources=["lock:deploy"])
    place.advance(61)
    take(bob, "lock:deploy")
    assert bob.events.read(event="hold.expired") == []


def test_the_default_lease_is_half_an_hour(place: Place, alice: Board) -> None:
    hold = take(alice, "lock:deploy")[0]
    assert (hold.until or 0) - (hold.taken_at or 0) == pytest.approx(1800)


def test_a_lease_may_be_written_as_people_do(alice: Board) -> None:
    hold = take(alice, "lock:deploy", lease="5m")[0]
    assert (hold.until or 0) - (hold.taken_at or 0) == pytest.approx(300)


# ── Looking ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_list_leaves_out_what_has_expired_or_was_released(place: Place, alice: Board) -> None:
    take(alice, "lock:short", lease=10)
    take(alice, "lock:gone")
    take(alice, "lock:live")
    alice.holds.release(resources=["lock:gone"])
    place.advance(11)
    assert held(alice) == ["lock:live"]


def test_the_list_starts_with_what_runs_out_first(alice: Board) -> None:
    for name, lease in (("b", 20), ("c", 30), ("a", 10)):
        take(alice, f"lock:{name}", lease=lease)
    assert [hold.resource for hold in alice.holds.list()] == ["lock:a", "lock:b", "lock:c"]


def test_the_list_of_an_agent_has_all_its_incarnations_and_nobody_else(place: Place, alice: Board) -> None:
    take(place.open("bob~one"), "lock:a")
    take(place.open("bob~two"), "lock:b")
    take(place.open("bobby~one"), "lock:c")
    assert [hold.resource for hold in alice.holds.list(agent="bob")] == ["lock:a", "lock:b"]


def test_the_list_shows_one_project_unless_all_are_asked_for(place: Place, alice: Board) -> None:
    take(alice, "lock:here")
    take(place.open("bob", project="other"), "lock:there")
    assert [hold.resource for hold in alice.holds.list()] == ["lock:here"]
    assert [hold.resource for hold in alice.holds.list(project="other")] == ["lock:there"]
    assert held(alice) == ["lock:here", "lock:there"]


def test_matching_finds_the_globs_that_conflict_with_a_path(alice: Board) -> None:
    take(alice, "file:src/**", "file:docs/**", "lock:src")
    found = alice.holds.list(matching="file:src/x/y.py")
    assert [hold.resource for hold in found] == ["file:src/**"]


def test_matching_finds_the_paths_that_conflict_with_a_glob(alice: Board) -> None:
    take(alice, "file:src/a.py", "file:docs/a.md")
    assert [hold.resource for hold in alice.holds.list(matching="file:src/**")] == ["file:src/a.py"]


def test_a_limit_does_not_hide_conflicting_holds(alice: Board) -> None:
    take(alice, "lock:other", lease=10)
    take(alice, "lock:deploy", lease=20)
    found = alice.holds.list(matching="lock:deploy", limit=1)
    assert [hold.resource for hold in found] == ["lock:deploy"]


def test_a_limit_bounds_the_list(alice: Board) -> None:
    take(alice, "lock:a", "lock:b", "lock:c")
    assert len(alice.holds.list(limit=2)) == 2


# ── Bad input ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "resources",
    [
        [],
        ["deploy"],
        ["disk:a"],
        ["lock:"],
        ["lock:two words"],
        ["lock:a\nb"],
        ["file:"],
        ["file:/etc/passwd"],
        ["file:../outside"],
        ["file:" + "x" * 2044],
        ["lock:a"] * 1001,
        "lock:a",
        [None],
    ],
    ids=str,
)
def test_what_is_no_resource_is_not_taken(alice: Board, resources: Any) -> None:
    with pytest.raises(Invalid):
        alice.holds.take(resources=resources)


@pytest.mark.parametrize("lease", [0, -1, float("nan"), float("inf"), "soon", None, True, 8 * 86400])
def test_a_lease_without_sense_is_not_granted(alice: Board, lease: Any) -> None:
    with pytest.raises(Invalid):
        take(alice, "lock:a", lease=lease)


@pytest.mark.parametrize(
    "more",
    [
        {"note": "a\nb"},
        {"note": "x" * 4001},
        {"hashes": "of-a"},
        {"hashes": ["not a label"]},
        {"again": "yes"},
        {"agent": ""},
        {"agent": "no body"},
        {"project": ""},
        {"colour": "red"},
    ],
    ids=str,
)
def test_a_wrong_parameter_is_refused_before_anything_is_taken(alice: Board, more: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        take(alice, "lock:a", **more)
    assert held(alice) == []


@pytest.mark.parametrize("operation", ["holds.renew", "holds.release"])
def test_keeping_or_giving_back_nothing_at_all_is_a_mistake(alice: Board, operation: str) -> None:
    with pytest.raises(Invalid):
        alice.call(operation, {"resources": []})
