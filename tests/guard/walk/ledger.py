"""The ledger of a walk: whose each line is, what became of it, and which commits have it.

A line is *protected* while the agent that wrote it holds the file. It is settled when it was committed by that agent,
or when that agent removed it, gave it up or let the file go. Two promises are checked after each step:

- a protected line that somebody else's step took out of its file can be brought back;
- a new commit adds no protected line of another agent and changes no file that another agent holds.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..actors import git

if TYPE_CHECKING:
    from .steps import Step
    from .world import Found, Place, World

WRITTEN = re.compile(rb"(?:ann|ben|cat) wrote line \d+ of \S+ here")
NOBODY = "nobody"
IGNORED = "build/"
"""Files that git ignores: no turn ends with uncommitted changes of them."""


class Line:
    """A line that an agent wrote, as long as it is neither committed nor given up."""

    def __init__(self, text: bytes, who: str, place: Place, holder: str | None) -> None:
        self.text = text
        self.who = who
        self.place = place
        self.missing = False
        """Somebody else's step took it out of its file."""
        self.accepted = {who}
        """Who has seen it in a file that they hold."""
        self.intrudes = holder if holder != who else None
        """Who held the file when it was written there."""
        self.is_upon_unseen = False
        """Others had changed the file, and its agent had not looked: `tb recover` first brings back what was before."""


class Seen(NamedTuple):
    """All that can be seen of a world after a step."""

    files: dict[Place, Found]
    heads: dict[str, tuple[str, str]]
    holds: dict[str, str]
    commits: set[str]


class Commit(NamedTuple):
    """What a commit does to its first parent."""

    name: str
    parents: list[str]
    paths: list[str]
    added: list[bytes]


def look(world: World, before: Seen | None = None, *, commits: bool = True) -> Seen:
    """What there is now; the commits may be known already."""
    known = before.commits if before is not None and not commits else world.commits()
    return Seen(world.files(), world.heads(), world.holds(), known)


