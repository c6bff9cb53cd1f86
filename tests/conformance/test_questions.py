"""Questions to a person: one answer wins, work that waits for it goes on, and nobody works on a question."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tiebreak import Board, Fenced, Invalid, NotFound, Refused, TimedOut

from ..log.checker import Log
from .engines import Place
from .test_waiting import SOON, asleep


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Threads for those who wait."""
    with ThreadPoolExecutor(2) as pool:
        yield pool


# ── Nobody works on a question ───────────────────────────────────────────────────────────────────────


def test_a_question_is_not_handed_out_as_work(alice: Board, bob: Board) -> None:
    asked = alice.questions.ask("which database?")
    assert (asked.kind, asked.name, asked.state, asked.created_by) == (
        "question",
        "which database?",
        "pending",
        "alice",
    )
    assert bob.tasks.next() == []
    assert bob.tasks.next(kind="question") == []
    assert bob.tasks.claim_many(refs=[asked.number]) == []


@pytest.mark.parametrize("wait", [0.0, SOON])
def test_a_claim_of_a_question_is_refused_at_once_with_who_may_answer(alice: Board, bob: Board, wait: float) -> None:
    asked = alice.questions.ask("which database?")
    with pytest.raises(Refused, match="is a question to a person, which nobody can claim") as refused:
        bob.claim(asked.number, wait=wait)
    assert (refused.value.reason, refused.value.data["number"]) == ("task-is-question", asked.number)


def test_a_blocked_question_cannot_be_claimed_either(alice: Board, bob: Board) -> None:
    first = alice.tasks.post(name="first")
    asked = alice.questions.ask("which database?")
    assert alice.tasks.depend(asked.number, after=[first.number]).state == "blocked"
    with pytest.raises(Refused, match="is a question"):
        bob.tasks.claim(asked.number)
    assert bob.questions.answer(asked.number, answer="sqlite").state == "completed"
    assert bob.tasks.complete(bob.tasks.claim(first.number).number).state == "completed"
    assert alice.tasks.get(asked.number).result["answer"] == "sqlite"


def test_a_question_whose_predecessor_ends_is_still_hidden(alice: Board, bob: Board) -> None:
    first = alice.tasks.post(name="first")
    asked = alice.questions.ask("which database?")
    alice.tasks.depend(asked.number, after=[first.number])
    alice.tasks.claim(first.number)
    alice.tasks.complete(first.number)
    assert bob.tasks.get(asked.number).state == "pending"
    assert bob.tasks.next() == []
    assert alice.queues.list() == []


def test_a_reopened_question_is_still_hidden(alice: Board, bob: Board) -> None:
    asked = alice.questions.ask("which database?")
    bob.tasks.cancel(asked.number, reason="not now")
    with pytest.raises(Refused, match="is cancelled already"):
        bob.questions.answer(asked.number, answer="sqlite")
    assert alice.questions.list() == []
    alice.tasks.retry(asked.number)
    assert bob.tasks.next() == []
    # What a search for the next task could find is counted as ready: a question is not.
    assert alice.queues.list() == []
    assert [each.number for each in alice.questions.list()] == [asked.number]
    bob.questions.answer(asked.number, answer="sqlite")


def test_a_paused_and_resumed_queue_does_not_hand_out_questions(alice: Board, bob: Board) -> None:
    alice.questions.ask("which database?")
    alice.queues.pause(queue="default")
    assert bob.tasks.next() == []
    alice.queues.resume(queue="default")
    assert bob.tasks.next() == []


def test_a_question_cannot_be_finished_as_work(alice: Board) -> None:
    asked = alice.questions.ask("which database?")
    for write in (alice.tasks.complete, alice.tasks.fail, alice.tasks.release, alice.tasks.extend):
        with pytest.raises(Fenced):
            write(asked.number)
    assert alice.tasks.get(asked.number).state == "pending"


def test_a_question_is_asked_and_not_posted(alice: Board) -> None:
    with pytest.raises(Invalid, match="is asked, not posted") as refused:
        alice.tasks.post(name="which database?", kind="question")
    assert refused.value.reason == "question-posted"
    assert "board.questions.ask" in refused.value.hint


