"""The names of held files: `file:PATH` in the whole repository, `file://CHECKOUT/PATH` in one checkout alone.

A file hold usually means the file of the repository, in every worktree and clone. Where `git config tiebreak.holds` is
`checkout`, it means the file of one checkout, and the name says which (see `checkouts`). The two forms cannot be
confused: a path never begins with a `/`.

Two names conflict if they can mean one file on some disk. So the files of two checkouts never conflict, and a file of
the whole repository conflicts with the same file in each checkout (docs/decisions/037-holds-of-a-checkout.md).
"""

from __future__ import annotations

from .globs import is_glob, overlap

OF_CHECKOUT = "file://"
"""The beginning of the name of a file of one checkout."""
MAX_CHECKOUT = 40
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")


def is_file(resource: str) -> bool:
    """Whether a resource is a file or a glob, of the repository or of a checkout."""
    return resource.startswith("file:")


def file_resource(path: str, checkout: str = "") -> str:
    """The name of a file by its canonical path; without a checkout, of the whole repository."""
    return f"{OF_CHECKOUT}{checkout}/{path}" if checkout else f"file:{path}"


def parts(resource: str) -> tuple[str, str]:
    """The checkout, empty for the whole repository, and the path in the name of a file."""
    if not resource.startswith(OF_CHECKOUT):
        return "", resource[5:]
    checkout, _, path = resource[len(OF_CHECKOUT) :].partition("/")
    return checkout, path


def path_of(resource: str) -> str:
    """The path or glob in the name of a file."""
    return parts(resource)[1]


def means_files_in(resource: str, checkout: str) -> bool:
    """Whether a resource means files in a checkout; without one, in a checkout whose holds are the repository's."""
    return is_file(resource) and parts(resource)[0] in ("", checkout)


def has_other_names(resource: str) -> bool:
    """Whether other names can mean the same file, apart from globs: so it is with a glob, and in a checkout."""
    return is_file(resource) and (resource.startswith(OF_CHECKOUT) or is_glob(resource[5:]))


def conflict(a: str, b: str) -> bool:
    """Whether two resources cannot be held by two agents at once (slots of pools aside)."""
    if not (is_file(a) and is_file(b)):
        return a == b
    (one, path), (other, another) = parts(a), parts(b)
    return (not one or not other or one == other) and overlap(path, another)


def called(resource: str) -> str:
    """A resource as messages and lists show it, and as a person can give it back: a file of the repository by its path.

    A file of a checkout keeps its full name, because its path alone means another file in the next checkout.
    """
    return resource if resource.startswith(OF_CHECKOUT) else resource.removeprefix("file:")


def is_checkout(name: str) -> bool:
    """Whether a text can be the identity of a checkout."""
    return 0 < len(name) <= MAX_CHECKOUT and _PLAIN.issuperset(name) and name[0] not in ".-"
