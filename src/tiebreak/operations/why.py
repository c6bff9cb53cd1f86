"""Histories: the answers of `events.why`, made from the events of a task or a resource, in plain sentences.

This module only reads: the log and the present state.
"""

from __future__ import annotations

from ..errors import NotFound
from ..globs import matches
from ..held_files import called, conflict, is_file, path_of
from ..model import Event, Sentence, columns, record, row_of
from ..names import RESOURCE_TYPES, resource, short, shown
from ..text import ago, span
from .holds import listing as live_holds
from .references import called as task_called
from .references import find, is_question
from .wait_queue import WaitQueue, has_waiters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Task
    from . import Transaction

_EVENTS = columns(Event)
_NAMED = 3

# {who} is the agent that acted, {what} the subject, {lease} how long the grant lasts, {note} the event's note.
_SENTENCES = {
    "task.posted": "{who} posted {what}{note}.",
    "task.claimed": "{who} claimed it for {lease} (epoch {epoch}).",
    "task.refused": "{who} was refused{times}{note}.",
    "task.fenced": "{who} {late} and was refused{times}.",
    "task.extended": "{who} renewed the claim for {lease} (epoch {epoch}).",
    "task.expired": "The lease of {who} ran out (epoch {epoch}){note}.",
    "task.completed": "{who} completed it (epoch {epoch}).",
    "task.failed": "{who} failed, and it is over{note}.",
    "task.retrying": "{who} failed at epoch {epoch}; it will be tried again{note}.",
    "task.released": "{who} gave it back (epoch {epoch}){note}.",
    "task.broken": "{who} broke the claim (epoch {epoch}){note}.",
    "task.cancelled": "{who} cancelled it{note}.",
    "task.reopened": "{who} reopened it{note}.",
    "task.restored": "{who} restored a backup{note}. The next epoch is above {epoch}.",
    "task.edited": "{who} changed its {note}.",
    "message.sent": "{who} commented: {what}.",
    "task.ready": "It became ready: all that it comes after is done.",
    "task.linked": "{who} put it {note}.",
    "task.progress": "{who} is at {note}.",
    "job.orphaned": "{who} reported epoch {epoch} too late; it was not applied and is only kept in the log{note}.",
    "hold.taken": "{who} took {what} for {lease} (epoch {epoch}){note}.",
    "hold.refused": "{who} was refused {what}{times}{note}.",
    "hold.fenced": "{who} {late} and was refused{times}.",
    "hold.renewed": "{who} renewed {what} for {lease} (epoch {epoch}).",
    "hold.expired": "The hold of {who} on {what} ran out (epoch {epoch}){note}.",
    "hold.released": "{who} released {what} (epoch {epoch}){note}.",
    "hold.transferred": "{what} passed to {who} for {lease} (epoch {epoch}){note}.",
    "hold.queued": "{who} began to wait for {what}{note}.",
    "hold.unqueued": "{who} stopped waiting for {what}.",
    "hold.deadlocked": "{who} was told that its wait for {what} could never end{note}.",
    "hold.restored": "{who} restored a backup{note}. The next epoch of {what} is above {epoch}.",
    "hold.broken": "{who} broke the hold on {what} (epoch {epoch}){note}.",
}


def story(tx: Transaction, ref: str, project: str, limit: int) -> list[Sentence]:
    """The newest `limit` sentences about a task or a resource, oldest first, and its present state."""
    if ref.partition(":")[0] in RESOURCE_TYPES and ":" in ref:
        sentences = _of_resource(tx, resource(ref, "ref"), project, limit)
        if not sentences:
            raise NotFound(f"nothing ever happened to {ref} in project {project}")
        return sentences
    try:
        task = find(tx, ref, project)
    except NotFound:
        sentences = _of_resource(tx, resource("file:" + ref, "ref"), project, limit)
        if not sentences:
            raise NotFound(f"no task and nothing held called {shown(ref)} in project {project}") from None
        return sentences
    sentences = _sentences(_events(tx, [task.id], task.project, limit), limit)
    now = f"Now: {task.state}"
    if task.state == "claimed":
        left = (task.until or 0) - tx.now / 1e6
        lease = f"whose lease ran out {span(-left)} ago" if task.lapsed else f"for another {span(left)}"
        now += f" by {task.holder}, {lease} (epoch {task.epoch})"
    elif is_question(task) and not task.finished_at:
        now = "Now: waits for the answer of a person"
    elif task.state == "blocked":
        now += f" by {_blockers(tx, task)}"
    elif task.finished_at:
        now += f" since {ago(tx.now / 1e6 - task.finished_at)}"
    sentences.append(record(Sentence, (0, tx.now, now + ".")))
    if task.state == "claimed" and not task.lapsed:
        sentences += _gone(tx, row_of(task)[task.fields.index("holder")], task.project)
    return sentences


