"""The rows of each view: what a snapshot has, in words, section by section.

Every row has four cells: who or which, since when, what, and what to know or do next. All texts are made safe here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..held_files import called
from ..limits import SHOWN
from ..names import short
from ..need_words import SECTIONS, TITLES, next_step, number_of, sentence
from ..text import ago, plain
from .snapshot import ROWS, Selected, agent_key, hold_key, need_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..model import Activity, Hold, Message, Need, Queue, Task, Wait
    from .snapshot import Snapshot

NEEDS_YOU = "Needs you"
TABS = {"agents": "Agents", "tasks": "Tasks", "holds": "Holds", "jobs": "Jobs", "messages": "Messages"}
"""What the views are called."""
STATES = {"claimed": "warn", "failed": "bad", "completed": "good", "cancelled": "dim", "blocked": "dim"}
_DIM = {"idle": "dim"}
URGENT = {"permission", "question", "deadlock"}
"""The needs for which somebody stands still."""


class Cell(NamedTuple):
    """A text that is safe to show, and the name of its style (see `text.style`)."""

    text: str
    style: str = ""


class ViewRow(NamedTuple):
    """One thing that can be selected."""

    selected: Selected
    who: Cell
    age: str
    what: Cell
    right: Cell
    also: str = ""
    """What a filter finds although the row does not show it."""

    def has(self, words: str) -> bool:
        """Whether a filter finds it: each of its words somewhere in the row."""
        text = f"{self.who.text} {self.what.text} {self.right.text} {self.also}".lower()
        return all(word in text for word in words.lower().split())


class Section(NamedTuple):
    """A heading and its rows."""

    title: str
    rows: list[ViewRow]
    empty: str = ""
    """What to say if there are none; without it the section is left out then."""
    number: str = ""
    """How many there are, if that is not the number of rows."""


def sections(taken: Snapshot, words: str = "") -> list[Section]:
    """The sections of the snapshot's view, with only the rows that a filter finds."""
    found = list(_VIEWS[taken.view](taken))
    if words:
        found = [Section(each.title, [row for row in each.rows if row.has(words)]) for each in found]
        if not any(each.rows for each in found):
            return [Section(TABS[taken.view], [], "nothing matches the filter")]
    return [each for each in found if each.rows or each.empty]


def title(section: Section) -> str:
    """A heading, with how many there are."""
    number = section.number or f"{len(section.rows)}{'+' if len(section.rows) >= ROWS else ''}"
    return f"{section.title}  {number if section.rows else section.empty}"


# ── Agents ───────────────────────────────────────────────────────────────────────────────────────────────────


def _agents(taken: Snapshot) -> Iterator[Section]:
    now = taken.now
    needs = [need_row(each, now) for each in taken.needs]
    yield Section(NEEDS_YOU, needs, "nothing", number_of(taken.needs, SHOWN))
    for key, name in SECTIONS.items():
        rows = [agent_row(each, now, taken.later) for each in taken.agents if each.section == key]
        yield Section(name, rows, "" if taken.agents else "nobody")
    if not taken.agents and not taken.needs:
        yield Section("New here?", [], "d posts a task, : runs any tb command, and `tb init` lets agents in")


def need_row(need: Need, now: float) -> ViewRow:
    """Something that needs a person, with the command that deals with it."""
    style = "bad" if need.kind in URGENT else "warn"
    return ViewRow(
        need_key(need),
        Cell(TITLES[need.kind], style),
        ago(now - need.since_at),
        Cell(plain(sentence(need))),
        Cell(plain(next_step(need)), "accent"),
    )


def agent_row(each: Activity, now: float, later: float = 0.0) -> ViewRow:
    """An agent and what it does, or whom it waits for; its leases were read `later` seconds ago."""
    return ViewRow(
        agent_key(each),
        Cell(plain(short(each.agent)), "bold" if each.section == "working" else ""),
        ago(now - each.since_at),
        Cell(plain(waits_text(each) if each.section == "waiting" else work_text(each)), _DIM.get(each.section, "")),
        _lease(each, now, later),
    )


def waits_text(each: Activity) -> str:
    """Whom an agent waits for, and for what."""
    said = []
    for wait in each.waits_for or []:
        if "question" in wait:
            said.append(f"for you: #{wait['question']} {wait['name']}")
        elif "prompt" in wait:
            said.append(f"for you: {wait['prompt']}")
        else:
            who = short(str(wait.get("agent") or "-"))
            ahead = " (ahead in line)" if wait.get("how") == "ahead" else ""
            said.append(f"for {who}: {called(str(wait.get('resource') or ''))}{ahead}")
    return "; ".join(dict.fromkeys(said)) or work_text(each)


def work_text(each: Activity) -> str:
    """What an agent works on: its tasks, what it says, what it holds."""
    said = [f"#{task['number']} {task['name']}" for task in each.tasks or []]
    if len(said) > 2:
        said[1:] = [f"and {len(said) - 1} more tasks"]
    if each.doing:
        said.append(each.doing)
    held = [called(hold["resource"]) for hold in each.holds or []]
    if held:
        said.append(f"holds {held[0]}" + (f" and {len(held) - 1} more" if len(held) > 1 else ""))
    return " · ".join(said) or (each.program or "")


