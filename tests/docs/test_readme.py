"""What the README says about the repository around it. `test_pages` runs what it shows."""

from __future__ import annotations

import re

from .snippets import ROOT, blocks, steps

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_tour_is_a_tour() -> None:
    assert len(list(steps(README))) > 10
    assert len(blocks("python", README)) == 1


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    [(_, commands)] = blocks("sh", README)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = [line.split()[1] for line in commands.splitlines()]
    assert targets == ["serve", "test"]
    assert all(f"\n{target}:" in makefile for target in targets)


def test_the_ways_to_install_are_those_of_the_page_for_newcomers() -> None:
    newcomers = (ROOT / "docs/getting-started.md").read_text(encoding="utf-8")
    ways = re.findall(r"`((?:uv tool|pipx|pip) install '\.[^`]+)`", README)
    assert len(ways) > 1
    assert [way for way in ways if way not in newcomers] == []
