"""`tb hook CLIENT EVENT`: what an agent client calls before and after its tools. Its JSON comes on standard input."""

from __future__ import annotations

import sys

from .spec import Argument, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..engine import Engine
    from .context import Context
    from .spec import Args


@command(
    "hook",
    "Answer a hook of an agent client: hold what it edits, deny what others hold.",
    Argument("client", "claude, codex, cursor or gemini"),
    Argument("event", "the event, as the client calls it"),
    example="tb hook claude PreToolUse",
)
def hook(context: Context, args: Args) -> int:
    """Called by the client, with its JSON on standard input; `tb init` sets it up."""
    from ..guard.hooks import respond
    from ..text import json

    if args.client == "keep":  # a hook of ours, not of a client's
        from ..guard.keeping import keep

        return keep(args.event)

    def connect() -> Engine:
        return context.board.engine

    answer = respond(args.client, args.event, _input(), connect)
    if answer.out is not None:
        context.say(json(answer.out))
    if answer.err:
        try:
            print(answer.err, file=sys.stderr)
        except OSError:
            pass  # nobody is left to be told
    return answer.code


def _input() -> bytes:
    try:
        stream = getattr(sys.stdin, "buffer", None)
        return sys.stdin.read().encode() if stream is None else stream.read()
    except (OSError, ValueError):
        return b""  # which is no JSON: the policy decides
