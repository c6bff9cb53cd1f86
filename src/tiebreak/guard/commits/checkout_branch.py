"""The branch of a checkout: noticed when it changes under agents that hold files there, and checked by `tb commit`.

All agents in a checkout share one `HEAD`. If one of them changes it, the next commit of another would land on a branch
that it does not expect. So each agent's branch in a checkout is remembered: the one that it was on when the agent began
to hold files there, or that the agent changed to itself. `tb commit` refuses another one, unless the agent names it.

A change is an agent's own if only its commands were running in the checkout, whoever notices it. It is told to
everybody who holds files there, once.
"""

from __future__ import annotations

import os

from ...agent_names import same_family
from ...errors import Refused
from ...model import holder_id
from ...names import short
from ...repository import open_at_once
from ...text import argument, plain
from ..agent_notes import leave_notes
from ..agent_state import AgentState, common_facts, key
from ..files import running_commands
from ..files.left_contents import watched_now
from ..files.watched_files import WatchedFile
from ..holder_messages import tell
from ..live_holds import live_holds
from .worktrees import last_moved, other_checkouts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...board import Board
    from ...repository import Repository
    from ..files.running_commands import RunningCommand

DETACHED = "no branch"
"""What stands for a detached HEAD."""
SHOWN = 5
PATIENCE = 5.0
"""Seconds that git may take to say where HEAD is: hooks ask it."""
MOST_STEPS = 5
"""Most refs that point to another one, as in git."""
REBASES = ("rebase-merge", "rebase-apply")
"""The folders in which git keeps a rebase that is in progress."""


def branch_of(found: Repository) -> str:
    """The branch of a checkout, from git's files; `no branch` if HEAD is detached, "" if it cannot be read.

    During a rebase HEAD is detached, and the checkout counts as being on the branch that is rebased.
    """
    ref = _head(found)
    if ref and not ref.startswith("refs/"):
        rebased = (_read(os.path.join(found.private, state, "head-name")).strip() for state in REBASES)
        ref = next((name for name in rebased if name.startswith("refs/")), DETACHED)
    return ref.removeprefix("refs/heads/")


def commit_of(found: Repository) -> str:
    """The commit that a checkout is at, from git's files; "" before the first one, or if they do not say it."""
    ref = _head(found)
    if not ref.startswith("refs/"):
        return ref
    if _is_in_tables(found):
        return _by_git(found, "rev-parse", "--verify", "--quiet", "HEAD")
    if name := _ref(found, ref):
        return name
    packed = _packed_refs(os.path.join(found.common, "packed-refs"))
    return packed.partition(f" {ref}\n")[0].rpartition("\n")[2] if f" {ref}\n" in packed else ""


_PACKED: dict[tuple[str, int, int], str] = {}
"""The file that was read last, by its path, time and size: all worktrees of a repository share it."""


