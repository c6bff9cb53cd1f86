"""No JSON, and nothing that only looks like JSON, breaks the daemon or changes the board by mistake."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiebreak.compat.coord import METHODS, SPELLINGS
from tiebreak.operations import Operation, every

from ..daemons import Serving
from .fuzzing import ANYTHING, Line, assert_answer, board, bounded, calmed, refused, sample

MANY = 100_000
HAZARDS: dict[str, bytes] = {
    "nothing": b"",
    "blanks": b" \n\t ",
    "a mark of byte order": b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"tasks.nothing"}',
    "sixteen bits a letter": '{"jsonrpc":"2.0","id":1,"method":"events.last"}'.encode("utf-16"),
    "brackets without end": b"[" * MANY,
    "closed brackets": b"[" * MANY + b"]" * MANY,
    "braces without end": b'{"a":' * MANY,
    "deep params": b'{"jsonrpc":"2.0","id":1,"method":"tasks.post","params":{"name":"x","project":"demo","agent":"ada",'
    b'"payload":' + b"[" * 900 + b"]" * 900 + b"}}",
    "a deep id": b'{"jsonrpc":"2.0","method":"events.last","id":' + b"[" * 900 + b"]" * 900 + b"}",
    "a deep method": b'{"jsonrpc":"2.0","id":1,"method":' + b"[" * 900 + b"]" * 900 + b"}",
    "not a number": b'{"jsonrpc":"2.0","id":NaN,"method":"events.last"}',
    "infinity": b'{"jsonrpc":"2.0","id":1,"method":"tasks.list","params":{"project":"demo","limit":Infinity}}',
    "a number beyond all bounds": b'{"jsonrpc":"2.0","id":1,"method":"tasks.due","params":{"project":1e999}}',
    "a number of many digits": b'{"jsonrpc":"2.0","id":1,"method":"tasks.list","params":{"project":"demo","limit":'
    + b"9" * 50_000
    + b"}}",
    "a lease of many digits": b'{"jsonrpc":"2.0","id":1,"method":"tasks.claim","params":{"project":"demo",'
    b'"agent":"ada","ref":"key-0","lease":' + b"9" * 5_000 + b"}}",
    "a reference of many digits": b'{"jsonrpc":"2.0","id":1,"method":"tasks.get","params":{"project":"demo","ref":"#'
    + b"9" * 190
    + b'"}}',
    "a lone surrogate in a name": rb'{"jsonrpc":"2.0","id":1,"method":"tasks.post","params":'
    rb'{"name":"\ud800","project":"demo","agent":"ada"}}',
    "a lone surrogate in a payload": rb'{"jsonrpc":"2.0","id":1,"method":"tasks.post","params":'
    rb'{"name":"x","payload":{"\udc00":["\ud800"]},"project":"demo","agent":"ada"}}',
    "a lone surrogate as the method": rb'{"jsonrpc":"2.0","id":"\udfff","method":"\ud800"}',
    "bytes that are no text": b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}',
    "an overlong character": b'{"jsonrpc":"2.0","id":1,"method":"\xc0\xae"}',
    "NUL in a name": rb'{"jsonrpc":"2.0","id":1,"method":"tasks.post","params":{"name":"a\u0000b","project":"demo",'
    rb'"agent":"ada"}}',
    "two methods, the last one unknown": b'{"jsonrpc":"2.0","id":1,"method":"events.last","method":"nothing"}',
    "two params, the last one wrong": b'{"jsonrpc":"2.0","id":1,"method":"events.last","params":{},"params":{"x":1}}',
    "positional params": b'{"jsonrpc":"2.0","id":1,"method":"tasks.claim","params":["key-0","ada","demo"]}',
    "params as text": b'{"jsonrpc":"2.0","id":1,"method":"events.last","params":"x"}',
    "something after the end": b'{"jsonrpc":"2.0","id":1,"method":"events.last"} {}',
    "an empty batch": b"[]",
    "a batch in a batch": b'[[{"jsonrpc":"2.0","id":1,"method":"events.last"}]]',
    "a batch that is too long": b"[" + b"1," * 50_000 + b"1]",
    "a batch of everything": json.dumps(
        [
            None,
            True,
            1,
            1.5,
            "x",
            [],
            {},
            {"jsonrpc": "2.0"},
            {"jsonrpc": 2.0, "method": "events.last", "id": 1},
            {"jsonrpc": "2.0", "method": "no.such", "id": [1]},
            {"jsonrpc": "2.0", "method": "tasks.claim", "id": 1, "params": [1]},
            {"jsonrpc": "2.0", "method": "tasks.claim", "id": 1, "params": {"wait_ms": 5, "ref": "key-0"}},
            {"jsonrpc": "2.0", "method": "tasks.list", "id": 1, "params": {"project": "demo", "wait_ms": 5}},
            {"jsonrpc": "2.0", "method": "tasks.get", "id": 1, "once": 5, "params": {}},
            {"jsonrpc": "2.0", "method": "tasks.post", "params": {"name": ["x"]}},
        ]
    ).encode(),
}


@pytest.mark.parametrize("path", ["/rpc", "/"])
@pytest.mark.parametrize("hazard", HAZARDS)
def test_odd_json_is_refused_and_changes_nothing(daemon: Serving, line: Line, path: str, hazard: str) -> None:
    before = board(daemon)
    refused(line, path, HAZARDS[hazard])
    assert board(daemon) == before


@pytest.mark.parametrize("path", ["/rpc", "/"])
@bounded(100)
@given(body=st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_bytes_at_random_are_refused(line: Line, path: str, body: bytes) -> None:
    refused(line, path, body)


@pytest.mark.parametrize("path", ["/rpc", "/"])
def test_json_that_is_cut_off_anywhere_is_refused(daemon: Serving, line: Line, path: str) -> None:
    method = {"/rpc": "tasks.post", "/": "tasks/send"}[path]
    params = {"name": "caf\u00e9 \u2603", "project": "demo", "agent": "ada", "payload": {"a": [1, None, True, -1.5e3]}}
    whole = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, ensure_ascii=False).encode()
    before = board(daemon)
    for end in range(len(whole)):
        refused(line, path, whole[:end])
    assert board(daemon) == before


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**31, 2**53, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**400])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(
        ["", "#1", "#0", "key-0", "demo", "ada", "lock:deploy", "file:../x", "~", "2.0", "\x00", "a" * 70_000]
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def messages(methods: list[str], parameters: list[str]) -> st.SearchStrategy[Any]:
    """Requests in which each member may be right, of any other type, or missing."""
    params = st.dictionaries(st.sampled_from(parameters) | st.text(max_size=8), VALUES, max_size=6) | VALUES
    waits = VALUES.filter(lambda value: not isinstance(value, (int, float)) or isinstance(value, bool) or value < 20)
    patient = st.fixed_dictionaries({"project": st.just("demo"), "wait_ms": waits})
    return st.fixed_dictionaries(
        {},
        optional={
            "jsonrpc": st.just("2.0") | st.just("2.0") | st.just("2.0") | VALUES,
            "id": VALUES,
            "method": st.sampled_from(methods) | st.sampled_from(methods) | VALUES,
            "params": (params | patient).map(_short),
            "once": VALUES,
        },
    )


def _short(params: Any) -> Any:
    return calmed({"params": params})["params"]


OPERATIONS = messages(
    list(every()), sorted({name for each in every().values() for name in each.parameters} | {"wait_ms"})
)
COORD = messages(
    list(METHODS),
    [*SPELLINGS, "id", "name", "project", "kind", "priority", "payload", "state", "result", "limit"],
)


@pytest.mark.parametrize(("path", "strategy"), [("/rpc", OPERATIONS), ("/", COORD)], ids=["rpc", "coord"])
def test_every_member_may_have_any_type(daemon: Serving, line: Line, path: str, strategy: Any) -> None:
    @bounded(250)
    @given(message=strategy | st.lists(strategy | VALUES, max_size=5))
    def answers(message: Any) -> None:
        before = board(daemon)
        status, said = line.post(path, json.dumps(message).encode())
        assert status in (200, 204, 400), (message, said)
        found = said if isinstance(said, list) else [said] if status != 204 else []
        for answer in found:
            assert_answer(answer)
        silent = status == 204 or (isinstance(message, list) and len(found) < len(message))
        if not silent and not any("result" in answer for answer in found):
            assert board(daemon) == before, "a refused request changed the board"

    answers()


@pytest.mark.parametrize("operation", every().values(), ids=lambda operation: operation.name)
def test_every_parameter_of_every_operation_may_be_anything(line: Line, operation: Operation[..., Any]) -> None:
    """Each of them in turn, while the others are good; all of them in one batch."""
    good = sample(operation, [name for name in operation.parameters if operation.required(name)])
    wanted = [{**good, name: value} for name in [*operation.parameters, "unknown"] for value in ANYTHING]
    batch = [{"jsonrpc": "2.0", "id": i, "method": operation.name, "params": each} for i, each in enumerate(wanted)]
    status, answers = line.post("/rpc", json.dumps(batch).encode())
    assert status == 200
    assert [answer["id"] for answer in answers] == list(range(len(wanted)))
    for each, answer in zip(wanted, answers, strict=True):
        assert_answer(answer)
        assert "error" in answer or "unknown" not in each


@pytest.mark.parametrize("operation", [name for name, each in every().items() if not each.writes])
@pytest.mark.parametrize("wait", [-1, 1.5, 60_001, 10**30, True, None, "1", [], {}, "\ud800"])
def test_an_invalid_wait_is_refused(line: Line, operation: str, wait: Any) -> None:
    params = {"project": "demo", "agent": "ada", "ref": "key-0", "query": "x", "wait_ms": wait}
    known = {name: value for name, value in params.items() if name in {*every()[operation].parameters, "wait_ms"}}
    refused(line, "/rpc", json.dumps({"jsonrpc": "2.0", "id": 1, "method": operation, "params": known}).encode())


@pytest.mark.parametrize(
    "once", [0, False, 1, 1.5, "", "short", "x" * 129, "tab\tin it", "caf\u00e9-caf\u00e9", [], {}, "\ud800" * 9]
)
@pytest.mark.parametrize("batch", [False, True], ids=["alone", "in a batch"])
def test_an_invalid_key_is_refused_and_nothing_is_done(daemon: Serving, line: Line, once: Any, batch: bool) -> None:
    params = {"project": "demo", "agent": "ada", "name": "once"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tasks.post", "once": once, "params": params}
    before = board(daemon)
    refused(line, "/rpc", json.dumps([call] if batch else call).encode())
    assert board(daemon) == before


@pytest.mark.parametrize("number", ["x" * 500_000, 10**300, -(2**70), 1e308, 0.1, "", "\x00", None])
def test_an_id_comes_back_as_it_was(line: Line, number: Any) -> None:
    call = {"jsonrpc": "2.0", "id": number, "method": "events.last"}
    status, answer = line.post("/rpc", json.dumps(call).encode())
    assert status in (200, 400)
    assert_answer(answer)
    if "result" in answer:
        assert answer["id"] == number
