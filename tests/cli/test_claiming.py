"""What somebody types by mistake: it creates nothing unnoticed, and nothing is sent to nobody."""

from __future__ import annotations

import json

import pytest

import tiebreak

from .command import PATIENCE, TB, Tb
from .terminals import terminal


def on_terminal(tb: Tb, *words: str, answer: str) -> tuple[int, str]:
    """Run a command at a terminal and answer its question; how it ended, and the screen."""
    with terminal() as screen:
        running = screen.start(tb, TB, *words)
        assert screen.read(until=b"? "), screen.screen
        screen.type(f"{answer}\n")
        assert screen.read(), "the command did not end"
        return running.wait(PATIENCE), screen.screen.decode()


# ── Numbers and keys ─────────────────────────────────────────────────────────────────────────────────


def test_a_number_without_a_task_posts_nothing(tb: Tb, board: tiebreak.Board) -> None:
    answer = tb("claim", "5")

    assert (answer.code, answer.out) == (1, "")
    assert answer.err.splitlines() == [
        "tb: no task #5, and none in project demo has the key 5",
        "    `tb tasks --all` lists them; `tb post TEXT --key 5` posts a task with such a key",
    ]
    assert board.tasks.list() == []


@pytest.mark.parametrize("command", ["claim", "show", "why", "cancel", "graph"])
def test_a_number_needs_no_quotes(command: str, tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.post(name="the first")

    answer = tb.sh(f"tb {command} 1")

    assert (answer.code, answer.err) == (0, "")
    assert "the first" in answer.out


def test_a_number_that_the_shell_took_for_a_comment_is_explained(tb: Tb) -> None:
    answer = tb.sh("tb claim #7")

    assert answer.code == 2
    assert "a shell takes #7 for a comment, so write 7" in answer.err


def test_a_new_key_is_posted_loudly(tb: Tb) -> None:
    answer = tb("claim", "login-bug")

    assert answer.code == 0
    assert answer.err == "tb: no task had the key login-bug: posted #1 and claimed it\n"
    assert answer.out.startswith("won #1 login-bug")


def test_a_program_learns_whether_its_claim_posted_the_task(tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.post(name="work", key="known")

    answers = [tb("claim", key, "--json") for key in ("new-key", "known")]

    assert [(json.loads(each.out)["created"], each.err) for each in answers] == [(True, ""), (False, "")]


def test_an_agent_that_mistypes_a_key_is_refused_and_can_insist(tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.post(name="work", key="login-bug")

    refused = tb("claim", "logn-bug")
    insisted = tb("claim", "logn-bug", "--create")

    assert (refused.code, refused.err.splitlines()) == (
        1,
        [
            "tb: no task has the key 'logn-bug', but there is 'login-bug' (#1, pending)",
            "    `tb claim 1` claims that one; --create posts a new task",
        ],
    )
    assert (insisted.code, insisted.out[:14]) == (0, "won #2 logn-bu")


@pytest.mark.parametrize(
    ("answer", "code", "state", "tasks"), [("y", 0, "claimed", 1), ("c", 0, "pending", 2), ("", 1, "pending", 1)]
)
def test_a_person_who_mistypes_a_key_is_asked(
    answer: str, code: int, state: str, tasks: int, tb: Tb, board: tiebreak.Board
) -> None:
    board.tasks.post(name="work", key="login-bug")

    ended, _ = on_terminal(tb, "claim", "logn-bug", answer=answer)

    assert (ended, board.tasks.get(ref="login-bug").state, len(board.tasks.list())) == (code, state, tasks)


def test_a_coding_agent_at_a_terminal_is_not_asked(tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.post(name="work", key="login-bug")

    with terminal() as screen:
        running = screen.start(tb, TB, "claim", "logn-bug", env={"CLAUDE_CODE_SESSION_ID": "1b2c", "CLAUDECODE": "1"})
        assert screen.read(), "it waits for an answer that no agent gives"
        assert running.wait(PATIENCE) == 1


def test_create_and_no_create_exclude_each_other(tb: Tb) -> None:
    assert tb("claim", "x", "--create", "--no-create").code == 2


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_message_to_nobody_is_refused_and_names_who_there_is(tb: Tb, board: tiebreak.Board) -> None:
    board.agents.announce(agent="robert~1")

    answer = tb("send", "rober", "hello")

    assert (answer.code, answer.err.splitlines()) == (
        1,
        [
            "tb: nobody called 'rober' has been in project demo; there is robert",
            "    `tb agents` lists who is here; --later sends it for an agent that will come",
        ],
    )
    assert tb.ok("send", "rober", "hello", "--later") == "sent message 1 to rober\n"


@pytest.mark.parametrize(("answer", "code", "sent"), [("y", 0, 1), ("n", 1, 0)])
def test_a_person_who_writes_to_nobody_is_asked(
    answer: str, code: int, sent: int, tb: Tb, board: tiebreak.Board
) -> None:
    ended, _ = on_terminal(tb, "send", "carol", "hello", answer=answer)

    assert (ended, len(board.messages.inbox(agent="carol"))) == (code, sent)


def test_a_sender_learns_that_the_recipient_is_gone(tb: Tb, board: tiebreak.Board) -> None:
    board.agents.announce(agent="bob~1")
    board.agents.leave(agent="bob~1")

    answer = tb("send", "bob", "hello")

    assert (answer.code, answer.out) == (0, "sent message 1 to bob\n")
    assert answer.err.startswith("tb: bob is gone, last here 0s ago")


def test_line_breaks_that_were_typed_as_two_characters_are_pointed_out(tb: Tb, board: tiebreak.Board) -> None:
    plain = tb("send", "all", r"one\ntwo")
    meant = tb("send", "all", "-e", r"one\ntwo")

    assert plain.err == "tb: the text has \\n as two characters; -e sends line breaks instead\n"
    assert meant.err == ""
    assert [each.body for each in board.messages.inbox(agent="bob")] == ["one\\ntwo", "one\ntwo"]