def _packed_refs(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError:
        return ""
    which = (path, found.st_mtime_ns, found.st_size)
    text = _PACKED.get(which)
    if text is None:
        text = _read(path)
        _PACKED.clear()
        _PACKED[which] = text
    return text


def _head(found: Repository) -> str:
    """The branch that HEAD points to, also through another ref, or the name of a commit."""
    if _is_in_tables(found):
        return _by_git(found, "symbolic-ref", "--quiet", "HEAD") or _by_git(found, "rev-parse", "--verify", "HEAD")
    ref, text = "", _read(os.path.join(found.private, "HEAD")).strip()
    for _ in range(MOST_STEPS):
        ref = text.removeprefix("ref:").strip()
        text = _ref(found, ref) if ref.startswith("refs/") else ""
        if not text.startswith("ref:"):
            break
    return ref


def _ref(found: Repository, ref: str) -> str:
    """What the file of a ref says; "" if it has none."""
    texts = (_read(os.path.join(below, ref)).strip() for below in dict.fromkeys((found.private, found.common)))
    return next(filter(None, texts), "")


def _is_in_tables(found: Repository) -> bool:
    """Whether git keeps refs in a format of its own (reftable): the files say nothing then."""
    return os.path.isdir(os.path.join(found.common, "reftable"))


def _by_git(found: Repository, *words: str) -> str:
    from ..bounded_command import run_bounded

    done = run_bounded(["git", "-C", found.root, *words], os.environ, None, b"", PATIENCE)
    return "" if done.code else done.out.strip()


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", opener=open_at_once) as file:
            return file.read()
    except OSError:
        return ""


def _looks() -> AgentState:
    """The branch and commit of each checkout when somebody last looked."""
    return common_facts("heads")


def _last_look(root: str) -> tuple[str, str]:
    """Branch and commit; both empty if nobody has looked yet."""
    branch, _, commit = _text(_looks().get(key(root))).partition("\0")
    return branch, commit


def _text(fact: bytes | None) -> str:
    return (fact or b"").decode("utf-8", "surrogateescape")


def expected(state: AgentState, root: str) -> str:
    """The branch that an agent expects in a checkout; "" if none is known."""
    return _text(state.get(f"branch/{key(root)}"))


def expect(state: AgentState, root: str, branch: str) -> None:
    """Remember the branch that an agent works on."""
    if branch and expected(state, root) != branch:
        state.put(f"branch/{key(root)}", branch.encode("utf-8", "surrogateescape"))


def begin(board: Board, state: AgentState, found: Repository) -> None:
    """An agent takes a file: if it is the first one in this checkout, the agent works on the branch that is there."""
    now, wanted = branch_of(found), expected(state, found.root)
    if now != wanted and not (wanted and _works_on(board, found.root)):
        expect(state, found.root, now)


# ── When it changes ──────────────────────────────────────────────────────────────────────────────────


def notice(board: Board, found: Repository, command: RunningCommand | None) -> list[str]:
    """Look at HEAD of a checkout, and of the others of its repository: a command can change any of them.

    Tells all holders if it moved in a way that concerns them; returns what to tell this agent. `command` is this
    agent's command that has just ended, if there is one.
    """
    told = _notice(board, found, command)
    for other in other_checkouts(found):
        told += _notice(board, other, command)
    return told


def _notice(board: Board, found: Repository, command: RunningCommand | None) -> list[str]:
    now, commit = branch_of(found), commit_of(found)
    branch, since = _last_look(found.root)
    if not now or (now, commit) == (branch, since):
        return []
    told: dict[str, list[str]] = {}
    makers = _makers(board.agent, found, command)
    if branch and now != branch:
        if len(makers) == 1:
            expect(AgentState(makers[0]), found.root, now)
        told = _tell(board, found, branch, now, makers)
    if since or not branch:
        from . import new_commits

        # Nobody has looked here before, but others hold files: their work may have been committed since they do.
        since = since or new_commits.before_holds(found, live_holds(board))
        more = new_commits.notice(board, found, since, makers)
        told = {each: [*told.get(each, ()), *more[each]] for each in makers}
    # Noted last: if this hook is killed before, the next one tells.
    _looks().put(key(found.root), f"{now}\0{commit}".encode("utf-8", "surrogateescape"))
    for maker, lines in told.items():
        if maker != board.agent:
            leave_notes(AgentState(maker), lines)
    return told.get(board.agent, [])


def _makers(agent: str, found: Repository, command: RunningCommand | None) -> list[str]:
    """The agents that may have moved HEAD: whose commands run there, or else whose command has just ended elsewhere."""
    commands = running_commands.running()
    here = dict.fromkeys(each.agent for each in commands if each.root == found.root)
    if not here and command is not None and (command.root == found.root or command.since <= last_moved(found.private)):
        here = {agent: None}
    return list(here or dict.fromkeys(each.agent for each in commands if not each.root))


def _others_run(agent: str, root: str) -> bool:
    return bool(running_commands.others_in(root, agent, running_commands.running()))


def _tell(board: Board, found: Repository, known: str, now: str, makers: list[str]) -> dict[str, list[str]]:
    """Tell the holders; returns what to tell those whose commands ran."""
    changed = f"changed from {_called(known)} to {_called(now)}, {during(makers)}"
    sole = makers[0] if len(makers) == 1 else ""
    held: dict[str, list[WatchedFile]] = {}
    for each in watched_now(live_holds(board)):
        if each.root == found.root and each.is_worked_on and not same_family(each.holder, sole):
            held.setdefault(each.holder, []).append(each)
    for holder, files in held.items():
        tell(
            board,
            holder,
            f"The checkout {found.root} {changed}. You hold {_names(files)} there. `tb commit` refuses to commit there "
            f"until it is back, or until you name the branch: `tb commit --branch {_argument(now)} …`",
            once=f"{found.root} {known} {now} {_moved_at(found)}",
        )
    return {each: _told(each, found.root, changed, held) for each in makers}


def _told(maker: str, root: str, changed: str, held: dict[str, list[WatchedFile]]) -> list[str]:
    theirs = {who: files for who, files in sorted(held.items()) if not same_family(who, maker)}
    if not theirs:
        return []
    named = "; ".join(f"{short(who)} holds {_names(files)}" for who, files in theirs.items())
    return [
        f"tiebreak: the checkout {root} {changed}, and others work there: {named}. They were told. A worktree of your "
        "own keeps you apart: `git worktree add`."
    ]


def during(makers: list[str]) -> str:
    """While whose commands something happened, as a part of a sentence."""
    if not makers:
        return "by nobody that tiebreak knows"
    commands = "a shell command" if len(makers) == 1 else "shell commands"
    return f"while {commands} of {' and '.join(map(short, makers))} ran"


def _moved_at(found: Repository) -> int:
    """When HEAD was moved to this branch."""
    try:
        return os.stat(os.path.join(found.private, "HEAD")).st_mtime_ns
    except OSError:
        return 0


def _argument(branch: str) -> str:
    """A branch as an argument of `tb commit --branch`; HEAD stands for wherever the checkout is."""
    return "HEAD" if branch == DETACHED else argument(branch)


def _called(branch: str) -> str:
    return branch if branch == DETACHED else f"branch {branch}"


def _names(files: list[WatchedFile]) -> str:
    more = f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
    return ", ".join(plain(each.name) for each in files[:SHOWN]) + more


# ── When it is committed to ──────────────────────────────────────────────────────────────────────────


def check_branch(board: Board, found: Repository, chosen: str) -> str:
    """The branch to commit to, "" for none; raises `Refused` if it is not `chosen`, or not the one this agent works on.

    Only of agents with hooks is it known on which branch they work.
    """
    now, state = branch_of(found), AgentState(board.agent)
    wanted = expected(state, found.root)
    if chosen not in ("", "HEAD") and chosen.removeprefix("refs/heads/") != now:
        raise Refused(f"this checkout is on {_called(now)}, not on {_called(chosen)}")
    is_other = wanted and not chosen and wanted != now and _works_on(board, found.root)
    if is_other and not _changed_itself(board, state, found, wanted):
        raise Refused(
            f"this checkout is on {_called(now)} now, and you worked on {_called(wanted)}: somebody changed it",
            hint=f"`tb commit --branch {_argument(now)} …` commits here all the same",
        )
    if wanted:
        expect(state, found.root, now)
    return "" if now == DETACHED else now


def _works_on(board: Board, root: str) -> bool:
    """Whether this agent holds files in a checkout."""
    mine = [hold for hold in live_holds(board) if same_family(holder_id(hold) or "", board.agent)]
    return any(each.root == root and each.is_worked_on for each in watched_now(mine))


def _changed_itself(board: Board, state: AgentState, found: Repository, wanted: str) -> bool:
    """Whether the command that runs just now changed the branch, and nobody else's could have done it."""
    began = [each.branch for each in running_commands.own(state, found.root)]
    known = _last_look(found.root)[0]
    return wanted in began and known in ("", wanted) and not _others_run(board.agent, found.root)
