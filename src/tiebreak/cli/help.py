"""Help and version, made from the declarations of the commands."""

from __future__ import annotations

from ..errors import Invalid
from . import GROUPS, THEMES, find, names
from .help_layout import brief, columns, entries, paragraphs, shell_command, wrapped
from .parser import GLOBAL, Argument, Option, command, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .context import Context
    from .parser import Args, Command

TITLE = "tiebreak: when N agents reach for the same thing, exactly one wins, and everyone can see who."
EXIT_CODES = {0: "won or done", 1: "lost or refused", 2: "wrong usage or time-out", 3: "the board is unavailable"}
EXITS = f"Exit codes: {', '.join(f'{code} {meaning}' for code, meaning in EXIT_CODES.items())}."


def overview(limit: int = 0) -> str:
    """All commands, by theme, in lines of at most `limit` columns."""
    limit = limit or columns()
    every = [f"[{option.shown}]" for option in GLOBAL if option.name != "help"]
    lines = wrapped(TITLE, limit)
    lines += [*wrapped(f"usage: tb {' '.join(every)} COMMAND …", limit, later="       "), ""]
    before = max(map(len, names()))
    for theme, group in THEMES.items():
        lines.append(f"{group}:" if theme in (group.lower(), "") else f"{group} ({theme}):")
        rows = [(name.ljust(before), brief(find(name).text, limit - before - 4)) for name in GROUPS[group]]
        lines += [*entries(rows, limit), ""]
    lines += wrapped(f"{EXITS} More: `tb help THEME`, `tb help COMMAND`, --help, --man.", limit)
    return "\n".join(lines)


def theme_commands(theme: str, limit: int) -> list[str]:
    """The commands of one theme, with their usage and what they do."""
    group = THEMES[theme]
    lines = [f"{group}:", ""]
    for name in GROUPS[group]:
        lines += [*wrapped(usage(find(name)), limit, first="  ", later="      ")]
        lines += wrapped(find(name).text, limit, first="      ", later="      ")
    return [*lines, "", *wrapped("`tb help COMMAND` shows a command in full.", limit)]


def subcommands(wanted: Command) -> frozenset[str]:
    """The subcommands of a command that has some, as its first argument lists them."""
    return frozenset(wanted.arguments[0].commands) if wanted.arguments else frozenset()


def describe(wanted: Command, limit: int = 0) -> str:
    """The help of one command, in lines of at most `limit` columns."""
    limit = limit or columns()
    if wanted.name == "help":
        return overview(limit)
    lines = [*wrapped(f"usage: {usage(wanted)}", limit, later="       "), "", *paragraphs(wanted.text, limit)]
    if wanted.run.__doc__:
        lines += paragraphs(wanted.run.__doc__, limit, subcommands(wanted))
    if wanted.arguments:
        rows = [(argument.name.upper(), argument.text) for argument in wanted.arguments]
        lines += ["", "Arguments:", *entries(rows, limit)]
    if wanted.options:
        lines += ["", "Options:", *_options(wanted.options, limit)]
    lines += ["", "Options for every command:", *_options(GLOBAL, limit)]
    if wanted.example:
        lines += ["", "Example:", *shell_command(wanted.example, limit)]
    if wanted.name in THEMES:  # the name of a command and of a theme: `tb help tasks` shows both
        lines += ["", *theme_commands(wanted.name, limit)]
    return "\n".join(lines)


def _options(options: tuple[Option, ...], limit: int) -> list[str]:
    return entries([(option.shown, about(option)) for option in options], limit)


def about(option: Option) -> str:
    """What an option means, with the words that the parameter it sets may be, and with that parameter's default."""
    if not option.sets:
        return option.text
    from ..operations import find as find_operation

    operation, _, name = option.sets.rpartition(".")
    default, words = find_operation(operation).defaults.get(name), words_of(option)
    listed = f"{', '.join(words[:-1])} or {words[-1]}" if words else ""
    text = f"{option.text}: {listed}" if listed else option.text
    return f"{text} (default {default})" if default is not None else text


def words_of(option: Option) -> list[str]:
    """The words that the value of an option may be, if these are fixed."""
    if not option.sets:
        return []
    from ..kinds import RULES
    from ..operations import find as find_operation

    operation, _, name = option.sets.rpartition(".")
    return list(RULES[find_operation(operation).parameters[name].base].schema.get("enum", []))


@command(
    "help",
    "Show all commands by theme, those of one theme, or one in full.",
    Argument("command", "a command or a theme", optional=True),
    Option("man", text="print the manual page, in roff; without COMMAND that of `tb` itself"),
    example="tb help claim",
)
def show_help(context: Context, args: Args) -> None:
    """`tb help COMMAND` is the same as `tb COMMAND --help`.

    If tiebreak is installed where `man` looks, `man tb-claim` shows the page; else `tb help --man claim | man -l -`.
    """
    if args.man:
        from .man_pages import page

        made = page(args.command or "")
        context.answer({"man": made}, made.rstrip("\n"))
        return
    text = _wanted(args.command) if args.command else overview()
    context.answer({"help": text}, text)


def _wanted(word: str) -> str:
    theme = _SPELLINGS.get(word.lower(), word.lower())
    if theme in THEMES and theme not in names():
        return "\n".join(theme_commands(theme, columns()))
    try:
        return describe(find(word))
    except Invalid as exc:
        raise Invalid(exc.message, hint=f"{exc.own_hint}; themes: {', '.join(filter(None, THEMES))}") from None


_SPELLINGS = {"locks": "files", "set-up": "setup", "message": "messages", "session": "sessions", "file": "files"}


@command("version", "Show the versions of tiebreak and SQLite.")
def version(context: Context, args: Args) -> None:
    """Useful in bug reports."""
    import platform

    import apsw

    from .. import __version__

    facts = {
        "tiebreak": __version__,
        "sqlite": apsw.sqlite_lib_version(),
        "python": platform.python_version(),
    }
    context.answer(facts, " ".join(f"{name} {value}" for name, value in facts.items()))
