"""What notes are made from: reads of the board, remembered for the length of one batch.

A task that changes meanwhile has an event after the batch, which makes its note anew. So what is remembered may be old,
and no note stays so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import NotFound
from ..limits import MAX_LIMIT
from .note_names import agent_stem, task_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..board import Board
    from ..model import Event, Message, Task

SHOWN = 200
"""How many related tasks, comments or messages a note lists. The board has the others."""
EVENTS = 60
"""How many of its newest events a task's note lists."""


class Source:
    """Reads of one board, for a vault of one project or of all of them (None)."""

    def __init__(
        self, board: Board, project: str | None, about: Callable[[int], list[int]], path_of: Callable[[str], str]
    ) -> None:
        self.board = board
        self.project = project
        self._about = about
        self._path_of = path_of
        self._tasks: dict[str, Task | None] = {}

    def forget(self) -> None:
        """Begin another batch."""
        self._tasks.clear()

    def is_mirrored(self, project: str) -> bool:
        """Whether the vault has this project."""
        return self.project is None or project == self.project

    def task(self, ref: str | int) -> Task | None:
        """A task by its id or number; None if it is not on the board, or of a project that is not mirrored."""
        name = f"#{ref}" if isinstance(ref, int) else ref
        if name not in self._tasks:
            try:
                self.remember(self.board.tasks.get(ref=name))
            except NotFound:
                self._tasks[name] = None
        found = self._tasks[name]
        return found if found is not None and self.is_mirrored(found.project) else None

    def remember(self, task: Task) -> None:
        """Take a task that was read already."""
        self._tasks[f"#{task.number}"] = self._tasks[task.id] = task

    def tasks(self, before: int | None, limit: int, states: list[str] | None = None) -> list[Task]:
        """A window of the mirrored tasks, newest first."""
        return self.board.tasks.list(project=self.project, before=before, limit=limit, states=states)

    # ── Related tasks ────────────────────────────────────────────────────────────────────────────────

    def after(self, task: Task) -> list[Task]:
        """The tasks that a task comes after."""
        return [each for each in self.board.tasks.after(ref=task.id) if self.is_mirrored(each.project)]

    def dependents(self, task: Task) -> Iterator[Task]:
        """The tasks that come after a task."""
        last = 0
        while page := self.board.tasks.dependents(ref=task.id, after=last, limit=MAX_LIMIT):
            yield from (each for each in page if self.is_mirrored(each.project))
            last = page[-1].number

    def children(self, task: Task) -> Iterator[Task]:
        """The parts of a task, newest first."""
        before: int | None = None
        while page := self.board.tasks.list(project=None, parent=task.id, before=before, limit=MAX_LIMIT):
            yield from page
            before = page[-1].number

    def tasks_about(self, task: Task) -> list[Task]:
        """The tasks and announcements that say that they are about a task."""
        found = (self.task(number) for number in self._about(task.number))
        return [each for each in found if each is not None and each.about == task.id]

    # ── What was said and done ───────────────────────────────────────────────────────────────────────

    def comments(self, task: Task) -> list[Message]:
        """The comments on a task, up to one more than are shown."""
        return self.board.messages.comments(ref=task.id, limit=SHOWN + 1)

    def thread(self, number: int, project: str) -> list[Message]:
        """The messages of a thread, up to one more than are shown."""
        return self.board.messages.list(thread=number, project=project, after=0, limit=SHOWN + 1)

    def history(self, task: Task) -> list[Event]:
        """The newest events of a task, by time: refusals are written to the log together with a later change."""
        found = self.board.events.read(subject=task.id, project=None, newest=True, limit=EVENTS)
        return sorted(found, key=lambda event: (event.at, event.number))

    def agents_of(self, task: Task) -> set[str]:
        """The agents that any event of a task names."""
        found: set[str] = set()
        last = 0
        while page := self.board.events.read(subject=task.id, project=None, after=last, limit=MAX_LIMIT):
            found |= {event.agent for event in page if event.agent}
            last = page[-1].number
        return found

    def last_claim(self, task_id: str, epoch: int = 0) -> Event | None:
        """The newest claim of a task, or the one with this epoch, if the log still has it."""
        found = self.board.events.read(
            subject=task_id, event="task.claimed", project=None, newest=True, limit=1 if not epoch else MAX_LIMIT
        )
        return next((each for each in reversed(found) if epoch in (0, each.epoch)), None)

    def state_and_holder(self, task: Task) -> tuple[str, str | None]:
        """The state of a task and who has it, as they are written.

        A claim that has run out is shown as pending before an event says so. A note must not change by time alone.
        """
        if task.state == "pending" and task.lapsed:
            claim = self.last_claim(task.id)
            return "claimed", claim.agent if claim else None
        return task.state, task.holder if task.state == "claimed" else None

    def agent_path(self, name: str, project: str) -> str:
        """The path of an agent's note, as links have it."""
        return self._path_of(f"Agents/{agent_stem(name, project, alone=self.project is not None)}")

    def task_path(self, task: Task) -> str:
        """The path of a task's note, as links have it."""
        return self._path_of(task_path(task))
