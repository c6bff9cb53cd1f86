"""Takes a walk: each step by one of the agents, and after each the account. The first fault ends a guarded walk."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ..actors import Denied
from .accounts import Account
from .steps import COMMANDS, END, Step
from .world import Running, World

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

    from tiebreak.engine.protocol import Engine

SHOWN = 16
RECOVERS, READS = 0.75, 0.6
"""How often an agent brings back what it lost, and how often it looks at what has changed."""
UNNAMED = "is known by its path alone"
"""What a hook says of a new repository without commits, on a board of several machines: nothing in it can be held."""


class Fault(AssertionError):
    """A promise that was not kept: the step, what was expected, and how to see it again."""


class LongCommand(NamedTuple):
    """A command that runs beside the steps of others."""

    step: Step
    running: Running


class Walk:
    """A walk in a folder."""

    def __init__(self, folder: Path, engine: Engine, *, guarded: bool = True, bug: str = "") -> None:
        self.world = World(folder, engine, guarded=guarded, bug=bug)
        self.account = Account(self.world)
        self.told: list[str] = []
        self.faults: list[tuple[Step, str]] = []
        self.seconds: dict[str, list[float]] = {}
        self.long: LongCommand | None = None
        """The command that runs beside the steps of others."""

    @property
    def happened(self) -> Counter[str]:
        """What was counted."""
        return self.account.happened

    def take(self, steps: list[Step], again: str = "") -> Walk:
        """All steps, one after the other."""
        for step in self._parts(steps):
            self._perform(step)
            if self.faults and self.world.guarded:
                raise Fault(self._explained(again))
        return self

    def _parts(self, steps: list[Step]) -> Iterator[Step]:
        """The steps, the ends of those that go on beside others, and what agents do first on what they were told."""
        for step in steps:
            long = self.long.step if self.long else None
            if long is not None and (step.who == long.who or step.number > long.number + long.beside):
                yield replace(long, beside=END)
            yield from self._reactions(step)
            yield step
        if self.long is not None:
            yield replace(self.long.step, beside=END)

    def _reactions(self, step: Step) -> list[Step]:
        """What the agent does first about what it was told."""
        out = []
        for place, name in self.account.missing(step.who):
            kind = "recover" if step.chance < RECOVERS else "give up"
            out.append(Step(step.number, step.who, kind, name=name, place=place))
        lost = {each.name for each in out}
        if step.chance < READS:
            changed = self.account.changed_for(step.who)
            out += [Step(step.number, step.who, "see", name=n, place=p) for p, n in changed if n not in lost]
        return out

    def _perform(self, step: Step) -> None:
        start = time.perf_counter()
        self.account.happened[step.kind] += 1
        told, shown = "", ""
        self.account.before(step)
        try:
            told, shown = self._do(step)
        except Denied as denied:
            shown = f"denied: {denied.reason}"
            self.account.happened["denied"] += 1
        except AssertionError as failed:
            if UNNAMED not in str(failed):
                self.faults.append((step, f"a hook failed: {failed}"))
        done = time.perf_counter()
        self.told.append(f"{step} {_words(step)}" + "".join(f"\n       | {line}" for line in _lines(shown, told)))
        self.faults += [(step, fault) for fault in self.account.after(step, told, runs=self.long is not None)]
        self.seconds.setdefault(step.kind, []).append(done - start)
        self.seconds.setdefault("(account)", []).append(time.perf_counter() - done)

    # ── The steps ────────────────────────────────────────────────────────────────────────────────────

    def _do(self, step: Step) -> tuple[str, str]:
        """Returns what the agent was told, and what a command printed."""
        if step.beside == END:
            return self._end()
        if step.kind in COMMANDS:
            return self._shell(step, COMMANDS[step.kind][1])
        if step.kind == "recover":
            return self._shell(step, "cd {root} && tb recover {name}")
        use = {
            "edit": self._edit,
            "write": self._write,
            "read": self._read,
            "see": self._see,
            "give up": self._see,
            "stop": self._stop,
            "prompt": self._prompt,
            "restart": self._restart,
            "move": self._move,
        }
        return "", use[step.kind](step) or ""

    def _shell(self, step: Step, template: str) -> tuple[str, str]:
        world = self.world
        known = {
            **vars(step),
            "line": step.line,
            "outside": world.outside,
            "home": world.place_of(step.who),
            "root": world.roots[step.place],
            "held": " ".join(world.held_by(step.who)) or step.name,
        }
        if not world.guarded:
            template = re.sub(r"tb commit \{\w+\}", "git add -A; git commit -q", template)
        running = world.agents[step.who].begin(template.format(**known))
        if step.beside and self.long is None and world.guarded:
            self.long = LongCommand(step, running)
            return "", "" if step.is_late else running.work(world.environ(step.who))
        shown = running.work(world.environ(step.who))
        return running.end(), shown

    def _end(self) -> tuple[str, str]:
        assert self.long is not None
        (step, running), self.long = self.long, None
        shown = running.work(self.world.environ(step.who)) if step.is_late else ""
        return running.end(), shown

    def _is_usable(self, step: Step, place: str = "") -> bool:
        """Whether a tool of a client can open the file: a regular file or none, and no link above it."""
        path = self.world.roots[place or self.world.place_of(step.who)]
        for part in step.name.split("/"):
            if path.is_symlink() or (path.exists() and not path.is_dir()):
                return False
            path /= part
        return not path.is_symlink() and (path.is_file() or not path.exists())

    def _edit(self, step: Step) -> None:
        agent = self.world.agents[step.who]
        if self._is_usable(step) and (agent.cwd / step.name).exists():
            agent.edit(step.name, "", step.line + "\n")

    def _write(self, step: Step) -> None:
        agent = self.world.agents[step.who]
        if not self._is_usable(step):
            return
        exists = (agent.cwd / step.name).exists()
        if step.name not in agent.seen and exists:
            agent.read(step.name)
        agent.write(step.name, agent.seen.get(step.name, "") + step.line + "\n")

    def _read(self, step: Step) -> None:
        agent = self.world.agents[step.who]
        if self._is_usable(step) and (agent.cwd / step.name).exists():
            agent.read(step.name)
            self.account.look_at(step.who, (agent.cwd.name, step.name))

    def _see(self, step: Step) -> None:
        """Look at a file in the checkout where it was changed, and go on with what is there, if anything is."""
        agent = self.world.agents[step.who]
        cwd, agent.cwd = agent.cwd, self.world.roots[step.place]
        try:
            if self._is_usable(step) and (agent.cwd / step.name).exists():
                agent.read(step.name)
                self.account.look_at(step.who, (step.place, step.name))
        finally:
            agent.cwd = cwd
        self.account.give_up(step.who, (step.place, step.name))

    def _stop(self, step: Step) -> None:
        self.world.agents[step.who].stop()

    def _prompt(self, step: Step) -> None:
        self.world.agents[step.who].say("UserPromptSubmit", prompt="go on")

    def _restart(self, step: Step) -> None:
        self.world.agents[step.who].end()
        self.world.arrive(step.who, self.world.place_of(step.who))
        self.account.heard[step.who] = 0

    def _move(self, step: Step) -> None:
        agent = self.world.agents[step.who]
        agent.cwd = self.world.roots[step.place]
        agent.seen.clear()

    # ── What went wrong ──────────────────────────────────────────────────────────────────────────────

    def _explained(self, again: str) -> str:
        step, _ = self.faults[-1]
        faults = "\n".join(f"  {fault}" for _, fault in self.faults)
        last = "\n".join(self.told[-SHOWN:])
        held = ", ".join(f"{name} by {who}" for name, who in sorted(self.account.seen.holds.items()))
        return f"\nstep {step}\n{faults}\nheld now: {held}\nthe last steps:\n{last}\n{again}"


def _words(step: Step) -> str:
    return f"({step.name} in {step.place})" if step.kind in ("recover", "see", "give up") else f"({step.name})"


def _lines(shown: str, told: str) -> list[str]:
    return [*shown.strip().splitlines()[:14], *(f"told: {line}" for line in told.splitlines())]
