"""The first hour of somebody who has only the wheel: each page beside this file is followed from top to bottom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.hosts import network

from ..docs.snippets import steps
from .walk import HERE, Walk


@pytest.fixture
def walk(tmp_path: Path, wheels: Path) -> Iterator[Walk]:
    someone = Walk(tmp_path, wheels)
    yield someone
    someone.leaves()


def test_agents_with_the_wheel_alone_do_not_collide(walk: Walk) -> None:
    follow(walk, "first-hour.md")


def test_two_machines_with_the_wheel_alone_have_one_winner(walk: Walk) -> None:
    with network(hosts=2) as net:
        for name, cable in zip(("laptop", "desktop"), net.cables, strict=True):
            walk.machine(name, cable)
        follow(walk, "second-machine.md")


def follow(walk: Walk, page: str) -> None:
    """Do what a page shows, and fail at the first command that says something else."""
    for step in steps((HERE / page).read_text(encoding="utf-8")):
        walk.follows(step)