def test_an_ordinary_task_takes_no_answer(alice: Board) -> None:
    task = alice.tasks.post(name="work")
    with pytest.raises(Refused, match="is a task, not a question"):
        alice.questions.answer(task.number, answer="yes")
    with pytest.raises(Refused, match="is a task, not a question"):
        alice.questions.get(task.number)
    with pytest.raises(Refused, match="is a task, not a question"):
        alice.answer_to(task.number, wait=0)
    with pytest.raises(NotFound):
        alice.questions.answer(99, answer="yes")
    assert alice.tasks.get(task.number) == task


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_answer_stays_and_the_second_is_told_who_gave_it(place: Place, alice: Board, bob: Board) -> None:
    asked = alice.questions.ask("which database?")
    answered = bob.questions.answer(asked.number, answer=" sqlite\n")
    assert (answered.state, answered.result) == ("completed", {"answer": "sqlite", "by": "bob"})
    with pytest.raises(Refused, match=r"was answered already, by bob: sqlite") as refused:
        place.open("carol").questions.answer(asked.number, answer="postgres")
    told = {name: refused.value.data[name] for name in ("by", "answer", "number")}
    assert told == {"by": "bob", "answer": "sqlite", "number": asked.number}
    assert refused.value.reason == "question-answered"
    assert alice.tasks.get(asked.number) == answered
    with pytest.raises(Refused, match="is completed already"):
        alice.tasks.cancel(asked.number)


def test_only_a_choice_is_taken_as_the_answer(alice: Board, bob: Board) -> None:
    asked = alice.questions.ask("which database?", choices=["sqlite", " postgres "])
    with pytest.raises(Invalid, match="answer: one of sqlite, postgres, got 'mysql'"):
        bob.questions.answer(asked.number, answer="mysql")
    assert alice.tasks.get(asked.number).state == "pending"
    assert bob.questions.answer(asked.number, answer="postgres").result["answer"] == "postgres"
    with pytest.raises(Invalid, match="the same one is given twice"):
        alice.questions.ask("which?", choices=["a", "a"])


def test_what_comes_after_a_question_becomes_ready_with_the_answer(alice: Board, bob: Board) -> None:
    asked = alice.questions.ask("which database?")
    later = alice.tasks.post(name="migrate", after=[asked.number])
    assert (later.state, bob.tasks.next()) == ("blocked", [])
    bob.questions.answer(asked.number, answer="sqlite")
    assert [task.number for task in bob.tasks.next()] == [later.number]
    assert alice.tasks.post(name="afterwards", after=[asked.number]).state == "pending"


def test_what_comes_after_a_cancelled_question_is_cancelled(alice: Board) -> None:
    asked = alice.questions.ask("which database?")
    later = alice.tasks.post(name="migrate", after=[asked.number])
    alice.tasks.cancel(asked.number)
    assert alice.tasks.get(later.number).state == "cancelled"


def test_the_answer_comes_to_the_inbox_of_the_asker(alice: Board, bob: Board) -> None:
    asked = alice.questions.ask("which database?")
    bob.messages.send("do we have a server?", about=asked.number)
    bob.questions.answer(asked.number, answer="sqlite")
    first, second = alice.messages.inbox()
    assert first.body == "do we have a server?"
    assert (second.sender, second.task, second.thread) == ("bob", asked.number, first.thread)
    assert second.body == f"The answer to #{asked.number} 'which database?': sqlite"
    assert [each.body for each in bob.messages.comments(asked.number)] == [first.body, second.body]


def test_an_answer_in_another_project_reaches_its_asker_there(place: Place, alice: Board) -> None:
    asked = alice.questions.ask("which database?")
    place.open("bob", project="elsewhere").questions.answer(asked.number, answer="sqlite")
    assert [each.project for each in alice.messages.inbox()] == ["demo"]


def test_the_log_tells_what_was_answered_and_nothing_was_ever_held(alice: Board, bob: Board) -> None:
    asked = alice.questions.ask("which database?")
    bob.questions.answer(asked.number, answer="sqlite,\nof course")
    log = Log()
    events = alice.events.read(limit=1000)
    for event in events:
        log.read(event)
    [done] = [event for event in events if event.event == "task.completed"]
    assert (done.subject, done.agent, done.note) == (asked.id, "bob", "sqlite, of course")
    assert "bob answered: sqlite, of course." in [each.text for each in alice.events.why(ref=f"#{asked.number}")]
    assert alice.tasks.get(asked.number).holder is None


# ── Asking ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_question_with_the_same_key_is_not_asked_twice(alice: Board, bob: Board) -> None:
    asked = alice.questions.ask("which database?", key="database")
    assert bob.questions.ask("which database, please?", key="database") == asked
    bob.questions.answer("database", answer="sqlite")
    assert alice.questions.ask("which database?", key="database").result["answer"] == "sqlite"
    alice.tasks.post(name="work", key="work")
    with pytest.raises(Refused, match="has it, and is no question"):
        alice.questions.ask("which work?", key="work")


