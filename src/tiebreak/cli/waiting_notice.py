"""What a command says while it waits: for whom or what, how long at most, and what its user can do meanwhile.

It goes to standard error, so that the answer on standard output stays as it is. On a terminal it comes at once;
elsewhere only if the wait takes longer than a moment, and not with `--json`. It is said again when somebody else is
waited for.
"""

from __future__ import annotations

import os
import sys
from time import monotonic

from ..text import colour_wanted, plain, span, style

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..errors import Refused

MOMENT = 1.0
"""Seconds of waiting that are not worth a word to a program or a log."""
NEVER = 3600.0
"""Seconds until the notice wants to be called again when it has nothing more to say."""

_FOR = {
    "hold-held": "`tb send {holder} …` asks for it; `tb waits` shows who else waits",
    "holder-gone": "`tb break {thing!r} --reason …` takes it away",
    "holder-gone-perhaps-you": "if that was you in another terminal, `tb adopt {thing!r}` takes it over",
    "question-open": "a person answers it with `tb answer {number}`",
    "others-are-first": "`tb waits` shows who waits",
    "task-held": "`tb why '#{number}'` tells more; `tb next` finds other work",
    "task-waits": "`tb why {id}` tells more; `tb next` finds other work",
}
"""What can be done meanwhile, for the reason of a refusal."""
_CHANGES = ("holder", "session", "first", "resource", "id")
"""The facts of a refusal that tell whether somebody or something else is waited for now."""


class WaitingNotice:
    """Tells the user of one command what it waits for; `as_json` is whether the command answers in JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._terminal = sys.stderr.isatty()
        self._silent = as_json and not self._terminal
        self._since: float | None = None
        self._said: object = None

    def __call__(self, what: Refused | str, left: float) -> float:
        """Say what is waited for, if it is time; returns the seconds until this has to be called again."""
        if self._silent:
            return NEVER
        now = monotonic()
        self._since = now if self._since is None else self._since
        early = 0.0 if self._terminal else self._since + MOMENT - now
        if early > 0:
            return early
        about = what if isinstance(what, str) else (type(what), what.reason, *map(what.data.get, _CHANGES))
        if about != self._said:
            self._said = about
            _print(what, left)
        return NEVER


def _print(what: Refused | str, left: float) -> None:
    begins = f"waiting up to {span(left)}" if left < float("inf") else "waiting"
    meanwhile = ""
    if isinstance(what, str):
        text = f"{begins} for {what}"
    else:
        text = f"{begins}: {what.message}"
        meanwhile = _FOR.get(what.reason, "").format_map(_Facts(what.data))
    on = colour_wanted(sys.stderr, os.environ)
    hint = "; ".join(part for part in ("Ctrl-C stops waiting", meanwhile) if part)
    try:
        print(f"{style('tb:', 'warn', on=on)} {plain(text)}", file=sys.stderr)
        print(f"    {style(plain(hint), 'dim', on=on)}", file=sys.stderr, flush=True)
    except OSError:
        pass  # nobody reads it


class _Facts(dict[str, object]):
    """The facts of a refusal; one that a daemon of another version did not send is shown as three dots."""

    def __missing__(self, name: str) -> str:
        return "…"
