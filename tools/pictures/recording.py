"""A recording of a command as an animated SVG: its lines appear when the command printed them, again and again.

The picture is text: small, sharp, and readable in light and dark. It uses no script, so it also moves where a page
shows it as an image. Pauses are shortened, so that nobody waits for the next line. The window has room for all lines:
at the end of each round, and wherever nothing moves (a reader without animations, or a person who does not want any),
the whole story is there.
"""

from __future__ import annotations

import os
import pty
import re
import sys
import termios
from html import escape
from itertools import pairwise
from time import monotonic
from typing import NamedTuple

COLUMNS = 84
_PAUSE = 1.2
"""Seconds between two lines, at most."""
_STAY = 20.0
"""Seconds for which the end is shown before it begins again."""
_FIRST = 4.0
"""Seconds for which the end is shown first: whoever looks for a moment, or at a still of it, sees the whole story."""
_HEIGHT, _WIDTH, _TOP, _LEFT = 19, 8.13, 56, 20
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Said(NamedTuple):
    """A line, and when it was printed: seconds after the start."""

    at: float
    text: str


def record(command: list[str], answers: dict[str, str]) -> list[Said]:
    """Run a command on a terminal of its own, and note when each line is complete.

    `answers` are what a person types as soon as the command has asked.
    """
    began = monotonic()
    pid, terminal = pty.fork()
    if not pid:
        os.execvpe(command[0], command, {**os.environ, "NO_COLOR": "1", "TERM": "xterm"})  # noqa: S606
    termios.tcsetwinsize(terminal, (50, COLUMNS))
    said, line = [], ""
    while piece := _read(terminal):
        line += piece
        for question in [each for each in answers if each in line]:
            os.write(terminal, f"{answers.pop(question)}\n".encode())
        *complete, line = line.split("\n")
        for each in complete:
            text = last_shown(each)
            sys.stderr.write(f"{text}\n")
            said.append(Said(monotonic() - began, text))
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit(f"{' '.join(command)} failed with {code}")
    return said


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 65536).decode("utf-8", "replace")
    except OSError:  # the command has ended
        return ""


def last_shown(line: str) -> str:
    """What stands in a line in the end: whatever was overwritten is gone."""
    return _CONTROL.sub("", line.rstrip("\r").rpartition("\r")[2]).rstrip()


def shortened(said: list[Said]) -> list[Said]:
    """The same lines without long pauses."""
    out, at = [], 0.4
    for before, now in pairwise([Said(0.0, ""), *said]):
        at += min(_PAUSE, max(0.02, now.at - before.at))
        out.append(Said(at, now.text))
    return out


def animated(title: str, said: list[Said]) -> str:
    """The recording as an SVG."""
    said = shortened(said)
    length = said[-1].at + _STAY
    height = _TOP + len(said) * _HEIGHT
    width = round(_LEFT * 2 + COLUMNS * _WIDTH)
    lines = [(i, line) for i, line in enumerate(said) if line.text.strip()]
    # Lines that appear together share a rule. Without it, a line is simply there.
    moments = {f"{100 * line.at / length:.1f}": None for _, line in lines}
    names = {moment: f"a{i}" for i, moment in enumerate(moments)}
    moves = "\n".join(
        f"@keyframes {name}{{0%{{opacity:0}}{moment}%{{opacity:1}}}}.{name}{{animation-name:{name}}}"
        for moment, name in names.items()
    )
    shown = "\n".join(
        f'<text class="{names[f"{100 * line.at / length:.1f}"]}" y="{_HEIGHT * i}">{_coloured(line.text)}</text>'
        for i, line in lines
    )
    return _SVG.format(
        title=escape(title),
        width=width,
        height=height,
        right=width - 1,
        bottom=height - 1,
        length=f"{length:.1f}",
        begin=f"{length - _FIRST:.1f}",
        moves=moves,
        text=shown,
        left=_LEFT,
        top=_TOP,
        middle=width / 2,
    )


_COLOURS = {
    **dict.fromkeys(("won", "recovered", "retried", "answered", "fenced", "ok", "Proved:"), "g"),
    **dict.fromkeys(("killed", "paused", "NO"), "b"),
    **dict.fromkeys(("$", "asked", "watch", "board"), "c"),
}


def _coloured(line: str) -> str:
    """The line with its first word in a colour that says what kind of line it is."""
    word = line.split(maxsplit=1)[0]
    style = _COLOURS.get(word)
    if style is None:
        return escape(line)
    before, after = line.split(word, 1)
    return f'{escape(before)}<tspan class="{style}">{escape(word)}</tspan>{escape(after)}'


_SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">
<style>
svg{{--back:#fbfbf9;--ink:#20242b;--line:#dcddd7;--soft:#5b6472;--good:#0b6b63;--bad:#a3262a;--accent:#8f4a06}}
@media(prefers-color-scheme:dark){{
svg{{--back:#14171b;--ink:#e6e8ea;--line:#30363d;--soft:#9aa4b1;--good:#5cc9bc;--bad:#f0908c;--accent:#e8a860}}}}
text{{font:13.5px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:var(--ink);white-space:pre}}
.b{{fill:var(--bad)}}.g{{fill:var(--good)}}.c{{fill:var(--accent);font-weight:600}}.t{{fill:var(--soft)}}
@media(prefers-reduced-motion:no-preference){{
g text{{animation:{length}s -{begin}s step-end infinite}}
{moves}
}}
</style>
<rect x=".5" y=".5" width="{right}" height="{bottom}" rx="10" fill="var(--back)" stroke="var(--line)"/>
<circle cx="20" cy="18" r="5" fill="var(--line)"/><circle cx="37" cy="18" r="5" fill="var(--line)"/>
<circle cx="54" cy="18" r="5" fill="var(--line)"/>
<text class="t" x="{middle}" y="22" text-anchor="middle">{title}</text>
<g transform="translate({left} {top})">
{text}
</g>
</svg>
"""
