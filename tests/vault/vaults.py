"""Vaults in tests: made, compared, and written into by people."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from tiebreak import Board
from tiebreak.vault.kept_text import parts
from tiebreak.vault.mirror import Mirror
from tiebreak.vault.note_names import ASIDE
from tiebreak.vault.vault_folder import KEEP, open_vault


class Snapshot(NamedTuple):
    """All notes of a vault: the generated part by path, and what people wrote by folder and number."""

    generated: dict[str, bytes]
    kept: dict[str, bytes]
    aside: dict[str, bytes]
    """Copies of what people changed."""
    others: dict[str, bytes]
    """Files that are no notes of ours."""


def snapshot(folder: Path) -> Snapshot:
    """What is in a vault, without what is not for people."""
    found = Snapshot({}, {}, {}, {})
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        if file.is_dir() or name.startswith(".tiebreak/"):
            continue
        content = file.read_bytes()
        note = parts(content)
        if name.startswith(ASIDE):
            found.aside[name] = content
        elif note is None:
            found.others[name] = content
        else:
            found.generated[name] = content[: len(content) - len(note.kept)]
            if note.kept:
                found.kept[name.removesuffix(".md").partition(" ")[0]] = note.kept
    return found


def write_vault(board: Board, folder: Path, *, project: str | None = "demo", pruned: str = KEEP) -> Mirror:
    """Bring a vault up to date, as `tb vault` does."""
    vault = open_vault(str(folder), into=False)
    try:
        vault.save_settings(project=project, pruned=pruned)
        mirror = Mirror(board, vault)
        mirror.catch_up()
    finally:
        vault.close()
    return mirror


def rebuilt(board: Board, folder: Path, **options: str | None) -> Snapshot:
    """The vault that a new writer makes of the board as it is now."""
    shutil.rmtree(folder, ignore_errors=True)
    write_vault(board, folder, **options)  # type: ignore[arg-type]
    return snapshot(folder)
