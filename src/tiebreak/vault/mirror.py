"""The consumer of the log that writes a vault: batch after batch, each complete before the cursor moves.

The first run makes a note of every task of the board, in windows from the newest to the oldest, and then adds up the
log for agents and threads. A task that is about another one has the higher number, so it is known when the older one is
written. What happens during the first run is in the log after the number at which it began. From then on there are only
batches of events.
"""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, Any

from ..errors import TiebreakError, Unavailable
from ..limits import MAX_LIMIT
from . import agent_history
from .agent_note import agent_note
from .board_note import board_note
from .changes import Changes
from .note_names import AGENTS, BOARD, MESSAGES, OF_TASKS, agent_stem, numbered, task_folder, thread_title
from .source import Source
from .task_note import task_note
from .thread_note import thread_note
from .vault_folder import REMOVE, NameTaken

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..board import Board
    from ..model import Task
    from .vault_folder import VaultFolder

WINDOW = 200
"""How many tasks, or events, are between two positions of the cursor."""
TRY_AGAIN = 2.0
"""Seconds until a board that cannot be reached is tried again."""


class Mirror:
    """Keeps one vault up to date with one board."""

    def __init__(self, board: Board, vault: VaultFolder, tell: Callable[[str], None] = lambda text: None) -> None:
        self.vault = vault
        self.events = 0
        """How many events were read."""
        self._board = board
        self._tell = tell
        self._source = self._source_of(vault.settings["project"])
        self._cursor = vault.cursor()

    def _source_of(self, project: str | None) -> Source:
        return Source(self._board, project, self._about, self.vault.path_of)

    @property
    def after(self) -> int:
        """The number of the last event whose notes are complete; 0 during the first run."""
        return int(self._cursor.get("after", 0))

    def catch_up(self) -> None:
        """Write everything that has happened up to now."""
        if "after" in self._cursor and self._board.events.last() < self.after:
            self._begin_again()  # the board was replaced by an older one
        while True:
            try:
                if "after" not in self._cursor:
                    self._first_run()
                while self._batch():
                    pass
                return
            except NameTaken as found:
                self._link_anew(found.path)

    def follow(self, told: Callable[[TiebreakError | None], None]) -> None:
        """Write everything, and go on as it happens.

        `told` is called whenever the vault is up to date, and with the error whenever the board cannot be reached,
        which is tried again.
        """
        while True:
            try:
                self.catch_up()
                told(None)
                next(self._board.follow(after=self.after, project=None), None)
            except Unavailable as exc:
                told(exc)
                sleep(TRY_AGAIN)

    # ── The first run ────────────────────────────────────────────────────────────────────────────────

    def _begin_again(self, *, settle: bool = False) -> None:
        """Make all notes anew, after the project got another name or history was removed from the board."""
        if settle and self._source.project is not None:
            self.vault.save_settings(project=self._board.projects.resolve(project=self._source.project))
            self._source = self._source_of(self.vault.settings["project"])
        self.vault.forget()
        self._cursor = {}

    def _link_anew(self, taken: str) -> None:
        """A note gets another name, because somebody has a file there: write all notes again with links to it.

        What was added up from the log stays, for the log may have been pruned since.
        """
        self._cursor = {"projects": self._cursor.get("projects", [])}
        # Before the names: a writer that is killed between the two meets the file again.
        self._save(start=self._board.events.last(), before=None, log=0, made=0, again=True)
        self.vault.find_taken(*self.vault.taken, taken)

    def _first_run(self) -> None:
        if not self._cursor:
            self.vault.forget()  # a writer may have been killed while it forgot
            self.vault.find_taken()
            self._save(start=self._board.events.last(), before=None, log=0, made=0)
        while not self._cursor.get("tasks_done"):
            self._window_of_tasks()
        while self._cursor["log"] < self._cursor["start"]:
            self._window_of_log()
        self._retire_pruned()  # a vault that is made anew may have notes of what is gone
        self._retire_agents()
        start = self._cursor["start"]
        self._write_board()
        self._cursor = {"after": start, "projects": self._cursor.get("projects", [])}
        self.vault.save_cursor(self._cursor)
        self._tell("")

    def _window_of_tasks(self) -> None:
        self._source.forget()
        page = self._source.tasks(self._cursor["before"], WINDOW)
        changes = Changes()
        for task in page:
            self._source.remember(task)
            self._see(task.project)
            changes.tasks[task.number] = None
            if task.about is not None and (about := self._source.task(task.about)):
                changes.about.setdefault(about.number, []).append(task.number)
        self._apply(changes)
        made = self._cursor["made"] + len(page)
        self._save(before=page[-1].number if page else 0, made=made, tasks_done=len(page) < WINDOW)
        self._tell(f"{made} tasks …")

    def _window_of_log(self) -> None:
        self._source.forget()
        found = self._board.events.read(after=self._cursor["log"], project=None, limit=MAX_LIMIT)
        found = [event for event in found if event.number <= self._cursor["start"]]
        changes = Changes()
        for event in found:
            self._see(event.project)
            changes.add(event, self._source, with_tasks=False)
        self._apply(changes)
        self.events += len(found)
        self._save(log=found[-1].number if found else self._cursor["start"])
        self._tell(f"{self._cursor['log']} of {self._cursor['start']} events …")

    def _save(self, **position: Any) -> None:
        self._cursor.update(position)
        self.vault.save_cursor(self._cursor)

    def _see(self, project: str) -> None:
        """Remember that a project exists."""
        known = self._cursor.setdefault("projects", [])
        if project and self._source.is_mirrored(project) and project not in known:
            known.append(project)

    # ── Batches of events ────────────────────────────────────────────────────────────────────────────

    def _batch(self) -> bool:
        """Write what the next events changed; False if there are none."""
        found = self._board.events.read(after=self.after, project=None, limit=WINDOW)
        if not found:
            return False
        self._source.forget()
        changes = Changes()
        for event in found:
            self._see(event.project)
            changes.add(event, self._source)
        if changes.projects or (changes.pruned and self.vault.settings["pruned"] == REMOVE):
            self._begin_again(settle=changes.projects)
            self._first_run()
            return True
        self._apply(changes)
        if changes.pruned:
            self._retire_pruned()
        self._write_board()
        self.events += len(found)
        self._save(after=found[-1].number)
        return True

    def _apply(self, changes: Changes) -> None:
        for number, others in changes.about.items():
            known = self._about(number)
            if more := set(others) - set(known):
                self.vault.save_state("about", str(number), sorted({*known, *more}))
        for number in changes.tasks:
            if task := self._source.task(number):
                self._write_task(task)
        for thread, project in changes.threads:
            self._write_thread(thread, project)
        for (project, name), events in changes.agents.items():
            self._write_agent(project, name, events)

    def _about(self, number: int) -> list[int]:
        found = self.vault.state("about", str(number))
        return found if isinstance(found, list) else []

    def _write_task(self, task: Task) -> None:
        note = task_note(task, self._source)
        self.vault.write(task_folder(task.kind), numbered(task.number, task.name), note, task.number)

    def _write_thread(self, thread: int, project: str) -> bool:
        """Write the note of a thread; False if none of its messages is on the board any more."""
        messages = self._source.thread(thread, project)
        if messages:
            if self.vault.state("threads", str(thread)) != project:
                self.vault.save_state("threads", str(thread), project)
            name = numbered(thread, thread_title(messages[0]))
            self.vault.write(MESSAGES, name, thread_note(messages, self._source), thread)
        return bool(messages)

    def _write_agent(self, project: str, name: str, events: list[Any]) -> None:
        stem = agent_stem(name, project, alone=self._source.project is not None)
        history = self.vault.state("agents", stem) or agent_history.beginning(name, project)
        before = history["upto"]
        for event, as_holder in sorted(events, key=lambda each: each[0].number):
            agent_history.add(history, event, as_holder=as_holder)
        if history["upto"] != before or not before:
            self.vault.save_state("agents", stem, history)
        self._write_history(stem, history)

    def _write_history(self, stem: str, history: dict[str, Any]) -> None:
        with_pruned = self.vault.settings["pruned"] != REMOVE
        self.vault.write(AGENTS, stem, agent_note(history, self._source, with_pruned=with_pruned))

    def _write_board(self) -> None:
        note = board_note(self._source, self.vault, self._cursor.get("projects", []))
        self.vault.write("", BOARD, note)

    # ── What was pruned ──────────────────────────────────────────────────────────────────────────────

    def _retire_pruned(self) -> None:
        """Mark or remove the notes of what is not on the board any more."""
        self._source.forget()
        for folder in OF_TASKS:
            for number in self.vault.numbers(folder):
                if self._source.task(number) is None:
                    self.vault.retire(folder, number)
        for number in self.vault.numbers(MESSAGES):
            project = self.vault.state("threads", str(number))
            if project is None or not self._write_thread(number, project):
                self.vault.retire(MESSAGES, number)

    def _retire_agents(self) -> None:
        """Mark or remove the notes of agents that the log does not name any more, after it was added up anew."""
        known = {}
        for stem in self.vault.states("agents"):
            known[self.vault.path_of(f"{AGENTS}/{stem}")] = stem
            if self._cursor.get("again") and (history := self.vault.state("agents", stem)):
                self._write_history(stem, history)  # the log may not name it any more, and its links are old
        for stem in self.vault.stems(AGENTS):
            if f"{AGENTS}/{stem}" not in known:
                self.vault.retire_note(AGENTS, f"{stem}.md")
