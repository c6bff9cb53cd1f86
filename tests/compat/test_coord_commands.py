"""`tb coord …`: coord's command line against a real daemon, as run from a shell."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from ..cli.command import TB, Tb, changed_command, complaint, ended, measured, until
from ..daemons import PATIENCE, Serving, free_port, serving
from ..unit.test_imports import HEAVY, imported


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("coord")) as made:
        yield made


@pytest.fixture
def tb(daemon: Serving) -> Tb:
    """The command of the daemon's own user, told where the daemon is and nothing else."""
    made = Tb(daemon.folder)
    made.environment = {**made.environment, **measured(), "COORD_URL": daemon.url}
    return made


@pytest.fixture
def project() -> str:
    return f"p-{uuid4().hex[:12]}"


def sent(tb: Tb, *words: str) -> str:
    return str(tb.json("coord", "send", *(words or ("work",)))["id"])


def claimed(tb: Tb, agent: str = "tab-a") -> str:
    task = sent(tb)
    tb.ok("coord", "claim", task, "--as", agent)
    return task


def shown(tb: Tb, task: str) -> Any:
    return tb.json("coord", "get", task)


def waiters(daemon: Serving) -> int:
    found = re.search(r"^tiebreak_waiters (\d+)$", daemon.ask("GET", "/metrics").body.decode(), re.MULTILINE)
    assert found
    return int(found[1])


# ── A task's life ────────────────────────────────────────────────────────────────────────────────────


def test_send_prints_a_task_with_its_id_as_coord_does(tb: Tb) -> None:
    out = tb.ok("coord", "send", "fix it", "--kind", "bug", "--priority", "high", "--payload", '{"file": "é"}')
    task = json.loads(out)
    assert str(UUID(task["id"])) == task["id"]
    assert (task["kind"], task["priority"], task["payload"]) == ("bug", "high", {"file": "é"})
    assert shown(tb, task["id"]) == task


@pytest.mark.parametrize("payload", ["false", "0", '""', "[]", "null"])
def test_empty_and_falsy_payloads_are_kept(tb: Tb, payload: str) -> None:
    assert shown(tb, sent(tb, "x", "--payload", payload))["payload"] == json.loads(payload)


def test_one_agent_wins_and_the_other_is_told_who(tb: Tb) -> None:
    task = sent(tb)
    won = json.loads(tb.ok("coord", "claim", task, "--as", "tab-a", "--lease", "60"))
    assert (won["state"], won["claimed_by"]) == ("claimed", "tab-a")
    assert "tab-a" in complaint(tb("coord", "claim", task, "--as", "tab-b"), 1)
    assert shown(tb, task) == won


@pytest.mark.parametrize("option", ["--lease", "--lease-seconds"])
def test_a_claim_lasts_as_long_as_requested(tb: Tb, option: str) -> None:
    task = sent(tb)
    tb.ok("coord", "claim", task, "--as", "tab-a", option, "1")
    until(lambda: shown(tb, task)["state"] == "pending", "the lease runs out")
    tb.ok("coord", "claim", task, "--as", "tab-b")
    complaint(tb("coord", "complete", task, "--as", "tab-a"), 1)


def test_only_the_holder_extends_and_completes(tb: Tb) -> None:
    task = claimed(tb, "tab-a")
    for name in ("extend", "complete"):
        complaint(tb("coord", name, task, "--as", "tab-b"), 1)
    extended = json.loads(tb.ok("coord", "extend", task, "--as", "tab-a", "--lease", "600"))
    assert extended == {"ok": True, "lease_until": shown(tb, task)["lease_until"]}
    assert json.loads(tb.ok("coord", "complete", task, "--as", "tab-a", "--result", "[1]"))["ok"] is True
    assert (shown(tb, task)["state"], shown(tb, task)["result"]) == ("completed", [1])


