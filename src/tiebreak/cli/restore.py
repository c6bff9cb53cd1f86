"""`tb restore`: restores a backup into the board, while others may have it open."""

from __future__ import annotations

import os

from ..errors import Invalid
from ..text import ago, plain
from .parser import Argument, Option, command, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..engine.move.restoring import Restored
    from .context import Context
    from .parser import Args


@command(
    "restore",
    "Restore a backup into the board; epochs never go back, and all claims and holds end.",
    Argument("file", "the backup, made by `tb backup`"),
    Option("yes", text="do not ask"),
    Option("dry-run", text="only show what would change; others wait meanwhile"),
    number(
        "epochs-above", "raise every epoch to this number: for what was granted after the backup, if that is lost", 0
    ),
    example="tb restore monday.db --dry-run",
)
def restore(context: Context, args: Args) -> None:
    """One transaction: interrupted, the board is as it was. The board before it is saved to a file first."""
    from ..board import acting_agent, default_address

    address = _restorable(args.board or default_address())
    agent = acting_agent(args["as"])
    if not (args.yes or args.dry_run):
        _refuse_unasked(context)
        _show(context, _run(context, args, address, agent, only_look=True))
        if not context.agrees("Restore it?"):
            raise Invalid("restore: nothing was changed", hint="--yes restores without asking")
    done = _run(context, args, address, agent, only_look=args.dry_run)
    if context.json:
        context.answer(done._asdict())
    else:
        _show(context, done)


def _run(context: Context, args: Args, address: str, agent: str, *, only_look: bool) -> Restored:
    from ..engine.move.restoring import restore

    try:
        return restore(
            args.file,
            address,
            agent=agent,
            save_to=_free_name(address),
            epochs_above=args.epochs_above,
            only_look=only_look,
            progress=lambda done, of: context.progress(f"{done} of {of}"),
        )
    finally:
        context.progress("")


def _restorable(address: str) -> str:
    """The address of a board into which this process can restore; raises `Invalid` for others."""
    from ..engine.addresses import path_of

    if address.startswith(("http://", "https://", "unix:")):
        hint = "run this on the machine that the board is on, with --board PATH or postgresql://…; the daemon may run"
        raise Invalid(f"restore: {plain(address)} is a daemon, not a board", hint=hint)
    scheme, mark, _ = address.partition("://")
    if mark and scheme not in ("sqlite", "postgresql", "postgres"):
        raise Invalid(f"restore: {scheme}://: this version does not support such addresses")
    return address if mark and scheme != "sqlite" else os.path.realpath(path_of(address))


def _free_name(address: str) -> str:
    """A file for the board as it was: beside it, or for a server in the user's state folder."""
    import time

    from ..user_folders import state_folder

    if "://" in address:
        stem, ending = os.path.join(state_folder(), "board"), ".db"
    else:
        stem, ending = os.path.splitext(address)
    name = f"{stem}.before-restore-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    return next(free for i in range(100) if not os.path.lexists(free := f"{name}{f'-{i}' if i else ''}{ending}"))


def _refuse_unasked(context: Context) -> None:
    if not context.can_ask:
        what = (
            "with --json nobody is asked"
            if context.json
            else "there is no terminal with a person, so nobody can be asked"
        )
        raise Invalid(
            f"restore: {what}",
            hint="--yes restores without asking, --dry-run only shows what would change",
        )


def _show(context: Context, done: Restored) -> None:
    import time

    would = done.outcome == "would"
    age = f" of {ago(time.time() - done.made_at)} ago" if done.made_at else ""
    context.say(f"{'would restore' if would else 'restored'} {plain(done.file)}{age} into {plain(done.board)}")
    counts = ", ".join(f"{count} {table}" for table, count in done.rows.items() if count) or "nothing"
    context.say(f"  the backup has {counts}")
    changes = done.changes
    if changes:
        context.say(
            f"  {changes['tasks_changed']} tasks change, {changes['tasks_gone']} open tasks are not in it; "
            f"{changes['claims_ended']} claims and {changes['holds_ended']} holds end"
        )
        context.say(f"  {changes['epochs_raised']} epochs stay above the backup's; the highest is {done.highest_epoch}")
    if done.log == "kept":
        context.say("  the log of the board goes on; the events in the backup are not used")
    if done.saved:
        context.say(f"  the board as it was is in {plain(done.saved)}")
