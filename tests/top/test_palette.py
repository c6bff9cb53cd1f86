"""The palette runs what a person typed to its end, and asks where the command itself would have asked."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from tiebreak.cli.top import entries
from tiebreak.top.peek_pane import PeekPane

from .conftest import Agents
from .watching import Watcher, watch


def test_enter_does_not_run_a_command_whose_text_happens_to_match(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("colon")
        await watcher.types("delete", "enter")
        line = watcher.app.screen.query_one("#line", Input)
        await watcher.until(lambda: line.value == "prune ", "it is completed, not run")
        assert watcher.app.main.query_one(PeekPane).command is None
        await watcher.press("escape")

    watch(busy("me"), story)


@pytest.mark.parametrize("name", ["prune", "restore", "adopt", "init"])
def test_commands_that_ask_in_a_terminal_are_known(name: str) -> None:
    assert [each.name for each in entries() if each.asks and each.name == name] == [name]


@pytest.mark.parametrize("answer", ["n", "y"])
def test_a_command_that_asks_in_a_terminal_is_asked_for_in_the_screen(busy: Agents, answer: str) -> None:
    async def story(watcher: Watcher) -> None:
        pane = watcher.app.main.query_one(PeekPane)
        await watcher.press("colon")
        await watcher.types("prune --older-than 1s", "enter")
        await watcher.sees("Run tb prune --older-than 1s? Delete old finished tasks")
        assert pane.command is None
        await watcher.press(answer)
        await watcher.sees("nothing was run" if answer == "n" else "forgot")
        assert (pane.command is None) == (answer == "n")

    watch(busy("me"), story)


def test_a_dry_run_is_not_asked_for(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("colon")
        await watcher.types("prune --dry-run", "enter")
        await watcher.sees("$ tb prune --dry-run", "would forget")

    watch(busy("me"), story)


def test_the_arrows_choose_what_enter_completes(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("colon")
        await watcher.types("hold")
        await watcher.sees("tb hold ")
        await watcher.press("down", "enter")  # `holds`, although `hold` is a whole name
        line = watcher.app.screen.query_one("#line", Input)
        await watcher.until(lambda: line.value == "holds ", "it is completed")
        await watcher.press("enter")
        await watcher.sees("$ tb holds", "lock:schema")

    watch(busy("me"), story)
