"""Kinds: the declared types of parameters, fields and answers, each parsed once from its declaration.

An operation declares its parameters with names such as `ref: Ref`, `tags: list[Label]` or `note: Note | None`.
`Kind.of` turns such a text into a `Kind`. A kind checks and normalises a value, whatever its source (Python, command
line, JSON-RPC), and it describes itself for OpenAPI, the references and the type checker.

A schema accepts at least everything that the server accepts. The server counts the length of a text in bytes, JSON
Schema in characters. A text never has more characters than bytes, so both use the same figure. A text that passes the
schema but has too many bytes is refused by the check.
"""

from __future__ import annotations

from . import limits, names
from .errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Check = Callable[[Any, str], Any]
    Schema = dict[str, Any]


class Rule:
    """What the name of a kind means: its check, its description, its JSON Schema and its Python type."""

    __slots__ = ("check", "doc", "python", "schema")

    def __init__(self, check: Check, doc: str, schema: Schema, python: str = "str") -> None:
        self.check = check
        self.doc = doc
        self.schema = schema
        self.python = python
        """The type of what a caller may give, which is often wider than what an operation gets after the check."""


class Kind:
    """A declared kind: a name that has a rule, a record, or a list of another kind; each may be optional."""

    __slots__ = ("item", "name", "optional", "rule", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        """As declared: `list[Label] | None`."""
        self.name = text.removesuffix(" | None")
        """Without the `| None`."""
        self.optional = self.name != text
        """Whether None is one of its values."""
        self.item = Kind.of(self.name[5:-1]) if self.name.startswith("list[") else None
        """The kind of its items, if it is a list."""
        self.rule = RULES.get(self.name)
        """How its values are checked; None for a list, and for kinds that only occur in answers."""

    @staticmethod
    def of(text: str) -> Kind:
        """The kind with this declaration; always the same object."""
        found = _KINDS.get(text)
        if found is None:
            found = _KINDS[text] = Kind(text)
        return found

    @property
    def base(self) -> str:
        """The innermost name: `Label` of `list[Label | None]`."""
        return self.name if self.item is None else self.item.base

    def check(self, value: Any, what: str) -> Any:
        """The value, checked and normalised; raises `Invalid`."""
        if value is None and self.optional:
            return None
        if self.rule is not None:
            return self.rule.check(value, what)
        if self.item is None:
            raise LookupError(f"nothing is known of the kind {self.text!r}")
        if not isinstance(value, (list, tuple)):
            raise Invalid(f"{what}: expected a list, got {names.shown(value)}")
        if len(value) > limits.MAX_LIST:
            raise Invalid(f"{what}: {len(value)} entries, the limit is {limits.MAX_LIST}")
        return [self.item.check(item, f"{what}[{i}]") for i, item in enumerate(value)]

    def schema(self) -> Schema:
        """The JSON Schema of what may be given."""
        if self.item is not None:
            made: Schema = {"type": "array", "maxItems": limits.MAX_LIST, "items": self.item.schema()}
        else:
            made = dict(RULES[self.name].schema)
        return {"anyOf": [made, {"type": "null"}]} if self.optional and made else made

    def words(self, shown: Callable[[str], str] = str) -> str:
        """The kind in words: `list of Label or null`; `shown` writes a name."""
        text = shown(self.name) if self.item is None else f"list of {self.item.words(shown)}"
        return f"{text} or null" if self.optional else text

    @property
    def python(self) -> str:
        """The Python type of what may be given, as a type checker reads it."""
        if self.item is not None:
            text = f"Sequence[{self.item.python}]"
        else:
            text = RULES[self.name].python if self.rule else self.name
        return f"{text} | None" if self.optional and text != "Any" else text

    def __repr__(self) -> str:
        return f"Kind({self.text!r})"


_KINDS: dict[str, Kind] = {}


def check(kind: str, value: Any, what: str) -> Any:
    """Check a value against a declared kind such as `Name`, `Name | None` or `list[Name]`."""
    return Kind.of(kind).check(value, what)


def _of_jobs(name: str) -> Check:
    """A check that only jobs need. Its module is imported on first use."""

    def check(value: Any, what: str) -> Any:
        from . import job_fields

        return getattr(job_fields, name)(value, what)

    return check


def _task_entry(value: Any, what: str) -> Any:
    """A check that only importing needs. Its module is imported on first use."""
    from .task_entries import entry

    return entry(value, what)


def _text(most: int, pattern: str = "") -> Schema:
    made: Schema = {"type": "string", "minLength": 1, "maxLength": most}
    return {**made, "pattern": f"^{pattern}$"} if pattern else made


def _whole(low: int, high: int = limits.MAX_NUMBER) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high}


def _counted(high: int) -> Rule:
    return Rule(names.integer(1, high), f"1 to {high}", _whole(1, high), "int")


def _word(words: tuple[str, ...], doc: str = "") -> Rule:
    listed = f"{', '.join(f'`{word}`' for word in words[:-1])} or `{words[-1]}`"
    return Rule(names.one_of(words), doc or listed, {"type": "string", "enum": list(words)})


