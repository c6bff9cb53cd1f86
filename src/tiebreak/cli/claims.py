"""The frequent commands on tasks: claim, next, extend, complete, fail, release. They import as little as possible,
so they run operations by `board.call`: `board.tasks` would load a further package.
"""

from __future__ import annotations

from ..errors import Invalid, Refused
from ..limits import CLAIM_LEASE, MAX_COUNT
from ..model import created_by_claim, encode
from ..names import seconds, short
from ..text import block, plain, span
from .parser import Argument, Option, command, duration, json_argument, one_tag, tags, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..model import Task
    from .context import Context
    from .parser import Args

REF = Argument("ref", "the task: its number, key, id or a unique beginning of the id")
EPOCH = Option("epoch", "N", "the epoch of your claim (default: the current one)", default=0, convert=whole)
LEASE = duration("lease", "how long the claim lasts unless renewed", CLAIM_LEASE)
WAIT = Option("wait", "DURATION", "wait that long if it is not available", default="0s")
TAG = tags("only with this tag", one=True)
WON = "won"
REASON = Option("reason", "TEXT", "why")


def called(task: Task) -> str:
    """A task's number and name, for messages."""
    return f"#{task.number} {plain(task.name)}"


def grant(context: Context, task: Task, verb: str, lease: float, **more: Any) -> None:
    """Print a won or renewed claim, in JSON with `more` facts."""
    if context.json:
        context.answer({**encode(task), **more})
    else:
        context.say(f"{context.styled(verb, 'good')} {called(task)}  epoch {task.epoch}, for {span(lease)}")
        if verb == WON and task.body:
            context.say(indented(block(task.body)))


def indented(text: str) -> str:
    """Text of several lines, each of them moved to the right, so that none can be taken for one of ours."""
    return "\n".join(f"  {line}".rstrip() for line in text.split("\n"))


@command(
    "claim",
    "Claim a task, or learn who has it.",
    REF,
    LEASE,
    WAIT,
    Option("create", text="post a task for this key, even if there is one that is spelled almost the same"),
    Option("no-create", text="do not post a task for a key that does not exist"),
    example="tb claim login-bug --lease 20m",
)
def claim(context: Context, args: Args) -> None:
    """Exit 0 if you have it now; 1 if somebody else has it, who is named.

    A key that no task has is posted as a new task. A key that is one letter away from a known one, with the same
    digits, is asked about on a terminal, and refused otherwise. A number is never posted: `key:42` claims the key 42.
    """
    if args.create and args.no_create:
        raise Invalid("claim: --create or --no-create, not both")
    ref, create = args.ref, False if args.no_create else True if args.create else None
    try:
        task = context.board.win(ref, lease=args.lease, create=create, wait=args.wait)
    except Refused as refusal:
        if refusal.reason != "key-near" or (chosen := _ask_which(context, refusal)) is None:
            raise
        task = context.board.win(chosen or ref, lease=args.lease, create=not chosen, wait=args.wait)
    created = created_by_claim(task)
    grant(context, task, WON, seconds(args.lease), created=created)
    if created and not context.json:
        context.warn(f"no task had the key {task.key}: posted #{task.number} and claimed it")


def _ask_which(context: Context, refusal: Refused) -> str | None:
    """Ask a person which key was meant: the known task's reference, "" for the key as given, None for neither."""
    facts = refusal.data
    answer = context.ask(
        f"{refusal.message}.\nClaim #{facts['number']} {facts['meant']} (y), post {facts['key']} as a new task (c), "
        "or neither (N)? "
    )
    return f"#{facts['number']}" if answer in ("y", "yes") else "" if answer in ("c", "create") else None


