"""`tb recover`: brings back what somebody else's command has destroyed in a held file."""

from __future__ import annotations

import os
import sys

from ..advice import advice
from ..errors import Invalid, Refused, Unavailable
from ..names import short, shown
from ..text import argument, plain, span, table
from .advice import COMMANDS
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
    "Bring back what its holder left in a file; for a folder or without a path, list the files that have copies.",
    Argument("paths", "files, also those that are gone; the files in folders are listed", many=True, optional=True),
    Option("list", text="list all copies of the files, and change nothing"),
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
def recover(context: Context, args: Args) -> int:
    """Copies of a held file are kept on this machine for 7 days, as its holder's hooks saw it.

    What is in its place now gets a copy, too. Without a path, the files of the checkout are listed; outside of a
    repository, and for `/`, those of all checkouts. Exit 1 if another agent holds a file, or if there is no copy.
    """
    from ..guard.files import recovery

    into: str | None = args.into
    wanted: int | str = args["copy"]
    _check(args, into, wanted)
    folder = _folder()
    files: list[KeptFile] = []
    listed = [] if args.paths else recovery.kept_files(_checkout(folder))
    for path in args.paths:
        file = recovery.kept_file(path, folder)
        below = [] if file.copies or wanted or into is not None else recovery.kept_files(os.path.join(folder, path))
        if args.list and not (file.copies or below):
            file.chosen(0)  # which says that there is none
        (listed if args.list or below else files).extend(below or [file])
    if into is not None:
        _write_into(context, files[0], wanted, into)
        return 0
    if listed or not files:
        _list(context, listed, folder, every_copy=args.list)
    return max([_put_back(context, file, wanted) for file in files], default=0)


def _folder() -> str:
    """The current folder, also if somebody has removed it."""
    from ..board import here

    try:
        return here()
    except Invalid:
        return os.path.join(os.sep, os.environ.get("PWD", ""))


def _checkout(folder: str) -> str:
    """The checkout around a folder; outside of any, the folder of everything."""
    from ..repository import repository

    found = repository(folder)
    return found.root if found is not None else os.sep


def _check(args: Args, into: str | None, wanted: int | str) -> None:
    if into == "":
        raise Invalid("recover: --into needs the name of a file, and it is empty")
    if into is not None and len(args.paths) != 1:
        raise Invalid("recover: --into needs one file")
    if wanted and not args.paths:
        raise Invalid("recover: --copy needs a file")
    if args.list and (wanted or into is not None):
        raise Invalid("recover: --list only lists the copies, so --copy and --into cannot be given with it")


def _put_back(context: Context, file: KeptFile, wanted: int | str) -> int:
    """Recover one file; a refusal is printed, and does not keep the others from being recovered."""
    from ..guard.files.recovery import recover as put_back

    try:
        copy = put_back(context.board, file, wanted)
    except Refused as exc:
        context.complain(exc)
        return exc.exit_code
    except Unavailable as exc:
        into = f"`tb recover {argument(file.path)} --into PATH` writes a copy to a new file, without the board"
        raise Unavailable(exc.message, hint="; ".join(filter(None, (advice(exc, COMMANDS), into)))) from None
    context.answer(
        {"file": file.name, "was": file.state(), **_facts(copy)},
        f"{context.styled('recovered', 'good')} {plain(file.name)}, {_by_whom(short(copy.agent), copy.at)}",
    )
    return 0


def _write_into(context: Context, file: KeptFile, wanted: int | str, into: str) -> None:
    from ..guard.files.recovery import write_into

    copy = file.chosen(wanted)
    if into == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(copy.contents())
        return
    write_into(into, copy)
    context.answer({"file": file.name, "into": into}, f"wrote {plain(into)}, {_by_whom(short(copy.agent), copy.at)}")


def _by_whom(agent: str, at: float) -> str:
    import time

    ago = f"{span(max(0.0, time.time() - at))} ago"
    return f"as {plain(agent)} left it {ago}" if agent else f"as it was {ago}"


def _facts(copy: SafetyCopy) -> dict[str, Any]:
    return {"fingerprint": copy.short, "left_by": short(copy.agent), "at": copy.at}


def _list(context: Context, files: list[KeptFile], folder: str, *, every_copy: bool) -> None:
    rows: list[dict[str, Any]] = []
    for file in files:
        for number, copy in enumerate(file.copies, 1):
            if every_copy or (file.last is not None and copy.place == file.last.place):
                facts = {"file": file.name, "path": file.path, "copy": number}
                rows.append({**facts, **_facts(copy), "state": file.state()})
    if context.json:
        context.answer(rows)
        return
    if not rows:
        from ..guard.files.recovery import kept_files

        context.say("no copies are kept here; `tb recover /` lists all" if kept_files(os.sep) else "no copies are kept")
        return
    inside = os.path.join(folder, "")
    context.say(
        table(
            [
                [
                    row["path"].removeprefix(inside),
                    f"copy {row['copy']}",
                    row["fingerprint"],
                    _by_whom(row["left_by"], row["at"]),
                    row["state"] * (not every_copy or row["copy"] == 1),
                ]
                for row in rows
            ]
        )
    )
