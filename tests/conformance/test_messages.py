"""Messages: each reaches its recipients and nobody else, once, in order, and is never changed."""

from __future__ import annotations

from typing import Any

import pytest

from tiebreak import Board, Invalid, Message, NotFound, operations

from .engines import Place


def bodies(messages: list[Message]) -> list[str]:
    return [message.body for message in messages]


@pytest.fixture
def carol(place: Place) -> Board:
    """The same board as carol sees it."""
    return place.open("carol")


# ── Who gets what ────────────────────────────────────────────────────────────────────────────────────


def test_a_direct_message_reaches_one_agent_alone(alice: Board, bob: Board, carol: Board) -> None:
    alice.messages.send(later=True, to="bob", body="for bob")
    assert bodies(bob.messages.inbox()) == ["for bob"]
    assert bodies(carol.messages.inbox()) == []


def test_a_message_to_one_incarnation_is_for_the_name(place: Place, alice: Board) -> None:
    alice.messages.send(later=True, to="bob~old", body="for bob")
    assert bodies(place.open("bob~new").messages.inbox()) == ["for bob"]


def test_a_broadcast_reaches_everybody_but_its_sender(alice: Board, bob: Board, carol: Board) -> None:
    alice.messages.send(body="to all")
    boxes = [bodies(board.messages.inbox()) for board in (alice, bob, carol)]
    assert boxes == [[], ["to all"], ["to all"]]


def test_a_note_to_oneself_arrives(alice: Board) -> None:
    alice.messages.send(later=True, to="alice", body="remember")
    assert bodies(alice.messages.inbox()) == ["remember"]


def test_a_name_is_not_a_beginning_of_another(place: Place, alice: Board) -> None:
    alice.messages.send(later=True, to="bobby", body="for bobby")
    assert bodies(place.open("bob").messages.inbox()) == []


def test_a_message_stays_in_its_project(place: Place, alice: Board) -> None:
    alice.messages.send(later=True, to="bob", body="here")
    elsewhere = place.open("bob", project="other")
    assert bodies(elsewhere.messages.inbox()) == []
    assert bodies(elsewhere.messages.inbox(project="demo")) == ["here"]


def test_a_message_says_who_sent_what_when(place: Place, alice: Board, bob: Board) -> None:
    sent = alice.messages.send(
        later=True, to="bob", body="hello", channel="review", importance="urgent", ack_requested=True
    )
    got = bob.messages.inbox()[0]
    assert got == sent
    assert (got.sender, got.recipient, got.channel, got.importance) == ("alice", "bob", "review", "urgent")
    assert (got.ack_requested, got.acked_at, got.project) == (True, None, "demo")


def test_messages_come_in_the_order_in_which_they_were_sent(alice: Board, bob: Board, carol: Board) -> None:
    for i in range(4):
        (alice, carol)[i % 2].messages.send(later=True, to="bob", body=str(i))
    got = bob.messages.inbox()
    assert bodies(got) == ["0", "1", "2", "3"]
    assert [m.number for m in got] == sorted(m.number for m in got)


def test_broadcasts_from_before_one_came_are_not_news(place: Place, alice: Board, bob: Board) -> None:
    alice.messages.send(body="old news")
    place.advance(1)
    bob.agents.announce()
    place.advance(1)
    alice.messages.send(body="news")
    assert bodies(bob.messages.inbox()) == ["news"]
    assert bodies(bob.messages.inbox(every=True)) == ["old news", "news"]


def test_direct_messages_from_before_one_came_are_not_lost(place: Place, alice: Board, bob: Board) -> None:
    alice.messages.send(later=True, to="bob", body="welcome")
    place.advance(1)
    bob.agents.announce()
    assert bodies(bob.messages.inbox()) == ["welcome"]


def test_a_restart_does_not_count_as_coming_for_the_first_time(place: Place, alice: Board) -> None:
    place.open("bob~one").agents.announce()
    place.advance(1)
    alice.messages.send(body="news")
    place.advance(1)
    restarted = place.open("bob~two")
    restarted.agents.announce()
    assert bodies(restarted.messages.inbox()) == ["news"]


# ── Reading ──────────────────────────────────────────────────────────────────────────────────────────


def test_looking_does_not_mark_as_read(alice: Board, bob: Board) -> None:
    alice.messages.send(later=True, to="bob", body="hello")
    bob.messages.inbox()
    assert bodies(bob.messages.inbox()) == ["hello"]


