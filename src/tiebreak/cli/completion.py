"""Shell completion, made from the declarations of the commands."""

from __future__ import annotations

from ..errors import Invalid
from . import find, names
from .help import about
from .parser import GLOBAL, Argument, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .context import Context
    from .parser import Args

SHELLS = ("bash", "zsh", "fish")


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
