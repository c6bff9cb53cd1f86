"""Several rows in one statement: a list of values that both databases take as a table called `given`.

Statements come in a few sizes, so that each is prepared once; a list that is shorter is filled up with rows of zeros,
which name no task.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

SIZES = (1, 5, 25, 100)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def parameter(name: str, i: int) -> str:
    """The name of the i-th parameter of its sort: letters only, as statements have it."""
    return f"{name}_{_LETTERS[i // 676 % 26]}{_LETTERS[i // 26 % 26]}{_LETTERS[i % 26]}"


def given(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """`WITH given (…) AS (VALUES …) ` and its parameters, as often as it takes to have all rows given once."""
    for begin in range(0, len(rows), SIZES[-1]):
        some = rows[begin : begin + SIZES[-1]]
        size = next(size for size in SIZES if size >= len(some))
        params: dict[str, Any] = {}
        for column, names in zip(range(len(columns)), _names(columns, size), strict=True):
            params.update(zip(names, [row[column] for row in some], strict=False))
            if len(some) < size:
                params.update(dict.fromkeys(names[len(some) :], 0 if isinstance(some[0][column], int) else None))
        yield _text(columns, size), params


def listed(name: str, numbers: Sequence[int]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Parameters for `IN (…)`, as often as it takes to have all numbers listed once."""
    for begin in range(0, len(numbers), SIZES[-1]):
        some = numbers[begin : begin + SIZES[-1]]
        size = next(size for size in SIZES if size >= len(some))
        [names] = _names((name,), size)
        yield ":" + ", :".join(names), dict(zip(names, [*some, *[0] * (size - len(some))], strict=True))


_known: dict[tuple[Any, ...], Any] = {}


def _names(columns: Sequence[str], size: int) -> list[list[str]]:
    key = (*columns, size)
    if key not in _known:
        _known[key] = [[parameter(column, i) for i in range(size)] for column in columns]
    return _known[key]  # type: ignore[no-any-return]


def _text(columns: Sequence[str], size: int) -> str:
    key = ("text", *columns, size)
    if key not in _known:
        values = ", ".join(f"(:{', :'.join(names)})" for names in zip(*_names(columns, size), strict=True))
        _known[key] = f"WITH given ({', '.join(columns)}) AS (VALUES {values}) "
    return _known[key]  # type: ignore[no-any-return]
