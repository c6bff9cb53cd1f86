"""Recovery: contradictions are found, repaired where that is safe, and no process is ever ended."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

import pytest

from tiebreak.model import agent_id
from tiebreak.process_identity import Identity, identity
from tiebreak.sessions.records import fate

from .arena import Arena


@pytest.fixture
def dead() -> Identity:
    """A process that is dead for certain."""
    with subprocess.Popen(["sleep", "600"]) as process:
        who = identity(process.pid)
        process.kill()
    return who


def facts(who: Identity) -> dict[str, Any]:
    return {"host": who.host, "boot": who.boot, "pid": who.pid, "started": who.started}


def begin(arena: Arena, session: str, who: Identity, **more: Any) -> None:
    words = {"session": session, "role": "coordinator", "command": ["agent"], "tmux": f"tb-{session[-1]}"}
    arena.board.call("sessions.begin", {**words, **facts(who), **more})


def check(arena: Arena) -> list[tuple[str, str]]:
    """What `tb ps --check` tells: level and details."""
    return [(each["level"], each["details"]) for each in arena("ps", "--check", "--json").json["findings"]]


def test_when_all_is_well_nothing_is_found(arena: Arena) -> None:
    arena.lead()
    arena.spawn("hand")
    assert [level for level, _ in check(arena)] == ["ok"]
    assert {fate(each) for each in arena.board.sessions.list()} == {"alive"}


def test_a_record_without_a_process_is_ended_and_its_seat_freed(arena: Arena, dead: Identity) -> None:
    begin(arena, "lead~spawn-1", dead)
    assert "sessions" in arena("doctor").out
    assert arena.holder() == "lead~spawn-1", "looking changes nothing"
    assert any("--repair" in text for text in arena("doctor").out.splitlines())
    assert any("its process is dead; its end is recorded" in text for _, text in check(arena))
    assert (arena.session("lead").state, arena.holder()) == ("ended", None)


def test_doctor_with_repair_records_the_end_of_dead_sessions(arena: Arena, dead: Identity) -> None:
    begin(arena, "lead~spawn-1", dead)
    assert arena("doctor", "--repair").code == 0
    assert (arena.session("lead").state, arena.holder()) == ("ended", None)


def test_a_dead_replacement_gives_the_seat_back_to_the_one_that_lives(arena: Arena, dead: Identity) -> None:
    old = arena.lead()
    begin(arena, "next~spawn-2", dead, replaces=agent_id(old))
    assert arena.holder() == "next~spawn-2"
    check(arena)
    assert (arena.holder(), arena.again(old).fenced_by) == (agent_id(old), None)
    assert fate(arena.again(old)) == "alive"


def test_a_refused_spawn_gives_the_seat_of_a_dead_replacement_back(arena: Arena, dead: Identity) -> None:
    """The process that handed over was killed before the replacement had a supervisor."""
    old = arena.lead()
    begin(arena, "next~spawn-2", dead, replaces=agent_id(old))
    answer = arena.spawn("other", "ok", "--coordinator")
    assert (answer.code, answer.json["holder"]) == (1, "lead")
    assert (arena.holder(), arena.again(old).fenced_by) == (agent_id(old), None)


def test_a_session_without_a_record_is_named_and_left_alone(arena: Arena) -> None:
    arena.lead()
    arena.tmux("new-session", "-d", "-s", "tb-stray", "sleep", "600")
    assert any("tb-stray has no record" in text for _, text in check(arena))
    assert "tb-stray" in arena.terminals()


def test_a_seat_without_a_process_is_freed(arena: Arena, dead: Identity) -> None:
    arena.spawn("hand")
    arena.board.call("agents.announce", {"agent": "person~1", **facts(dead)})
    arena.board.holds.take(resources=["seat:coordinator"], agent="person~1")
    assert any("it is free now" in text for _, text in check(arena))
    assert arena.holder() is None


def test_a_seat_whose_holder_may_be_alive_is_reported_and_not_freed(arena: Arena) -> None:
    arena.spawn("hand")
    arena.board.holds.take(resources=["seat:coordinator"], agent="person~1")
    assert any("not known to be dead" in text for _, text in check(arena))
    assert arena.holder() == "person~1"


def test_two_records_that_claim_one_seat_are_told_apart_by_the_board(arena: Arena) -> None:
    """As an imported state may have them: both live, both say that they are the coordinator."""
    lead = arena.lead()
    me = identity()
    begin(arena, "twin~spawn-2", me, role="worker")
    arena.board.sessions.adopt(session="twin~spawn-2", child=me.pid, child_started=me.started, **facts(me))
    import apsw

    from tiebreak.engine.sqlite.opening import allow_writing

    with apsw.Connection(str(arena.tb.path)) as raw:
        allow_writing(raw)
        raw.execute("UPDATE sessions SET role = 'coordinator', state = 'alive' WHERE agent = 'twin~spawn-2'")
    answer = arena("ps", "--check")
    assert answer.code == 3
    assert f"twin~spawn-2 in demo claims the seat, which {agent_id(lead)} has" in answer.out
    assert {fate(each) for each in arena.board.sessions.list()} == {"alive"}, "nothing was ended"


def test_a_command_without_its_supervisor_is_explained_and_keeps_others_out(arena: Arena, dead: Identity) -> None:
    """It cannot happen on Linux unless somebody takes pains; if it does, it is not taken for dead."""
    me = identity()
    begin(arena, "lead~spawn-1", dead)
    arena.board.sessions.adopt(session="lead~spawn-1", child=me.pid, child_started=me.started, **facts(dead))
    assert any(f"its command (pid {me.pid}) runs" in text for _, text in check(arena))
    answer = arena.spawn("other", "ok", "--coordinator")
    assert (answer.code, answer.json["holder"]) == (1, "lead")
    assert "supervisor of lead is gone" in answer.json["message"]
    arena.board.sessions.end(session="lead~spawn-1", note="this test is not to be ended")


def test_ps_shows_the_state_of_each_session(arena: Arena) -> None:
    gone, kept = arena.lead(), arena.spawn("hand")
    assert kept.code == 0
    os.kill(gone.pid, signal.SIGKILL)
    arena.until(lambda: fate(gone) == "gone", "it is dead")
    out = arena("ps").out
    assert " gone " in next(line for line in out.splitlines() if line.startswith("lead "))
    assert " alive " in next(line for line in out.splitlines() if line.startswith("hand "))
    assert {each["fate"] for each in arena("ps", "--json").json} == {"gone", "alive"}
    assert arena("ps", "--project", "other").out == "no sessions\n"
