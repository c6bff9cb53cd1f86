"""The example for gptme runs as it is: many shell agents that follow its protocol."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import tiebreak
from tests.cli.command import TB, clean_environment

EXAMPLE = Path(__file__).parents[2] / "examples" / "gptme"
TASKS = ["parser", "lexer", "printer", "docs"]


def test_a_swarm_does_each_task_once_and_loses_no_line(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    board = tmp_path / "board.db"
    environment = clean_environment(tmp_path) | {"TIEBREAK_BOARD": str(board), "TIEBREAK_PROJECT": "demo"}
    environment["PATH"] = os.pathsep.join([os.path.dirname(TB), environment.get("PATH", os.defpath)])
    made = subprocess.run(
        [EXAMPLE / "swarm.sh", "3", *TASKS],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert made.returncode == 0, made.stderr
    did = re.findall(r"^(agent-\d) did (\w+)$", made.stdout, re.MULTILINE)
    assert sorted(task for _, task in did) == sorted(TASKS)
    lines = (tmp_path / "notes.md").read_text().splitlines()
    assert sorted(lines[1:]) == sorted(f"{task} by {agent}" for agent, task in did)
    with tiebreak.open(board, agent="judge~1", project="demo") as judge:
        assert {task.state for task in judge.tasks.list()} == {"completed"}
        assert judge.holds.list() == []


def test_the_prompt_names_only_commands_that_exist() -> None:
    named = set(re.findall(r"tb coordination ([a-z-]+)|`(work-[a-z]+)`", (EXAMPLE / "protocol.md").read_text()))
    help_text = subprocess.run([TB, "coordination", "--help"], capture_output=True, text=True, timeout=100).stdout
    known = set(re.findall(r"^    ([a-z-]+) ", help_text, re.MULTILINE))
    assert {one or other for one, other in named} <= known
    assert len(named) >= 7
