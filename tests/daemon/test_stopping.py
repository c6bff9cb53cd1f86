"""`tb serve --stop`: finds the daemon, also of a board on a server, and waits as long as that daemon drains."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tiebreak.daemon.server import TELL
from tiebreak.engine.addresses import is_same_database

from ..cli.command import Tb, changed_command, complaint, gone, read_lines, until
from ..daemons import PATIENCE, Serving, free_port, serving
from ..postgres import server
from .test_serving_workers import waiting_job


@pytest.fixture
def tb(tmp_path: Path) -> Iterator[Tb]:
    """The command on a PostgreSQL board, whose address has a password that must not be shown."""
    made = Tb(tmp_path)
    made.environment["TIEBREAK_BOARD"] = with_password(server().empty_board())
    made.environment["XDG_STATE_HOME"] = str(tmp_path / "s")
    yield made
    for port in (tmp_path / "ports").read_text().split() if (tmp_path / "ports").exists() else []:
        made("serve", "--stop", "--addr", f"127.0.0.1:{port}")


def with_password(address: str) -> str:
    """The address with a user, and with a password that this server does not ask for."""
    parts = urlsplit(address)
    return address if parts.password else address + ("&" if parts.query else "?") + "password=swordfish"


def detach(tb: Tb) -> tuple[int, int]:
    """Start one more daemon; its pid and port."""
    port = free_port()
    with (tb.folder / "ports").open("a") as file:
        file.write(f"{port}\n")
    facts = tb.json("serve", "--detach", "--addr", f"127.0.0.1:{port}")
    return int(facts["pid"]), port


def test_the_daemon_of_a_server_board_is_found_without_its_address(tb: Tb) -> None:
    pid, _ = detach(tb)
    assert tb.json("status")["daemon"]["pid"] == pid
    said = tb.ok("serve", "--stop")
    assert said.splitlines()[-1] == f"stopped pid {pid}"
    until(lambda: gone(pid), "the daemon has ended")
    assert tb.json("status")["daemons"] == []
    assert "swordfish" not in said


def test_two_daemons_of_a_server_board_are_told_apart_by_their_address(tb: Tb) -> None:
    (one, at), (two, other) = detach(tb), detach(tb)
    said = complaint(tb("serve", "--stop"), 1)
    assert "2 daemons serve it" in said
    assert f"127.0.0.1:{at}" in said
    assert f"127.0.0.1:{other}" in said
    assert "swordfish" not in said
    assert not gone(one)
    assert tb.json("serve", "--stop", "--addr", f"127.0.0.1:{at}") == {"stopped": one}
    assert not gone(two)
    assert tb.json("serve", "--stop") == {"stopped": two}


def test_no_daemon_of_another_board_is_stopped(tb: Tb) -> None:
    pid, _ = detach(tb)
    elsewhere = {"TIEBREAK_BOARD": "postgresql://127.0.0.1:1/elsewhere?password=swordfish"}
    said = complaint(tb("serve", "--stop", env={**elsewhere}), 1)
    assert "no daemon serves it on this machine" in said
    assert "swordfish" not in said
    assert not gone(pid)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("postgresql://h/db", "postgres://h:5432/db", True),
        ("postgresql://ann:secret@h/db", "postgresql://ben@H/db?sslmode=require", True),
        ("postgresql://localhost/db", "postgresql://127.0.0.1/db", True),
        ("postgresql:///db?host=/run/pg&port=5433", "postgresql://%2Frun%2Fpg:5433/db", True),
        ("postgresql://a:1,b:2/db", "postgresql:///db?host=a,b&port=1,2", True),
        ("postgresql://ann@h", "postgresql://h/ann", True),
        ("postgresql://h/db", "postgresql://h/other", False),
        ("postgresql://h/db", "postgresql://h:5433/db", False),
        ("postgresql://h/db", "postgresql://i/db", False),
        ("postgresql://h/db", "postgresql://h/db?options=-csearch_path%3Dx", False),
    ],
)
def test_one_database_has_many_spellings(one: str, other: str, same: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGPORT", "PGUSER", "PGDATABASE"):
        monkeypatch.delenv(name, raising=False)
    assert is_same_database(one, other) is same


# ── Draining ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Serving]:
    """A daemon with a worker."""
    with serving(tmp_path, "--workers", "1") as running:
        yield running
        (tmp_path / "go").touch()


def test_stopping_waits_for_the_jobs_and_says_so(busy: Serving) -> None:
    """The patience of the command is over long before the job ends: the daemon tells that it drains."""
    waiting_job(busy)
    tb = Tb(busy.folder)
    tb.environment.update(busy.environment)

    def beats() -> int:
        return int(tb.json("status")["daemon"]["draining"]["beats"])

    command = changed_command(busy.folder, "from tiebreak.program import serve", "serve.DAEMON_PATIENCE = 1.0")
    words = [command, "serve", "--stop"]
    with subprocess.Popen(words, env=tb.environment, stdout=subprocess.PIPE, text=True, bufsize=1) as running:
        lines = read_lines(running)
        until(lambda: any("waiting for a worker to finish its job: pid" in line for line in lines), "it says so")
        first = beats()
        until(lambda: beats() > first + 2 / TELL, "twice its patience is over")
        assert running.poll() is None
        (busy.folder / "go").touch()
        assert running.wait(PATIENCE) == 0
    assert busy.process
    assert busy.process.wait(PATIENCE) == 0


def test_a_daemon_that_neither_ends_nor_drains_is_not_waited_for(busy: Serving) -> None:
    tb = Tb(busy.folder)
    tb.environment.update(busy.environment)
    assert busy.process
    busy.process.send_signal(signal.SIGSTOP)
    try:
        command = changed_command(busy.folder, "from tiebreak.program import serve", "serve.DAEMON_PATIENCE = 0.2")
        done = subprocess.run(
            [command, "serve", "--stop"], env=tb.environment, capture_output=True, text=True, check=False
        )
    finally:
        busy.process.send_signal(signal.SIGCONT)
    assert done.returncode == 3
    assert f"pid {busy.process.pid} still serves after 0.2 s" in done.stderr
