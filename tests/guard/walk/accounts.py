"""The account of a walk: whose each line is, what became of it, and who was told what.

A line is *protected* while the agent that wrote it holds the file. It is settled when it was committed by that agent,
or when that agent removed it, gave it up or let the file go. Three promises are checked after each step:

- a protected line that somebody else's step took out of its file can be brought back;
- a new commit adds no protected line of another agent and changes no file that another agent holds;
- when a step changes a file that another agent holds, or the branch under it, both are told; otherwise nobody is.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..actors import git
from .steps import WHO

if TYPE_CHECKING:
    from .steps import Step
    from .world import Found, Place, World

WRITTEN = re.compile(rb"(?:ann|ben|cat) wrote line \d+ of \S+ here")
MAY_CONCERN = ("git init", "no git below")
"""What makes files unreachable without changing them."""
HARMLESS = ("look", "touch")
"""What changes nothing: nobody has to be told."""
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


class Account:
    """What is known about the lines, the agents and the commits of a walk."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen = look(world)
        self.lines: dict[bytes, Line] = {}
        self.committed: set[bytes] = set()
        self.left: dict[tuple[str, Place], Found | None] = {}
        """What each agent left in each file that it holds, in the checkouts where it worked on it."""
        self.heard = dict.fromkeys(WHO, 0)
        self.faults: list[str] = []
        self.happened: Counter[str] = Counter()

    def missing(self, who: str) -> list[Place]:
        """The files of an agent from which others took lines."""
        return sorted({line.place for line in self.lines.values() if line.who == who and line.missing})

    def changed_for(self, who: str) -> list[Place]:
        """The files of an agent that are not what it left there."""
        return [
            place
            for (holder, place), left in sorted(self.left.items())
            if holder == who and not _same(self.seen.files.get(place), left)
        ]

    def accept(self, who: str, place: Place) -> None:
        """An agent has seen what is in a file, and goes on with that."""
        found = self.seen.files.get(place)
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

    # ── After a step ─────────────────────────────────────────────────────────────────────────────────

    def after(self, step: Step, told: str) -> list[str]:
        """Compare with what was before the step; returns what must not be."""
        before, now = self.seen, look(self.world, self.seen)
        self.seen, self.faults = now, []
        self._register(step, before)
        self._check_commits(step, before)
        self._check_lines(step, before)
        if self.world.guarded:
            self._check_taken(step)
            self._check_told(step, before, told)
        self._note_left(step, before)
        return self.faults

    def _register(self, step: Step, before: Seen) -> None:
        """A line that this step wrote, wherever it went."""
        text = step.line.encode()
        own = self.world.place_of(step.who), step.name
        places = [place for place, found in self.seen.files.items() if text in found.contents]
        if places and text not in self.lines and text not in self.committed:
            place = own if own in places else places[0]
            self.lines[text] = Line(text, step.who, place, before.holds.get(place[1], step.who))
            self.happened["written"] += 1

    def _is_nested(self, place: Place) -> bool:
        """Whether a file is below a repository of its own: that is another project, with its own holds."""
        top = self.world.roots[place[0]]
        return any((top / above / ".git").exists() for above in Path(place[1]).parents if above.name)

    def _check_taken(self, step: Step) -> None:
        """Whoever changes a free file holds it from then on, as far as git reports the change."""
        line = self.lines.get(step.line.encode())
        if line is not None and line.place[1] not in self.seen.holds and not self._is_nested(line.place):
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
        if held and not holds and step.kind != "restart" and not line.place[1].startswith(IGNORED):
            self.faults.append(f"{line.place[1]} is not held any more, but has an uncommitted line: {_text(line)}")

    def _follow(self, line: Line) -> None:
        """The agent itself moved the line, or removed it."""
        checkout = line.place[0]
        there = [
            place for place, found in self.seen.files.items() if place[0] == checkout and line.text in found.contents
        ]
        mine = [place for place in there if self.seen.holds.get(place[1]) == line.who]
        if mine:
            line.place = mine[0]
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
        if step.kind == "recover" and line.place == (step.place, step.name) and not _same(was, is_):
            self.faults.append(f"`tb recover` did not bring back {_text(line)}")
        if not self.world.guarded or line.text not in self.world.kept(*line.place):
            self.faults.append(
                f"{step.who} took a line out of {line.place[1]}, and it cannot be recovered: {_text(line)}"
            )
            del self.lines[line.text]

    # ── Who was told ─────────────────────────────────────────────────────────────────────────────────

    def _check_told(self, step: Step, before: Seen, told: str) -> None:
        concerned = 0
        for who in WHO:
            heard = self.world.messages(who, self.heard[who])
            self.heard[who] = max((number for number, _ in heard), default=self.heard[who])
            if who == step.who:
                continue
            bodies = "\n".join(body for _, body in heard)
            needed, allowed = self._concerns(step, who, before)
            concerned += bool(needed or allowed)
            for what in needed:
                self.happened["interferences"] += 1
                if what not in bodies:
                    self.faults.append(f"{who} was not told about {what}")
                if what not in told:
                    self.faults.append(f"{step.who} was not told about {what} of {who}")
            if bodies and not needed and not allowed:
                self.faults.append(f"false alarm: {who} was told {bodies!r}")
        if not concerned and ("held by" in told or "others work here" in told):
            self.faults.append(f"false alarm: {step.who} was told {told!r}")

    def _concerns(self, step: Step, who: str, before: Seen) -> tuple[list[str], bool]:
        """What another agent has to be told about a step, and whether it may be told anything else."""
        needed, allowed = [], False
        for (holder, place), left in sorted(self.left.items()):
            was, is_ = before.files.get(place), self.seen.files.get(place)
            if holder == who and was != is_:
                allowed |= step.kind not in HARMLESS
                if _same(was, left) and not _same(is_, left):
                    needed.append(place[1])
            allowed |= holder == who and step.kind in MAY_CONCERN
        for checkout, head in self.seen.heads.items():
            stake = any(holder == who and place[0] == checkout for holder, place in self.left)
            if stake and head[0] != before.heads[checkout][0]:
                allowed = True
                needed += ["changed from"] if self.world.place_of(step.who) == checkout else []
        names = {name for name, holder in before.holds.items() if holder == who}
        changed = {place[1] for place, found in self.seen.files.items() if before.files.get(place) != found}
        changed |= {place[1] for place in before.files if place not in self.seen.files}
        allowed |= bool(names & changed) and step.kind not in HARMLESS
        allowed |= self._moved(who, before) or self._is_behind_link(names, step, before)
        allowed |= any(name in names for commit in self._new_commits(before) for name in commit.paths)
        return list(dict.fromkeys(needed)), allowed

    def _is_behind_link(self, names: set[str], step: Step, before: Seen) -> bool:
        """Whether one of these files is reached by a link that is or was in the checkout: the account sees no such."""
        here = self.world.place_of(step.who)
        links = [
            p[1] + "/"
            for seen in (before, self.seen)
            for p, f in seen.files.items()
            if p[0] == here and f.kind == "link"
        ]
        return any(name.startswith(link) for name in names for link in links)

    def _moved(self, who: str, before: Seen) -> bool:
        """Whether lines of an agent have come to other files."""
        lines = [line for line in self.lines.values() if line.who == who]
        return any(
            line.text in found.contents and (place not in before.files or line.text not in before.files[place].contents)
            for line in lines
            for place, found in self.seen.files.items()
            if place != line.place
        )

    def _note_left(self, step: Step, before: Seen) -> None:
        """What agents left: of others only that a hold has ended, of the one that acted what it changed."""
        now, here = self.seen, self.world.place_of(step.who)
        for key in [key for key in self.left if now.holds.get(key[1][1]) != key[0]]:
            del self.left[key]
        for name, holder in now.holds.items():
            place = (here, name)
            changed = now.files.get(place) != before.files.get(place)
            if holder == step.who and (changed or before.holds.get(name) != holder):
                self.left[step.who, place] = now.files.get(place)
                self.accept(step.who, place)


def _has(seen: Seen, line: Line) -> bool:
    found = seen.files.get(line.place)
    return found is not None and line.text in found.contents


def _same(one: Found | None, other: Found | None) -> bool:
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
