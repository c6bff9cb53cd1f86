"""Tells the demonstration on the terminal: calm lines, and below them one line that is overwritten."""

from __future__ import annotations

import os
import select
import sys
import textwrap
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..choices import chosen
from ..text import Styled, cut, plain, style, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .proof import Proof

_INDENT = " " * 11
_PLAIN_EVERY = 10.0
"""Seconds between two lines of progress where nothing can be overwritten."""


class Narrator:
    """Prints what happens, or nothing if the caller wants JSON."""

    def __init__(self, print_line: Callable[[str], None], *, silent: bool, colour: bool) -> None:
        self._print_line = print_line
        self._silent = silent
        self._colour = colour
        self._live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not silent
        self._told = 0.0
        self._shown = ""
        self._asking = False

    def say(self, mark: str, text: str, meaning: str = "accent") -> None:
        """One line: a word that is found again by its colour, and a sentence."""
        lines = textwrap.wrap(text, self._columns() - len(_INDENT), break_long_words=False, break_on_hyphens=False)
        told = f"\n{_INDENT}".join(lines)
        self._print(f"{style(f'{mark:>9}', meaning, on=self._colour)}  {told}")

    def link(self, link: str, text: str) -> None:
        """A link that a person can click or copy: in a line of its own, as most are too long for an indented one."""
        self.say("watch", f"{text}:")
        self._print(link)

    def _columns(self) -> int:
        """How wide a line may be; where nobody looks, it is as long as it is."""
        wide = os.get_terminal_size(sys.stdout.fileno()).columns if self._live else 0
        return max(wide, 40) if wide else 10_000

    def _print(self, text: str) -> None:
        if not self._silent:
            before = "\r\x1b[K" if self._shown else ""
            self._print_line(f"{before}{text}")
            self._shown = ""

    def progress(self, seconds: float, text: str) -> None:
        """How far it is: overwritten on a terminal, a line now and then elsewhere."""
        if self._asking:
            return  # it would overwrite what the person types
        if self._live:
            shown = cut(f"{seconds:7.0f} s  {text}", self._columns() - 1)
            if shown != self._shown:
                print(f"\r\x1b[K{style(shown, 'dim', on=self._colour)}", end="", flush=True)
                self._shown = shown
        elif seconds - self._told >= _PLAIN_EVERY:
            self._told = seconds
            self._print(f"{seconds:7.0f} s  {text}")

    def blank(self) -> None:
        """An empty line."""
        self._print("")

    def ask(self, choices: Sequence[str], seconds: float, meanwhile: Callable[[], None]) -> str:
        """The choice that a person types within some seconds; "" if nobody does, or nobody is there."""
        if not self._has_person():
            return ""
        end = time.monotonic() + seconds
        prompt = f"your answer ({' or '.join(choices)}; {seconds:.0f} s):"
        self._asking = True
        try:
            with _echo(on=True):
                self._prompt(prompt)
                while time.monotonic() < end:
                    if select.select([sys.stdin], [], [], 0.1)[0]:
                        # Not `sys.stdin.readline`: it may read more than a line, which `select` does not see then.
                        typed = os.read(sys.stdin.fileno(), 4096).decode("utf-8", "replace")
                        if not typed:
                            break  # Ctrl-D
                        typed = typed.strip()
                        if said := chosen(typed, choices):
                            return said
                        self._prompt(f"{plain(typed)!r} is none of them: {' or '.join(choices)}?" if typed else prompt)
                    meanwhile()
                print()
        finally:
            self._asking = False
        return ""

    def _prompt(self, text: str) -> None:
        print(f"\r\x1b[K{_INDENT}{style(text, 'warn', on=self._colour)} ", end="", flush=True)
        self._shown = ""

    def _has_person(self) -> bool:
        """Whether somebody looks and can type: on a terminal, and not in its background."""
        if not (self._live and sys.stdin.isatty()):
            return False
        try:
            return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
        except OSError:
            return True  # a terminal without a foreground and a background

    @contextmanager
    def keys_wait(self) -> Iterator[None]:
        """Inside, keys are shown only while `ask` asks. What was typed at other times is nobody's answer or command."""
        if not self._has_person():
            yield
            return
        with _echo(on=False):
            yield

    def prove(self, proof: Proof) -> None:
        """The proof as a table, and the verdict."""
        rows: list[list[str]] = [
            [Styled("ok" if each.holds else "NO", "good" if each.holds else "bad"), each.name, each.found, each.wanted]
            for each in proof.checks
        ]
        self._print(table(rows, header=["", "from the log", "found", "wanted"], right={2}, colour=self._colour))

    def next_steps(self, steps: dict[str, str]) -> None:
        """What to type next."""
        wide = max(map(len, steps))
        for command, text in steps.items():
            self._print(f"  {style(plain(command.ljust(wide)), 'accent', on=self._colour)}  {text}")


@contextmanager
def _echo(*, on: bool) -> Iterator[None]:
    """Show what is typed, or do not, and throw away what was typed before and what is left afterwards."""
    import termios

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    modes = termios.tcgetattr(terminal)
    modes[3] = modes[3] | termios.ECHO if on else modes[3] & ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSAFLUSH, modes)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
