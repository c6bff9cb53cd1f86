"""Help, shell completion and version, made from the declarations of the commands."""

from __future__ import annotations

from ..errors import Invalid
from ..text import table
from . import GROUPS, find, names
from .parser import GLOBAL, Argument, command, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .context import Context
    from .parser import Args, Command, Option

TITLE = "tiebreak: when N agents reach for the same thing, exactly one wins, and everyone can see who."
EXITS = "Exit codes: 0 won or done, 1 lost or refused, 2 wrong usage or time-out, 3 the board is unavailable."
SHELLS = ("bash", "zsh", "fish")


def overview() -> str:
    """All commands, by group."""
    lines = [TITLE, "", "usage: tb [OPTIONS] COMMAND …", ""]
    for group, members in GROUPS.items():
        lines.append(f"{group}:")
        lines.append(table([[f"  {name}", find(name).text] for name in members]))
        lines.append("")
    lines += ["Options for every command:", _options(GLOBAL), "", EXITS, "`tb help COMMAND` shows more."]
    return "\n".join(lines)


def describe(wanted: Command) -> str:
    """The help of one command."""
    if wanted.name == "help":
        return overview()
    lines = [f"usage: {usage(wanted)}", "", wanted.text]
    if wanted.run.__doc__:
        lines += [wanted.run.__doc__.strip()]
    if wanted.arguments:
        rows = [[f"  {argument.name.upper()}", argument.text] for argument in wanted.arguments]
        lines += ["", "Arguments:", table(rows)]
    if wanted.options:
        lines += ["", "Options:", _options(wanted.options)]
    lines += ["", "Options for every command:", _options(GLOBAL)]
    if wanted.example:
        lines += ["", "Example:", f"  {wanted.example}"]
    return "\n".join(lines)


def _options(options: tuple[Option, ...]) -> str:
    return table([[f"  {option.shown}", about(option)] for option in options])


def about(option: Option) -> str:
    """What an option means, with the words that the parameter it sets may be, and with that parameter's default."""
    if not option.sets:
        return option.text
    from ..kinds import RULES
    from ..operations import find as find_operation

    operation, _, name = option.sets.rpartition(".")
    wanted = find_operation(operation)
    rule, default = RULES[wanted.parameters[name].base], wanted.defaults.get(name)
    words = rule.schema.get("enum", [])
    listed = f"{', '.join(words[:-1])} or {words[-1]}" if words else ""
    text = f"{option.text}: {listed}" if listed else option.text
    return f"{text} (default {default})" if default is not None else text


@command("help", "Show all commands, or one in full.", Argument("command", "the command", optional=True))
def show_help(context: Context, args: Args) -> None:
    """The same as COMMAND --help."""
    text = describe(find(args.command)) if args.command else overview()
    context.answer({"help": text}, text)


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


@command(
    "completion",
    "Print a completion script for your shell.",
    Argument("shell", "bash, zsh or fish"),
    example='eval "$(tb completion bash)"',
)
def completion(context: Context, args: Args) -> None:
    """Evaluate it in your shell's start-up file, or store it where your shell looks for completions."""
    if args.shell not in SHELLS:
        raise Invalid(f"shell: one of {', '.join(SHELLS)}, got {args.shell!r}")
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell]()
    context.answer({"script": script}, script)


def _words(name: str) -> str:
    more = {"help": " ".join(names()), "completion": " ".join(SHELLS)}.get(name, "")
    return " ".join([more, *(f"--{option.name}" for option in (*find(name).options, *GLOBAL))]).strip()


def _bash() -> str:
    cases = "\n".join(f"    {name}) words='{_words(name)}' ;;" for name in names())
    valued = "|".join(f"--{option.name}" for option in GLOBAL if option.metavar)
    return f"""_tb() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} command='' skip='' word words
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    if [ -n "$skip" ]; then skip=''; continue; fi
    case $word in {valued}) skip=1 ;; -*) ;; *) command=$word; break ;; esac
  done
  case $command in
    '') words='{" ".join(names())} {" ".join(f"--{option.name}" for option in GLOBAL)}' ;;
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))
}}
complete -F _tb tb tiebreak"""


def _zsh() -> str:
    return f"autoload -Uz bashcompinit && bashcompinit\n{_bash()}"


def _fish() -> str:
    lines = []
    for name in names():
        text = find(name).text.replace("'", "\\'")
        lines.append(f"complete -c tb -n __fish_use_subcommand -f -a {name} -d '{text}'")
        for option in (*find(name).options, *GLOBAL):
            needs = " -r" if option.metavar else ""
            told = about(option).replace("'", "\\'")
            lines.append(f"complete -c tb -n '__fish_seen_subcommand_from {name}' -l {option.name}{needs} -d '{told}'")
    lines.append("complete -c tiebreak -w tb")
    return "\n".join(lines)
