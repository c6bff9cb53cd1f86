"""Restoring a backup: one transaction on the board, while everybody else is locked out.

Whoever has the board open goes on afterwards and sees the restored state. A process that dies half-way leaves the board
as it was. `restore_rules` says what happens to each table; why, is in docs/decisions/029-restore.md.

The log of events is continued with the backup's own events if that is what they are: if the board has no events, or if
its last one is in the backup, too. Otherwise the two logs tell different stories, and the board keeps its own.
"""

from __future__ import annotations

import json
import os
from tempfile import TemporaryDirectory
from typing import NamedTuple

import apsw

from ... import clock
from ...errors import Refused, Unavailable
from ...text import moment
from ..addresses import path_of, without_password
from ..closed_board import closed
from ..schema import TABLES
from . import restore_names
from . import restore_rules as rules
from .backup_file import open_backup
from .copying import RowCopy
from .endpoints import counts, explained, look
from .opening import open_endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .copying import Progress
    from .endpoints import Endpoint

HIGHEST = 10**12
"""The highest epoch that can be asked for, so that there is room for the grants after it."""
_SAME_EVENT = "SELECT event, project, subject, name, agent, epoch, note FROM events WHERE number = ?"


class Restored(NamedTuple):
    """What became of a restore."""

    outcome: str
    """`restored`, or `would` (nothing was done)."""
    board: str
    file: str
    made_at: float
    """Board time of the last event in the backup; 0 if it has none."""
    rows: dict[str, int]
    """The number of rows of each table in the backup."""
    changes: dict[str, int]
    """What is different: `claims_ended`, `holds_ended`, `tasks_changed`, `tasks_gone`, `epochs_raised` …"""
    highest_epoch: int
    """No epoch on the board is higher: the next grant of each thing is above its own."""
    log: str
    """`kept` (that of the board) or `continued` (with that of the backup)."""
    event: int
    """The number of the event `board.restored`; 0 if nothing was done."""
    saved: str | None
    """The file with the board as it was before; None if there was none, or nothing was done."""


def restore(
    file: str,
    address: str,
    *,
    agent: str,
    save_to: str,
    epochs_above: int = 0,
    only_look: bool = False,
    progress: Progress | None = None,
) -> Restored:
    """Restore a backup into the board at an address, or into a new board if there is none.

    `save_to` is the file for a copy of the board as it was. With `only_look`, nothing is changed.
    """
    if not 0 <= epochs_above <= HIGHEST:
        raise Refused(f"restore: epochs can be raised to {HIGHEST} at most")
    path = path_of(address)
    if path and os.path.exists(path) and os.path.exists(file) and os.path.samefile(path, file):
        raise Refused(f"restore: {file} is the board itself, not a backup of it")
    beside = os.path.dirname(os.path.realpath(path)) if path else None
    if beside is not None and not os.path.isdir(beside):
        raise Refused(f"restore: there is no folder {beside} for the board")
    try:
        with TemporaryDirectory(prefix=".tiebreak-restore-", dir=beside) as folder:
            backup = open_backup(file, folder, progress)
            try:
                return _restore(backup, file, address, agent, save_to, epochs_above, only_look, progress)
            finally:
                backup.close()
    except Exception as exc:
        if isinstance(exc, apsw.CorruptError):
            from ..sqlite.sqlite_errors import unavailable

            raise unavailable(exc, path) from exc
        if type(exc).__name__ == "InsufficientPrivilege":
            what = f"restore {file}: this user may not restore into {without_password(address)}"
            raise Unavailable(what, reason="restore-needs-owner") from exc
        raise explained(exc, f"restore {file}:", "restore-failed") from exc


def _restore(
    backup: Endpoint,
    file: str,
    address: str,
    agent: str,
    save_to: str,
    epochs_above: int,
    only_look: bool,
    progress: Progress | None,
) -> Restored:
    board = open_endpoint(address)
    try:
        if only_look and look(board).state == "nothing":
            board.refuse_other_data("restore")
            return Restored("would", str(board), file, _made_at(backup), counts(backup), {}, 0, "continued", 0, None)
        board.begin()
        board.lock_all_out()
        found = look(board)
        if found.state == "closed":
            raise closed(found.facts, str(board))
        if found.state == "nothing":
            board.refuse_other_data("restore")
            board.make_empty({})
        elif not only_look:
            board.save_to(save_to, progress)
        log, changed = _replace_rows(backup, board, agent, epochs_above, progress)
        highest, event = rules.highest_epoch(board), 0
        if not only_look:
            event = _finish(backup, board, file, agent, changed, highest, log)
            board.commit()
        saved = None if only_look or found.state == "nothing" else save_to
        done = "would" if only_look else "restored"
        rows = counts(backup)
        return Restored(done, str(board), file, _made_at(backup), rows, changed, highest, log, event, saved)
    finally:
        board.close()


