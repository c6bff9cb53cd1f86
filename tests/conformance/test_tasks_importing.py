"""An import posts each entry once, with all that belongs to it, or posts nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from tiebreak import Board
from tiebreak.errors import Invalid, NotFound, Refused, TiebreakError
from tiebreak.limits import MAX_IMPORTED, MAX_LIST
from tiebreak.model import Imported

from .engines import Place
from .tasks_support import unchanged

T = TypeVar("T")


def at_once(count: int, run: Callable[[int], T]) -> list[T]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def taken(board: Board, *entries: dict[str, Any], **params: Any) -> list[Imported]:
    return board.tasks.import_(list(entries), **params)


def states(board: Board) -> dict[str, str]:
    return {task.name: task.state for task in board.tasks.list(limit=1000)}


# ── What is posted ───────────────────────────────────────────────────────────────────────────────────


def test_an_entry_becomes_the_task_that_it_describes(alice: Board) -> None:
    [done] = taken(
        alice,
        {
            "key": "login",
            "name": "fix the login",
            "body": "It fails.\n\nSince Monday.",
            "kind": "bug",
            "priority": "urgent",
            "queue": "web",
            "tags": ["a", "b", "a"],
            "payload": {"x": [1]},
            "max_attempts": 7,
        },
    )

    task = alice.tasks.get(ref="login")
    assert (done.number, done.key, done.state, done.known) == (task.number, "login", "pending", False)
    assert (task.name, task.body, task.kind, task.priority) == (
        "fix the login",
        "It fails.\n\nSince Monday.",
        "bug",
        "urgent",
    )
    assert (task.queue, task.tags, task.payload, task.max_attempts) == ("web", ("a", "b"), {"x": [1]}, 7)
    assert (task.created_by, task.holder, task.epoch, task.attempts) == ("alice", None, 0, 0)


def test_an_imported_task_is_like_a_posted_one(alice: Board) -> None:
    posted = alice.tasks.post(name="same", body="b", tags=["t"])
    [done] = taken(alice, {"name": "same", "body": "b", "tags": ["t"]})

    imported = alice.tasks.get(ref=done.number)
    own = {"number", "id", "created_at", "updated_at"}
    for field in set(type(posted).fields) - own:
        assert getattr(imported, field) == getattr(posted, field), field
    assert [task.number for task in alice.tasks.next(count=5)] == [posted.number, imported.number]


def test_references_find_entries_in_any_order(alice: Board) -> None:
    done = taken(
        alice,
        {"id": "c", "name": "child", "parent": "p", "after": ["late", "k"]},
        {"id": "p", "name": "parent"},
        {"id": "late", "name": "late"},
        {"id": "x", "key": "k", "name": "keyed"},
    )

    child, parent, late, keyed = (each.number for each in done)
    assert alice.tasks.get(ref=child).parent == parent
    assert {task.number for task in alice.tasks.after(ref=child)} == {late, keyed}
    assert [each.state for each in done] == ["blocked", "pending", "pending", "pending"]
    assert alice.tasks.get(ref=child).blockers == 2
    assert max(parent, late, keyed) < child, "what an entry refers to has a lower number"


def test_references_find_tasks_of_the_board(alice: Board) -> None:
    old = alice.tasks.post(name="old", key="old")
    other = alice.tasks.post(name="other")

    [done] = taken(alice, {"name": "new", "parent": "old", "after": [f"#{other.number}", old.id]})

    assert alice.tasks.get(ref=done.number).parent == old.number
    assert {task.number for task in alice.tasks.after(ref=done.number)} == {old.number, other.number}


def test_an_id_that_is_a_number_is_not_taken_for_a_number_of_the_board(alice: Board) -> None:
    alice.tasks.post(name="number one")

    first, second = taken(alice, {"id": 1, "name": "a"}, {"id": 2, "name": "b", "parent": 1, "after": ["1"]})

    assert alice.tasks.get(ref=second.number).parent == first.number
    assert [task.number for task in alice.tasks.after(ref=second.number)] == [first.number]


def test_a_parent_may_come_after_its_own_children(alice: Board) -> None:
    epic, part = taken(
        alice, {"id": "epic", "name": "epic", "after": ["part"]}, {"id": "part", "name": "p", "parent": "epic"}
    )

    assert alice.tasks.get(ref=part.number).parent == epic.number
    alice.tasks.claim(ref=part.number)
    alice.tasks.complete(ref=part.number)
    assert alice.tasks.get(ref=epic.number).state == "pending"


def test_finished_entries_stay_finished(alice: Board) -> None:
    taken(
        alice,
        {"key": "a", "name": "a", "state": "completed", "result": {"ok": 1}},
        {"key": "b", "name": "b", "state": "failed", "reason": "broke"},
        {"key": "c", "name": "c", "state": "cancelled", "reason": "no need"},
        {"key": "d", "name": "d", "state": "claimed", "after": ["a"]},
        {"key": "e", "name": "e", "state": "blocked"},
        {"key": "f", "name": "f", "kind": "decision"},
    )

    assert states(alice) == {
        "a": "completed",
        "b": "failed",
        "c": "cancelled",
        "d": "pending",
        "e": "pending",
        "f": "completed",
    }
    assert alice.tasks.get(ref="a").result == {"ok": 1}
    assert alice.tasks.get(ref="b").reason == "broke"
    assert alice.tasks.get(ref="a").finished_at
    assert {task.key for task in alice.tasks.next(count=9)} == {"d", "e"}
    alice.tasks.retry(ref="b")
    assert alice.tasks.get(ref="b").state == "pending"


def test_the_end_of_a_predecessor_releases_an_imported_task(alice: Board) -> None:
    alice.tasks.claim(ref="first")
    taken(alice, {"key": "second", "name": "second", "after": ["first"]})
    assert alice.tasks.get(ref="second").state == "blocked"

    alice.tasks.complete(ref="first")

    assert alice.tasks.get(ref="second").state == "pending"


def test_a_chain_of_a_thousand_is_posted_in_order(alice: Board) -> None:
    last = MAX_LIST - 1
    done = taken(
        alice,
        *({"id": f"t{i}", "name": f"t{i}", "after": [f"t{i + 1}"], "parent": f"t{i + 1}"} for i in range(last)),
        {"id": f"t{last}", "name": "first of all"},
    )

    assert [each.state for each in done] == ["blocked"] * last + ["pending"]
    numbers = [each.number for each in done]
    assert numbers == sorted(numbers, reverse=True)
    assert alice.tasks.get(ref="t0").parent == numbers[1]


def test_the_epochs_of_a_key_continue(place: Place, alice: Board) -> None:
    alice.tasks.claim(ref="k")
    alice.tasks.complete(ref="k")
    alice.tasks.post(name="newest")
    place.advance(100)
    assert alice.upkeep.prune(older_than=50).tasks == 1

    taken(alice, {"key": "k", "name": "again"})

    assert alice.tasks.claim(ref="k").epoch == 2


def test_a_task_that_is_not_due_stays_so(place: Place, alice: Board) -> None:
    taken(alice, {"key": "k", "name": "later", "at": alice.upkeep.now() + 60})
    assert alice.tasks.next() == []
    place.advance(61)
    assert [task.key for task in alice.tasks.next()] == ["k"]


# ── Known entries ────────────────────────────────────────────────────────────────────────────────────


def test_importing_twice_posts_once(alice: Board) -> None:
    entries = [{"id": "a", "name": "a"}, {"key": "b", "name": "b", "parent": "a"}]
    first = taken(alice, *entries)

    second = taken(alice, *entries, {"key": "c", "name": "c", "parent": "b"})

    assert [each.known for each in second] == [True, True, False]
    assert [each.number for each in second[:2]] == [each.number for each in first]
    assert alice.tasks.get(ref="c").parent == first[1].number
    assert len(alice.tasks.list()) == 3


def test_a_known_task_stays_as_it_is(alice: Board) -> None:
    alice.tasks.claim(ref="k")
    before = alice.tasks.get(ref="k")

    [done] = taken(alice, {"key": "k", "name": "other", "body": "x", "after": ["nowhere"], "state": "completed"})

    assert (done.known, done.state) == (True, "claimed")
    assert alice.tasks.get(ref="k") == before


def test_an_exported_task_without_a_key_is_known_where_it_came_from(alice: Board) -> None:
    task = alice.tasks.post(name="no key")
    entries = alice.tasks.export()["entries"]

    assert [each.known for each in taken(alice, *entries)] == [True]
    other = alice.tasks.import_(entries, project="elsewhere")
    assert [(each.known, each.key) for each in other] == [(False, f"import:{task.id}")]
    assert [each.known for each in alice.tasks.import_(entries, project="elsewhere")] == [True]


def test_two_imports_at_once_post_each_key_once(place: Place) -> None:
    names = [f"k{i}" for i in range(40)]

    def run(i: int) -> list[bool]:
        board = place.open(f"agent{i}")
        order = names if i % 2 else names[::-1]
        return [each.known for each in taken(board, *({"key": name, "name": name} for name in order))]

    answers = at_once(6, run)

    assert sum(not known for answer in answers for known in answer) == len(names)
    found = place.open("alice").tasks.list(limit=1000)
    assert sorted(task.key or "" for task in found) == sorted(names)


def test_posts_during_an_import_post_each_key_once(place: Place) -> None:
    names = [f"k{i}" for i in range(30)]

    def run(i: int) -> None:
        board = place.open(f"agent{i}")
        if i == 0:
            taken(board, *({"key": name, "name": name} for name in names))
            return
        for name in names[i::4]:
            board.tasks.post(name=name, key=name)

    at_once(5, run)

    assert sorted(task.key or "" for task in place.open("alice").tasks.list(limit=1000)) == sorted(names)


# ── All or nothing ───────────────────────────────────────────────────────────────────────────────────

GOOD: dict[str, Any] = {"key": "good", "name": "good", "comments": [{"author": "x", "text": "y"}]}
WRONG: list[tuple[str, dict[str, Any], type[TiebreakError], str]] = [
    ("unknown reference", {"name": "x", "after": ["nowhere"]}, NotFound, "entries[1]: after: no task 'nowhere'"),
    ("unknown number", {"name": "x", "parent": "#77"}, NotFound, "entries[1]: parent: no task '#77'"),
    ("its own parent", {"id": "x", "name": "x", "parent": "x"}, Refused, "entries[1]: is a part of itself: x → x"),
    ("after itself", {"id": "x", "name": "x", "after": ["x"]}, Refused, "entries[1]: comes after itself: x → x"),
    (
        "after a failed one",
        {"name": "x", "after": ["over"]},
        Refused,
        "entries[1]: cannot come after #1 'over', which is",
    ),
    ("the same key", {"key": "good", "name": "x"}, Invalid, "entries[1]: entries[0] is called good, too"),
    ("no name", {"key": "x"}, Invalid, "entries[1]: name is missing"),
    ("a bad priority", {"name": "x", "priority": 7}, Invalid, "entries[1]: priority: one of"),
    ("an unknown field", {"name": "x", "titel": "y"}, Invalid, "entries[1]: unknown field 'titel'"),
    ("a job", {"name": "x", "kind": "job"}, Invalid, "entries[1]: kind: a job cannot be imported"),
    ("a question", {"name": "x", "kind": "question"}, Invalid, "entries[1]: kind: a question cannot be imported"),
    ("a scheduled job's key", {"name": "x", "id": "cron:x"}, Invalid, "entries[1]: id: keys that begin with cron:"),
    ("a reason of an open task", {"name": "x", "reason": "y"}, Invalid, "entries[1]: reason: only a finished task"),
    ("no entry", [], Invalid, "entries[1]: expected an object"),  # type: ignore[list-item]
    ("a comment by nobody", {"name": "x", "comments": [{"text": "y"}]}, Invalid, "entries[1]: comments[0]: author"),
]


@pytest.mark.parametrize(("entry", "kind", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_entry_is_named_and_nothing_is_posted(
    alice: Board, entry: dict[str, Any], kind: type[TiebreakError], message: str
) -> None:
    alice.tasks.post(name="over", key="over")
    alice.tasks.cancel(ref="over")

    with unchanged(alice), pytest.raises(kind) as refusal:
        taken(alice, GOOD, entry)
    assert message in refusal.value.message


def test_a_circle_is_named_entry_by_entry(alice: Board) -> None:
    for field, words in (("after", "comes after itself"), ("parent", "is a part of itself")):
        circle = [{"id": "c", "name": "c"}, {"id": "a", "name": "a"}, {"id": "b", "name": "b"}]
        for entry, ref in zip(circle, ("a", "b", "c"), strict=True):
            entry[field] = [ref] if field == "after" else ref  # type: ignore[assignment]
        with unchanged(alice), pytest.raises(Refused, match=rf"entries\[0\]: {words}: c → a → b → c"):
            taken(alice, *circle)


def test_a_parent_in_another_project_is_refused(place: Place, alice: Board) -> None:
    other = place.open("alice", project="other").tasks.post(name="elsewhere")
    with unchanged(alice), pytest.raises(Invalid, match=r"entries\[0\]: parent: .* is in project other"):
        taken(alice, {"name": "x", "parent": f"#{other.number}"})


def test_what_one_call_may_add_has_an_end(alice: Board) -> None:
    comments = [{"author": "a", "text": "t"}] * MAX_LIST
    many = MAX_IMPORTED // MAX_LIST
    with unchanged(alice), pytest.raises(Invalid, match=f"the limit is {MAX_IMPORTED}"):
        taken(alice, *({"name": f"{i}", "comments": comments} for i in range(many)))
    with unchanged(alice), pytest.raises(Invalid, match="1001 entries, the limit is 1000"):
        taken(alice, *({"name": "x"} for _ in range(MAX_LIST + 1)))


def test_a_dry_run_checks_everything_and_posts_nothing(alice: Board) -> None:
    alice.tasks.post(name="old", key="old")
    with unchanged(alice):
        done = taken(alice, {"id": "a", "name": "a", "after": ["old"]}, {"key": "old", "name": "x"}, dry_run=True)
    assert [(each.number, each.state, each.known) for each in done] == [(0, "blocked", False), (1, "pending", True)]
    with pytest.raises(NotFound):
        taken(alice, {"name": "a", "after": ["nowhere"]}, dry_run=True)


def test_run_anyway_lets_an_entry_come_after_a_failed_one(alice: Board) -> None:
    done = taken(
        alice,
        {"id": "a", "name": "a", "state": "failed"},
        {"id": "b", "name": "b", "after": ["a"], "run_anyway": True},
        {"id": "c", "name": "c", "after": ["a"], "state": "cancelled"},
    )
    assert [each.state for each in done] == ["failed", "pending", "cancelled"]


# ── Comments ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_imported_comment_is_not_taken_for_one_of_a_present_agent(alice: Board, bob: Board) -> None:
    bob.agents.announce()
    said = [
        {"author": "bob", "text": "first\nline", "at": "2020-01-02T03:04:05Z"},
        {"author": "Jane Doe", "text": "second", "at": "2999-01-01T00:00:00Z"},
    ]
    taken(alice, {"key": "k", "name": "k", "comments": said})

    first, second = alice.messages.comments(ref="k")

    assert (first.sender, first.body, first.sent_at) == ("bob (imported)", "first\nline", 1577934245.0)
    assert (second.sender, second.thread) == ("Jane Doe (imported)", first.number)
    assert second.sent_at <= alice.upkeep.now(), "no comment is from the future"
    assert first.thread == first.number
    assert alice.messages.inbox(every=True) == bob.messages.inbox(every=True) == []


def test_comments_and_later_ones_are_one_thread(alice: Board, bob: Board) -> None:
    taken(alice, {"key": "k", "name": "k", "comments": [{"author": "x", "text": f"c{i}"} for i in range(250)]})
    bob.messages.send(body="and now", about="k")

    found = alice.messages.comments(ref="k", limit=1000)

    assert [each.body for each in found] == [f"c{i}" for i in range(250)] + ["and now"]
    assert len({each.thread for each in found}) == 1


# ── Exporting ────────────────────────────────────────────────────────────────────────────────────────


def pages(board: Board, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after = 0
    while after is not None:
        page = board.tasks.export(after=after, **params)
        found += page["entries"]
        after = page["next"]
    return found


def furnish(board: Board) -> None:
    board.tasks.post(name="epic", key="epic", body="All of it.\n", kind="epic", priority="high")
    board.tasks.post(name="part", parent="epic", tags=["a", "b"], payload={"n": [1, None]}, queue="web")
    board.tasks.post(name="done", key="done")
    board.tasks.claim(ref="done")
    board.tasks.complete(ref="done", result={"ok": True})
    board.tasks.post(name="later", key="later", after=["done", "epic"], max_attempts=9, backoff=3)
    board.tasks.post(name="broken", key="broken")
    board.tasks.claim(ref="broken")
    board.tasks.fail(ref="broken", reason="no luck", retry=False)
    board.tasks.post(name="anyway", key="anyway", after=["broken"], run_anyway=True)
    board.tasks.post(name="not wanted", key="gone")
    board.tasks.cancel(ref="gone", reason="not needed")
    board.tasks.post(name="known", kind="decision")
    board.tasks.edit(ref="epic", parent="later")
    board.messages.send(body="why?\nwhy not", about="epic")
    board.messages.send(body="because", about="epic")
    board.jobs.submit(command="secret-command --token x", key="job")
    board.tasks.post(name="after the job", key="after-job", after=["job"])


def shape(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """What entries say, whatever ids, numbers and keys the boards gave."""
    names = {entry["id"]: entry["name"] for entry in entries}
    made = {}
    for entry in entries:
        same = {field: value for field, value in entry.items() if field not in ("id", "number", "key")}
        same["parent"] = names.get(entry.get("parent", ""))
        same["after"] = sorted(names[ref] for ref in entry.get("after", ()))
        made[entry["name"]] = same
    return made


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_an_export_that_is_imported_elsewhere_is_the_same(place: Place, alice: Board, limit: int) -> None:
    furnish(alice)
    entries = pages(alice, limit=limit)

    elsewhere = place.open("bob", project="elsewhere")
    elsewhere.tasks.import_(entries)

    again = pages(elsewhere)
    assert len(again) == 9
    said = shape(entries)
    said["after the job"]["state"] = "pending"  # the job is not exported, nor is the wait for it
    assert shape(again) == said


def test_exports_of_open_tasks_refer_to_nothing_else(place: Place, alice: Board) -> None:
    furnish(alice)
    entries = pages(alice, states=["blocked", "pending", "claimed"])

    assert {entry["name"] for entry in entries} == {"epic", "part", "later", "anyway", "after the job"}
    ids = {entry["id"] for entry in entries}
    assert {ref for entry in entries for ref in entry.get("after", ())} <= ids
    assert place.open("bob", project="elsewhere").tasks.import_(entries)


def test_a_lapsed_claim_is_exported_as_pending(place: Place, alice: Board) -> None:
    alice.tasks.claim(ref="k", lease=10)
    assert [entry["state"] for entry in pages(alice, states=["claimed"])] == ["claimed"]
    place.advance(11)
    assert [entry["state"] for entry in pages(alice, states=["pending"])] == ["pending"]
    assert pages(alice, states=["claimed"]) == []


def test_no_command_is_exported(alice: Board) -> None:
    furnish(alice)
    assert "secret-command" not in str(pages(alice))


def test_large_tasks_make_small_pages(alice: Board) -> None:
    for i in range(10):
        alice.tasks.post(name=f"t{i}", payload="x" * 260_000)
    page = alice.tasks.export(limit=1000)
    assert 1 <= len(page["entries"]) < 10
    assert page["next"] == page["entries"][-1]["number"]
    assert [entry["name"] for entry in pages(alice)] == [f"t{i}" for i in range(10)]


def test_a_task_with_too_many_comments_says_so(alice: Board) -> None:
    half = [{"author": "x", "text": f"c{i}"} for i in range(MAX_LIST)]
    taken(alice, {"key": "k", "name": "k", "comments": half})
    alice.messages.send(body="one more", about="k")

    page = alice.tasks.export()

    assert page["cut"] == [alice.tasks.get(ref="k").number]
    [entry] = page["entries"]
    assert [each["text"] for each in entry["comments"]] == [f"c{i}" for i in range(1, MAX_LIST)] + ["one more"]


def test_a_task_that_comes_back_over_another_board_is_known(place: Place, alice: Board) -> None:
    alice.tasks.post(name="without a key")
    there = place.open("bob", project="there")
    there.tasks.import_(entries=alice.tasks.export()["entries"])
    back = alice.tasks.import_(entries=there.tasks.export()["entries"])
    assert [each.known for each in back] == [True]
    assert len(alice.tasks.list()) == 1
