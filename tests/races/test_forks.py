"""A fork copies a board that is in use: the child gets connections of its own and the parent keeps its own."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import tiebreak

from . import checkers, loners
from .scenarios import open_board


def test_a_fork_in_the_middle_of_writes_loses_and_breaks_nothing(address: str) -> None:
    code, out, errors = loners.outcome(loners.start(loners.forks, address, 20))
    assert (code, errors) == (0, "")
    with open_board(address) as board:
        events = checkers.read_log(board)
        checkers.numbered(events, address)
        posted = [event.name for event in events if event.event == "task.posted"]
        assert posted.count("by child") == 100
        assert posted.count("between") == 20
        assert len(posted) == 2 + 100 + 20 + int(out)
        assert board.upkeep.status().pending == len(posted)
        checkers.sound(board)


def test_threads_of_a_child_meet_the_inherited_board_at_once(address: str) -> None:
    for _ in range(5):
        code, _, errors = loners.outcome(loners.start(loners.forks_with_threads, address, 8))
        assert (code, errors) == (0, "")
    with open_board(address) as board:
        assert board.upkeep.status().pending == 5 * (8 * 5 + 3)
        checkers.sound(board)


LOADING = """
import os, signal, sys, threading, time
sys.modules["cronsim"] = None  # an extra that is not installed
import tiebreak

board = tiebreak.open(sys.argv[1], agent="a~1", project="demo")
loading = threading.Event()


class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "tiebreak.operations.claims":
            loading.set()
            time.sleep(0.5)


sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=lambda: board.tasks.claim(ref="by-thread"))
thread.start()
loading.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    board.tasks.claim(ref="by-child")
    os._exit(0)
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_while_a_thread_loads_a_module_leaves_the_child_able_to_load_it(address: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADING, address], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_all_that_an_engine_loads_later_is_loaded_before_a_fork() -> None:
    """Else a child could wait for ever for a module that a thread of its parent was loading."""
    package = Path(tiebreak.__file__).parent
    shared = [path for path in package.glob("*.py") if path.name != "remote.py"]  # a daemon's board is no engine
    modules = [*package.glob("operations/*.py"), *package.glob("engine/sqlite/*.py"), *shared]
    later = {name for module in modules for name in _loaded_in_functions(module, package)}
    done = subprocess.run(
        [sys.executable, "-c", "import sys, tiebreak.board as b; b.fork_safety._load_modules(); print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert later - {"tiebreak.remote"} <= set(done.stdout.split()), "add it to fork_safety.LATER"


def _loaded_in_functions(module: Path, package: Path) -> Iterator[str]:
    inside = ".".join(["tiebreak", *module.parent.relative_to(package).parts])
    functions = [node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.FunctionDef)]
    for node in (node for function in functions for node in ast.walk(function)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            yield importlib.util.resolve_name(name, inside) if node.level else name
