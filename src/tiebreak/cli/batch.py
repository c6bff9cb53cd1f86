"""`tb batch`: many operations in one process, JSON lines in, JSON lines out.

Each line is `{"method": "tasks.claim", "params": {…}, "id": …, "once": …}`; each answer is `{"id": …, "result": …}` or
`{"id": …, "error": {…}}`, in the order of the lines. Lines that arrive together run in one transaction; a refused one
is rolled back alone. A line that arrives alone is answered alone, so a program may also send one request at a time.
"""

from __future__ import annotations

import os
import sys

from ..errors import Invalid, TiebreakError
from ..limits import MAX_BODY
from ..names import shown
from .parser import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .context import Context
    from .parser import Args

MOST_AT_ONCE = 1000


@command(
    "batch",
    "Run operations from standard input: one JSON object a line, one answer a line.",
    example="""echo '{"method": "tasks.post", "params": {"name": "x"}}' | tb batch""",
)
def batch(context: Context, args: Args) -> int:
    """Exit 2 if a line was not a valid request. A refused operation is an answer, and does not change the exit code."""
    import json

    wrong = False
    for lines in _bursts():
        requests = [_request(line) for line in lines]
        answers = iter(context.board.batch([r["call"] for r in requests if "error" not in r]))
        out = []
        for request in requests:
            answer = request["error"] if "error" in request else next(answers)
            wrong = wrong or "error" in request
            out.append(json.dumps({"id": request.get("id"), **_body(answer)}))
        context.say("\n".join(out))
    return 2 if wrong else 0


def _body(answer: Any) -> dict[str, Any]:
    if isinstance(answer, TiebreakError):
        from ..advice import advice
        from .advice import COMMANDS

        return {"error": answer.to_dict(advice(answer, COMMANDS))}
    from ..model import encode

    return {"result": encode(answer)}


def _request(line: bytes) -> dict[str, Any]:
    """A line as a call, or what is wrong with it under `error`."""
    import json

    if len(line) > MAX_BODY:
        return {"error": Invalid(f"a line of {len(line)} bytes, the limit is {MAX_BODY}")}
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as exc:
        return {"error": Invalid(f"not valid JSON: {exc}")}
    if not isinstance(request, dict) or not isinstance(request.get("method"), str):
        return {"error": Invalid('expected an object such as {"method": "tasks.next", "params": {}}')}
    ident = request.get("id")
    try:
        json.dumps(ident, allow_nan=False)
    except ValueError:
        return {"error": Invalid("id: not a JSON value")}
    unknown = sorted(set(request) - {"method", "params", "id", "once", "jsonrpc"})
    if unknown:
        return {"id": ident, "error": Invalid(f"unknown field {shown(unknown[0])}")}
    params = request.get("params", {})
    if not isinstance(params, dict):
        return {"id": ident, "error": Invalid("params: expected an object")}
    return {"id": ident, "call": (request["method"], params, request.get("once"))}


def _bursts() -> Iterator[list[bytes]]:
    """The lines of standard input, in groups that arrived together."""
    rest = b""
    while piece := _piece():
        *lines, rest = (rest + piece).split(b"\n")
        lines = [line for line in lines if line.strip()]
        for start in range(0, len(lines), MOST_AT_ONCE):
            yield lines[start : start + MOST_AT_ONCE]
        if len(rest) > MAX_BODY:
            rest = rest[: MAX_BODY + 1]  # still too long, so it is refused
    if rest.strip():
        yield [rest]


def _piece() -> bytes:
    try:
        return os.read(sys.stdin.fileno(), 1 << 16)
    except (OSError, ValueError) as exc:
        raise Invalid(f"standard input cannot be read: {exc}") from None
