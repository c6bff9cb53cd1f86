"""A stranger, who shows an open daemon no token, changes no job and learns no secret: by any operation, by any route.

The calls are made from the registry and from the table of routes, with values by the type of each parameter. So an
operation that is added is called here, with the jobs of the board, without a further line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.command import until
from tests.daemons import InProcessDaemon, Serving
from tests.postgres import server
from tiebreak.daemon.routes import ROUTES, Route
from tiebreak.daemon.server import Settings
from tiebreak.engine import connect
from tiebreak.errors import TiebreakError
from tiebreak.kinds import Kind
from tiebreak.operations import REGISTRY, Operation, every, operation
from tiebreak.operations.strangers import TABLES

from .conftest import Starting, door_of

SECRET = "hunter2-geheim"
WORKER = "worker~1"
US = {"project": "p", "agent": WORKER}
JOBS = ("ready", "running", "blocked", "delayed", "failed", "cancelled", "completed", "limited", "after-plain")
GUARDED = ("outputs", "schedules", "sessions", "queues", "marks", "stirred")
"""Tables that belong to jobs and to what starts them."""


class Place(NamedTuple):
    """A daemon that is open, and its board."""

    daemon: Serving
    address: str

    def stranger(self, method: str, params: dict[str, Any], once: str | None = None) -> tuple[int, bytes]:
        """The status and the body of a call without a token."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **({"once": once} if once else {})}
        reply = self.daemon.ask("POST", "/rpc", message, token=None)
        return reply.status, reply.body

    def rows(self) -> dict[str, list[Any]]:
        """All that is stored of jobs and of what starts them."""
        return stored(self.address)


def stored(address: str) -> dict[str, list[Any]]:
    """The rows of jobs and of what belongs to them, as they are in the database."""
    statements = {"tasks": "SELECT * FROM tasks WHERE kind = 'job' ORDER BY number"}
    statements |= {each: f"SELECT * FROM {each} ORDER BY 1, 2" for each in GUARDED}
    statements["edges"] = "SELECT task, after FROM edges JOIN tasks ON number = task WHERE kind = 'job' ORDER BY 1, 2"
    if address.startswith("postgresql"):
        import psycopg

        with psycopg.connect(address) as connection:
            return {name: connection.execute(sql).fetchall() for name, sql in statements.items()}
    import apsw

    reader = apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {name: reader.execute(sql).fetchall() for name, sql in statements.items()}
    finally:
        reader.close()


def furnish(daemon: Serving) -> None:
    """Jobs in every state, with secrets; plain tasks before and beside them; schedules, sessions, queues."""
    rpc = daemon.rpc
    job: dict[str, Any] = {
        "command": ["deploy"],
        "env": {"API_PASSWORD": SECRET, "PLAIN": SECRET},
        "cwd": f"/{SECRET}",
        **US,
    }
    rpc("tasks.post", name="plain", key="plain", **US)
    rpc("tasks.post", name="held", key="held", **US)
    rpc("tasks.claim", ref="held", lease=3000, **US)
    for key in ("failed", "completed"):
        rpc("jobs.submit", key=key, queue=key, max_attempts=1, **job)
        [won] = rpc("jobs.next", queues=[key], lease=3000, **US)
        outcome = {"number": won["number"], "epoch": won["epoch"], "ok": key == "completed", "retry": False}
        rpc("jobs.report", outcomes=[outcome], **US)
    rpc("jobs.submit", key="running", queue="running", **job)
    [won] = rpc("jobs.next", queues=["running"], lease=3000, **US)
    chunk = {"start": 0, "stream": 1, "text": f"the password is {SECRET}\n"}
    rpc("jobs.append", ref="running", epoch=won["epoch"], chunks=[chunk], **US)
    rpc("jobs.submit", key="ready", priority="urgent", **job)
    rpc("jobs.submit", key="limited", limit="g=1", **job)
    rpc("jobs.submit", key="delayed", delay=3000, **job)
    rpc("jobs.submit", key="blocked", after=["ready"], **job)
    rpc("jobs.submit", key="after-plain", after=["plain", "held"], **job)
    rpc("jobs.submit", key="cancelled", **job)
    rpc("tasks.cancel", ref="cancelled", **US)
    options = {"env": {"API_PASSWORD": SECRET}}
    rpc("schedules.add", name="nightly", expression="0 2 * * *", command=["x"], options=options, **US)
    rpc("queues.pause", queue="slow", **US)
    started = {"host": "here", "boot": "1.1", "pid": 7, "started": 70, "facts": {"env": [SECRET]}}
    rpc("sessions.begin", session="boss~spawn-1", role="coordinator", command=["x", SECRET], **started, **US)


