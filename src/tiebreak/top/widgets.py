"""The parts of the screen: rows of which one is selected, the ticker, and lines of styled text.

Each draws only what fits, so a thousand rows cost no more than twenty. Colours are those of the terminal, by name: they
fit a dark and a light one. Texts are `rich.text.Text`, which has no markup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.message import Message
from textual.widget import Widget

from ..text import cut, plain
from .frame import FrameLine, event_line
from .rows import Cell

if TYPE_CHECKING:
    from textual.events import Click, MouseScrollDown, MouseScrollUp

    from ..model import Event
    from .peek import Peeked
    from .snapshot import Selected

STYLES = {
    "good": "green",
    "bad": "red",
    "warn": "yellow",
    "accent": "cyan",
    "bold": "bold",
    "dim": "dim",
    "reverse": "reverse bold",
    "": "",
}
DIFF = {"+": "green", "-": "red", "@": "cyan"}
KEPT = 200
"""How many events the ticker keeps."""


def as_rich(line: FrameLine, columns: int = 0, *, selected: bool = False) -> Text:
    """A line with its styles; a selected one is reversed, which shows without colours too."""
    text = Text(no_wrap=True, end="")
    for piece in line.pieces:
        text.append(piece.text, STYLES[piece.style] if not selected else "")
    if selected:
        text.pad_right(max(0, columns - text.cell_len))
        text.stylize("reverse")
    return text


def as_lines(lines: list[Text]) -> Text:
    """Several lines as one text."""
    return Text("\n", no_wrap=True).join(lines)


class StyledLines(Widget):
    """Lines that are drawn as they are."""

    DEFAULT_CSS = "StyledLines { height: auto; }"

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._lines: list[FrameLine] = []

    def show(self, lines: list[FrameLine]) -> None:
        """Draw these lines, if they are not there already."""
        if lines != self._lines:
            grown = len(lines) != len(self._lines)
            self._lines = lines
            self.display = bool(lines)  # a widget without text would still take a line
            self.refresh(layout=grown)

    def render(self) -> Text:
        """The lines."""
        return as_lines([as_rich(line) for line in self._lines])


class RowList(Widget):
    """The lines of a view. The selection stays with its thing when rows come and go."""

    class RowSelected(Message):
        """Another row is selected."""

    class Clicked(Message):
        """A row was clicked twice, or while it was selected."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._lines: list[FrameLine] = []
        self._top = 0
        self._place = -1
        """The index of the selected line; -1 if no line can be selected."""

    @property
    def selected(self) -> Selected | None:
        """What is selected."""
        return self._lines[self._place].selected if 0 <= self._place < len(self._lines) else None

    def show(self, lines: list[FrameLine]) -> None:
        """Draw these lines; what was selected stays so, or else what is in its place now."""
        if lines == self._lines:
            return
        before = self.selected
        self._lines = lines
        places = self._places()
        same = [place for place in places if lines[place].selected == before] if before else []
        nearest = min(places, key=lambda place: abs(place - self._place), default=-1)
        self._place = same[0] if same else (places[0] if before is None and places else nearest)
        self._scroll()
        if self.selected != before:
            self.post_message(self.RowSelected())

    def _places(self) -> list[int]:
        return [place for place, line in enumerate(self._lines) if line.selected is not None]

    def move(self, by: int) -> None:
        """Select a row above or below."""
        places = self._places()
        if not places:
            return
        at = places.index(self._place) if self._place in places else 0
        self._select(places[max(0, min(len(places) - 1, at + by))])

    def select(self, wanted: Selected) -> None:
        """Select the row of a thing, if it is there."""
        for place in self._places():
            if self._lines[place].selected == wanted:
                self._select(place)
                return

    def _select(self, place: int) -> None:
        if place != self._place:
            self._place = place
            self._scroll()
            self.post_message(self.RowSelected())

    def _scroll(self) -> None:
        """Keep the selected row in sight, with its heading where it is the first one below it."""
        height = max(1, self.size.height)
        height -= height > 1 and len(self._lines) > height  # the last line says how many rows are below
        above = self._place
        while above > 0 and self._lines[above - 1].selected is None:
            above -= 1
        self._top = min(self._top, above)
        if self._place >= self._top + height:
            self._top = self._place - height + 1
        self._top = max(0, min(self._top, len(self._lines) - height))
        self.refresh()

    def on_resize(self) -> None:
        """Scroll so that the selected row is still in sight."""
        self._scroll()

    def on_click(self, event: Click) -> None:
        """Select the row under the mouse; a second click opens it."""
        place = self._top + event.y
        if place in self._places():
            again = place == self._place
            self._select(place)
            if again or event.chain > 1:
                self.post_message(self.Clicked())

    def on_mouse_scroll_down(self, _: MouseScrollDown) -> None:
        """Move down."""
        self.move(1)

    def on_mouse_scroll_up(self, _: MouseScrollUp) -> None:
        """Move up."""
        self.move(-1)

    def render(self) -> Text:
        """The lines that fit."""
        height = max(1, self.size.height)
        below = [place for place in self._places() if place >= self._top + height - 1]
        crowded = len(self._lines) > self._top + height
        shown = self._lines[self._top : self._top + height - crowded]
        lines = [
            as_rich(line, self.size.width, selected=self._top + number == self._place)
            for number, line in enumerate(shown)
        ]
        if crowded:
            lines.append(Text(f"  ↓ {len(below)} more", "dim"))
        return as_lines(lines)


