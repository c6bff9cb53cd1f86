"""Fingerprints: what a held file contains, in short."""

from __future__ import annotations

import os

from .globs import is_glob, unescape


def fingerprint(resource: str, root: str) -> str | None:
    """What a held file contains now, in short; None for globs and for what is not a file."""
    if not resource.startswith("file:") or is_glob(resource[5:]):
        return None
    return digest(os.path.join(root, *(unescape(part) for part in resource[5:].split("/"))))


def digest(path: str) -> str | None:
    """The same for a path on disk: `absent` when there is no file, None when it cannot be read."""
    from _blake2 import blake2b  # what hashlib offers, without its 3 ms of import

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
