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


def test_a_model_takes_back_what_a_task_says(near: Tools) -> None:
    async def scenario(client: Client) -> None:
        top = (await good(client, "post", name="top"))["task"]["ref"]
        part = (await good(client, "post", name="part", parent=top, body="why", tags=["a", "b"]))["task"]["ref"]
        await good(client, "post", ref=part, no_body=True, no_parent=True, no_tags=["a"])
        left = (await good(client, "look", what="task", ref=part))["task"]
        assert ("part_of" in left, "body" in left["posted"], left["posted"]["tags"]) == (False, False, ["b"])
        assert "no_body goes with ref" in json.dumps(await bad(client, "post", name="new", no_body=True))

    near.drive(scenario)


def test_a_model_sees_all_that_is_below_a_task(near: Tools) -> None:
    async def scenario(client: Client) -> None:
        top = (await good(client, "post", name="top", key="top"))["task"]["ref"]
        part = (await good(client, "post", name="part", parent="top"))["task"]["ref"]
        other = (await good(client, "post", name="other"))["task"]["ref"]
        deep = (await good(client, "post", name="deep", parent=part))["task"]["ref"]
        below = await good(client, "look", what="tree", ref="top")
        assert [each["ref"] for each in below["tasks"]] == [top, part, deep]
        every = await good(client, "look", what="tree")
        assert [each["ref"] for each in every["tasks"]] == [top, part, deep, other]

    near.drive(scenario)


def test_a_model_posts_a_plan_at_once_or_not_at_all(near: Tools) -> None:
    plan = [{"id": "one", "name": "first"}, {"id": "two", "name": "second", "after": ["one"], "parent": "one"}]

    async def scenario(client: Client) -> None:
        broken = [*plan, {"name": "third", "after": ["nowhere"]}]
        assert "entries[2]: after" in json.dumps(await bad(client, "post", entries=broken))
        assert (await good(client, "look", what="tasks"))["tasks"] == []
        assert "name does not go with entries" in json.dumps(await bad(client, "post", entries=plan, name="x"))
        first, second = (await good(client, "post", entries=plan))["tasks"]
        assert (first["state"], second["state"]) == ("pending", "blocked")
        again = (await good(client, "post", entries=plan))["tasks"]
        assert [(each["ref"], each["known"]) for each in again] == [(first["ref"], True), (second["ref"], True)]

    near.drive(scenario)


def test_what_a_model_exports_page_by_page_can_be_posted_again(near: Tools) -> None:
    async def scenario(client: Client) -> None:
        refs = [(await good(client, "post", name=f"task {i}", body="why"))["task"]["ref"] for i in range(5)]
        pages: list[list[dict[str, object]]] = []
        ref: dict[str, str] = {}
        while len(pages) < len(refs):
            page = await good(client, "look", what="export", limit=2, **ref)
            pages.append(page["exported"]["entries"])
            if "next" not in page:
                break
            ref = {"ref": page["next"]}
        assert [len(entries) for entries in pages] == [2, 2, 1]
        again = (await good(client, "post", entries=[each for entries in pages for each in entries]))["tasks"]
        assert [(each["ref"], each["known"]) for each in again] == [(each, True) for each in refs]

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
