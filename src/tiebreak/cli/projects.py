"""`tb project`: which project this folder belongs to, why, and by which names the board knows it."""

from __future__ import annotations

import os

from ..errors import Invalid, Refused
from ..project_identity import PIN, ProjectIdentity, identify
from ..text import plain, table
from .command_group import CommandGroup
from .parser import Argument, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..model import KnownProject
    from ..repository import Repository
    from .context import Context
    from .parser import Args

GROUP = CommandGroup("project", default="show")
NAME = Argument("name", "the name")
_REASONS = {
    "option": "given by --project or TIEBREAK_PROJECT",
    "config": "given by git config tiebreak.project",
    "origin": "from the remote {source}",
    "commit": "from the first commit {source}; there is no remote",
    "path": "from the path {source} alone; there is neither a remote nor a complete history",
    "none": "this folder is not in a git repository",
}

HOLDS = {
    "repository": "file holds count in every checkout of the repository",
    "checkout": "file holds count in this checkout alone, {checkout} (git config tiebreak.holds in {holds_set_in})",
}
"""What each value of `git config tiebreak.holds` means."""


@GROUP.command("show", "Show the project of this folder, the rule that named it, and its names on the board.")
def show(context: Context, args: Args) -> int:
    """Exit 1 if the board refuses it."""
    found = _repository()
    identity = _identity(args, found)
    facts: dict[str, Any] = {
        "name": identity.name,
        "rule": identity.rule,
        "source": identity.source or None,
        "pinned": os.path.join(found.common, PIN) if found and identity.rule in ("origin", "commit", "path") else None,
        **_holds(found),
    }
    try:
        known = context.board.projects.show()
        context.board.projects.resolve()
    except Refused as refusal:
        context.answer({**facts, "refused": refusal.message})
        if not context.json:
            context.say(_described(context, identity, None, facts))
            context.complain(refusal)
        return 1
    facts |= {"project": known.project, "names": known.names, "live": known.live}
    context.answer(facts, _described(context, identity, known, facts))
    return 0


def _holds(found: Repository | None) -> dict[str, str | None]:
    """Whether file holds count in every checkout of the repository, or in this one alone, and who says so."""
    from ..checkouts import checkout_of, holds_setting

    if found is None:
        return {"holds": None, "holds_set_in": None, "checkout": None}
    holds, path = holds_setting(found)
    return {"holds": holds, "holds_set_in": path or None, "checkout": checkout_of(found) or None}


def _repository() -> Repository | None:
    from ..board import here
    from ..repository import repository

    return repository(here())


def _identity(args: Args, found: Repository | None) -> ProjectIdentity:
    given = args.project or os.environ.get("TIEBREAK_PROJECT")
    return ProjectIdentity(given, "option") if given else identify(found)


def _described(context: Context, identity: ProjectIdentity, known: KnownProject | None, facts: dict[str, Any]) -> str:
    why = _REASONS[identity.rule].format(source=plain(identity.source))
    lines = [f"{context.styled(plain(identity.name), 'bold')}  {why}"]
    if known is not None:
        if known.project != identity.name:
            lines.append(f"kept on this board as {plain(known.project)}")
        others = sorted(name for name in known.names if name not in (identity.name, known.project))
        if others:
            lines.append(f"also called {plain(', '.join(others))}")
        lines.append(_open(known) or "nothing is open in it")
    if facts["holds"]:
        lines.append(plain(HOLDS[facts["holds"]].format(**facts)))
    return "\n".join(lines)


@GROUP.command("list", "List the projects of the board, with their names and what is open in them.")
def listing(context: Context, args: Args) -> None:
    """Sorted by name."""
    found = context.board.projects.list()
    rows = [_row(each) for each in found]
    shown = table(rows, header=["PROJECT", "OPEN", "ALSO CALLED"], limit=context.width, colour=context.colour)
    context.answer(found, shown if found else "no projects yet")


def _row(each: KnownProject) -> list[str]:
    return [
        each.project,
        _open(each) or "-",
        ", ".join(sorted(name for name in each.names if name != each.project)) or "-",
    ]


