"""What an engine is: a place where operations run."""

from __future__ import annotations

from ..limits import MAX_LIMIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from ..model import Event
    from ..operations import Operation

    Call = tuple[Operation[..., Any], dict[str, Any], str | None]
    """An operation, its parameters, and the key by which it may be repeated."""

    class Engine(Protocol):
        """A place where operations run."""

        address: str
        """How the board is called, without anything secret."""

        @property
        def whole(self) -> str:
            """The address with its password, for commands that are run on behalf of this board."""

        @property
        def path(self) -> str | None:
            """The file that the board is in, if it is in one of this machine."""

        left: set[str]
        """The projects in which committed transactions left chores; whoever goes on with one takes it out."""

        writers: int
        """How many transactions that write are worth running side by side."""

        def run(self, operation: Operation[..., Any], params: dict[str, Any], once: str | None = None) -> Any:
            """Run one operation in a transaction of its own."""

        def batch(self, calls: Sequence[Call]) -> list[Any]:
            """Run several in one transaction; each answer is a result, or the error that undid that one alone."""

        def batch_at_once(self, calls: Sequence[Call]) -> list[Any] | None:
            """The same if it can be done without waiting for others, else None: for who must not be kept."""

        def wait(self, after: int, timeout: float, **filters: Any) -> bool:
            """Sleep until there is an event after this number; False when the time is up.

            The filters of `events.read` may spare wake-ups in vain; nobody may rely on that.
            """

        def follow(self, after: int, timeout: float, filters: dict[str, Any]) -> tuple[list[Event], int]:
            """The next events that match (see `events.read`), and the number to go on after; none when time is up."""

        def backup(self, target: str, progress: Callable[[int, int], None] | None = None) -> None:
            """Copy the board, while others use it, to a file that does not exist yet."""

        def probe(self) -> None:
            """Look for damage in what is stored, for a moment at most; raises `Unavailable`."""

        def diagnose(self, *, repair: bool = False) -> list[tuple[str, str, str]]:
            """What the engine knows about its health: (`ok`, `warn` or `bad`; what; details)."""

        @property
        def refusals_dropped(self) -> int:
            """How many refusals of this process will never be in the log."""

        def tend(self) -> list[str]:
            """For a process that lives long, now and then: keep the log short; who is in the way of that."""

        def close(self) -> None:
            """Give everything back."""


def follow(engine: Engine, after: int, timeout: float, filters: dict[str, Any]) -> tuple[list[Event], int]:
    """`Engine.follow` for an engine that is here: look, and sleep until there is something to look at."""
    from time import monotonic

    from ..operations import find

    last, read, end = find("events.last"), find("events.read"), monotonic() + timeout
    while True:
        newest = engine.run(last, {})
        found = engine.run(read, {**filters, "after": after, "limit": MAX_LIMIT})
        if found:
            return found, found[-1].number
        after = max(after, newest)  # nothing before that matched, and nothing will
        left = end - monotonic()
        if left <= 0:
            return [], after
        engine.wait(after, left)
