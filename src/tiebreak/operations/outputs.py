"""Outputs: what jobs write while they run, and the progress that they report.

Each attempt has its own output, which only the holder of that attempt can add to: the task's row is locked and its
holder and epoch are checked first. An output is kept within a cap: half of the cap from its beginning and half from its
end. So a job that writes without end costs no more than the cap, and a reader is told how many bytes in between are
missing. Nothing changes hands, so output leaves no event.
"""

from __future__ import annotations

from ..limits import OUTPUT
from ..names import json_text
from ..text import moment
from . import operation
from .claims import change_as_holder, lock_as_holder
from .events import append as append_event
from .grants import writing
from .references import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..model import Task
    from ..names import AgentId, Chunk, Epoch, Json, Note, Number, Percent, Project, Ref
    from . import Transaction

PIECE = 16 * 1024
"""Bytes in one row at most. The cap is enforced by deleting whole rows."""
AT_ONCE = 256 * 1024
"""Bytes that one call returns at most, roughly."""


@operation("jobs.append", writes=True, strangers=False)
def append(
    tx: Transaction, *, ref: Ref, epoch: Epoch, chunks: list[Chunk], agent: AgentId = "", project: Project = ""
) -> int:
    """Append to the output of a job's current attempt, and return how many bytes it has in all.

    `start` is where a chunk begins, in bytes of UTF-8 from the beginning of the attempt, over both streams. A chunk
    that is stored already is not added again, so a call may be repeated.
    """
    task = lock_as_holder(tx, ref=ref, agent=agent, project=project, epoch=epoch)
    cap = _cap(tx, task.number)
    for chunk in chunks:
        for start, size, text in _pieces(chunk["start"], chunk["text"].encode(), cap):
            tx.all(
                "INSERT INTO outputs (task, epoch, start, size, stream, at, text) "
                "VALUES (:task, :epoch, :start, :size, :stream, {now}, :text) ON CONFLICT DO NOTHING",
                task=task.number,
                epoch=task.epoch,
                start=start,
                size=size,
                stream=chunk["stream"],
                text=text,
            )
    total = _total(tx, task.number, task.epoch)
    if total > cap:
        tx.all(
            "DELETE FROM outputs WHERE task = :task AND epoch = :epoch AND start >= :head AND start < :tail",
            task=task.number,
            epoch=task.epoch,
            head=cap // 2,
            tail=total - cap // 2,
        )
    return total


def _cap(tx: Transaction, number: int) -> int:
    import json

    row = tx.first("SELECT settings FROM tasks WHERE number = :number", number=number)
    return int(json.loads(row[0]).get("cap", OUTPUT)) if row and row[0] else OUTPUT


def _pieces(start: int, data: bytes, cap: int) -> list[tuple[int, int, str]]:
    """Split a chunk into pieces, none of which crosses the end of the half that is kept from the beginning."""
    half, most = cap // 2, max(64, min(PIECE, cap // 8))
    out = []
    at = 0
    while at < len(data):
        end = min(at + most, len(data))
        if start + at < half < start + end:
            end = half - start
        cut = _character_boundary(data, at, end)
        out.append((start + at, cut - at, data[at:cut].decode()))
        at = cut
    return out


def _character_boundary(data: bytes, at: int, end: int) -> int:
    """The last offset up to `end` that is not inside a character; if there is none, the next one after `end`."""
    cut = end
    while at < cut < len(data) and data[cut] & 0xC0 == 0x80:
        cut -= 1
    if cut > at:
        return cut
    cut = end
    while cut < len(data) and data[cut] & 0xC0 == 0x80:
        cut += 1
    return cut


def _total(tx: Transaction, number: int, epoch: int) -> int:
    row = tx.first(
        "SELECT start + size FROM outputs WHERE task = :task AND epoch = :epoch ORDER BY start DESC LIMIT 1",
        task=number,
        epoch=epoch,
    )
    return int(row[0]) if row else 0


@operation("jobs.output", writes=False, strangers=False)
def output(tx: Transaction, *, ref: Ref, epoch: Epoch = 0, after: Number = 0, project: Project = "") -> Json:
    """Read the output of the attempt with this epoch (0: the latest that wrote something), after a byte offset.

    `chunks` are `{start, stream, at, text, cut}`; `cut` is how many bytes right before the chunk were not kept. `next`
    is the `after` of the next call, `total` how many bytes were written, and `more` whether more output exists or may
    come.
    """
    task = find(tx, ref, project)
    running = task.state == "claimed" and epoch in (0, task.epoch)
    epoch = epoch or _latest(tx, task)
    rows = tx.all(
        "SELECT start, size, stream, at, text FROM outputs WHERE task = :task AND epoch = :epoch "
        "AND start >= :low AND start + size > :after ORDER BY start LIMIT :most",
        task=task.number,
        epoch=epoch,
        low=max(0, after - PIECE - 4),
        after=after,
        most=AT_ONCE // 64,
    )
    total, chunks, place, room = _total(tx, task.number, epoch), [], after, AT_ONCE
    for start, size, stream, at, text in rows:
        if room <= 0:
            break
        begin = max(start, place)
        rest = text.encode()[begin - start :].decode(errors="replace") if begin > start else text
        chunks.append({"start": begin, "stream": stream, "at": moment(at), "text": rest, "cut": begin - place})
        place, room = start + size, room - size
    return {
        "number": task.number,
        "epoch": epoch,
        "state": task.state,
        "chunks": chunks,
        "next": place,
        "total": total,
        "more": running or place < total,
    }


def _latest(tx: Transaction, task: Task) -> int:
    if task.state == "claimed":
        return task.epoch
    row = tx.first("SELECT max(epoch) FROM outputs WHERE task = :task", task=task.number)
    return int(row[0]) if row and row[0] else task.epoch


@operation("jobs.progress", writes=True, strangers=False)
def progress(
    tx: Transaction,
    *,
    ref: Ref,
    percent: Percent,
    note: Note | None = None,
    agent: AgentId = "",
    project: Project = "",
    epoch: Epoch = 0,
) -> Task:
    """Record the progress of a job's current attempt, as its holder; the next claim starts without progress."""
    said: dict[str, Any] = {"percent": percent, "note": note}
    change = "progress = :progress, updated_at = {now}"
    task = change_as_holder(
        tx, writing, change, ref=ref, agent=agent, project=project, epoch=epoch, progress=json_text(said)
    )
    append_event(
        tx,
        "task.progress",
        task.project,
        subject=task.id,
        name=task.name,
        kind=task.kind,
        state=task.state,
        agent=agent,
        epoch=task.epoch,
        note=f"{percent:g} %" + (f" {note}" if note else ""),
        data=said,
    )
    return task
