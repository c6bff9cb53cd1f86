"""`tb commit`: a commit of exactly the paths that are named."""

from __future__ import annotations

from ..text import block, plain
from .context import needed
from .parser import Argument, Option, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .context import Context
    from .parser import Args

SHOWN = 12


@command(
    "commit",
    "Commit exactly these paths as they are on disk, whatever else is staged or changed.",
    Argument("paths", "files or folders", many=True),
    Option("message", "TEXT", "what and why; each further one is a paragraph", short="m", many=True),
    Option("branch", "NAME", "the branch that this is meant for; refused if the checkout is on another one"),
    example="tb commit src/auth.py tests/test_auth.py -m 'Move the login to OAuth'",
)
def commit(context: Context, args: Args) -> None:
    """Refused if somebody else holds one of the paths, or if your claim has passed to somebody else.

    It commits what `git commit -- PATH…` would, and new files below the paths. Files that you have marked
    assume-unchanged or skip-worktree stay out, and so do other repositories in a folder; the answer names them.
    """
    from ..board import here
    from ..errors import Invalid, Refused
    from ..guard.commits.commit import commit as make
    from ..repository import repository

    needed(args.message, "--message")
    found = repository(here())
    if found is None:
        raise Invalid("commit: not in a git repository")
    try:
        message = "\n\n".join(args.message)
        made = make(context.board, found.root, here(), args.paths, message, args.branch or "")
    except Refused as exc:
        _show(context, str(exc.data.get("output") or ""))
        raise
    _show(context, str(made["hook_output"]))
    _warn(context, found.root, made)
    context.answer(made, _text(context, made))


def _warn(context: Context, root: str, made: dict[str, Any]) -> None:
    """Name the files that a person or a program changed unseen, before they were committed."""
    from ..guard.files.interference_report import words_unexplained
    from ..guard.files.unexplained_changes import unseen_in

    for change in unseen_in(context.board.agent, root, made["paths"]):
        context.warn(words_unexplained(change.record, change.state))


def _show(context: Context, output: str) -> None:
    """Show what the hooks of the repository printed. In JSON it is a part of the answer."""
    import sys

    if output and not context.json:
        print(block(output.rstrip("\n")), file=sys.stderr)


def _text(context: Context, made: dict[str, Any]) -> str:
    count, left_out = len(made["paths"]), made["left_out"]
    where = f"on {plain(made['branch'])}" if made["branch"] else "on no branch (HEAD is detached)"
    first = (
        f"{context.styled('committed', 'good')} {made['commit'][:12]} {where} {plain(made['subject'])} "
        f"({count} file{'s' if count != 1 else ''})"
    )
    lines = [f"left out: {plain(each['path'])} ({each['why']})" for each in left_out[:SHOWN]]
    lines += [
        f"{plain(each['path'])} leads through a link: committed as {plain(each['is'])}"
        for each in made["followed"][:SHOWN]
    ]
    more = [f"left out: {len(left_out) - SHOWN} more"] if len(left_out) > SHOWN else []
    return "\n".join([first, *lines, *more])
