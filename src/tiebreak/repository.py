"""The git repository around a folder, and its settings for tiebreak, found without running git.

Commands do this at every start, and starting git would take longer than the command itself.
"""

from __future__ import annotations

import os

from .errors import Invalid
from .limits import MAX_LABEL
from .names import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SECTION = "tiebreak"
"""The section of git's configuration with the settings for tiebreak."""


class Repository:
    """A git working tree (`root`), its own git directory (`private`) and the one of all its worktrees (`common`).

    In a clone without further worktrees, `private` and `common` are the same.
    """

    __slots__ = ("common", "private", "root")

    def __init__(self, root: str, common: str, private: str = "") -> None:
        self.root = root
        self.common = common
        self.private = private or common


def repository(start: str) -> Repository | None:
    """The repository that contains `start`; None if there is none, or if it cannot be read."""
    try:
        here = os.path.realpath(start)
        while True:
            private, common = _git_dirs(here)
            if common:
                return Repository(here, common, private)
            parent = os.path.dirname(here)
            if parent == here:
                return None
            here = parent
    except (PermissionError, FileNotFoundError, ValueError):  # not found: the current directory is gone
        return None


def _git_dirs(top: str) -> tuple[str, str]:
    """The git directory of the working tree at `top`, and the common one; both empty when `top` is not one."""
    dot_git = os.path.join(top, ".git")
    git_dir = dot_git
    if not os.path.isdir(dot_git):
        key, _, target = _read(dot_git).partition(":")
        if key != "gitdir" or not target.strip():
            return "", ""
        git_dir = os.path.join(top, target.strip())
    common = os.path.join(git_dir, _read(os.path.join(git_dir, "commondir")).strip())
    return (os.path.realpath(git_dir), os.path.realpath(common)) if os.path.isdir(common) else ("", "")


def _read(path: str) -> str:
    """The text of a small file; empty if there is none. Raises `PermissionError` if reading it is not permitted."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", opener=_open_now) as file:
            return file.read(1 << 20)
    except PermissionError:
        raise
    except OSError:
        return ""


def open_at_once(path: str, flags: int) -> int:
    """An opener that does not wait."""
    return _open_now(path, flags)


def _open_now(path: str, flags: int) -> int:
    # A pipe that somebody left as `.git` in a shared directory would block for ever.
    return os.open(path, flags | os.O_NONBLOCK)


def common_of(path: str) -> str:
    """The common git directory of the repository at a path, bare or with a working tree; empty when there is none."""
    try:
        if os.path.isdir(os.path.join(path, "objects")) and os.path.isfile(os.path.join(path, "HEAD")):
            return os.path.realpath(path)
        return _git_dirs(path)[1]
    except (PermissionError, ValueError):
        return ""


def configured_project(common: str) -> str:
    """`git config tiebreak.project` of the repository; empty when there is none."""
    chosen = setting(common, "project")
    if len(chosen) > MAX_LABEL or not all(_is_plain(c) or c == "/" for c in chosen):
        raise Invalid(
            f"project name {shown(chosen)} in the git config is not usable",
            hint=f"use at most {MAX_LABEL} of the characters A-Z a-z 0-9 . _ / -",
        )
    return chosen


def _is_plain(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char in "._-")


def setting(common: str, wanted: str, section: str = SECTION) -> str:
    """The last value of a key in a section of the repository's git config; empty when there is none."""
    chosen = ""
    for here, key, value in config_entries(read_config(common)):
        if (here, key) == (section, wanted) and value is not None:
            chosen = value
    return chosen


def config_entries(text: str) -> Iterator[tuple[str, str, str | None]]:
    """The (section, key, value) of each line of a git config, the first two in lower case; None for a key alone."""
    here = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            here, _, line = line[1:].partition("]")
            here, line = here.strip().lower(), line.strip()
        key, equals, value = line.partition("=")
        if key and line[0] not in "#;":
            yield here, key.strip().lower(), _config_value(value.strip()) if equals else None


def read_config(common: str) -> str:
    """The text of a repository's git config; empty if there is none, or if it may not be read."""
    try:
        return _read(os.path.join(common, "config"))
    except PermissionError:
        return ""


def _config_value(text: str) -> str:
    if text.startswith('"'):
        return text[1:].partition('"')[0]
    return text.partition("#")[0].partition(";")[0].strip()
