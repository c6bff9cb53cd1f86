"""`/openapi.json` and `/docs` describe the daemon correctly and completely, and load nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import schemathesis

import tiebreak.program.daemon_assembly  # noqa: F401  (declares the routes)
from tiebreak.daemon import openapi
from tiebreak.daemon.openapi import EVERYWHERE
from tiebreak.daemon.pages import filled
from tiebreak.daemon.routes import OPERATIONS, ROUTES, Route, RouteGroup
from tiebreak.errors import Invalid
from tiebreak.operations import Operation, description, every

from ..daemons import PATIENCE, Serving, serving
from .fuzzing import sample


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("described")) as made:
        yield made


@pytest.fixture(scope="module")
def document(daemon: Serving) -> Any:
    answer = daemon.ask("GET", "/openapi.json")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    return answer.json


@pytest.fixture(scope="module")
def page(daemon: Serving) -> str:
    answer = daemon.ask("GET", "/docs")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return answer.body.decode()


# ── For programs ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_document_is_openapi(document: Any) -> None:
    schemathesis.openapi.from_dict(document).validate()
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)


def test_a_broken_document_would_be_noticed(document: Any) -> None:
    broken = {**document, "paths": {"rpc": {"post": {"responses": {"200": {}}}}}}
    with pytest.raises(jsonschema_rs.ValidationError):
        schemathesis.openapi.from_dict(broken).validate()


def test_no_reference_leads_nowhere(document: Any) -> None:
    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from ([value["$ref"]] if "$ref" in value else [])
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from references(inner)

    found = set(references(document))
    assert found
    for reference in found:
        place = document
        for word in reference.removeprefix("#/").split("/"):
            place = place[word]


def test_every_route_is_described_and_nothing_else(document: Any) -> None:
    described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    assert described == {(route.method, route.path) for route in ROUTES}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_status_of_a_route_is_described(document: Any, route: Route) -> None:
    described = document["paths"][route.path][route.method.lower()]["responses"]
    assert {int(status) for status in described} >= {*route.answers, *EVERYWHERE}
    assert not any(status.startswith("50") and status != "503" for status in described)


def test_the_document_says_of_a_route_what_the_route_declares() -> None:
    """And the generator knows no route by its path, so those of other packages are described as well as its own."""

    async def handler(*_: Any) -> Any:
        raise AssertionError

    made = Route(
        *("POST", "/made-up", handler, "text", {"type": "object"}, {"q": {"type": "integer"}}),
        *({200: "fine", 409: "no"}, True, OPERATIONS),
        body_required=True,
        headers={"X-One": {"type": "string", "description": "one"}, "X-Two": {"type": "string"}},
        required=("q", "X-Two"),
        content={"text/plain": {"type": "string"}, "text/html": {"maxLength": 5}},
        error={"title": "its own"},
    )
    described = openapi.described([made], [])["paths"]["/made-up"]["post"]
    assert described["parameters"] == [
        {"name": "q", "in": "query", "required": True, "schema": {"type": "integer"}},
        {"name": "X-One", "in": "header", "description": "one", "schema": {"type": "string"}},
        {"name": "X-Two", "in": "header", "required": True, "schema": {"type": "string"}},
    ]
    assert described["requestBody"] == {"required": True, "content": {"application/json": {"schema": made.body}}}
    assert described["responses"]["200"]["content"] == {
        "text/plain": {"schema": {"type": "string"}},
        "text/html": {"schema": {"maxLength": 5}},
    }
    assert described["responses"]["409"]["content"] == {"application/json": {"schema": {"title": "its own"}}}
    source = Path(openapi.__file__).read_text()
    assert [route.path for route in ROUTES if len(route.path) > 1 and route.path in source] == []


WITH_BODY = [route for route in ROUTES if route.body is not None]


@pytest.mark.parametrize("route", WITH_BODY, ids=lambda route: route.path)
def test_a_body_is_described_as_required_where_an_empty_one_is_refused(
    daemon: Serving, document: Any, route: Route
) -> None:
    path = route.path.format(id="1~1", client="claude", event="PreToolUse")
    answer = daemon.ask("POST", path, headers={"A2A-Version": "1.0"})
    refused = answer.status == 400 or b"hook input" in answer.body  # what a client cannot do without is answered
    assert document["paths"][route.path]["post"]["requestBody"]["required"] == refused, answer.body


def test_a_query_parameter_is_described_as_required_where_a_request_without_it_is_refused(
    daemon: Serving, document: Any
) -> None:
    assert daemon.ask("GET", "/jobs/next").status == 400
    assert daemon.ask("GET", "/jobs/next?worker_id=w1").status == 204
    assert {name for name, each in parameters(document, "get", "/jobs/next").items() if each.get("required")} == {
        "worker_id"
    }


def parameters(document: Any, method: str, path: str) -> dict[str, Any]:
    return {each["name"]: each for each in document["paths"][path][method]["parameters"]}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_no_parameter_outside_a_body_is_described_as_null(document: Any, route: Route) -> None:
    for name, each in parameters(document, route.method.lower(), route.path).items():
        assert not jsonschema_rs.is_valid(each["schema"], None), name


HEADERS = {
    "POST /rpc": {"Tiebreak-Client", "Tiebreak-Try", "Idempotency-Key"},
    "POST /": {"Tiebreak-Client"},
    "GET /events": {"Tiebreak-Client", "Last-Event-ID"},
    "POST /mcp": {"Tiebreak-Client", "Tiebreak-Agent", "Tiebreak-Project"},
    "POST /a2a": {"Tiebreak-Client", "Tiebreak-Agent", "Tiebreak-Project", "A2A-Version"},
    "POST /jobs": {"Idempotency-Key"},
    "GET /jobs/next": {"Idempotency-Key"},
    "POST /jobs/{id}/done": {"Idempotency-Key"},
    "POST /jobs/{id}/fail": {"Idempotency-Key"},
    "POST /jobs/{id}/heartbeat": {"Idempotency-Key"},
    "POST /workers/register": {"Idempotency-Key"},
    "POST /web/act": {"Tiebreak-Write", "Idempotency-Key"},
    "GET /web/output": {"Tiebreak-Write"},
    "GET /web/terminal": {"Tiebreak-Write"},
}


def test_every_header_that_a_route_reads_is_described(document: Any) -> None:
    described = {
        f"{method.upper()} {path}": {each["name"] for each in route["parameters"] if each["in"] == "header"}
        for path, item in document["paths"].items()
        for method, route in item.items()
    }
    assert {route: names for route, names in described.items() if names} == HEADERS


@pytest.mark.parametrize("version", ["1.0", "1.0.3", "1.1", "1.00", "0.3", "10.0"])
def test_the_versions_of_a2a_that_are_described_are_those_that_are_accepted(
    daemon: Serving, document: Any, version: str
) -> None:
    described = parameters(document, "post", "/a2a")["A2A-Version"]
    body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}
    answer = daemon.ask("POST", "/a2a", body, headers={"A2A-Version": version}).json
    assert jsonschema_rs.is_valid(described["schema"], version) == ("result" in answer)
    assert described["required"] == ("error" in daemon.ask("POST", "/a2a", body).json)


@pytest.mark.parametrize("key", ["short", "long enough", "x" * 128, "x" * 129])
def test_the_idempotency_keys_that_are_described_are_those_that_are_accepted(
    daemon: Serving, document: Any, key: str
) -> None:
    described = parameters(document, "post", "/workers/register")["Idempotency-Key"]["schema"]
    answer = daemon.ask("POST", "/workers/register", {"id": "w1"}, headers={"Idempotency-Key": key})
    assert jsonschema_rs.is_valid(described, key) == (answer.status == 201)


@pytest.mark.parametrize("last", ["0", "999999999999999", "1000000000000000", "-1"])
def test_the_numbers_of_events_that_are_described_are_those_that_are_accepted(
    daemon: Serving, document: Any, last: str
) -> None:
    described = parameters(document, "get", "/events")
    by_header = daemon.ask("HEAD", "/events", headers={"Last-Event-ID": last}).status == 200
    by_query = daemon.ask("HEAD", f"/events?after={last}").status == 200
    assert by_header == jsonschema_rs.is_valid(described["Last-Event-ID"]["schema"], int(last))
    assert by_query == jsonschema_rs.is_valid(described["after"]["schema"], int(last))


def test_a_try_that_is_refused_because_a_later_one_came_is_described(daemon: Serving, document: Any) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "upkeep.probe", "once": "tried more than once"}
    assert daemon.ask("POST", "/rpc", body, headers={"Tiebreak-Try": "2"}).status == 200
    assert daemon.ask("POST", "/rpc", body, headers={"Tiebreak-Try": "1"}).status == 409
    assert "409" in document["paths"]["/rpc"]["post"]["responses"]


WAITS = {
    "/rpc": ("POST", b'{"jsonrpc":"2.0","id":1,"method":"tasks.list","params":{"project":"empty","wait_ms":60000}}'),
    "/": ("POST", b'{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{"project":"empty","wait_ms":60000}}'),
    "/events": ("GET", None),
}


@pytest.mark.parametrize("path", WAITS)
def test_where_one_can_wait_too_many_waits_are_described(daemon: Serving, document: Any, path: str) -> None:
    method, body = WAITS[path]
    headers = {"Authorization": f"Bearer {daemon.token}", "Content-Type": "application/json", "Tiebreak-Client": path}
    waiting = [http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=PATIENCE) for _ in range(33)]
    try:
        for connection in waiting[:32]:
            connection.request(method, path, body, headers)
        end = time.monotonic() + PATIENCE
        while b"\ntiebreak_waiters 32\n" not in daemon.ask("GET", "/metrics").body:
            assert time.monotonic() < end, "they do not wait"
        waiting[32].request(method, path, body, headers)
        assert waiting[32].getresponse().status == 429
    finally:
        for connection in waiting:
            connection.close()
    while b"\ntiebreak_waiters 0\n" not in daemon.ask("GET", "/metrics").body:
        assert time.monotonic() < end, "who has gone is not forgotten"
    assert "429" in document["paths"][path][method.lower()]["responses"]


def test_every_operation_is_described(document: Any) -> None:
    assert list(document["x-operations"]) == list(every())
    callable_ = {item["$ref"].rpartition("/")[2] for item in document["components"]["schemas"]["Call"]["anyOf"]}
    assert callable_ == set(every())


@pytest.mark.parametrize("operation", every().values(), ids=lambda operation: operation.name)
def test_what_the_document_requires_is_required_and_is_enough(document: Any, operation: Operation[..., Any]) -> None:
    params = document["components"]["schemas"][operation.name]["properties"]["params"]
    params = params.get("anyOf", [params])[0]
    given = sample(operation, params["required"])
    jsonschema_rs.validate(params, given)
    operation.checked(given)
    for name in given:
        with pytest.raises(Invalid):
            operation.checked({key: value for key, value in given.items() if key != name})


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("tasks.post", {"name": "日" * 266, "key": "é/日本", "delay": "1h 30m", "backoff": "٣s", "priority": "low"}),
    ("tasks.post", {"name": " \u00a0'\"$(x)` 😀", "key": "_a#b", "payload": None, "tags": ["_x.y:z/+@-"]}),
    ("tasks.import", {"entries": [{"name": "日", "id": 1, "key": None}, {"name": "b", "parent": 1, "after": ["1"]}]}),
    ("tasks.claim", {"ref": "日本/é", "lease": 0.001}),
    ("tasks.claim", {"ref": "new", "lease": "7d"}),
    ("tasks.extend", {"ref": "new", "lease": "5 m"}),
    ("tasks.get", {"ref": 1}),
    ("tasks.get", {"ref": "#1"}),
    ("holds.take", {"resources": ["file:src/é [a].py", "lock:_a"], "lease": "90"}),
    (
        "jobs.submit",
        {"command": {"call": "a.b", "args": [None], "kwargs": {"a": []}}, "env": {"Ä B": ""}, "cwd": "/\n"},
    ),
    ("jobs.submit", {"command": ["ls", ""], "timeout": 0.5, "limits": {"files": 1}, "limit": "a/b=00010"}),
    ("messages.send", {"body": "\x1b[31m\n\ttext", "to": "bob~x._-", "later": True}),
]


@pytest.mark.parametrize(("name", "params"), CALLS, ids=lambda value: value if isinstance(value, str) else "")
def test_the_document_allows_what_the_server_accepts(
    daemon: Serving, document: Any, name: str, params: dict[str, Any]
) -> None:
    """Lengths, alphabets and spellings that a narrower description would forbid."""
    everybody = {"project": "wide", "agent": "ada~1"}
    known = every()[name].parameters
    given = {**{key: value for key, value in everybody.items() if key in known}, **params}
    daemon.rpc(name, **given)
    allowed = {**document["components"]["schemas"][name], "components": document["components"]}
    jsonschema_rs.validate(allowed, {"jsonrpc": "2.0", "id": 1.5, "method": name, "params": given})


@pytest.mark.parametrize(
    "members", [{"params": None}, {}, {"id": 1.5}, {"id": None}, {"once": None}, {"extra": 1}], ids=str
)
def test_the_document_allows_every_form_of_a_request_that_the_server_accepts(
    daemon: Serving, document: Any, members: dict[str, Any]
) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "upkeep.probe", **members}
    assert "result" in daemon.ask("POST", "/rpc", body).json
    jsonschema_rs.validate({**document["components"]["schemas"]["Body"], "components": document["components"]}, body)


@pytest.mark.parametrize("once", [None, "", "short", 5, "x" * 200], ids=["null", "empty", "short", "number", "long"])
@pytest.mark.parametrize("method", ["tasks/list", "tasks/reclaim", "agents/heartbeat"])
def test_the_document_allows_any_key_where_coord_ignores_it(
    daemon: Serving, document: Any, method: str, once: Any
) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"agentId": "ada"}, "once": once}
    assert "result" in daemon.ask("POST", "/", body).json
    schema = document["paths"]["/"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    jsonschema_rs.validate(schema, body)
    jsonschema_rs.validate(schema, [body])


def test_what_comes_back_is_what_the_document_says(daemon: Serving, document: Any) -> None:
    """Each kind of record at least once, with and without its optional fields."""
    me = {"project": "shapes", "agent": "ada~one"}
    process = {"host": "here", "boot": "1.1", "pid": 7, "started": 70}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("tasks.post", {**me, "name": "first", "key": "first", "tags": ["a"], "payload": {"deep": [1]}}),
        ("tasks.claim", {**me, "ref": "first"}),
        ("tasks.complete", {**me, "ref": "first", "result": 1}),
        ("tasks.import", {**me, "entries": [{"name": "second", "parent": "first"}]}),
        ("tasks.export", {"project": "shapes"}),
        ("tasks.list", {"project": None}),
        ("tasks.due", {"project": None}),
        ("holds.take", {**me, "resources": ["lock:a", "file:b"], "note": "mine"}),
        ("holds.release", {**me, "resources": ["lock:a"]}),
        ("messages.send", {**me, "body": "hello"}),
        ("messages.search", {**me, "query": "hello"}),
        ("agents.announce", {**me, "doing": "this"}),
        ("agents.list", {"project": "shapes"}),
        ("schedules.add", {**me, "name": "daily", "expression": "0 0 1 1 *", "command": ["true"]}),
        ("schedules.pause", {**me, "name": "daily"}),
        ("schedules.list", {"project": None}),
        ("schedules.next", {"project": "shapes", "name": "daily"}),
        ("schedules.due", {"project": None}),
        ("sessions.begin", {**me, **process, "session": "lead~spawn-1", "role": "coordinator", "command": ["agent"]}),
        ("sessions.end", {"project": "shapes", "session": "lead~spawn-1", "note": "over", "code": 3}),
        ("sessions.list", {"project": "shapes", "every": True}),
        ("events.read", {"project": None}),
        ("events.why", {"project": "shapes", "ref": "first"}),
        ("upkeep.status", {"project": None}),
        ("upkeep.prune", {}),
    ]
    for name, params in calls:
        result = daemon.rpc(name, **params)
        shape = {**document["x-operations"][name]["result"], "components": document["components"]}
        jsonschema_rs.validate(shape, result)
        assert result != [], f"{name} answered nothing, so nothing was checked"


def test_the_document_is_the_same_whatever_the_hash_seed() -> None:
    program = (
        "import json, tiebreak.program.daemon_assembly, tiebreak.daemon.openapi as o; print(json.dumps(o.document()))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def test_no_other_host_is_in_the_document(document: Any) -> None:
    assert document["servers"] == [{"url": "/"}]
    assert "://" not in json.dumps(document)


# ── For people ───────────────────────────────────────────────────────────────────────────────────────────────

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """What is in a page: its tags, and whether each one that begins also ends."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.shell: list[str] = []
        self.feed(text)
        assert self.open == [], "a tag does not end"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "pre" and dict(attrs).get("class") == "shell":
            self.shell.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "pre" in self.open and self.shell and self.tags_within("shell"):
            self.shell[-1] += data

    def tags_within(self, kind: str) -> bool:
        """Whether the innermost block of code is of that kind."""
        return next(attrs for tag, attrs in reversed(self.tags) if tag == "pre").get("class") == kind

    def ids(self) -> list[str]:
        return [attrs["id"] or "" for _, attrs in self.tags if "id" in attrs]


