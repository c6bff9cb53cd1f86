"""SIGKILL at any statement of a restore: the board is as it was, or restored as a whole; and it can be run again."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

from tests.migrate.test_moving import contents, furnish
from tests.races.crew import processes
from tiebreak.engine.move.postgres_endpoint import PostgresEndpoint
from tiebreak.engine.move.sqlite_endpoint import SqliteEndpoint

from .acts import opened, restored

PATIENCE = 150.0
KILLS = 6


def restorer(file: str, address: str, deadly: int, report: Any) -> None:
    """Restore, and die after that many statements on the board; else tell how many there were."""
    count = 0

    def counting(run: Any) -> Any:
        def counted(self: Any, *words: Any) -> Any:
            nonlocal count
            answer = run(self, *words)
            count += str(self) == address or (address.startswith("postgresql:") and isinstance(self, PostgresEndpoint))
            if deadly and count == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return counted

    for end in (SqliteEndpoint, PostgresEndpoint):
        for name in ("rows", "insert"):
            setattr(end, name, counting(getattr(end, name)))
    restored(Path(file), address, save_to=f"{file}.{os.getpid()}")
    report.send(count)


def run_restorer(file: Path, address: str, deadly: int = 0) -> int:
    """In a process of its own: how many statements it took, or 0 if it was killed."""
    mine, theirs = processes.Pipe(duplex=False)
    process = processes.Process(target=restorer, args=(str(file), address, deadly, theirs))
    process.start()
    theirs.close()
    process.join(PATIENCE)
    assert process.exitcode == (-signal.SIGKILL if deadly else 0), process.exitcode
    return 0 if deadly else int(mine.recv())


def test_killed_anywhere_it_leaves_the_board_as_it_was(address: str, tmp_path: Path) -> None:
    file = tmp_path / "monday.backup"
    with opened(address) as board:
        furnish(board)
        board.backup(file)
        board.tasks.claim(ref="afterwards")
    trial = tmp_path / "trial.db"
    with opened(address) as board:
        board.backup(trial)
    several = run_restorer(file, str(trial))
    assert several > 60
    before = contents(address)
    for deadly in sorted(random.sample(range(2, several - 8), KILLS)):
        run_restorer(file, address, deadly)
        assert contents(address) == before, deadly
        with opened(address, "bob") as bob:
            assert bob.tasks.get(ref="afterwards").holder == "alice", "nobody is locked out by the dead"
        before = contents(address)
    assert run_restorer(file, address)
    with opened(address, "bob") as bob:
        assert bob.holds.list() == []
        assert bob.tasks.claim(ref="afterwards").epoch == 2
