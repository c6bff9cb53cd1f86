"""What may stand at the cursor of a command line, decided from the declarations of the commands.

Everything here only guesses: a line that is wrong or unfinished gets fewer words, never an error.
"""

from __future__ import annotations

from . import THEMES, find, names
from .completion_values import FILES, OF_ARGUMENT, OF_METAVAR, OF_OPTION, on_board
from .parser import GLOBAL, Args

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .completion_values import Offered
    from .context import Context
    from .parser import Argument, Command, Option


def offer(context: Context, words: list[str], *, explained: bool = False) -> tuple[Offered, bool]:
    """What may stand in place of the last word, and whether the shell shall offer files instead.

    With `explained`, commands and options come with their help, for which all commands have to be loaded.
    """
    line = _Line(words, explained=explained)
    if line.after_dashes:
        return [], True
    option, prefix = line.option, ""
    if option is None and line.current.startswith("--") and "=" in line.current:
        name, _, _ = line.current.partition("=")
        option, prefix = line.known.get(name), f"{name}="
        if option is None:
            return [], False
    context.use(Args(line.options, json=context.json))
    if option is not None:
        found, files = _values(context, option)
        found = [(f"{prefix}{word}", text) for word, text in found]
        return _chosen(found, line.current, files=files and not prefix)
    if line.current.startswith("-"):
        return line.shown_options(), False
    if line.command is None:
        return [(name, find(name).text if explained else "") for name in names()], False
    found, files = _arguments(context, line.command, line.plain)
    if not found and not files and not line.current:
        return line.shown_options(), False
    return _chosen(found, line.current, files=files)


def _chosen(found: Offered, current: str, *, files: bool) -> tuple[Offered, bool]:
    """The words; or files, where these are welcome and no word begins like the current one."""
    unquoted = current.lstrip("'\"").replace("\\", "")  # fish passes the last word on as it was typed
    if files and not any(word.startswith((current, unquoted)) for word, _ in found):
        return [], True
    return found, False


class _Line:
    """A command line up to the cursor: its command and options so far, and what the last word is."""

    def __init__(self, words: list[str], *, explained: bool) -> None:
        self.current = words[-1] if words else ""
        self.command: Command | None = None
        self.known = _known(GLOBAL)
        self.options = Args({option.key: option.default for option in GLOBAL})
        self.option: Option | None = None
        """The option that waits for its value."""
        self.plain: list[str] = []
        self.after_dashes = False
        """Whether the last word belongs to a command that is to be run."""
        self._explained = explained
        for word in words[:-1]:
            self._take(word)

    def _take(self, word: str) -> None:
        if self.after_dashes:
            return
        if self.option is not None:
            self._set(self.option, word)
            self.option = None
        elif word == "--":
            self.after_dashes = self.command is not None and bool(self.command.rest)
            self.known = self.known if self.after_dashes else {}
        elif word.startswith("-") and word in self.known:
            self.option = self.known[word] if self.known[word].metavar else None
        elif word.startswith("--") and "=" in word:
            name, _, value = word.partition("=")
            if name in self.known:
                self._set(self.known[name], value)
        elif not word.startswith("-") or not self.known:
            self._take_plain(word)

    def _take_plain(self, word: str) -> None:
        if self.command is not None:
            self.plain.append(word)
        elif word in names():
            self.command = find(word)
            self.known |= _known(self.command.options)

    def _set(self, option: Option, value: str) -> None:
        if option in GLOBAL:
            self.options[option.key] = value

    def shown_options(self) -> Offered:
        """The options that may stand here, those of the command first."""
        from .help import about

        wanted = self.command
        if wanted is not None and self.plain:
            wanted = _subcommands(wanted).get(self.plain[0], wanted)
        own = wanted.options if wanted is not None else ()
        return [(f"--{each.name}", about(each) if self._explained else "") for each in (*own, *GLOBAL)]


def _known(options: tuple[Option, ...]) -> dict[str, Option]:
    """Options by everything that they may be called."""
    found = {f"--{option.also}": option for option in options if option.also}
    found |= {f"-{option.short}": option for option in options if option.short}
    return found | {f"--{option.name}": option for option in options}


def _values(context: Context, option: Option) -> tuple[Offered, bool]:
    """What the value of an option may be, and whether it may be a file."""
    from .help import words_of

    kind = OF_OPTION.get(option.name, "") or OF_METAVAR.get(option.metavar, "")
    found = [(word, "") for word in words_of(option)]
    return found or on_board(context, kind), option.metavar in FILES


def _arguments(context: Context, command: Command, before: list[str]) -> tuple[Offered, bool]:
    """What the argument at the cursor may be, after these others, and whether it may be a file."""
    if command.name == "help":
        themes = [(theme, f"{group}: all commands") for theme, group in THEMES.items() if theme]
        return [*((name, find(name).text) for name in names()), *themes] if not before else [], False
    subcommands = _subcommands(command)
    if subcommands and not before:
        return [(name, each.text) for name, each in subcommands.items()], False
    wanted = subcommands.get(before[0]) if subcommands else command
    argument = _argument_at(wanted, len(before) - bool(subcommands)) if wanted is not None else None
    if argument is None or wanted is None:
        return [], False
    name = f"{wanted.name} {argument.name}"
    kind = OF_ARGUMENT.get(name, OF_ARGUMENT.get(argument.name, ""))
    files = argument.name.upper() in FILES or name in FILES
    listed = [] if files else [(word, "") for word in _listed(argument.text)]
    return listed or on_board(context, kind), files


def _subcommands(command: Command) -> dict[str, Command]:
    return command.arguments[0].commands if command.arguments else {}


def _argument_at(wanted: Command, place: int) -> Argument | None:
    """The argument that a word sets; the last one may take many."""
    arguments = wanted.arguments
    if place < len(arguments):
        return arguments[place]
    return arguments[-1] if arguments and arguments[-1].many else None


def _listed(text: str) -> list[str]:
    """The words that an argument may be, if its help lists just these: `bash, zsh or fish`."""
    words = text.replace(" or ", ", ").split(", ")
    return words if len(words) > 1 and all(word.replace("-", "").isalpha() for word in words) else []
