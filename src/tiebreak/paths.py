"""Canonical paths: one name for each file of a repository.

A file hold names a path or a glob relative to the top of the repository. Two agents must never win the same file
under two names, so every name is brought into one canonical form before it is compared:

- `confine` uses the disk: it resolves symlinks and `..`, and refuses a path that leads out of the repository.
- `canonical` uses the text alone: it is the last step of `confine`, and all that a board can check.

`globs` says which paths a glob matches.
"""

from __future__ import annotations

import os
import sys

from .errors import Invalid
from .globs import ESCAPES, escape, is_glob, pieces, unescape
from .limits import MAX_PATH_OF_FILE

_FOLDS_CASE = sys.platform == "darwin"


def confine(path: str, *, root: str, base: str, literal: bool = False) -> str:
    """The canonical name, relative to `root`, of a path that a user gave relative to the directory `base`.

    The path need not exist; one outside of `root` is `Invalid`. Symlinks in the components before the first glob are
    resolved on disk. The rest stays a pattern, which follows no symlinks (see `globs`). A component with glob
    characters is not a glob if a file with exactly that name exists, unless it consists of stars or contains an escape.
    With `literal`, glob characters never mean globs: for a caller that knows it has one file.
    """
    _check(path)
    disk, rest = (os.path.join(base, path), "") if literal else _split_before_glob(path, base)
    try:
        names = _components_below(os.path.realpath(disk), os.path.realpath(root))
    except FileNotFoundError:
        raise Invalid(f"path {_quoted(path)} is relative to a directory that is gone") from None
    if names is None:
        raise Invalid(f"path {_quoted(path)} is outside the repository {_quoted(root)}")
    if not names and not rest:
        raise _is_top(path)
    if _FOLDS_CASE:
        names = _spelled_as_stored(root, names)
    if not rest and path.endswith("/"):
        rest = "**"
    return canonical("/".join([*map(escape, names), rest] if rest else map(escape, names)))


def _split_before_glob(path: str, base: str) -> tuple[str, str]:
    """Split a path before its first glob: the part to resolve on disk, and the part that stays a pattern."""
    disk = "/" if path.startswith("/") else base
    parts = path.split("/")
    for at, part in enumerate(parts):
        glob = is_glob(part)
        if glob and not _exists_verbatim(disk, part):
            return disk, "/".join(parts[at:])
        disk = os.path.join(disk, part if glob else unescape(part))
    return disk, ""


def _exists_verbatim(folder: str, name: str) -> bool:
    # A stray file called `*` must not narrow `src/*` to itself, nor may a file that happens to be
    # called `[[]x` change what the canonical form of `[x` means.
    if not name.strip("*") or any(escape in name for escape in ESCAPES):
        return False
    return os.path.lexists(os.path.join(os.path.realpath(folder), name))


def _components_below(real: str, root: str) -> list[str] | None:
    """The components of `real` below `root`; None when it is not below. `/repo-evil` is not in `/repo`."""
    names = [name for name in real.split("/") if name]
    above = [name for name in root.split("/") if name]
    return names[len(above) :] if names[: len(above)] == above else None


def _spelled_as_stored(root: str, names: list[str]) -> list[str]:
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
        pass  # a file that does not exist yet has no stored spelling
    return name


def canonical(text: str) -> str:
    """The canonical spelling of a repository-relative path or glob, by its text alone; raises `Invalid` if it has none.

    Removes `//`, `./` and `..`, turns a trailing `/` into `/**`, escapes a `[` that opens no class, folds
    repeated stars, and composes Unicode (NFC). Applying it twice changes nothing.
    """
    _check(text)
    if text.startswith("/"):
        raise Invalid(f"path {_quoted(text)} is absolute", hint="name it from the top of the repository")
    parts: list[str] = []
    for part in _nfc(text).split("/"):
        if part == "..":
            _remove_last(parts, text)
        elif part not in ("", ".") and not (_is_double_star(part) and parts[-1:] == ["**"]):
            parts.append(_component(part))
    if not parts:
        raise _is_top(text)
    if text.endswith("/") and parts[-1] != "**":
        parts.append("**")
    out = "/".join(parts)
    _limit(out)  # again: the canonical spelling may be longer than the given one
    return out


def _remove_last(parts: list[str], text: str) -> None:
    if not parts:
        raise Invalid(f"path {_quoted(text)} leads above the top of the repository")
    # A glob may match a symlink, and then `..` does not lead back.
    if any(map(is_glob, parts)):
        raise Invalid(f"path {_quoted(text)} has '..' after a glob")
    parts.pop()


def _is_double_star(part: str) -> bool:
    return len(part) > 1 and not part.strip("*")


def _component(part: str) -> str:
    if _is_double_star(part):
        return "**"
    out: list[str] = []
    for piece in pieces(part):
        if piece != "*" or out[-1:] != ["*"]:
            out.append(piece)
    return "".join(out)


def _check(text: str) -> None:
    """Raise `Invalid` if the path is empty, too long, or has control characters or invalid Unicode."""
    if not text:
        raise Invalid("path is empty")
    _limit(text)
    if not (text.isascii() and text.isprintable()) and any(map(_is_forbidden, text)):
        raise Invalid(f"path {_quoted(text)} has control characters or is not valid Unicode")


def _is_forbidden(char: str) -> bool:
    return char < " " or "\x7f" <= char <= "\x9f" or char in "\u2028\u2029" or "\ud800" <= char <= "\udfff"


def _limit(text: str) -> None:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_PATH_OF_FILE:
        raise Invalid(f"path {_quoted(text)} has {size} bytes, the limit is {MAX_PATH_OF_FILE}")


def _is_top(text: str) -> Invalid:
    return Invalid(f"path {_quoted(text)} is the top of the repository", hint="'**' names everything in it")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")


def _nfc(text: str) -> str:
    if text.isascii():
        return text
    import unicodedata

    return unicodedata.normalize("NFC", text)
