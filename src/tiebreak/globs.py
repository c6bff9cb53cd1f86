"""Glob patterns for files: which paths a pattern matches, and whether two patterns can match the same path.

The language: `*` and `?` stay inside one component (and match leading dots), `**` as a whole component is zero
or more components, `[abc]`, `[a-z]` and `[!x]` are classes, a backslash is an ordinary character. `src/**` is
everything below `src` and `src` itself. A file whose own name has glob characters is written with `[[]`, `[*]`
and `[?]`, as `glob.escape` does: `app/[id].tsx` on disk is `app/[[]id].tsx` here. Because brackets are also
common in the names of files that do not exist yet, a class matches its own spelling too: `[id].tsx` covers
`i.tsx`, `d.tsx` and `[id].tsx`.

`overlap` says whether any path is matched by both patterns. It may wrongly say yes, but never wrongly no, because a
wrong no would let two agents win the same path.

Paths have no symbolic links: `paths.confine` resolves them in the part before the first glob. A glob itself does not
follow links, as in git: with `src/link -> real`, `src/l*/x.py` does not cover `src/real/x.py`. It cannot, because a
hold is valid in every worktree and clone, where other links may exist, and a link may be created after the hold was
taken. No file has two winners because of that: an agent that edits `src/link/x.py` has to win `src/real/x.py`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Ranges = tuple[tuple[int, int], ...]
    States = list[list[tuple[Ranges | None, int]]]

ESCAPES = ("[[]", "[*]", "[?]")
"""The spelling of a glob character that stands for itself."""


def is_glob(text: str) -> bool:
    """Whether a canonical name can match more than one path: it has an active `*`, `?` or `[...]`."""
    if not ("*" in text or "?" in text or "[" in text):
        return False
    found = (piece for part in text.split("/") for piece in pieces(part))
    return any(piece in "*?" or (len(piece) > 1 and piece not in ESCAPES) for piece in found)


def matches(pattern: str, path: str) -> bool:
    """Whether a canonical pattern matches one path; glob characters in `path` stand for themselves."""
    states: States = [[]]
    _add_text(states, "/".join(map(unescape, path.split("/"))) + "/")
    return _accept_common_path(_automaton(pattern), states)


def overlap(a: str, b: str) -> bool:
    """Whether there can be a path that both canonical patterns match."""
    if a == b:
        return True
    first, second = _fixed_start(a), _fixed_start(b)
    if not (first.startswith(second) or second.startswith(first)):
        return False
    return _accept_common_path(_automaton(a), _automaton(b))


def _fixed_start(pattern: str) -> str:
    """The text that every matching path, closed by a `/`, begins with."""
    closed = pattern + "/"
    ends = [at for at in map(closed.find, "*?[") if at >= 0]
    return closed[: min(ends)] if ends else closed


def pieces(part: str) -> Iterator[str]:
    """The pieces of a component: a character, `*`, `?`, or a bracket expression; a lone `[` is escaped."""
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
    """The name of a file from its escaped pattern: the inverse of `escape`."""
    return "".join(piece[1] if piece in ESCAPES else piece for piece in pieces(part))


# A pattern becomes a nondeterministic automaton: a list of states, each with its edges (characters, next state),
# where None instead of characters is a step that reads nothing. The first state is the start, and the last one
# accepts. It reads a path with a `/` after every component, so that `src/**` reads `src/` and matches `src` too.

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
            _add_double_star(states)
        else:
            for piece in pieces(part):
                _add_piece(states, piece)
            _add_text(states, "/")
    return states


def _add_double_star(states: States) -> None:
    here = len(states) - 1
    states[here] += [(_ANY, here + 1), (None, here + 2)]
    states += [[(_ANY, here + 1), ((_SLASH,), here)], []]


def _add_piece(states: States, piece: str) -> None:
    here = len(states) - 1
    if piece == "*":
        states[here] += [(_ANY, here), (None, here + 1)]
        states.append([])
    elif piece == "?":
        states[here].append((_ANY, here + 1))
        states.append([])
    elif len(piece) == 1 or piece in ESCAPES:
        _add_text(states, piece[len(piece) // 2])
    else:
        _add_text(states, piece)
        states[here].append((_members(piece), len(states) - 1))


def _add_text(states: States, text: str) -> None:
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


def _accept_common_path(a: States, b: States) -> bool:
    """Whether both automata accept a common path: a search through the pairs of states, each visited once."""
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
            if chars is not None and _have_common(chars, others):
                yield after, then


def _have_common(a: Ranges, b: Ranges) -> bool:
    for low, high in a:
        for start, end in b:
            if low <= end and start <= high:
                return True
    return False
