"""Holds of a checkout: two checkouts are apart, one excludes as ever, and the whole repository conflicts with each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tiebreak import Board, Invalid, Lost, Refused

from .engines import Place

HERE, THERE = "file://shop-1a2b/", "file://shop-3c4d/"
PAIRS = [
    ("file:src/a.py", HERE + "src/a.py"),
    ("file:src/**", HERE + "src/a.py"),
    ("file:src/a.py", HERE + "src/*.py"),
    ("file:**/a.py", HERE + "src/**"),
]


def take(board: Board, *resources: str) -> None:
    board.holds.take(resources=list(resources))


@pytest.mark.parametrize("name", ["src/a.py", "src/**", "[[]id].tsx"])
def test_two_checkouts_hold_the_same_file(alice: Board, bob: Board, name: str) -> None:
    take(alice, HERE + name)
    take(bob, THERE + name)
    assert {hold.resource: hold.epoch for hold in bob.holds.list()} == {HERE + name: 1, THERE + name: 1}


@pytest.mark.parametrize(("first", "second"), [("src/a.py", "src/a.py"), ("src/**", "src/a.py"), ("src/*", "src/a*")])
def test_one_checkout_has_one_holder(alice: Board, bob: Board, first: str, second: str) -> None:
    take(alice, HERE + first)
    with pytest.raises(Lost) as refusal:
        take(bob, HERE + second)
    assert refusal.value.holder == "alice"


@pytest.mark.parametrize("swapped", [False, True], ids=["", "swapped"])
@pytest.mark.parametrize(("everywhere", "here"), PAIRS)
def test_a_file_of_the_whole_repository_is_not_won_in_a_checkout_too(
    alice: Board, bob: Board, everywhere: str, here: str, swapped: bool
) -> None:
    mine, theirs = (here, everywhere) if swapped else (everywhere, here)
    take(alice, mine)
    with pytest.raises(Lost) as refusal:
        take(bob, theirs)
    assert (refusal.value.holder, refusal.value.data["resource"]) == ("alice", mine)


def test_a_file_of_the_repository_waits_for_every_checkout(alice: Board, bob: Board, place: Place) -> None:
    carol = place.open("carol")
    take(alice, HERE + "src/a.py")
    take(bob, THERE + "src/a.py")
    for last, checkout in ((alice, HERE), (bob, THERE)):
        with pytest.raises(Lost):
            take(carol, "file:src/a.py")
        last.holds.release(resources=[checkout + "src/a.py"])
    take(carol, "file:src/a.py")


def test_of_a_lapsed_hold_on_the_repository_the_lapse_is_written_before_a_checkout_wins(
    alice: Board, bob: Board, place: Place
) -> None:
    alice.holds.take(resources=["file:src/a.py"], lease=60)
    place.advance(61)
    take(bob, HERE + "src/a.py")
    with pytest.raises(Refused):
        alice.holds.renew(resources=["file:src/a.py"], epochs=[1])


def test_a_renewal_in_time_keeps_a_checkout_out(alice: Board, bob: Board, place: Place) -> None:
    alice.holds.take(resources=["file:src/a.py"], lease=60)
    place.advance(59)
    alice.holds.renew(resources=["file:src/a.py"], epochs=[1], lease=60)
    place.advance(2)
    with pytest.raises(Lost, match=r"src/a\.py \(by src/a\.py in every checkout\) is held by alice"):
        take(bob, HERE + "src/a.py")


def test_a_hand_over_does_not_pass_a_hold_of_the_repository(alice: Board, bob: Board, place: Place) -> None:
    carol = place.open("carol")
    carol.agents.announce()
    take(alice, HERE + "src/a.py", "file:src/a.py")
    with pytest.raises(Refused, match="cannot pass"):
        alice.holds.transfer(resource=HERE + "src/a.py", to="carol")


def test_first_in_the_queue_is_first_for_both_names(alice: Board, bob: Board, place: Place) -> None:
    carol = place.open("carol")
    take(alice, HERE + "src/a.py")
    number = bob.waits.enter(resources=["file:src/a.py"]).number
    alice.holds.release(resources=[HERE + "src/a.py"])
    with pytest.raises(Lost):
        take(carol, HERE + "src/a.py")
    assert bob.holds.take(resources=["file:src/a.py"], place=number)[0].holder == "bob"


def test_many_in_two_checkouts_and_one_in_the_repository_have_one_winner_each_or_one_alone(place: Place) -> None:
    """Either the repository's one wins alone, or one of each checkout does."""
    names = [HERE + "a.py", THERE + "a.py", "file:a.py"] * 4
    boards = [place.open(f"agent-{number}") for number in range(len(names))]

    def won(board: Board, name: str) -> str:
        try:
            take(board, name)
        except Lost:
            return ""
        return name

    with ThreadPoolExecutor(len(names)) as pool:
        winners = sorted(name for name in pool.map(won, boards, names) if name)
    assert winners in (["file:a.py"], [HERE + "a.py", THERE + "a.py"])


def test_the_list_of_conflicts_tells_both_names_and_no_other_checkout(alice: Board) -> None:
    take(alice, HERE + "a.py", THERE + "a.py", "file:a.py")
    found = {hold.resource for hold in alice.holds.list(matching=HERE + "a.py")}
    assert found == {HERE + "a.py", "file:a.py"}
    assert len(alice.holds.list(matching="file:a.py")) == 3


def test_the_history_of_a_checkouts_file_leaves_other_checkouts_out(alice: Board, bob: Board) -> None:
    take(alice, HERE + "a.py")
    take(bob, THERE + "a.py")
    told = " ".join(each.text for each in alice.events.why(ref=HERE + "a.py"))
    assert "alice took file://shop-1a2b/a.py" in told
    assert "bob" not in told
    assert "bob took" in " ".join(each.text for each in alice.events.why(ref="a.py"))


@pytest.mark.parametrize(
    ("spelling", "one"), [(HERE + "./src//a.py", HERE + "src/a.py"), (HERE + "src/", HERE + "src/**")]
)
def test_a_file_of_a_checkout_has_one_spelling(alice: Board, spelling: str, one: str) -> None:
    assert alice.holds.take(resources=[spelling])[0].resource == one


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        ("file:///src/a.py", "absolute"),
        ("file://Shop/a.py", "is not a checkout"),
        ("file://-x/a.py", "is not a checkout"),
        (f"file://{'x' * 41}/a.py", "is not a checkout"),
        ("file://shop", "empty"),
        ("file://shop/", "empty"),
        ("file://shop/../a.py", "above the top"),
        ("file://shop//etc/passwd", "absolute"),
    ],
)
def test_a_name_that_is_no_file_of_a_checkout_is_refused(alice: Board, resource: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        take(alice, resource)


def test_the_name_of_a_checkout_does_not_make_room_for_a_longer_name(alice: Board) -> None:
    with pytest.raises(Invalid, match="limit"):
        take(alice, HERE + "x" * 2000 + "/" + "[" * 12)
