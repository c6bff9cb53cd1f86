"""coord's JSON-RPC over real HTTP: its methods and shapes, without coord's known defects."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

import tiebreak
from tiebreak.limits import MOST_IN_A_BATCH

from ..cli.command import until
from ..daemons import PATIENCE, Serving, serving

CONFLICT, BAD_PARAMS, NO_METHOD = -32001, -32602, -32601
ALWAYS = {"id", "name", "kind", "priority", "state", "claimed_by", "payload", "result", "created_at", "updated_at"}
METHODS = [f"tasks/{name}" for name in ("send", "get", "list", "cancel", "claim", "extend", "reclaim", "complete")]
METHODS += ["agents/heartbeat", "agents/list"]
SHORT = 0.02
LONG_WAIT = 60_000
"""Milliseconds: whoever waits in vain is still there when the test has given up."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("coord")) as made:
        yield made


@pytest.fixture
def project() -> str:
    """Boards are shared, projects are not."""
    return f"p-{uuid4().hex[:12]}"


def say(daemon: Serving, method: str, **params: Any) -> Any:
    """The whole answer."""
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    reply = daemon.ask("POST", "/", message, timeout=2 * PATIENCE)
    assert reply.status == 200, reply
    assert (reply.json["jsonrpc"], reply.json["id"]) == ("2.0", 7)
    return reply.json


def ask(daemon: Serving, method: str, **params: Any) -> Any:
    """The result of a request that has to succeed."""
    answer = say(daemon, method, **params)
    assert "error" not in answer, answer
    return answer["result"]


def refusal(daemon: Serving, method: str, code: int = CONFLICT, **params: Any) -> Any:
    """The error of a request that has to fail."""
    answer = say(daemon, method, **params)
    assert "result" not in answer, answer
    assert answer["error"]["code"] == code, answer
    return answer["error"]


def sent(daemon: Serving, name: str = "work", **params: Any) -> str:
    return str(ask(daemon, "tasks/send", name=name, **params)["id"])


def claimed(daemon: Serving, agent: str = "tab-a", **params: Any) -> str:
    task = sent(daemon)
    ask(daemon, "tasks/claim", id=task, agentId=agent, **params)
    return task


def state(daemon: Serving, task: str) -> str:
    return str(ask(daemon, "tasks/get", id=task)["state"])


def lapsed(daemon: Serving, agent: str = "tab-a") -> str:
    """A task whose claim has run out."""
    task = claimed(daemon, agent, leaseSeconds=SHORT)
    until(lambda: state(daemon, task) == "pending", "the lease runs out")
    return task


def waiters(daemon: Serving) -> int:
    found = re.search(r"^tiebreak_waiters (\d+)$", daemon.ask("GET", "/metrics").body.decode(), re.MULTILINE)
    assert found
    return int(found[1])


class Waiter:
    """A request that waits, in a thread of its own."""

    def __init__(self, daemon: Serving, **params: Any) -> None:
        self.answer: Any = None
        self._thread = threading.Thread(target=self._wait, args=(daemon, params), daemon=True)
        self._thread.start()

    def _wait(self, daemon: Serving, params: dict[str, Any]) -> None:
        self.answer = ask(daemon, "tasks/list", **{"wait_ms": LONG_WAIT, **params})

    def result(self) -> Any:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "nobody woke it"
        return self.answer


# ── Shapes ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_task_that_nobody_has_looks_as_in_coord(daemon: Serving) -> None:
    task = ask(daemon, "tasks/send", name="fix the login")
    assert set(task) == ALWAYS
    assert str(UUID(task["id"])) == task["id"]
    assert (task["name"], task["kind"], task["priority"], task["state"]) == (
        "fix the login",
        "task",
        "normal",
        "pending",
    )
    assert task["claimed_by"] is task["payload"] is task["result"] is None
    assert datetime.fromisoformat(task["created_at"]) == datetime.fromisoformat(task["updated_at"])
    assert datetime.fromisoformat(task["created_at"]).utcoffset() == timedelta(0)
    assert ask(daemon, "tasks/get", id=task["id"]) == task


