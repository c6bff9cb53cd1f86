"""Files that belong to sessions: locks, settings, queued handoffs, handoff documents, and session plans.

All of them are below the user's state folder, in folders that only the user can enter. Each,
except for locks, is written in one step and synced: after a crash it is complete or not there.
"""

from __future__ import annotations

import os

from ..errors import Unavailable
from ..files import remove_file, replace_file, sync
from ..names import checksum
from ..user_folders import state_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def folder(*names: str) -> str:
    """A folder below the state folder; created if needed, for the user alone."""
    path = state_folder()
    try:
        for name in names:
            path = os.path.join(path, name)
            os.makedirs(path, mode=0o700, exist_ok=True)
            if os.stat(path).st_mode & 0o077:
                os.chmod(path, 0o700)
    except OSError as exc:
        raise Unavailable(f"folder {path}: {exc.strerror or exc}") from exc
    return path


def project_folder(project: str) -> str:
    """The folder of a project; characters that a file name cannot have are replaced."""
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in project)
    return folder("projects", safe if safe == project else f"{safe}-{checksum(project.encode()):016x}")


def write(path: str, text: str) -> None:
    """Replace a file in one step and sync it; only its owner can read it."""
    replace_file(path, text.encode(), durable=True)


def move(path: str, target: str) -> None:
    """Move a file to another folder and sync both; nothing happens if it has been moved already."""
    try:
        os.replace(path, target)
    except FileNotFoundError:
        return
    sync(os.path.dirname(target))
    sync(os.path.dirname(path))


def write_json(path: str, value: Any) -> None:
    """Write a value as JSON."""
    import json

    write(path, json.dumps(value))


def read_json(path: str) -> dict[str, Any] | None:
    """The JSON object in a file; None if there is no such file, or if it contains something else."""
    import json

    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def plan_path(session: str) -> str:
    """The path of a session's plan: what to run, and in which environment."""
    return os.path.join(folder("sessions"), f"{session.partition('~')[2]}.json")


def forget(session: str) -> None:
    """Remove the plan of a session."""
    remove_file(plan_path(session))