def test_completing_announces_in_the_same_step(tb: Tb) -> None:
    task = claimed(tb)
    ack = ("--ack", "v1.1 stable", "--ack-priority", "urgent", "--ack-payload", '{"sha": "e56"}')
    answer = json.loads(tb.ok("coord", "complete", task, "--as", "tab-a", *ack))
    assert (answer["ack"]["name"], answer["ack"]["priority"]) == ("v1.1 stable", "urgent")
    assert answer["ack"]["payload"] == {"fixed_bug_id": task, "sha": "e56"}


def test_what_is_finished_stays_finished(tb: Tb) -> None:
    task = claimed(tb)
    tb.ok("coord", "complete", task, "--as", "tab-a")
    complaint(tb("coord", "cancel", task), 1)
    assert shown(tb, task)["state"] == "completed"
    other = claimed(tb)
    assert json.loads(tb.ok("coord", "cancel", other)) == {"ok": True}
    complaint(tb("coord", "complete", other, "--as", "tab-a"), 1)


def test_reclaim_answers_with_a_list(tb: Tb, project: str) -> None:
    assert json.loads(tb.ok("coord", "reclaim", "--project", project)) == []


@pytest.mark.parametrize("name", ["list", "tasks"])
def test_people_get_a_table_and_programs_a_list(tb: Tb, project: str, name: str) -> None:
    assert tb.ok("coord", name, "--project", project) == "no tasks\n"
    task = sent(tb, "the one", "--kind", "bug", "--project", project)
    sent(tb, "other", "--project", project)
    out = tb.ok("coord", name, "--kind", "bug", "--state", "pending", "--name-contains", "ONE", "--project", project)
    assert task in out
    assert "other" not in out
    assert [each["name"] for each in tb.json("coord", name, "--limit", "1", "--project", project)] == ["other"]


def test_a_list_waits_for_its_first_entry(tb: Tb, daemon: Serving, project: str) -> None:
    with tb.start("coord", "list", "--wait-ms", "20000", "--project", project, "--json") as running:
        until(lambda: waiters(daemon) == 1, "it waits")
        task = sent(tb, "late", "--project", project)
        assert [each["id"] for each in ended(running).json] == [task]


# ── Agents ───────────────────────────────────────────────────────────────────────────────────────────


def test_an_agent_gives_a_sign_of_life_by_position_or_by_option(tb: Tb, project: str) -> None:
    tb.ok("coord", "heartbeat", "tab-a", "--name", "tab alpha", "--project", project)
    tb.ok("coord", "heartbeat", "--as", "tab-b", "--project", project)
    assert {each["id"]: each["name"] for each in tb.json("coord", "agents", "--project", project)} == {
        "tab-a": "tab alpha",
        "tab-b": "shell-agent",
    }
    assert "tab alpha" in tb.ok("coord", "agents", "--project", project)
    complaint(tb("coord", "heartbeat"), 2)


def test_status_counts(tb: Tb, project: str) -> None:
    tb.ok("coord", "heartbeat", "tab-a", "--project", project)
    sent(tb, "x", "--project", project)
    sent(tb, "y", "--kind", "ack", "--project", project)
    assert tb.json("coord", "status", "--project", project) == {"agents": 1, "pending": 1, "completed": 1}
    assert "pending 1" in tb.ok("coord", "status", "--project", project)


# ── Waiting ──────────────────────────────────────────────────────────────────────────────────────────


def test_wait_prints_the_first_task_that_matches(tb: Tb, daemon: Serving, project: str) -> None:
    words = ("--kind", "ack", "--name-contains", "v1.1 STABLE", "--timeout", "60", "--project", project)
    with tb.start("coord", "wait", "--as", "watcher-1", *words) as running:
        until(lambda: waiters(daemon) == 1, "it waits")
        assert [each["id"] for each in tb.json("coord", "agents", "--project", project)] == ["watcher-1"]
        sent(tb, "v1.0 stable", "--kind", "ack", "--project", project)
        sent(tb, "v1.1 stable", "--kind", "bug", "--project", project)
        assert waiters(daemon) == 1
        task = sent(tb, "v1.1 stable: fixed", "--kind", "ack", "--project", project)
        answer = ended(running)
    assert (answer.code, answer.json["id"]) == (0, task)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ((), "work"),
        (("--kind", "ack"), "news"),
        (("--state", "completed"), "news"),
        (("--state", "any"), "news"),
        (("--priority", "urgent", "--state", "any"), "work"),
    ],
)
def test_wait_looks_for_pending_work_or_announcements(tb: Tb, project: str, words: tuple[str, ...], found: str) -> None:
    sent(tb, "work", "--priority", "urgent", "--project", project)
    sent(tb, "news", "--kind", "ack", "--project", project)
    assert json.loads(tb.ok("coord", "wait", *words, "--timeout", "60", "--project", project))["name"] == found


