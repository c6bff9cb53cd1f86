"""Every kind of write, for tests that break the connection in the middle of it."""

from __future__ import annotations

from typing import Any, NamedTuple

Calls = list[tuple[str, dict[str, Any]]]


class Deed(NamedTuple):
    """Calls that are made together, what has to be there before, and what the log tells of them afterwards."""

    before: Calls
    calls: Calls
    told: list[str]


POSTED: Calls = [("tasks.post", {"name": "t", "key": "t"})]
CLAIMED: Calls = [*POSTED, ("tasks.claim", {"ref": "t"})]
HELD: Calls = [("holds.take", {"resources": ["lock:a"]})]
DEEDS = {
    "post": Deed([], [("tasks.post", {"name": "t"})], ["task.posted"]),
    "claim": Deed(POSTED, [("tasks.claim", {"ref": "t"})], ["task.claimed"]),
    "claim of a new key": Deed([], [("tasks.claim", {"ref": "t"})], ["task.claimed", "task.posted"]),
    "next": Deed([*POSTED, ("tasks.post", {"name": "u"})], [("tasks.next", {"count": 1})], ["task.claimed"]),
    "extend": Deed(CLAIMED, [("tasks.extend", {"ref": "t"})], ["task.extended"]),
    "complete": Deed(CLAIMED, [("tasks.complete", {"ref": "t", "ack": True})], ["task.completed", "task.posted"]),
    "fail": Deed(CLAIMED, [("tasks.fail", {"ref": "t"})], ["task.retrying"]),
    "release": Deed(CLAIMED, [("tasks.release", {"ref": "t"})], ["task.released"]),
    "cancel": Deed(POSTED, [("tasks.cancel", {"ref": "t"})], ["task.cancelled"]),
    "break": Deed(CLAIMED, [("tasks.break", {"ref": "t", "reason": "stuck"})], ["task.broken"]),
    "take": Deed([], [("holds.take", {"resources": ["lock:a", "file:b"]})], ["hold.taken", "hold.taken"]),
    "let go": Deed(HELD, [("holds.release", {"resources": ["lock:a"]})], ["hold.released"]),
    "send": Deed([], [("messages.send", {"body": "hello"})], ["message.sent"]),
    "batch": Deed(
        CLAIMED,
        [("tasks.post", {"name": "u"}), ("tasks.complete", {"ref": "t"}), ("tasks.claim", {"ref": "new"})],
        ["task.claimed", "task.completed", "task.posted", "task.posted"],
    ),
}
