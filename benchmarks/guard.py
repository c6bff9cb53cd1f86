"""What the guard costs in a large repository: each hook of a client and of git, and `tb commit` against `git commit`.

Another agent holds files with uncommitted edits there. All calls are whole processes, in turns with the bare
interpreter and with `git status` of the same repository: in a small one, in a large one, and in the large one when the
other agent holds two globs as well.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from statistics import median
from typing import TYPE_CHECKING

from .hooks import FILES, Hooks
from .measure import Report, Settings, folder, progress, spread, times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Call = Callable[[], float]

IN_A_FOLDER = 1000
MADE = 100
"""Files that a command makes at once."""
GLOBS = ("file:part-0/**", "file:part-1/*.txt")
BARE, STATUS = "python -c pass", "git status"
OWN, PLAIN, GUARDED, OURS = "own.py", "plain.py", "guarded.py", "ours.py"
"""Files that the measured agent changes: one that it holds and stages, and one for each way to commit."""
SAVED = ("git commit -- FILE, without hooks", "git commit -- FILE, with the guard's hooks", "tb commit FILE")


def run(settings: Settings) -> Report:
    """Milliseconds of each call in each repository."""
    size, holds, rounds = settings.size(100_000, 2_000), settings.size(50, 5), settings.size(30, 2)
    report = Report(
        "guard",
        f"Milliseconds of a call from start to end, median of {rounds} rounds, while another agent holds {holds} "
        f"files with uncommitted edits: in {FILES} files, in {size:,}, and there with two globs held as well. The "
        "ratios and the noise are those of the large repository without the globs.",
        ["call", f"{FILES} files", f"{size:,} files", "growth", "and 2 globs", "of bare", "of git status", "noise"],
    )
    with folder() as place:
        shop = Repositories(place)
        small = _measured(shop, "small", holds, rounds)
        shop.make_large(size)
        large = _measured(shop, "large", holds, rounds)
        shop.hold_globs()
        globs = _measured(shop, "large with globs", 0, rounds)
    for name, values in large.items():
        found = [median(each[name]) * 1000 for each in (small, large, globs)]
        ratios = [times(median(values), median(large[each])) for each in (BARE, STATUS)]
        report.add(name, found[0], found[1], times(found[1], found[0]), found[2], *ratios, spread(values))
    plain, _, ours = (median(large[name]) for name in SAVED)
    report.notes.append(f"`tb commit` takes {times(ours, plain)} the time of `git commit` without hooks.")
    return report


def _measured(shop: Repositories, name: str, holds: int, rounds: int) -> dict[str, list[float]]:
    progress(f"the {name} repository …")
    shop.prepare(holds)
    found: dict[str, list[float]] = {}
    for number in range(rounds + 1):  # the first round warms the caches up
        for called, call in shop.round(number):
            taken = call()
            if number:
                found.setdefault(called, []).append(taken)
    return found


class Repositories(Hooks):
    """The repository of the hooks' benchmark, a large one, and two agents that work in them."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place
        self.others = {**self.environ, "CLAUDE_SESSION_ID": "other"}
        self.environ["CLAUDE_SESSION_ID"] = "one"
        self.prepared = 0
        self.git = shutil.which("git") or "git"
        self._name_committer()

    def _name_committer(self) -> None:
        for key, value in (("user.name", "x"), ("user.email", "x@x"), ("gc.auto", "0")):
            self.run_git("config", key, value)

    def make_large(self, size: int) -> None:
        """Go on in another repository: so many files, all with the same contents."""
        self.here = os.path.join(self.place, "large")
        subprocess.run([self.git, "init", "--quiet", self.here], check=True)
        self._name_committer()
        names = [f"part-{number // IN_A_FOLDER}/file-{number}.py" for number in range(size)]
        for start in range(0, size, IN_A_FOLDER):
            os.makedirs(os.path.join(self.here, os.path.dirname(names[start])))
            for name in names[start : start + IN_A_FOLDER]:
                self.write(name, "x = 1\n")
        for number in range(size // IN_A_FOLDER):
            self.write(f"file-{number}.py", "x = 1\n")
        blob = self.run_git("hash-object", "-w", "--stdin", given="x = 1\n").strip()
        self.run_git("update-index", "--index-info", given="".join(f"100644 {blob}\t{name}\n" for name in names))
        self.run_git("add", "--", "file-*.py")
        self.run_git("commit", "--quiet", "-m", "begin")
        self.run_git("status", "--short")  # notes the times of the files in the index

    def prepare(self, holds: int) -> None:
        """Install the guard; another agent edits files, and this one a file of its own, which it stages."""
        self.input_text("")
        self.run([self.tb, "guard", "install"])
        for name in (OWN, PLAIN, GUARDED, OURS):
            self.write(name, f"first = {self.prepared}\n")
        self.run_git("add", "--", PLAIN, GUARDED, OURS)
        self.run_git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "files")
        self.edit_of_other([self.held(number) for number in range(holds)])
        self.hook(*self.event("SessionStart", ""))
        self.hook(*self.event("PreToolUse", "Edit", file_path=self.path(OWN)))
        self.write(OWN, f"mine = {self.prepared}\n")
        self.hook(*self.event("PostToolUse", "Edit", file_path=self.path(OWN)))
        self.run_git("add", "--", OWN)
        self.prepared += 1

    def held(self, number: int) -> str:
        """A file that the other agent holds, somewhere in the repository."""
        folders = sorted(name for name in os.listdir(self.here) if name.startswith("part-"))
        if not folders:
            return f"file-{number}.py"
        names = sorted(os.listdir(self.path(folders[number % len(folders)])))
        return f"{folders[number % len(folders)]}/{names[number]}"

    def edit_of_other(self, names: list[str]) -> None:
        """The other agent edits these files by its tools."""
        own, self.environ = self.environ, self.others
        for name in names:
            before, data = self.event("PreToolUse", "Edit", file_path=self.path(name))
            self.hook(before, {**data, "session_id": "other"})
            self.write(name, "x = 1\n# the other agent was here\n")
            after, data = self.event("PostToolUse", "Edit", file_path=self.path(name))
            self.hook(after, {**data, "session_id": "other"})
        self.environ = own

    def hold_globs(self) -> None:
        """The other agent holds whole folders, too."""
        own, self.environ = self.environ, self.others
        self.run([self.tb, "hold", *(each.removeprefix("file:") for each in GLOBS)])
        self.environ = own

    # ── What is measured ─────────────────────────────────────────────────────────────────────────────

    def round(self, number: int) -> Iterator[tuple[str, Call]]:
        """One call of each kind."""
        own, event = {"file_path": self.path(OWN)}, self.event
        yield BARE, lambda: self.spawn([self.python, "-c", "pass"])
        yield STATUS, lambda: self.in_place([self.git, "status", "--porcelain"])
        yield "before an edit", lambda: self.hook(*event("PreToolUse", "Edit", **own))
        yield "after an edit", lambda: self.hook(*event("PostToolUse", "Edit", **own))
        # The commits of the round before are new to the first of these.
        yield "before the first command after 3 commits", self.first_command
        yield "before a command", lambda: self.hook(*event("PreToolUse", "Bash", command="make"))
        yield "after a command that changed nothing", lambda: self.hook(*event("PostToolUse", "Bash", command="make"))
        yield "after a command that changed a file", lambda: self.after_change(number)
        yield f"after a command that made {MADE} files", lambda: self.after_making(number)
        yield "end of a turn, with these files held", lambda: self.end_of_turn(number)
        yield "pre-commit", lambda: self.git_hook("pre-commit", "")
        yield from self._transactions()
        commit = ["commit", "--quiet", "-m", "work", "--"]
        ways = ([self.git, "-c", "core.hooksPath=/dev/null", *commit], [self.git, *commit], [self.tb, "commit"])
        for name, way, file in zip(SAVED, ways, (PLAIN, GUARDED, OURS), strict=True):
            yield name, lambda way=way, file=file: self.saved(way, file, number)  # type: ignore[misc]

    def _transactions(self) -> Iterator[tuple[str, Call]]:
        head, new = self.run_git("rev-parse", "HEAD").strip(), self._new_commit()
        lines = "".join(f"{'0' * 40} {head} refs/remotes/origin/branch-{number}\n" for number in range(1000))
        fetch, moved = lines, f"{head} {new} refs/heads/main\n"
        yield (
            "reference-transaction, a fetch of 1,000 branches",
            lambda: self.git_hook("reference-transaction", fetch, "prepared"),
        )
        yield (
            "reference-transaction, a new commit",
            lambda: self.git_hook("reference-transaction", moved, "prepared"),
        )

    def _new_commit(self) -> str:
        """A commit of what is staged, which no branch has."""
        tree = self.run_git("write-tree").strip()
        return self.run_git("commit-tree", "-p", "HEAD", "-m", "work", tree).strip()

    def first_command(self) -> float:
        """The hook before a command that ends at once."""
        taken = self.hook(*self.event("PreToolUse", "Bash", command="make"))
        self.hook(*self.event("PostToolUse", "Bash", command="make"))
        return taken

    def after_change(self, number: int) -> float:
        """The hook after a command that has changed one file of this agent."""
        self.hook(*self.event("PreToolUse", "Bash", command="make"))
        self.write("made.py", f"made = {self.prepared}, {number}\n")
        return self.hook(*self.event("PostToolUse", "Bash", command="make"))

    def after_making(self, number: int) -> float:
        """The hook after a command that has made many files, which this agent holds from then on."""
        self.hook(*self.event("PreToolUse", "Bash", command="make"))
        for name in self.made(number):
            self.write(name, f"made = {self.prepared}\n")
        return self.hook(*self.event("PostToolUse", "Bash", command="make"))

    def end_of_turn(self, number: int) -> float:
        """The hook at the end of a turn. Afterwards the files are removed, and nobody holds them."""
        taken = self.hook(*self.event("Stop", ""))
        for name in self.made(number):
            os.unlink(self.path(name))
        self.hook(*self.event("Stop", ""))
        return taken

    def made(self, number: int) -> list[str]:
        """The files that a command of that round makes."""
        return [f"made-{self.prepared}-{number}-{each}.py" for each in range(MADE)]

    def git_hook(self, name: str, given: str, *words: str) -> float:
        """The installed hook, as git runs it."""
        self.input_text(given)
        return self.in_place([self.path(os.path.join(".git", "hooks", name)), *words])

    def saved(self, words: list[str], file: str, number: int) -> float:
        """A commit of one changed file."""
        self.write(file, f"changed = {self.prepared}, {number}\n")
        self.input_text("")
        more = ["-m", "work"] if words[0] == self.tb else []
        return self.in_place([*words, file, *more])

    # ── Small things ─────────────────────────────────────────────────────────────────────────────────

    def path(self, name: str) -> str:
        """The absolute path of a file of the repository."""
        return os.path.join(self.here, name)

    def write(self, name: str, content: str) -> None:
        """Write a file of the repository."""
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(content)

    def input_text(self, text: str) -> None:
        """What the next process finds on standard input."""
        with open(self.input, "w", encoding="utf-8") as file:
            file.write(text)

    def in_place(self, words: list[str]) -> float:
        """Seconds of a command in the repository."""
        before = os.getcwd()
        os.chdir(self.here)
        try:
            return self.spawn(words)
        finally:
            os.chdir(before)

    def run(self, words: list[str], given: str = "") -> str:
        """Run a command in the repository, which has to succeed."""
        done = subprocess.run(
            words, cwd=self.here, env=self.environ, input=given, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise AssertionError(f"{' '.join(words[:4])}: {done.stderr.strip()}")
        return done.stdout

    def run_git(self, *words: str, given: str = "") -> str:
        """Run git in the repository."""
        return self.run([self.git, *words], given)
