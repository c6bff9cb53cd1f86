"""`tb vault`: writes the board as Markdown notes, once or as it happens."""

from __future__ import annotations

import os

from ..errors import Invalid, Refused
from ..text import plain
from .parser import Argument, Option, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..errors import TiebreakError
    from ..vault.mirror import Mirror
    from ..vault.vault_folder import VaultFolder
    from .context import Context
    from .parser import Args


@command(
    "vault",
    "Write the board as linked Markdown notes, for Obsidian.",
    Argument("dir", "the folder of the vault; made if needed"),
    Option("follow", text="keep it up to date until interrupted"),
    Option("pruned", "WHAT", "what to do with notes of what was pruned: keep (at first) or remove"),
    Option("every-project", text="of all projects, not only this one"),
    Option("into", text="use a folder that has other files, such as a vault of your own; they stay as they are"),
    example="tb vault ~/notes/board --follow",
)
def vault(context: Context, args: Args) -> int:
    """Run it again at any time: it writes what has changed since, also after it was killed.

    What you write below the marked line of a note is kept. Once made, a vault keeps its project and --pruned.
    `tb serve --vault DIR` keeps one up to date while the daemon serves.
    """
    from ..vault.mirror import Mirror
    from ..vault.vault_folder import KEEP, REMOVE, open_vault

    if args.pruned not in (None, KEEP, REMOVE):
        raise Invalid(f"vault: --pruned: {KEEP} or {REMOVE}, got {args.pruned!r}")
    found = open_vault(args.dir, into=args.into)
    try:
        project = _project(context, args, found)
        found.save_settings(project=project, pruned=args.pruned or found.settings.get("pruned", KEEP))
        mirror = Mirror(context.board, found, context.progress)
        if args.follow:
            _follow(context, mirror)
        mirror.catch_up()
        context.answer(_facts(mirror), f"{_told(mirror)} in {context.styled(plain(found.path), 'bold')}")
    finally:
        found.close()
    return 0


def _project(context: Context, args: Args, vault: VaultFolder) -> str | None:
    """What the vault mirrors: what it has mirrored so far, or what is asked for if it is new."""
    named = args.project or os.environ.get("TIEBREAK_PROJECT")
    if "project" not in vault.settings:
        return None if args.every_project else context.board.project
    known: str | None = vault.settings["project"]
    if known is None:
        wrong = args.project is not None
    else:
        resolved = context.board.projects.resolve(project=known)
        wrong = args.every_project or (bool(named) and context.board.project != resolved)
        known = resolved
    if wrong:
        shown = "all projects" if known is None else f"project {known}"
        raise Refused(f"vault {plain(vault.path)}: it mirrors {shown}", hint="name another folder for this project")
    return known


def _follow(context: Context, mirror: Mirror) -> None:
    """Report each time that something was written, until interrupted."""
    reported = -1

    def told(error: TiebreakError | None) -> None:
        nonlocal reported
        if error is not None:
            context.warn(f"{error.message}; trying again")
        elif mirror.vault.changed != reported:
            reported = mirror.vault.changed
            context.answer(_facts(mirror), f"{_told(mirror)}, up to event {mirror.after}")

    mirror.follow(told)


def _facts(mirror: Mirror) -> dict[str, object]:
    return {
        "vault": mirror.vault.path,
        "project": mirror.vault.settings["project"],
        "written": mirror.vault.changed,
        "events": mirror.events,
        "after": mirror.after,
    }


def _told(mirror: Mirror) -> str:
    count = mirror.vault.changed
    return f"wrote {count} {'note' if count == 1 else 'notes'}"
