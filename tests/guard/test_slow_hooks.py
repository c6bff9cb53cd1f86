"""Hooks over HTTP whose git takes long: they wait for it, and nobody else does."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tiebreak.daemon import service
from tiebreak.daemon.routes import Problem
from tiebreak.daemon.threads import BoundedThreads

from ..cli.command import until
from ..daemons import Serving

MANY = service.HOOKS + 8
"""More than there are threads for hooks, and many more than there are for reading."""
QUICK = 10.0
"""Seconds after which another request counts as stopped: less than what the guard grants git."""

SLOW_GIT = """#!/bin/sh
case " $* " in
  *" status "*)
    : > "{folder}/begun-$$"
    while [ ! -e "{folder}/go" ]; do sleep 0.05; done;;
esac
exec {git} "$@"
"""


class Hooked:
    """A daemon whose git, asked for the status, waits until it is told to go on."""

    def __init__(self, folder: Path, repo: Path) -> None:
        self.repo = repo
        self.signs = folder / "signs"
        self.signs.mkdir()
        (folder / "bin").mkdir()
        program = folder / "bin" / "git"
        program.write_text(SLOW_GIT.format(folder=self.signs, git=shutil.which("git")))
        program.chmod(0o755)
        self.daemon = Serving(folder)
        self.daemon.environment.pop("TIEBREAK_PROJECT", None)
        self.daemon.environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.daemon.start()

    def say(self, event: str, session: str, tool: str = "Bash", **given: Any) -> Any:
        """One hook of Claude Code."""
        about = {"session_id": session, "cwd": str(self.repo), "hook_event_name": event, "tool_name": tool}
        body = {**about, "tool_input": given or {"command": "true"}, "tool_use_id": "t1", "tool_response": "ok"}
        reply = self.daemon.ask("POST", f"/hooks/claude/{event}", body)
        assert reply.status == 200, reply.body
        return reply.json

    def begun(self) -> int:
        """How many calls of git wait."""
        return len(list(self.signs.glob("begun-*")))

    def let_go(self) -> None:
        """Let git go on, now and from now on."""
        (self.signs / "go").touch()


@pytest.fixture
def hooked(tmp_path: Path, repo: Path) -> Iterator[Hooked]:
    made = Hooked(tmp_path, repo)
    try:
        yield made
    finally:
        made.let_go()
        made.daemon.kill()


@pytest.fixture
def stuck(hooked: Hooked) -> Iterator[list[Future[Any]]]:
    """Many hooks at once, waiting for git: as many of them at least as there are threads for reading."""
    with ThreadPoolExecutor(MANY) as threads:
        for number in range(MANY):
            hooked.say("PreToolUse", f"s{number}")
        running = [threads.submit(hooked.say, "PostToolUse", f"s{number}") for number in range(MANY)]
        try:
            until(lambda: hooked.begun() >= service.READERS, "git was called")
            yield running
        finally:
            hooked.let_go()


def test_hooks_that_wait_for_git_stop_nobody_else(hooked: Hooked, stuck: list[Future[Any]]) -> None:
    us = {"project": "p", "agent": "a~1"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("tasks.claim", {"ref": "k", **us}),
        ("tasks.list", {"project": "p"}),
        ("holds.take", {"resources": ["lock:x"], **us}),
        ("tasks.complete", {"ref": "k", **us}),
    ]
    for method, params in calls:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        assert "result" in hooked.daemon.ask("POST", "/rpc", message, timeout=QUICK).json
    assert hooked.daemon.ask("GET", "/health", timeout=QUICK).status == 200
    assert not [each for each in stuck if each.done()], "a hook was answered before git was"
    hooked.let_go()
    for each in stuck:
        each.result()


def test_no_more_hooks_run_at_once_than_there_are_threads_for(hooked: Hooked, stuck: list[Future[Any]]) -> None:
    until(lambda: hooked.begun() >= service.HOOKS, "git was called by as many as may run")
    assert hooked.daemon.ask("GET", "/health", timeout=QUICK).status == 200
    assert hooked.begun() == service.HOOKS
    hooked.let_go()
    assert [each.result() for each in stuck] == [{}] * MANY
    assert hooked.begun() == MANY


def test_what_a_hook_writes_goes_through_the_writer(hooked: Hooked) -> None:
    """Only what passes there is counted."""
    hooked.say("PreToolUse", "s", "Write", file_path=str(hooked.repo / "a.py"), content="x")
    metrics = hooked.daemon.ask("GET", "/metrics").body.decode()
    assert re.search(r'^tiebreak_operations_total\{[^}]*operation="holds.take"[^}]*\} 1$', metrics, re.M), metrics


def test_a_daemon_that_ends_does_not_wait_for_git(hooked: Hooked, stuck: list[Future[Any]]) -> None:
    hooked.daemon.stop()
    assert not (hooked.signs / "go").exists()
    for each in stuck:
        assert each.exception() is not None


def test_hooks_beyond_the_bound_are_told_so() -> None:
    go = threading.Event()

    async def main() -> None:
        threads = BoundedThreads("hook", at_once=1, in_all=2)
        first = [asyncio.ensure_future(threads.run(go.wait)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Problem) as told:
            await threads.run(go.wait)
        assert told.value.status == 429
        go.set()
        assert await asyncio.gather(*first) == [True, True]
        assert threads.count == 0
        assert await threads.run(lambda: 7) == 7

    asyncio.run(main())


def test_a_hook_that_crashes_frees_its_thread() -> None:
    async def main() -> None:
        threads = BoundedThreads("hook", at_once=1, in_all=1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await threads.run(lambda: json.loads("1") // 0)
        assert threads.count == 0

    asyncio.run(main())
