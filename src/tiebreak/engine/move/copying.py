"""Copying the rows of a board from one end of a move to the other, in the one transaction of the target."""

from __future__ import annotations

from ..schema import TABLES
from .endpoints import AT_ONCE, counts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .endpoints import Endpoint, Row

    Progress = Callable[[int, int], None]

JITTER = 100_000
"""By how many microseconds two readings of the clocks may differ although nobody has set one."""


class RowCopy:
    """The rows on their way: the history first, while others still write; then the rest, with the others locked out."""

    def __init__(self, old: Endpoint, new: Endpoint, progress: Progress | None, shift: int | None = None) -> None:
        self._old, self._new = old, new
        self._progress = progress
        self._done, self._total = 0, sum(counts(old).values())
        self._upto = 0
        """The last event that was copied while others were writing."""
        self._shift = self._difference() if shift is None else shift

    def _difference(self) -> int:
        before = self._old.now()
        return self._new.now() - before  # in this order, so that a lease is rather a moment too long than too short

    def events_so_far(self) -> None:
        """Most of a board is its history, which nobody changes: that part is copied before anybody has to wait."""
        self._upto = self._old.snapshot()
        self._copy("events", f"number <= {self._upto}")
        self._old.rows("ROLLBACK")

    def everything_else(self) -> tuple[dict[str, int], int]:
        """With the others locked out: how many rows there are, and by how much their times were shifted."""
        self._check_events()
        rows = self.all_tables()
        number = self._old.last_event() + 1
        self._new.rows(
            "INSERT INTO events (number, at, event, project, name, note) VALUES (?, ?, 'board.moved', '', ?, ?)",
            *(number, self._new.now(), str(self._new), f"from {self._old}"),
        )
        self._new.go_on_numbering(number)
        return rows, self._shift

    def _check_events(self) -> None:
        """Start anew if some were pruned meanwhile, or somebody set a clock."""
        shift = self._difference()
        known = f"SELECT count(*), min(number) FROM events WHERE number <= {self._upto}"  # noqa: S608
        if self._old.rows(known) != self._new.rows(known) or abs(shift - self._shift) > JITTER:
            self._new.rows("DELETE FROM events")
            self._upto, self._shift = 0, shift

    def all_tables(self) -> dict[str, int]:
        """All rows that have not been copied yet."""
        for table in TABLES:
            if table == "stirred":  # the tasks that were copied have left rows there, by a trigger
                self._new.rows("DELETE FROM stirred")
            self._copy(table, f"number > {self._upto}" if table == "events" else "TRUE")
        return counts(self._old)

    def _copy(self, table: str, where: str) -> None:
        columns = self._new.columns(table)
        for some in _batches(self._old.all(table, columns, where)):
            self._new.fill(table, columns, _travelling(some, columns, self._shift))
            self._done += len(some)
            if self._progress is not None:
                self._progress(self._done, max(self._done, self._total))


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    some = []
    for row in rows:
        some.append(row)
        if len(some) == AT_ONCE:
            yield some
            some = []
    if some:
        yield some


def _travelling(rows: list[Row], columns: list[str], shift: int) -> list[Row]:
    """Rows with their times by the target's clock; 0 means none by any clock."""
    times = {at for at, name in enumerate(columns) if name in ("at", "until") or name.endswith("_at")}
    return [tuple(v + shift if at in times and v else v for at, v in enumerate(row)) for row in rows]
