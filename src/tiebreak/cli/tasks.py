"""The less frequent commands on tasks: post, depend, cancel, retry, show, tasks."""

from __future__ import annotations

from ..errors import Invalid, NotFound, Refused
from ..limits import ATTEMPTS, BACKOFF, MAX_LIMIT, SHOWN
from ..model import encode
from ..names import ANNOUNCEMENTS
from ..text import Styled, ago, block, plain, span, table
from .claims import REASON, REF, TAG, called, indented, who
from .context import needed
from .editing import BODY, description
from .parser import Argument, Option, command, duration, json_argument, number, one_tag, tags, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..model import Task
    from .context import Context
    from .parser import Args

STYLES = {
    "pending": "accent",
    "claimed": "warn",
    "completed": "good",
    "failed": "bad",
    "cancelled": "dim",
    "blocked": "dim",
    "urgent": "bad",
    "high": "warn",
    "low": "dim",
}
OPEN = ["blocked", "pending", "claimed"]


@command(
    "post",
    "Add a task to the board.",
    Argument("name", "what is to be done"),
    Option(
        "kind",
        "KIND",
        f"the kind of task; {', '.join(ANNOUNCEMENTS)} are announcements, which nobody claims",
        sets="tasks.post.kind",
    ),
    Option("priority", "PRIORITY", "its priority", sets="tasks.post.priority"),
    Option("queue", "QUEUE", "the queue it waits in", sets="tasks.post.queue"),
    Option("payload", "JSON", "its payload: JSON, @FILE or - for standard input", convert=json_argument),
    Option("key", "KEY", "a unique key; if a task with this key exists, it is returned instead"),
    Option("after", "REF", "ready only after this task (repeatable)", many=True),
    Option("run-anyway", text="become ready even if one of those failed"),
    Option("delay", "DURATION", "not ready before this time has passed", default="0s"),
    number("max-attempts", "attempts before it fails", ATTEMPTS),
    duration("backoff", "wait before the second attempt, doubled each time", BACKOFF),
    tags("a tag"),
    Option("about", "REF", "the task that it is about: of an announcement, or of the bug that it fixes"),
    *BODY,
    Option("parent", "REF", "the task that it is a part of"),
    example="tb post 'fix the login bug' --key login-bug --priority high --body 'since the last release'",
)
def post(context: Context, args: Args) -> None:
    """Prints the task's number."""
    task = context.board.tasks.post(
        name=args.name,
        **args.given("kind", "priority", "queue"),
        payload=args.payload,
        key=args.key,
        after=args.after,
        run_anyway=args.run_anyway,
        delay=args.delay,
        max_attempts=args.max_attempts,
        backoff=args.backoff,
        tags=args.tag,
        about=args.about,
        body=description(args),
        parent=args.parent,
    )
    known = task.created_at < task.updated_at or task.state in ("claimed", "failed", "cancelled")
    verb = context.styled("there is already", "warn") if known else context.styled("posted", "good")
    context.answer(task, f"{verb} {called(task)}  ({task.state})")


@command(
    "depend",
    "Make a task depend on others.",
    REF,
    Option("after", "REF", "the task that must be completed first (repeatable)", many=True),
    example="tb depend '#7' --after '#5' --after '#6'",
)
def depend(context: Context, args: Args) -> None:
    """A cycle is refused."""
    needed(args.after, "--after")
    task = context.board.tasks.depend(ref=args.ref, after=args.after)
    context.answer(task, f"{called(task)} is {task.state}")


@command("cancel", "Cancel a task.", REF, REASON, example="tb cancel '#42' --reason 'not needed any more'")
def cancel(context: Context, args: Args) -> None:
    """A finished task stays as it is."""
    task = context.board.tasks.cancel(ref=args.ref, reason=args.reason)
    context.answer(task, f"cancelled {called(task)}")


@command(
    "retry",
    "Reopen a failed or cancelled task, or all failed tasks that match.",
    Argument("ref", REF.text, optional=True),
    REASON,
    Option("failed", text="all failed tasks that match the options below"),
    Option("queue", "QUEUE", "only in this queue"),
    Option("kind", "KIND", "only of this kind (job, task …)"),
    TAG,
    Option("name-contains", "TEXT", "only with this text in their name"),
    Option("limit", "N", "at most this many, oldest first (default: all)", convert=whole),
    example="tb retry --failed --queue mail",
)
def retry(context: Context, args: Args) -> None:
    """The task gets all its attempts again; its epoch is kept. Many tasks are reopened in several transactions."""
    if bool(args.ref) == args.failed:
        raise Invalid(
            "retry: expected either a task, or --failed", hint="tb retry '#42', or tb retry --failed --queue mail"
        )
    if args.ref:
        task = context.board.tasks.retry(ref=args.ref, reason=args.reason)
        context.answer(task, f"reopened {called(task)}")
        return
    if args.limit is not None and args.limit < 1:
        raise Invalid(f"retry: --limit: at least 1, got {args.limit}")
    filters = {name: args[name] for name in ("queue", "kind", "name_contains")} | {"tag": one_tag(args.tag)}
    failed = _failed(context, filters)
    wanted = failed[: args.limit]
    reopened = _reopen(context, wanted, args.reason)
    remaining = len(failed) - len(wanted)
    if context.json:
        context.answer({"reopened": reopened, "remaining": remaining})
    elif not failed:
        context.say("nothing that matches has failed")
    elif remaining:
        context.say(f"{remaining} more have failed; without --limit they are reopened, too")