def _lease(each: Activity, now: float, later: float) -> Cell:
    """When the first of its leases runs out, or how long nobody has seen it."""
    if any(task["lapsed"] for task in each.tasks or []):
        return Cell("lapsed", "bad")
    if each.status == "stale":
        return Cell(f"silent {ago(now - each.seen_at)}", "warn")
    left = [float(grant["left"]) - later for grant in [*(each.tasks or []), *(each.holds or [])]]
    if not left:
        return Cell("" if each.section == "waiting" else f"seen {ago(now - each.seen_at)} ago", "dim")
    return Cell(f"{ago(max(0.0, min(left)))} left", "warn" if min(left) < 30 else "dim")


# ── Tasks and jobs ───────────────────────────────────────────────────────────────────────────────────────────


def _tasks(taken: Snapshot) -> Iterator[Section]:
    for name, found in taken.tasks.items():
        yield Section(name, [task_row(each, taken.now) for each in found])
    if not any(taken.tasks.values()):
        yield Section("Tasks", [], "none")


def _jobs(taken: Snapshot) -> Iterator[Section]:
    yield Section("Queues", [_queue_row(each, taken.now) for each in taken.queues])
    for name, found in taken.tasks.items():
        yield Section(name.replace("Claimed", "Running"), [task_row(each, taken.now) for each in found])
    if not any(taken.tasks.values()):
        yield Section("Jobs", [], "none")


def task_row(task: Task, now: float) -> ViewRow:
    """A task or a job."""
    since = task.finished_at or task.claimed_at or task.created_at
    what = plain(task.name)
    if isinstance(task.progress, dict) and "percent" in task.progress:
        what += f" · {task.progress['percent']:g} %" + plain(f" {task.progress.get('note') or ''}").rstrip()
    if task.state in ("failed", "cancelled") and task.reason:
        what += f" · {plain(task.reason)}"
    return ViewRow(
        Selected("task", str(task.number)),
        Cell(f"#{task.number}", STATES.get(task.state, "accent")),
        ago(now - since),
        Cell(what),
        _task_right(task, now),
    )


def _task_right(task: Task, now: float) -> Cell:
    if task.state == "claimed":
        left = "lapsed" if task.lapsed else f"{ago(max(0.0, (task.until or now) - now))} left"
        return Cell(f"{plain(short(task.holder or '-'))}, {left}", "bad" if task.lapsed else "dim")
    if task.state == "blocked":
        return Cell(
            f"after {task.blockers} task{'' if task.blockers == 1 else 's'}" if task.blockers else "blocked", "dim"
        )
    if task.state == "pending":
        wait = f"in {ago(task.ready_at - now)}" if task.ready_at and task.ready_at > now else ""
        known = task.priority if task.priority != "normal" else ""
        return Cell(", ".join(filter(None, [known, wait, task.kind])), "warn" if known in ("urgent", "high") else "dim")
    return Cell(task.state, STATES.get(task.state, ""))


def _queue_row(queue: Queue, now: float) -> ViewRow:
    ready = f"{queue.ready} ready"
    if queue.paused_at:
        why = f": {queue.reason}" if queue.reason else ""
        right = Cell(plain(f"paused by {short(queue.paused_by or '-')}{why}"), "warn")
        return ViewRow(
            Selected("queue", queue.queue), Cell(plain(queue.queue)), ago(now - queue.paused_at), Cell(ready), right
        )
    return ViewRow(Selected("queue", queue.queue), Cell(plain(queue.queue)), "", Cell(ready), Cell("open", "good"))


# ── Holds and messages ───────────────────────────────────────────────────────────────────────────────────────


def _holds(taken: Snapshot) -> Iterator[Section]:
    yield Section("Held", [_hold_row(each, taken.now) for each in taken.holds], "nothing")
    yield Section("Waiting", [_wait_row(each, taken.now) for each in taken.waits])


def _hold_row(hold: Hold, now: float) -> ViewRow:
    slot = f" slot {hold.slot}" if hold.resource.startswith("pool:") else ""
    note = f" · {hold.note}" if hold.note else ""
    left = max(0.0, (hold.until or now) - now)
    return ViewRow(
        hold_key(hold),
        Cell(plain(short(hold.holder or "-"))),
        ago(now - (hold.taken_at or now)),
        Cell(plain(f"{called(hold.resource)}{slot}{note}")),
        Cell(f"{ago(left)} left", "warn" if left < 30 else "dim"),
    )


def _wait_row(wait: Wait, now: float) -> ViewRow:
    wanted = ", ".join(called(str(each)) for each in wait.resources or [])
    behind = dict.fromkeys(short(str(each.get("agent") or "-")) for each in wait.waits_for or [])
    return ViewRow(
        Selected("wait", str(wait.number)),
        Cell(plain(short(wait.agent))),
        ago(now - wait.since_at),
        Cell(plain(wanted)),
        Cell(plain(f"for {', '.join(behind)}") if behind else "", "dim"),
    )


def _messages(taken: Snapshot) -> Iterator[Section]:
    yield Section("Messages", [_message_row(each, taken.now) for each in taken.messages], "none")


def _message_row(each: Message, now: float) -> ViewRow:
    to = f"to {each.recipient}: " if each.recipient else ""
    about = f"on #{each.task}: " if each.task else ""
    return ViewRow(
        Selected("message", str(each.number)),
        Cell(plain(short(each.sender))),
        ago(now - each.sent_at),
        Cell(plain(f"{to}{about}{each.body.strip().partition(chr(10))[0]}")),
        Cell(plain(each.channel), "dim"),
        also=each.body,
    )


_VIEWS: dict[str, Callable[[Any], Iterator[Section]]] = {
    "agents": _agents,
    "tasks": _tasks,
    "holds": _holds,
    "jobs": _jobs,
    "messages": _messages,
}
