"""Every key does what the help says, on a real board."""

from __future__ import annotations

from typing import Any

import pytest

import tiebreak
from tiebreak.process_identity import identity
from tiebreak.program import names
from tiebreak.top.keys import KEYS, TopApp
from tiebreak.top.peek_pane import PeekPane
from tiebreak.top.widgets import RowList, Ticker

from .conftest import Agents
from .watching import NARROW, WIDE, Watcher, watch


def test_the_help_lists_every_key_and_no_other(me: tiebreak.Board) -> None:
    bound = {binding.key for binding in TopApp.BINDINGS if not isinstance(binding, tuple)}
    words = {"slash": "/", "colon": ":", "question_mark": "?", "space": "Space", "tab": "Tab", "enter": "Enter"}
    words |= {"escape": "Esc", "q,ctrl+c": "q", "left_square_bracket": "[", "right_square_bracket": "]"}
    shown = set(" ".join(each.key for each in KEYS).split())
    arrows = {"up", "down", "pageup", "pagedown", "home", "end"}
    assert {words.get(key, key) for key in bound - arrows - set("12345")} == shown - {"↑", "↓", "1–5"}

    async def story(watcher: Watcher) -> None:
        await watcher.press("question_mark")
        await watcher.sees("Keys", *(each.text for each in KEYS))
        await watcher.press("x")
        await watcher.until(lambda: len(watcher.app.screen_stack) == 1, "the help is closed")

    watch(me, story)
    watch(me, story, size=NARROW)


