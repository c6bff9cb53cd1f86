"""Renewal: a thread that keeps a grant alive while somebody works under it."""

from __future__ import annotations

import threading

from .errors import Fenced, Refused, TiebreakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .board import Grant


class Renewer:
    """Renews a grant every third of its lease, until it is stopped or the grant is lost."""

    def __init__(self, grant: Grant) -> None:
        self._grant = grant
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"renew {grant!r}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Renew no more; a renewal under way is waited for, so that none comes after the end."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        pause = self._grant.lease / 3
        while not self._stop.wait(pause):
            pause = self._grant.lease / 3
            try:
                self._grant.renew()
            except Refused as exc:
                return self._lose(exc)
            except TiebreakError as exc:
                # The board cannot be reached: try again soon, as long as the lease may still be ours.
                pause = min(1.0, self._grant.lease / 10)
                if self._grant.left() <= 0:
                    return self._lose(Fenced(f"{self._grant!r}: the lease ran out unrenewed ({exc})"))

    def _lose(self, why: TiebreakError) -> None:
        self._grant.loss = why
        if self._grant.on_loss is not None:
            self._grant.on_loss()