@command(
    "next",
    "Claim the next ready tasks: highest priority first, then oldest.",
    Option("kind", "KIND", "only of this kind"),
    Option("queue", "QUEUE", "only from this queue"),
    TAG,
    Option("order", "ORDER", "which first", sets="tasks.next.order"),
    Option("count", "N", f"at most this many, 1 to {MAX_COUNT} (default 1)", default=1, convert=whole),
    LEASE,
    WAIT,
    example="tb next --kind bug --wait 60s",
)
def next_ready(context: Context, args: Args) -> int:
    """Exit 0 if a task was claimed; 1 if none is ready; 2 if none became ready while waiting.

    `--order critical` claims first what the most other tasks wait for, directly or indirectly.
    """
    won = context.board.win_next(
        kind=args.kind,
        queue=args.queue,
        tag=one_tag(args.tag),
        count=args.count,
        lease=args.lease,
        wait=args.wait,
        **args.given("order"),
    )
    if context.json:
        context.answer(won)
    for task in won if not context.json else []:
        grant(context, task, WON, seconds(args.lease))
    if not won and not context.json:
        context.say("nothing is ready")
    return 0 if won else 2 if seconds(args.wait) else 1


@command("extend", "Renew a claim for another lease.", REF, LEASE, EPOCH, example="tb extend '#42' --lease 30m")
def extend(context: Context, args: Args) -> None:
    """The new lease counts from now."""
    task: Task = context.board.call("tasks.extend", {"ref": args.ref, "lease": args.lease, "epoch": args.epoch})
    grant(context, task, "extended", seconds(args.lease))


@command(
    "complete",
    "Finish a task that you have claimed.",
    REF,
    Option("result", "JSON", "the result: JSON, @FILE or - for standard input", convert=json_argument),
    Option("ack", text="post an announcement in the same transaction"),
    Option("ack-name", "TEXT", "the announcement's name"),
    Option("ack-priority", "PRIORITY", "the announcement's priority", sets="tasks.complete.ack_priority"),
    Option("ack-payload", "JSON", "the announcement's payload", convert=json_argument),
    EPOCH,
    example='tb complete login-bug --result \'{"commit": "1a2b3c"}\' --ack',
)
def complete(context: Context, args: Args) -> None:
    """Refused if the claim is no longer yours."""
    params: dict[str, Any] = {}
    if args.ack or args.ack_name or args.ack_payload is not None:
        params = {
            "ack": True,
            "ack_name": args.ack_name,
            "ack_payload": args.ack_payload,
            **args.given("ack_priority"),
        }
    given = {"ref": args.ref, "epoch": args.epoch, "result": args.result, **params}
    task: Task = context.board.call("tasks.complete", given)
    _tell(context, task, "completed", "good")


@command(
    "fail",
    "Report that an attempt failed; the task is retried while attempts are left.",
    REF,
    REASON,
    Option("no-retry", text="do not try again"),
    EPOCH,
    example="tb fail '#42' --reason 'tests are red'",
)
def fail(context: Context, args: Args) -> None:
    """The task becomes ready again after a backoff, or failed if no attempt is left."""
    given = {"ref": args.ref, "epoch": args.epoch, "reason": args.reason, "retry": not args.no_retry}
    task: Task = context.board.call("tasks.fail", given)
    left = task.max_attempts - task.attempts
    _tell(context, task, "failed" if task.state == "failed" else f"will be retried ({left} left)", "warn")


@command(
    "release",
    "Give a claim back; the attempt does not count.",
    REF,
    REASON,
    EPOCH,
    example="tb release '#42'",
)
def release(context: Context, args: Args) -> None:
    """The task is ready again at once."""
    task: Task = context.board.call("tasks.release", {"ref": args.ref, "epoch": args.epoch, "reason": args.reason})
    _tell(context, task, "released", "good")


def _tell(context: Context, task: Task, verb: str, style: str) -> None:
    context.answer(task, "" if context.json else f"{context.styled(verb, style)} {called(task)}")


def who(agent: str | None) -> str:
    """An agent's name for a table."""
    return short(agent) if agent else "-"
