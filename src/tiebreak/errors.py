"""The errors of tiebreak.

An error is part of the interface. It says in one line what happened, has the facts as data, and may
have a hint at what to do next (never a destructive command). The Python API, the command line (by its
exit code) and JSON-RPC (by its number) all use the same classes. What to do next depends on the
interface, so an operation gives only a reason, as a code: see `advice`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class TiebreakError(Exception):
    """The base class of all errors that tiebreak raises on purpose."""

    exit_code = 1
    """The exit code of the command line."""
    rpc_code = -32000
    """The code in an answer of JSON-RPC."""

    def __init__(self, message: str, *, hint: str = "", reason: str = "", **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.own_hint = hint
        """What to do next, where that is the same on every interface."""
        self.reason = reason
        """What to do next, where each interface has its own words: see `advice`."""
        self.data: dict[str, Any] = data

    @property
    def hint(self) -> str:
        """What to do next, for somebody who uses the Python API."""
        from .advice import PYTHON, advice

        return advice(self, PYTHON)

    def __str__(self) -> str:
        return self.message

    def to_dict(self, hint: str | None = None) -> dict[str, Any]:
        """The error as JSON: `{error, message, reason?, hint?, …facts}`, with a hint in an interface's words."""
        out: dict[str, Any] = {"error": type(self).__name__, "message": self.message}
        if self.reason:
            out["reason"] = self.reason
        if hint := self.hint if hint is None else hint:
            out["hint"] = hint
        return {**out, **{name: _time_as_text(name, value) for name, value in self.data.items()}}


class Refused(TiebreakError):
    """The board refused the request; nothing that was asked for was done."""

    rpc_code = -32002
    kept = False
    """Whether the transaction is committed all the same, because the refusal relies on what it has written."""


class Lost(Refused):
    """Somebody else holds it. `holder`, `until` and `epoch` say who, how long, and which grant."""

    rpc_code = -32001

    @property
    def holder(self) -> str:
        """The name of the agent that has it."""
        return str(self.data.get("holder") or "")

    @property
    def until(self) -> float | None:
        """When their grant runs out, in Unix seconds."""
        until = self.data.get("until")
        return None if until is None else float(until)

    @property
    def epoch(self) -> int:
        """The epoch of their grant."""
        return int(self.data.get("epoch") or 0)


class Fenced(Refused):
    """The caller's grant is not the current one any more, so its write had no effect."""

    rpc_code = -32003


class Deadlock(Refused):
    """Several agents wait for each other in a cycle. `cycle` names them; the youngest of them gets this error."""

    rpc_code = -32007


class NotFound(Refused):
    """No such task, hold, message or agent."""

    rpc_code = -32004


class Invalid(TiebreakError):
    """The request itself is wrong: a bad name, a bad value, an unknown operation."""

    exit_code = 2
    rpc_code = -32602


class TimedOut(TiebreakError):
    """The event that the caller waited for did not happen in time."""

    exit_code = 2
    rpc_code = -32005


class Unavailable(TiebreakError):
    """The board cannot be used: missing, corrupt, full, read-only, too new, or busy for too long."""

    exit_code = 3
    rpc_code = -32006


class Unauthorised(Unavailable):
    """The daemon requires a token, and the request has none or a wrong one."""


_TIMES = ("until", "ready_at")


def _time_as_text(name: str, value: Any) -> Any:
    """A time as text, as in records; any other value unchanged."""
    if name not in _TIMES or not isinstance(value, (int, float)):
        return value
    from .text import rfc3339

    return rfc3339(value)


def _time_from_text(name: str, value: Any) -> Any:
    if name not in _TIMES or not isinstance(value, str):
        return value
    from .text import stored

    return stored(value) / 1_000_000


def as_answer(error: Exception) -> Exception:
    """An error for a list of answers: one of ours without its traceback.

    The traceback refers to the frame that has the list. Such a cycle would stay in memory until the next garbage
    collection.
    """
    return error.with_traceback(None) if isinstance(error, TiebreakError) else error


def from_dict(data: dict[str, Any]) -> TiebreakError:
    """Rebuild an error from `to_dict`, so that a remote caller can catch the same class."""
    facts = dict(data)
    name = facts.pop("error", "")
    kinds = (Refused, Lost, Fenced, Deadlock, NotFound, Invalid, TimedOut, Unavailable, Unauthorised)
    kind = next((k for k in kinds if k.__name__ == name), TiebreakError)
    return kind(
        str(facts.pop("message", "")),
        hint=str(facts.pop("hint", "")),
        reason=str(facts.pop("reason", "")),
        **{k: _time_from_text(k, v) for k, v in facts.items()},
    )
