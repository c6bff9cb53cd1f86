"""Pictures: those that pages show exist, are made by `make pictures`, stay small, and load nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.pictures.recording import Said, animated, last_shown, shortened

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


def rules(picture: str) -> tuple[str, str]:
    """The style of a recording: what always holds, and what holds only where people do not mind motion."""
    always, _, moving = picture.partition("<style>")[2].partition("@media(prefers-reduced-motion:no-preference)")
    return always, moving.partition("</style>")[0]


def test_a_recording_that_does_not_move_shows_every_line() -> None:
    said = [Said(i * 10.0, f"line <{i}>") for i in range(60)]
    picture = animated("sixty lines", said)
    assert all(picture.count(f"line &lt;{i}&gt;<") == 1 for i in range(60))
    always, moving = rules(picture)
    assert not re.search("opacity|animation|transform|keyframes", always)
    assert "opacity:0" in moving
    height = int(re.findall(r'viewBox="0 0 \d+ (\d+)"', picture)[0])
    last = max(int(y) for y in re.findall(r'<text class="\w+" y="(\d+)"', picture))
    top = int(re.findall(r"translate\(\d+ (\d+)\)", picture)[0])
    assert top + last < height, "the last line is in the window"


def test_a_recording_begins_again_and_shows_its_whole_story_before() -> None:
    _, moving = rules(animated("ten lines", [Said(i * 10.0, f"line {i}") for i in range(10)]))
    length, before = map(float, re.findall(r"animation:([\d.]+)s -([\d.]+)s step-end infinite", moving)[0])
    last = max(float(each) for each in re.findall(r"([\d.]+)%\{opacity:1\}", moving)) / 100 * length
    assert length - last > 10, "nobody can read that much in less"
    assert before > last, "whoever looks for a moment sees all of it"


def test_a_recording_has_only_what_was_not_overwritten() -> None:
    assert last_shown("\r\x1b[K  12 s  working\r\x1b[Kwon  it\x1b[0m\r") == "won  it"
    assert last_shown("           your answer: yes\r") == "           your answer: yes"


def test_nobody_waits_long_for_the_next_line() -> None:
    times = [each.at for each in shortened([Said(0.0, "a"), Said(60.0, "b"), Said(60.0, "c")])]
    assert times == sorted(times)
    assert times[-1] < 3
