"""`tb recover`: brings back what somebody else's command has destroyed in a held file."""

from __future__ import annotations

import sys

from ..errors import Invalid
from ..names import short
from ..text import plain, span, table
from .parser import Argument, Option, command, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..guard.files.recovery import KeptFile
    from .context import Context
    from .parser import Args


@command(
    "recover",
    "Bring back what its holder left in a file; without a path, list the files that have copies.",
    Argument("paths", "files, also those that are gone", many=True, optional=True),
    Option("list", text="list the copies of the files, and change nothing"),
    Option("copy", "N", "which copy, 1 for the newest (default: what the holder left)", default=0, convert=whole),
    Option("into", "PATH", "write the copy to a new file; - prints it"),
    example="tb recover src/auth.py",
)
def recover(context: Context, args: Args) -> None:
    """Copies of a held file are kept on this machine for 7 days, as its holder's hooks saw it.

    What is in its place now gets a copy, too. Exit 1 if another agent holds the file, or if there is no copy.
    """
    from ..board import here
    from ..guard.files import recovery
    from ..repository import repository

    if args.into and len(args.paths) != 1:
        raise Invalid("recover: --into needs one file")
    number: int = args["copy"]
    if args.list or not args.paths:
        found = repository(here())
        if not args.paths and found is None:
            raise Invalid("recover: not in a git repository")
        files = [recovery.kept_file(path, here()) for path in args.paths]
        _list(context, files or recovery.kept_files(found.root if found else ""), every_copy=args.list)
        return
    for path in args.paths:
        file = recovery.kept_file(path, here())
        if args.into:
            _write_into(context, file, number, args.into)
            continue
        copy = recovery.recover(context.board, file, number)
        context.answer(
            {"file": file.name, "was": file.state(), "left_by": short(copy.agent), "at": copy.at},
            f"{context.styled('recovered', 'good')} {plain(file.name)}, {_left(short(copy.agent), copy.at)}",
        )


def _write_into(context: Context, file: KeptFile, number: int, into: str) -> None:
    from ..guard.files.recovery import write_into

    copy = file.chosen(number)
    if into == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(copy.contents())
        return
    write_into(into, copy)
    context.answer({"file": file.name, "into": into}, f"wrote {plain(into)}, {_left(short(copy.agent), copy.at)}")


def _left(agent: str, at: float) -> str:
    import time

    ago = f"{span(max(0.0, time.time() - at))} ago"
    return f"as {plain(agent)} left it {ago}" if agent else f"as it was {ago}, before a copy replaced it"


def _list(context: Context, files: list[KeptFile], *, every_copy: bool) -> None:
    rows: list[dict[str, Any]] = []
    for file in files:
        for number, copy in enumerate(file.copies[: None if every_copy else 1], 1):
            facts = {"file": file.name, "copy": number, "left_by": short(copy.agent), "at": copy.at}
            rows.append({**facts, "state": file.state()})
    if context.json:
        context.answer(rows)
        return
    if not rows:
        context.say("no copies are kept")
        return
    context.say(
        table(
            [
                [
                    row["file"],
                    f"copy {row['copy']}",
                    _left(row["left_by"], row["at"]),
                    row["state"] * (row["copy"] == 1),
                ]
                for row in rows
            ]
        )
    )