class OnServer(Serving):
    """A daemon whose board is on a server: there is no file beside the board that tells when it serves."""

    def _answers(self) -> bool:
        with suppress(OSError):
            return self.ask("GET", "/health").status == 200
        return False


@contextmanager
def furnished(folder: Path, engine: str) -> Iterator[Place]:
    """A real `tb serve --open` on a board of that engine with something in every table."""
    made = Serving(folder, "--open") if engine == "sqlite" else OnServer(folder, "--open")
    if engine == "postgres":
        made.environment["TIEBREAK_BOARD"] = server().empty_board()
    try:
        furnish(made.start())
        yield Place(made, made.environment["TIEBREAK_BOARD"])
    finally:
        made.close()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with furnished(tmp_path_factory.mktemp(request.param), request.param) as made:
        yield made


# ── Every operation ──────────────────────────────────────────────────────────────────────────────────


def values(place: Place) -> dict[str, list[Any]]:
    """Values for parameters, by their type: those that name jobs, who runs them, and by which grant."""
    numbers = {task["key"]: task for task in place.daemon.rpc("tasks.list", project="p", limit=1000) if task["key"]}
    refs = [*JOBS, f"#{numbers['ready']['number']}", numbers["running"]["id"], "plain", "held"]
    running = [numbers["running"]["number"], numbers["running"]["epoch"]]
    outcomes = [{"number": running[0], "epoch": running[1], "ok": ok, "drained": not ok} for ok in (True, False)]
    return {
        "Ref": refs,
        "list[Ref]": [refs, ["plain", "ready"]],
        "AgentId": [WORKER, "boss~spawn-1"],
        "Project": ["p"],
        "Epoch": [0, running[1]],
        "list[Epoch]": [[1]],
        "Label": ["default", "running", "nightly", "job", "slow"],
        "list[Label]": [["running"], ["default"]],
        "list[State]": [["failed", "cancelled"]],
        "NumberAndEpoch": [running],
        "list[NumberAndEpoch]": [[running]],
        "list[Outcome]": [[each] for each in outcomes],
        "list[TaskEntry]": [
            [{"key": "ready", "name": "x"}],
            [{"name": "x", "kind": "job"}],
            [{"id": "x", "name": "x", "parent": "ready", "after": ["running"], "state": "completed"}],
        ],
        "list[Chunk]": [[{"start": 0, "stream": 1, "text": "x"}]],
        "Resource": ["seat:coordinator"],
        "list[Resource]": [["lock:x"]],
        "list[Json]": [[{"command": "x"}]],
        "CommandOrCall": [["x"]],
        "Role": ["coordinator"],
        "Key": ["ready"],
        "Name": ["ready"],
        "Note": ["* * * * *", "ready"],
        "Text": ["x"],
        "Number": [running[0], 7],
        "Lease": [1.0, 20_000.0],
        "Percent": [50],
        "Seconds": [0.0],
        "bool": [True, False],
        "Count": [50],
        "Limit": [1000],
        "Json": [{}],
        "Policy": ["skip"],
        "Importance": ["normal"],
        "Priority": ["normal"],
    }


