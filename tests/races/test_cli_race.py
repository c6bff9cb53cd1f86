"""Sixteen shells, the same tasks, the real command: the race as agents run it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections import defaultdict

from .crew import PROJECT
from .scenarios import open_board, post

TB = os.path.join(os.path.dirname(sys.executable), "tb")
SHELLS = 16
TASKS, SERVED_TASKS = 12, 2
"""In a file, whose lock every command takes by itself; and behind a daemon or on a server, which takes it for them."""


def test_sixteen_shells_for_the_same_tasks(address: str) -> None:
    with open_board(address) as board:
        numbers = [task.number for task in post(board, TASKS if os.path.isabs(address) else SERVED_TASKS)]
    # Measuring the coverage of so many short lives would take longer than they do.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    environment = {**plain, "TIEBREAK_PROJECT": PROJECT}
    shells = []
    for i in range(SHELLS):
        claim = f"{shlex.quote(TB)} --board {shlex.quote(address)} claim '#%d' --as agent-{i} >/dev/null 2>&1"
        script = "\n".join(f"{claim % number} && echo {number}" for number in numbers)
        command = ["sh", "-c", script + "\ntrue"]
        shells.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    by_task = defaultdict(list)
    for i, shell in enumerate(shells):
        out, _ = shell.communicate(timeout=240)
        assert shell.returncode == 0
        for line in out.split():
            by_task[int(line)].append(f"agent-{i}")
    assert sorted(by_task) == numbers
    assert all(len(winners) == 1 for winners in by_task.values()), by_task
    with open_board(address) as board:
        assert {f"{task.number}": [task.holder] for task in board.tasks.list()} == {
            f"{number}": winners for number, winners in by_task.items()
        }
