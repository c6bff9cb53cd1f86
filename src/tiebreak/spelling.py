"""Spelling: which other key somebody may have meant who gave one that no task has.

Two keys are near if one slip of the hand makes one of the other, and the digits of both are the same:

- one letter is missing, too many, another one, or swapped with its neighbour, or
- only case and `-` or `_` differ.

Digits count things, so `issue-1` and `issue-2` are two keys and not a slip. Keys of fewer than four characters are
never near: among short names a single letter is the whole difference.

A board may have a million keys. `slips` therefore lists the near keys of one key, so that they can be looked up in an
index, and no key of the board has to be read to be compared. A letter that was typed wrongly is sought among those of
`_LETTERS`, and those of the key itself.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

SHORTEST = 4
"""The shortest key, in characters, that has near ones."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz-_./:"
_BLANKS = str.maketrans("_ ", "--")


def is_near(given: str, known: str) -> bool:
    """Whether somebody who gave one key may have meant the other."""
    if given == known or min(len(given), len(known)) < SHORTEST or _digits(given) != _digits(known):
        return False
    return _folded(given) == _folded(known) or known in slips(given)


def slips(key: str, places: Iterable[int] | None = None) -> set[str]:
    """The keys that are one slip away from this one and first differ from it at one of these places; None: at any."""
    if len(key) < SHORTEST:
        return set()
    letters = {*_LETTERS, *(_LETTERS.upper() if key.lower() != key else ""), *key} - set("0123456789")
    found: set[str] = set()
    for i in range(len(key) + 1) if places is None else places:
        before, after = key[:i], key[i:]
        found.update(before + letter + after for letter in letters)
        if after and not after[0].isdigit():
            found.add(before + after[1:])
            found.update(before + letter + after[1:] for letter in letters)
        if len(after) > 1 and not (after[0].isdigit() and after[1].isdigit()):
            found.add(before + after[1] + after[0] + after[2:])
    found.discard(key)
    return {each for each in found if len(each) >= SHORTEST}


def cases(key: str) -> tuple[str, str]:
    """The key in small letters with `-`, and in capitals with `_`: each character of a like key is in one of them."""
    low = "".join(c.lower() if len(c.lower()) == 1 else c for c in key).translate(_BLANKS)
    high = "".join(c.upper() if len(c.upper()) == 1 else c for c in low).replace("-", "_")
    return low, high


def _folded(key: str) -> str:
    return cases(key)[0]


def _digits(key: str) -> str:
    return "".join(c for c in key if c.isdigit())
