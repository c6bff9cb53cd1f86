"""Interactive shells in terminals of their own: a test presses keys, and reads which words the shell then runs."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from .command import PATIENCE, Tb
from .terminals import Terminal, terminal

PROMPT = "type-here>"


class _Kind(NamedTuple):
    """How a shell is started, and the lines that it starts with. `{pipe}` is where `given` writes its words."""

    command: str
    file: str
    setup: str
    insert_all: str
    """The keys that put all matches into the line. None in fish, which prints them."""


_KINDS = {
    "bash": _Kind(
        "bash --rcfile {file} -i",
        "bashrc",
        """PS1='{prompt}'; set +o history; bind 'set bell-style none'; bind 'set enable-bracketed-paste off'
        given() {{ printf '%s\\0' "$@" '' >{pipe}; }}
        eval "$(tb completion bash)"
        """,
        "\x1b*",
    ),
    "zsh": _Kind(
        "zsh -i",
        ".zshrc",
        """PS1='{prompt}'; unsetopt zle_bracketed_paste prompt_sp beep; unset zle_bracketed_paste; bindkey -e
        autoload -Uz compinit && compinit -u -D
        given() {{ printf '%s\\0' "$@" '' >{pipe} }}
        insert-all() {{ _main_complete; compstate[insert]=all; compstate[list]= }}
        zle -C insert-all complete-word insert-all && bindkey '^X*' insert-all
        eval "$(tb completion zsh)"
        """,
        "\x18*",
    ),
    "fish": _Kind(
        "fish --no-config -i --init-command 'source {file}'",
        "start.fish",
        """function fish_prompt; echo -n '{prompt}'; end
        set -g fish_autosuggestion_enabled 0; set -g fish_greeting
        function given; printf '%s\\0' $argv '' >{pipe}; end
        function offered; given (complete -C $argv[1] | string replace -r '\\t.*' ''); end
        tb completion fish | source
        """,
        "",
    ),
}


class Shell:
    """A running shell. Its `given` writes the words that it got, instead of running anything."""

    def __init__(self, name: str, screen: Terminal, pipe: int) -> None:
        self.name = name
        self._screen = screen
        self._pipe = pipe

    def pressing_tab(self, typed: str) -> list[str]:
        """The words of the line after a Tab at its end."""
        return self._enter(f"{typed}\t\x01given \r")

    def offered(self, typed: str) -> list[str]:
        """All words that are offered at the end of a line. The line itself has no quotes."""
        keys = _KINDS[self.name].insert_all
        if not keys:
            return self._enter(f"offered '{typed}'\r")
        before = len(typed.split()) - (not typed.endswith(" "))
        found = self._enter(f"{typed}{keys}\x01given \r")[before:]
        return [] if found == [typed.rsplit(maxsplit=1)[-1]] else found

    def _enter(self, keys: str) -> list[str]:
        self._screen.screen = b""
        self._screen.type(keys)
        found = self._read(keys)
        assert self._screen.read(until=PROMPT.encode(), patience=PATIENCE), self._screen.screen
        return found

    def _read(self, keys: str) -> list[str]:
        """The words from `given`: each ends in a NUL, and an empty one ends them all."""
        end, found = time.monotonic() + PATIENCE, b""
        while not (found == b"\0" or found.endswith(b"\0\0")):
            ready = select.select([self._pipe, self._screen.master], [], [], max(0.0, end - time.monotonic()))[0]
            assert ready, f"{self.name} did not run {keys!r}: {self._screen.screen!r}"
            if self._pipe in ready:
                found += os.read(self._pipe, 65536)
            else:
                self._screen.screen += os.read(self._screen.master, 65536)
        return [os.fsdecode(word) for word in found.split(b"\0")[:-2]]


@contextmanager
def interactive(name: str, tb: Tb) -> Iterator[Shell]:
    """A shell of this name in the folder of `tb`, with its completion loaded."""
    kind, pipe = _KINDS[name], tb.folder / f"{name}.pipe"
    file = tb.folder / kind.file
    file.write_text(kind.setup.format(prompt=PROMPT, pipe=pipe))
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    with terminal(columns=200) as screen:
        command = kind.command.format(file=file)
        running = screen.start(tb, "sh", "-c", f"exec {command}", env={"ZDOTDIR": str(tb.folder)})
        try:
            assert screen.read(until=PROMPT.encode()), screen.screen
            yield Shell(name, screen, reading)
        finally:
            running.kill()
            running.wait()
            os.close(reading)
