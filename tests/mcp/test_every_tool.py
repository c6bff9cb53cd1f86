"""The official client calls every tool, over both transports and both generations of the protocol."""

from __future__ import annotations

import json

from mcp.client.client import Client

from .conftest import Tools, bad, good


def test_every_tool_works_over_every_transport_and_protocol_version(tools: Tools) -> None:
    async def scenario(client: Client) -> None:
        await _announces(client)
        await _works(client, tools)
        await _holds(client, tools)
        await _talks(client, tools)
        await _looks(client)
        await _asks(client, tools)

    tools.drive(scenario)


async def _announces(client: Client) -> None:
    listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == ["look", "post", "claim", "update", "hold", "message", "ask"]
    assert all(tool.output_schema and tool.annotations and tool.description for tool in listed)
    assert [tool.name for tool in listed if tool.annotations and tool.annotations.read_only_hint] == ["look"]


async def _works(client: Client, tools: Tools) -> None:
    posted = (await good(client, "post", name="one", payload={"a": [1]}, key="k", priority="high", tags=["t"]))["task"]
    assert (posted["state"], posted["posted"]["name"], posted["posted"]["from"]) == ("pending", "one", "ada")
    [won] = (await good(client, "claim", ref="k", lease="10m"))["tasks"]
    assert won["token"] == f"{posted['ref']}@1"
    again = await bad(client, "claim", ref="k")
    assert (again["error"], again["holder"]) == ("Lost", "ada")
    assert (await good(client, "update", token=won["token"], action="extend", lease="1h"))["task"]["token"] == won[
        "token"
    ]
    done = (await good(client, "update", token=won["token"], action="complete", result={"ok": 1}))["task"]
    assert (done["state"], done["outcome"]["result"]) == ("completed", {"ok": 1})
    late = await bad(client, "update", token=won["token"], action="extend")
    assert late["error"] in ("Fenced", "Refused")
    tools.board.tasks.post(name="two", kind="chore")
    [next_one] = (await good(client, "claim", kind="chore", wait=1))["tasks"]
    assert (await good(client, "claim", kind="chore"))["tasks"] == []
    failed = (await good(client, "update", token=next_one["token"], action="fail", reason="no", retry=False))["task"]
    assert failed["state"] == "failed"
    tools.board.tasks.post(name="three", kind="chore")
    [third] = (await good(client, "claim", kind="chore"))["tasks"]
    assert (await good(client, "update", token=third["token"], action="release"))["task"]["state"] == "pending"


async def _holds(client: Client, tools: Tools) -> None:
    taken = (await good(client, "hold", action="take", resources=["src/a.py", "lock:x"], note="why"))["holds"]
    assert [each["resource"] for each in taken] == ["file:src/a.py", "lock:x"]
    tokens = [each["token"] for each in taken]
    assert len((await good(client, "hold", action="renew", tokens=tokens, lease="1h"))["holds"]) == 2
    slots = [(await good(client, "hold", action="take", resources=["pool:p"], slots=2))["holds"][0] for _ in range(2)]
    assert [each["token"] for each in slots] == ["pool:p#0@1", "pool:p#1@1"]
    assert (await bad(client, "hold", action="take", resources=["pool:p"]))["error"] == "Lost"
    tools.board.holds.take(resources=["lock:bobs"], note="mine for now")
    refused = await bad(client, "hold", action="take", resources=["lock:bobs"], wait=0.05)
    assert (refused["holder"], refused["said"]["note"]) == ("bob", "mine for now")
    await good(client, "hold", action="release", tokens=[*tokens, slots[0]["token"], slots[1]["token"]])
    fenced = await bad(client, "hold", action="release", tokens=tokens)
    assert fenced["error"] == "Fenced"


async def _talks(client: Client, tools: Tools) -> None:
    sent = (await good(client, "message", action="send", to="bob", text="hello", importance="high", later=True))[
        "message"
    ]
    assert [each.body for each in tools.board.messages.inbox()] == ["hello"]
    answer = tools.board.messages.send(body="yes?", to="ada", reply_to=sent["number"], ack_requested=True)
    [read] = (await good(client, "look", what="inbox"))["messages"]
    assert read["said"] == {"from": "bob", "untrusted": True, "text": "yes?"}
    await good(client, "message", action="ack", number=answer.number)
    assert (await good(client, "look", what="inbox"))["messages"] == []


