"""Tells the demonstration on the terminal: calm lines, and below them one line that is overwritten."""

from __future__ import annotations

import os
import select
import sys
import time
from typing import TYPE_CHECKING

from ..text import Styled, cut, plain, style, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from .proof import Proof

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
        self._print(f"{style(f'{mark:>9}', meaning, on=self._colour)}  {text}")

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
            width = os.get_terminal_size(sys.stdout.fileno()).columns - 1
            shown = cut(f"{seconds:7.0f} s  {text}", width)
            if shown != self._shown:
                print(f"\r\x1b[K{style(shown, 'dim', on=self._colour)}", end="", flush=True)
                self._shown = shown
        elif seconds - self._told >= _PLAIN_EVERY:
            self._told = seconds
            self._print(f"{seconds:7.0f} s  {text}")

    def blank(self) -> None:
        """An empty line."""
        self._print("")

    def ask(self, question: str, seconds: float, meanwhile: Callable[[], None]) -> str:
        """What a person types within some seconds; "" if nobody does, or nobody is there."""
        if self._silent or not (self._live and sys.stdin.isatty()):
            return ""
        print(f"\r\x1b[K{style(question, 'warn', on=self._colour)} ", end="", flush=True)
        self._shown = ""
        self._asking = True
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                if select.select([sys.stdin], [], [], 0.1)[0]:
                    return sys.stdin.readline().strip()
                meanwhile()
        finally:
            self._asking = False
        print()
        return ""

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
