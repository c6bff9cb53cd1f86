"""Pictures: those that pages show exist, are made by `make pictures`, stay small, and load nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.pictures.recording import Said, animated, shortened

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "docs" / "pictures"
SHOWN = re.compile(r'(?:src|srcset)="([^"]+)"|!\[[^\]]*\]\(([^)]+)\)')
LARGEST = 100_000


def shown() -> set[Path]:
    """All pictures that a page shows."""
    found = set()
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for groups in SHOWN.findall(page.read_text(encoding="utf-8")):
            found.add((page.parent / (groups[0] or groups[1])).resolve())
    return found


def test_no_page_shows_a_picture_that_is_not_there() -> None:
    assert [path for path in shown() if not path.is_file()] == []


def test_no_picture_is_kept_that_no_page_shows() -> None:
    assert set(PLACE.iterdir()) - shown() == set()


@pytest.mark.parametrize("path", sorted(PLACE.iterdir()), ids=lambda path: path.name)
def test_a_picture_is_small_and_loads_nothing(path: Path) -> None:
    assert path.stat().st_size <= LARGEST
    if path.suffix == ".svg":
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<script|@import|@font-face|url\((?!#)|(?:href|src)=", text)


def test_a_recording_shows_every_line_once_and_keeps_its_end_in_sight() -> None:
    said = [Said(i * 10.0, f"line <{i}>") for i in range(40)]
    picture = animated("forty lines", said)
    assert all(picture.count(f"line &lt;{i}&gt;<") == 1 for i in range(40))
    assert re.findall(r"translateY\((-?\d+)px\)", picture)[-2:] == ["-266", "-266"]  # 14 lines have left at the top


def test_nobody_waits_long_for_the_next_line() -> None:
    times = [each.at for each in shortened([Said(0.0, "a"), Said(60.0, "b"), Said(60.0, "c")])]
    assert times == sorted(times)
    assert times[-1] < 3
