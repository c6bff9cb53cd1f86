"""`tb coord …`: coord's command line, as a client of any server that speaks coord's JSON-RPC.

Each subcommand is declared like every other command of `tb`. The outer command `coord` accepts the options of all
subcommands, so that `--url` may stand before or after the subcommand. The chosen subcommand then checks which options
it takes.
"""

from __future__ import annotations

import os

from ..cli.spec import GLOBAL, Args, Argument, Command, Option, command, json_argument, parse, whole
from ..errors import Invalid, NotFound, TimedOut, Unavailable, from_dict
from ..names import ANNOUNCEMENTS, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..cli.context import Context

URL = "http://127.0.0.1:7777"
ADDRESS = "127.0.0.1:7777"
WINDOW = 25.0
"""Seconds of one long poll. `wait` sends a heartbeat between two of them."""
KINDS = {-32001: "Refused", -32600: "Invalid", -32601: "Invalid", -32602: "Invalid"}
"""The kind of error for each code, for servers that send no more details."""

SUBCOMMANDS: dict[str, Command] = {}
TO = Option("url", "URL", f"the daemon (default: COORD_URL, else {URL})")
ID = Argument("id", "the task's id")
LEASES = (
    Option("lease", "SECONDS", "how long the claim lasts without a renewal (default 300)"),
    Option("lease-seconds", "SECONDS", "the same as --lease"),
)
PRIORITY = Option("priority", "PRIORITY", "low, normal, high or urgent")
FILTERS = (
    Option("kind", "KIND", "the kind of task"),
    PRIORITY,
    Option("state", "STATE", "pending, claimed, completed, failed or cancelled (wait: or any)"),
    Option("name-contains", "TEXT", "a part of the name"),
)
NAME = Option("name", "NAME", "heartbeat, wait: the name to show for an agent")


def subcommand(
    name: str, text: str, *parts: Argument | Option
) -> Callable[[Callable[[Context, Args], int | None]], Callable[[Context, Args], int | None]]:
    """Declare a function as a subcommand of `tb coord`."""

    def declare(run: Callable[[Context, Args], int | None]) -> Callable[[Context, Args], int | None]:
        arguments = tuple(part for part in parts if isinstance(part, Argument))
        options = (TO, *(part for part in parts if isinstance(part, Option)))
        SUBCOMMANDS[name] = Command(f"coord {name}", text, run, arguments, options, "", "")
        return run

    return declare


# ── Serving ──────────────────────────────────────────────────────────────────────────────────────────


@subcommand(
    "serve",
    "Run the daemon.",
    Option("addr", "HOST:PORT", f"serve: where to listen (default: COORD_ADDR, else {ADDRESS})"),
    Option("db", "PATH", "serve: the database (default: COORD_DB, else your own board)"),
    Option("open", text="serve: need no token on loopback, for clients that cannot send one"),
)
def serve(context: Context, args: Args) -> int:
    """Run `tb serve` with coord's options."""
    from ..cli import find

    wanted = find("serve")
    words = ["--addr", args.addr or os.environ.get("COORD_ADDR") or ADDRESS, *(["--open"] if args.open else [])]
    given = parse(wanted, words, Args({option.key: args[option.key] for option in GLOBAL}))
    given["board"] = args.db or os.environ.get("COORD_DB") or args.board
    return wanted.run(context, given) or 0


@subcommand("version", "Show the version.")
def version(context: Context, args: Args) -> None:
    """Needs no daemon."""
    from .. import __version__

    _print_json(context, {"tiebreak": __version__, "protocol": "coord, JSON-RPC 2.0"})


# ── Tasks ────────────────────────────────────────────────────────────────────────────────────────────


@subcommand(
    "send",
    "Post a task.",
    Argument("task", "the name of the task"),
    FILTERS[0],
    PRIORITY,
    Option("payload", "JSON", "send: the payload: JSON, @FILE or -", convert=json_argument),
)
def send(context: Context, args: Args) -> None:
    """Print the new task, its id first."""
    given = {key: args[key] for key in ("kind", "priority", "payload")}
    _print_json(context, CoordClient(args).ask("tasks/send", name=args.task, agentId=args["as"], **given))


@subcommand("get", "Show a task.", ID)
def get(context: Context, args: Args) -> None:
    """Exit 1 if there is no such task."""
    task = CoordClient(args).ask("tasks/get", id=args.id)
    if task is None:
        raise NotFound(f"no task {args.id!r}")
    _print_json(context, task)


