"""Checkouts: whose the file holds of a working tree are, and how a checkout is told from all others.

`git config tiebreak.holds` says whether file holds speak of the repository's files (`repository`, the default) or of
those of one checkout, a worktree or clone (`checkout`). The value is read from git's files, without running git, each
time that a file is named. So a change counts at once.

The identity of a checkout is made up at its first use, from random bytes, and pinned in its own git directory: in
`.git` of a clone, in `.git/worktrees/NAME` of a worktree. Every process in the checkout finds it there, also in a
container that mounts it elsewhere, and a new clone at the same path on another host makes up its own. The pin also has
the path of the directory in which it was made. That is how a clone is noticed that was copied with its git directory:
the original still has the same pin in another file.
"""

from __future__ import annotations

import os

from .errors import Invalid
from .held_files import is_checkout
from .names import shown
from .repository import SECTION, config_entries, open_at_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .repository import Repository

REPOSITORY, CHECKOUT = "repository", "checkout"
PIN = "tiebreak-checkout"
"""The name of the file in the git directory of a checkout that has its identity."""
_MARK = "tiebreak checkout 1"
_INCLUDED = 5
"""How deep files of git's configuration may include each other."""


def checkout_of(found: Repository | None) -> str:
    """The identity of a checkout whose file holds are its own; empty where they are the repository's."""
    if found is None or holds_setting(found)[0] == REPOSITORY:
        return ""
    return identity(found)


# ── The setting ──────────────────────────────────────────────────────────────────────────────────────


def holds_setting(found: Repository) -> tuple[str, str]:
    """`repository` or `checkout`, and the file that says so, empty if none does; raises `Invalid` for another value."""
    for path in _config_files(found):
        value = _value(path, _INCLUDED)
        if value is None:
            continue
        if value not in (REPOSITORY, CHECKOUT):
            raise Invalid(
                f"git config tiebreak.holds is {shown(value)} (in {path})",
                hint="it can be 'checkout' or 'repository': `git config tiebreak.holds checkout`",
            )
        return value, path
    return REPOSITORY, ""


def _config_files(found: Repository) -> Iterator[str]:
    """The files of git's configuration, the one that decides first."""
    shared = os.path.join(found.common, "config")
    if _is_on(_value(shared, _INCLUDED, "extensions", "worktreeconfig")):
        yield os.path.join(found.private, "config.worktree")
    yield shared
    own = os.environ.get("GIT_CONFIG_GLOBAL")
    if own is not None:
        yield own
    else:
        home = os.path.expanduser("~")
        yield os.path.join(home, ".gitconfig")
        yield os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git", "config")
    if not _is_on(os.environ.get("GIT_CONFIG_NOSYSTEM")):
        yield os.environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig"


def _is_on(value: str | None) -> bool:
    return (value or "").lower() in ("true", "yes", "on", "1")


def _value(path: str, depth: int, section: str = SECTION, key: str = "holds") -> str | None:
    """The last value of a key in a file and those that it includes; None if there is none."""
    chosen = None
    for here, name, value in config_entries(_text(path)):
        if (here, name) == (section, key):
            chosen = "true" if value is None else value  # as git reads a key without a value
        elif (here, name) == ("include", "path") and value and depth:
            included = _value(os.path.join(os.path.dirname(path), os.path.expanduser(value)), depth - 1, section, key)
            chosen = chosen if included is None else included
    return chosen


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", opener=open_at_once) as file:
            return file.read(1 << 20)
    except (OSError, ValueError):
        return ""


# ── The identity ─────────────────────────────────────────────────────────────────────────────────────


def identity(found: Repository) -> str:
    """The identity of a checkout. It is pinned at the first use; raises `Invalid` if that is not possible."""
    known = known_identity(found)
    if known:
        return known
    problem = "it cannot be read"
    try:
        if made := _pin(found):
            return made
    except OSError as exc:
        problem = exc.strerror or str(exc)
    raise Invalid(
        f"the checkout {found.root} cannot get a name for its holds: {os.path.join(found.private, PIN)}: {problem}",
        hint="`git config tiebreak.holds repository` makes its holds those of the repository",
    )


def known_identity(found: Repository) -> str:
    """The identity of a checkout; empty if it has none yet."""
    name, made_in = _read(found.private)
    return "" if name and made_in != found.private and _is_copy(found.private, name, made_in) else name


def _read(private: str) -> tuple[str, str]:
    """The identity in the pin of a git directory, and the directory that it was made in; empty if there is none."""
    lines = _text(os.path.join(private, PIN)).split("\n")
    if len(lines) < 4 or lines[0] != _MARK or not is_checkout(lines[1]):
        return "", ""
    return lines[1], lines[2]


def _is_copy(private: str, name: str, made_in: str) -> bool:
    """Whether the pin was copied: the one that was made there still exists, in another file."""
    if _read(made_in)[0] != name:
        return False  # the checkout was moved, or is mounted here at another path
    try:
        return not os.path.samefile(os.path.join(private, PIN), os.path.join(made_in, PIN))
    except OSError:
        return False


def _pin(found: Repository) -> str:
    """Make up an identity and pin it, unless another process is faster; what is pinned in the end."""
    path = os.path.join(found.private, PIN)
    text = "\n".join((_MARK, _new_name(found.root), found.private, ""))
    partial = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.new"
    with open(partial, "x", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    try:
        _put(found, partial, path)
    finally:
        os.unlink(partial)
    return known_identity(found)


def _put(found: Repository, partial: str, path: str) -> None:
    """Give a complete pin its name. One that is a copy, or damaged, is replaced by one process alone."""
    import fcntl

    while True:
        try:
            return os.link(partial, path)
        except FileExistsError:
            pass
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if not os.path.samestat(os.fstat(fd), os.stat(path)):
                continue  # replaced just now
            if not known_identity(found):
                spare = f"{partial}.link"
                os.link(partial, spare)
                os.replace(spare, path)
            return None
        finally:
            os.close(fd)


def _new_name(root: str) -> str:
    """A name that nobody else makes up, and from which people see which folder is meant."""
    base = os.path.basename(root).lower()
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in base).strip(".-")[:24]
    return f"{plain.rstrip('.-') or 'checkout'}-{os.urandom(5).hex()}"
