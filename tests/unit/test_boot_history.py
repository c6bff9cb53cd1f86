"""Boots that a machine has written down itself: only those prove that a process of an earlier boot is dead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tiebreak import boot_history
from tiebreak.boot_history import MOST, is_of_earlier_boot, remember_boot
from tiebreak.process_identity import Identity, identity


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a machine that has written nothing yet."""
    monkeypatch.setattr(boot_history, "FOLDER", str(tmp_path))
    monkeypatch.setattr(boot_history, "_is_machine", lambda: True)
    return tmp_path / f"tiebreak-{os.geteuid()}" / "boots"


def of(boot: str) -> Identity:
    return Identity(identity().host, boot, 7, 70)


def test_the_present_boot_is_written_once_and_is_not_over(listed: Path) -> None:
    remember_boot()
    remember_boot()
    assert listed.read_text().splitlines() == [f"{identity().host} {identity().boot}"]
    assert listed.stat().st_mode & 0o777 == 0o600
    assert not is_of_earlier_boot(identity())


def test_the_list_does_not_grow_for_ever(listed: Path) -> None:
    remember_boot()
    listed.write_text("".join(f"{identity().host} {n:08x}.4026531836\n" for n in range(2 * MOST)))
    remember_boot()
    assert len(listed.read_text().splitlines()) == MOST
    assert is_of_earlier_boot(of(f"{2 * MOST - 1:08x}.4026531836"))
    assert not is_of_earlier_boot(of("00000000.4026531836"))


def test_a_list_in_a_folder_of_another_user_proves_nothing(listed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember_boot()
    listed.write_text(f"{identity().host} 0a0b0c0d.4026531836\n")
    assert is_of_earlier_boot(of("0a0b0c0d.4026531836"))
    other = os.geteuid() + 1
    listed.parent.rename(listed.parent.with_name(f"tiebreak-{other}"))
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert not is_of_earlier_boot(of("0a0b0c0d.4026531836"))


def test_a_container_is_not_taken_for_a_machine(listed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(boot_history, "FOLDER", str(tmp_path))
    real = os.readlink
    monkeypatch.setattr(os, "readlink", lambda path: "uts:[4026532999]" if str(path).endswith("/uts") else real(path))
    remember_boot()
    assert not listed.exists()
