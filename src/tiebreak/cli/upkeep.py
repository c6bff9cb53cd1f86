"""Commands for the board itself: prune, backup, doctor."""

from __future__ import annotations

from ..errors import Refused, Unavailable
from ..limits import KEPT
from ..names import seconds, written
from ..text import Styled, plain, table
from .parser import Argument, Option, command, duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .context import Context
    from .parser import Args

FORGOTTEN = ("tasks", "events", "messages", "agents", "answers")
"""What pruning deletes, as `upkeep.prune` counts it."""
STYLES = {"ok": "good", "warn": "warn", "bad": "bad"}


@command(
    "prune",
    "Delete old finished tasks, events and messages of this project; epochs are never deleted.",
    duration("older-than", "how old", KEPT),
    Option("every-project", text="of all projects, not only this one"),
    Option("dry-run", text="only say what would be deleted"),
    Option("yes", text="do not ask, even on a terminal"),
    example="tb prune --older-than 7d --dry-run",
)
def prune(context: Context, args: Args) -> int:
    """In a terminal it says what it will delete and asks. It works in small transactions, so that nobody waits long."""
    board = context.board
    project = None if args.every_project else board.project
    which = {"older_than": args.older_than, **({"project": project} if project else {})}
    about = {"project": project, "dry_run": args.dry_run}
    if args.dry_run or (context.can_ask and not args.yes):
        would = board.upkeep.prunable(**which)
        total = {name: getattr(would, name) for name in FORGOTTEN}
        if args.dry_run or not any(total.values()):
            context.answer({**about, **total}, _told("would forget", total, which))
            return 0
        if not context.agrees(f"{_told('will forget', total, which)}. Go on?"):
            raise Refused("nothing was forgotten")
    total = dict.fromkeys(FORGOTTEN, 0)
    more = True
    while more:
        step = board.upkeep.prune(**which)
        more = step.more
        for name in total:
            total[name] += getattr(step, name)
        context.progress(f"forgot {sum(total.values())} rows …" if more else "")
    context.answer({**about, **total}, _told("forgot", total, which))
    return 0


def _told(verb: str, total: dict[str, int], which: dict[str, Any]) -> str:
    """What is forgotten, how old it is, and in which projects."""
    counts = ", ".join(f"{count} {name}" for name, count in total.items())
    where = f"project {plain(which['project'])}" if "project" in which else "all projects"
    return f"{verb} {counts} of {where}, older than {written(seconds(which['older_than'], 'older-than'))}"


@command("backup", "Copy the board to a new file while it is in use.", Argument("file", "the file to create"))
def backup(context: Context, args: Args) -> None:
    """The file appears under its name only when it is complete and synced."""
    context.board.backup(args.file, lambda done, of: context.progress(f"{done} of {of} pages"))
    context.progress("")
    context.answer({"file": args.file}, f"backed up to {plain(args.file)}")


@command(
    "doctor",
    "Check the board and the set-up; files, versions, disk, clock, holds, sessions, and what `tb init` wrote here.",
    Option("repair", text="repair what can be repaired safely"),
    example="tb doctor --repair",
)
def doctor(context: Context, args: Args) -> int:
    """Exit 0 if there are at most warnings, 3 if something is broken."""
    try:
        findings = _findings(context, args.repair)
    except Unavailable as exc:
        place = args.repair and exc.data.get("repair") == "place"
        findings = _repaired(context, args, exc) if place else [_unavailable(exc)]
    if context.json:
        context.answer([{"level": level, "what": what, "details": details} for level, what, details in findings])
    else:
        rows: list[list[str]] = [[Styled(level, STYLES[level]), what, details] for level, what, details in findings]
        context.say(table(rows, colour=context.colour))
    return 3 if any(level == "bad" for level, _, _ in findings) else 0


def _findings(context: Context, repair: bool) -> list[tuple[str, str, str]]:
    return [*context.board.doctor(repair=repair), *_sessions(context, repair), *_setup()]


def _setup() -> list[tuple[str, str, str]]:
    """What `tb init` set up in this repository, if it did; each command is run."""
    from ..board import here
    from ..repository import repository

    found = repository(here())
    if found is None:
        return []
    from ..guard.setup.init import CLIENTS
    from ..guard.setup.setup_check import check

    return check(found, CLIENTS)


def _unavailable(exc: Unavailable) -> tuple[str, str, str]:
    from .advice import in_one_line

    return "bad", "board", in_one_line(exc)


def _repaired(context: Context, args: Args, exc: Unavailable) -> list[tuple[str, str, str]]:
    """Repair a board that could not be opened because its file was moved or renamed, then check it."""
    from ..board import default_address
    from ..engine.addresses import path_of
    from ..engine.sqlite.board_files_repair import repair

    try:
        repair(path_of(args.board or default_address()))
        return [("ok", "place", f"repaired: {exc.message}"), *_findings(context, repair=True)]
    except Unavailable as still:
        return [_unavailable(exc), _unavailable(still)]


def _sessions(context: Context, repair: bool) -> list[tuple[str, str, str]]:
    """Contradictions between session records, processes and terminals; none if there never was a session."""
    try:
        if not context.board.sessions.list(project=None, every=True, limit=1):
            return []
        from ..sessions.recovery import examine
        from .advice import with_commands

        return with_commands(examine(context.board, repair=repair))
    except Unavailable as exc:
        return [("bad", "sessions", f"cannot be examined: {exc.message}")]