@subcommand(
    "list",
    "List tasks.",
    *FILTERS,
    Option("limit", "N", "list: at most this many tasks (default 50)", convert=whole),
    Option("wait-ms", "N", "list: wait up to N milliseconds for the first task", convert=whole),
)
def listing(context: Context, args: Args) -> None:
    """Newest first."""
    given = {"kind": args.kind, "priority": args.priority, "state": args.state, "nameContains": args.name_contains}
    waits = args.wait_ms or 0
    found = CoordClient(args).ask("tasks/list", max(0, waits) / 1000, limit=args.limit, wait_ms=waits or None, **given)
    _print_table(context, found, ("id", "state", "priority", "kind", "claimed_by", "name"), "no tasks")


SUBCOMMANDS["tasks"] = SUBCOMMANDS["list"]


@subcommand("claim", "Claim a task.", ID, *LEASES)
def claim(context: Context, args: Args) -> None:
    """Exit 0 if this agent wins the task, 1 if another one holds it."""
    _print_json(
        context, CoordClient(args).ask("tasks/claim", id=args.id, agentId=_agent(args), leaseSeconds=_lease(args))
    )


@subcommand("extend", "Renew a claim for another lease.", ID, *LEASES)
def extend(context: Context, args: Args) -> None:
    """Only the holder of the claim may."""
    _print_json(
        context, CoordClient(args).ask("tasks/extend", id=args.id, agentId=_agent(args), leaseSeconds=_lease(args))
    )


@subcommand("reclaim", "Return lapsed claims to the board.")
def reclaim(context: Context, args: Args) -> None:
    """Print the tasks that became claimable again."""
    _print_json(context, CoordClient(args).ask("tasks/reclaim"))


@subcommand(
    "complete",
    "Finish a claimed task.",
    ID,
    Option("result", "JSON", "complete: the result: JSON, @FILE or -", convert=json_argument),
    Option("ack", "NAME", "complete: also post an announcement with this name, in the same transaction"),
    Option("ack-priority", "PRIORITY", "complete: the announcement's priority (default high)"),
    Option("ack-payload", "JSON", "complete: the announcement's payload", convert=json_argument),
)
def complete(context: Context, args: Args) -> None:
    """Only the holder of the claim may."""
    ack = {"ackName": args.ack, "ackPriority": args.ack_priority, "ackPayload": args.ack_payload}
    if args.ack is None and any(value is not None for value in ack.values()):
        raise Invalid("coord complete: --ack-priority and --ack-payload only make sense with --ack")
    given = {"id": args.id, "agentId": _agent(args), "result": args.result, **ack}
    _print_json(context, CoordClient(args).ask("tasks/complete", postAck=args.ack is not None, **given))


@subcommand("cancel", "Cancel a task.", ID)
def cancel(context: Context, args: Args) -> None:
    """A finished task stays as it is."""
    _print_json(context, CoordClient(args).ask("tasks/cancel", id=args.id, agentId=args["as"]))


@subcommand(
    "wait",
    "Wait for a task that matches.",
    *FILTERS,
    NAME,
    Option("timeout", "SECONDS", "wait: give up after this time (default 600)", default="600"),
)
def wait(context: Context, args: Args) -> None:
    """Print the first match. Exit 2 when the time is up."""
    from time import monotonic

    usual = "completed" if args.kind in ANNOUNCEMENTS else "pending"
    filters = {"kind": args.kind, "priority": args.priority, "nameContains": args.name_contains}
    filters["state"] = None if args.state == "any" else args.state or usual
    daemon, end = CoordClient(args), monotonic() + seconds(args.timeout, "coord wait: --timeout")
    while True:
        if args["as"]:
            daemon.ask("agents/heartbeat", id=args["as"], name=args.name or "watcher")
        nap = max(0.0, min(WINDOW, end - monotonic()))
        found = daemon.ask("tasks/list", nap, limit=1, wait_ms=int(nap * 1000), **filters)
        if found:
            return _print_json(context, found[0])
        if monotonic() >= end:
            raise TimedOut(f"no such task within {args.timeout} s")


# ── Agents ───────────────────────────────────────────────────────────────────────────────────────────


