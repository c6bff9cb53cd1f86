"""Several processes import the same file at the same instant: each key is posted exactly once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from .crew import PROJECT
from .scenarios import open_board

TB = os.path.join(os.path.dirname(sys.executable), "tb")
SHELLS, TASKS = 4, 120


def test_four_shells_import_one_file(address: str, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    entries = [
        {"id": f"t{i}", "name": f"t{i}", "parent": f"t{i // 5}" if i else None, "after": [f"t{i - 1}"] if i else None}
        for i in range(TASKS)
    ]
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    plain = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    command = [TB, "--board", address, "--project", PROJECT, "import", os.fspath(file), "--json"]
    shells = [
        subprocess.Popen([*command, "--as", f"agent-{i}"], env=plain, stdout=subprocess.PIPE, text=True)
        for i in range(SHELLS)
    ]
    answers = [json.loads(shell.communicate(timeout=240)[0]) for shell in shells]

    assert [shell.returncode for shell in shells] == [0] * SHELLS
    assert sum(answer["posted"] for answer in answers) == TASKS
    with open_board(address) as board:
        found = {task.key: task for task in board.tasks.list(limit=1000)}
        assert len(found) == len(board.tasks.list(limit=1000)) == TASKS
        assert {found[f"t{i}"].parent for i in range(5, 10)} == {found["t1"].number}
        assert [task.key for task in board.tasks.after(ref="t50")] == ["t49"]
        posted = [event.subject or "" for event in board.events.read(event="task.posted", limit=1000)]
    assert sorted(posted) == sorted({task.id for task in found.values()})
