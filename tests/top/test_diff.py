"""The peek shows what an agent has changed in the files that it holds, and nothing else of the repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import tiebreak
from tiebreak.top.peek import look
from tiebreak.top.targets import Target

from .conftest import Agents
from .watching import Watcher, watch

ADA = Target("agent", "ada", agent="ada")


@pytest.fixture
def checkout(agents: Agents, tmp_path: Path) -> Path:
    """A repository in which ada holds files."""
    made = tmp_path / "shop"
    made.mkdir()
    for name in ("cart.py", "[id].py", "i.py", "other.py"):
        (made / name).write_text("one = 1\n")
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=made, check=True)
    agents("ada").holds.take(resources=["file:cart.py", "file:[[]id].py", "file:new/*"])
    return made


def diff(board: tiebreak.Board, wanted: Target) -> list[str]:
    return [line for part in look(board, wanted).parts if part.title == "diff" for line in part.lines]


def test_the_peek_at_an_agent_shows_what_it_changed(
    agents: Agents, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    (checkout / "cart.py").write_text("one = 2\n\x1b[31mred\n")

    async def story(watcher: Watcher) -> None:
        await watcher.selects("ada")
        await watcher.sees("-one = 1", "+one = 2", "[31mred")
        (checkout / "cart.py").write_text("one = 3\n")
        agents("ada").holds.renew(resources=["file:cart.py"])  # the next event looks again
        await watcher.sees("+one = 3")

    watch(agents("me"), story)


def test_only_held_files_are_in_the_diff_and_new_ones_are_named(
    agents: Agents, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    for name in ("[id].py", "i.py", "other.py"):
        (checkout / name).write_text(f"{name!r}\n")
    (checkout / "new").mkdir()
    (checkout / "new" / "page.py").write_text("new\n")
    (checkout / "stranger.py").write_text("new\n")
    lines = diff(agents("me"), ADA)
    assert "+'[id].py'" in lines
    assert lines[0] == "new/page.py: new, not in git yet"
    assert not [line for line in lines if "'i.py'" in line or "other" in line or "stranger" in line]


def test_a_diff_without_end_is_cut(agents: Agents, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    (checkout / "cart.py").write_text("line\n" * 5000)
    lines = diff(agents("me"), Target("hold", "cart.py", resource="file:cart.py", agent="ada"))
    assert len(lines) == 201
    assert lines[-1].endswith("more lines")


def test_without_a_repository_there_is_no_diff(agents: Agents) -> None:
    agents("ada").holds.take(resources=["file:cart.py"])
    assert diff(agents("me"), ADA) == []