def test_a_wait_in_vain_ends_with_2(tb: Tb, project: str) -> None:
    complaint(tb("coord", "wait", "--timeout", "0.2", "--project", project), 2)


def test_a_wait_outlives_a_restart_of_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patience = "RemoteEngine.__init__.__kwdefaults__['patience'] = 90.0"  # a restart may take long on a busy machine
    patient = changed_command(tmp_path, "from tiebreak.remote import RemoteEngine", patience)
    with serving(tmp_path) as daemon:
        tb = Tb(tmp_path)
        monkeypatch.setattr("tests.cli.command.TB", patient)
        with tb.start("coord", "wait", "--url", daemon.url, "--timeout", "200") as running:
            until(lambda: waiters(daemon) == 1, "it waits")
            assert daemon.stop() == 0
            daemon.start()
            task = sent(tb, "after the restart", "--url", daemon.url)
            answer = ended(running)
        assert (answer.code, answer.json["id"]) == (0, task)


# ── Where the daemon is, and who may ask ─────────────────────────────────────────────────────────────


def test_the_url_may_stand_anywhere(tb: Tb, daemon: Serving) -> None:
    task, nowhere = sent(tb), {"COORD_URL": "http://127.0.0.1:1"}
    for words in (["--url", daemon.url, "get", task], ["get", task, f"--url={daemon.url}/"]):
        assert json.loads(tb.ok("coord", *words, env={**nowhere}))["id"] == task
    assert json.loads(tb.ok("--board", daemon.url, "coord", "get", task, env={**nowhere}))["id"] == task
    assert json.loads(tb.ok("coord", "--url", f"unix:{daemon.socket}", "get", task, env={**nowhere}))["id"] == task


def test_an_unreachable_daemon_ends_with_3(tb: Tb) -> None:
    complaint(tb("coord", "--url", f"http://127.0.0.1:{free_port()}", "status"), 3)