class Ticker(Widget):
    """The newest events. While it is paused it stands still and counts what it does not show."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._events: list[Event] = []
        self._shown: list[Event] = []
        self.paused = False

    def show(self, events: list[Event]) -> None:
        """Take the newest events; more than fit between two frames are left out."""
        if events and (not self._events or events[-1].number != self._events[-1].number):
            self._events = events[-KEPT:]
            if not self.paused:
                self._shown = self._events
            self.refresh()

    def pause(self) -> bool:
        """Stand still, or go on; returns whether it stands still now."""
        self.paused = not self.paused
        self._shown = list(self._events)
        self.refresh()
        return self.paused

    @property
    def waiting(self) -> int:
        """How many events came since it was paused."""
        newest = self._shown[-1].number if self._shown else 0
        return sum(event.number > newest for event in self._events)

    def render(self) -> Text:
        """A heading, and the newest events that fit below it."""
        columns = self.size.width
        more = "+" if self.waiting >= len(self._events) > 0 else ""
        state = f"paused, {self.waiting}{more} new (p goes on)" if self.paused else "p pauses"
        heading = FrameLine((Cell("Events", "bold"), Cell(f"  {state}", "warn" if self.paused else "dim")))
        room = max(0, self.size.height - 1)
        shown = self._shown[-room:] if room else []
        return as_lines([as_rich(heading), *(as_rich(event_line(event, columns)) for event in shown)])


def peek_text(found: Peeked, columns: int) -> Text:
    """What is shown of one thing; lines are cut, because a terminal or a diff that is wrapped cannot be read."""
    lines = [Text(cut(found.title, columns), "bold")]
    for part in found.parts:
        if part.title:
            lines += [Text(""), Text(cut(part.title, columns), "cyan")]
        for line in part.lines:
            style = DIFF.get(line[:1], "") if part.style == "diff" else STYLES.get(part.style, "")
            wraps = part.title in ("", "why", "description", "comments", "unread messages")
            lines += _wrapped(line, columns, style) if wraps else [Text(cut(line, columns), style)]
    return as_lines(lines)


def _wrapped(line: str, columns: int, style: str) -> list[Text]:
    from textwrap import wrap

    blanks = len(line) - len(line.lstrip())
    hang = " " * (6 if line[:4].strip() and line[4:6] == "  " else min(blanks, columns // 2))
    found = wrap(line, max(20, columns), subsequent_indent=hang, break_on_hyphens=False) or [""]
    return [Text(cut(each, columns), style) for each in found]


def notice_lines(text: str, columns: int, rows: int = 3) -> list[FrameLine]:
    """A message to the person, in a few lines."""
    from textwrap import wrap

    found = wrap(plain(text), max(20, columns)) if text else []
    return [FrameLine((Cell(line),)) for line in found[:rows]]
