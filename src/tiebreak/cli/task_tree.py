"""How `tb tasks --tree` shows tasks below the tasks that they are parts of."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..model import Task


def branches(tasks: Iterable[Task]) -> list[tuple[Task, str]]:
    """Each task with what stands before its name, such as `│  └─ `. The tasks come as `tasks.tree` answers."""
    tasks = list(tasks)
    children: dict[int | None, list[int]] = {}
    known = {task.number for task in tasks}
    for task in tasks:
        children.setdefault(task.parent if task.parent in known else None, []).append(task.number)
    lead: dict[int | None, str] = {None: ""}
    out = []
    for task in tasks:
        parent = task.parent if task.parent in known else None
        last = children[parent][-1] == task.number
        if parent is None:
            out.append((task, ""))
            lead[task.number] = ""
        else:
            out.append((task, lead[parent] + ("└─ " if last else "├─ ")))
            lead[task.number] = lead[parent] + ("   " if last else "│  ")
    return out
