"""What a refused caller can do next, as a command to type (see `tiebreak.advice`)."""

from __future__ import annotations

from ..advice import REPAIRS, advice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..errors import TiebreakError
    from ..sessions.recovery import Finding

COMMANDS = {
    **REPAIRS,
    "adopt-other": "ask for it with `tb send {holder} …`; `tb break {thing!r} --reason …` takes it away",
    "agent-missing": "use --as NAME or set TIEBREAK_AGENT",
    "agent-unknown": "`tb agents` lists who is here; or say name~session",
    "backup-failed": "the board was not changed; run the same command again",
    "board-damaged": "`tb doctor` shows what is damaged; move the board's files elsewhere, then `tb restore BACKUP`",
    "board-disk-error": "run `tb doctor`; nothing was written",
    "board-in-use": "nothing is lost; run the same command again",
    "board-moved": "export TIEBREAK_BOARD='{moved}'",
    "board-moved-to-server": "export TIEBREAK_BOARD='{moved}' (and its password, if it has one)",
    "board-needs-owner": "run `tb status` once as the owner of its tables",
    "body-changed": "`tb show {number}` shows what it says now; edit that",
    "claim-over": "`tb claim '#{number}'` takes it again if it is free",
    "deadlock": "give back what the others wait for, then take all that you need in one go, with --wait",
    "held-by-you-elsewhere": "`tb adopt {thing!r}` takes it over if that session is over; otherwise finish it there, "
    "or wait; `tb break {thing!r} --reason …` takes it away",
    "holder-may-live": "finish it there, or wait; a person can confirm that it is over: run `tb adopt` in a terminal",
    "holder-gone": "{holder} is gone ({gone}): `tb break {thing!r} --reason …` takes it away",
    "holder-gone-perhaps-you": "{holder} is gone ({gone}): if that was you in another terminal, `tb adopt {thing!r}` "
    "takes it over; otherwise `tb break {thing!r} --reason …` takes it away",
    "hold-held": "ask for it with `tb send {holder} …`, or wait for it with --wait",
    "hold-over": "`tb hold {called}` takes it again if it is free",
    "jobs-need-token": "jobs need the token also on an open daemon: set TIEBREAK_TOKEN; `tb status` names the file",
    "key-near": "`tb claim {number}` claims that one; --create posts a new task",
    "not-a-question": "`tb questions` lists the open questions",
    "number-unknown": "`tb tasks --all` lists them; `tb post TEXT --key {key}` posts a task with such a key",
    "operation-unknown": "`tb help` lists what there is",
    "others-are-first": "get in line with --wait, or ask {first}",
    "pool-unknown": "`tb hold {called} --slots N` makes it",
    "project-missing": "use --project NAME or set TIEBREAK_PROJECT",
    "project-known-by-path": "name it, the same everywhere: `tb project name NAME` (or add its remote, then "
    "`tb project repin`)",
    "project-name-taken": "`tb project list` shows what there is; `tb --project {project} …` works in it",
    "project-names-conflict": "`tb --project NAME tasks` shows what is open; finish it in all but one of them, or keep "
    "this clone apart with `tb project name NAME`",
    "question-answered": "it stays as it is; `tb ask` asks anew if the decision has to change",
    "question-open": "it stays open: `tb wait {number}` waits again; a person answers it with `tb answer {number}`",
    "question-posted": "`tb ask TEXT` asks a person; another --kind posts a task",
    "recipient-unknown": "`tb agents` lists who is here; --later sends it for an agent that will come",
    "schedule-unknown": "`tb cron list` tells what there is",
    "session-over": "stop working; `tb ps` shows who took over",
    "session-runs": "`tb stop {name}` ends it",
    "session-unknown": "`tb ps --all` lists them",
    "slot-missing": "`tb holds` shows who has which; say it with --slot",
    "task-completed": "`tb next` finds other work",
    "task-ended": "`tb retry '#{number}'` reopens it",
    "task-held": "wait for it with --wait, or ask for it with `tb send {holder} …`; `tb next` finds other work",
    "task-is-question": "a person answers it with `tb answer {number}`; `tb wait {number}` waits for that",
    "task-is-yours": "`tb extend '#{number}'` keeps it",
    "task-unknown": "`tb tasks --all` lists them",
    "task-waits": "claim it with --wait to wait for it; `tb next` finds other work",
    "token-missing": "set TIEBREAK_TOKEN; on the daemon's machine its own user needs none: `tb status` names the file",
    # Refusals and findings that only the command line can meet: of a daemon that starts, sessions, workers and a move.
    "address-taken": "choose another with --addr HOST:PORT, or --addr none for the unix socket alone",
    "board-served": "use that daemon, or stop it with `tb serve --stop`",
    "module-broken": "--import names modules as Python's import does",
    "move-failed": "nothing is lost; run the same command again",
    "restore-failed": "the board is as it was; run the same command again",
    "restore-needs-owner": "restore it as the owner of its tables: --board postgresql://OWNER@…",
    "restore-not-a-backup": "make one of it first: `tb --board {file} backup NEW-FILE`",
    "seat-claimed-twice": "`tb stop {holder}` ends it",
    "seat-holder-dead": "the next `tb spawn --coordinator` frees it",
    "seat-holder-unknown": "`tb break {seat} --reason …` frees it",
    "session-alive": "`tb attach {holder}` leads to it, `tb handoff {holder}` replaces it",
    "session-dead": "--repair records its end",
    "session-orphaned": "`tb stop {holder}` ends it",
    "session-silent": "`tb peek {holder}` shows it",
    "session-starting": "`tb attach {holder}` leads to it once it is alive",
    "socket-taken": "choose another with --socket",
    "spawn-under-way": "wait until it has finished, then `tb ps` shows the coordinator and `tb attach` leads to it",
    "token-file-missing": "add --token-file FILE: the file is created if it does not exist, "
    "and clients need its content",
    "vault-not-empty": "name a new folder; or run `tb vault DIR --into` once: it adds its notes beside those files, "
    "which stay as they are",
    "worker-short": "`ulimit -a` shows its limits; fewer jobs at once (--concurrency) need less",
}


def in_one_line(error: TiebreakError) -> str:
    """The message of an error, and what to do next in brackets."""
    hint = advice(error, COMMANDS)
    return f"{error.message} ({hint})" if hint else error.message


def with_commands(findings: list[Finding]) -> list[tuple[str, str, str]]:
    """Findings about sessions, each with the command that would help after its details."""
    return [
        (level, what, f"{text}; {COMMANDS[reason].format(**facts)}" if reason else text)
        for level, what, text, reason, facts in findings
    ]
