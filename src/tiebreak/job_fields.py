"""Checks for what a job carries: its command, its settings, and the reports of its worker.

`kinds` imports this module when a job is submitted or reported, not before. It also masks settings that look secret,
for everybody but the worker that runs the job.
"""

from __future__ import annotations

from .errors import Invalid
from .limits import (
    MAX_AMOUNT,
    MAX_FOLDER,
    MAX_LIST,
    MAX_MOMENT,
    MAX_NAME,
    MAX_NUMBER,
    MAX_OUTPUT,
    MAX_SLOTS,
    MAX_TEXT,
    MAX_TITLE,
    MIN_DURATION,
)
from .names import boolean, json_text, key, label, note, seconds, shown, within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

MASK = "********"
STREAMS = (1, 2)

_SECRET_NAMES = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY", "CREDENTIAL", "AUTH", "COOKIE", "PRIVATE")
_SECRET_STARTS = ("ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "sk-", "xoxb-", "xoxp-", "AKIA", "eyJ", "-----BEGIN")
_LONG = 24
"""A word of at least this length is checked for randomness."""


# ── What is to run ───────────────────────────────────────────────────────────────────────────────────


def command(value: Any, what: str) -> Any:
    """A text for the shell, an array of words, or `{"call": "module.function", "args": […], "kwargs": {…}}`."""
    if isinstance(value, str):
        return _nonempty(value, what, MAX_TEXT)
    if isinstance(value, (list, tuple)):
        if not 1 <= len(value) <= MAX_LIST:
            raise Invalid(f"{what}: 1 to {MAX_LIST} words, got {len(value)}")
        if not all(isinstance(word, str) for word in value):
            raise Invalid(f"{what}: every word must be text, got {shown(value)}")
        if not value[0].strip():
            raise Invalid(f"{what}: the name of the program must not be empty")
        return [_without_nul(word, f"{what}[{i}]", MAX_TEXT) for i, word in enumerate(value)]
    if isinstance(value, dict) and "call" in value:
        return _call(value, what)
    raise Invalid(f"{what}: a text, an array of words or an object with `call`, got {shown(value)}")


def _call(value: dict[str, Any], what: str) -> dict[str, Any]:
    _refuse_unknown(value, ("call", "args", "kwargs"), what)
    args, kwargs = value.get("args", []), value.get("kwargs", {})
    if not isinstance(args, (list, tuple)):
        raise Invalid(f"{what}: args must be an array, got {shown(args)}")
    if not isinstance(kwargs, dict) or not all(isinstance(name, str) for name in kwargs):
        raise Invalid(f"{what}: kwargs must be an object, got {shown(kwargs)}")
    made = {"call": key(value["call"], f"{what}: call"), "args": list(args), "kwargs": dict(kwargs)}
    json_text(made, what)
    return made


def callee(checked: Any) -> str:
    """The function that a checked command calls; '' for any other command."""
    return checked["call"] if isinstance(checked, dict) else ""


def written(checked: Any) -> str:
    """A command as a person would write it in a shell."""
    if isinstance(checked, list):
        import shlex

        return shlex.join(checked)
    return f"{checked['call']}()" if isinstance(checked, dict) else str(checked)


def title(checked: Any) -> str:
    """The default name of a job: the beginning of its command."""
    if isinstance(checked, dict):
        return str(checked["call"])
    line = " ".join(checked) if isinstance(checked, list) else checked.strip().splitlines()[0]
    return "".join(c if c.isprintable() else " " for c in line)[:MAX_TITLE].strip() or "job"


def _without_nul(value: str, what: str, limit: int) -> str:
    if "\0" in value:
        raise Invalid(f"{what}: NUL characters are not allowed")
    return within(value, what, limit)


def _nonempty(value: Any, what: str, limit: int) -> str:
    if not isinstance(value, str):
        raise Invalid(f"{what}: expected text, got {shown(value)}")
    if not value.strip():
        raise Invalid(f"{what}: must not be empty")
    return _without_nul(value, what, limit)


def _refuse_unknown(value: Any, names: Collection[str], what: str) -> None:
    if not isinstance(value, dict):
        raise Invalid(f"{what}: expected an object, got {shown(value)}")
    for name in value:
        if name not in names:
            raise Invalid(f"{what}: unknown {shown(name)}", hint=f"it takes: {', '.join(names)}")


# ── How it is to run ─────────────────────────────────────────────────────────────────────────────────


def environ(value: Any, what: str) -> dict[str, str]:
    """Environment variables: names and texts."""
    if not isinstance(value, dict):
        raise Invalid(f"{what}: expected an object, got {shown(value)}")
    for name, text in value.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise Invalid(f"{what}: {shown(name)} is not a name for a variable")
        within(name, f"{what}: {shown(name)}", MAX_NAME)
        if not isinstance(text, str):  # without the value: it may be secret
            raise Invalid(f"{what}: {shown(name)} must be text")
        _without_nul(text, f"{what}[{name}]", MAX_TEXT)
    json_text(value, what)
    return value


def folder(value: Any, what: str) -> str:
    """An absolute path."""
    out = _nonempty(value, what, MAX_FOLDER)
    if not out.startswith("/"):
        raise Invalid(f"{what}: must be an absolute path, got {shown(out)}")
    return out


def bounds(value: Any, what: str) -> dict[str, Any]:
    """What a job may use: `memory` in bytes, `cpu` in seconds, open `files`."""
    _refuse_unknown(value, ("memory", "cpu", "files"), what)
    for name, number in value.items():
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MAX_AMOUNT:
            raise Invalid(f"{what}: {name} must be a whole number from 1, got {shown(number)}")
    return dict(value)


def group(value: Any, what: str) -> str:
    """`GROUP=N`: at most N of this group at once."""
    name, mark, size = value.partition("=") if isinstance(value, str) else ("", "", "")
    if not mark or not size.isdecimal() or not size.isascii() or not 1 <= int(size[:9]) <= MAX_SLOTS or len(size) > 5:
        raise Invalid(f"{what}: GROUP=N with N from 1 to {MAX_SLOTS}, got {shown(value)}")
    return f"{label(name, what)}={int(size)}"


def size(value: Any, what: str) -> int:
    """Bytes of output to keep."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_OUTPUT:
        raise Invalid(f"{what}: a whole number of bytes up to {MAX_OUTPUT}, got {shown(value)}")
    return value


def moment(value: Any, what: str) -> float:
    """A time: Unix seconds, or RFC 3339 text."""
    if isinstance(value, str):
        from .text import parse_rfc3339

        try:
            value = parse_rfc3339(value)
        except Invalid as exc:
            raise Invalid(f"{what}: {exc.message}", hint=exc.own_hint, reason=exc.reason) from None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_MOMENT:
        raise Invalid(f"{what}: expected a time, got {shown(value)}")
    return float(value)


# ── What a worker reports ────────────────────────────────────────────────────────────────────────────


def grant(value: Any, what: str) -> tuple[int, int]:
    """`[number, epoch]` of a claim."""
    if not isinstance(value, (list, tuple)) or len(value) != 2 or not all(_is_number(each) for each in value):
        raise Invalid(f"{what}: expected [number, epoch], got {shown(value)}")
    return value[0], value[1]


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_NUMBER


def outcome(value: Any, what: str) -> dict[str, Any]:
    """The outcome of an attempt: `number`, `epoch`, `ok`, and optionally `result`, `reason`, `retry`, `drained`."""
    _refuse_unknown(value, _OUTCOME, what)
    told = {**_OUTCOME, **value}
    for name in ("number", "epoch"):
        if not _is_number(told[name]):
            raise Invalid(f"{what}: {name} must be a whole number from 1, got {shown(told[name])}")
    for name in ("ok", "retry", "drained"):
        boolean(told[name], what)
    if told["reason"] is not None:
        note(told["reason"], f"{what}: reason")
    if told["result"] is not None:
        json_text(told["result"], f"{what}: result")
    return told


_OUTCOME = {
    "number": None,
    "epoch": None,
    "ok": None,
    "result": None,
    "reason": None,
    "retry": True,
    "drained": False,
}


def chunk(value: Any, what: str) -> dict[str, Any]:
    """A piece of a job's output: `start`, `text` and optionally `stream`."""
    _refuse_unknown(value, ("start", "stream", "text"), what)
    start, stream, text = value.get("start"), value.get("stream", 1), value.get("text")
    if isinstance(start, bool) or not isinstance(start, int) or not 0 <= start <= MAX_NUMBER:
        raise Invalid(f"{what}: start must be a whole number from 0, got {shown(start)}")
    if stream not in STREAMS or isinstance(stream, bool):
        raise Invalid(f"{what}: stream is 1 (out) or 2 (err), got {shown(stream)}")
    if not isinstance(text, str) or not text:
        raise Invalid(f"{what}: expected text, got {shown(text)}")
    # PostgreSQL cannot store NUL in a text. Its replacement has the same length, so offsets stay correct.
    return {"start": start, "stream": stream, "text": _without_nul(text.replace("\0", "\x1a"), what, MAX_TEXT)}


def percent(value: Any, what: str) -> float:
    """Progress in percent."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 100:
        raise Invalid(f"{what}: a number from 0 to 100, got {shown(value)}")
    return value


def lasting(value: Any, what: str) -> float:
    """A duration of at least a millisecond."""
    out = seconds(value, what)
    if out < MIN_DURATION:
        raise Invalid(f"{what}: must be at least 1ms")
    return out


# ── Secrets ──────────────────────────────────────────────────────────────────────────────────────────


def masked(settings: str | None) -> dict[str, Any]:
    """Stored settings with secret-looking values masked."""
    import json

    shown: dict[str, Any] = json.loads(settings or "{}")
    if "env" in shown:
        shown["env"] = {name: MASK if looks_secret(name, value) else value for name, value in shown["env"].items()}
    return shown


def looks_secret(name: str, value: str) -> bool:
    """Whether the name or the value of a variable looks like a secret."""
    return (
        any(word in name.upper() for word in _SECRET_NAMES)
        or value.lstrip().startswith(_SECRET_STARTS)
        or _has_password(value)
        or any(len(word) >= _LONG and _random(word) for word in value.split())
    )


def _has_password(value: str) -> bool:
    """`scheme://user:password@host`."""
    head, mark, rest = value.partition("://")
    user, at, _ = rest.partition("/")[0].rpartition("@")
    return bool(mark and at and head) and ":" in user


def _random(word: str) -> bool:
    """Whether a word looks random: many different letters and digits, without the separators of names and paths."""
    from math import log2

    if word.startswith(("/", "./", "~/")) or "/" in word.strip("/") or word.count(".") > 2:
        return False
    counts = [word.count(c) for c in set(word)]
    entropy = -sum(count / len(word) * log2(count / len(word)) for count in counts)
    return entropy >= 3.0 and any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
