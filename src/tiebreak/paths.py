"""Where a project is, and one name for each file in it.

A file hold names a path or a glob relative to the top of the repository. Two agents must never win the
same file under two names, so every name is brought into one canonical form before it is compared:

- `confine` asks the disk: it resolves symlinks and `..`, and refuses whatever leaves the repository.
- `canonical` knows only text: it is the last step of `confine`, and all that a board can check.
- `overlap` decides whether two names could mean one file. It may err towards yes, never towards no.

The language of names: `*` and `?` stay inside one component (and match leading dots), `**` as a whole
component is zero or more components, `[abc]`, `[a-z]` and `[!x]` are classes, a backslash is an ordinary
character. `src/` means `src/**`, which is everything below `src` and `src` itself. A file whose own name has
glob characters is written with `[[]`, `[*]` and `[?]`, as `glob.escape` does: `app/[id].tsx` on disk is
`app/[[]id].tsx` here. Because brackets are also common in the names of files that do not exist yet, a class
matches its own spelling too: `[id].tsx` covers `i.tsx`, `d.tsx` and `[id].tsx`.
"""

from __future__ import annotations

import os
import sys

from .errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Ranges = tuple[tuple[int, int], ...]
    States = list[list[tuple[Ranges | None, int]]]

MAX_LENGTH = 1024
"""How many characters a path or glob may have."""
MAX_PROJECT = 64
"""How many characters a project's name may have."""

_ESCAPES = ("[[]", "[*]", "[?]")
_FOLDS_CASE = sys.platform == "darwin"


# --- The repository and the project ---------------------------------------------------------------------


class Repository:
    """A git working tree (`root`) and the directory that all its worktrees share (`common`)."""

    __slots__ = ("common", "root")

    def __init__(self, root: str, common: str) -> None:
        self.root = root
        self.common = common


def repository(start: str) -> Repository | None:
    """The repository that `start` lies in, found without running git; None if there is none to be read."""
    try:
        here = os.path.realpath(start)
        while True:
            common = _common_dir(here)
            if common:
                return Repository(here, common)
            parent = os.path.dirname(here)
            if parent == here:
                return None
            here = parent
    except (PermissionError, FileNotFoundError, ValueError):  # not found: the current directory is gone
        return None


def _common_dir(top: str) -> str:
    """The common git directory of the working tree at `top`; empty when `top` is not one."""
    dot_git = os.path.join(top, ".git")
    git_dir = dot_git
    if not os.path.isdir(dot_git):
        key, _, target = _read(dot_git).partition(":")
        if key != "gitdir" or not target.strip():
            return ""
        git_dir = os.path.join(top, target.strip())
    common = os.path.join(git_dir, _read(os.path.join(git_dir, "commondir")).strip())
    return os.path.realpath(common) if os.path.isdir(common) else ""


