"""Which notes an event may change. Too many cost time; one too few would leave a note behind the board.

A note shows the names of the tasks that it links to. So a task that is renamed changes its own note and the notes of
all that link to it. Nothing else of a task is shown in another task's note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..names import short
from .agent_history import TAKEN_AWAY

if TYPE_CHECKING:
    from ..model import Event, Task
    from .source import Source


class Changes:
    """The notes to make anew: numbers of tasks, threads with their project, and agents with their events."""

    def __init__(self) -> None:
        self.tasks: dict[int, None] = {}
        self.threads: dict[tuple[int, str], None] = {}
        self.agents: dict[tuple[str, str], list[tuple[Event, bool]]] = {}
        """By project and name: the events to add up, and whether the agent was the holder of what they took away."""
        self.about: dict[int, list[int]] = {}
        """For each task, others that say that they are about it."""
        self.pruned = False
        self.projects = False
        """Whether projects were renamed or merged, after which all notes have to be made anew."""

    def add(self, event: Event, source: Source, *, with_tasks: bool = True) -> None:
        """Note what an event changes; without tasks if these are made anew anyway."""
        if event.event == "board.pruned":
            self.pruned = True
            return
        if event.event in ("project.renamed", "project.merged"):
            self.projects = True
        if not source.is_mirrored(event.project):
            return
        if event.agent:
            self.agents.setdefault((event.project, event.agent), []).append((event, False))
        if event.event.startswith("message."):
            self._message(event, source, with_tasks)
        elif event.event.startswith(("task.", "job.")) and event.subject:
            self._task(event, source, with_tasks)

    def _message(self, event: Event, source: Source, with_tasks: bool) -> None:
        facts = event.data or {}
        if event.subject:
            if with_tasks and (task := source.task(event.subject)):
                self.tasks[task.number] = None
        elif "thread" in facts:
            self.threads[int(facts["thread"]), event.project] = None
        if to := facts.get("to"):
            self.agents.setdefault((event.project, short(to)), [])

    def _task(self, event: Event, source: Source, with_tasks: bool) -> None:
        if event.event in TAKEN_AWAY and event.epoch:
            self._taken_away(event, source)
        task = source.task(str(event.subject))
        if task is None or not with_tasks:
            return  # pruned meanwhile, or of another project
        self.tasks[task.number] = None
        if event.event in ("task.posted", "task.linked"):
            self.link(task, source)
        elif event.event == "task.edited":
            self._edited(event, task, source)

    def _taken_away(self, event: Event, source: Source) -> None:
        """The event concerns whoever had the task, which the claim with the same epoch says."""
        claim = source.last_claim(str(event.subject), event.epoch)
        if claim is not None and claim.agent:
            events = self.agents.setdefault((event.project, claim.agent), [])
            if claim.agent == event.agent:
                events.pop()  # the agent's own deed, which counts once
            events.append((event, True))

    def link(self, task: Task, source: Source) -> None:
        """The notes that a new task, or a new dependency, is shown in."""
        if task.parent is not None:
            self.tasks[task.parent] = None
        if task.about is not None and (about := source.task(task.about)):
            self.tasks[about.number] = None
            self.about.setdefault(about.number, []).append(task.number)
        for each in source.after(task):
            self.tasks[each.number] = None

    def _edited(self, event: Event, task: Task, source: Source) -> None:
        changed = event.data or {}
        for number in changed.get("parent", ()):
            if number:
                self.tasks[int(number)] = None
        if "name" in changed:
            self.link(task, source)
            for each in (*source.children(task), *source.dependents(task), *source.tasks_about(task)):
                self.tasks[each.number] = None
            for name in source.agents_of(task):
                self.agents.setdefault((task.project, name), [])
