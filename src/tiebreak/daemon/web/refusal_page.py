"""A refused request, as a page that says what to do.

It is one document without scripts that loads nothing else, because who is refused may load nothing. All text is escaped
by `text.html`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...text import html
from ..browser_sessions import SESSION_LIFE
from ..pages import STATIC, page_policy, prose

if TYPE_CHECKING:
    from ..routes import Problem

_STYLE = (STATIC / "base.css").read_text(encoding="utf-8")
POLICY = page_policy(_STYLE)
"""The headers of the page."""
_HOURS = f"{SESSION_LIFE / 3600:g}"


def _document(title: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n<title>{html(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


_BRAND = '<a class="brand" href="/"><span class="mark" aria-hidden="true"></span>tiebreak</a>'


def refusal(problem: Problem, hint: str, url: str) -> str:
    """A refused request, as a page that says what to do. `url` is the daemon's on its own machine."""
    error = problem.error
    if problem.status == 401:
        title, text = "This browser is not signed in", _how_to_sign_in(error.message, hint, url)
    elif problem.status == 403:
        title = "Open this address yourself"
        text = (
            f"<p>{html(error.message)}.</p><p>Links from other pages do not lead here. Copy the address and paste it "
            "into the address bar.</p>"
        )
    else:
        title = f"{problem.status}"
        text = f"<p>{html(error.message)}</p>" + (f"<p>{prose(hint)}</p>" if hint else "")
    body = f'<header class="refused">{_BRAND}</header>\n<main class="refusal">\n<h1>{html(title)}</h1>\n{text}\n</main>'
    return _document(f"{title} · tiebreak", body)


def _how_to_sign_in(message: str, hint: str, url: str) -> str:
    return (
        "<p>Run this in a terminal on the daemon&#x27;s machine:</p><pre>tb web</pre>"
        f"<p>It opens a link that signs this browser in once: for reading, for {_HOURS} hours. If you have several "
        f"boards, name this one&#x27;s daemon:</p><pre>tb --board {html(url)} web</pre>"
        f"<h2>For programs</h2><p>{prose(message[:1].upper() + message[1:])}: {prose(hint)}.</p>"
        '<p><a href="/docs">The API</a> and <a href="/health">whether the board is healthy</a> can be read on the '
        "daemon&#x27;s machine without signing in.</p>"
    )
