"""What the agents of a walk do: a list of steps that depends on a seed alone, so that it can be repeated and shortened.

A step names its files, folders and branches without looking at the disk. In some states it does nothing, then.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

WHO = ("ann", "ben", "cat")
PLACES = ("main", "tree1", "tree2")
FILES = ("top.txt", "src/red.txt", "src/blue.txt", "src/deep/one.txt", "src/deep/two.txt", "docs/note.txt")
NEW = ("src/new.txt", "docs/extra.txt", "build/ignored.txt")
FOLDERS = ("src", "src/deep", "docs")
BRANCHES = ("main", "side", "tree1", "tree2")

END = -1


@dataclass(frozen=True)
class Step:
    """One thing that one agent does."""

    number: int
    who: str
    kind: str
    name: str = FILES[0]
    other: str = FILES[1]
    folder: str = FOLDERS[0]
    branch: str = BRANCHES[0]
    place: str = PLACES[0]
    chance: float = field(default=0.5, compare=False)
    """For what the agent does before it begins: how it takes what it is told."""
    beside: int = 0
    """During how many steps of the others a command runs: it is started before them, and ends after them (`END`)."""
    is_late: bool = False
    """Whether such a command does its work at its end, and not when it is started."""

    @property
    def line(self) -> str:
        """A line as only this step writes it."""
        return f"{self.who} wrote line {self.number} of {self.name} here"

    def __str__(self) -> str:
        part = {0: "", END: " ends"}.get(self.beside, " begins" + " and works at its end" * self.is_late)
        return f"{self.number:4} {self.who}: {self.kind}{part}"


TOOLS = {"edit": 26, "write": 12, "read": 6, "stop": 5, "prompt": 3, "restart": 1, "move": 2}
"""What an agent does without a shell, and how often."""

COMMIT = "git commit -q -m 'work of {who}'"
COMMANDS = {
    "look": (4, "git status -s; git log -1 --format=%h; git diff --stat; ls -R >/dev/null"),
    # ── Files ──
    "append": (12, "test -p {name} || echo '{line}' >> {name}"),
    "insert": (4, "test -p {name} || sed -i '1i {line}' {name}"),
    "delete a line": (2, "test -p {name} || sed -i '$d' {name}"),
    "rm": (2, "rm -f {name}"),
    "mv": (2, "mv -f {name} {other}"),
    "cp": (2, "test -p {other} || {{ test -f {name} && cp {name} {other}; }}"),
    "hard link": (1, "ln -f {name} {other}"),
    "link to a file": (1, "ln -sfr {other} {name}"),
    "link to the outside": (1, "ln -sfn {outside}/file.txt {name}"),
    "pipe": (1, "rm -f {name}; mkfifo {name}"),
    "chmod": (1, "chmod +x {name}"),
    "truncate": (1, "test -f {name} && truncate -s 0 {name}"),
    "touch": (1, "touch -c {name}"),
    # ── Folders ──
    "rm -rf": (1, "rm -rf {folder}"),
    "mv a folder": (1, "mv -T {folder} lib"),
    "mv it back": (1, "test -e {folder} || mv -T lib {folder}"),
    "folder to the outside": (
        1,
        "test -L {folder} || {{ mv -T {folder} {outside}/{number} && ln -s {outside}/{number} {folder}; }}",
    ),
    "folder to the inside": (
        1,
        "test -L {folder} || {{ mv -T {folder} kept{number} && ln -sr kept{number} {folder}; }}",
    ),
    "no links": (
        3,
        "for f in src docs src/deep; do test -L $f && {{ t=$(readlink -f $f); rm $f; mv -T $t $f; }}; done",
    ),
    "git init": (1, "git init -q {folder}"),
    "no git below": (3, "rm -rf src/.git docs/.git src/deep/.git lib/.git"),
    # ── Index and checkout ──
    "git mv": (1, "git mv -f {name} {other}"),
    "git rm": (1, "git rm -qf {name}"),
    "add": (2, "git add -A"),
    "add -N": (1, "git add -N {name}"),
    "skip-worktree": (1, "git update-index --skip-worktree {name}"),
    "assume-unchanged": (1, "git update-index --assume-unchanged {name}"),
    "no marks": (2, "git update-index --no-skip-worktree --no-assume-unchanged {name}"),
    "unstage": (4, "git reset -q"),
    "stash": (1, "git stash -q"),
    "stash -u": (1, "git stash -q -u"),
    "stash pop": (2, "git stash pop -q"),
    "throw away": (2, "git checkout -q -- ."),
    "checkout a folder": (1, "git checkout -q {branch} -- {folder}"),
    "checkout": (2, "git checkout -q {branch}"),
    "home": (3, "git checkout -q {home}"),
    "switch -c": (1, "git switch -q -c new{number}"),
    "reset --hard": (1, "git reset -q --hard"),
    "reset a commit": (1, "git reset -q --hard HEAD~1"),
    "clean": (1, "git clean -fdxq"),
    "worktree add": (1, "git worktree add -q --detach {outside}/tree{number}"),
    "worktree remove": (
        1,
        "git worktree remove --force $(ls -d {outside}/tree* | tail -1)",
    ),
    # ── Commits ──
    "tb commit": (6, "tb commit {name} -m 'work of {who}'"),
    "tb commit of the own": (8, "tb commit {held} -m 'work of {who}'"),
    "tb commit a folder": (3, "tb commit {folder} -m 'work of {who}'"),
    "commit -a": (3, "git commit -q -a -m 'work of {who}'"),
    "commit all": (2, f"git add -A; {COMMIT}"),
    "commit --no-verify": (2, f"git add -A; {COMMIT} --no-verify"),
    "commit --amend": (1, "git commit -q -a --amend --no-edit"),
    "cherry-pick": (1, "git cherry-pick {branch} || git cherry-pick --abort"),
    "merge --no-ff": (1, "git merge -q --no-ff -m merge {branch} || git merge --abort"),
    "merge and wait": (1, "git merge -q --no-ff --no-commit {branch}"),
    "abort": (2, "git merge --abort || git cherry-pick --abort || git rebase --abort"),
    "merge --ff-only": (1, "git merge -q --ff-only {branch}"),
    "revert": (1, "git revert --no-edit HEAD || git revert --abort"),
    "am": (1, "git format-patch -q -1 --stdout {branch} | git am -q || git am --abort"),
    "rebase": (1, "git rebase -q {branch} || git rebase --abort"),
    "update-ref": (
        1,
        "git add -A; t=$(git write-tree) && c=$(git commit-tree -p HEAD -m work $t) && git update-ref HEAD $c",
    ),
}
"""What an agent does in its shell, and how often."""
CHEAP_NAMES = (*FILES, *FILES, *NEW)


def script(seed: int, count: int) -> list[Step]:
    """The steps of a walk."""
    dice = random.Random(seed)
    weights = {**TOOLS, **{kind: weight for kind, (weight, _) in COMMANDS.items()}}
    kinds = dice.choices(list(weights), list(weights.values()), k=count)
    return [
        Step(
            number,
            dice.choice(WHO),
            kind,
            name=dice.choice(CHEAP_NAMES),
            other=dice.choice(CHEAP_NAMES),
            folder=dice.choice(FOLDERS),
            branch=dice.choice(BRANCHES),
            place=dice.choice(PLACES),
            chance=dice.random(),
            beside=dice.choice((0, 0, 0, 0, 1, 2, 4)) if kind in COMMANDS else 0,
            is_late=dice.random() < 0.5,
        )
        for number, kind in enumerate(kinds, 1)
    ]
