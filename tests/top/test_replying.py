"""What a person types goes to the thing that it was typed for, or nowhere, and is not lost."""

from __future__ import annotations

import pytest
from textual.containers import VerticalScroll

from tiebreak.top.peek_pane import PeekPane

from .conftest import Agents
from .watching import NARROW, WIDE, Watcher, watch


@pytest.mark.parametrize("size", [NARROW, WIDE])
def test_a_reply_never_goes_to_the_row_that_takes_the_place_of_an_answered_question(
    busy: Agents, size: tuple[int, int]
) -> None:
    busy("frank").questions.ask("Drop the backups?", choices=["yes", "no"])

    async def story(watcher: Watcher) -> None:
        await watcher.press("tab")
        await watcher.types("sqlite")
        busy("carol").questions.answer("#5", answer="postgres")
        await watcher.sees("#5 Which database? is gone: what you type is not sent")
        assert watcher.reply.value == "sqlite"
        assert watcher.app.focused is watcher.reply
        await watcher.press("enter")
        await watcher.draws()
        assert watcher.reply.value == "sqlite"  # still there to be copied
        await watcher.press("escape")
        await watcher.until(lambda: watcher.peeked and watcher.peeked.number == 9, "the selected row is shown")
        assert watcher.reply.value == ""

    watch(busy("me"), story, size=size)
    assert busy("me").tasks.get(ref="#5").result["answer"] == "postgres"
    assert busy("me").tasks.get(ref="#9").state == "pending"


def test_a_comment_that_is_being_typed_is_not_erased_when_its_task_changes(busy: Agents) -> None:
    busy("me").tasks.post(name="long", body="\n".join(f"line {number}." for number in range(80)))

    async def story(watcher: Watcher) -> None:
        await watcher.press("2")
        await watcher.selects("long")
        await watcher.sees("line 10.")
        await watcher.press("right_square_bracket")
        await watcher.press("tab")
        await watcher.types("half a comment")
        busy("frank").tasks.claim(ref="#9")
        await watcher.sees("frank, 4m left")
        assert watcher.reply.value == "half a comment"
        assert watcher.app.main.query_one("#peek-scroll", VerticalScroll).scroll_y == 10
        await watcher.press("enter")
        await watcher.sees("commented on #9")

    watch(busy("me"), story, size=(200, 50))
    assert [each.body for each in busy("me").messages.comments(ref="#9")] == ["half a comment"]


def test_a_message_that_is_being_typed_is_not_erased_when_its_agent_claims_a_task(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.selects("frank")
        await watcher.press("tab")
        await watcher.types("please stop")
        busy("frank").tasks.claim(ref="#4")
        await watcher.sees("#4 flaky test: cart totals · epoch 1")
        assert watcher.reply.value == "please stop"

    watch(busy("me"), story)


def test_a_reply_that_is_refused_is_given_back(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("tab")
        await watcher.types("oracle", "enter")
        await watcher.sees("2 need you")
        await watcher.until(lambda: watcher.reply.value == "oracle", "it is there again")

    watch(busy("me"), story)


def test_moving_to_another_row_leaves_the_reply_and_coming_back_finds_it_again(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("tab")
        await watcher.types("postg")
        await watcher.press("down")
        await watcher.until(lambda: watcher.peeked and watcher.peeked.number == 6, "another row is shown")
        assert watcher.reply.value == ""
        assert watcher.app.focused is None
        await watcher.press("up")
        await watcher.until(lambda: watcher.reply.value == "postg", "the draft is there again")

    watch(busy("me"), story)


def test_keys_that_come_faster_than_the_peek_reply_to_the_row_that_is_selected(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.sees("answer #5: sqlite | postgres")
        watcher.app.action_move(1)
        watcher.app.action_reply()  # before the pane is told of the row
        await watcher.types("look at cart", "enter")
        await watcher.sees("commented on #6")

    watch(busy("me"), story)
    assert busy("me").tasks.get(ref="#5").state == "pending"


def test_a_command_goes_on_when_the_selected_row_vanishes(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        pane = watcher.app.main.query_one(PeekPane)
        await watcher.press("colon")
        await watcher.types("events -f", "enter")
        await watcher.sees("$ tb events -f", "runs …")
        run = pane.command
        assert run
        busy("carol").questions.answer("#5", answer="postgres")  # the selected row vanishes
        await watcher.sees("1 needs you")
        await watcher.draws()
        assert pane.command is run
        assert run.code is None
        await watcher.press("down")  # the person's own move leaves it, and it goes on
        await watcher.until(lambda: pane.command is None, "it is left")
        assert run.code is None
        await watcher.press("colon")
        await watcher.types("events -f", "enter")
        await watcher.until(lambda: pane.command is run, "the same run is shown again")
        await watcher.press("escape")
        await watcher.until(lambda: run.code is not None, "Esc ends it")

    watch(busy("me"), story)


def test_a_command_that_ends_unseen_says_how_it_ended(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("colon")
        await watcher.types("wait 5 --timeout 60", "enter")
        await watcher.sees("$ tb wait 5", "runs …")
        await watcher.press("down")
        busy("carol").questions.answer("#5", answer="postgres")
        await watcher.sees("tb wait 5 --timeout 60: done")

    watch(busy("me"), story)
