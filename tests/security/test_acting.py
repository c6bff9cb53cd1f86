"""Acting from a browser: the cookie and the write key of the same session together, and nothing less."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import tiebreak.program.daemon_assembly  # noqa: F401  (declares the routes)
from tests.daemons import Serving, serving
from tiebreak.daemon.browser_sessions import SESSION_LIFE, BrowserSessions
from tiebreak.daemon.routes import ROUTES
from tiebreak.daemon.web.actions import ACTIONS
from tiebreak.operations import find

from .conftest import Door, Headers, Seen, door_of
from .test_browsers import PERSON, headers_of, me
from .test_every_route import state

POST = {"action": "task.post", "params": {"project": "shop", "name": "by hand"}}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("acting")) as started:
        yield started


@pytest.fixture(scope="module")
def door(daemon: Serving) -> Door:
    return door_of(daemon)


def session(door: Door, **body: Any) -> Headers:
    """The headers of a browser that has followed a link for acting, as its pages send them."""
    given = {"write": True, "person": "maria", **body}
    made = json.loads(door.ask("POST", "/web/code", None, json.dumps(given).encode()).body)
    seen = door.ask("GET", made["path"], PERSON)
    assert seen.status == 303
    key = seen.header("location").partition("#write=")[2]
    page = {"Authorization": None, "Sec-Fetch-Site": "same-origin", "Origin": f"http://127.0.0.1:{door.port}"}
    return {**page, "Cookie": seen.header("set-cookie").partition(";")[0], "Tiebreak-Write": key or None}


def act(door: Door, headers: Headers, body: Any = None) -> Seen:
    return door.ask("POST", "/web/act", headers, json.dumps(POST if body is None else body).encode())


def last_event(door: Door) -> Any:
    return door.rpc("events.read", project=None, newest=True, limit=1)["result"][0]


def test_cookie_and_key_together_act_under_the_persons_name(door: Door) -> None:
    seen = act(door, session(door))
    assert (seen.status, json.loads(seen.body)["said"]) == (200, "Posted.")
    event = last_event(door)
    assert (event["event"], event["agent"], event["project"]) == ("task.posted", "maria", "shop")


def test_a_person_is_named_without_the_session_of_the_command(door: Door) -> None:
    assert act(door, session(door, person="maria~abc")).status == 200
    assert last_event(door)["agent"] == "maria"


def test_neither_the_cookie_nor_a_key_alone_nor_two_of_different_sessions_act(door: Door) -> None:
    mine, other = session(door), session(door)
    reader = session(door, write=False)
    wrong: dict[str, Headers] = {
        "cookie alone": {**mine, "Tiebreak-Write": None},
        "empty key": {**mine, "Tiebreak-Write": ""},
        "wrong key": {**mine, "Tiebreak-Write": "x" * 43},
        "part of the key": {**mine, "Tiebreak-Write": str(mine["Tiebreak-Write"])[:-1]},
        "key alone": {**mine, "Cookie": None},
        "the key of another session": {**mine, "Tiebreak-Write": other["Tiebreak-Write"]},
        "a session for reading": {**reader, "Tiebreak-Write": mine["Tiebreak-Write"]},
        "a session for reading, without a key": {**reader, "Tiebreak-Write": ""},
        "the cookie as the key": {**mine, "Tiebreak-Write": str(mine["Cookie"]).partition("=")[2]},
        "a wrong token beside them": {**mine, "Authorization": "Bearer wrong"},
    }
    before = state(door)
    assert {name: act(door, each).status for name, each in wrong.items()} == dict.fromkeys(wrong, 401)
    assert state(door) == before
    assert act(door, mine).status == 200


@pytest.mark.parametrize(
    "changes", [{"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}]
)
def test_pages_of_other_sites_and_ports_cannot_act_with_both(door: Door, changes: dict[str, str]) -> None:
    mine = session(door)
    assert act(door, {**mine, **changes}).status == 403
    assert act(door, {**mine, "Origin": f"http://127.0.0.1:{door.port + 1}"}).status == 403
    assert door.ask("POST", "/web/act", {**mine, "Content-Type": "text/plain"}, json.dumps(POST).encode()).status == 415


def test_a_page_behind_tls_acts(door: Door) -> None:
    mine = session(door, https=True)
    assert act(door, {**mine, "Origin": f"https://127.0.0.1:{door.port}"}).status == 200


def test_an_action_on_a_set_that_is_sent_twice_is_done_once(door: Door) -> None:
    mine = session(door)
    for number in range(3):
        door.rpc("tasks.post", project="twice", agent="ann", name=f"twice {number}")
    again = {**mine, "Idempotency-Key": "the-same-key-" + 100 * "x"}
    wanted = {"action": "tasks.priority", "params": {"project": "twice", "name_contains": "twice", "priority": "high"}}
    first = act(door, again, wanted)
    assert json.loads(first.body)["said"] == "Changed: 3 of 3 tasks."
    numbers = [each["number"] for each in door.rpc("tasks.list", project="twice")["result"]]
    for number in numbers:
        door.rpc("tasks.edit", project="twice", agent="ann", ref=str(number), priority="low")
    assert json.loads(act(door, again, wanted).body)["said"] == "Changed: 3 of 3 tasks."
    assert {each["priority"] for each in door.rpc("tasks.list", project="twice")["result"]} == {"low"}
    act(door, {**again, "Idempotency-Key": "another-key"}, wanted)
    assert {each["priority"] for each in door.rpc("tasks.list", project="twice")["result"]} == {"high"}


def test_signing_out_ends_the_key(daemon: Serving) -> None:
    door = door_of(daemon)
    mine = session(door)
    door.ask("POST", "/web/out", None, b"{}")
    assert act(door, mine).status == 401


def test_a_key_opens_nothing_but_what_is_declared(door: Door) -> None:
    mine = session(door)
    assert door.ask("POST", "/rpc", mine, b'{"jsonrpc":"2.0","id":1,"method":"upkeep.now"}').status == 401
    assert door.ask("POST", "/web/code", mine, b"{}").status == 401
    assert door.ask("GET", "/backup", mine).status == 401
    assert {(each.method, each.path) for each in ROUTES if each.acting} == {
        ("POST", "/web/act"),
        ("GET", "/web/output"),
        ("GET", "/web/terminal"),
    }


def test_a_terminal_is_shown_only_with_the_key(door: Door) -> None:
    mine = session(door)
    path = "/web/terminal?name=ann&project=shop"
    assert door.ask("GET", path, {**mine, "Tiebreak-Write": None}).status == 401
    assert door.ask("GET", path, mine).status == 404


def test_a_program_with_the_token_is_told_where_to_go(door: Door) -> None:
    seen = act(door, {})
    assert (seen.status, json.loads(seen.body)["hint"]) == (400, "programs use POST /rpc")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"action": "upkeep.prune"},
        {"action": ["task.post"]},
        {"action": "task.post", "params": []},
        {"action": "task.post", "params": {"project": "shop", "name": "x", "agent": "root"}},
        {"action": "task.post", "params": {"project": "shop", "name": "x", "key": "k"}},
        {"action": "task.post", "params": {"project": "shop"}},
        {"action": "task.post", "params": {"project": "shop", "name": {}}},
        {"action": "tasks.cancel", "params": {"project": "shop", "limit": 1000}},
        {"action": "tasks.cancel", "params": {}},
        {"action": "tasks.cancel", "params": {"project": "shop", "states": "pending"}},
        {"action": "tasks.cancel", "params": {"project": "shop", "states": [{}]}},
    ],
    ids=json.dumps,
)
def test_what_is_not_in_the_table_is_refused(door: Door, body: Any) -> None:
    before = state(door)
    assert act(door, session(door), body).status == 400
    assert state(door) == before


def test_a_link_for_acting_needs_a_person(door: Door) -> None:
    for body in ({"write": True}, {"write": True, "person": ""}, {"write": True, "person": "a b"}, {"write": "yes"}):
        assert door.ask("POST", "/web/code", None, json.dumps(body).encode()).status == 400


def test_a_second_press_of_a_button_is_the_same_action(door: Door) -> None:
    mine = {**session(door), "Idempotency-Key": "pressed twice in a row"}
    assert act(door, mine).status == 200
    before = state(door)
    assert act(door, mine).status == 200
    assert state(door) == before


def test_an_action_on_a_set_changes_what_the_filters_match_and_says_how_many(door: Door) -> None:
    this: dict[str, Any] = {"project": "sets", "agent": "ann~1"}
    for place in range(5):
        door.rpc("tasks.post", **this, name=f"{'old' if place < 3 else 'new'} {place}")
    door.rpc("tasks.post", **{**this, "project": "other"}, name="old")
    params = {"project": "sets", "name_contains": "old", "reason": "tidying up"}
    seen = act(door, session(door), {"action": "tasks.cancel", "params": params})
    assert json.loads(seen.body)["said"] == "Cancelled: 3 of 3 tasks."
    left = door.rpc("tasks.list", project="sets", states=["pending"])["result"]
    assert sorted(each["name"] for each in left) == ["new 3", "new 4"]
    seen = act(door, session(door), {"action": "tasks.priority", "params": {"project": "sets", "priority": "urgent"}})
    assert json.loads(seen.body)["said"] == "Changed: 2 of 2 tasks."
    assert {each["priority"] for each in door.rpc("tasks.list", project="sets", states=["pending"])["result"]} == {
        "urgent"
    }


def test_every_action_names_an_operation_and_parameters_that_it_has() -> None:
    for name, action in ACTIONS.items():
        known = set(find(action.operation).parameters)
        given = set() if action.each_of else set(action.given)
        assert given | {each.name for each in action.fields} <= known, name
        assert "agent" in known, name
        assert find(action.operation).writes, name


def test_a_key_counts_for_its_user_and_ends_with_its_session() -> None:
    time = [1000.0]
    sessions = BrowserSessions(7777, lambda: time[0])
    begun = sessions.exchange(sessions.new_code(1000, person="maria", write=True), me)
    assert begun is not None
    mine = {**headers_of(begun), b"tiebreak-write": begun.key.encode()}
    found = sessions.acting(mine, me)
    assert found is not None
    assert found.person == "maria"
    assert sessions.acting(mine, lambda: 1001) is None
    time[0] += SESSION_LIFE
    assert sessions.acting(mine, me) is None
