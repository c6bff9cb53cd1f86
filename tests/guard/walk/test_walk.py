"""Random walks of three agents: no edit is lost, no commit has another's lines, and nobody is kept in the dark.

Two agents share a checkout, one works in a linked worktree. They do what shells and git can do to files, folders,
links, branches and indexes. When a walk fails, `python -m tests.guard.walk.shrink SEED STEPS` shortens it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tiebreak.guard.files.disk_state import look
from tiebreak.guard.files.interference_report import Interference

from .play import Fault, Walk
from .steps import Step, script

if TYPE_CHECKING:
    from tiebreak.engine.protocol import Engine

STEPS = 250
SEEDS = range(1, 9)
MORE_SEEDS = range(9, 41)


def walk(folder: Path, engine: Engine, seed: int, steps: int) -> Walk:
    again = f"to shorten it: python -m tests.guard.walk.shrink {seed} {steps}"
    return Walk(folder, engine).take(script(seed, steps), again)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_a_shell_or_git_does_loses_or_mixes_work_unseen(tmp_path: Path, engine: Engine, seed: int) -> None:
    happened = walk(tmp_path, engine, seed, STEPS).happened
    assert happened["written"] >= 15
    assert happened["commits"] >= 3
    assert happened["denied"] >= 5
    assert happened["interferences"] >= 5


@pytest.mark.soak
@pytest.mark.parametrize("seed", MORE_SEEDS)
def test_nothing_does_so_in_longer_walks(tmp_path: Path, engine: Engine, seed: int) -> None:
    walk(tmp_path, engine, seed, 4 * STEPS)


def test_the_same_walk_without_the_guard_loses_edits_and_mixes_commits(tmp_path: Path, engine: Engine) -> None:
    unguarded = Walk(tmp_path, engine, guarded=False).take(script(SEEDS[0], STEPS))
    faults = [fault for _, fault in unguarded.faults]
    assert sum("cannot be recovered" in fault for fault in faults) >= 5
    assert sum("has a line of" in fault for fault in faults) >= 5


# ── What the walks would find ────────────────────────────────────────────────────────────────────────

RED = "src/red.txt"
EDIT = Step(1, "ben", "edit", name=RED)


def nothing(*_: Any) -> None:
    pass


def unsaid(*_: Any) -> str:
    return ""


def unseen(*_: Any) -> list[str]:
    return []


def all_harmed(hook: Any, found: Any, records: list[Any], command: Any) -> list[Interference]:
    return [Interference(record, look(record.root, record.name), record.name) for record in records]


def not_kept(*_: Any) -> str:
    raise OSError


@pytest.mark.parametrize(
    ("place", "planted", "kind", "fault"),
    [
        (
            "files.safety_copies._store",
            not_kept,
            "throw away",
            "ann took a line out of src/red.txt, and it cannot be recovered",
        ),
        ("files.interference.tell_holder", nothing, "throw away", "ben was not told about src/red.txt"),
        ("files.shell_changes.report", unsaid, "throw away", "ann was not told about src/red.txt of ben"),
        ("files.shell_changes.notice", unseen, "switch -c", "ben was not told about changed from"),
        ("files.interference.harmed", all_harmed, "look", "false alarm: ann was told"),
        (
            "files.shell_changes.changed_since",
            lambda *_: False,
            "append",
            "ann changed src/blue.txt, and nobody holds it",
        ),
        ("commits.git_hooks.NAMES", ("pre-commit",), "commit --no-verify", "of ann has a line of ben"),
        (
            "commits.git_hooks.NAMES",
            ("pre-commit",),
            "commit --no-verify",
            "of ann changes src/red.txt, which ben holds",
        ),
    ],
)
def test_a_walk_finds_a_planted_bug(
    tmp_path: Path,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    planted: Callable[..., Any] | tuple[str, ...],
    kind: str,
    fault: str,
) -> None:
    steps = [EDIT, Step(2, "ann", kind, name="src/blue.txt")]
    Walk(tmp_path / "as it is", engine).take(steps)
    monkeypatch.setattr(f"tiebreak.guard.{place}", planted)
    with pytest.raises(Fault, match=fault):
        Walk(tmp_path / "with the bug", engine).take(steps)
