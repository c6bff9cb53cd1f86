"""What a refused caller can do next, in the words of the interface that was used.

An operation does not know who asks. Its refusal carries a code (`task-held`) and facts (`number`, `holder` …), and each
interface turns them into a next step: a command (`cli.advice`), a request (`daemon.advice`), or a call of the Python
API, below; `mcp.advice` has words for models, and `compat.advice` for other programs' protocols. An error without a
code has a hint that is the same for everybody.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .errors import TiebreakError

_FOR_A_NEW_BOARD = "for a new board, first move {wal}, {shm} and {gate} elsewhere"
REPAIRS = {
    "board-arriving": "if nobody runs that `tb migrate` any more, run it again: it goes on where it was",
    "board-events-lost": "put back what was there, and restore a backup with `tb restore`, which keeps epochs; "
    "or accept the loss with `tb doctor --repair`",
    "board-file-lost": "put the file back; if it was renamed, run `tb --board NEW-NAME doctor --repair`; "
    + _FOR_A_NEW_BOARD,
    "board-gate-wrong": "`tb doctor --repair` writes a new one",
    "board-overwritten": "end every process that uses this board and put back the file that was here; "
    "`tb restore` restores a backup; " + _FOR_A_NEW_BOARD,
    "board-second-name": "use {home} (in a container: mount its folder, not the file); "
    "if you renamed it, run `tb doctor --repair`",
    "daemon-unreachable": "is the daemon running? `tb serve` starts one",
    "socket-missing": "`tb serve` prints it",
}
"""Next steps on the machine of the board, for which Python has no call: the command line says the same."""

PYTHON = {
    **REPAIRS,
    "adopt-other": "ask {holder} for it; board.tasks.break_() and board.holds.break_() take it away, with a reason",
    "agent-missing": "pass agent=NAME, or set TIEBREAK_AGENT",
    "agent-unknown": "board.agents.list() tells who is here; or say name~session",
    "backup-failed": "the board was not changed; back it up again",
    "board-damaged": "board.doctor() shows what is damaged; restore a backup",
    "board-disk-error": "nothing was written; board.doctor() tells more",
    "board-in-use": "nothing is lost; try again",
    "board-moved": "open the board at {moved}",
    "board-moved-to-server": "open the board at {moved} (with its password, if it has one)",
    "board-needs-owner": "open it once as the owner of its tables",
    "body-changed": "read it again with board.tasks.get(), and edit what it says now",
    "claim-over": "board.claim({number}) takes it again if it is free",
    "deadlock": "give back what the others wait for, then take all that you need in one call, with wait=",
    "held-by-you-elsewhere": "finish it there or wait; if that session is over, board.tasks.adopt() or "
    "board.holds.adopt() takes it over",
    "holder-may-live": "finish it there or wait; a person who knows that it is over can pass confirmed=True",
    "holder-gone": "{holder} is gone ({gone}): board.tasks.break_() or board.holds.break_() takes it away, "
    "with a reason",
    "holder-gone-perhaps-you": "{holder} is gone ({gone}): if that was you, board.tasks.adopt() or board.holds.adopt() "
    "takes it over; otherwise board.tasks.break_() or board.holds.break_() takes it away, with a reason",
    "hold-held": "ask {holder} for it, or wait for it with wait=",
    "hold-over": "board.hold({called!r}) takes it again if it is free",
    "jobs-need-token": "jobs need the token also on an open daemon: set TIEBREAK_TOKEN",
    "key-near": "board.claim({number}) claims that one; create=True posts a new task",
    "not-a-question": "board.questions.list() lists the open questions",
    "number-unknown": "board.tasks.list() lists them; board.tasks.post(…, key={key!r}) posts a task with such a key",
    "operation-unknown": "docs/operations.md lists what there is",
    "others-are-first": "wait in line with wait=, or ask {first}",
    "pool-unknown": "board.hold({called!r}, slots=N) makes it",
    "project-missing": "pass project=NAME, or set TIEBREAK_PROJECT",
    "project-known-by-path": "pass project=NAME, or set git config tiebreak.project, the same everywhere",
    "project-name-taken": "board.projects.list() tells what there is",
    "project-names-conflict": "finish what is open in all but one of them, or pass project= to keep this clone apart",
    "question-answered": "it stays as it is; ask anew if the decision has to change",
    "question-open": "it stays open: board.answer_to({number}) waits again; asking with the same key= does, too",
    "question-posted": "board.questions.ask() asks a person; another kind= posts a task",
    "recipient-unknown": "board.agents.list() tells who is here; later=True sends it for an agent that will come",
    "schedule-unknown": "board.schedules.list() tells what there is",
    "session-over": "stop working; board.sessions.list() tells who took over",
    "session-runs": "end it first",
    "session-unknown": "board.sessions.list(every=True) lists them",
    "slot-missing": "say which with slot=; board.holds.list() tells who has which",
    "task-completed": "board.next() finds other work",
    "task-ended": "board.tasks.retry({number}) reopens it",
    "task-held": "wait for it with wait=, or ask {holder} for it; board.next() finds other work",
    "task-is-question": "a person answers it with board.questions.answer({number}, answer=…); "
    "board.answer_to({number}) waits for that",
    "task-is-yours": "board.tasks.extend({number}) keeps it",
    "task-unknown": "board.tasks.list() lists them",
    "task-waits": "board.claim(…, wait=) waits for it; board.next() finds other work",
    "token-missing": "set TIEBREAK_TOKEN; the daemon's own user needs none on the daemon's machine",
}
"""The next step for each code, as a call of the Python API. Every interface has words for the same codes."""


def advice(error: TiebreakError, words: Mapping[str, str]) -> str:
    """What to do next, in an interface's words for each code; the error's own hint where it has no code."""
    template = words.get(error.reason)
    if template is None:
        return error.own_hint
    from .held_files import called

    try:
        return template.format(**error.data, called=called(str(error.data.get("resource", ""))))
    except KeyError:  # a fact is missing: the error comes from a daemon of another version
        return error.own_hint
