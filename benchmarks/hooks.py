"""What a hook costs an agent: the command against the bare interpreter, and the same decision over HTTP.

The command form is started in a plain environment, as in `startup`, with the client's JSON on standard input, in turns
with `python -c pass`. The HTTP form is asked over one connection that stays open, as clients keep theirs. Aims: the
command within 2 of bare, HTTP p50 within 5 ms.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import time
from statistics import median
from typing import TYPE_CHECKING

from .measure import Report, Settings, folder, percentile, progress, spread, times
from .servers import server
from .startup import Workshop

if TYPE_CHECKING:
    from typing import Any

FILES = 300
"""Files of the repository, so that git has something to look at."""


def run(settings: Settings) -> Report:
    """Milliseconds of each event."""
    report = Report(
        "hooks",
        "Milliseconds of one hook call. Command: start to end of `tb hook`, in turns with the bare interpreter; aim "
        "≤ 2.00× of bare. HTTP: one request on an open connection to `tb serve`; aim p50 ≤ 5 ms.",
        ["hook", "ms", "of bare", "noise"],
    )
    with folder() as place:
        shop = Hooks(place)
        _commands(report, shop, settings.size(60, 3))
        _over_http(report, shop, place, settings.size(400, 20))
    return report


class Hooks(Workshop):
    """The workshop, with a repository that has files."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.environ["XDG_STATE_HOME"] = place
        self.input = os.path.join(place, "input.json")
        for number in range(FILES):
            with open(os.path.join(self.here, f"file-{number}.py"), "w", encoding="utf-8") as file:
                file.write("x = 1\n" * 50)
        for words in ("add .", "-c user.name=x -c user.email=x@x commit --quiet -m begin"):
            subprocess.run(["git", *words.split()], cwd=self.here, check=True)

    def event(self, name: str, tool: str, **given: str) -> tuple[str, dict[str, Any]]:
        """One call."""
        common = {"session_id": "one", "cwd": self.here, "hook_event_name": name, "tool_use_id": "t"}
        return name, {**common, "tool_name": tool, "tool_input": given, "tool_response": {}}

    def calls(self, number: int) -> dict[str, tuple[str, dict[str, Any]]]:
        """Each kind of call; `number` makes a file that nobody holds yet."""
        held, new = (os.path.join(self.here, name) for name in ("file-0.py", f"new-{number}.py"))
        return {
            "before an edit of a held file": self.event("PreToolUse", "Edit", file_path=held),
            "before an edit, taking the hold": self.event("PreToolUse", "Edit", file_path=new),
            "after an edit": self.event("PostToolUse", "Edit", file_path=held),
            "after a read": self.event("PostToolUse", "Read", file_path=held),
            "after another tool": self.event("PostToolUse", "Grep", pattern="x"),
            "before a command": self.event("PreToolUse", "Bash", command="make"),
            "after a command (git status)": self.event("PostToolUse", "Bash", command="make"),
        }

    def hook(self, event: str, data: dict[str, Any]) -> float:
        """Seconds from start to end of the command, its JSON on standard input."""
        with open(self.input, "w", encoding="utf-8") as file:
            json.dump(data, file)
        return self.spawn([self.tb, "hook", "claude", event])

    def spawn(self, words: list[str]) -> float:
        """Seconds from start to end of a command."""
        actions = [(os.POSIX_SPAWN_OPEN, 0, self.input, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, self._null, 1)]
        start = time.perf_counter()
        pid = os.posix_spawn(words[0], words, self.environ, file_actions=actions)
        _, status = os.waitpid(pid, 0)
        taken = time.perf_counter() - start
        if status:
            raise AssertionError(f"{' '.join(words[1:])} ended with {os.waitstatus_to_exitcode(status)}")
        return taken


def _commands(report: Report, shop: Hooks, rounds: int) -> None:
    found: dict[str, list[float]] = {"python -c pass": []}
    shop.hook(*shop.event("SessionStart", ""))
    for number in range(rounds + 1):  # the first round warms the caches up
        taken = {"python -c pass": shop.spawn([shop.python, "-c", "pass"])}
        taken |= {name: shop.hook(*call) for name, call in shop.calls(number).items()}
        for name, each in taken.items() if number else ():
            found.setdefault(name, []).append(each)
        if number % 20 == 0:
            progress(f"round {number} of {rounds}")
    bare = median(found["python -c pass"])
    for name, values in found.items():
        report.add(name, median(values) * 1000, times(median(values), bare), spread(values))


def _over_http(report: Report, shop: Hooks, place: str, rounds: int) -> None:
    with server("daemon", place, shop.environ["TIEBREAK_BOARD"]) as serving:
        connection = http.client.HTTPConnection("127.0.0.1", serving.port)
        headers = {"Authorization": f"Bearer {serving.token}", "Content-Type": "application/json"}
        found: dict[str, list[float]] = {}
        for number in range(rounds):
            for name, (event, data) in shop.calls(100_000 + number).items():
                body = json.dumps(data)
                start = time.perf_counter()
                connection.request("POST", f"/hooks/claude/{event}", body, headers)
                answer = connection.getresponse()
                answer.read()
                found.setdefault(name, []).append(time.perf_counter() - start)
                if answer.status != 200:
                    raise AssertionError(f"{event}: {answer.status}")
        connection.close()
    for name, values in found.items():
        report.add(f"HTTP: {name}", median(values) * 1000, "-", spread(values))
    held = found["before an edit of a held file"]
    report.notes.append(f"HTTP, before an edit of a held file: p99 {percentile(held, 99) * 1000:.1f} ms.")
