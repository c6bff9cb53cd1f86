"""Near keys: whether a claim that is about to post its task has a slip of the hand in its key.

What counts as near is defined in `tiebreak.spelling`. Here the near keys of a key are looked up among all keys of the
project, whatever the state of their tasks: somebody who means a finished task has to learn that it is finished.

The search reads no more than the index of keys, and its cost hardly grows with the board. First it asks at which places
some known key leaves the given one: begins alike and goes on differently. These are few, and only there can a slip be.
Then it looks up the keys that a slip at one of these places makes.

Claims that post after such a search exclude each other by a scope (see `claims`), so two that are near each other do
not miss each other on PostgreSQL. Posts need not take part: a post does not search, so it may as well have come later.
"""

from __future__ import annotations

from ..errors import Refused
from ..model import Task, holder_id, record
from ..names import short, shown
from ..spelling import SHORTEST, cases, slips
from .references import SHOWN
from .rows import among

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Transaction

_TOLD = 3
"""How many near keys a refusal names."""
_LAST = "\U0010ffff"
_START = "substr(:key, 1, i)"
_NEXT = "substr(:key, 1, i + 1)"
_PLACES = (
    "WITH RECURSIVE places (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM places WHERE i < :length) SELECT i FROM places "
    f"WHERE EXISTS (SELECT 1 FROM tasks WHERE project = :project AND key >= {_START} AND key < {_NEXT}) "
    f"OR EXISTS (SELECT 1 FROM tasks WHERE project = :project AND key >= {_NEXT} || :last AND key < {_START} || :last) "
    "OR (i = :length AND EXISTS (SELECT 1 FROM tasks WHERE project = :project AND key > :key AND key < :key || :last))"
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
    this = {"project": project, "length": len(key), "last": _LAST}
    places = [i for (i,) in tx.all(_PLACES, key=key, **this)]
    if not places:
        return []
    low, high = cases(key)
    spelled = {start for (start,) in tx.all(_CASES, low=low, high=high, **this)}
    wanted = (slips(key, places) | spelled) - {key}
    found: list[Task] = []
    for these, params in among("key", sorted(wanted)):
        rows = tx.all(
            f"SELECT {SHOWN} FROM tasks WHERE project = :project AND key IN ({these})", project=project, **params
        )
        found += [record(Task, row) for row in rows]
    return sorted(found, key=lambda task: (task.finished_at is not None, -task.number))
