"""The log of the daemon: one line for each entry, as JSON or as text, and no secrets in it."""

from __future__ import annotations

import io
import json
import logging
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tiebreak.daemon.log_format import LogFormatter
from tiebreak.operations import find

from ..cli.command import Tb, complaint, until
from ..daemons import InProcessDaemon, Serving, serving
from .conftest import WHO, ask, request

HUMAN = re.compile(r"\d\d:\d\d:\d\d\.\d{3} (debug|info|warning|error) +\S.*")
ATTACK = "/%1b%5b31mred%0d%0a2026%20error%20forged%00%c2%9b%e2%80%ae"


@pytest.fixture(scope="module")
def telling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A daemon that logs every request, for programs."""
    with serving(tmp_path_factory.mktemp("telling"), "--log-requests") as running:
        yield running


@pytest.fixture(scope="module")
def human(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A daemon that logs every request, for people."""
    with serving(tmp_path_factory.mktemp("human"), "--log", "human", "--log-requests") as running:
        yield running


def entry(place: Serving, number: str) -> dict[str, Any]:
    """The one entry about a request."""
    until(lambda: number in place.log.read_text(), f"request {number} is in the log")
    [found] = [line for line in place.lines() if line.get("request") == number]
    return found


# ── For programs ─────────────────────────────────────────────────────────────────────────────────────


def test_each_line_is_an_object_with_a_time_a_level_and_a_message(telling: Serving) -> None:
    ask(telling, "GET", "/health")
    ask(telling, "GET", ATTACK)
    logged = [line for line in telling.log.read_text().split("\n") if line.startswith("{")]
    for line in map(json.loads, logged):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line["at"])
        assert line["level"] in ("debug", "info", "warning", "error")
        assert line["message"]
    first = json.loads(logged[0])
    assert telling.process
    assert (first["message"], first["pid"], first["board"]) == ("serving", telling.process.pid, str(telling.board))
    assert telling.url in first["addresses"]


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/health", 200), ("GET", "/nowhere", 404), ("PUT", "/rpc", 405)]
)
def test_the_log_has_the_id_that_the_client_has(method: str, path: str, status: int, telling: Serving) -> None:
    answer = ask(telling, method, path)
    assert answer.status == status
    found = entry(telling, answer.headers["x-request-id"])
    assert (found["method"], found["path"], found["status"]) == (method, path, status)
    assert found["peer"].startswith("unix:")
    assert found["ms"] >= 0


def test_no_two_requests_have_the_same_id(telling: Serving) -> None:
    ids = [ask(telling, "GET", "/metrics").headers["x-request-id"] for _ in range(20)]
    assert len(set(ids)) == 20


def test_by_default_only_failed_requests_are_logged(served: Serving) -> None:
    quiet = ask(served, "GET", "/health").headers["x-request-id"]
    loud = ask(served, "GET", "/nowhere").headers["x-request-id"]
    entry(served, loud)
    assert quiet not in served.log.read_text()


# ── For people ───────────────────────────────────────────────────────────────────────────────────────


def test_a_line_for_people_can_be_read(human: Serving) -> None:
    number = ask(human, "GET", "/nowhere").headers["x-request-id"]
    until(lambda: number in human.log.read_text(), "the request is in the log")
    [line] = [line for line in human.log.read_text().splitlines() if number in line]
    assert HUMAN.fullmatch(line)
    for part in (f"request={number}", "method=GET", "path=/nowhere", "status=404"):
        assert part in line
    assert any("serving  pid=" in line for line in human.log.read_text().splitlines())


# ── What others put into it ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", ["json", "human"])
def test_a_path_cannot_forge_a_line_or_steer_a_terminal(form: str, telling: Serving, human: Serving) -> None:
    place = telling if form == "json" else human
    answer = ask(place, "GET", ATTACK)
    assert answer.status == 404
    number = answer.headers["x-request-id"]
    until(lambda: number in place.log.read_text(), "the request is in the log")
    text = place.log.read_text()
    assert all(c == "\n" or c.isprintable() for c in text), "something in the log acts instead of being read"
    [line] = [line for line in text.split("\n") if number in line]
    assert "forged" in line
    assert not any(line.startswith("2026") for line in text.split("\n"))
    assert r"\u001b[31m" in line if form == "json" else r"\x1b[31m" in line
    if form == "json":
        assert json.loads(line)["path"] == "/\x1b[31mred\r\n2026 error forged\x00\x9b\u202e"


@pytest.mark.parametrize("form", ["json", "human"])
def test_no_secret_is_logged(form: str, telling: Serving, human: Serving) -> None:
    place = telling if form == "json" else human
    asked = [
        place.ask("GET", "/health"),
        place.ask("GET", "/health", token="wrong-token-of-somebody"),
        place.ask("GET", "/metrics?token=in-the-query", token=None),
        place.ask("POST", "/rpc", {**request("tasks.post", name="secret name", **WHO), "once": "secret-key-1"}),
        place.ask("POST", "/rpc", request("tasks.post", payload="secret payload", **WHO)),
        place.ask("POST", "/rpc", b'{"secret": '),
        place.ask("GET", "/nowhere", headers={"Cookie": "secret=1", "Idempotency-Key": "secret-key-2"}),
    ]
    assert [answer.status for answer in asked] == [200, 401, 401, 200, 200, 400, 404]
    number = asked[-1].headers["x-request-id"]
    until(lambda: number in place.log.read_text(), "all of it is in the log")
    text = place.log.read_text()
    assert all(answer.headers["x-request-id"] in text for answer in asked)
    for secret in (place.token, "wrong-token-of-somebody", "in-the-query", "secret"):
        assert secret not in text


# ── What went wrong here ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", ["json", "human"])
def test_an_internal_error_is_logged_with_its_trace_and_the_id_that_the_client_has(
    form: str, near: Callable[..., InProcessDaemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("planted")

    place = near()
    monkeypatch.setattr(find("tasks.list"), "function", broken)
    told = io.StringIO()
    handler = logging.StreamHandler(told)
    handler.setFormatter(LogFormatter(form))
    logging.getLogger("tiebreak").addHandler(handler)
    try:
        answer = ask(place, "POST", "/rpc", request("tasks.list", project="demo"))
    finally:
        logging.getLogger("tiebreak").removeHandler(handler)
    number = answer.headers["x-request-id"]
    error = answer.json["error"]
    assert (error["code"], error["message"], error["data"]["request"]) == (-32603, "internal error", number)
    assert number in error["data"]["hint"]
    assert b"planted" not in answer.body
    assert number in told.getvalue()
    assert "ZeroDivisionError: planted" in told.getvalue()
    if form == "json":
        [line] = told.getvalue().splitlines()
        assert json.loads(line)["request"] == number


def test_the_end_of_the_daemon_is_logged() -> None:
    with tempfile.TemporaryDirectory(prefix="tb-") as folder, serving(Path(folder)) as place:
        assert place.stop() == 0
        assert [line["message"] for line in place.lines()] == ["serving", "draining", "ended"]


def test_an_unknown_log_format_is_refused(tb: Tb) -> None:
    assert "human or json" in complaint(tb("serve", "--log", "xml"), 2)
