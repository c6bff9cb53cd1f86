"""`tb top`: the board on one screen."""

from __future__ import annotations

import sys

from ..errors import Invalid, Refused
from .parser import Option, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..top.dialogs import CommandEntry
    from .context import Context
    from .parser import Args

VIEWS = ("agents", "tasks", "holds", "jobs", "messages")
program: list[str] = []
"""The words that start `tb`, for commands that are chosen on the screen; set by `tiebreak.program`."""


@command(
    "top",
    "Watch the board on one screen: what needs you, who works, waits or is idle.",
    Option("once", text="print one frame as text and exit; no terminal is needed"),
    Option("view", "VIEW", "agents, tasks, holds, jobs or messages (default agents)", default="agents"),
    Option("filter", "WORDS", "only rows with these words"),
    example="tb top",
)
def top(context: Context, args: Args) -> None:
    """Live by events, on every kind of board. `?` shows the keys: peek, attach, answer, message, cancel and more.

    With --once --json: all that the frame shows, as data. Needs the extra `top`, except with --once.
    """
    if args.view not in VIEWS:
        raise Invalid(f"--view: one of {', '.join(VIEWS)}, got {args.view!r}")
    if args.once:
        _print(context, args)
        return
    if context.json:
        raise Invalid("--json goes with --once")
    try:
        from ..top.keys import TopApp
    except ModuleNotFoundError as exc:
        from ..installation import missing_extra

        raise missing_extra(f"top: {(exc.name or '').partition('.')[0]} is not installed", "top") from exc
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):  # Textual draws on the last one
        raise Refused("top: this is not a terminal", hint="`tb top --once` prints one frame")
    from .advice import in_one_line

    board = context.board
    board.on_wait = None  # notices on standard error would be drawn over the screen
    begin = {"view": args.view, "words": args.filter or ""}
    TopApp(board, program=program, commands=entries, explain=in_one_line, **begin).run()


def _print(context: Context, args: Args) -> None:
    from shutil import get_terminal_size

    from ..top.frame import as_text
    from ..top.snapshot import as_json, take

    taken = take(context.board, args.view, find=(args.filter or "").strip())
    if context.json:
        context.answer(as_json(taken))
        return
    columns = context.width or get_terminal_size().columns
    context.say(as_text(taken, columns, args.filter or "", colour=context.colour))


def entries() -> list[CommandEntry]:
    """Every command, for the palette."""
    from ..top.dialogs import CommandEntry
    from . import find, names
    from .parser import usage

    made = []
    for name in names():
        found = find(name)
        asks = any(option.name == "yes" for option in found.options)
        made.append(CommandEntry(name, usage(found), found.text, asks))
    return made
