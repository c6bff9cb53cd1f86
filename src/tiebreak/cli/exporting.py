"""`tb export`: the tasks of a project as JSON lines, or as a Markdown check list.

Tasks are read page by page and go to a temporary file first. Only the ids of tasks and of those that they refer to stay
in memory, which is a few hundred bytes for each task. Then they are written in an order in which parents and
predecessors come first.

Each page is one moment of the board. A task that changes meanwhile is exported as it was when its page was read. A
reference to a task that is on no page, because it ended meanwhile, is left out.
"""

from __future__ import annotations

import json
import os
import sys

from ..errors import Invalid, Refused
from ..files import create_file
from ..task_order import groups
from ..text import block, plain
from .importing import FORMATS, counted
from .parser import Argument, Option, command
from .tasks import OPEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, Any

    from .context import Context
    from .parser import Args

_PAGE = 200
_MARKS = {"completed": "x", "failed": "-", "cancelled": "-"}


@command(
    "export",
    "Write the open tasks to a file or to standard output: JSON lines or a Markdown check list, for `tb import`.",
    Argument("file", "the file to create (default: standard output)", optional=True),
    Option("format", "FORMAT", "jsonl or markdown (default: by the file's name, else jsonl)"),
    Option("all", text="also finished tasks"),
    Option("state", "STATE", "only in this state (repeatable)", many=True, sets="tasks.export.states"),
    Option("force", text="replace the file if it exists"),
    example="tb export tasks.jsonl --all",
)
def export(context: Context, args: Args) -> int:
    """Descriptions, parents, dependencies and comments are exported. Jobs, claims and times are not.

    A Markdown list has names, descriptions, children and keys, and says what is done.
    """
    format_ = _format(args.format, args.file or "")
    to_file = args.file not in (None, "-")
    if context.json and not to_file and format_ != "jsonl":
        raise Invalid("export: --json needs a FILE for a check list, because both would go to standard output")
    if to_file and not args.force and os.path.lexists(args.file):
        raise _exists(args.file)
    spool = _Spool(context)
    spool.fill(args.state or (None if args.all else OPEN))
    lines = spool.lines() if format_ == "jsonl" else _markdown(spool)
    if spool.freed:
        waits = "1 task waits" if spool.freed == 1 else f"{spool.freed} tasks wait"
        context.warn(f"{waits} for a question or a job, which are not exported: whoever imports it finds it ready")
    for number in spool.cut:
        context.warn(f"#{number} has more comments than can be exported; the newest were")
    if to_file:
        _write(args.file, lines, replace=args.force)
        answer = {"file": args.file, "format": format_, "tasks": len(spool)}
        context.answer(answer, f"exported {counted(len(spool))} to {plain(args.file)}")
    elif context.json:
        for i, line in enumerate(lines):
            context.say(f"{',' if i else '['}{line}")
        context.say("]" if len(spool) else "[]")
    else:
        for line in lines:
            context.say(block(line) if sys.stdout.isatty() else line)
    return 0


def _format(given: str | None, file: str) -> str:
    if given is not None and given not in FORMATS:
        raise Invalid(f"export: --format: one of {', '.join(FORMATS)}, got {given!r}")
    named = next((name for name, ends in FORMATS.items() if os.path.splitext(file)[1].lower() in ends), "jsonl")
    return given or named


def _exists(file: str) -> Refused:
    return Refused(f"export {plain(file)}: exists already", hint="give another name, or see `tb help export`")


def _write(file: str, lines: Iterator[str], *, replace: bool) -> None:
    """Write a file that appears under its name only when it is complete."""

    def fill(partial: str) -> None:
        with open(partial, "w", encoding="utf-8", newline="\n") as opened:
            opened.writelines(f"{line}\n" for line in lines)

    try:
        create_file(file, fill, replace=replace)
    except FileExistsError:
        raise _exists(file) from None
    except OSError as exc:
        raise Refused(f"export {plain(file)}: {exc.strerror or exc}") from None


