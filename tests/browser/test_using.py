"""Pages are usable: by keyboard, with a screen reader, in light and dark, on a phone, and without scripts."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, expect

from tests.daemons import Serving
from tiebreak import Board

from .conftest import Visitor
from .every_page import furnish

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
COLOURS = {"runOnly": ["color-contrast"]}
TEXTS = ["a plain text", "another one, " + 30 * "long", "and-one-without-any-blank-" + 20 * "x"]


@pytest.mark.parametrize(
    "visitor", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True, ids=["light", "dark"]
)
def test_axe_finds_nothing_wrong_on_any_page(visitor: Visitor, board: Board, request: pytest.FixtureRequest) -> None:
    rules = COLOURS if "dark" in request.node.name else None  # nothing else differs
    page = visitor.sign_in("--write")
    for address in furnish(board, TEXTS):
        visitor.go(page, address)
        found = Axe().run(page, options=rules).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], address
    page.keyboard.press("?")
    assert Axe().run(page, {"include": [["#help"]]}).violations_count == 0


@pytest.mark.parametrize("visitor", [PHONE], indirect=True, ids=["phone"])
def test_no_page_scrolls_sideways_on_a_phone(visitor: Visitor, board: Board) -> None:
    page = visitor.sign_in("--write")
    for address in furnish(board, TEXTS):
        visitor.go(page, address)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address


@pytest.mark.parametrize("visitor", [PHONE], indirect=True, ids=["phone"])
def test_pausing_does_not_move_the_page_on_a_phone(visitor: Visitor, board: Board) -> None:
    page = visitor.sign_in()
    top = "document.querySelector('main').getBoundingClientRect().top"
    before = page.evaluate(top)
    page.keyboard.press("p")
    board.tasks.import_(entries=[{"name": f"task {number}"} for number in range(100)])
    expect(page.locator("#live-status")).to_have_text("Paused, 100 events wait")
    assert page.evaluate(top) == before
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.closest('[data-row]')?.dataset.key ?? ''"))


def test_rows_are_reached_and_opened_by_keys(visitor: Visitor, board: Board) -> None:
    furnish(board, TEXTS)
    page = visitor.sign_in()
    page.keyboard.press("j")
    first = focused(page)
    page.keyboard.press("j")
    assert focused(page) not in ("", first)
    page.keyboard.press("k")
    assert focused(page) == first
    visitor.go(page, "/agents")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/agent?**")


def test_pages_are_reached_by_keys_and_keep_the_project(visitor: Visitor, board: Board) -> None:
    board.messages.send(body="hello")
    page = visitor.sign_in()
    for key, path in (("m", "/messages"), ("a", "/agents"), ("n", "/")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(f"{visitor.daemon.url}{path}?project={board.project}")


def test_keys_mean_letters_while_somebody_types(visitor: Visitor, board: Board) -> None:
    board.messages.send(body="gap in the page")
    page = visitor.sign_in(at="/messages")
    page.keyboard.press("/")
    page.keyboard.type("gap")
    assert page.locator("input[type=search]").input_value() == "gap"
    assert page.locator("#live-status").inner_text() == "Live", "p did not pause"
    page.keyboard.press("Enter")
    page.wait_for_url("**/messages?**q=gap")
    expect(page.locator("main")).to_contain_text("gap in the page")


def test_help_lists_the_keys_and_closes(visitor: Visitor, board: Board) -> None:
    page = visitor.sign_in()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()


def test_the_menu_closes_by_escape_and_by_a_click_elsewhere(visitor: Visitor, board: Board) -> None:
    page = visitor.sign_in()
    menu, summary = page.locator(".menu ul"), page.locator(".menu summary")
    summary.click()
    expect(menu).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    expect(summary).to_be_focused()
    summary.click()
    expect(menu).to_be_visible()
    page.locator("footer").click()
    expect(menu).to_be_hidden()
    summary.click()
    menu.get_by_role("link", name="All projects").click()
    page.wait_for_url(f"{visitor.daemon.url}/")


def test_the_buttons_of_a_dialog_are_of_one_size_on_every_page(visitor: Visitor, board: Board) -> None:
    number = board.tasks.post(name="some work").number
    page = visitor.sign_in("--write", at=f"/tasks/{number}")
    page.get_by_role("button", name="Comment").click()
    sizes = [each.bounding_box() for each in page.locator("#act .buttons button").all()]
    assert len({(each["y"], each["height"]) for each in sizes if each}) == 1


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/messages?q=!!", "No message contains all these words."),
        ("/messages?agent=nobody", "nobody has neither sent nor been sent a message."),
    ],
)
def test_an_empty_list_of_messages_says_why(visitor: Visitor, board: Board, path: str, words: str) -> None:
    board.messages.send(body="hello")
    page = visitor.sign_in(at=path)
    expect(page.locator(".none")).to_have_text(words)


def test_what_an_agent_completed_leads_to_the_task(visitor: Visitor, board: Board) -> None:
    task = board.tasks.claim(ref="login", create=True)
    board.tasks.complete("login")
    page = visitor.sign_in(at="/agent?name=ann")
    page.get_by_role("region", name="Completed").get_by_role("link", name="login").click()
    expect(page.locator("h1")).to_have_text(f"#{task.number} login")
    expect(page.locator("#live-status")).to_have_text("Live")


def test_a_page_is_complete_without_scripts(browser: Browser, daemon: Serving, board: Board) -> None:
    context = browser.new_context(java_script_enabled=False)
    visitor = Visitor(context, daemon, board.project)
    board.questions.ask(text="which database?")
    page = visitor.page()
    page.goto(visitor.link())
    page.goto(f"{daemon.url}/?project={board.project}")
    expect(page.locator("main")).to_contain_text("which database?")
    expect(page.locator("#pause")).to_be_hidden()
    page.get_by_role("link", name="Agents").click()
    expect(page.locator("h1")).to_have_text("Agents")
    context.close()


def test_ages_go_on_while_a_page_is_open(visitor: Visitor, board: Board) -> None:
    board.tasks.post(name="some work")
    page = visitor.page()
    page.clock.install()
    page.goto(visitor.link())
    visitor.go(page, "/")
    page.keyboard.press("p")  # a page that is fetched again would have the daemon's time
    page.clock.run_for(120_000)
    expect(page.locator(".ticker time").first).to_contain_text("2m ago")


def test_a_command_is_copied(visitor: Visitor, board: Board) -> None:
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    number = board.questions.ask(text="which database?").number
    page = visitor.sign_in()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == f"tb answer {number}"
