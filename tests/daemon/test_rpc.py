"""JSON-RPC at `/rpc`: it follows the specification, errors carry their facts, and writes are safe to repeat."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tiebreak.limits import MOST_IN_A_BATCH

from ..daemons import Reply, Serving
from .conftest import WHO, ask, last, post, request, result, rpc

HERE = {"project": "demo"}


def send(place: Serving, body: Any, **headers: str) -> Reply:
    """One request to /rpc."""
    return ask(place, "POST", "/rpc", body, {name.replace("_", "-"): value for name, value in headers.items()})


def posted(place: Serving, name: str) -> int:
    """How many tasks of this name there are."""
    return sum(task["name"] == name for task in result(place, "tasks.list", limit=1000, name_contains=name, **HERE))


# ── Requests ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [1, "one", 0, -7, "", 2**40, None, 1.5])
def test_an_answer_has_the_id_of_its_request(number: object, served: Serving) -> None:
    answer = send(served, request("events.last", number))
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json == {"jsonrpc": "2.0", "id": number, "result": last(served)}


def test_parameters_may_be_left_out(served: Serving) -> None:
    given: list[dict[str, Any]] = [{}, {"params": {}}, {"params": None}]
    for params in given:
        assert "result" in send(served, {"jsonrpc": "2.0", "id": 1, "method": "events.last", **params}).json


def test_a_notification_is_done_and_not_answered(served: Serving) -> None:
    body = {"jsonrpc": "2.0", "method": "tasks.post", "params": {"name": "silently", **WHO}}
    answer = send(served, body)
    assert (answer.status, answer.body) == (204, b"")
    assert posted(served, "silently") == 1
    wrong = send(served, {"jsonrpc": "2.0", "method": "tasks.post", "params": {}})
    assert (wrong.status, wrong.body) == (204, b"")


def test_a_batch_is_answered_in_its_order_without_its_notifications(served: Serving) -> None:
    silent = {"jsonrpc": "2.0", "method": "tasks.post", "params": {"name": "silent part", **WHO}}
    batch = [
        request("tasks.post", "a", name="first part", **WHO),
        silent,
        request("no.such", "b"),
        request("tasks.post", "c", name="", **WHO),
        5,
        {"jsonrpc": "2.0", "id": "d"},
        request("events.last", "e"),
    ]
    answer = send(served, batch)
    assert answer.status == 200
    assert [(each["id"], each.get("error", {}).get("code")) for each in answer.json] == [
        ("a", None),
        ("b", -32601),
        ("c", -32602),
        (None, -32600),
        ("d", -32600),
        ("e", None),
    ]
    assert posted(served, "silent part") == posted(served, "first part") == 1


def test_a_batch_of_notifications_is_not_answered(served: Serving) -> None:
    silent = {"jsonrpc": "2.0", "method": "tasks.post", "params": {"name": "all silent", **WHO}}
    answer = send(served, [silent, silent])
    assert (answer.status, answer.body) == (204, b"")
    assert posted(served, "all silent") == 2


def test_a_batch_that_only_reads_is_answered_too(served: Serving) -> None:
    answers = send(served, [request("events.last", 1), request("tasks.get", 2, ref="no-such", **HERE)]).json
    assert [each.get("error", {}).get("code") for each in answers] == [None, -32004]


# ── What is none ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"jsonrpc": "2.0", "id": 1,', b"\xff\xfe", b"[" * 100_000, b"nonsense", b"NaN", b"{} {}"]
)
def test_what_is_not_json_is_a_parse_error(body: bytes, served: Serving) -> None:
    answer = send(served, body, Content_Type="application/json")
    assert answer.status == 400
    assert (answer.json["id"], answer.json["error"]["code"]) == (None, -32700)


@pytest.mark.parametrize(
    "body",
    [
        b"5",
        b"null",
        b'"text"',
        b"true",
        b"[]",
        b"{}",
        b'{"jsonrpc": "1.0", "id": null, "method": "events.last"}',
        b'{"id": null, "method": "events.last"}',
        b'{"jsonrpc": "2.0", "id": null}',
        b'{"jsonrpc": "2.0", "id": null, "method": 5}',
        b'{"jsonrpc": "2.0", "id": {}, "method": "events.last"}',
        b'{"jsonrpc": "2.0", "id": [1], "method": "events.last"}',
        b'{"jsonrpc": "2.0", "id": true, "method": "events.last"}',
        b'{"jsonrpc": "2.0", "id": null, "method": "events.last", "params": 5}',
        b'{"jsonrpc": "2.0", "id": null, "method": "events.last", "params": "x"}',
    ],
)
def test_what_is_no_request_is_an_invalid_request(body: bytes, served: Serving) -> None:
    answer = send(served, body)
    assert answer.status == 400
    assert answer.json["jsonrpc"] == "2.0"
    assert (answer.json["id"], answer.json["error"]["code"]) == (None, -32600)


def test_parameters_by_position_are_refused_with_what_to_do_instead(served: Serving) -> None:
    answer = send(served, {"jsonrpc": "2.0", "id": 9, "method": "tasks.get", "params": ["#1"]})
    assert (answer.status, answer.json["id"]) == (400, 9)
    assert answer.json["error"]["code"] in (-32600, -32602)
    assert "by name" in answer.json["error"]["message"]


@pytest.mark.parametrize(
    "method", ["no.such", "tasks", "tasks.", "", "__import__", "tasks.claim ", "TASKS.CLAIM", "x" * 500]
)
def test_an_unknown_method_is_told_apart_from_a_wrong_request(method: str, served: Serving) -> None:
    answer = send(served, request(method, 3))
    assert answer.status == 200
    assert (answer.json["id"], answer.json["error"]["code"]) == (3, -32601)
    assert len(answer.json["error"]["message"]) < 200


def test_a_batch_that_is_too_long_is_refused_whole(served: Serving) -> None:
    batch = [request("tasks.post", i, name="too long", **WHO) for i in range(MOST_IN_A_BATCH + 1)]
    answer = send(served, batch)
    assert (answer.status, answer.json["error"]["code"]) == (400, -32600)
    assert posted(served, "too long") == 0
    assert len(send(served, [request("events.last", i) for i in range(500)]).json) == 500


# ── Errors ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_lost_claim_names_the_holder_the_time_and_the_epoch(served: Serving) -> None:
    won = result(served, "tasks.claim", ref="contended", agent="winner~1", **HERE)
    error = rpc(served, "tasks.claim", ref="contended", **WHO)["error"]
    assert error["code"] == -32001
    assert {name: error["data"][name] for name in ("error", "holder", "until", "epoch")} == {
        "error": "Lost",
        "holder": "winner",
        "until": won["until"],
        "epoch": won["epoch"],
    }
    assert error["data"]["hint"]
    assert "winner" in error["message"]
    assert "message" not in error["data"]


ERRORS: dict[str, tuple[str, dict[str, Any], int]] = {
    "Refused": ("tasks.cancel", {"ref": "over"}, -32002),
    "Fenced": ("tasks.complete", {"ref": "mine", "epoch": 9}, -32003),
    "NotFound": ("tasks.cancel", {"ref": "no-such"}, -32004),
    "Invalid": ("tasks.post", {"name": "x", "priority": "highest"}, -32602),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_every_refusal_has_its_code_and_its_name(kind: str, served: Serving) -> None:
    rpc(served, "tasks.claim", ref="mine", **WHO)
    over = rpc(served, "tasks.claim", ref="over", **WHO)
    if "result" in over:
        rpc(served, "tasks.complete", ref="over", epoch=1, **WHO)
    method, params, code = ERRORS[kind]
    error = rpc(served, method, **params, **WHO)["error"]
    assert (error["code"], error["data"]["error"]) == (code, kind)
    assert error["message"]


def test_an_unknown_parameter_is_refused_and_the_known_ones_are_named(served: Serving) -> None:
    error = rpc(served, "tasks.get", reff="x", ref="y", **HERE)["error"]
    assert error["code"] == -32602
    assert "'reff'" in error["message"]
    assert "ref" in error["data"]["hint"]


# ── Once ─────────────────────────────────────────────────────────────────────────────────────────────


def claim(place: Serving, how: str, key: str, **params: Any) -> Any:
    """Claim, repeatably, with the key in the request or in a header."""
    body = request("tasks.claim", **WHO, **params)
    if how == "member":
        return send(place, {**body, "once": key}).json
    return send(place, body, Idempotency_Key=key).json


@pytest.mark.parametrize("how", ["member", "header"])
def test_a_repeated_write_is_answered_as_the_first_time_and_done_once(how: str, served: Serving) -> None:
    begin = last(served)
    first = claim(served, how, f"repeat-{how}", ref=f"repeated-{how}")
    assert first["result"]["epoch"] == 1
    number = last(served)
    assert number > begin
    assert [claim(served, how, f"repeat-{how}", ref=f"repeated-{how}") for _ in range(3)] == [first] * 3
    assert last(served) == number


def test_the_key_in_the_request_and_in_the_header_are_the_same_key(served: Serving) -> None:
    assert claim(served, "member", "both-ways", ref="both") == claim(served, "header", "both-ways", ref="both")


@pytest.mark.parametrize("how", ["member", "header"])
def test_a_key_that_was_used_for_something_else_is_refused(how: str, served: Serving) -> None:
    claim(served, how, f"reused-{how}", ref=f"reused-{how}")
    error = claim(served, how, f"reused-{how}", ref="another")["error"]
    assert (error["code"], "already used" in error["message"]) == (-32602, True)
    other = send(served, {**request("tasks.post", name="another", **WHO), "once": f"reused-{how}"}).json
    assert other["error"]["code"] == -32602
    assert posted(served, "another") == 0


def test_a_repeated_batch_is_done_once(served: Serving) -> None:
    batch = [{**request("tasks.post", i, name="batch once", **WHO), "once": f"batch-once-{i}"} for i in range(3)]
    first = send(served, batch).json
    assert send(served, batch).json == first
    assert posted(served, "batch once") == 3


@pytest.mark.parametrize(
    "key", ["short", "x" * 129, "with\nnewline", "ünïcode-key", 12345678, ["a key in a list"], True]
)
def test_an_invalid_key_is_refused_and_nothing_is_done(key: object, served: Serving) -> None:
    answer = send(served, {**request("tasks.post", name="bad key", **WHO), "once": key})
    assert answer.json["error"]["code"] in (-32602, -32600)
    assert posted(served, "bad key") == 0


def test_a_refusal_is_not_remembered(served: Serving) -> None:
    body = {**request("tasks.claim", ref="later", create=False, **WHO), "once": "refused-first"}
    assert send(served, body).json["error"]["code"] == -32004
    post(served, "x", key="later")
    assert send(served, body).json["result"]["holder"] == "me"


def test_answers_are_json_whatever_was_stored(served: Serving) -> None:
    payload = {"text": "ünï\u2028\x7f</script>😀", "deep": [[[]]], "number": 1e300}
    task = post(served, "anything", payload=payload)
    answer = send(served, request("tasks.get", ref=task["id"], **HERE))
    assert json.loads(answer.body)["result"]["payload"] == payload
