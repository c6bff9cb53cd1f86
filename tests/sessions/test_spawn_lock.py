"""The spawn lock, and the remote-control setting of the coordinators that are started under it.

A drain that finds the lock taken starts nothing and leaves its file in the queue.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tiebreak import Lost
from tiebreak.model import agent_id
from tiebreak.process_identity import identity
from tiebreak.sessions import remote_control
from tiebreak.sessions.spawn_lock import SpawnLock

from .arena import AGENT, QUICK, Arena, Crowd


@pytest.fixture
def home(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> Arena:
    """The arena, with this process at home in it."""
    monkeypatch.setenv("XDG_STATE_HOME", arena.tb.environment["XDG_STATE_HOME"])
    return arena


# ── The spawn lock ─────────────────────────────────────────────────────────────────────────────────────────


def test_t1_a_second_concurrent_spawn_for_the_same_project_fails_at_once(home: Arena) -> None:
    with SpawnLock("demo"), pytest.raises(Lost, match="another spawn is in progress"):
        SpawnLock("demo").acquire()


def test_t2_the_spawn_lock_is_free_again_after_its_holder_has_left(home: Arena) -> None:
    with SpawnLock("demo"):
        pass
    with pytest.raises(ZeroDivisionError), SpawnLock("demo"):
        raise ZeroDivisionError
    with SpawnLock("demo"):
        pass


def test_t3_different_projects_do_not_block_each_other(home: Arena) -> None:
    with SpawnLock("demo"), SpawnLock("other"), SpawnLock("demo/part"), SpawnLock("demo-part"):
        answer = home.spawn("lead", "ok", "--coordinator", "--project", "third")
    assert answer.code == 0, answer


def test_t4_a_spawn_without_coordinator_takes_no_spawn_lock(home: Arena) -> None:
    with SpawnLock("demo"):
        answer = home.spawn("worker")
    assert answer.code == 0, answer
    assert home.session("worker").role == "worker"
    assert home.holder() is None


def test_t5_the_refusal_names_the_holder_of_the_spawn_lock_and_since_when(home: Arena) -> None:
    with SpawnLock("demo"):
        answer = home("spawn", "late", "--coordinator", "--", "true")
    assert answer.code == 1
    assert f"pid {os.getpid()} since 20" in answer.err
    assert "tb attach" in answer.err
    me = identity()
    with SpawnLock("demo") as lock:
        signed = json.loads(Path(lock.path).read_text())
    assert (signed["pid"], signed["started"]) == (me.pid, me.started)


def test_t6_of_concurrent_spawns_only_one_starts(arena: Arena) -> None:
    crowd = Crowd(arena)
    answers = crowd(2, "spawn", "lead", "--coordinator", *QUICK, "--", *AGENT, "slow")
    crowd.close()
    assert sorted(answer.code for answer in answers) == [0, 1]
    assert len(arena.board.sessions.list(every=True)) == 1
    assert len(arena.starts(1)) == len(arena.terminals()) == 1


def test_t7_spawn_and_drain_take_the_same_spawn_lock(home: Arena) -> None:
    old = home.lead()
    assert home("handoff", "lead", "--queue").code == 0
    with SpawnLock("demo", "spawn"):
        drained = home("drain", "--json")
        spawned = home.spawn("other", "ok", "--coordinator")
    assert (drained.code, spawned.code) == (1, 1)
    assert drained.json[0]["outcome"] == "left"
    assert "another spawn is in progress" in drained.json[0]["detail"]
    assert [agent_id(each) for each in home.board.sessions.list(every=True)] == [agent_id(old)]


def test_t8_the_drain_releases_the_spawn_lock(home: Arena) -> None:
    home.lead()
    assert home("handoff", "lead", "--queue").code == 0
    assert home("drain").code == 0
    with SpawnLock("demo"):
        pass


def test_t9_contention_on_the_drain_path_neither_spawns_nor_loses_the_file(home: Arena) -> None:
    old = home.lead()
    home("handoff", "lead", "--queue")
    queued = home.queue()
    with SpawnLock("demo"):
        answer = home("drain")
        assert answer.code == 1
        assert answer.out.startswith("left ")
        assert "in progress" in answer.out
    assert home.queue() == queued
    assert [agent_id(each) for each in home.living()] == [agent_id(old)]
    assert home("drain").code == 0, "it is tried again"
    assert (home.queue(), home.queue("done")) == ([], queued)
    assert [each.replaces for each in home.living()] == [agent_id(old)]


# ── The drain path and the remote-control setting ─────────────────────────────────────────────────────


@pytest.fixture
def client(arena: Arena) -> list[str]:
    """The agent, called like a client that understands the flag."""
    script = arena.folder / "claude"
    script.write_text("#!/bin/sh\nexec " + " ".join(AGENT) + ' "$@"\n')
    script.chmod(0o755)
    return [str(script), "ok"]


def flag(arena: Arena) -> list[str]:
    return ["--remote-control", arena.session("lead").tmux or ""]


def test_a_drained_handoff_of_a_coordinator_sets_remote_control_up(home: Arena, client: list[str]) -> None:
    home("spawn", "lead", "--coordinator", *QUICK, "--", *client)
    assert home.words(1)[0] == ["ok"], "a coordinator from before the setting existed"
    home("handoff", "lead", "--queue")
    assert remote_control.state("demo") == "unset"
    assert home("drain").code == 0
    assert remote_control.state("demo") == "up"
    assert home.words(2)[1] == ["ok", *flag(home)]


def test_a_drained_handoff_of_a_worker_leaves_remote_control_unset(home: Arena, client: list[str]) -> None:
    home("spawn", "hand", *QUICK, "--", *client)
    home("handoff", "hand", "--queue")
    assert home("drain").code == 0
    assert remote_control.state("demo") == "unset"
    home("rc", "up")
    home("handoff", "hand", "--queue")
    assert home("drain").code == 0
    assert home.words(3) == [["ok"]] * 3


def test_a_drain_goes_on_if_the_setting_cannot_be_written(home: Arena, client: list[str]) -> None:
    home("spawn", "lead", "--coordinator", *QUICK, "--", *client)
    home("handoff", "lead", "--queue")
    os.mkdir(remote_control.path("demo"))  # nothing can be put in its place
    answer = home("drain")
    assert answer.code == 0, answer
    assert "warning" in answer.err
    assert "tb rc up demo" in answer.err
    assert home.words(2)[1] == ["ok"]
    assert (home.queue(), len(home.queue("done"))) == ([], 1)


# ── The setting on the other paths ────────────────────────────────────────────────────────────────────


def test_a_setting_that_is_up_reaches_spawns_and_handoffs_of_every_command(home: Arena) -> None:
    home("rc", "up", "demo")
    home.lead()
    assert home.words(1)[0] == ["ok", *flag(home)]
    assert home("handoff", "lead").code == 0
    assert home.words(2)[1] == ["ok", *flag(home)], "its own terminal, and the flag only once"


def test_a_setting_that_is_down_is_not_set_up_by_a_handoff(home: Arena, client: list[str]) -> None:
    home("spawn", "lead", "--coordinator", *QUICK, "--", *client)
    assert home("rc", "down").code == 0
    assert home("handoff", "lead").code == 0
    assert remote_control.state("demo") == "down"
    assert home.words(2) == [["ok"]] * 2


def test_a_record_from_before_the_setting_gets_the_flag_when_it_is_handed_off(home: Arena) -> None:
    home.lead()
    home("rc", "up")
    assert home("handoff", "lead").code == 0
    assert home.words(2) == [["ok"], ["ok", *flag(home)]]


def test_a_command_that_knows_nothing_of_the_flag_is_handed_off_as_it_is(home: Arena) -> None:
    home.lead()
    assert home("handoff", "lead").code == 0
    assert remote_control.state("demo") == "unset"
    assert home.words(2) == [["ok"]] * 2


def test_the_flag_can_be_configured(home: Arena) -> None:
    home("rc", "up")
    answer = home(
        *("spawn", "lead", "--coordinator", *QUICK, "--", *AGENT, "ok"), env={"TIEBREAK_RC_FLAG": "--far -s={session}"}
    )
    assert answer.code == 0, answer
    assert home.words(1)[0] == ["ok", "--far", f"-s={home.session('lead').tmux}"]


def test_the_setting_is_for_one_project(home: Arena) -> None:
    home("rc", "up", "other")
    assert home("rc", "status").out == "remote control is unset for demo\n"
    assert home("rc", "status", "other", "--json").json["remote_control"] == "up"
    assert home("rc", "sideways").code == 2