def test_a_claimed_task_says_who_has_it_since_when_and_until_when(daemon: Serving) -> None:
    task = ask(daemon, "tasks/claim", id=sent(daemon), agentId="multi-agent-3", leaseSeconds=60)
    assert set(task) == ALWAYS | {"claimed_at", "lease_until"}
    assert (task["state"], task["claimed_by"]) == ("claimed", "multi-agent-3")
    lease = datetime.fromisoformat(task["lease_until"]) - datetime.fromisoformat(task["claimed_at"])
    assert lease == timedelta(seconds=60)


@pytest.mark.parametrize(("given", "seconds"), [({}, 300), ({"leaseSeconds": None}, 300), ({"leaseSeconds": 0}, 1)])
def test_a_lease_has_the_length_that_coord_gives_it(daemon: Serving, given: dict[str, Any], seconds: int) -> None:
    task = ask(daemon, "tasks/claim", id=sent(daemon), agentId="tab-a", **given)
    lease = datetime.fromisoformat(task["lease_until"]) - datetime.fromisoformat(task["claimed_at"])
    assert lease == timedelta(seconds=seconds)


def test_a_task_whose_lease_ran_out_shows_no_holder(daemon: Serving) -> None:
    task = ask(daemon, "tasks/get", id=lapsed(daemon))
    assert set(task) == ALWAYS
    assert task["claimed_by"] is None


def test_a_completed_task_keeps_its_result_and_who_did_it(daemon: Serving) -> None:
    task = claimed(daemon)
    assert ask(daemon, "tasks/complete", id=task, agentId="tab-a", result={"sha": "e56"}) == {"ok": True, "ack": None}
    found = ask(daemon, "tasks/get", id=task)
    assert (found["state"], found["claimed_by"], found["result"]) == ("completed", "tab-a", {"sha": "e56"})
    assert "lease_until" not in found


@pytest.mark.parametrize("kind", ["ack", "knowledge", "decision"])
def test_an_announcement_is_not_work_for_anybody(daemon: Serving, kind: str) -> None:
    task = ask(daemon, "tasks/send", name="v1.1 stable", kind=kind, priority="high", payload={"sha": "e56"})
    assert (task["state"], task["kind"], task["priority"], task["payload"]) == (
        "completed",
        kind,
        "high",
        {"sha": "e56"},
    )
    refusal(daemon, "tasks/claim", id=task["id"], agentId="tab-a")


def test_an_agent_looks_as_in_coord(daemon: Serving, project: str) -> None:
    assert ask(daemon, "agents/heartbeat", id="tab-a", name="tab alpha", project=project) == {"ok": True}
    task = sent(daemon, project=project)
    ask(daemon, "tasks/claim", id=task, agentId="tab-a", project=project)
    [agent] = ask(daemon, "agents/list", project=project)
    assert set(agent) == {"id", "name", "first_seen", "last_seen", "current_task"}
    assert (agent["id"], agent["name"], agent["current_task"]) == ("tab-a", "tab alpha", task)
    assert datetime.fromisoformat(agent["first_seen"]) <= datetime.fromisoformat(agent["last_seen"])


def test_an_agent_may_change_its_name(daemon: Serving, project: str) -> None:
    for name in ("tab alpha", "tab beta"):
        ask(daemon, "agents/heartbeat", id="tab-a", name=name, project=project)
        assert [agent["name"] for agent in ask(daemon, "agents/list", project=project)] == [name]


def test_a_heartbeat_wakes_nobody(daemon: Serving, project: str) -> None:
    ask(daemon, "agents/heartbeat", id="tab-a", name="tab alpha", project=project)
    before = daemon.rpc("events.read", project=project)
    ask(daemon, "agents/heartbeat", id="tab-a", name="tab alpha", project=project)
    assert daemon.rpc("events.read", project=project) == before


def test_posting_without_a_name_adds_no_agent(daemon: Serving, project: str) -> None:
    sent(daemon, project=project)
    assert ask(daemon, "agents/list", project=project) == []


def test_the_card_names_every_method_and_is_not_for_strangers(daemon: Serving) -> None:
    card = daemon.ask("GET", "/.well-known/agent.json")
    assert card.status == 200
    assert {skill["id"] for skill in card.json["skills"]} == set(METHODS)
    assert (card.json["url"], card.json["capabilities"]["longPoll"]) == ("/", True)
    assert daemon.ask("GET", "/.well-known/agent.json", token=None).status == 401


