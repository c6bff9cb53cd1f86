"""Which keys count as a slip of another: too few and a mistyped key wins a new task, too many and work is refused."""

from __future__ import annotations

import random

import pytest

from tiebreak.spelling import cases, is_near, slips

KNOWN = "login-bug"


def distance(one: str, two: str) -> int:
    """How many letters have to be added, taken away, changed or swapped with their neighbour: the textbook's table."""
    table = [[max(i, j) if not i * j else 0 for j in range(len(two) + 1)] for i in range(len(one) + 1)]
    for i in range(1, len(one) + 1):
        for j in range(1, len(two) + 1):
            same = one[i - 1] == two[j - 1]
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (not same))
            if i > 1 and j > 1 and one[i - 1] == two[j - 2] and one[i - 2] == two[j - 1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


@pytest.mark.parametrize(
    "given",
    [
        "logn-bug",
        "loggin-bug",
        "lugin-bug",
        "lgoin-bug",
        "login-bgu",
        "login-bugs",
        "ogin-bug",
        "loginbug",
        "Login-Bug",
    ],
)
def test_a_slip_of_the_hand_is_near(given: str) -> None:
    assert is_near(given, KNOWN)
    assert is_near(KNOWN, given)


@pytest.mark.parametrize("given", ["LOGIN-BUG", "login_bug", "LoGiN_bUg"])
def test_another_way_to_write_the_same_letters_is_near(given: str) -> None:
    assert is_near(given, KNOWN)
    assert is_near(KNOWN, given)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("issue-1", "issue-2"),
        ("issue-1", "issue-11"),
        ("issue-12", "issue-21"),
        ("part1a", "part2a"),
        ("login-bug", "login-bug-2"),
        ("login-bug", "logout-bug"),
        ("login-bug", "login-page"),
        ("a-1", "b-1"),
        ("ui", "api"),
        ("login-bug", "login-bug"),
    ],
)
def test_what_somebody_may_have_meant_is_not_taken_for_a_slip(one: str, two: str) -> None:
    assert not is_near(one, two)
    assert not is_near(two, one)


def test_the_keys_that_are_looked_up_are_those_at_distance_one() -> None:
    dice = random.Random(7)
    for _ in range(3000):
        one, two = ("".join(dice.choices("abc12-", k=dice.randint(4, 7))) for _ in range(2))
        digits = ["".join(c for c in key if c.isdigit()) for key in (one, two)]
        assert (two in slips(one)) == (distance(one, two) == 1 and digits[0] == digits[1]), (one, two)


def test_a_slip_is_only_where_a_known_key_leaves_the_given_one() -> None:
    dice = random.Random(11)
    for _ in range(300):
        known = sorted({"".join(dice.choices("ab1-", k=dice.randint(4, 6))) for _ in range(40)})
        key = "".join(dice.choices("ab1-", k=5))
        places = [i for i in range(6) if any(k[:i] == key[:i] and k[: i + 1] != key[: i + 1] for k in known)]
        places += [5] if any(each.startswith(key) and each != key for each in known) else []
        assert {each for each in known if each in slips(key)} == {each for each in known if each in slips(key, places)}


def test_letters_whose_capitals_are_longer_keep_their_place() -> None:
    low, high = cases("Straße_1")
    assert (low, high) == ("straße-1", "STRAßE_1")
