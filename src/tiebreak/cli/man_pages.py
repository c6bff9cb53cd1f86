r"""Manual pages in roff, made from the declarations of the commands: `tb(1)`, and `tb-COMMAND(1)` for each command.

Roff reads a line that begins with `.` or `'` as a request, and a backslash as the beginning of an escape. It prints `-`
as a hyphen, which nobody can paste into a shell, and `'` as a curly quote. All text therefore goes through `_text`.
"""

from __future__ import annotations

from .. import __version__
from ..errors import Invalid
from . import GROUPS, THEMES, find, names
from .help import EXIT_CODES, TITLE, about
from .help_layout import parts
from .parser import GLOBAL, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .parser import Command, Option

_ESCAPES = str.maketrans(
    {
        "\\": "\\(rs",
        "-": "\\-",
        "'": "\\(aq",
        "`": "\\(ga",
        "^": "\\(ha",
        "~": "\\(ti",
        '"': "\\(dq",
        "…": "...",
    }
)


def pages() -> dict[str, str]:
    """All pages, by the name of their file. `tiebreak(1)` is another name of `tb(1)`."""
    return {
        "tb.1": page(),
        "tiebreak.1": ".so man1/tb.1\n",
        **{f"tb-{name}.1": page(name) for name in names()},
    }


def page(name: str = "") -> str:
    """The page of a command, or of `tb` itself; raises `Invalid` if there is no such command."""
    if name in ("", "tb", "tiebreak"):
        return _overview()
    if name in THEMES and name not in names():
        raise Invalid(f"{name} is a theme, and only commands have manual pages", hint=f"`tb help {name}` shows it")
    return _command(find(name.removeprefix("tb-")))


def _overview() -> str:
    title, _, said = TITLE.partition(": ")
    lines = [
        *_heading("tb", said.rstrip("."), also=title),
        *_section("synopsis", [".B tb", "[\\fIOPTIONS\\fR] \\fICOMMAND\\fR ..."]),
        *_section("description", _text(said[0].upper() + said[1:])),
        *_section("options", _options(GLOBAL)),
    ]
    for theme, group in THEMES.items():
        lines += [
            f".SH {_argument(group.upper())}",
            *([_line(f"`tb help {theme}` shows how these are used.")] if theme else []),
        ]
        for name in GROUPS[group]:
            lines += _item(_reference(name), find(name).text)
    lines += _section("exit status", _codes())
    return "\n".join(lines) + "\n"


def _command(wanted: Command) -> str:
    told, ends = _told(wanted)
    lines = [
        *_heading(f"tb-{wanted.name}", wanted.text.rstrip(".")),
        *_section("synopsis", [_usage(wanted)]),
        *_section("description", [*_text(wanted.text), *told]),
    ]
    arguments = [
        line for each in wanted.arguments for line in _item(f"\\fI{_escaped(each.name.upper())}\\fR", each.text)
    ]
    if arguments:
        lines += _section("arguments", arguments)
    if wanted.options:
        lines += _section("options", _options(wanted.options))
    lines += _section("options for every command", _options(GLOBAL))
    lines += _section("exit status", [*(line for text in ends for line in _text(text)), *_codes()])
    if wanted.example:
        lines += _section("examples", [".nf", ".RS", _guarded(_escaped(wanted.example)), ".RE", ".fi"])
    group = next(group for group in GROUPS.values() if wanted.name in group)
    others = [_reference(name) for name in ("", *group) if name != wanted.name]
    lines += _section("see also", [f"{each}," for each in others[:-1]] + others[-1:])
    return "\n".join(lines) + "\n"


