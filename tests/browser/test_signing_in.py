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


def test_only_reading_lasts_although_another_tab_may_act(visitor: Visitor, board: Board) -> None:
    first = visitor.sign_in("--write")
    second = visitor.go(visitor.page(), "/")
    expect(second.get_by_role("button", name="New task")).to_be_visible()
    first.get_by_role("button", name="Only read from now on").click()
    visitor.go(first, "/agents")
    third = visitor.go(visitor.page(), "/")  # it gets the key from the second, and the first hears of that
    expect(third.get_by_role("button", name="New task")).to_be_visible()
    expect(first.locator("footer")).to_contain_text("This browser reads.")
    assert first.evaluate(KEY) is None
    first.goto(visitor.link("--write"))
    expect(first.locator("footer")).to_contain_text("This browser acts as maria")


def test_the_footer_names_the_person_whose_key_is_used(visitor: Visitor, board: Board) -> None:
    visitor.expected = ["401"]
    first = visitor.sign_in("--write", person="ada")
    second = visitor.sign_in("--write", person="bob")
    for name in ("too late", "by hand"):  # the first of them ends ada's key: the cookie is bob's
        first.get_by_role("button", name="New task").click()
        first.get_by_label("What is to be done").fill(name)
        first.locator("dialog .confirm").click()
        if name == "too late":
            expect(first.locator("dialog .problem")).to_contain_text("may not act any more")
            first.keyboard.press("Escape")
            visitor.go(visitor.page(), "/")  # asks for a key, so the first tab is given bob's, too
            expect(first.locator("footer")).to_contain_text("This browser acts as bob")
    expect(first.locator("#act")).to_be_hidden()
    assert [(each.agent, each.name) for each in board.events.read(event="task.posted")] == [("bob", "by hand")]
    expect(second.locator("footer")).to_contain_text("This browser acts as bob")


def test_a_tab_whose_person_has_changed_asks_for_the_new_key(visitor: Visitor, board: Board) -> None:
    first = visitor.sign_in("--write", person="ada")
    second = visitor.sign_in("--write", person="bob")
    visitor.go(first, "/agents")
    expect(first.locator("footer")).to_contain_text("This browser acts as bob")
    assert first.evaluate(KEY) == second.evaluate(KEY)


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
