"""What a refused client can do next, as a request to the daemon (see `tiebreak.advice`).

Methods such as `tasks.next` are those of JSON-RPC at `/rpc`. Routes of other programs' protocols answer with the same
errors in their own words (see `RouteGroup.words`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..advice import advice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..errors import TiebreakError

REQUESTS = {
    "adopt-other": "ask {holder} for it with messages.send; tasks.break and holds.break take it away, with a reason",
    "agent-missing": "give `agent`: NAME, or NAME~SESSION for one incarnation",
    "agent-unknown": "agents.list tells who is here; or say name~session",
    "backup-failed": "the board was not changed; ask for GET /backup again",
    "board-arriving": "try again when the move has ended",
    "board-damaged": "the board has to be repaired where the daemon runs",
    "board-disk-error": "nothing was written; the disk needs attention where the daemon runs",
    "board-events-lost": "the board has to be repaired where the daemon runs",
    "board-file-lost": "the board has to be repaired where the daemon runs",
    "board-gate-wrong": "the board has to be repaired where the daemon runs",
    "board-in-use": "nothing is lost; try again",
    "board-moved": "the daemon has to be started again for the board at {moved}",
    "board-moved-to-server": "the daemon has to be started again for the board at {moved}",
    "board-needs-owner": "the owner of the board's tables has to open it once, where the daemon runs",
    "board-overwritten": "the board has to be repaired where the daemon runs",
    "board-second-name": "the daemon has to be started again for the board at {home}",
    "body-changed": "read it again with tasks.get, and edit what it says now",
    "claim-over": "tasks.claim with ref #{number} takes it again if it is free",
    "daemon-unreachable": "try again when the daemon of that board runs",
    "deadlock": "give back what the others wait for (holds.release), then take all that you need in one holds.take",
    "held-by-you-elsewhere": "finish it there or wait; if that session is over, tasks.adopt or holds.adopt "
    "takes it over",
    "holder-may-live": "finish it there or wait; a person who knows that it is over can send `confirmed`",
    "holder-gone": "{holder} is gone ({gone}): tasks.break or holds.break takes it away, with a reason",
    "holder-gone-perhaps-you": "{holder} is gone ({gone}): if that was you, tasks.adopt or holds.adopt takes it over; "
    "otherwise tasks.break or holds.break takes it away, with a reason",
    "hold-held": "ask {holder} for it with messages.send, or take a place in line with waits.enter",
    "hold-over": "holds.take with {resource} takes it again if it is free",
    "jobs-need-token": "jobs need the token also on an open daemon: send it as `Authorization: Bearer TOKEN`",
    "key-near": "tasks.claim with ref #{number} claims that one; with `create` true it posts a new task",
    "not-a-question": "questions.list lists the open questions",
    "number-unknown": "tasks.list lists them; tasks.post with `key` posts a task with such a key",
    "operation-unknown": "GET /docs lists the methods",
    "others-are-first": "take a place in line with waits.enter, or ask {first}",
    "pool-unknown": "holds.take with `slots` makes it",
    "project-missing": "give `project`",
    "project-known-by-path": "give `project` a name that means the same to everybody",
    "project-name-taken": "projects.list tells what there is",
    "project-names-conflict": "finish what is open in all but one of them, or give `project` one of these names",
    "question-answered": "it stays as it is; questions.ask asks anew if the decision has to change",
    "question-open": "it stays open: tasks.get with ref #{number} has the answer as `result` once it is completed",
    "question-posted": "questions.ask asks a person; another `kind` posts a task",
    "recipient-unknown": "agents.list tells who is here; `later` true sends it for an agent that will come",
    "schedule-unknown": "schedules.list tells what there is",
    "session-over": "stop working; sessions.list tells who took over",
    "session-runs": "it has to end first",
    "session-unknown": "sessions.list with `every` lists them",
    "slot-missing": "give `slot`; holds.list tells who has which",
    "socket-missing": "the daemon has to be started again with the path of a socket",
    "task-completed": "tasks.next finds other work",
    "task-ended": "tasks.retry with ref #{number} reopens it",
    "task-held": "ask {holder} for it with messages.send, or wait for its next event at /events; tasks.next finds "
    "other work",
    "task-is-question": "a person answers it with questions.answer, ref #{number}",
    "task-is-yours": "tasks.extend with ref #{number} keeps it",
    "task-unknown": "tasks.list lists them",
    "task-waits": "wait for its next event at /events, or find other work with tasks.next",
    "token-missing": "send it as `Authorization: Bearer TOKEN`; on the daemon's machine its user finds it in "
    "`{token_file}`",
}

PAGES = {
    **REQUESTS,
    "claim-over": "look at the task again: somebody else may have it by now",
    "hold-over": "look at the hold again: somebody else may have it by now",
    "not-a-question": "Now lists the open questions",
    "number-unknown": "it may have been pruned; Tasks lists what there is",
    "project-missing": "choose a project at the top of the page",
    "project-known-by-path": "choose a project at the top of the page",
    "question-answered": "it stays as it is; an agent can ask anew if the decision has to change",
    "recipient-unknown": "Agents tells who is here",
    "schedule-unknown": "it may have been removed; Jobs lists what there is",
    "slot-missing": "name the slot: the holder's page lists each slot that it has",
    "task-completed": "there is nothing left to do",
    "task-ended": "Retry reopens it",
    "task-held": "message {holder}, or take it away with a reason",
    "task-unknown": "it may have been pruned; Tasks lists what there is",
}
"""What a person can do next who was refused by a page."""


def body_of(error: TiebreakError, words: Mapping[str, str] = REQUESTS) -> dict[str, Any]:
    """An error as the body of an answer, in a protocol's words for each code."""
    return error.to_dict(hint=advice(error, words))