def _told(wanted: Command) -> tuple[list[str], list[str]]:
    """What the docstring of a command adds to its text, and the sentences in it about the exit status."""
    lines: list[str] = []
    ends: list[str] = []
    commands = wanted.arguments[0].commands if wanted.arguments else {}
    listed = [(usage(each).removeprefix(f"tb {wanted.name} "), each.text) for each in commands.values()]
    for part in parts(wanted.run.__doc__ or ""):
        if all(line.partition(" ")[0] in commands for line in part):
            listed = [(line, commands[line.partition(" ")[0]].text) for line in part]
            continue
        said: list[str] = []
        for sentence in _sentences(" ".join(part)):
            (ends if sentence.startswith(("Exit ", "Exits ")) else said).append(sentence)
        lines += [".PP", *_text(" ".join(said))] if said else []
    for name, text in listed:
        lines += _item(f"\\fB{_escaped(name.replace('`', ''))}\\fR", text)
    return lines, ends


def _sentences(text: str) -> list[str]:
    """The sentences of a paragraph: each but the first begins with a capital letter, or with code."""
    found, begin = [], 0
    for place in range(len(text) - 2):
        if text[place : place + 2] == ". " and (text[place + 2].isupper() or text[place + 2] == "`"):
            found.append(text[begin : place + 1])
            begin = place + 2
    return [*found, text[begin:]]


def _heading(name: str, said: str, also: str = "") -> list[str]:
    version = _argument(f"tiebreak {__version__}")
    called = f"{name}, {also}" if also else name
    return [
        f'.TH {_argument(name.upper())} 1 "" {version} "tiebreak"',
        ".nh",  # a word that is broken at the end of a line cannot be found or copied
        ".ad l",
        *_section("name", [f"{_escaped(called)} \\- {_line(said)}"]),
    ]


def _section(title: str, lines: list[str]) -> list[str]:
    return [f".SH {_argument(title.upper())}", *lines]


def _usage(wanted: Command) -> str:
    first, _, rest = usage(wanted).partition(f"tb {wanted.name}")[2].partition("-- ")
    words = [f"\\fBtb {_escaped(wanted.name)}\\fR", *map(_placeholder, first.split())]
    return " ".join([*words, *(["\\-\\-", *map(_placeholder, rest.split())] if rest else [])])


def _placeholder(word: str) -> str:
    """`[NAME…]` with its letters in italics."""
    name = word.strip("[]….")
    before, _, after = word.partition(name)
    return f"{_escaped(before)}\\fI{_escaped(name)}\\fR{_escaped(after)}"


def _options(options: tuple[Option, ...]) -> list[str]:
    lines = []
    for option in options:
        names = ", ".join(f"\\fB{_escaped(name.strip())}\\fR" for name in _names(option))
        lines += _item(f"{names} \\fI{_escaped(option.metavar)}\\fR" if option.metavar else names, about(option))
    return lines


def _names(option: Option) -> list[str]:
    return [*([f"-{option.short}"] if option.short else []), f"--{option.name}"]


def _codes() -> list[str]:
    return [line for code, meaning in EXIT_CODES.items() for line in _item(f"\\fB{code}\\fR", meaning)]


def _reference(name: str) -> str:
    return f"\\fB{_escaped(f'tb-{name}' if name else 'tb')}\\fR(1)"


def _item(name: str, text: str) -> list[str]:
    return [".TP", name, *_text(text)]


def _text(text: str) -> list[str]:
    """Running text, a sentence in each line, as roff wants it."""
    return [_line(sentence) for sentence in _sentences(" ".join(text.split()))]


def _line(text: str) -> str:
    """One line of text; what stands between backticks is bold."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # one is left over, and means itself
        return _guarded(_escaped(text))
    return _guarded(
        "".join(f"\\fB{_escaped(piece)}\\fR" if n % 2 else _escaped(piece) for n, piece in enumerate(pieces))
    )


def _guarded(line: str) -> str:
    return f"\\&{line}" if line.startswith((".", "'")) else line


def _escaped(text: str) -> str:
    made = text.translate(_ESCAPES)
    return made if made.isascii() else "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in made)


def _argument(text: str) -> str:
    return f'"{_escaped(text)}"'