def _replace_rows(
    backup: Endpoint, board: Endpoint, agent: str, epochs_above: int, progress: Progress | None
) -> tuple[str, dict[str, int]]:
    """Replace the rows of the board, without any event yet; whether the log was continued, and what is different."""
    last, continues = _continues(backup, board)
    restore_names.use_present_names(backup, board)
    rules.remember_board(board)
    if not continues:
        rules.remember_log(board)
    # The clock of the board may be behind that of the backup. Times in its future would delay tasks.
    copying = RowCopy(backup, board, progress, min(0, board.now() - _latest(backup)))
    for table in TABLES:
        rule = rules.RULES.get(table, rules.REPLACED)
        if rule in (rules.REPLACED, rules.MERGED):
            # Not TRUNCATE: a reader whose snapshot began before would find nothing.
            board.rows(f"DELETE FROM {table}")  # noqa: S608
            copying.copy_table(table, "TRUE")
        elif rule == rules.NAMES:
            restore_names.add_names(backup, board)
        elif rule == rules.CONTINUED and continues:
            copying.copy_table(table, f"number > {last}")
    if continues:
        rules.remember_log(board)
    raised = rules.raise_epochs(board, epochs_above)
    rules.apply(board, agent, board.now())
    return "continued" if continues else "kept", {**rules.changes(board), "epochs_raised": raised}


def _continues(backup: Endpoint, board: Endpoint) -> tuple[int, bool]:
    """The last event of the board, and whether the log of the backup goes on from there."""
    [(last,)] = board.rows("SELECT coalesce(max(number), 0) FROM events")
    if last == 0:
        return 0, True
    # A number that was drawn and rolled back may be somebody's cursor: nothing may appear below it.
    if board.last_event() > last:
        return last, False
    return last, board.rows(_SAME_EVENT, last) == backup.rows(_SAME_EVENT, last)


def _finish(
    backup: Endpoint, board: Endpoint, file: str, agent: str, changed: dict[str, int], highest: int, log: str
) -> int:
    """Write the events, with numbers above all that are known, and reserve the numbers of tasks and messages."""
    now, event = board.now(), max(board.last_event(), backup.last_event()) + 1
    made = _made_at(backup)
    note = f"a backup of {moment(int(made * clock.SECOND))[:19]}Z" if made else "a backup without events"
    data = {**changed, "highest_epoch": highest, "log": log, "backup_event": backup.last_event()}
    projects = sorted(project for (project,) in board.rows(rules.PROJECTS)) or [""]
    for number, project in enumerate(projects, event):
        board.rows(
            "INSERT INTO events (number, at, event, project, name, agent, epoch, note, data) "
            "VALUES (?, ?, 'board.restored', ?, ?, ?, ?, ?, ?)",
            *(number, now, project, os.path.basename(file), agent, highest),
            *(f"{note}; every epoch goes on, the highest is {highest}", json.dumps(data)),
        )
    board.continue_numbers(event + len(projects) - 1)
    rules.record_changes(board, agent, now)
    rules.keep_numbers(board, now)
    board.continue_numbers(board.last_event())
    rules.forget(board)
    return event


def _latest(backup: Endpoint) -> int:
    """The latest time in the backup."""
    [(events,)] = backup.rows("SELECT coalesce(max(at), 0) FROM events")
    [(agents,)] = backup.rows("SELECT coalesce(max(seen_at), 0) FROM agents")
    return int(max(events, agents))


def _made_at(backup: Endpoint) -> float:
    """Board time of the backup's last event, in seconds."""
    [(at,)] = backup.rows("SELECT coalesce(max(at), 0) FROM events")
    return int(at) / clock.SECOND
