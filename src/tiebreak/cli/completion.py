"""Shell completion: scripts that ask `tb` itself what may stand at the cursor.

Bash, zsh and fish split, match and quote words each in their own way, so their scripts do no more than pass on what was
typed. What is offered is decided here and in `completion_offer`, in one place for all three.
"""

from __future__ import annotations

from ..errors import Invalid
from .completion_offer import offer
from .parser import Argument, Option, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .context import Context
    from .parser import Args


@command(
    "completion",
    "Print a completion script for your shell.",
    Argument("shell", "bash, zsh or fish"),
    Option("line", "TEXT", "for the script of bash: the line up to the cursor, instead of its words"),
    Option("breaks", "CHARACTERS", "for the script of bash: its COMP_WORDBREAKS", default=""),
    rest="WORDS…",
    example='eval "$(tb completion bash)"',
)
def completion(context: Context, args: Args) -> None:
    """Evaluate it in your shell's start-up file, or store it where your shell looks for completions.

    The script runs the same command with what was typed, and gets what may stand at the cursor: in the first line
    `files` if the shell shall offer files, else `words`; then a word in each line, and after a tab what it means.
    """
    if args.shell not in _SCRIPTS:
        raise Invalid(f"shell: one of {', '.join(_SCRIPTS)}, got {args.shell!r}")
    if args.line is not None:
        from .completion_quoting import quoted, split_line

        typed = split_line(args.line, args.breaks)
        found, files = offer(context, typed.words[1:])
        rows = [(word, "") for word in quoted([word for word, _ in found], typed)]
    elif args.rest:
        rows, files = offer(context, args.rest, explained=True)
    else:
        script = _SCRIPTS[args.shell]
        context.answer({"script": script}, script)
        return
    lines = ["files" if files else "words", *(f"{word}\t{text}" if text else word for word, text in rows)]
    context.answer({"files": files, "words": [word for word, _ in rows]}, "\n".join(lines))


# Bash splits a line at colons and other COMP_WORDBREAKS, keeps the quotes, and inserts words as they are. So it hands
# over the line, and gets quoted words without what stands before the last such character. `-o default` offers files.
_BASH = """_tb() {
  local tb=${COMP_WORDS[0]/#\\~/$HOME} kind word
  COMPREPLY=()
  {
    IFS= read -r kind
    while IFS= read -r word; do COMPREPLY+=("$word"); done
  } < <("$tb" completion bash --breaks="$COMP_WORDBREAKS" --line="${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
  # Bash 3 has no compopt: it sorts, and offers files where there is no other word.
  compopt -o nosort 2>/dev/null
  [ "$kind" = files ] || compopt +o default 2>/dev/null
}
complete -o default -F _tb tb tiebreak"""

# Zsh quotes by itself what it inserts. In a list for _describe, a colon ends the word and a backslash quotes it.
_ZSH = """#compdef tb tiebreak
_tb() {
  local tb=${(Q)words[1]/#\\~/$HOME} line word
  local -a answer offered
  answer=("${(@f)$("$tb" completion zsh -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  if [[ $answer[1] == files ]]; then
    _files
    return
  fi
  for line in "${(@)answer[2,-1]}"; do
    word=${${line%%$'\\t'*}//\\\\/\\\\\\\\}
    word=${word//:/\\\\:}
    [[ $line == *$'\\t'* ]] && word+=:${line#*$'\\t'}
    offered+=("$word")
  done
  _describe -V tb offered
}
if [[ $funcstack[1] == _tb ]]; then
  _tb "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }
  compdef _tb tb tiebreak
fi"""

# Fish quotes by itself, too, and takes a word and what it means with a tab between them. If the condition fails, fish
# knows of no words and offers files.
_FISH = """function __tb_ask
    set -l words (commandline -opc)
    set -l tb (string replace -r '^~' -- $HOME $words[1])
    set -e words[1]
    set -g __tb_offered (command $tb completion fish -- $words (commandline -ct) 2>/dev/null)
    set -l kind $__tb_offered[1]
    set -e __tb_offered[1]
    test "$kind" != files
end
complete -c tb -e
complete -c tb -n __tb_ask -f -k -a '$__tb_offered'
complete -c tiebreak -w tb"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
