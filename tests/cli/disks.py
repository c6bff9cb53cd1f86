"""Disks that are small or cannot be written to, made for one test and gone after it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A file system of its own with so much space."""
    folder.mkdir()
    if not _mount("-t", "tmpfs", "-o", f"size={kilobytes}k,mode=0700", "tiebreak-test", folder):
        pytest.fail("this needs a small disk, and mounting one is not allowed here: run the tests as root")
    try:
        yield folder
    finally:
        _unmount(folder)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nothing in this folder, which exists, can be written to while the block lasts."""
    if os.geteuid() != 0:
        names = [folder, *folder.iterdir()]
        for name in names:
            name.chmod(0o500 if name.is_dir() else 0o400)
        try:
            yield
        finally:
            for name in names:
                name.chmod(0o700 if name.is_dir() else 0o600)
        return
    # Permissions do not bind the superuser; a mount does.
    if not _mount("--bind", folder, folder):
        pytest.fail(
            "this needs a disk that cannot be written to: run the tests as an ordinary user, or where root may mount"
        )
    try:
        if not _mount("-o", "remount,ro,bind", folder):
            pytest.fail("a folder could be mounted, but not without the right to write")
        yield
    finally:
        _unmount(folder)


@contextmanager
def mounted_also_at(target: Path, source: Path) -> Iterator[None]:
    """A file or folder has a second place, as containers give it one; the target exists and is hidden meanwhile."""
    if not _mount("--bind", source, target):
        pytest.fail("this needs a second place for a file, and mounting is not allowed here: run the tests as root")
    try:
        yield
    finally:
        _unmount(target)


def _mount(*words: str | Path) -> bool:
    try:
        return subprocess.run(["mount", *words], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _unmount(folder: Path) -> None:
    if subprocess.run(["umount", folder], capture_output=True, check=False).returncode != 0:
        subprocess.run(["umount", "--lazy", folder], check=True)
