"""Names of held files that lead astray: other spellings, other projects, what is in their place, another holder."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebreak.guard.files.watched_files import all_watched

from ..cli.command import Tb
from .actors import Claude

Start = Callable[..., Claude]


def messages(agent: Claude) -> str:
    """All that an agent has been sent."""
    return "\n".join(each.body for each in agent.board.messages.inbox())


# ── Spellings ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["café.py", "dépôt/café.py"])
def test_a_file_whose_accents_the_disk_spells_otherwise_than_the_board_is_watched_and_kept(
    claude: Start, tb: Tb, repo: Path, name: str
) -> None:
    path = repo / unicodedata.normalize("NFD", name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("one\n")
    ben = claude("ben")
    assert tb("hold", str(path), "--as", "ann~1").code == 0
    path.write_text("her work\n")
    assert "held by ann" in ben.bash(f"rm '{path}'")
    assert "was removed" in tb("inbox", "--as", "ann~1").out
    ben.bash("true")
    assert [each.path for each in all_watched()] == [str(path)]
    assert tb("recover", str(path), "--as", "ann~1").code == 0
    assert path.read_text() == "her work\n"
