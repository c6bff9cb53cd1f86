"""Histories: `why` tells every grant, refusal, renewal, expiry and break, in order, and the present state."""

from __future__ import annotations

import pytest

from tiebreak import Board, Fenced, Invalid, Lost, NotFound

from .engines import Place


def told(board: Board, ref: str) -> list[str]:
    return [sentence.text for sentence in board.events.why(ref=ref)]


def positions(story: list[str], *parts: str) -> list[int]:
    """Where each part is told; fails when one is not."""
    found = []
    for part in parts:
        assert any(part in line for line in story), f"{part!r} is missing in {story}"
        found.append(next(i for i, line in enumerate(story) if part in line))
    return found


def test_the_story_of_a_task_has_every_turn_in_order(place: Place, alice: Board, bob: Board) -> None:
    alice.tasks.post(name="fix login", key="login")
    place.advance(1)
    alice.tasks.claim(ref="login", lease=60)
    place.advance(1)
    alice.tasks.extend(ref="login", lease=120)
    place.advance(200)
    bob.tasks.claim(ref="login")
    place.advance(1)
    bob.tasks.release(ref="login", reason="lunch")
    place.advance(1)
    alice.tasks.claim(ref="login")
    place.advance(1)
    alice.tasks.complete(ref="login")
    story = told(bob, "login")
    order = positions(
        story,
        "alice posted fix login",
        "alice claimed it for 1m00s (epoch 1)",
        "alice renewed the claim for 2m00s (epoch 1)",
        "The lease of alice ran out (epoch 1)",
        "bob claimed it for 5m00s (epoch 2)",
        "bob gave it back (epoch 2): lunch",
        "alice claimed it for 5m00s (epoch 3)",
        "alice completed it (epoch 3)",
        "Now: completed",
    )
    assert order == list(range(9))


def test_the_story_of_a_lock_has_every_turn_in_order(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["lock:deploy"], lease=60, note="rollout")
    place.advance(1)
    alice.holds.renew(resources=["lock:deploy"], lease=120)
    place.advance(200)
    bob.holds.take(resources=["lock:deploy"])
    place.advance(1)
    bob.holds.transfer(resource="lock:deploy", to=alice.agent)
    place.advance(1)
    bob.call("holds.break", {"resource": "lock:deploy", "reason": "stuck"})
    place.advance(1)
    bob.holds.take(resources=["lock:deploy"])
    place.advance(1)
    bob.holds.release(resources=["lock:deploy"])
    order = positions(
        told(alice, "lock:deploy"),
        "alice took lock:deploy for 1m00s (epoch 1): rollout",
        "alice renewed lock:deploy for 2m00s (epoch 1)",
        "The hold of alice on lock:deploy ran out (epoch 1)",
        "bob took lock:deploy for 30m00s (epoch 2)",
        "lock:deploy passed to alice for 30m00s (epoch 3)",
        "bob broke the hold on lock:deploy (epoch 3): held by alice: stuck",
        "bob took lock:deploy for 30m00s (epoch 4)",
        "bob released lock:deploy (epoch 4)",
        "Now: free",
    )
    assert order == list(range(9))


@pytest.mark.parametrize("ref", ["#1", "login", "id", "file"])
def test_a_story_is_found_by_every_name_of_its_subject(alice: Board, ref: str) -> None:
    task = alice.tasks.post(name="fix login", key="login")
    alice.holds.take(resources=["file:src/a.py"])
    asked = {"id": task.id, "file": "src/a.py"}.get(ref, ref)
    positions(told(alice, asked), "took src/a.py" if ref == "file" else "posted fix login")


def test_the_end_of_a_story_says_who_has_a_task_and_for_how_long(place: Place, alice: Board, bob: Board) -> None:
    alice.tasks.claim(ref="login", lease=60)
    place.advance(20)
    assert told(bob, "login")[-1] == "Now: claimed by alice, for another 40s (epoch 1)."


def test_the_end_of_a_story_says_who_has_a_resource_and_for_how_long(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["lock:deploy"], lease=60)
    place.advance(20)
    assert told(bob, "lock:deploy")[-1] == "Now: lock:deploy is held by alice for another 40s (epoch 1)."


