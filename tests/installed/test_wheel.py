"""The wheel in clean environments, made by each installer that users have: it runs, and it knows how it was installed.

Nothing comes from the network: dependencies are packed again from what is installed here.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import pytest

from ..cli.command import clean_environment

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PATIENCE = 120.0


class Installed(NamedTuple):
    """A `tb` in an environment of its own."""

    tb: Path
    begin: str
    """How the command begins that adds an extra to this installation."""
    manpath: str = ""
    """Where `man` has to look besides its usual folders: `uv tool` leaves the pages in the environment of the tool."""


def run(words: list[str], environment: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, env=environment, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def must(words: list[str], environment: dict[str, str], cwd: Path) -> str:
    """What a command prints; it has to succeed."""
    done = run(words, environment, cwd)
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def pack(name: str, folder: Path) -> None:
    """Make a wheel again from an installed distribution."""
    found = distribution(name)
    described = dict(line.split(": ", 1) for line in (found.read_text("WHEEL") or "").splitlines() if ": " in line)
    info = f"{name}-{found.version}.dist-info"
    files = [file for file in found.files or () if ".." not in file.parts and "__pycache__" not in file.parts]
    left_out = {f"{info}/{each}" for each in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")}
    named = [str(file) for file in files if str(file) not in left_out]
    with zipfile.ZipFile(folder / f"{name}-{found.version}-{described['Tag']}.whl", "w") as wheel:
        for file in named:
            wheel.write(str(found.locate_file(file)), file)
        wheel.writestr(f"{info}/RECORD", "".join(f"{file},,\n" for file in [*named, f"{info}/RECORD"]))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of this tree and those of its dependencies."""
    folder = tmp_path_factory.mktemp("wheels")
    must([str(BIN / "hatchling"), "build", "-t", "wheel", "-d", str(folder)], dict(os.environ), ROOT)
    for needed in ("apsw", "cronsim", "tzdata"):  # the last two are the extra `cron`
        pack(needed, folder)
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


def by_pip(folder: Path, wheel: str, environment: dict[str, str]) -> Installed:
    import ensurepip

    python = folder / "env/bin/python"
    must([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], environment, folder)
    bundled = str(next((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")))
    must(["uv", "pip", "install", "--python", str(python), bundled], environment, folder)
    must([str(python), "-m", "pip", "install", "--no-compile", wheel], environment, folder)
    return Installed(folder / "env/bin/tb", f"{python} -m pip install 'tiebreak[serve] @ file://")


def by_uv_pip(folder: Path, wheel: str, environment: dict[str, str]) -> Installed:
    python = folder / "env/bin/python"
    must(["uv", "venv", str(folder / "env")], environment, folder)
    must(["uv", "pip", "install", "--python", str(python), wheel], environment, folder)
    return Installed(folder / "env/bin/tb", f"uv pip install --python {python} 'tiebreak[serve] @ file://")


def by_uv_tool(folder: Path, wheel: str, environment: dict[str, str]) -> Installed:
    must(["uv", "tool", "install", wheel], environment, folder)
    pages = folder / "uv/tools/tiebreak/share/man"
    return Installed(folder / "uv/bin/tb", "uv tool install 'tiebreak[serve] @ file://", f":{pages}")


def by_pipx(folder: Path, wheel: str, environment: dict[str, str]) -> Installed:
    must(["pipx", "install", wheel], environment, folder)
    return Installed(folder / "pipx/bin/tb", "pipx install --force 'tiebreak[serve] @ file://")


@pytest.mark.parametrize("install", [by_pip, by_uv_pip, by_uv_tool, by_pipx])
def test_an_installed_wheel_works_and_knows_how_to_add_an_extra(
    install: Callable[[Path, str, dict[str, str]], Installed],
    wheels: Path,
    tmp_path: Path,
    environment: dict[str, str],
) -> None:
    wheel = str(next(wheels.glob("tiebreak-*.whl")))
    found = {"PIP_FIND_LINKS": str(wheels), "UV_FIND_LINKS": str(wheels)}
    installed = install(tmp_path, wheel, environment | found)
    user = environment | {"PATH": f"{installed.tb.parent}:/usr/bin:/bin"}

    assert must(["tb", "--version"], user, tmp_path).startswith("tiebreak 0.")
    assert "the login" in must(["tb", "post", "the login"], user, tmp_path)
    assert "epoch 1" in must(["tb", "claim", "#1"], user, tmp_path)
    refused = run(["tb", "serve"], user, tmp_path)
    assert refused.returncode == 3, refused
    assert "is not installed" in refused.stderr
    assert installed.begin in refused.stderr
    assert "Traceback" not in refused.stderr

    found_by = {"MANPATH": installed.manpath} if installed.manpath else {}
    page = must(["man", "--where", "tb-claim"], user | found_by, tmp_path).strip()
    assert Path(page).read_text() == must(["tb", "help", "--man", "claim"], user, tmp_path)

    schedule = ["tb", "cron", "add", "night", "@daily", "--", "true"]
    command = run(schedule, user, tmp_path).stderr.partition("install the extra 'cron': ")[2].strip()
    must(["sh", "-c", command], environment | found, tmp_path)
    assert "night" in must(schedule, user, tmp_path)
