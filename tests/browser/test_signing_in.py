"""Signing a browser in for reading and for acting, and out again."""

from __future__ import annotations

from playwright.sync_api import expect

from tiebreak import Board

from .conftest import Visitor

KEY = "sessionStorage.getItem('tiebreak-write-key')"


def test_a_link_for_reading_shows_no_button_that_acts(visitor: Visitor, board: Board) -> None:
    board.questions.ask(text="which database?")
    page = visitor.sign_in()
    expect(page.locator("main")).to_contain_text("which database?")
    expect(page.locator("footer")).to_contain_text("This browser reads.")
    assert page.locator("button.act").count() > 0
    assert not any(each.is_visible() for each in page.locator("button.act").all())
    assert page.evaluate(KEY) is None


def test_a_link_for_acting_leaves_no_key_in_the_address(visitor: Visitor, board: Board) -> None:
    page = visitor.page()
    page.goto(visitor.link("--write"))
    expect(page.locator("footer")).to_contain_text("This browser acts as maria")
    assert page.url == f"{visitor.daemon.url}/"
    assert len(page.evaluate(KEY)) == 43
    assert page.evaluate("history.length") <= 2
    assert page.evaluate("document.cookie") == "", "scripts do not see the cookie"


def test_a_second_tab_may_act_too_and_a_tab_can_stop_acting(visitor: Visitor, board: Board) -> None:
    first = visitor.sign_in("--write")
    second = visitor.go(visitor.page(), "/")
    expect(second.get_by_role("button", name="New task")).to_be_visible()
    first.get_by_role("button", name="Only read from now on").click()
    expect(first.get_by_role("button", name="New task")).to_be_hidden()


def test_signing_out_ends_pages_that_are_open_and_their_keys(visitor: Visitor, board: Board) -> None:
    visitor.expected = ["401"]
    page = visitor.sign_in("--write")
    visitor.tb("--json", "web", "--out")
    board.tasks.post(name="unseen")
    expect(page.locator("#live-status")).to_have_text("Signed out: run tb web")
    page.get_by_role("button", name="New task").click()
    page.get_by_label("What is to be done").fill("too late")
    page.locator("dialog .confirm").click()
    expect(page.locator("dialog .problem")).to_contain_text("may not act any more")
    assert page.evaluate(KEY) is None
    assert [each.name for each in board.tasks.list()] == ["unseen"]


def test_a_browser_that_is_not_signed_in_is_told_how(visitor: Visitor) -> None:
    visitor.expected = ["401"]
    page = visitor.page()
    page.goto(visitor.daemon.url)
    expect(page.locator("pre").first).to_have_text("tb web")
