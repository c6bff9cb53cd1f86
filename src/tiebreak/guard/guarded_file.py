"""A file of a repository: its project, and the name under which the board holds it."""

from __future__ import annotations

import os

from ..checkouts import checkout_of
from ..errors import Invalid, TiebreakError
from ..globs import escape
from ..held_files import file_resource, path_of
from ..paths import canonical, confine
from ..project_identity import identify, project_names
from ..repository import repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..repository import Repository


class GuardedFile:
    """A file of a repository, with its resource name on the board."""

    __slots__ = ("disk_name", "path", "project", "resource", "root")

    def __init__(self, path: str, disk_name: str, root: str, project: str, resource: str) -> None:
        self.path = path
        self.disk_name = disk_name
        """The path relative to the repository, as the disk and git spell it."""
        self.root = root
        self.project = project
        self.resource = resource

    @property
    def name(self) -> str:
        """The path relative to the repository, as the board spells it."""
        return path_of(self.resource)


def guarded_file(path: str, environ: Mapping[str, str]) -> GuardedFile | None:
    """The file at a path; None outside of any repository, where files are not guarded.

    Symbolic links are followed, as the tool does that writes to the path.
    """
    real = os.path.realpath(path)
    found = repository(os.path.dirname(real))
    if found is None or _is_gits_own(real, found):
        return None
    project = environ.get("TIEBREAK_PROJECT") or identify(found).names
    resource = file_resource(confine(path, root=found.root, base=found.root, literal=True), checkout_of(found))
    return GuardedFile(path, os.path.relpath(real, found.root), found.root, project, resource)


def guarded_files(names: Iterable[str], root: str, project: str, checkout: str) -> list[GuardedFile]:
    """Files by their paths in the repository, without those that nobody can hold: the board accepts not every name.

    They are named as git names them: no link is followed, whatever is at the path now.
    """
    out = []
    for name in names:
        try:
            resource = file_resource(canonical("/".join(map(escape, name.split("/")))), checkout)
        except TiebreakError:
            continue
        out.append(GuardedFile(os.path.join(root, name), name, root, project, resource))
    return out


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