def test_what_was_marked_is_not_shown_again(alice: Board, bob: Board) -> None:
    first = alice.messages.send(later=True, to="bob", body="one")
    alice.messages.send(later=True, to="bob", body="two")
    assert bob.messages.mark(upto=first.number) == first.number
    assert bodies(bob.messages.inbox()) == ["two"]
    assert bodies(bob.messages.inbox(every=True)) == ["one", "two"]


def test_the_cursor_survives_a_restart(place: Place, alice: Board) -> None:
    read = alice.messages.send(later=True, to="bob", body="read")
    place.open("bob~one").messages.mark(upto=read.number)
    assert bodies(place.open("bob~two").messages.inbox()) == []


def test_the_cursor_never_goes_back(alice: Board, bob: Board) -> None:
    numbers = [alice.messages.send(later=True, to="bob", body=str(i)).number for i in range(3)]
    bob.messages.mark(upto=numbers[2])
    assert bob.messages.mark(upto=numbers[0]) == numbers[2]
    assert bodies(bob.messages.inbox()) == []


def test_the_cursor_belongs_to_its_reader(alice: Board, bob: Board, carol: Board) -> None:
    sent = alice.messages.send(body="to all")
    bob.messages.mark(upto=sent.number)
    assert bodies(carol.messages.inbox()) == ["to all"]


def test_the_cursor_belongs_to_its_project(place: Place, alice: Board, bob: Board) -> None:
    alice.messages.send(later=True, to="bob", body="here")
    last = alice.messages.send(later=True, to="bob", body="there", project="other")
    bob.messages.mark(upto=last.number, project="other")
    assert bodies(bob.messages.inbox()) == ["here"]


def test_a_number_of_another_project_marks_nothing_that_is_yet_to_come(alice: Board, bob: Board) -> None:
    """Messages of one project get their numbers in order, but a lower one may be sent here at this very moment."""
    here = alice.messages.send(later=True, to="bob", body="here")
    there = alice.messages.send(later=True, to="bob", body="there", project="other")
    assert bob.messages.mark(upto=there.number) == here.number


def test_messages_that_do_not_exist_yet_cannot_be_read(alice: Board, bob: Board) -> None:
    newest = alice.messages.send(later=True, to="bob", body="hello").number
    with pytest.raises(Invalid):
        bob.messages.mark(upto=newest + 1)


def test_marking_leaves_no_event(alice: Board, bob: Board) -> None:
    sent = alice.messages.send(later=True, to="bob", body="hello")
    before = bob.events.last()
    bob.messages.mark(upto=sent.number)
    assert bob.events.last() == before


def test_a_channel_shows_nothing_of_another(alice: Board, bob: Board) -> None:
    alice.messages.send(body="a", channel="review")
    alice.messages.send(body="b")
    assert bodies(bob.messages.inbox(channel="review")) == ["a"]
    assert bodies(bob.messages.inbox(channel="general")) == ["b"]


def test_an_inbox_can_be_read_in_pages(alice: Board, bob: Board) -> None:
    for i in range(5):
        alice.messages.send(later=True, to="bob", body=str(i))
    first = bob.messages.inbox(limit=2)
    second = bob.messages.inbox(limit=2, after=first[-1].number)
    assert bodies(first + second) == ["0", "1", "2", "3"]


# ── Threads ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_first_message_opens_its_own_thread(alice: Board) -> None:
    sent = alice.messages.send(body="hello")
    assert sent.thread == sent.number


def test_a_reply_lands_in_the_thread_that_it_answers(alice: Board, bob: Board) -> None:
    asked = alice.messages.send(later=True, to="bob", body="ready?")
    answered = bob.messages.send(later=True, to="alice", body="yes", reply_to=asked.number)
    assert answered.thread == asked.number


def test_a_reply_to_a_reply_stays_in_the_thread(alice: Board, bob: Board) -> None:
    asked = alice.messages.send(later=True, to="bob", body="ready?")
    answered = bob.messages.send(later=True, to="alice", body="yes", reply_to=asked.number)
    thanked = alice.messages.send(later=True, to="bob", body="thanks", reply_to=answered.number)
    assert thanked.thread == asked.number


def test_a_thread_shows_nothing_of_another(alice: Board, bob: Board) -> None:
    one = alice.messages.send(later=True, to="bob", body="one")
    alice.messages.send(later=True, to="bob", body="two")
    alice.messages.send(later=True, to="bob", body="one again", reply_to=one.number)
    assert bodies(bob.messages.inbox(thread=one.number)) == ["one", "one again"]


