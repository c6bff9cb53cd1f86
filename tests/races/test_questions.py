"""Many people answer the same questions at once, and agents that wait for an answer are killed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiebreak import Refused

from .checkers import read_log
from .crew import Crew, processes, race
from .scenarios import Run, open_board

PEOPLE = [f"person-{i}" for i in range(6)]
QUESTIONS = 6


def answerer(address: str, agent: str, refs: Sequence[int]) -> Run:
    """Answer every question, in the order in which everybody else does."""
    board = open_board(address, agent)
    yield
    told = []
    for ref in refs:
        try:
            answered = board.questions.answer(ref, answer=f"says {agent}")
            told.append((ref, True, answered.result["by"], answered.result["answer"]))
        except Refused as refusal:
            told.append((ref, False, refusal.data["by"], refusal.data["answer"]))
    return told


def test_of_many_answers_at_once_one_wins_and_everybody_is_told_which(address: str) -> None:
    with open_board(address) as board:
        refs = [board.questions.ask(f"question {i}?").number for i in range(QUESTIONS)]
        later = [board.tasks.post(name="later", after=[ref]) for ref in refs]
        reports = race(answerer, [(address, person, refs) for person in PEOPLE])
        winners = {ref: by for report in reports for ref, won, by, _ in report if won}
        assert sum(won for report in reports for _, won, _, _ in report) == QUESTIONS == len(winners)
        for report in reports:
            assert {ref: (by, answer) for ref, _, by, answer in report} == {
                ref: (by, f"says {by}") for ref, by in winners.items()
            }
        assert {ref: board.tasks.get(ref).result["by"] for ref in refs} == winners
        assert {board.tasks.get(task.number).state for task in later} == {"pending"}
        events = [event.event for event in read_log(board)]
        assert (events.count("task.completed"), events.count("task.ready")) == (QUESTIONS, QUESTIONS)
        assert len(board.messages.inbox()) == QUESTIONS


def asker(address: str, agent: str, word: Any) -> Run:
    """Ask once and wait for the answer, as an agent does that may be killed meanwhile."""
    board = open_board(address, agent)

    def waits(*_: object) -> float:
        word.send("waiting")
        return 3600.0

    board.on_wait = waits
    yield
    return board.ask("which database?", key="database", wait=120)


def test_an_agent_that_is_killed_while_it_waits_asks_again_and_gets_the_answer(address: str) -> None:
    mine, theirs = processes.Pipe(duplex=False)
    with open_board(address, "person") as board:
        with Crew(asker, [(address, "agent", theirs)]) as crew:
            crew.go()
            assert mine.poll(120.0)
            mine.recv()
            crew.kill()
        [question] = board.questions.list()
        with Crew(asker, [(address, "agent", theirs)]) as crew:
            crew.go()
            assert mine.poll(120.0)
            board.questions.answer(question.number, answer="sqlite")
            assert crew.reports() == ["sqlite"]
        assert race(asker, [(address, "agent", theirs)]) == ["sqlite"], "an answer is there to stay"
        assert [event.event for event in read_log(board)].count("task.posted") == 1


def poster(address: str, agent: str, ref: int) -> Run:
    """Post tasks after a question while it is answered."""
    board = open_board(address, agent)
    yield
    if agent == "person":
        board.questions.answer(ref, answer="yes")
        return []
    return [board.tasks.post(name=f"{agent} {i}", after=[ref]).number for i in range(10)]


def test_no_task_that_is_posted_after_a_question_while_it_is_answered_stays_blocked(address: str) -> None:
    with open_board(address) as board:
        question = board.questions.ask("go on?")
        agents = [*(f"agent-{i}" for i in range(4)), "person"]
        reports = race(poster, [(address, agent, question.number) for agent in agents])
        numbers = [number for report in reports for number in report]
        assert len(numbers) == 40
        assert {board.tasks.get(number).state for number in numbers} == {"pending"}
