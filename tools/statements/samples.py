"""Sample calls of every operation, from which `statements` learns the SQL that each of them sends.

Each story has a project of its own. Its calls are run in order, on one board. A story that is about refusals says so:
a call that is refused unexpectedly, or that is not refused although it should be, is an error.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Call(NamedTuple):
    """One call of an operation."""

    name: str
    by: str
    params: dict[str, Any]
    once: str | None = None
    refused: bool = False
    times: int = 1
    """How often it is made, in one transaction."""


class Later(NamedTuple):
    """Time passes."""

    seconds: float


class Number(str):
    """Stands for the number of the task with this key: a number in a list, `#number` as a reference."""


class Id(str):
    """Stands for the id of the task with this key."""


class Place(str):
    """Stands for the place in line of this agent."""


def call(name: str, /, by: str = "alice~1", once: str | None = None, **params: Any) -> Call:
    """A call that succeeds."""
    return Call(name, by, params, once)


def refused(name: str, /, by: str = "alice~1", **params: Any) -> Call:
    """A call that is refused."""
    return Call(name, by, params, refused=True)


def post(key: str, /, **params: Any) -> Call:
    """A task with this key."""
    return call("tasks.post", name=key, key=key, **params)


def submit(key: str, /, **params: Any) -> Call:
    """A job with this key."""
    return call("jobs.submit", command=["true"], key=key, **params)


def claim(key: str, by: str = "alice~1", **params: Any) -> Call:
    """A claim of this task."""
    return call("tasks.claim", by, ref=key, **params)


LEASE_OVER = Later(3600)
PROCESS: dict[str, Any] = {"host": "h", "boot": "b", "pid": 1, "started": 1}
SEAT = {"role": "coordinator", "command": ["agent"], **PROCESS}


def session(name: str, session: str, /, **params: Any) -> Call:
    """A call about a session of an agent that tiebreak started."""
    return call(name, session=f"{session}~spawn-{session}", **params)


STORIES: dict[str, list[Call | Later]] = {
    "claims": [
        post("build"),
        claim("build"),
        refused("tasks.claim", by="bob~1", ref="build"),
        refused("tasks.claim", ref="dead-beef", create=False),
        refused("tasks.claim", ref="biuld"),
        refused("tasks.claim", ref="2026"),
        call("tasks.extend", ref="build"),
        call("tasks.check", ref="build"),
        refused("tasks.check", ref="build", epoch=9),
        refused("tasks.extend", ref="build", epoch=9),
        claim("by-claim"),
        call("tasks.release", ref="by-claim"),
        # A lapsed claim is won by somebody else.
        LEASE_OVER,
        claim("build", by="bob~1"),
        call("tasks.complete", by="bob~1", ref="build", result={"ok": True}, ack=True),
        refused("tasks.complete", ref="build", epoch=1),
        refused("tasks.claim", ref="build"),
        # Not ready, and blocked.
        post("delayed", delay=60),
        refused("tasks.claim", ref="delayed"),
        post("first", max_attempts=1),
        post("second", after=["first"]),
        post("third", after=["first"], run_anyway=True),
        refused("tasks.claim", ref="second"),
        claim("first"),
        # The last attempt lapses: those that come after it learn of it by the claim of one of them.
        LEASE_OVER,
        refused("tasks.claim", ref="second"),
        claim("third"),
        call("tasks.complete", ref="third"),
        post("lonely", max_attempts=1),
        claim("lonely"),
        LEASE_OVER,
        refused("tasks.claim", ref="lonely"),
        *(post(f"many-{i}") for i in range(3)),
        call("tasks.claim_many", refs=[f"many-{i}" for i in range(3)]),
        call("tasks.claim_many", by="bob~1", refs=["many-0"]),
        # Limits: of a group at most one is claimed.
        submit("limited-1", limit="g=1"),
        submit("limited-2", limit="g=1"),
        claim("limited-1"),
        refused("tasks.claim", by="bob~1", ref="limited-2"),
        call("tasks.claim_many", by="bob~1", refs=["limited-2"]),
        call("tasks.complete", ref="limited-1"),
        call("tasks.claim_many", by="bob~1", refs=["limited-2"]),
    ],
    "attempts": [
        post("flaky"),
        claim("flaky"),
        call("tasks.fail", ref="flaky", reason="no"),
        refused("tasks.fail", ref="flaky"),
        post("broken"),
        post("after-broken", after=["broken"]),
        claim("broken"),
        call("tasks.fail", ref="broken", retry=False),
        post("dead"),
        claim("dead", by="dead~1"),
        call("tasks.forfeit", holder="dead~1"),
        post("swept", max_attempts=1),
        post("after-swept", after=["swept"]),
        claim("swept"),
        post("delayed", delay=60),
        submit("delayed-job", delay=60, limit="g=1"),
        call("tasks.due"),
        LEASE_OVER,
        call("tasks.sweep"),
        call("tasks.sweep", project=None),
        post("later-swept"),
        claim("later-swept"),
        LEASE_OVER,
        call("tasks.sweep", project=None),
    ],
    "next": [
        call("tasks.next"),
        call("tasks.next", tag="t"),
        *(post(f"plain-{i}") for i in range(3)),
        call("tasks.next"),
        post("lapsing"),
        LEASE_OVER,
        call("tasks.next", count=2),
        post("kind", kind="k"),
        call("tasks.next", kind="k"),
        post("queue", queue="q"),
        call("tasks.next", queue="q"),
        post("tag", tags=["t"]),
        call("tasks.next", tag="t"),
        post("both", kind="k", queue="q"),
        call("tasks.next", kind="k", queue="q"),
        post("kind-in-default", kind="k"),
        call("tasks.next", kind="k", queue="default"),
        post("task-in-queue", queue="q"),
        call("tasks.next", kind="task", queue="q"),
        # A paused queue.
        post("paused", queue="slow"),
        post("open", queue="fast"),
        call("queues.pause", queue="slow"),
        call("tasks.next", count=2),
        call("tasks.next", queue="slow"),
        call("queues.list"),
        call("queues.figures"),
        call("queues.resume", queue="slow"),
        call("tasks.next"),
    ],
    "paused": [
        *(post(f"waits-{i}", queue=f"slow-{i}") for i in range(22)),
        *(call("queues.pause", queue=f"slow-{i}") for i in range(22)),
        call("tasks.next"),
        call("queues.resume", queue="slow-21"),
        call("tasks.next"),
    ],
    "posting": [
        call("tasks.post", name="plain"),
        post("first", payload={"a": 1}, tags=["t"]),
        post("first"),
        post("second", after=["first"]),
        post("third", after=["second"], run_anyway=True),
        call("tasks.post", name="about it", kind="decision", about="first"),
        refused("tasks.post", name="bad", after=["no such task"]),
        *(call("tasks.get", ref=ref) for ref in ("first", Number("first"), Id("first"))),
        refused("tasks.get", ref="dead-beef"),
        call("tasks.after", ref="second"),
        call("tasks.dependents", ref="first"),
        call("tasks.cancel", ref="first", reason="not needed"),
        refused("tasks.cancel", ref="first"),
        call("tasks.cancel", ref="third"),
        refused("tasks.post", name="after a cancelled one", after=["first"]),
        call("tasks.retry", ref="first"),
        call("tasks.retry", ref="second"),
        refused("tasks.retry", ref="second"),
        # A lapsed last attempt is written down before it is retried.
        post("lapsing", max_attempts=1),
        claim("lapsing"),
        LEASE_OVER,
        call("tasks.retry", ref="lapsing"),
        call("tasks.cancel", ref="lapsing"),
        call("tasks.retry_many", states=["cancelled"]),
        call("tasks.retry_many", states=["failed"], kind="k", queue="q", tag="t", name_contains="x"),
        call("tasks.list"),
        *(call("tasks.list", states=[state]) for state in ("pending", "claimed", "completed")),
        call(
            "tasks.list",
            states=["pending"],
            kind="k",
            queue="q",
            priority="high",
            tag="t",
            agent="bob",
            name_contains="x",
            about="first",
            before=9,
        ),
        post("free"),
        call("tasks.depend", ref="free", after=["second"]),
        refused("tasks.depend", ref="second", after=["free"]),
    ],
    "families": [
        post("ends"),
        post("cancelled"),
        *(
            Call("tasks.post", "alice~1", {"name": "later", "after": [before]}, times=501)
            for before in ("ends", "cancelled")
        ),
        claim("ends"),
        call("tasks.complete", ref="ends"),
        call("tasks.cascade"),
        call("tasks.cascade", project=None),
        call("tasks.cancel", ref="cancelled"),
        call("tasks.retry", ref="cancelled"),
        call("tasks.cancel", ref="cancelled"),
        call("tasks.next"),
    ],
    "jobs": [
        submit("job", name="job", queue="q", env={"A": "b"}, cap=1000),
        submit("job"),
        post("plain"),
        refused("jobs.submit", command=["true"], key="plain"),
        call("jobs.submit_many", jobs=[{"command": ["true"]}, {"command": ["true"], "key": "m", "after": ["job"]}]),
        call("jobs.inspect", ref="job"),
        call("jobs.next", queues=["q"]),
        call("jobs.heartbeat", grants=[[Number("job"), 1]]),
        call("jobs.heartbeat", grants=[[Number("job"), 9]]),
        call("jobs.append", ref="job", epoch=1, chunks=[{"start": 0, "stream": 1, "text": "x" * 2000}]),
        refused("jobs.append", ref="job", epoch=9, chunks=[]),
        call("jobs.progress", ref="job", percent=50),
        call("jobs.output", ref="job"),
        call("jobs.graph", ref="job"),
        call("jobs.report", outcomes=[{"number": Number("job"), "epoch": 1, "ok": True}]),
        call("jobs.report", outcomes=[{"number": Number("job"), "epoch": 1, "ok": True}]),
        call("jobs.output", ref="job"),
        Later(60),
        call("jobs.submit", command=["true"], key="job", unique_for=1),
        # Reports of every kind, and of many at once with results of their own.
        *(submit(f"r-{i}") for i in range(8)),
        call("jobs.next", count=8),
        call(
            "jobs.report",
            outcomes=[
                {"number": Number("r-0"), "epoch": 1, "ok": False, "reason": "no"},
                {"number": Number("r-1"), "epoch": 1, "ok": False, "retry": False},
                {"number": Number("r-2"), "epoch": 1, "ok": True, "drained": True},
            ],
        ),
        call(
            "jobs.report",
            outcomes=[{"number": Number(f"r-{i}"), "epoch": 1, "ok": True, "result": i} for i in range(3, 8)],
        ),
        # What workers ask for.
        submit("tagged", tags=["t"]),
        call("jobs.next", tags=["t"]),
        call("jobs.next", tags=["t", "u"], queues=["q"]),
        call("jobs.next", calls=["mail.send"], queues=["q"]),
        call("jobs.next", calls=["mail.send"]),
        call("jobs.next", queues=["q", "r"]),
        call("queues.pause", queue="q"),
        call("jobs.next", queues=["q", "r"]),
        call("jobs.next"),
    ],
    "limits": [
        *(submit(f"one-{i}", limit="g=1", tags=["t"]) for i in range(3)),
        *(submit(f"two-{i}", limit="h=2") for i in range(3)),
        call("jobs.next", count=5),
        call("jobs.next", queues=["default"], count=5),
        call("tasks.next", count=5),
        call("jobs.report", outcomes=[{"number": Number("one-0"), "epoch": 1, "ok": True}]),
        call("jobs.next", tags=["t"]),
        call("tasks.next", tag="t"),
        LEASE_OVER,
        call("jobs.next", count=9),
        # A group that is full in one queue because of another, and one with much room.
        *(submit(f"queue-{queue}", limit="i=1", queue=queue) for queue in "ab"),
        call("tasks.next", count=2),
        submit("wide", limit="j=200"),
        call("tasks.next"),
    ],
    "holds": [
        call("holds.take", resources=["file:src/a.py"]),
        refused("holds.take", by="bob~1", resources=["file:src/a.py"]),
        refused("holds.take", by="bob~1", resources=["file:src/**"]),
        call("holds.take", resources=["file:src/a.py", "lock:deploy"], again=True, hashes=["1"]),
        call("holds.renew", resources=["file:src/a.py"]),
        refused("holds.renew", resources=["file:src/a.py"], epochs=[9]),
        call("holds.list"),
        call("holds.list", project=None, agent="alice"),
        call("holds.transfer", resource="file:src/a.py", to="bob~1"),
        refused("holds.transfer", resource="file:src/a.py", to="bob~1"),
        call("agents.announce", by="carol~1"),
        call("holds.transfer", by="bob~1", resource="file:src/a.py", to="carol"),
        call("holds.break", resource="file:src/a.py", reason="needed"),
        refused("holds.break", resource="file:src/a.py", reason="needed"),
        call("holds.release", resources=["lock:deploy"]),
        refused("holds.release", resources=["lock:deploy"]),
        call("holds.take", resources=["lock:run"]),
        call("holds.forfeit", resources=["lock:run"], epochs=[1], host="far", boot="1.1", pid=7, started=7),
        # A lapsed glob is given back before another takes what it covers.
        call("holds.take", resources=["file:docs/**"]),
        LEASE_OVER,
        call("holds.take", by="bob~1", resources=["file:docs/a.md"]),
        call("holds.take", resources=["pool:ports"], slots=2),
        call("holds.take", by="bob~1", resources=["pool:ports"]),
        refused("holds.take", by="carol~1", resources=["pool:ports"]),
        call("holds.take", resources=["pool:ports"], again=True),
        call("holds.renew", resources=["pool:ports"]),
        call("holds.release", resources=["pool:ports"]),
        LEASE_OVER,
        call("holds.take", by="carol~1", resources=["pool:ports"]),
    ],
    "line": [
        call("holds.take", resources=["lock:a"]),
        call("holds.take", by="bob~1", resources=["lock:b"]),
        call("waits.enter", by="bob~1", resources=["lock:a"]),
        call("waits.enter", by="bob~1", resources=["lock:a"], place=Place("bob")),
        refused("holds.take", by="carol~1", resources=["lock:a"]),
        refused("waits.enter", resources=["lock:b"]),
        call("waits.enter", by="carol~1", resources=["lock:b"]),
        call("waits.list"),
        call("events.why", ref="lock:a"),
        call("holds.release", resources=["lock:a"]),
        refused("holds.take", by="carol~1", resources=["lock:a"]),
        call("holds.take", by="bob~1", resources=["lock:a"], place=Place("bob")),
        call("waits.leave", by="carol~1", place=Place("carol")),
        # A hold that is handed to somebody who waits closes a circle.
        call("waits.enter", by="carol~1", resources=["lock:b"]),
        call("holds.take", by="dave~1", resources=["lock:c"]),
        call("waits.enter", by="bob~1", resources=["lock:c"]),
        call("holds.transfer", by="dave~1", resource="lock:c", to="carol~1"),
        Later(60),
        call("waits.enter", by="dave~1", resources=["lock:a"]),
    ],
    "messages": [
        call("messages.send", body="hello all"),
        refused("messages.send", body="hello", to="bbo"),
        call("agents.announce", by="bob~1"),
        call("messages.send", body="hello bob", to="bob", ack_requested=True),
        call("messages.send", by="bob~1", body="yes", reply_to=2),
        call("messages.inbox", by="bob~1"),
        call("messages.inbox", by="bob~1", every=True, channel="general", thread=1),
        call("messages.list", last=True),
        call("messages.list", agent="bob", thread=1, query="hello", before=9),
        call("messages.ack", by="bob~1", number=2),
        call("messages.mark", by="bob~1", upto=2),
        call("messages.search", query="hello wor*"),
        call("agents.leave", by="bob~1"),
        call("messages.send", body="are you there?", to="bob"),
    ],
    "agents": [
        call("agents.announce", doing="work"),
        call("agents.heartbeat", doing="more"),
        call("agents.heartbeat", by="new~1"),
        claim("task"),
        call("holds.take", resources=["file:a.py"]),
        call("agents.renew", resources=["file:a.py"], hashes=["1"]),
        call("agents.warn", note="careful"),
        call("agents.list"),
        call("agents.list", project=None, agent="alice"),
        call("agents.leave"),
        refused("agents.leave", by="nobody~1"),
    ],
    "sessions": [
        session("sessions.begin", "old", **SEAT),
        session("sessions.adopt", "old", child=2, child_started=1, **PROCESS),
        session("sessions.alive", "old", pid=1, started=1),
        session("sessions.renew", "old"),
        call("messages.send", by="old~spawn-old", body="order", epoch=1),
        refused("messages.send", by="old~spawn-old", body="order", epoch=9),
        Call("sessions.begin", "alice~1", {"session": "rival~spawn-rival", **SEAT}, refused=True),
        # A handoff that fails gives the seat back; one that succeeds replaces the old session.
        session("sessions.begin", "failed", replaces="old~spawn-old", **SEAT),
        refused("tasks.post", by="old~spawn-old", name="too late"),
        session("sessions.renew", "old"),
        session("sessions.end", "failed", note="did not start"),
        session("sessions.begin", "new", replaces="old~spawn-old", **SEAT),
        session("sessions.adopt", "new", child=2, child_started=1, **PROCESS),
        session("sessions.alive", "new", pid=1, started=1),
        session("sessions.end", "old", note="replaced"),
        # The seat lapsed, and another session takes it.
        LEASE_OVER,
        session("sessions.begin", "next", **SEAT),
        session("sessions.end", "new", note="over"),
        session("sessions.remove", "old"),
        call("sessions.list"),
        call("sessions.list", project=None, role="coordinator", session="new~spawn-new", ticket="t", every=True),
        call("sessions.list", session="new"),
    ],
    "events": [
        claim("task"),
        call("holds.take", resources=["file:a.py"]),
        call("events.last"),
        call("events.read"),
        call(
            "events.read",
            project=None,
            event="task",
            subject="x",
            kind="task",
            name_contains="x",
            state="claimed",
            priority="high",
            agent="bob",
            newest=True,
        ),
        call("events.why", ref="task"),
        call("events.timeline"),
        call("events.timeline", before=2, limit=1),
        call("events.why", ref="file:a.py"),
    ],
    "schedules": [
        call("schedules.add", name="tick", expression="* * * * *", command=["true"]),
        call("schedules.add", name="skips", expression="0 0 * * *", command=["true"], policy="skip"),
        call("schedules.list"),
        call("schedules.list", project=None, name="tick"),
        call("schedules.next", name="tick"),
        refused("schedules.next", name="unknown"),
        Later(600),
        call("schedules.due"),
        call("schedules.fire"),
        Later(86400),
        call("schedules.fire", project=None),
        call("schedules.history", name="tick"),
        call("schedules.history", name="tick", before=9),
        call("schedules.pause", name="tick"),
        call("schedules.resume", name="tick"),
        call("schedules.remove", name="tick"),
    ],
    "editing": [
        post("whole"),
        post("part", parent="whole", after=["whole"]),
        call("tasks.edit", ref="part", name="a part", body="what to do", tags=["t"], parent="whole"),
        call("tasks.tree"),
        call("tasks.tree", ref="whole"),
        call("messages.send", by="bob~1", body="how far?", about="part"),
        call("messages.comments", ref="part"),
        call("messages.list", thread=1, after=0),
        call("tasks.import", entries=[{"name": "one", "key": "one"}, {"name": "two", "key": "two", "after": ["one"]}]),
        call("tasks.import", entries=[{"name": "one", "key": "one"}]),
        call("tasks.export"),
        claim("whole"),
        call("holds.take", resources=["file:a.py"]),
        call("tasks.adopt", by="alice~2", ref="whole", epoch=1, confirmed=True),
        call("holds.adopt", by="alice~2", holder="alice~1", confirmed=True),
        call("tasks.break", by="bob~1", ref="whole", reason="stuck"),
        submit("later", delay=60),
        call("jobs.next_retry"),
    ],
    "questions": [
        post("work"),
        call("questions.ask", text="which?", choices=["a", "b"], about="work", key="which"),
        post("after", after=["which"]),
        call("questions.ask", text="which?", key="which"),
        call("questions.list"),
        call("questions.get", ref="which"),
        call("questions.answer", by="bob~1", ref="which", answer="a"),
        refused("questions.answer", by="bob~1", ref="which", answer="b"),
    ],
    "death": [
        call("agents.announce", by="dead~1", bound=True, **PROCESS),
        claim("left", by="dead~1"),
        call("holds.take", by="dead~1", resources=["lock:left"]),
        call("agents.bound"),
        call("agents.report_dead", holder="dead~1", **PROCESS),
    ],
    "watching": [
        claim("work"),
        call("holds.take", resources=["file:a.py"]),
        call("waits.enter", by="bob~1", resources=["file:a.py"]),
        call("questions.ask", by="bob~1", text="which?"),
        call("agents.announce"),
        call("agents.prompt", note="wants to use Bash"),
        call("overview.needs"),
        call("overview.needs", project=None),
        call("overview.agents"),
        call("overview.agents", project=None),
        call("overview.counts"),
        call("overview.counts", project=None),
        Later(3 * 3600),
        call("tasks.extend", ref="work", lease=86400),
        call("overview.needs"),
    ],
    "projects": [
        post("work"),
        call("projects.resolve"),
        call("projects.settle"),
        call("projects.show"),
        call("projects.list"),
        call("projects.alias", name="other-name"),
        call("projects.rename", name="new-name"),
    ],
    "upkeep": [
        call("upkeep.status"),
        call("upkeep.now"),
        call("upkeep.probe"),
        call("upkeep.probed"),
        Later(90 * 86400),
        call("upkeep.prunable"),
        call("upkeep.prune", limit=5),
        call("upkeep.prune", limit=1000),
    ],
}
"""What happens in each project."""

REPEATED: list[Call | Later] = [
    call("tasks.post", once="only-once-1", name="once"),
    call("tasks.post", once="only-once-1", name="once"),
    submit("job", env={"A": "b"}),
    call("jobs.next", once="only-once-2"),
    call("jobs.next", once="only-once-2"),
]
"""Calls with a key by which they may be repeated (`once`)."""
SPAWNED: list[Call | Later] = [call("tasks.post", by="lead~spawn-1", name="by a spawned agent")]
"""Calls of an agent that tiebreak started itself."""
