"""Assembles a complete daemon: the routes of `compat`, workers, and its care for dead workers and queued handoffs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..compat import a2a, coord, workron  # noqa: F401  (each declares its routes)
from ..daemon.server import Daemon
from .dead_workers import DeadWorkers
from .handoff_drain import HandoffDrain
from .machine_sessions import VIEW
from .worker_processes import WorkerProcesses, worker_command

if TYPE_CHECKING:
    from ..daemon.server import Settings
    from ..engine.protocol import Engine


def assemble_daemon(engine: Engine, settings: Settings, *, workers: int = 0, project: str = "default") -> Daemon:
    """A daemon that is ready to `serve`, with workers for the jobs of one project."""
    processes = WorkerProcesses(workers, lambda addresses: worker_command(addresses[0], project))
    return Daemon(engine, settings, [processes, HandoffDrain(), DeadWorkers()], VIEW)
