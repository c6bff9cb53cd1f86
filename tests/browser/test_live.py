"""A page that is open shows what happens, without being loaded again, and loses nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Request, expect

import tiebreak
from tests.daemons import serving
from tiebreak import Board
from tiebreak.process_identity import identity

from .conftest import Visitor

AT_MOST = 4
"""How often a page may be fetched in a second, with a margin for the clocks of two processes."""


def status(page: Page) -> str:
    return page.locator("#live-status").inner_text()


def shows(page: Page, text: str) -> None:
    expect(page.locator("main")).to_contain_text(text)


def fetches(page: Page) -> list[str]:
    """The addresses that the page fetches from now on."""
    found: list[str] = []

    def note(request: Request) -> None:
        if request.resource_type == "xhr":
            found.append(request.url)

    page.on("request", note)
    return found


def test_a_claim_by_another_process_appears_within_a_second(visitor: Visitor, board: Board) -> None:
    page = visitor.sign_in()
    page.evaluate("document.querySelector('main').mark = 'the same page'")
    board.tasks.claim(ref="warm-up", create=True)
    shows(page, "warm-up")
    began = time.monotonic()
    board.tasks.claim(ref="login-bug", create=True)
    shows(page, "login-bug")
    took = time.monotonic() - began
    print(f"shown after {took * 1000:.0f} ms")
    assert took < 5, "a second on a machine that does nothing else"
    assert page.evaluate("document.querySelector('main').mark") == "the same page"


def test_an_update_leaves_focus_selection_and_open_details_as_they_are(visitor: Visitor, board: Board) -> None:
    board.agents.announce(doing="reading the code")
    page = visitor.sign_in()
    row = page.locator(".ticker li").first
    key = row.get_attribute("data-key")
    page.locator(".menu summary").click()
    row.locator("a.agent").focus()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.ticker li .name'))")
    with tiebreak.open(board.engine.address, agent="zoe~1", project=board.project) as zoe:
        zoe.tasks.claim(ref="first", create=True)  # its events come before the row in the list
    shows(page, "first")
    assert page.locator(".ticker li").first.get_attribute("data-key") != key
    assert page.evaluate("document.activeElement.closest('li').dataset.key") == key
    assert page.evaluate("getSelection().anchorNode.closest?.('li').dataset.key") == key
    assert page.evaluate("String(getSelection())") == "agent.announced"
    assert page.locator(".menu").get_attribute("open") is not None


def test_a_paused_page_stays_as_it_is_and_counts_what_waits(visitor: Visitor, board: Board) -> None:
    page = visitor.sign_in()
    page.keyboard.press("p")
    assert status(page) == "Paused, 0 events wait"
    board.tasks.post(name="unseen")
    expect(page.locator("#live-status")).to_have_text("Paused, 1 event waits")
    assert "unseen" not in page.locator("main").inner_text()
    page.get_by_role("button", name="Resume").click()
    shows(page, "unseen")
    assert status(page) == "Live"


def test_the_pause_holds_for_all_pages_of_a_tab(visitor: Visitor, board: Board) -> None:
    board.messages.send(body="hello")
    page = visitor.sign_in()
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("link", name="Messages").click()
    expect(page.locator("h1")).to_have_text("Messages")
    expect(page.locator("#live-status")).to_contain_text("Paused")


def test_an_action_on_a_paused_page_is_counted_once(visitor: Visitor, board: Board) -> None:
    page = visitor.sign_in("--write")
    page.keyboard.press("p")
    page.get_by_role("button", name="New task").click()
    page.get_by_label("What is to be done").fill("by hand")
    page.locator("dialog .confirm").click()
    expect(page.locator("#act")).to_be_hidden()
    board.tasks.import_(entries=[{"name": f"task {number}"} for number in range(10)])  # in one commit
    expect(page.locator("#live-status")).to_have_text("Paused, 11 events wait")


def test_a_paused_page_does_not_ask_for_the_terminal_either(visitor: Visitor, board: Board) -> None:
    visitor.expected = ["404", "409"]  # there is no terminal
    visitor.context.add_init_script(
        "const real = fetch; window.looks = 0;"
        "window.fetch = (...of) => { window.looks += String(of[0]).includes('/web/terminal'); return real(...of); };"
    )
    board.agents.announce()
    who = identity()
    process: dict[str, Any] = {"host": who.host, "boot": who.boot, "pid": who.pid, "started": who.started}
    board.sessions.begin(session="ann~spawn-1", role="worker", command=["cat"], tmux="tb-ann", **process)
    page = visitor.page()
    page.clock.install()
    page.goto(visitor.link("--write"))
    visitor.go(page, "/agent?name=ann")
    expect(page.locator(".terminal pre")).to_be_visible()
    page.keyboard.press("p")
    asked = page.evaluate("window.looks")
    for _ in range(5):
        page.clock.run_for(3_000)
        page.evaluate("fetch('/health').then((answer) => answer.text())")  # an answer that was asked for has come, too
    assert page.evaluate("window.looks") <= asked + 1, "one may have been under way"
    page.keyboard.press("p")
    page.clock.run_for(5_000)
    page.wait_for_function("(asked) => window.looks > asked + 1", arg=asked)


def test_a_page_that_is_gone_says_so_and_is_not_fetched_for_ever(visitor: Visitor, board: Board) -> None:
    visitor.expected = ["404"]
    task = board.tasks.claim(ref="short", create=True)
    board.tasks.complete("short")
    board.tasks.post(name="the newest one is never pruned")
    page = visitor.page()
    page.clock.install()
    page.goto(visitor.link())
    visitor.go(page, f"/tasks/{task.number}")
    fetched = fetches(page)
    board.upkeep.prune(older_than=0, project=board.project)
    board.tasks.post(name="the page fetches itself after this")
    expect(page.locator("#live-status")).to_have_text("This page is gone")
    many = len(fetched)
    page.clock.run_for(120_000)
    assert len(fetched) == many
    shows(page, "short")


def test_many_events_make_few_fetches(visitor: Visitor, board: Board) -> None:
    page = visitor.sign_in()
    fetched = fetches(page)
    began = time.monotonic()
    for number in range(300):
        board.tasks.post(name=f"task {number}")
    shows(page, "task 299")
    assert len(fetched) <= AT_MOST * (time.monotonic() - began) + 2


def test_events_that_do_not_concern_a_page_do_not_make_it_fetch(visitor: Visitor, board: Board) -> None:
    page = visitor.sign_in(at="/messages")
    fetched = fetches(page)
    for number in range(20):
        board.tasks.post(name=f"task {number}")
    board.messages.send(body="hello")
    shows(page, "hello")
    assert len(fetched) == 1


def test_a_page_that_lost_its_connection_comes_back_without_a_lost_event(visitor: Visitor, board: Board) -> None:
    visitor.context.add_init_script("window.setInterval = () => 0")  # else the page would be fetched sooner or later
    visitor.expected = ["ERR_INTERNET_DISCONNECTED", "ERR_NETWORK_CHANGED", "ERR_FAILED"]
    page = visitor.sign_in()
    visitor.context.set_offline(True)
    page.evaluate("document.dispatchEvent(new CustomEvent('tiebreak:acted', { detail: { cursor: 0 } }))")  # a fetch
    expect(page.locator("#live-status")).to_have_text("Connection lost, trying again")
    board.tasks.post(name="meanwhile")
    assert "meanwhile" not in page.locator("main").inner_text()
    visitor.context.set_offline(False)
    shows(page, "meanwhile")
    expect(page.locator("#live-status")).to_have_text("Live")
    board.tasks.post(name="afterwards")
    shows(page, "afterwards")


def test_a_restarted_daemon_signs_out_and_a_new_link_brings_open_pages_back(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        context = browser.new_context()
        visitor = Visitor(context, daemon, "shop")
        page = visitor.sign_in("--write")
        daemon.kill()
        expect(page.locator("#live-status")).to_have_text("Connection lost, trying again")
        daemon.start()
        expect(page.locator("#live-status")).to_have_text("Signed out: run tb web")
        with tiebreak.open(str(daemon.board), agent="ann~1", project="shop") as board:
            board.tasks.post(name="meanwhile")
        visitor.page().goto(visitor.link())
        shows(page, "meanwhile")
        expect(page.locator("#live-status")).to_have_text("Live")
        context.close()
