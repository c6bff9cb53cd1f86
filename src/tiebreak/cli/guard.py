"""`tb guard …`: installs the git hooks, and runs their checks."""

from __future__ import annotations

import os

from ..errors import Invalid
from .context import needed, standard_input
from .parser import Argument, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..guard.commits.git_hooks import GitHooks
    from .context import Context
    from .parser import Args


@command(
    "guard",
    "Let git refuse commits of files that others hold: install, uninstall, status, check HOOK, clear PATH….",
    Argument("action", "install, uninstall, status, check or clear"),
    Argument("words", "the hook for check, the paths for clear", many=True, optional=True),
    rest="ARGS…",
    example="tb guard install",
)
def guard(context: Context, args: Args) -> int:
    """Git calls `check`. `clear` allows a file to be committed that is in quarantine, or has lines of another agent.

    Exit 0 if all is well; 1 if a commit or push is refused, or a hook is not installed in some worktree.
    """
    from ..board import here
    from ..guard.commits.git_hooks import hooks

    actions = {"install": _install, "uninstall": _uninstall, "status": _status}
    if args.action in actions:
        return actions[args.action](context, hooks(here()))
    if args.action == "check":
        return _check(context, args)
    if args.action == "clear":
        return _clear(context, args)
    raise Invalid(f"guard: unknown action {args.action!r}", hint="install, uninstall, status, check or clear")


def _install(context: Context, installed: GitHooks) -> int:
    from ..guard.commits.git_hooks import install

    done = install(installed)
    context.answer(done, "\n".join(done))
    return 0


def _uninstall(context: Context, installed: GitHooks) -> int:
    from ..guard.commits.git_hooks import uninstall

    done = uninstall(installed)
    context.answer(done, "\n".join(done))
    return 0


def _status(context: Context, installed: GitHooks) -> int:
    from ..guard.commits.git_hooks import status, too_old, unguarded, unguarded_line
    from ..text import table

    found, elsewhere = status(installed), unguarded(installed)
    if old := too_old(installed.root):
        context.warn(old)
    lines = [table([[name, state] for name, state in found.items()]), *map(unguarded_line, elsewhere)]
    context.answer({**found, "unguarded": elsewhere} if elsewhere else found, "\n".join(lines))
    return 0 if all(state.startswith("guarded") for state in found.values()) and not elsewhere and not old else 1


def _check(context: Context, args: Args) -> int:
    """Run the check of one git hook."""
    from ..errors import Unavailable
    from ..guard.failure_policy import CLOSED, policy

    try:
        _ask(context, args)
    except Unavailable as exc:
        from ..board import here

        if policy(here()) == CLOSED:
            raise
        context.complain(exc)
        return 0  # the board is unavailable, and the policy is to go on
    return 0


def _ask(context: Context, args: Args) -> None:
    from ..guard.commits.git_hook_checks import check

    check((args.words or [""])[0], args.rest, lambda: context.board, standard_input)


def _clear(context: Context, args: Args) -> int:
    """Allow files to be committed as they are now, after a person has looked at them."""
    from ..guard.files.watched_files import allow, quarantined

    needed(args.words, "PATH")
    for path in args.words:
        if quarantined(path) is None and not os.path.isfile(path) and not os.path.islink(path):
            what = "is a folder" if os.path.isdir(path) else "is neither there nor in quarantine"
            raise Invalid(f"{path} {what}", hint="name the files that may be committed as they are now")
    for path in args.words:
        allow(path)
    context.answer(args.words, f"{len(args.words)} cleared")
    return 0
