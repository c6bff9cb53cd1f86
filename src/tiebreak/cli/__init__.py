"""The command line: `tb COMMAND …`.

`_OWN` maps each command to its module, and only that module is imported: agents run the frequent commands (`claim`,
`next`, `extend`, `complete`, `hold`, `drop`, `heartbeat`) thousands of times a day, so start-up time matters.
Commands of packages above this one are added by `tiebreak.program` (see `add_commands`).

Exit codes: 0 won or done, 1 lost or refused, 2 wrong usage or time-out, 3 the board is unavailable.
"""

from __future__ import annotations

import sys

from ..errors import Invalid, TiebreakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .context import Context
    from .parser import Args, Command

_OWN: dict[str, dict[str, tuple[str, ...]]] = {
    "Tasks": {
        "claims": ("claim", "next", "extend", "complete", "fail", "release"),
        "tasks": ("post", "depend", "cancel", "retry", "show", "tasks"),
        "editing": ("edit", "comment"),
        "importing": ("import",),
        "exporting": ("export",),
    },
    "Files and locks": {
        "holds": ("hold", "drop", "holds", "waits", "renew", "transfer"),
        "taking_over": ("break", "adopt"),
        "run": ("run",),
        "recover": ("recover",),
    },
    "Messages": {"messages": ("send", "inbox", "ack"), "questions": ("ask", "answer", "questions")},
    "Jobs": {
        "jobs": ("submit", "jobs"),
        "work": ("work",),
        "logs": ("logs",),
        "inside_job": ("progress", "guard-epoch"),
        "queues": ("queue",),
        "graph": ("graph",),
        "cron": ("cron",),
    },
    "Agents": {"agents": ("announce", "heartbeat", "leave", "agents", "whoami")},
    "Sessions": {
        "sessions": ("spawn", "ps", "attach", "peek", "tell", "stop", "rm", "handoff", "drain", "rc"),
    },
    "Set-up of a repository": {
        "init": ("init",),
        "hook": ("hook",),
        "guard": ("guard",),
        "commit": ("commit",),
        "mcp": ("mcp",),
    },
    "What happens": {"events": ("why", "wait", "events", "status")},
    "The board": {
        "projects": ("project",),
        "upkeep": ("prune", "backup", "doctor"),
        "batch": ("batch",),
        "web": ("web",),
        "vault": ("vault",),
        "migrate": ("migrate",),
        "restore": ("restore",),
    },
    "Help": {"help": ("help", "version"), "completion": ("completion",)},
}
_HELP = "Help"
GROUPS: dict[str, list[str]] = {
    group: [name for names in modules.values() for name in names] for group, modules in _OWN.items()
}
"""All commands, group by group, in the order in which help lists them."""
THEMES = {
    "tasks": "Tasks",
    "files": "Files and locks",
    "messages": "Messages",
    "jobs": "Jobs",
    "agents": "Agents",
    "sessions": "Sessions",
    "setup": "Set-up of a repository",
    "events": "What happens",
    "board": "The board",
    "": "Help",
}
"""The word for each group: `tb help files`."""
_DECLARED_IN: dict[str, str | Callable[[], object]] = {
    name: module for group in _OWN.values() for module, names in group.items() for name in names
}
"""What declares each command: a module of this package, or a function that loads it from elsewhere."""


def add_commands(group: str, loaders: dict[str, Callable[[], object]], *, theme: str = "") -> None:
    """Add commands of a package above this one: for each name, a function that imports the module declaring it.

    A new group needs the word for its theme.
    """
    if group not in GROUPS:
        GROUPS[group] = []
        GROUPS[_HELP] = GROUPS.pop(_HELP)  # it stays the last one
        THEMES[theme] = group
        THEMES[""] = THEMES.pop("")
    GROUPS[group] += [name for name in loaders if name not in GROUPS[group]]
    _DECLARED_IN.update(loaders)


def names() -> list[str]:
    """The names of all commands."""
    return [name for group in GROUPS.values() for name in group]


