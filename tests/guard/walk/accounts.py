"""The account of a walk: whether everybody was told what had to be told, and nothing else.

When a step changes a file that another agent holds, or the branch under it, both are told; otherwise nobody is. What
became of the lines themselves is in the ledger.
"""

from __future__ import annotations

from fnmatch import fnmatch
from typing import TYPE_CHECKING, NamedTuple

from .ledger import WRITTEN, Ledger, look, same
from .steps import COMMANDS, END, PLACES, TOOLS, WHO

if TYPE_CHECKING:
    from .ledger import Seen
    from .steps import Step
    from .world import Found, Place, World

MAY_CONCERN = ("git init", "no git below", "hard link")
"""What makes files unreachable without changing them, or changes no more than the number of their names."""
NOTICED = "uncommitted lines of"
"""In what is told about a copy of a holder's lines."""
HARMLESS = ("look", "touch")
"""What changes nothing: nobody has to be told."""


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


class Account(Ledger):
    """The ledger, and what everybody was told."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.heard = dict.fromkeys(WHO, 0)
        self.overlap: Overlap | None = None
        self.worked: set[tuple[str, str]] = set()
        """Who has ever worked in which checkout: held files may be known there."""
        self.may_be_told = set[str]()
        """Who may be told something about an overlap with the next step."""

    def look_at(self, who: str, place: Place) -> None:
        """An agent reads a file, and goes on with what is there. It need not be told what happened before."""
        self.accept(who, place)
        if self.overlap is not None:
            self.overlap.open = [each for each in self.overlap.open if (each.holder, each.place) != (who, place)]

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
            if not self._is_named(each, heard[each.holder]):
                self.faults.append(f"{each.holder} was not told about {each.told} in {each.place[0]}")
            if not self._is_named(each, told):
                self.faults.append(f"{step.who} was not told about {each.told} of {each.holder} in {each.place[0]}")

    def _is_named(self, concern: Concern, text: str) -> bool:
        """Whether a text names what it is about: a file that was held in a repository inside by its name there."""
        inside = concern.told.rpartition("/")[2] if concern.place in self.were_nested else concern.told
        return concern.told in text or inside in text

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
        return same(now, left) and not (mode and now and left and now.stamp[:1] != left.stamp[:1])

    def _concerns(self, step: Step, who: str, before: Seen) -> list[Concern]:
        """What another agent has to be told about a step."""
        out = []
        for (holder, place), left in sorted(self.left.items()):
            was, is_ = before.files.get(place), self.seen.files.get(place)
            if (who, place) in self.unseen or self._is_nested(place):
                continue  # the holder was told of a change there, and has not looked since
            if step.kind in TOOLS and is_ is not None and is_.kind == "folder":
                continue  # a tool made the folder of its file where a file is held that is not there
            if holder == who and same(was, left) and not same(is_, left):
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
            changed = not same(now.files.get(place), before.files.get(place))
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


def _written(found: Found) -> list[bytes]:
    return WRITTEN.findall(found.contents)
