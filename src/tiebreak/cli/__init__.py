"""The command line: `tb COMMAND …`.

A command lives in the module that `HOMES` names for it, and only that module is loaded: agents call the hot
commands (`claim`, `next`, `extend`, `complete`, `hold`, `drop`, `heartbeat`) thousands of times a day.

Exit codes: 0 won or done, 1 lost or refused, 2 wrong usage or time-out, 3 the board is unavailable.
"""

from __future__ import annotations

import sys

from ..errors import Invalid, TiebreakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .spec import Command

GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "Tasks": {
        "working": ("claim", "next", "extend", "complete", "fail", "release"),
        "tasks": ("post", "depend", "cancel", "retry", "show", "tasks"),
    },
    "Holds": {"holds": ("hold", "drop", "holds", "renew", "transfer", "break"), "run": ("run",)},
    "Messages": {"messages": ("send", "inbox", "ack")},
    "Agents": {"agents": ("announce", "heartbeat", "leave", "agents", "whoami")},
    "What happens": {"events": ("why", "wait", "events", "status")},
    "The board": {"upkeep": ("prune", "backup", "doctor"), "batch": ("batch",)},
    "Help": {"help": ("help", "completion", "version")},
}
HOMES = {name: module for group in GROUPS.values() for module, names in group.items() for name in names}


def launch() -> None:
    """What `tb` runs: a command, and then the end at once.

    Taking the interpreter apart in good order would cost a command more time than its work; everything that
    matters is closed and flushed by then.
    """
    import os

    code = main()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 1
    os._exit(code)


def main(words: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    from .context import Context
    from .spec import Args, parse, split

    context = Context(Args(json="--json" in (words or sys.argv)))
    try:
        name, options, left = split(sys.argv[1:] if words is None else words)
        context = Context(options)
        wanted = find(name or "help")
        args = parse(wanted, left, options)
        context.json = args.json
        if args.help:
            from .help import describe

            print(describe(wanted if name else find("help")))
            return 0
        return wanted.run(context, args) or 0
    except TiebreakError as exc:
        context.complain(exc)
        return exc.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return _reader_went_away()
    finally:
        context.close()


def find(name: str) -> Command:
    """The command of that name; its module is loaded on first use."""
    from .spec import COMMANDS

    if name not in HOMES:
        from difflib import get_close_matches

        close = get_close_matches(name, HOMES, 1)
        hint = f"did you mean `tb {close[0]}`?" if close else "`tb help` lists the commands"
        raise Invalid(f"unknown command {name!r}", hint=hint)
    if name not in COMMANDS:
        __import__(f"{__name__}.{HOMES[name]}")
    return COMMANDS[name]


def _reader_went_away() -> int:
    """`tb events | head`: not an error. Leave nothing for the interpreter to flush at its end."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
