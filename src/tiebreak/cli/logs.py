"""What jobs write, as it is written or afterwards, and how they end."""

from __future__ import annotations

import sys

from ..board import LOOK_AGAIN
from ..errors import Invalid
from ..names import FINAL
from ..text import block, plain
from .claims import REF, called, who
from .parser import Option, command, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..model import Task
    from .context import Context
    from .parser import Args

LOOK = 0.25
"""Seconds between two looks at what a job writes: output leaves no event."""


class OutputPrinter:
    """Writes what a job wrote: as it is into a pipe, made safe on a terminal."""

    def __init__(self, context: Context, *, apart: bool = False, progress: bool = False) -> None:
        self._context = context
        self._apart = apart
        """Whether what came on the standard error goes there."""
        self._progress = progress
        """Whether how the job stands is shown below, in a line that changes in place."""
        self._line = ""
        self._open = False
        """Whether the job is in the middle of a line on the terminal, which is not drawn over."""
        self.kept: list[dict[str, Any]] = []

    def chunks(self, chunks: list[dict[str, Any]]) -> None:
        """Write them, and say where something is missing."""
        if self._context.json:
            self.kept += chunks
            return
        if chunks:
            self._draw("")
        for chunk in chunks:
            stream = sys.stderr if self._apart and chunk["stream"] == 2 else sys.stdout
            if chunk["cut"]:
                self._context.say(self._context.styled(f"\n── {chunk['cut']:,} bytes were not kept ──", "dim"))
            self._context.answering = True
            stream.write(block(chunk["text"]) if stream.isatty() else chunk["text"])
            stream.flush()
            self._context.answering = False
            if stream.isatty():
                self._open = not chunk["text"].endswith("\n")

    def standing(self, task: Task) -> None:
        """Show how the job stands, until something else is shown; nothing more once it has ended."""
        if self._progress and not self._open:
            self._draw("" if task.state in FINAL else _standing(task))

    def _draw(self, line: str) -> None:
        if line != self._line:
            from ..text import cut

            room = max(20, (self._context.width or 80) - 1)
            sys.stderr.write(f"\r\x1b[K{cut(line, room)}")
            sys.stderr.flush()
            self._line = line

    def heading(self, text: str) -> None:
        """Say what follows."""
        if not self._context.json and not self._apart:
            self._context.say(self._context.styled(f"── {text} ──", "dim"))


def follow(context: Context, task: Task, printer: OutputPrinter) -> Task:
    """Show what a job writes, from its current attempt on, until it has ended; the task as it is then."""
    board, epoch, place = context.board, 0, 0
    first = task.epoch if task.claimed_at else task.epoch + 1
    while True:
        seen = board.events.last()
        task = board.settled(task.id)
        # An attempt may have begun and ended between two looks.
        for newer in range(max(first, epoch + 1), task.epoch + 1 if task.claimed_at else 0):
            _rest(context, task, epoch, place, printer)
            epoch, place = newer, 0
            if task.attempts > 1:
                printer.heading(f"attempt {task.attempts}" if epoch == task.epoch else "an earlier attempt")
        place = _rest(context, task, epoch, place, printer)
        printer.standing(task)
        if task.state in FINAL:
            return task
        nap = LOOK if task.state == "claimed" else LOOK_AGAIN
        if task.until is not None or task.ready_at is not None:  # time alone may change it
            nap = min(nap, 1.0)
        board.engine.wait(seen, nap, subject=task.id, project=task.project)


def _rest(context: Context, task: Task, epoch: int, place: int, printer: OutputPrinter) -> int:
    """Show what an attempt has written since a place; where to go on."""
    while epoch:
        answer = context.board.jobs.output(ref=task.id, epoch=epoch, after=place)
        printer.chunks(answer["chunks"])
        if answer["next"] == place or answer["next"] >= answer["total"]:
            return int(answer["next"])
        place = answer["next"]
    return place


def _standing(task: Task) -> str:
    line = f"{called(task)}  {task.state}{percent_of(task.progress)}"
    if task.holder and task.state == "claimed":
        line += f"  by {who(task.holder)}, attempt {task.attempts} of {task.max_attempts}"
    return line


def percent_of(said: Any) -> str:
    """How far a job says that it is."""
    if not isinstance(said, dict):
        return ""
    return f"  {said['percent']:g} %" + (f" {plain(said['note'])}" if said.get("note") else "")


@command(
    "logs",
    "Show what a job wrote: the beginning and the end, and how much is missing between them.",
    REF,
    Option("follow", text="go on with what it writes, until it has ended", short="f"),
    Option("attempt", "N", "of this attempt (default: the latest)", convert=whole),
    example="tb logs -f '#42'",
)
def logs(context: Context, args: Args) -> None:
    """Control characters are made visible on a terminal, and left alone in a pipe."""
    board = context.board
    task = board.tasks.get(ref=args.ref)
    printer = OutputPrinter(context)
    if args.follow and args.attempt is None:
        follow(context, task, printer)
    else:
        first = board.jobs.output(ref=task.id, epoch=_epoch(context, task, args.attempt))
        printer.chunks(first["chunks"])
        _rest(context, task, first["epoch"], first["next"], printer)
        if not first["chunks"] and not context.json:
            print(f"tb: {called(task)} has written nothing", file=sys.stderr)
    if context.json:
        context.answer({"number": task.number, "id": task.id, "chunks": printer.kept})


def _epoch(context: Context, task: Task, attempt: int | None) -> int:
    """The epoch of an attempt, as the log tells it."""
    if attempt is None:
        return 0
    claims = context.board.events.read(subject=task.id, event="task.claimed", project=task.project, limit=1000)
    if not 1 <= attempt <= len(claims):
        raise Invalid(f"--attempt: {called(task)} has been claimed {len(claims)} times so far, not {attempt}")
    return claims[attempt - 1].epoch


def exit_code(ended: Task) -> int:
    """What a job's end means as an exit code: its own, if it had one."""
    if ended.state == "completed":
        return 0
    facts = ended.result if isinstance(ended.result, dict) else {}
    code = facts.get("exit")
    if isinstance(code, int) and 0 < code < 256:
        return code
    if facts.get("signal"):
        import signal

        number = getattr(signal, str(facts["signal"]), None)
        return 128 + int(number) if isinstance(number, signal.Signals) else 1
    return 1
