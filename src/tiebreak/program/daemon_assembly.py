"""Assembles a complete daemon: the routes of `compat`, workers, its care for dead workers and handoffs, a vault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..compat import a2a, coord, workron  # noqa: F401  (each declares its routes)
from ..daemon.server import Daemon
from .dead_workers import DeadWorkers
from .handoff_drain import HandoffDrain
from .machine_sessions import VIEW
from .vault_process import VaultProcess
from .worker_processes import WorkerProcesses, worker_command

if TYPE_CHECKING:
    from ..daemon.server import Companion, Settings
    from ..engine.protocol import Engine


def assemble_daemon(
    engine: Engine, settings: Settings, *, workers: int = 0, project: str = "default", vault: str | None = None
) -> Daemon:
    """A daemon that is ready to `serve`, with workers for the jobs of one project, and with a vault in that folder."""
    processes = WorkerProcesses(workers, lambda addresses: worker_command(addresses[0], project))
    companions: list[Companion] = [processes, HandoffDrain(), DeadWorkers()]
    if vault is not None:
        companions.append(VaultProcess(vault))
    return Daemon(engine, settings, companions, VIEW)