@GROUP.command("name", "Name the project of this clone, in its git config; it counts in all its worktrees.", NAME)
def name(context: Context, args: Args) -> None:
    """Everybody who works on the repository has to give it the same name."""
    import subprocess

    from ..names import project
    from ..repository import SECTION

    found = _repository()
    if found is None:
        raise Invalid("project name: this folder is not in a git repository", hint="use --project or TIEBREAK_PROJECT")
    chosen, before = project(args.name, "NAME"), identify(found)
    words = ["git", f"--git-dir={found.common}", "config", f"{SECTION}.project", chosen]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as exc:
        raise Invalid(f"project name: cannot run git: {exc.strerror or exc}") from None
    if done.returncode:
        raise Invalid(f"project name: git config: {plain(done.stderr.strip())}")
    identify(found)  # refuses a name that git's config may have, but a project may not
    left = _left_behind(context, before, chosen)
    context.answer({"name": chosen, "before": before.name, "left": left or None}, _named(chosen, before.name, left))


def _left_behind(context: Context, before: ProjectIdentity, chosen: str) -> str:
    """What is open on the board under the name until now; "" if nothing is."""
    from ..board import Board

    if before.name == chosen:
        return ""
    known = Board(context.board.engine, agent=context.board.agent, project=before.name).projects.show()
    return "" if chosen in known.names else _open(known)


def _open(known: KnownProject) -> str:
    return ", ".join(f"{count} {what}" for what, count in known.live.items() if count)


def _named(chosen: str, before: str, left: str) -> str:
    text = f"this clone belongs to project {plain(chosen)} now"
    move = f"`tb --project {plain(before)} project rename {plain(chosen)}` brings that along"
    return f"{text}\nstill open in {plain(before)}: {left}; {move}" if left else text


@GROUP.command("alias", "Let another name mean this project too; a project of that name is merged into it.", NAME)
def alias(context: Context, args: Args) -> None:
    """Refused while something is open in the project of that name. No epoch goes back."""
    from ..names import project

    known = context.board.projects.alias(name=project(args.name, "NAME"))
    context.answer(known, f"{plain(args.name)} means {plain(known.project)} too")


@GROUP.command("rename", "Rename this project on the board; the old name means it too from then on.", NAME)
def rename(context: Context, args: Args) -> None:
    """All its tasks, holds, messages and events move to the new name at once."""
    from ..names import project

    known = context.board.projects.rename(name=project(args.name, "NAME"))
    context.answer(known, f"the project is called {plain(known.project)} now")


@GROUP.command("repin", "Find the name of this clone's project anew, for example after its remote was added.")
def repin(context: Context, args: Args) -> None:
    """What is on the board under a name by commit or path comes along; another remote is another project.

    Refused if both names have something open on the board.
    """
    from ..project_identity import spare_pin
    from ..project_rules import derive, write_pin

    found = _repository()
    if found is None:
        raise Invalid("project repin: this folder is not in a git repository")
    before, now = identify(found), derive(found.common)
    now.path = before.path
    if now.name != before.name and before.rule in ("path", "commit"):
        _take_along(context, before, now)
    try:
        write_pin(os.path.join(found.common, PIN), now, replace=True)
    except OSError:
        os.makedirs(os.path.dirname(spare_pin(found.common)), mode=0o700, exist_ok=True)
        write_pin(spare_pin(found.common), now, replace=True)
    same = "as before" if now.name == before.name else f"it was {plain(before.name)}"
    context.answer({"name": now.name, "before": before.name}, f"this clone belongs to {plain(now.name)}, {same}")


def _take_along(context: Context, before: ProjectIdentity, now: ProjectIdentity) -> None:
    """Let the new name mean what the board has under the old one. Rows that a path named get the new name."""
    from ..board import Board

    here = Board(context.board.engine, agent=context.board.agent, project=before.name)
    if not any(each.project == here.projects.show().project for each in here.projects.list()):
        return  # the board has nothing of it
    try:
        (here.projects.rename if before.rule == "path" else here.projects.alias)(name=now.name, found=True)
    except Refused as refusal:
        if refusal.reason != "project-name-taken":
            raise
        there = Board(here.engine, agent=here.agent, project=now.name)
        there.projects.alias(name=before.name, found=True)


@command(
    "project",
    "Show, name or rename the project of this folder.",
    *GROUP.parts,
    example="tb project rename shop",
)
def project(context: Context, args: Args) -> int:
    """All clones and worktrees of one repository are one project, on every machine.

    show
    list
    name NAME      (for this clone)
    alias NAME     (on the board)
    rename NAME    (on the board)
    repin          (for this clone)
    """
    return GROUP.run(context, args)
