"""What a task says: descriptions, edits, comments, parents. None of it changes who holds the task."""

from __future__ import annotations

import pytest

from tiebreak import Board, Invalid, NotFound, Refused
from tiebreak.limits import MAX_TEXT
from tiebreak.operations.picking import MOST_PAUSED

from .engines import Place


def test_a_description_reaches_whoever_wins_the_task(alice: Board, bob: Board) -> None:
    alice.tasks.post(name="login bug", key="login", body="only on Safari\n\nsince May")
    assert bob.tasks.next()[0].body == "only on Safari\n\nsince May"
    assert [task.body for task in alice.tasks.list()] == ["only on Safari\n\nsince May"]


def test_an_edit_changes_what_was_given_and_nothing_else(alice: Board) -> None:
    before = alice.tasks.post(name="work", body="old", tags=["a", "b"], priority="low", payload={"x": 1})
    after = alice.tasks.edit(ref=before.id, body="new", priority="urgent", tags=["c"], no_tags=["a"], queue="fast")
    assert (after.body, after.priority, after.tags, after.queue) == ("new", "urgent", ("b", "c"), "fast")
    assert (after.name, after.payload, after.state, after.epoch) == ("work", {"x": 1}, "pending", 0)
    assert after == alice.tasks.get(ref=before.id)


def test_an_edited_task_is_found_by_what_it_says_now(alice: Board, bob: Board) -> None:
    alice.tasks.post(name="first")
    moved = alice.tasks.post(name="second")
    alice.tasks.edit(ref=moved.id, queue="fast", tags=["new"], priority="urgent")
    assert [task.id for task in bob.tasks.next(queue="fast", tag="new")] == [moved.id]


def test_a_claim_survives_an_edit_by_somebody_else(alice: Board, bob: Board) -> None:
    claimed = alice.tasks.claim(ref="work")
    edited = bob.tasks.edit(ref="work", name="other work", body="more", queue="slow")
    assert (edited.holder, edited.epoch, edited.until) == ("alice", claimed.epoch, claimed.until)
    assert alice.tasks.complete(ref="work", epoch=claimed.epoch).name == "other work"


def test_an_edit_that_changes_nothing_leaves_no_event_and_no_time(alice: Board) -> None:
    task = alice.tasks.post(name="work", body="text", tags=["a"])
    before = alice.events.last()
    again = alice.tasks.edit(ref=task.id, name="work", body="text", tags=["a"])
    assert (again.updated_at, alice.events.last()) == (task.updated_at, before)


def test_the_log_has_what_an_edit_overwrote(alice: Board) -> None:
    task = alice.tasks.post(name="work", body="the old plan", tags=["a", "b"])
    alice.tasks.edit(ref=task.id, body="another plan", priority="high", tags=["c"], no_tags=["a"])
    [event] = alice.events.read(event="task.edited")
    assert event.note == "description, priority, tags"
    assert event.data == {"priority": ["normal", "high"], "body": ["the old plan"], "tags": [["a"], ["c"]]}


def test_a_task_does_not_collect_tags_without_end(alice: Board) -> None:
    task = alice.tasks.post(name="work", tags=[f"a{i}" for i in range(1000)])
    with pytest.raises(Invalid, match="tags: 1001 in all, the limit is 1000"):
        alice.tasks.edit(ref=task.id, tags=["one-more"])


def test_of_two_who_rewrite_one_description_the_second_is_refused(alice: Board, bob: Board) -> None:
    task = alice.tasks.post(name="work", body="first")
    alice.tasks.edit(ref=task.id, body="alice's", was="first")
    with pytest.raises(Refused, match="changed meanwhile") as refused:
        bob.tasks.edit(ref=task.id, body="bob's", was="first")
    assert refused.value.reason == "body-changed"
    assert alice.tasks.get(ref=task.id).body == "alice's"


def test_whoever_saw_no_description_does_not_overwrite_one(alice: Board, bob: Board) -> None:
    task = alice.tasks.post(name="work")
    alice.tasks.edit(ref=task.id, body="alice's", was="")
    with pytest.raises(Refused, match="changed meanwhile"):
        bob.tasks.edit(ref=task.id, body="bob's", was="")


def test_a_description_and_a_parent_can_be_removed(alice: Board) -> None:
    top = alice.tasks.post(name="top")
    task = alice.tasks.post(name="part", body="text", parent=top.id)
    edited = alice.tasks.edit(ref=task.id, no_body=True, no_parent=True)
    assert (edited.body, edited.parent) == (None, None)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"body": "x", "no_body": True}, "body: given and removed"),
        ({"parent": "work", "no_parent": True}, "parent: given and removed"),
        ({"body": ""}, "body: must not be empty"),
        ({"body": "x" * (MAX_TEXT + 1)}, "the limit is"),
        ({"priority": "soon"}, "priority: one of"),
        ({"name": "two\nlines"}, "control characters"),
    ],
)
def test_a_wrong_edit_changes_nothing(alice: Board, wrong: dict[str, object], words: str) -> None:
    before = alice.tasks.post(name="work", key="work", body="text")
    with pytest.raises(Invalid, match=words):
        alice.call("tasks.edit", {"ref": "work", **wrong})
    assert alice.tasks.get(ref="work") == before