@pytest.mark.parametrize(
    ("text", "name", "body"),
    [
        ("which?", "which?", None),
        ("  which?\n\n- one\n- two\n", "which?", "- one\n- two"),
        ("\twhich\tone?", "which one?", None),
        ("x" * 801, "x" * 800, "x" * 801),
        ("ü" * 401, "ü" * 400, "ü" * 401),
    ],
)
def test_nothing_of_a_long_question_is_lost(alice: Board, text: str, name: str, body: str | None) -> None:
    asked = alice.questions.ask(text)
    assert (asked.name, asked.body) == (name, body)


def test_open_questions_are_listed_with_who_waits_for_them(alice: Board, bob: Board) -> None:
    work = alice.claim("work")
    first = alice.questions.ask("which database?", choices=["a", "b"], about=work.task.number, key="first")
    bob.questions.ask("done?")
    over = bob.questions.ask("over?")
    later = [alice.tasks.post(name=f"later {i}", after=[first.number]) for i in range(25)]
    alice.tasks.cancel(later[0].number)
    bob.questions.answer(over.number, answer="yes")
    one, two = alice.questions.list()
    assert (one.number, one.name, one.choices, one.key, one.asked_by) == (
        *(first.number, "which database?", ["a", "b"], "first"),
        "alice",
    )
    holder = {"number": work.task.number, "name": "work", "state": "claimed", "holder": "alice"}
    assert one.about == holder
    assert [each["number"] for each in one.waiting] == [each.number for each in later[1:21]]
    assert one.waiting[0] == {"number": later[1].number, "name": "later 1", "state": "blocked", "holder": None}
    assert (two.name, two.choices, two.about, two.waiting) == ("done?", None, None, [])
    assert alice.questions.get("first") == one
    with pytest.raises(Refused, match="was answered already, by bob: yes"):
        alice.questions.get(over.number)


def test_other_projects_are_listed_only_if_asked_for(place: Place, alice: Board) -> None:
    place.open("bob", project="elsewhere").questions.ask("there?")
    alice.questions.ask("here?")
    assert [each.name for each in alice.questions.list()] == ["here?"]
    assert [each.name for each in alice.questions.list(project=None)] == ["there?", "here?"]
    assert [each.name for each in alice.questions.list(project=None, limit=1)] == ["there?"]


def test_an_ordinary_task_of_an_older_board_whose_kind_is_question_stays_work(alice: Board, bob: Board) -> None:
    """`tasks.post` took this kind before there were questions."""
    from tiebreak.operations import tasks

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "QUESTION", "nothing")
        old = alice.tasks.post(name="old", kind="question")
    assert alice.questions.list() == []
    assert [task.number for task in bob.tasks.next()] == [old.number]
    assert bob.tasks.complete(old.number).state == "completed"


# ── Waiting for the answer ───────────────────────────────────────────────────────────────────────────


def test_an_answer_ends_the_wait_at_once(
    place: Place, alice: Board, bob: Board, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeping = asleep(place_of(place, alice), monkeypatch)
    asked = alice.questions.ask("which database?")
    waiting = threads.submit(alice.answer_to, asked.number, wait=SOON)
    assert sleeping.wait(SOON)
    bob.messages.send("let me think", about=asked.number)
    bob.questions.answer(asked.number, answer="sqlite")
    assert waiting.result(SOON) == "sqlite"


def place_of(place: Place, board: Board) -> Board:
    """The board whose engine sleeps: behind a daemon, that is the daemon's."""
    engine = place.looking(board)
    return board if engine is board.engine else Board(engine, agent="looker~1", project="demo")


def test_an_answer_that_came_before_the_wait_is_not_waited_for(alice: Board, bob: Board) -> None:
    asked = alice.questions.ask("which database?", key="database")
    bob.questions.answer(asked.number, answer="sqlite")
    assert alice.answer_to("database", wait=0) == "sqlite"
    assert alice.ask("which database?", key="database") == "sqlite"


def test_a_question_stays_open_when_its_asker_stops_waiting(alice: Board) -> None:
    with pytest.raises(TimedOut, match="'which database\\?' is not answered yet") as late:
        alice.ask("which database?", wait=0.01)
    assert late.value.reason == "question-open"
    assert [each.number for each in alice.questions.list()] == [late.value.data["number"]]


def test_a_cancelled_question_ends_the_wait(
    place: Place, alice: Board, bob: Board, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeping = asleep(place_of(place, alice), monkeypatch)
    asked = alice.questions.ask("which database?")
    waiting = threads.submit(alice.answer_to, asked.number)
    assert sleeping.wait(SOON)
    bob.tasks.cancel(asked.number, reason="not needed")
    with pytest.raises(Refused, match="was cancelled: not needed"):
        waiting.result(SOON)
