"""Shell completion, made from the declarations of the commands; `completion_values` reads words from the board."""

from __future__ import annotations

from ..errors import Invalid
from . import THEMES, find, names
from .completion_values import KINDS, OF_ARGUMENT, OF_METAVAR, OF_OPTION, found
from .parser import GLOBAL, Argument, Option, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .context import Context
    from .parser import Args, Command

SHELLS = ("bash", "zsh", "fish")
_FILES = ("FILE", "FOLDER", "PATH", "ADDRESS", "RESOURCE", "JSON")
"""Options with these values are completed with files if nothing else fits."""


@command(
    "completion",
    "Print a completion script for your shell.",
    Argument("shell", "bash, zsh or fish", optional=True),
    Option("list", "KIND", f"for the scripts: print words of the board ({', '.join(KINDS)})"),
    example='eval "$(tb completion bash)"',
)
def completion(context: Context, args: Args) -> None:
    """Evaluate it in your shell's start-up file, or store it where your shell looks for completions."""
    if args.list is not None:
        if args.list not in KINDS:
            raise Invalid(f"completion: --list: one of {', '.join(KINDS)}, got {args.list!r}")
        words = found(context, args.list)
        context.answer({"words": words}, "\n".join(words))
        return
    if args.shell is None:
        raise Invalid("completion: SHELL is missing", hint="usage: tb completion bash, zsh or fish")
    if args.shell not in SHELLS:
        raise Invalid(f"shell: one of {', '.join(SHELLS)}, got {args.shell!r}")
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell]()
    context.answer({"script": script}, script)


def _argument_words(wanted: Command) -> tuple[list[str], str]:
    """What the arguments of a command may be: fixed words, and the kind of words on the board."""
    if wanted.name == "help":
        return [*names(), *filter(None, THEMES)], ""
    if wanted.name == "completion":
        return list(SHELLS), ""
    kinds = [OF_ARGUMENT.get(f"{wanted.name} {a.name}", OF_ARGUMENT.get(a.name, "")) for a in wanted.arguments]
    words = [a.text.replace(",", " ").split() for a in wanted.arguments if a.name == "subcommand"]
    return words[0] if words else [], next(filter(None, kinds), "")


def _option_words(option: Option) -> tuple[list[str], str]:
    """What the value of an option may be: fixed words, and the kind of words on the board."""
    if option.sets:
        from ..kinds import RULES
        from ..operations import find as find_operation

        operation, _, name = option.sets.rpartition(".")
        words = RULES[find_operation(operation).parameters[name].base].schema.get("enum", [])
        if words:
            return list(words), ""
    return [], OF_OPTION.get(option.name, "") or OF_METAVAR.get(option.metavar, "")


def _names(option: Option) -> list[str]:
    return [f"--{option.name}", *([f"-{option.short}"] if option.short else [])]


def _bash(escape: str = "\\") -> str:
    """`escape` stands before a `#`, which would begin a comment."""
    cases, values = [], []
    for name in names():
        wanted = find(name)
        words, kind = _argument_words(wanted)
        words += [f"--{option.name}" for option in (*wanted.options, *GLOBAL)]
        cases.append(f"    {name}) words='{' '.join(words)}' kind='{kind}' ;;")
        for option in wanted.options:
            values += _bash_values(f"{name}:", option)
    for option in GLOBAL:
        values += _bash_values("*:", option)
    return _BASH.format(
        globals="|".join(f"--{option.name}" for option in GLOBAL if option.metavar),
        cases="\n".join(cases),
        values="\n".join(values),
        commands=" ".join([*names(), *(f"--{option.name}" for option in GLOBAL)]),
        escape=escape,
    )


def _bash_values(prefix: str, option: Option) -> list[str]:
    words, kind = _option_words(option)
    if not option.metavar:
        return []
    patterns = "|".join(f"{prefix}{name}" for name in _names(option))
    value = "file" if option.metavar in _FILES else "other"
    return [f"    {patterns}) words='{' '.join(words)}' kind='{kind}' value={value} ;;"]


# Bash splits words at colons, so `lock:dep` arrives as three words: they are put together, and the first two are left
# out of what is offered. Words are compared one by one: `compgen -W` would run what is in them.
_BASH = """_tb() {{
  local n=$COMP_CWORD current=${{COMP_WORDS[COMP_CWORD]}} colon='' command=''
  local skip='' value='' kind='' word words previous
  local -a given=()
  if [ "$current" = : ] && [ $n -gt 1 ]; then
    colon=${{COMP_WORDS[n-1]}}: current='' n=$((n - 1))
  elif [ $n -gt 2 ] && [ "${{COMP_WORDS[n-1]}}" = : ]; then
    colon=${{COMP_WORDS[n-2]}}: n=$((n - 2))
  fi
  for word in "${{COMP_WORDS[@]:1:n-1}}"; do
    if [ -n "$skip" ]; then given+=("$skip" "$word"); skip=''; continue; fi
    case $word in
      {globals}) skip=$word ;;
      -*) ;;
      *) [ -n "$command" ] || command=$word ;;
    esac
  done
  previous=${{COMP_WORDS[n-1]}}
  case $command in
    '') words='{commands}' ;;
{cases}
  esac
  case $command:$previous in
{values}
  esac
  COMPREPLY=()
  for word in ${{words}}; do
    case $word in --*) [ -z "$kind" ] || [ "${{current#-}}" != "$current" ] || continue ;; esac
    case $word in "$colon$current"*) COMPREPLY+=("${{word#"$colon"}}") ;; esac
  done
  case $current in
    -*) ;;
    *)
      if [ -n "$kind" ]; then
        while IFS= read -r word; do
          case $word in '#'*) word='{escape}'$word ;; esac
          case $word in "$colon$current"*) COMPREPLY+=("${{word#"$colon"}}") ;; esac
        done < <("${{COMP_WORDS[0]}}" "${{given[@]}}" completion --list "$kind" 2>/dev/null)
      fi ;;
  esac
  [ ${{#COMPREPLY[@]}} -gt 0 ] || [ "$value" = other ] || COMPREPLY=($(compgen -f -- "$current"))
}}
complete -F _tb tb tiebreak"""


def _zsh() -> str:
    """The same script: zsh escapes what it offers by itself, and does not split words unless told to."""
    script = _bash(escape="").replace("_tb() {", "_tb() {\n  emulate -L ksh", 1)
    return f"autoload -Uz bashcompinit && bashcompinit\n{script}"


def _fish() -> str:
    from .help import about

    lines = []
    for name in names():
        wanted = find(name)
        text = wanted.text.replace("'", "\\'")
        lines.append(f"complete -c tb -n __fish_use_subcommand -f -a {name} -d '{text}'")
        offered = _fish_words(*_argument_words(wanted))
        if offered:
            lines.append(f"complete -c tb -n '__fish_seen_subcommand_from {name}' -a '{offered}'")
        for option in (*wanted.options, *GLOBAL):
            values = _fish_words(*_option_words(option)) if option.metavar else ""
            needs = (f" -r -a '{values}'" if values else " -r") if option.metavar else ""
            short = f" -s {option.short}" if option.short else ""
            told = about(option).replace("'", "\\'")
            lines.append(
                f"complete -c tb -n '__fish_seen_subcommand_from {name}' -l {option.name}{short}{needs} -d '{told}'"
            )
    lines.append("complete -c tiebreak -w tb")
    return "\n".join(lines)


def _fish_words(words: list[str], kind: str) -> str:
    return " ".join([*words, *([f"(tb completion --list {kind} 2>/dev/null)"] if kind else [])])
