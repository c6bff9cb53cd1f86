"""The remote-control setting of a project: whether its coordinators start with the flag that allows remote control.

The setting is `up`, `down`, or was never set. While it is up, every coordinator gets the configured flag, whether it is
spawned, handed off, or started from the handoff queue. If it was never set, handing off a coordinator whose command is
known to take the flag sets it to `up`. Workers never get the flag.
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
    """The file of a project's setting."""
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
    """Set it to `up` or `down`."""
    try:
        state_files.write(path(project), wanted + "\n")
    except OSError as exc:
        raise Unavailable(f"remote-control setting {path(project)}: {exc.strerror or exc}") from exc


def flag_words(session: str) -> list[str]:
    """The configured flag (`TIEBREAK_RC_FLAG`), with the name of this terminal filled in."""
    try:
        words = shlex.split(os.environ.get("TIEBREAK_RC_FLAG") or FLAG)
    except ValueError as exc:
        raise Invalid(f"TIEBREAK_RC_FLAG: {exc}") from None
    return [word.replace("{session}", session) for word in words]


def flags(project: str, command: list[str], session: str) -> list[str]:
    """The words to add to a coordinator's command."""
    words = flag_words(session)
    return words if state(project) == UP and words and words[0] not in command else []


def backfill(project: str, command: list[str]) -> None:
    """Before a handoff: set the project to `up` if it was never set and the command takes the flag.

    If that cannot be written, a warning is printed and the command starts without the flag.
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
