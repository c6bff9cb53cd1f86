"""The protocol of an engine: what the rest of the program may ask of a database, or of a daemon, that runs operations.

`SqliteEngine`, `PostgresEngine` and `RemoteEngine` implement it. `Board` uses nothing else.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from ..model import Event
    from ..operations import Call, Operation

    class Engine(Protocol):
        """Runs operations on one board."""

        address: str
        """The address of the board without its password, for messages."""

        @property
        def full_address(self) -> str:
            """The complete address, with its password: for commands that are started for this board."""

        @property
        def path(self) -> str | None:
            """The path of the board's file; None for a board that is not a file on this machine."""

        deferred_work: set[str]
        """The projects in which committed transactions have deferred work (see `operations.deferred_work`).

        The caller that continues a project's work removes the project from the set.
        """

        shared: bool
        """Whether other machines use the board through this engine: then a path of this machine names no project."""

        writers: int
        """How many write transactions are worth running at the same time."""

        def run(self, operation: Operation[..., Any], params: dict[str, Any], once: str | None = None) -> Any:
            """Run one operation in a transaction of its own."""

        def batch(self, calls: Sequence[Call]) -> list[Any]:
            """Run several calls together, in one transaction where possible.

            Each answer is a result, or the error that undid that one call alone.
            """

        def batch_at_once(self, calls: Sequence[Call]) -> list[Any] | None:
            """Like `batch`, for callers that must not block; None, and nothing done, if it would have to wait."""

        def let_others_pass(self) -> None:
            """Between two steps of a long work: return when the writers that wait now have had their turn.

            An engine whose writers do not wait for each other has nothing to do.
            """

        def wait(self, after: int, timeout: float, **filters: Any) -> bool:
            """Sleep until there is an event after this number; False when the time is up.

            An engine may use the filters of `events.read` to avoid useless wake-ups. Callers must not rely on it.
            """

        @property
        def follow(self) -> Callable[[int, float, dict[str, Any]], tuple[list[Event], int]] | None:
            """Wait for the events after a number that match (see `events.read`), and read them, all in one request.

            It is called with the number, the longest wait in seconds and the filters. It returns the events, none when
            the time is up, and the number after which to continue. None for an engine in this process: there the caller
            reads, and calls `wait` between two reads.
            """

        def backup(self, target: str, progress: Callable[[int, int], None] | None = None) -> None:
            """Copy the board to a new file, while others use it."""

        def probe(self) -> None:
            """Check in a fraction of a second whether the database works; raises `Unavailable` if it does not."""

        def diagnose(self, *, repair: bool = False) -> list[tuple[str, str, str]]:
            """The findings of `tb doctor` about the database: (`ok`, `warn` or `bad`; what; details)."""

        @property
        def refusals_dropped(self) -> int:
            """How many refusals of this process will never be in the log."""

        def shorten_log(self) -> list[str]:
            """Shorten the database's log if it is large; returns the processes that prevent it.

            Long-lived processes call this from time to time.
            """

        def close(self) -> None:
            """Close all connections and files."""
