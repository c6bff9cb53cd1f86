"""Hooks and tools on the daemon use a board as any other caller does, but they can neither copy nor close it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tiebreak import Board, Lost, Unavailable
from tiebreak.daemon.routes import Problem
from tiebreak.daemon.service_engine import ServiceEngine


class Service:
    """A daemon's service on which one task is taken."""

    draining = False
    engine = SimpleNamespace(address="board.db", path="board.db", writers=1, shared=False)

    async def run(self, operation: Any, params: dict[str, Any], once: str | None, request: Any) -> str:
        if params.get("ref") == "taken":
            raise Problem(409, Lost("taken is held by bob"))
        return f"{operation.name} {params['ref']}"


async def on_a_thread(work: Any) -> Any:
    service: Any = Service()
    board = Board(ServiceEngine(service), agent="me~1", project="demo")
    return await asyncio.to_thread(work, board)


def test_a_refused_call_of_a_batch_fails_alone() -> None:
    refs = ("free", "taken", "also free")
    answers = asyncio.run(on_a_thread(lambda board: board.batch([("tasks.claim", {"ref": ref}) for ref in refs])))
    assert answers[::2] == ["tasks.claim free", "tasks.claim also free"]
    assert isinstance(answers[1], Lost)


@pytest.mark.parametrize("upkeep", [lambda board: board.backup("copy.db"), lambda board: board.doctor()])
def test_hooks_and_tools_do_no_upkeep(upkeep: Any) -> None:
    with pytest.raises(Unavailable, match="no upkeep"):
        asyncio.run(on_a_thread(upkeep))


def test_closing_such_a_board_leaves_the_daemons_own_open() -> None:
    def close_and_claim(board: Board) -> Any:
        board.close()
        return board.call("tasks.claim", {"ref": "free"})

    assert asyncio.run(on_a_thread(close_and_claim)) == "tasks.claim free"
