"""The rules for commits: the one place that says which files an agent may commit. Every way to a commit asks here.

A commit is refused

1. if the agent's grant has passed to somebody else (`git.check_grants`);
2. if another agent holds one of its files. The held file is a name in the repository, whatever is at that path now: a
   commit that deletes it, or puts a link or a folder in its place, has that file;
3. if one of its files is in quarantine (see `watched_files`). An own file also counts if a running command of another
   agent may have changed it: it will be in quarantine, unless the agent looks at it first;
4. if one of its files has lines that another agent wrote in a file which it holds, and has not committed: the file was
   moved or copied (see `moved_contents`).

A merge brings files from its further parents, a rebase repeats the changes of earlier commits, and commits that are
squashed have files as HEAD had them before. Nobody has edited these files for the new commit. So rule 2 refuses them
only if their holder works in this checkout, where they would change under the holder's hands, and rule 4 not at all.
"""

from __future__ import annotations

from ...agent_names import same_family
from ...checkouts import checkout_of
from ...errors import Lost, Refused
from ...globs import is_glob, overlap
from ...held_files import means_files_in, path_of
from ...model import holder_id
from ...names import short
from ...repository import repository
from ...text import argument, plain
from ..files.disk_state import look
from ..files.interference_report import how_back
from ..files.left_contents import is_as_left, of_others, watched_now
from ..files.moved_contents import Candidate, strays
from ..files.unexplained_changes import unseen_in
from ..files.watched_files import is_allowed
from ..guarded_file import guarded_files
from ..live_holds import live_holds
from ..working_places import WorkingPlaces
from .commit_files import CommitFiles
from .git import check_grants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...board import Board
    from ...model import Hold
    from ..files.unexplained_changes import UnseenChange
    from ..files.watched_files import WatchedFile
    from ..guarded_file import GuardedFile

SHOWN = 8
OWN_ALONE = "commit your own alone with `tb commit PATH… -m …`"
"""What to do after a refusal, where no operation of git is in progress."""


def check_commit(
    board: Board,
    root: str,
    paths: list[str],
    *,
    environ: Mapping[str, str] | None = None,
    revision: str = ":",
    others: Iterable[str] = (),
) -> None:
    """Raise `Lost`, `Refused` or `Fenced` if these paths, relative to the repository, may not be committed now.

    `revision` and a path are what git calls the contents: `:` for the index, of `environ` if it names one, or
    `COMMIT:`. `others` are the parents after the first one.
    """
    check_grants(board)
    if paths:
        files = CommitFiles(root, paths, revision=revision, others=others, environ=environ)
        CommitRules(board, root).check(files)