MOST_CALLS = 200
"""Calls of one operation: enough for each ref with each agent and each epoch."""
ONE_BY_ONE = 8
"""Those that have a request of their own; then all of them come in one."""


def calls_of(place: Place, wanted: Operation[..., Any]) -> Iterator[dict[str, Any]]:
    """Calls that reach for jobs: with the required parameters alone, then with each of the others."""
    required = {n: k for n, k in wanted.parameters.items() if n not in wanted.defaults}
    always = {n: k for n, k in wanted.parameters.items() if n in ("agent", "project", "holder", "epoch", "lease")}
    base = {**required, **always}
    for chosen in product(*(options(place, kind) for kind in base.values())):
        yield dict(zip(base, chosen, strict=True))
    least = {name: options(place, kind)[0] for name, kind in base.items()}
    for name, kind in wanted.parameters.items():
        for value in options(place, kind) if name not in base else ():
            yield {**least, name: value}


def options(place: Place, kind: Kind) -> list[Any]:
    """The values of a type; a parameter whose type has none is left out."""
    if place.address not in _values:
        _values[place.address] = values(place)
    return _values[place.address].get(kind.name, [])


_values: dict[str, dict[str, list[Any]]] = {}


@pytest.mark.parametrize("name", list(every()))
def test_no_operation_lets_a_stranger_change_a_job_or_learn_a_secret(name: str, place: Place) -> None:
    wanted = every()[name]
    for kind in (k for n, k in wanted.parameters.items() if n not in wanted.defaults):
        assert options(place, kind), f"{name}: this test needs values for parameters of type {kind}"
    before = place.rows()
    assert any(SECRET in str(row) for row in before["tasks"])
    made = list(islice(calls_of(place, wanted), MOST_CALLS))
    for params in made[:ONE_BY_ONE]:
        status, body = place.stranger(name, params)
        assert SECRET.encode() not in body, (params, body)
        assert wanted.strangers is not False or status == 401, (params, body)
    batch = [{"jsonrpc": "2.0", "id": i, "method": name, "params": params} for i, params in enumerate(made)]
    reply = place.daemon.ask("POST", "/rpc", batch, token=None)
    assert SECRET.encode() not in reply.body
    assert reply.status == (200 if all(wanted.open_to_strangers(params) for params in made) else 401), reply.body
    assert place.rows() == before


def test_a_remembered_answer_tells_a_stranger_no_command(place: Place) -> None:
    call = {"name": "x", "key": "ready", **US}
    first = {"jsonrpc": "2.0", "id": 1, "method": "tasks.post", "params": call, "once": "a-key-that-leaked"}
    assert place.daemon.ask("POST", "/rpc", first).json["result"]["command"] == ["deploy"]
    status, body = place.stranger("tasks.post", call, "a-key-that-leaked")
    assert (status, json.loads(body)["result"]["command"]) == (200, None)


def test_the_calls_above_change_jobs_when_nobody_is_a_stranger(tmp_path: Path) -> None:
    """Or the test above would pass because its calls are no good. Each operation has a fresh copy of the board."""
    with furnished(tmp_path, "sqlite") as place:
        calls = {name: list(islice(calls_of(place, wanted), MOST_CALLS)) for name, wanted in every().items()}
    original = connect(place.address)
    reached = set()
    for name, wanted in every().items():
        copy = os.fspath(tmp_path / f"{name}.db")
        original.backup(copy)
        before, engine = stored(copy), connect(copy)
        for params in calls[name]:
            with suppress(TiebreakError):
                engine.run(wanted, params)
            if stored(copy) != before:
                reached.add(name)
                break
        engine.close()
    original.close()
    ends = ("claim", "claim_many", "next", "extend", "complete", "fail", "release", "cancel", "retry", "depend")
    assert reached >= {f"tasks.{end}" for end in (*ends, "retry_many", "forfeit")}
    assert reached >= {"agents.renew", "queues.pause", "queues.resume", "sessions.end", "schedules.remove"}


