"""Several rows in one statement: a list of values that both databases take as a table called `given`.

Statements come in a few sizes, so that each is prepared once. A shorter list is filled up with rows of zeros (NULL for
texts), which match no row.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

SIZES = (1, 5, 25, 100)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def parameter(name: str, i: int) -> str:
    """The name of the i-th parameter of this name. It has letters only, because engines expect that."""
    return f"{name}_{_LETTERS[i // 676 % 26]}{_LETTERS[i // 26 % 26]}{_LETTERS[i % 26]}"


def given(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield `WITH given (…) AS (VALUES …) ` with its parameters, in batches that together have all rows once."""
    for begin in range(0, len(rows), SIZES[-1]):
        batch = rows[begin : begin + SIZES[-1]]
        size = next(size for size in SIZES if size >= len(batch))
        params: dict[str, Any] = {}
        for column, names in zip(range(len(columns)), _names(columns, size), strict=True):
            params.update(zip(names, [row[column] for row in batch], strict=False))
            if len(batch) < size:
                params.update(dict.fromkeys(names[len(batch) :], 0 if isinstance(batch[0][column], int) else None))
        yield _text(columns, size), params


def listed(name: str, numbers: Sequence[int]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the parameters for `IN (…)`, in batches that together have all numbers once."""
    for begin in range(0, len(numbers), SIZES[-1]):
        batch = numbers[begin : begin + SIZES[-1]]
        size = next(size for size in SIZES if size >= len(batch))
        [names] = _names((name,), size)
        yield ":" + ", :".join(names), dict(zip(names, [*batch, *[0] * (size - len(batch))], strict=True))


def among(name: str, texts: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Like `listed`, for texts. A shorter list is filled up with its last text."""
    for begin in range(0, len(texts), SIZES[-1]):
        batch = texts[begin : begin + SIZES[-1]]
        size = next(size for size in SIZES if size >= len(batch))
        [names] = _names((name,), size)
        yield ":" + ", :".join(names), dict(zip(names, [*batch, *[batch[-1]] * (size - len(batch))], strict=True))


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
