"""A second user of this machine: root becomes one, others ask `sudo` or a user namespace for one."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from . import other_user

PATIENCE = 60.0
NOBODY = "nobody"
_WAYS = (
    ("sudo", "-n", "-u", NOBODY),
    # One of the numbers that /etc/subuid has set aside for this user: to everybody else, another user.
    ("unshare", "--user", "--map-auto", "--setuid", "1", "--setgid", "1"),
)


def as_second_user(*attempts: tuple[Any, ...]) -> list[Any]:
    """What comes of the attempts when another user makes them; skips the test where no other user is to be had."""
    run, why = _way()
    if run is None:
        pytest.skip(why)
    found: list[Any] = json.loads(run(json.dumps(attempts)))
    return found


@cache
def _way() -> tuple[Callable[[str], str] | None, str]:
    """How this process can act as another user; without one, why it cannot."""
    if os.geteuid() == 0:
        return _forked, ""
    tried = []
    for way in _WAYS:
        if shutil.which(way[0]) is None:
            tried.append(f"{way[0]}: not installed")
            continue
        done = _started(way, json.dumps([["who"]]))
        if done.returncode == 0 and _is_another_user(way):
            return lambda attempts, way=way: _checked(_started(way, attempts)), ""
        said = done.stderr.strip().splitlines() or ["it gives no other user"]
        tried.append(f"{way[0]}: {said[-1]}")
    return None, "no second user on this machine, and this one is not root; " + "; ".join(tried)


def _forked(attempts: str) -> str:
    """Root becomes that user in a child, which needs no program that the user might not be able to read."""
    user = pwd.getpwnam(NOBODY)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
            with os.fdopen(writing, "w") as out:
                out.write(other_user.run(attempts))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


def _started(way: tuple[str, ...], attempts: str) -> subprocess.CompletedProcess[str]:
    source = Path(other_user.__file__).read_text()
    words = [*way, sys.executable, "-I", "-c", source]
    return subprocess.run(words, input=attempts, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd="/")


def _checked(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def _is_another_user(way: tuple[str, ...]) -> bool:
    """By the owner of a file that it makes: inside of a user namespace its own number tells nothing."""
    folder = tempfile.mkdtemp(dir="/tmp", prefix="tb-owner-")
    os.chmod(folder, 0o777)
    try:
        _started(way, json.dumps([["write", f"{folder}/x"]]))
        return os.path.exists(f"{folder}/x") and os.stat(f"{folder}/x").st_uid != os.geteuid()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def reachable(path: Path) -> bool:
    """Whether other users can reach a folder at all; or an attempt would fail for no merit of ours."""
    return all(each.stat().st_mode & stat.S_IXOTH for each in (path, *path.parents))
