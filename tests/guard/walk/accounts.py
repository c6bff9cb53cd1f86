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
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..actors import git
from .steps import COMMANDS, END, PLACES, TOOLS, WHO

if TYPE_CHECKING:
    from .steps import Step
    from .world import Found, Place, World

WRITTEN = re.compile(rb"(?:ann|ben|cat) wrote line \d+ of \S+ here")
MAY_CONCERN = ("git init", "no git below")
"""What makes files unreachable without changing them."""
NOTICED = "uncommitted lines of"
"""In what is told about a copy of a holder's lines."""
NOBODY = "nobody"
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


class Concern(NamedTuple):
    """What a holder has to be told: a part of the message, and how it is known later whether that still matters."""

    holder: str
    told: str
    place: Place
    """The file; a checkout and "" if it is about the branch there."""
    branch: str = ""
    """The branch before."""


class Overlap:
    """The time in which an agent's command runs beside the steps of others."""

    def __init__(self, who: str) -> None:
        self.who = who
        self.open: list[Concern] = []
        """What has to be told when the command ends."""
        self.heard = dict.fromkeys(WHO, "")
        """What each agent was told meanwhile."""


class Account:
    """What is known about the lines, the agents and the commits of a walk."""

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
        self.heard = dict.fromkeys(WHO, 0)
        self.faults: list[str] = []
        self.happened: Counter[str] = Counter()
        self.overlap: Overlap | None = None
        self.marked = set[str]()
        """The marked files before a `tb commit`."""
        self.is_in_operation = False
        """Whether an operation of git was in progress then."""
        self.worked: set[tuple[str, str]] = set()
        """Who has ever worked in which checkout: held files may be known there."""
        self.may_be_told = set[str]()
        """Who may be told something about an overlap with the next step."""

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

    def look_at(self, who: str, place: Place) -> None:
        """An agent reads a file, and goes on with what is there. It need not be told what happened before."""
        self.accept(who, place)
        if self.overlap is not None:
            self.overlap.open = [each for each in self.overlap.open if (each.holder, each.place) != (who, place)]

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

    def after(self, step: Step, told: str, *, runs: bool = False) -> list[str]:
        """Compare with what was before the step; returns what must not be.

        `runs`: a command goes on beside the next steps.
        """
        begins = runs and self.overlap is None
        if begins:
            self.overlap = Overlap(step.who)
            self.happened["overlaps"] += 1
        before, now = self.seen, look(self.world, self.seen)
        self.seen, self.faults = now, []
        self.were_nested |= {place for place in self._changed(before) if self._is_nested(place)}
        is_late = step.who in self.may_be_told
        self._register(step, before)
        self._check_commits(step, before)
        self._check_lines(step, before)
        if self.world.guarded:
            self._check_messages(step, before, told, begins=begins)
            if not begins:
                self._check_taken(step, told)
        self._note_left(step, before, told, is_late=is_late)
        return self.faults

    def _runs_beside(self, step: Step) -> bool:
        """Whether a command of another agent runs in the checkout of this step."""
        other = self.overlap.who if self.overlap is not None else step.who
        return other != step.who and self.world.place_of(other) == self.world.place_of(step.who)

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
        is_recovered = step.kind == "recover" and line.place == (step.place, step.name) and not _same(was, is_)
        if is_recovered and not line.is_upon_unseen:
            self.faults.append(f"`tb recover` did not bring back {_text(line)}")
        if not self.world.guarded or line.text not in self.world.kept(*line.place):
            self.faults.append(
                f"{step.who} took a line out of {line.place[1]}, and it cannot be recovered: {_text(line)}"
            )
            del self.lines[line.text]

    # ── Who was told ─────────────────────────────────────────────────────────────────────────────────

    def _check_messages(self, step: Step, before: Seen, told: str, *, begins: bool) -> None:
        heard = {who: self._new_messages(who) for who in WHO}
        concerns = [each for who in WHO if who != step.who for each in self._concerns(step, who, before)]
        self.unseen |= {key for who in WHO for key in self._told_of(who, heard[who])}
        self.happened["interferences"] += len(concerns)
        if self.overlap is not None:
            self._hear(self.overlap, step, heard, told)
        if begins and self.overlap is not None:
            self.overlap.open = concerns
            return
        self._check_told(step, concerns, heard, told)
        if self.overlap is None:
            self._check_false_alarms(step, before, heard, told)
        elif step.beside == END:
            self._check_told(step, [c for c in self.overlap.open if self._matters(c)], *self.overlap_heard())
            self.overlap, self.may_be_told = None, set(WHO)

    def _told_of(self, who: str, heard: str) -> list[tuple[str, Place]]:
        """The files of an agent that are not as it left them, and of which it has just been told."""
        names = [name for name, holder in self.seen.holds.items() if holder == who and name in heard]
        found = [(who, (checkout, name)) for checkout in PLACES for name in names]
        return [key for key in found if key not in self.left or not self._is_as_left(*key, mode=True)]

    def _new_messages(self, who: str) -> str:
        """The messages that an agent has got since the last step."""
        heard = self.world.messages(who, self.heard[who])
        self.heard[who] = max((number for number, _ in heard), default=self.heard[who])
        return "\n".join(body for _, body in heard)

    def _hear(self, overlap: Overlap, step: Step, heard: dict[str, str], told: str) -> None:
        for who in WHO:
            overlap.heard[who] += heard[who] + (told if who == step.who else "")

    def overlap_heard(self) -> tuple[dict[str, str], str]:
        """What everybody was told during the overlap, and the agent whose command ran."""
        assert self.overlap is not None
        return self.overlap.heard, self.overlap.heard[self.overlap.who]

    def _check_told(self, step: Step, concerns: list[Concern], heard: dict[str, str], told: str) -> None:
        for each in concerns:
            if each.told not in heard[each.holder]:
                self.faults.append(f"{each.holder} was not told about {each.told} in {each.place[0]}")
            if each.told not in told:
                self.faults.append(f"{step.who} was not told about {each.told} of {each.holder} in {each.place[0]}")

    def _check_false_alarms(self, step: Step, before: Seen, heard: dict[str, str], told: str) -> None:
        allowed = {who: self._may_concern(step, who, before) for who in WHO if who != step.who}
        for who, may in allowed.items():
            may = may or (NOTICED in heard[who] and self._has_copies(who))
            if heard[who] and not may:
                self.faults.append(f"false alarm: {who} was told {heard[who]!r}")
        is_late = step.who in self.may_be_told
        self.may_be_told.discard(step.who)
        is_late = is_late or (NOTICED in told and any(map(self._has_copies, allowed)))
        if not is_late and not any(allowed.values()) and ("held by" in told or "others work here" in told):
            self.faults.append(f"false alarm: {step.who} was told {told!r}")

    def _matters(self, concern: Concern) -> bool:
        """Whether what had to be told is still so: the holder may have it back, have seen it, or have let it go."""
        holder, _, place, branch = concern
        if not place[1]:
            has_stake = any(who == holder and at[0] == place[0] for who, at in self.left)
            return has_stake and self.seen.heads[place[0]][0] != branch
        return (holder, place) in self.left and not self._is_as_left(holder, place)

    def _is_as_left(self, holder: str, place: Place, *, mode: bool = False) -> bool:
        now, left = self.seen.files.get(place), self.left[holder, place]
        return _same(now, left) and not (mode and now and left and now.stamp[:1] != left.stamp[:1])

    def _concerns(self, step: Step, who: str, before: Seen) -> list[Concern]:
        """What another agent has to be told about a step."""
        out = []
        for (holder, place), left in sorted(self.left.items()):
            was, is_ = before.files.get(place), self.seen.files.get(place)
            if (who, place) in self.unseen or self._is_nested(place):
                continue  # the holder was told of a change there, and has not looked since
            if step.kind in TOOLS and is_ is not None and is_.kind == "folder":
                continue  # a tool made the folder of its file where a file is held that is not there
            if holder == who and _same(was, left) and not _same(is_, left):
                out.append(Concern(who, place[1], place))
        here = self.world.place_of(step.who)
        if self._has_new_branch(who, here, before):
            out.append(Concern(who, "changed from", (here, ""), before.heads[here][0]))
        return out

    def _has_new_branch(self, who: str, checkout: str, before: Seen) -> bool:
        """Whether the branch has changed in a checkout in which an agent holds files."""
        stake = any(holder == who and place[0] == checkout for holder, place in self.left)
        return stake and self.seen.heads[checkout][0] != before.heads[checkout][0]

    def _may_concern(self, step: Step, who: str, before: Seen) -> bool:
        """Whether another agent may be told anything about a step."""
        mine = [place for holder, place in self.left if holder == who]
        if any(before.files.get(place) != self.seen.files.get(place) for place in mine) and step.kind not in HARMLESS:
            return True
        moved = (place for place, head in self.seen.heads.items() if head[0] != before.heads[place][0])
        if any((who, checkout) in self.worked for checkout in moved):
            return True
        names = {name for name, holder in before.holds.items() if holder == who}
        if names and step.kind in MAY_CONCERN:
            return True
        places = self._changed(before)
        if any(self._is_nested(place) or place in self.were_nested for place in places):
            return True
        changed = {place[1] for place in places if step.kind not in HARMLESS or (who, place) not in self.left}
        if any(fnmatch(path, name) for path in changed for name in names):
            return True
        if self._moved(who, before) or self._is_behind_link(names, step, before):
            return True
        return any(name in names for commit in self._new_commits(before) for name in commit.paths)

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

    def _has_copies(self, who: str) -> bool:
        """Whether lines in an agent's files are in other files. The next command that touches them may tell."""
        files = self.seen.files.items()
        mine = {text for (_, name), found in files if self.seen.holds.get(name) == who for text in _written(found)}
        mine |= {text for (holder, _), left in self.left.items() if holder == who and left for text in _written(left)}
        others = {text for (_, name), found in files if self.seen.holds.get(name) != who for text in _written(found)}
        return bool(mine & others)

    def _moved(self, who: str, before: Seen) -> bool:
        """Whether lines of an agent have come to other files."""
        lines = [line for line in self.lines.values() if line.who == who]
        return any(
            line.text in found.contents and (place not in before.files or line.text not in before.files[place].contents)
            for line in lines
            for place, found in self.seen.files.items()
            if place != line.place
        )

    def _note_left(self, step: Step, before: Seen, told: str, *, is_late: bool) -> None:
        """What agents left: of others only that a hold has ended, of the one that acted what it changed."""
        now, here = self.seen, self.world.place_of(step.who)
        self.worked.add((step.who, here))
        if step.kind == "recover" and (step.place, step.name) in self._changed(before):
            self.look_at(step.who, (step.place, step.name))
        for key in [key for key in self.left if now.holds.get(key[1][1]) != key[0]]:
            del self.left[key]
            self.unseen.discard(key)
        for name, holder in now.holds.items():
            place = (here, name)
            changed = not _same(now.files.get(place), before.files.get(place))
            if holder != step.who or not (changed or before.holds.get(name) != holder):
                continue
            if self._is_nested(place) or f"{name} (from " in told:
                continue  # it is a file of another project now, or a copy of what somebody else left
            found = now.files.get(place)
            is_file = found is not None and found.kind == "file"
            had_it = (step.who, place) in self.left or before.holds.get(name) != holder
            if not is_file and (self._runs_beside(step) or not had_it):
                continue  # beside another command, what is gone or replaced is not what its holder left
            if not is_file and (is_late or self.overlap is not None):
                self.left.pop((step.who, place), None)  # whether it counts as what its holder left comes out later
                continue
            self.left[step.who, place] = found
            if (step.who, place) not in self.unseen or step.kind not in COMMANDS:
                self.accept(step.who, place)


def _has(seen: Seen, line: Line) -> bool:
    found = seen.files.get(line.place)
    return found is not None and line.text in found.contents


def _same(one: Found | None, other: Found | None) -> bool:
    """The same kind and contents; the mode does not count."""
    return (one and one[:2]) == (other and other[:2])


def _written(found: Found) -> list[bytes]:
    return WRITTEN.findall(found.contents)


def _text(line: Line) -> str:
    return repr(line.text.decode())


def _commit(shown: str) -> Commit:
    head, *rest = shown.split("\n")
    name, *parents = head.split()
    paths = [each.rpartition("\t")[2] for each in rest if each.startswith(":")]
    added = [each.encode() for each in rest if each.startswith("+") and not each.startswith("+++ ")]
    return Commit(name, parents, paths, [text for each in added for text in WRITTEN.findall(each)])
