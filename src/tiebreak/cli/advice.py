"""What a refused caller can do next, as a command to type (see `tiebreak.advice`)."""

from __future__ import annotations

COMMANDS = {
    "agent-missing": "use --as NAME or set TIEBREAK_AGENT",
    "agent-unknown": "`tb agents` lists who is here; or say name~session",
    "board-arriving": "if nobody runs that `tb migrate` any more, run it again: it goes on where it was",
    "board-damaged": "`tb doctor` shows what is damaged; restore a backup",
    "board-disk-error": "run `tb doctor`; nothing was written",
    "board-moved": "export TIEBREAK_BOARD='{moved}'",
    "board-moved-to-server": "export TIEBREAK_BOARD='{moved}' (and its password, if it has one)",
    "claim-over": "`tb claim '#{number}'` takes it again if it is free",
    "deadlock": "give back what the others wait for, then take all that you need in one go, with --wait",
    "hold-held": "ask for it with `tb send {holder} …`, or wait for it with --wait",
    "hold-over": "`tb hold {called}` takes it again if it is free",
    "jobs-need-token": "jobs need the token also on an open daemon: set TIEBREAK_TOKEN; `tb status` names the file",
    "operation-unknown": "`tb help` lists what there is",
    "others-are-first": "get in line with --wait, or ask {first}",
    "pool-unknown": "`tb hold {called} --slots N` makes it",
    "project-missing": "use --project NAME or set TIEBREAK_PROJECT",
    "schedule-unknown": "`tb cron list` tells what there is",
    "session-over": "stop working; `tb ps` shows who took over",
    "session-runs": "`tb stop {name}` ends it",
    "session-unknown": "`tb ps --all` lists them",
    "slot-missing": "`tb holds` shows who has which; say it with --slot",
    "task-completed": "`tb next` finds other work",
    "task-ended": "`tb retry '#{number}'` reopens it",
    "task-held": "`tb why '#{number}'` tells more; `tb next` finds other work",
    "task-is-yours": "`tb extend '#{number}'` keeps it",
    "task-unknown": "`tb tasks --all` lists them",
    "task-waits": "claim it with --wait to wait for it; `tb next` finds other work",
    "token-missing": "set TIEBREAK_TOKEN; on the daemon's machine its own user needs none: `tb status` names the file",
}
