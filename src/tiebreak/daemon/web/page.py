"""`@page` declares a page for people: its route, its template, and what every template can use."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...errors import Invalid
from ...operations import find
from ..routes import BROWSER, HTML, Response, route
from . import navigation, static_files, templates

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from ...model import Event
    from ..routes import Request, Schema
    from ..service import Service

    Content = Callable[["Visit"], Awaitable[dict[str, Any] | Response]]

TEXT: dict[str, Any] = {"type": "string"}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
POLICY = (
    (b"content-security-policy", _POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
"""The headers of every page: nothing from other hosts, no script in the page itself, no frames."""
_KNOWN_FOR = 5.0
"""Seconds for which the list of projects is remembered."""
_RECENT = 20_000
"""Events at the end of the log among which the latest ones of an agent or project are looked for."""
_declared: set[str] = set()


class Visit:
    """One request for a page."""

    def __init__(self, service: Service, request: Request, given: dict[str, str]) -> None:
        self.service = service
        self.parameters = request.parameters
        self.project = given.pop("project", "") or None
        """The project that the page is about; None for all."""
        self.given = {name: value for name, value in given.items() if value != ""}
        """The other query parameters. An empty one counts as missing: a form sends all its fields."""
        self.person = service.access.sessions.person(request.headers, request.user)
        """Whose browser this is; "" if it is not signed in."""
        self.cursor = 0
        """The number of the newest event that the page is sure to show."""

    async def read(self, operation: str, **params: Any) -> Any:
        """Run an operation that reads, as the caller may see it, in the project of the page unless one is given."""
        if "project" in find(operation).parameters:
            params.setdefault("project", self.project)
        return await self.service.call(operation, params)

    @property
    def no_events(self) -> str:
        """What to say if `latest` found nothing: a search that was cut does not know what happened before."""
        if self.cursor <= _RECENT:
            return "Nothing has happened yet."
        return f"None of the latest {_RECENT:,} events of the board is about this."

    async def latest(self, limit: int, **filters: Any) -> list[Event]:
        """The latest events that match, newest first. Only the end of the log is looked at, however long it is.

        Every template can say with `no_events` that there are none.
        """
        after = max(0, self.cursor - _RECENT)
        found = await self.read("events.read", after=after, newest=True, limit=limit, **filters)
        return list(reversed(found))

    @staticmethod
    async def together(*reads: Coroutine[Any, Any, Any]) -> list[Any]:
        """Await several reads at once."""
        return list(await asyncio.gather(*reads))

    def count(self, name: str, default: int = 0) -> int:
        """A query parameter that is a number."""
        value = self.given.get(name)
        if value is None:
            return default
        if not value.isascii() or not value.isdecimal() or len(value) > 15:
            raise Invalid(f"{name}: expected a number")
        return int(value)


def page(
    path: str,
    template: str,
    text: str,
    *,
    title: str,
    query: dict[str, Schema] | None = None,
    module: str = "",
    watch: tuple[str, ...] = ("",),
    under: str = "",
    answers: dict[int, str] | None = None,
) -> Callable[[Content], Content]:
    """Declare a function as the content of a page: it returns what its template needs.

    `module` is a script in `static/` for this page alone. `watch` has the beginnings of the names of the events after
    which the page is fetched again (default: all). `under` is the page of the navigation that this one belongs to, if
    it is not in there itself. The content may set `title` anew. It may also return another response than the page;
    `answers` then says what that means.
    """
    known = {"project": {**TEXT, "description": "only this project (default: all)"}, **(query or {})}
    _declared.add(path)

    def declare(content: Content) -> Content:
        @route(
            "GET",
            path,
            text,
            query=known,
            answers={200: "a page", **(answers or {})},
            content={"text/html": TEXT},
            group=BROWSER,
            strangers=True,
            browsers=True,
        )
        async def handle(service: Service, request: Request) -> Response:
            given = request.query()
            if unknown := set(given) - set(known):
                raise Invalid(f"unknown parameter {min(unknown)!a}", hint=f"there is: {', '.join(known)}")
            visit = Visit(service, request, given)
            if visit.project is not None:
                find("upkeep.status").checked({"project": visit.project})
            # The cursor first: an event after it makes the page fetch itself again, one before it is in the page.
            visit.cursor = await service.call("events.last", {})
            shown, projects, now = await visit.together(
                content(visit),  # type: ignore[arg-type]
                _projects(service),
                service.call("upkeep.now", {}),
            )
            if isinstance(shown, Response):
                return shown
            fixed = {"under": under or path, "title": title, "module": module, "watch": watch}
            frame = _frame(visit, projects) | fixed | {"cursor": visit.cursor, "now": now}
            html = templates.render(template, frame | shown)
            return Response(html, type=HTML, headers=POLICY)

        return content

    return declare


def _frame(visit: Visit, projects: list[str]) -> dict[str, Any]:
    """What `base.html` shows around every page."""
    return {
        "project": visit.project,
        "projects": projects,
        "navigation": [each for each in navigation.PAGES if each.path in _declared],
        "board": visit.service.engine.address,
        "version": __version__,
        "static_version": static_files.VERSION,
        "person": visit.person,
        "no_events": visit.no_events,
    }


async def _projects(service: Service) -> list[str]:
    """The names of all projects, for the menu. They are read at most every few seconds."""
    known = _remembered.get(service)
    if known is None or monotonic() - known[0] > _KNOWN_FOR:
        found = await service.call("projects.list", {})
        known = (monotonic(), [each.project for each in found])
        _remembered.clear()
        _remembered[service] = known
    return known[1]


_remembered: dict[Service, tuple[float, list[str]]] = {}
