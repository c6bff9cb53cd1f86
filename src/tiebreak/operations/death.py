"""Proof that an agent is dead: its process has ended, according to the kernel of the machine that looks.

An agent's row says where its process is (host, boot, pid, start time). `Transaction.is_alive` compares all four and
answers None whenever this machine cannot know. Nothing here relies on silence: an agent that is paused, or whose
machine is out of reach, is not dead.

An agent of a spawned session has two processes, its supervisor and its command, and is dead only if both have ended.
"""

from __future__ import annotations

from ..process_identity import Identity
from . import SPAWNED, is_dead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Transaction


def proof_of_death(tx: Transaction, agent: str, project: str) -> str:
    """How it is known that an incarnation of an agent is dead, in words; "" if that is not known."""
    processes = _processes(tx, agent, project)
    if not processes or not all(is_dead(tx, process) for process in processes):
        return ""
    return ended(processes[0])


def ended(process: Identity) -> str:
    """The end of a process, in words."""
    return f"its process {process.pid} on {process.host} has ended"


def _processes(tx: Transaction, agent: str, project: str) -> list[Identity]:
    """The processes that an agent may live in, as far as the board knows."""
    found = []
    if SPAWNED in agent:
        row = tx.first(
            "SELECT host, boot, pid, started, child, child_started FROM sessions WHERE session = :session",
            session=agent.partition("~")[2],
        )
        if row is None or not row[4]:
            return []
        found = [Identity(*row[:4]), Identity(*row[:2], *row[4:])]
    row = tx.first(
        "SELECT host, boot, pid, started FROM agents WHERE project = :project AND id = :agent AND pid > 0",
        project=project,
        agent=agent,
    )
    if row is not None:
        return [*found, Identity(row[0] or "", row[1] or "", row[2], row[3])]
    named = tx.process_of(agent.partition("~")[2])  # the agent never announced its process
    return found if named is None else [*found, named]
