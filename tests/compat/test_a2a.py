"""A2A 1.0: names, shapes, states and errors follow the specification; the behaviour is that of the board."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

import tiebreak
from tests.daemons import PATIENCE, Serving
from tiebreak import Board

HEADERS = {"A2A-Version": "1.0"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    made = Serving(tmp_path_factory.mktemp("a2a"))
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture
def tenant() -> str:
    """A project of its own for each test."""
    return f"p{uuid4().hex[:8]}"


@pytest.fixture
def board(daemon: Serving, tenant: str) -> Iterator[Board]:
    """The same project, as a worker sees it."""
    with tiebreak.open(daemon.board, agent="worker~1", project=tenant) as made:
        yield made


class Agent:
    """A client of this protocol."""

    def __init__(self, daemon: Serving, tenant: str) -> None:
        self.daemon, self.tenant = daemon, tenant

    def reply(self, method: str, _headers: dict[str, str] = HEADERS, **params: Any) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"tenant": self.tenant, **params}}
        reply = self.daemon.ask("POST", "/a2a", body, headers=_headers)
        assert reply.status == 200
        answer: dict[str, Any] = reply.json
        assert (answer["jsonrpc"], answer["id"]) == ("2.0", 7)
        return answer

    def call(self, method: str, **params: Any) -> Any:
        answer = self.reply(method, **params)
        assert "error" not in answer, answer
        return answer["result"]

    def error(self, method: str, **params: Any) -> tuple[int, str]:
        """The code, and the reason in the details."""
        answer = self.reply(method, **params)["error"]
        details = answer.get("data") or [{}]
        assert details[0].get("domain", "a2a-protocol.org") == "a2a-protocol.org"
        return answer["code"], details[0].get("reason", "")

    def send(self, text: str = "do it", **more: Any) -> dict[str, Any]:
        task: dict[str, Any] = self.call(
            "SendMessage", message=message(text, **more), configuration={"returnImmediately": True}
        )["task"]
        return task

    def stream(self, method: str, **params: Any) -> Iterator[dict[str, Any]]:
        """The results of a stream, until it ends."""
        connection = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=PATIENCE)
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"tenant": self.tenant, **params}}
        token = {"Authorization": f"Bearer {self.daemon.token}", "Content-Type": "application/json"}
        connection.request("POST", "/a2a", json.dumps(body), {**HEADERS, **token})
        answer = connection.getresponse()
        assert (answer.getheader("content-type") or "").startswith("text/event-stream")
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])["result"]
        connection.close()


def message(text: str = "do it", **more: Any) -> dict[str, Any]:
    return {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}], **more}


@pytest.fixture
def agent(daemon: Serving, tenant: str) -> Agent:
    return Agent(daemon, tenant)


def test_the_card_says_where_and_how(daemon: Serving) -> None:
    card = daemon.ask("GET", "/.well-known/agent-card.json").json
    required = {
        "name",
        "description",
        "supportedInterfaces",
        "version",
        "capabilities",
        "defaultInputModes",
        "defaultOutputModes",
        "skills",
    }
    assert required <= set(card)
    [interface] = card["supportedInterfaces"]
    assert interface == {"url": f"{daemon.url}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}


def test_a_message_becomes_a_task_and_its_result_an_artifact(agent: Agent, board: Board) -> None:
    task = agent.send("fix the login\nplease", contextId="ctx-1")
    assert (task["status"]["state"], task["contextId"]) == ("TASK_STATE_SUBMITTED", "ctx-1")
    [won] = board.tasks.next()
    assert (won.id, won.name) == (task["id"], "fix the login please")
    assert agent.call("GetTask", id=task["id"])["status"]["state"] == "TASK_STATE_WORKING"
    board.tasks.complete(ref=won.id, result={"fixed": True})
    done = agent.call("GetTask", id=task["id"])
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert done["artifacts"][0]["parts"] == [{"data": {"fixed": True}}]
    assert done["history"][0]["parts"] == [{"text": "fix the login\nplease"}]
    assert "history" not in agent.call("GetTask", id=task["id"], historyLength=0)


def test_a_blocking_call_answers_when_the_task_has_ended(agent: Agent, board: Board) -> None:
    with ThreadPoolExecutor(1) as threads:
        blocked = threads.submit(agent.call, "SendMessage", message=message("work"))
        [claim] = board.win_next(wait=PATIENCE)
        board.tasks.complete(ref=claim.id, result="done")
        task = blocked.result(PATIENCE)["task"]
    assert (task["id"], task["status"]["state"]) == (claim.id, "TASK_STATE_COMPLETED")
    assert task["artifacts"][0]["parts"] == [{"text": "done"}]


def test_a_failure_says_why(agent: Agent, board: Board) -> None:
    task = agent.send()
    board.tasks.claim(ref=task["id"])
    board.tasks.fail(ref=task["id"], reason="no such file", retry=False)
    status = agent.call("GetTask", id=task["id"])["status"]
    assert (status["state"], status["message"]["parts"]) == ("TASK_STATE_FAILED", [{"text": "no such file"}])


def test_the_same_message_sent_again_is_the_same_task(agent: Agent, board: Board) -> None:
    once = message("twice")
    sent = [
        agent.call("SendMessage", message=once, configuration={"returnImmediately": True})["task"]["id"] for _ in "ab"
    ]
    other = agent.send("another", messageId=once["messageId"])
    assert sent[0] == sent[1] != other["id"]
    assert len(board.tasks.list()) == 2


def test_a_cancelled_task_stays_cancelled_and_an_ended_one_cannot_be_cancelled(agent: Agent, board: Board) -> None:
    task = agent.send()
    assert agent.call("CancelTask", id=task["id"])["status"]["state"] == "TASK_STATE_CANCELED"
    assert agent.error("CancelTask", id=task["id"]) == (-32002, "TASK_NOT_CANCELABLE")
    done = agent.send("other")
    board.tasks.claim(ref=done["id"])
    board.tasks.complete(ref=done["id"])
    assert agent.error("CancelTask", id=done["id"]) == (-32002, "TASK_NOT_CANCELABLE")


def test_a_list_goes_page_by_page_with_the_latest_change_first(agent: Agent, board: Board) -> None:
    tasks = [agent.send(f"task {i}", contextId=f"c{i % 2}")["id"] for i in range(5)]
    board.tasks.claim(ref=tasks[0])
    expected = [tasks[0], *reversed(tasks[1:])]
    seen: list[str] = []
    token = ""
    while True:
        page = agent.call("ListTasks", pageSize=2, pageToken=token)
        assert (page["pageSize"], page["totalSize"]) == (2, 5)
        seen += [task["id"] for task in page["tasks"]]
        token = page["nextPageToken"]
        if not token:
            break
    assert seen == expected
    assert {task["id"] for task in agent.call("ListTasks", contextId="c1")["tasks"]} == {tasks[1], tasks[3]}
    working = agent.call("ListTasks", status="TASK_STATE_WORKING")["tasks"]
    assert [task["id"] for task in working] == [tasks[0]]
    assert agent.call("ListTasks", status="TASK_STATE_REJECTED")["tasks"] == []


def test_artifacts_are_listed_only_when_asked_for(agent: Agent, board: Board) -> None:
    task = agent.send()
    board.tasks.claim(ref=task["id"])
    board.tasks.complete(ref=task["id"], result=1)
    assert "artifacts" not in agent.call("ListTasks")["tasks"][0]
    assert "artifacts" in agent.call("ListTasks", includeArtifacts=True)["tasks"][0]


def test_a_subscription_tells_each_change_and_ends_with_the_task(agent: Agent, board: Board) -> None:
    task = agent.send()
    stream = agent.stream("SubscribeToTask", id=task["id"])
    assert next(stream)["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    board.tasks.claim(ref=task["id"])
    assert next(stream)["statusUpdate"]["status"]["state"] == "TASK_STATE_WORKING"
    board.tasks.complete(ref=task["id"], result="done")
    artifact, status = list(stream)
    assert artifact["artifactUpdate"]["artifact"]["parts"] == [{"text": "done"}]
    assert status["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_message_can_be_sent_and_followed_in_one_call(agent: Agent, board: Board) -> None:
    stream = agent.stream("SendStreamingMessage", message=message())
    task = next(stream)["task"]
    board.tasks.cancel(ref=task["id"])
    assert [each["statusUpdate"]["status"]["state"] for each in stream] == ["TASK_STATE_CANCELED"]


def test_an_ended_task_cannot_be_subscribed_to(agent: Agent) -> None:
    task = agent.send()
    agent.call("CancelTask", id=task["id"])
    assert agent.error("SubscribeToTask", id=task["id"]) == (-32004, "UNSUPPORTED_OPERATION")


@pytest.mark.parametrize("version", ["0.3", "2.0", "", "one"])
def test_another_version_is_refused(agent: Agent, version: str) -> None:
    answer = agent.reply("ListTasks", {"A2A-Version": version} if version else {})
    assert answer["error"]["code"] == -32009
    assert answer["error"]["data"][0]["reason"] == "VERSION_NOT_SUPPORTED"


def test_a_patch_of_the_version_does_not_matter(agent: Agent) -> None:
    assert "result" in agent.reply("ListTasks", {"A2A-Version": "1.0.1"})


def test_a_task_of_another_tenant_is_not_found(agent: Agent, daemon: Serving) -> None:
    task = agent.send()
    stranger = Agent(daemon, "elsewhere")
    for method in ("GetTask", "CancelTask", "SubscribeToTask"):
        assert stranger.error(method, id=task["id"]) == (-32001, "TASK_NOT_FOUND")
        assert agent.error(method, id="no-such-task") == (-32001, "TASK_NOT_FOUND")


FAULTS: dict[str, tuple[str, dict[str, Any], int]] = {
    "no message": ("SendMessage", {}, -32602),
    "no parts": ("SendMessage", {"message": {**message(), "parts": []}}, -32602),
    "no id": ("SendMessage", {"message": {"role": "ROLE_USER", "parts": [{"text": "x"}]}}, -32602),
    "an old role": ("SendMessage", {"message": {**message(), "role": "user"}}, -32602),
    "an empty part": ("SendMessage", {"message": {**message(), "parts": [{}]}}, -32602),
    "a part that is none": ("SendMessage", {"message": {**message(), "parts": ["x"]}}, -32602),
    "a file": ("SendMessage", {"message": {**message(), "parts": [{"url": "file:///etc/passwd"}]}}, -32005),
    "a push": (
        "SendMessage",
        {"message": message(), "configuration": {"taskPushNotificationConfig": {"url": "http://x"}}},
        -32003,
    ),
    "a second message": ("SendMessage", {"message": {**message(), "taskId": "x"}}, -32001),
    "a configuration that is none": ("SendMessage", {"message": message(), "configuration": []}, -32602),
    "no task": ("GetTask", {}, -32602),
    "a task that is a number": ("GetTask", {"id": 5}, -32602),
    "a history before its beginning": ("GetTask", {"id": "x", "historyLength": -1}, -32602),
    "a page of nothing": ("ListTasks", {"pageSize": 0}, -32602),
    "a page of all": ("ListTasks", {"pageSize": 101}, -32602),
    "a page of another book": ("ListTasks", {"pageToken": "abc"}, -32602),
    "an old state": ("ListTasks", {"status": "working"}, -32602),
    "a time that is none": ("ListTasks", {"statusTimestampAfter": "yesterday"}, -32602),
    "a tenant that is none": ("ListTasks", {"tenant": "a b\n"}, -32602),
    "push notifications": ("CreateTaskPushNotificationConfig", {"taskId": "x", "url": "http://x"}, -32003),
    "an extended card": ("GetExtendedAgentCard", {}, -32004),
    "an old method": ("message/send", {"message": message()}, -32601),
}


@pytest.mark.parametrize(("method", "params", "code"), FAULTS.values(), ids=list(FAULTS))
def test_each_error_has_the_code_of_the_specification(
    agent: Agent, board: Board, method: str, params: dict[str, Any], code: int
) -> None:
    assert agent.error(method, **params)[0] == code
    assert board.tasks.list() == []


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"jsonrpc": "1.0"}', b"5"])
def test_a_malformed_call_is_refused(daemon: Serving, body: bytes) -> None:
    reply = daemon.ask("POST", "/a2a", body, headers={**HEADERS, "Content-Type": "application/json"})
    assert reply.status == 400
    assert reply.json["error"]["code"] in (-32700, -32600)
