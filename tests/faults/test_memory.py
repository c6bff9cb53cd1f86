"""The memory of long-lived processes does not grow with the number of refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from ..cli.command import Tb
from ..daemons import serving

MILLION = 1_000_000
AT_ONCE = 100
GROWTH = 16
"""MiB. Garbage that nobody collects is twice as much after so many refusals as the tests ask for."""

Refuse = Callable[[int], None]
TAKE = {"resources": ["lock:taken"], "agent": "loser~1", "project": "demo"}


def memory(pid: int) -> float:
    """What a process occupies, in MiB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


def _talk(running: Popen[str], requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    assert running.stdin
    assert running.stdout
    running.stdin.write("".join(json.dumps(each) + "\n" for each in requests))
    running.stdin.flush()
    return [json.loads(running.stdout.readline()) for _ in requests]


@contextmanager
def _batch(tb: Tb) -> Iterator[tuple[int, Refuse]]:
    with tb.start("batch") as running:

        def refuse(count: int) -> None:
            for _ in range(0, count, AT_ONCE):
                answers = _talk(running, [{"method": "holds.take", "params": TAKE}] * AT_ONCE)
                assert all("error" in each for each in answers)

        yield running.pid, refuse


@contextmanager
def _mcp(tb: Tb) -> Iterator[tuple[int, Refuse]]:
    with tb.start("mcp", "--as", "loser") as running:
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        _talk(running, [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}])
        assert running.stdin
        running.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        call = {"name": "hold", "arguments": {"action": "take", "resources": ["lock:taken"]}}

        def refuse(count: int) -> None:
            for _ in range(0, count, AT_ONCE):
                asked = [
                    {"jsonrpc": "2.0", "id": i + 1, "method": "tools/call", "params": call} for i in range(AT_ONCE)
                ]
                assert all(each["result"]["structuredContent"]["error"] == "Lost" for each in _talk(running, asked))

        yield running.pid, refuse


@contextmanager
def _daemon(tb: Tb) -> Iterator[tuple[int, Refuse]]:
    with serving(tb.folder) as daemon:
        calls = [{"jsonrpc": "2.0", "id": i, "method": "holds.take", "params": TAKE} for i in range(AT_ONCE)]

        def refuse(count: int) -> None:
            for _ in range(0, count, AT_ONCE):
                assert all("error" in each for each in daemon.ask("POST", "/rpc", calls).json)

        assert daemon.process
        yield daemon.process.pid, refuse


LONG_LIVED = {"tb batch": (_batch, 8_000), "tb mcp": (_mcp, 1_200), "tb serve": (_daemon, 8_000)}
"""How each is made to refuse, and how often the quick test does so."""


def _growth(name: str, folder: Path, count: int = 0) -> float:
    tb = Tb(folder)
    tb.ok("hold", "lock:taken", "--as", "winner", "--lease", "1d")
    start, some = LONG_LIVED[name]
    with start(tb) as (pid, refuse):
        refuse(some // 4)  # then it has what it needs: modules, caches, threads
        before = memory(pid)
        refuse(count or some)
        return memory(pid) - before


@pytest.mark.parametrize("name", LONG_LIVED)
def test_refusals_leave_no_garbage_behind(name: str, tmp_path: Path) -> None:
    assert _growth(name, tmp_path) < GROWTH


@pytest.mark.soak
@pytest.mark.parametrize("name", LONG_LIVED)
def test_a_million_refusals_leave_no_garbage_behind(name: str, tmp_path: Path) -> None:
    assert _growth(name, tmp_path, MILLION) < GROWTH
