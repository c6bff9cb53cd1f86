"""Fingerprints of held files: short hashes of their contents, by which a change is noticed."""

from __future__ import annotations

import os

from .globs import is_glob, unescape


def fingerprint(resource: str, root: str) -> str | None:
    """The fingerprint of a held file; None for a glob, and for a resource that is not a file."""
    path = file_of(resource, root)
    return digest(path) if path else None


def file_of(resource: str, root: str) -> str:
    """The path of a held file in a checkout; "" for a glob, and for a resource that is not a file."""
    if not resource.startswith("file:") or is_glob(resource[5:]):
        return ""
    return os.path.join(root, *(unescape(part) for part in resource[5:].split("/")))


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
