"""`tb batch`: one answer for each line, in order, whatever the neighbours are like."""

from __future__ import annotations

import json
import subprocess
import threading
from typing import Any

import pytest

import tiebreak

from .command import PATIENCE, Tb, until

pytestmark = pytest.mark.usefixtures("counted")

GOOD = '{"id": "good", "method": "events.last"}'


def request(method: str, id: object = None, **params: object) -> str:
    return json.dumps({"id": id, "method": method, "params": params})


def answers(tb: Tb, *lines: str, code: int = 0) -> list[dict[str, Any]]:
    answer = tb("batch", stdin="\n".join(lines) + "\n")
    assert "Traceback" not in answer.err, answer.err
    assert answer.code == code, answer
    return [json.loads(line, parse_constant=_not_json) for line in answer.out.splitlines()]


def _not_json(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


BAD_LINES = {
    "not JSON": "nonsense",
    "cut off": '{"method": "events.last"',
    "a number": "7",
    "a list": '["events.last"]',
    "null": "null",
    "text": '"events.last"',
    "no method": "{}",
    "a method that is no text": '{"method": 7}',
    "params that are no object": '{"method": "events.last", "params": [1]}',
    "10,000 levels": "[" * 10_000 + "]" * 10_000,
    "10,000 levels in params": '{"method": "tasks.post", "params": {"name": "x", "payload": '
    + "[" * 10_000
    + "]" * 10_000
    + "}}",
    "an endless number": "9" * 5000,
    "too long": "x" * (1 << 20) + "x",
    "much too long": "x" * (3 << 20),
    "not a number as id": '{"id": NaN, "method": "events.last"}',
    "infinite id": '{"id": 1e999, "method": "events.last"}',
}
REFUSED_LINES = {
    "unknown method": '{"method": "tasks.frobnicate"}',
    "unknown group": '{"method": "os.system"}',
    "private method": '{"method": "__class__"}',
    "method of surrogates": '{"method": "\\ud800"}',
    "unknown parameter": '{"method": "tasks.post", "params": {"name": "x", "colour": "red"}}',
    "missing parameter": '{"method": "tasks.post"}',
    "NUL": '{"method": "tasks.post", "params": {"name": "a\\u0000b"}}',
    "escape sequence": '{"method": "tasks.post", "params": {"name": "a\\u001b[2Jb"}}',
    "lone surrogate": '{"method": "tasks.post", "params": {"name": "a\\ud800b"}}',
    "surrogate in a payload": '{"method": "tasks.post", "params": {"name": "x", "payload": "\\ud800"}}',
    "NUL in a message": '{"method": "messages.send", "params": {"body": "a\\u0000b"}}',
    "wrong type": '{"method": "tasks.post", "params": {"name": ["x"]}}',
    "too large": '{"method": "tasks.post", "params": {"name": "x", "payload": "' + "x" * 300_000 + '"}}',
    "not found": '{"method": "tasks.get", "params": {"ref": "#99"}}',
}


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES)
def test_a_line_that_is_no_request_gets_one_error_and_its_neighbours_their_answers(line: str, tb: Tb) -> None:
    first, bad, last = answers(tb, GOOD, line, GOOD, code=2)
    assert first == last == {"id": "good", "result": 0}
    assert bad["error"]["error"] == "Invalid"
    assert len(bad["error"]["message"]) < 500


@pytest.mark.parametrize("line", REFUSED_LINES.values(), ids=REFUSED_LINES)
def test_a_request_that_is_refused_gets_one_error_and_its_neighbours_their_answers(line: str, tb: Tb) -> None:
    first, bad, last = answers(tb, GOOD, line, GOOD)
    assert first == last == {"id": "good", "result": 0}
    assert bad["error"]["error"] in ("Invalid", "NotFound")


def test_blank_lines_and_a_last_line_without_an_end_are_no_trouble(tb: Tb) -> None:
    answer = tb("batch", stdin=f"\n  \n{GOOD}\r\n\n{GOOD}")
    assert [json.loads(line)["id"] for line in answer.out.splitlines()] == ["good", "good"]


@pytest.mark.parametrize(
    "id", ['"\\ud800"', "[[[1]]]", '{"a": null}', "1.5", "true", "null", '"ü"', "12345678901234567890"]
)
def test_an_id_comes_back_as_it_was(id: str, tb: Tb) -> None:
    found = answers(tb, f'{{"id": {id}, "method": "events.last"}}', GOOD)
    assert found[0]["id"] == json.loads(id)
    assert found[1]["result"] == 0


def test_an_id_of_any_depth_does_not_end_the_batch(tb: Tb) -> None:
    lines = [f'{{"id": {"[" * depth}{"]" * depth}, "method": "events.last"}}' for depth in range(900, 1010)]
    answer = tb("batch", stdin="\n".join([*lines, GOOD]))
    assert (answer.code, answer.err) == (2, "")
    found = answer.out.splitlines()
    assert len(found) == len(lines) + 1
    assert json.loads(found[-1]) == {"id": "good", "result": 0}


