"""Small panels of lines over time, as an SVG that is written by hand: no library is worth having for one figure."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT = 920, 640
MARGIN, TOP, GAP = 24, 96, 24
LEFT, BOTTOM, HEAD = 52, 40, 34
"""What a panel needs for the figures on its left, the minutes below and the title above."""
COLOURS = ("#1f5fa8", "#c8501e", "#5a5a5a")
_STYLE = """
  text { font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #24292f }
  .title { font-size: 18px; font-weight: 600 } .subtitle { font-size: 12.5px; fill: #57606a }
  .name { font-size: 13.5px; font-weight: 600 } .tick, .unit { font-size: 11px; fill: #57606a }
  .grid { stroke: #d8dee4; stroke-width: 1 } .axis { stroke: #8c959f; stroke-width: 1 }
  .dash { stroke-width: 2.5 } .line { fill: none; stroke-width: 1.6; stroke-linejoin: round } .key { font-size: 11.5px }
  .third { fill: #f3f5f7 } .median { stroke-width: 1.4; stroke-dasharray: 5 4; opacity: 0.75 }
"""


class Line(NamedTuple):
    """Values at the moments of the figure; the medians of its middle and last third are drawn beside them."""

    name: str
    values: Sequence[float]
    medians: tuple[float, float] | None = None


class Panel(NamedTuple):
    """One small diagram."""

    name: str
    unit: str
    lines: Sequence[Line]


def figure(title: str, subtitles: Sequence[str], minutes: Sequence[float], panels: Sequence[Panel]) -> str:
    """Panels in two columns over the same time."""
    wide = (WIDTH - 2 * MARGIN - GAP) / 2
    rows = math.ceil(len(panels) / 2)
    high = (HEIGHT - TOP - MARGIN - GAP * (rows - 1)) / rows
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{escape(title, quote=True)}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text class="title" x="{MARGIN}" y="38">{escape(title)}</text>',
        *(_text("subtitle", MARGIN, 60 + 18 * i, each) for i, each in enumerate(subtitles)),
    ]
    for i, panel in enumerate(panels):
        x, y = MARGIN + (i % 2) * (wide + GAP), TOP + (i // 2) * (high + GAP)
        parts += _panel(panel, minutes, x + LEFT, y + HEAD, wide - LEFT, high - HEAD - BOTTOM)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, minutes: Sequence[float], left: float, top: float, wide: float, high: float) -> list[str]:
    """The grid, the last two thirds in grey, the lines with their medians, and what all of it is called."""
    last = max(minutes[-1], 1e-9)
    steps = _steps(max(max(line.values) for line in panel.lines))
    bottom, right = top + high, left + wide

    def at(minute: float) -> float:
        return left + wide * minute / last

    def up(value: float) -> float:
        return bottom - high * value / steps[-1]

    parts = [
        f'<rect class="third" x="{at(last / 3):.1f}" y="{top:.1f}" width="{wide * 2 / 3:.1f}" height="{high:.1f}"/>'
    ]
    for step in steps:
        parts.append(f'<line class="grid" x1="{left:.1f}" x2="{right:.1f}" y1="{up(step):.1f}" y2="{up(step):.1f}"/>')
        parts.append(_text("tick", left - 8, up(step) + 4, _figure(step), "end"))
    for step in _steps(last, inside=True):
        parts.append(
            f'<line class="axis" x1="{at(step):.1f}" x2="{at(step):.1f}" y1="{bottom:.1f}" y2="{bottom + 4:.1f}"/>'
        )
        parts.append(_text("tick", at(step), bottom + 17, _figure(step), "middle"))
    parts.append(f'<line class="axis" x1="{left:.1f}" x2="{right:.1f}" y1="{bottom:.1f}" y2="{bottom:.1f}"/>')
    parts.append(_text("unit", (left + right) / 2, bottom + 33, "minutes", "middle"))
    parts.append(_text("name", left - LEFT + 4, top - 14, f"{panel.name} ({panel.unit})" if panel.unit else panel.name))
    for number, line in enumerate(panel.lines):
        colour = COLOURS[number]
        points = " ".join(f"{at(m):.1f},{up(v):.1f}" for m, v in zip(minutes, line.values, strict=True))
        parts.append(f'<polyline class="line" stroke="{colour}" points="{points}"/>')
        for third, value in enumerate(line.medians or ()):
            x1, x2 = at(last * (third + 1) / 3), at(last * (third + 2) / 3)
            parts.append(
                f'<line class="median" stroke="{colour}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{up(value):.1f}" '
                f'y2="{up(value):.1f}"/>'
            )
        if len(panel.lines) > 1:
            x = right - 96 * (len(panel.lines) - number) + 8
            y = f"{top - 18:.1f}"
            parts.append(f'<line class="dash" stroke="{colour}" x1="{x:.1f}" x2="{x + 16:.1f}" y1="{y}" y2="{y}"/>')
            parts.append(_text("key", x + 21, top - 14, line.name))
    return parts


def _text(style: str, x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _steps(most: float, *, inside: bool = False) -> list[float]:
    """Round figures from 0 to just above the largest value, or just below it."""
    most = max(most, 1e-9)
    size = 10 ** math.floor(math.log10(most / 4))
    step = next(size * each for each in (1, 2, 2.5, 5, 10) if size * each >= most / 5)
    count = math.floor(most / step + 1e-9) if inside else math.ceil(most * 1.05 / step)
    return [step * i for i in range(count + 1)]


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:g}"