@subcommand("heartbeat", "Report that an agent is alive.", Argument("agent", "its name (or --as)", optional=True), NAME)
def heartbeat(context: Context, args: Args) -> None:
    """Also registers an agent that is new."""
    who = args["as"] or args.agent or _agent(args)
    _print_json(context, CoordClient(args).ask("agents/heartbeat", id=who, name=args.name or "shell-agent"))


@subcommand("agents", "List the agents.")
def agents(context: Context, args: Args) -> None:
    """Most recently seen first."""
    _print_table(context, CoordClient(args).ask("agents/list"), ("id", "name", "last_seen", "current_task"), "nobody")


@subcommand("status", "Count tasks and agents.")
def status(context: Context, args: Args) -> None:
    """Counts the newest 1000 tasks by state."""
    daemon = CoordClient(args)
    facts = {"agents": len(daemon.ask("agents/list"))}
    for task in daemon.ask("tasks/list", limit=1000):
        facts[task["state"]] = facts.get(task["state"], 0) + 1
    context.answer(facts, "  ".join(f"{name} {count}" for name, count in facts.items()))


# ── The command ──────────────────────────────────────────────────────────────────────────────────────


def _every_option() -> list[Option]:
    """The options of all subcommands. The chosen subcommand converts their values."""
    found = {option.name: option for each in SUBCOMMANDS.values() for option in each.options}
    return [Option(option.name, option.metavar, option.text) for option in found.values()]


@command(
    "coord",
    "Use coord's command line with a daemon.",
    Argument("command", ", ".join(SUBCOMMANDS)),
    Argument("words", "the arguments of that command", many=True, optional=True),
    *_every_option(),
    example="tb coord claim 01932c5e-7a4d-7b1e-8d3f-2a6b9c0d1e2f --as multi-agent-3",
)
def coord(context: Context, args: Args) -> int:
    """Prints JSON, as coord does, except for lists. Exit 1 if another agent holds the task."""
    wanted = SUBCOMMANDS.get(args.command)
    if wanted is None:
        raise Invalid(f"coord: unknown command {args.command!r}", hint=f"there are: {', '.join(SUBCOMMANDS)}")
    words = [
        f"--{option.name}={args[option.key]}" if option.metavar else f"--{option.name}"
        for option in _every_option()
        if args[option.key] not in (None, False)
    ]
    options = Args({option.key: args[option.key] for option in GLOBAL})
    return wanted.run(context, parse(wanted, [*words, "--", *args.words], options)) or 0


class CoordClient:
    """A client of coord's JSON-RPC at a URL."""

    def __init__(self, args: Args) -> None:
        from ..remote import RemoteEngine

        url = args.url or args.board or os.environ.get("COORD_URL") or URL
        if not url.startswith(("http://", "https://", "unix:")):
            raise Invalid(f"coord: --url: expected http://HOST:PORT, got {url!r}")
        self._url = url
        self._project = args.project
        self._engine = RemoteEngine(url)

    def ask(self, method: str, nap: float = 0.0, **params: Any) -> Any:
        """The result of a method, or raise the error. A retried write returns its first answer."""
        from ..remote import ANSWER
        from ..text import json, read_json

        given = {name: value for name, value in {**params, "project": self._project}.items() if value is not None}
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": given, "once": os.urandom(16).hex()}
        body = self._engine.ask("POST", "/", json(request).encode(), nap + ANSWER)
        try:
            answer = read_json(body.decode())
            error = answer.get("error")
            if error is None:
                return answer["result"]
            message, code = str(error["message"]), error.get("code")
        except (ValueError, AttributeError, KeyError, TypeError):
            raise Unavailable(f"coord: what answers at {self._url} does not speak coord's protocol") from None
        raise from_dict({"error": KINDS.get(code, ""), **(error.get("data") or {}), "message": message})


def _agent(args: Args) -> str:
    if not args["as"]:
        raise Invalid("coord: --as AGENT is missing")
    return str(args["as"])


def _lease(args: Args) -> float | None:
    given = args.lease if args.lease is not None else args.lease_seconds
    return None if given is None else seconds(given, "coord: --lease")


def _print_json(context: Context, result: Any) -> None:
    from ..text import json

    context.answer(result, json(result))


def _print_table(context: Context, found: list[dict[str, Any]], keys: tuple[str, ...], none: str) -> None:
    from ..text import table

    rows = [[str(each.get(key) or "-") for key in keys] for each in found]
    header = [key.replace("_", " ").upper() for key in keys]
    context.answer(found, table(rows, header=header, limit=context.width) if rows else none)
