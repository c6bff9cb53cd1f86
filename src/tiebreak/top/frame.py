"""Lays rows out as lines of a given width: for the screen, and for `tb top --once` as plain text."""

from __future__ import annotations

from time import localtime, strftime
from typing import TYPE_CHECKING, NamedTuple

from ..limits import SHOWN
from ..names import short
from ..need_words import COUNTS, about, counted, mood, number_of
from ..text import cut, plain, style, width
from .rows import TABS, Cell, Section, ViewRow, sections, title
from .snapshot import VIEWS

if TYPE_CHECKING:
    from ..model import Event
    from .snapshot import Selected, Snapshot

GAP = "  "
AGE = 4
"""Columns of an age: `59s`, `23h`, `364d`."""
EVENTS_SHOWN = 8
"""Events at the end of a frame that is printed."""


class FrameLine(NamedTuple):
    """One line of the screen: its pieces, and what is selected with it."""

    pieces: tuple[Cell, ...]
    selected: Selected | None = None

    @property
    def text(self) -> str:
        """The line without styles."""
        return "".join(piece.text for piece in self.pieces).rstrip()


def body(found: list[Section], columns: int) -> list[FrameLine]:
    """The headings and rows of a view, each in one line."""
    rows = [row for section in found for row in section.rows]
    who = min(max([width(row.who.text) for row in rows], default=0), max(10, columns // 6))
    lines: list[FrameLine] = []
    for section in found:
        if lines:
            lines.append(FrameLine(()))
        lines.append(FrameLine((Cell(cut(title(section), columns), "bold"),)))
        right = min(max([width(row.right.text) for row in section.rows], default=0), columns * 3 // 10)
        lines += [_row_line(row, columns, who, right) for row in section.rows]
    return lines


def _row_line(row: ViewRow, columns: int, who: int, right: int) -> FrameLine:
    room = columns - len(GAP) - who - len(GAP) - AGE - len(GAP) - (right + len(GAP) if right else 0)
    pieces = [
        Cell(GAP),
        _fitted(row.who, who),
        Cell(f"{GAP}{row.age:>{AGE}}{GAP}", "dim"),
        _fitted(row.what, max(1, room)),
    ]
    if right:
        shown = cut(row.right.text, right)
        pieces += [Cell(GAP + " " * (right - width(shown))), Cell(shown, row.right.style)]
    return FrameLine(_cut_pieces(tuple(pieces), columns), row.selected)


def _fitted(cell: Cell, columns: int) -> Cell:
    shown = cut(cell.text, columns)
    return Cell(shown + " " * (columns - width(shown)), cell.style)


# ── Header and ticker ────────────────────────────────────────────────────────────────────────────────────────


def header(taken: Snapshot, columns: int, lag: Cell | None = None) -> list[FrameLine]:
    """Two lines: the board and how far behind its newest event the screen is; then the board in numbers."""
    lag = lag or lag_text(taken.behind)
    left = f"tiebreak{GAP}{plain(taken.project)}"
    room = columns - width(left) - len(GAP) - width(lag.text) - len(GAP)
    place = plain(taken.board)
    place = place if width(place) <= room else _cut_left(place, max(0, room))
    blanks = " " * max(1, columns - width(left) - len(GAP) - width(place) - width(lag.text))
    first = (
        Cell("tiebreak", "accent"),
        Cell(f"{GAP}{plain(taken.project)}", "bold"),
        Cell(f"{GAP}{place}{blanks}", "dim"),
        lag,
    )
    return [FrameLine(_cut_pieces(first, columns)), FrameLine(_cut_pieces(numbers(taken, columns), columns))]


def _cut_left(text: str, room: int) -> str:
    """The end of a path says more than its beginning."""
    return text if width(text) <= room else ("…" + text[len(text) - room + 1 :] if room > 1 else "")


def lag_text(behind: int, silent: float = 0.0, broken: str = "") -> Cell:
    """How far the screen is behind: `live`, some events, or cut off from the board for some time."""
    if broken:
        return Cell(f"no answer for {silent:.0f}s", "bad")
    return Cell(f"lag {behind} event{'' if behind == 1 else 's'}", "warn") if behind else Cell("live", "good")


def numbers(taken: Snapshot, columns: int) -> tuple[Cell, ...]:
    """The board in numbers; what needs a person comes first, and what does not fit is left out."""
    count = {key: sum(each.section == key for each in taken.agents) for key in ("working", "waiting", "idle")}
    told = taken.counts
    needs = number_of(taken.needs, SHOWN)
    parts = [Cell(f"{needs} need you" if needs != "1" else "1 needs you", "bad" if taken.needs else "good")]
    parts += [Cell(f"{GAP}{count['working']} working · {count['waiting']} waiting · {count['idle']} idle")]
    used = sum(width(part.text) for part in parts)
    for name in COUNTS:
        number = getattr(told, name)
        if name == "failed" and not number:
            continue
        words = "hold" if name == "holds" and number == 1 else name
        style_name = "bad" if name == "failed" else "dim"
        part = Cell(f"{GAP if len(parts) == 2 else ' · '}{counted(number)} {words}", style_name)
        used += width(part.text)
        if used <= columns:
            parts.append(part)
    return tuple(parts)


def _cut_pieces(pieces: tuple[Cell, ...], columns: int) -> tuple[Cell, ...]:
    out, left = [], columns
    for piece in pieces:
        shown = cut(piece.text, left)
        out.append(Cell(shown, piece.style))
        left -= width(shown)
        if left <= 0:
            break
    return tuple(out)


def tabs(view: str, words: str, columns: int) -> FrameLine:
    """The names of the views with their keys, and the filter if there is one."""
    pieces = []
    for place, each in enumerate(VIEWS, 1):
        pieces += [Cell(f"{place} ", "dim"), Cell(TABS[each], "reverse" if each == view else ""), Cell(GAP)]
    if words:
        pieces.append(Cell(f"/{plain(words)}", "warn"))
    return FrameLine(_cut_pieces(tuple(pieces), columns))


def event_line(event: Event, columns: int) -> FrameLine:
    """One event of the ticker, at the time of the person's own clock."""
    marks = mood(event.event) or "accent"
    note = f" ({plain(event.note)})" if event.note else ""
    times = f" ×{event.times}" if event.times > 1 else ""
    pieces = (
        Cell(f"{strftime('%H:%M:%S', localtime(event.at))}{GAP}", "dim"),
        Cell(f"{event.event:<15} ", marks),
        Cell(f"{cut(plain(short(event.agent or '-')), 16):<16} "),
        Cell(f"{plain(about(event))}{times}"),
        Cell(note, "dim"),
    )
    return FrameLine(_cut_pieces(pieces, columns))


def as_text(taken: Snapshot, columns: int, words: str = "", *, colour: bool = False) -> str:
    """One frame as text that is no wider than `columns`."""
    lines = [*header(taken, columns), FrameLine(()), *body(sections(taken, words), columns)]
    if taken.events:
        lines += [FrameLine(()), FrameLine((Cell("Events", "bold"),))]
        lines += [event_line(event, columns) for event in taken.events[-EVENTS_SHOWN:]]
    return "\n".join(_printed(line, colour) for line in lines)


def _printed(line: FrameLine, colour: bool) -> str:
    if not colour:
        return line.text
    return "".join(style(piece.text, piece.style, on=bool(piece.style)) for piece in line.pieces).rstrip()
