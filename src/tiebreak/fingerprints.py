"""Fingerprints of held files: short hashes of their contents, by which a change is noticed."""

from __future__ import annotations

import os

from .globs import is_glob, unescape
from .held_files import is_file, parts, path_of


def fingerprint(resource: str, root: str) -> str | None:
    """The fingerprint of a held file; None for a glob, and for a resource that is not a file."""
    path = file_of(resource, root)
    return digest(path) if path else None


def file_of(resource: str, root: str) -> str:
    """The path of a held file below `root`; "" for a glob, a file of another checkout, and what is not a file."""
    if not is_in(resource, root) or is_glob(path_of(resource)):
        return ""
    return os.path.join(root, *(unescape(part) for part in path_of(resource).split("/")))


def is_in(resource: str, root: str) -> bool:
    """Whether a resource means files in the checkout at `root`."""
    checkout = parts(resource)[0] if is_file(resource) else ""
    if not checkout:
        return is_file(resource)
    from .checkouts import known_identity
    from .repository import repository

    found = repository(root)
    return found is not None and known_identity(found) == checkout


def digest(path: str) -> str | None:
    """The fingerprint of a file at a path: `absent` if there is no file, None if it cannot be read."""
    from _blake2 import blake2b  # as in hashlib, whose import takes 3 ms

    state = blake2b(digest_size=16)
    try:
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                state.update(piece)
    except FileNotFoundError:
        return "absent"
    except OSError:
        return None
    return str(state.hexdigest())
