"""Another program that reads from a board in a file and does not end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1], flags=apsw.SQLITE_OPEN_READONLY)
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM events").fetchall()
print("reading", flush=True)
sys.stdin.read()
"""


@contextmanager
def foreign_reader(path: str | Path) -> Iterator[int]:
    """It reads for as long as the context lasts; its pid."""
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with reader:
        assert reader.stdout
        assert reader.stdout.readline() == "reading\n"
        yield reader.pid