def test_arrows_select_and_the_peek_follows(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.sees("#5 Which database?", "1  sqlite")
        await watcher.press("down")
        await watcher.sees("FAILED cart totals")
        await watcher.press("end")
        await watcher.until(lambda: watcher.peeked and watcher.peeked.kind == "agent", "the last row is an agent")
        last = watcher.peeked
        await watcher.press("down")
        assert watcher.peeked == last
        await watcher.press("pageup", "pagedown", "home", "up")
        await watcher.until(lambda: watcher.peeked and watcher.peeked.number == 5, "the first row is selected")

    watch(busy("me"), story)


@pytest.mark.parametrize("size", [NARROW, WIDE])
def test_space_opens_and_closes_the_peek(busy: Agents, size: tuple[int, int]) -> None:
    async def story(watcher: Watcher) -> None:
        pane = watcher.app.main.query_one(PeekPane)
        assert pane.display == (size == WIDE)
        if size == WIDE:
            await watcher.press("space")
            await watcher.until(lambda: "1  sqlite" not in watcher.text, "it is closed")
        await watcher.press("space")
        await watcher.sees("1  sqlite")
        assert ("Needs you" in watcher.text) == (size == WIDE)
        await watcher.press("space")
        await watcher.until(lambda: "1  sqlite" not in watcher.text, "it is closed")
        assert "Needs you" in watcher.text

    watch(busy("me"), story, size=size)


def session(board: tiebreak.Board, name: str, role: str = "worker") -> None:
    """A session that runs in this very process, as far as the board knows."""
    who = identity()
    process: dict[str, Any] = {"host": who.host, "boot": who.boot, "pid": who.pid, "started": who.started}
    board.sessions.begin(session=f"{name}~spawn-1", role=role, command=["cat"], tmux=f"tb-{name}", **process)
    process |= {"child": who.pid, "child_started": who.started}
    board.sessions.adopt(session=f"{name}~spawn-1", **process)
    board.sessions.alive(session=f"{name}~spawn-1", pid=who.pid, started=who.started)


@pytest.fixture
def attached(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would have been given the terminal."""
    found: list[list[str]] = []
    monkeypatch.setattr(TopApp, "attach", lambda self, words: found.append(words))
    return found


def test_enter_attaches_to_the_terminal_of_the_selected_agent(busy: Agents, attached: list[list[str]]) -> None:
    session(busy("me"), "ada")

    async def story(watcher: Watcher) -> None:
        await watcher.selects("ada", who="ada~spawn-1")
        await watcher.press("enter")
        await watcher.until(lambda: attached, "it attaches")
        assert attached[0][-1] == "=tb-ada"
        await watcher.selects("bob")
        await watcher.press("enter")
        await watcher.sees("bob has no terminal on this machine")
        assert len(attached) == 1

    watch(busy("me"), story)


def test_a_attaches_to_the_coordinator(busy: Agents, attached: list[list[str]]) -> None:
    session(busy("me"), "lead", "coordinator")

    async def story(watcher: Watcher) -> None:
        await watcher.press("a")
        await watcher.until(lambda: attached, "it attaches")
        assert attached[0][-1] == "=tb-lead"

    watch(busy("me"), story)


def test_a_second_coordinator_is_refused_and_the_refusal_is_shown(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("a")
        await watcher.sees("There is no coordinator. Start one", "lead claude")
        busy("ada").holds.take(resources=["seat:coordinator"])  # somebody is faster
        await watcher.press("enter")
        await watcher.sees("held by ada", "seat:coordinator")

    watch(busy("me"), story)
    assert busy("me").sessions.list(every=True) == []


@pytest.mark.parametrize("size", [NARROW, WIDE])
def test_enter_on_a_question_leads_to_its_answer(busy: Agents, size: tuple[int, int]) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("enter")
        await watcher.types("2", "enter")  # a choice by its number
        await watcher.sees("answered #5: postgres", "1 needs you")

    watch(busy("me"), story, size=size)
    assert busy("me").tasks.get(ref="#5").result["answer"] == "postgres"


def test_an_answer_that_is_no_choice_is_refused_and_the_refusal_is_shown(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("tab")
        await watcher.types("oracle", "enter")
        await watcher.sees("oracle", "sqlite", "2 need you")

    watch(busy("me"), story)
    assert busy("me").tasks.get(ref="#5").state == "pending"


def test_tab_comments_on_a_task_and_reaches_an_agent(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.selects("#6")
        await watcher.sees("comment on #6")
        await watcher.press("tab")
        await watcher.types("look at cart", "enter")
        await watcher.sees("commented on #6", "me, 0s ago: look at cart")
        await watcher.selects("bob")
        await watcher.sees("message to bob")
        await watcher.press("tab")
        await watcher.types("stop", "enter")
        await watcher.sees("sent message 4 to bob")
        assert watcher.app.focused is None

    watch(busy("me"), story)
    assert [each.body for each in busy("me").messages.comments(ref="#6")] == ["look at cart"]
    assert busy("bob").messages.inbox()[-1].body == "stop"


def test_d_dispatches_a_task_to_nobody_to_an_agent_and_not_to_a_stranger(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("d")
        await watcher.types("write the notes", "enter")
        await watcher.sees("posted #9 write the notes")
        await watcher.selects("frank")
        await watcher.press("d")
        await watcher.sees("@frank")
        await watcher.types("tidy up", "enter")
        await watcher.sees("posted #10 tidy up, and told frank")
        await watcher.press("home", "d")
        await watcher.types("@nobody sing", "enter")
        await watcher.sees("nobody called nobody has been here")
        await watcher.press("d", "escape")
        await watcher.until(lambda: len(watcher.app.screen_stack) == 1, "nothing more is asked")

    watch(busy("me"), story)
    pending = busy("me").tasks.list(states=["pending"], limit=2)
    assert [task.name for task in pending] == ["tidy up", "write the notes"]
    assert "tb claim 10" in busy("frank").messages.inbox()[-1].body


def test_m_sends_a_message_to_the_selected_agent_or_to_everybody(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.selects("bob")
        await watcher.press("m")
        await watcher.sees("Message to bob:")
        await watcher.types("well done", "enter")
        await watcher.sees("sent message 3 to bob")
        await watcher.press("2")
        await watcher.selects("#8")  # nobody has it
        await watcher.press("m")
        await watcher.sees("Message to everybody:")
        await watcher.types("lunch", "enter")
        await watcher.sees("sent message 4 to everybody")

    watch(busy("me"), story)
    assert [each.body for each in busy("bob").messages.inbox()][-2:] == ["well done", "lunch"]


def test_n_nudges_an_agent(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.selects("carol")
        await watcher.press("n")
        await watcher.sees("Nudge carol:", "How does it stand?")
        await watcher.press("enter")
        await watcher.sees("sent message 3 to carol")
        await watcher.press("2")
        await watcher.selects("#8")
        await watcher.press("n")
        await watcher.sees("select an agent, or something that one holds, to nudge it")

    watch(busy("me"), story)
    assert busy("carol").messages.inbox()[-1].body.startswith("How does it stand?")


def test_w_tells_why_and_goes_back(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.selects("#6")
        await watcher.press("w")
        await watcher.sees("why #6 end-to-end tests", "worker-1 failed, and it is over: exit 1")
        assert "running 214 tests" not in watcher.text
        await watcher.press("w")
        await watcher.sees("running 214 tests")

    watch(busy("me"), story)


def test_h_says_that_only_a_session_can_be_handed_off(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("2")
        await watcher.selects("#8")
        await watcher.press("h")
        await watcher.sees("only a session can be handed off")
        await watcher.press("1")
        await watcher.sees("Needs you")
        await watcher.selects("bob")
        await watcher.press("h")
        await watcher.sees("Hand bob off to a new session")
        await watcher.press("enter")
        await watcher.sees("no session of bob runs in project shop")

    watch(busy("me"), story)


def test_r_retries_a_failed_job_and_is_refused_for_another(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.selects("#6")
        await watcher.press("r")
        await watcher.sees("#6 end-to-end tests is pending again", "1 needs you")
        await watcher.selects("ada")
        await watcher.press("r")
        await watcher.sees("is claimed")

    watch(busy("me"), story)
    assert busy("me").tasks.get(ref="#6").state == "pending"


@pytest.mark.parametrize(
    ("answers", "state"),
    [(["n"], "claimed"), (["y", "n"], "claimed"), (["y", "escape"], "claimed"), (["y", "y"], "cancelled")],
)
def test_k_cancels_only_after_two_yes(busy: Agents, answers: list[str], state: str) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("2")
        await watcher.sees("Claimed")
        await watcher.selects("#1")
        await watcher.press("k")
        await watcher.sees("Cancel #1 fix the login redirect?")
        for place, answer in enumerate(answers):
            if place:
                await watcher.sees("Really cancel #1", "ada works on it and is not stopped: its next write is refused")
            await watcher.press(answer)
        await watcher.sees("cancelled #1" if state == "cancelled" else "nothing was cancelled")

    watch(busy("me"), story)
    assert busy("me").tasks.get(ref="#1").state == state


def test_slash_filters_while_it_is_typed_and_escape_shows_everything(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("slash")
        await watcher.types("schema")
        await watcher.until(lambda: "/schema" in watcher.text and "frank" not in watcher.text, "it filters")
        assert "carol" in watcher.text
        await watcher.press("enter")
        await watcher.until(lambda: len(watcher.app.screen_stack) == 1, "it is kept")
        assert "frank" not in watcher.text
        await watcher.press("escape")
        await watcher.sees("frank")
        await watcher.press("slash")
        await watcher.types("nothing like it")
        await watcher.sees("nothing matches the filter")
        await watcher.press("escape")
        await watcher.sees("frank")

    watch(busy("me"), story)


def test_colon_runs_any_command_and_shows_what_it_prints(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("colon")
        await watcher.types("why", "tab")
        await watcher.sees("tb why REF")
        await watcher.types("6", "enter")
        await watcher.sees("$ tb why 6", "exit 1", "done")
        await watcher.press("escape")
        await watcher.sees("1  sqlite")  # the peek again
        await watcher.press("colon")
        await watcher.types("whoa", "enter")  # no whole name: Enter completes it
        await watcher.sees("tb whoami")
        await watcher.press("enter")
        await watcher.sees("$ tb whoami", "done", "session  1")
        await watcher.press("colon")
        await watcher.types("no-such-command")
        await watcher.sees("no such command")
        await watcher.press("escape", "colon")
        await watcher.types("claim 'x", "enter")
        await watcher.sees("No closing quotation")

    watch(busy("me"), story)


def test_a_command_that_does_not_end_is_ended_by_escape(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("colon")
        await watcher.types("events -f", "enter")
        await watcher.sees("$ tb events -f", "runs …")
        run = watcher.app.main.query_one(PeekPane).command
        assert run
        await watcher.press("escape")
        await watcher.until(lambda: run.code is not None, "it has ended")

    watch(busy("me"), story)


def test_the_palette_has_every_command(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("colon")
        await watcher.sees(f"{len(names())} commands")
        await watcher.press("down", "up", "down")
        await watcher.sees("tb next")

    watch(busy("me"), story)


def test_the_views_show_agents_tasks_holds_jobs_and_messages(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        for key, texts in {
            "2": ["Claimed  4", "#2", "Ready", "Questions", "flaky test"],
            "3": ["Held  3", "lock:schema · migration 42", "Waiting  1", "for ada"],
            "4": ["Queues  2", "Running  1", "build the image · 40 % layer 4 of 9", "Failed  1"],
            "5": ["Messages  2", "to dave: I need session.py for ten minutes", "please rebase"],
            "1": ["Needs you  2", "Working  4", "Waiting  2", "Idle"],
        }.items():
            await watcher.press(key)
            await watcher.sees(*texts)

    watch(busy("me"), story)


def test_each_kind_of_row_has_a_peek(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press("3")
        await watcher.sees("Held")
        await watcher.selects("lock:schema")
        await watcher.sees("held by", "carol · epoch 1", "carol took lock:schema")
        await watcher.press("4")
        await watcher.sees("Queues")
        await watcher.selects("queue ci")
        await watcher.sees("ready, newest first", "tb queue pause ci")
        await watcher.press("5")
        await watcher.sees("Messages  2")
        await watcher.selects("message 2")
        await watcher.sees("from ada to dave", "reply to ada")
        await watcher.press("1")
        await watcher.sees("Needs you")
        await watcher.selects("dave")
        await watcher.sees("unread messages", "ada, 5s ago: I need session.py")

    watch(busy("me"), story)


def test_p_pauses_the_events_and_counts_what_it_does_not_show(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        ticker = watcher.app.main.query_one(Ticker)
        await watcher.press("p")
        await watcher.sees("paused, 0 new")
        busy("me").tasks.post(name="not shown yet")
        await watcher.sees("paused, 1 new")
        assert "not shown yet" not in watcher.text
        await watcher.press("p")
        await watcher.sees("not shown yet", "p pauses")
        assert not ticker.paused

    watch(busy("me"), story)


def test_brackets_scroll_the_peek(busy: Agents) -> None:
    busy("me").tasks.post(name="long", body="\n".join(f"line {number}." for number in range(40)))

    async def story(watcher: Watcher) -> None:
        await watcher.press("2")
        await watcher.sees("Claimed")
        await watcher.selects("long")
        await watcher.press("space")
        await watcher.sees("line 1.")
        await watcher.press("right_square_bracket", "right_square_bracket")
        await watcher.until(lambda: "line 20." in watcher.text and "line 3." not in watcher.text, "it is scrolled")
        await watcher.press("left_square_bracket", "left_square_bracket")
        await watcher.sees("line 3.")
        await watcher.press("escape")
        await watcher.sees("Ready")

    watch(busy("me"), story, size=NARROW)


def test_the_selection_stays_with_its_thing_when_rows_come_and_go(busy: Agents) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.selects("carol")
        busy("frank").questions.ask("May I?")  # a row more above the selected one, and none less
        await watcher.sees("frank asks: #9 May I?")
        assert watcher.peeked
        assert watcher.peeked.title == "carol"
        assert watcher.app.main.query_one(RowList).selected == ("agent", "carol~1")

    watch(busy("me"), story)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_q_and_control_c_end_it(me: tiebreak.Board, key: str) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.press(key)
        await watcher.until(lambda: watcher.app._exit, "it ends")

    assert watch(me, story).return_code == 0
