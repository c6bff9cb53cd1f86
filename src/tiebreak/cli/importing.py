"""`tb import`: the tasks of a file, in as many calls as it takes.

A file of up to a thousand tasks is imported by one call, all or nothing. A larger one is split in such a way that
whatever a task refers to is posted before it or together with it. If a later part fails, the parts before it stay
posted. Importing the file again continues there: every task has a key, and a task whose key is known is left as it is.
"""

from __future__ import annotations

import json
import os
import re

from ..errors import Invalid, TiebreakError
from ..limits import MAX_BODY, MAX_IMPORTED, MAX_LIST, SHOWN
from ..names import by_key, key_of
from ..task_entries import entry as checked_entry
from ..task_entries import key_of_entry, means_board
from ..task_order import groups
from ..text import plain
from .context import standard_input
from .parser import Argument, Option, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..model import Imported
    from .context import Context
    from .parser import Args

FORMATS = {"jsonl": (".jsonl", ".ndjson", ".json"), "markdown": (".md", ".markdown", ".mdown")}
"""The formats of files with tasks, and how the names of such files end."""
_MOST_TOLD = 5
"""How many wrong lines an error names."""
_MOST_BYTES = MAX_BODY * 3 // 4
"""Bytes of the entries of a call: a daemon takes no larger request."""


