"""Checks for the entries of `tasks.import`, which are also what `tasks.export` answers with.

An entry is one task in a form that does not depend on a board: other tasks are named by the `id` or the `key` of their
entries. `kinds` imports this module when something is imported, not before.
"""

from __future__ import annotations

from .errors import Invalid
from .kinds import Kind
from .names import FINAL, JOB, MOST_DIGITS, OF_SCHEDULES, QUESTION, is_digits, is_uuid, key, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FROM_ID = "import:"
"""How the key of a task begins whose entry had an id like those of tasks and no key. A key cannot look like an id."""
KINDS_LEFT_OUT = (JOB, QUESTION)
"""Kinds of tasks that are neither imported nor exported: they carry a command, or wait for a person's answer."""

_FIELDS = {
    "number": "Number",
    "name": "Name",
    "body": "Text",
    "kind": "Label",
    "priority": "Priority",
    "queue": "Label",
    "tags": "list[Label]",
    "payload": "Json",
    "state": "State",
    "reason": "Note",
    "result": "Json",
    "run_anyway": "bool",
    "max_attempts": "Attempts",
    "backoff": "Seconds",
    "at": "Moment",
}
FIELDS = ("id", "key", *_FIELDS, "parent", "after", "comments")
"""Everything that an entry may have."""
_OF_COMMENTS = {"author": "Name", "text": "Text", "at": "Moment"}


def entry(value: Any, what: str) -> dict[str, Any]:
    """An entry, checked and normalised: fields that are null are left out."""
    given = _fields(value, FIELDS, what)
    made: dict[str, Any] = {}
    if "id" in given:
        made["id"] = _id(given["id"], f"{what}: id")
    if "key" in given:
        made["key"] = _key(_text(given["key"]), f"{what}: key")
    for field, kind in _FIELDS.items():
        if field in given:
            made[field] = Kind.of(kind).check(given[field], f"{what}: {field}")
    if "parent" in given:
        made["parent"] = _ref(given["parent"], f"{what}: parent")
    if "after" in given:
        made["after"] = [_ref(each, f"{what}: after") for each in _list(given["after"], f"{what}: after")]
    if "comments" in given:
        comments = _list(given["comments"], f"{what}: comments")
        made["comments"] = [_comment(each, f"{what}: comments[{i}]") for i, each in enumerate(comments)]
    return _sensible(made, what)


def _fields(value: Any, known: tuple[str, ...], what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(f"{what}: expected an object, got {shown(value)}")
    for name in value:
        if name not in known:
            raise Invalid(f"{what}: unknown field {shown(name)}", hint=f"it takes: {', '.join(known)}")
    return {name: each for name, each in value.items() if each is not None}


def _list(value: Any, what: str) -> list[Any]:
    return list(Kind.of("list[Json]").check(value, what))


def _text(value: Any) -> Any:
    """A whole number as text: files often number their entries."""
    number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**MOST_DIGITS
    return str(value) if number else value


def _id(value: Any, what: str) -> str:
    value = _text(value)
    return value.lower() if isinstance(value, str) and is_uuid(value) else key(value, what)


def _key(value: Any, what: str) -> str:
    checked = key(value, what)
    if checked.startswith(OF_SCHEDULES):
        raise Invalid(f"{what}: keys that begin with {OF_SCHEDULES} belong to the jobs of schedules")
    return checked


def _ref(value: Any, what: str) -> str:
    checked = str(Kind.of("Ref").check(_text(value), what))
    return checked.lower() if is_uuid(checked) else checked


def _comment(value: Any, what: str) -> dict[str, Any]:
    given = _fields(value, tuple(_OF_COMMENTS), what)
    for field in ("author", "text"):
        if field not in given:
            raise Invalid(f"{what}: {field} is missing")
    return {
        name: Kind.of(kind).check(given[name], f"{what}: {name}")
        for name, kind in _OF_COMMENTS.items()
        if name in given
    }


def _sensible(made: dict[str, Any], what: str) -> dict[str, Any]:
    """Refuse what no single field shows to be wrong."""
    if "name" not in made:
        raise Invalid(f"{what}: name is missing")
    if made.get("kind") in KINDS_LEFT_OUT:
        raise Invalid(f"{what}: kind: a {made['kind']} cannot be imported, only tasks that somebody claims")
    if made.get("state") not in FINAL:
        for field in ("reason", "result"):
            if field in made:
                raise Invalid(f"{what}: {field}: only a finished task has one")
    if "key" not in made and made.get("id", "").startswith(OF_SCHEDULES):
        _key(made["id"], f"{what}: id")
    return made


def key_of_entry(checked: dict[str, Any]) -> str | None:
    """The key that the task of an entry gets: its own, else its id, else none."""
    if "key" in checked or "id" not in checked:
        return checked.get("key")
    return f"{FROM_ID}{checked['id']}" if is_uuid(checked["id"]) else checked["id"]


def means_board(ref: str) -> bool:
    """Whether a reference names a task of the board, whatever ids and keys the entries have: `#42`."""
    return ref.startswith("#")


def called(checked: dict[str, Any]) -> str:
    """An entry in a message: by its key or id, else by its name."""
    named = checked.get("key") or checked.get("id")
    return str(named) if named and not is_digits(named) else shown(checked["name"])
