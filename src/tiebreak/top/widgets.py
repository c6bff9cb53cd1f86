"""The parts of the screen: rows of which one is selected, the ticker, and lines of styled text.

Each draws only what fits, so a thousand rows cost no more than twenty, and only what has changed, so that a quiet board
costs a slow line next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.geometry import Region
from textual.message import Message
from textual.widget import Widget

from .drawing import as_lines, as_rich, changed
from .frame import FrameLine, event_line
from .rows import Cell

if TYPE_CHECKING:
    from textual.events import Click, MouseScrollDown, MouseScrollUp

    from ..model import Event
    from .snapshot import Selected

KEPT = 200
"""How many events the ticker keeps."""


class TextLines(Widget):
    """Lines of text; only those that change are drawn anew."""

    DEFAULT_CSS = "TextLines { height: auto; }"

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._lines: list[Text] = []

    def show(self, lines: list[Text]) -> None:
        """Draw these lines, as far as they are not there already."""
        before, self._lines = self._lines, lines
        if len(lines) != len(before):
            self.refresh(layout=True)
        elif rows := [row for row, (old, new) in enumerate(zip(before, lines, strict=True)) if old != new]:
            self.refresh(*(Region(0, row, self.size.width, 1) for row in rows))

    def render(self) -> Text:
        """The lines."""
        return as_lines([line.copy() for line in self._lines], self.size.width)


class StyledLines(Widget):
    """Lines that are drawn as they are."""

    DEFAULT_CSS = "StyledLines { height: auto; }"

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._lines: list[FrameLine] = []

    def show(self, lines: list[FrameLine]) -> None:
        """Draw these lines, if they are not there already."""
        before, self._lines = self._lines, lines
        if len(lines) != len(before):
            self.display = bool(lines)  # a widget without text would still take a line
            self.refresh(layout=True)
        elif regions := [
            each
            for row, pair in enumerate(zip(before, lines, strict=True))
            for each in changed(row, self.size.width, *pair)
        ]:
            self.refresh(*regions)

    def render(self) -> Text:
        """The lines."""
        return as_lines([as_rich(line) for line in self._lines], self.size.width)


class RowList(Widget):
    """The lines of a view. The selection stays with its thing when rows come and go."""

    class RowSelected(Message):
        """Another row is selected: by the person, or because the one that was selected is not there any more."""

        def __init__(self, by_person: bool) -> None:
            super().__init__()
            self.by_person = by_person

    class Clicked(Message):
        """A row was clicked twice, or while it was selected."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._lines: list[FrameLine] = []
        self._top = 0
        self._place = -1
        """The index of the selected line; -1 if no line can be selected."""
        self._drawn: list[tuple[FrameLine, bool]] = []
        """The lines that are in sight, and whether each is selected."""

    @property
    def selected(self) -> Selected | None:
        """What is selected."""
        return self._lines[self._place].selected if 0 <= self._place < len(self._lines) else None

    def show(self, lines: list[FrameLine], *, anew: bool = False) -> None:
        """Draw these lines; what was selected stays so, or else what is in its place now. `anew`: the first row is."""
        if lines == self._lines:
            return
        before = self.selected
        self._lines = lines
        places = self._places()
        same = [place for place in places if lines[place].selected == before] if before else []
        nearest = min(places, key=lambda place: abs(place - self._place), default=-1)
        self._place = same[0] if same else (places[0] if (anew or before is None) and places else nearest)
        if anew and not same:
            self._top = 0
        self._scroll()
        if self.selected != before:
            self.post_message(self.RowSelected(by_person=False))

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
            self.post_message(self.RowSelected(by_person=True))

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
        self._redraw()

    def _redraw(self) -> None:
        """Draw what differs from what is in sight."""
        before, self._drawn = self._drawn, self._in_sight()
        if len(before) != len(self._drawn):
            self.refresh()
            return
        regions: list[Region] = []
        for row, ((old, was), (new, is_selected)) in enumerate(zip(before, self._drawn, strict=True)):
            if was != is_selected:
                regions.append(Region(0, row, self.size.width, 1))
            else:
                regions += changed(row, self.size.width, old, new)
        if regions:
            self.refresh(*regions)

    def on_resize(self) -> None:
        """Scroll so that the selected row is still in sight."""
        self._drawn = []
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

    def _in_sight(self) -> list[tuple[FrameLine, bool]]:
        """The lines that fit, and whether each is selected."""
        height = max(1, self.size.height)
        crowded = len(self._lines) > self._top + height
        shown = self._lines[self._top : self._top + height - crowded]
        lines = [(line, self._top + number == self._place) for number, line in enumerate(shown)]
        if crowded:
            below = sum(place >= self._top + height - 1 for place in self._places())
            lines.append((FrameLine((Cell(f"  ↓ {below} more", "dim"),)), False))
        return lines

    def render(self) -> Text:
        """The lines that fit."""
        return as_lines(
            [as_rich(line, self.size.width, selected=selected) for line, selected in self._drawn], self.size.width
        )


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
        return as_lines([as_rich(heading), *(as_rich(event_line(event, columns)) for event in shown)], columns)
