"""Nothing that the daemon's own description allows, or almost allows, breaks the daemon or the description.

No status 500, no traceback in its log, no answer but those described. What JSON-RPC calls an internal error is a 500 in
another coat and counts as one.
"""

from __future__ import annotations

import copy
import json
import re
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest
import requests
import schemathesis
from hypothesis import given
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import tiebreak.daemon.app  # noqa: F401  (declares the routes)
from tiebreak.daemon.openapi import statuses
from tiebreak.daemon.routes import ROUTES, Route
from tiebreak.operations import every, find

from ..daemons import PATIENCE, Serving
from .fuzzing import ANYTHING, Line, assert_answer, bounded, calmed, sensible

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def cases(document: Any, method: str, path: str) -> Any:
    """Good and bad requests for a route, as its description has it."""
    operation = schemathesis.openapi.from_dict(document)[path][method]
    return st.one_of(
        operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
        operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
    )


class Streaming(requests.Session):
    """Reads the first line of a stream that never ends, and leaves."""

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        answer = super().request(*args, **{**kwargs, "stream": True})
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            answer._content = next(answer.iter_lines())
            answer.close()
        return answer


SOME_OR_MANY = pytest.mark.parametrize("examples", [5, pytest.param(300, marks=pytest.mark.soak)])
"""How many made-up requests. They are the same in every run, so `make test` tries few and `make soak` many."""


@SOME_OR_MANY
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_keeps_to_its_description(daemon: Serving, route: Route, examples: int) -> None:
    document = daemon.ask("GET", "/openapi.json").json
    authorised = {"Authorization": f"Bearer {daemon.token}"}

    @bounded(examples)
    @given(case=cases(document, route.method, route.path))
    def keeps(case: Any) -> None:
        case.body = calmed(case.body)
        with Streaming() as session:
            answer = case.call(base_url=daemon.url, session=session, headers=authorised, timeout=PATIENCE)
        case.validate_response(answer, checks=CHECKS)

    keeps()


ODD = [
    "",
    "x",
    "-1",
    "0",
    "1e9",
    "NaN",
    "true",
    "[]",
    "٣²",
    "\x00",
    "\ud800",
    "..",
    "../..",
    "a/b",
    "#1",
    "9" * 400,
    "x" * 9000,
]
ODD_BYTES = ["%", "%zz", "%ff", "%00", "%c0%ae", "%2e%2e%2f"]
"""The same after they have been escaped, or have not been."""
ESCAPED = [quote(value, safe="", errors="surrogatepass") for value in ODD] + ODD_BYTES


@pytest.mark.parametrize(
    ("route", "name"),
    [(route, name) for route in ROUTES for name in route.query],
    ids=lambda value: value if isinstance(value, str) else f"{value.method} {value.path}",
)
def test_every_parameter_after_the_question_mark_may_be_anything(daemon: Serving, route: Route, name: str) -> None:
    for value in ESCAPED:
        assert_described(daemon, route, re.sub(r"\{\w+\}", "1", route.path) + f"?{name}={value}")


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if "{" in route.path], ids=lambda route: f"{route.method} {route.path}"
)
def test_every_parameter_within_a_path_may_be_anything(daemon: Serving, route: Route) -> None:
    for value in ESCAPED:
        assert_described(daemon, route, re.sub(r"\{\w+\}", lambda _, value=value: value, route.path))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("route", "name"),
    [(route, name) for route in ROUTES if route.body for name in route.body.get("properties", ())],
    ids=lambda value: value if isinstance(value, str) else f"{value.method} {value.path}",
)
def test_every_member_of_a_body_may_be_anything(line: Line, route: Route, name: str) -> None:
    assert route.body
    others = dict.fromkeys(route.body.get("required", ()), "x")
    for value in ANYTHING:
        status, answer = line.post(re.sub(r"\{\w+\}", "1", route.path), json.dumps({**others, name: value}).encode())
        assert status in statuses(route), (value, answer)


def assert_described(daemon: Serving, route: Route, target: str) -> None:
    """Ask for the head alone, as of a stream there would be no end."""
    method = "HEAD" if route.method == "GET" else route.method
    body: Any = None if route.body is None else {}
    assert daemon.ask(method, target, body).status in {*statuses(route), 404}, target


POOLS: dict[str, list[Any]] = {
    "agent": ["ada", "bob", "ada~1"],
    "to": ["bob"],
    "project": ["demo"],
    "ref": ["key-0", "key-1", "#3", "new"],
    "resource": ["lock:deploy", "pool:ports"],
    "key": ["key-0", "new"],
    "number": [1],
    "upto": [1],
    "older_than": ["1d"],
}
"""Values that calls have in common, so that they meet on the same tasks, holds and messages."""


def meeting(document: Any, operation: str) -> Any:
    """The description with only this operation at `/rpc`, whose calls mostly speak of the same few things."""
    made = copy.deepcopy(document)
    call = made["components"]["schemas"][operation]
    call["required"].append("id")  # or few would be answered at all
    params = call["properties"]["params"]
    properties = params.get("properties") or params["anyOf"][0]["properties"]
    kinds = find(operation).parameters
    for name, schema in properties.items():
        if name in POOLS:
            properties[name] = {"anyOf": [{"enum": POOLS[name]}] * 3 + [schema]}
        elif name in kinds:
            properties[name] = sensible(schema, kinds[name])
    made["components"]["schemas"]["Call"] = {"$ref": f"#/components/schemas/{operation}"}
    made["paths"] = {"/rpc": made["paths"]["/rpc"]}
    return made


@SOME_OR_MANY
@pytest.mark.parametrize("operation", list(every()))
def test_every_operation_answers_as_described_or_says_why_not(
    daemon: Serving, line: Line, operation: str, examples: int
) -> None:
    document = daemon.ask("GET", "/openapi.json").json
    shape = {**document["x-operations"][operation]["result"], "components": document["components"]}
    result = jsonschema_rs.validator_for(shape)
    outcomes = []

    @bounded(examples)
    @given(case=cases(meeting(document, operation), "POST", "/rpc"))
    def answers(case: Any) -> None:
        sent = calmed(case.body) if isinstance(case.body, (dict, list)) else case.body
        status, said = line.post("/rpc", json.dumps(sent, default=str).encode())
        assert status in (200, 204, 400)
        for answer in said if isinstance(said, list) else [said] if said else []:
            assert_answer(answer)
            outcomes.append("result" in answer)
            if "result" in answer:
                result.validate(answer["result"])

    answers()
    assert outcomes


def test_generated_calls_do_reach_the_board(running: Serving) -> None:
    """The tests above would be worth little if every made-up call was refused for its form."""
    counted = running.ask("GET", "/metrics").body.decode()
    good = set(re.findall(r'operation="([\w.]+)",outcome="ok"', counted))
    asked = set(re.findall(r'operation="([\w.]+)"', counted))
    assert len(good) > len(asked) * 0.6 > 3, f"only these of {len(asked)} ever succeeded: {sorted(good)}"
