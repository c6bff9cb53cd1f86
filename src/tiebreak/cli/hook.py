"""`tb hook CLIENT EVENT`: agent clients run it before and after their tools, with JSON on standard input."""

from __future__ import annotations

import sys

from ..errors import TimedOut
from .parser import Argument, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..engine.protocol import Engine
    from .context import Context
    from .parser import Args


LONGEST = 45.0
"""Seconds until a hook gives up and the failure policy decides. Clients wait a minute, and then allow the tool."""


@command(
    "hook",
    "Answer a hook of an agent client: hold what it edits, deny what others hold.",
    Argument("client", "claude, codex, cursor or gemini"),
    Argument("event", "the event, by the client's name for it"),
    example="tb hook claude PreToolUse",
)
def hook(context: Context, args: Args) -> int:
    """Run by the client, with its JSON on standard input; `tb init` sets it up."""
    from ..guard.client_hooks import respond
    from ..text import json

    def connect() -> Engine:
        _answer_within(LONGEST)
        return context.board.engine

    given = _input()
    try:
        answer = respond(args.client, args.event, given, connect)
    except TimedOut:  # while an earlier failure was being reported to the board
        answer = respond(args.client, args.event, given, _no_board)
    finally:
        _answer_within(0)
    if answer.out is not None:
        context.say(json(answer.out))
    if answer.err:
        try:
            print(answer.err, file=sys.stderr)
        except OSError:
            pass  # nobody reads it
    answer.was_given()
    return answer.code


def _answer_within(seconds: float) -> None:
    import _signal  # type: ignore[import-not-found]  # `signal` costs a millisecond

    _signal.signal(_signal.SIGALRM, _late)
    _signal.setitimer(_signal.ITIMER_REAL, seconds)


def _late(*_: object) -> None:
    raise TimedOut(f"the board gave no answer in {LONGEST:g} s")


def _no_board() -> Engine:
    raise TimedOut(f"the board gave no answer in {LONGEST:g} s")


def _input() -> bytes:
    try:
        stream = getattr(sys.stdin, "buffer", None)
        return sys.stdin.read().encode() if stream is None else stream.read()
    except (OSError, ValueError):
        return b""  # not valid JSON, so the failure policy decides