def test_the_titles_on_the_card_do_not_change_by_accident(daemon: Serving) -> None:
    skills = daemon.ask("GET", "/.well-known/agent.json").json["skills"]
    assert {skill["id"]: skill["name"] for skill in skills} == {
        "tasks/send": "Post a task",
        "tasks/get": "Show a task",
        "tasks/list": "List tasks, or wait for one that matches",
        "tasks/claim": "Win a task for the length of a lease",
        "tasks/extend": "Keep a claim for another lease",
        "tasks/complete": "Finish a claimed task, perhaps with an announcement",
        "tasks/cancel": "Call a task off",
        "tasks/reclaim": "Return lapsed claims to the board",
        "agents/heartbeat": "Give a sign of life",
        "agents/list": "List who is here",
    }


# ── What coord gets wrong, or could ──────────────────────────────────────────────────────────────────


def test_a_refused_claim_names_the_holder(daemon: Serving) -> None:
    task = claimed(daemon, "tab-a")
    error = refusal(daemon, "tasks/claim", id=task, agentId="tab-b")
    assert (error["data"]["error"], error["data"]["holder"], error["data"]["epoch"]) == ("Lost", "tab-a", 1)
    assert "tab-a" in error["message"]


def test_a_refused_client_is_told_methods_of_coord_only(daemon: Serving) -> None:
    held = claimed(daemon, "tab-a")
    told = [
        refusal(daemon, "tasks/claim", id=held, agentId="tab-b"),
        refusal(daemon, "tasks/claim", id=held, agentId="tab-a"),
        refusal(daemon, "tasks/extend", id=sent(daemon), agentId="tab-b"),
        refusal(daemon, "agents/heartbeat", BAD_PARAMS),
    ]
    hints = [each["data"]["hint"] for each in told]
    assert set(re.findall(r"[a-z]+[/.][a-z]+", " ".join(hints))) <= set(METHODS)
    assert "tasks/extend" in hints[1]
    assert hints[3] == "give `agentId`"


def test_the_holder_does_not_win_twice(daemon: Serving) -> None:
    refusal(daemon, "tasks/claim", id=claimed(daemon, "tab-a"), agentId="tab-a")


@pytest.mark.parametrize("method", ["tasks/complete", "tasks/extend"])
def test_a_stale_holder_cannot_touch_the_next_ones_claim(daemon: Serving, method: str) -> None:
    task = lapsed(daemon, "tab-a")
    before = ask(daemon, "tasks/claim", id=task, agentId="tab-b")
    assert refusal(daemon, method, id=task, agentId="tab-a")["data"]["error"] == "Fenced"
    assert ask(daemon, "tasks/get", id=task) == before
    assert ask(daemon, "tasks/complete", id=task, agentId="tab-b")["ok"] is True


@pytest.mark.parametrize("method", ["tasks/complete", "tasks/extend"])
def test_a_lease_that_ran_out_is_over_once_it_is_reclaimed(daemon: Serving, method: str) -> None:
    task = lapsed(daemon, "tab-a")
    daemon.rpc("tasks.sweep", project=None)
    refusal(daemon, method, id=task, agentId="tab-a")
    assert state(daemon, task) == "pending"


@pytest.mark.parametrize("method", ["tasks/complete", "tasks/extend", "tasks/claim"])
def test_a_write_to_a_claim_needs_the_name_of_the_agent(daemon: Serving, method: str) -> None:
    task = claimed(daemon, "tab-a")
    assert "agentId" in refusal(daemon, method, BAD_PARAMS, id=task)["message"]
    assert state(daemon, task) == "claimed"


def test_a_late_cancel_does_not_undo_a_completion(daemon: Serving) -> None:
    task = claimed(daemon)
    ask(daemon, "tasks/complete", id=task, agentId="tab-a", result=1)
    before = ask(daemon, "tasks/get", id=task)
    refusal(daemon, "tasks/cancel", id=task)
    assert ask(daemon, "tasks/get", id=task) == before


def test_a_late_completion_does_not_undo_a_cancel(daemon: Serving) -> None:
    task = claimed(daemon)
    assert ask(daemon, "tasks/cancel", id=task) == {"ok": True}
    refusal(daemon, "tasks/complete", id=task, agentId="tab-a")
    refusal(daemon, "tasks/extend", id=task, agentId="tab-a")
    assert state(daemon, task) == "cancelled"


