"""Sixteen clients, sixteen tasks, one daemon: the race over real connections, whichever way they come in."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemons import Serving
from tiebreak import Lost
from tiebreak.user_folders import token_for

from . import checkers
from .crew import PROJECT, race
from .places import served
from .scenarios import Run, claimer, open_board, post, told_right, wins

TASKS = 16
CLIENTS = [f"client-{i}" for i in range(16)]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Serving]:
    """A daemon with sixteen tasks on its board."""
    with served(tmp_path) as made:
        with open_board(made.url) as board:
            post(board, TASKS)
        yield made


def refs_on(daemon: Serving) -> list[str]:
    """The tasks to be won, in the order in which everybody reaches for them."""
    with open_board(daemon.url) as board:
        return [task.id for task in board.tasks.list()]


def judge(daemon: Serving, refs: list[str], reports: Iterable[Any]) -> None:
    """Sixteen wins, one for each task; whoever lost knows the winner; and the log tells the same."""
    reports = list(reports)
    won = wins(CLIENTS, reports)
    assert sum(len(w) + len(lost) for w, lost in reports) == len(CLIENTS) * TASKS
    assert len(won) == TASKS
    checkers.one_winner_each(won, refs)
    assert told_right(won, reports)
    with open_board(daemon.url) as board:
        events = checkers.read_log(board)
        checkers.numbered_without_gap(events)
        checkers.one_holder_at_a_time(events)
        checkers.log_agrees(events, [checkers.Grant(ref, 0, 1, agent) for ref, agent in won])
        assert {task.id: task.holder for task in board.tasks.list()} == dict(won)
        checkers.sound(board)


def test_sixteen_processes_over_tcp_win_sixteen_tasks(daemon: Serving) -> None:
    refs = refs_on(daemon)
    judge(daemon, refs, race(claimer, [(daemon.url, agent, refs) for agent in CLIENTS]))


def test_sixteen_processes_over_the_unix_socket_win_sixteen_tasks(daemon: Serving) -> None:
    refs = refs_on(daemon)
    judge(daemon, refs, race(claimer, [(f"unix:{daemon.socket}", agent, refs) for agent in CLIENTS]))


def test_those_who_use_the_file_and_those_who_ask_the_daemon_race_fairly(daemon: Serving) -> None:
    refs = refs_on(daemon)
    ways = [os.fspath(daemon.board), daemon.url, os.fspath(daemon.board), f"unix:{daemon.socket}"]
    judge(daemon, refs, race(claimer, [(ways[i % 4], agent, refs) for i, agent in enumerate(CLIENTS)]))


def raw_claimer(port: int, agent: str, refs: list[str]) -> Run:
    """Reach for every task in plain JSON-RPC, all on one connection that is kept open."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Authorization": f"Bearer {token_for('127.0.0.1', port)}", "Content-Type": "application/json"}
    connection.connect()
    first = connection.sock
    yield
    won, lost = [], []
    for number, ref in enumerate(refs):
        params = {"ref": ref, "agent": f"{agent}~1", "project": PROJECT, "create": False}
        request = {"jsonrpc": "2.0", "id": number, "method": "tasks.claim", "params": params}
        connection.request("POST", "/rpc", json.dumps(request), headers)
        answer = json.loads(connection.getresponse().read())
        assert answer["id"] == number
        if "error" in answer:
            assert answer["error"]["code"] == -32001, answer
            lost.append((ref, answer["error"]["data"]["holder"]))
        else:
            won.append(answer["result"]["id"])
    assert connection.sock is first, "the connection was not kept"
    connection.close()
    return won, lost


def test_sixteen_kept_connections_win_sixteen_tasks_in_plain_json_rpc(daemon: Serving) -> None:
    refs = refs_on(daemon)
    judge(daemon, refs, race(raw_claimer, [(daemon.port, agent, refs) for agent in CLIENTS]))


def batcher(address: str, agent: str, refs: list[str]) -> Run:
    """Reach for all of them with one request."""
    board = open_board(address, agent)
    yield
    answers = board.batch([("tasks.claim", {"ref": ref, "create": False}) for ref in refs])
    lost = [(ref, answer.holder) for ref, answer in zip(refs, answers, strict=True) if isinstance(answer, Lost)]
    return [answer.id for answer in answers if not isinstance(answer, Exception)], lost


def test_sixteen_batches_of_the_same_sixteen_claims_win_each_task_once(daemon: Serving) -> None:
    refs = refs_on(daemon)
    orders = [refs[i:] + refs[:i] for i in range(len(CLIENTS))]
    judge(daemon, refs, race(batcher, [(daemon.url, agent, orders[i]) for i, agent in enumerate(CLIENTS)]))
