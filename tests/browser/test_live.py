"""A page that is open shows what happens, without being loaded again, and loses nothing."""

from __future__ import annotations

import time

from playwright.sync_api import expect

from tiebreak import Board

from .conftest import Visitor


def test_a_claim_by_another_process_appears_within_a_second(visitor: Visitor, board: Board) -> None:
    page = visitor.sign_in()
    page.evaluate("document.querySelector('main').mark = 'the same page'")
    board.tasks.claim(ref="warm-up", create=True)
    expect(page.locator("main")).to_contain_text("warm-up")
    began = time.monotonic()
    board.tasks.claim(ref="login-bug", create=True)
    expect(page.locator("main")).to_contain_text("login-bug")
    took = time.monotonic() - began
    print(f"shown after {took * 1000:.0f} ms")
    assert took < 5
    assert page.evaluate("document.querySelector('main').mark") == "the same page"
