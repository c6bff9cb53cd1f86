"""`tb init`: sets a repository up for the installed agent clients."""

from __future__ import annotations

from .parser import Option, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..guard.setup.init import Plan
    from ..guard.setup.setup_check import SetupFinding
    from ..repository import Repository
    from .context import Context
    from .parser import Args

_NO_CLIENT = """\
no agent client was found: claude, codex, cursor, gemini, vscode or gptme (`--client NAME` sets one up all the same)
AGENTS.md is for all of them"""


@command(
    "init",
    "Set this repository up: agents get tiebreak's tools and hooks, and git gets its hooks.",
    Option("client", "NAME", "only this one: claude, codex, cursor, gemini, vscode or gptme (repeatable)", many=True),
    Option("yes", text="do not ask"),
    Option("dry-run", text="show what would change, and change nothing"),
    Option("undo", text="restore every changed file as it was"),
    Option("no-git", text="do not install git hooks"),
    Option("no-mcp", text="do not set up the MCP server"),
    Option("force", text="write even what cannot run here, and do not check it"),
    example="tb init --dry-run",
)
def init(context: Context, args: Args) -> int:
    """Shows the changes first and asks; at the end, runs each command that it wrote, as its client would.

    Exit 1 if something does not work or has to be done by hand, or if the answer was no.
    """
    from ..board import here
    from ..checkouts import checkout_of, holds_setting
    from ..errors import Invalid
    from ..guard.setup import init as setup
    from ..repository import repository

    found = repository(here())
    if found is None:
        raise Invalid("init: not in a git repository", hint="`git init` makes one")
    if args.undo:
        return _undo(context, found, git=not args.no_git)
    holds_setting(found)  # refuses a value that every hook would refuse later
    clients = setup.named(args.client) if args.client else setup.present(found.root)
    if not args.force:
        _refuse_without_tb()
    lacking = "" if args.force or args.no_mcp or not clients else _no_mcp()
    intended = setup.plan(found, clients, tools=not (lacking or args.no_mcp))
    facts = _facts(intended, lacking)
    if not context.json:
        _show(context, intended, lacking)
    if args.dry_run:
        context.answer(facts)
        return 1 if facts["problems"] else 0
    if intended.changes and not (args.yes or _agreed(context)):
        context.answer(facts, "nothing was changed")
        return 1
    checkout_of(found)  # a checkout with holds of its own gets its name now: a sandbox may not write it later
    setup.carry_out(found, intended)
    done = [] if args.no_git else _guard_git(found)
    checks = [] if args.force else _check(found, clients)
    facts |= {"git": done, "checks": [dict(zip(("level", "what", "details"), each, strict=True)) for each in checks]}
    facts["next"] = _next_steps(found, intended)
    context.answer(facts, "\n".join([*done, *_told(context, checks), *facts["next"]]))
    failed = any(level == "bad" for level, _, _ in checks) or any(line.startswith("git: ") for line in done)
    return 1 if facts["problems"] or failed else 0


def _refuse_without_tb() -> None:
    """Refuse to write a name into configuration files that nothing would find."""
    from ..errors import Refused
    from ..guard.setup.client_path import client_path
    from ..installation import this_installation

    if not client_path().anywhere():
        raise Refused(
            "init: no agent client would find tb, because it is not on the PATH: nothing was written",
            hint=f"`{this_installation().putting_on_path()}` puts it there, for new shells; --force writes anyway",
        )


def _no_mcp() -> str:
    """Why the MCP server cannot be set up; "" if it can."""
    from ..installation import adding, has_extra

    if has_extra("mcp"):
        return ""
    return f"MCP: the extra 'mcp' is not installed. `{adding('mcp')}`, then `tb init` again; or --no-mcp"


def _check(found: Repository, clients: list[Any]) -> list[SetupFinding]:
    from ..guard.setup.setup_check import check

    return check(found, tuple(clients))


def _told(context: Context, checks: list[SetupFinding]) -> list[str]:
    """A line for each command that was run."""
    words = {"ok": context.styled("ok", "good"), "warn": context.styled("ok", "warn"), "bad": "not ok"}
    words["bad"] = context.styled(words["bad"], "bad")
    return [f"{words[level]}: {what}: {details}" for level, what, details in checks]


def _facts(intended: Plan, lacking: str) -> dict[str, Any]:
    return {
        "clients": intended.clients,
        "changed": [change.path for change in intended.changes],
        "problems": [*_problems(intended), *([lacking] if lacking else [])],
        "git": [],
        "checks": [],
        "next": [],
    }


def _problems(intended: Plan) -> list[str]:
    from .advice import in_one_line

    return [f"{path}: {in_one_line(problem)}" for path, problem in intended.problems]


def _guard_git(found: Repository) -> list[str]:
    """Install the git hooks too; returns what was done, or has to be done by hand."""
    from ..errors import TiebreakError
    from ..guard.commits.git_hooks import GitHooks, install
    from .advice import in_one_line

    try:
        return install(GitHooks(found))
    except TiebreakError as exc:
        return [f"git: {in_one_line(exc)}"]


def _show(context: Context, intended: Plan, lacking: str) -> None:
    from ..text import block

    context.say(f"agent clients: {', '.join(intended.clients)}" if intended.clients else _NO_CLIENT)
    for change in intended.changes:
        context.say(block(change.difference()).rstrip("\n"))
    for problem in _problems(intended):
        context.say(context.styled(f"not changed: {problem}", "warn"))
    if lacking:
        context.say(context.styled(f"not set up: {lacking}", "warn"))
    if not intended.changes:
        context.say("all files are as they should be")


def _agreed(context: Context) -> bool:
    if not context.can_ask:
        from ..errors import Invalid

        raise Invalid(
            "init: there is no terminal with a person, so nobody can be asked",
            hint="--yes writes without asking, --dry-run only shows the changes",
        )
    return context.agrees("Write these changes?")


def _next_steps(found: Repository, intended: Plan) -> list[str]:
    """What a person has to do now, after these changes."""
    from ..guard.setup.init import ignored

    written = [change.path for change in intended.changes]
    not_shared = ignored(found, written)
    steps = []
    if "codex" in intended.clients and any(path.startswith(".codex") for path in written):
        steps.append("Codex asks you to approve its new hooks when it starts next.")
    if set(written) - set(not_shared):
        steps.append(
            "Commit the files above: agents in other worktrees and clones are guarded only if they are there, too."
        )
    if not_shared:
        steps.append(f"git ignores {', '.join(not_shared)}: run `tb init` in every other worktree and clone, too.")
    return steps


def _undo(context: Context, found: Repository, *, git: bool) -> int:
    from ..errors import TiebreakError
    from ..guard.commits.git_hooks import GitHooks, uninstall
    from ..guard.setup import init as setup

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
