"""What other tools call our commands: `tb list` and `tb done` are what people type first."""

from __future__ import annotations

OTHER_WORDS = {
    "add": "post",
    "blame": "why",
    "create": "post",
    "daemon": "serve",
    "done": "complete",
    "finish": "complete",
    "history": "why",
    "install": "init",
    "list": "tasks",
    "lock": "hold",
    "locks": "holds",
    "log": "events",
    "ls": "tasks",
    "message": "send",
    "messages": "inbox",
    "new": "post",
    "schedule": "cron",
    "server": "serve",
    "setup": "init",
    "take": "claim",
    "todo": "tasks",
    "unhold": "drop",
    "unlock": "drop",
    "who": "agents",
    "worker": "work",
}
"""The command that somebody means who types the other word. None of the words is a command."""
