"""What a refused model can do next, as a call of one of the tools (see `tiebreak.advice`).

Only names of agents and numbers are filled in. Other facts may be text that an agent wrote, and this is the part of an
answer that a model may follow.
"""

from __future__ import annotations

from ..advice import advice
from ..errors import Fenced, Invalid, NotFound, Refused, TiebreakError, TimedOut, Unavailable

_REPAIR = "Change nothing that others may be changing, and tell your user: the board has to be repaired (tb doctor)."
_AGAIN = "Nothing is lost. Call again shortly."
_LEFT = "Your grant has passed on: stop working on it and undo nothing."
_MOVED = "The board has moved: stop, and tell your user to start this server again with its new address."
_BREAK = "tell your user, who can take it away from it (tb break, with a reason). Meanwhile work on something else."
_OTHER_WORK = "claim without ref takes other work."

CALLS = {
    "adopt-other": "Do not touch it. Ask {holder} by message.",
    "agent-missing": "Tell your user: this server needs the name of the agent, in TIEBREAK_AGENT or the header "
    "Tiebreak-Agent.",
    "agent-unknown": "look agents shows who is here; or say name~session.",
    "backup-failed": _AGAIN,
    "board-arriving": "The board is being moved. Change nothing that others may be changing; try again shortly.",
    "board-damaged": _REPAIR,
    "board-disk-error": "Nothing was written. Tell your user: the disk of the board needs attention.",
    "board-events-lost": _REPAIR,
    "board-file-lost": _REPAIR,
    "board-gate-wrong": _REPAIR,
    "board-in-use": _AGAIN,
    "board-moved": _MOVED,
    "board-moved-to-server": _MOVED,
    "board-needs-owner": "Tell your user: the owner of the board's tables has to run tb status once.",
    "board-overwritten": _REPAIR,
    "board-second-name": _REPAIR,
    "body-changed": "Read it again, and edit what it says now.",
    "claim-over": f"{_LEFT} claim with ref #{{number}} takes it again if it is free.",
    "daemon-unreachable": "The board cannot be reached now. Change nothing that others may be changing; try again "
    "shortly, then tell your user: the daemon may not be running (tb serve).",
    "deadlock": "Release what the others wait for, then take all that you need in one hold call, with wait.",
    "held-by-you-elsewhere": "An agent of your name has it in another session. If that was you before a restart, run "
    "tb adopt in a shell; otherwise do not touch it: wait, or take other work (claim without ref).",
    "holder-may-live": "Do not touch it. Wait, or tell your user: a person can confirm in a terminal (tb adopt) that "
    "the other session is over.",
    "holder-gone": f"{{holder}} is gone, but it is not yours: {_BREAK}",
    "holder-gone-perhaps-you": "{holder} is gone. If that was you before a restart, run tb adopt in a shell; "
    f"otherwise it is not yours: {_BREAK}",
    "hold-held": "Do not touch it. Call hold again with wait, work on something else, or ask {holder} by message.",
    "hold-over": f"{_LEFT} hold take gets it again if it is free.",
    "jobs-need-token": "Tell your user: what belongs to jobs needs the daemon's token (TIEBREAK_TOKEN).",
    "key-near": "claim with ref #{number} takes that one; post, then claim, makes a new task.",
    "not-a-question": "look tasks shows what there is; its kind tells which are questions.",
    "number-unknown": "look tasks shows what there is; a number is never a new task. post with key makes one.",
    "operation-unknown": "Tell your user: this server and the board have different versions.",
    "others-are-first": "Call hold again with wait to stand in line, or ask {first} by message.",
    "pool-unknown": "hold take with slots makes the pool.",
    "project-missing": "Tell your user: this server needs the project, in TIEBREAK_PROJECT or the header "
    "Tiebreak-Project.",
    "project-known-by-path": "Tell your user: this repository has no name that other machines know; tb project name "
    "NAME gives it one.",
    "project-name-taken": "Tell your user: there is a project of that name already.",
    "project-names-conflict": "Tell your user: this repository is several projects on the board; tb project tells.",
    "question-answered": "It is decided. ask a new question if the decision has to change.",
    "question-open": "It stays open. Go on with other work; look task with ref #{number} shows the answer when it is "
    "there, and so does look inbox.",
    "question-posted": "Use the tool ask for a question to a person, or post with another kind.",
    "recipient-unknown": "look agents shows who is here. For an agent that will come, call message again with later.",
    "schedule-unknown": "Run tb cron list in a shell: it shows what there is.",
    "session-over": "Your session was replaced: stop working and undo nothing. look agents shows who is here.",
    "session-runs": "It has to end first: run tb stop in a shell, if your user wants that.",
    "session-unknown": "Run tb ps in a shell: it lists the sessions.",
    "slot-missing": "Use the token that hold gave, which names the slot; look holds shows yours.",
    "socket-missing": "Tell your user: the address of the board lacks the path of a socket.",
    "task-completed": f"It is done already. {_OTHER_WORK}",
    "task-ended": f"It has ended: tb retry '#{{number}}' in a shell reopens it. {_OTHER_WORK}",
    "task-held": "Do not touch it. Call claim again with wait, take other work (claim without ref), or ask {holder} by "
    "message.",
    "task-is-question": "A person has to answer it, not you; look task with ref #{number} shows the answer. "
    + _OTHER_WORK,
    "task-is-yours": "It is yours already: look task shows its token, and update extend keeps it.",
    "task-unknown": "look tasks shows what there is; a reference is #number, a key or an id.",
    "task-waits": f"Call claim again with wait. {_OTHER_WORK}",
    "token-missing": "Tell your user: the daemon needs its token (TIEBREAK_TOKEN).",
}

_WITHOUT_CODE: list[tuple[type[TiebreakError], str]] = [
    (Fenced, f"{_LEFT} look task or look holds says who has it."),
    (NotFound, "look shows what there is."),
    (Invalid, "Correct the argument and call again."),
    (TimedOut, "Call again, or go on with something else."),
    (Refused, "Look at the task or resource before you try again."),
    (Unavailable, "The board cannot be reached now. Change nothing that others may be changing; try again shortly."),
]


def next_step(problem: TiebreakError) -> str:
    """What to do next, by the code of a refusal, else by its kind."""
    usual = next((text for kind, text in _WITHOUT_CODE if isinstance(problem, kind)), "Tell your user.")
    return (advice(problem, CALLS) if problem.reason in CALLS else "") or usual


def own_hint(problem: TiebreakError) -> str | None:
    """What a wrong argument should be, if the error has no code but a hint of its own."""
    return problem.own_hint or None if isinstance(problem, Invalid) and problem.reason not in CALLS else None