def test_answers_come_in_the_order_of_the_lines(tb: Tb) -> None:
    lines = [request("tasks.post", i, name=f"task {i}") if i % 3 else "nonsense" for i in range(1500)]
    found = answers(tb, *lines, code=2)
    assert [each["id"] for each in found] == [i if i % 3 else None for i in range(1500)]
    assert [each["result"]["name"] for each in found if "result" in each] == [f"task {i}" for i in range(1500) if i % 3]


def test_what_arrives_together_is_one_transaction(tb: Tb, board: tiebreak.Board) -> None:
    """Whoever looks meanwhile sees all of it or nothing."""
    seen = set()
    over = threading.Event()

    def look() -> None:
        with tiebreak.open(board.engine.address, agent="eve~1", project="demo") as other:
            while not over.is_set():
                seen.add(other.events.last())

    watcher = threading.Thread(target=look)
    watcher.start()
    answers(tb, *(request("tasks.post", name=f"task {i}") for i in range(500)))
    over.set()
    watcher.join()
    assert len(board.events.read(limit=1000)) == 500
    assert seen <= {0, 500}


def test_a_refusal_undoes_its_own_line_alone(tb: Tb, board: tiebreak.Board) -> None:
    board.holds.take(resources=["lock:b"])
    found = answers(
        tb,
        request("tasks.post", 1, name="before"),
        request("holds.take", 2, resources=["lock:a", "lock:b"], agent="bob~1"),
        request("tasks.post", 3, name="after"),
    )
    assert ["result" in each for each in found] == [True, False, True]
    assert found[1]["error"]["holder"] == "me"
    assert [hold.resource for hold in board.holds.list()] == ["lock:b"]
    assert [task.name for task in board.tasks.list()] == ["after", "before"]


def test_a_line_sees_what_the_one_before_did(tb: Tb) -> None:
    found = answers(
        tb, request("tasks.claim", ref="work"), request("tasks.complete", ref="work"), request("tasks.get", ref="work")
    )
    assert [each["result"]["state"] for each in found] == ["claimed", "completed", "completed"]


def ask(running: subprocess.Popen[str], line: str) -> dict[str, Any]:
    assert running.stdin
    assert running.stdout
    running.stdin.write(line + "\n")
    return json.loads(running.stdout.readline())


def test_a_program_may_talk_line_by_line(tb: Tb) -> None:
    with tb.start("batch") as running:
        for i in range(20):
            assert ask(running, request("tasks.post", i, name=f"task {i}"))["id"] == i
        assert len(tb.json("tasks")) == 20, "each line is there for others as soon as it is answered"
        assert running.stdin
        running.stdin.close()
        assert running.wait(PATIENCE) == 0


def test_half_a_line_is_waited_for(tb: Tb) -> None:
    with tb.start("batch") as running:
        assert running.stdin
        assert running.stdout
        running.stdin.write(GOOD[:10])
        running.stdin.flush()
        running.stdin.write(GOOD[10:] + "\n")
        assert json.loads(running.stdout.readline())["result"] == 0


def test_others_work_on_the_board_between_two_lines(tb: Tb) -> None:
    with tb.start("batch") as running:
        ask(running, request("tasks.post", name="work", key="work"))
        tb.ok("claim", "work", "--as", "bob")
        assert ask(running, request("tasks.claim", ref="work"))["error"]["holder"] == "bob"


def test_a_repeated_line_is_done_once(tb: Tb) -> None:
    """Whoever asks for that must not be ignored: a program repeats a line because it does not know."""
    line = json.dumps({"id": 1, "method": "tasks.post", "params": {"name": "x"}, "once": "key-0000-0001"})
    first, second = answers(tb, line, line)
    assert first["result"]["number"] == second["result"]["number"]
    assert answers(tb, line)[0]["result"]["number"] == first["result"]["number"]
    assert len(tb.json("tasks")) == 1


def test_an_unknown_field_of_a_request_is_not_ignored(tb: Tb) -> None:
    line = '{"id": 1, "method": "tasks.post", "parms": {"name": "x"}}'
    (answer,) = answers(tb, '{"id": 1, "method": "events.last", "onec": "key-0000-0001"}', code=2)
    assert "onec" in answer["error"]["message"]
    assert "error" in answers(tb, line, code=2)[0]


def test_a_reader_that_goes_away_ends_the_batch_quietly(tb: Tb) -> None:
    with tb.start("batch") as running:
        ask(running, GOOD)
        assert running.stdin
        assert running.stdout
        assert running.stderr
        running.stdout.close()
        running.stdin.write(GOOD + "\n")
        until(lambda: running.poll() is not None, "the batch ends")
        assert running.stderr.read() == ""
