"""What the transactions of both engines have in common."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process_identity import Identity

PROJECT_ROW = "SELECT name, project, rule FROM projects WHERE name = :name"
PROJECT_ROWS = "SELECT name, project, rule FROM projects WHERE name IN (:a, :b, :c, :d)"


class LocalTransaction:
    """A transaction that runs in this process, so it can look at the other processes of this machine."""

    __slots__ = ()

    changeable = claimable = ""
    """No further condition: only for strangers there is one (see `operations.strangers`)."""

    def project_rows(self, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
        """What table `projects` says about these names: name, name of the rows, rule."""
        if len(names) == 1:
            return self.all(PROJECT_ROW, name=names[0])
        a, b, c, d = (*names, *[names[0]] * 3)[:4]
        return self.all(PROJECT_ROWS, a=a, b=b, c=c, d=d)

    def all(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        raise NotImplementedError

    @staticmethod
    def process_of(session: str) -> Identity | None:
        """The process of this machine that a session's token names; None for any other token."""
        from ..process_identity import from_token

        return from_token(session)

    @staticmethod
    def is_this_boot(boot: str) -> bool:
        """Whether an agent's `boot` is the present boot and pid namespace of this machine."""
        from ..process_identity import on_this_machine

        return on_this_machine(0, 0).boot == boot

    @staticmethod
    def is_of_earlier_boot(process: Identity) -> bool:
        """Whether a process certainly ran on this machine before it booted last."""
        from ..boot_history import is_of_earlier_boot

        return is_of_earlier_boot(process)

    @staticmethod
    def is_alive(process: Identity) -> bool | None:
        """Whether exactly this process is running; None if this machine cannot know."""
        from ..process_identity import alive

        return alive(process)
