"""One daemon for each board, whoever starts it and however its path is spelled; others may use the file directly."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

import tiebreak
from tiebreak import Lost
from tiebreak.daemon.lock import served as who_serves

from ..cli.command import TB, Tb, changed_command, complaint, gone, measured, until
from ..cli.terminals import terminal
from ..daemons import PATIENCE, Serving, free_port
from .conftest import Connection, Crowd, ask, post, result

EIGHT = 8


def command(place: Serving) -> Tb:
    """The command of somebody who works with the same board."""
    return Tb(place.folder)


def signed(board: Path) -> dict[str, Any]:
    """What the lock file tells."""
    found = who_serves(str(board))
    assert found, "nobody serves"
    return found


@pytest.fixture
def detached(tb: Tb, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tb]:
    """A patient command whose daemon in the background, if it leaves one, ends with the test."""
    patient = changed_command(tb.folder, "from tiebreak.program import serve", "serve.DAEMON_PATIENCE = 60.0")
    monkeypatch.setattr("tests.cli.command.TB", patient)
    tb.environment.update(measured())
    yield tb
    found = who_serves(str(tb.path))
    if found:
        os.kill(found["pid"], 9)
        until(lambda: gone(found["pid"]), "the daemon has ended")


# ── The second ───────────────────────────────────────────────────────────────────────────────────────


def spellings(place: Serving) -> dict[str, str]:
    """The same file by other names."""
    link, folder = place.folder / "link.db", place.folder / "other"
    if not link.is_symlink():
        link.symlink_to(place.board)
        folder.symlink_to(place.folder)
    return {
        "as it is": str(place.board),
        "a link to the file": str(link),
        "a link to the folder": str(folder / "board.db"),
        "dots": f"{place.folder}/./../{place.folder.name}/board.db",
        "relative": "board.db",
        "a URL": f"sqlite://{place.board}",
    }


@pytest.mark.parametrize(
    "spelling", ["as it is", "a link to the file", "a link to the folder", "dots", "relative", "a URL"]
)
def test_a_second_daemon_is_refused_and_told_of_the_first(spelling: str, served: Serving) -> None:
    assert served.process
    board = spellings(served)[spelling]
    said = complaint(command(served)("--board", board, "serve", "--addr", "127.0.0.1:0"), 1)
    assert f"pid {served.process.pid} " in said
    assert served.url in said
    assert f"unix:{served.socket}" in said
    assert f"since {signed(served.board)['since']}" in said
    assert ask(served, "GET", "/health").status == 200


def test_a_second_detached_daemon_is_refused_too(served: Serving) -> None:
    assert served.process
    said = complaint(command(served)("serve", "--detach", "--addr", "127.0.0.1:0"), 1)
    assert f"already served by pid {served.process.pid} at " in said


def test_of_eight_that_start_at_the_same_moment_one_serves(tb: Tb) -> None:
    words = [TB, "serve", "--addr", "127.0.0.1:0", "--log", "json"]
    private = [tb.folder / f"{i}.err" for i in range(EIGHT)]
    running = []
    try:
        for path in private:
            with path.open("wb") as errors:
                running.append(
                    subprocess.Popen(words, env=tb.environment, stdout=subprocess.DEVNULL, stderr=errors, cwd=tb.folder)
                )
        until(lambda: sum(each.poll() is None for each in running) <= 1, "all but one have ended")
        [winner] = [each for each in running if each.poll() is None]
        until(lambda: (who_serves(str(tb.path)) or {}).get("pid") == winner.pid, "the one that is left serves")
        assert Counter(each.poll() for each in running) == {1: EIGHT - 1, None: 1}
        for each, path in zip(running, private, strict=True):
            said = path.read_text()
            assert each is winner or f"pid {winner.pid} at " in said or "already starting" in said, said
        winner.terminate()
        assert winner.wait(PATIENCE) == 0
    finally:
        for each in running:
            each.kill()
            each.wait(PATIENCE)


def test_a_killed_daemon_does_not_block_the_next_one_and_its_lock_file_stays(own: Serving) -> None:
    lock = Path(f"{own.board}-daemon")
    first = lock.stat()
    own.kill()
    assert own.socket.exists()
    assert who_serves(str(own.board)) is None
    own.start()
    assert ask(own, "GET", "/health").status == 200
    assert own.stop() == 0
    assert lock.read_bytes() == b""
    own.start()
    assert (lock.stat().st_dev, lock.stat().st_ino) == (first.st_dev, first.st_ino)
    assert lock.stat().st_mode & 0o777 == 0o600


def test_another_board_on_a_taken_port_is_refused_and_leaves_nothing_behind(served: Serving, tb: Tb) -> None:
    said = complaint(tb("serve", "--addr", f"127.0.0.1:{served.port}"), 1)
    assert f"--addr 127.0.0.1:{served.port}: " in said
    assert "in use" in said
    assert who_serves(str(tb.path)) is None
    assert list(Path(tb.environment["XDG_STATE_HOME"], "tiebreak", "run").iterdir()) == []
    assert served.ask("GET", "/health").status == 200


def test_another_board_on_a_taken_socket_is_refused_and_the_first_goes_on(served: Serving, tb: Tb) -> None:
    said = complaint(tb("serve", "--addr", "none", "--socket", str(served.socket)), 1)
    assert f"socket {served.socket}: another process listens there" in said
    assert ask(served, "GET", "/health").status == 200


# ── In the background, and to an end ─────────────────────────────────────────────────────────────────


def test_a_detached_daemon_serves_when_its_command_comes_back_and_stops_when_told(detached: Tb) -> None:
    facts = detached.json("serve", "--detach", "--addr", f"127.0.0.1:{free_port()}")
    assert facts["pid"] == signed(detached.path)["pid"]
    assert "serving" in Path(facts["log"]).read_text()
    assert Path(facts["log"]).stat().st_mode & 0o777 == 0o600
    remote = detached.json("post", "x", env={"TIEBREAK_BOARD": facts["addresses"][-1]})
    assert detached.json("tasks")[0]["id"] == remote["id"]
    assert detached.json("serve", "--stop") == {"stopped": facts["pid"]}
    until(lambda: gone(facts["pid"]), "the daemon has ended")
    assert list(Path(facts["log"]).parent.iterdir()) == [Path(facts["log"])]


def test_nothing_can_be_stopped_where_nothing_serves(tb: Tb) -> None:
    assert "no daemon serves it" in complaint(tb("serve", "--stop"), 1)
    tb.ok("post", "x")
    assert "no daemon serves it" in complaint(tb("serve", "--stop"), 1)


def test_stopping_finds_the_daemon_under_another_name_of_its_board(own: Serving) -> None:
    assert own.process
    stopped = command(own).json("serve", "--stop", "--board", spellings(own)["a link to the file"])
    assert stopped == {"stopped": own.process.pid}
    assert own.process.wait(PATIENCE) == 0


def test_a_detached_daemon_outlives_its_terminal(detached: Tb) -> None:
    with terminal() as window:
        shell = window.start(detached, "sh", "-c", f"{TB} serve --detach --addr none; echo it is $?; read forever")
        assert window.read(until=b"it is 0"), window.screen
        facts = signed(detached.path)
        window.hang_up()  # everything in its session gets SIGHUP
        assert shell.wait(PATIENCE) != 0
    assert os.getsid(facts["pid"]) == facts["pid"]
    [address] = facts["addresses"]
    with contextlib.closing(Connection(Path(address.removeprefix("unix:")))) as connection:
        assert connection.ask("GET", "/health").json["pid"] == facts["pid"]


def test_a_detached_daemon_that_cannot_serve_says_why(served: Serving, detached: Tb) -> None:
    answer = detached("serve", "--detach", "--addr", f"127.0.0.1:{served.port}")
    assert (answer.code, answer.out) == (1, "")
    assert f"--addr 127.0.0.1:{served.port}: " in answer.err
    assert "in use" in answer.err
    assert "Traceback" not in answer.err
    assert who_serves(str(detached.path)) is None


# ── Who serves ───────────────────────────────────────────────────────────────────────────────────────


def test_status_tells_who_serves_the_board(served: Serving) -> None:
    assert served.process
    facts = signed(served.board)
    shown = command(served).json("status")["daemon"]
    assert {name: shown[name] for name in ("pid", "addresses", "since")} == {
        name: facts[name] for name in ("pid", "addresses", "since")
    }
    [line] = [line for line in command(served).ok("status").splitlines() if line.startswith("daemon")]
    assert f"pid {served.process.pid} at " in line
    assert served.url in line


def test_status_does_not_mistake_a_dead_daemon_for_a_living_one(own: Serving) -> None:
    own.kill()
    assert command(own).json("status")["daemon"] is None
    assert "pid" not in command(own).ok("status")


# ── Beside it ────────────────────────────────────────────────────────────────────────────────────────


def test_claims_on_the_file_and_through_the_daemon_have_one_winner_each(served: Serving, crowd: Crowd) -> None:
    refs = [post(served, f"race {i}")["id"] for i in range(40)]
    addresses = [str(served.board), f"unix:{served.socket}"] * 3
    start = Barrier(len(addresses))

    def race(number: int, address: str) -> list[str]:
        won = []
        with tiebreak.open(address, agent=f"racer-{number}~1", project="demo") as board:
            start.wait(PATIENCE)
            for ref in refs:
                with contextlib.suppress(Lost):
                    won.append(board.win(ref).id)
        return won

    racing: list[Future[list[str]]] = [crowd(race, i, address) for i, address in enumerate(addresses)]
    wins = Counter(ref for each in racing for ref in each.result())
    assert wins == dict.fromkeys(refs, 1)


def test_commands_on_the_file_and_through_the_daemon_have_one_winner(served: Serving) -> None:
    post(served, "only one", key="only-one")
    tb = command(served)
    boards = [str(served.board), served.url, f"unix:{served.socket}"] * 2
    running = [
        subprocess.Popen(
            [TB, "--board", board, "claim", "only-one", "--as", f"shell-{i}", "--json"],
            env=tb.environment,
            cwd=tb.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for i, board in enumerate(boards)
    ]
    ended = [(each.communicate(timeout=2 * PATIENCE), each.returncode) for each in running]
    assert Counter(code for _, code in ended) == {0: 1, 1: len(boards) - 1}
    [winner] = [json.loads(out)["holder"] for (out, _), code in ended if code == 0]
    assert {json.loads(out)["holder"] for (out, _), _ in ended} == {winner}
    assert result(served, "tasks.get", ref="only-one", project="demo")["holder"] == winner
