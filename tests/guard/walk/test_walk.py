"""Random walks of three agents: no edit is lost, no commit has another's lines, and nobody is kept in the dark.

Two agents share a checkout, one works in a linked worktree. They do what shells and git can do to files, folders,
links, branches and indexes. When a walk fails, `python -m tests.guard.walk.shrink SEED STEPS` shortens it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tiebreak.engine import connect
from tiebreak.guard.files import interference
from tiebreak.guard.files.disk_state import ABSENT, LINK, LINK_ABOVE, DiskState, look
from tiebreak.guard.files.interference_report import Interference

from ...postgres import server
from .play import Fault, Walk
from .steps import Step, script

if TYPE_CHECKING:
    from tiebreak.engine.protocol import Engine

STEPS = 250
SEEDS = range(1, 8)
POSTGRES_SEEDS = range(8, 9)
MORE_SEEDS = range(9, 41)


def walk(folder: Path, engine: Engine, seed: int, steps: int) -> Walk:
    again = f"to shorten it: python -m tests.guard.walk.shrink {seed} {steps}"
    return Walk(folder, engine).take(script(seed, steps), again)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_a_shell_or_git_does_loses_or_mixes_work_unseen(tmp_path: Path, engine: Engine, seed: int) -> None:
    assert_much_happened(walk(tmp_path, engine, seed, STEPS))


@pytest.mark.parametrize("seed", POSTGRES_SEEDS)
def test_nothing_does_so_with_a_board_on_postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    address = server().empty_board(server().database("guard"))
    monkeypatch.setenv("TIEBREAK_BOARD", address)
    engine = connect(address)
    try:
        assert_much_happened(walk(tmp_path, engine, seed, STEPS))
    finally:
        engine.close()


def assert_much_happened(walked: Walk) -> None:
    happened = walked.happened
    assert happened["written"] >= 15
    assert happened["commits"] >= 3
    assert happened["denied"] >= 5
    assert happened["interferences"] >= 2


@pytest.mark.soak
@pytest.mark.parametrize("seed", MORE_SEEDS)
def test_nothing_does_so_in_longer_walks(tmp_path: Path, engine: Engine, seed: int) -> None:
    walk(tmp_path, engine, seed, 4 * STEPS)


def test_the_same_walk_without_the_guard_loses_edits_and_mixes_commits(tmp_path: Path, engine: Engine) -> None:
    walks = [Walk(tmp_path / str(seed), engine, guarded=False).take(script(seed, STEPS)) for seed in SEEDS[:3]]
    faults = [fault for each in walks for _, fault in each.faults]
    assert sum("cannot be recovered" in fault for fault in faults) >= 5
    assert sum("has a line of" in fault for fault in faults) >= 5


# ── What the walks would find ────────────────────────────────────────────────────────────────────────


def nothing(*_: Any) -> None:
    pass


def unsaid(*_: Any) -> str:
    return ""


def unseen(*_: Any) -> list[str]:
    return []


def all_harmed(hook: Any, found: Any, records: list[Any], command: Any) -> list[Interference]:
    return [Interference(record, look(record.root, record.name), record.name) for record in records]


def never(*_: Any) -> bool:
    return False


def not_kept(*_: Any) -> str:
    raise OSError


def not_looked_at(*kinds: str) -> Callable[[str, str], DiskState]:
    """As if nobody saw what is of these kinds: the place looks as it did when something else was there."""
    last: dict[str, DiskState] = {}

    def planted(root: str, name: str) -> DiskState:
        found = look(root, name)
        if found.kind not in kinds:
            last[f"{root}/{name}"] = found
        return last.get(f"{root}/{name}", found)

    return planted


def as_first_seen(hook: Any, root: str, record: Any, command: Any, patience: Any) -> Interference | None:
    return interference_harm(hook, root, record, command, patience) if record.path in command.seen else None


interference_harm = interference._harm
RED, BLUE = "src/red.txt", "src/blue.txt"
EDIT = Step(1, "ben", "edit", name=RED)
UNTOLD = "ben was not told about src/red.txt"


@pytest.mark.parametrize(
    ("place", "planted", "steps", "fault"),
    [
        # The defects that the guard was built against. Those of `tb commit` are below.
        ("files.interference.look", not_looked_at(ABSENT), [Step(2, "ann", "rm -rf")], UNTOLD),
        ("files.interference.look", not_looked_at(LINK), [Step(2, "ann", "link to the outside", name=RED)], UNTOLD),
        ("files.interference.look", not_looked_at(LINK_ABOVE), [Step(2, "ann", "folder to the outside")], UNTOLD),
        (
            "commits.git_hooks.NAMES",
            ("pre-commit",),
            [Step(2, "ann", "commit --no-verify")],
            "of ann has a line of ben",
        ),
        ("commits.git_hooks.NAMES", ("pre-commit",), [Step(2, "ann", "update-ref")], "ann changes src/red.txt, which"),
        ("files.shell_changes.notice", unseen, [Step(2, "ann", "switch -c")], "ben was not told about changed from"),
        # What the hooks promise.
        ("files.safety_copies._store", not_kept, [Step(2, "ann", "throw away")], "and it cannot be recovered"),
        ("files.interference.tell_holder", nothing, [Step(2, "ann", "throw away")], UNTOLD),
        ("files.shell_changes.report", unsaid, [Step(2, "ann", "throw away")], "ann was not told about src/red.txt of"),
        ("files.interference.harmed", all_harmed, [Step(2, "ann", "look")], "false alarm: ann was told"),
        ("files.shell_changes.changed_since", never, [Step(2, "ann", "append", name=BLUE)], "and nobody holds it"),
        # Commands that run beside the steps of others.
        (
            "files.interference._harm",
            as_first_seen,
            [Step(2, "ann", "throw away", beside=1, is_late=True), Step(3, "ben", "edit", name=BLUE)],
            "ben was not told about src/blue.txt",
        ),
    ],
)
def test_a_walk_finds_a_planted_bug(
    tmp_path: Path,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    planted: Callable[..., Any] | tuple[str, ...],
    steps: list[Step],
    fault: str,
) -> None:
    Walk(tmp_path / "as_it_is", engine).take([EDIT, *steps])
    monkeypatch.setattr(f"tiebreak.guard.{place}", planted)
    with pytest.raises(Fault, match=fault):
        Walk(tmp_path / "with_the_bug", engine).take([EDIT, *steps])


@pytest.mark.parametrize(
    ("bug", "steps", "fault"),
    [
        (
            "from tiebreak.guard.commits import commit_paths; commit_paths._marked = lambda *_: {}",
            [Step(2, "ben", "skip-worktree", name=RED), Step(3, "ben", "tb commit a folder")],
            "has src/red.txt, which is marked",
        ),
        (
            "from tiebreak.guard.commits import commit; commit.check_no_operation = lambda found: None",
            [Step(2, "ben", "merge and wait", branch="tree2"), Step(3, "ben", "tb commit", name=RED)],
            "in the middle of an operation",
        ),
        (
            "from tiebreak.guard.commits import commit_rules; commit_rules.unseen_in = lambda *_: []",
            [Step(2, "ann", "append", name=RED, beside=1), Step(3, "ben", "tb commit", name=RED, chance=1.0)],
            "has a change that it has not seen",
        ),
        (
            "from tiebreak.guard.commits import commit_rules; commit_rules.CommitRules.held = lambda *_: []",
            [Step(2, "ann", "tb commit a folder")],
            "of ann has a line of ben",
        ),
        (
            "from tiebreak.guard.commits import commit_rules; commit_rules.CommitRules.quarantined = lambda *_: []",
            [Step(2, "ann", "append", name=RED), Step(3, "ben", "tb commit", name=RED, chance=1.0)],
            "has a change that it has not seen",
        ),
        (
            "from tiebreak.guard.commits import commit_rules; commit_rules.strays = lambda *_: []",
            [
                Step(2, "ann", "mv", name=RED, other="docs/extra.txt"),
                Step(3, "ann", "tb commit a folder", folder="docs"),
            ],
            "of ann has a line of ben",
        ),
    ],
)
def test_a_walk_finds_a_bug_planted_in_tb(
    tmp_path: Path, engine: Engine, bug: str, steps: list[Step], fault: str
) -> None:
    Walk(tmp_path / "as_it_is", engine).take([EDIT, *steps])
    with pytest.raises(Fault, match=fault):
        Walk(tmp_path / "with_the_bug", engine, bug=bug).take([EDIT, *steps])