def _gone(tx: Transaction, holder: str, project: str) -> list[Sentence]:
    """A sentence about a holder that will not come back, if that is known."""
    from .agents import listing

    known = [each for each in listing(tx, project=project, agent=holder) if each.id == holder]
    if not known or known[0].status != "gone":
        return []
    text = f"Now: {short(holder)} is gone. Until the lease runs out, only breaking it makes it free."
    return [record(Sentence, (0, tx.now, text))]


def _blockers(tx: Transaction, task: Task) -> str:
    """The first tasks that a blocked task waits for."""
    from .dependencies import unfinished

    numbers = unfinished(tx, task.number)
    first = [find(tx, f"#{number}", task.project) for number in numbers[:_NAMED]]
    names = ", ".join(f"{task_called(each)} ({'a question' if is_question(each) else each.state})" for each in first)
    return names + (f" and {len(numbers) - len(first)} more" if len(numbers) > len(first) else "")


def _of_resource(tx: Transaction, wanted: str, project: str, limit: int) -> list[Sentence]:
    """The history of a resource. For a file it includes globs that match it, and refusals because of other globs."""
    rows = tx.all("SELECT DISTINCT resource FROM holds WHERE project = :project", project=project)
    near = [name for (name,) in rows if name != wanted and conflict(name, wanted)]
    above = [name for name in near if matches(path_of(name), path_of(wanted))] if is_file(wanted) else []
    events = [e for e in _events(tx, [wanted, *above], project, limit) if _concerns(e, wanted)]
    others = [name for name in near if name not in above]
    events += [e for e in _events(tx, others, project, limit) if e.event == "hold.refused" and e.name == wanted]
    if not events:
        return []
    sentences = _sentences(events, limit)
    live = live_holds(tx, project=project, matching=wanted)
    for hold in live:
        left = span((hold.until or 0) - tx.now / 1e6)
        text = f"Now: {hold.resource} is held by {hold.holder} for another {left} (epoch {hold.epoch})."
        sentences.append(record(Sentence, (0, tx.now, text)))
        sentences += _gone(tx, row_of(hold)[hold.fields.index("holder")], project)
    if not live:
        sentences.append(record(Sentence, (0, tx.now, "Now: free.")))
    return sentences + _waiters(tx, wanted, project)


def _waiters(tx: Transaction, wanted: str, project: str) -> list[Sentence]:
    """The agents that wait for a resource now, in order of arrival."""
    if not has_waiters(tx, project):
        return []
    waiters = [waiter for waiter in WaitQueue(tx, project).waiters if waiter.wants(wanted)]
    return [
        record(Sentence, (0, tx.now, f"Now: {short(w.agent)} waits since {ago((tx.now - w.since) / 1e6)}."))
        for w in waiters
    ]


def _concerns(event: Event, wanted: str) -> bool:
    """Whether an event is about this resource. A refusal has the blocking hold as its subject, so its name decides."""
    return event.event != "hold.refused" or conflict(event.name or "", wanted)


def _events(tx: Transaction, subjects: list[str], project: str, limit: int) -> list[Event]:
    found: list[Event] = []
    for subject in subjects:
        rows = tx.all(
            f"SELECT {_EVENTS} FROM {{log}} WHERE subject = :subject AND project = :project "
            "ORDER BY number DESC LIMIT :limit",
            subject=subject,
            project=project,
            limit=limit,
        )
        found += [record(Event, row) for row in [*rows, *tx.refusals(subject)]]
    return found


def _sentences(events: list[Event], limit: int) -> list[Sentence]:
    # By time, not by number: a refusal is older than the change that it was written with.
    events.sort(key=lambda e: (e.at, e.number == 0, e.number))
    return [_sentence(event) for event in events[-limit:]]


def _slot(event: Event) -> str:
    return f" slot {event.data['slot']}" if event.kind == "pool" and event.data else ""


def _sentence(event: Event) -> Sentence:
    form = _SENTENCES.get(event.event, event.event + " by {who}{note}.")
    if event.event == "task.completed" and event.note:  # only an answer has a note
        form = "{who} answered{note}."
    note = event.note or ""
    text = form.format(
        who=event.agent or "The board",
        what=called(event.name or "") + _slot(event),
        epoch=event.epoch,
        lease=span((event.until or event.at) - event.at),
        times=f" {event.times} times" if event.times > 1 else "",
        late=f"came too late with a write of epoch {event.epoch}"
        if event.epoch
        else "tried to write without holding it",
        note=note if event.event in ("task.linked", "task.progress", "task.edited") else f": {note}" if note else "",
    )
    return record(Sentence, (*row_of(event)[:2], text))
