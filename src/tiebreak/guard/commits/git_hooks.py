"""`tb guard install`: installs the git hooks that call the guard.

Worktrees share git's own folder of hooks, so one installation serves all of them. A folder that `core.hooksPath` names
inside the checkout is another one in each worktree: those that are not guarded are named. A hook that exists already is
renamed to `NAME.before-tiebreak`, and runs first; an older one of that name gets a number. If a hook manager such as
husky owns the hooks, or git tracks them, nothing is changed, and the error says what to add to the scripts.
"""

from __future__ import annotations

import os
from itertools import count

from ...errors import Invalid, Refused
from ...files import replace_file
from ...repository import repository
from ...text import argument, plain
from .git import git
from .worktrees import other_checkouts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...repository import Repository

MESSAGE, UPDATES = "commit-msg", "reference-transaction"
NAMES = (
    *("pre-commit", "pre-merge-commit", "prepare-commit-msg", MESSAGE, "pre-applypatch", "pre-rebase", "pre-push"),
    UPDATES,
)
LEAST_GIT = (2, 28)
"""The first version of git that calls `reference-transaction`."""
KEPT = ".before-tiebreak"
PUT_ASIDE = (".legacy", ".old")
"""What pre-commit and lefthook add to the name of a hook that was there before theirs."""
MARK = "# tiebreak guard"
SCRIPT = """#!/bin/sh
# tiebreak guard: `tb guard uninstall` takes it away again.
name=@NAME@
kept="${0%/*}/$name.before-tiebreak"
input=
@INPUT@
if [ -x "$kept" ]; then
    printf %s "$input" | "$kept" "$@" || exit $?
fi
@FILTER@
tb=$(command -v tb) || tb=@TB@
if [ ! -x "$tb" ]; then
    echo "tiebreak: tb was not found, so nothing was checked" >&2
    chosen=$(git config tiebreak.hooks | tr A-Z a-z)
    if [ -z "$chosen" ]; then
        grep -qs '^ *failure *=' .tiebreak.toml || exit 0
        grep -q '^ *failure *= *.open.' .tiebreak.toml && exit 0
    fi
    [ "$chosen" = open ] && exit 0
    exit 1
fi
printf %s "$input" | "$tb" guard check "$name" -- "$@"
"""
READ_INPUT = "input=$(cat && echo x) && input=${input%x}"
UPDATES_INPUT = """[ "$1" = prepared ] || [ -x "$kept" ] || exit 0
lines=0
while [ $lines -lt 4 ] && IFS= read -r line; do
    lines=$((lines + 1)) input="$input$line
"
done
if [ $lines -eq 4 ]; then
    rest=$(cat && echo x) && input=$input${rest%x}
fi"""
"""A few lines are read without starting a program: a fetch of a thousand refs calls this hook two thousand times."""
UPDATES_FILTER = """# Python is started only for commits that no branch has yet, and that `tb commit` did not make.
[ "$1" = prepared ] || exit 0
case $input in *" HEAD
"* | *" refs/heads/"*) ;; *) exit 0 ;; esac
new=$(printf %s "$input" | while read -r old commit ref; do
    case $ref in HEAD | refs/heads/*) ;; *) continue ;; esac
    case $commit in "$old" | "$TIEBREAK_COMMIT" | ref:*) ;; *[!0]*) echo "$commit" ;; esac
done)
[ -n "$new" ] || exit 0
if found=$(echo "$new" | git rev-list --max-count=1 --stdin --not --exclude=refs/stash --all 2>/dev/null); then
    [ -n "$found" ] || exit 0
fi"""
"""The filter reads what git says without starting Python: git calls this hook for every fetch, tag and stash, too."""
MESSAGE_FILTER = """# Python is started only if the message was still to be written when git prepared it.
[ -e "$1.tiebreak" ] || exit 0"""
LINE = 'tb guard check {0} -- "$@"'
UPDATES_LINE = f"""in=$(cat); case "$1 $in" in "prepared "*" refs/heads/"*|"prepared "*" HEAD"*) \
echo "$in" | {LINE.format(UPDATES)} ;; esac"""


def line(name: str) -> str:
    """What the script of a hook manager has to run."""
    return UPDATES_LINE if name == UPDATES else LINE.format(name)