def test_a_job_with_a_limit_keeps_its_queue_and_priority(alice: Board) -> None:
    job = alice.jobs.submit(command="true", limit="group=1")
    with pytest.raises(Refused, match="group group, which has a limit"):
        alice.tasks.edit(ref=job.id, priority="urgent")
    assert alice.tasks.edit(ref=job.id, body="why it runs").body == "why it runs"


def test_a_task_that_leaves_a_paused_queue_can_be_won(alice: Board, bob: Board) -> None:
    alice.queues.pause(queue="slow")
    task = alice.tasks.post(name="work", queue="slow")
    assert bob.tasks.next() == []
    alice.tasks.edit(ref=task.id, queue="fast")
    assert [won.id for won in bob.tasks.next()] == [task.id]


def test_a_hidden_task_that_leaves_its_paused_queue_can_be_won(alice: Board, bob: Board) -> None:
    # Searches hide the tasks of a paused queue only if that many queues are paused.
    tasks = []
    for queue in (f"slow-{number}" for number in range(MOST_PAUSED + 5)):
        tasks.append(alice.tasks.post(name="work", queue=queue).id)
        alice.queues.pause(queue=queue)
    assert bob.tasks.next() == []

    for task in tasks:
        alice.tasks.edit(ref=task, queue="fast")

    assert {won.id for won in bob.tasks.next(count=len(tasks))} == set(tasks)


# ── Parents ──────────────────────────────────────────────────────────────────────────────────────────


def family(board: Board) -> dict[str, int]:
    """A tree: top has a and b, and a has deep."""
    top = board.tasks.post(name="top", key="top")
    a = board.tasks.post(name="a", key="a", parent="top")
    b = board.tasks.post(name="b", key="b", parent="top")
    deep = board.tasks.post(name="deep", key="deep", parent="a")
    return {task.name: task.number for task in (top, a, b, deep)}


def test_a_tree_shows_each_task_before_its_parts(alice: Board) -> None:
    numbers = family(alice)
    assert [task.name for task in alice.tasks.tree()] == ["top", "a", "deep", "b"]
    assert [task.name for task in alice.tasks.tree(ref="a")] == ["a", "deep"]
    assert [task.name for task in alice.tasks.list(parent="top")] == ["b", "a"]
    assert alice.tasks.get(ref="deep").parent == numbers["a"]


def test_a_tree_shows_finished_parents_of_open_parts_only(alice: Board) -> None:
    family(alice)
    for ref in ("a", "b"):
        alice.tasks.cancel(ref=ref)
    assert [task.name for task in alice.tasks.tree()] == ["top", "a", "deep"]
    assert [task.name for task in alice.tasks.tree(ref="top")] == ["top", "a", "deep"]
    assert [task.name for task in alice.tasks.tree(every=True)] == ["top", "a", "deep", "b"]


def test_a_tree_is_cut_at_its_limit(alice: Board) -> None:
    family(alice)
    assert [task.name for task in alice.tasks.tree(limit=1)] == ["top", "a", "deep"], "the newest, and its parents"
    assert [task.name for task in alice.tasks.tree(ref="top", limit=2)] == ["top", "a"]


@pytest.mark.parametrize(("task", "parent"), [("top", "top"), ("top", "a"), ("top", "deep"), ("a", "deep")])
def test_no_task_becomes_a_part_of_itself(alice: Board, task: str, parent: str) -> None:
    family(alice)
    with pytest.raises(Refused, match="cannot be a part of"):
        alice.tasks.edit(ref=task, parent=parent)
    assert [each.name for each in alice.tasks.tree()] == ["top", "a", "deep", "b"]


def test_a_parent_neither_waits_for_its_parts_nor_holds_them_back(alice: Board, bob: Board) -> None:
    family(alice)
    claimed = alice.tasks.claim(ref="top")
    assert bob.tasks.claim(ref="deep").epoch == 1
    assert alice.tasks.complete(ref="top", epoch=claimed.epoch).state == "completed"


def test_a_parent_in_another_project_is_refused(place: Place, alice: Board) -> None:
    other = place.open("bob", project="elsewhere").tasks.post(name="theirs")
    with pytest.raises(Invalid, match=r"parent: .* is in project elsewhere"):
        alice.tasks.post(name="part", parent=other.number)
    with pytest.raises(NotFound):
        alice.tasks.post(name="part", parent="nothing")


def test_pruning_keeps_the_parent_of_an_open_part(alice: Board) -> None:
    family(alice)
    for ref in ("top", "b"):
        alice.tasks.cancel(ref=ref)
    alice.tasks.post(name="newest")
    alice.upkeep.prune(older_than=0)
    assert [task.name for task in alice.tasks.tree()] == ["top", "a", "deep", "newest"]
    for ref in ("a", "deep"):
        alice.tasks.cancel(ref=ref)
    alice.upkeep.prune(older_than=0)
    assert [task.name for task in alice.tasks.tree(every=True)] == ["newest"]


