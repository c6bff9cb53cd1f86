"""A claim stays a probe of one index on a large board: the plans of the very statements that the engine sends.

`auto_explain` tells the plan of each statement as it runs, so nothing is planned that would not have been, and both
kinds are looked at: those made for the values at hand, and the generic ones that prepared statements come to use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

import tiebreak
from tiebreak import Board, Lost, Refused

from ..postgres import WRITES
from .conftest import engine_of, new_database

TASKS, EVENTS, HOLDS, REFUSALS = 200_000, 60_000, 20_000, 20_000
BIG = {"tasks", "events", "holds", "edges"}
ID = "'0190a000-0000-7000-8000-' || lpad(to_hex(n), 12, '0')"

# Most tasks have ended long ago; the others are ready, claimed, delayed or blocked, in ten projects. Among those that
# are ready, project p1 has jobs with commands, p4 jobs that call a function, and p6 tasks of groups with a limit.
LOAD = f"""
INSERT INTO tasks (id, project, kind, name, key, queue, priority, state, holder, epoch, until, attempts, max_attempts,
                   backoff, ready_at, tags, created_at, updated_at, finished_at, callee, command, limit_group,
                   limit_size, aside, look_at)
SELECT {ID}, 'p' || n % 10, CASE WHEN n % 3 = 0 THEN 'task' ELSE 'kind' || n % 7 END, 'task ' || n,
       CASE WHEN n % 2 = 0 THEN 'key-' || n END, CASE WHEN n % 4 < 2 THEN 'default' ELSE 'queue' || n % 5 END, n % 4,
       s, CASE WHEN s = 'claimed' THEN 'a~1' END, 1, CASE WHEN s = 'claimed' THEN 9e15 ELSE 0 END, 0, 3,
       1000000, CASE WHEN s = 'pending' AND n % 50 = 7 THEN 9e15 ELSE 0 END,
       CASE WHEN n % 20 = 1 THEN ' slow tag' || n % 11 || ' ' ELSE '' END, n, n,
       CASE WHEN s = 'completed' THEN n ELSE 0 END,
       CASE n % 100 WHEN 91 THEN '' WHEN 96 THEN '' WHEN 94 THEN 'mail.send' END,
       CASE WHEN n % 100 IN (91, 94, 96) THEN '"true"' END,
       CASE WHEN n % 100 = 96 THEN 'g' || n % 3 END, CASE WHEN n % 100 = 96 THEN 2 ELSE 0 END,
       CASE WHEN n % 100 = 96 THEN 1 ELSE 0 END, CASE WHEN s = 'claimed' THEN 9e15 ELSE 0 END
FROM (SELECT n, CASE WHEN n % 100 < 85 THEN 'completed' WHEN n % 100 < 97 THEN 'pending'
      WHEN n % 100 < 99 THEN 'claimed' ELSE 'blocked' END AS s FROM generate_series(1, {TASKS}) AS n) AS rows
