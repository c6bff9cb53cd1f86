"""Commands about what a task says: edit, comment. `description` reads the text that `post` and `edit` take."""

from __future__ import annotations

import os
import sys

from ..errors import Invalid
from ..text import plain
from .claims import REF, called
from .context import standard_input
from .parser import Argument, Option, command, tags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..model import Task
    from .context import Context
    from .parser import Args

BODY = (
    Option("body", "TEXT", "its description; - reads it from standard input"),
    Option("body-file", "FILE", "read its description from this file"),
)
"""The options of every command that takes a description."""


def description(args: Args) -> str | None:
    """The description that was given by `BODY`; None if none was."""
    if args.body is not None and args.body_file is not None:
        raise Invalid("--body or --body-file, not both")
    if args.body_file is not None and args.body_file != "-":
        return _read(args.body_file)
    if "-" in (args.body, args.body_file):
        return standard_input().rstrip("\n")
    return args.body  # type: ignore[no-any-return]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().rstrip("\n")
    except (OSError, UnicodeDecodeError) as exc:
        raise Invalid(f"cannot read {path!r}: {exc}") from None


@command(
    "edit",
    "Change what a task says: its name, description, priority, queue, tags or parent.",
    REF,
    Option("name", "TEXT", "another name"),
    *BODY,
    Option("no-body", text="remove its description"),
    Option("priority", "PRIORITY", "another priority", sets="tasks.edit.priority"),
    Option("queue", "QUEUE", "another queue"),
    tags("add a tag"),
    Option("no-tag", "TAG", "remove a tag (repeatable, or with commas)", many=True, commas=True),
    Option("parent", "REF", "make it a part of this task"),
    Option("no-parent", text="make it a part of no task"),
    example="tb edit login-bug --priority urgent --body 'only with Firefox'",
)
def edit(context: Context, args: Args) -> None:
    """Whoever holds the task keeps it. Without options, your editor ($VISUAL or $EDITOR) opens its description.

    If the description was changed while the editor was open, the edit is refused and your text is kept in a file.
    """
    changes: dict[str, Any] = {
        **args.given("name", "priority", "queue", "parent"),
        "tags": args.tag,
        "no_tags": args.no_tag,
        "no_body": args.no_body,
        "no_parent": args.no_parent,
    }
    if (body := description(args)) is not None:
        changes["body"] = body
    if changes.get("body") == "":
        raise Invalid("edit: an empty description", hint="--no-body removes it")
    changes = {name: value for name, value in changes.items() if value}
    before = context.board.tasks.get(ref=args.ref)
    task = context.board.tasks.edit(ref=before.id, **changes) if changes else _in_editor(context, before)
    changed = task.updated_at != before.updated_at
    verb = context.styled("edited", "good") if changed else "nothing to change in"
    context.answer(task, f"{verb} {called(task)}")


def _in_editor(context: Context, task: Task) -> Task:
    """Let a person rewrite the description in an editor; refused if somebody else has rewritten it meanwhile."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    if not editor or not context.can_ask:
        raise Invalid("edit: nothing to change", hint="give an option such as --body, or set EDITOR in a terminal")
    import shlex
    import subprocess
    import tempfile

    old = task.body or ""
    with tempfile.NamedTemporaryFile("w+", prefix=f"tb-{task.number}-", suffix=".md", delete=False) as file:
        file.write(old + "\n" if old else "")
    if code := subprocess.run([*shlex.split(editor), file.name], check=False).returncode:
        if _read(file.name) == old:
            os.unlink(file.name)
        else:
            print(f"your text is in {file.name}", file=sys.stderr)
        raise Invalid(f"edit: {plain(editor)} ended with {code}; nothing was changed")
    new = _read(file.name)
    if new != old:
        change = {"body": new} if new else {"no_body": True}
        try:
            task = context.board.tasks.edit(ref=task.id, was=old, **change)
        except BaseException:
            print(f"your text is in {file.name}", file=sys.stderr)
            raise
    os.unlink(file.name)
    return task


@command(
    "comment",
    "Add a comment to a task.",
    REF,
    Argument("text", "what to say; - reads it from standard input", many=True, sets="body"),
    example="tb comment login-bug 'it also fails on Safari'",
)
def comment(context: Context, args: Args) -> None:
    """Everybody reads it at the task (`tb show`).

    It also arrives in the inbox of the agent that holds the task, or, if you hold it, of the one that posted it.
    """
    body = standard_input() if args.text == ["-"] else " ".join(args.text)
    message = context.board.messages.send(body=body, about=args.ref)
    told = f", and told {plain(message.recipient)}" if message.recipient else ""
    context.answer(message, f"commented on #{message.task}{told}")
