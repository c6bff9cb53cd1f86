"""`tb commit`: a commit of exactly the paths that are named."""

from __future__ import annotations

from ..text import plain
from .context import needed
from .parser import Argument, Option, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .context import Context
    from .parser import Args


@command(
    "commit",
    "Commit exactly these paths as they are on disk, whatever else is staged or changed.",
    Argument("paths", "files or folders", many=True),
    Option("message", "TEXT", "what and why; also -m", short="m"),
    example="tb commit src/auth.py tests/test_auth.py -m 'Move the login to OAuth'",
)
def commit(context: Context, args: Args) -> None:
    """Refused if somebody else holds one of the paths, or if your claim has passed to somebody else."""
    from ..board import here
    from ..errors import Invalid
    from ..guard.commit import commit as make
    from ..repository import repository

    needed(args.message, "--message")
    found = repository(here())
    if found is None:
        raise Invalid("commit: not in a git repository")
    made = make(context.board, found.root, here(), args.paths, args.message)
    paths = made["paths"]
    count = len(paths) if isinstance(paths, list) else 0
    context.answer(
        made,
        f"{context.styled('committed', 'good')} {str(made['commit'])[:12]} {plain(str(made['subject']))} "
        f"({count} file{'s' if count != 1 else ''})",
    )
