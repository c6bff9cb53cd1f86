"""The script of the demonstration, from the first claim to the proof.

The director starts everybody, watches the log, and does only what happens to processes in life: it kills one and pauses
one. Who wins, who is refused and who takes over is decided by the board.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from ..errors import TiebreakError, Unavailable
from ..limits import MAX_LIMIT
from ..text import plain
from .agent import ANSWERS, GO, QUESTION, READY
from .proof import prove
from .stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..model import Event, Task
    from .narrator import Narrator

AGENTS = [
    *("ada", "ben", "cleo", "dan", "eve", "finn", "gus", "hana"),
    *("ivo", "jun", "kim", "lou", "mia", "ned", "ora", "pia"),
]
FILES = [f"src/{name}.py" for name in ("auth", "cart", "mail", "menu", "page", "pay", "search", "stock")]
ASKER = "pia"
SHORTEST, LONGEST = 10, 600
"""Seconds that a demonstration may last."""
REVIEW = "review"
FLAKY = "test -e done-before || { touch done-before; echo 'connection reset' >&2; exit 1; }"
"""A job that fails the first time."""
_LOOK = 0.1


class Director:
    """One demonstration."""

    def __init__(self, stage: Stage, narrator: Narrator, seconds: float) -> None:
        self.stage = stage
        self.board = stage.board
        self.narrator = narrator
        self.seconds = seconds
        self.facts: dict[str, Any] = {"agents": len(AGENTS), "link": stage.link or None}
        self.events: list[Event] = []
        """The whole log so far."""
        self._began = time.monotonic()
        # The race is most of the time. Each file is edited by one agent at a time, so the files set the pace.
        race = max(4.0, 0.75 * seconds - 3)
        self.lease = max(2.0, seconds / 20)
        self.tasks = [f"module-{number:02}" for number in range(1, max(32, min(160, round(1.6 * seconds))) + 1)]
        self.pace = race * len(FILES) / len(self.tasks)

    def run(self) -> dict[str, Any]:
        """Play all scenes, and return what happened with the proof."""
        self._prepare()
        self._start_race()
        self._let_pass(0.1)
        victim, lost = self._take_one_away("killed", signal.SIGKILL, among=AGENTS[:-1])
        self._see_taken_over(victim, lost)
        self._see_jobs_recover()
        quiet = time.monotonic()
        self._answer_question()
        self._let_pass(0.1, since=quiet)
        self._review()
        sleeper, late = self._take_one_away("paused", signal.SIGSTOP, among=[n for n in AGENTS[:-1] if n != victim])
        self._see_taken_over(sleeper, late)
        self._let_pass(0.05)
        self._wake_up(sleeper, late)
        self._finish()
        return self.facts

    # ── The scenes ───────────────────────────────────────────────────────────────────────────────────

    def _prepare(self) -> None:
        """Put the work on the board, and start sixteen agents. The worker for jobs is there already."""
        kept = self.tasks[-len(self.tasks) // 3 :]
        self.board.tasks.import_(
            [
                {"key": REVIEW, "name": REVIEW, "kind": "review"},
                *(
                    {"key": name, "name": name, "kind": "module", "after": [REVIEW] if name in kept else []} | _TRIES
                    for name in self.tasks
                ),
            ]
        )
        for name, command in {
            "lint": "sleep 0.2",
            "flaky test": FLAKY,
            "docs": "sleep 0.2",
            "package": "sleep 0.2",
        }.items():
            self.board.jobs.submit(command, name=name, cwd=self.stage.folder, backoff="500ms")
        plan = {"tasks": self.tasks, "files": FILES, "pace": self.pace, "lease": self.lease}
        for name in AGENTS:
            self.stage.run_agent(name, {**plan, "asks": name == ASKER})
        crowd = f"{len(self.tasks)} tasks, {len(FILES)} files, {len(AGENTS)} agents, a worker"
        self.narrator.say("board", f"{crowd}; about {self.seconds:g} seconds")
        self._until(lambda: len(self._announced()) == len(AGENTS), "all agents are there")

    def _announced(self) -> set[str]:
        return {event.agent or "" for event in self.events if event.event == "agent.announced" and event.note == READY}

    def _start_race(self) -> None:
        self.board.messages.send(GO)
        self._until(lambda: self._find("task.refused"), "the first refusal")
        won = self._find("task.claimed", kind="module")
        refused = sum(
            event.times for event in self.events if event.event == "task.refused" and event.subject == won.subject
        )
        self.narrator.say(
            "won", f"{plain(won.agent or '')} won {plain(won.name or '')}, and {_others(refused)} refused", "good"
        )

    def _take_one_away(self, what: str, number: signal.Signals, among: list[str]) -> tuple[str, Task]:
        """Kill or pause an agent that has a task; what it has stays with it until its lease runs out."""
        while True:
            self._look()
            for task in self.board.tasks.list(kind="module", states=["claimed"]):
                if task.holder not in among or task.attempts > 1:
                    continue
                self.stage.send(task.holder, number)
                if self._still_has(task):
                    self.facts[what] = task.holder
                    how = f"{task.holder} was {what} ({number.name}) while it had {task.name} (epoch {task.epoch})"
                    self.narrator.say(what, how, "bad")
                    return task.holder, task
                among = [name for name in among if number != signal.SIGKILL or name != task.holder]
                self.stage.send(task.holder, signal.SIGCONT)  # it had just finished; another one, then
            self._check_time(f"somebody is {what}")
            time.sleep(_LOOK)

    def _still_has(self, task: Task) -> bool:
        """Whether the agent that was just signalled has the task, and does not keep all others from writing."""
        try:
            self.board.upkeep.probe()
        except Unavailable:
            return False  # without a daemon, it may have been stopped in the middle of a write
        now = self.board.tasks.get(ref=task.id)
        return (now.state, now.epoch, now.holder) == ("claimed", task.epoch, task.holder)

    def _review(self) -> None:
        """Finish what the last third of the tasks comes after: there is work for all, however slow the machine is."""
        review = self.board.tasks.claim(REVIEW)
        self.board.tasks.complete(review.number, epoch=review.epoch)

    def _answer_question(self) -> None:
        self._until(self.board.questions.list, f"{ASKER} asks a person")
        question = self.board.questions.list()[0]
        self.narrator.say("asked", f"{ASKER} asks a person: {QUESTION} ({' or '.join(ANSWERS)})", "warn")
        # Meanwhile the others work on, and nobody is paused who could keep them waiting: it takes no longer in all.
        said = self.narrator.ask(ANSWERS, min(15.0, max(3.0, self.seconds / 4)), self._look)
        self.board.questions.answer(question.number, answer=said or ANSWERS[0], agent="you~1" if said else "demo~1")
        by_demo = f"{ANSWERS[0]}, by the demo: nobody typed an answer"
        self.narrator.say("answered", f"you: {said}" if said else by_demo, "good")
        self.facts["answered_by"] = "person" if said else "demo"

    def _see_taken_over(self, loser: str, task: Task) -> None:
        self._until(lambda: self._successor(task), f"somebody takes {task.name} over")
        who = self._successor(task)
        text = (
            f"{who.agent} took {task.name} over from {loser}: its lease of {self.lease:g} s ran out (epoch {who.epoch})"
        )
        self.narrator.say("recovered", text, "good")

    def _successor(self, task: Task) -> Any:
        return self._find("task.claimed", subject=task.id, epoch=task.epoch + 1)

    def _wake_up(self, sleeper: str, task: Task) -> None:
        self.stage.send(sleeper, signal.SIGCONT)
        self._until(lambda: self._find("task.fenced", subject=task.id), "the late write is refused")
        text = f"{sleeper} woke up and went on with {task.name}: refused, its epoch {task.epoch} is over"
        self.narrator.say("fenced", text, "good")

    def _see_jobs_recover(self) -> None:
        self._until(lambda: self._find("task.retrying", kind="job"), "a job fails")
        failed = self._find("task.retrying", kind="job")
        self._until(lambda: self._find("task.completed", subject=failed.subject), "the job recovers")
        self.narrator.say(
            "retried", f"the job {plain(failed.name or '')!r} failed, and its second attempt succeeded", "good"
        )
        self.facts["recovered_job"] = failed.name

    def _finish(self) -> None:
        """Wait until everything is done and everybody has left, then prove it."""
        open_states = ["blocked", "pending", "claimed"]
        self._until(lambda: not self.board.tasks.list(states=open_states, limit=1), "all tasks are done")
        left = [name for name in AGENTS if name != self.facts["killed"]]
        self._until(lambda: all(self.stage.processes[name].poll() is not None for name in left), "all agents leave")
        self.board.messages.send("the end")  # refusals are written together with a later change
        self._look()
        proof = prove(self.events, self._all_tasks())
        self.narrator.blank()
        self.narrator.prove(proof)
        took = time.monotonic() - self._began
        self.facts |= {
            "seconds": round(took, 1),
            "events": len(self.events),
            "checks": [each._asdict() for each in proof.checks],
            "proved": proof.holds,
        }

    def _all_tasks(self) -> list[Task]:
        found: list[Task] = []
        while page := self.board.tasks.list(before=found[-1].number if found else None, limit=MAX_LIMIT):
            found += page
        return found

    # ── Watching ─────────────────────────────────────────────────────────────────────────────────────

    def _look(self) -> None:
        """Read what has happened, and show how far it is."""
        after = self.events[-1].number if self.events else 0
        while page := self.board.events.read(after=after, project=None, limit=MAX_LIMIT):
            self.events += page
            after = page[-1].number
        done = sum(event.event == "task.completed" and event.kind == "module" for event in self.events)
        refused = sum(event.times for event in self.events if event.event.endswith(".refused"))
        text = f"{done} of {len(self.tasks)} tasks done, {refused} claims refused, {len(self.events)} events"
        self.narrator.progress(time.monotonic() - self._began, text)

    def _until(self, happened: Callable[[], object], what: str) -> None:
        self._look()
        while not happened():
            self._check_time(what)
            time.sleep(_LOOK)
            self._look()

    def _let_pass(self, part: float, since: float | None = None) -> None:
        """Watch for a part of the whole time, from now or from an earlier moment on, so that a person can follow."""
        end = (since or time.monotonic()) + part * self.seconds
        self._until(lambda: time.monotonic() >= end, "time passes")

    def _check_time(self, what: str) -> None:
        dead = [name for name, each in self.stage.processes.items() if (each.poll() or 0) not in (0, -signal.SIGKILL)]
        if dead:
            raise Unavailable(f"demo: {dead[0]} has ended by itself: {self.stage.said(dead[0]) or 'it said nothing'}")
        if time.monotonic() - self._began > 3 * self.seconds + 60:
            raise Unavailable(f"demo: still not so after {3 * self.seconds + 60:g} s: {what}")

    def _find(self, name: str, **wanted: object) -> Any:
        """The first event of this name with these fields, or None."""
        for event in self.events:
            if event.event == name and all(getattr(event, field) == value for field, value in wanted.items()):
                return event
        return None


_TRIES = {"max_attempts": 50}
"""On a busy machine an agent may lose a claim several times; here that is no failure of the task."""


def _others(count: int) -> str:
    return "1 other was" if count == 1 else f"{count} others were"


def play(
    seconds: float, narrator: Narrator, tb: list[str], *, with_daemon: bool, opened: Callable[[str], None]
) -> dict[str, Any]:
    """The whole demonstration: its facts, with `proved`. `tb` is the command that runs `tb`."""
    with narrator.keys_wait(), Stage(tb, with_daemon=with_daemon) as stage:
        opened(stage.link)
        try:
            return Director(stage, narrator, seconds).run()
        except TiebreakError:
            narrator.blank()
            raise
