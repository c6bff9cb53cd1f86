"""What a selected row means: the thing that the keys act on, and that the peek shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..held_files import called
from ..model import holder_id
from ..names import QUESTION, short
from .snapshot import Selected, agent_key, full_id, hold_key, need_key

if TYPE_CHECKING:
    from ..model import Need
    from .snapshot import Snapshot


class Target(NamedTuple):
    """What an action is about: a thing, and whom and which task it concerns."""

    kind: str
    """`agent`, `task`, `question`, `hold`, `queue` or `message`."""
    title: str
    agent: str | None = None
    """The name of an agent; a message goes to the name."""
    number: int = 0
    """The number of a task."""
    resource: str | None = None
    message: int = 0
    state: str = ""
    """The state of the task, where it is known."""
    who: str | None = None
    """The full id of the agent, where it is known: two sessions may have one name."""
    row: Selected | None = None
    """The row that it was selected by."""

    @property
    def ref(self) -> str:
        """The task, as operations take it."""
        return f"#{self.number}"

    @property
    def identity(self) -> tuple[str, Selected | None]:
        """The same for as long as it is the same thing, whatever becomes of it."""
        return self.kind, self.row


def is_same(one: Target | None, other: Target | None) -> bool:
    """Whether two targets are one thing, although it may have changed meanwhile."""
    return (one and one.identity) == (other and other.identity)


def target(taken: Snapshot, selected: Selected | None) -> Target | None:
    """What a selected row means; None if it is not there any more."""
    if selected is None:
        return None
    found = _MAKERS[selected.kind](taken, selected)
    return found._replace(row=selected) if found else None


def _of_need(taken: Snapshot, selected: Selected) -> Target | None:
    for need in taken.needs:
        if need_key(need) == selected:
            return _needed(taken, need)
    return None


def _needed(taken: Snapshot, need: Need) -> Target:
    who = full_id(need)
    agent = short(who) if who else None
    if need.kind == "question":
        return Target("question", f"#{need.number} {need.name}", agent, need.number, state="pending", who=who)
    if need.kind in ("failed", "stalled"):
        state = "failed" if need.kind == "failed" else "claimed"
        return Target("task", f"#{need.number} {need.name}", agent, need.number, state=state, who=who)
    if need.kind == "dead":
        resource = None if need.number else need.ref
        return Target("agent", need.name, agent, need.number, resource, state="claimed", who=who)
    if need.kind == "deadlock":
        return Target("hold", called(need.ref), agent, resource=need.ref, who=who)
    name = who or need.ref
    return _of_agent(taken, Selected("agent", name)) or Target("agent", short(name), short(name), who=name)


def _of_agent(taken: Snapshot, selected: Selected) -> Target | None:
    for each in taken.agents:
        if agent_key(each) == selected:
            name, tasks = short(selected.ref), each.tasks or []
            number = int(tasks[0]["number"]) if len(tasks) == 1 else 0
            return Target("agent", name, name, number, state="claimed" if number else "", who=selected.ref)
    return None


def _of_wait(taken: Snapshot, selected: Selected) -> Target | None:
    for wait in taken.waits:
        if str(wait.number) == selected.ref:
            who = full_id(wait) or ""
            return _of_agent(taken, Selected("agent", who)) or Target("agent", short(who), short(who), who=who)
    return None


def _of_task(taken: Snapshot, selected: Selected) -> Target | None:
    for found in taken.tasks.values():
        for task in found:
            if str(task.number) == selected.ref:
                kind = "question" if task.kind == QUESTION and task.state == "pending" else "task"
                title, who = f"#{task.number} {task.name}", holder_id(task)
                return Target(kind, title, task.holder, task.number, state=task.state, who=who)
    return None


def _of_hold(taken: Snapshot, selected: Selected) -> Target | None:
    for hold in taken.holds:
        if hold_key(hold) == selected:
            return Target("hold", called(hold.resource), hold.holder, resource=hold.resource, who=holder_id(hold))
    return None


def _of_message(taken: Snapshot, selected: Selected) -> Target | None:
    for each in taken.messages:
        if str(each.number) == selected.ref:
            return Target("message", f"message {each.number}", short(each.sender), message=each.number)
    return None


def _of_queue(taken: Snapshot, selected: Selected) -> Target | None:
    return Target("queue", f"queue {selected.ref}")


_MAKERS = {
    "need": _of_need,
    "agent": _of_agent,
    "wait": _of_wait,
    "task": _of_task,
    "hold": _of_hold,
    "message": _of_message,
    "queue": _of_queue,
}
