"""What a person who watches must see: nothing that needs them is missing, and nothing needless is called urgent."""

from __future__ import annotations

from typing import Any

import pytest

from tiebreak import Board, Deadlock
from tiebreak.limits import MOST_COUNTED, STALLED
from tiebreak.model import Activity, Need
from tiebreak.need_words import TITLES, next_step, number_of, sentence
from tiebreak.operations.needs import NEEDS

from .engines import Place
from .jobs_support import outcome, report


def kinds(board: Board) -> list[str]:
    return [need.kind for need in board.overview.needs()]


def only(board: Board, **filters: Any) -> Need:
    [need] = board.overview.needs(**filters)
    return need


def of(board: Board, agent: str) -> Activity:
    [found] = [each for each in board.overview.agents() if each.agent == agent]
    return found


# ── What needs a person ──────────────────────────────────────────────────────────────────────────────


def test_a_quiet_board_needs_nobody(alice: Board) -> None:
    alice.tasks.post(name="work")
    alice.tasks.claim("work", create=True)
    assert alice.overview.needs() == []


def test_an_open_question_needs_a_person_until_it_is_answered(alice: Board, bob: Board) -> None:
    asked = alice.questions.ask("which database?")
    alice.tasks.post(name="build it", after=[asked.number])
    need = only(bob)
    assert (need.kind, need.ref, need.number, need.agent) == ("question", str(asked.number), asked.number, "alice")
    assert (need.name, need.note, need.since_at) == ("which database?", "1 task waits for the answer", asked.created_at)
    assert next_step(need) == f"tb answer {asked.number}"
    bob.questions.answer(asked.number, answer="sqlite")
    assert bob.overview.needs() == []


def test_an_agent_at_a_prompt_needs_a_person_until_it_goes_on(alice: Board, bob: Board) -> None:
    alice.agents.announce()
    assert alice.agents.prompt(note="wants to use Bash") is True
    need = only(bob)
    assert (need.kind, need.ref, need.agent, need.name) == ("permission", "alice", "alice", "wants to use Bash")
    assert (of(bob, "alice").section, of(bob, "alice").waits_for) == ("waiting", [{"prompt": "wants to use Bash"}])
    assert alice.agents.prompt() is False
    assert bob.overview.needs() == []
    assert of(bob, "alice").section == "idle"


def test_who_was_not_started_by_tb_is_not_to_be_attached_to(alice: Board, bob: Board) -> None:
    alice.agents.announce(program="claude", host="dev1", pid=4711)
    alice.agents.prompt(note="wants to use Bash")
    need = only(bob)
    assert next_step(need) == "tb agents"
    assert sentence(need) == "alice waits at a prompt: wants to use Bash (in its own terminal: claude pid 4711 on dev1)"
    values = {name: getattr(need, name) for name in Need.fields}
    assert next_step(Need(**{**values, "spawned": True})) == "tb attach alice"


def test_a_file_that_looks_like_an_option_is_named_in_full(alice: Board, bob: Board) -> None:
    alice.agents.announce()
    alice.holds.take(resources=["file:-odd name.py"])
    alice.agents.leave()
    assert next_step(only(bob)) == "tb why 'file:-odd name.py'"


def test_the_prompt_of_an_agent_that_left_needs_nobody(alice: Board, bob: Board) -> None:
    alice.agents.announce()
    alice.agents.prompt(note="wants to use Bash")
    alice.agents.leave()
    assert bob.overview.needs() == []


def test_the_prompt_of_one_incarnation_is_not_that_of_the_next(place: Place) -> None:
    first, second = place.open("alice~1"), place.open("alice~2")
    first.agents.announce()
    first.agents.prompt(note="wants to use Bash")
    second.agents.announce()
    second.agents.prompt()
    assert only(second).kind == "permission"


