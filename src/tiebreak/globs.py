"""What a name matches, and whether two names could mean one file.

The language: `*` and `?` stay inside one component (and match leading dots), `**` as a whole component is zero
or more components, `[abc]`, `[a-z]` and `[!x]` are classes, a backslash is an ordinary character. `src/**` is
everything below `src` and `src` itself. A file whose own name has glob characters is written with `[[]`, `[*]`
and `[?]`, as `glob.escape` does: `app/[id].tsx` on disk is `app/[[]id].tsx` here. Because brackets are also
common in the names of files that do not exist yet, a class matches its own spelling too: `[id].tsx` covers
`i.tsx`, `d.tsx` and `[id].tsx`.

`overlap` is about paths: whether some one path is matched by both names. About that it may err towards yes, never
towards no, because a wrong no would let two agents win the same path.

A path is where a file really is; `paths.confine` resolves symbolic links in whatever stands before the first glob. A
glob itself does not follow them, as in git: with `src/link -> real`, `src/l*/x.py` does not cover `src/real/x.py`. It
cannot be otherwise. A hold is valid in every worktree and clone, where other links may be, and a link may be made after
the hold was taken. No file has two winners for that: whoever edits `src/link/x.py` has to win `src/real/x.py`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Ranges = tuple[tuple[int, int], ...]
    States = list[list[tuple[Ranges | None, int]]]

ESCAPES = ("[[]", "[*]", "[?]")
"""How a glob character that stands for itself is written."""


def is_glob(text: str) -> bool:
    """Whether a canonical name can match more than one path: it has an active `*`, `?` or `[...]`."""
    if not ("*" in text or "?" in text or "[" in text):
        return False
    found = (piece for part in text.split("/") for piece in pieces(part))
    return any(piece in "*?" or (len(piece) > 1 and piece not in ESCAPES) for piece in found)


def matches(pattern: str, path: str) -> bool:
    """Whether a canonical pattern matches one path; glob characters in `path` stand for themselves."""
    states: States = [[]]
    _spell(states, "/".join(map(unescape, path.split("/"))) + "/")
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


def pieces(part: str) -> Iterator[str]:
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


def escape(name: str) -> str:
    """A file's own name as a pattern that matches only itself."""
    return "".join(f"[{char}]" if char in "[*?" else char for char in name)


def unescape(part: str) -> str:
    """The file's own name of an escaped pattern."""
    return "".join(piece[1] if piece in ESCAPES else piece for piece in pieces(part))


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
            for piece in pieces(part):
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
    elif len(piece) == 1 or piece in ESCAPES:
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
