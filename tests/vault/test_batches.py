"""A vault that is written bit by bit equals one that is made from scratch, on every engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.engines import Place

from .story import Story
from .vaults import rebuilt, snapshot, write_vault


def same(left: dict[str, bytes], right: dict[str, bytes]) -> None:
    assert sorted(left) == sorted(right)
    for name, note in left.items():
        assert note.decode() == right[name].decode(), name


@pytest.mark.parametrize("seed", [1, 2])
def test_a_vault_written_in_many_batches_is_behind_in_no_note(place: Place, tmp_path: Path, seed: int) -> None:
    story, board = Story(place.open, seed, place.advance), place.open("vault~1")
    for _ in range(6):
        story.tell(40)
        write_vault(board, tmp_path / "vault")
    mirrored = snapshot(tmp_path / "vault")
    anew = rebuilt(board, tmp_path / "anew")
    same(mirrored.generated, anew.generated)
    assert len(anew.generated) > 50
    assert not mirrored.aside
    assert not mirrored.others
