"""Spawning: what a session gets, what the board and the disk learn of it, and every way in which it can go wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

import tiebreak
from tiebreak.model import agent_id
from tiebreak.process_identity import alive, identity
from tiebreak.process_tree import descendants, send
from tiebreak.sessions.records import command, fate, supervisor

from ..cli.command import complaint
from .arena import AGENT, QUICK, Arena

# ── What a session is ────────────────────────────────────────────────────────────────────────────────


def test_a_coordinator_knows_who_it_is_and_the_board_knows_where(arena: Arena) -> None:
    found = arena.lead()
    [start] = arena.starts(1)
    told = start["environment"]
    assert told["TIEBREAK_AGENT"] == agent_id(found) == arena.holder()
    assert (told["TIEBREAK_PROJECT"], told["TIEBREAK_EPOCH"]) == ("demo", "1")
    assert (found.role, found.state, found.epoch, found.child) == ("coordinator", "alive", 1, start["pid"])
    assert (found.host, found.boot) == identity()[:2]
    assert alive(supervisor(found))
    assert alive(command(found))
    assert found.tmux in arena.terminals()
    [known] = arena.board.agents.list(agent="lead")
    assert (known.id, known.status, known.pid) == (agent_id(found), "active", found.pid)
    assert known.parent == found.started_by


def test_commands_inside_a_session_act_as_its_agent_under_any_name(arena: Arena) -> None:
    found = arena.lead()
    told = arena.starts(1)[0]["environment"]
    inside = {name: value for name, value in told.items() if name.startswith("TIEBREAK_")}
    assert arena.tb.json("whoami", env=inside)["session"] == agent_id(found).partition("~")[2]
    assert arena.tb.json("whoami", "--as", "helper", env=inside)["session"] == agent_id(found).partition("~")[2]


def test_values_of_the_environment_never_reach_the_board_or_a_command_line(arena: Arena) -> None:
    arena.spawn("hand", "ok", "--env", "SECRET=hunter2 \n'x'", "--env", "GREETING=")
    [start] = arena.starts(1)
    assert (start["environment"]["SECRET"], start["environment"]["GREETING"]) == ("hunter2 \n'x'", "")
    found = arena.session("hand")
    assert found.facts["env"] == ["GREETING", "SECRET"]
    assert b"hunter2" not in Path(arena.tb.path).read_bytes() + Path(f"{arena.tb.path}-wal").read_bytes()
    for who in (found.pid, found.child):
        assert b"hunter2" not in Path(f"/proc/{who}/cmdline").read_bytes()


def test_files_of_sessions_are_for_their_owner_only(arena: Arena) -> None:
    arena.lead()
    arena("rc", "up")
    arena("handoff", "lead", "--queue", "--doc", "-", stdin="notes")
    top = arena.folder / "state" / "tiebreak"
    seen = 0
    for folder, _, names in os.walk(top):
        assert os.stat(folder).st_mode & 0o077 == 0, folder
        for name in names:
            seen += 1
            assert os.stat(os.path.join(folder, name)).st_mode & 0o077 == 0, name
    assert seen >= 5, "a lock, a plan, a marker, a document and a queued handoff"


def test_a_worktree_of_its_own_is_on_a_branch_of_its_own(arena: Arena, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    git = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@example"]
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "first"], check=True)
    answer = arena.spawn("hand", "ok", "--worktree", "--cwd", str(repository))
    assert answer.code == 0, answer
    facts = arena.session("hand").facts
    assert arena.starts(1)[0]["cwd"] == facts["worktree"]
    branch = subprocess.run(
        ["git", "-C", facts["worktree"], "branch", "--show-current"], capture_output=True, text=True, check=True
    )
    assert branch.stdout.strip() == facts["branch"]
    assert arena("stop", "hand").code == 0
    assert arena("rm", "hand", "--worktree").code == 0
    assert not os.path.exists(facts["worktree"])


def test_a_folder_without_a_repository_has_no_worktrees(arena: Arena) -> None:
    answer = arena("spawn", "hand", "--worktree", "--", "true")
    assert "is in no git repository" in complaint(answer, 1)
    assert arena.board.sessions.list(every=True) == []


def test_a_folder_of_the_same_name_does_not_stand_in_for_tiebreak(arena: Arena) -> None:
    trap = arena.folder / "trap"
    (trap / "tiebreak").mkdir(parents=True)
    (trap / "tiebreak" / "__init__.py").write_text("raise SystemExit('trapped')")
    assert arena.spawn("hand", "ok", "--cwd", str(trap)).code == 0


# ── Ways to fail ─────────────────────────────────────────────────────────────────────────────────────


def test_a_command_that_ends_at_once_is_no_success_and_frees_the_seat(arena: Arena) -> None:
    answer = arena("spawn", "lead", "--coordinator", "--settle", "20s", "--", *AGENT, "exits")
    assert "did not come to life: exited with 3" in complaint(answer, 1)
    found = arena.session("lead")
    assert (found.state, found.code) == ("ended", 3)
    assert arena.holder() is None
    assert arena.lead().epoch == 2


def test_a_command_that_does_not_exist_is_named(arena: Arena) -> None:
    answer = arena("spawn", "lead", "--coordinator", "--settle", "20s", "--", "no-such-program")
    assert "cannot run 'no-such-program'" in complaint(answer, 1)
    assert arena.holder() is None


def test_one_that_crashed_once_can_be_tried_again(arena: Arena) -> None:
    words = ("spawn", "lead", "--coordinator", "--settle", "6s", "--", *AGENT, "crashes-once")
    assert "ended by signal 9" in complaint(arena.tb(*words), 1)
    assert arena.tb(*words).code == 0
    assert arena.notes("overlaps") == []


def test_a_terminal_that_cannot_be_opened_leaves_nothing_behind(arena: Arena) -> None:
    broken = arena.folder / "bin" / "tmux"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho out of order >&2\nexit 1\n")
    broken.chmod(0o755)
    path = f"{broken.parent}:{arena.tb.environment['PATH']}"
    answer = arena("spawn", "lead", "--coordinator", "--", "true", env={"PATH": path})
    assert "tmux could not start" in complaint(answer, 1)
    assert "out of order" in answer.err
    assert (arena.holder(), arena.session("lead").state) == (None, "ended")


def test_a_slow_start_is_not_waited_for_in_silence(arena: Arena) -> None:
    answer = arena("spawn", "lead", "--settle", "2s", "--", *AGENT, "ok")
    assert answer.code == 0
    assert "tb: waiting up to " in answer.err
    assert "for lead to come to life" in answer.err


def test_without_tmux_it_says_so(arena: Arena) -> None:
    python = Path(AGENT[0]).parent
    answer = arena("spawn", "lead", "--coordinator", "--", "true", env={"PATH": str(python)})
    assert "tmux is not installed" in complaint(answer, 3)
    assert arena.holder() is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["spawn", "lead"], "COMMAND is missing"),
        (["spawn", "lead", "--"], "COMMAND is missing"),
        (["spawn", "a b", "--", "true"], "name: "),
        (["spawn", "a~b", "--", "true"], "name: "),
        (["spawn", "lead", "--cwd", "nowhere", "--", "true"], "is no folder"),
        (["spawn", "lead", "--env", "X", "--", "true"], "expected NAME=VALUE"),
        (["spawn", "lead", "--env", "1X=2", "--", "true"], "expected NAME=VALUE"),
        (["spawn", "lead", "--env", "TIEBREAK_AGENT=x", "--", "true"], "is set by tb itself"),
        (["spawn", "lead", "--settle", "soon", "--", "true"], "--settle"),
        (["spawn", "lead", "--lease", "0s", "--", "true"], "--lease"),
        (["rc", "sideways"], "up, down or status"),
        (["peek", "lead", "--lines", "-3"], "--lines"),
        (["handoff", "lead", "--doc", "nowhere.md"], "cannot read"),
    ],
)
def test_bad_input_is_refused_before_anything_happens(arena: Arena, words: list[str], said: str) -> None:
    assert said in complaint(arena(*words), 2)
    assert arena.board.events.last() == 0


@pytest.mark.parametrize("name", ["attach", "peek", "stop", "rm", "handoff"])
def test_a_session_that_does_not_exist_is_not_found(arena: Arena, name: str) -> None:
    assert "no session of nobody" in complaint(arena(name, "nobody"), 1)


# ── Living and ending ────────────────────────────────────────────────────────────────────────────────


def test_tell_types_the_text_and_sends_it_as_a_message(arena: Arena) -> None:
    arena.lead()
    assert arena("tell", "lead", "look", "at $HOME; `this`").code == 0
    arena.until(lambda: "heard look at $HOME; `this`" in arena("peek", "lead").out, "the agent has heard it")
    [message] = arena.board.messages.inbox(agent="lead")
    assert (message.body, message.channel) == ("look at $HOME; `this`", "terminal")


def test_peek_shows_no_control_sequences(arena: Arena) -> None:
    assert arena("spawn", "hand", "--settle", "0s", "--", *AGENT, "ok", "\x1b]0;owned\x07").code == 0
    arena.until(lambda: "ready" in arena("peek", "hand").out, "something is shown")
    assert "\x1b" not in arena("peek", "hand").out


def test_a_session_ends_when_its_command_ends_and_frees_the_seat_at_once(arena: Arena) -> None:
    found = arena.lead("ok", "--lease", "1d")
    arena("tell", "lead", "/exit")
    over = arena.until_ended(found)
    assert (over.code, over.note, arena.holder()) == (0, "exited with 0", None)
    assert arena.lead().epoch == 2


def test_stop_ends_a_command_that_does_not_listen_with_all_its_children(arena: Arena) -> None:
    script = f"{' '.join(AGENT)} hangs & {' '.join(AGENT)} hangs & trap '' TERM HUP; wait; wait; wait"
    assert arena("spawn", "hand", *QUICK, "--", "sh", "-c", script).code == 0
    children = [identity(each["pid"]) for each in arena.starts(2)]
    found = arena.session("hand")
    assert arena("stop", "hand").code == 0
    assert arena.again(found).note == "ended by signal 9"
    assert [alive(each) for each in (command(found), *children)] == [False] * 3
    arena.until(lambda: alive(supervisor(found)) is False, "its supervisor has nothing left to do")


def test_a_session_that_is_asked_to_exit_ends_by_itself(arena: Arena) -> None:
    found = arena.lead()
    assert arena("stop", "lead", "--ask", "/exit", "--patience", "60s", "--reason", "enough").code == 0
    assert (arena.again(found).code, arena.holder()) == (0, None)
    assert [each.body for each in arena.board.messages.inbox(agent="lead")] == ["you are being stopped by me: enough"]


@pytest.mark.parametrize("victim", ["supervisor", "terminal"])
def test_a_command_does_not_outlive_its_supervisor(arena: Arena, victim: str) -> None:
    found = arena.lead("hangs")
    if victim == "supervisor":
        os.kill(found.pid, signal.SIGKILL)
    else:
        arena.tmux("kill-server")
    arena.until(lambda: alive(command(found)) is False, "the command is dead")
    arena.until(lambda: fate(arena.again(found)) == "gone", "and all of it")


def test_a_command_dies_with_its_supervisor_also_when_nobody_guards_it(arena: Arena) -> None:
    """On Linux the kernel sees to it."""
    found = arena.lead("hangs")
    for guardian in descendants(found.pid):
        if guardian.pid != found.child:
            send(guardian, signal.SIGKILL)
    arena.until(lambda: [each.pid for each in descendants(found.pid)] == [found.child], "the guardian is dead")
    os.kill(found.pid, signal.SIGKILL)
    arena.until(lambda: alive(command(found)) is False, "the command is dead")


def test_a_supervisor_that_comes_too_late_starts_nothing(arena: Arena) -> None:
    """Its spawner was killed, and the next one has given the session up: the plan is there, the seat is not."""
    arena.lead("ok", "--lease", "1d")
    plan = next((arena.folder / "state" / "tiebreak" / "sessions").iterdir())
    late = json.loads(plan.read_text())
    late["agent"] = "late~spawn-1"
    plan.with_name("late.json").write_text(json.dumps(late))
    me = identity()
    who = {"host": me.host, "boot": me.boot, "pid": me.pid, "started": me.started}
    begin = {
        "session": "late~spawn-1",
        "role": "coordinator",
        "command": ["x"],
        "replaces": agent_id(arena.living()[0]),
    }
    arena.board.call("sessions.begin", {**begin, **who})
    arena.board.sessions.end(session="late~spawn-1", note="given up")
    done = subprocess.run(
        [AGENT[0], "-P", "-m", "tiebreak.sessions.supervisor", str(plan.with_name("late.json"))],
        env=arena.tb.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 1
    assert "its command does not run" in done.stderr
    assert len(arena.starts(1)) == 1
    assert arena.holder() == agent_id(arena.living()[0])


def test_children_in_the_group_do_not_outlive_the_supervisor_either(arena: Arena) -> None:
    script = f"{' '.join(AGENT)} hangs & wait"
    assert arena("spawn", "hand", *QUICK, "--", "sh", "-c", script).code == 0
    child = identity(arena.starts(1)[0]["pid"])
    os.kill(arena.session("hand").pid, signal.SIGKILL)
    arena.until(lambda: alive(child) is False, "the command's child is dead")


def test_a_live_coordinator_is_not_replaced_because_its_seat_is_free(arena: Arena) -> None:
    """A seat can lapse while its coordinator lives: a suspended machine, a stalled supervisor. That is no proof."""
    found = arena.lead("ok", "--lease", "1d")
    assert arena("break", "seat:coordinator", "--reason", "as if it had lapsed").code == 0
    answer = arena.spawn("other", "ok", "--coordinator")
    assert answer.code == 1
    assert "has a coordinator already: lead" in answer.json["message"]
    assert [agent_id(each) for each in arena.living()] == [agent_id(found)]


def test_a_live_coordinator_takes_a_seat_that_lapsed_again(arena: Arena) -> None:
    found = arena.lead("ok", "--lease", "15s")
    assert arena("break", "seat:coordinator", "--reason", "as if it had lapsed").code == 0
    arena.until(lambda: arena.holder() == agent_id(found), "it has its seat again")
    assert (arena.again(found).epoch, arena.again(found).fenced_by) == (2, None)


def test_a_coordinator_that_lost_its_seat_is_fenced_and_told_and_not_killed(arena: Arena) -> None:
    found = arena.lead("ok", "--lease", "15s")
    arena.board.agents.announce(agent="usurper~1")
    arena.board.call("holds.transfer", {"resource": "seat:coordinator", "to": "usurper~1", "agent": agent_id(found)})
    arena.until(lambda: arena.again(found).fenced_by == "usurper~1", "it is marked")
    arena.until(lambda: "held by usurper~1" in arena("peek", "lead").out, "its terminal says so")
    assert fate(arena.again(found)) == "alive"
    with pytest.raises(tiebreak.Fenced):
        arena.board.tasks.post(name="late", agent=agent_id(found))
    arena.board.holds.release(resources=["seat:coordinator"], agent="usurper~1")
    arena.until(lambda: arena.holder() == agent_id(found), "the seat was given back, so it is its own again")
    arena.board.tasks.post(name="in time", agent=agent_id(found))


def test_the_supervisor_renews_the_seat_and_the_agent_need_not(arena: Arena) -> None:
    arena.lead("ok", "--lease", "15s")
    seen = arena.board.events.last()
    arena.board.wait(after=seen, event="hold.renewed", timeout="60s")
    assert [hold.epoch for hold in arena.board.holds.list()] == [1]


def test_only_what_has_ended_can_be_forgotten(arena: Arena) -> None:
    found = arena.lead()
    assert "has not ended" in complaint(arena("rm", "lead"), 1)
    arena("stop", "lead")
    plan = arena.folder / "state" / "tiebreak" / "sessions" / f"{agent_id(found).partition('~')[2]}.json"
    assert json.loads(plan.read_text())["agent"] == agent_id(found)
    assert arena("rm", "lead").code == 0
    assert not plan.exists()
    assert arena.board.sessions.list(every=True) == []


def test_what_is_on_another_host_is_left_to_that_host(arena: Arena) -> None:
    process = {"host": "elsewhere", "boot": "1.1", "pid": 7, "started": 70}
    arena.board.call(
        "sessions.begin", {"session": "far~spawn-1", "role": "coordinator", "command": ["x"], "tmux": "tb-x", **process}
    )
    for words in (["peek", "far"], ["tell", "far", "hello"], ["stop", "far"], ["attach", "far"]):
        assert "lives on host elsewhere" in complaint(arena(*words), 1)
    answer = arena.spawn("near", "ok", "--coordinator")
    assert (answer.code, answer.json["holder"]) == (1, "far")
    with pytest.raises(tiebreak.Refused):
        arena.board.sessions.remove(session="far~spawn-1")


def test_a_seat_that_was_taken_by_hand_counts(arena: Arena) -> None:
    arena.board.agents.announce(agent="person~1")
    arena.board.holds.take(resources=["seat:coordinator"], agent="person~1")
    answer = arena.spawn("lead", "ok", "--coordinator")
    assert (answer.code, answer.json["holder"]) == (1, "person")


def test_a_seat_that_was_taken_by_hand_is_free_when_that_process_is_dead(arena: Arena) -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        who = identity(process.pid)
        process.kill()
    facts = {"host": who.host, "boot": who.boot, "pid": who.pid, "started": who.started}
    arena.board.call("agents.announce", {"agent": "person~1", **facts})
    arena.board.holds.take(resources=["seat:coordinator"], agent="person~1")
    assert arena.lead().epoch == 2
