"""Handing off: the replacement has everything the old one had, the old one is fenced, and a failure changes nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tiebreak import Fenced, Lost
from tiebreak.model import Session, agent_id
from tiebreak.process_identity import alive, identity
from tiebreak.program import handoff_drain
from tiebreak.sessions.handoff import handoff
from tiebreak.sessions.records import ALIVE, command, fate

from ..cli.command import Answer, complaint
from .arena import AGENT, QUICK, Arena


def inside(found: Session, arena: Arena) -> dict[str, str | None]:
    """The environment of a command that runs inside a session."""
    start = next(each for each in arena.starts(1) if each["pid"] == found.child)
    return {name: value for name, value in start["environment"].items() if name.startswith("TIEBREAK_")}


# ── What passes on ───────────────────────────────────────────────────────────────────────────────────


def test_the_replacement_inherits_command_environment_folder_and_seat(arena: Arena) -> None:
    place = arena.folder / "place"
    place.mkdir()
    arena("spawn", "lead", "--coordinator", *QUICK, "--cwd", str(place), "--env", "SECRET=x", "--", *AGENT, "ok", "a b")
    old = arena.session("lead")
    # Whoever hands off stands elsewhere, with another environment.
    answer = arena("handoff", "lead", "--doc", "-", "--json", stdin="what I know\n", env={"SECRET": "y"})
    assert answer.code == 0, answer
    first, second = arena.starts(2)
    [new] = arena.living()
    assert (second["words"], second["cwd"]) == (first["words"], first["cwd"]) == (["ok", "a b"], str(place))
    assert second["environment"]["SECRET"] == "x"
    assert Path(second["environment"]["TIEBREAK_HANDOFF"]).read_text() == "what I know\n"
    assert (second["environment"]["TIEBREAK_EPOCH"], new.epoch, new.replaces) == ("2", 2, agent_id(old))
    assert (arena.holder(), new.facts["env"]) == (agent_id(new), ["SECRET"])
    over = arena.again(old)
    assert (over.state, over.replaced_by, alive(command(old))) == ("ended", agent_id(new), False)


def test_the_replacement_works_in_the_same_worktree(arena: Arena, tmp_path: Path) -> None:
    from subprocess import run

    repository = str(tmp_path / "repository")
    run(["git", "init", "--quiet", repository], check=True)
    words = ["-c", "user.name=t", "-c", "user.email=t@example", "commit", "--quiet", "--allow-empty", "-m", "first"]
    run(["git", "-C", repository, *words], check=True)
    assert arena.spawn("lead", "ok", "--coordinator", "--worktree", "--cwd", repository).code == 0
    assert arena("handoff", "lead").code == 0
    first, second = arena.starts(2)
    assert first["cwd"] == second["cwd"] == arena.living()[0].facts["worktree"]


def test_the_replacement_can_be_another_command(arena: Arena) -> None:
    arena.lead()
    assert arena("handoff", "lead", "--", *AGENT, "ok", "new").code == 0
    assert arena.words(2) == [["ok"], ["ok", "new"]]
    assert arena("handoff", "lead").code == 0
    assert arena.words(3)[2] == ["ok", "new"], "and that is what its own replacement inherits"


def test_a_coordinator_that_is_gone_can_be_handed_off_all_the_same(arena: Arena) -> None:
    old = arena.lead()
    arena("tell", "lead", "/exit")
    arena.until_ended(old)
    assert arena("handoff", "lead").code == 0
    assert [(each.epoch, each.replaces) for each in arena.living()] == [(2, agent_id(old))]


def test_a_coordinator_can_hand_itself_off_from_inside(arena: Arena) -> None:
    script = f"{' '.join(AGENT)} ok; tb handoff $TIEBREAK_AGENT --json >handed.json 2>&1 -- {' '.join(AGENT)} ok second"
    assert arena("spawn", "lead", "--coordinator", *QUICK, "--", "sh", "-c", f"{script}; sleep 600").code == 0
    old = arena.session("lead")
    arena("tell", "lead", "/exit")
    arena.until_ended(old)
    assert arena.words(2)[1] == ["ok", "second"]
    [new] = arena.living()
    assert json.loads((arena.folder / "handed.json").read_text())["epoch"] == new.epoch == 2


def test_a_worker_can_be_handed_off_without_a_seat(arena: Arena) -> None:
    arena.spawn("hand")
    old = arena.session("hand")
    assert arena("handoff", "hand").code == 0
    assert arena.again(old).state == "ended"
    assert (fate(arena.session("hand")), arena.holder()) == (ALIVE, None)


def test_a_worker_that_is_being_replaced_is_not_called_a_coordinator(arena: Arena) -> None:
    arena.spawn("hand")
    old, me = arena.session("hand"), identity()
    facts = {"host": me.host, "boot": me.boot, "pid": me.pid, "started": me.started, "replaces": agent_id(old)}
    words = {"session": "hand~spawn-2", "role": "worker", "command": ["agent"], "tmux": "tb-2", "ticket": "t1"}
    arena.board.call("sessions.begin", {**words, **facts})
    with pytest.raises(Lost, match="hand is starting, by pid"):
        handoff(arena.board, agent_id(old), ticket="t1")


def test_what_was_replaced_cannot_be_replaced_again(arena: Arena) -> None:
    old = arena.lead()
    assert arena("handoff", "lead").code == 0
    assert "was replaced by" in complaint(arena("handoff", agent_id(old)), 1)
    assert "was replaced by" in complaint(arena("handoff", agent_id(old), "--queue"), 1)
    assert len(arena.living()) == 1


def test_an_environment_that_is_kept_elsewhere_is_not_made_up(arena: Arena) -> None:
    arena.spawn("lead", "ok", "--coordinator", "--env", "SECRET=x")
    os.unlink(
        arena.folder / "state" / "tiebreak" / "sessions" / f"{agent_id(arena.session('lead')).split('~')[1]}.json"
    )
    said = complaint(arena("handoff", "lead"), 1)
    assert "(SECRET) is not known here" in said
    assert [each.epoch for each in arena.living()] == [1]


# ── A replacement that fails ─────────────────────────────────────────────────────────────────────────


def works(arena: Arena, found: Session) -> Answer:
    return arena("post", "still here", env=inside(found, arena))


def test_the_seat_returns_when_the_replacement_dies_before_it_lives(arena: Arena) -> None:
    old = arena.lead()
    answer = arena.tb("handoff", "lead", "--settle", "50s", "--", *AGENT, "exits")
    assert "did not come to life: exited with 3" in complaint(answer, 1)
    now = arena.again(old)
    assert (arena.holder(), fate(now), now.fenced_by, now.epoch) == (agent_id(old), ALIVE, None, 3)
    assert works(arena, old).code == 0, "it is the coordinator as before"
    assert arena("handoff", "lead", "--", *AGENT, "ok").code == 0
    assert [each.epoch for each in arena.living()] == [4]


def test_the_seat_returns_when_the_process_that_hands_off_is_killed(arena: Arena) -> None:
    old = arena.lead()
    with arena.tb.start("handoff", "lead", "--settle", "500s") as handing:
        arena.until(lambda: arena.holder() != agent_id(old), "the seat has passed on")
        handing.kill()
        handing.wait()
    new = arena.session("lead")
    answer = arena.spawn("other", "ok", "--coordinator")
    assert (answer.code, answer.json["holder"]) == (1, "lead"), answer
    if not arena.again(new).ended_at:  # it was in its supervisor's hands by then, and would go on
        assert arena("stop", agent_id(new)).code == 0
    assert (arena.holder(), arena.again(old).fenced_by) == (agent_id(old), None)
    assert works(arena, old).code == 0


# ── The fence ────────────────────────────────────────────────────────────────────────────────────────


def test_an_old_coordinator_can_write_nothing_after_a_handoff(arena: Arena) -> None:
    """Its process may still be there for a while; what it does inside its old session is refused, under any name."""
    old = arena.lead()
    environment = inside(old, arena)
    assert arena("claim", "work", env=environment).code == 0
    arena.board.jobs.submit(command="touch ran", cwd=str(arena.folder))
    assert arena("handoff", "lead").code == 0
    before = arena.board.tasks.get(ref="work")
    late: list[list[str]] = [
        ["complete", "work"],
        ["send", "bob", "do this", "--later", "--as", agent_id(old)],
        ["send", "bob", "do this", "--later", "--as", agent_id(old), "--epoch", "1"],
        ["send", "bob", "do this", "--later", "--as", "helper"],
        ["run", "--hold", "lock:deploy", "--", "touch", "ran"],
        ["run", "--hold", "seat:coordinator", "--", "touch", "ran"],
        ["hold", "src/a.py"],
        ["post", "one more"],
        ["claim", "another"],
        ["work", "--burst"],
        ["work", "--burst", "--as", "helper"],
        ["spawn", "rival", "--coordinator", "--", "true"],
        ["handoff", "lead"],
    ]
    for words in late:
        answer = arena.tb(*words, env=environment)
        assert answer.code == 1, (words, answer)
        assert any(word in answer.err for word in ("nothing was written", "coordinator already", "held by")), words
    assert arena.board.tasks.get(ref="work") == before
    assert arena.board.messages.inbox(agent="bob") == []
    assert not (arena.folder / "ran").exists()
    assert len(arena.living()) == 1


def test_a_message_with_the_coordinators_epoch_needs_the_current_one(arena: Arena) -> None:
    new = arena.lead()
    who = ("--as", agent_id(new))
    assert arena("send", "bob", "first", "--later", *who, "--epoch", "1").code == 0
    assert arena("send", "bob", "second", "--later", *who, "--epoch", "2").code == 1
    assert arena("send", "bob", "third", "--later", "--as", "stranger", "--epoch", "1").code == 1
    assert [each.body for each in arena.board.messages.inbox(agent="bob")] == ["first"]


def test_the_replacement_can_write(arena: Arena) -> None:
    arena.lead()
    assert arena("handoff", "lead").code == 0
    [new] = arena.living()
    arena.starts(2)
    assert arena("send", "bob", "hello", "--later", env=inside(new, arena)).code == 0


def test_holds_of_an_ended_session_are_free_at_once(arena: Arena) -> None:
    old = arena.lead()
    assert arena("hold", "lock:deploy", "--lease", "1d", env=inside(old, arena)).code == 0
    arena("stop", "lead")
    assert arena.board.holds.list() == []
    with pytest.raises(Fenced):
        arena.board.tasks.post(name="late", agent=agent_id(old))


# ── The queue ────────────────────────────────────────────────────────────────────────────────────────


def queue_handoff(arena: Arena, *words: str) -> Any:
    answer = arena("handoff", "lead", "--queue", "--json", *words)
    assert answer.code == 0, answer
    return answer.json


def test_a_queued_handoff_waits_and_is_done_once(arena: Arena) -> None:
    old = arena.lead()
    ticket = queue_handoff(arena)["ticket"]
    assert [agent_id(each) for each in arena.living()] == [agent_id(old)]
    drained = arena("drain", "--json").json
    assert [(each["ticket"], each["outcome"]) for each in drained] == [(ticket, "done")]
    assert arena("drain").out == "the queue is empty\n"
    assert [each.ticket for each in arena.living()] == [ticket]


def test_a_ticket_starts_no_second_replacement(arena: Arena) -> None:
    """As after a crash between the start of the replacement and the moving of the file."""
    arena.lead()
    path = Path(queue_handoff(arena)["file"])
    text = path.read_text()
    assert arena("drain").code == 0
    path.write_text(text)
    assert arena("drain").code == 0
    assert len(arena.starts(2)) == 2
    assert [each.epoch for each in arena.living()] == [2]


def test_a_queued_handoff_that_fails_stays_and_is_put_aside_in_the_end(arena: Arena) -> None:
    old = arena.lead()
    queue_handoff(arena, "--settle", "50s", "--", *AGENT, "exits")
    queued = arena.queue()
    for outcome in ("left", "left", "put aside"):
        assert arena.queue() == queued
        answer = arena("drain")
        assert (answer.code, answer.out.split(" f")[0].startswith(outcome)) == (1, True), answer
        assert arena.holder() == agent_id(old)
    assert (arena.queue(), arena.queue("aside")) == ([], queued)


def test_a_queued_handoff_that_crashes_once_succeeds_the_second_time(arena: Arena) -> None:
    arena.lead()
    queue_handoff(arena, "--settle", "6s", "--", *AGENT, "crashes-once")
    assert arena("drain").code == 1
    assert arena("drain").code == 0
    assert [each.epoch for each in arena.living()] == [4]


def test_a_drain_waits_for_its_turn_if_it_is_told_to(arena: Arena) -> None:
    old = arena.lead()
    queue_handoff(arena)
    arena.board.agents.announce(agent="usurper~1")
    seat = {"resource": "seat:coordinator", "to": "usurper~1", "agent": agent_id(old), "lease": "1d"}
    arena.board.call("holds.transfer", seat)
    with arena.tb.start("drain", "--wait", "100s", "--json") as draining:
        arena.until(lambda: arena.tb("drain").out.startswith("left"), "it is left while somebody else has the seat")
        assert draining.poll() is None
        arena.board.holds.release(resources=["seat:coordinator"], agent="usurper~1")
        assert draining.wait(90) == 0
    assert arena.queue() == []


def test_a_file_that_nobody_understands_is_put_aside(arena: Arena) -> None:
    arena.lead()
    queue_handoff(arena)
    folder = arena.folder / "state" / "tiebreak" / "handoffs" / "queue"
    (folder / "0.json").write_text("{")
    answer = arena("drain")
    assert "put aside" in answer.out
    assert (arena.queue(), arena.queue("aside")) == ([], ["0.json"])
    assert len(arena.living()) == 1


def test_a_queued_handoff_of_somebody_who_was_forgotten_is_put_aside(arena: Arena) -> None:
    arena.lead()
    queue_handoff(arena)
    assert [arena(word, "lead").code for word in ("stop", "rm")] == [0, 0]
    answer = arena("drain")
    assert answer.out.startswith("put aside"), answer
    assert (arena.queue(), len(arena.queue("aside"))) == ([], 1)
    assert arena("drain").out == "the queue is empty\n"


def test_a_daemon_sees_what_is_queued_beside_files_that_nobody_understands(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena.lead()
    queue_handoff(arena)
    monkeypatch.setenv("XDG_STATE_HOME", str(arena.folder / "state"))
    folder = arena.folder / "state" / "tiebreak" / "handoffs" / "queue"
    board = json.loads(next(folder.iterdir()).read_text())["board"]
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: sorted(listed(path)))
    for text in ("{", "[]"):
        (folder / "0.json").write_text(text)
        assert handoff_drain.waiting([board, "elsewhere"]) == [board]


def test_a_drain_leaves_the_queues_of_others_alone(arena: Arena) -> None:
    arena.lead()
    queue_handoff(arena)
    assert arena("drain", "--project", "other").out == "the queue is empty\n"
    assert arena("drain", "--every-project", env={"TIEBREAK_BOARD": str(arena.folder / "b.db")}).out.startswith("the")
    assert len(arena.queue()) == 1
    assert arena("drain", "--project", "other", "--every-project").code == 0
