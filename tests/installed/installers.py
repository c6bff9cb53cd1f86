"""The wheel of this tree with those of what it needs, and each installer that users have.

Nothing comes from the network: dependencies are packed again from what is installed here.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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


# ── Wheels ───────────────────────────────────────────────────────────────────────────────────────────


def build(folder: Path) -> None:
    """Make the wheel of this tree."""
    must([str(BIN / "hatchling"), "build", "-t", "wheel", "-d", str(folder)], dict(os.environ), ROOT)


def pack(name: str, folder: Path) -> None:
    """Make a wheel again from an installed distribution."""
    found = distribution(name)
    described = dict(line.split(": ", 1) for line in (found.read_text("WHEEL") or "").splitlines() if ": " in line)
    info = next(part for file in found.files or () for part in file.parts if part.endswith(".dist-info"))
    files = [file for file in found.files or () if ".." not in file.parts and "__pycache__" not in file.parts]
    left_out = {f"{info}/{each}" for each in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")}
    named = [str(file) for file in files if str(file) not in left_out]
    with zipfile.ZipFile(folder / f"{info.removesuffix('.dist-info')}-{described['Tag']}.whl", "w") as wheel:
        for file in named:
            wheel.write(str(found.locate_file(file)), file)
        wheel.writestr(f"{info}/RECORD", "".join(f"{file},,\n" for file in [*named, f"{info}/RECORD"]))


def needed(requirements: Iterable[str]) -> set[str]:
    """The distributions that these requirements lead to, directly and through others."""
    found: set[str] = set()
    asked: set[tuple[str, str]] = set()

    def follow(text: str, extra: str) -> None:
        wanted = Requirement(text)
        if wanted.marker and not wanted.marker.evaluate({"extra": extra}):
            return
        name = canonicalize_name(wanted.name)
        found.add(name)
        for each in {"", *wanted.extras}:
            if (name, each) not in asked:
                asked.add((name, each))
                for below in distribution(name).requires or ():
                    follow(below, each)

    for text in requirements:
        follow(text, "")
    return found


# ── Installers ───────────────────────────────────────────────────────────────────────────────────────


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
