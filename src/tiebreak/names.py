"""Checks for names and values, the same for every interface.

An operation declares its parameters with the types below (`ref: Ref`, `lease: Lease = CLAIM_LEASE`). `kinds` maps each
type to its check. `limits` says how large a value may be.
"""

from __future__ import annotations

from .errors import Invalid
from .limits import (
    DAY,
    MAX_AGENT,
    MAX_DELAY,
    MAX_DEPTH,
    MAX_GLOB,
    MAX_JSON,
    MAX_KEY,
    MAX_LABEL,
    MAX_LEASE,
    MAX_NAME,
    MAX_NOTE,
    MAX_NUMBER,
    MAX_RESOURCE,
    MAX_TEXT,
    MIN_DURATION,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Name: TypeAlias = str
    Note: TypeAlias = str
    Text: TypeAlias = str
    AnyText: TypeAlias = str
    Label: TypeAlias = str
    Key: TypeAlias = str
    Ref: TypeAlias = str
    AgentId: TypeAlias = str
    Project: TypeAlias = str
    Resource: TypeAlias = str
    Priority: TypeAlias = str
    State: TypeAlias = str
    Order: TypeAlias = str
    AgentStatus: TypeAlias = str
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
    CommandOrCall: TypeAlias = Any
    Environ: TypeAlias = dict[str, str]
    Folder: TypeAlias = str
    Bounds: TypeAlias = dict[str, int]
    GroupLimit: TypeAlias = str
    HoldLimit: TypeAlias = int
    Size: TypeAlias = int
    Moment: TypeAlias = float
    Lasting: TypeAlias = float
    Percent: TypeAlias = float
    NumberAndEpoch: TypeAlias = tuple[int, int]
    Outcome: TypeAlias = dict[str, Any]
    Chunk: TypeAlias = dict[str, Any]
    TaskEntry: TypeAlias = dict[str, Any]

PRIORITIES = ("low", "normal", "high", "urgent")
STATES = ("blocked", "pending", "claimed", "completed", "failed", "cancelled")
FINAL = ("completed", "failed", "cancelled")
ANNOUNCEMENTS = ("ack", "knowledge", "decision")
"""Kinds of tasks that are published, not worked on. They are completed from the start."""
JOB = "job"
"""The kind of a task that carries a command."""
QUESTION = "question"
"""The kind of a task that a person answers (see `operations.questions`)."""
OF_SCHEDULES = "cron:"
"""The prefix of the keys of scheduled jobs. No other key has it."""
RESOURCE_TYPES = ("file", "lock", "seat", "pool")
STATUSES = ("active", "idle", "stale", "gone")
POLICIES = ("skip", "run-once", "run-all")
"""What to do about a schedule's instants that no process fired in time."""
ORDERS = ("priority", "critical")
"""In which order ready tasks are handed out."""
ROLES = ("coordinator", "worker")

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_LABEL = _LETTERS | frozenset("._:/+@-")
_HEX = frozenset("0123456789abcdefABCDEF-")
_SESSION = _LETTERS | frozenset("._-")
_SPACES = frozenset("\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY, "w": 7 * DAY}


def shown(value: object) -> str:
    """A value as error messages quote it: escaped and short."""
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # a number with thousands of digits, a list in itself
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 60 else text[:57] + "..."


def checksum(data: bytes) -> int:
    """A stable 64-bit number for a name (FNV-1a). It is not secret, needs no import and takes a few microseconds."""
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
    """A text that can be stored and has at most `limit` bytes; raises `Invalid`."""
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        raise Invalid(f"{what}: contains a lone surrogate, which is not text") from None
    if size > limit:
        raise Invalid(f"{what}: {size} bytes, the limit is {limit}")
    return value


def cut(value: str, limit: int) -> str:
    """The beginning of a text, at most `limit` bytes, cut between two characters."""
    if len(value) * 4 <= limit:
        return value
    return value.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def _line(value: Any, what: str, limit: int) -> str:
    text = _text(value, what, limit)
    if not text.isprintable() and (bad := next((c for c in text if not c.isprintable() and c not in _SPACES), "")):
        raise Invalid(f"{what}: control characters are not allowed ({bad!a} in {shown(text)})")
    return text


def name(value: Any, what: str = "name") -> str:
    """One printable line that people read."""
    return _line(value, what, MAX_NAME)


def note(value: Any, what: str = "note") -> str:
    """One longer printable line: a reason, or what an agent is doing."""
    return _line(value, what, MAX_NOTE)


def text(value: Any, what: str = "text") -> str:
    """Text of several lines, such as the body of a message."""
    out = _text(value, what, MAX_TEXT)
    if "\0" in out:
        raise Invalid(f"{what}: NUL characters are not allowed")
    return out


def any_text(value: Any, what: str = "text") -> str:
    """Text of several lines, which may be empty."""
    return "" if value == "" else text(value, what)


def label(value: Any, what: str = "label") -> str:
    """A short identifier: a kind, a queue, a tag, a channel."""
    out = _line(value, what, MAX_LABEL)
    if (out[0] not in _LETTERS and out[0] != "_") or not _LABEL.issuperset(out.replace("_", "")):
        raise Invalid(f"{what}: letters, digits and ._:/+@- only, got {shown(out)}")
    return out


def key(value: Any, what: str = "key") -> str:
    """A name for a task that agents agree on: printable, without blanks, and not like `#42` or an id."""
    out = _line(value, what, MAX_KEY)
    if out.startswith("#") or is_uuid(out) or any(c.isspace() for c in out):
        raise Invalid(f"{what}: must not start with '#', look like an id or contain blanks, got {shown(out)}")
    if key_of(out) != out:
        raise Invalid(f"{what}: must not be {_KEY_MARK} and a number, which refers to the key {key_of(out)}")
    return out


_KEY_MARK = "key:"
MOST_DIGITS = 15
"""The longest number of a task."""


def key_of(ref: str) -> str:
    """The key that a reference names: `5` for `key:5`. Any other reference is taken as it is."""
    return ref[len(_KEY_MARK) :] if ref.startswith(_KEY_MARK) and is_digits(ref[len(_KEY_MARK) :]) else ref


def by_key(key: str) -> str:
    """A reference that names a task by its key, also if the key is a number: `key:5` for `5`."""
    return f"{_KEY_MARK}{key}" if is_digits(key) else key


def is_digits(text: str) -> bool:
    """Whether a text is a number without `#`, such as `42`."""
    return text.isascii() and text.isdecimal()


def ref(value: Any, what: str = "ref") -> str:
    """A task's number with or without `#`, its id, the unique beginning of its id, or its key."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_NUMBER:
        return f"#{value}"
    out = _line(value, what, MAX_KEY)
    if out.startswith("#"):
        number_of(out, what)
    return out


def number_of(ref: str, what: str = "ref") -> int:
    """The number in `#42`; raises `Invalid` if there is none."""
    if not is_digits(ref[1:]) or len(ref) > 1 + MOST_DIGITS:
        raise Invalid(f"{what}: {shown(ref)} is not a task number such as #42")
    return int(ref[1:])


def is_uuid(value: str) -> bool:
    """Whether a reference has the form of an id."""
    return len(value) == 36 and value[8] == value[13] == value[18] == value[23] == "-" and _HEX.issuperset(value)


def agent(value: Any, what: str = "agent") -> str:
    """An agent: `name`, or `name~session` for one incarnation of it."""
    if value == "" and what == "agent":
        raise Invalid("agent: required (who acts?)", reason="agent-missing")
    if value == "":
        raise Invalid(f"{what}: required")
    if isinstance(value, str) and value in _known:
        return str(value)
    out = _line(value, what, MAX_AGENT)
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
        raise Invalid(f"{what}: required", reason="project-missing")
    if isinstance(value, str) and value in _known_projects:
        return value
    out = label(value, what)
    if len(_known_projects) < 1000:
        _known_projects.add(out)
    return out


BY_COMMIT, BY_PATH = "commit/", "local/"
"""How the names of projects begin that come from the first commit of a repository, or from its path alone."""
OLD_NAME = "old"
"""The rule of a name that a version before schema 4 made, and whose rows no repository has taken over yet."""


_MOST_NAMES = 4


def project_names(value: Any, what: str = "project") -> str:
    """A project, by its name or by several names of the same repository, separated by blanks.

    A caller that derives the name from its repository gives all names that the repository may have: first the name that
    counts, then that of its first commit, then the one that versions before schema 4 made from the clone's path, then
    that of its path from the time when nothing else was known. The board decides by them which rows are meant (see
    `operations.project_names`).
    """
    if not isinstance(value, str) or " " not in value:
        return project(value, what)
    first, *others = value.split(" ")
    if len(others) >= _MOST_NAMES or not all(map(_is_other_name, others)):
        return label(value, what)  # which refuses it
    for each in (first, *others):
        project(each, what)
    return value


def _is_other_name(name: str) -> bool:
    """Whether a name comes from a first commit or a path, or can be one that a version before schema 4 made."""
    made = len(name) > 7 and name[-7] == "-" and set(name[-6:]) <= set("0123456789abcdef")
    return made or name.startswith((BY_COMMIT, BY_PATH))


def resource(value: Any, what: str = "resource") -> str:
    """What can be held: `file:PATH`, `lock:NAME`, `seat:NAME` or `pool:NAME`, in its canonical spelling.

    `file://CHECKOUT/PATH` is a file of one checkout (see `held_files`).
    """
    out = _line(value, what, MAX_RESOURCE)
    kind, mark, rest = out.partition(":")
    if not mark or kind not in RESOURCE_TYPES:
        raise Invalid(f"{what}: must start with one of file: lock: seat: pool:, got {shown(out)}")
    if kind == "file":
        from .globs import is_glob
        from .held_files import MAX_CHECKOUT, file_resource, is_checkout, parts
        from .paths import canonical

        checkout, given = parts(out)
        if checkout and not is_checkout(checkout):
            raise Invalid(
                f"{what}: {shown(checkout)} is not a checkout: at most {MAX_CHECKOUT} of a-z 0-9 . _ - are allowed"
            )
        path = canonical(given if checkout else rest)
        if len(path) > MAX_GLOB and is_glob(path):
            raise Invalid(f"{what}: a glob of {len(path)} characters, the limit is {MAX_GLOB}")
        return _line(file_resource(path, checkout), what, MAX_RESOURCE)
    return f"{kind}:{label(rest, what)}"


def one_of(words: tuple[str, ...]) -> Callable[[Any, str], str]:
    """A check for one of these words."""

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


def written(duration: float) -> str:
    """A duration as `seconds` reads it, in the largest unit that divides it: `5m` for 300."""
    for unit in ("d", "h", "m"):
        if duration >= _UNITS[unit] and duration % _UNITS[unit] == 0:
            return f"{duration / _UNITS[unit]:.0f}{unit}"
    return f"{duration:g}s"


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
    if out < MIN_DURATION:
        raise Invalid(f"{what}: must be at least 1ms")
    return out


def integer(low: int, high: int) -> Callable[[Any, str], int]:
    """A check for a whole number from `low` to `high`, both included."""

    def check(value: Any, what: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Invalid(f"{what}: expected a whole number, got {shown(value)}")
        if not low <= value <= high:
            raise Invalid(f"{what}: must be between {low} and {high}, got {shown(value)}")
        return value

    return check


def boolean(value: Any, what: str) -> bool:
    """True or false, and no other value that Python would accept as one."""
    if not isinstance(value, bool):
        raise Invalid(f"{what}: expected true or false, got {shown(value)}")
    return value


def json_text(value: Any, what: str = "payload") -> str | None:
    """A JSON value as the text to store; None for null."""
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
    """A JSON value within the limits. It is checked here and encoded where it is stored."""
    json_text(value, what)
    return value