def test_the_page_loads_nothing_and_runs_nothing(page: str) -> None:
    for tag, attrs in Page(page).tags:
        assert tag not in ("script", "link", "iframe", "object", "embed", "form", "base", "img")
        assert not [name for name in attrs if name.startswith("on") or name == "style"]
        for name in ("src", "href", "action", "srcset", "data"):
            where = attrs.get(name) or ""
            assert re.fullmatch(r"(#[\w.-]+|[\w.-]+)?", where), f"{tag} {name}={where}"
    assert "url(" not in page
    assert "@import" not in page


def test_a_browser_is_told_to_load_and_run_nothing(daemon: Serving, page: str) -> None:
    policy = daemon.ask("GET", "/docs").headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["frame-ancestors"] == "'none'"
    assert "script-src" not in rules
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert rules["style-src"] == f"'sha256-{digest}'", "a browser would show the page without its style"


def test_every_link_has_a_target_and_every_operation_an_anchor(page: str) -> None:
    parsed = Page(page)
    ids = parsed.ids()
    assert len(ids) == len(set(ids))
    links = {attrs["href"] or "" for tag, attrs in parsed.tags if tag == "a"}
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert {f"/{link}" for link in links if not link.startswith("#")} <= {route.path for route in ROUTES}
    assert set(every()) <= set(ids)


