"""The buttons that the pages themselves put out: each kind on each page is pressed, and the log has the person's name.

`test_acting` tries every action with buttons of its own. Here it is the templates that say which task, hold or queue.
"""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Locator, Page, expect

import tiebreak
from tiebreak import Board
from tiebreak.daemon.web.actions import ACTIONS

from .conftest import Visitor
from .test_acting import CASES

PRESSED: dict[str, tuple[str, ...]] = {
    "/": ("question.answer", "task.retry", "task.post", "message.everyone"),
    "/agents": ("message.everyone",),
    "/agent?name=bob": ("task.break", "hold.break", "message.send"),
    "/messages": ("message.everyone",),
    "/messages?thread={thread}": ("message.reply",),
    "/queues": ("queue.pause", "queue.resume", "schedule.pause", "schedule.resume"),
    "/tasks": ("task.post",),
    "/tasks?tag=set": ("tasks.priority", "tasks.cancel", "tasks.retry", "task.post"),
    "/tasks/{question}": ("task.comment", "task.priority", "question.answer"),
    "/tasks/{claimed}": ("task.break", "task.cancel", "task.retry"),
}
"""For each page, the actions that it offers, in an order in which each is still offered when its turn comes."""
OFFERED_TWICE = {("/tasks/{claimed}", name) for name in ("task.comment", "task.priority")} | {
    ("/tasks/{question}", "task.cancel")
}
"""What an address offers and another address of the same page is tried with."""


def prepare(board: Board) -> dict[str, int]:
    """Something for every action; the numbers in the addresses."""
    board.agents.announce()
    with tiebreak.open(board.engine.address, agent="bob~1", project=board.project) as bob:
        bob.agents.announce(doing="what others take away")
        bob.tasks.claim(ref="bobs", create=True)
        bob.holds.take(resources=["lock:bobs"])
        bob.tasks.claim(ref="failing", create=True)
        bob.tasks.fail(ref="failing", retry=False)
        thread = bob.messages.send(body="hello", to="ann").number
        bob.questions.ask(text="on Now?")
        question = bob.questions.ask(text="on its page?", choices=["yes", "no"]).number
    claimed = board.tasks.claim(ref="claimed", create=True).number
    board.tasks.post(name="one of a set", tags=["set"])
    board.schedules.add(name="nightly", expression="0 3 * * *", command=["true"])
    return {"thread": thread, "question": question, "claimed": claimed}


def offered(page: Page) -> set[str]:
    found = page.locator("main button.act").evaluate_all("all => all.map((each) => each.dataset.action)")
    return {json.loads(each)["action"] for each in found}


def button_of(page: Page, action: str) -> Locator:
    return page.locator(f"""main button.act[data-action*='"action": "{action}"']""").first


def press(page: Page, action: str) -> dict[str, Any]:
    """Do an action as a person does it: fill in what is required, and confirm. What the button carried."""
    button = button_of(page, action)
    expect(button).to_be_visible()
    carried: dict[str, Any] = json.loads(button.get_attribute("data-action") or "")
    button.click()
    for field in carried["fields"]:
        name = field["name"]
        if field["kind"] == "choice":
            page.locator(f"#act [name={name}]").last.check()
        elif field["required"]:
            page.locator(f"#act [name={name}]").fill(f"{name} of {action}")
    page.locator("#act .confirm").click()
    expect(page.locator("#act")).to_be_hidden()
    expect(page.locator("#told")).to_contain_text(ACTIONS[action].done)
    return carried


def test_every_button_of_every_page_does_what_it_says_under_the_persons_name(visitor: Visitor, board: Board) -> None:
    numbers = prepare(board)
    page = visitor.sign_in("--write")
    for address, actions in PRESSED.items():
        visitor.go(page, address.format(**numbers))
        missed = offered(page) - set(actions)
        assert not {(address, each) for each in missed} - OFFERED_TWICE
        for action in actions:
            before = board.events.last()
            carried = press(page, action)
            done = [each for each in board.events.read(after=before) if each.event == CASES[action].event]
            assert [each.agent for each in done] == ["maria"], (address, action, carried)
            assert {each.project for each in done} == {board.project}


def test_every_action_is_offered_by_a_page() -> None:
    assert {each for actions in PRESSED.values() for each in actions} == set(ACTIONS)