def _duration(low: float, high: float) -> Schema:
    return {"type": ["number", "string"], "minimum": low, "maximum": high, "minLength": 1}


_LABEL = f"[A-Za-z0-9_][A-Za-z0-9._:/+@-]{{0,{limits.MAX_LABEL - 1}}}"
_MORE = "[A-Za-z0-9._:/+@-]"
_OTHER_NAMES = f"( commit/{_MORE}{{1,57}})?( [A-Za-z0-9_]{_MORE}{{0,56}}-[0-9a-f]{{6}})?( local/{_MORE}{{1,58}})?"
_SESSION = f"[A-Za-z0-9_.-]{{1,{limits.MAX_LABEL}}}"
_DURATION = "seconds, or `90s`, `5m`, `1h`"

RULES: dict[str, Rule] = {
    "Name": Rule(names.name, f"one printable line, at most {limits.MAX_NAME} bytes", _text(limits.MAX_NAME)),
    "Note": Rule(names.note, f"one printable line, at most {limits.MAX_NOTE} bytes", _text(limits.MAX_NOTE)),
    "Text": Rule(names.text, f"text, at most {limits.MAX_TEXT} bytes", _text(limits.MAX_TEXT)),
    "AnyText": Rule(
        names.any_text,
        f"text, at most {limits.MAX_TEXT} bytes, may be empty",
        {"type": "string", "maxLength": limits.MAX_TEXT},
    ),
    "Label": Rule(
        names.label, f"letters, digits and ._:/+@-, at most {limits.MAX_LABEL}", _text(limits.MAX_LABEL, _LABEL)
    ),
    "Key": Rule(
        names.key, f"printable, no blanks, at most {limits.MAX_KEY} bytes", _text(limits.MAX_KEY, r"[^#\s][^\s]*")
    ),
    "Ref": Rule(
        names.ref,
        "a task: number (`42` or `#42`), id, unique id prefix or key (`key:42` for a key that is a number)",
        {**_text(limits.MAX_KEY), **_whole(1), "type": ["string", "integer"]},
        "str | int",
    ),
    "AgentId": Rule(names.agent, "`name` or `name~session`", _text(limits.MAX_AGENT, f"{_LABEL}(~{_SESSION})?")),
    "Project": Rule(
        names.project_names,
        "a project's name, or several names of one project, separated by blanks",
        _text(4 * limits.MAX_LABEL + 3, f"{_LABEL}{_OTHER_NAMES}"),
    ),
    "Resource": Rule(
        names.resource,
        "`file:PATH` (of one checkout: `file:` and `//CHECKOUT/PATH`), `lock:`, `seat:` or `pool:NAME`, "
        f"at most {limits.MAX_RESOURCE} bytes",
        _text(limits.MAX_RESOURCE, f"((lock|seat|pool):{_LABEL}|file:.+)"),
    ),
    "Priority": _word(names.PRIORITIES),
    "State": _word(names.STATES, "a task's state"),
    "AgentStatus": _word(names.STATUSES, "an agent's status"),
    "Policy": _word(names.POLICIES),
    "Role": _word(names.ROLES),
    "Order": _word(names.ORDERS),
    "Seconds": Rule(names.seconds, _DURATION, _duration(0, limits.MAX_DELAY), "float | str"),
    "Lease": Rule(
        names.lease,
        f"{_DURATION}; at most {limits.MAX_LEASE / limits.DAY:g} days",
        _duration(limits.MIN_DURATION, limits.MAX_LEASE),
        "float | str",
    ),
    "Count": _counted(limits.MAX_COUNT),
    "Limit": _counted(limits.MAX_LIMIT),
    "HoldLimit": _counted(limits.MAX_HOLDS),
    "Slots": _counted(limits.MAX_SLOTS),
    "Attempts": _counted(limits.MAX_ATTEMPTS),
    "Number": Rule(names.integer(0, limits.MAX_NUMBER), "a whole number from 0", _whole(0), "int"),
    "Epoch": Rule(names.integer(0, limits.MAX_NUMBER), "an epoch; 0: the grant this agent has", _whole(0), "int"),
    "Json": Rule(names.json_value, f"a JSON value, at most {limits.MAX_JSON // 1024} KiB", {}, "Any"),
    "bool": Rule(names.boolean, "true or false", {"type": "boolean"}, "bool"),
    "CommandOrCall": Rule(
        _of_jobs("command"),
        'text for the shell, an array of words, or `{"call": "module.function", "args": […], "kwargs": {…}}`',
        {
            "type": ["string", "array", "object"],
            "minLength": 1,
            "maxLength": limits.MAX_TEXT,
            "minItems": 1,
            "maxItems": limits.MAX_LIST,
            "items": {"type": "string"},
            "required": ["call"],
            "properties": {
                "call": {"type": "string"},
                "args": {"type": "array", "items": {}},
                "kwargs": {"type": "object"},
            },
            "additionalProperties": False,
        },
        "str | Sequence[str] | dict[str, Any]",
    ),
    "Environ": Rule(
        _of_jobs("environ"),
        "an object of names and texts",
        {"type": "object", "additionalProperties": {"type": "string"}},
        "dict[str, str]",
    ),
    "Folder": Rule(_of_jobs("folder"), "an absolute path", {**_text(limits.MAX_FOLDER), "pattern": "^/"}),
    "Bounds": Rule(
        _of_jobs("bounds"),
        "`memory` in bytes, `cpu` in seconds, open `files`",
        {
            "type": "object",
            "properties": {name: _whole(1, limits.MAX_AMOUNT) for name in ("memory", "cpu", "files")},
            "additionalProperties": False,
        },
        "dict[str, int]",
    ),
    "GroupLimit": Rule(
        _of_jobs("group"),
        "`GROUP=N`: at most N of this group at once",
        _text(limits.MAX_LABEL + 6, f"{_LABEL}=[0-9]{{1,5}}"),
    ),
    "Size": Rule(
        _of_jobs("size"),
        f"bytes, up to {limits.MAX_OUTPUT // 1024**2} MiB",
        _whole(0, limits.MAX_OUTPUT),
        "int",
    ),
    "Moment": Rule(
        _of_jobs("moment"), "a time: Unix seconds or RFC 3339", _duration(0, limits.MAX_MOMENT), "float | str"
    ),
    "Lasting": Rule(
        _of_jobs("lasting"), f"{_DURATION}; not 0", _duration(limits.MIN_DURATION, limits.MAX_DELAY), "float | str"
    ),
    "Percent": Rule(_of_jobs("percent"), "0 to 100", {"type": "number", "minimum": 0, "maximum": 100}, "float"),
    "NumberAndEpoch": Rule(
        _of_jobs("grant"),
        "`[number, epoch]` of a claim",
        {"type": "array", "minItems": 2, "maxItems": 2, "items": _whole(1)},
        "Sequence[int]",
    ),
    "Outcome": Rule(
        _of_jobs("outcome"),
        "an object: `number`, `epoch`, `ok`, and perhaps `result`, `reason`, `retry`, `drained`",
        {
            "type": "object",
            "required": ["number", "epoch", "ok"],
            "properties": {
                "number": _whole(1),
                "epoch": _whole(1),
                "ok": {"type": "boolean"},
                "result": {},
                "reason": {**_text(limits.MAX_NOTE), "type": ["string", "null"]},
                "retry": {"type": "boolean"},
                "drained": {"type": "boolean"},
            },
            "additionalProperties": False,
        },
        "dict[str, Any]",
    ),
    "Chunk": Rule(
        _of_jobs("chunk"),
        "an object: `start` in bytes, `text`, and `stream` 1 or 2",
        {
            "type": "object",
            "required": ["start", "text"],
            "properties": {
                "start": _whole(0),
                "text": _text(limits.MAX_TEXT),
                "stream": {"type": "integer", "enum": [1, 2]},
            },
            "additionalProperties": False,
        },
        "dict[str, Any]",
    ),
    "TaskEntry": Rule(
        _task_entry,
        "an object with the `name` of a task, and perhaps `id`, `key`, `body`, `kind`, `priority`, `queue`, `tags`, "
        "`payload`, `parent`, `after`, `state`, `reason`, `result`, `run_anyway`, `max_attempts`, `backoff`, `at`, "
        "`comments` (objects with `author`, `text` and perhaps `at`) and `number`, which is not used",
        {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": _text(limits.MAX_NAME),
                **{each: {"type": ["string", "integer", "null"]} for each in ("id", "key", "parent")},
                "after": {
                    "type": ["array", "null"],
                    "maxItems": limits.MAX_LIST,
                    "items": {"type": ["string", "integer"]},
                },
                "tags": {"type": ["array", "null"], "maxItems": limits.MAX_LIST, "items": {"type": "string"}},
                **{each: {"type": ["string", "null"]} for each in ("body", "kind", "queue", "reason")},
                "priority": {"enum": [*names.PRIORITIES, None]},
                "state": {"enum": [*names.STATES, None]},
                **{each: {} for each in ("payload", "result")},
                "run_anyway": {"type": ["boolean", "null"]},
                **{each: {"type": ["integer", "null"]} for each in ("number", "max_attempts")},
                **{each: {"type": ["number", "string", "null"]} for each in ("backoff", "at")},
                "comments": {
                    "type": ["array", "null"],
                    "maxItems": limits.MAX_LIST,
                    "items": {
                        "type": "object",
                        "required": ["author", "text"],
                        "properties": {
                            "author": _text(limits.MAX_NAME),
                            "text": _text(limits.MAX_TEXT),
                            "at": {"type": ["number", "string", "null"]},
                        },
                        "additionalProperties": False,
                    },
                },
            },
            "additionalProperties": False,
        },
        "dict[str, Any]",
    ),
}
"""Every name that a parameter may be declared with, and its rule."""