def test_an_answer_to_nothing_is_refused(alice: Board) -> None:
    with pytest.raises(NotFound):
        alice.messages.send(body="yes", reply_to=999)
    assert alice.events.last() == 0


def test_an_answer_across_projects_is_refused(place: Place, alice: Board) -> None:
    sent = alice.messages.send(body="hello")
    with pytest.raises(NotFound):
        place.open("bob", project="other").messages.send(body="yes", reply_to=sent.number)


# ── Acknowledging ────────────────────────────────────────────────────────────────────────────────────


def test_an_acknowledgement_is_remembered(place: Place, alice: Board, bob: Board) -> None:
    sent = alice.messages.send(later=True, to="bob", body="stop", ack_requested=True)
    place.advance(5)
    acked = bob.messages.ack(number=sent.number)
    assert acked.acked_at == pytest.approx(sent.sent_at + 5)
    assert bob.messages.inbox()[0].acked_at == acked.acked_at


def test_the_sender_learns_of_an_acknowledgement(alice: Board, bob: Board) -> None:
    sent = alice.messages.send(later=True, to="bob", body="stop", ack_requested=True)
    bob.messages.ack(number=sent.number)
    event = alice.events.read(event="message.acked")[0]
    assert (event.agent, event.data["message"], event.data["to"]) == ("bob", sent.number, "alice")


def test_acknowledging_twice_is_told_once(place: Place, alice: Board, bob: Board) -> None:
    sent = alice.messages.send(later=True, to="bob", body="stop", ack_requested=True)
    first = bob.messages.ack(number=sent.number)
    place.advance(5)
    assert bob.messages.ack(number=sent.number).acked_at == first.acked_at
    assert len(bob.events.read(event="message.acked")) == 1


def test_everybody_acknowledges_a_broadcast_alone(alice: Board, bob: Board, carol: Board) -> None:
    sent = alice.messages.send(body="stop", ack_requested=True)
    bob.messages.ack(number=sent.number)
    assert carol.messages.inbox()[0].acked_at is None


def test_an_acknowledgement_survives_a_restart(place: Place, alice: Board) -> None:
    sent = alice.messages.send(later=True, to="bob", body="stop", ack_requested=True)
    place.open("bob~one").messages.ack(number=sent.number)
    assert place.open("bob~two").messages.inbox()[0].acked_at is not None


def test_nobody_acknowledges_for_another(alice: Board, bob: Board, carol: Board) -> None:
    sent = alice.messages.send(later=True, to="bob", body="stop", ack_requested=True)
    with pytest.raises((Invalid, NotFound)):
        carol.messages.ack(number=sent.number)
    assert bob.messages.inbox()[0].acked_at is None


def test_what_was_never_sent_cannot_be_acknowledged(bob: Board) -> None:
    with pytest.raises(NotFound):
        bob.messages.ack(number=7)


# ── Searching ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def library(alice: Board) -> Board:
    """A board with something to find."""
    for body in ("the parser is slow", "The Parser is fixed", "parsing is slow", "nothing here"):
        alice.messages.send(body=body)
    return alice


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("parser", ["the parser is slow", "The Parser is fixed"]),
        ("PARSER", ["the parser is slow", "The Parser is fixed"]),
        ("slow parser", ["the parser is slow"]),
        ("pars*", ["the parser is slow", "The Parser is fixed", "parsing is slow"]),
        ("pars", []),
        ("slow fixed", []),
        ("absent", []),
    ],
)
def test_a_search_finds_all_the_words_and_nothing_else(library: Board, query: str, found: list[str]) -> None:
    assert bodies(library.messages.search(query=query)) == found


@pytest.mark.parametrize(
    "query",
    [
        'say "parser',
        '"parser',
        "parser AND slow",
        "parser OR fixed",
        "NOT parser",
        "NEAR(parser slow, 2)",
        "body:parser",
        "body : parser",
        "^parser",
        "-parser",
        "parser - slow",
        "(parser",
        "parser)",
        "{parser slow}",
        "parser*slow",
        "*parser",
        "parser' OR 1=1 --",
        "parser; DROP TABLE messages",
        "par_er",
    ],
)
def test_an_operator_in_a_search_is_a_word_like_any_other(library: Board, query: str) -> None:
    found = bodies(library.messages.search(query=query))
    assert found in ([], ["the parser is slow", "The Parser is fixed"], ["the parser is slow"])


def test_and_is_not_an_operator(library: Board) -> None:
    assert library.messages.search(query="parser AND slow") == []


def test_or_is_not_an_operator(library: Board) -> None:
    assert library.messages.search(query="parser OR nothing") == []


