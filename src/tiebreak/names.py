"""What names and values may look like, and how large they may be: one rule for every way in.

An operation declares its parameters with the types below (`ref: Ref`, `lease: Lease = 300`). The
type's name finds its `Rule` here, and the rule is all there is: it checks and normalises the value
wherever it comes from (Python, command line, JSON-RPC), and describes itself for the references.
"""

from __future__ import annotations

from .errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Name: TypeAlias = str
    Note: TypeAlias = str
    Text: TypeAlias = str
    Label: TypeAlias = str
    Key: TypeAlias = str
    Ref: TypeAlias = str
    AgentId: TypeAlias = str
    Project: TypeAlias = str
    Resource: TypeAlias = str
    Priority: TypeAlias = str
    State: TypeAlias = str
    Status: TypeAlias = str
    Policy: TypeAlias = str
    Role: TypeAlias = str
    Seconds: TypeAlias = float
    Lease: TypeAlias = float
    Count: TypeAlias = int
    Limit: TypeAlias = int
    Slots: TypeAlias = int
    Attempts: TypeAlias = int
    Number: TypeAlias = int
    Epoch: TypeAlias = int
    Json: TypeAlias = Any
    Command: TypeAlias = Any
    Environ: TypeAlias = dict[str, str]
    Folder: TypeAlias = str
    Bounds: TypeAlias = dict[str, int]
    Group: TypeAlias = str
    Size: TypeAlias = int
    Moment: TypeAlias = float
    Lasting: TypeAlias = float
    Percent: TypeAlias = float
    Grant: TypeAlias = tuple[int, int]
    Outcome: TypeAlias = dict[str, Any]
    Chunk: TypeAlias = dict[str, Any]

PRIORITIES = ("low", "normal", "high", "urgent")
STATES = ("blocked", "pending", "claimed", "completed", "failed", "cancelled")
FINAL = ("completed", "failed", "cancelled")
ANNOUNCEMENTS = ("ack", "knowledge", "decision")
"""Kinds that are published, not worked on: born completed."""
JOB = "job"
OF_SCHEDULES = "cron:"
"""How the keys of jobs that a schedule submits begin, and no others."""
"""The kind of a task that carries a command."""
RESOURCE_TYPES = ("file", "lock", "seat", "pool")
STATUSES = ("active", "idle", "stale", "gone")
POLICIES = ("skip", "run-once", "run-all")
"""What becomes of a schedule's instants that nobody was there for."""
ROLES = ("coordinator", "worker")

DAY = 86400.0
MAX_TITLE = 200
"""Characters of a name that is made from something longer, such as a command: they always fit into `MAX_NAME`."""

# How long a text may be, in bytes of UTF-8, which are what databases count. PostgreSQL takes 2,704 bytes for one entry
# of an index, all its columns and a few bytes of its own together. The largest entries are those of
#   holds   (project, resource, slot)                          64 + 2,048 + 8         = 2,120
#   events  (subject, number), a subject may be a resource          2,048 + 8         = 2,056
#   tasks   (project, queue, callee, priority, number)         64 + 64 + 800 + 8 + 8  =   944
# and `tests/unit/test_index_sizes.py` adds up those of every index. A message's body is in an index of words, whose
# list of words PostgreSQL limits to a megabyte; a body of 64 KiB never reaches that.
MAX_NAME = 800
MAX_LABEL = 64
MAX_KEY = 800
MAX_RESOURCE = 2048
MAX_NOTE = 4000
MAX_TEXT = 65_536
MAX_JSON = 262_144
MAX_DEPTH = 100
MAX_LIST = 1000
MAX_GLOB = 256
"""Characters, not bytes: comparing two globs takes time in proportion to both."""
MAX_LEASE = 7 * DAY
MAX_DELAY = 3650 * DAY

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_LABEL = _LETTERS | frozenset("._:/+@-")
_HEX = frozenset("0123456789abcdefABCDEF-")
_SESSION = _LETTERS | frozenset("._-")
_SPACES = frozenset("\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000")
_MAX = 2**53
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY, "w": 7 * DAY}


