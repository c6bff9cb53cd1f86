"""Declarations of commands, and the parser for them. Help, completion and reference come from the same declarations.

The parser is our own because importing `argparse` takes longer than all the rest of a command (docs/decisions/002). It
supports what the commands need and no more: `--name VALUE`, `--name=VALUE`, repeated options, flags, arguments, and
`--` before a command to run.
"""

from __future__ import annotations

from ..errors import Invalid
from ..names import shown, written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .context import Context


class Option:
    """`--name METAVAR`, or a flag without METAVAR. `many`: repeatable, gives a list. `short`: its one-letter form.

    `also` is a second name, which help does not show. With `commas`, a value is several values between commas.
    `sets` names the parameter that it sets, such as `tasks.post.priority`. Help adds the words that the parameter may
    be and its default (see `help.about`), so that neither is repeated here.
    """

    __slots__ = ("also", "commas", "convert", "default", "many", "metavar", "name", "sets", "short", "text")

    def __init__(
        self,
        name: str,
        metavar: str = "",
        text: str = "",
        *,
        default: Any = None,
        many: bool = False,
        convert: Callable[[str], Any] | None = None,
        short: str = "",
        sets: str = "",
        also: str = "",
        commas: bool = False,
    ) -> None:
        self.name = name
        self.also = also
        self.commas = commas
        self.sets = sets
        self.short = short
        self.metavar = metavar
        self.text = text
        self.default = [] if many else (False if not metavar else default)
        self.many = many
        self.convert = convert

    @property
    def key(self) -> str:
        """The name of its value in `Args`."""
        return self.name.replace("-", "_")

    @property
    def shown(self) -> str:
        """The option as help shows it."""
        return f"{f'-{self.short}, ' if self.short else ''}--{self.name} {self.metavar}".rstrip()


def duration(name: str, text: str, default: float) -> Option:
    """An option `--name DURATION` with this default, which its help names."""
    return Option(name, "DURATION", f"{text} (default {written(default)})", default=written(default))


def number(name: str, text: str, default: int) -> Option:
    """An option `--name N` with this default, which its help names."""
    return Option(name, "N", f"{text} (default {default})", default=default, convert=whole)


def tags(text: str, *, one: bool = False) -> Option:
    """The option `--tag TAG`, the same on every command: also written `--tags`, repeatable, and with commas.

    With `one`, the command takes a single tag (see `one_tag`).
    """
    more = "" if one else " (repeatable, or with commas)"
    return Option("tag", "TAG", f"{text}{more}", many=True, also="tags", commas=True)


def one_tag(given: list[str]) -> str | None:
    """The tag to search for, or None; more than one is refused, because a search takes only one."""
    if len(given) > 1:
        raise Invalid(f"--tag: expected one tag, got {len(given)}")
    return given[0] if given else None


class Argument:
    """A positional argument. `many`: takes all remaining words. `optional`: may be missing.

    `sets` is the parameter that it sets, if that has another name. `commands` are the subcommands that it may name.
    """

    __slots__ = ("commands", "many", "name", "optional", "sets", "text")

    def __init__(
        self,
        name: str,
        text: str,
        *,
        many: bool = False,
        optional: bool = False,
        sets: str = "",
        commands: dict[str, Command] | None = None,
    ) -> None:
        self.name = name
        self.commands = commands or {}
        self.sets = sets
        self.text = text
        self.many = many
        self.optional = optional


class Args(dict):  # type: ignore[type-arg]
    """The parsed values, also as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def given(self, *names: str) -> dict[str, Any]:
        """Those of these values that were given. The operation has defaults for the others."""
        return {name: self[name] for name in names if self[name] is not None}


class Command:
    """One command: its arguments, options, help, and the function that runs it."""

    __slots__ = ("arguments", "example", "name", "options", "rest", "run", "text")

    def __init__(
        self,
        name: str,
        text: str,
        run: Callable[[Context, Args], int | None],
        arguments: tuple[Argument, ...],
        options: tuple[Option, ...],
        rest: str,
        example: str,
    ) -> None:
        self.name = name
        self.text = text
        self.run = run
        self.arguments = arguments
        self.options = options
        self.rest = rest
        self.example = example


GLOBAL = (
    Option("board", "ADDRESS", "the board to use (default: TIEBREAK_BOARD, else your own)"),
    Option("project", "NAME", "the project (default: TIEBREAK_PROJECT, else this repository)"),
    Option("as", "AGENT", "who acts (default: TIEBREAK_AGENT, else a name for this session)"),
    Option("json", text="answer in JSON"),
    Option("help", text="show this help"),
)

COMMANDS: dict[str, Command] = {}
HELP = "`tb help{0}` or --help lists them; after -- nothing is taken for an option"


def command(
    name: str,
    text: str,
    *parts: Argument | Option,
    rest: str = "",
    example: str = "",
) -> Callable[[Callable[[Context, Args], int | None]], Callable[[Context, Args], int | None]]:
    """Declare a function as a command. `rest` names what may follow `--`."""

    def declare(run: Callable[[Context, Args], int | None]) -> Callable[[Context, Args], int | None]:
        arguments = tuple(part for part in parts if isinstance(part, Argument))
        options = tuple(part for part in parts if isinstance(part, Option))
        COMMANDS[name] = Command(name, text, run, arguments, options, rest, example)
        return run

    return declare


def split(words: list[str]) -> tuple[str | None, Args, list[str]]:
    """The command's name, the global options before it, and the words after it."""
    found = Args({option.key: option.default for option in GLOBAL})
    known = {option.name: option for option in GLOBAL}
    left = list(words)
    while left and left[0].startswith("-"):
        word = left.pop(0)
        if word in ("-h", "--help"):
            found["help"] = True
        elif word == "--version":
            return "version", found, left
        else:
            _take_option(word, left, known, found, "")
    return (left.pop(0) if left else None), found, left