def test_a_failed_job_is_told_with_its_reason_for_a_day(alice: Board, bob: Board, place: Place) -> None:
    alice.jobs.submit(command="false", key="build", max_attempts=1)
    [job] = bob.jobs.next()
    report(bob, outcome(job, ok=False, reason="exit code 1", retry=False))
    need = only(alice)
    assert (need.kind, need.ref, need.note, need.task_kind) == ("failed", str(job.number), "exit code 1", "job")
    assert next_step(need) == f"tb logs {job.number}"
    place.advance(86_300)
    assert kinds(alice) == ["failed"]
    place.advance(200)
    assert kinds(alice) == []


def test_a_task_that_was_retried_is_not_failed_any_more(alice: Board) -> None:
    task = alice.tasks.claim("work", create=True)
    alice.tasks.fail(task.number, retry=False, reason="no idea")
    assert next_step(only(alice)) == f"tb why {task.number}"
    alice.tasks.retry(task.number)
    assert alice.overview.needs() == []


def test_a_deadlock_is_told_until_the_wait_is_over(alice: Board, bob: Board, place: Place) -> None:
    alice.holds.take(resources=["file:a.py"])
    bob.holds.take(resources=["file:b.py"])
    alice.waits.enter(resources=["file:b.py"])
    with pytest.raises(Deadlock):
        bob.waits.enter(resources=["file:a.py"])
    need = only(alice)
    assert (need.kind, need.ref, need.name, need.agent) == ("deadlock", "file:a.py", "a.py", "bob")
    assert "alice waits for b.py (held by bob)" in (need.note or "")
    assert need.epoch == 1, "of the hold that is in the way"
    alice.holds.release(resources=["file:a.py"])
    bob.holds.take(resources=["file:a.py"])
    assert bob.overview.needs() == []


def test_a_deadlock_is_told_once_though_an_agent_tries_in_a_loop(alice: Board, bob: Board, place: Place) -> None:
    alice.holds.take(resources=["file:a.py"], lease=600)
    bob.holds.take(resources=["file:b.py"], lease=600)
    alice.waits.enter(resources=["file:b.py"])
    before = bob.events.last()
    for _ in range(5):
        with pytest.raises(Deadlock):
            bob.waits.enter(resources=["file:a.py"])
    assert [event.event for event in bob.events.read(after=before)] == ["hold.deadlocked"]
    assert len(bob.waits.list()) == 1, "who was refused has no place"
    bob.tasks.post(name="anything")  # the rest is written together with a later change
    told = [event.times for event in bob.events.read(after=before) if event.event == "hold.deadlocked"]
    assert told in ([1, 4], [1, 1, 1, 1, 1]), "and each try is counted"
    for _ in range(3):
        place.advance(25)
        [waiting] = alice.waits.list()
        alice.waits.enter(resources=["file:b.py"], place=waiting.number)
    before = bob.events.last()
    with pytest.raises(Deadlock):
        bob.waits.enter(resources=["file:a.py"])
    assert [event.event for event in bob.events.read(after=before)] == ["hold.deadlocked"], "later it is told again"


def test_an_old_deadlock_is_not_shown_for_ever(alice: Board, bob: Board, place: Place) -> None:
    alice.holds.take(resources=["file:a.py"])
    bob.holds.take(resources=["file:b.py"])
    alice.waits.enter(resources=["file:b.py"])
    with pytest.raises(Deadlock):
        bob.waits.enter(resources=["file:a.py"])
    assert kinds(bob) == ["deadlock"]
    place.advance(601)
    assert bob.overview.needs() == []


def test_what_a_dead_agent_still_has_is_told_until_it_lapses(alice: Board, bob: Board, place: Place) -> None:
    alice.agents.announce()
    alice.holds.take(resources=["file:a.py"], lease=600)
    task = alice.tasks.claim("work", create=True, lease=300)
    alice.agents.leave()
    need = only(bob)
    assert (need.kind, need.ref, need.agent, need.number) == ("dead", str(task.number), "alice", task.number)
    assert (need.name, need.epoch) == ("work", task.epoch)
    assert need.note == f"is gone and still has #{task.number}, a.py"
    for ref in (f"#{task.number}", "file:a.py"):
        assert bob.events.why(ref=ref)[-1].text.startswith("Now: alice is gone. Until the lease runs out")
    assert all(each.agent != "alice" for each in bob.overview.agents())
    place.advance(301)
    assert (only(bob).ref, only(bob).name, only(bob).epoch) == ("file:a.py", "a.py", 1)
    assert next_step(only(bob)) == "tb why a.py"
    place.advance(300)
    assert bob.overview.needs() == []


