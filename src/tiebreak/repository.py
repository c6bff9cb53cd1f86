"""The git repository around a folder, and the name of its project, found without running git.

Commands do this at every start, and starting git would take longer than the command itself.
"""

from __future__ import annotations

import os

from .errors import Invalid
from .limits import MAX_LABEL
from .names import checksum, shown


class Repository:
    """A git working tree (`root`) and the directory that all its worktrees share (`common`)."""

    __slots__ = ("common", "root")

    def __init__(self, root: str, common: str) -> None:
        self.root = root
        self.common = common


def repository(start: str) -> Repository | None:
    """The repository that contains `start`; None if there is none, or if it cannot be read."""
    try:
        here = os.path.realpath(start)
        while True:
            common = _common_dir(here)
            if common:
                return Repository(here, common)
            parent = os.path.dirname(here)
            if parent == here:
                return None
            here = parent
    except (PermissionError, FileNotFoundError, ValueError):  # not found: the current directory is gone
        return None


def _common_dir(top: str) -> str:
    """The common git directory of the working tree at `top`; empty when `top` is not one."""
    dot_git = os.path.join(top, ".git")
    git_dir = dot_git
    if not os.path.isdir(dot_git):
        key, _, target = _read(dot_git).partition(":")
        if key != "gitdir" or not target.strip():
            return ""
        git_dir = os.path.join(top, target.strip())
    common = os.path.join(git_dir, _read(os.path.join(git_dir, "commondir")).strip())
    return os.path.realpath(common) if os.path.isdir(common) else ""


def _read(path: str) -> str:
    """The text of a small file; empty if there is none. Raises `PermissionError` if reading it is not permitted."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", opener=_open_now) as file:
            return file.read(1 << 20)
    except PermissionError:
        raise
    except OSError:
        return ""


def _open_now(path: str, flags: int) -> int:
    # A pipe that somebody left as `.git` in a shared directory would block for ever.
    return os.open(path, flags | os.O_NONBLOCK)


def project_name(start: str) -> str:
    """The project of directory `start`: `git config tiebreak.project`, else one derived from the repository.

    The derived name ends in a hash of the common directory, so that two clones on one board stay apart
    and all worktrees of one clone stay together. Outside of any repository it is `default`.
    """
    found = repository(start)
    if found is None:
        return "default"
    return _configured_project(found.common) or _derived_project(found.common)


def _derived_project(common: str) -> str:
    parent, base = os.path.split(common)
    base = os.path.basename(parent) if base == ".git" else base.removesuffix(".git")
    safe = "".join(c if _is_plain(c) else "-" for c in base.lower())[:48] or "root"
    return f"{safe}-{checksum(os.fsencode(common)):016x}"[: len(safe) + 7]


def _is_plain(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char in "._-")


def _configured_project(common: str) -> str:
    """`project = NAME` of section `[tiebreak]` in the git config; empty when there is none."""
    chosen = setting(common, "project")
    if len(chosen) > MAX_LABEL or not all(_is_plain(c) or c == "/" for c in chosen):
        raise Invalid(
            f"project name {shown(chosen)} in the git config is not usable",
            hint=f"use at most {MAX_LABEL} of the characters A-Z a-z 0-9 . _ / -",
        )
    return chosen


def setting(common: str, wanted: str) -> str:
    """The last value of `tiebreak.WANTED` in the repository's git config; empty when there is none."""
    try:
        lines = _read(os.path.join(common, "config")).splitlines()
    except PermissionError:
        return ""
    section = chosen = ""
    for raw in lines:
        line = raw.strip()
        if line.startswith("["):
            section, _, line = line[1:].partition("]")
        key, equals, value = line.partition("=")
        if equals and section.strip().lower() == "tiebreak" and key.strip().lower() == wanted:
            chosen = _config_value(value.strip())
    return chosen


def _config_value(text: str) -> str:
    if text.startswith('"'):
        return text[1:].partition('"')[0]
    return text.partition("#")[0].partition(";")[0].strip()
