"""Near keys: whether a claim that is about to post its task has a slip of the hand in its key.

What counts as near is defined in `tiebreak.spelling`. Here the near keys of a key are looked up among all keys of the
project, whatever the state of their tasks: somebody who means a finished task has to learn that it is finished.

The search reads no more than the index of keys, and its cost hardly grows with the board. A slip can only be within
what the key shares with the key before it or after it in the index, or right behind that: a known key with a later
slip would share more. So two seeks tell how many near keys have to be sought at all.

Claims that post after such a search exclude each other by a scope (see `claims`), so two that are near each other do
not miss each other on PostgreSQL. Posts need not take part: a post does not search, so it may as well have come later.
"""

from __future__ import annotations

from ..errors import Refused
from ..model import Task, holder_id, record
from ..names import short, shown
from ..spelling import SHORTEST, cases, common_start, slips
from .references import SHOWN
from .rows import among

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Transaction

_TOLD = 3
"""How many near keys a refusal names."""
_LAST = "\U0010ffff"
_BESIDE = (
    "SELECT (SELECT key FROM tasks WHERE project = :project AND key < :key ORDER BY key DESC LIMIT 1), "
    "(SELECT key FROM tasks WHERE project = :project AND key > :key ORDER BY key LIMIT 1)"
)
_LONGER = "spelled.start || substr(CASE WHEN letters.high = 0 THEN :low ELSE :high END, spelled.size + 1, 1)"
# Follows the index from the first character to the last, as long as some key begins like this.
_CASES = (
    f"WITH RECURSIVE spelled (size, start) AS (SELECT 0, '' UNION SELECT spelled.size + 1, {_LONGER} "
    "FROM spelled CROSS JOIN (SELECT 0 AS high UNION ALL SELECT 1) AS letters WHERE spelled.size < :length AND EXISTS "
    f"(SELECT 1 FROM tasks WHERE project = :project AND key >= {_LONGER} AND key < {_LONGER} || :last)) "
    "SELECT start FROM spelled WHERE size = :length"
)


def refuse_near(tx: Transaction, key: str, project: str) -> None:
    """Refuse a new key that is near a known one; the refusal names the task that may have been meant."""
    found = near_tasks(tx, key, project)
    if not found:
        return
    meant = found[0]
    told = ", ".join(f"{shown(task.key)} ({_facts(task)})" for task in found[:_TOLD])
    holder = holder_id(meant) if meant.state == "claimed" else None
    raise Refused(
        f"no task has the key {shown(key)}, but there is {told}",
        reason="key-near",
        key=key,
        meant=meant.key,
        number=meant.number,
        state=meant.state,
        holder=None if holder is None else short(holder),
    )


def _facts(task: Task) -> str:
    return f"#{task.number}, {task.state}" + (f" by {task.holder}" if task.state == "claimed" and task.holder else "")


def near_tasks(tx: Transaction, key: str, project: str) -> list[Task]:
    """The tasks of a project whose keys are near this one: open ones first, then the newest."""
    if len(key) < SHORTEST:
        return []
    beside = tx.first(_BESIDE, key=key, project=project) or ()
    if not any(beside):
        return []
    low, high = cases(key)
    spelled = tx.all(_CASES, low=low, high=high, length=len(key), last=_LAST, project=project)
    wanted = {*slips(key, common_start(key, beside)), *(start for (start,) in spelled)} - {key}
    found: list[Task] = []
    for these, params in among("key", sorted(wanted)):
        rows = tx.all(
            f"SELECT {SHOWN} FROM tasks WHERE project = :project AND key IN ({these})", project=project, **params
        )
        found += [record(Task, row) for row in rows]
    return sorted(found, key=lambda task: (task.finished_at is not None, -task.number))