def test_a_claim_without_progress_for_hours_is_told_and_one_with_progress_is_not(
    alice: Board, bob: Board, place: Place
) -> None:
    silent = alice.tasks.claim("silent", create=True, lease=86_400)
    talking = bob.tasks.claim("talking", create=True, lease=86_400)
    place.advance(STALLED - 60)
    assert kinds(alice) == []
    alice.tasks.extend(silent.number, lease=86_400)  # a renewal shows that somebody is there, not that it goes on
    bob.messages.send(body="half of it works", about=talking.number)
    place.advance(120)
    need = only(alice)
    assert (need.kind, need.ref, need.agent, need.since_at) == (
        "stalled",
        str(silent.number),
        "alice",
        silent.claimed_at,
    )


def test_what_a_person_does_to_a_task_is_not_its_holders_progress(alice: Board, bob: Board, place: Place) -> None:
    silent = alice.tasks.claim("silent", create=True, lease=86_400)
    place.advance(STALLED + 60)
    bob.tasks.edit(silent.number, priority="urgent")
    bob.messages.send(body="how far are you?", about=silent.number)
    assert only(bob).epoch == silent.epoch
    alice.messages.send(body="half of it works", about=silent.number)
    assert kinds(bob) == []


def test_a_job_that_writes_output_makes_progress(alice: Board, bob: Board, place: Place) -> None:
    alice.jobs.submit(command="make", key="build")
    [job] = bob.jobs.next(lease=86_400)
    place.advance(STALLED + 60)
    assert kinds(alice) == ["stalled"]
    bob.jobs.append(job.number, epoch=job.epoch, chunks=[{"start": 0, "stream": 1, "text": "compiling\n"}])
    assert kinds(alice) == []


def test_whoever_stands_still_comes_first_and_then_the_oldest(alice: Board, bob: Board, place: Place) -> None:
    failed = alice.tasks.claim("work", create=True)
    alice.tasks.fail(failed.number, retry=False)
    place.advance(10)
    first, second = alice.questions.ask("first?"), alice.questions.ask("second?")
    bob.agents.announce()
    bob.agents.prompt(note="wants to use Bash")
    needs = alice.overview.needs()
    assert [need.kind for need in needs] == ["permission", "question", "question", "failed"]
    assert [need.number for need in needs[1:3]] == [first.number, second.number]
    assert [need.kind for need in alice.overview.needs(limit=1)] == ["permission", "question", "failed"]


def test_many_failures_hide_nothing_else_and_the_newest_are_shown(alice: Board, place: Place) -> None:
    silent = alice.tasks.claim("silent", create=True, lease=86_400)
    place.advance(STALLED + 60)
    for name in ("first", "second", "third"):
        alice.tasks.claim(name, create=True)
        alice.tasks.fail(name, retry=False)
        place.advance(1)
    needs = alice.overview.needs(limit=2)
    assert [need.name for need in needs] == ["second", "third", silent.name]
    assert number_of(needs, 2) == "3+"
    assert number_of(alice.overview.needs(), 50) == "4"


def test_another_project_is_seen_only_by_those_who_ask_for_all(place: Place, alice: Board) -> None:
    other = place.open("carol", project="other")
    other.questions.ask("which colour?")
    other.tasks.claim("work", create=True)
    assert alice.overview.needs() == []
    assert alice.overview.agents() == []
    assert only(alice, project=None).project == "other"
    assert [(each.agent, each.project) for each in alice.overview.agents(project=None)] == [("carol", "other")]


def test_every_kind_of_need_has_words(alice: Board) -> None:
    alice.questions.ask("which database?")
    values = {name: getattr(only(alice), name) for name in Need.fields}
    for kind in NEEDS:
        need = Need(**{**values, "kind": kind})
        assert TITLES[kind]
        assert next_step(need).startswith("tb ")
        assert sentence(need)


