"""coord's own race: sixteen shells race through `tb coord` for sixteen tasks, against one real daemon."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

from ..cli.command import TB
from ..daemons import Serving, serving

SHELLS = TASKS = 16
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def environment(daemon: Serving) -> dict[str, str]:
    """No token in it: each command finds it by itself."""
    assert "TIEBREAK_TOKEN" not in daemon.environment
    # Measuring the coverage of 256 short lives would take longer than they do.
    return {name: value for name, value in daemon.environment.items() if not name.startswith("COV")}


def sent(daemon: Serving) -> list[str]:
    """The ids of tasks posted from a shell, read from what `send` prints."""
    ids = []
    for i in range(TASKS):
        words = [TB, "coord", "--url", daemon.url, "send", f"multi-task-{i}"]
        done = subprocess.run(words, env=environment(daemon), capture_output=True, text=True, timeout=120, check=True)
        [task] = UUID.findall(done.stdout)
        ids.append(task)
    return ids


def racer(daemon: Serving, agent: str, ids: list[str]) -> subprocess.Popen[str]:
    """A shell that waits for a line, then tries to claim every task and prints how each try ended."""
    claim = f"{shlex.quote(TB)} coord --url {daemon.url} claim %s --as {agent} >/dev/null 2>&1 </dev/null; echo $? %s"
    script = "\n".join(["read -r start", *(claim % (task, task) for task in ids)])
    pipe = subprocess.PIPE
    return subprocess.Popen(["sh", "-c", script], env=environment(daemon), stdin=pipe, stdout=pipe, text=True)


def test_sixteen_shells_win_sixteen_tasks_once_each(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        ids = sent(daemon)
        racers = {f"multi-agent-{i}": racer(daemon, f"multi-agent-{i}", ids) for i in range(SHELLS)}
        for shell in racers.values():
            assert shell.stdin
            shell.stdin.write("go\n")
            shell.stdin.flush()
        tries = [
            (agent, *line.split())
            for agent, shell in racers.items()
            for line in shell.communicate(timeout=240)[0].splitlines()
        ]
        ask = {"jsonrpc": "2.0", "id": 1, "method": "tasks/list", "params": {"state": "claimed"}}
        held = {task["id"]: [task["claimed_by"]] for task in daemon.ask("POST", "/", ask).json["result"]}
    assert Counter(code for _, code, _ in tries) == {"0": TASKS, "1": SHELLS * TASKS - TASKS}
    winners = defaultdict(list)
    for agent, code, task in tries:
        if code == "0":
            winners[task].append(agent)
    assert sorted(winners) == sorted(ids)
    assert winners == held
