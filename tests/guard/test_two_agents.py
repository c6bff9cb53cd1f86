"""Two agents in one repository, two hundred random steps: nobody loses an edit or commits another's lines."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tiebreak import Lost, Refused, TiebreakError

from .actors import Claude, Denied, git, put, repository

STEPS = 200
FILES = {f"src/{name}.txt": f"first line of {name}\n" for name in ("red", "green", "blue")}

if TYPE_CHECKING:
    from tiebreak.engine.protocol import Engine


class Unguarded(Claude):
    """The same agent in a repository without the guard: nobody is asked, and git commits what is there."""

    def say(self, event: str, **more: object) -> dict[str, object]:
        """Nobody listens."""
        return {}

    def commit(self, *names: str, message: str = "work", branch: str = "") -> dict[str, object]:
        """All that has changed, as agents do it."""
        git("add", "--all", cwd=self.cwd)
        git("commit", "--quiet", "--allow-empty", "-m", message, cwd=self.cwd)
        return {"commit": git("rev-parse", "HEAD", cwd=self.cwd).strip()}


class Play:
    """A random life of two agents, and an account of every line that was written."""

    def __init__(self, agents: dict[str, Claude], seed: int) -> None:
        self.agents = agents
        self.dice = random.Random(seed)
        self.lines: dict[str, list[tuple[str, str]]] = {name: [] for name in agents}
        self.changed: dict[str, set[str]] = {name: set() for name in agents}
        self.commits: list[tuple[str, str]] = []
        self.happened: Counter[str] = Counter()
        self.reasons: list[str] = []

    def run(self) -> Play:
        """Two hundred steps, and at the end everybody commits what is theirs."""
        for number in range(STEPS):
            who = self.dice.choice(sorted(self.agents))
            name = self.dice.choice(sorted(FILES))
            does = self.dice.choice((self.edit, self.write, self.write, self.bash, self.read, self.commit, self.stop))
            try:
                does(who, name, f"{who} {number}\n")
            except Denied as denied:
                self.reasons.append(denied.reason)
                self.happened["held" if "is held by" in denied.reason else "stale"] += 1
                if "Read it again" in denied.reason and self.dice.random() < 0.5:
                    self.read(who, name, "")
        for who in sorted(self.agents):
            self.commit(who, "", "")
        return self

    def read(self, who: str, name: str, line: str) -> None:
        self.agents[who].read(name)

    def edit(self, who: str, name: str, line: str) -> None:
        self.agents[who].edit(name, "", line)
        self.wrote(who, name, line)

    def write(self, who: str, name: str, line: str) -> None:
        """The whole file as the agent believes it to be, with one line more."""
        agent = self.agents[who]
        if name not in agent.seen:
            agent.read(name)
        agent.write(name, agent.seen[name] + line)
        self.wrote(who, name, line)

    def wrote(self, who: str, name: str, line: str) -> None:
        self.lines[who].append((name, line))
        self.changed[who].add(name)
        self.happened["written"] += 1

    def bash(self, who: str, name: str, line: str) -> None:
        """A command that writes behind the hooks' backs; if the file was somebody else's, it is taken back."""
        agent, path = self.agents[who], self.agents[who].cwd / name
        before = path.read_text()
        told = agent.bash(f"printf '%s\\n' '{line.strip()}' >> {name}")
        if "other agents hold" not in told:
            self.wrote(who, name, line)
            return
        self.happened["quarantined"] += 1
        other = next(each for each in self.agents.values() if each is not agent)
        if other.cwd == agent.cwd:
            with pytest.raises(Refused):
                other.commit(name)
            with pytest.raises(Denied, match=r"was changed since you last saw it|you have never read it"):
                other.write(name, other.seen.get(name, "") + "written over it\n")
        with pytest.raises(Lost):
            agent.commit(name)
        agent.bash(f"cp {_kept(path, before)} {name}")

    def commit(self, who: str, name: str, line: str) -> None:
        names = sorted(self.changed[who])
        if not names:
            return
        try:
            made = self.agents[who].commit(*names, message=f"work of {who}")
        except TiebreakError as refused:
            self.happened["nothing"] += "nothing to commit" in refused.message
            if "nothing to commit" not in refused.message:
                raise
        else:
            self.commits.append((who, str(made["commit"])))
        self.changed[who].clear()

    def stop(self, who: str, name: str, line: str) -> None:
        self.agents[who].stop()

    # ── The account ──────────────────────────────────────────────────────────────────────────────────

    def lost(self) -> list[str]:
        """Lines that an agent wrote and that are not there any more."""
        return [
            line
            for who, written in self.lines.items()
            for name, line in written
            if line not in (self.agents[who].cwd / name).read_text().splitlines(keepends=True)
        ]

    def foreign(self) -> list[str]:
        """Lines in somebody's commits that somebody else wrote."""
        found = []
        for who, commit in self.commits:
            shown = git("show", "--format=", "--unified=0", commit, cwd=self.agents[who].cwd).splitlines()
            added = [line[1:] for line in shown if line.startswith("+") and not line.startswith("+++")]
            found += [line for line in added if not line.startswith((f"{who} ", "first line"))]
        return found


def _kept(path: Path, content: str) -> Path:
    kept = path.parents[2] / "kept.txt"
    put(kept, content)
    return kept


def play(kind: type[Claude], tmp_path: Path, engine: Engine, seed: int, *, worktrees: bool) -> Play:
    root = repository(tmp_path / "repo", FILES)
    homes = [root, root]
    if worktrees:
        git("worktree", "add", "--quiet", "-b", "other", str(tmp_path / "other"), cwd=root)
        homes[1] = tmp_path / "other"
    agents = {
        name: kind(f"session-{name}", home, lambda: engine) for name, home in zip(("ann", "ben"), homes, strict=True)
    }
    for agent in agents.values():
        agent.say("SessionStart", source="startup")
    return Play(agents, seed).run()


@pytest.mark.parametrize("worktrees", [False, True], ids=["one checkout", "two worktrees"])
def test_no_edit_is_lost_and_no_commit_has_anothers_lines(tmp_path: Path, engine: Engine, worktrees: bool) -> None:
    played = play(Claude, tmp_path, engine, 1, worktrees=worktrees)
    assert played.lost() == []
    assert played.foreign() == []
    assert len(played.commits) >= 5
    assert played.happened["written"] >= 30
    assert played.happened["held"] >= 5
    assert played.happened["quarantined"] >= 1
    assert played.happened["stale"] >= 1 or worktrees
    assert all(reason.startswith("tiebreak: ") and len(reason) > 60 for reason in played.reasons)


def test_the_same_life_without_the_guard_loses_edits_and_mixes_commits(tmp_path: Path, engine: Engine) -> None:
    played = play(Unguarded, tmp_path, engine, 1, worktrees=False)
    assert len(played.lost()) >= 5
    assert len(played.foreign()) >= 5