def test_a_task_is_completed_once(daemon: Serving) -> None:
    task = claimed(daemon)
    ask(daemon, "tasks/complete", id=task, agentId="tab-a", result="first")
    refusal(daemon, "tasks/complete", id=task, agentId="tab-a", result="second")
    assert ask(daemon, "tasks/get", id=task)["result"] == "first"


def test_only_the_holder_extends_a_lease(daemon: Serving) -> None:
    task = claimed(daemon, "tab-a", leaseSeconds=60)
    before = ask(daemon, "tasks/get", id=task)
    refusal(daemon, "tasks/extend", id=task, agentId="tab-b", leaseSeconds=600)
    assert ask(daemon, "tasks/get", id=task) == before
    answer = ask(daemon, "tasks/extend", id=task, agentId="tab-a", leaseSeconds=600)
    assert answer == {"ok": True, "lease_until": ask(daemon, "tasks/get", id=task)["lease_until"]}
    assert datetime.fromisoformat(answer["lease_until"]) > datetime.fromisoformat(before["lease_until"])


def test_lapsed_claims_do_not_fail_a_task(daemon: Serving) -> None:
    task = sent(daemon)
    for _ in range(5):  # more often than a task of our own would be tried
        ask(daemon, "tasks/claim", id=task, agentId="tab-a", leaseSeconds=SHORT)
        until(lambda: state(daemon, task) == "pending", "the lease runs out")
    assert ask(daemon, "tasks/claim", id=task, agentId="tab-b")["claimed_by"] == "tab-b"


def test_reclaiming_lists_what_went_back_to_the_board(daemon: Serving, project: str) -> None:
    def reclaimed() -> bool:
        task = sent(daemon, project=project)
        ask(daemon, "tasks/claim", id=task, agentId="tab-a", leaseSeconds=0.001, project=project)
        until(lambda: state(daemon, task) == "pending", "the lease runs out")
        found = ask(daemon, "tasks/reclaim", project=project)
        assert [each["id"] for each in found] in ([task], [])
        assert all((each["state"], each["claimed_by"]) == ("pending", None) for each in found)
        return bool(found)

    # The daemon's own sweep comes once a second and may be first, but not every time.
    until(reclaimed, "a lapsed claim is reclaimed")
    assert ask(daemon, "tasks/reclaim", project=project) == []


# ── Complete with an announcement ────────────────────────────────────────────────────────────────────


def test_an_announcement_comes_with_the_completion_and_leads_back_to_the_task(daemon: Serving, project: str) -> None:
    task = sent(daemon, "fix the discount", kind="feature", project=project)
    ask(daemon, "tasks/claim", id=task, agentId="tab-a", project=project)
    ack = {"postAck": True, "ackName": "v1.1 stable: discount fixed", "ackPayload": {"sha": "e56"}}
    answer = ask(daemon, "tasks/complete", id=task, agentId="tab-a", result={"sha": "e56"}, project=project, **ack)
    assert answer["ok"] is True
    [found] = ask(daemon, "tasks/list", kind="ack", project=project)
    assert found == answer["ack"]
    assert (found["name"], found["state"], found["priority"]) == (ack["ackName"], "completed", "high")
    assert found["payload"] == {"fixed_bug_id": task, "sha": "e56"}


def test_a_refused_completion_announces_nothing(daemon: Serving, project: str) -> None:
    task = sent(daemon, project=project)
    ask(daemon, "tasks/claim", id=task, agentId="tab-a", project=project)
    refusal(daemon, "tasks/complete", id=task, agentId="tab-b", postAck=True, ackName="done", project=project)
    assert ask(daemon, "tasks/list", kind="ack", project=project) == []


def test_a_name_for_an_announcement_alone_announces_nothing(daemon: Serving, project: str) -> None:
    task = sent(daemon, project=project)
    ask(daemon, "tasks/claim", id=task, agentId="tab-a", project=project)
    answer = ask(daemon, "tasks/complete", id=task, agentId="tab-a", ackName="done", project=project)
    assert answer == {"ok": True, "ack": None}
    assert ask(daemon, "tasks/list", kind="ack", project=project) == []


# ── Parameters ───────────────────────────────────────────────────────────────────────────────────────


