"""A recording of a command as an animated SVG: its lines appear when the command printed them.

The picture is text: small, sharp, and readable in light and dark. It uses no script, so it also moves where a page
shows it as an image. Pauses are shortened, so that nobody waits for the next line.
"""

from __future__ import annotations

import os
import subprocess
import sys
from html import escape
from itertools import pairwise
from time import monotonic
from typing import NamedTuple

LINES = 26
"""Lines of the window."""
COLUMNS = 100
_PAUSE = 1.2
"""Seconds between two lines, at most."""
_STAY = 8.0
"""Seconds for which the end is shown before it begins again."""
_HEIGHT, _WIDTH, _TOP, _LEFT = 19, 8.1, 52, 20


class Said(NamedTuple):
    """A line, and when it was printed: seconds after the start."""

    at: float
    text: str


def record(command: list[str], environment: dict[str, str], input_text: str = "") -> list[Said]:
    """Run a command and note when it prints each line. Its output is a pipe, so it prints plain lines."""
    began = monotonic()
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment, "NO_COLOR": "1", "COLUMNS": str(COLUMNS)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output = process.stdout or ()
    said = []
    for line in output:
        said.append(Said(monotonic() - began, line.rstrip("\n")[:COLUMNS]))
        sys.stderr.write(line)
    if process.wait():
        raise SystemExit(f"{' '.join(command)} failed with {process.returncode}")
    return said


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
    height = _TOP + LINES * _HEIGHT + 14
    width = round(_LEFT * 2 + COLUMNS * _WIDTH)
    steps = [(0.0, 0)]  # by how many lines the text has moved up, from when on
    for i, line in enumerate(said):
        if i >= LINES:
            steps.append((line.at, i - LINES + 1))
    steps.append((length, steps[-1][1]))
    moves = "".join(f"{100 * at / length:.2f}%{{transform:translateY({-_HEIGHT * up}px)}}" for at, up in steps)
    shown = "".join(
        f'<text y="{_HEIGHT * i}" style="animation-delay:{line.at:.2f}s">{_coloured(line.text)}</text>'
        for i, line in enumerate(said)
        if line.text.strip()
    )
    return _SVG.format(
        title=escape(title),
        width=width,
        height=height,
        right=width - 1,
        bottom=height - 1,
        length=f"{length:.2f}",
        moves=moves,
        text=shown,
        left=_LEFT,
        top=_TOP,
        clip=LINES * _HEIGHT + 8,
        clip_top=_TOP - 15,
        middle=width / 2,
    )


_COLOURS = {
    **dict.fromkeys(("won", "recovered", "retried", "answered", "ok", "Proved:"), "g"),
    **dict.fromkeys(("killed", "paused", "fenced", "failed", "refused"), "b"),
    **dict.fromkeys(("$", "asked", "watch"), "c"),
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
g g text{{opacity:0;animation:show .01s linear forwards}}
@keyframes show{{to{{opacity:1}}}}
.up{{animation:up {length}s step-end forwards}}
@keyframes up{{{moves}}}
@media(prefers-reduced-motion:reduce){{g g text{{animation:none;opacity:1}}}}
</style>
<rect x=".5" y=".5" width="{right}" height="{bottom}" rx="10" fill="var(--back)" stroke="var(--line)"/>
<circle cx="20" cy="18" r="5" fill="var(--line)"/><circle cx="37" cy="18" r="5" fill="var(--line)"/>
<circle cx="54" cy="18" r="5" fill="var(--line)"/>
<text class="t" x="{middle}" y="22" text-anchor="middle">{title}</text>
<clipPath id="w"><rect x="0" y="{clip_top}" width="{width}" height="{clip}"/></clipPath>
<g clip-path="url(#w)"><g class="up"><g transform="translate({left} {top})">{text}</g></g></g>
</svg>
"""
