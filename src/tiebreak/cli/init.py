"""`tb init`: sets a repository up for the installed agent clients."""

from __future__ import annotations

import sys

from .parser import Option, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..guard.init import Plan
    from ..repository import Repository
    from .context import Context
    from .parser import Args


@command(
    "init",
    "Set this repository up: agents get tiebreak's tools and hooks, and git gets its hooks.",
    Option("client", "NAME", "only this one: claude, codex, cursor, gemini, vscode or gptme (repeatable)", many=True),
    Option("yes", text="do not ask"),
    Option("dry-run", text="show what would change, and change nothing"),
    Option("undo", text="restore every changed file as it was"),
    Option("no-git", text="do not install git hooks"),
    example="tb init --dry-run",
)
def init(context: Context, args: Args) -> int:
    """Shows the changes first and asks. Exit 1 if something has to be done by hand, or the answer was no."""
    from ..board import here
    from ..errors import Invalid
    from ..guard import init as setup
    from ..repository import repository

    found = repository(here())
    if found is None:
        raise Invalid("init: not in a git repository", hint="`git init` makes one")
    if args.undo:
        return _undo(context, found, git=not args.no_git)
    clients = setup.named(args.client) if args.client else setup.present(found.root)
    intended = setup.plan(found, clients)
    if not context.json:
        _show(context, intended)
    if args.dry_run:
        context.answer(_facts(intended, []))
        return 1 if intended.problems else 0
    if intended.changes and not (args.yes or _agreed(context)):
        context.answer(_facts(intended, []), "nothing was changed")
        return 1
    setup.carry_out(found, intended)
    done = [] if args.no_git else _guard_git(found)
    context.answer(_facts(intended, done), "\n".join([*done, *_next_steps(intended)]))
    return 1 if intended.problems or any(line.startswith("git: ") for line in done) else 0


def _facts(intended: Plan, git: list[str]) -> dict[str, object]:
    return {
        "clients": intended.clients,
        "changed": [change.path for change in intended.changes],
        "problems": _problems(intended),
        "git": git,
    }


def _problems(intended: Plan) -> list[str]:
    from .advice import in_one_line

    return [f"{path}: {in_one_line(problem)}" for path, problem in intended.problems]


def _guard_git(found: Repository) -> list[str]:
    """Install the git hooks too; returns what was done, or has to be done by hand."""
    from ..errors import TiebreakError
    from ..guard.git_hooks import GitHooks, install
    from .advice import in_one_line

    try:
        return install(GitHooks(found))
    except TiebreakError as exc:
        return [f"git: {in_one_line(exc)}"]


def _show(context: Context, intended: Plan) -> None:
    from ..text import block

    found = ", ".join(intended.clients)
    context.say(f"agent clients: {found}" if found else "no agent client was found; AGENTS.md is for all of them")
    for change in intended.changes:
        context.say(block(change.difference()).rstrip("\n"))
    for problem in _problems(intended):
        context.say(context.styled(f"not changed: {problem}", "warn"))
    if not intended.changes:
        context.say("all files are as they should be")


def _agreed(context: Context) -> bool:
    if not sys.stdin.isatty():
        from ..errors import Invalid

        raise Invalid(
            "init: standard input is no terminal, so nobody can be asked",
            hint="--yes writes without asking, --dry-run only shows the changes",
        )
    return context.ask("Write these changes?")


def _next_steps(intended: Plan) -> list[str]:
    if "codex" in intended.clients and any(change.path.startswith(".codex") for change in intended.changes):
        return ["Codex asks you to approve its new hooks when it starts next."]
    return []


def _undo(context: Context, found: Repository, *, git: bool) -> int:
    from ..errors import TiebreakError
    from ..guard import init as setup
    from ..guard.git_hooks import GitHooks, uninstall

    done, left = setup.undo(found)
    hooks: list[str] = []
    if git:
        try:
            hooks = uninstall(GitHooks(found))
        except TiebreakError as exc:
            left.append(f"git: {exc.message}")
    lines = [f"{name}: as it was" for name in done] + hooks + left
    context.answer({"undone": done, "git": hooks, "left": left}, "\n".join(lines))
    return 1 if left else 0
