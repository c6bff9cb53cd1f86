"""`tb guard install`: installs the git hooks that call the guard.

Worktrees share the hooks of their repository, so one installation serves all of them. A hook that exists already is
renamed to `NAME.before-tiebreak`, and runs first. If a hook manager such as husky owns the hooks, nothing is changed,
and the error says what to add to the manager's scripts.
"""

from __future__ import annotations

import os

from ..errors import Invalid, Refused
from ..files import replace_file
from ..repository import repository
from .git import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..repository import Repository

NAMES = ("pre-commit", "prepare-commit-msg", "pre-push")
KEPT = ".before-tiebreak"
MARK = "# tiebreak guard"
SCRIPT = """#!/bin/sh
# tiebreak guard: `tb guard uninstall` takes it away again.
name=@NAME@
kept="$(dirname "$0")/$name.before-tiebreak"
input=
[ "$name" = pre-push ] && input=$(cat && echo x) && input=${input%x}
if [ -x "$kept" ]; then
    printf %s "$input" | "$kept" "$@" || exit $?
fi
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
LINE = 'tb guard check {0} -- "$@"'


class GitHooks:
    """The git hooks of a repository."""

    def __init__(self, found: Repository) -> None:
        self.root = found.root
        given = git("rev-parse", "--git-path", "hooks", root=found.root).decode("utf-8", "surrogateescape").rstrip("\n")
        self.folder = os.path.realpath(os.path.join(found.root, given))
        self.common = found.common

    @property
    def manager(self) -> str:
        """Who owns the hooks, if not this repository: a hook manager, or a folder that others use too; else ""."""
        inside = (self.common, os.path.realpath(self.root))
        if not any(self.folder.startswith(folder + os.sep) for folder in inside):
            return f"the folder {self.folder}, which is not this repository's alone"
        if os.path.basename(self.folder) == "_" or os.path.basename(os.path.dirname(self.folder)) == ".husky":
            return "husky"
        return "husky" if os.path.basename(self.folder) == ".husky" else ""

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
        """Whether a hook manager's own script calls the guard."""
        husky = os.path.join(os.path.dirname(self.folder) if self.folder.endswith("/_") else self.folder, name)
        return f"tb guard check {name}" in _read(husky)


def hooks(folder: str) -> GitHooks:
    """The hooks of the repository around a folder."""
    found = repository(folder)
    if found is None:
        raise Invalid("not in a git repository", hint="`git init` makes one")
    return GitHooks(found)


def install(installed: GitHooks) -> list[str]:
    """Install the guard in each hook; returns a line for each. A second run changes nothing."""
    if installed.manager:
        missing = [name for name in NAMES if not installed.called(name)]
        if not missing:
            return [f"{installed.manager} calls the guard already"]
        lines = "; ".join(f"`{LINE.format(name)}` to its {name}" for name in missing)
        raise Refused(f"the hooks belong to {installed.manager}: nothing was changed", hint=f"add {lines}")
    os.makedirs(installed.folder, exist_ok=True)
    done = [_put(installed, name) for name in NAMES]
    return done + [
        f"{each} writes its hooks itself: after `{each} install`, run `tb guard install` again"
        for each in installed.other_managers()
    ]


def _put(installed: GitHooks, name: str) -> str:
    path, wanted = installed.script(name), script(name)
    if installed.ours(name):
        if _read(path) != wanted:
            _write(path, wanted)
            return f"{name}: brought up to date"
        return f"{name}: already installed"
    kept = ""
    if os.path.lexists(path):
        if os.path.lexists(path + KEPT):
            raise Refused(f"{path + KEPT} exists already", hint="look at it, and move it away")
        os.rename(path, path + KEPT)
        kept = f", before it runs what was there ({name}{KEPT})"
    _write(path, wanted)
    return f"{name}: installed{kept}"


def script(name: str) -> str:
    """The text of the guard's hook."""
    import shlex
    import shutil
    import sys

    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "tb")
    tb = beside if os.path.exists(beside) else shutil.which("tb") or "tb"
    return SCRIPT.replace("@NAME@", name).replace("@TB@", shlex.quote(tb))


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


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 16)
    except OSError:
        return ""


def _write(path: str, content: str) -> None:
    replace_file(path, content.encode(), mode=0o755)  # git runs it for everybody who commits