def test_parameters_may_be_spelled_as_coords_tools_do(daemon: Serving, project: str) -> None:
    task = sent(daemon, project=project)
    ask(daemon, "tasks/claim", id=task, agent_id="tab-a", lease_seconds=60)
    ack = {"post_ack": True, "ack_name": "done", "ack_priority": "low", "ack_payload": None}
    answer = ask(daemon, "tasks/complete", id=task, agent_id="tab-a", **ack)
    assert (answer["ack"]["name"], answer["ack"]["priority"]) == ("done", "low")
    assert answer["ack"]["payload"] == {"fixed_bug_id": task}
    assert ask(daemon, "tasks/list", nameContains="DON", project=project) == [answer["ack"]]


def test_null_is_the_same_as_not_given(daemon: Serving, project: str) -> None:
    task = ask(daemon, "tasks/send", name="x", kind=None, priority=None, payload=None, project=project)
    nothing: dict[str, Any] = dict.fromkeys(("kind", "priority", "state", "wait_ms", "name_contains", "limit"))
    assert ask(daemon, "tasks/list", project=project, **nothing) == [task]


def test_one_project_does_not_show_in_another(daemon: Serving, project: str) -> None:
    task = sent(daemon, project=project)
    assert [each["id"] for each in ask(daemon, "tasks/list", project=project)] == [task]
    assert task not in [each["id"] for each in ask(daemon, "tasks/list", limit=1000)]


def test_a_request_without_a_project_uses_the_default_one(daemon: Serving) -> None:
    task = sent(daemon)
    assert ask(daemon, "tasks/list", project="default", limit=1)[0]["id"] == task


@pytest.mark.parametrize("method", ["tasks/claim", "tasks/extend", "tasks/complete", "tasks/cancel"])
def test_an_unknown_task_is_a_conflict(daemon: Serving, method: str) -> None:
    assert refusal(daemon, method, id=str(uuid4()), agentId="tab-a")["data"]["error"] == "NotFound"


def test_an_unknown_task_is_shown_as_null(daemon: Serving) -> None:
    assert ask(daemon, "tasks/get", id=str(uuid4())) is None


@pytest.mark.parametrize("given", ["login-bug", "#1", 1, None, ["x"], ""])
def test_an_invalid_id_is_refused_and_nothing_is_posted_for_it(daemon: Serving, project: str, given: object) -> None:
    for method in ("tasks/get", "tasks/claim", "tasks/extend", "tasks/complete", "tasks/cancel"):
        refusal(daemon, method, BAD_PARAMS, id=given, agentId="tab-a", project=project)
    assert ask(daemon, "tasks/list", project=project) == []


BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "no name": ("tasks/send", {}),
    "an unknown priority": ("tasks/send", {"name": "x", "priority": "P0"}),
    "a name of two lines": ("tasks/send", {"name": "x\ny"}),
    "an unknown state": ("tasks/list", {"state": "any"}),
    "a limit that is no number": ("tasks/list", {"limit": "many"}),
    "a wait that is no number": ("tasks/list", {"wait_ms": "long"}),
    "a wait into the past": ("tasks/list", {"wait_ms": -1}),
    "an agent with a blank": ("agents/heartbeat", {"id": "tab a"}),
    "no agent": ("agents/heartbeat", {"name": "x"}),
    "a project with a blank": ("agents/list", {"project": "a b"}),
    "a project that is a list": ("tasks/reclaim", {"project": []}),
}


@pytest.mark.parametrize("what", BAD)
def test_a_wrong_value_is_named_and_changes_nothing(daemon: Serving, project: str, what: str) -> None:
    method, params = BAD[what]
    assert refusal(daemon, method, BAD_PARAMS, **{"project": project, **params})["message"]
    assert daemon.rpc("events.read", project=project) == []


def test_the_server_filters_all_tasks_and_not_only_the_newest(daemon: Serving, project: str) -> None:
    wanted = sent(daemon, "the one bug", kind="bug", priority="urgent", project=project)
    for i in range(60):
        sent(daemon, f"other {i}", project=project)
    newest = ask(daemon, "tasks/list", project=project)
    assert [each["name"] for each in newest] == [f"other {i}" for i in range(59, 9, -1)]
    filters: tuple[dict[str, Any], ...] = ({"kind": "bug"}, {"priority": "urgent"}, {"name_contains": "One Bug"})
    for each in filters:
        [found] = ask(daemon, "tasks/list", limit=5, state="pending", project=project, **each)
        assert found["id"] == wanted
    assert len(ask(daemon, "tasks/list", limit=10**9, project=project)) == 61


