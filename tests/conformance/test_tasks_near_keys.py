"""A claim posts a task only if that was meant: never for a number, never for a slip in a known key."""

from __future__ import annotations

import pytest

from tiebreak import Board
from tiebreak.errors import Invalid, Lost, NotFound, Refused

from .engines import Place
from .tasks_support import unchanged

# ── Numbers ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ref", ["5", "0", "007", "123456789012345", "99999999999999999999"])
@pytest.mark.parametrize("create", [None, True, False])
def test_a_number_that_no_task_has_is_never_posted(alice: Board, ref: str, create: bool | None) -> None:
    with unchanged(alice), pytest.raises(NotFound, match=f"no task #{ref}") as refusal:
        alice.tasks.claim(ref=ref, create=create)

    assert refusal.value.reason == "number-unknown"


def test_a_key_that_is_a_number_stays_reachable(alice: Board) -> None:
    task = alice.tasks.post(name="work", key="404")

    assert alice.tasks.get(ref="404") == alice.tasks.get(ref="key:404") == task
    assert alice.tasks.claim(ref="404").number == task.number
    assert alice.tasks.complete(ref="key:404").state == "completed"


@pytest.mark.parametrize("operation", ["get", "claim", "extend", "complete", "fail", "release", "cancel", "check"])
def test_a_number_that_could_be_two_tasks_is_neither(alice: Board, operation: str) -> None:
    first = alice.tasks.post(name="first")
    second = alice.tasks.post(name="second", key=str(first.number))

    with unchanged(alice), pytest.raises(Invalid, match=f"{first.number} is the number of .* and the key of"):
        alice.call(f"tasks.{operation}", {"ref": str(first.number)})
    assert alice.tasks.get(ref=f"#{first.number}") == first
    assert alice.tasks.get(ref=f"key:{first.number}") == second


def test_a_key_can_be_a_number_for_whoever_says_so(alice: Board) -> None:
    task = alice.tasks.claim(ref="key:77")

    assert (task.key, task.name, task.state) == ("77", "77", "claimed")


def test_a_key_cannot_look_like_a_reference_to_another_key(alice: Board) -> None:
    with pytest.raises(Invalid, match="refers to the key 5"):
        alice.tasks.post(name="work", key="key:5")


# ── Near misses ──────────────────────────────────────────────────────────────────────────────────────


def test_a_mistyped_key_wins_nothing_and_learns_what_was_meant(alice: Board, bob: Board) -> None:
    meant = alice.tasks.claim(ref="login-bug")

    with unchanged(bob), pytest.raises(Refused) as refusal:
        bob.tasks.claim(ref="logn-bug")

    facts = {"key": "logn-bug", "meant": "login-bug", "number": meant.number, "state": "claimed", "holder": "alice"}
    assert (refusal.value.reason, {name: refusal.value.data[name] for name in facts}) == ("key-near", facts)
    assert "'login-bug' (#1, claimed by alice)" in refusal.value.message


@pytest.mark.parametrize("given", ["login_bug", "LOGIN-BUG", "Login-Bug", "login-bgu", "login-bugs", "loginbug"])
def test_every_kind_of_slip_is_found_among_the_keys_of_the_board(alice: Board, given: str) -> None:
    for key in ("lamp", "login", "login-bug", "login-page", "zebra"):
        alice.tasks.post(name="work", key=key)

    with unchanged(alice), pytest.raises(Refused, match="there is 'login-bug'"):
        alice.tasks.claim(ref=given)


def test_a_key_in_mixed_case_is_found_by_small_letters(alice: Board) -> None:
    alice.tasks.post(name="work", key="FixLoginPage_a")

    with pytest.raises(Refused, match="there is 'FixLoginPage_a'"):
        alice.tasks.claim(ref="fixloginpage-a")


def test_digits_count_so_two_issues_stay_two(alice: Board, bob: Board) -> None:
    won = [alice.tasks.claim(ref="issue-1"), bob.tasks.claim(ref="issue-2"), alice.tasks.claim(ref="issue-12")]

    assert [task.key for task in won] == ["issue-1", "issue-2", "issue-12"]


def test_whoever_says_so_posts_a_near_key(alice: Board) -> None:
    alice.tasks.post(name="work", key="part-a")

    task = alice.tasks.claim(ref="part-b", create=True)

    assert (task.key, task.created_at) == ("part-b", task.claimed_at)


def test_a_slip_in_the_key_of_a_finished_task_does_not_do_it_again(alice: Board) -> None:
    alice.tasks.claim(ref="login-bug")
    alice.tasks.complete(ref="login-bug")

    with unchanged(alice), pytest.raises(Refused, match=r"#1, completed\)"):
        alice.tasks.claim(ref="logn-bug")


def test_open_tasks_are_named_before_finished_ones(alice: Board) -> None:
    alice.tasks.post(name="work", key="login-bugs")
    alice.tasks.claim(ref="logi-bug", create=True)
    alice.tasks.complete(ref="logi-bug")

    with pytest.raises(Refused) as refusal:
        alice.tasks.claim(ref="login-bug")

    assert refusal.value.data["meant"] == "login-bugs"


def test_the_keys_of_another_project_are_none_of_ours(place: Place, alice: Board) -> None:
    place.open("alice", project="other").tasks.post(name="work", key="login-bug")

    assert alice.tasks.claim(ref="logn-bug").key == "logn-bug"


def test_posting_is_told_apart_from_winning(alice: Board, bob: Board) -> None:
    bob.tasks.post(name="work", key="known")

    claims = [alice.claim("new-key"), alice.claim("known")]

    assert [claim.created for claim in claims] == [True, False]


def test_a_repeated_claim_gets_its_first_answer_though_a_near_key_came_since(alice: Board, bob: Board) -> None:
    first = alice.call("tasks.claim", {"ref": "login-bug"}, once="0123456789abcdef")
    bob.tasks.post(name="work", key="login-bugs")

    assert alice.call("tasks.claim", {"ref": "login-bug"}, once="0123456789abcdef") == first


def test_without_create_nothing_is_posted(alice: Board) -> None:
    alice.tasks.post(name="work", key="login-bug")

    with unchanged(alice), pytest.raises(NotFound):
        alice.tasks.claim(ref="logn-bug", create=False)


def test_a_known_key_is_claimed_whatever_is_near(alice: Board, bob: Board) -> None:
    alice.tasks.post(name="one", key="part-a")
    alice.tasks.post(name="two", key="part-b")
    alice.tasks.claim(ref="part-a")

    assert bob.tasks.claim(ref="part-b").name == "two"
    with pytest.raises(Lost):
        bob.tasks.claim(ref="part-a")
