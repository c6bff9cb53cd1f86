"""Text from the board is shown as text: nothing in it runs, loads or leads anywhere."""

from __future__ import annotations

from playwright.sync_api import expect

import tiebreak.program.daemon_assembly  # noqa: F401  (declares the routes)
from tiebreak import Board
from tiebreak.daemon.routes import ROUTES

from .conftest import Visitor
from .every_page import SHOWN, furnish

RUN = "hacked()"
OPENINGS = ("", '">', "'>", "</script>", "</title>", "</textarea>", "-->", "]]>", "\\u003e", "{{7*7}}", "{%raw%}", "`")
BODIES = (
    f"<script>{RUN}</script>",
    f"<img src=x onerror={RUN}>",
    f"<svg onload={RUN}>",
    f"<details open ontoggle={RUN}>",
    f"<a href='javascript:{RUN}' autofocus onfocus={RUN}>x</a>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"<style>@import '//evil.example/x.css'</style><link rel=stylesheet href=//evil.example/{RUN}>",
    f"<base href=//evil.example/><form action=javascript:{RUN}><button>",
    f"javascript:{RUN}//",
)
PAYLOADS = [opening + body for opening in OPENINGS for body in BODIES][:108]
TRAP = "window.ran = 0; window.hacked = window.alert = () => { window.ran += 1; };"


def test_there_are_at_least_a_hundred_payloads() -> None:
    assert len(set(PAYLOADS)) >= 100


def test_every_page_is_looked_at() -> None:
    pages = {each.path for each in ROUTES if each.browsers and list(each.content) == ["text/html"]}
    assert pages - {"/docs", "/web/enter"} == set(SHOWN)


def test_no_payload_runs_on_any_page_in_any_field(visitor: Visitor, board: Board) -> None:
    addresses = furnish(board, PAYLOADS)
    visitor.context.add_init_script(TRAP)
    loaded: list[str] = []
    visitor.context.on("request", lambda request: loaded.append(request.url))
    page = visitor.sign_in("--write")
    for address in addresses:
        visitor.go(page, address)
        board.messages.send(body=f"word {PAYLOADS[0]}")
        page.evaluate("document.dispatchEvent(new CustomEvent('tiebreak:acted', { detail: {} }))")  # it is merged, too
        expect(page.locator("main")).to_have_attribute("data-cursor", str(board.events.last()))
        if address != "/board":  # which shows nothing that agents wrote
            assert RUN in str(page.locator("main").text_content()), f"{address} shows none of it"
        assert page.evaluate("window.ran") == 0, address
        assert page.locator("main :is(img, iframe, style, link, base, object, embed)").count() == 0
        found = page.evaluate(
            "[...document.querySelectorAll('*')].flatMap((e) => [...e.attributes])"
            ".filter((a) => /^on/i.test(a.name) || /^\\\\s*javascript:/i.test(a.value) && a.name === 'href').length"
        )
        assert found == 0, address
    assert [url for url in loaded if not url.startswith((visitor.daemon.url, "data:"))] == []


def test_a_payload_in_a_question_does_not_run_in_the_dialog(visitor: Visitor, board: Board) -> None:
    visitor.context.add_init_script(TRAP)
    for payload in PAYLOADS[:9]:
        board.questions.ask(text=payload, choices=[payload[:200], "no"])
    page = visitor.sign_in("--write")
    for button in page.get_by_role("button", name="Answer", exact=True).all():
        button.click()
        assert RUN in page.locator("#act").inner_text()
        page.keyboard.press("Escape")
    assert page.evaluate("window.ran") == 0


def test_a_hostile_address_is_refused_as_text(visitor: Visitor) -> None:
    visitor.expected = ["400", "404", "Failed to load"]
    visitor.context.add_init_script(TRAP)
    page = visitor.sign_in()
    for query in (
        "?x=<script>hacked()</script>",
        "agent?project=a&name=<img src=x onerror=hacked()>",
        "?project=<svg>",
    ):
        page.goto(f"{visitor.daemon.url}/{query}")
        assert page.evaluate("window.ran") == 0
        assert page.locator("h1").is_visible()


def test_text_that_reorders_or_hides_is_shown_as_escapes(visitor: Visitor, board: Board) -> None:
    board.messages.send(body="abc\u202edef\u200bghi\x1b[31m")
    page = visitor.sign_in(at="/messages")
    assert "abc\\u202edef\\u200bghi\\x1b[31m" in page.locator("main").inner_text()
