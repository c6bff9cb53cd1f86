"""The names of notes: safe on every file system, unique, and readable.

A note of a task or thread begins with its number, which is unique on a board. The rest of its name is for people, and
changes with the name of the task. So neither upper and lower case, nor the normal form of a letter, nor a reserved name
of Windows can make two notes collide. An agent has no number: its note is called like the agent if that is safe
everywhere, else its name is followed by a digest.
"""

from __future__ import annotations

import re
from hashlib import sha256
from itertools import count
from unicodedata import category, normalize

from ..text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Message, Task

FOLDERS_OF_KINDS = {
    "ack": "Acknowledgements",
    "decision": "Decisions",
    "knowledge": "Knowledge",
    "question": "Questions",
}
TASKS, AGENTS, MESSAGES = "Tasks", "Agents", "Messages"
ASIDE = "Changed by people"
"""Where notes are kept whose generated part somebody has changed."""
OF_TASKS = (TASKS, *FOLDERS_OF_KINDS.values())
FOLDERS = (*OF_TASKS, AGENTS, MESSAGES, ASIDE)
BOARD = "Board"
NUMBERED = re.compile(r"(\d{1,18})(?: .*)?\.md")
"""The file name of a note that has a number."""

_SAFE = frozenset("-_.,+()'")
_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_+-]{0,50}")
_RESERVED = re.compile(r"con|prn|aux|nul|com\d|lpt\d")
_MOST_CHARACTERS, _MOST_BYTES = 60, 150


def readable(text: str) -> str:
    """The part of a file name that is for people: letters, digits, blanks and a few harmless marks."""
    shown = normalize("NFC", plain(text))
    kept = "".join(char if char in _SAFE or category(char)[0] in "LNM" else " " for char in shown)
    short = " ".join(kept.split())[:_MOST_CHARACTERS]
    return short.encode()[:_MOST_BYTES].decode(errors="ignore").strip(" .")


def numbered(number: int, text: str) -> str:
    """The name of a note that has a number, without `.md`."""
    return f"{number} {readable(text)}".rstrip()


def other_stems(stem: str) -> Iterator[str]:
    """Names for a note whose own name a file of somebody else has."""
    yield f"{stem} (tiebreak)"
    for place in count(2):
        yield f"{stem} (tiebreak {place})"


def task_folder(kind: str) -> str:
    """The folder for tasks of a kind."""
    return FOLDERS_OF_KINDS.get(kind, TASKS)


def task_path(task: Task) -> str:
    """The path of a task's note, as links have it if no file of somebody else has its name."""
    return f"{task_folder(task.kind)}/{numbered(task.number, task.name)}"


def thread_title(first: Message) -> str:
    """What a thread is called: the first line of its first message."""
    return first.body.strip().split("\n", 1)[0]


def agent_stem(name: str, project: str, *, alone: bool) -> str:
    """The name of an agent's note; `alone` if the vault has only one project."""
    if alone and _PLAIN_NAME.fullmatch(name) and not _RESERVED.fullmatch(name):
        return name
    digest = sha256(f"{project}\0{name}".encode()).hexdigest()[:10]
    return f"{readable(name.replace('/', '-'))[:50].strip(' .') or 'agent'}~{digest}"
