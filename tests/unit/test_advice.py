"""A refusal's next step is said in the words of the interface that was used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tiebreak
from tiebreak import Board, Lost
from tiebreak.advice import PYTHON, advice
from tiebreak.cli.advice import COMMANDS
from tiebreak.daemon.advice import REQUESTS, body_of
from tiebreak.errors import Refused, from_dict

SOURCES = Path(tiebreak.__file__).parent
WORDS = {"python": PYTHON, "cli": COMMANDS, "http": REQUESTS}


@pytest.fixture
def refusal(tmp_path: Path) -> Lost:
    """What bob gets who reaches for alice's task."""
    path = str(tmp_path / "board.db")
    with tiebreak.open(path, agent="alice~1", project="demo") as alice, tiebreak.open(path, agent="bob~1") as bob:
        alice.tasks.claim(ref="docs")
        with pytest.raises(Lost) as caught:
            Board(bob.engine, agent="bob~1", project="demo").tasks.claim(ref="docs")
    return caught.value


@pytest.mark.parametrize("interface", WORDS)
def test_no_interface_lacks_words_for_a_reason(interface: str) -> None:
    assert sorted(WORDS[interface]) == sorted(PYTHON)


def test_every_reason_that_is_given_has_words_and_every_word_a_reason() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py") if path.name != "advice.py")
    given = set(re.findall(r'"((?:agent|board|claim|hold|jobs|operation|others|pool|project|schedule)-[a-z-]+)"', code))
    given |= set(re.findall(r'"((?:session|slot|task|token)-[a-z-]+|deadlock)"', code))
    assert set(PYTHON) <= given
    assert set(re.findall(r'reason="([a-z-]+)"', code)) <= set(PYTHON)


def test_an_http_client_is_not_told_to_type_a_command(refusal: Lost) -> None:
    assert not [words for words in REQUESTS.values() if re.search(r"`?\btb |--|TIEBREAK_", words)]
    assert body_of(refusal)["hint"] == "events.why with ref #1 tells more; tasks.next finds other work"


def test_the_command_line_tells_a_command_also_for_a_refusal_by_a_daemon(refusal: Lost) -> None:
    far = from_dict(body_of(refusal))
    assert advice(far, COMMANDS) == "`tb why '#1'` tells more; `tb next` finds other work"
    assert far.hint == refusal.hint == "board.events.why(ref='#1') tells more; board.next() finds other work"


def test_a_reason_of_a_later_version_keeps_the_hint_that_came_with_it() -> None:
    far = from_dict({"error": "Refused", "message": "no", "reason": "moon-full", "hint": "wait for the new moon"})
    assert type(far) is Refused
    assert {advice(far, words) for words in WORDS.values()} == {"wait for the new moon"}


def test_a_refusal_without_its_facts_still_has_a_hint() -> None:
    far = from_dict({"error": "Lost", "message": "no", "reason": "task-held", "hint": "ask somebody"})
    assert advice(far, COMMANDS) == "ask somebody"