_STEP = 200
"""Most tasks that are reopened in one transaction, so that nobody has to wait long."""


def _failed(context: Context, filters: dict[str, Any]) -> list[int]:
    """The numbers of all failed tasks that match, oldest first."""
    numbers: list[int] = []
    while True:
        before = numbers[-1] if numbers else None
        found = context.board.tasks.list(states=["failed"], limit=MAX_LIMIT, before=before, **filters)
        numbers += [task.number for task in found]
        if len(found) < MAX_LIMIT:
            return numbers[::-1]


def _reopen(context: Context, numbers: list[int], reason: str | None) -> list[Any]:
    """Reopen these tasks; returns them for JSON. A task that somebody else has reopened meanwhile is skipped."""
    reopened: list[Any] = []
    for begin in range(0, len(numbers), _STEP):
        step = [("tasks.retry", {"ref": f"#{number}", "reason": reason}) for number in numbers[begin : begin + _STEP]]
        for answer in context.board.batch(step):
            if isinstance(answer, BaseException) and not isinstance(answer, Refused):
                raise answer
            if not isinstance(answer, BaseException):
                reopened.append(encode(answer))
                if not context.json:
                    context.say(f"reopened {called(answer)}")
        if context.json:
            context.progress(f"{len(reopened)} of {len(numbers)} reopened")
    if context.json:
        context.progress("")
    return reopened


@command("show", "Show one task in full.", REF, example="tb show login-bug")
def show(context: Context, args: Args) -> None:
    """Shows everything that the board knows about it."""
    board = context.board
    task = board.tasks.get(ref=args.ref)
    if context.json:
        context.answer(task)
        return
    from ..operations.references import is_question

    now = board.upkeep.now()
    before = board.tasks.after(ref=task.id)
    rows = [
        ["state", Styled(task.state, STYLES.get(task.state, ""))],
        [
            "holder",
            f"{who(task.holder)}, {_lease(task, now)}" if task.state == "claimed" else who(task.holder),
        ],
        ["epoch", str(task.epoch)],
        ["attempts", f"{task.attempts} of {task.max_attempts}" if task.max_attempts else "-"],
        ["kind", task.kind],
        ["queue", task.queue],
        ["priority", Styled(task.priority, STYLES.get(task.priority, ""))],
        ["key", task.key or "-"],
        ["tags", " ".join(task.tags) or "-"],
        ["after", " ".join(f"#{t.number}({t.state})" for t in before) or "-"],
        ["part of", _parent(context, task)],
        ["reason", task.reason or "-"],
        ["project", task.project],
        ["id", task.id],
        ["posted", f"{ago(now - task.created_at)} ago by {who(task.created_by)}"],
    ]
    if task.command is not None:
        from .jobs import details

        rows += details(context, task)
    if asked := is_question(task):
        from .questions import details_of_question

        rows = [*details_of_question(task), *(row for row in rows if row[0] not in ("epoch", "attempts", "queue"))]
    if task.ready_at and task.state == "pending":
        rows.insert(1, ["ready", ago(now - task.ready_at)])
    context.say(context.styled(called(task), "bold"))
    lines = [row for row in rows if "\n" in row[1]]
    context.say(table([row for row in rows if row[1] != "-" and row not in lines], colour=context.colour))
    for label, text in lines:
        context.say(f"{label}\n" + indented(block(text)))
    facts = isinstance(task.result, dict) and "exit" in task.result and task.command is not None
    for label, value in (("payload", task.payload), ("result", None if facts else task.result)):
        if value is not None and not asked:
            import json

            text = json_lines(json.dumps(value, ensure_ascii=False, indent=2))
            context.say(f"{label}\n" + indented(block(text)))
    if task.body:
        context.say("description\n" + indented(block(task.body)))
    _show_parts(context, task)
    _show_comments(context, task, now)


def _parent(context: Context, task: Task) -> str:
    if task.parent is None:
        return "-"
    try:
        return called(context.board.tasks.get(ref=task.parent))
    except NotFound:
        return f"#{task.parent}, which was pruned"


def _show_parts(context: Context, task: Task) -> None:
    parts = context.board.tasks.list(parent=task.id, limit=MAX_LIMIT)[::-1]
    if parts:
        done = sum(part.state == "completed" for part in parts)
        context.say(f"parts, {done} of {len(parts)} completed")
        rows = [[f"#{part.number}", Styled(part.state, STYLES.get(part.state, "")), part.name] for part in parts]
        context.say(indented(table(rows, limit=max(context.width - 2, 0), colour=context.colour)))


