"""What the pages of a daemon show of sessions: terminals to who may act, and handoffs that wait."""

from __future__ import annotations

import pytest

from tiebreak.errors import Refused
from tiebreak.model import Session, record, row_of
from tiebreak.need_words import next_step
from tiebreak.program.machine_sessions import handoffs, screen

from .arena import Arena


@pytest.fixture
def here(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> Arena:
    """The arena, for functions that run in this process."""
    for name in ("TMUX_TMPDIR", "TIEBREAK_TMUX_SOCKET", "XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(name, arena.tb.environment[name])
    return arena


def test_a_terminal_is_shown_as_it_is(here: Arena) -> None:
    found = here.lead()
    here.until(lambda: "ready" in screen(found), "the terminal shows something")


def test_a_terminal_on_another_machine_is_refused(here: Arena) -> None:
    found = here.lead()
    elsewhere = record(
        Session, tuple("elsewhere" if f == "host" else v for f, v in zip(found.fields, row_of(found), strict=True))
    )
    with pytest.raises(Refused, match="elsewhere"):
        screen(elsewhere)


def test_a_handoff_that_waits_needs_a_person(here: Arena) -> None:
    here.lead()
    board = here.tb.environment["TIEBREAK_BOARD"]
    assert handoffs([board]) == []
    assert here("handoff", "lead", "--queue", "--json").code == 0
    [need] = handoffs(["unix:/elsewhere", board])
    assert (need.kind, need.ref, need.project, need.agent) == ("handoff", "lead", "demo", "lead")
    assert need.since_at > 0
    assert next_step(need) == "tb drain"
    assert handoffs(["unix:/elsewhere"]) == []
