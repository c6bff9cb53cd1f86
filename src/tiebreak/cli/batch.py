"""`tb batch`: many operations in one process, JSON lines in, JSON lines out.

Each line is `{"method": "tasks.claim", "params": {…}, "id": …}`; each answer is `{"id": …, "result": …}` or
`{"id": …, "error": {…}}`, in the order of the lines. All lines that are there at the same moment are run in
one transaction with one commit, each undone alone if it is refused; a line that comes alone is answered
alone, so a program may also talk line by line.
"""

from __future__ import annotations

import os
import sys

from ..errors import Invalid, TiebreakError
from .spec import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .context import Context
    from .spec import Args

MOST_AT_ONCE = 1000
LONGEST_LINE = 1 << 20


@command(
    "batch",
    "Run operations from standard input: one JSON object a line, one answer a line.",
    example="""echo '{"method": "tasks.post", "params": {"name": "x"}}' | tb batch""",
)
def batch(context: Context, args: Args) -> int:
    """Exit 2 when a line was not a request at all; refusals are answers, not failures."""
    import json

    from ..model import encode

    wrong = False
    for lines in _bursts(sys.stdin.fileno()):
        requests = [_request(line) for line in lines]
        calls = [(r["method"], r["params"]) for r in requests if "error" not in r]
        answers = iter(context.board.batch(calls))
        for request in requests:
            out: dict[str, Any] = {"id": request.get("id")}
            answer = request["error"] if "error" in request else next(answers)
            wrong = wrong or "error" in request
            if isinstance(answer, TiebreakError):
                out["error"] = answer.to_dict()
            else:
                out["result"] = encode(answer)
            sys.stdout.write(json.dumps(out, ensure_ascii=False) + "\n")
        sys.stdout.flush()
    return 2 if wrong else 0


def _request(line: bytes) -> dict[str, Any]:
    """A line as a request; what is wrong with it stands under `error`."""
    import json

    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as exc:
        return {"error": Invalid(f"not valid JSON: {exc}")}
    if not isinstance(request, dict) or not isinstance(request.get("method"), str):
        return {"error": Invalid('expected an object such as {"method": "tasks.next", "params": {}}')}
    params = request.get("params", {})
    if not isinstance(params, dict):
        return {"id": request.get("id"), "error": Invalid("params: expected an object")}
    return {"id": request.get("id"), "method": request["method"], "params": params}


def _bursts(fd: int) -> Iterator[list[bytes]]:
    """The lines of a stream, as many together as have arrived together."""
    rest = b""
    while piece := os.read(fd, 1 << 16):
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > LONGEST_LINE:
            raise Invalid(f"a line is longer than {LONGEST_LINE} bytes")
        lines = [line for line in lines if line.strip()]
        for start in range(0, len(lines), MOST_AT_ONCE):
            yield lines[start : start + MOST_AT_ONCE]
    if rest.strip():
        yield [rest]