# ── Comments ─────────────────────────────────────────────────────────────────────────────────────────


def test_comments_are_one_thread_that_everybody_reads_at_the_task(alice: Board, bob: Board) -> None:
    alice.tasks.post(name="work", key="work")
    first = bob.messages.send(body="is this needed?", about="work")
    second = alice.messages.send(body="it is", about="work")
    assert [each.body for each in alice.messages.comments(ref="work")] == ["is this needed?", "it is"]
    assert (first.thread, second.thread) == (first.number, first.number)
    assert first.task == second.task == alice.tasks.get(ref="work").number


def test_a_comment_reaches_the_holder_or_else_whoever_posted(alice: Board, bob: Board, place: Place) -> None:
    carol = place.open("carol")
    alice.tasks.post(name="work", key="work")
    assert bob.messages.send(body="to the one who posted", about="work").recipient == "alice"
    bob.tasks.claim(ref="work")
    assert carol.messages.send(body="to the holder", about="work").recipient == "bob"
    assert bob.messages.send(body="from the holder", about="work").recipient == "alice"
    assert [each.body for each in bob.messages.inbox()] == ["to the holder"]
    assert [each.body for each in alice.messages.inbox()] == ["to the one who posted", "from the holder"]
    assert carol.messages.inbox() == []
    assert [each.body for each in carol.messages.search(query="holder")] == ["to the holder", "from the holder"]


def test_a_comment_on_ones_own_task_is_in_no_inbox(alice: Board, bob: Board) -> None:
    alice.tasks.post(name="work", key="work")
    assert alice.messages.send(body="a note to myself", about="work").recipient == ""
    assert alice.messages.inbox() == bob.messages.inbox() == []


def test_a_reply_to_a_comment_is_a_comment(alice: Board, bob: Board) -> None:
    alice.tasks.post(name="work", key="work")
    asked = bob.messages.send(body="why?", about="work")
    alice.messages.send(body="because", reply_to=asked.number)
    assert [each.body for each in bob.messages.comments(ref="work")] == ["why?", "because"]
    other = alice.tasks.post(name="other")
    with pytest.raises(Invalid, match=rf"about: message {asked.number} is about #{asked.task}"):
        alice.messages.send(body="no", reply_to=asked.number, about=other.id)


def test_a_dry_run_counts_the_comments_that_go_with_their_task(alice: Board) -> None:
    alice.tasks.post(name="work", key="work")
    alice.messages.send(body="one", about="work")
    alice.messages.send(body="two", about="work")
    alice.tasks.cancel(ref="work")
    alice.tasks.post(name="newest")
    alice.messages.send(body="the newest stays anyway")
    expected = alice.upkeep.prunable(older_than=0)
    assert (expected.tasks, expected.messages) == (1, 2)
    pruned = alice.upkeep.prune(older_than=0)
    assert (pruned.tasks, pruned.messages) == (1, 2)


def test_comments_stay_as_long_as_their_task(alice: Board) -> None:
    alice.tasks.post(name="work", key="work")
    alice.messages.send(body="kept", about="work")
    alice.messages.send(body="forgotten")
    alice.messages.send(body="the newest stays anyway")
    alice.upkeep.prune(older_than=0)
    assert [each.body for each in alice.messages.comments(ref="work")] == ["kept"]
    alice.tasks.cancel(ref="work")
    alice.tasks.post(name="newest")
    for _ in range(2):
        alice.upkeep.prune(older_than=0)
    assert alice.messages.search(query="kept") == []


def test_old_messages_are_pruned_also_behind_comments_that_are_kept(alice: Board) -> None:
    alice.tasks.post(name="work", key="work")
    for body in ("one", "two"):
        alice.messages.send(body=body, about="work")
    alice.messages.send(body="forgotten")
    alice.messages.send(body="the newest stays anyway")
    alice.upkeep.prune(older_than=0, limit=2)
    assert [each.body for each in alice.messages.comments(ref="work")] == ["one", "two"]
    assert alice.messages.search(query="forgotten") == []


def test_the_story_of_a_task_has_its_comments_and_edits(alice: Board) -> None:
    alice.tasks.post(name="work", key="work")
    alice.messages.send(body="half done\nthe rest tomorrow", about="work")
    alice.tasks.edit(ref="work", priority="high")
    told = [each.text for each in alice.events.why(ref="work")]
    assert told[1:3] == ["alice commented: half done.", "alice changed its priority."]


def test_a_comment_on_a_task_of_another_project_is_refused(place: Place, alice: Board) -> None:
    other = place.open("bob", project="elsewhere").tasks.post(name="theirs")
    with pytest.raises(Invalid, match=r"about: .* is in project elsewhere"):
        alice.messages.send(body="hello", about=other.number)
