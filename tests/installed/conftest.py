"""The wheel and its dependencies in a folder, and a user in whose environment nothing is installed yet."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ..cli.command import clean_environment
from .installers import BIN, build, needed, pack


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of this tree and those of its dependencies."""
    folder = tmp_path_factory.mktemp("wheels")
    build(folder)
    for name in sorted(needed(["tiebreak[all]"]) - {"tiebreak"}):
        pack(name, folder)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user's environment in which nothing is installed yet."""
    made = clean_environment(tmp_path)
    made.pop("TIEBREAK_PROJECT")
    return made | {
        "PATH": f"{BIN}:/usr/bin:/bin",
        "UV_TOOL_DIR": str(tmp_path / "uv/tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "uv/bin"),
        "UV_CACHE_DIR": str(tmp_path / "uv/cache"),
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_OFFLINE": "1",
        "UV_NO_INDEX": "1",
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "pipx/bin"),
        "PIPX_MAN_DIR": str(tmp_path / "pipx/man"),
        "PIPX_DEFAULT_PYTHON": sys.executable,
        "PIPX_DEFAULT_BACKEND": "uv",
        "PIP_NO_INDEX": "1",
    }
