"""What a person means who types one of several choices: the same rule wherever somebody is asked."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def chosen(typed: str, choices: Sequence[str]) -> str | None:
    """The choice that somebody typed: itself, in other case, its place (1, 2, …), or a beginning that only it has."""
    typed = typed.strip()
    if typed in choices:
        return typed
    wanted = typed.casefold()
    same = [each for each in choices if each.casefold() == wanted]
    if len(same) == 1:
        return same[0]
    if typed.isdecimal() and 1 <= int(typed) <= len(choices):
        return choices[int(typed) - 1]
    begun = [each for each in choices if wanted and each.casefold().startswith(wanted)]
    return begun[0] if len(begun) == 1 else None
