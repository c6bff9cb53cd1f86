"""Proof that an agent is dead: its process has ended, according to the kernel of the machine that looks.

An agent's row says where its process is (host, boot, pid, start time). `Transaction.is_alive` compares all four and
answers None whenever this machine cannot know. Nothing here relies on silence: an agent that is paused, or whose
machine is out of reach, is not dead.

An agent of a spawned session has two processes, its supervisor and its command, and is dead only if both have ended.

What an agent holds is given back at once only if its process is the agent itself (`agents.bound`): a client, a spawned
session, `tb run`. The shell of a person is not: it may end while a script that it started goes on. A refused caller
ends just the grant in its way, by the holder and the epoch that it has seen; so a grant that was renewed, released or
won by somebody else meanwhile is not touched. This happens only after a refusal and costs nothing when a caller wins.

Two things are left alone. Jobs: the processes of a dead worker may still run, and other workers end those before they
return the jobs. The coordinator's seat: sessions have rules of their own. An agent of an earlier boot is dead only if
this machine has written that boot down itself (see `boot_history`): another machine may have the same name.
"""

from __future__ import annotations

from ..boot_history import is_of_earlier_boot
from ..clock import since_boot
from ..errors import Invalid, Refused
from ..model import Hold, Task, holder_id, record
from ..names import JOB, short
from ..process_identity import Identity, alive, on_this_machine
from . import SPAWNED, changeable, is_dead, operation
from .agents import LEFT, bound_agents
from .events import append
from .expiry import forfeit_one
from .grants import giving_back
from .references import STORED
from .resources import COLUMNS, THIS, hold_event
from .session_fence import SEAT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Agent
    from ..names import AgentId, Epoch, Name, Number, Project, Resource
    from . import Transaction

_END_HOLD = giving_back("holds", THIS, COLUMNS, fence="holder = :holder AND epoch = :epoch")


def proof_of_death(tx: Transaction, agent: str, project: str) -> str:
    """How it is known that an incarnation of an agent is dead, in words; "" if that is not known."""
    processes = _processes(tx, agent, project)
    if not processes or not all(is_dead(tx, process) for process in processes):
        return ""
    return ended(processes[0])


def known_to_be_gone(tx: Transaction, agent: str, project: str, since: int | None) -> str:
    """Why an agent will hardly end its own grant, for the advice to a refused caller; "" if it may be at work.

    It is dead by proof, or it has left after the event `since`, which recorded the grant. Nothing is given back because
    of this: the process of an agent that is not bound may have been a passing shell.
    """
    if proof := proof_of_death(tx, agent, project):
        return proof
    row = tx.first(
        "SELECT 1 FROM agents WHERE project = :project AND id = :agent AND left_at >= seen_at "
        "AND left_at > coalesce((SELECT at FROM {log} WHERE number = :since), 0)",
        project=project,
        agent=agent,
        since=since or 0,
    )
    return "" if row is None else "it has left"


def bound_and_dead(tx: Transaction, agent: str, project: str) -> str:
    """How it is known that an agent is dead whose process is the agent itself; "" for any other agent."""
    row = tx.first(
        "SELECT boot, seen_at FROM agents WHERE project = :project AND id = :agent AND bound = 1 AND pid > 0",
        project=project,
        agent=agent,
    )
    if row is None:
        return ""
    boot, seen_at = row
    if tx.is_this_boot(boot or ""):
        return proof_of_death(tx, agent, project)
    return "" if _seen_since_boot(tx, seen_at) else _ended_by_reboot(tx, _processes(tx, agent, project))


def _ended_by_reboot(tx: Transaction, processes: list[Identity]) -> str:
    """How it is known that processes ended because this machine booted since; "" if that is not known."""
    if not processes or not all(tx.is_of_earlier_boot(process) for process in processes):
        return ""
    return f"its process {processes[0].pid} ended when {processes[0].host} booted again"


def _seen_since_boot(tx: Transaction, seen_at: int) -> bool:
    """Whether an agent was seen since the machine that looks has booted: then it is not of an earlier boot of it."""
    return seen_at >= tx.now - since_boot()


def end_hold_of_dead(tx: Transaction, hold: Hold) -> bool:
    """End a hold if its holder is known to be dead; False if not, or if the hold has changed since it was read."""
    holder = holder_id(hold)
    why = "" if not holder or hold.resource == SEAT else bound_and_dead(tx, holder, hold.project)
    return bool(why) and _end_hold(tx, hold, why)


def _end_hold(tx: Transaction, hold: Hold, why: str) -> bool:
    row = tx.first(
        _END_HOLD,
        project=hold.project,
        resource=hold.resource,
        slot=hold.slot,
        holder=holder_id(hold),
        epoch=hold.epoch,
    )
    if row is not None:
        hold_event(tx, "hold.expired", record(Hold, row), agent=holder_id(hold) or "", note=why)
    return row is not None


def claimed_by_dead(tx: Transaction, task: Task) -> str:
    """How it is known that the holder of a claim is dead; "" if it is not, and for jobs."""
    holder = holder_id(task)
    if not holder or task.state != "claimed" or task.kind == JOB:
        return ""
    return bound_and_dead(tx, holder, task.project)