class Rule:
    """How one type of parameter is checked and described."""

    __slots__ = ("check", "doc", "schema")

    def __init__(self, check: Callable[[Any, str], Any], doc: str, schema: dict[str, Any]) -> None:
        self.check = check
        self.doc = doc
        self.schema = schema


def shown(value: object) -> str:
    """A value as an error message may quote it: escaped and short."""
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # a number with thousands of digits, a list in itself
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 60 else text[:57] + "..."


def checksum(data: bytes) -> int:
    """A stable 64-bit number for a name (FNV-1a): no secret, no import, a few microseconds."""
    out = 0xCBF29CE484222325
    for byte in data:
        out = (out ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return out


def _text(value: Any, what: str, limit: int) -> str:
    if not isinstance(value, str):
        raise Invalid(f"{what}: expected text, got {shown(value)}")
    if not value.strip():
        raise Invalid(f"{what}: must not be empty")
    return within(value, what, limit)


def within(value: str, what: str, limit: int) -> str:
    """A text that can be stored and has at most so many bytes; raises `Invalid`."""
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        raise Invalid(f"{what}: contains a lone surrogate, which is not text") from None
    if size > limit:
        raise Invalid(f"{what}: {size} bytes, the limit is {limit}")
    return value


def cut(value: str, limit: int) -> str:
    """The beginning of a text that has at most so many bytes, without half a character at its end."""
    if len(value) * 4 <= limit:
        return value
    return value.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def _line(value: Any, what: str, limit: int) -> str:
    text = _text(value, what, limit)
    if not text.isprintable() and (bad := next((c for c in text if not c.isprintable() and c not in _SPACES), "")):
        raise Invalid(f"{what}: control characters are not allowed ({bad!a} in {shown(text)})")
    return text


def name(value: Any, what: str = "name") -> str:
    """One printable line: what people read."""
    return _line(value, what, MAX_NAME)


def note(value: Any, what: str = "note") -> str:
    """One printable line, longer: a reason, what somebody is doing."""
    return _line(value, what, MAX_NOTE)


def text(value: Any, what: str = "text") -> str:
    """Several lines: a message's body."""
    out = _text(value, what, MAX_TEXT)
    if "\0" in out:
        raise Invalid(f"{what}: NUL characters are not allowed")
    return out


def label(value: Any, what: str = "label") -> str:
    """A short identifier: a kind, a queue, a tag, a channel."""
    out = _line(value, what, MAX_LABEL)
    if (out[0] not in _LETTERS and out[0] != "_") or not _LABEL.issuperset(out.replace("_", "")):
        raise Invalid(f"{what}: letters, digits and ._:/+@- only, got {shown(out)}")
    return out


def key(value: Any, what: str = "key") -> str:
    """What agents agree to call a task: printable, without blanks, not like a number or an id."""
    out = _line(value, what, MAX_KEY)
    if out.startswith("#") or is_uuid(out) or any(c.isspace() for c in out):
        raise Invalid(f"{what}: must not start with '#', look like an id or contain blanks, got {shown(out)}")
    return out


def ref(value: Any, what: str = "ref") -> str:
    """A task's id, `#number`, unique id prefix or key."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX:
        return f"#{value}"
    return _line(value, what, MAX_KEY)


def is_uuid(value: str) -> bool:
    """Whether a reference has the form of an id."""
    return len(value) == 36 and value[8] == value[13] == value[18] == value[23] == "-" and _HEX.issuperset(value)


def agent(value: Any, what: str = "agent") -> str:
    """Who acts: `name`, or `name~session` for one incarnation of it."""
    if value == "":
        raise Invalid(f"{what}: required (who acts?)", hint="use --as NAME or set TIEBREAK_AGENT")
    if isinstance(value, str) and value in _known:
        return str(value)
    out = _line(value, what, 2 * MAX_LABEL + 1)
    who, mark, session = out.partition("~")
    label(who, what)
    if mark and (not session or len(session) > MAX_LABEL or not _SESSION.issuperset(session)):
        raise Invalid(f"{what}: after '~' letters, digits and ._- only, got {shown(out)}")
    if len(_known) < 1000:
        _known.add(out)
    return out


# The same few agents act on the same few projects again and again.
_known: set[str] = set()
_known_projects: set[str] = set()


def short(who: str) -> str:
    """The name in an agent id, without its session."""
    return who.partition("~")[0]


def project(value: Any, what: str = "project") -> str:
    """A namespace on the board."""
    if value == "":
        raise Invalid(f"{what}: required", hint="use --project NAME or set TIEBREAK_PROJECT")
    if isinstance(value, str) and value in _known_projects:
        return value
    out = label(value, what)
    if len(_known_projects) < 1000:
        _known_projects.add(out)
    return out


def resource(value: Any, what: str = "resource") -> str:
    """What can be held: `file:PATH`, `lock:NAME`, `seat:NAME` or `pool:NAME`, in its one spelling."""
    out = _line(value, what, MAX_RESOURCE)
    kind, mark, rest = out.partition(":")
    if not mark or kind not in RESOURCE_TYPES:
        raise Invalid(f"{what}: must start with one of file: lock: seat: pool:, got {shown(out)}")
    if kind == "file":
        from .globs import is_glob
        from .paths import canonical

        path = canonical(rest)
        if len(path) > MAX_GLOB and is_glob(path):
            raise Invalid(f"{what}: a glob of {len(path)} characters, the limit is {MAX_GLOB}")
        return "file:" + path
    return f"{kind}:{label(rest, what)}"


def _one_of(words: tuple[str, ...]) -> Callable[[Any, str], str]:
    def check(value: Any, what: str) -> str:
        if value not in words:
            raise Invalid(f"{what}: one of {', '.join(words)}, got {shown(value)}")
        return str(value)

    return check


def seconds(value: Any, what: str = "duration", *, limit: float = MAX_DELAY) -> float:
    """A duration: a number of seconds, or text such as `90s`, `5m`, `1h`, `2d`."""
    if isinstance(value, str):
        value = _duration(value, what)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Invalid(f"{what}: expected a duration such as 90s, 5m or 1h, got {shown(value)}")
    if not 0 <= value <= limit:  # NaN fails this too
        raise Invalid(f"{what}: must be between 0 and {limit:g} seconds, got {shown(value)}")
    return float(value)


def _duration(value: str, what: str) -> float:
    """`90s`, `5 m`, `1h30m`, `1h 30m`, `1m30`; a number alone is seconds."""
    parts = [part for part in value.split(" ") if part]
    if len(parts) == 2 and parts[1] in _UNITS:
        parts = ["".join(parts)]
    if not parts or (len(parts) > 1 and any(part[-1].isdigit() for part in parts)):
        raise Invalid(f"{what}: expected a duration such as 90s, 5m or 1h, got {shown(value)}")
    return sum(_amount(digits, unit, value, what) for part in parts for digits, unit in _amounts(part))


def _amounts(part: str) -> list[tuple[str, str]]:
    """`1h30m` as (`1`, `h`), (`30`, `m`); without a unit at its end, seconds."""
    found, digits, unit = [], "", ""
    for c in part:
        if c.isdigit() or c == ".":
            if unit:
                found.append((digits, unit))
                digits, unit = "", ""
            digits += c
        else:
            unit += c
    return [*found, (digits, unit or "s")]


def _amount(digits: str, unit: str, value: str, what: str) -> float:
    try:
        return float(digits) * _UNITS[unit]
    except (ValueError, KeyError):
        raise Invalid(f"{what}: expected a duration such as 90s, 5m or 1h, got {shown(value)}") from None


def lease(value: Any, what: str = "lease") -> float:
    """How long a grant lasts without being renewed."""
    out = seconds(value, what, limit=MAX_LEASE)
    if out < 0.001:
        raise Invalid(f"{what}: must be at least 1ms")
    return out


def _integer(low: int, high: int) -> Callable[[Any, str], int]:
    def check(value: Any, what: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Invalid(f"{what}: expected a whole number, got {shown(value)}")
        if not low <= value <= high:
            raise Invalid(f"{what}: must be between {low} and {high}, got {shown(value)}")
        return value

    return check


def boolean(value: Any, what: str) -> bool:
    """True or false, and nothing that merely looks like it."""
    if not isinstance(value, bool):
        raise Invalid(f"{what}: expected true or false, got {shown(value)}")
    return value


def json_text(value: Any, what: str = "payload") -> str | None:
    """A JSON value as the text that is stored; None for null."""
    if value is None:
        return None
    import json

    try:
        out = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(out.encode())
    except (TypeError, ValueError, RecursionError) as exc:
        raise Invalid(f"{what}: not a JSON value ({exc})") from None
    if size > MAX_JSON:
        raise Invalid(f"{what}: {size} bytes of JSON, the limit is {MAX_JSON}")
    if out.count("[") + out.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise Invalid(f"{what}: nested more than {MAX_DEPTH} levels deep")
    return out


def _depth(value: Any) -> int:
    """How deep a value is nested, without recursion."""
    deepest, left = 0, [(value, 1)]
    while left:
        item, depth = left.pop()
        if isinstance(item, (dict, list, tuple)):
            deepest = max(deepest, depth)
            left += [(inner, depth + 1) for inner in (item.values() if isinstance(item, dict) else item)]
    return deepest


def json_value(value: Any, what: str) -> Any:
    """A JSON value that fits; it is encoded where it is stored."""
    json_text(value, what)
    return value


def _of_jobs(name: str) -> Callable[[Any, str], Any]:
    """A rule that only jobs need, loaded with the first of them."""
    loaded: list[Callable[[Any, str], Any]] = []

    def check(value: Any, what: str) -> Any:
        if not loaded:
            loaded.append(getattr(__import__("tiebreak.commands", fromlist=[name]), name))
        return loaded[0](value, what)

    return check


RULES: dict[str, Rule] = {
    "Name": Rule(name, "one printable line, at most 800 bytes", {"type": "string", "maxLength": MAX_NAME}),
    "Note": Rule(note, "one printable line, at most 4000 bytes", {"type": "string", "maxLength": MAX_NOTE}),
    "Text": Rule(text, "text, at most 65536 bytes", {"type": "string", "maxLength": MAX_TEXT}),
    "Label": Rule(label, "letters, digits and ._:/+@-, at most 64", {"type": "string", "maxLength": MAX_LABEL}),
    "Key": Rule(key, "printable, no blanks, at most 800 bytes", {"type": "string", "maxLength": MAX_KEY}),
    "Ref": Rule(ref, "a task: id, `#number`, unique id prefix or key", {"type": ["string", "integer"]}),
    "AgentId": Rule(agent, "`name` or `name~session`", {"type": "string", "maxLength": 129}),
    "Project": Rule(project, "a project's name", {"type": "string", "maxLength": 64}),
    "Resource": Rule(
        resource,
        "`file:PATH`, `lock:`, `seat:` or `pool:NAME`, at most 2048 bytes",
        {"type": "string", "maxLength": MAX_RESOURCE},
    ),
    "Priority": Rule(_one_of(PRIORITIES), "`low`, `normal`, `high` or `urgent`", {"enum": list(PRIORITIES)}),
    "State": Rule(_one_of(STATES), "a task's state", {"enum": list(STATES)}),
    "Status": Rule(_one_of(STATUSES), "an agent's status", {"enum": list(STATUSES)}),
    "Policy": Rule(_one_of(POLICIES), "`skip`, `run-once` or `run-all`", {"enum": list(POLICIES)}),
    "Role": Rule(_one_of(ROLES), "`coordinator` or `worker`", {"enum": list(ROLES)}),
    "Seconds": Rule(seconds, "seconds, or `90s`, `5m`, `1h`", {"type": ["number", "string"]}),
    "Lease": Rule(lease, "seconds, or `90s`, `5m`, `1h`; at most 7 days", {"type": ["number", "string"]}),
    "Count": Rule(_integer(1, 100), "1 to 100", {"type": "integer", "minimum": 1, "maximum": 100}),
    "Limit": Rule(_integer(1, 1000), "1 to 1000", {"type": "integer", "minimum": 1, "maximum": 1000}),
    "Slots": Rule(_integer(1, 10_000), "1 to 10000", {"type": "integer", "minimum": 1, "maximum": 10_000}),
    "Attempts": Rule(_integer(1, 1000), "1 to 1000", {"type": "integer", "minimum": 1, "maximum": 1000}),
    "Number": Rule(_integer(0, _MAX), "a whole number from 0", {"type": "integer", "minimum": 0}),
    "Epoch": Rule(_integer(0, _MAX), "an epoch; 0: the grant this agent has", {"type": "integer", "minimum": 0}),
    "Json": Rule(json_value, "a JSON value, at most 256 KiB", {}),
    "bool": Rule(boolean, "true or false", {"type": "boolean"}),
    "Command": Rule(
        _of_jobs("command"),
        'text for the shell, an array of words, or `{"call": "module.function", "args": […], "kwargs": {…}}`',
        {"type": ["string", "array", "object"]},
    ),
    "Environ": Rule(_of_jobs("environ"), "an object of names and texts", {"type": "object"}),
    "Folder": Rule(_of_jobs("folder"), "an absolute path", {"type": "string", "maxLength": 4096}),
    "Bounds": Rule(_of_jobs("bounds"), "`memory` in bytes, `cpu` in seconds, open `files`", {"type": "object"}),
    "Group": Rule(_of_jobs("group"), "`GROUP=N`: at most N of this group at once", {"type": "string"}),
    "Size": Rule(_of_jobs("size"), "bytes, up to 64 MiB", {"type": "integer", "minimum": 0, "maximum": 1 << 26}),
    "Moment": Rule(_of_jobs("moment"), "a time: Unix seconds or RFC 3339", {"type": ["number", "string"]}),
    "Lasting": Rule(_of_jobs("lasting"), "seconds, or `90s`, `5m`, `1h`; not 0", {"type": ["number", "string"]}),
    "Percent": Rule(_of_jobs("percent"), "0 to 100", {"type": "number", "minimum": 0, "maximum": 100}),
    "Grant": Rule(
        _of_jobs("grant"),
        "`[number, epoch]` of a claim",
        {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer", "minimum": 1}},
    ),
    "Outcome": Rule(
        _of_jobs("outcome"),
        "an object: `number`, `epoch`, `ok`, and perhaps `result`, `reason`, `retry`, `drained`",
        {"type": "object", "required": ["number", "epoch", "ok"]},
    ),
    "Chunk": Rule(
        _of_jobs("chunk"),
        "an object: `start` in bytes, `text`, and `stream` 1 or 2",
        {"type": "object", "required": ["start", "text"]},
    ),
}


def check(kind: str, value: Any, what: str) -> Any:
    """Check a value against a declared type such as `Name`, `Name | None` or `list[Name]`."""
    if kind.endswith(" | None"):
        return None if value is None else check(kind[:-7], value, what)
    if kind.startswith("list["):
        if not isinstance(value, (list, tuple)):
            raise Invalid(f"{what}: expected a list, got {shown(value)}")
        if len(value) > MAX_LIST:
            raise Invalid(f"{what}: {len(value)} entries, the limit is {MAX_LIST}")
        return [check(kind[5:-1], item, f"{what}[{i}]") for i, item in enumerate(value)]
    return RULES[kind].check(value, what)


def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of a declared type."""
    if kind.endswith(" | None"):
        return {"anyOf": [schema(kind[:-7]), {"type": "null"}]}
    if kind.startswith("list["):
        return {"type": "array", "maxItems": MAX_LIST, "items": schema(kind[5:-1])}
    return RULES[kind].schema
