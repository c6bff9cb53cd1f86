"""`tb migrate`: moves a board to another database, while it is in use."""

from __future__ import annotations

import os
import sys

from ..errors import Invalid, Refused
from ..text import plain, span
from .parser import Option, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..engine.move.moving import Moved
    from .context import Context
    from .parser import Args

_OUTCOMES = {
    "moved": "moved {rows} to {target}",
    "finished": "finished an interrupted move of {rows} to {target}",
    "already": "moved to {target} already",
    "would": "would move {rows} to {target}",
}


@command(
    "migrate",
    "Move the board to another address while it is in use; the old address then redirects to the new one.",
    Option("to", "ADDRESS", "the new address: postgresql://…, or a file for SQLite"),
    Option("dry-run", text="only show what would be moved"),
    example="tb migrate --to postgresql://tiebreak@db.example/board",
)
def migrate(context: Context, args: Args) -> None:
    """Safe to interrupt and repeat. `tb migrate` on the new board moves it back."""
    from ..board import default_address
    from ..engine.move.moving import move

    if not args.to:
        raise Invalid("migrate: --to is missing", hint="tb migrate --to postgresql://… or a file")
    source, target = _movable(args.board or default_address()), _movable(args.to)
    try:
        done = move(source, target, _progress, only_look=args.dry_run)
    finally:
        _clear()
    context.answer({**done._asdict(), "total": sum(done.rows.values())}, _summary(context, done))


def _movable(address: str) -> str:
    """The address of a board that can be moved by this process; raises `Invalid` or `Refused` for others."""
    from ..engine.addresses import path_of

    if address.startswith(("http://", "https://", "unix:")):
        hint = "run this on the machine that the board is on, without a daemon: --board PATH or postgresql://…"
        raise Invalid(f"migrate: {plain(address)} is a daemon, not a board", hint=hint)
    scheme, mark, _ = address.partition("://")
    if mark and scheme not in ("sqlite", "postgresql", "postgres"):
        raise Invalid(f"migrate: {scheme}://: this version does not support such addresses")
    if scheme in ("postgresql", "postgres") and mark:
        return address
    path = os.path.realpath(path_of(address))
    _refuse_served(path)
    return path


def _refuse_served(path: str) -> None:
    from ..daemon.lock import served

    who = served(path)
    if who is not None:
        pid = f"pid {who['pid']}" if who else "a daemon that is starting"
        hint = "end it with `tb serve --stop`, and start it again with the new address"
        raise Refused(f"migrate: {path} is served by {pid}", hint=hint, **who)


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{done} of {total} rows", end="", file=sys.stderr, flush=True)


def _clear() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _summary(context: Context, done: Moved) -> str:
    counts = ", ".join(f"{count} {table}" for table, count in done.rows.items() if count) or "an empty board"
    lines = [_OUTCOMES[done.outcome].format(rows=counts, target=plain(done.target))]
    if abs(done.shift) >= 1:
        ahead = "ahead of" if done.shift > 0 else "behind"
        lines.append(f"  its clock is {span(abs(done.shift))} {ahead} the old one's; all times were shifted by that")
    if done.outcome != "would":
        lines.append(context.styled(f"  export TIEBREAK_BOARD='{plain(done.target)}'", "dim"))
    return "\n".join(lines)