async def _looks(client: Client) -> None:
    board = await good(client, "look")
    assert (board["board"]["project"], board["board"]["you"]) == ("demo", "ada~1")
    assert [each["posted"]["name"] for each in (await good(client, "look", what="tasks"))["tasks"]] == ["three"]
    assert (await good(client, "look", what="task", ref="k"))["task"]["state"] == "completed"
    assert [each["resource"] for each in (await good(client, "look", what="holds"))["holds"]] == ["lock:bobs"]
    assert (await good(client, "look", what="waits"))["waits"] == []
    assert "bob" in json.dumps((await good(client, "look", what="agents"))["agents"])
    assert any("took" in each["text"] for each in (await good(client, "look", what="why", ref="lock:x"))["story"])


def test_a_model_describes_edits_and_discusses_tasks(near: Tools) -> None:
    async def scenario(client: Client) -> None:
        top = (await good(client, "post", name="top", body="why it is needed"))["task"]["ref"]
        part = (await good(client, "post", name="part", parent=top))["task"]
        assert part["part_of"] == top
        edited = await good(client, "post", ref=part["ref"], name="renamed", priority="urgent")
        assert (edited["task"]["posted"]["name"], edited["task"]["priority"]) == ("renamed", "urgent")
        assert "key does not go with ref" in json.dumps(await bad(client, "post", ref=part["ref"], key="k"))
        assert "name is missing" in json.dumps(await bad(client, "post", body="nameless"))
        sent = await good(client, "message", action="send", text="half done", about=top)
        assert sent["message"]["about"] == top
        seen = await good(client, "look", what="task", ref=top)
        assert seen["task"]["posted"]["body"] == "why it is needed"
        assert [each["said"]["text"] for each in seen["messages"]] == ["half done"]
        assert [each["ref"] for each in (await good(client, "look", what="tasks", ref=top))["tasks"]] == [part["ref"]]

    near.drive(scenario)


def test_a_model_wins_first_what_others_wait_for(near: Tools) -> None:
    async def scenario(client: Client) -> None:
        await good(client, "post", name="urgent", priority="urgent")
        needed = (await good(client, "post", name="needed"))["task"]["ref"]
        await good(client, "post", name="later", after=[needed])
        assert [each["ref"] for each in (await good(client, "claim", order="critical"))["tasks"]] == [needed]
        assert "order goes with the next ready task" in json.dumps(
            await bad(client, "claim", ref=needed, order="critical")
        )

    near.drive(scenario)


async def _asks(client: Client, tools: Tools) -> None:
    asked = await good(client, "ask", text="which?\nfor the tests", choices=["a", "b"], key="q", about="k")
    assert (asked["question"]["kind"], asked["question"]["state"]) == ("question", "pending")
    assert "It stays open" in asked["next"]
    assert f"look task with ref {asked['question']['ref']}" in asked["next"]
    refused = await bad(client, "claim", ref="q")
    assert "A person has to answer it, not you" in refused["next"]
    assert (await good(client, "claim"))["tasks"][0]["posted"]["name"] == "three", "a question is no work"
    tools.board.questions.answer("q", answer="b")
    again = await good(client, "ask", text="which?", key="q", wait=5)
    assert again["answer"] == {"from": "bob", "untrusted": True, "text": "b"}
    assert (await good(client, "look", what="task", ref="q"))["task"]["outcome"]["result"]["answer"] == "b"
    [told] = (await good(client, "look", what="inbox"))["messages"]
    assert told["said"]["text"].endswith("'which?': b")
    assert (await bad(client, "post", name="x", kind="question"))["next"].startswith("Use the tool ask")
    tools.board.tasks.cancel((await good(client, "ask", text="and now?", key="q2"))["question"]["ref"])
    assert "was cancelled" in json.dumps(await bad(client, "ask", text="and now?", key="q2"))
