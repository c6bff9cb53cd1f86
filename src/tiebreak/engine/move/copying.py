"""Copying the rows of a board from the source of a move to its target, in one transaction of the target.

Most rows of a board are events, which nobody changes. So they are copied first, while others still write to the source.
The other tables are copied while the others are locked out.
"""

from __future__ import annotations

from ..schema import TABLES
from .endpoints import AT_ONCE, counts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .endpoints import Endpoint, Row

    Progress = Callable[[int, int], None]

JITTER = 100_000
"""Microseconds by which the difference of the two clocks may vary between two readings, if nobody has set a clock."""


class RowCopy:
    """Copies the rows: `events_so_far`, then `everything_else`; or `all_tables` for a backup."""

    def __init__(self, old: Endpoint, new: Endpoint, progress: Progress | None, shift: int | None = None) -> None:
        self._old, self._new = old, new
        self._progress = progress
        self._done, self._total = 0, sum(counts(old).values())
        self._upto = 0
        """The last event that `events_so_far` has copied."""
        self._shift = self._clock_difference() if shift is None else shift

    def _clock_difference(self) -> int:
        before = self._old.now()
        return self._new.now() - before  # in this order: a lease may become a moment too long, never too short

    def events_so_far(self) -> None:
        """Copy the events that are there now, while others go on writing to the source."""
        self._upto = self._old.snapshot()
        self.copy_table("events", f"number <= {self._upto}")
        self._old.rows("ROLLBACK")

    def everything_else(self) -> tuple[dict[str, int], int]:
        """Copy the other tables and the latest events, while the others are locked out.

        Returns the number of rows in each table, and by how much their times were shifted.
        """
        self._check_events()
        rows = self.all_tables()
        number = self._old.last_event() + 1
        self._new.rows(
            "INSERT INTO events (number, at, event, project, name, note) VALUES (?, ?, 'board.moved', '', ?, ?)",
            *(number, self._new.now(), str(self._new), f"from {self._old}"),
        )
        self._new.continue_numbers(number)
        return rows, self._shift

    def _check_events(self) -> None:
        """Copy all events again if some were pruned meanwhile, or if somebody set a clock."""
        shift = self._clock_difference()
        known = f"SELECT count(*), min(number) FROM events WHERE number <= {self._upto}"  # noqa: S608
        if self._old.rows(known) != self._new.rows(known) or abs(shift - self._shift) > JITTER:
            self._new.rows("DELETE FROM events")
            self._upto, self._shift = 0, shift

    def all_tables(self) -> dict[str, int]:
        """Copy all rows that have not been copied yet."""
        for table in TABLES:
            if table == "stirred":  # a trigger has added rows for the tasks that were copied
                self._new.rows("DELETE FROM stirred")
            self.copy_table(table, f"number > {self._upto}" if table == "events" else "TRUE")
        return counts(self._old)

    def copy_table(self, table: str, where: str) -> None:
        """Copy the rows of one table that fulfil a condition."""
        columns = self._new.columns(table)
        for some in _batches(self._old.read(table, columns, where)):
            self._new.insert(table, columns, _shifted(some, columns, self._shift))
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


def _shifted(rows: list[Row], columns: list[str], shift: int) -> list[Row]:
    """Rows with their times moved to the target's clock; a time of 0 means that there is none."""
    times = {at for at, name in enumerate(columns) if name in ("at", "until") or name.endswith("_at")}
    return [tuple(v + shift if at in times and v else v for at, v in enumerate(row)) for row in rows]