# ── Who does what ────────────────────────────────────────────────────────────────────────────────────


def test_claims_and_holds_are_counted_under_their_holder(alice: Board, bob: Board, place: Place) -> None:
    task = alice.tasks.claim("work", create=True, lease=300)
    place.advance(100)
    alice.holds.take(resources=["file:a.py"], lease=600)
    found = of(bob, "alice")
    assert (found.section, found.since_at) == ("working", task.claimed_at)
    assert [(each["number"], each["left"], each["lapsed"], each["epoch"]) for each in found.tasks] == [
        (task.number, 200, False, 1)
    ]
    assert [(each["resource"], each["left"]) for each in found.holds] == [("file:a.py", 600)]


def test_a_claim_that_can_be_won_again_is_nobodys_work(alice: Board, bob: Board, place: Place) -> None:
    alice.tasks.claim("work", create=True, lease=300)
    place.advance(301)
    assert (of(bob, "alice").section, of(bob, "alice").tasks) == ("idle", [])


def test_who_waits_is_told_for_whom(alice: Board, bob: Board, place: Place) -> None:
    alice.holds.take(resources=["file:a.py"])
    bob.waits.enter(resources=["file:a.py"])
    found = of(alice, "bob")
    assert (found.section, found.waits_for) == (
        "waiting",
        [{"agent": "alice", "resource": "file:a.py", "how": "holds"}],
    )


def test_one_who_has_asked_a_person_waits(alice: Board, bob: Board) -> None:
    alice.tasks.claim("work", create=True)
    asked = alice.questions.ask("which database?")
    found = of(bob, "alice")
    assert (found.section, found.since_at) == ("waiting", asked.created_at)
    assert found.waits_for == [{"question": asked.number, "name": "which database?"}]


def test_sections_come_in_order_and_the_longest_first(alice: Board, bob: Board, place: Place) -> None:
    carol, dora = place.open("carol"), place.open("dora")
    dora.agents.announce()
    bob.tasks.claim("second", create=True)
    place.advance(1)
    alice.tasks.claim("first", create=True)
    carol.waits.enter(resources=["file:free.py"])
    found = [(each.agent, each.section) for each in alice.overview.agents()]
    assert found == [("bob", "working"), ("alice", "working"), ("carol", "waiting"), ("dora", "idle")]
    assert [each.agent for each in alice.overview.agents(limit=1)] == ["bob", "carol", "dora"], "nobody is hidden"


def test_an_agent_that_says_what_it_does_works_while_it_is_seen(alice: Board, bob: Board, place: Place) -> None:
    alice.agents.announce(doing="reading the code")
    assert (of(bob, "alice").section, of(bob, "alice").doing) == ("working", "reading the code")
    place.advance(61)
    assert of(bob, "alice").section == "idle"


# ── Counts ───────────────────────────────────────────────────────────────────────────────────────────


def test_counts_tell_what_is_open(alice: Board, bob: Board, place: Place) -> None:
    first = alice.tasks.claim("first", create=True)
    alice.tasks.post(name="ready")
    alice.tasks.post(name="blocked", after=[first.number])
    alice.tasks.post(name="later", delay=60)
    alice.questions.ask("which database?")
    alice.holds.take(resources=["file:a.py"])
    failed = bob.tasks.claim("failed", create=True)
    bob.tasks.fail(failed.number, retry=False)
    found = alice.overview.counts()
    assert (found.claimed, found.ready, found.blocked, found.failed) == (1, 1, 2, 1)
    assert (found.questions, found.holds, found.agents) == (1, 1, 2)
    assert found.event == alice.events.last()
    place.advance(86_401)
    assert alice.overview.counts().failed == 0


def test_counting_stops_where_nobody_needs_to_know_more(alice: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_COUNTED == 10_000
    monkeypatch.setattr("tiebreak.operations.overview.MOST_COUNTED", 3)
    for i in range(5):
        alice.tasks.post(name=f"task {i}")
    assert alice.overview.counts().ready == 3
