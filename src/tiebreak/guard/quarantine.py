"""Quarantine: files that changed while one agent's shell command ran and another agent held them.

A quarantined file cannot be committed until its holder has read or edited it, or a person has cleared it with
`tb guard clear`. The quarantine also ends with the holder's grant, and when the contents are again those that the
holder left. The marks are small files beside the state of the agents, one for each quarantined file.
"""

from __future__ import annotations

import os

from .agent_state import AgentState, folder, key


def quarantine(path: str, *, by: str, holder: str, epoch: int) -> None:
    """Mark a file: it changed while a command of `by` ran and `holder` held it under this epoch."""
    _marks().put(key(os.path.realpath(path)), f"{by}\n{holder}\n{epoch}\n".encode())


def quarantined(path: str) -> tuple[str, str, int] | None:
    """During whose command the file changed, who held it, and under which epoch; None when it is not in quarantine."""
    found = _marks().get(key(os.path.realpath(path)))
    if found is None:
        return None
    by, holder, epoch, *_ = [*found.decode("utf-8", "replace").split("\n"), "", "", ""]
    return by, holder, int(epoch) if epoch.isdecimal() else 0


def clear(path: str) -> None:
    """Take a file out of quarantine: it may be committed again."""
    _marks().forget(key(os.path.realpath(path)))


def _marks() -> AgentState:
    marks = AgentState("")
    marks.home = os.path.join(folder(), "quarantine")
    return marks