def _read(path: str) -> str:
    """The text of a small file; empty when there is none. Being denied is not the same, and is raised."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", opener=_open_now) as file:
            return file.read(1 << 20)
    except PermissionError:
        raise
    except OSError:
        return ""


def _open_now(path: str, flags: int) -> int:
    # A pipe that somebody left as `.git` in a shared directory would block for ever.
    return os.open(path, flags | os.O_NONBLOCK)


def project_name(start: str) -> str:
    """The project of directory `start`: `git config tiebreak.project`, else one derived from the repository.

    The derived name ends in a hash of the common directory, so that two clones on one board stay apart
    and all worktrees of one clone stay together. Outside of any repository it is `default`.
    """
    found = repository(start)
    if found is None:
        return "default"
    return _configured_project(found.common) or _derived_project(found.common)


def _derived_project(common: str) -> str:
    import binascii  # a shared library in some builds of Python, so loaded only here

    parent, base = os.path.split(common)
    base = os.path.basename(parent) if base == ".git" else base.removesuffix(".git")
    safe = "".join(c if _is_plain(c) else "-" for c in base.lower())[:48] or "root"
    digest = f"{binascii.crc32(os.fsencode(common)):08x}"[:6]
    return f"{safe}-{digest}"


def _is_plain(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char in "._-")


def _configured_project(common: str) -> str:
    """The last `project = NAME` of section `[tiebreak]` in the git config; empty when there is none."""
    try:
        lines = _read(os.path.join(common, "config")).splitlines()
    except PermissionError:
        return ""
    section = chosen = ""
    for raw in lines:
        line = raw.strip()
        if line.startswith("["):
            section, _, line = line[1:].partition("]")
        key, equals, value = line.partition("=")
        if equals and section.strip().lower() == "tiebreak" and key.strip().lower() == "project":
            chosen = _config_value(value.strip())
    if len(chosen) > MAX_PROJECT or not all(_is_plain(c) or c == "/" for c in chosen):
        raise Invalid(
            f"project name {_quoted(chosen)} in the git config is not usable",
            hint=f"use at most {MAX_PROJECT} of the characters A-Z a-z 0-9 . _ / -",
        )
    return chosen


def _config_value(text: str) -> str:
    if text.startswith('"'):
        return text[1:].partition('"')[0]
    return text.partition("#")[0].partition(";")[0].strip()


# --- One name for one file ------------------------------------------------------------------------------


def confine(path: str, *, root: str, base: str, literal: bool = False) -> str:
    """The canonical name, relative to `root`, of a path that a user gave relative to directory `base`.

    Symlinks are resolved, the path need not exist, and what lies outside of `root` is `Invalid`. The leading
    components without globs are resolved on disk, the rest is kept as a pattern. A component with glob
    characters that exists on disk just so is that file, not a glob, unless it is all stars or already has
    an escape. With `literal`, glob characters never mean globs: for a caller that knows it has one file.
    """
    _check(path)
    disk, rest = (os.path.join(base, path), "") if literal else _divide(path, base)
    try:
        names = _inside(os.path.realpath(disk), os.path.realpath(root))
    except FileNotFoundError:
        raise Invalid(f"path {_quoted(path)} is relative to a directory that is gone") from None
    if names is None:
        raise Invalid(f"path {_quoted(path)} is outside the repository {_quoted(root)}")
    if not names and not rest:
        raise _is_top(path)
    if _FOLDS_CASE:
        names = _as_stored(root, names)
    if not rest and path.endswith("/"):
        rest = "**"
    return canonical("/".join([*map(_escape, names), rest] if rest else map(_escape, names)))


def _divide(path: str, base: str) -> tuple[str, str]:
    """Split a path before its first real glob: what to resolve on disk, and what to keep as a pattern."""
    disk = "/" if path.startswith("/") else base
    parts = path.split("/")
    for at, part in enumerate(parts):
        glob = is_glob(part)
        if glob and not _exists_verbatim(disk, part):
            return disk, "/".join(parts[at:])
        disk = os.path.join(disk, part if glob else _unescape(part))
    return disk, ""


def _exists_verbatim(folder: str, name: str) -> bool:
    # A stray file called `*` must not narrow `src/*` to itself, nor may a file that happens to be
    # called `[[]x` change what the canonical form of `[x` means.
    if not name.strip("*") or any(escape in name for escape in _ESCAPES):
        return False
    return os.path.lexists(os.path.join(os.path.realpath(folder), name))


def _inside(real: str, root: str) -> list[str] | None:
    """The components of `real` below `root`; None when it is not below. `/repo-evil` is not in `/repo`."""
    names = [name for name in real.split("/") if name]
    above = [name for name in root.split("/") if name]
    return names[len(above) :] if names[: len(above)] == above else None


def _as_stored(root: str, names: list[str]) -> list[str]:
    """Spell existing components as their directory does: on macOS `A.py` and `a.py` may be one file."""
    folder, out = root, []
    for name in names:
        out.append(_stored_name(folder, name))
        folder = os.path.join(folder, out[-1])
    return out


def _stored_name(folder: str, name: str) -> str:
    try:
        stored = os.listdir(folder)
        if name not in stored:
            for other in stored:
                same = _nfc(other).casefold() == _nfc(name).casefold()
                if same and os.path.samefile(os.path.join(folder, name), os.path.join(folder, other)):
                    return other
    except OSError:
        pass  # what does not exist yet has no stored spelling
    return name


def canonical(text: str) -> str:
    """The one spelling of a repository-relative path or glob, by text alone; `Invalid` when it has none.

    Removes `//`, `./` and `..`, turns a trailing `/` into `/**`, escapes a `[` that opens no class, folds
    repeated stars, and composes Unicode (NFC). Applying it twice changes nothing.
    """
    _check(text)
    if text.startswith("/"):
        raise Invalid(f"path {_quoted(text)} is absolute", hint="name it from the top of the repository")
    parts: list[str] = []
    for part in _nfc(text).split("/"):
        if part == "..":
            _step_up(parts, text)
        elif part not in ("", ".") and not (_is_deep(part) and parts[-1:] == ["**"]):
            parts.append(_component(part))
    if not parts:
        raise _is_top(text)
    if text.endswith("/") and parts[-1] != "**":
        parts.append("**")
    out = "/".join(parts)
    if len(out) > MAX_LENGTH:
        raise _is_long(text)
    return out


def _step_up(parts: list[str], text: str) -> None:
    if not parts:
        raise Invalid(f"path {_quoted(text)} leads above the top of the repository")
    # What a glob matches may be a symlink, and then `..` does not lead back.
    if any(map(is_glob, parts)):
        raise Invalid(f"path {_quoted(text)} has '..' after a glob")
    parts.pop()


def _is_deep(part: str) -> bool:
    return len(part) > 1 and not part.strip("*")


def _component(part: str) -> str:
    if _is_deep(part):
        return "**"
    out: list[str] = []
    for piece in _pieces(part):
        if piece != "*" or out[-1:] != ["*"]:
            out.append(piece)
    return "".join(out)


def _check(text: str) -> None:
    """Refuse what no path may be: empty, too long, or with characters that break a line or an encoding."""
    if not text:
        raise Invalid("path is empty")
    if len(text) > MAX_LENGTH:
        raise _is_long(text)
    if not (text.isascii() and text.isprintable()) and any(map(_is_forbidden, text)):
        raise Invalid(f"path {_quoted(text)} has control characters or is not valid Unicode")


def _is_forbidden(char: str) -> bool:
    return char < " " or "\x7f" <= char <= "\x9f" or char in "\u2028\u2029" or "\ud800" <= char <= "\udfff"


def _is_long(text: str) -> Invalid:
    return Invalid(f"path {_quoted(text)} is longer than {MAX_LENGTH} characters")


def _is_top(text: str) -> Invalid:
    return Invalid(f"path {_quoted(text)} is the top of the repository", hint="'**' names everything in it")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")


def _nfc(text: str) -> str:
    if text.isascii():
        return text
    import unicodedata

    return unicodedata.normalize("NFC", text)


# --- What a name matches --------------------------------------------------------------------------------


def is_glob(text: str) -> bool:
    """Whether a canonical name can match more than one path: it has an active `*`, `?` or `[...]`."""
    if not ("*" in text or "?" in text or "[" in text):
        return False
    pieces = (piece for part in text.split("/") for piece in _pieces(part))
    return any(piece in "*?" or (len(piece) > 1 and piece not in _ESCAPES) for piece in pieces)


def matches(pattern: str, path: str) -> bool:
    """Whether a canonical pattern matches one path; glob characters in `path` stand for themselves."""
    states: States = [[]]
    _spell(states, "/".join(map(_unescape, path.split("/"))) + "/")
    return _meet(_automaton(pattern), states)


def overlap(a: str, b: str) -> bool:
    """Whether two canonical names could both match some one path."""
    if a == b:
        return True
    first, second = _fixed_start(a), _fixed_start(b)
    if not (first.startswith(second) or second.startswith(first)):
        return False
    return _meet(_automaton(a), _automaton(b))


def _fixed_start(pattern: str) -> str:
    """The text that every matching path, closed by a `/`, begins with."""
    closed = pattern + "/"
    ends = [at for at in map(closed.find, "*?[") if at >= 0]
    return closed[: min(ends)] if ends else closed


def _pieces(part: str) -> Iterator[str]:
    """A component in pieces: a character, `*`, `?`, or a bracket expression; a lone `[` comes out escaped."""
    at = 0
    while at < len(part):
        piece = part[at]
        if piece == "[":
            # The first member may be `]` itself.
            end = part.find("]", at + (3 if part[at + 1 : at + 2] in ("!", "^") else 2))
            piece = part[at : end + 1] if end > 0 else ""
        yield piece or "[[]"
        at += len(piece) or 1


def _escape(name: str) -> str:
    return "".join(f"[{char}]" if char in "[*?" else char for char in name)


def _unescape(part: str) -> str:
    return "".join(piece[1] if piece in _ESCAPES else piece for piece in _pieces(part))


# A name becomes an automaton: a list of states, each with its edges (characters, next state), where None
# instead of characters is a step that reads nothing. The first state starts, the last one accepts. It
# reads a path with every component closed by `/`, so that `src/**` reads `src/` and matches `src` too.

_LAST = 0x10FFFF
_SLASH = (ord("/"), ord("/"))


def _complement(ranges: Iterable[tuple[int, int]]) -> Ranges:
    out, low = [], 0
    for start, end in sorted(ranges):
        if start > low:
            out.append((low, start - 1))
        low = max(low, end + 1)
    if low <= _LAST:
        out.append((low, _LAST))
    return tuple(out)


_ANY = _complement([_SLASH])


def _automaton(pattern: str) -> States:
    states: States = [[]]
    for part in pattern.split("/"):
        if part == "**":
            _add_deep(states)
        else:
            for piece in _pieces(part):
                _add(states, piece)
            _spell(states, "/")
    return states


def _add_deep(states: States) -> None:
    here = len(states) - 1
    states[here] += [(_ANY, here + 1), (None, here + 2)]
    states += [[(_ANY, here + 1), ((_SLASH,), here)], []]


def _add(states: States, piece: str) -> None:
    here = len(states) - 1
    if piece == "*":
        states[here] += [(_ANY, here), (None, here + 1)]
        states.append([])
    elif piece == "?":
        states[here].append((_ANY, here + 1))
        states.append([])
    elif len(piece) == 1 or piece in _ESCAPES:
        _spell(states, piece[len(piece) // 2])
    else:
        _spell(states, piece)
        states[here].append((_members(piece), len(states) - 1))


def _spell(states: States, text: str) -> None:
    for char in text:
        states[-1].append((((ord(char), ord(char)),), len(states)))
        states.append([])


def _members(piece: str) -> Ranges:
    """The characters of a class, never `/`. A range that runs backwards is empty, as in `[post-id]`."""
    negated = piece[1] in "!^"
    body = piece[2 if negated else 1 : -1]
    ranges, at = [], 0
    while at < len(body):
        width = 3 if body[at + 1 : at + 2] == "-" and at + 2 < len(body) else 1
        low, high = ord(body[at]), ord(body[at + width - 1])
        if low <= high:
            ranges.append((low, high))
        at += width
    return _complement([*(ranges if negated else _complement(ranges)), _SLASH])


def _meet(a: States, b: States) -> bool:
    """Whether some path is accepted by both: a search of the pairs of states, each visited once."""
    goal = (len(a) - 1, len(b) - 1)
    seen = {(0, 0)}
    todo = [(0, 0)]
    while todo:
        here = todo.pop()
        if here == goal:
            return True
        for pair in _steps(a, b, *here):
            if pair not in seen:
                seen.add(pair)
                todo.append(pair)
    return False


def _steps(a: States, b: States, i: int, j: int) -> Iterator[tuple[int, int]]:
    for chars, after in a[i]:
        if chars is None:
            yield after, j
    for others, then in b[j]:
        if others is None:
            yield i, then
            continue
        for chars, after in a[i]:
            if chars is not None and _share(chars, others):
                yield after, then


def _share(a: Ranges, b: Ranges) -> bool:
    for low, high in a:
        for start, end in b:
            if low <= end and start <= high:
                return True
    return False
