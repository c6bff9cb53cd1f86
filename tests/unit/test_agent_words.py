"""Default names of agents: two words that a person can say, and what happens when two sessions get the same two."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest

import tiebreak
from tiebreak import agent_names
from tiebreak.agent_words import ADJECTIVES, ANIMALS, are_two_words, two_words
from tiebreak.errors import Fenced
from tiebreak.names import agent as check_agent
from tiebreak.process_identity import Identity, token

WORDS = {"adjectives": ADJECTIVES.split(), "animals": ANIMALS.split()}


def differ_in_one_letter(one: str, two: str) -> bool:
    """Whether one letter more, less or another makes one word of the other."""
    if len(one) == len(two):
        return sum(a != b for a, b in zip(one, two, strict=True)) < 2
    short, long = sorted((one, two), key=len)
    return any(long[:i] + long[i + 1 :] == short for i in range(len(long)))


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_no_word_is_easily_mistaken_for_another(words: list[str]) -> None:
    assert len(words) >= 256
    assert [word for word in words if not re.fullmatch("[a-z]{3,9}", word)] == []
    near = (pair for pair in combinations(words, 2) if abs(len(pair[0]) - len(pair[1])) < 2)
    assert [pair for pair in near if differ_in_one_letter(*pair)] == []


def test_fifty_agents_rarely_share_two_words() -> None:
    """The chance that two of them do: below one in a hundred."""
    pairs = len(WORDS["adjectives"]) * len(WORDS["animals"])
    assert 50 * 49 / 2 / pairs < 0.01
    assert not set(WORDS["adjectives"]) & set(WORDS["animals"])


def test_sessions_that_began_one_after_the_other_use_all_words(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [token(Identity("desk", "5f0c1d2e.4026531836", pid, 9000 + pid)) for pid in range(4000, 6000)]
    names = set()
    for each in tokens:
        monkeypatch.setattr(agent_names, "incarnation", lambda environ, known, each=each: each)
        names.add(agent_names.default_agent({}))
    assert len(names) > 1970  # by chance about nine are the same as another
    assert len({name.partition("-")[0] for name in names}) > 400
    assert len({name.partition("-")[2] for name in names}) > 400


@pytest.mark.parametrize("number", [0, 1, 2**64 - 1, 123456789])
def test_a_default_name_is_two_words_and_a_valid_agent(number: int) -> None:
    assert are_two_words(two_words(number))
    assert check_agent(two_words(number)) == two_words(number)


@pytest.mark.parametrize(
    "name", ["otter-brave", "brave", "brave-", "-otter", "brave-otter-1", "uid0-zizu40xcq2vodrj", ""]
)
def test_what_is_no_default_name_is_not_taken_for_one(name: str) -> None:
    assert not are_two_words(name)


# ------------------------------------------------------------------------- sessions during the upgrade

SHELL = token(Identity("desk", "5f0c1d2e.4026531836", 4711, 123456))


@pytest.mark.parametrize(
    ("session", "former"),
    [
        (SHELL, f"uid0-{agent_names._spread_digits(SHELL)}"),
        ("0k3j9x1q2z", "claude-0k3j9x1q2z"),
        ("Build-7.a", f"dana-{agent_names._digest('Build-7.a')}"),
    ],
    ids=["shell", "client", "given"],
)
def test_a_session_at_work_during_the_upgrade_finishes_what_it_began(session: str, former: str, tmp_path: Path) -> None:
    with tiebreak.open(tmp_path / "board.db", agent=f"{former}~{session}", project="demo") as before:
        before.tasks.claim("login-bug", create=True)
        before.holds.take(["lock:deploy"])
    with tiebreak.open(tmp_path / "board.db", agent=f"brave-otter~{session}", project="demo") as after:
        assert after.tasks.complete("login-bug").state == "completed"
        after.holds.release(["lock:deploy"])
        assert after.holds.list() == []


def test_nobody_else_acts_for_a_session_that_began_before_the_upgrade(tmp_path: Path) -> None:
    former = f"uid0-{agent_names._spread_digits(SHELL)}~{SHELL}"
    with tiebreak.open(tmp_path / "board.db", agent=former, project="demo") as before:
        before.tasks.claim("login-bug", create=True)
    for other in (f"alice~{SHELL}", f"brave-otter~{SHELL}x"):
        with tiebreak.open(tmp_path / "board.db", agent=other, project="demo") as board, pytest.raises(Fenced):
            board.tasks.complete("login-bug")