class CommitRules:
    """What may not be committed in a checkout. Holds and records are read once, for any number of commits."""

    def __init__(
        self,
        board: Board,
        root: str,
        *,
        committer: str | None = None,
        way_out: Callable[[], str] = lambda: OWN_ALONE,
    ) -> None:
        """`committer` is the acting agent unless it is given; "" is somebody who holds nothing."""
        found = repository(root)
        self.board = board
        self.root = found.root if found is not None else root
        self.committer = board.agent if committer is None else committer
        self.way_out = way_out
        """Says what the hint of a refusal begins with."""
        self._checkout = checkout_of(found)
        self._places = WorkingPlaces(board)
        holds = live_holds(board)
        self._records = watched_now(holds)
        self._by_name: dict[str, list[Hold]] = {}
        self._globs: list[Hold] = []
        for hold in holds:
            if means_files_in(hold.resource, self._checkout) and not same_family(holder_id(hold) or "", self.committer):
                self._put(hold)

    def _put(self, hold: Hold) -> None:
        path = path_of(hold.resource)
        if is_glob(path):
            self._globs.append(hold)
        else:
            self._by_name.setdefault(path, []).append(hold)

    def check(self, files: CommitFiles, what: str = "this commit") -> None:
        """Raise `Lost` or `Refused` if these files may not be committed."""
        if theirs := self.held(files):
            raise self.refusal(theirs, f"{what} has files that others hold")
        for record in self.quarantined(files):
            raise _in_quarantine(record)
        for change in unseen_in(self.committer, self.root, files.names):
            if change.makers:
                raise _unseen(change)
        if taken := self.with_lines_of_others(files):
            raise self._has_lines(taken, what)

    def held(self, files: CommitFiles) -> list[tuple[GuardedFile, Hold]]:
        """The files that others hold, each with the hold."""
        if not self._by_name and not self._globs:
            return []
        named = guarded_files(files.names, self.root, self.board.project_names, self._checkout)
        found = [(file, hold) for file in named for hold in self._holds_of(file.name)]
        brought = files.not_edited([file.disk_name for file, _ in found])
        return [each for each in found if each[0].disk_name not in brought or self.works_here(each[1])]

    def _holds_of(self, name: str) -> list[Hold]:
        return [*self._by_name.get(name, ()), *(each for each in self._globs if overlap(name, path_of(each.resource)))]

    def works_here(self, hold: Hold) -> bool:
        """Whether a holder works in this checkout."""
        return self._places.works_in(holder_id(hold) or "", self.root)

    def quarantined(self, files: CommitFiles) -> list[WatchedFile]:
        """The files in quarantine: the grant of their holder is current, and they are not as it left them."""
        names = set(files.names)
        records = (each for each in self._records if each.by and each.root == self.root)
        return [each for each in records if each.name in names and not _is_over(each)]

    def with_lines_of_others(self, files: CommitFiles) -> list[tuple[Candidate, WatchedFile]]:
        """The files with uncommitted lines of a file that another agent holds, each with that file's record."""
        records = of_others(self._records, self.committer)
        if not records:
            return []
        brought = files.not_edited(files.names)
        contents = files.contents(name for name in files.names if name not in brought)
        candidates = [Candidate(self.root, name, found, files.before) for name, found in contents.items()]
        return strays(candidates, records, self.committer)

    def refusal(self, theirs: list[tuple[GuardedFile, Hold]], message: str) -> Lost:
        """The refusal that names files and their holders; the message ends before them."""
        named = ", ".join(f"{plain(file.name)} by {hold.holder}" for file, hold in theirs[:SHOWN])
        first = theirs[0][1]
        return Lost(
            f"{message}: {named}{_and_more(len(theirs))}",
            hint=f"{self.way_out()}; ask with `tb send {first.holder} …`",
            holder=first.holder,
            until=first.until,
            epoch=first.epoch,
            paths=[file.name for file, _ in theirs],
        )

    def _has_lines(self, taken: list[tuple[Candidate, WatchedFile]], what: str) -> Lost:
        candidate, record = taken[0]
        holder = short(record.holder)
        return Lost(
            f"{what} has lines that {holder} wrote in {plain(record.name)} and has not committed: in "
            f"{plain(candidate.name)}{_and_more(len(taken), 1)}",
            hint=f"{self.way_out()}; ask with `tb send {holder} …`; `tb guard clear {argument(candidate.path)}` when a "
            "person has looked at it",
            holder=holder,
            epoch=record.epoch,
            paths=[each.name for each, _ in taken],
        )


def _is_over(record: WatchedFile) -> bool:
    """Whether the holder has its contents back, or a person has allowed what is there."""
    state = look(record.root, record.name)
    now = state.fingerprint()
    return now is not None and (is_as_left(record, state, now) or is_allowed(record.path, now))


def _in_quarantine(record: WatchedFile) -> Refused:
    holder, path = short(record.holder), argument(record.path)
    return Refused(
        f"{plain(record.name)} changed while a command of {short(record.by)} ran and {holder} holds it",
        hint=f"{holder} reads it again first (`tb renew {path}` says so); `tb guard clear {path}` when a person has "
        "looked at it",
    )


def _unseen(change: UnseenChange) -> Refused:
    record, makers = change.record, " and ".join(map(short, change.makers))
    return Refused(
        f"{plain(record.name)} {change.state.words(record.root)} while a command of {makers} runs, and you have not "
        "read it since",
        hint=f"if it is right, `tb renew {argument(record.path)}` says so.{how_back(record, change.state)}",
    )


def _and_more(count: int, shown: int = SHOWN) -> str:
    return f" and {count - shown} more" if count > shown else ""
