"""A file of a repository: its project, and the name under which the board holds it."""

from __future__ import annotations

import os

from ..errors import Invalid
from ..paths import confine
from ..project_identity import identify, project_names
from ..repository import repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..repository import Repository


class GuardedFile:
    """A file of a repository, with its resource name on the board."""

    __slots__ = ("path", "project", "resource", "root")

    def __init__(self, path: str, root: str, project: str) -> None:
        self.path = path
        self.root = root
        self.project = project
        self.resource = "file:" + confine(path, root=root, base=root, literal=True)

    @property
    def name(self) -> str:
        """The path relative to the repository."""
        return self.resource[5:]


def guarded_file(path: str, environ: Mapping[str, str]) -> GuardedFile | None:
    """The file at a path; None outside of any repository, where files are not guarded."""
    found = repository(os.path.dirname(os.path.realpath(path)))
    if found is None or _is_gits_own(os.path.realpath(path), found):
        return None
    return GuardedFile(path, found.root, environ.get("TIEBREAK_PROJECT") or identify(found).names)


def _is_gits_own(path: str, found: Repository) -> bool:
    """Whether a file is git's own data. A worktree inside the git folder, as in a bare repository, is not."""
    return _is_inside(path, found.common) and not _is_inside(found.root, found.common)


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


def project_of(folder: str, environ: Mapping[str, str]) -> str:
    """The project of a session that runs in this folder."""
    given = environ.get("TIEBREAK_PROJECT")
    if given:
        return given
    if not os.path.isdir(folder):
        raise Invalid(f"hook input: the folder {folder[:100]!r} does not exist")
    return project_names(folder)
