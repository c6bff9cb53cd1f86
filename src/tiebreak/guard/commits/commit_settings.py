"""The settings of git that concern a commit."""

from __future__ import annotations

import os

from ...errors import Refused
from .git import git


class CommitSettings:
    """The settings of git that concern a commit, read once."""

    CORE = r"core\.(bare|filemode|hookspath|ignorestat|sparsecheckout)"
    KEYS = rf"^({CORE}|commit\.(gpgsign|cleanup)|maintenance\.auto|hook\..*)$"

    def __init__(self, root: str) -> None:
        try:
            listed = git("config", "--null", "--get-regexp", self.KEYS, root=root)
        except Refused:
            listed = b""  # none of them is set
        entries = (entry.partition(b"\n") for entry in listed.split(b"\0") if entry)
        self.values = {os.fsdecode(key): os.fsdecode(value) if found else "true" for key, found, value in entries}

    def is_true(self, key: str, default: str = "false") -> bool:
        """Whether a setting is on, in one of git's spellings."""
        value = self.values.get(key, default).lower()
        return value in ("true", "yes", "on") or (value.isdecimal() and int(value) != 0)

    @property
    def has_hooks(self) -> bool:
        """Whether there may be hooks that are no files (`hook.NAME.command`)."""
        return any(key.startswith("hook.") for key in self.values)
