"""Python functions as jobs. A module declares them; a worker that was told to import the module runs them.

    @tiebreak.job(queue="mail")
    def send(to: str, text: str) -> None: ...

    send("ada", "hello")            # a call like any other
    send.submit("ada", "hello")     # a job; `tb work --import mail` runs it

The board stores the function's name and its arguments as JSON. A worker looks the name up in `REGISTRY`, among the
functions that the operator's modules declared. Nothing that a board contains is ever imported or unpickled.
"""

from __future__ import annotations

import os
import sys

from .errors import Invalid
from .names import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Generic, ParamSpec, TypeVar

    from .board import Board

    P = ParamSpec("P")
    R = TypeVar("R")
else:
    from .operations import Generic  # a stand-in: `typing` is slow to import

    P = R = None

REGISTRY: dict[str, JobFunction[..., Any]] = {}
"""The declared functions, by the name that boards store."""


class JobFunction(Generic[P, R]):
    """A function that can be called here, or submitted as a job."""

    def __init__(self, function: Callable[P, R], name: str, options: dict[str, Any], board: Board | None) -> None:
        self.function = function
        self.name = name
        self.options = options
        self._board = board
        self.__name__ = getattr(function, "__name__", name)
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here and now."""
        return self.function(*args, **kwargs)

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Submit a call as a job; returns its task."""
        return self._on(self._board).call("jobs.submit", self._job(args, kwargs))

    def on(self, board: Board) -> JobFunction[P, R]:
        """The same function, for another board."""
        return JobFunction(self.function, self.name, self.options, board)

    def with_options(self, **options: Any) -> JobFunction[P, R]:
        """The same function with other options of `jobs.submit`: `delay`, `key`, `priority` …"""
        return JobFunction(self.function, self.name, {**self.options, **options}, self._board)

    def _job(self, args: Any, kwargs: Any) -> dict[str, Any]:
        return {"command": {"call": self.name, "args": list(args), "kwargs": dict(kwargs)}, **self.options}

    @staticmethod
    def _on(board: Board | None) -> Board:
        if board is not None:
            return board
        from .board import open

        return open()

    def __repr__(self) -> str:
        return f"<job {self.name}>"


def job(
    *, name: str | None = None, board: Board | None = None, **options: Any
) -> Callable[[Callable[P, R]], JobFunction[P, R]]:
    """Declare a function as a job called `name` or `module.function`; the options are those of `jobs.submit`."""

    def declare(function: Callable[P, R]) -> JobFunction[P, R]:
        made = JobFunction(function, name or name_of(function), options, board)
        known = REGISTRY.get(made.name)
        if known is not None and _place(known.function) != _place(function):
            raise Invalid(f"two functions want to be the job {made.name}", hint="give one of them name='…'")
        REGISTRY[made.name] = made
        return made

    return declare


def name_of(function: Callable[..., Any]) -> str:
    """`module.function`. A main program is named after its file, as if it had been imported."""
    module, inner = function.__module__, function.__qualname__
    if "<" in inner:
        raise Invalid(f"job: {shown(inner)} has no name of its own", hint="declare it in a module, or with name='…'")
    if module == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None) or ""
        module = os.path.splitext(os.path.basename(file))[0] or module
    return f"{module}.{inner}"


def _place(function: Callable[..., Any]) -> tuple[str, str]:
    return function.__module__, function.__qualname__