def test_an_operation_that_says_nothing_about_strangers_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="strangers"):
        operation("tests.silent", writes=True)  # type: ignore[call-arg]
    assert "tests.silent" not in REGISTRY
    for wanted in every().values():
        assert isinstance(wanted.strangers, bool) or callable(wanted.strangers), wanted.name


def test_a_route_that_says_nothing_about_strangers_cannot_be_declared() -> None:
    from tiebreak.daemon.routes import route

    with pytest.raises(TypeError, match="strangers"):
        route("GET", "/silent", "Nothing.")  # type: ignore[call-arg]
    assert all(isinstance(each.strangers, bool) for each in ROUTES)


def test_what_strangers_may_write_to_holds_nothing_of_jobs() -> None:
    from tiebreak.engine.schema import TABLES as ALL

    # What names of projects mean is settled before the call of a stranger runs, and moves no rows for it.
    assert {*ALL, "board"} - TABLES == {*GUARDED, "answers", "projects"}


# ── Every route ──────────────────────────────────────────────────────────────────────────────────────


def paths(place: Place, route: Route) -> list[str]:
    job = place.daemon.rpc("tasks.get", ref="running", project="p")
    ready = place.daemon.rpc("tasks.get", ref="ready", project="p")
    filled = [f"{job['id']}~{job['epoch']}", ready["id"], WORKER]
    found = [route.path.replace("{id}", each).replace("{client}", "claude").replace("{event}", "x") for each in filled]
    return [
        f"{path}?{query}" for path in dict.fromkeys(found) for query in ("project=p", f"project=p&worker_id={WORKER}")
    ]


