"""Many commands at the same moment: a process that has everything loaded forks them, so that they start together.

It reads lines of JSON, `[COUNT, WORDS…]`, and runs `tb WORDS` in so many processes: first it answers with their process
ids, and when they have ended with `[code, stdout, stderr]` of each. Every child runs the function that `tb` runs.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import IO

import tiebreak.cli.sessions
import tiebreak.engine.sqlite
import tiebreak.operations
import tiebreak.remote
import tiebreak.sessions.handoff_queue
from tiebreak.program import main

Files = tuple[IO[bytes], IO[bytes]]


def begin(count: int, words: list[str]) -> dict[int, Files]:
    """Fork them, and let them go when all are there."""
    ready, go = os.pipe(), os.pipe()
    children: dict[int, Files] = {}
    for _ in range(count):
        files = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        pid = os.fork()
        if pid == 0:
            _child(files, ready[1], go[0], words)
        children[pid] = files
    for _ in range(count):
        os.read(ready[0], 1)
    os.write(go[1], b"!" * count)
    for fd in (*ready, *go):
        os.close(fd)
    return children


def _child(files: Files, ready: int, go: int, words: list[str]) -> None:
    code = 99
    try:
        os.dup2(files[0].fileno(), 1)
        os.dup2(files[1].fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.write(ready, b".")
        os.read(go, 1)
        code = main(words)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def finish(children: dict[int, Files]) -> list[tuple[int, str, str]]:
    """How each of them ended, and what it said."""
    out = []
    for pid, files in children.items():
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said = []
        for file in files:
            file.seek(0)
            said.append(file.read().decode())
            file.close()
        out.append((code, said[0], said[1]))
    return out


if __name__ == "__main__":
    tiebreak.operations.every()
    for line in sys.stdin:
        count, *words = json.loads(line)
        children = begin(count, words)
        print(json.dumps(list(children)), flush=True)
        print(json.dumps(finish(children)), flush=True)
