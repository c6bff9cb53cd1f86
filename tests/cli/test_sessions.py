"""Session names: one shell is one agent, two shells are two, and nobody finishes the other's work."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from .command import Tb
from .terminals import in_shell, in_terminal

NAME = "tb whoami --json"


def names(lines: list[str]) -> set[tuple[str, str]]:
    found = [json.loads(line) for line in lines]
    return {(facts["agent"], facts["session"]) for facts in found}


@pytest.mark.parametrize("run", [in_shell, in_terminal])
def test_one_shell_keeps_its_name_however_it_calls(run: Callable[[Tb, str], list[str]], tb: Tb) -> None:
    lines = run(tb, f"{NAME}; ({NAME}); sh -c '{NAME}; :'; {NAME} | cat; {NAME} & wait")
    assert len(lines) == 5
    assert len(names(lines)) == 1


def test_two_shells_and_two_terminals_never_share_a_name(tb: Tb) -> None:
    lines = [*in_shell(tb, NAME), *in_shell(tb, NAME), *in_terminal(tb, NAME), *in_terminal(tb, NAME)]
    assert len(names(lines)) == 4


def test_two_shells_at_the_same_time_never_share_a_name(tb: Tb) -> None:
    """A recycled process id is no excuse, and neither is a common parent."""
    with ThreadPoolExecutor(4) as pool:
        lines = [line for lines in pool.map(lambda _: in_shell(tb, NAME), range(4)) for line in lines]
    assert len(names(lines)) == 4


def test_one_alice_completes_in_a_later_command_what_she_claimed(tb: Tb) -> None:
    lines = in_shell(tb, "for c in claim extend complete; do tb $c work --as alice >/dev/null; echo $?; done")
    assert lines == ["0", "0", "0"]


def test_a_shell_without_a_name_completes_what_it_claimed(tb: Tb) -> None:
    assert in_shell(tb, "tb claim work >/dev/null; tb complete work >/dev/null; echo $?") == ["0"]


@pytest.mark.parametrize("command", ["extend", "complete", "fail", "release"])
def test_another_alice_cannot_touch_the_claim(command: str, tb: Tb) -> None:
    assert in_shell(tb, "tb claim work --as alice >/dev/null; echo $?") == ["0"]
    said, code = in_shell(tb, f"tb {command} work --as alice --json; echo $?")
    assert code == "1"
    assert json.loads(said)["error"] == "Fenced"
    assert "another alice" in json.loads(said)["message"]


@pytest.mark.parametrize("command", ["drop", "renew", "hold"])
def test_another_alice_cannot_touch_the_hold(command: str, tb: Tb) -> None:
    assert in_shell(tb, "tb hold lock:x --as alice >/dev/null; echo $?") == ["0"]
    assert in_shell(tb, f"tb {command} lock:x --as alice 2>/dev/null; echo $?") == ["1"]


def test_another_alice_drops_only_her_own(tb: Tb) -> None:
    in_shell(tb, "tb hold lock:x --as alice >/dev/null")
    assert in_shell(tb, "tb drop --all --as alice") == ["you hold nothing here"]


@pytest.mark.parametrize("listing", ["holds", "tasks"])
def test_mine_does_not_show_what_another_alice_has(listing: str, tb: Tb) -> None:
    """She could not drop or complete it; calling it hers is a trap."""
    in_shell(tb, "tb hold lock:x --as alice >/dev/null; tb claim work --as alice >/dev/null")
    assert in_shell(tb, f"tb {listing} --mine --as alice --json") == ["[]"]


def test_a_session_that_is_named_is_the_same_everywhere(tb: Tb) -> None:
    tb.environment["TIEBREAK_SESSION"] = "pipeline-7"
    in_shell(tb, "tb claim work --as alice >/dev/null")
    assert in_shell(tb, "tb complete work --as alice >/dev/null; echo $?") == ["0"]
