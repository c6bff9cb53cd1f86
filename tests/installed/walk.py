"""Somebody in an empty home with nothing but system programs and an installer."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

from tests.faults.hosts import Cable, ip
from tiebreak.process_identity import arguments

from ..docs.snippets import GIT_CONFIG, Terminal
from .installers import BIN

HERE = Path(__file__).parent
# What Debian and Ubuntu put into a new home.
PROFILE = 'if [ -d "$HOME/.local/bin" ]; then PATH="$HOME/.local/bin:$PATH"; fi\n'
DATABASE = "10.99.1.1"
ON = """#!/bin/sh
# on MACHINE COMMAND…: in its network, under its host name, in its home
export HOME={folder}/$1
cd "$HOME/shop" 2>/dev/null || cd "$HOME" || exit 1
exec nsenter --net={folder}/$1.network unshare --uts sh -c 'hostname "$0" && exec "$@"' "$@"
"""


class Walk(Terminal):
    """A terminal of somebody who has never installed tiebreak."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        self.home = folder / "home"
        self.programs = self.home / ".local/bin"
        self.programs.mkdir(parents=True)
        (self.home / ".gitconfig").write_text(GIT_CONFIG)
        (self.home / ".profile").write_text(PROFILE)
        os.symlink(BIN / "uv", self.programs / "uv")
        client = f"#!{sys.executable}\n{(HERE / 'claude.py').read_text()}"
        for name, text in (("claude", client), ("agent", client), ("on", ON.format(folder=folder))):
            (self.programs / name).write_text(text)
            (self.programs / name).chmod(0o755)
        environment = {
            "HOME": str(self.home),
            "PATH": f"{self.programs}:/usr/sbin:/usr/bin:/sbin:/bin",
            "SHELL": shutil.which("bash") or "/bin/sh",
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm",
            "NO_COLOR": "1",
            "UV_FIND_LINKS": str(wheels),
            "UV_OFFLINE": "1",
            "UV_PYTHON": sys.executable,
            "UV_PYTHON_DOWNLOADS": "never",
        }
        super().__init__(folder, environment, self.home)

    def machine(self, name: str, cable: Cable) -> None:
        """Give `on NAME COMMAND` a host to run its commands on; all reach the database at the first one's address."""
        if cable.address != DATABASE:
            ip("-n", cable.host, "route", "add", DATABASE, "via", cable.address)
        home = self.home.parent / name
        home.mkdir()
        shutil.copy(self.home / ".gitconfig", home)
        os.symlink(f"/run/netns/{cable.host}", self.home.parent / f"{name}.network")

    def leaves(self) -> None:
        """End the agents that are still at work."""
        for each in self.home.parent.glob("*/*.pid"):
            pid = int(each.read_text())
            if str(self.programs / "claude") in arguments(pid):  # else it has ended, and the number may be another's
                os.kill(pid, signal.SIGKILL)