def _show_comments(context: Context, task: Task, now: float) -> None:
    comments = context.board.messages.comments(ref=task.id, limit=MAX_LIMIT)
    if comments:
        context.say("comments")
    for comment in comments:
        context.say(context.styled(f"  {plain(comment.sender)}, {ago(now - comment.sent_at)} ago", "dim"))
        context.say("\n".join("    " + line for line in block(comment.body).splitlines()))


def json_lines(text: str) -> str:
    r"""Indented JSON for people: the line breaks in its texts are line breaks, not `\n`."""
    import re

    def broken(line: str) -> str:
        margin = " " * (len(line) - len(line.lstrip()) + 2)
        return re.sub(r"\\(.)", lambda found: f"\n{margin}" if found[1] == "n" else found[0], line)

    return "\n".join(map(broken, text.split("\n")))


@command(
    "tasks",
    "List open tasks, newest first.",
    Option("all", text="also finished ones"),
    Option("state", "STATE", "only in this state (repeatable)", many=True, sets="tasks.list.states"),
    Option("kind", "KIND", "only of this kind"),
    Option("queue", "QUEUE", "only in this queue"),
    Option("priority", "PRIORITY", "only of this priority", sets="tasks.list.priority"),
    TAG,
    Option("agent", "NAME", "only those held by this agent"),
    Option("mine", text="only those that you hold"),
    Option("name-contains", "TEXT", "only with this text in their name"),
    Option("every-project", text="of all projects, not only this one"),
    Option("before", "N", "only with smaller numbers: the next page", convert=whole),
    Option("tree", text="each below the task that it is a part of"),
    Option("under", "REF", "with --tree: only this task and what is below it"),
    number("limit", "at most this many", SHOWN),
    example="tb tasks --state pending --priority urgent",
)
def tasks(context: Context, args: Args) -> None:
    """Shows numbers, states, holders and ages. `--tree` takes --all, --under and --limit."""
    board = context.board
    if args.tree:
        _show_tree(context, args)
        return
    if args.under is not None:
        raise Invalid("tasks: --under needs --tree")
    found = board.tasks.list(
        project=None if args.every_project else board.project_names,
        states=args.state or (None if args.all else OPEN),
        kind=args.kind,
        queue=args.queue,
        priority=args.priority,
        tag=one_tag(args.tag),
        agent=board.agent if args.mine else args.agent,
        name_contains=args.name_contains,
        before=args.before,
        limit=args.limit,
    )
    if args.mine:
        found = [task for task in found if board.is_me(task)]
    if context.json:
        context.answer(found)
        return
    if not found:
        context.say("no tasks" if args.all or args.state else "no open tasks (--all shows finished ones)")
        return
    now = board.upkeep.now()
    context.say(
        table(
            [_row(task, now) for task in found],
            header=["#", "STATE", "PRIORITY", "KIND", "HOLDER", "LEFT", "AGE", "NAME"],
            right={0, 5, 6},
            limit=context.width,
            colour=context.colour,
        )
    )
    if len(found) == args.limit:
        context.say(context.styled(f"more: --before {found[-1].number}", "dim"))


def _show_tree(context: Context, args: Args) -> None:
    filters = ("state", "kind", "queue", "priority", "tag", "agent", "mine", "name_contains", "every_project", "before")
    if wrong := [name for name in filters if args[name]]:
        raise Invalid(f"tasks: --tree and --{wrong[0].replace('_', '-')} do not go together")
    found = context.board.tasks.tree(ref=args.under, every=args.all, limit=args.limit)
    if context.json:
        context.answer(found)
        return
    if not found:
        context.say("no tasks" if args.all else "no open tasks (--all shows finished ones)")
        return
    from .task_tree import branches

    rows = [
        [str(task.number), Styled(task.state, STYLES.get(task.state, "")), who(task.holder), branch + task.name]
        for task, branch in branches(found)
    ]
    header = ["#", "STATE", "HOLDER", "NAME"]
    context.say(table(rows, header=header, right={0}, limit=context.width, colour=context.colour))
    if len(found) >= args.limit:
        context.say(context.styled(f"more: --limit {min(args.limit * 10, MAX_LIMIT)}", "dim"))


def _lease(task: Task, now: float) -> str:
    left = (task.until or now) - now
    return f"whose lease ran out {span(-left)} ago" if task.lapsed else f"for another {span(left)}"


def _row(task: Task, now: float) -> list[str]:
    left = span(task.until - now) if task.until and task.state == "claimed" else "-"
    left = "lapsed" if task.lapsed and task.state == "claimed" else left
    name = task.name if not task.key or task.key == task.name else f"{task.name}  [{task.key}]"
    return [
        str(task.number),
        Styled(task.state, STYLES.get(task.state, "")),
        Styled(task.priority, STYLES.get(task.priority, "")),
        task.kind,
        who(task.holder),
        left,
        ago(now - task.created_at),
        name,
    ]