def bodies(place: Place, route: Route) -> list[Any]:
    """Whatever dialect the route speaks: taking, ending and cancelling a job, and mending the board."""
    if route.body is None:
        return [None]
    job = place.daemon.rpc("tasks.get", ref="running", project="p")
    ready = place.daemon.rpc("tasks.get", ref="ready", project="p")
    us = {"project": "p", "agentId": WORKER, "agent_id": WORKER, "tenant": "p", "agent": WORKER}
    methods = (
        "tasks/claim",
        "tasks/complete",
        "tasks/cancel",
        "tasks/extend",
        "tasks/reclaim",
        "CancelTask",
        "GetTask",
    )
    said: list[Any] = [
        {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": task["id"], "postAck": ack, **us}}
        for method in methods
        for task in (job, ready)
        for ack in (True, False)
    ]
    said.append({"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": {"name": "x", "kind": "job", **us}})
    token = f"#{job['number']}@{job['epoch']}"
    tools: list[tuple[str, dict[str, Any]]] = [
        ("claim", {"ref": "ready"}),
        ("claim", {"kind": "job"}),
        ("claim", {"count": 5}),
        ("look", {"what": "task", "ref": "running"}),
        ("post", {"name": "x", "kind": "job"}),
    ]
    tools += [("update", {"action": each, "token": token}) for each in ("complete", "extend", "fail", "release")]
    for tool, given in tools:
        params = {"name": tool, "arguments": given}
        said.append({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return [*said, {"repair": True}, {"command": "x", "id": WORKER, "worker_id": WORKER, "epoch": job["epoch"]}]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_no_route_lets_a_stranger_change_a_job_or_learn_a_secret(route: Route, place: Place) -> None:
    before = place.rows()
    headers = {"A2A-Version": "1.0", "Tiebreak-Agent": WORKER, "Tiebreak-Project": "p", "Accept": "application/json"}
    for path in paths(place, route) if route.path != "/events" else []:
        for body in bodies(place, route):
            reply = place.daemon.ask(route.method, path, body, token=None, headers=headers)
            assert SECRET.encode() not in reply.body, (path, body)
            assert route.strangers or reply.status == 401, (path, body)
            if isinstance(body, dict) and body.get("repair") and route.path == "/doctor":
                assert reply.status == 401
    assert place.rows() == before


def test_a_stranger_gets_no_copy_of_the_board(place: Place) -> None:
    for method in ("GET", "HEAD"):
        assert place.daemon.ask(method, "/backup", token=None).status == 401


def test_a_stranger_may_have_the_board_examined_but_not_mended(place: Place) -> None:
    assert place.daemon.ask("POST", "/doctor", {}, token=None).status == 200
    assert place.daemon.ask("POST", "/doctor", {"repair": False}, token=None).status == 200
    assert place.daemon.ask("POST", "/doctor", {"repair": True}, token=None).status == 401
    assert place.daemon.ask("POST", "/doctor", {"repair": True}).status == 200


# ── What they do get ─────────────────────────────────────────────────────────────────────────────────


def test_a_stranger_works_on_plain_tasks_beside_jobs_that_are_more_urgent(place: Place) -> None:
    before, us = place.rows(), {"project": "p", "agent": "stranger~1"}

    def done(method: str, **params: Any) -> Any:
        status, body = place.stranger(method, {**us, **params})
        assert status == 200, body
        return json.loads(body)["result"]

    for kind in ("chore", "bug"):
        done("tasks.post", name=kind, kind=kind, queue="mine")
    won = done("tasks.next", queue="mine", count=5)
    assert [task["kind"] for task in won] == ["chore", "bug"]
    assert done("tasks.complete", ref=f"#{won[0]['number']}", epoch=1)["state"] == "completed"
    assert done("tasks.cancel", ref=f"#{won[1]['number']}")["state"] == "cancelled"
    assert "job" not in {task["kind"] for task in done("tasks.next", count=50, lease=1)}
    assert done("tasks.next", queue="running") == []
    assert done("tasks.forfeit", holder=WORKER) >= 0
    assert place.rows() == before


def test_a_stranger_imports_plain_tasks_and_no_jobs(place: Place) -> None:
    before, us = place.rows(), {"project": "p", "agent": "stranger~1"}
    entries = [
        {"id": "new", "name": "new", "after": ["ready"], "comments": [{"author": "x", "text": "y"}]},
        {"id": "part", "name": "part", "parent": "new"},
        {"key": "ready", "name": "a job that is known"},
    ]
    status, body = place.stranger("tasks.import", {**us, "entries": entries})
    assert (status, [each["known"] for each in json.loads(body)["result"]]) == (200, [False, False, True])
    status, body = place.stranger("tasks.import", {**us, "entries": [{"name": "x", "kind": "job"}]})
    assert "a job cannot be imported" in json.loads(body)["error"]["message"]
    _, body = place.stranger("tasks.export", {"project": "p", "limit": 1000})
    names = {entry["name"] for entry in json.loads(body)["result"]["entries"]}
    assert "new" in names
    assert SECRET not in str(body)
    assert place.rows() == before


def test_a_stranger_sees_that_there_are_jobs_but_not_how_they_are_run(place: Place) -> None:
    _, body = place.stranger("tasks.get", {"ref": "ready", "project": "p"})
    shown = json.loads(body)["result"]
    assert (shown["state"], shown["command"]) == ("pending", None)
    assert place.daemon.rpc("tasks.get", ref="ready", project="p")["command"] == ["deploy"]
    for waits in ({}, {"wait_ms": 1000}):
        _, body = place.stranger("tasks.list", {"kind": "job", "project": "p", **waits})
        assert {task["command"] for task in json.loads(body)["result"]} == {None}
    _, body = place.stranger("sessions.list", {"project": "p"})
    assert [(each["command"], each["facts"]) for each in json.loads(body)["result"]] == [(None, None)]


def test_a_refused_stranger_is_told_which_job_it_reached_for(place: Place) -> None:
    number = place.daemon.rpc("tasks.get", ref="after-plain", project="p")["number"]
    status, body = place.stranger("tasks.cancel", {"ref": "plain", **US})
    assert status == 401
    assert json.loads(body)["message"] == f"this call would change #{number}, which is a job"
    assert "token" in json.loads(body)["hint"]


def test_a_refused_call_takes_nothing_along_that_came_in_the_same_batch(place: Place) -> None:
    before = place.rows()
    place.daemon.rpc("tasks.post", name="alone", key="alone", **US)
    asked: list[tuple[str, dict[str, Any]]] = [
        ("tasks.post", {"name": "first"}),
        ("tasks.claim", {"ref": "ready"}),
        ("tasks.claim_many", {"refs": ["alone", "ready"]}),
        ("tasks.post", {"name": "last"}),
    ]
    messages = [
        {"jsonrpc": "2.0", "id": i, "method": method, "params": {**US, **params}}
        for i, (method, params) in enumerate(asked)
    ]
    answers = place.daemon.ask("POST", "/rpc", messages, token=None).json
    assert ["result" in answer for answer in answers] == [True, False, False, True]
    assert {answer["error"]["data"]["error"] for answer in answers[1:3]} == {"Unauthorised"}
    assert place.rows() == before
    assert place.daemon.rpc("tasks.get", ref="alone", project="p")["state"] == "pending"


# ── What time has done ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def unswept(start: Starting) -> InProcessDaemon:
    """An open daemon that does not look by itself for what time has done."""
    return start(open=True, sweep=3600.0)


def test_a_stranger_does_not_write_down_that_a_worker_came_too_late(unswept: InProcessDaemon) -> None:
    """Until somebody writes the lapse down, the worker may still report."""
    door, anybody = door_of(unswept), {"Authorization": None}
    board = os.fspath(unswept.board)

    def known(method: str, **params: Any) -> Any:
        return door.rpc(method, None, **{**US, **params})["result"]

    known("jobs.submit", command="x", key="lapsed", max_attempts=1)
    [won] = known("jobs.next", lease=1)
    known("tasks.post", name="last chance", key="chance", max_attempts=1)
    known("tasks.claim", ref="chance", lease=1)
    known("jobs.submit", command="x", key="after", after=["chance"])
    known("jobs.submit", command="x", key="soon", delay=1)
    engine = connect(board)
    try:
        get = every()["tasks.get"]
        for ref in ("lapsed", "chance"):
            until(lambda ref=ref: engine.run(get, {"ref": ref, "project": "p"}).lapsed, "its lease has run out")  # type: ignore[misc]
        soon = engine.run(get, {"ref": "soon", "project": "p"}).ready_at
        until(lambda: engine.run(every()["upkeep.now"], {}) > soon, "its delay is over")
    finally:
        engine.close()
    before = stored(board)
    asked: list[tuple[str, dict[str, Any]]] = [
        ("tasks.sweep", {}),
        ("tasks.sweep", {"project": None}),
        ("tasks.next", {}),
        ("tasks.claim", {"ref": "after"}),
        ("tasks.claim", {"ref": "lapsed"}),
        ("tasks.forfeit", {"holder": WORKER}),
        ("agents.renew", {}),
    ]
    for method, params in asked:
        who: dict[str, Any] = {} if method == "tasks.sweep" else {"agent": "stranger~1"}
        given = {"project": "p", **who, **params}
        door.rpc(method, anybody, **given)
        assert stored(board) == before, method
    outcome = {"number": won["number"], "epoch": won["epoch"], "ok": True}
    assert known("jobs.report", outcomes=[outcome])[0]["accepted"]


def test_an_open_daemon_with_open_jobs_has_no_strangers(start: Starting) -> None:
    door = door_of(start(**Settings(open=True, open_jobs=True, address="127.0.0.1:0")._asdict()))
    anybody = {"Authorization": None}
    door.rpc("jobs.submit", anybody, command="x", key="k", **US)
    assert door.rpc("tasks.claim", anybody, ref="k", **US)["result"]["command"] == "x"
