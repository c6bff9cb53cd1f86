"""The templates of the pages: Jinja2, loaded when the first page is asked for.

Text from the board is hostile. Everything that a template puts out is escaped for HTML, and before that `text.block`
shows characters that reorder a line or are invisible as escapes. A name that is not defined is an error.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from ...held_files import called
from ...names import short
from ...need_words import about, counted
from ...text import ago, block, parse_rfc3339, rfc3339, span
from . import actions, static_files

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


def render(name: str, values: dict[str, Any]) -> bytes:
    """A page as UTF-8."""
    return _environment().get_template(name).render(values).encode("utf-8", "replace")


def load() -> None:
    """Load all templates now, so that the first page need not wait for them."""
    for name in _environment().list_templates():
        _environment().get_template(name)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.globals.update(href=href, static=static_files.address, actions=actions.ACTIONS, asked=actions.asked)
    made.filters.update(
        at=parse_rfc3339,
        moment=rfc3339,
        span=span,
        ago=_ago,
        lasts=_lasts,
        left=_left,
        calendar=_calendar,
        about=about,
        counted=counted,
        called=called,
        short=_short,
        pretty=_pretty,
    )
    return made


def _shown(value: Any) -> Any:
    """A value as it is put out. What a macro made is HTML already and stays as it is."""
    if type(value) is str:
        return block(value)
    return "" if value is None else value


def href(path: str, *, project: str | None = None, **query: Any) -> str:
    """A link to a page, in a project and with other query parameters; empty ones are left out."""
    given = {"project": project, **query}
    pairs = [(name, str(value)) for name, value in given.items() if value not in (None, "", False)]
    return quote(path) + (f"?{urlencode(pairs)}" if pairs else "")


def _short(agent: str | None) -> str:
    return short(agent or "")


def _ago(at: float | None, now: float) -> str:
    return f"{ago(max(0.0, now - (at or now)))} ago"


def _lasts(since: float, now: float) -> str:
    return f"for {ago(max(0.0, now - since))}"


def _calendar(at: float, zone: str) -> str:
    """A moment as the wall clock of a time zone shows it: Mon 2 Feb 09:00."""
    from datetime import UTC, datetime
    from zoneinfo import ZoneInfo

    shown = datetime.fromtimestamp(at, UTC).astimezone(UTC if zone.upper() == "UTC" else ZoneInfo(zone))
    return f"{shown:%a} {shown.day} {shown:%b %H:%M}"


def _pretty(value: Any) -> str:
    """A JSON value as a person reads it."""
    import json

    return json.dumps(value, indent=2, ensure_ascii=False)


def _left(until: float | None, now: float) -> str:
    """What is left of a lease, in words."""
    if until is None:
        return ""
    return f"{ago(until - now)} left" if until > now else "lapsed"
