"""A small agent for tests: it proves by a lock that it is alone, says what it was started with, and plays a part.

    agent.py PART [WORDS…]     ok, slow, exits, crashes-once, hangs

It uses nothing of what it tests.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time

ARENA = os.environ["ARENA"]


def note(name: str, **facts: object) -> None:
    with open(os.path.join(ARENA, name), "a") as file:
        file.write(json.dumps({"pid": os.getpid(), **facts}) + "\n")


def alone() -> int:
    """Hold the lock that every agent of this arena takes; whoever finds it taken has found two at once."""
    fd = os.open(os.path.join(ARENA, "alone"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("overlaps")
    return fd


part = sys.argv[1]
held = alone()
if part == "hangs":
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
names = [name for name in os.environ if name.startswith("TIEBREAK_") or name in ("GREETING", "SECRET")]
note("starts", words=sys.argv[1:], cwd=os.getcwd(), environment={name: os.environ[name] for name in names})
if part == "exits":
    print("this part ends at once", flush=True)
    sys.exit(3)
if part == "crashes-once" and not os.path.exists(os.path.join(ARENA, "crashed")):
    note("crashed")
    os.kill(os.getpid(), signal.SIGKILL)
if part == "hangs":
    while True:
        signal.pause()
if part == "slow":
    time.sleep(0.2)
print("ready", *sys.argv[1:], flush=True)
while True:
    line = sys.stdin.readline()
    if not line or line.strip() == "/exit":
        break
    print("heard", line.strip(), flush=True)