# ── Waiting ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_waiter_sleeps_until_something_matches_all_its_filters(daemon: Serving, project: str) -> None:
    filters = {"kind": "bug", "state": "pending", "name_contains": "login", "project": project}
    waiter = Waiter(daemon, **filters)
    until(lambda: waiters(daemon) == 1, "it waits")
    sent(daemon, "logout", kind="bug", project=project)
    sent(daemon, "login", kind="feature", project=project)
    sent(daemon, "login", kind="bug", project=f"{project}-2")
    assert waiters(daemon) == 1, "it was woken by what it did not ask for"
    task = sent(daemon, "fix the LOGIN", kind="bug", project=project)
    assert [each["id"] for each in waiter.result()] == [task]


def test_a_waiter_does_not_sleep_on_what_is_there_already(daemon: Serving, project: str) -> None:
    task = sent(daemon, project=project)
    assert [each["id"] for each in Waiter(daemon, project=project, wait_ms=10**9).result()] == [task]


def test_no_wake_up_is_lost_between_looking_and_sleeping(daemon: Serving, project: str) -> None:
    rounds, crowd, seen = 20, 16, 0
    for i in range(rounds):  # the post arrives while some of the crowd look, some sleep and some are still to come
        sleeping = [Waiter(daemon, name_contains=f"round {i}.", project=project) for _ in range(crowd)]
        sent(daemon, f"round {i}.", project=project)
        seen += sum(len(waiter.result()) for waiter in sleeping)
    assert seen == rounds * crowd


def test_every_waiter_is_woken_by_its_own_task(daemon: Serving, project: str) -> None:
    sleeping = [Waiter(daemon, name_contains=f"<{i}>", project=project) for i in range(20)]
    until(lambda: waiters(daemon) == 20, "all wait")
    tasks = [sent(daemon, f"<{i}>", project=project) for i in range(20)]
    assert [[each["id"] for each in waiter.result()] for waiter in sleeping] == [[task] for task in tasks]


def test_a_waiter_is_woken_by_a_lease_that_runs_out(daemon: Serving, project: str) -> None:
    task = sent(daemon, project=project)
    ask(daemon, "tasks/claim", id=task, agentId="tab-a", leaseSeconds=0.2, project=project)
    assert [each["id"] for each in Waiter(daemon, state="pending", project=project).result()] == [task]


def test_a_waiter_is_woken_by_a_write_that_bypasses_the_daemon(daemon: Serving, project: str) -> None:
    waiter = Waiter(daemon, project=project)
    until(lambda: waiters(daemon) == 1, "it waits")
    with tiebreak.open(daemon.board, agent="beside~1", project=project) as board:
        task = board.tasks.post(name="from beside")
    assert [each["id"] for each in waiter.result()] == [task.id]


def test_a_wait_without_a_match_gets_an_empty_answer(daemon: Serving, project: str) -> None:
    assert Waiter(daemon, project=project, wait_ms=50).result() == []
    assert waiters(daemon) == 0


def test_a_waiter_that_hangs_up_is_forgotten(daemon: Serving, project: str) -> None:
    params = {"project": project, "wait_ms": LONG_WAIT}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tasks/list", "params": params}).encode()
    head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\nAuthorization: Bearer {daemon.token}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE) as connection:
        connection.sendall(head.encode() + body)
        until(lambda: waiters(daemon) == 1, "it waits")
    until(lambda: waiters(daemon) == 0, "it is forgotten")


def test_too_many_waits_are_refused(daemon: Serving, project: str) -> None:
    sleeping = [Waiter(daemon, project=project) for _ in range(32)]
    until(lambda: waiters(daemon) == 32, "all wait")
    message = {"jsonrpc": "2.0", "id": 1, "method": "tasks/list", "params": {"wait_ms": 50, "project": project}}
    assert daemon.ask("POST", "/", message).status == 429
    task = sent(daemon, project=project)
    assert all([each["id"] for each in waiter.result()] == [task] for waiter in sleeping)


# ── JSON-RPC ─────────────────────────────────────────────────────────────────────────────────────────