def test_every_route_and_every_parameter_is_on_the_page(page: str) -> None:
    for route in ROUTES:
        assert f"<code>{route.path}</code>" in page
    for operation in every().values():
        article = page.partition(f'id="{operation.name}"')[2].partition("</article>")[0]
        for name in operation.parameters:
            assert f"<code>{name}</code>" in article
    assert "{{" not in page


def test_text_that_looks_like_html_is_shown_and_not_obeyed() -> None:
    nasty = "<script>alert('x')</script>&\"\u202e"

    async def handler(*_: Any) -> Any:
        raise AssertionError

    route = Route("GET", f"/{nasty}", handler, nasty, None, {nasty: {}}, {200: nasty}, False, RouteGroup(nasty, nasty))

    def odd(tx: Any, *, ref: Any, note: Any = nasty) -> Any:
        raise AssertionError

    odd.__doc__ = nasty
    odd.__annotations__ = {"tx": "Transaction", "ref": "Ref", "note": "Note", "return": nasty}
    made = Operation(nasty, odd, True, None, False)
    shown = filled(f"127.0.0.1:7777{nasty}", [route], description.operations([made]))
    assert "<script" not in shown
    assert "\u202e" not in shown
    assert shown.count("&lt;script&gt;") >= 10
    Page(shown)


def test_the_examples_work_as_they_stand(daemon: Serving, page: str, tmp_path: Path) -> None:
    """Pasted into one shell, one after the other, in an environment like that of the daemon's own user."""
    blocks = Page(page).shell
    assert len(blocks) >= 7
    marks = [f"{block}\necho; echo '--- {i}'" for i, block in enumerate(blocks)]
    done = subprocess.run(
        ["bash", "-c", "\n".join(marks)],
        env=daemon.environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stderr == ""
    said = re.split(r"\n--- \d+\n", done.stdout)
    health, claim, lost, by_socket, wait, batch, events = said[1:8]
    assert json.loads(health)["healthy"] is json.loads(by_socket)["healthy"] is True
    posted, claimed = (json.loads(line)["result"] for line in claim.split("\n") if line)
    assert (posted["state"], claimed["state"], claimed["holder"]) == ("pending", "claimed", "ada")
    refusal = json.loads(lost)["error"]
    assert (refusal["code"], refusal["data"]["error"], refusal["data"]["holder"]) == (-32001, "Lost", "ada")
    assert json.loads(wait)["result"] == []
    assert [answer["result"].get("state") for answer in json.loads(batch)] == ["completed", None]
    assert "event: task.claimed\ndata: {" in events
