"""`python -m tiebreak.demo.agent`: one of the sixteen agents. It uses nothing but the Python API.

Where the board is, and who the agent is, comes from the environment, as for every program that uses tiebreak:
TIEBREAK_BOARD, TIEBREAK_PROJECT and TIEBREAK_AGENT. Its plan is in DEMO_PLAN, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import time

import tiebreak
from tiebreak.process_tree import die_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tiebreak.board import Board
    from tiebreak.handles import Claim

READY, GO = "ready", "go"
QUESTION = "May we drop support for Python 3.10?"
ANSWERS = ("yes", "no")


def main(plan: dict[str, Any]) -> None:
    """Come, wait for the start, and race for each task by its name, until all are done."""
    with tiebreak.open() as board:
        board.announce(READY, program="demo")
        board.wait(after=0, event="message.sent", name_contains=GO, timeout="60s")

        if plan["asks"]:
            ask(board)
        for name in plan["tasks"]:
            try:
                claim = board.claim(name, lease=plan["lease"], create=False)
            except tiebreak.Refused:  # somebody else has it, or it is done: the refusal says who
                continue
            work(board, claim, plan)
            work_on_next(board, plan)
        while board.tasks.list(kind="module", states=["blocked", "pending", "claimed"], limit=1):
            work_on_next(board, plan, wait="1s")
        board.agents.leave()


def work_on_next(board: Board, plan: dict[str, Any], wait: str = "0s") -> None:
    """Take whatever is ready, the oldest first: also what another agent had and lost."""
    for claim in board.next(kind="module", lease=plan["lease"], wait=wait):
        work(board, claim, plan)


def work(board: Board, claim: Claim, plan: dict[str, Any]) -> None:
    """Do one task: hold the file that it is about, so that nobody else edits it meanwhile, and complete the task.

    Inside of `with`, claim and hold renew themselves. If this process is paused for longer than the lease, both may
    belong to another agent when it goes on. It need not notice: the board refuses what it writes.
    """
    path = plan["files"][claim.task.number % len(plan["files"])]
    try:
        with claim, board.hold(path, lease=plan["lease"], wait="60s"):
            time.sleep(plan["pace"])
            claim.complete({"by": board.agent})
    except (tiebreak.Fenced, tiebreak.Lost):
        pass  # others have it now; this agent goes on with something else


def ask(board: Board) -> None:
    """Ask a person, and wait for the answer, or go on without one."""
    try:
        board.ask(QUESTION, choices=ANSWERS, wait="60s")
    except tiebreak.TimedOut:
        pass


if __name__ == "__main__":
    die_with_parent(signal.SIGKILL, int(os.environ["DEMO_PARENT"]))
    main(json.loads(os.environ["DEMO_PLAN"]))
