"""The server restarts under workers: no job stays with a worker that has ended, none is lost, and none runs twice."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from tests.cli.command import changed_command
from tests.postgres import Server
from tests.worker.shop import Shop, until
from tiebreak.model import holder_id

JOBS, WORKERS, RESTARTS = 200, 3, 2
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


def restart_between_commits_and_their_answers(server: Server) -> None:
    """Commits wait for a standby that does not exist: they are made, but nobody is told before the server goes."""
    with psycopg.connect(server.address(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        connection.execute("SELECT pg_reload_conf()")
        until(lambda: connection.execute(_WAITING).fetchone() != (0,), "a worker waits for a commit")
        connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
    server.stop()
    server.start()


@pytest.mark.usefixtures("patient")
def test_a_burst_leaves_no_claim_behind(mortal: Server, tmp_path: Path) -> None:
    """The workers hardly wait for the server, so that they do not learn what became of a commit."""
    hasty = changed_command(
        tmp_path, "from tiebreak.engine.postgres import engine as postgres", "postgres.PATIENCE = 0.01"
    )
    shop = Shop(tmp_path, mortal.address())
    try:
        command = "echo $TIEBREAK_JOB >> ran; sleep 0.05"
        shop.board.jobs.submit_many(jobs=[{"command": command, "max_attempts": 1} for _ in range(JOBS)])
        with ExitStack() as stack:
            words = ("--burst", "--lease", "1h", "--concurrency", "2")
            workers = [stack.enter_context(shop.worker(*words, command=hasty)) for _ in range(WORKERS)]
            until(lambda: all(worker.events("begun") for worker in workers), "all of them work")
            for _ in range(RESTARTS):
                restart_between_commits_and_their_answers(mortal)
            assert [worker.ended() for worker in workers] == [0] * WORKERS, [worker.lines[-3:] for worker in workers]
        left = shop.board.tasks.list(states=["claimed"], limit=1000)
        assert [(task.number, holder_id(task)) for task in left] == []
        assert len(set(shop.lines("ran"))) == len(shop.lines("ran")) == shop.board.upkeep.status().completed == JOBS
        assert any(worker.events("unheard") for worker in workers), "every answer came"
    finally:
        shop.close()
