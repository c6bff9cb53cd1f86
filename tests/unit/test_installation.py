"""The command that adds an extra: for the way in which tiebreak was installed, and from where it came."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tiebreak.installation import EXTRAS, PIP, PIPX, UV_PIP, UV_TOOL, Installation, missing_extra, way_of

PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
WHEEL = {"url": "file:///w/tiebreak-0.1.0-py3-none-any.whl", "archive_info": {}}
CLONE = {"url": "file:///home/d%20j/tiebreak", "dir_info": {"editable": True}}
GIT = {"url": "https://example.org/t.git", "vcs_info": {"vcs": "git", "requested_revision": "v1", "commit_id": "c0"}}


@pytest.mark.parametrize(
    ("way", "source", "command"),
    [
        (PIP, {}, "/e/bin/python -m pip install 'tiebreak[mcp]'"),
        (UV_PIP, {}, "uv pip install --python /e/bin/python 'tiebreak[mcp]'"),
        (UV_TOOL, {}, "uv tool install 'tiebreak[cron,mcp]'"),
        (PIPX, {}, "pipx install --force 'tiebreak[cron,mcp]'"),
        (PIP, CLONE, "/e/bin/python -m pip install --editable '/home/d j/tiebreak[mcp]'"),
        (UV_TOOL, WHEEL, f"uv tool install 'tiebreak[cron,mcp] @ {WHEEL['url']}'"),
        (PIPX, GIT, "pipx install --force 'tiebreak[cron,mcp] @ git+https://example.org/t.git@v1'"),
        (PIP, {"url": 5, "dir_info": None}, "/e/bin/python -m pip install 'tiebreak[mcp]'"),
    ],
)
def test_an_extra_is_added_in_the_way_that_it_was_installed(way: str, source: dict[str, Any], command: str) -> None:
    assert Installation(way, "/e/bin/python", source, ["cron"]).command("mcp") == command


def test_the_way_is_told_by_what_each_installer_leaves(tmp_path: Path) -> None:
    assert way_of(str(tmp_path)) == PIP
    (tmp_path / "pipx_metadata.json").touch()
    assert way_of(str(tmp_path)) == PIPX
    (tmp_path / "uv-receipt.toml").touch()
    assert way_of(str(tmp_path)) == UV_TOOL


def test_no_extra_is_forgotten_in_all() -> None:
    extras = dict(PYPROJECT["project"]["optional-dependencies"])
    assert extras.pop("all") == [f"tiebreak[{','.join(sorted(extras))}]"]
    assert set(extras) == set(EXTRAS)


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_known_by_a_module_that_it_installs(extra: str) -> None:
    packages = " ".join(PYPROJECT["project"]["optional-dependencies"][extra])
    assert EXTRAS[extra] in packages


def test_the_error_for_a_missing_extra_has_a_command_that_names_it() -> None:
    error = missing_extra("serve: uvicorn is not installed", "serve")
    assert "install the extra 'serve': " in str(error.hint)
    assert "[serve]" in str(error.hint)
