"""The groups of operations on a board: `board.tasks`, `board.holds`, `board.messages` …

Each operation is a method with the operation's own parameters, defaults and text, so that `dir`, `help`, a type checker
and an editor know them all. The modules beside this one are generated from the declarations by `make docs`
(`generate`), one for each group, because a command uses one or two groups and loads no more than those.

A method sends what it was given and nothing else: `agent` and `project` are filled in by the board, and everything else
that is left out is decided by whoever runs the operation, which may be a daemon of another version. The defaults in the
signatures are there to be read.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, TypeVar

    from ..board import Board

    F = TypeVar("F", bound=Callable[..., Any])

    class RunsInThreads(Protocol):
        """As much of an `AsyncBoard` as its groups need."""

        async def run(self, function: Callable[..., Any], *args: Any, **params: Any) -> Any:
            """Call something in a thread."""


class Group:
    """One group of operations on a board."""

    def __init__(self, board: Board) -> None:
        self._board = board


class AsyncGroup:
    """One group of operations, awaited."""

    def __init__(self, board: RunsInThreads, group: Group) -> None:
        self._board = board
        self._group = group


def sends(name: str, first: str = "") -> Callable[[F], F]:
    """Declare a method that runs an operation; the parameter `first` may be given by position."""

    def declare(declared: F) -> F:
        def method(self: Group, *args: Any, **params: Any) -> Any:
            if args:
                if len(args) > 1 or not first or first in params:
                    declared(self, *args, **params)  # raises as any function does that gets too many
                params[first] = args[0]
            return self._board.call(name, params)

        return _dressed(method, declared)

    return declare


def awaits(declared: F) -> F:
    """Declare a method that runs the method of the same name of the group in a thread."""
    name = declared.__name__

    async def method(self: AsyncGroup, *args: Any, **params: Any) -> Any:
        return await self._board.run(getattr(self._group, name), *args, **params)

    return _dressed(method, declared)


def _dressed(method: Any, declared: F) -> F:
    """The method under the name of what it was declared as, for `help` and `inspect`; as `functools.wraps` does."""
    method.__name__ = declared.__name__
    method.__qualname__ = declared.__qualname__
    method.__module__ = declared.__module__
    method.__doc__ = declared.__doc__
    method.__wrapped__ = declared
    return method  # type: ignore[no-any-return]


def load(name: str) -> type[Group]:
    """The class of a group; its module is loaded on first use."""
    module = __import__(f"{__name__}.{name}", fromlist=[name])
    return getattr(module, name.capitalize())  # type: ignore[no-any-return]
