"""Files with one task a line, as JSON: what `tb export` writes, and the issues of beads (`.beads/issues.jsonl`).

A line is one of beads if it has a `title` and no `name`. What beads knows and a task has no field for is kept in the
payload. Deleted issues (`tombstone`), memories and other records that are no issues are skipped.
"""

from __future__ import annotations

import json
import re

from ..errors import Invalid
from ..kinds import check
from ..limits import MAX_LABEL, MAX_NAME
from ..names import ANNOUNCEMENTS, cut, shown
from ..task_entries import KINDS_LEFT_OUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .importing import TaskFile

_PRIORITIES = ("urgent", "high", "normal", "low", "low")
"""Those of beads: 0 is critical, 4 the backlog."""
_SECTIONS = {"design": "Design", "acceptance_criteria": "Acceptance criteria", "notes": "Notes"}
_KEPT = ("assignee", "owner", "external_ref", "estimated_minutes", "created_at", "created_by", "closed_at", "due_at")
_EXTERNAL = "external:"
"""How beads refers to issues of other repositories."""


def read(text: str, into: TaskFile) -> None:
    """Read all lines; what is wrong with one is noted with its number."""
    deleted: set[str] = set()
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as exc:
            into.wrong(number, f"not valid JSON: {exc}")
            continue
        if not isinstance(value, dict):
            into.wrong(number, f"expected an object, got {shown(value)}")
        elif value.get("_type", "issue") != "issue":
            into.skipped += 1
        elif "title" not in value or "name" in value:
            into.add(number, value)
        elif value.get("status") == "tombstone":
            into.skipped += 1
            deleted.add(str(value.get("id")))
        else:
            try:
                into.add(number, _from_beads(value))
            except Invalid as exc:
                into.wrong(number, exc.message)
    _forget_deleted(into, deleted)


def _forget_deleted(into: TaskFile, deleted: set[str]) -> None:
    """Remove references to issues that were deleted: nobody has to wait for them."""
    for entry in into.entries:
        if deleted.intersection(_texts([entry.get("parent")])):
            del entry["parent"]
        if deleted.intersection(_texts(entry.get("after"))):
            entry["after"] = [ref for ref in entry["after"] if ref not in deleted]


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _from_beads(issue: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(issue.get("id"), str):
        raise Invalid(
            f"id: a line with a `title` is an issue of beads and needs its `id`, got {shown(issue.get('id'))}",
            hint="the lines of `tb export` have a `name`",
        )
    name, rest = _name(issue["title"])
    kind, tags = _kind(issue.get("issue_type") or "task")
    parent, after, links = _links(issue)
    closed = issue.get("status") == "closed"
    about = {field: issue[field] for field in _KEPT if issue.get(field) not in (None, "")}
    if not closed and issue.get("status") not in (None, "", "open"):
        about["status"] = issue["status"]
    entry = {
        "key": issue["id"],
        "name": name,
        "body": _body(issue, rest) or None,
        "kind": kind,
        "priority": _priority(issue.get("priority", 2)),
        "tags": [*tags, *filter(None, (tag(each) for each in _texts(issue.get("labels"))))],
        "payload": {"beads": {**about, **links}} if about or links else None,
        "parent": parent,
        "after": after,
        "state": "completed" if closed else "pending",
        "result": issue.get("close_reason") or None if closed else None,
        "comments": _comments(issue.get("comments")),
    }
    return {field: value for field, value in entry.items() if value not in (None, [])}


def _name(title: Any) -> tuple[str, str]:
    """A title as one line that is short enough, and the whole title if it was too long."""
    if not isinstance(title, str):
        raise Invalid(f"title: expected text, got {shown(title)}")
    line = " ".join(title.split())
    name = cut(line, MAX_NAME - 3)
    return (line, "") if name == line or len(line.encode("utf-8", "replace")) <= MAX_NAME else (name + "…", line)


def _kind(given: Any) -> tuple[str, list[str]]:
    """The kind of a task, and tags. Kinds that mean something else here become tags."""
    kind = tag(given) if isinstance(given, str) else ""
    if kind in (*ANNOUNCEMENTS, *KINDS_LEFT_OUT):
        return "task", [kind]
    return kind or "task", []


def tag(text: str) -> str:
    """A text as a tag: what is not allowed there becomes `-`; "" if nothing is left."""
    made = re.sub(r"[^A-Za-z0-9._:/+@-]+", "-", text).strip("-")
    return re.sub(r"^[^A-Za-z0-9_]+", "", made)[:MAX_LABEL]


def _priority(given: Any) -> str:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < len(_PRIORITIES):
        raise Invalid(f"priority: a number from 0 to {len(_PRIORITIES) - 1}, got {shown(given)}")
    return _PRIORITIES[given]


def _body(issue: dict[str, Any], title: str) -> str:
    """The description of a task: that of the issue, and the issue's other texts under headings."""
    parts = [title, issue.get("description")]
    for field, heading in _SECTIONS.items():
        if isinstance(issue.get(field), str) and issue[field].strip():
            parts.append(f"## {heading}\n\n{issue[field].strip()}")
    return "\n\n".join(part for part in parts if isinstance(part, str) and part.strip())


def _links(issue: dict[str, Any]) -> tuple[str | None, list[str], dict[str, list[str]]]:
    """The parent of an issue, the issues that it comes after, and all other links by their type."""
    parent: str | None = None
    after: list[str] = []
    others: dict[str, list[str]] = {}
    for link in issue.get("dependencies") or ():
        target, kind = (link.get("depends_on_id"), link.get("type")) if isinstance(link, dict) else (None, None)
        if not isinstance(target, str) or not isinstance(kind, str):
            raise Invalid(f"dependencies: expected objects with depends_on_id and type, got {shown(link)}")
        if link.get("issue_id", issue["id"]) != issue["id"]:
            continue
        if kind == "blocks" and not target.startswith(_EXTERNAL):
            after.append(target)
        elif kind == "parent-child" and parent is None:
            parent = target
        else:
            others.setdefault(kind, []).append(target)
    return parent, after, others


def _comments(given: Any) -> list[dict[str, Any]]:
    made = []
    for comment in given if isinstance(given, list) else ():
        if isinstance(comment, dict) and isinstance(comment.get("text"), str) and comment["text"].strip():
            author = " ".join(str(comment.get("author") or "somebody").split())
            made.append({"author": author, "text": comment["text"], "at": _time(comment.get("created_at"))})
    return made


def _time(given: Any) -> float | None:
    """When a comment was written; None if the file does not say so, or says the year 1."""
    try:
        return float(check("Moment", given, "created_at"))
    except Invalid:
        return None