class _Spool:
    """All entries of an export: their text in a temporary file, and how they refer to each other in memory."""

    def __init__(self, context: Context) -> None:
        import tempfile

        self._context = context
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (until the process ends)
        self._starts: list[int] = []
        self._places: dict[bytes, int] = {}
        self._parents: list[bytes] = []
        self._after: list[tuple[bytes, ...]] = []
        self.freed = 0
        """How many blocked tasks wait for nothing that was exported."""
        self.cut: list[int] = []
        """The tasks of which not all comments were exported."""

    def __len__(self) -> int:
        return len(self._starts)

    def fill(self, states: list[str] | None) -> None:
        """Read all pages."""
        after: int | None = 0
        while after is not None:
            page = self._context.board.tasks.export(states=states, after=after, limit=_PAGE)
            for entry in page["entries"]:
                self._add(entry)
            self.cut += page["cut"]
            after = page["next"]
            self._context.progress(f"{len(self)} tasks …" if after is not None else "")

    def _add(self, entry: dict[str, Any]) -> None:
        self._places[_short(entry["id"])] = len(self._starts)
        self._parents.append(_short(entry.get("parent", "")))
        self._after.append(tuple(map(_short, entry.get("after", ()))))
        self.freed += entry["state"] == "blocked" and not entry.get("after")
        self._starts.append(self._file.tell())
        self._file.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")

    def entry(self, place: int) -> dict[str, Any]:
        """One entry; what it refers to is exported, too."""
        self._file.seek(self._starts[place])
        entry: dict[str, Any] = json.loads(self._file.readline())
        if self._parents[place] and self._parents[place] not in self._places:
            del entry["parent"]
        if not all(each in self._places for each in self._after[place]):
            entry["after"] = [each for each in entry["after"] if _short(each) in self._places]
        return entry

    def parent(self, place: int) -> int | None:
        """The place of an entry's parent."""
        return self._places.get(self._parents[place])

    def order(self) -> Iterator[int]:
        """The places of all entries, those that others refer to first."""
        known = self._places
        refs = [
            [known[each] for each in (self._parents[i], *self._after[i]) if each in known] for i in range(len(self))
        ]
        return (place for group in groups(refs) for place in group)

    def lines(self) -> Iterator[str]:
        """The entries as JSON lines."""
        for place in self.order():
            yield json.dumps(self.entry(place), ensure_ascii=False)


def _short(id_: str) -> bytes:
    """An id in a third of the memory."""
    return bytes.fromhex(id_.replace("-", ""))


def _markdown(spool: _Spool) -> Iterator[str]:
    """The entries as a check list, each directly before its children."""
    children: dict[int | None, list[int]] = {}
    for place in spool.order():
        children.setdefault(spool.parent(place), []).append(place)
    left = [(place, 0) for place in reversed(children.get(None, []))]
    while left:
        place, depth = left.pop()
        yield from _item(spool.entry(place), "  " * depth)
        left += [(child, depth + 1) for child in reversed(children.get(place, []))]


def _item(entry: dict[str, Any], margin: str) -> Iterator[str]:
    key = entry.get("key", "")
    named = f"key: {key}" if key and "--" not in key else f"id: {entry['id']}"
    yield f"{margin}- [{_MARKS.get(entry['state'], ' ')}] {entry['name']} <!-- {named} -->"
    for line in _description(entry.get("body") or ""):
        yield f"{margin}  {line}".rstrip()


def _description(body: str) -> Iterator[str]:
    """The lines of a description, none of which is read as an item, and without a code block that does not end."""
    from .import_markdown import FENCE, LIKE_ITEM

    fence = ""
    for line in body.strip("\n").split("\n") if body.strip() else ():
        yield LIKE_ITEM.sub(r"\1\\\2", line)
        mark = FENCE.match(line)
        if not fence:
            fence = mark[1] if mark else ""
        elif mark and line.strip().startswith(fence) and set(line.strip()) == {fence[0]}:
            fence = ""
    if fence:
        yield fence
