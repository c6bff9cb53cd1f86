"""Commands about jobs: submit, jobs, and what `tb show` adds for a job."""

from __future__ import annotations

import os
import sys

from ..errors import Invalid
from ..job_fields import written
from ..limits import ATTEMPTS, BACKOFF, JOB_GRACE, MAX_AMOUNT, MAX_OUTPUT, OUTPUT, SHOWN
from ..names import JOB, seconds, shown
from ..names import written as in_words
from ..text import Styled, ago, parse_rfc3339, plain, span, table
from .claims import TAG, called, who
from .logs import OutputPrinter, exit_code, follow, percent_of
from .parser import Argument, Option, command, duration, number, one_tag, tags, whole
from .tasks import OPEN, STYLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..model import Task
    from .context import Context
    from .parser import Args

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


# ── Submitting ───────────────────────────────────────────────────────────────────────────────────────


def size(value: str) -> int:
    """A number of bytes: `1048576`, `512K`, `1M`, `2G`."""
    number = value.upper().removesuffix("B").removesuffix("I")
    unit = number[-1:] if number[-1:] in UNITS else ""
    digits = number.removesuffix(unit)
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 15:
        raise Invalid(f"expected a size such as 512K, 200M or 2G, got {shown(value)}")
    return int(digits) * UNITS[unit]


def amount(convert: Callable[[str], float]) -> Callable[[str], float]:
    """A value of an option that limits a job: at least 1, in the unit that `convert` gives."""

    def check(value: str) -> float:
        try:
            found = convert(value)
        except Invalid as exc:
            raise Invalid(exc.message.removeprefix("duration: ")) from None
        if not 1 <= found <= MAX_AMOUNT:
            raise Invalid(f"must be between 1 and {MAX_AMOUNT}, got {shown(value)}")
        return found

    return check


def output_size(value: str) -> int:
    """How many bytes of output are kept."""
    if (found := size(value)) > MAX_OUTPUT:
        raise Invalid(f"at most {MAX_OUTPUT // 1024**2}M, got {shown(value)}")
    return found


def variable(value: str) -> tuple[str, str]:
    """`NAME=VALUE`, or `NAME` alone for its value here, which keeps a secret off the command line."""
    name, mark, text = value.partition("=")
    if not mark and name not in os.environ:
        raise Invalid(
            f"{shown(name)} is not set here", hint="--env NAME=VALUE, or --env NAME to pass on its value here"
        )
    return name, text if mark else os.environ[name]


OPTIONS = (
    Option("name", "TEXT", "a name for people (default: the command; for cron: the schedule's name)"),
    Option("queue", "QUEUE", "the queue it waits in", sets="jobs.submit.queue"),
    Option("priority", "PRIORITY", "its priority", sets="jobs.submit.priority"),
    Option("timeout", "DURATION", "end it after this time (default: never)"),
    Option("grace", "DURATION", f"time between SIGTERM and SIGKILL when it is ended (default {in_words(JOB_GRACE)})"),
    number("max-attempts", "attempts before it fails", ATTEMPTS),
    duration("backoff", "wait before the second attempt, doubled each time", BACKOFF),
    Option("env", "NAME=VALUE", "an environment variable; NAME alone passes on its value here (repeatable)", many=True),
    Option("cwd", "FOLDER", "where it runs (default: here)"),
    Option("no-cwd", text="run it in the folder of its worker"),
    Option("limit", "GROUP=N", "at most N of this group at once", sets="jobs.submit.limit"),
    tags("a tag"),
    Option("memory", "SIZE", "most memory: 200M, 2G", convert=amount(size)),
    Option("cpu", "DURATION", "most processor time", convert=amount(seconds)),
    Option("files", "N", "most open files", convert=amount(whole)),
    Option("output", "SIZE", f"how much of its output is kept (default {OUTPUT // 1024**2}M)", convert=output_size),
)
"""Options of both `tb submit` and `tb cron add`."""


def given(args: Args) -> dict[str, Any]:
    """These options as parameters of `jobs.submit`, without those that were not given."""
    from ..board import here

    limits = {"memory": args.memory, "cpu": None if args.cpu is None else int(args.cpu), "files": args.files}
    limits = {name: value for name, value in limits.items() if value is not None}
    if args.cwd and args.no_cwd:
        raise Invalid("--cwd and --no-cwd exclude each other")
    said = {name: args[name] for name in ("name", "timeout", "grace", "limit")}
    said |= {"cap": args.output, "cwd": None if args.no_cwd else os.path.abspath(os.path.join(here(), args.cwd or ""))}
    said |= {"tags": args.tag or None, "env": dict(map(variable, args.env)) or None, "limits": limits or None}
    usual = {name: args[name] for name in ("queue", "priority", "max_attempts", "backoff")}
    return {name: value for name, value in (said | usual).items() if value is not None}


