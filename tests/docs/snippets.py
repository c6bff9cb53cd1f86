"""Runs what a page of the documentation shows: its `console` blocks, then its `python` blocks, in one fresh home.

A `console` block is a shell session: `$ command`, the lines that it prints, and `[exit N]` if that is not 0. In those
lines `…` stands for anything within a line, and a line of nothing but `…` for any number of lines. The folder and
exported variables carry over to the next command, as they do in a terminal. `bash` and `sh` blocks are not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..cli.command import measured
from ..daemons import free_port

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PATIENCE = 60.0
"""Seconds for one command."""
GIT_CONFIG = "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n"
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Step(NamedTuple):
    """A command of a console block and what the page says that it prints."""

    line: int
    command: str
    expected: list[str]


def called(page: Path) -> str:
    """A page as it is named in a failure."""
    return str(page.relative_to(ROOT))


def blocks(language: str, text: str) -> list[tuple[int, str]]:
    """The blocks of a language, each with the number of its first line."""
    found = _FENCE.finditer(text)
    return [(text.count("\n", 0, block.start(2)) + 1, block[2]) for block in found if block[1] == language]


def languages(text: str) -> set[str]:
    """The languages of all blocks of a page."""
    return {block[1] for block in _FENCE.finditer(text)}


def steps(text: str) -> Iterator[Step]:
    """Every command in the console blocks of a page, with the lines that should follow it."""
    for first, block in blocks("console", text):
        lines = block.splitlines()
        assert lines[0].startswith("$ "), f"line {first}: a console block begins with `$ command`"
        starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            yield Step(first + start, lines[start][2:], lines[start + 1 : end])


def looks_like(expected: list[str], actual: list[str]) -> bool:
    """Whether a command printed what the page says. Blanks stand for any number of blanks: ages and widths differ."""
    if not expected:
        return not actual
    if expected[0] == "…":
        return any(looks_like(expected[1:], actual[skipped:]) for skipped in range(len(actual) + 1))
    return bool(actual) and _same_line(expected[0], actual[0]) and looks_like(expected[1:], actual[1:])


def _same_line(expected: str, actual: str) -> bool:
    parts = [re.escape(part) for part in re.sub(r"\s+", " ", expected.strip()).split("…")]
    return re.fullmatch(".*".join(parts), re.sub(r"\s+", " ", actual.strip())) is not None


class Terminal:
    """A shell that somebody has open all the time. What it has to remember is kept in the folder `notes`."""

    def __init__(self, notes: Path, environment: dict[str, str], folder: Path) -> None:
        self._notes = notes
        self._environment = environment
        (notes / "folder").write_text(str(folder))
        (notes / "shell").write_text("")

    def follows(self, step: Step) -> None:
        """Run a command; fail if it prints something else than the page says."""
        actual = self.types(step.command)
        said = "\n".join(["the page says:", *step.expected, "but it is:", *actual])
        assert looks_like(step.expected, actual), f"line {step.line}: $ {step.command}\n{said}"

    def types(self, command: str) -> list[str]:
        """Run a command; what it prints, and its exit code if that is not 0."""
        state, place = self._notes / "shell", self._notes / "folder"
        remember = f"trap 'export -p >{state}; pwd >{place}' EXIT"
        return self._run(["bash", "-c", f"source {state}\n{remember}\n{command}"], Path(place.read_text().strip()))

    def _run(self, command: list[str], folder: Path) -> list[str]:
        """Output goes to a file: a command that leaves something running would keep a pipe open."""
        with open(self._notes / "said", "w+", encoding="utf-8") as said:
            done = subprocess.run(
                command,
                env=self._environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                timeout=PATIENCE,
                check=False,
            )
            said.seek(0)
            return said.read().splitlines() + ([f"[exit {done.returncode}]"] if done.returncode else [])


class Newcomer(Terminal):
    """Somebody with an empty repository and no board yet, in one terminal. `tb` is on the PATH."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._port = str(free_port())  # the usual one may be in use on this machine
        environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "TIEBREAK_TMUX_SOCKET": f"docs-{self._port}",
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm",
            "NO_COLOR": "1",
            **measured(),
        }
        (home / "repo").mkdir()
        (home / ".gitconfig").write_text(GIT_CONFIG)
        super().__init__(home, environment, home / "repo")
        self.types("git init --quiet")

    def follows(self, step: Step) -> None:
        """Run a command, with a port for its daemon that is free here."""
        command = step.command.replace("serve --detach", "serve --detach --addr 127.0.0.1:7777")
        expected = [line.replace("7777", self._port) for line in step.expected]
        super().follows(Step(step.line, command.replace("7777", self._port), expected))

    def runs_python(self, text: str) -> None:
        """Run the Python blocks of a page as one program, whose line numbers are those of the page."""
        program = ""
        for line, block in blocks("python", text):
            program += "\n" * (line - 1 - program.count("\n")) + block
        if program:
            script = self._home / "page.py"
            script.write_text(program, encoding="utf-8")
            said = self._run([sys.executable, str(script)], self._home / "repo")
            assert not any(line.startswith("[exit") for line in said), "\n".join(said)

    def leaves(self) -> None:
        """End what the page has started: its daemon, and the terminals of its sessions."""
        self.types("tb serve --stop")
        self.types('! type tmux || tmux -L "$TIEBREAK_TMUX_SOCKET" kill-server')
