"""Sample calls of every operation on the world of `world.SETUP`, and what each of them touches.

Two samples that touch the same thing are a pair, also a sample with itself. Most samples are one call; some are a short
history, because what a reader saw before counts: an answer that was given must stay true.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

from .world import LONG, PLACE, Call, Task


class Sample(NamedTuple):
    """What one client does, and the names of what it reads or writes."""

    name: str
    calls: tuple[Call, ...]
    touches: frozenset[str]
    skips: tuple[str, ...] = ()
    """Tasks and schedules that it may skip while somebody else changes them; not all of them at once."""
    one_by_one: bool = False
    """Whether it decides about each thing by itself that it found at one moment: its outcome is not compared."""


def one(name: str, touches: str, /, once: str | None = None, skips: str = "", **params: Any) -> Sample:
    """A sample of one call."""
    told = ", ".join(f"{key}={value}" for key, value in params.items() if key not in ("lease", "agent"))
    who = (f" by {params['agent']}" if "agent" in params else "") + (f", {once}" if once else "")
    return Sample(f"{name}({told}){who}", ((name, params, once),), frozenset(touches.split()), tuple(skips.split()))


def history(name: str, *parts: Sample) -> Sample:
    """Several samples of one client, one after another."""
    touches = frozenset().union(*(part.touches for part in parts))
    return Sample(name, tuple(call for part in parts for call in part.calls), touches)


def together(name: str, *parts: Sample) -> Sample:
    """Several samples in one transaction, as a daemon commits the calls of several callers."""
    calls = [call for part in parts for call in part.calls]
    return Sample(name, (("batch", {"calls": calls}, None),), frozenset().union(*(part.touches for part in parts)))


def through_daemon(*parts: Sample) -> Sample:
    """Several samples of callers of one daemon: it commits the first one by itself, and then the others together."""
    calls = [call for part in parts for call in part.calls]
    touches = frozenset().union(*(part.touches for part in parts))
    skips = tuple(dict.fromkeys(each for part in parts for each in part.skips))
    name = "daemon: " + ", ".join(part.name for part in parts)
    return Sample(name, (("daemon", {"calls": calls}, None),), touches, skips)


Params = dict[str, Any]
A: Params = {"agent": "alice~1"}
OLD: Params = {"agent": "old~spawn-1"}
L: Params = {"lease": LONG}
LIMITS: Params = {"project": "limits"}
QUEUES: Params = {"project": "queues"}
LINE: Params = {"project": "line"}
HANDOFF: Params = {"project": "handoff"}
R = Task("R")

COMPLETE_A = one("tasks.complete", "A B C", ref="A", epoch=1, **A)
COMPLETE_L = one("tasks.complete", "L M N", ref="L", epoch=1, **A)
RETRY_C = one("tasks.retry", "C A", ref="C")
RETRY_F = one("tasks.retry", "F", ref="F")
DEPEND_D = one("tasks.depend", "D A", ref="D", after=["A"])
NEXT_LONELY = one("tasks.next", "Q", queue="lonely", **L)
POST_AFTER_Q = one("tasks.post", "Q", name="after Q", after=["Q"])
CLAIM_Q = one("tasks.claim", "Q", ref="Q", **L)
TAKE_BELOW = one("holds.take", "src", resources=["file:src/x.py"], **L)
RENEW_GLOB = one("holds.renew", "src", resources=["file:src/**"], epochs=[1], **L, **A)
RENEW_ALL = one("agents.renew", "A L R src deploy docs pool alice", lease=LONG, hold_lease=LONG, **A)
TAKE_POOL_OF_ONE = one("holds.take", "pool", resources=["pool:x"], slots=1, **L)
RENEW_SLOT = one("holds.renew", "pool", resources=["pool:x"], epochs=[1], slots=[1], **L, **A)
PRUNE_ONE = one("upkeep.prune", "F G K C marks", older_than=90, limit=1, skips="F G K C")
PRUNE_ALL = one("upkeep.prune", "A F G K C marks messages alice tick", older_than=90, skips="F G K C")
SEND_SEATED = one("messages.send", "seat messages", body="order", epoch=1, **OLD)
POST_SEATED = one("tasks.post", "seat session:old", name="by-old", key="by-old", **OLD)
REPLACE_OLD = one(
    "sessions.begin", "seat session:old", session="new~spawn-9", role="coordinator", replaces="old~spawn-1"
)
ANSWER_YES = one("questions.answer", "O messages", ref="O", answer="yes")
ANSWER_NO = one("questions.answer", "O messages", ref="O", answer="no")
CANCEL_O = one("tasks.cancel", "O", ref="O")
POST_AFTER_O = one("tasks.post", "O", name="after O", after=["O"])
GET_L = one("tasks.get", "L", ref="L")
INBOX = one("messages.inbox", "messages", every=True)
TAKE_LOCK = one("holds.take", "deploy", resources=["lock:deploy"], **L)
TAKE_AGAIN = one("holds.take", "deploy docs", resources=["lock:deploy", "file:docs/a.md"], again=True, **L, **A)
RELEASE_BOTH = one("holds.release", "deploy docs", resources=["lock:deploy", "file:docs/a.md"], **A)

PART_OF_E = one("tasks.edit", "D E", ref="D", parent="E", priority="high", tags=["new"])
PART_OF_D = one("tasks.edit", "D E", ref="E", parent="D", body="another text", was="")

PART_OF_B = one("tasks.post", "A B", name="part", parent="B", after=["A"])

SAMPLES: list[Sample] = [
    # Winning, keeping and ending claims.
    one("tasks.claim", "D", ref="D", **L),
    one("tasks.claim", "H", ref="H", **L),
    one("tasks.claim", "A", ref="A", **L),
    one("tasks.claim", "L M N", ref="L", **L),
    one("tasks.claim", "B A", ref="B", **L),
    one("tasks.claim", "fresh", ref="fresh", **L),
    one("tasks.claim", "S1 S2 limit", ref="S2", **L, **LIMITS),
    CLAIM_Q,
    one("tasks.claim_many", "D E", refs=["D", "E"], **L),
    one("tasks.claim_many", "D E", refs=["E", "D"], **L),
    one("tasks.claim_many", "S1 S2 S3 limit", refs=["S3", "S2"], **L, **LIMITS)._replace(one_by_one=True),
    one("tasks.extend", "A", ref="A", epoch=1, **L, **A),
    one("tasks.extend", "L", ref="L", epoch=1, **L, **A),
    one("tasks.check", "A", ref="A", epoch=1, **A),
    COMPLETE_A,
    COMPLETE_L,
    one("tasks.complete", "A B C", ref="A", epoch=1, ack=True, **A),
    one("tasks.complete", "S1 limit", ref="S1", epoch=1, **A, **LIMITS),
    one("tasks.fail", "A", ref="A", epoch=1, **A),
    one("tasks.fail", "L M N", ref="L", epoch=1, **A),
    one("tasks.fail", "A B C", ref="A", epoch=1, retry=False, **A),
    one("tasks.release", "A", ref="A", epoch=1, **A),
    one("tasks.due", "A L H R J"),
    one("tasks.sweep", "A L M N H R", skips="A L H R"),
    one("tasks.sweep", "A L M N H R S1 limit", project=None, skips="A L H R S1"),
    one("tasks.next", "D E", skips="A H D E Q J", **L),
    one("tasks.next", "D E Q", count=3, skips="A H D E Q J", **L),
    NEXT_LONELY,
    one("tasks.next", "S1 S2 S3 limit", **L, **LIMITS),
    one("tasks.next", "P1 P2 queue", count=2, skips="P1 P2", **L, **QUEUES),
    one("tasks.forfeit", "H", holder="dead~1"),
    one("agents.report_dead", "H dead", holder="dead~1", host="far", boot="1.1", pid=7, started=7),
    one("agents.announce", "dead", agent="dead~1", host="far", boot="1.1", pid=8, started=8, bound=True),
    one("tasks.cascade", "A L", project=None),
    # Posting, and decisions about tasks.
    one("tasks.post", "fresh", name="fresh", key="fresh"),
    one("tasks.post", "nothing", name="no key"),
    one("tasks.post", "once", name="once", once="only-once-1"),
    one("tasks.post", "A", name="after A", after=["A"]),
    one("tasks.post", "L", name="after L", after=["L"]),
    one("tasks.post", "F", name="after F", after=["F"], run_anyway=True),
    one("tasks.post", "F marks", name="F", key="F"),
    POST_AFTER_Q,
    POST_SEATED,
    one("tasks.cancel", "A B C", ref="A"),
    one("tasks.cancel", "B", ref="B"),
    one("tasks.post", "D", name="a part", parent="D", body="what it is about"),
    PART_OF_E,
    PART_OF_D,
    one("tasks.edit", "P1 queue", ref="P1", queue="fast", **QUEUES),
    one("tasks.edit", "A", ref="A", name="renamed", no_parent=True),
    one(
        "tasks.import",
        "fresh A K",
        entries=[
            {"id": "fresh", "name": "fresh", "after": ["A", "new"]},
            {"id": "new", "name": "new", "parent": "fresh"},
            {"key": "K", "name": "known"},
        ],
    ),
    one(
        "tasks.import",
        "fresh L F marks messages",
        entries=[
            {"key": "F", "name": "again"},
            {"id": "part", "name": "part", "parent": "F", "after": ["L"], "comments": [{"author": "x", "text": "y"}]},
            {"key": "fresh", "name": "fresh", "state": "completed"},
        ],
    ),
    one("tasks.tree", "A D E"),
    one("tasks.tree", "D", ref="D"),
    one("tasks.cancel", "D", ref="D"),
    one("tasks.cancel", "L M N", ref="L"),
    one("tasks.adopt", "A", ref="A", agent="alice~2", confirmed=True, **L),
    one("tasks.adopt", "L", ref="L", agent="alice~2", confirmed=True, epoch=1, **L),
    one("tasks.break", "A", ref="A", reason="stuck"),
    one("tasks.break", "L", ref="L", reason="stuck", epoch=1),
    one("tasks.break", "R", ref="R", reason="stuck"),
    RETRY_C,
    RETRY_F,
    one("tasks.retry", "L M N", ref="L"),
    one("tasks.retry_many", "F G")._replace(one_by_one=True),
    one("tasks.retry_many", "C A", states=["cancelled"])._replace(one_by_one=True),
    one("tasks.get", "A", ref="A"),
    GET_L,
    one("tasks.list", "A L H F G"),
    one("tasks.list", "A L H F G", states=["failed", "pending"]),
    DEPEND_D,
    one("tasks.depend", "D E", ref="D", after=["E"]),
    one("tasks.depend", "D E", ref="E", after=["D"]),
    one("tasks.depend", "B L", ref="B", after=["L"]),
    one("tasks.after", "B A", ref="B"),
    # Jobs.
    one("jobs.submit", "fresh", name="fresh job", key="fresh", command=["true"]),
    one("jobs.submit", "K marks", name="again", key="K", unique_for=1, command=["true"]),
    one("jobs.submit", "R", name="after R", after=["R"], command=["true"]),
    one(
        "jobs.submit_many", "fresh K marks", jobs=[{"key": "K", "command": ["true"]}, {"key": "fresh", "command": "x"}]
    ),
    one("jobs.next", "J", queues=["jobs"], **L),
    one("jobs.next", "J", **L),
    one("jobs.next", "J once", once="only-once-2", queues=["jobs"], **L),
    one("jobs.next", "S1 S2 S3 limit", **L, **LIMITS),
    one("jobs.heartbeat", "A R", grants=[[Task("A"), 1], [R, 1]], **L, **A),
    one("jobs.heartbeat", "A R", grants=[[R, 1], [Task("A"), 1]], **L, **A),
    one("jobs.report", "R", outcomes=[{"number": R, "epoch": 1, "ok": True}], **A),
    one("jobs.report", "R", outcomes=[{"number": R, "epoch": 1, "ok": False, "reason": "no"}], **A),
    one(
        "jobs.report",
        "A B C R L M N",
        outcomes=[{"number": Task(each), "epoch": 1, "ok": True} for each in ("R", "L", "A")],
        **A,
    ),
    one("jobs.inspect", "J", ref="J"),
    one("jobs.append", "R", ref="R", epoch=1, chunks=[{"start": 5, "stream": 1, "text": "more"}], **A),
    one("jobs.output", "R", ref="R"),
    one("jobs.progress", "R", ref="R", percent=50, epoch=1, **A),
    one("jobs.graph", "A B C", ref="A"),
    one("queues.pause", "queue P2", queue="fast", **QUEUES),
    one("queues.resume", "queue P1", queue="slow", **QUEUES),
    one("queues.list", "queue P1 P2", **QUEUES),
    # Holds.
    TAKE_BELOW,
    one("holds.take", "src", resources=["file:src/**"], **L),
    one("holds.take", "docs", resources=["file:docs/**"], **L),
    one("holds.take", "src docs", resources=["file:**"], **L),
    TAKE_LOCK,
    one("holds.take", "deploy docs", resources=["lock:deploy", "file:docs/a.md"], **L),
    TAKE_AGAIN,
    one("holds.take", "new", resources=["file:new/x.py"], **L),
    one("holds.take", "new", resources=["file:new/*.py"], **L),
    one("holds.take", "pool", resources=["pool:x"], **L),
    one("holds.take", "pool", resources=["pool:x"], again=True, **L, **A),
    TAKE_POOL_OF_ONE,
    RENEW_GLOB,
    RENEW_SLOT,
    one("holds.renew", "deploy docs", resources=["lock:deploy", "file:docs/a.md"], epochs=[1, 1], **L, **A),
    one("holds.renew", "deploy docs", resources=["file:docs/a.md", "lock:deploy"], epochs=[1, 1], **L, **A),
    one("holds.release", "src", resources=["file:src/**"], epochs=[1], **A),
    RELEASE_BOTH,
    one("holds.release", "pool", resources=["pool:x"], **A),
    one(
        "holds.forfeit", "deploy", resources=["lock:deploy"], epochs=[1], host="far", boot="1.1", pid=7, started=7, **A
    ),
    one("holds.transfer", "src", resource="file:src/**", to="zoe~1", **L, **A),
    one("holds.transfer", "deploy", resource="lock:deploy", to="zoe~1", epoch=1, **L, **A),
    one("holds.transfer", "pool", resource="pool:x", to="zoe~1", **L, **A),
    one("holds.break", "src", resource="file:src/**", reason="needed"),
    one("holds.break", "pool", resource="pool:x", slot=1, reason="needed", epoch=1),
    one("holds.adopt", "src docs deploy pool", holder="alice~1", agent="alice~2", confirmed=True, **L),
    one("holds.adopt", "src", holder="alice~1", resources=["file:src/**"], agent="alice~2", confirmed=True, **L),
    one("holds.list", "src docs deploy pool seat"),
    # Waiting in line.
    one("waits.enter", "line", resources=["lock:a"], **LINE),
    one("waits.enter", "line", resources=["lock:a"], place=PLACE, agent="zoe~1", **LINE),
    one("waits.leave", "line", place=PLACE, agent="zoe~1", **LINE),
    one("waits.list", "line", **LINE),
    one("holds.take", "line", resources=["lock:a"], **L, **LINE),
    one("holds.take", "line", resources=["lock:a"], place=PLACE, agent="zoe~1", **L, **LINE),
    one("holds.release", "line", resources=["lock:a"], **A, **LINE),
    one("holds.transfer", "line", resource="lock:a", to="zoe~1", **L, **A, **LINE),
    # Questions to a person.
    one("questions.ask", "asked", text="which?", key="asked"),
    one("questions.ask", "O", text="another?", key="O"),
    ANSWER_YES,
    ANSWER_NO,
    CANCEL_O,
    POST_AFTER_O,
    one("tasks.claim", "O", ref="O", **L),
    one("tasks.claim", "O", ref="OA", **L),
    one("tasks.depend", "O D", ref="O", after=["D"]),
    one("tasks.edit", "O", ref="O", name="really?"),
    one("messages.send", "O messages", body="let me think", about="O"),
    one("questions.get", "O", ref="O"),
    one("questions.list", "O asked"),
    # Messages and agents.
    one("messages.send", "messages", body="news"),
    SEND_SEATED,
    one("messages.send", "messages A", body="a comment", about="A"),
    one("messages.comments", "messages A", ref="A"),
    one("messages.mark", "messages", upto=2, agent="bob~1"),
    one("messages.mark", "messages", upto=1, agent="bob~1"),
    one("messages.ack", "messages", number=2, agent="bob~1"),
    INBOX,
    one("messages.search", "messages", query="hello"),
    one("messages.list", "messages", last=True),
    one("agents.announce", "alice", doing="more", **A),
    one("agents.heartbeat", "alice", doing="less", **A),
    RENEW_ALL,
    one("agents.warn", "alice", note="careful", **A),
    one("agents.prompt", "alice", note="wants to use Bash", **A),
    one("agents.leave", "alice", **A),
    one("agents.list", "alice"),
    # Sessions.
    REPLACE_OLD,
    one("sessions.begin", "seat", session="rival~spawn-8", role="coordinator"),
    one("sessions.renew", "seat session:old", session="old~spawn-1", lease=LONG),
    one("sessions.end", "seat session:old", session="old~spawn-1", note="over"),
    one("sessions.alive", "handoff", session="second~spawn-4", pid=1, started=1, **HANDOFF),
    one("sessions.end", "handoff", session="second~spawn-4", note="failed", lease=LONG, **HANDOFF),
    one("sessions.end", "handoff", session="first~spawn-3", note="failed", **HANDOFF),
    one("sessions.renew", "handoff", session="first~spawn-3", lease=LONG, **HANDOFF),
    one("sessions.renew", "handoff", session="second~spawn-4", lease=LONG, **HANDOFF),
    one(
        *("sessions.adopt", "starting"),
        session="third~spawn-5",
        project="starting",
        child=2,
        child_started=1,
        lease=LONG,
    ),
    one("sessions.end", "starting", session="third~spawn-5", project="starting", note="gone", pid=1, started=1),
    one("sessions.begin", "starting", session="fourth~spawn-6", project="starting", role="coordinator"),
    one("sessions.list", "seat session:old session:gone", every=True),
    one("sessions.remove", "session:gone", session="gone~spawn-2"),
    # The log, schedules, upkeep.
    one("events.read", "nothing fresh", after=40, limit=1000),
    one("events.why", "A", ref="A"),
    one("events.why", "src", ref="file:src/**"),
    one("schedules.add", "tick", name="tick", expression="*/5 * * * *", command=["false"]),
    one("schedules.pause", "tick", name="tick"),
    one("schedules.resume", "rest", name="rest"),
    one("schedules.remove", "tick", name="tick"),
    one("schedules.remove", "rest", name="rest"),
    one("schedules.fire", "tick", skips="tick rest"),
    one("schedules.fire", "tick", project=None, skips="tick rest"),
    one("schedules.list", "tick rest"),
    one("schedules.next", "tick", name="tick"),
    one("schedules.history", "tick", name="tick"),
    one("schedules.due", "tick"),
    one("projects.settle", "projects"),
    one("projects.alias", "projects", name="another"),
    one("projects.rename", "projects deploy", name="renamed"),
    one("projects.show", "projects"),
    one("projects.resolve", "projects"),
    one("projects.list", "projects"),
    one("upkeep.status", "A L H F nothing"),
    one("upkeep.now", "board"),
    one("upkeep.probe", "board"),
    one("upkeep.probed", "board"),
    PRUNE_ONE,
    PRUNE_ALL,
    # Histories: an answer that was given stays true.
    history("read L twice", GET_L, GET_L),
    history("list failed twice", *[one("tasks.list", "L", states=["failed"])] * 2),
    history("replace old, then read the messages", REPLACE_OLD, INBOX),
    history("replace old, then look for what old posts", REPLACE_OLD, one("tasks.get", "session:old", ref="by-old")),
    history("ask, then post after it", one("questions.ask", "asked", text="which?", key="asked"), POST_AFTER_O),
    history("cancel O, then retry it", CANCEL_O, one("tasks.retry", "O", ref="O")),
    history("list holds twice", *[one("holds.list", "src pool deploy seat")] * 2),
    history("claim Q, give it back", CLAIM_Q, one("tasks.release", "Q", ref="Q")),
    history("take lock, give it back", TAKE_LOCK, one("holds.release", "deploy", resources=["lock:deploy"])),
    history("post two after A", one("tasks.post", "A", name="x", after=["A"]), one("tasks.post", "A", name="y")),
    # Group commits.
    together("batch: renew, take", RENEW_GLOB, one("holds.take", "new", resources=["file:new/x.py"], **L)),
    together("batch: complete A, depend D", COMPLETE_A, one("tasks.depend", "D E", ref="D", after=["E"])),
    together("batch: retry F, take src/x.py, refused claim", RETRY_F, TAKE_BELOW, one("tasks.claim", "A", ref="A")),
    together("batch: claim Q, send as coordinator", CLAIM_Q, SEND_SEATED),
]

DEFECTS: dict[int, tuple[tuple[str, Sample, Sample], ...]] = {
    1: (
        ("a renewal revives a lapsed glob", RENEW_GLOB, TAKE_BELOW),
        ("a renewal of everything revives a lapsed glob", RENEW_ALL, TAKE_BELOW),
        ("a renewal revives a lapsed slot of a pool of one", RENEW_SLOT, TAKE_POOL_OF_ONE),
    ),
    3: (("pruning marks one task and deletes another", PRUNE_ONE, RETRY_F),),
    4: (("pruning deletes a task that was just reopened", RETRY_F, PRUNE_ALL),),
    5: (("a retried task stays blocked by a completed one", RETRY_C, COMPLETE_A),),
    6: (
        ("next answers nothing while somebody posts after the only task", NEXT_LONELY, POST_AFTER_Q),
        ("next answers nothing while a claim is under way that dies", NEXT_LONELY, CLAIM_Q),
    ),
    7: (("a reader sees failed, then completed", COMPLETE_L, history("read L twice", GET_L, GET_L)),),
    8: (
        (
            "a replaced coordinator's message lands after the handoff",
            SEND_SEATED,
            history("replace old, then read the messages", REPLACE_OLD, INBOX),
        ),
        (
            "a replaced coordinator's write lands after the handoff",
            POST_SEATED,
            history("replace, then look", REPLACE_OLD, one("tasks.get", "session:old", ref="by-old")),
        ),
    ),
    10: (("depend and complete deadlock", DEPEND_D, COMPLETE_A),),
    11: (("what is released just then is taken again by nobody", TAKE_AGAIN, RELEASE_BOTH),),
}
"""The pairs that show the defects of the table in `tests/bugs.md`, by number."""
NEXT_CRITICAL = one("tasks.next", "P1 P2 queue", order="critical", queue="fast", **L, **QUEUES)
HAZARDS: tuple[tuple[str, Sample, Sample], ...] = (
    ("two tasks become parts of each other", PART_OF_E, PART_OF_D),
    (
        "a critical task moves to a paused queue",
        NEXT_CRITICAL,
        one("tasks.edit", "P2", ref="P2", queue="slow", **QUEUES),
    ),
    ("a child is completed while its parent gets another part", COMPLETE_A, PART_OF_B),
    ("two write the first description", PART_OF_D, PART_OF_D),
    ("a part is added to a task that is being pruned", one("tasks.post", "F", name="a part", parent="F"), PRUNE_ALL),
)
"""Pairs that were thought of before they went wrong."""
TRIPLES: list[tuple[Sample, Sample, Sample]] = [
    (COMPLETE_L, GET_L, one("tasks.post", "L", name="after L", after=["L"])),
    (RENEW_GLOB, TAKE_BELOW, one("holds.list", "src")),
    (NEXT_LONELY, CLAIM_Q, POST_AFTER_Q),
    (RETRY_F, PRUNE_ONE, one("tasks.post", "G marks", name="G", key="G")),
    (COMPLETE_A, RETRY_C, DEPEND_D),
    (SEND_SEATED, REPLACE_OLD, INBOX),
    (ANSWER_YES, ANSWER_NO, POST_AFTER_O),
    (ANSWER_YES, CANCEL_O, one("messages.inbox", "messages", every=True, agent="carol~1")),
    (RENEW_SLOT, TAKE_POOL_OF_ONE, one("holds.take", "pool", resources=["pool:x"], **L)),
]

BETWEEN_STEPS: list[Sample] = [
    one("tasks.cascade", "all"),
    one("tasks.next", "all", skips="W2 U T V Z", **L),
    one("tasks.next", "all", queue="last", **L),
    one("tasks.claim", "W2", ref="W2", **L),
    one("tasks.claim", "W3", ref="W3", **L),
    one("tasks.claim", "Y2 X", ref="Y2", **L),
    one("tasks.complete", "W3 W4", ref="U", epoch=1, **A),
    one("tasks.complete", "W4", ref="T", epoch=1, **A),
    one("tasks.cancel", "W3", ref="U"),
    one("tasks.cancel", "W2", ref="W2"),
    one("tasks.cancel", "Y2 X", ref="Y2"),
    one("tasks.retry", "Z Y2", ref="Z"),
    one("tasks.retry", "Y1", ref="Y1"),
    one("tasks.post", "V W2", name="after W2", after=["V", "W2"]),
    one("tasks.post", "Y2 X", name="after Y2", after=["Y2"]),
    one("tasks.depend", "W2 W3", ref="W2", after=["U"]),
    one("tasks.depend", "W3", ref="W3", after=["W2"]),
    one("tasks.sweep", "all", skips="U T V Z"),
    one("upkeep.prune", "all", older_than=90, skips="V Z Y1"),
]
"""What meets a cascade that was left half way (`world.FAMILIES`); "all" touches everything."""

READERS_THAT_DECIDE = {
    "tasks.get",
    "tasks.list",
    "tasks.check",
    "tasks.due",
    "holds.list",
    "waits.list",
    "messages.inbox",
    "sessions.list",
    "events.read",
    "events.why",
    "schedules.due",
    "queues.list",
    "questions.get",
    "questions.list",
}
"""Reading operations on whose answers somebody acts: they need a sample as well."""


def pairs() -> Iterator[tuple[Sample, Sample]]:
    """All samples that touch something in common, each also with itself; two that only read are left out."""
    from tiebreak.operations import every

    writing = {name for name, operation in every().items() if operation.writes} | {"batch"}
    for pair in combinations_with_replacement(SAMPLES, 2):
        writes = any(name in writing for sample in pair for name, _, _ in sample.calls)
        if writes and pair[0].touches & pair[1].touches:
            yield pair


def group_commits() -> list[tuple[Sample, Sample]]:
    """Each pair of writes, the first of them through a daemon that has two more writes to commit.

    Those two touch what one of the pair touches. Which ones they are goes by the number of the pair, not by chance.
    """
    from tiebreak.operations import every

    writes = [
        sample
        for sample in SAMPLES
        if len(sample.calls) == 1
        and not sample.one_by_one
        and (found := every().get(sample.calls[0][0]))
        and found.writes
    ]
    groups = []
    for number, (first, second) in enumerate(combinations_with_replacement(writes, 2)):
        if first.touches & second.touches:
            near = [sample for sample in writes if sample.touches & (first.touches | second.touches)]
            ahead, beside = near[number % len(near)], near[number * 7 % len(near)]
            groups.append((through_daemon(ahead, first, beside), second))
    return groups
