"""The policy for failures of the guard itself: `open` lets the work go on with a warning, `closed` refuses it.

Each repository chooses: `git config tiebreak.hooks closed`, or for all its clones `failure = "closed"` under `[hooks]`
in `.tiebreak.toml`. The policy is read only after a failure. One that cannot be read counts as closed, because somebody
has set one.
"""

from __future__ import annotations

import os

from ..repository import repository, setting

OPEN, CLOSED = "open", "closed"


def policy(folder: str) -> str:
    """`open` or `closed`, for the repository around a folder."""
    found = repository(folder)
    if found is None:
        return OPEN
    chosen = setting(found.common, "hooks").lower()
    if chosen:
        return OPEN if chosen == OPEN else CLOSED
    return _in_file(os.path.join(found.root, ".tiebreak.toml"))


def _in_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(1 << 20)
    except FileNotFoundError:
        return OPEN
    except OSError:
        return CLOSED
    import tomllib

    try:
        hooks = tomllib.loads(content.decode()).get("hooks", {})
    except (ValueError, RecursionError):
        return CLOSED
    if not isinstance(hooks, dict):
        return CLOSED
    return OPEN if hooks.get("failure", OPEN) == OPEN else CLOSED
