"""`tb guard …`: installs the git hooks, and runs their checks."""

from __future__ import annotations

from ..errors import Invalid
from .context import needed, standard_input
from .parser import Argument, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..guard.git_hooks import GitHooks
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
    """Git calls `check`. `clear` allows a quarantined file to be committed.

    Exit 0 if all is well; 1 if a commit or push is refused, or a hook is not installed.
    """
    from ..board import here
    from ..guard.git_hooks import hooks

    actions = {"install": _install, "uninstall": _uninstall, "status": _status}
    if args.action in actions:
        return actions[args.action](context, hooks(here()))
    if args.action == "check":
        return _check(context, args)
    if args.action == "clear":
        return _clear(context, args)
    raise Invalid(f"guard: unknown action {args.action!r}", hint="install, uninstall, status, check or clear")


def _install(context: Context, installed: GitHooks) -> int:
    from ..guard.git_hooks import install

    done = install(installed)
    context.answer(done, "\n".join(done))
    return 0


def _uninstall(context: Context, installed: GitHooks) -> int:
    from ..guard.git_hooks import uninstall

    done = uninstall(installed)
    context.answer(done, "\n".join(done))
    return 0


def _status(context: Context, installed: GitHooks) -> int:
    from ..guard.git_hooks import status
    from ..text import table

    found = status(installed)
    context.answer(found, table([[name, state] for name, state in found.items()]))
    return 0 if all(state.startswith("guarded") for state in found.values()) else 1


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
    from ..board import here
    from ..guard import git
    from ..guard.git_hooks import hooks

    name = (args.words or [""])[0]
    root = hooks(here()).root
    if name == "pre-commit":
        staged = git.git("diff", "--cached", "--name-only", "--no-renames", "-z", root=root)
        git.check_commit(context.board, root, git.paths_in(staged))
    elif name == "prepare-commit-msg":
        needed(args.rest, "the file of the message")
        git.add_trailers(context.board, root, args.rest[0])
    elif name == "pre-push":
        git.check_push(context.board, root, standard_input())
    else:
        raise Invalid(f"guard: unknown hook {name!r}", hint="pre-commit, prepare-commit-msg or pre-push")


def _clear(context: Context, args: Args) -> int:
    """Take files out of quarantine, after a person has looked at them."""
    from ..guard.quarantine import clear

    needed(args.words, "PATH")
    for path in args.words:
        clear(path)
    context.answer(args.words, f"{len(args.words)} cleared")
    return 0