def parse(wanted: Command, words: list[str], found: Args) -> Args:
    """Parse the words of a command; raises `Invalid` with what is wrong and the correct usage."""
    known = {option.name: option for option in (*wanted.options, *GLOBAL)}
    known |= {option.also: option for option in wanted.options if option.also and option.also not in known}
    found.update({option.key: [] if option.many else option.default for option in wanted.options})
    shorts = {f"-{option.short}": f"--{option.name}" for option in wanted.options if option.short}
    left, plain = list(words), []
    found["rest"] = []
    while left:
        word = left.pop(0)
        word = shorts.get(word, word)
        if word == "--":
            if wanted.rest:
                found["rest"] = left
            else:
                plain += left
            break
        if word in ("-h", "--help"):
            found["help"] = True
        elif word.startswith("--"):
            _take_option(word, left, known, found, wanted.name)
        elif word.startswith("-") and word != "-" and not word[1:].isdecimal():
            raise Invalid(
                f"{wanted.name}: unknown option {word!r}",
                hint=HELP.format(f" {wanted.name}"),
            )
        else:
            plain.append(word)
    if not found["help"]:
        place(wanted, plain, found)
    return found


def _take_option(word: str, left: list[str], known: dict[str, Option], found: Args, who: str) -> None:
    name, mark, value = word[2:].partition("=")
    at = f"{who}: " if who else ""
    option = known.get(name) if word.startswith("--") else None
    if option is None:
        close = _closest(name, known)
        raise Invalid(
            f"{at}unknown option {word.partition('=')[0]!r}",
            hint=f"did you mean --{close}?" if close else HELP.format(f" {who}" if who else ""),
        )
    if not option.metavar:
        if mark:
            raise Invalid(f"{at}--{name} takes no value")
        found[option.key] = True
        return
    if not mark:
        if not left or left[0].startswith("--"):
            raise Invalid(
                f"{at}--{name} needs a value ({option.metavar})",
                hint=f"--{name}=VALUE accepts a value that begins with --",
            )
        value = left.pop(0)
    if option.convert is not None:
        try:
            value = option.convert(value)
        except Invalid as exc:
            raise Invalid(f"{at}--{name}: {exc.message}", hint=exc.own_hint, reason=exc.reason) from None
    if option.commas:
        found[option.key] += [part.strip() for part in value.split(",")]
    elif option.many:
        found[option.key].append(value)
    else:
        found[option.key] = value


def place(wanted: Command, plain: list[str], found: Args) -> None:
    """Assign words to a command's arguments; raises `Invalid` if there are too few or too many."""
    for argument in wanted.arguments:
        if argument.many:
            found[argument.name], plain = plain, []
        elif plain:
            found[argument.name] = plain.pop(0)
        else:
            found[argument.name] = None
        if not found[argument.name] and not argument.optional:
            comment = "; a shell takes #7 for a comment, so write 7" if argument.name == "ref" else ""
            raise Invalid(f"{wanted.name}: {argument.name.upper()} is missing", hint=f"usage: {usage(wanted)}{comment}")
    if plain:
        raise Invalid(f"{wanted.name}: unexpected {plain[0]!r}", hint=f"usage: {usage(wanted)}")


def usage(wanted: Command) -> str:
    """The usage of a command in one line."""
    words = [f"tb {wanted.name}"]
    for argument in wanted.arguments:
        word = argument.name.upper() + ("…" if argument.many else "")
        words.append(f"[{word}]" if argument.optional else word)
    if wanted.options:
        words.append("[OPTIONS]")
    if wanted.rest:
        words.append(f"-- {wanted.rest}")
    return " ".join(words)


def _closest(name: str, known: dict[str, Option]) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, known, 1)), "")


def whole(value: str) -> int:
    """A whole number on the command line."""
    if not value.removeprefix("-").isdecimal() or len(value) > 16:
        raise Invalid(f"expected a whole number, got {shown(value)}")
    return int(value)


def json_argument(value: str) -> Any:
    """JSON on the command line: the text itself, `@FILE`, or `-` for standard input."""
    import json

    text = value
    if value == "-":
        from .context import standard_input

        text = standard_input()
    elif value.startswith("@"):
        try:
            with open(value[1:], encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as exc:
            raise Invalid(f"cannot read {value[1:]!r}: {exc}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Invalid(f"not valid JSON: {exc}", hint="quote it for the shell, e.g. '{\"a\": 1}'") from None