class GitHooks:
    """The git hooks of a repository."""

    def __init__(self, found: Repository) -> None:
        self.found = found
        self.root = found.root
        given = git("rev-parse", "--git-path", "hooks", root=found.root).decode("utf-8", "surrogateescape").rstrip("\n")
        self.folder = os.path.realpath(os.path.join(found.root, given))
        self.common = found.common

    @property
    def manager(self) -> str:
        """Who owns the hooks, if not this checkout: a hook manager, or a folder that others use too; else ""."""
        inside = (self.common, os.path.realpath(self.root))
        if not any(self.folder.startswith(folder + os.sep) for folder in inside):
            return f"the folder {self.folder}, which is not this repository's alone"
        if os.path.basename(self.folder) == "_" or os.path.basename(os.path.dirname(self.folder)) == ".husky":
            return "husky"
        if os.path.basename(self.folder) == ".husky":
            return "husky"
        return f"the folder {self._below}, which git tracks" if self._is_tracked() else ""

    @property
    def _below(self) -> str:
        return os.path.relpath(self.folder, os.path.realpath(self.root))

    def _is_tracked(self) -> bool:
        """Whether the scripts belong to the work of everybody: paths of this machine have no place in them."""
        if self.folder.startswith(self.common + os.sep):
            return False
        return bool(git("--literal-pathspecs", "ls-files", "-z", "--", self._below, root=self.root))

    @property
    def calls_known_hooks_only(self) -> bool:
        """Whether the manager calls scripts for a fixed list of hooks: husky's list lacks `reference-transaction`."""
        return self.manager == "husky" and os.path.basename(self.folder) == "_"

    def other_managers(self) -> list[str]:
        """Hook managers that may overwrite hooks in the same folder."""
        signs = {
            "lefthook": ("lefthook.yml", ".lefthook.yml", "lefthook.toml"),
            "pre-commit": (".pre-commit-config.yaml",),
        }
        there = {
            name for name, files in signs.items() if any(os.path.exists(os.path.join(self.root, f)) for f in files)
        }
        return sorted(there)

    def script(self, name: str) -> str:
        """The path of a hook."""
        return os.path.join(self.folder, name)

    def ours(self, name: str) -> bool:
        """Whether the installed hook is the guard's."""
        return MARK in _read(self.script(name))

    def called(self, name: str) -> bool:
        """Whether a script of somebody else calls the guard. git runs it only if it is executable, husky always."""
        by_husky = os.path.basename(self.folder) == "_"
        path = os.path.join(os.path.dirname(self.folder) if by_husky else self.folder, name)
        runs = os.path.isdir(self.folder) if by_husky else os.access(path, os.X_OK)
        return runs and f"tb guard check {name}" in _read(path)


def hooks(folder: str) -> GitHooks:
    """The hooks of the repository around a folder."""
    found = repository(folder)
    if found is None:
        raise Invalid("not in a git repository", hint="`git init` makes one")
    return GitHooks(found)


def install(installed: GitHooks) -> list[str]:
    """Install the guard in each hook; returns a line for each, and for each worktree that is not guarded by it.

    A second run changes nothing.
    """
    done = _with_manager(installed) if installed.manager else _put_all(installed)
    return done + [unguarded_line(root) for root in unguarded(installed)]


def _put_all(installed: GitHooks) -> list[str]:
    os.makedirs(installed.folder, exist_ok=True)
    done = [_put(installed, name) for name in NAMES]
    return done + [
        f"{each} writes its hooks itself: after `{each} install`, run `tb guard install` again"
        for each in installed.other_managers()
    ]


def _with_manager(installed: GitHooks) -> list[str]:
    """Refused unless the manager's scripts call the guard; adds the hook that the manager does not know."""
    wanted = [name for name in NAMES if name != UPDATES or not installed.calls_known_hooks_only]
    is_there = os.path.isdir(installed.folder)
    missing = [name for name in wanted if is_there and not (installed.called(name) or installed.ours(name))]
    if missing:
        lines = "; ".join(f"`{line(name)}` to its {name}" for name in missing)
        raise Refused(f"the hooks belong to {installed.manager}: nothing was changed", hint=f"add {lines}")
    if not os.path.isdir(installed.folder):
        raise Refused(
            f"{installed.manager} is not installed in this checkout: {plain(installed.folder)} is not there",
            hint=f"install {installed.manager} here, then run `tb guard install` again",
        )
    done = [f"{installed.manager} calls the guard already"]
    return done if UPDATES in wanted else [*done, _put(installed, UPDATES)]