def test_a_minus_does_not_exclude(library: Board) -> None:
    assert bodies(library.messages.search(query="parser -slow")) == ["the parser is slow"]


def test_a_search_does_not_open_the_letters_of_others(alice: Board, bob: Board, carol: Board) -> None:
    alice.messages.send(later=True, to="bob", body="the secret plan")
    assert carol.messages.search(query="secret") == []
    assert len(alice.messages.search(query="secret")) == len(bob.messages.search(query="secret")) == 1


def test_a_list_of_messages_has_those_of_everybody_newest_first(alice: Board, bob: Board, carol: Board) -> None:
    first = alice.messages.send(later=True, to="bob", body="the secret plan")
    bob.messages.send(later=True, to="alice", body="agreed", reply_to=first.number)
    alice.messages.send(body="to all")
    assert bodies(carol.messages.list()) == ["to all", "agreed", "the secret plan"]
    assert bodies(carol.messages.list(last=True)) == ["to all", "agreed"]
    assert bodies(carol.messages.list(thread=first.number)) == ["agreed", "the secret plan"]
    assert bodies(carol.messages.list(agent="bob")) == ["agreed", "the secret plan"]
    assert bodies(carol.messages.list(query="plan secret")) == ["the secret plan"]
    newest = carol.messages.list(limit=1)
    assert bodies(carol.messages.list(before=newest[0].number, limit=1)) == ["agreed"]
    with pytest.raises(Invalid):
        carol.messages.list(query="!?")


def test_a_list_of_messages_is_of_one_project_or_of_all(place: Place, alice: Board) -> None:
    alice.messages.send(body="here")
    place.open("bob", project="other").messages.send(body="there")
    assert bodies(alice.messages.list()) == ["here"]
    assert bodies(alice.messages.list(project=None)) == ["there", "here"]


def test_a_list_of_messages_tells_what_the_recipient_acknowledged(alice: Board, bob: Board) -> None:
    sent = alice.messages.send(later=True, to="bob", body="read this", ack_requested=True)
    assert alice.messages.list()[0].acked_at is None
    bob.messages.ack(number=sent.number)
    assert alice.messages.list()[0].acked_at is not None


def test_a_search_finds_what_one_sent_oneself(library: Board) -> None:
    assert len(library.messages.search(query="nothing")) == 1


def test_a_search_stays_in_its_project(place: Place, library: Board) -> None:
    assert place.open("bob", project="other").messages.search(query="parser") == []


def test_a_search_is_bounded(library: Board) -> None:
    assert len(library.messages.search(query="is", limit=2)) == 2


@pytest.mark.parametrize(
    "query", ["", "   ", "!?", '"', '""', "**", "%", "+", "\\", ": ^ - ( )", None, 7, "a\0b", "x" * 65_537], ids=repr
)
def test_a_search_for_nothing_is_a_mistake(library: Board, query: Any) -> None:
    with pytest.raises(Invalid):
        library.messages.search(query=query)


# ── Never changed, never too large ───────────────────────────────────────────────────────────────────


def test_no_operation_changes_or_takes_back_a_message() -> None:
    names = {name for name in operations.every() if name.startswith("messages.")}
    assert names == {f"messages.{name}" for name in ("send", "inbox", "comments", "mark", "ack", "search", "list")}


def test_a_body_comes_back_as_it_was_sent(alice: Board, bob: Board) -> None:
    body = "two\nlines\twith \u201cquotes\u201d, \U0001f600 and \x1b[31mred\x1b[0m {now} :body %s"
    alice.messages.send(later=True, to="bob", body=body)
    assert bodies(bob.messages.inbox()) == [body]


def test_the_largest_body_fits(alice: Board, bob: Board) -> None:
    alice.messages.send(later=True, to="bob", body="x" * 65_536)
    assert len(bob.messages.inbox()[0].body) == 65_536