def message(method: str, number: Any = None, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params, **({} if number is None else {"id": number})}


def test_a_batch_is_answered_in_its_order_each_by_itself(daemon: Serving, project: str) -> None:
    task = sent(daemon, project=project)
    reply = daemon.ask(
        "POST",
        "/",
        [
            message("tasks/claim", 1, id=task, agentId="tab-a"),
            message("tasks/claim", 2, id=task, agentId="tab-b"),
            "nonsense",
            message("tasks/send", name="told, not asked", project=project),
            message("tasks/complete", "four", id=task, agentId="tab-a"),
            message("tasks/frobnicate", 5),
            message("tasks/list", 6, wait_ms=LONG_WAIT, name_contains="nobody", project=project),
            message("tasks/list", 7, project=project),
        ],
    )
    assert reply.status == 200
    answers = reply.json
    assert [answer["id"] for answer in answers] == [1, 2, None, "four", 5, 6, 7]
    codes = [answer.get("error", {}).get("code") for answer in answers]
    assert codes == [None, CONFLICT, -32600, None, NO_METHOD, BAD_PARAMS, None]
    assert [each["name"] for each in answers[-1]["result"]] == ["told, not asked", "work"]


def test_notifications_are_not_answered(daemon: Serving, project: str) -> None:
    for body in (
        message("tasks/send", name="one", project=project),
        [message("tasks/send", name="2", project=project)],
    ):
        reply = daemon.ask("POST", "/", body)
        assert (reply.status, reply.body) == (204, b"")
    assert len(ask(daemon, "tasks/list", project=project)) == 2


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"nonsense", -32700),
        (b"[" * 100_000, -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "\\ud800"}', -32700),
        (b"7", -32600),
        (b"[]", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "tasks/list"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tasks/list", "params": [1]}', -32600),
        (json.dumps([7] * (MOST_IN_A_BATCH + 1)).encode(), -32600),
    ],
)
def test_a_malformed_request_is_refused_with_the_right_code(daemon: Serving, body: bytes, code: int) -> None:
    reply = daemon.ask("POST", "/", body)
    assert (reply.status, reply.json["error"]["code"]) == (400, code)


@pytest.mark.parametrize("method", ["tasks.post", "tasks/frobnicate", "", "__class__", "tasks/send "])
def test_an_unknown_method_is_refused_as_such(daemon: Serving, method: str) -> None:
    refusal(daemon, method, NO_METHOD)


@pytest.mark.parametrize("method", METHODS)
def test_no_method_breaks_on_values_of_the_wrong_kind(daemon: Serving, method: str) -> None:
    names = ["id", "name", "kind", "priority", "payload", "agentId", "leaseSeconds", "postAck", "ackName", "limit"]
    names += ["ackPriority", "ackPayload", "state", "wait_ms", "name_contains", "project", "result"]
    values: list[Any] = [True, -1, 1e300, "", "x" * 10_000, [], {}, [[]], {"a": None}]
    task = claimed(daemon)
    for name in names:
        for value in values:
            params = {"id": task, "name": "x", "agentId": "tab-a", "wait_ms": 0, **{name: value}}
            answer = say(daemon, method, **params)
            assert answer.get("error", {}).get("code") in (None, BAD_PARAMS, CONFLICT), (params, answer)


def test_a_repeated_write_gets_its_first_answer(daemon: Serving, project: str) -> None:
    task = sent(daemon, project=project)
    asked: Callable[[dict[str, Any]], Any] = lambda body: daemon.ask("POST", "/", body).json  # noqa: E731
    claim = {**message("tasks/claim", 1, id=task, agentId="tab-a"), "once": uuid4().hex}
    assert asked(claim)["result"] == asked(claim)["result"]
    assert asked({**claim, "once": uuid4().hex})["error"]["code"] == CONFLICT
    ack = {"postAck": True, "ackName": "done"}
    complete = {**message("tasks/complete", 2, id=task, agentId="tab-a", **ack), "once": uuid4().hex}
    assert asked(complete)["result"] == asked(complete)["result"]
    send = {**message("tasks/send", 3, name="once", project=project), "once": uuid4().hex}
    assert asked(send)["result"] == asked(send)["result"]
    assert [each["name"] for each in ask(daemon, "tasks/list", project=project)] == ["once", "done", "work"]
