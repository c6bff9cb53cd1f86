"""On PostgreSQL, too, `next` looks at as many rows behind ten thousand of something as behind a hundred.

Counted are the rows that the server itself says it has read for each statement, not the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import tiebreak
from tests.conformance.crowds import CALLS, CROWDS, FEW, MANY, statements

from ..postgres import WRITES
from .conftest import new_database
from .test_plans import Explained


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
    def cost(size: int) -> float:
        return rows_read(explained.of(lambda board: CALLS[name](board, f"{crowd}-{size}")))

    few, many = cost(FEW), cost(MANY)
    assert many < few * 2 + 50, f"{few} rows behind {FEW} {crowd}, {many} rows behind {MANY}"
