"""What another user of this machine does: a list of attempts goes in as JSON, and what came of each goes out.

It runs as that user, perhaps by another Python that cannot read this folder. So it needs nothing but the standard
library, and is handed over as text (see `second_user`).
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import sys
import tempfile
from typing import Any


def attempt(what: str, *given: Any) -> Any:
    """One attempt: what came of it, or the error that stopped it."""
    try:
        return _ATTEMPTS[what](*given)
    except OSError as exc:
        return {"error": type(exc).__name__}


def _ask(port: int, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """One request to a daemon, without a token, for this user has none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=50)
    try:
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
        answer = connection.getresponse()
        return {"status": answer.status, "body": answer.read().decode("latin-1")}
    finally:
        connection.close()


def _connect(path: str) -> str:
    with socket.socket(socket.AF_UNIX) as knocking:
        knocking.connect(path)
    return "connected"


def _read(path: str) -> str:
    with open(path, "rb") as file:
        return file.read().decode("latin-1")


def _write(path: str) -> str:
    with open(path, "ab") as file:
        file.write(b"by another user")
    return "written"


_ATTEMPTS: dict[str, Any] = {
    "who": os.getuid,
    "ask": _ask,
    "connect": _connect,
    "link": os.symlink,
    "fifo": os.mkfifo,
    "read": _read,
    "write": _write,
}


def run(attempts: str) -> str:
    """All attempts, from a home of one's own."""
    home = tempfile.mkdtemp(dir="/tmp", prefix="tb-other-")
    try:
        os.environ.update(HOME=home, TMPDIR=home)
        os.chdir(home)
        return json.dumps([attempt(*each) for each in json.loads(attempts)])
    finally:
        os.chdir("/")
        os.rmdir(home)


if __name__ == "__main__":
    sys.stdout.write(run(sys.stdin.read()))