@pytest.mark.parametrize(
    "wrong",
    [
        {"body": "x" * 65_537},
        {"body": ""},
        {"body": " \n "},
        {"body": "a\0b"},
        {"body": "lone \ud800 surrogate"},
        {"body": 7},
        {"body": None},
        {"to": "no body"},
        {"to": ""},
        {"channel": "two words"},
        {"channel": None},
        {"reply_to": -1},
        {"reply_to": "1"},
        {"importance": "extreme"},
        {"ack_requested": 1},
        {"agent": ""},
        {"subject": "unknown parameter"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_message_with_something_wrong_is_not_sent(alice: Board, bob: Board, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        alice.call("messages.send", {"body": "hello", **wrong})
    assert bob.messages.inbox() == []


@pytest.mark.parametrize(
    "wrong",
    [{"limit": 0}, {"limit": 1001}, {"after": -1}, {"channel": "a b"}, {"thread": "x"}, {"every": "no"}],
    ids=str,
)
def test_an_inbox_is_not_read_by_guesswork(alice: Board, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        alice.call("messages.inbox", wrong)


@pytest.mark.parametrize(
    ("operation", "wrong"),
    [("messages.mark", {"upto": -1}), ("messages.mark", {"upto": "1"}), ("messages.ack", {"number": None})],
    ids=str,
)
def test_a_number_that_is_none_is_refused(alice: Board, operation: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        alice.call(operation, wrong)


def test_a_message_is_announced_by_its_event(alice: Board, bob: Board) -> None:
    sent = alice.messages.send(body="hello\nworld", channel="review", importance="high")
    event = bob.events.read(event="message.sent")[0]
    assert (event.agent, event.kind, event.priority, event.name) == ("alice", "review", "high", "hello")
    assert event.data == {"message": sent.number, "to": None, "thread": sent.number}


def test_the_event_of_a_direct_message_does_not_tell_it_to_everybody(alice: Board, bob: Board, carol: Board) -> None:
    sent = alice.messages.send(later=True, to="bob", body="the password is in the vault")
    bob.messages.ack(number=sent.number)
    told = repr(carol.events.read(event="message"))
    assert "password" not in told


# ── To whom ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_message_to_a_name_that_nobody_has_is_refused(alice: Board) -> None:
    alice.agents.announce(agent="robert~1")

    with pytest.raises(NotFound, match="nobody called 'robbert' has been in project demo; there is robert") as refusal:
        alice.messages.send(to="robbert", body="lost")

    facts = refusal.value.data
    assert (refusal.value.reason, facts["to"], facts["near"]) == ("recipient-unknown", "robbert", ["robert"])
    assert alice.messages.inbox(agent="robbert") == []


def test_a_message_can_be_for_an_agent_that_will_come(alice: Board, bob: Board) -> None:
    alice.messages.send(to="bob", body="welcome", later=True)

    assert bodies(bob.messages.inbox()) == ["welcome"]


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("agents.announce", {}),
        ("tasks.claim", {"ref": "some-task"}),
        ("holds.take", {"resources": ["lock:x"]}),
        ("messages.send", {"body": "here I am"}),
        ("tasks.post", {"name": "work"}),
        ("messages.mark", {"upto": 0}),
    ],
)
def test_whoever_was_here_once_can_be_written_to(
    alice: Board, bob: Board, operation: str, params: dict[str, Any]
) -> None:
    bob.call(operation, params)

    assert alice.messages.send(to="bob", body="hello").recipient == "bob"


def test_an_agent_of_another_project_is_not_here(place: Place, alice: Board) -> None:
    place.open("bob", project="other").agents.announce()

    with pytest.raises(NotFound, match="has been in project demo"):
        alice.messages.send(to="bob", body="lost")


def test_the_beginning_of_a_known_name_is_not_known(alice: Board) -> None:
    alice.agents.announce(agent="bobby~1")
    alice.agents.announce(agent="bob-2~1")

    with pytest.raises(NotFound):
        alice.messages.send(to="bob", body="lost")


def test_a_sender_learns_since_when_the_recipient_is_gone(place: Place, alice: Board, bob: Board) -> None:
    bob.agents.announce()
    here = alice.messages.send(to="bob", body="are you there?")
    bob.agents.leave()
    left = alice.agents.list(agent="bob")[0].left_at
    place.advance(3600)

    gone = alice.messages.send(to="bob", body="still there?")

    assert (here.gone_since, gone.gone_since) == (None, left)
    assert bodies(bob.messages.inbox()) == ["are you there?", "still there?"]
    assert [message.gone_since for message in bob.messages.inbox()] == [None, None]


def test_an_agent_that_came_back_is_not_called_gone(place: Place, alice: Board) -> None:
    old, new = place.open("bob~1"), place.open("bob~2")
    old.agents.announce()
    old.agents.leave()
    new.agents.announce()

    assert alice.messages.send(to="bob", body="welcome back").gone_since is None


def test_a_sign_of_life_after_leaving_counts(place: Place, alice: Board, bob: Board) -> None:
    bob.agents.announce()
    bob.agents.leave()
    place.advance(1)
    bob.tasks.post(name="one more thing")

    assert alice.messages.send(to="bob", body="you are here after all").gone_since is None
