"""docs/statements.sql is generated: it must show the statements that the operations send, whole and readable."""

from __future__ import annotations

import re
from pathlib import Path

from tools.statements.layout import pretty
from tools.statements.page import page
from tools.statements.samples import REPEATED, SPAWNED, STORIES, Call

from tiebreak.operations import every

DOCS = Path(__file__).parents[2] / "docs"

_NOTHING = "\n-- Sends no statement of its own."
STATEMENTS = (DOCS / "statements.sql").read_text(encoding="utf-8")


def test_statements_that_have_drifted_from_the_code_are_noticed() -> None:
    assert page() == STATEMENTS, "run `make docs` to renew docs/statements.sql"


def test_no_operation_goes_without_a_sample() -> None:
    """Without one, the page would say that the operation sends nothing."""
    calls = [*REPEATED, *SPAWNED, *(each for story in STORIES.values() for each in story)]
    assert set(every()) - {each.name for each in calls if isinstance(each, Call)} == set()


def test_no_operation_goes_without_a_statement() -> None:
    blocks = re.split(r"\n-- =+\n-- (\S+) \((?:reads|writes)", STATEMENTS)
    shown = dict(zip(blocks[1::2], blocks[2::2], strict=True))
    assert list(shown) == list(every())
    for operation, block in shown.items():
        told = (f"\n-- {operation} (1), ", "\n-- Also sends:", "\n-- Sends only the insert of its events.", _NOTHING)
        assert any(each in block for each in told), operation


def test_no_fragment_or_placeholder_is_left() -> None:
    statements = "\n".join(line for line in STATEMENTS.split("\n") if not line.startswith("--"))
    assert not re.search(r"[{}%?]", statements)


def test_layout_changes_nothing_but_white_space() -> None:
    sql = (
        "WITH given (n, r) AS (VALUES (:n_aaa, :r_aaa)) UPDATE tasks SET state = CASE WHEN given.r = 'a (b' THEN 1 "
        "WHEN (given.r <> 'it''s' AND until <= 0) THEN 2 ELSE 3 END, until = (extract(epoch FROM now()) * 10)::bigint "
        "FROM given WHERE number = given.n AND (holder IS NULL OR until <= :now) AND EXISTS (SELECT 1 FROM edges JOIN "
        "tasks AS later ON later.number = edges.task WHERE edges.after = tasks.number AND later.agent IS NOT DISTINCT "
        "FROM :agent ORDER BY edges.task DESC LIMIT 1 FOR UPDATE OF tasks SKIP LOCKED) RETURNING number, id, project"
    )
    assert re.sub(r"\s", "", pretty(sql)) == re.sub(r"\s", "", sql)
    assert max(map(len, pretty(sql).split("\n"))) <= 120
