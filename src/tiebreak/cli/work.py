"""`tb work`: runs a worker, and prints what it does."""

from __future__ import annotations

import os
import sys

from ..errors import Invalid, TiebreakError
from ..limits import DRAIN, JOB_LEASE, MAX_CONCURRENCY, MAX_JOB_LEASE
from ..names import label, seconds, short, written
from ..text import plain, span
from .parser import Option, command, duration, tags, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..board import Board
    from ..process_identity import Identity
    from ..worker.attempt import Attempt
    from ..worker.options import WorkerOptions
    from .context import Context
    from .parser import Args


@command(
    "work",
    "Run jobs as a worker, until told to stop.",
    Option("queue", "QUEUE", "only jobs of this queue (repeatable)", many=True),
    tags("only jobs that have one of these tags"),
    Option("concurrency", "N", "jobs at once (default: one for each processor)", convert=whole),
    Option("import", "MODULE", "run functions that this Python module declares as jobs (repeatable)", many=True),
    duration("lease", "how long a job stays claimed without a heartbeat", JOB_LEASE),
    duration("drain-timeout", "how long running jobs may go on after a stop", DRAIN),
    Option("burst", text="stop when nothing is left to do; waits for the retries of jobs that it may run"),
    Option("once", text="run one job, if there is one, and stop"),
    example="tb work --queue batch --concurrency 4 --import shop.batch",
)
def work(context: Context, args: Args) -> int:
    """After the first SIGTERM or Ctrl-C, running jobs may finish; the second ends them and gives them back."""
    options = _options(args)
    from ..worker.keeper import keep

    def run(keeper: int) -> int:
        try:
            return _work(context, args, options, keeper)
        except (TiebreakError, OSError, MemoryError) as exc:
            from ..worker.loop import cannot_go_on

            error = cannot_go_on(exc)
            context.complain(error)
            return error.exit_code

    def after_crash(who: Identity) -> None:
        from ..worker.register import forget

        try:
            _forfeit(args, who)
            forget(who)
        except TiebreakError:
            pass  # another worker of this machine finds out, or the leases run out

    return keep(run, after_crash)


def _options(args: Args) -> WorkerOptions:
    from ..worker.options import WorkerOptions

    count = args.concurrency if args.concurrency is not None else os.cpu_count() or 1
    if not 1 <= count <= MAX_CONCURRENCY:
        raise Invalid(f"--concurrency: from 1 to {MAX_CONCURRENCY}, got {count}")
    lease = seconds(args.lease, "--lease")
    if not 1 <= lease <= MAX_JOB_LEASE:
        raise Invalid(f"--lease: from 1s to {written(MAX_JOB_LEASE)}, got {args.lease}")
    return WorkerOptions(
        queues=[label(queue, "--queue") for queue in args.queue],
        tags=[label(tag, "--tag") for tag in args.tag],
        modules=args["import"],
        concurrency=count,
        lease=lease,
        drain=seconds(args.drain_timeout, "--drain-timeout"),
        burst=args.burst,
        once=args.once,
        module_called="--import",
    )


def _forfeit(args: Args, who: Identity) -> None:
    """Give back the jobs of a dead worker, also if the board has moved."""
    call = ("tasks.forfeit", {"holder": _name(args, who), "reason": "its worker died"})
    try:
        with _board(args, who) as board:
            board.call(*call)
    except TiebreakError as exc:
        if "moved" not in exc.data:
            raise
        from ..worker.request_sender import reopened

        with reopened(exc.data["moved"], _name(args, who), args.project) as board:
            board.call(*call)


def _board(args: Args, who: Identity) -> Board:
    """Open the board as this worker."""
    from ..board import open

    return open(args.board, agent=_name(args, who), project=args.project)


def _name(args: Args, who: Identity) -> str:
    """The agent id of a worker. It identifies the process, so that others can tell whether the worker is alive."""
    from ..process_identity import token

    given = args["as"] or os.environ.get("TIEBREAK_AGENT")
    return f"{short(given) if given else f'worker-{who.pid}'}~{token(who)}"


def _work(context: Context, args: Args, options: WorkerOptions, keeper: int) -> int:
    from ..process_identity import identity
    from ..worker.loop import Worker

    _ask(args)
    who = identity()
    with _board(args, who) as board:
        told = _Json(context) if context.json else _Status(context) if sys.stdout.isatty() else _Lines(context)
        board.agents.announce(
            doing="runs jobs", program="worker", host=who.host, boot=who.boot, pid=who.pid, started=who.started
        )
        told.begin(board, options)
        try:
            return Worker(board, options, told, keeper).run()
        finally:
            told.end()
            _leave(board)


def _ask(args: Args) -> None:
    """Raise if the agent that starts this worker may not run commands or was replaced: the worker has its own name."""
    from ..board import open

    with open(args.board, agent=args["as"], project=args.project) as board:
        board.jobs.next(queues=[])


def _leave(board: Board) -> None:
    try:
        board.agents.leave(reason="its work is done")
    except TiebreakError:
        pass  # others see that its process has ended