def test_a_command_without_the_token_changes_nothing(tb: Tb, tmp_path: Path) -> None:
    task = sent(tb)
    stranger: dict[str, str | None] = {"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    complaint(tb("coord", "claim", task, "--as", "tab-a", env=stranger), 3)
    complaint(tb("coord", "claim", task, "--as", "tab-a", env={"TIEBREAK_TOKEN": "x" * 43}), 3)
    assert shown(tb, task)["state"] == "pending"


def test_a_server_that_does_not_speak_coord_is_reported_as_such(tb: Tb, tmp_path: Path) -> None:
    script = "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler); "
    script += "print(s.server_port, flush=True); s.serve_forever()"
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as other:
        try:
            assert other.stdout
            complaint(tb("coord", "--url", f"http://127.0.0.1:{other.stdout.readline().strip()}", "status"), 3)
        finally:
            other.kill()


# ── Usage ────────────────────────────────────────────────────────────────────────────────────────────

WRONG = {
    "no command": [],
    "an unknown command": ["frobnicate"],
    "an unknown option": ["send", "x", "--colour", "red"],
    "an option of another command": ["claim", str(UUID(int=1)), "--as", "a", "--payload", "1"],
    "no id": ["claim", "--as", "a"],
    "no agent for a claim": ["claim", str(UUID(int=1))],
    "no agent for a completion": ["complete", str(UUID(int=1))],
    "a word too many": ["get", str(UUID(int=1)), "more"],
    "an id that is none": ["get", "login-bug"],
    "a payload that is no JSON": ["send", "x", "--payload", "{"],
    "a lease that is no time": ["claim", str(UUID(int=1)), "--as", "a", "--lease", "soon"],
    "a limit that is no number": ["list", "--limit", "many"],
    "a limit of nothing": ["list", "--limit", "0"],
    "a wait into the past": ["list", "--wait-ms", "-1"],
    "an unknown priority": ["send", "x", "--priority", "P0"],
    "an unknown state": ["list", "--state", "done"],
    "an announcement without a name": ["complete", str(UUID(int=1)), "--as", "a", "--ack-priority", "low"],
    "a url that is none": ["--url", "127.0.0.1:7777", "status"],
    "a url of another kind": ["--url", "ftp://127.0.0.1", "status"],
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_usage_ends_with_2(tb: Tb, what: str) -> None:
    complaint(tb("coord", *WRONG[what]), 2)
    answer = tb("coord", *WRONG[what], "--json")
    assert (answer.code, answer.err) == (2, "")
    assert {"error", "message"} <= set(answer.json)


def test_a_name_may_begin_with_a_dash(tb: Tb) -> None:
    assert json.loads(tb.ok("coord", "send", "--kind", "bug", "--", "--as"))["name"] == "--as"


def test_a_missing_task_ends_with_1(tb: Tb) -> None:
    for name in ("get", "claim", "extend", "complete", "cancel"):
        complaint(tb("coord", name, str(uuid4()), *(["--as", "a"] if name not in ("get", "cancel") else [])), 1)


def test_the_version_needs_no_daemon(tb: Tb) -> None:
    assert "tiebreak" in tb.json("coord", "version", env={"COORD_URL": "http://127.0.0.1:1"})


@pytest.mark.parametrize("code", [0, 1], ids=["won", "lost"])
def test_a_claim_loads_nothing_heavy(tb: Tb, code: int) -> None:
    task = sent(tb) if code == 0 else claimed(tb, "tab-b")
    environment = {name: value for name, value in tb.environment.items() if not name.startswith("COV")}
    _, bare = imported(environment, tb.folder, "-c", "import apsw")
    ended_with, loaded = imported(environment, tb.folder, TB, "coord", "claim", task, "--as", "tab-a")
    assert ended_with == code
    assert "tiebreak.remote" in loaded
    assert {module.partition(".")[0] for module in loaded - bare} & (HEAVY | {"msgspec", "uvicorn"}) == set()


# ── Serving ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["options", "environment"])
def test_coord_serve_runs_the_daemon(tmp_path: Path, how: str) -> None:
    tb, port, path = Tb(tmp_path), free_port(), tmp_path / "coord.db"
    options = ["--addr", f"127.0.0.1:{port}", "--db", str(path)] if how == "options" else []
    named = {} if options else {"COORD_ADDR": f"127.0.0.1:{port}", "COORD_DB": str(path)}
    with tb.start("coord", "serve", *options, env={**named}) as running:
        url = ("--url", f"http://127.0.0.1:{port}")
        until(lambda: tb("coord", *url, "status").code == 0, "it serves")
        task = sent(tb, "work", *url)
        assert path.exists()
        assert not (tmp_path / "board.db").exists()
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE) == 0
    assert tb.json("show", task, "--board", str(path), "--project", "default")["name"] == "work"


def test_an_open_daemon_takes_clients_that_know_of_no_token(tmp_path: Path) -> None:
    tb, port = Tb(tmp_path), free_port()
    with tb.start("coord", "serve", "--addr", f"127.0.0.1:{port}", "--open") as running:
        folder: dict[str, str | None] = {"XDG_STATE_HOME": os.path.join(tmp_path, "elsewhere")}
        url = ("--url", f"http://127.0.0.1:{port}")
        until(lambda: tb("coord", *url, "status", env=folder).code == 0, "it serves")
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE) == 0
