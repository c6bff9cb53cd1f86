"""Which project a repository belongs to: the same name in all its worktrees, in all clones, on all machines.

The name comes from the first of these rules that applies:

1. `origin`: the address of the remote `origin` (or of the only remote), as host and path. However it is written, one
   repository has one name: `git@github.com:Acme/shop.git` and `https://github.com/acme/shop` are both
   `github.com/acme/shop`.
   A remote that is a path on this machine is followed to the repository there.
2. `commit`: the first commit, as `commit/HASH`. A shallow clone does not know it.
3. `path`: the folder, as `local/NAME-HASH`. It means nothing on another machine, so a board that other machines use
   refuses it.

`git config tiebreak.project`, which comes before all of them, is read in `repository`.

What was found is *pinned* in a file of the repository's common directory. From then on a command only reads that file,
and the name stays the same when a remote is added or changed. git runs only when there is no pin yet.

Versions before schema 4 named a project after the path of the clone (`old_name`). Boards that were used then know the
project by that name, so every clone also says which one that was.
"""

from __future__ import annotations

import os

from .limits import MAX_LABEL
from .names import BY_COMMIT, BY_PATH, checksum
from .repository import open_at_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .repository import Repository

PIN = "tiebreak-project"
"""The name of the file in the common directory of a repository that has the pinned name."""
OUTSIDE = "default"
"""The project outside of any repository."""
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-/")


class ProjectIdentity:
    """What a repository's project is called, by which rule, and what else it may be known by."""

    __slots__ = ("name", "old", "path", "root", "rule", "source")

    def __init__(
        self, name: str, rule: str, *, root: str = "", source: str = "", old: str = "", path: str = ""
    ) -> None:
        self.name = name
        self.rule = rule
        """`origin`, `commit`, `path`, `config` (`git config tiebreak.project`) or `none` (outside of a repository)."""
        self.root = root
        """The name by the first commit; empty if it is not known."""
        self.source = source
        """What the rule was applied to: the address of the remote, the commit, or the path."""
        self.old = old
        """The name that versions before schema 4 gave to this clone; empty where they gave the same."""
        self.path = path
        """The name by its path, if that was its name until more was known; else empty."""

    @property
    def names(self) -> str:
        """The names as a call to the board gives them: the name, then those that the board may know it by."""
        found = (self.root, self.old, self.path)
        others = (each for each in found if each and each != self.name and each[0] not in ".-")
        return " ".join((self.name, *others))


def project_names(start: str) -> str:
    """The names of the project of a folder, as a call to the board gives them (see `names.project_names`)."""
    from .repository import repository

    return identify(repository(start)).names


def identify(found: Repository | None) -> ProjectIdentity:
    """The identity of the project of a repository, from its git config, its pin, or the rules."""
    if found is None:
        return ProjectIdentity(OUTSIDE, "none")
    from .repository import configured_project

    chosen = configured_project(found.common)
    if chosen:
        return ProjectIdentity(chosen, "config", source="git config tiebreak.project")
    pinned = read_pin(found.common)
    if pinned is None or (pinned.name.startswith(BY_PATH) and _may_know_more(found.common)):
        from .project_rules import derive_and_pin

        pinned = derive_and_pin(found.common, pinned)
    pinned.old = old_name(found.common)
    return pinned


def _may_know_more(common: str) -> bool:
    """Whether a repository that was known by its path alone may have a remote or a first commit by now."""
    from .repository import read_config

    if "[remote " in read_config(common):
        return True
    try:
        return not os.path.getsize(os.path.join(common, "shallow"))
    except OSError:
        return any(os.path.exists(os.path.join(common, each)) for each in ("logs/HEAD", "packed-refs"))


def read_pin(common: str) -> ProjectIdentity | None:
    """The pinned identity of a repository; None if it has none."""
    for path in (os.path.join(common, PIN), spare_pin(common)):
        try:
            with open(path, encoding="utf-8", errors="surrogateescape", opener=open_at_once) as file:
                text = file.read(4096)
        except (OSError, ValueError):
            continue
        if (identity := _parsed(text)) is not None:
            return identity
    return None


def _parsed(text: str) -> ProjectIdentity | None:
    """The identity in the text of a pin; None if the text is incomplete or somebody else's."""
    lines = text.split("\n")
    if len(lines) < 6 or lines[0] != "tiebreak 1" or not usable(lines[1]):
        return None
    root, path = lines[3], lines[5]
    if (root and not usable(root)) or (path and not usable(path)):
        return None
    return ProjectIdentity(lines[1], lines[2], root=root, source=lines[4], path=path)


def pin_text(identity: ProjectIdentity) -> str:
    """The text of a pin, a line each: a mark, name, rule, name by the first commit, source, former name by the path."""
    source = "".join(c if c.isprintable() else "?" for c in identity.source)[:1000]
    return "\n".join(("tiebreak 1", identity.name, identity.rule, identity.root, source, identity.path, ""))


def spare_pin(common: str) -> str:
    """Where the pin is if the repository cannot be written: a file of the user, named after the common directory."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "tiebreak", "pins", f"{_place(common):016x}")


def _place(common: str) -> int:
    """A number for a folder: of its path and of the folder itself, which may be another one there in a container."""
    try:
        found = os.stat(common)
    except OSError:
        return checksum(os.fsencode(common))
    return checksum(b"%d %d %s" % (found.st_dev, found.st_ino, os.fsencode(common)))


def old_name(common: str) -> str:
    """The name that versions before schema 4 gave to the project of this clone."""
    safe = "".join(c if _was_plain(c) else "-" for c in _base(common).lower())[:48] or "root"
    return f"{safe}-{checksum(os.fsencode(common)):016x}"[: len(safe) + 7]


def path_name(common: str) -> str:
    """The name of a repository that is known by its path alone."""
    return fitting(f"{BY_PATH}{_base(common).lower() or 'root'}-{_place(common):016x}")


def commit_name(commit: str) -> str:
    """The name of a repository that is known by its first commit."""
    return BY_COMMIT + commit[:24]


def _base(common: str) -> str:
    parent, base = os.path.split(common)
    return os.path.basename(parent) if base == ".git" else base.removesuffix(".git")


def _was_plain(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char in "._-")


def usable(name: str) -> bool:
    """Whether a text can be the name of a project that was made from a repository."""
    return 0 < len(name) <= MAX_LABEL and _PLAIN.issuperset(name) and name[0] not in ".-/"


def fitting(name: str) -> str:
    """A name of the allowed length and characters. A hash of the full name is added if something was left out."""
    lower = name.lower()
    plain = "".join(c if c in _PLAIN else "-" for c in lower).lstrip(".-/")
    if plain == lower and len(plain) <= MAX_LABEL:
        return plain
    return f"{plain[: MAX_LABEL - 9]}-{checksum(lower.encode('utf-8', 'surrogateescape')):016x}"[:MAX_LABEL]
