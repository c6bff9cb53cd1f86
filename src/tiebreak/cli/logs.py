"""`tb logs`: the output of jobs, while they run or afterwards; also used by `tb submit --wait`."""

from __future__ import annotations

import sys

from ..board import LOOK_AGAIN
from ..errors import Invalid
from ..limits import MAX_LIMIT
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
"""Seconds between two looks at a job's output, which makes no events."""


class OutputPrinter:
    """Prints a job's output: unchanged into a pipe, with control characters made visible on a terminal."""

    def __init__(self, context: Context, *, apart: bool = False, progress: bool = False) -> None:
        self._context = context
        self._apart = apart
        """Whether the job's standard error goes to standard error."""
        self.shows_state = progress
        """Whether the job's state is shown below its output, in a line that is overwritten."""
        self._line = ""
        self._open = False
        """Whether the output on the terminal ends within a line, which must not be overwritten."""
        self.kept: list[dict[str, Any]] = []

    def chunks(self, chunks: list[dict[str, Any]]) -> None:
        """Print chunks of output, and where bytes are missing."""
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

    def show_state(self, task: Task) -> None:
        """Show the job's state below its output, until it has ended."""
        if self.shows_state and not self._open:
            self._draw("" if task.state in FINAL else _state_line(task))

    def _draw(self, line: str) -> None:
        if line != self._line:
            from ..text import cut

            room = max(20, (self._context.width or 80) - 1)
            sys.stderr.write(f"\r\x1b[K{cut(line, room)}")
            sys.stderr.flush()
            self._line = line

    def heading(self, text: str) -> None:
        """Print a heading."""
        if not self._context.json and not self._apart:
            self._context.say(self._context.styled(f"── {text} ──", "dim"))


def follow(context: Context, task: Task, printer: OutputPrinter) -> Task:
    """Print a job's output, from its current attempt on, until it has ended; returns its task."""
    board, epoch, place = context.board, 0, 0
    first = task.epoch if task.claimed_at else task.epoch + 1
    while True:
        seen = board.events.last()
        task = board.settled(task.id)
        # An attempt may have begun and ended between two looks.
        for newer in range(max(first, epoch + 1), task.epoch + 1 if task.claimed_at else 0):
            _print_rest(context, task, epoch, place, printer)
            epoch, place = newer, 0
            if task.attempts > 1:
                printer.heading(f"attempt {task.attempts}" if epoch == task.epoch else "an earlier attempt")
        place = _print_rest(context, task, epoch, place, printer)
        printer.show_state(task)
        if task.state in FINAL:
            return task
        pause = LOOK if task.state == "claimed" else LOOK_AGAIN
        if task.until is not None or task.ready_at is not None:  # its state may change without an event
            pause = min(pause, 1.0)
        if task.state != "claimed" and not printer.shows_state:
            pause = min(pause, context.waiting(f"a worker to run {called(task)}; it is {task.state}"))
        board.engine.wait(seen, pause, subject=task.id, project=task.project)


def _print_rest(context: Context, task: Task, epoch: int, place: int, printer: OutputPrinter) -> int:
    """Print an attempt's output from an offset on; returns the next offset."""
    while epoch:
        answer = context.board.jobs.output(ref=task.id, epoch=epoch, after=place)
        printer.chunks(answer["chunks"])
        if answer["next"] == place or answer["next"] >= answer["total"]:
            return int(answer["next"])
        place = answer["next"]
    return place


def _state_line(task: Task) -> str:
    line = f"{called(task)}  {task.state}{percent_of(task.progress)}"
    if task.holder and task.state == "claimed":
        line += f"  by {who(task.holder)}, attempt {task.attempts} of {task.max_attempts}"
    return line


def percent_of(said: Any) -> str:
    """The progress that a job has reported."""
    if not isinstance(said, dict):
        return ""
    return f"  {said['percent']:g} %" + (f" {plain(said['note'])}" if said.get("note") else "")


@command(
    "logs",
    "Show a job's output: its beginning and end, and how many bytes between them were not kept.",
    REF,
    Option("follow", text="continue with new output, until the job has ended", short="f"),
    Option("attempt", "N", "the output of this attempt (default: the latest)", convert=whole),
    example="tb logs -f '#42'",
)
def logs(context: Context, args: Args) -> None:
    """Control characters are made visible on a terminal, and left unchanged in a pipe."""
    board = context.board
    task = board.tasks.get(ref=args.ref)
    printer = OutputPrinter(context)
    if args.follow and args.attempt is None:
        follow(context, task, printer)
    else:
        first = board.jobs.output(ref=task.id, epoch=_epoch(context, task, args.attempt))
        printer.chunks(first["chunks"])
        _print_rest(context, task, first["epoch"], first["next"], printer)
        if not first["chunks"] and not context.json:
            print(f"tb: {called(task)} has written nothing", file=sys.stderr)
    if context.json:
        context.answer({"number": task.number, "id": task.id, "chunks": printer.kept})


def _epoch(context: Context, task: Task, attempt: int | None) -> int:
    """The epoch of an attempt, from its events."""
    if attempt is None:
        return 0
    claims = context.board.events.read(subject=task.id, event="task.claimed", project=task.project, limit=MAX_LIMIT)
    if not 1 <= attempt <= len(claims):
        raise Invalid(f"--attempt: {called(task)} has been claimed {len(claims)} times so far, not {attempt}")
    return claims[attempt - 1].epoch


def exit_code(ended: Task) -> int:
    """An exit code for the end of a job: its own, if it had one."""
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