def end_claims_of_dead(tx: Transaction, project: str) -> int:
    """End the claims of agents that are known to be dead, for a caller that found none ready; how many there were."""
    rows = tx.all("SELECT id FROM agents WHERE project = :project AND bound = 1 ORDER BY id", project=project)
    dead = [(agent, why) for (agent,) in rows if (why := bound_and_dead(tx, agent, project))]
    return sum(_end_claims(tx, agent, project, why) for agent, why in dead)


def _end_claims(tx: Transaction, agent: str, project: str, why: str) -> int:
    rows = tx.all(
        f"SELECT {STORED} FROM tasks WHERE project = :project AND state = 'claimed' AND holder = :agent "
        f"AND kind <> :job{changeable(tx)} ORDER BY number",
        project=project,
        agent=agent,
        job=JOB,
    )
    return sum(forfeit_one(tx, record(Task, row), why) for row in rows)


def end_holds(tx: Transaction, holder: str, project: str, why: str) -> None:
    """End all holds of a dead agent except the coordinator's seat."""
    rows = tx.all(
        f"SELECT {COLUMNS} FROM holds WHERE project = :project AND holder = :holder AND resource <> :seat "
        "ORDER BY resource, slot",
        project=project,
        holder=holder,
        seat=SEAT,
    )
    for held in rows:
        _end_hold(tx, record(Hold, held), why)


@operation("holds.forfeit", writes=True, strangers=True)
def forfeit_holds(
    tx: Transaction,
    *,
    resources: list[Resource],
    epochs: list[Epoch],
    host: Name,
    boot: Name,
    pid: Number,
    started: Number,
    slots: list[Number] = [],  # noqa: B006  (never changed)
    agent: AgentId = "",
    project: Project = "",
) -> int:
    """End these holds of the calling agent because the process that used them has ended; how many there were.

    It is for a process such as `tb run`, which holds something under the name of its agent: no other hold of that agent
    ends. A hold whose epoch is another one is left alone. If the process ran on this machine, its end is checked.
    """
    if len(epochs) != len(resources) or len(slots) not in (0, len(resources)):
        raise Invalid("epochs and slots: give one for each resource")
    process = Identity(host, boot, pid, started)
    if tx.is_alive(process) or (tx.is_this_boot(boot) and not is_dead(tx, process)):
        raise _may_live(agent, process)
    held = sorted(zip(resources, slots or [0] * len(resources), epochs, strict=True))
    return sum(
        _end_hold(tx, record(Hold, (project, resource, slot, agent, epoch, 0, 0, None, None)), ended(process))
        for resource, slot, epoch in held
    )


@operation("agents.report_dead", writes=True, strangers=False)
def report_dead(
    tx: Transaction,
    *,
    holder: AgentId,
    host: Name,
    boot: Name,
    pid: Number,
    started: Number,
    agent: AgentId = "",
    project: Project = "",
) -> bool:
    """End the claims and holds of an agent whose process, which is the agent itself, has ended; whether that was so.

    The caller has seen on the machine of that process that it has ended. If this is that machine, it is checked once
    more. Nothing happens if the agent is bound to another process by now.
    """
    process = Identity(host, boot, pid, started)
    others = [each for each in _processes(tx, holder, project) if each != process]
    if tx.is_alive(process) or (tx.is_this_boot(boot) and not is_dead(tx, process)) or others:
        raise _may_live(holder, process)
    by_reboot = _ended_by_reboot(tx, [process])
    if by_reboot and not bound_and_dead(tx, holder, project):  # it was seen since
        raise _may_live(holder, process)
    why = by_reboot or ended(process)
    append(tx, "agent.left", project, name=short(holder), agent=holder, note=why)
    _end_claims(tx, holder, project, why)
    end_holds(tx, holder, project, why)
    row = tx.first(
        f"UPDATE agents SET bound = 0, {LEFT} WHERE project = :project AND id = :holder AND bound = 1 AND host = :host "
        "AND boot = :boot AND pid = :pid AND started = :started RETURNING id",
        project=project,
        holder=holder,
        host=host,
        boot=boot,
        pid=pid,
        started=started,
    )
    if row is None:  # everything above is undone
        raise _may_live(holder, process)
    return True


@operation("agents.bound", writes=False, strangers=True)
def bound(tx: Transaction, *, project: Project | None = "") -> list[Agent]:
    """List the agents whose process is the agent itself, for a caller that looks whether one of them has ended."""
    return bound_agents(tx, project)


def _may_live(holder: str, process: Identity) -> Refused:
    return Refused(f"{short(holder)} is not known to be dead by the end of process {process.pid} on {process.host}")


def reports(agents: list[Agent]) -> list[dict[str, object]]:
    """The parameters of `agents.report_dead` for those bound agents whose process has ended on this machine.

    The supervisors of spawned sessions report the end of their sessions themselves.
    """
    return [
        {
            "holder": each.id,
            "project": each.project,
            "host": each.host,
            "boot": each.boot,
            "pid": each.pid,
            "started": each.started,
        }
        for each in agents
        if SPAWNED not in each.id and _has_ended(Identity(each.host or "", each.boot or "", each.pid, each.started))
    ]


def _has_ended(process: Identity) -> bool:
    """Whether a process ran on this machine and has ended, by proof."""
    if process.boot == on_this_machine(0, 0).boot:
        return alive(process) is False
    return is_of_earlier_boot(process)


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
