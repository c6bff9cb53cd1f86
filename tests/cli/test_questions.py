"""`tb ask`, `tb answer`, `tb questions`: what scripts read, what a person is asked, and what an open question shows."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

import tiebreak

from .command import PATIENCE, TB, Answer, Tb, complaint, ended, until_asleep
from .terminals import terminal

Cli = Callable[..., Answer]
PROMPT = b"Answer (empty: leave it open): "


def dialogue(tb: Tb, *words: str, answers: list[str]) -> tuple[int, str]:
    """Run a command at a terminal and answer one prompt after another; how it ended, and the screen."""
    with terminal(echo=False) as screen:
        running = screen.start(tb, TB, *words, "--as", "bob", env={"NO_COLOR": "1"})
        seen = b""
        for answer in answers:
            assert screen.read(until=PROMPT), screen.screen
            seen, screen.screen = seen + screen.screen, b""
            screen.type(f"{answer}\n")
        assert screen.read(), "the command did not end"
        return running.wait(PATIENCE), (seen + screen.screen).decode()


# ── Asking ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_script_gets_the_answer_and_nothing_else_on_standard_output(tb: Tb, board: tiebreak.Board) -> None:
    with tb.start("ask", "which", "database?", "--choices", "sqlite, postgres", "--wait", "--as", "alice") as running:
        until_asleep(running)
        [question] = board.questions.list()
        assert (question.name, question.choices, question.asked_by) == (
            *("which database?", ["sqlite", "postgres"]),
            "alice",
        )
        board.messages.send("let me think", about=question.number)
        assert running.poll() is None
        board.questions.answer(question.number, answer="postgres")
        answer = ended(running)
    assert (answer.code, answer.out) == (0, "postgres\n")


def test_an_answer_that_came_before_is_printed_at_once(cli: Cli, board: tiebreak.Board) -> None:
    assert cli("ask", "which?", "--key", "which").out == "asked #1 which?  (tb answer 1)\n"
    assert cli("ask", "which?", "--key", "which").code == 0
    assert cli("answer", "which", "the", "first").out == "answered #1 which?\n"
    assert cli("ask", "which?", "--key", "which", "--wait").out == "the first\n"
    assert cli("ask", "which?", "--key", "which").out == "there is already #1 which?  (answered: the first)\n"
    task = cli("ask", "which?", "--key", "which", "--wait", "--json").json
    assert (task["state"], task["result"]["answer"]) == ("completed", "the first")
    assert len(board.tasks.list()) == 1


def test_a_wait_that_times_out_leaves_the_question_open_and_says_so(cli: Cli, board: tiebreak.Board) -> None:
    answer = cli("ask", "which?", "--wait", "--timeout", "20ms")
    said = complaint(answer, 2)
    assert "#1 'which?' is not answered yet" in said
    assert "it stays open" in said
    assert "`tb answer 1`" in said
    assert [each.number for each in board.questions.list()] == [1]
    assert cli("ask", "which?", "--wait", "--timeout", "0s", "--json").json["reason"] == "question-open"


def test_ctrl_c_leaves_the_question_open_and_says_so(tb: Tb, board: tiebreak.Board) -> None:
    with tb.start("ask", "which?", "--wait") as running:
        until_asleep(running)
        running.send_signal(signal.SIGINT)
        answer = ended(running)
    assert (answer.code, answer.out) == (130, "")
    assert "#1 which? stays open: a person answers it with `tb answer 1`" in answer.err
    assert len(board.questions.list()) == 1


def test_a_cancelled_question_ends_the_wait_with_1(tb: Tb, board: tiebreak.Board) -> None:
    with tb.start("ask", "which?", "--wait") as running:
        until_asleep(running)
        board.tasks.cancel("#1", reason="not needed")
        answer = ended(running)
    assert (answer.code, answer.out) == (1, "")
    assert "#1 'which?' was cancelled: not needed" in answer.err


def test_a_terminal_is_told_who_can_end_the_wait(tb: Tb, board: tiebreak.Board) -> None:
    with terminal() as screen:
        running = screen.start(tb, TB, "ask", "which?", "--wait", env={"NO_COLOR": "1"})
        assert screen.read(until=b"a person answers it with `tb answer 1`")
        assert b"tb: waiting: #1 'which?' is not answered yet" in screen.screen
        board.questions.answer(1, answer="the \x1b[31mred\x1b[0m one")
        assert screen.read()
        assert running.wait(PATIENCE) == 0
    assert b"\x1b[31m" not in screen.screen, "an answer does not act on the terminal"


def test_a_long_question_comes_from_standard_input(cli: Cli, board: tiebreak.Board) -> None:
    cli("ask", "-", stdin="which?\n\n- one\n- two\n")
    [question] = board.questions.list()
    assert (question.name, question.body) == ("which?", "- one\n- two")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ask", "which?", "--timeout", "1s"], "--timeout goes with --wait"),
        (["ask", "which?", "--choices", "a,a"], "--choices: the same one is given twice"),
        (["ask", " "], "QUESTION: must not be empty"),
        (["ask", "which?", "--about", "#99"], "no task '#99'"),
        (["answer"], "tb: REF is missing"),
        (["answer", "1"], "tb: TEXT is missing"),
        (["answer", "1", " "], "TEXT: must not be empty"),
        (["answer", "1", "c"], "TEXT: one of a, b, got 'c'"),
        (["answer", "2", "a"], "#2 'work' is a task, not a question"),
        (["claim", "1"], "is a question to a person, which nobody can claim"),
        (["post", "which?", "--kind", "question"], "--kind: a question to a person is asked, not posted"),
    ],
)
def test_what_cannot_be_is_refused_with_words(cli: Cli, board: tiebreak.Board, words: list[str], said: str) -> None:
    board.questions.ask("which?", choices=["a", "b"])
    board.tasks.post(name="work")
    answer = cli(*words)
    assert answer.code in (1, 2)
    assert said in complaint(answer, answer.code)
    assert [each.name for each in board.questions.list()] == ["which?"]


def test_a_refused_claim_says_how_to_answer(cli: Cli, board: tiebreak.Board) -> None:
    board.questions.ask("which?")
    assert "a person answers it with `tb answer 1`; `tb wait 1` waits for that" in cli("claim", "1").err
    assert "`tb ask TEXT` asks a person" in cli("post", "x", "--kind", "question").err


def test_wait_waits_for_an_answer_too(tb: Tb, board: tiebreak.Board) -> None:
    board.questions.ask("which?")
    with tb.start("wait", "1") as running:
        until_asleep(running)
        board.questions.answer(1, answer="this")
        assert ended(running).code == 0


# ── Answering ────────────────────────────────────────────────────────────────────────────────────────


def test_the_second_answer_is_told_the_first(cli: Cli, board: tiebreak.Board) -> None:
    board.questions.ask("which?")
    cli("answer", "1", "-", "--as", "bob", stdin="the first\n")
    assert "was answered already, by bob: the first" in complaint(cli("answer", "1", "another", "--as", "carol"), 1)


@pytest.mark.parametrize(
    ("typed", "stored"), [("2", "Postgres"), ("postgres", "Postgres"), ("SQLite", "SQLite"), ("1", "SQLite")]
)
def test_a_person_chooses_by_number_or_by_name(typed: str, stored: str, tb: Tb, board: tiebreak.Board) -> None:
    board.questions.ask("which database?\nfor the tests", choices=["SQLite", "Postgres"])
    code, screen = dialogue(tb, "answer", "1", answers=["mysql", typed])
    assert code == 0, screen
    assert "#1 which database?" in screen
    assert "for the tests" in screen
    assert "  2  Postgres" in screen
    assert "one of SQLite, Postgres, or its number" in screen
    assert board.tasks.get("#1").result == {"answer": stored, "by": "bob"}


def test_an_answer_keeps_its_upper_case(tb: Tb, board: tiebreak.Board) -> None:
    board.questions.ask("which?")
    assert dialogue(tb, "answer", "1", answers=["The Big One"])[0] == 0
    assert board.tasks.get("#1").result["answer"] == "The Big One"


def test_answer_alone_walks_through_the_open_questions(tb: Tb, board: tiebreak.Board) -> None:
    for name in ("one?", "two?", "three?"):
        board.questions.ask(name)
    code, screen = dialogue(tb, "answer", answers=["first", "", "third"])
    assert code == 1, "one stays open"
    assert "left open" in screen
    assert [each.name for each in board.questions.list()] == ["two?"]
    assert dialogue(tb, "answer", answers=["second"])[0] == 0
    with terminal() as quiet:
        running = quiet.start(tb, TB, "answer")
        assert quiet.read()
        assert running.wait(PATIENCE) == 0
    assert b"no open questions" in quiet.screen


def test_a_question_that_somebody_else_answers_meanwhile_is_not_answered_twice(tb: Tb, board: tiebreak.Board) -> None:
    board.questions.ask("which?")
    with terminal(echo=False) as screen:
        running = screen.start(tb, TB, "answer", "1")
        assert screen.read(until=PROMPT)
        board.questions.answer(1, answer="mine")
        screen.type("yours\n")
        assert screen.read()
        assert running.wait(PATIENCE) == 1
    assert b"was answered already, by me: mine" in screen.screen


def test_a_coding_agent_at_a_terminal_is_not_asked_for_the_answer(tb: Tb, board: tiebreak.Board) -> None:
    board.questions.ask("which?")
    with terminal() as screen:
        running = screen.start(tb, TB, "answer", "1", env={"CLAUDE_CODE_SESSION_ID": "1b2c", "CLAUDECODE": "1"})
        assert screen.read(), "it waits for an answer that no agent gives"
        assert running.wait(PATIENCE) == 2


# ── Open questions are seen ──────────────────────────────────────────────────────────────────────────


@pytest.fixture
def asked(board: tiebreak.Board) -> tiebreak.Board:
    """A question that alice asks about her task, and for whose answer two others wait."""
    board.call("tasks.claim", {"ref": "login", "agent": "alice~1"})
    board.call("questions.ask", {"text": "which?", "choices": ["a", "b"], "about": "login", "agent": "alice~1"})
    board.tasks.post(name="deploy", after=["#2"])
    board.tasks.post(name="announce", after=["#2"])
    return board


SHOWN = [
    "#2 which?",
    "    alice asks, 0s ago, about #1 login (held by alice); #3 deploy, #4 announce wait for it",
    "    tb answer 2  # a | b",
]


def test_status_shows_open_questions_before_all_else(cli: Cli, asked: tiebreak.Board) -> None:
    lines = cli("status").out.splitlines()
    assert lines[0] == SHOWN[0]
    assert lines[1].partition(" ago")[2] == SHOWN[1].partition(" ago")[2]
    assert lines[2:4] == [SHOWN[2], ""]
    assert lines[4].startswith("board")
    told = cli("status", "--json").json
    assert next(iter(told)) == "questions"
    assert [(each["number"], [w["number"] for w in each["waiting"]]) for each in told["questions"]] == [(2, [3, 4])]


def test_without_questions_the_status_is_as_before(cli: Cli, board: tiebreak.Board) -> None:
    board.questions.ask("over?")
    board.questions.answer(1, answer="yes")
    assert cli("status").out.startswith("board ")
    assert cli("status", "--json").json["questions"] == []


def test_questions_of_other_projects_are_shown_only_if_asked_for(cli: Cli, asked: tiebreak.Board) -> None:
    asked.questions.ask("there?", project="elsewhere")
    assert "there?" not in cli("status").out + cli("questions").out
    assert "there?" in cli("status", "--every-project").out
    assert "there?" in cli("questions", "--every-project").out


def test_the_list_of_questions_says_who_waits(cli: Cli, asked: tiebreak.Board) -> None:
    assert "wait for it" in cli("questions").out
    assert [each["asked_by"] for each in cli("questions", "--json").json] == ["alice~1"]
    cli("answer", "2", "a")
    assert cli("questions").out == "no open questions\n"


def test_tb_alone_shows_an_open_question_first(cli: Cli, asked: tiebreak.Board) -> None:
    asked.questions.ask("and " + "x" * 150)
    lines = cli().out.splitlines()
    assert lines[0] == "2 things need you"
    assert lines[1] == "  tb answer 2  alice asks: #2 which?"
    assert lines[2].split()[:3] == ["tb", "answer", "5"]
    assert "2 open tasks" in lines[3], "a question is no work"
    assert len(lines) <= 13
    assert all(len(line) <= 80 for line in lines)
    assert [each["number"] for each in cli("--json").json["needs"]] == [2, 5]


def test_a_question_shows_no_attempts_and_completion_knows_it(cli: Cli, asked: tiebreak.Board) -> None:
    assert "attempts" not in cli("show", "2").out
    cli("ask", "which day?", "--choices", "mon,tue", "--key", "day")
    assert "waits for  a person: tb answer" in cli("show", "day").out
    cli("answer", "day", "mon")
    shown = cli("show", "day").out
    assert shown.splitlines()[1].startswith("answer    mon (by ")
    assert shown.splitlines()[2] == "choices   mon | tue"
    assert "{" not in shown
    assert cli("completion", "fish", "--", "answer", "").out.split() == ["words", "#2", "which?"]


def test_a_key_of_another_question_is_told(cli: Cli) -> None:
    cli("ask", "one?", "--key", "k")
    again = cli("ask", "different?", "--key", "k")
    assert "there is already #1 one?" in again.out
    assert "the key k belongs to another question" in again.err


def test_a_question_is_not_counted_as_work(cli: Cli) -> None:
    cli("ask", "one?")
    assert cli("status", "--json").json["pending"] == 0
    assert cli("next").code == 1