def _put(installed: GitHooks, name: str) -> str:
    path, wanted = installed.script(name), script(name)
    if installed.ours(name):
        if _read(path) != wanted:
            _write(path, wanted)
            return f"{name}: brought up to date"
        return f"{name}: already installed"
    kept = ""
    if os.path.lexists(path):
        _keep(path)
        kept = f", before it runs what was there ({name}{KEPT})"
    _write(path, wanted)
    return f"{name}: installed{kept}"


def _keep(path: str) -> None:
    """Rename a hook, so that the guard's can run it. If a manager wrote it anew over the guard's, this is undone."""
    for end in PUT_ASIDE:
        if MARK in _read(path + end):
            os.unlink(path + end)  # the guard's own script: it would run this hook once more
    if os.path.lexists(path + KEPT) and _read(path + KEPT) != _read(path):
        older = next(each for number in count(1) if not os.path.lexists(each := f"{path}{KEPT}.{number}"))
        os.rename(path + KEPT, older)
    os.replace(path, path + KEPT)


def script(name: str) -> str:
    """The text of the guard's hook."""
    import shlex
    import shutil
    import sys

    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "tb")
    tb = beside if os.path.exists(beside) else shutil.which("tb") or "tb"
    given = {"pre-push": READ_INPUT, UPDATES: UPDATES_INPUT}.get(name, "")
    kept_out = {MESSAGE: MESSAGE_FILTER, UPDATES: UPDATES_FILTER}.get(name, "")
    parts = {"@NAME@": name, "@INPUT@": given, "@FILTER@": kept_out, "@TB@": shlex.quote(tb)}
    lines = SCRIPT
    for mark, text in parts.items():
        lines = lines.replace(mark if text else f"{mark}\n", text)
    return lines


def lookup(path: str) -> str:
    """A script that finds `tb` as the installed hook does, and asks for its version."""
    lines = [line for line in _read(path).splitlines() if line.startswith("tb=")]
    return "\n".join([*lines, '"$tb" --version'])


def uninstall(installed: GitHooks) -> list[str]:
    """Remove the guard, and restore the hooks that were there before."""
    done = []
    for name in NAMES:
        path = installed.script(name)
        if not installed.ours(name):
            continue
        if os.path.lexists(path + KEPT):
            os.replace(path + KEPT, path)
            done.append(f"{name}: restored what was there before")
        else:
            os.unlink(path)
            done.append(f"{name}: removed")
    return done or ["the guard was not installed"]


def status(installed: GitHooks) -> dict[str, str]:
    """For each hook: `guarded`, `guarded by husky` …, `other`, or `none`."""
    found = {}
    for name in NAMES:
        if installed.ours(name):
            found[name] = "guarded"
        elif installed.manager and installed.called(name):
            found[name] = f"guarded by {installed.manager}"
        else:
            found[name] = "other" if os.path.lexists(installed.script(name)) else "none"
    return found


def calls_all(version: str) -> bool:
    """Whether a git with this version (`git version 2.39.5`) calls all hooks; also if the version cannot be read."""
    numbers = version.removeprefix("git version ").split(".")[:2]
    return not all(map(str.isdecimal, numbers)) or tuple(map(int, numbers)) >= LEAST_GIT


def unguarded(installed: GitHooks) -> list[str]:
    """The other checkouts of the repository in which git runs hooks that do not call the guard."""
    return [each.root for each in other_checkouts(installed.found) if not _is_guarded(each, installed.folder)]


def _is_guarded(other: Repository, folder: str) -> bool:
    try:
        hooks_there = GitHooks(other)
        return hooks_there.folder == folder or all(each.startswith("guarded") for each in status(hooks_there).values())
    except Refused:
        return False  # git fails there


def unguarded_line(root: str) -> str:
    """What to do about such a checkout."""
    return f"not guarded: {plain(root)} (`cd {argument(root)} && tb guard install`)"


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 16)
    except OSError:
        return ""


def _write(path: str, content: str) -> None:
    replace_file(path, content.encode(), mode=0o755)  # git runs it for everybody who commits