def test_an_expired_hold_is_free_in_its_story(place: Place, alice: Board) -> None:
    alice.holds.take(resources=["lock:deploy"], lease=60)
    place.advance(61)
    assert told(alice, "lock:deploy")[-1] == "Now: free."


def test_a_lapsed_claim_is_pending_in_its_story(place: Place, alice: Board) -> None:
    alice.tasks.claim(ref="login", lease=60)
    place.advance(61)
    assert told(alice, "login")[-1] == "Now: pending."


# ── Refusals ─────────────────────────────────────────────────────────────────────────────────────────


def lose(board: Board, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(Lost):
            board.tasks.claim(ref="login")
        with pytest.raises(Lost):
            board.holds.take(resources=["lock:deploy"])


@pytest.fixture
def taken(alice: Board) -> Board:
    """Alice has a task and a lock."""
    alice.tasks.claim(ref="login")
    alice.holds.take(resources=["lock:deploy"])
    return alice


def test_a_loser_sees_its_refusal_at_once(taken: Board, bob: Board) -> None:
    lose(bob)
    positions(told(bob, "login"), "bob was refused: held by alice")
    positions(told(bob, "lock:deploy"), "bob was refused lock:deploy: held by alice")


def test_refusals_are_told_with_their_number(taken: Board, bob: Board) -> None:
    lose(bob, 3)
    positions(told(bob, "login"), "bob was refused 3 times")
    positions(told(bob, "lock:deploy"), "bob was refused lock:deploy 3 times")


def test_everybody_sees_a_refusal_once_it_was_carried(taken: Board, bob: Board) -> None:
    lose(bob, 2)
    bob.messages.send(body="I wanted that")
    positions(told(taken, "login"), "bob was refused 2 times")
    positions(told(taken, "lock:deploy"), "bob was refused lock:deploy 2 times")


def test_a_refusal_is_not_told_twice_when_it_was_carried(taken: Board, bob: Board) -> None:
    lose(bob)
    bob.messages.send(body="I wanted that")
    assert sum("refused" in line for line in told(bob, "lock:deploy")) == 1


def test_everybody_sees_the_refusals_of_a_closed_board(place: Place, taken: Board) -> None:
    with place.open("bob") as bob:
        lose(bob, 2)
    positions(told(taken, "login"), "bob was refused 2 times")
    positions(told(taken, "lock:deploy"), "bob was refused lock:deploy 2 times")


def test_a_refusal_is_told_before_the_grant_that_carried_it(place: Place, taken: Board, bob: Board) -> None:
    place.advance(1)
    lose(bob)
    place.advance(1)
    taken.holds.release(resources=["lock:deploy"])
    place.advance(1)
    bob.holds.take(resources=["lock:deploy"])
    order = positions(
        told(bob, "lock:deploy"), "alice took", "bob was refused", "alice released", "bob took", "Now: lock:deploy"
    )
    assert order == sorted(order)


def test_a_write_that_came_too_late_is_told(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["lock:deploy"], lease=60)
    place.advance(61)
    bob.holds.take(resources=["lock:deploy"])
    with pytest.raises(Fenced):
        alice.holds.renew(resources=["lock:deploy"], epochs=[1])
    positions(told(alice, "lock:deploy"), "alice came too late with a write of epoch 1")


# ── Globs ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_globs_that_match_a_path_are_in_its_story(alice: Board) -> None:
    alice.holds.take(resources=["file:src/**", "file:docs/**"])
    story = told(alice, "src/a.py")
    positions(story, "alice took src/**", "Now: file:src/** is held by alice")
    assert not any("docs" in line for line in story)


def test_a_path_refused_because_of_a_glob_says_so_in_its_story(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["file:src/**"])
    with pytest.raises(Lost):
        bob.holds.take(resources=["file:src/a.py"])
    positions(told(bob, "src/a.py"), "bob was refused src/a.py: held by alice as file:src/**")


def test_a_glob_refused_because_of_a_path_is_in_the_story_of_that_path(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["file:src/a.py"])
    with pytest.raises(Lost):
        bob.holds.take(resources=["file:src/**"])
    positions(told(bob, "src/a.py"), "bob was refused src/**")


def test_a_glob_that_was_only_ever_refused_has_a_story(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["file:src/a.py"])
    with pytest.raises(Lost):
        bob.holds.take(resources=["file:src/**"])
    positions(told(bob, "src/**"), "bob was refused src/**", "Now: file:src/a.py is held by alice")


def test_the_story_of_a_glob_is_its_own(alice: Board) -> None:
    alice.holds.take(resources=["file:src/**"])
    positions(told(alice, "src/**"), "alice took src/**")


def test_the_story_of_a_pool_tells_its_slots_apart(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["pool:ports"], slots=2)
    bob.holds.take(resources=["pool:ports"])
    grants = [line.replace("alice", "bob") for line in told(alice, "pool:ports") if "took" in line]
    assert len(set(grants)) == 2


# ── Limits and unknowns ──────────────────────────────────────────────────────────────────────────────


def test_a_limit_keeps_the_newest_part_of_a_story(place: Place, alice: Board) -> None:
    alice.holds.take(resources=["lock:deploy"])
    for _ in range(3):
        place.advance(1)
        alice.holds.renew(resources=["lock:deploy"])
    story = [sentence.text for sentence in alice.events.why(ref="lock:deploy", limit=2)]
    assert [line.split()[1] for line in story[:-1]] == ["renewed", "renewed"]


def test_every_sentence_names_its_event(alice: Board) -> None:
    alice.holds.take(resources=["lock:deploy"])
    sentences = alice.events.why(ref="lock:deploy")
    assert [sentence.event for sentence in sentences] == [1, 0]


@pytest.mark.parametrize("ref", ["nothing", "#7", "lock:deploy", "src/a.py", "01234567-89ab-7def-8123-456789abcdef"])
def test_an_unknown_subject_has_no_history(alice: Board, ref: str) -> None:
    with pytest.raises(NotFound):
        alice.events.why(ref=ref)


def test_an_unknown_word_is_not_called_a_file(alice: Board) -> None:
    with pytest.raises(NotFound, match="no task"):
        alice.events.why(ref="nothing")


def test_a_story_stays_in_its_project(place: Place, alice: Board) -> None:
    alice.holds.take(resources=["lock:deploy"])
    with pytest.raises(NotFound):
        place.open("bob", project="other").events.why(ref="lock:deploy")


@pytest.mark.parametrize("ref", ["", " ", "#seven", "lock:two words", "x" * 4001, None])
def test_a_senseless_question_is_refused(alice: Board, ref: str) -> None:
    with pytest.raises(Invalid):
        alice.events.why(ref=ref)


def test_the_events_of_a_pruned_task_can_still_be_read(place: Place, alice: Board) -> None:
    task = alice.tasks.claim(ref="login")
    alice.tasks.complete(ref="login")
    place.advance(40 * 86_400)
    alice.tasks.post(name="newer")
    alice.upkeep.prune(limit=1)
    with pytest.raises(NotFound):
        alice.tasks.get(ref=task.id)
    kept = alice.events.read(subject=task.id)
    assert [(event.event, event.name) for event in kept] == [("task.claimed", "login"), ("task.completed", "login")]


def test_a_task_outlives_its_pruned_events(place: Place, alice: Board) -> None:
    alice.tasks.post(name="old and still open", key="old")
    place.advance(40 * 86_400)
    alice.tasks.post(name="newer")
    alice.upkeep.prune()
    assert told(alice, "old") == ["Now: pending."]


def test_a_blocked_task_tells_what_it_waits_for_and_a_question_that_it_waits_for_a_person(alice: Board) -> None:
    alice.questions.ask("which database?", key="database")
    alice.tasks.post(name="port", key="port", after=["database"])
    assert alice.events.why(ref="port")[-1].text == "Now: blocked by #1 'database' (a question)."
    assert alice.events.why(ref="database")[-1].text == "Now: waits for the answer of a person."