class _Lines:
    """Prints one line for each event."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.running = self.done = self.failed = 0

    def begin(self, board: Board, options: WorkerOptions) -> None:
        """The worker is ready."""
        queues = ", ".join(options.queues or ["every queue"])
        many = "1 job at once" if options.concurrency == 1 else f"{options.concurrency} jobs at once"
        self.line(f"{board.agent.partition('~')[0]} works on {queues} of {board.project}, {many}")

    def end(self) -> None:
        """The worker has stopped."""
        self.line(f"stopped: {self.done} done, {self.failed} failed")

    def __call__(self, kind: str, attempt: Attempt | None, about: Any) -> None:
        """Print an event of the worker."""
        self.count(kind, about)
        if attempt is None:
            self.line(_general(kind, about))
        elif text := _particular(kind, attempt, about):
            self.line(f"#{attempt.job.number} {attempt.job.name}: {text}")

    def count(self, kind: str, about: Any) -> None:
        """Count jobs."""
        if kind == "begun":
            self.running += 1
        elif kind == "done":
            self.running -= 1
            self.done += bool(about and about["ok"])
            self.failed += bool(about and not about["ok"] and not about["drained"])

    def line(self, text: str) -> None:
        """Print a line."""
        from time import strftime

        try:
            print(f"{strftime('%H:%M:%S')} {plain(text)}", file=sys.stdout, flush=True)
        except OSError:
            pass  # nobody reads it; the jobs go on


def _general(kind: str, about: Any) -> str:
    if kind == "draining":
        return f"told to stop: {about} running jobs may finish" if about else "told to stop"
    if kind == "waiting":
        return f"nothing is ready; the next retry comes in {span(about['seconds'])}"
    return _GENERAL[kind].format(about)


_GENERAL = {
    "unreachable": "the board cannot be reached: {}",
    "followed": "the board has moved, and this worker goes on at {}",
    "short": "this worker lacks processes, memory or descriptors: {}",
    "unheard": "gave back {} jobs that the board had granted without an answer",
    "failing": "gives back what it runs and ends: {}",
}


def _particular(kind: str, attempt: Attempt, about: Any) -> str:
    """What happened to a job, in words; "" for what is not worth a line."""
    call = attempt.is_function
    if kind == "begun":
        return "" if call else f"begun (attempt {attempt.job.attempts} of {attempt.job.max_attempts})"
    if kind == "unbegun":
        return "given back, not begun"
    if kind == "ending":
        return f"is ended: {_ending(about)}"
    if kind == "undelivered":
        what = (
            "was done" if about["ok"] else "is to be given back" if about["drained"] else f"failed: {about['reason']}"
        )
        return f"the board was never told that it {what}"
    if kind == "refused":
        return f"the report came too late and was kept aside ({about})"
    if kind == "told":
        return f"is now {about['state']}"
    if about is None:
        return "ended"
    if about["drained"]:
        return "given back"
    if about["ok"]:
        return "" if call else f"done in {span(about['result']['seconds'])}"
    return f"failed: {about['reason']}"


def _ending(why: int) -> str:
    from ..worker.attempt import ENDING

    return ENDING[why]


class _Json(_Lines):
    """Prints one JSON object for each event."""

    def begin(self, board: Board, options: WorkerOptions) -> None:
        """The worker is ready."""
        self._put({"event": "ready", "agent": board.agent, "project": board.project, "pid": os.getpid()})

    def end(self) -> None:
        """The worker has stopped."""
        self._put({"event": "stopped", "done": self.done, "failed": self.failed})

    def __call__(self, kind: str, attempt: Attempt | None, about: Any) -> None:
        """Print an event of the worker."""
        self.count(kind, about)
        facts: dict[str, Any] = {"event": kind}
        if attempt is not None:
            facts |= {"number": attempt.job.number, "id": attempt.job.id, "epoch": attempt.job.epoch}
        if kind == "ending":
            about = _ending(about)
        if isinstance(about, dict):
            facts |= about
        elif about is not None:
            facts["about"] = about if isinstance(about, int) else str(about)
        self._put(facts)

    def _put(self, facts: dict[str, Any]) -> None:
        from ..text import json

        try:
            print(json(facts), flush=True)
        except OSError:
            pass


class _Status(_Lines):
    """Shows counts in one line of a terminal, which is overwritten; failures stay above it."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._shown = 0.0

    def __call__(self, kind: str, attempt: Attempt | None, about: Any) -> None:
        """Print an event of the worker."""
        wrong = kind in ("ending", "refused", "undelivered") or (kind == "done" and not (about and about["ok"]))
        if attempt is None or wrong:
            super().__call__(kind, attempt, about)
        else:
            self.count(kind, about)
        self._show(attempt)

    def _show(self, attempt: Attempt | None) -> None:
        from time import monotonic

        if monotonic() - self._shown < 0.05 and self.running:
            return
        self._shown = monotonic()
        last = f"  #{attempt.job.number} {plain(attempt.job.name)[:40]}" if attempt is not None else ""
        text = f"{self.running} running, {self.done} done, {self.failed} failed{last}"
        self._write(f"\r\x1b[K{text}")

    def line(self, text: str) -> None:
        """Print a line above the status line."""
        from time import strftime

        self._write(f"\r\x1b[K{strftime('%H:%M:%S')} {plain(text)}\n")

    def _write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:
            pass
