"""On PostgreSQL, too, `next` looks at as many rows behind ten thousand of something as behind a hundred.

Counted are the rows that the server itself says it has read for each statement, not the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

import tiebreak
from tests.conformance.crowds import CROWDS, statements

from ..postgres import WRITES
from .conftest import new_database
from .test_plans import Explained

FEW, MANY = 100, 10_000
CALLS: dict[str, Callable[..., Any]] = {
    "jobs.next": lambda board, project: board.jobs.next(project=project, lease=600.0),
    "jobs.next of a queue": lambda board, project: board.jobs.next(project=project, queues=["default"], lease=600.0),
    "tasks.next": lambda board, project: board.tasks.next(project=project, lease=600.0),
    "tasks.due": lambda board, project: board.tasks.due(project=project),
}


@pytest.fixture(scope="module")
def crowded() -> Iterator[str]:
    with new_database() as address:
        tiebreak.open(address).close()
        with psycopg.connect(address, autocommit=True, options=WRITES) as raw:
            raw.execute("SET synchronous_commit = off")
            for crowd in CROWDS:
                for many in (FEW, MANY):
                    for statement in statements(f"{crowd}-{many}", crowd, many):
                        raw.execute(statement.encode())
            raw.execute(
                "DELETE FROM stirred WHERE project <> ALL (%s)", ([f"groups-with-room-{n}" for n in (FEW, MANY)],)
            )
            raw.execute("VACUUM ANALYZE tasks, edges, queues, stirred")
        yield address


@pytest.fixture(scope="module", params=["force_custom_plan", "force_generic_plan"])
def explained(crowded: str, request: pytest.FixtureRequest) -> Iterator[Explained]:
    made = Explained(crowded, request.param)
    yield made
    made.board.close()


def rows_read(nodes: list[dict[str, Any]]) -> float:
    """How many rows of tables and indexes were looked at."""
    return float(
        sum(
            (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            for node in nodes
            if "Relation Name" in node and node["Node Type"] != "ModifyTable"
        )
    )


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("crowd", CROWDS)
def test_next_reads_as_few_rows_behind_ten_thousand(explained: Explained, crowd: str, name: str) -> None:
    few, many = (rows_read(explained.of(partial(CALLS[name], project=f"{crowd}-{size}"))) for size in (FEW, MANY))
    assert many < few * 2 + 50, f"{few} rows behind {FEW} {crowd}, {many} rows behind {MANY}"
