"""What a refused client of coord or Workron can do next, in the methods that its own protocol has.

A code without words here has no hint on these routes: a method of ours would be of no use to such a client.
"""

from __future__ import annotations

from ..daemon.advice import REQUESTS

_OPERATORS = {code: words for code, words in REQUESTS.items() if code.startswith(("board-", "jobs-", "token-"))}
"""About the board and the token, which do not depend on the protocol."""

COORD = {
    **_OPERATORS,
    "agent-missing": "give `agentId`",
    "claim-over": "tasks/claim takes it again if it is free",
    "held-by-you-elsewhere": "tasks/get tells more; tasks/list with state pending finds other work",
    "holder-gone": "it is free when its lease has run out; tasks/list with state pending finds other work",
    "holder-gone-perhaps-you": "it is free when its lease has run out; tasks/list with state pending finds other work",
    "project-missing": "give `project`, or leave it out",
    "session-over": "stop working",
    "task-completed": "tasks/list with state pending finds other work",
    "task-held": "tasks/get tells more; tasks/list with state pending finds other work",
    "question-posted": "tasks/send with another kind posts a task",
    "task-is-question": "a person has to answer it; tasks/get shows the answer as `result`",
    "task-is-yours": "tasks/extend keeps it",
    "task-unknown": "tasks/list lists them",
    "task-waits": "tasks/list with state pending finds other work",
}

WORKRON = {
    **_OPERATORS,
    "project-missing": "give `project`, or leave it out",
    "session-over": "stop working",
    "task-unknown": "GET /jobs lists them",
}
