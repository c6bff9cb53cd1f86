"""What sessions keep in files: locks, markers, queued handoffs, documents, and the values of environments.

All of it is below the user's state folder, in folders that only the user can enter, and every file appears whole and
on the disk or not at all.
"""

from __future__ import annotations

import os

from ..errors import Unavailable
from ..files import remove_file, replace_file, sync_folder
from ..names import checksum
from ..rendezvous import state_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def folder(*names: str) -> str:
    """A folder of ours; made if it does not exist."""
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
    """The folder of a project. Its name may have characters that a file's name may not."""
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in project)
    return folder("projects", safe if safe == project else f"{safe}-{checksum(project.encode()):016x}")


def write(path: str, text: str) -> None:
    """Put a file in its place, complete and synced, readable for its owner only."""
    replace_file(path, text.encode(), durable=True)


def move(path: str, target: str) -> None:
    """Move a file to another of our folders, so that it stays moved; harmless if somebody else did."""
    try:
        os.replace(path, target)
    except FileNotFoundError:
        return
    sync_folder(os.path.dirname(target))
    sync_folder(os.path.dirname(path))


def write_json(path: str, value: Any) -> None:
    """A value as a file."""
    import json

    write(path, json.dumps(value))


def read_json(path: str) -> dict[str, Any] | None:
    """The object in a file; None if there is no such file, or none that can be understood."""
    import json

    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def spec_path(session: str) -> str:
    """Where the plan of a session is: what to run, and with which environment."""
    return os.path.join(folder("sessions"), f"{session.partition('~')[2]}.json")


def forget(session: str) -> None:
    """Remove what was kept for a session."""
    remove_file(spec_path(session))
