"""The README is executed: what it shows is what happens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..daemons import free_port

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """A newcomer's machine: an empty repository, no board yet, `tb` on the PATH."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TIEBREAK")}
    return {
        **kept,
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "NO_COLOR": "1",
    }


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def steps(block: str) -> list[tuple[str, list[str]]]:
    """Each `$ command` with the lines that should follow it."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def looks_like(expected: str, actual: str) -> bool:
    """`…` stands for anything, and blanks for any number of blanks: ages and widths differ."""
    parts = [re.escape(part) for part in re.sub(r"\s+", " ", expected.strip()).split("…")]
    return re.fullmatch(".*".join(parts), re.sub(r"\s+", " ", actual.strip())) is not None


def run(command: str, home: dict[str, str]) -> list[str]:
    done = subprocess.run(
        ["bash", "-c", command],
        env=home,
        cwd=Path(home["HOME"]) / "repo",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout.splitlines() + ([f"[exit {done.returncode}]"] if done.returncode else [])


def test_the_tour_shows_what_really_happens(home: dict[str, str]) -> None:
    tour = [step for block in blocks("console") for step in steps(block)]
    assert len(tour) > 10
    port = str(free_port())  # the usual one may be in use on this machine
    try:
        for written, told in tour:
            command = written.replace("serve --detach", "serve --detach --addr 127.0.0.1:7777").replace("7777", port)
            expected = [line.replace("7777", port) for line in told]
            actual = run(command, home)
            same = len(actual) == len(expected) and all(map(looks_like, expected, actual))
            assert same, f"$ {command}\nREADME says:\n" + "\n".join(expected) + "\nbut:\n" + "\n".join(actual)
    finally:
        run("tb serve --stop", home)


def test_the_guide_to_jobs_shows_what_really_happens(home: dict[str, str]) -> None:
    guide = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
    for command, expected in [step for block in blocks("console", guide) for step in steps(block)]:
        actual = run(command, home)
        same = len(actual) == len(expected) and all(map(looks_like, expected, actual))
        assert same, f"$ {command}\nthe guide says:\n" + "\n".join(expected) + "\nbut:\n" + "\n".join(actual)


def test_a_difference_between_tour_and_truth_is_seen() -> None:
    assert looks_like("won #1 …  epoch 1", "won #1 fix  epoch 1")
    assert not looks_like("won #1 …  epoch 1", "won #1 fix  epoch 2")
    assert not looks_like("held by alice", "held by bob")


def test_the_python_example_runs(home: dict[str, str]) -> None:
    [example] = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", example],
        env=home,
        cwd=Path(home["HOME"]) / "repo",
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_every_file_that_the_readme_points_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    [commands] = blocks("sh")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = [line.split()[1] for line in commands.splitlines()]
    assert targets == ["serve", "test"]
    assert all(f"\n{target}:" in makefile for target in targets)
