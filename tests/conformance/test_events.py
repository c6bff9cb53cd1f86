"""Events: every change appends one in its own transaction, numbered without a gap; a refusal appends none itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from tiebreak import Board, Event, Fenced, Invalid, Lost, NotFound, Refused, operations
from tiebreak.daemon.writer import Writer
from tiebreak.operations import deferred_work

from .engines import Place

AUDIT = ("task.refused", "task.fenced", "hold.refused", "hold.fenced")


def everything(board: Board, after: int = 0) -> list[Event]:
    return board.events.read(after=after, project=None, limit=1000)


def names(events: list[Event]) -> list[str]:
    return [event.event for event in events]


# ── Every write leaves a trace ───────────────────────────────────────────────────────────────────────


def claimed(board: Board, **more: Any) -> dict[str, Any]:
    board.tasks.post(name="work", key="work", **more)
    return {"ref": board.tasks.claim(ref="work").id}


def ran(board: Board) -> tuple[int, int]:
    board.jobs.submit(command="true")
    [job] = board.jobs.next()
    return job.number, job.epoch


def posted(board: Board, **more: Any) -> dict[str, Any]:
    return {"ref": board.tasks.post(name="work", **more).id}


def cancelled(board: Board) -> dict[str, Any]:
    task = board.tasks.post(name="work")
    return {"ref": board.tasks.cancel(ref=task.id).id}


def held(board: Board) -> dict[str, Any]:
    board.holds.take(resources=["lock:deploy"])
    return {"resources": ["lock:deploy"]}


def lapsed(place: Place, board: Board) -> dict[str, Any]:
    board.tasks.claim(ref="work", lease=1)
    place.advance(2)
    return {}


def outdated(place: Place, board: Board) -> dict[str, Any]:
    for _ in range(2):
        board.messages.send(body="old")
    place.advance(100 * 86_400)
    return {}


def message(board: Board) -> int:
    return board.messages.send(later=True, body="hello", to="alice").number


def session(board: Board, state: str = "starting") -> dict[str, Any]:
    process: dict[str, Any] = {"host": "here", "boot": "1.1", "pid": 7, "started": 70}
    lead: dict[str, Any] = {"session": "lead~spawn-1"}
    board.sessions.begin(**lead, role="coordinator", command=["agent"], **process)
    if state != "starting":
        board.sessions.adopt(**lead, **process, child=8, child_started=80)
    if state == "ended":
        board.sessions.end(**lead, note="over")
    return lead


def scheduled(board: Board) -> dict[str, Any]:
    board.schedules.add(name="daily", expression="@daily", command="true")
    return {"name": "daily"}


def tomorrow(place: Place, board: Board) -> dict[str, Any]:
    scheduled(board)
    place.advance(86_400)
    return {}


def announced(board: Board) -> dict[str, Any]:
    board.agents.announce()
    return {}


FAR: dict[str, Any] = {"host": "elsewhere", "boot": "1.1", "pid": 7, "started": 70}
"""A process on another host."""


def bound(board: Board) -> dict[str, Any]:
    """An agent whose process is on another host, from where its end is reported."""
    board.agents.announce(**FAR, bound=True)
    return {"holder": board.agent, **FAR}


def half_told(board: Board) -> dict[str, Any]:
    """Of three tasks that come after a cancelled one, two do not know of it yet, and whoever cancelled it has died."""
    root = board.tasks.post(name="root")
    for _ in range(3):
        board.tasks.post(name="later", after=[root.id])
    with (
        patch.object(deferred_work, "BUDGET", 1),
        patch.object(Board, "_finish_deferred_work", lambda board: board.engine.deferred_work.clear()),
        patch.object(Writer, "_queue_deferred_work", lambda writer: writer._engine.deferred_work.clear()),
    ):
        board.tasks.cancel(ref=root.id)
    return {}


# One successful call of every operation that writes: what makes it possible, and returns its parameters.
WRITES: dict[str, Callable[[Place, Board], dict[str, Any]]] = {
    "tasks.post": lambda place, board: {"name": "work"},
    "tasks.import": lambda place, board: {"entries": [{"name": "work"}]},
    "tasks.edit": lambda place, board: {**posted(board), "body": "what it is about"},
    "tasks.depend": lambda place, board: {**posted(board), "after": [posted(board)["ref"]]},
    "tasks.claim": lambda place, board: posted(board),
    "tasks.claim_many": lambda place, board: {"refs": [posted(board)["ref"]]},
    "tasks.next": lambda place, board: (posted(board), {})[1],
    "tasks.extend": lambda place, board: claimed(board),
    "tasks.complete": lambda place, board: claimed(board),
    "tasks.fail": lambda place, board: claimed(board),
    "tasks.release": lambda place, board: claimed(board),
    "tasks.break": lambda place, board: {**claimed(board), "reason": "stuck"},
    "tasks.cancel": lambda place, board: posted(board),
    "tasks.retry": lambda place, board: cancelled(board),
    "tasks.retry_many": lambda place, board: (cancelled(board), {"states": ["cancelled"]})[1],
    "tasks.forfeit": lambda place, board: (claimed(place.open("bob")), {"holder": "bob~test"})[1],
    "jobs.submit": lambda place, board: {"command": "true"},
    "jobs.submit_many": lambda place, board: {"jobs": [{"command": "true"}]},
    "jobs.next": lambda place, board: (board.jobs.submit(command="true"), {})[1],
    "jobs.heartbeat": lambda place, board: {"grants": [ran(board)]},
    "jobs.report": lambda place, board: {"outcomes": [{"number": ran(board)[0], "epoch": 1, "ok": True}]},
    "jobs.append": lambda place, board: {"ref": ran(board)[0], "epoch": 1, "chunks": [{"start": 0, "text": "x"}]},
    "jobs.progress": lambda place, board: {"ref": ran(board)[0], "percent": 50},
    "questions.ask": lambda place, board: {"text": "which?"},
    "questions.answer": lambda place, board: {"ref": board.questions.ask("which?").number, "answer": "this"},
    "queues.pause": lambda place, board: {"queue": "default"},
    "queues.resume": lambda place, board: (board.queues.pause(queue="default"), {"queue": "default"})[1],
    "tasks.sweep": lapsed,
    "tasks.cascade": lambda place, board: half_told(board),
    "holds.take": lambda place, board: {"resources": ["lock:deploy"]},
    "holds.renew": lambda place, board: held(board),
    "holds.release": lambda place, board: held(board),
    "holds.forfeit": lambda place, board: {**held(board), "epochs": [1], **FAR},
    "holds.transfer": lambda place, board: {"resource": held(board)["resources"][0], "to": "bob~test"},
    "tasks.adopt": lambda place, board: (claimed(place.open("alice~old")), {"ref": "work", "confirmed": True})[1],
    "holds.adopt": lambda place, board: (held(place.open("alice~old")), {"holder": "alice~old", "confirmed": True})[1],
    "holds.break": lambda place, board: {"resource": held(board)["resources"][0], "reason": "stuck"},
    "waits.enter": lambda place, board: held(place.open("bob")),
    "waits.leave": lambda place, board: {"place": board.waits.enter(**held(place.open("bob"))).number},
    "schedules.add": lambda place, board: {"name": "daily", "expression": "@daily", "command": "true"},
    "schedules.pause": lambda place, board: scheduled(board),
    "schedules.resume": lambda place, board: (board.schedules.pause(**scheduled(board)), {"name": "daily"})[1],
    "schedules.remove": lambda place, board: scheduled(board),
    "schedules.fire": tomorrow,
    "messages.send": lambda place, board: {"body": "hello"},
    "messages.mark": lambda place, board: {"upto": message(board)},
    "messages.ack": lambda place, board: {"number": message(board)},
    "agents.announce": lambda place, board: {},
    "agents.heartbeat": lambda place, board: {**announced(board), "doing": "testing"},
    "agents.renew": lambda place, board: announced(board),
    "agents.report_dead": lambda place, board: bound(place.open("bob")),
    "agents.warn": lambda place, board: {"note": "the hooks could not reach the board"},
    "agents.prompt": lambda place, board: {"note": "wants to use Bash"},
    "agents.leave": lambda place, board: announced(board),
    "sessions.begin": lambda place, board: {
        **{"session": "lead~spawn-1", "role": "worker", "command": ["agent"]},
        **{"host": "here", "boot": "1.1", "pid": 7, "started": 70},
    },
    "sessions.adopt": lambda place, board: {
        **session(board),
        **{"host": "here", "boot": "1.1", "pid": 9, "started": 90, "child": 8, "child_started": 80},
    },
    "sessions.alive": lambda place, board: {**session(board, "adopted"), "pid": 7, "started": 70},
    "sessions.renew": lambda place, board: session(board),
    "sessions.end": lambda place, board: {**session(board), "note": "over"},
    "sessions.remove": lambda place, board: session(board, "ended"),
    "projects.settle": lambda place, board: {"project": "example.org/acme/shop commit/0123"},
    "projects.alias": lambda place, board: {"name": "also"},
    "projects.rename": lambda place, board: (board.tasks.post(name="x"), {"name": "renamed"})[1],
    "upkeep.prune": outdated,
    "upkeep.probe": lambda place, board: {},
}
SILENT = {"messages.mark", "upkeep.probe", "jobs.heartbeat", "jobs.append", "agents.renew", "projects.settle"}
"""Nothing changes hands: names that mean what they say, a read cursor, a mark that proves that the board can be written
to, jobs that are kept, what they write, a sign of life that comes with every step of an agent. (A bare heartbeat is
silent too: see the cases about agents.)"""


def test_every_operation_that_writes_is_in_the_table() -> None:
    assert set(WRITES) == {name for name, operation in operations.every().items() if operation.writes}


@pytest.mark.parametrize("name", sorted(set(WRITES) - SILENT))
def test_a_change_leaves_an_event(place: Place, alice: Board, name: str) -> None:
    params = WRITES[name](place, alice)
    before = alice.events.last()
    alice.call(name, params)
    assert alice.events.last() > before


@pytest.mark.parametrize("name", sorted(SILENT))
def test_what_changes_nothing_for_others_leaves_no_event(place: Place, alice: Board, name: str) -> None:
    params = WRITES[name](place, alice)
    before = alice.events.last()
    alice.call(name, params)
    assert alice.events.last() == before


@pytest.mark.parametrize("name", ["tasks.sweep", "tasks.next", "tasks.cascade", "upkeep.prune"])
def test_a_write_that_finds_nothing_to_do_leaves_no_event(alice: Board, name: str) -> None:
    alice.tasks.claim(ref="work")
    before = alice.events.last()
    alice.call(name, {})
    assert alice.events.last() == before


def test_reading_leaves_no_event(alice: Board) -> None:
    reads: dict[str, dict[str, Any]] = {
        "tasks.get": {"ref": "work"},
        "tasks.after": {"ref": "work"},
        "tasks.dependents": {"ref": "work"},
        "tasks.check": {"ref": "mine"},
        "jobs.inspect": {"ref": "job"},
        "jobs.output": {"ref": "job"},
        "jobs.graph": {"ref": "work"},
        "schedules.next": {"name": "daily"},
        "schedules.history": {"name": "daily"},
        "messages.search": {"query": "word"},
        "messages.comments": {"ref": "work"},
        "questions.get": {"ref": "asked"},
        "events.why": {"ref": "work"},
    }
    alice.tasks.post(name="work", key="work")
    alice.jobs.submit(command="true", key="job")
    alice.tasks.claim(ref="mine")
    alice.questions.ask("which?", key="asked")
    scheduled(alice)
    before = alice.events.last()
    for name, operation in operations.every().items():
        if not operation.writes:
            alice.call(name, reads.get(name, {}))
    assert alice.events.last() == before


# One refused call of each kind that can be refused, made by bob while alice has everything.
REFUSED: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "tasks.claim": ({"ref": "work"}, Lost),
    "tasks.extend": ({"ref": "work"}, Fenced),
    "tasks.complete": ({"ref": "work"}, Fenced),
    "tasks.fail": ({"ref": "work"}, Fenced),
    "tasks.release": ({"ref": "work"}, Fenced),
    "tasks.retry": ({"ref": "work"}, Refused),
    "tasks.break": ({"ref": "nowhere", "reason": "stuck"}, NotFound),
    "tasks.cancel": ({"ref": "nowhere"}, NotFound),
    "tasks.post": ({"name": "late", "after": ["nowhere"]}, NotFound),
    "tasks.import": ({"entries": [{"name": "late", "after": ["nowhere"]}]}, NotFound),
    "tasks.depend": ({"ref": "work", "after": ["work"]}, Refused),
    "holds.take": ({"resources": ["lock:a", "lock:deploy"]}, Lost),
    "holds.renew": ({"resources": ["lock:deploy"]}, Fenced),
    "holds.release": ({"resources": ["lock:deploy"]}, Fenced),
    "holds.transfer": ({"resource": "lock:deploy", "to": "bob~test"}, Fenced),
    "holds.break": ({"resource": "lock:a", "reason": "stuck"}, NotFound),
    "messages.send": ({"body": "yes", "reply_to": 9}, NotFound),
    "messages.ack": ({"number": 9}, NotFound),
    "messages.mark": ({"upto": 9}, Invalid),
    "agents.leave": ({}, NotFound),
    "agents.announce": ({"doing": "two\nlines"}, Invalid),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_refused_operation_appends_nothing(alice: Board, bob: Board, name: str) -> None:
    params, kind = REFUSED[name]
    alice.tasks.claim(ref="work")
    alice.holds.take(resources=["lock:deploy"])
    before = bob.events.last()
    with pytest.raises(kind):
        bob.call(name, params)
    assert bob.events.last() == before


# ── Numbers ──────────────────────────────────────────────────────────────────────────────────────────


def test_numbers_grow_by_one_over_boards_projects_and_refusals(place: Place, alice: Board, bob: Board) -> None:
    elsewhere = place.open("carol", project="other")
    for i in range(3):
        alice.tasks.claim(ref=f"work{i}")
        with pytest.raises(Lost):
            bob.tasks.claim(ref=f"work{i}")
        bob.messages.send(body="hello")
        elsewhere.tasks.post(name="work")
    numbers = [event.number for event in everything(alice)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_last_number_is_that_of_the_newest_event(alice: Board, bob: Board) -> None:
    assert alice.events.last() == 0
    alice.tasks.post(name="work")
    assert bob.events.last() == everything(bob)[-1].number == 1


def test_a_batch_logs_what_was_done_and_not_what_was_refused(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["lock:a"])
    before = bob.events.last()
    answers = bob.batch(
        [
            ("holds.take", {"resources": ["lock:b"]}),
            ("holds.take", {"resources": ["lock:a"]}),
            ("messages.send", {"body": "hello"}),
            ("no.operation", {}),
            ("messages.send", {"body": ""}),
        ]
    )
    assert [type(a).__name__ for a in answers] == ["list", "Lost", "Message", "Invalid", "Invalid"]
    changes = [e.event for e in everything(bob, after=before) if e.event not in AUDIT]
    assert changes == ["hold.taken", "message.sent"]


def test_a_repeated_write_is_logged_once(alice: Board) -> None:
    for _ in range(2):
        alice.call("messages.send", {"body": "hello"}, once="send-hello-1")
    assert names(everything(alice)) == ["message.sent"]


def test_an_event_has_all_that_a_reader_needs(place: Place, alice: Board) -> None:
    task = alice.tasks.post(name="fix login", kind="bug", priority="high", key="login")
    alice.tasks.claim(ref="login", lease=60)
    event = everything(alice)[-1]
    assert (event.event, event.subject, event.name, event.kind) == ("task.claimed", task.id, "fix login", "bug")
    assert (event.state, event.priority, event.agent, event.epoch) == ("claimed", "high", "alice", 1)
    assert event.until == pytest.approx(event.at + 60)


# ── Filters ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def busy(place: Place, alice: Board, bob: Board) -> Board:
    """A board on which a few different things have happened."""
    alice.tasks.post(name="100% sure", kind="bug", priority="high", key="sure")
    alice.tasks.claim(ref="sure")
    bob.tasks.post(name="1000 cats", kind="chore", key="cats")
    place.open("bob~other").holds.take(resources=["file:a_b.py"])
    bob.holds.take(resources=["file:axb.py"])
    place.open("bobby", project="other").tasks.post(name="Elsewhere")
    return alice


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["task.posted", "task.claimed", "task.posted", "hold.taken", "hold.taken"]),
        ({"event": "task"}, ["task.posted", "task.claimed", "task.posted"]),
        ({"event": "task.claimed"}, ["task.claimed"]),
        ({"event": "tas"}, []),
        ({"event": "task.claim"}, []),
        ({"project": "other"}, ["task.posted"]),
        ({"kind": "bug"}, ["task.posted", "task.claimed"]),
        ({"kind": "file"}, ["hold.taken", "hold.taken"]),
        ({"subject": "file:a_b.py"}, ["hold.taken"]),
        ({"state": "claimed"}, ["task.claimed"]),
        ({"priority": "high"}, ["task.posted", "task.claimed"]),
        ({"agent": "alice"}, ["task.posted", "task.claimed"]),
        ({"agent": "bob"}, ["task.posted", "hold.taken", "hold.taken"]),
        ({"agent": "bob~other"}, ["task.posted", "hold.taken", "hold.taken"]),
        ({"agent": "bo"}, []),
        ({"name_contains": "CATS"}, ["task.posted"]),
        ({"name_contains": "100%"}, ["task.posted", "task.claimed"]),
        ({"name_contains": "a_b"}, ["hold.taken"]),
        ({"name_contains": "!"}, []),
        ({"name_contains": "%"}, ["task.posted", "task.claimed"]),
        ({"kind": "bug", "state": "pending"}, ["task.posted"]),
        ({"after": 2}, ["task.posted", "hold.taken", "hold.taken"]),
        ({"after": 99}, []),
        ({"limit": 2}, ["task.posted", "task.claimed"]),
    ],
    ids=str,
)
def test_a_filter_lets_through_what_matches_and_nothing_else(
    busy: Board, filters: dict[str, Any], expected: list[str]
) -> None:
    assert names(busy.events.read(**filters)) == expected


def test_all_projects_are_read_when_asked_for(busy: Board) -> None:
    assert {event.project for event in busy.events.read(project=None)} == {"demo", "other"}


def test_a_task_is_followed_by_its_id(busy: Board) -> None:
    task = busy.tasks.get(ref="cats")
    assert [event.name for event in busy.events.read(subject=task.id)] == ["1000 cats"]


@pytest.mark.parametrize("text", ["\u00c4PFEL", "\u00e4pfel", "\u00c4pfel"])
def test_a_name_is_found_whatever_its_script_and_case(alice: Board, text: str) -> None:
    alice.tasks.post(name="\u00c4pfel kaufen")
    assert len(alice.events.read(name_contains=text)) == 1


def test_the_log_can_be_read_in_pages_without_a_gap(alice: Board) -> None:
    for i in range(7):
        alice.tasks.post(name=f"work {i}")
    seen: list[Event] = []
    while page := alice.events.read(after=seen[-1].number if seen else 0, limit=3):
        seen += page
    assert [event.number for event in seen] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    "wrong",
    [
        {"after": -1},
        {"after": "1"},
        {"limit": 0},
        {"limit": 1001},
        {"event": "two words"},
        {"project": ""},
        {"kind": "a b"},
        {"name_contains": ""},
        {"state": "open"},
        {"priority": "extreme"},
        {"agent": "no body"},
        {"colour": "red"},
    ],
    ids=str,
)
def test_a_senseless_filter_is_refused(alice: Board, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        alice.call("events.read", wrong)


# ── Refusals ─────────────────────────────────────────────────────────────────────────────────────────


def lose(board: Board, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(Lost):
            board.holds.take(resources=["lock:deploy"])


def test_refusals_are_carried_by_the_losers_next_write(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["lock:deploy"])
    lose(bob)
    bob.messages.send(body="I wanted that")
    refused = alice.events.read(event="hold.refused")
    assert [(e.agent, e.subject, e.note) for e in refused] == [("bob", "lock:deploy", "held by alice")]


def test_refusals_are_counted_for_each_agent(place: Place, alice: Board, bob: Board) -> None:
    carol = place.open("carol")
    alice.holds.take(resources=["lock:deploy"])
    lose(bob, 3)
    lose(carol, 2)
    for board in (bob, carol):
        board.messages.send(body="I wanted that")
    counts = {e.agent: e.times for e in alice.events.read(event="hold.refused")}
    assert counts == {"bob": 3, "carol": 2}


def test_refusals_are_written_to_the_log_once(alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["lock:deploy"])
    lose(bob)
    for _ in range(3):
        bob.messages.send(body="hello")
    assert len(alice.events.read(event="hold.refused")) == 1


def test_a_fenced_write_is_logged_as_well(place: Place, alice: Board, bob: Board) -> None:
    alice.holds.take(resources=["lock:deploy"], lease=60)
    place.advance(61)
    bob.holds.take(resources=["lock:deploy"])
    with pytest.raises(Fenced):
        alice.holds.renew(resources=["lock:deploy"], epochs=[1])
    alice.messages.send(body="too late")
    fenced = bob.events.read(event="hold.fenced")
    assert [(e.agent, e.epoch, e.times) for e in fenced] == [("alice", 1, 1)]


def test_the_refusals_of_a_closed_board_are_not_lost(place: Place, alice: Board) -> None:
    alice.holds.take(resources=["lock:deploy"])
    with place.open("bob") as bob:
        lose(bob, 2)
    alice.messages.send(body="anything")
    assert [(e.agent, e.times) for e in alice.events.read(event="hold.refused")] == [("bob", 2)]


def test_closing_a_board_twice_is_harmless(place: Place) -> None:
    board = place.open("bob")
    board.tasks.post(name="work")
    board.close()
    board.close()
    assert place.open("alice").events.last() == 1