"""
MORE = f"""
INSERT INTO events (number, at, event, project, subject, epoch)
SELECT n, n, 'task.claimed', 'p' || n % 10, {ID}, 1 FROM generate_series(1, {EVENTS}) AS n;
INSERT INTO events (number, at, event, project, subject, epoch)
SELECT {EVENTS} + n, n, CASE n WHEN 1 THEN 'hold.taken' ELSE 'hold.refused' END, 'p0', 'lock:20', 1
FROM generate_series(1, {REFUSALS}) AS n;
SELECT setval('events_number', {EVENTS} + {REFUSALS});
INSERT INTO holds (project, resource, slot, holder, epoch, until)
SELECT 'p' || n % 10, 'lock:' || n, 0, CASE WHEN n % 20 = 0 THEN 'b~1' END, 1, CASE WHEN n % 20 = 0 THEN 9e15 ELSE 0 END
FROM generate_series(1, {HOLDS}) AS n;
INSERT INTO edges (task, after) SELECT n + 1, n FROM generate_series(1, {HOLDS}) AS n WHERE n % 100 < 80;
ANALYZE tasks; ANALYZE events; ANALYZE holds; ANALYZE edges;
"""


@pytest.fixture(scope="module")
def large() -> Iterator[str]:
    """A board with many tasks. The indexes are made when the rows are there: that is several times faster."""
    with new_database() as address:
        tiebreak.open(address).close()
        with psycopg.connect(address, autocommit=True, options=WRITES) as raw:
            raw.execute("SET synchronous_commit = off; SET maintenance_work_mem = '256MB'")
            indexes = raw.execute(
                "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'tasks' AND indexname NOT LIKE '%key' "
                "AND indexname <> 'tasks_pkey'"
            ).fetchall()
            for name, _ in indexes:
                raw.execute(f"DROP INDEX {name}")
            raw.execute(LOAD)
            for _, definition in indexes:
                raw.execute(definition)
            raw.execute(MORE)
        yield address


class Explained:
    """A board whose engine is told the plan of each statement by the server."""

    def __init__(self, address: str, mode: str) -> None:
        settings = {
            "session_preload_libraries": "auto_explain",
            "auto_explain.log_min_duration": "0",
            "auto_explain.log_format": "json",
            "auto_explain.log_level": "notice",
            "auto_explain.log_analyze": "on",
            "auto_explain.log_timing": "off",
            "plan_cache_mode": mode,
            "jit": "off",
        }
        options = quote(" ".join(f"-c{name}={value}" for name, value in settings.items()))
        self.board = tiebreak.open(f"{address}&options={options}", agent="alice~1", project="p1")
        self.plans: list[dict[str, Any]] = []
        engine = engine_of(self.board)
        connect = engine._connect
        engine._forget_idle()

        def connected() -> Any:
            made = connect()
            made.add_notice_handler(self._told)
            return made

        engine._connect = connected  # type: ignore[method-assign]

    def _told(self, notice: Any) -> None:
        _, mark, plan = notice.message_primary.partition("plan:\n")
        if mark:
            self.plans.append(json.loads(plan))

    def of(self, call: Callable[[Board], Any]) -> list[dict[str, Any]]:
        """The nodes of all plans that a call brings about; the first runs are those before it is prepared."""
        for _ in range(3):
            call(self.board)
        self.plans.clear()
        call(self.board)
        assert self.plans, "the server told no plan"
        return [node for plan in self.plans for node in _nodes(plan["Plan"])]


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from _nodes(part)


def check(nodes: list[dict[str, Any]], *indexes: str) -> None:
    """No big table is read from end to end, nothing is sorted that is in order, and these indexes are used."""
    scans = {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}
    assert not scans & BIG, f"reads all of {scans & BIG}"
    used = {node["Index Name"] for node in nodes if "Index Name" in node}
    assert set(indexes) <= used, f"{set(indexes) - used} not used, but {used}"


def quickly(nodes: list[dict[str, Any]]) -> None:
    """Nothing is sorted before the first rows are picked."""
    assert not [node for node in nodes if "Sort" in node["Node Type"] and node["Plan Rows"] > 100]


@pytest.fixture(scope="module", params=["force_custom_plan", "force_generic_plan"])
def explained(large: str, request: pytest.FixtureRequest) -> Iterator[Explained]:
    made = Explained(large, request.param)
    yield made
    made.board.close()


def ready(n: int) -> int:
    """The number of a pending task in project p3, another one for each n."""
    return n * 100 + 93


_used = iter(range(1, 9000))


def claim_by_number(board: Board) -> None:
    board.tasks.claim(ref=f"#{ready(next(_used))}", project="p3")


def claim_by_id(board: Board) -> None:
    board.tasks.claim(ref=f"0190a000-0000-7000-8000-{ready(next(_used)):012x}", project="p3")


def claim_by_key(board: Board) -> None:
    board.tasks.claim(ref=f"key-{next(_used) * 100 + 92}", project="p2")


CLAIMS: dict[str, tuple[Callable[[Board], Any], list[str]]] = {
    "by number": (claim_by_number, ["tasks_pkey"]),
    "by id": (claim_by_id, ["tasks_id_key"]),
    "by key": (claim_by_key, ["tasks_key"]),
}
NEXTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "anything": ({}, ["tasks_ready", "tasks_pkey"]),
    "ten of anything": ({"count": 10}, ["tasks_ready", "tasks_pkey"]),
    "of a kind": ({"kind": "kind3"}, ["tasks_ready_kind", "tasks_pkey"]),
    "of a queue": ({"queue": "queue2"}, ["tasks_ready_queue", "tasks_pkey"]),
    "of a kind in a queue": ({"kind": "kind3", "queue": "queue2"}, ["tasks_ready_both", "tasks_pkey"]),
    "with a tag": ({"tag": "slow"}, ["tasks_ready_tagged", "tasks_pkey"]),
}


@pytest.mark.parametrize("how", CLAIMS)
def test_a_claim_probes_one_index(explained: Explained, how: str) -> None:
    call, indexes = CLAIMS[how]
    check(explained.of(call), *indexes)


@pytest.mark.parametrize("what", NEXTS)
def test_the_next_task_is_found_in_the_order_of_an_index(explained: Explained, what: str) -> None:
    filters, indexes = NEXTS[what]
    nodes = explained.of(lambda board: board.tasks.next(**filters))
    check(nodes, *indexes)
    quickly(nodes)


JOBS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "of a queue": ({"queues": ["queue1"]}, ["tasks_ready_jobs", "tasks_pkey"]),
    "a hundred": ({"queues": ["queue1"], "count": 100}, ["tasks_ready_jobs", "tasks_pkey"]),
    "of several queues": ({"queues": ["queue1", "queue2", "default"]}, ["tasks_ready_jobs", "tasks_pkey"]),
    "of any queue": ({}, ["tasks_ready_jobs", "tasks_pkey"]),
    "for a function": ({"project": "p4", "calls": ["mail.send"]}, ["tasks_ready_jobs", "tasks_pkey"]),
}


@pytest.mark.parametrize("what", JOBS)
def test_the_next_jobs_are_found_in_the_order_of_an_index(explained: Explained, what: str) -> None:
    filters, indexes = JOBS[what]
    nodes = explained.of(lambda board: board.jobs.next(**filters))
    check(nodes, *indexes)
    quickly(nodes)


def test_groups_that_were_stirred_are_found_by_skipping(explained: Explained) -> None:
    def one_of_them(board: Board) -> None:
        [task] = board.tasks.next(project="p6", kind="job")
        board.tasks.release(ref=task.id, epoch=task.epoch)

    explained.board.jobs.submit_many(jobs=[{"command": "true", "limit": "g1=2"} for _ in range(3)], project="p6")
    nodes = explained.of(one_of_them)
    check(nodes, "tasks_ready_limited", "tasks_limited", "stirred_rank")
    assert touched(nodes) < 100, "it passes by a backlog"


def test_nobody_passes_by_the_backlog_of_a_paused_queue(explained: Explained) -> None:
    explained.board.queues.pause(queue="default", project="p2")
    explained.board.tasks.post(name="behind all of them", queue="other", project="p2", priority="low")
    won: list[Any] = []
    nodes = explained.of(lambda board: won.append(board.tasks.next(project="p2")))
    check(nodes, "tasks_ready_queue")
    assert [len(each) for each in won] == [1, 0, 0, 0]
    assert touched(nodes) < 100, "it passes by a backlog"


def touched(nodes: list[dict[str, Any]]) -> float:
    """How many rows of tasks were looked at."""
    reads = [node for node in nodes if node.get("Relation Name") == "tasks" and "Index Name" in node]
    return float(sum((n["Actual Rows"] + n.get("Rows Removed by Filter", 0)) * n["Actual Loops"] for n in reads))


def test_jobs_are_kept_and_reported_by_their_numbers(explained: Explained) -> None:
    mine = explained.board.jobs.next(queues=["queue1"], count=100)
    grants = [(job.number, job.epoch) for job in mine]
    check(explained.of(lambda board: board.jobs.heartbeat(grants=grants)), "tasks_pkey")
    parts = iter([grants[i : i + 25] for i in range(0, 100, 25)])

    def report(board: Board) -> None:
        outcomes = [{"number": n, "epoch": e, "ok": True, "result": n} for n, e in next(parts)]
        assert all(answer["accepted"] for answer in board.jobs.report(outcomes=outcomes))

    check(explained.of(report), "tasks_pkey", "edges_after")


def test_a_refusal_passes_by_no_refusals_before_it(explained: Explained) -> None:
    def refused(board: Board) -> None:
        with pytest.raises(Lost):
            board.holds.take(resources=["lock:20"], project="p0")

    nodes = explained.of(refused)
    check(nodes, "events_granted")
    assert "events_subject" not in {node.get("Index Name") for node in nodes}


def test_keeping_and_finishing_a_task_probe_one_index(explained: Explained) -> None:
    mine = [explained.board.tasks.next()[0] for _ in range(4)]
    check(explained.of(lambda board: board.tasks.extend(ref=mine[0].id, epoch=mine[0].epoch)), "tasks_id_key")
    left = iter(mine)
    check(
        explained.of(lambda board: board.tasks.complete(ref=f"#{(task := next(left)).number}", epoch=task.epoch)),
        "tasks_pkey",
        "edges_after",
    )


def test_taking_and_renewing_a_hold_probe_one_index(explained: Explained) -> None:
    fresh = iter([f"lock:{next(_used) * 20 + 1}" for _ in range(4)])
    check(explained.of(lambda board: board.holds.take(resources=[next(fresh)])), "holds_pkey")
    explained.board.holds.take(resources=["lock:new"], again=True)
    check(explained.of(lambda board: board.holds.renew(resources=["lock:new"])), "holds_pkey")


def test_losing_a_race_probes_two_indexes(explained: Explained) -> None:
    def lose(board: Board) -> None:
        with pytest.raises(tiebreak.Lost):
            board.tasks.claim(ref="#97", project="p7")

    check(explained.of(lose), "tasks_pkey", "events_granted")


@pytest.mark.parametrize("after", [10, EVENTS - 50])
def test_events_after_a_number_are_read_from_there_on(explained: Explained, after: int) -> None:
    nodes = explained.of(lambda board: board.events.read(after=after, limit=50))
    check(nodes, "events_pkey")
    quickly(nodes)


@contextmanager
def without(address: str, index: str) -> Iterator[None]:
    """The same board without an index, for a while."""
    with psycopg.connect(address, autocommit=True) as raw:
        [(definition,)] = raw.execute("SELECT indexdef FROM pg_indexes WHERE indexname = %s", (index,)).fetchall()
        raw.execute(f"DROP INDEX {index}")
        try:
            yield
        finally:
            raw.execute(definition)


@pytest.mark.parametrize(
    ("index", "call"),
    [
        ("tasks_key", claim_by_key),
        ("tasks_ready", lambda board: board.tasks.next()),
        ("tasks_ready_kind", lambda board: board.tasks.next(kind="kind3")),
        ("tasks_ready_tagged", lambda board: board.tasks.next(tag="slow")),
    ],
)
def test_the_checks_above_notice_when_an_index_is_gone(
    large: str, explained: Explained, index: str, call: Callable[[Board], Any]
) -> None:
    with without(large, index), pytest.raises(AssertionError, match=r"reads all of|not used"):
        check(explained.of(call), index)


def test_a_long_chain_is_followed_by_its_index_on_a_board_without_statistics() -> None:
    """Else each link of the chain reads all edges: 5,000 links took 7 seconds."""
    with new_database() as address, psycopg.connect(address, autocommit=True, options=WRITES) as raw:
        explained = Explained(address, "auto")
        board = explained.board
        posted = board.batch([("tasks.post", {"name": "link"}) for _ in range(500)])
        raw.execute("ALTER TABLE edges SET (autovacuum_enabled = off)")
        raw.execute("INSERT INTO edges (task, after) SELECT number, number - 1 FROM tasks WHERE number > 1")
        first, last = (board.tasks.get(ref=posted[i].id) for i in (0, -1))

        def close_the_circle(board: Board) -> None:
            with pytest.raises(Refused, match="circle"):
                board.tasks.depend(ref=first.id, after=[last.id])

        nodes = explained.of(close_the_circle)
        joins = {
            node["Node Type"] for node in nodes if "Join" in node["Node Type"] or node["Node Type"] == "Nested Loop"
        }
        assert joins == {"Nested Loop"}
        scans = [node for node in nodes if node.get("Relation Name") == "edges"]
        assert {node["Node Type"] for node in scans} <= {"Index Scan", "Index Only Scan"}
        board.close()


def test_the_timeline_reads_a_window_of_the_log_and_not_the_rest(explained: Explained) -> None:
    nodes = explained.of(lambda board: board.events.timeline(project="p1", limit=100))
    check(nodes, "events_pkey", "tasks_claimed", "holds_live")
    read = [node for node in nodes if node.get("Relation Name") == "events" and node.get("Index Name") == "events_pkey"]
    assert sum(n["Actual Rows"] + n.get("Rows Removed by Filter", 0) for n in read) <= 20_001


def test_the_figures_of_queues_read_a_window_of_the_log_and_not_the_rest(explained: Explained) -> None:
    nodes = explained.of(lambda board: board.queues.figures(project="p1"))
    check(nodes, "events_pkey", "tasks_claimed")
    read = [node for node in nodes if node.get("Relation Name") == "events"]
    assert sum(n["Actual Rows"] + n.get("Rows Removed by Filter", 0) for n in read) <= 50_002
