"""A client that waits for work gets what becomes free because another client died."""

from __future__ import annotations

import threading
from time import monotonic
from typing import Any

from .samples import CLAIM_Q
from .scheduler import PATIENCE, Client
from .world import LONG, world

WAIT = 8.0


def test_a_waiter_gets_the_task_of_a_claim_that_dies() -> None:
    here = world()
    here.restore()
    claimer, waiter = here.clients[:2]
    turn = threading.Condition()
    claimer.begin(turn, lambda board: [here._ask(board, call) for call in CLAIM_Q.calls])
    _run_to_commit(claimer, turn)
    settled = threading.Event()
    wait = waiter.engine.wait

    def sleeping(*args: Any, **params: Any) -> bool:
        settled.set()
        return bool(wait(*args, **params))

    waiter.engine.wait = sleeping
    answer: list[Any] = []
    thread = threading.Thread(
        target=lambda: answer.append(waiter.board.win_next(queue="lonely", lease=LONG, wait=WAIT)), daemon=True
    )
    try:
        thread.start()
        while thread.is_alive() and not settled.wait(0.01) and not _somebody_is_blocked():
            pass
        here.scheduler._kill(claimer)
        killed = monotonic()
        thread.join(PATIENCE)
    finally:
        waiter.engine.wait = wait
    assert [task.key for task in answer[0]] == ["Q"]
    assert monotonic() - killed < WAIT / 2, "nobody told it that the only task is free again"


def _run_to_commit(client: Client, turn: threading.Condition) -> None:
    """Let a client do everything but its COMMIT."""
    while True:
        with turn:
            assert turn.wait_for(lambda: client.place != "running", PATIENCE)
        if client.message.endswith("COMMIT"):
            return
        client.go()


def _somebody_is_blocked() -> bool:
    row = world().raw.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone()
    return bool(row and row[0])