class Ledger:
    """What is known about the lines, the holds and the commits of a walk."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen = look(world)
        self.lines: dict[bytes, Line] = {}
        self.committed: set[bytes] = set()
        self.left: dict[tuple[str, Place], Found | None] = {}
        """What each agent left in each file that it holds, in the checkouts where it worked on it."""
        self.unseen: set[tuple[str, Place]] = set()
        """Which files were changed by others, and their holders were told, but have not looked at them."""
        self.were_nested: set[Place] = set()
        """Files that were changed when they were below a repository of their own."""
        self.faults: list[str] = []
        self.happened: Counter[str] = Counter()
        self.marked = set[str]()
        """The marked files before a `tb commit`."""
        self.is_in_operation = False
        """Whether an operation of git was in progress then."""

    def missing(self, who: str) -> list[Place]:
        """The files of an agent from which others took lines."""
        return sorted({line.place for line in self.lines.values() if line.who == who and line.missing})

    def changed_for(self, who: str) -> list[Place]:
        """The files of an agent that are not what it left there."""
        return [
            place
            for (holder, place), left in sorted(self.left.items())
            if holder == who and not same(self.seen.files.get(place), left)
        ]

    def accept(self, who: str, place: Place) -> None:
        """An agent has seen what is in a file."""
        found = self.seen.files.get(place)
        self.unseen.discard((who, place))
        if (who, place) in self.left:
            self.left[who, place] = found
        for line in self.lines.values():
            if found is not None and line.text in found.contents:
                line.accepted.add(who)

    def give_up(self, who: str, place: Place) -> None:
        """An agent does not want back what others took out of its file."""
        for line in [each for each in self.lines.values() if (each.who, each.place) == (who, place) and each.missing]:
            del self.lines[line.text]
            self.happened["given up"] += 1

    # ── Before a step ────────────────────────────────────────────────────────────────────────────────

    def before(self, step: Step) -> None:
        """Look at what `tb commit` has to leave alone: marked files, and all of an operation in progress."""
        here = self.world.place_of(step.who)
        if step.kind.startswith("tb commit") and self.world.guarded:
            self.marked, self.is_in_operation = self.world.marks(here), self.world.is_in_operation(here)

    # ── After a step ─────────────────────────────────────────────────────────────────────────────────

    def _register(self, step: Step, before: Seen) -> None:
        """A line that this step wrote, wherever it went."""
        text = step.line.encode()
        own = self.world.place_of(step.who), step.name
        places = [place for place, found in self.seen.files.items() if text in found.contents]
        if places and text not in self.lines and text not in self.committed:
            place = own if own in places else places[0]
            if self._is_nested(place) or place in self.were_nested:
                self.committed.add(text)  # another repository has its own holds
                return
            self.lines[text] = line = Line(text, step.who, place, before.holds.get(place[1], step.who))
            line.is_upon_unseen = (step.who, place) in self.unseen
            self.happened["written"] += 1

    def _changed(self, before: Seen) -> set[Place]:
        """The places where something else was before a step."""
        now = self.seen.files
        return {place for place in {*before.files, *now} if before.files.get(place) != now.get(place)}

    def _is_nested(self, place: Place) -> bool:
        """Whether a file is below a repository of its own: that is another project, with its own holds."""
        top = self.world.roots[place[0]]
        return any((top / above / ".git").exists() for above in Path(place[1]).parents if above.name)

    def _check_taken(self, step: Step, told: str) -> None:
        """Whoever changes a free file holds it from then on, as far as git reports the change.

        One that has lines of others now is not taken.
        """
        line = self.lines.get(step.line.encode())
        is_free = line is not None and line.place[1] not in self.seen.holds
        is_stray = line is not None and f"{line.place[1]} (from " in told
        is_nested = line is not None and (self._is_nested(line.place) or line.place in self.were_nested)
        if line is not None and is_free and not is_nested and not is_stray:
            shown = git("status", "--short", "-uall", "--", line.place[1], cwd=self.world.roots[line.place[0]])
            if shown.endswith(line.place[1] + "\n"):
                self.faults.append(f"{step.who} changed {line.place[1]}, and nobody holds it")

    def _is_protected(self, line: Line, seen: Seen) -> bool:
        if line.intrudes:
            return False
        return not self.world.guarded or seen.holds.get(line.place[1]) == line.who

    # ── Commits ──────────────────────────────────────────────────────────────────────────────────────

    def _check_commits(self, step: Step, before: Seen) -> None:
        for commit in self._new_commits(before):
            self.happened["commits"] += 1
            for text in commit.added:
                self._check_added(step, commit, text, before)
            if self.world.guarded:
                self._check_paths(step, commit, before)
                if step.kind.startswith("tb commit"):
                    self._check_left_alone(step, commit)

    def _check_added(self, step: Step, commit: Commit, text: bytes, before: Seen) -> None:
        line = self.lines.pop(text, None)
        self.committed.add(text)
        if line is None or step.who in line.accepted:
            return
        if self._is_protected(line, before):
            self.faults.append(f"commit {commit.name[:8]} of {step.who} has a line of {line.who}: {_text(line)}")
        elif line.intrudes == step.who and before.holds.get(line.place[1]) == step.who:
            self.faults.append(
                f"commit {commit.name[:8]} of {step.who} has a change that it has not seen: {_text(line)}"
            )

    def _check_paths(self, step: Step, commit: Commit, before: Seen) -> None:
        for name in commit.paths:
            holder = before.holds.get(name, step.who)
            if holder == step.who or self.seen.holds.get(name) != holder:
                continue
            works_here = any(who == holder and place[0] == self.world.place_of(step.who) for who, place in self.left)
            if len(commit.parents) > 1 and not works_here and self._is_as_in(commit.parents[1:], commit, name):
                continue
            if self._is_as_in([before.heads[self.world.place_of(step.who)][1]], commit, name):
                continue  # an amended commit has it already
            self.faults.append(f"commit {commit.name[:8]} of {step.who} changes {name}, which {holder} holds")

    def _check_left_alone(self, step: Step, commit: Commit) -> None:
        if self.is_in_operation:
            self.faults.append(f"commit {commit.name[:8]} of {step.who} was made in the middle of an operation")
        for name in sorted(self.marked & set(commit.paths)):
            self.faults.append(f"commit {commit.name[:8]} of {step.who} has {name}, which is marked")
        for name in sorted(self.marked - self.world.marks(self.world.place_of(step.who))):
            self.faults.append(f"{step.who} took the mark of {name} away")

    def _is_as_in(self, others: list[str], commit: Commit, name: str) -> bool:
        """Whether a file is in the commit what it is in one of some other commits."""
        words = ["diff-tree", "-r", "--name-only", "--no-renames", commit.name]
        return any(not git(*words, each, "--", name, cwd=self.world.roots["main"]).strip() for each in others)

    def _new_commits(self, before: Seen) -> list[Commit]:
        new = sorted(self.seen.commits - before.commits)
        if not new:
            return []
        words = ["--no-walk=unsorted", "--diff-merges=first-parent", "--raw", "-p", "-U0", "--no-renames", "--text"]
        output = git("log", *words, "--format=%x01%H %P", *new, cwd=self.world.roots["main"], errors="replace")
        return [_commit(each) for each in output.split("\x01")[1:]]

    # ── Lines ────────────────────────────────────────────────────────────────────────────────────────

    def _check_lines(self, step: Step, before: Seen) -> None:
        for line in list(self.lines.values()):
            if line.intrudes and self.seen.holds.get(line.place[1]) != line.intrudes:
                line.intrudes = NOBODY  # whoever takes the file later finds the line there
            was, is_ = _has(before, line), _has(self.seen, line)
            if is_:
                self._check_hold(step, line, before)
            elif was and step.who == line.who:
                self._follow(line)
            elif was or line.missing:
                self._check_missing(step, line, before, new=was)

    def _check_hold(self, step: Step, line: Line, before: Seen) -> None:
        """An uncommitted line is in its file: only the end of its agent's session ends the hold."""
        if line.missing:
            line.missing = False
            self.happened["back"] += 1
        held, holds = (self._is_protected(line, seen) for seen in (before, self.seen))
        if held and not holds and step.kind == "restart":
            del self.lines[line.text]
        elif held and not holds and not line.place[1].startswith(IGNORED):
            self.faults.append(f"{line.place[1]} is not held any more, but has an uncommitted line: {_text(line)}")

    def _follow(self, line: Line) -> None:
        """The agent itself moved the line, or removed it."""
        checkout = line.place[0]
        there = [
            place for place, found in self.seen.files.items() if place[0] == checkout and line.text in found.contents
        ]
        mine = [place for place in there if self.seen.holds.get(place[1]) == line.who]
        if mine and not self._is_nested(mine[0]):
            line.place = mine[0]
            line.is_upon_unseen = line.is_upon_unseen or (line.who, line.place) in self.unseen
        else:
            del self.lines[line.text]

    def _check_missing(self, step: Step, line: Line, before: Seen, *, new: bool) -> None:
        if not self._is_protected(line, before):
            del self.lines[line.text]
            self.happened["unprotected"] += new
            return
        line.missing = True
        self.happened["destroyed"] += new
        was, is_ = (seen.files.get(line.place) for seen in (before, self.seen))
        is_recovered = step.kind == "recover" and line.place == (step.place, step.name) and not same(was, is_)
        if is_recovered and not line.is_upon_unseen:
            self.faults.append(f"`tb recover` did not bring back {_text(line)}")
        if not self.world.guarded or line.text not in self.world.kept(*line.place):
            self.faults.append(
                f"{step.who} took a line out of {line.place[1]}, and it cannot be recovered: {_text(line)}"
            )
            del self.lines[line.text]


def _has(seen: Seen, line: Line) -> bool:
    found = seen.files.get(line.place)
    return found is not None and line.text in found.contents


def same(one: Found | None, other: Found | None) -> bool:
    """The same kind and contents; the mode does not count."""
    return (one and one[:2]) == (other and other[:2])


def _text(line: Line) -> str:
    return repr(line.text.decode())


def _commit(shown: str) -> Commit:
    head, *rest = shown.split("\n")
    name, *parents = head.split()
    paths = [each.rpartition("\t")[2] for each in rest if each.startswith(":")]
    added = [each.encode() for each in rest if each.startswith("+") and not each.startswith("+++ ")]
    return Commit(name, parents, paths, [text for each in added for text in WRITTEN.findall(each)])
