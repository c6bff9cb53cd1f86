"""How tiebreak was installed here, and the command that adds an extra to this installation.

Each way to install has files of its own in the environment: `uv tool` a receipt, pipx its metadata. Where a
distribution came from, if not from a package index, is in its `direct_url.json` (PEP 610). `uv tool` and pipx replace
what was installed before, so their commands name the extras that are there already, too.
"""

from __future__ import annotations

import os
import sys

from .errors import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EXTRAS = {"cron": "cronsim", "mcp": "mcp", "postgres": "psycopg", "serve": "uvicorn", "top": "textual"}
"""The extras of pyproject.toml, each with a module that is there if and only if the extra is."""
PIP, UV_PIP, UV_TOOL, PIPX = "pip", "uv pip", "uv tool", "pipx"


class Installation:
    """One installation: the way (`PIP` …), its interpreter, its source (PEP 610) and the extras that it has."""

    def __init__(self, way: str, python: str, source: dict[str, Any], extras: list[str]) -> None:
        self.way = way
        self.python = python
        self.source = source
        self.extras = extras

    def command(self, *extras: str) -> str:
        """The command that adds extras, for a shell."""
        import shlex

        wanted = set(extras) | (set(self.extras) if self.way in (UV_TOOL, PIPX) else set())
        begin = {
            PIP: [self.python, "-m", "pip", "install"],
            UV_PIP: ["uv", "pip", "install", "--python", self.python],
            UV_TOOL: ["uv", "tool", "install"],
            PIPX: ["pipx", "install", "--force"],
        }[self.way]
        editable = ["--editable"] if self._folder_facts().get("editable") else []
        return shlex.join([*begin, *editable, self._requirement(",".join(sorted(wanted)))])

    def putting_on_path(self) -> str:
        """The command that puts `tb` where every shell of the user finds it."""
        import shlex

        if self.way == UV_TOOL:
            return "uv tool update-shell"
        if self.way == PIPX:
            return "pipx ensurepath"
        editable = ["--editable"] if self._folder_facts().get("editable") else []
        return shlex.join(["uv", "tool", "install", *editable, self._requirement(",".join(self.extras))])

    def _folder_facts(self) -> dict[str, Any]:
        facts = self.source.get("dir_info")
        return facts if isinstance(facts, dict) else {}

    def _requirement(self, extras: str) -> str:
        """What to install: from the index, or from where this was installed."""
        url, extras = self.source.get("url"), f"[{extras}]" if extras else ""
        if not isinstance(url, str):
            return f"tiebreak{extras}"
        if "dir_info" in self.source:
            from urllib.parse import unquote, urlsplit

            return f"{unquote(urlsplit(url).path)}{extras}"
        version = self.source.get("vcs_info")
        if isinstance(version, dict):
            revision = version.get("requested_revision")
            url = f"{version.get('vcs', 'git')}+{url}" + (f"@{revision}" if revision else "")
        return f"tiebreak{extras} @ {url}"


def this_installation() -> Installation:
    """The installation that this process runs from."""
    python = sys.executable or "python3"
    return Installation(way_of(sys.prefix), python, _source(), [name for name in EXTRAS if has_extra(name)])


def way_of(prefix: str) -> str:
    """The way that made the environment at this path."""
    if os.path.exists(os.path.join(prefix, "uv-receipt.toml")):
        return UV_TOOL
    if os.path.exists(os.path.join(prefix, "pipx_metadata.json")):
        return PIPX
    return PIP if _found("pip") else UV_PIP


def _source() -> dict[str, Any]:
    """The contents of `direct_url.json`; {} if tiebreak came from an index, or is not installed at all."""
    from importlib.metadata import PackageNotFoundError, distribution
    from json import loads

    try:
        found = loads(distribution("tiebreak").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError, OSError):
        return {}
    return found if isinstance(found, dict) else {}


def has_extra(name: str) -> bool:
    """Whether an extra is installed here."""
    return _found(EXTRAS[name])


def _found(module: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def adding(extra: str) -> str:
    """The command that adds an extra to this installation."""
    return this_installation().command(extra)


def missing_extra(what: str, extra: str) -> Unavailable:
    """The error for what needs an extra that is not installed: `what` says it, the hint is the command."""
    return Unavailable(what, hint=f"install the extra {extra!r}: {adding(extra)}")