def launch() -> None:
    """The entry point of `tb`: run a command, then exit without shutting the interpreter down.

    Shutting it down takes longer than most commands. Everything that matters has been closed and flushed by then.
    """
    import os

    _repair_streams()
    _load_apsw()
    code = main()
    try:
        sys.stdout.flush()
    except OSError as exc:
        code = _could_not_answer(exc, code)
    try:
        sys.stderr.flush()
    except OSError:
        pass  # nobody reads it any more
    os._exit(code)


def _load_apsw() -> None:
    """Import apsw without the `collections` package, which it needs for one class and which costs a tenth of the time.

    Newer Pythons make `collections.abc` an alias of `_collections_abc`. Here both `collections` and `collections.abc`
    stand for it while apsw is imported. That is safe only in a process with a single thread, such as `tb` itself.
    """
    if "collections" in sys.modules:
        return
    import _collections_abc as stand_in

    sys.modules["collections"] = sys.modules["collections.abc"] = stand_in
    try:
        import apsw  # noqa: F401
    except Exception:  # noqa: S110
        pass  # a version that needs more than that: it is imported as usual when a board is opened
    finally:
        del sys.modules["collections"], sys.modules["collections.abc"]


def _repair_streams() -> None:
    """Let a command survive a closed stream, and characters that the terminal cannot show."""
    import os

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        elif mode == "w" and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(errors="backslashreplace")


def main(words: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    from .context import Context
    from .parser import Args

    given = sys.argv[1:] if words is None else words
    context = Context(Args(json="--json" in given))
    try:
        try:
            return _run(context, given)
        except TiebreakError as exc:
            context.complain(exc)
            return exc.exit_code
    except KeyboardInterrupt:
        return 130
    except OSError as exc:
        if not context.answering:
            raise
        return _could_not_answer(exc, context.code)
    finally:
        context.close()


def _run(context: Context, words: list[str]) -> int:
    from .parser import parse, split

    name, options, left = split(words)
    if name is None and not options.help:
        from .welcome import welcome

        context.use(options)
        return welcome(context)
    wanted = find(name or "help")
    args = parse(wanted, left, options)
    context.use(args)
    if args.help:
        from .help import describe

        context.answer({"help": describe(wanted)}, describe(wanted))
        return 0
    try:
        return wanted.run(context, args) or 0
    except Invalid as exc:
        raise _as_typed(exc, wanted, args) from None


def _as_typed(exc: Invalid, wanted: Command, args: Args) -> Invalid:
    """The error with what was typed in place of the operation's parameter: `--state` instead of `states[0]`."""
    from .parser import GLOBAL

    name, mark, rest = exc.message.partition(": ")
    name = name.partition("[")[0]
    for option in (*wanted.options, *GLOBAL):
        parameter = option.sets.rpartition(".")[2] or f"{option.key}s"  # a repeatable option fills a list: `tags`
        if name in (option.key, parameter) and args[option.key] != option.default:
            return Invalid(f"--{option.name}{mark}{rest}", hint=exc.own_hint, reason=exc.reason, **exc.data)
    for argument in wanted.arguments:
        if name == argument.sets:
            return Invalid(f"{argument.name.upper()}{mark}{rest}", hint=exc.own_hint, reason=exc.reason, **exc.data)
    return exc


def _could_not_answer(exc: OSError, code: int) -> int:
    """Standard output cannot be written to. If its reader has ended (`tb events | head`), that is no error."""
    import os

    # So that the interpreter does not fail to flush it at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(exc, BrokenPipeError):
        return code
    print(f"tb: done, but the answer could not be written: {exc.strerror or exc}", file=sys.stderr)
    return code or 3


def find(name: str) -> Command:
    """The command of that name; its module is imported on first use."""
    from .parser import COMMANDS

    if name not in _DECLARED_IN:
        from difflib import get_close_matches

        from .other_words import OTHER_WORDS

        close = [OTHER_WORDS[name]] if name in OTHER_WORDS else get_close_matches(name, _DECLARED_IN, 1)
        hint = f"did you mean `tb {close[0]}`?" if close else "`tb help` lists the commands"
        raise Invalid(f"unknown command {name!r}", hint=hint)
    if name not in COMMANDS:
        home = _DECLARED_IN[name]
        if isinstance(home, str):
            __import__(f"{__name__}.{home}")
        else:
            home()
    return COMMANDS[name]