@command(
    "submit",
    "Submit a job: a command that a worker will run.",
    Argument("command", "a command for the shell, in quotes; or use -- for a command and its arguments", optional=True),
    *OPTIONS,
    Option("key", "KEY", "a unique key; if a job with this key exists, it is returned instead"),
    Option("unique-for", "DURATION", "with --key: a finished job frees its key this long after it was submitted"),
    Option("after", "REF", "run after this task (repeatable)", many=True),
    Option("run-anyway", text="run even if one of those failed"),
    Option("delay", "DURATION", "do not run before this time has passed"),
    Option("at", "TIME", "do not run before this time, e.g. 2026-11-16T09:00:00Z", convert=parse_rfc3339),
    Option("wait", text="wait until it ends, show its output, and exit with its exit code"),
    rest="CMD…",
    example="tb submit 'make test' --timeout 10m --wait",
)
def submit(context: Context, args: Args) -> int:
    """Prints the job's number. With --wait: prints its output, and exits with its exit code (128 + N for a signal)."""
    if bool(args.command) == bool(args.rest):
        raise Invalid("submit: expected one command", hint="tb submit 'make test', or tb submit -- make test")
    more = {name: args[name] for name in ("key", "unique_for", "delay", "at") if args[name] is not None}
    before = context.board.upkeep.now() if args.key else 0.0
    task = context.board.jobs.submit(
        command=args.command or args.rest, after=args.after, run_anyway=args.run_anyway, **given(args), **more
    )
    if args.wait:
        return _wait(context, task)
    known = task.created_at < before
    verb = context.styled("there is already", "warn") if known else context.styled("submitted", "good")
    context.answer(task, f"{verb} {called(task)}  ({task.state})")
    return 0


def _wait(context: Context, task: Task) -> int:
    printer = OutputPrinter(context, apart=True, progress=sys.stderr.isatty() and not context.json)
    try:
        ended = follow(context, task, printer)
    except KeyboardInterrupt:
        print(f"\ntb: {called(task)} goes on; `tb logs -f '#{task.number}'` shows it", file=sys.stderr)
        return 130
    context.code = exit_code(ended)
    if context.json:
        context.answer(ended)
    elif ended.state != "completed":
        reason = f": {plain(ended.reason)}" if ended.reason else ""
        print(f"tb: {called(ended)} is {ended.state}{reason}", file=sys.stderr)
    return context.code


# ── Looking ──────────────────────────────────────────────────────────────────────────────────────────


@command(
    "jobs",
    "List open jobs, newest first.",
    Option("all", text="also finished ones"),
    Option("failed", text="only failed ones"),
    Option("state", "STATE", "only in this state (repeatable)", many=True, sets="tasks.list.states"),
    Option("queue", "QUEUE", "only in this queue"),
    TAG,
    Option("name-contains", "TEXT", "only with this text in their name"),
    Option("every-project", text="of all projects, not only this one"),
    Option("before", "N", "only with smaller numbers: the next page", convert=whole),
    number("limit", "at most this many", SHOWN),
    example="tb jobs --failed",
)
def jobs(context: Context, args: Args) -> None:
    """Shows their progress, attempts and workers."""
    board = context.board
    states = ["failed"] if args.failed else args.state or (None if args.all else OPEN)
    found = board.tasks.list(
        kind=JOB,
        states=states,
        queue=args.queue,
        tag=one_tag(args.tag),
        name_contains=args.name_contains,
        before=args.before,
        limit=args.limit,
        project=None if args.every_project else board.project_names,
    )
    if context.json:
        context.answer(found)
        return
    if not found:
        which = "failed " if args.failed else "" if args.all or args.state else "open "
        context.say(f"no {which}jobs" + (" (--all shows finished ones)" if which == "open " else ""))
        return
    now = board.upkeep.now()
    header = ["#", "STATE", "QUEUE", "ATTEMPTS", "WORKER", "TIME", "AGE", "NAME"]
    rows = [_row(task, now) for task in found]
    context.say(table(rows, header=header, right={0, 3, 5, 6}, limit=context.width, colour=context.colour))
    if len(found) == args.limit:
        context.say(context.styled(f"more: --before {found[-1].number}", "dim"))


def _row(task: Task, now: float) -> list[str]:
    state = task.state + (percent_of(task.progress) if task.state == "claimed" else "")
    ended = task.finished_at or (now if task.state == "claimed" else None)
    took = span(ended - task.claimed_at) if ended and task.claimed_at else "-"
    attempts = f"{task.attempts}/{task.max_attempts}"
    said = [task.queue, attempts, who(task.holder), took, ago(now - task.created_at), task.name]
    return [str(task.number), Styled(state, STYLES.get(task.state, "")), *said]


def details(context: Context, task: Task) -> list[list[str]]:
    """The rows that `tb show` adds for a job; the board masks secrets."""
    known = context.board.jobs.inspect(ref=task.id)
    settings, facts = known["settings"] or {}, task.result if isinstance(task.result, dict) else {}
    bounds = settings.get("limits") or {}
    rows = [
        ["command", written(task.command)],
        ["folder", settings.get("cwd") or "-"],
        ["timeout", span(settings["timeout"]) if settings.get("timeout") else "-"],
        ["limit", known["limit"] or "-"],
        ["bounds", ", ".join(f"{name} {value:,}" for name, value in bounds.items()) or "-"],
        ["progress", percent_of(task.progress).strip() or "-"],
        ["exit", str(facts.get("signal") or facts.get("exit", "-"))],
        ["took", span(facts["seconds"]) if facts.get("seconds") is not None else "-"],
        ["peak", f"{facts['peak'] / (1 << 20):.1f} MiB" if facts.get("peak") else "-"],
    ]
    return rows + [["env", f"{name}={value}"] for name, value in (settings.get("env") or {}).items()]
