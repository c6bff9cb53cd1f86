"""The page *Now*: it hides nothing, and what a person does from it meets only whom it was about."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import tiebreak
from tests.daemons import Serving
from tiebreak import Board, Deadlock

from .conftest import Visitor


def another(daemon: Serving, project: str, name: str) -> Board:
    return tiebreak.open(str(daemon.board), agent=f"{name}~1", project=project)


def test_taking_away_from_a_dead_holder_spares_whoever_has_it_by_then(
    visitor: Visitor, daemon: Serving, board: Board, project: str
) -> None:
    with another(daemon, project, "ben") as ben:
        ben.agents.announce()
        task = ben.tasks.claim(ref="migrate-the-database", create=True)
        ben.holds.take(resources=["lock:schema"])
        ben.agents.leave()
        page = visitor.sign_in("--write")
        row = page.locator(".need.dead")
        expect(row).to_contain_text(f"#{task.number} migrate-the-database")
        row.get_by_role("button", name="Take away").click()
        expect(page.locator("#act")).to_contain_text("migrate-the-database")
        ben.tasks.release(task.number, epoch=task.epoch)
    won = board.tasks.claim(task.number)
    page.get_by_label("Reason").fill("ben is gone")
    page.locator("#act .confirm").click()
    expect(page.locator("#act")).to_contain_text("epoch")
    assert board.tasks.get(ref=task.number).epoch == won.epoch
    assert board.tasks.get(ref=task.number).state == "claimed"
    visitor.expected.append("404")  # its claim is not there any more


def test_the_hold_of_a_dead_agent_can_be_taken_away(
    visitor: Visitor, daemon: Serving, board: Board, project: str
) -> None:
    with another(daemon, project, "ben") as ben:
        ben.agents.announce()
        ben.holds.take(resources=["file:src/pay.py"])
        ben.agents.leave()
    page = visitor.sign_in("--write")
    row = page.locator(".need.dead")
    expect(row).to_contain_text("src/pay.py")
    row.get_by_role("button", name="Take away").click()
    page.get_by_label("Reason").fill("ben is gone")
    page.locator("#act .confirm").click()
    expect(row).to_have_count(0)
    assert board.holds.list() == []


def test_many_failures_hide_nobody_who_waits(visitor: Visitor, daemon: Serving, board: Board, project: str) -> None:
    for number in range(25):
        board.tasks.claim(ref=f"failing-{number}", create=True)
        board.tasks.fail(ref=f"failing-{number}", retry=False)
    board.questions.ask("Which database?")
    for number in range(101):
        with another(daemon, project, f"worker{number}") as worker:
            worker.tasks.claim(ref=f"work-{number}", create=True)
    page = visitor.sign_in()
    expect(page.locator(".need.failed")).to_have_count(20)
    expect(page.locator(".need.failed").last).to_contain_text("failing-24")
    expect(page.locator(".need.question")).to_have_count(1)
    expect(page.get_by_role("region", name="Needs you").locator(".count")).to_have_text("21+")
    expect(page.get_by_role("region", name="Working").locator(".count")).to_have_text("100+")
    waiting = page.get_by_role("region", name="Waiting")
    expect(waiting.locator(".count")).to_have_text("1")
    expect(waiting).to_contain_text("for you:")
    page.get_by_role("link", name="failed", exact=True).click()
    expect(page).to_have_url(re.compile("state=failed"))
    expect(page.locator(".rows > li")).to_have_count(25)


def test_a_deadlock_appears_though_the_board_stands_still(
    visitor: Visitor, daemon: Serving, board: Board, project: str
) -> None:
    page = visitor.sign_in()
    with another(daemon, project, "bob") as bob:
        board.holds.take(resources=["lock:a"])
        bob.holds.take(resources=["lock:b"])
        board.waits.enter(resources=["lock:b"])
        with pytest.raises(Deadlock):
            bob.waits.enter(resources=["lock:a"])
        expect(page.locator(".need.deadlock")).to_contain_text("lock:a")
