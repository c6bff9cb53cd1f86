"""What the operator of a worker can choose."""

from __future__ import annotations

from ..limits import DRAIN, JOB_LEASE


class WorkerOptions:
    """The options of a worker (see `tb work --help`)."""

    def __init__(
        self,
        *,
        queues: list[str] | None = None,
        tags: list[str] | None = None,
        modules: list[str] | None = None,
        concurrency: int = 1,
        lease: float = JOB_LEASE,
        drain: float = DRAIN,
        burst: bool = False,
        once: bool = False,
        module_called: str = "module",
    ) -> None:
        self.queues = queues or None
        self.tags = tags or None
        self.modules = modules or []
        self.concurrency = concurrency
        self.lease = lease
        self.drain = drain
        self.burst = burst or once
        self.once = once
        self.module_called = module_called
        """What the operator calls a module, for refusals: `--import`."""
