"""Every action of the table, by mouse and by keyboard: confirmed, done once, and in the log under the person's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Page, expect

from tiebreak import Board
from tiebreak.daemon.web.actions import ACTIONS, asked

from .conftest import Visitor


class Case(NamedTuple):
    """What is on the board, what the button carries, what the person fills in, and the event that follows."""

    prepare: Callable[[Board], dict[str, Any]]
    fill: dict[str, str]
    event: str


def claimed(board: Board) -> dict[str, Any]:
    task = board.tasks.claim(ref=f"claimed-{board.events.last()}", create=True)
    return {"ref": str(task.number), "epoch": task.epoch}


def posted(board: Board) -> dict[str, Any]:
    return {"ref": str(board.tasks.post(name="to do").number)}


def failed(board: Board) -> dict[str, Any]:
    task = board.tasks.claim(ref=f"failing-{board.events.last()}", create=True)
    board.tasks.fail(task.number, retry=False)
    return {"ref": str(task.number)}


def scheduled(board: Board) -> dict[str, Any]:
    board.schedules.add(name=f"s{board.events.last()}", expression="0 3 * * *", command=["true"])
    return {"name": board.schedules.list()[-1].name}


def held(board: Board) -> dict[str, Any]:
    return {"resource": board.holds.take(resources=[f"lock:l{board.events.last()}"])[0].resource}


def paused(board: Board) -> dict[str, Any]:
    board.queues.pause(queue="default")
    return {"queue": "default"}


def stopped(board: Board) -> dict[str, Any]:
    found = scheduled(board)
    board.schedules.pause(**found)
    return found


def letter(board: Board) -> dict[str, Any]:
    board.agents.announce()
    return {"to": "ann", "reply_to": board.messages.send(body="hello").number}


def nothing(board: Board) -> dict[str, Any]:
    return {}


CASES = {
    "question.answer": Case(
        lambda board: {"ref": str(board.questions.ask(text="yes or no?").number)}, {"answer": "yes"}, "task.completed"
    ),
    "message.send": Case(lambda board: {"to": letter(board)["to"]}, {"body": "hello"}, "message.sent"),
    "message.everyone": Case(nothing, {"body": "hello all"}, "message.sent"),
    "message.reply": Case(letter, {"body": "hello again"}, "message.sent"),
    "task.post": Case(nothing, {"name": "posted by a person", "body": "in words"}, "task.posted"),
    "task.cancel": Case(posted, {"reason": "not needed"}, "task.cancelled"),
    "task.retry": Case(failed, {}, "task.reopened"),
    "task.priority": Case(posted, {}, "task.edited"),
    "task.break": Case(claimed, {"reason": "it is stuck"}, "task.broken"),
    "task.comment": Case(lambda board: {"about": posted(board)["ref"]}, {"body": "look here"}, "message.sent"),
    "hold.break": Case(held, {"reason": "it is stuck"}, "hold.broken"),
    "queue.pause": Case(lambda board: {"queue": "default"}, {}, "queue.paused"),
    "queue.resume": Case(paused, {}, "queue.resumed"),
    "schedule.pause": Case(scheduled, {"reason": "holidays"}, "schedule.paused"),
    "schedule.resume": Case(stopped, {}, "schedule.resumed"),
    "tasks.cancel": Case(lambda board: {"name_contains": posted(board) and "to do"}, {}, "task.cancelled"),
    "tasks.retry": Case(lambda board: {"states": failed(board) and ["failed"]}, {}, "task.reopened"),
    "tasks.priority": Case(lambda board: {"name_contains": posted(board) and "to do"}, {}, "task.edited"),
}


def test_every_action_is_tried_here() -> None:
    assert sorted(CASES) == sorted(ACTIONS)


def put_button(page: Page, name: str, project: str, given: dict[str, Any]) -> None:
    """A button as templates put it out."""
    carried = json.dumps(asked(name, "it", project=project, **given))
    page.evaluate(
        """(carried) => {
          document.getElementById("tried")?.remove();
          const button = document.createElement("button");
          Object.assign(button, { id: "tried", type: "button", className: "act", textContent: "try" });
          button.dataset.action = carried;
          document.body.append(button);
        }""",
        carried,
    )


def confirm_by_mouse(page: Page, fill: dict[str, str]) -> None:
    page.locator("#tried").click()
    for name, value in fill.items():
        page.locator(f"dialog [name={name}]").fill(value)
    page.locator("dialog .confirm").click()


def confirm_by_keyboard(page: Page, fill: dict[str, str]) -> None:
    """Only keys, from the button on: what has the focus at first is what is filled in first."""
    page.locator("#tried").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#act")).to_be_visible()
    left = dict(fill)
    for _ in range(24):
        name = page.evaluate("document.activeElement.name || document.activeElement.className")
        if "confirm" in name and not left:
            break
        if name in left:
            page.keyboard.type(left.pop(name))
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")


@pytest.mark.parametrize("confirm", [confirm_by_mouse, confirm_by_keyboard])
def test_every_action_is_in_the_log_under_the_persons_name(
    visitor: Visitor, board: Board, confirm: Callable[[Page, dict[str, str]], None]
) -> None:
    page = visitor.sign_in("--write")
    for name, case in CASES.items():
        given = case.prepare(board)
        given = {key: value for key, value in given.items() if key in ACTIONS[name].given}
        before = board.events.last()
        put_button(page, name, board.project, given)
        confirm(page, case.fill)
        expect(page.locator("#act")).to_be_hidden()
        expect(page.locator("#told")).to_contain_text(ACTIONS[name].done)
        events = [each for each in board.events.read(after=before) if each.event == case.event]
        assert {each.agent for each in events} == {"maria"}, name
        assert len(events) == 1 or ACTIONS[name].each_of, name
        assert page.evaluate("document.activeElement.id") == "tried", "the focus is where it was"


def test_a_destructive_action_is_not_done_by_pressing_enter_twice(visitor: Visitor, board: Board) -> None:
    page = visitor.sign_in("--write")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    for name in [name for name, action in ACTIONS.items() if action.dangerous]:
        given = CASES[name].prepare(board)
        before = board.events.last()
        put_button(page, name, board.project, {key: given[key] for key in given if key in ACTIONS[name].given})
        page.locator("#tried").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#act")).to_be_visible()
        page.keyboard.press("Enter")
        page.keyboard.press("Escape")
        expect(page.locator("#act")).to_be_hidden()
        assert (sent, board.events.last()) == ([], before), name


def test_a_refusal_says_who_has_it_and_what_to_do(visitor: Visitor, board: Board) -> None:
    visitor.expected = ["409"]
    page = visitor.sign_in("--write")
    question = board.questions.ask(text="yes or no?", choices=["yes", "no"])
    put_button(page, "question.answer", board.project, {"ref": str(question.number)})
    board.questions.answer(question.number, answer="no")
    confirm_by_mouse(page, {"answer": "yes"})
    expect(page.locator("#act .problem")).to_contain_text("no")
    expect(page.locator("#act")).to_be_visible()
    assert board.tasks.get(question.number).result["answer"] == "no"


def test_a_question_is_answered_where_it_is_shown(visitor: Visitor, board: Board) -> None:
    board.questions.ask(text="which database?", choices=["sqlite", "postgres"])
    page = visitor.sign_in("--write")
    page.get_by_role("button", name="Answer", exact=True).click()
    page.get_by_role("radio", name="postgres").check()
    page.locator("dialog .confirm").click()
    expect(page.locator(".needs")).to_contain_text("Everybody can go on without you")
    assert board.tasks.list(states=["completed"])[0].result["answer"] == "postgres"


# ── The place of the keyboard ────────────────────────────────────────────────────────────────────────

PLACE = "document.activeElement.closest('[data-row]')?.querySelector('.first').textContent ?? document.activeElement.id"


def expect_keyboard(page: Page, row: str = "") -> None:
    """Wait until the keyboard is in this row, or anywhere: a dialog says that it is closed after it has been hidden."""
    page.wait_for_function(f"row => {{ const place = {PLACE}; return place !== '' && place.includes(row); }}", arg=row)


def answer_by_keys(page: Page, question: str) -> None:
    row = page.locator(".needs [data-row]", has_text=question)
    row.get_by_role("button", name="Answer", exact=True).focus()
    page.keyboard.press("Enter")
    page.keyboard.type("yes")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(row).to_have_count(0)


def test_the_keyboard_stays_beside_a_row_that_was_done(visitor: Visitor, board: Board) -> None:
    for number in range(4):
        board.questions.ask(text=f"question {number}?")
    page = visitor.sign_in("--write")
    answer_by_keys(page, "question 1?")
    expect_keyboard(page, "question 2?")  # the next one
    answer_by_keys(page, "question 3?")
    expect_keyboard(page, "question 2?")  # the last one
    answer_by_keys(page, "question 2?")
    answer_by_keys(page, "question 0?")
    expect_keyboard(page)  # none is left, but the keyboard is on the page


def test_a_row_that_somebody_else_does_meanwhile_takes_no_keyboard_away(visitor: Visitor, board: Board) -> None:
    first, second = (board.questions.ask(text=f"question {number}?").number for number in range(2))
    page = visitor.sign_in("--write")
    row = page.locator(".needs [data-row]", has_text="question 0?")
    row.get_by_role("button", name="Answer", exact=True).click()
    board.questions.answer(first, answer="no")
    expect(row).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("#act")).to_be_hidden()
    expect_keyboard(page, "question 1?")
    board.questions.answer(second, answer="no")
    expect(page.locator(".needs [data-row]")).to_have_count(0)
    expect_keyboard(page)


# ── Forged requests ──────────────────────────────────────────────────────────────────────────────────

FORGED = """<!doctype html><title>evil</title><form method=post action="%(url)s/web/act" enctype="text/plain"
target=here><input name='{"action":"task.post","params":{"project":"shop","name":"forged' value='"}}'></form>
<iframe name=here></iframe><script>
const body = JSON.stringify({action: "task.post", params: {project: "shop", name: "forged"}});
const tries = [
  {mode: "no-cors"}, {mode: "cors"}, {mode: "cors", headers: {"Content-Type": "application/json"}},
  {mode: "cors", headers: {"Content-Type": "application/json", "Tiebreak-Write": "%(key)s"}},
];
document.forms[0].submit();
Promise.allSettled(tries.map((each) => fetch("%(url)s/web/act", {method: "POST", credentials: "include", body, ...each})
  .then((answer) => answer.text()))).then((all) => { window.tried = all.map((each) => each.value || "refused");
  document.title = "tried"; });
</script>"""


def test_a_page_of_another_port_cannot_act_even_if_it_knew_the_key(visitor: Visitor, board: Board) -> None:
    page = visitor.sign_in("--write")
    key = page.evaluate("sessionStorage.getItem('tiebreak-write-key')")
    body = (FORGED % {"url": visitor.daemon.url, "key": key}).encode()

    class Evil(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *said: Any) -> None:
            pass

    before = board.events.last()
    with ThreadingHTTPServer(("127.0.0.1", 0), Evil) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        visitor.expected = ["blocked by CORS", "ERR_FAILED", "ERR_BLOCKED", "403", "frame-ancestors"]
        evil = visitor.page()
        evil.goto(f"http://127.0.0.1:{server.server_port}/")
        expect(evil).to_have_title("tried")
        server.shutdown()
    assert set(evil.evaluate("window.tried")) == {"refused"}
    assert board.events.last() == before