class TaskFile:
    """The tasks of a file: its entries, with their lines, and what is wrong with other lines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[int] = []
        self.entries: list[dict[str, Any]] = []
        self._above: list[int | None] = []
        """For each entry that is below another one, which one that is."""
        self.names: dict[str, int] = {}
        """The entries by their ids and keys, once they are checked."""
        self.skipped = 0
        """How many lines are no tasks, on purpose."""
        self._wrong: list[tuple[int, str]] = []

    def add(self, line: int, entry: dict[str, Any], above: int | None = None) -> int:
        """Add an entry that begins in this line and is a child of an earlier one; its place among the entries."""
        self.lines.append(line)
        self.entries.append(entry)
        self._above.append(above)
        return len(self.entries) - 1

    def put_below(self, number: int) -> None:
        """Make the entries that have no parent children of a task of the board."""
        for entry, above in zip(self.entries, self._above, strict=True):
            if above is None and entry.get("parent") is None:
                entry["parent"] = f"#{number}"

    def wrong(self, line: int, message: str) -> None:
        """Note what is wrong with a line."""
        self._wrong.append((line, message))

    def place(self, i: int) -> str:
        """The file and the line of an entry."""
        return f"{self.name}:{self.lines[i]}"

    def check(self) -> None:
        """Check every entry and give it a key; raises `Invalid` that names the wrong lines."""
        for i, entry in enumerate(self.entries):
            try:
                self.entries[i] = checked_entry(entry, "")
            except Invalid as exc:
                self.wrong(self.lines[i], exc.message.removeprefix(": "))
        if not self._wrong:
            self._add_keys()
        if self._wrong:
            self._wrong.sort()
            (line, message), *others = self._wrong
            told = "; ".join(f"{self.name}:{at}: {words}" for at, words in others[: _MOST_TOLD - 1])
            more = f"; and {len(others) - _MOST_TOLD + 1} more lines" if len(others) >= _MOST_TOLD else ""
            raise Invalid(f"{self.name}:{line}: {message}", hint=f"also {told}{more}" if others else "")

    def _add_keys(self) -> None:
        """Give a key to each entry that has neither key nor id; refuse what is in the file twice."""
        seen: dict[tuple[str, str], int] = {}
        for i, entry in enumerate(self.entries):
            above = self._above[i]
            if above is not None:
                entry["parent"] = by_key(key_of_entry(self.entries[above]) or "")
            if "key" not in entry and "id" not in entry:
                place = entry.get("parent", ""), entry["name"]
                seen[place] = seen.get(place, 0) + 1
                entry["key"] = _made_key(*place, seen[place])
            for name in dict.fromkeys((entry.get("id"), key_of_entry(entry))):
                if name is not None and self.names.setdefault(name, i) != i:
                    self.wrong(self.lines[i], f"{name} is in line {self.lines[self.names[name]]} already")


def _made_key(parent: str, name: str, nth: int) -> str:
    """A key that is made from a text: the same each time the text is imported at the same place."""
    from hashlib import blake2b

    short = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-")
    digest = blake2b("\n".join((parent, name, str(nth))).encode(), digest_size=5).hexdigest()
    return f"{short or 'item'}-{digest}"


@command(
    "import",
    "Post the tasks of a file: JSON lines (of `tb export`, or of beads) or a Markdown check list.",
    Argument("file", "the file, or - for standard input"),
    Option("format", "FORMAT", "jsonl or markdown (default: by the file's name, else by what is in it)"),
    Option("parent", "REF", "make tasks that have no parent in the file children of this task"),
    Option("dry-run", text="only check the file and say what would be posted"),
    example="tb import plan.md --parent release-2 --dry-run",
)
def import_file(context: Context, args: Args) -> int:
    """Tasks that the board knows by their keys are left as they are, so a file can be imported again.

    A Markdown item `- [ ] text` is a task, indented items are its children, other indented text is its description, and
    `- [x]` is posted as completed. Up to a thousand tasks are posted together or not at all.
    """
    text = _text(args.file)
    name = "standard input" if args.file == "-" else plain(args.file)
    found = TaskFile(name)
    format_ = _format(args.format, args.file, text)
    if format_ == "jsonl":
        from .import_jsonl import read
    else:
        from .import_markdown import read
    read(text, found)
    if args.parent:
        found.put_below(context.board.tasks.get(ref=args.parent).number)
    found.check()
    done = _Sender(context, found, dry_run=args.dry_run).send()
    _answer(context, found, done, format_, dry_run=args.dry_run)
    return 0


def _text(file: str) -> str:
    if file == "-":
        return standard_input().removeprefix("\ufeff")
    try:
        with open(file, encoding="utf-8-sig", newline="\n") as opened:
            return opened.read()
    except OSError as exc:
        raise Invalid(f"import: {plain(file)} cannot be read: {exc.strerror or exc}") from None
    except UnicodeDecodeError as exc:
        raise Invalid(f"import: {plain(file)} is not UTF-8 text: {exc.reason} at byte {exc.start}") from None


def _format(given: str | None, file: str, text: str) -> str:
    if given is not None:
        if given not in FORMATS:
            raise Invalid(f"import: --format: one of {', '.join(FORMATS)}, got {given!r}")
        return given
    for name, ends in FORMATS.items():
        if os.path.splitext(file)[1].lower() in ends:
            return name
    begin = text.lstrip()[:2]
    if begin == "[{" or (begin[:1] == "[" and text.lstrip()[1:].lstrip()[:1] == "{"):
        raise Invalid(
            "import: a JSON array; expected one JSON object on each line", hint="`jq -c '.[]'` makes lines of it"
        )
    return "jsonl" if begin.startswith("{") else "markdown"


class _Sender:
    """Sends the entries of a file to the board, part by part."""

    def __init__(self, context: Context, found: TaskFile, *, dry_run: bool) -> None:
        self._context = context
        self._file = found
        self._dry_run = dry_run
        self._done: dict[int, Imported] = {}

    def send(self) -> list[Imported]:
        """Send all parts; one answer for each entry."""
        total = len(self._file.entries)
        for part in self._parts():
            entries = [self._for_call(i, set(part)) for i in part]
            try:
                answers = self._context.board.tasks.import_(entries, dry_run=self._dry_run)
            except TiebreakError as exc:
                self._context.progress("")
                raise self._named(exc, part) from None
            self._done.update(zip(part, answers, strict=True))
            self._context.progress(f"{len(self._done)} of {total} tasks" if len(self._done) < total else "")
        return [self._done[i] for i in range(total)]

    def _parts(self) -> list[list[int]]:
        """The entries in parts for one call each; no part refers to a later one."""
        parts: list[list[int]] = [[]]
        room = full = (MAX_LIST, MAX_IMPORTED, _MOST_BYTES)
        refs = [self._refs(i) for i in range(len(self._file.entries))]
        for group in groups(refs):
            size = self._size(group)
            if len(group) > 1 and any(each > most for each, most in zip(size, full, strict=True)):
                raise Invalid(
                    f"{self._file.place(group[0])}: {len(group)} tasks refer to each other in a circle of parents and "
                    f"dependencies; that is more than one call can take"
                )
            if parts[-1] and any(each > left for each, left in zip(size, room, strict=True)):
                parts.append([])
                room = full
            parts[-1] += group
            room = (room[0] - size[0], room[1] - size[1], room[2] - size[2])
        return [sorted(part) for part in parts if part]

    def _size(self, group: list[int]) -> tuple[int, int, int]:
        """How many entries these are, how many rows they add, and how many bytes they have."""
        entries = [self._file.entries[i] for i in group]
        rows = sum(1 + len(entry.get("after", ())) + len(entry.get("comments", ())) for entry in entries)
        return len(group), rows, sum(len(json.dumps(entry)) for entry in entries)

    def _refs(self, i: int) -> list[int]:
        """The entries that an entry refers to."""
        entry = self._file.entries[i]
        refs = [*([entry["parent"]] if "parent" in entry else []), *entry.get("after", ())]
        return [j for j in map(self._entry_of, refs) if j is not None]

    def _entry_of(self, ref: str) -> int | None:
        return None if means_board(ref) else self._file.names.get(key_of(ref))

    def _for_call(self, i: int, part: set[int]) -> dict[str, Any]:
        """An entry with the numbers of those tasks that earlier calls have posted."""
        entry = dict(self._file.entries[i])
        if "after" in entry:
            entry["after"] = [ref for ref in (self._ref(each, part) for each in entry["after"]) if ref]
        if "parent" in entry and (parent := self._ref(entry.pop("parent"), part)):
            entry["parent"] = parent
        return entry

    def _ref(self, ref: str, part: set[int]) -> str:
        """A reference as this call understands it; "" for a task that an earlier call only would have posted."""
        j = self._entry_of(ref)
        if j is None or j in part:
            return ref
        return f"#{self._done[j].number}" if self._done[j].number else ""

    def _named(self, exc: TiebreakError, part: list[int]) -> TiebreakError:
        """The error with the file and the line in place of the number of the entry."""

        def line(found: re.Match[str]) -> str:
            return self._file.place(part[int(found[1])])

        posted = sum(not each.known for each in self._done.values())
        hint = exc.own_hint
        if posted and not self._dry_run:
            hint = f"{counted(posted)} posted already; importing the file again continues with the others"
        message = re.sub(r"\bentries\[(\d+)\]", line, exc.message)
        return type(exc)(message, hint=hint, reason="" if hint else exc.reason, **exc.data)


def counted(count: int) -> str:
    """A number of tasks in words."""
    return f"{count} task{'' if count == 1 else 's'}"


def _answer(context: Context, found: TaskFile, done: list[Imported], format_: str, *, dry_run: bool) -> None:
    new = [i for i, each in enumerate(done) if not each.known]
    if context.json:
        tasks = [
            {"line": line, "number": each.number or None, "key": each.key, "state": each.state, "known": each.known}
            for line, each in zip(found.lines, done, strict=True)
        ]
        counts = {"posted": 0 if dry_run else len(new), "known": len(done) - len(new), "skipped": found.skipped}
        context.answer({"file": found.name, "format": format_, "dry_run": dry_run, **counts, "tasks": tasks})
        return
    if not done:
        looked_for = "no line with a task" if format_ == "jsonl" else "no item such as `- [ ] text`"
        context.say(f"nothing to import: {found.name} has {looked_for}")
        return
    for i in new[:SHOWN] if dry_run else []:
        context.say(f"{found.lines[i]:>6}  {plain(found.entries[i]['name'])}  ({done[i].state})")
    if dry_run and len(new) > SHOWN:
        context.say(f"        … and {len(new) - SHOWN} more")
    verb = "would post" if dry_run else "posted"
    words = [f"{verb} {counted(len(new))}", f"{len(done) - len(new)} known already"]
    words += [f"{found.skipped} skipped"] if found.skipped else []
    context.say(f"{found.name}: {', '.join(words)}")
