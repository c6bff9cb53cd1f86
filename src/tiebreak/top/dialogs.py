"""The dialogs of `tb top`: a line to type, a question with yes or no, the help, and the palette of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ..text import cut, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.app import ComposeResult
    from textual.events import Key

SHOWN = 12
"""How many commands the palette lists at once."""


class CommandEntry(NamedTuple):
    """A `tb` command for the palette."""

    name: str
    usage: str
    text: str
    asks: bool = False
    """Whether it asks a person in a terminal before it does something that cannot be undone."""


class KeyHelp(NamedTuple):
    """A key and what it does."""

    key: str
    text: str


class AskLine(ModalScreen[str | None]):
    """Asks for one line of text; None if the person does not want to."""

    AUTO_FOCUS = "Input"
    BINDINGS = [Binding("escape", "dismiss(None)", "leave it")]

    def __init__(
        self, title: str, hint: str = "", value: str = "", changed: Callable[[str], object] | None = None
    ) -> None:
        super().__init__()
        self._title = title
        self._hint = hint
        self._value = value
        self._changed = changed

    def compose(self) -> ComposeResult:
        """A title, a line to type, and what it is for."""
        with Vertical(classes="dialog"):
            yield Static(Text(self._title, "bold"), markup=False)
            yield Input(self._value, id="line", select_on_focus=False, compact=True)
            yield Static(Text(self._hint or "Enter: do it   Esc: leave it", "dim"), markup=False)

    def on_mount(self) -> None:
        """The cursor is in the line before the dialog is drawn, so no key is lost."""
        self.set_focus(self.query_one("#line", Input))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Tell who wants to know while it is typed."""
        if self._changed:
            self._changed(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """It is typed."""
        event.stop()
        self.dismiss(event.value)


class Confirm(ModalScreen[bool]):
    """Asks several questions one after another; true if all are answered with yes."""

    BINDINGS = [Binding("escape", "dismiss(False)", "no")]

    def __init__(self, *questions: str) -> None:
        super().__init__()
        self._questions = list(questions)

    def compose(self) -> ComposeResult:
        """The first question."""
        with Vertical(classes="dialog"):
            yield Static(Text(self._questions[0], "bold"), id="question", markup=False)
            yield Static(Text("y: yes   any other key: no", "dim"), markup=False)

    def on_key(self, event: Key) -> None:
        """Yes leads to the next question, anything else to the end."""
        event.stop()
        if event.key not in ("y", "Y"):
            self.dismiss(False)
            return
        self._questions.pop(0)
        if not self._questions:
            self.dismiss(True)
        else:
            self.query_one("#question", Static).update(Text(self._questions[0], "bold red"))


class HelpScreen(ModalScreen[None]):
    """The keys and what they do."""

    def __init__(self, keys: Iterable[KeyHelp]) -> None:
        super().__init__()
        self._keys = list(keys)

    def compose(self) -> ComposeResult:
        """A table of the keys, in two columns where they fit."""
        with Vertical(classes="dialog", id="help"):
            yield Static(self._table(), markup=False)

    def _table(self) -> Text:
        wide = self.app.size.width >= 100
        entries = []
        for each in self._keys:
            entry = Text(f"{each.key:>7} ", "bold cyan")
            entry.append(each.text, "not bold default")
            entries.append(entry)
        rows = (len(entries) + 1) // 2 if wide else len(entries)
        left = max(entry.cell_len for entry in entries[:rows])
        lines = [Text("Keys", "bold")]
        for number in range(rows):
            line = entries[number].copy()
            if number + rows < len(entries):
                line.pad_right(left - line.cell_len + 3)
                line.append_text(entries[number + rows])
            lines.append(line)
        return Text("\n").join(lines)

    def on_key(self, event: Key) -> None:
        """Any key closes it."""
        event.stop()
        self.dismiss(None)

    def on_click(self) -> None:
        """So does a click."""
        self.dismiss(None)


class Palette(ModalScreen[str | None]):
    """Every `tb` command: type a few letters, choose with the arrows, complete with Tab, run with Enter."""

    AUTO_FOCUS = "Input"
    BINDINGS = [
        Binding("escape", "dismiss(None)", "leave it"),
        Binding("up", "move(-1)", "up", priority=True),
        Binding("down", "move(1)", "down", priority=True),
        Binding("tab", "complete", "complete", priority=True),
    ]

    def __init__(self, commands: list[CommandEntry]) -> None:
        super().__init__()
        self._commands = commands
        self._found = commands
        self._place = 0

    def compose(self) -> ComposeResult:
        """A line to type, and the commands that match."""
        with Vertical(classes="dialog", id="palette"):
            yield Static(Text("tb …", "bold"), markup=False)
            yield Input(id="line", select_on_focus=False, compact=True)
            yield Static(id="commands", markup=False)

    def on_mount(self) -> None:
        """All commands match at first."""
        self.set_focus(self.query_one("#line", Input))
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what matches: names that begin so, then names and texts that contain it."""
        word = event.value.strip().partition(" ")[0].lower()
        begins = [each for each in self._commands if each.name.startswith(word)]
        within = [each for each in self._commands if word in each.name or word in each.text.lower()]
        if " " in event.value.strip() or event.value.endswith(" "):
            begins, within = [each for each in self._commands if each.name == word], []
        exact = [each for each in begins if each.name == word]
        self._found = list(dict.fromkeys([*exact, *begins, *within]))
        self._place = 0
        self._draw()

    def action_move(self, by: int) -> None:
        """Choose another one."""
        self._place = max(0, min(len(self._found) - 1, self._place + by))
        self._draw()

    def action_complete(self) -> None:
        """Fill the chosen command in."""
        if self._found:
            line = self.query_one("#line", Input)
            line.value = f"{self._found[self._place].name} "
            line.cursor_position = len(line.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Run what is typed, if that begins with the whole name of a command; else fill the chosen one in."""
        event.stop()
        typed = event.value.strip()
        name = typed.partition(" ")[0]
        if self._found and name == self._found[self._place].name:
            self.dismiss(typed)
        else:
            self.action_complete()

    def _draw(self) -> None:
        columns = max(20, min(110, self.app.size.width) - 6)
        first = max(0, min(self._place - SHOWN + 1, len(self._found) - SHOWN)) if self._place >= SHOWN else 0
        lines = []
        for number, each in enumerate(self._found[first : first + SHOWN], first):
            text = Text(cut(f"{each.name:<13} {plain(each.text)}", columns))
            if number == self._place:
                text.pad_right(columns - text.cell_len)
                text.stylize("reverse")
            lines.append(text)
        if not lines:
            lines = [Text("no such command", "yellow")]
        usage = self._found[self._place].usage if self._found else ""
        many = f"{len(self._found)} command{'' if len(self._found) == 1 else 's'}"
        more = f"{many} · ↑↓ choose · Enter completes, then runs · Esc leaves"
        shown = [Text(""), *lines, Text(""), Text(cut(usage, columns), "cyan"), Text(cut(more, columns), "dim")]
        self.query_one("#commands", Static).update(Text("\n").join(shown))
