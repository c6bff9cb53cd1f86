"""`tb recover`: brings back what somebody else's command has destroyed in a held file."""

from __future__ import annotations

import sys

from ..errors import Invalid
from ..names import short, shown
from ..text import plain, span, table
from .parser import Argument, Option, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..guard.files.recovery import KeptFile
    from ..guard.files.safety_copies import SafetyCopy
    from .context import Context
    from .parser import Args

NUMBER, PREFIX = 3, 6
"""Most digits of a copy's number, and fewest of its fingerprint."""


def _copy(value: str) -> int | str:
    """The number of a copy, or the beginning of its fingerprint."""
    if value.isascii() and value.isdecimal() and len(value) <= NUMBER:
        if int(value) == 0:
            raise Invalid("copies are numbered from 1, the newest")
        return int(value)
    wanted = value.lower()
    digits = wanted.removeprefix("link-")
    if len(digits) < PREFIX or not set(digits) <= set("0123456789abcdef"):
        raise Invalid(
            f"expected a number from 1, or at least {PREFIX} hex digits of a copy's fingerprint, got {shown(value)}",
            hint="`tb recover --list PATH` shows both",
        )
    return wanted


@command(
    "recover",
    "Bring back what its holder left in a file; without a path, list the files that have copies.",
    Argument("paths", "files, also those that are gone", many=True, optional=True),
    Option("list", text="list the copies of the files, and change nothing"),
    Option(
        "copy",
        "COPY",
        "which copy: its number, 1 for the newest, or the beginning of its fingerprint (default: what the holder left)",
        default=0,
        convert=_copy,
    ),
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

    into: str | None = args.into
    if into == "":
        raise Invalid("recover: --into needs the name of a file, and it is empty")
    if into is not None and len(args.paths) != 1:
        raise Invalid("recover: --into needs one file")
    wanted: int | str = args["copy"]
    if wanted and not args.paths:
        raise Invalid("recover: --copy needs a file")
    if args.list or not args.paths:
        found = repository(here())
        if not args.paths and found is None:
            raise Invalid("recover: not in a git repository")
        files = [recovery.kept_file(path, here()) for path in args.paths]
        _list(context, files or recovery.kept_files(found.root if found else ""), every_copy=args.list)
        return
    for path in args.paths:
        file = recovery.kept_file(path, here())
        if into is not None:
            _write_into(context, file, wanted, into)
            continue
        copy = recovery.recover(context.board, file, wanted)
        context.answer(
            {"file": file.name, "was": file.state(), **_facts(copy)},
            f"{context.styled('recovered', 'good')} {plain(file.name)}, {_left(short(copy.agent), copy.at)}",
        )


def _write_into(context: Context, file: KeptFile, wanted: int | str, into: str) -> None:
    from ..guard.files.recovery import write_into

    copy = file.chosen(wanted)
    if into == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(copy.contents())
        return
    write_into(into, copy)
    context.answer({"file": file.name, "into": into}, f"wrote {plain(into)}, {_left(short(copy.agent), copy.at)}")


def _left(agent: str, at: float) -> str:
    import time

    ago = f"{span(max(0.0, time.time() - at))} ago"
    return f"as {plain(agent)} left it {ago}" if agent else f"as it was {ago}"


def _facts(copy: SafetyCopy) -> dict[str, Any]:
    return {"fingerprint": copy.short, "left_by": short(copy.agent), "at": copy.at}


def _list(context: Context, files: list[KeptFile], *, every_copy: bool) -> None:
    rows: list[dict[str, Any]] = []
    for file in files:
        for number, copy in enumerate(file.copies, 1):
            if every_copy or (file.left is not None and copy.place == file.left.place):
                rows.append({"file": file.name, "copy": number, **_facts(copy), "state": file.state()})
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
                    row["fingerprint"],
                    _left(row["left_by"], row["at"]),
                    row["state"] * (not every_copy or row["copy"] == 1),
                ]
                for row in rows
            ]
        )
    )
