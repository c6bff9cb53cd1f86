"""The remote-control marker: whether a project's coordinators are started so that they can be controlled from afar.

It is up, down, or was never set. While it is up every coordinator gets the configured flag, whether it is spawned,
handed off or drained from the queue. A coordinator from before the marker existed is brought up to date when it is
handed off: if its command is one that understands the flag, the marker is set up for its project. Workers never get it.
"""

from __future__ import annotations

import os
import shlex
import sys

from ..errors import Invalid, Unavailable
from ..text import plain
from . import state_files

FLAG = "--remote-control {session}"
PROGRAMS = "claude"
UP, DOWN, UNSET = "up", "down", "unset"


def path(project: str) -> str:
    """Where the marker of a project is."""
    return os.path.join(state_files.project_folder(project), "remote-control")


def state(project: str) -> str:
    """`up`, `down` or `unset`."""
    try:
        with open(path(project), encoding="utf-8") as file:
            found = file.read().strip()
    except OSError:
        return UNSET
    return found if found in (UP, DOWN) else UNSET


def put(project: str, wanted: str) -> None:
    """Set the marker."""
    try:
        state_files.write(path(project), wanted + "\n")
    except OSError as exc:
        raise Unavailable(f"marker {path(project)}: {exc.strerror or exc}") from exc


def flag_words(session: str) -> list[str]:
    """The configured flag (`TIEBREAK_RC_FLAG`), for a terminal of this name."""
    try:
        words = shlex.split(os.environ.get("TIEBREAK_RC_FLAG") or FLAG)
    except ValueError as exc:
        raise Invalid(f"TIEBREAK_RC_FLAG: {exc}") from None
    return [word.replace("{session}", session) for word in words]


def flags(project: str, command: list[str], session: str) -> list[str]:
    """What to add to the command of a coordinator."""
    words = flag_words(session)
    return words if state(project) == UP and words and words[0] not in command else []


def backfill(project: str, command: list[str]) -> None:
    """Before a coordinator is handed off: set the marker if it was never set and the command understands the flag.

    A marker that cannot be written is worth a warning and no more: the command then starts as it is.
    """
    if state(project) != UNSET or not understands(command):
        return
    try:
        put(project, UP)
    except Unavailable as exc:
        warning = f"warning: {exc.message}; going on without remote control (`tb rc up {project}` sets it later)"
        print(f"tb: {plain(warning)}", file=sys.stderr)


def understands(command: list[str]) -> bool:
    """Whether a command is known to take the flag (`TIEBREAK_RC_PROGRAMS`), or has it already."""
    programs = (os.environ.get("TIEBREAK_RC_PROGRAMS") or PROGRAMS).replace(",", " ").split()
    return os.path.basename(command[0]) in programs or bool(set(flag_words("")[:1]) & set(command))
