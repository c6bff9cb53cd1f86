"""A hook of the build: puts the manual pages into the wheel, under `share/man/man1` (docs/decisions/036-man-pages.md).

The pages are made from the declarations of the commands in `src`. That needs nothing but Python, so it also works where
a wheel is built from the source archive or from git, in an environment with no dependency of tiebreak.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface[BuilderConfig]):
    """Adds the pages while the wheel is built. An editable install has none: they would be out of date soon."""

    PLUGIN_NAME = "custom"
    _folder: TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the pages, and name them to the builder."""
        if version == "editable":
            return
        self._folder = TemporaryDirectory(prefix="tiebreak-man-")
        for name, text in _pages(Path(self.root) / "src").items():
            file = Path(self._folder.name) / name
            file.write_text(text, encoding="ascii")
            file.chmod(0o644)
            build_data["shared_data"][str(file)] = f"share/man/man1/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel by now."""
        if self._folder is not None:
            self._folder.cleanup()


def _pages(source: Path) -> dict[str, str]:
    sys.path.insert(0, str(source))  # before a tiebreak that may be installed here
    try:
        import tiebreak.program  # noqa: F401  (adds its commands)
        from tiebreak.cli.man_pages import pages

        return pages()
    finally:
        sys.path.remove(str(source))
