"""A real second user of the machine: files they put beside a board, and requests to an open daemon."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tiebreak
from tests.cli.command import Tb
from tests.daemons import serving
from tiebreak import Board
from tiebreak.errors import Lost, Unavailable

from .second_user import as_second_user, reachable
from .test_strangers import JOBS, SECRET, WORKER, Place, furnished

DEAR = "dear to the owner of the board\n"
SIDES = ("gate", "daemon", "refused", "wal", "shm")
US = {"project": "p", "agent": "mallory~1"}


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder into which every user may put files, unlike those of pytest."""
    made = Path(tempfile.mkdtemp(dir="/tmp", prefix="tb-shared-"))
    made.chmod(0o777)
    assert reachable(made)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """An open daemon whose board is in a folder that every user may look into."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="tb-open-"))
    folder.chmod(0o755)
    with furnished(folder, "sqlite") as made:
        yield made
    shutil.rmtree(folder)


def test_the_second_user_is_another_one() -> None:
    [uid] = as_second_user(("who",))
    assert uid not in (0, os.geteuid())


# ── Beside a board ───────────────────────────────────────────────────────────────────────────────────


def use(path: Path) -> None:
    """Everything that opens the files beside a board: opening, writing, refusing, serving."""
    with suppress(Unavailable), opened(path, "alice") as alice, opened(path, "bob") as bob:
        alice.tasks.claim(ref="work")
        with suppress(Lost):
            bob.tasks.claim(ref="work")
        bob.tasks.claim(ref="other")
    for words in (("serve", "--detach", "--addr", "none"), ("serve", "--stop")):
        answer = Tb(path.parent)("--board", str(path), *words)
        assert "Traceback" not in answer.err


def opened(path: Path, agent: str) -> Board:
    return tiebreak.open(path, agent=f"{agent}~1", project="demo")


@pytest.mark.parametrize("sticky", [False, True], ids=["0777", "1777"])
def test_no_link_of_another_user_leads_to_a_file_of_ours(sticky: bool, shared: Path) -> None:
    shared.chmod(0o1777 if sticky else 0o777)
    precious = {side: shared / f"precious-{side}" for side in SIDES}
    for side, file in precious.items():
        file.write_text(DEAR)
        file.chmod(0o600)
        path = shared / f"board-{side}.db"
        assert as_second_user(("link", str(file), f"{path}-{side}")) == [None]
        use(path)
    assert {side: file.read_text() for side, file in precious.items()} == dict.fromkeys(SIDES, DEAR)


def test_no_file_of_another_user_becomes_part_of_a_board(shared: Path) -> None:
    """They could change it whenever they like."""
    for side in SIDES:
        path = shared / f"board-{side}.db"
        assert as_second_user(("write", f"{path}-{side}")) == ["written"]
        use(path)
        left = Path(f"{path}-{side}").read_text() if Path(f"{path}-{side}").exists() else "by another user"
        assert left == "by another user", side


@pytest.mark.parametrize("side", ["gate", "refused", "daemon"])
def test_a_pipe_of_another_user_makes_nobody_wait(side: str, shared: Path) -> None:
    path = shared / "board.db"
    assert as_second_user(("fifo", f"{path}-{side}")) == [None]
    use(path)


def test_nothing_of_a_board_can_be_read_or_written_by_another_user(place: Place) -> None:
    folder = Path(place.address).parent
    with opened(Path(place.address), "alice"), suppress(Lost), opened(Path(place.address), "bob") as bob:
        bob.tasks.claim(ref="held")
    ours = [each for each in folder.rglob("*") if each.is_file() and each != place.daemon.log]
    assert {f"board.db{suffix}" for suffix in ("", "-wal", "-shm", "-gate", "-daemon")} <= {each.name for each in ours}
    assert any(each.suffix == ".token" for each in ours)
    for what in ("read", "write"):
        came = as_second_user(*((what, str(each)) for each in ours))
        assert [
            (each.name, how) for each, how in zip(ours, came, strict=True) if how != {"error": "PermissionError"}
        ] == []


def test_the_daemon_s_socket_is_closed_to_another_user() -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="tb-sock-"))
    folder.chmod(0o755)
    try:
        with serving(folder) as daemon:
            daemon.private.chmod(0o755)  # the folder of the socket does not protect it here
            assert reachable(daemon.private)
            assert as_second_user(("connect", str(daemon.socket))) == [{"error": "PermissionError"}]
    finally:
        shutil.rmtree(folder)


# ── At an open daemon ────────────────────────────────────────────────────────────────────────────────


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def attempts(place: Place) -> dict[str, tuple[Any, ...]]:
    """What would take a job, end it, or get the secrets of one; by the name under which it is reported."""
    running = place.daemon.rpc("tasks.get", ref="running", project="p")
    grant = {"ref": "running", "epoch": running["epoch"], "project": "p", "agent": WORKER}
    calls = {
        "jobs.next": rpc("jobs.next", queues=["default", "running"], **US),
        "tasks.next": rpc("tasks.next", kind="job", count=10, **US),
        "tasks.claim": rpc("tasks.claim", ref="ready", **US),
        "tasks.claim_many": rpc("tasks.claim_many", refs=list(JOBS), **US),
        "tasks.complete": rpc("tasks.complete", **grant),
        "tasks.fail": rpc("tasks.fail", reason="x", **grant),
        "tasks.release": rpc("tasks.release", **grant),
        "tasks.cancel": rpc("tasks.cancel", ref="ready", **US),
        "tasks.break": rpc("tasks.break", ref="running", reason="x", **US),
        "tasks.extend": rpc("tasks.extend", **grant),
        "tasks.retry": rpc("tasks.retry", ref="failed", **US),
    }
    port = place.daemon.port
    made: dict[str, tuple[Any, ...]] = {name: ("ask", port, "POST", "/rpc", body) for name, body in calls.items()}
    made["a batch"] = ("ask", port, "POST", "/rpc", list(calls.values()))
    made["backup"] = ("ask", port, "GET", "/backup")
    made["doctor"] = ("ask", port, "POST", "/doctor", {"repair": True})
    return made


def test_another_user_gets_no_job_no_backup_and_no_repair_from_an_open_daemon(place: Place) -> None:
    made, before = attempts(place), place.rows()
    came = dict(zip(made, as_second_user(*made.values()), strict=True))
    assert {name: answer["status"] for name, answer in came.items()} == dict.fromkeys(made, 401)
    assert SECRET not in json.dumps(came)
    assert place.rows() == before


def test_another_user_is_served_what_an_open_daemon_is_for(place: Place) -> None:
    """Or the test above would pass because nothing is answered at all."""
    port = place.daemon.port
    [health, posted] = as_second_user(
        ("ask", port, "GET", "/health"), ("ask", port, "POST", "/rpc", rpc("tasks.post", name="from next door", **US))
    )
    assert (health["status"], posted["status"]) == (200, 200)
    assert json.loads(posted["body"])["result"]["name"] == "from next door"
