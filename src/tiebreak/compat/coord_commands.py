"""`tb coord …`: the command line of the program coord, for any daemon that understands coord's JSON-RPC."""

from __future__ import annotations

import os

from ..cli.command_group import CommandGroup
from ..cli.parser import GLOBAL, Args, Argument, Option, command, json_argument, parse, whole
from ..errors import Invalid, NotFound, TimedOut, Unavailable, from_dict
from ..limits import CLAIM_LEASE, MAX_LIMIT, SHOWN
from ..names import ANNOUNCEMENTS, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..cli.context import Context

URL = "http://127.0.0.1:7777"
ADDRESS = "127.0.0.1:7777"
WINDOW = 25.0
"""Longest single wait in seconds; after each one a waiting agent sends a heartbeat."""
KINDS = {-32001: "Refused", -32600: "Invalid", -32601: "Invalid", -32602: "Invalid"}
"""The kinds of errors by JSON-RPC code, for daemons that do not send the kind."""

TO = Option("url", "URL", f"the daemon (default: COORD_URL, else {URL})")
ID = Argument("id", "the task's id")
LEASES = (
    Option("lease", "SECONDS", f"how long the claim lasts unless renewed (default {CLAIM_LEASE:g})"),
    Option("lease-seconds", "SECONDS", "the same as --lease"),
)
PRIORITY = Option("priority", "PRIORITY", "the priority", sets="tasks.list.priority")
FILTERS = (
    Option("kind", "KIND", "the kind of task"),
    PRIORITY,
    Option("state", "STATE", "pending, claimed, completed, failed or cancelled (wait: or any)"),
    Option("name-contains", "TEXT", "a part of the name"),
)
NAME = Option("name", "NAME", "heartbeat, wait: the name to show for an agent")


GROUP = CommandGroup("coord", TO)


# ── Serving ──────────────────────────────────────────────────────────────────────────────────────────


@GROUP.command(
    "serve",
    "Run the daemon.",
    Option("addr", "HOST:PORT", f"serve: where to listen (default: COORD_ADDR, else {ADDRESS})"),
    Option("db", "PATH", "serve: the database (default: COORD_DB, else your own board)"),
    Option("open", text="serve: need no token on loopback, for clients that send none"),
)
def serve(context: Context, args: Args) -> int:
    """The same daemon as `tb serve`."""
    from ..cli import find

    wanted = find("serve")
    words = ["--addr", args.addr or os.environ.get("COORD_ADDR") or ADDRESS, *(["--open"] if args.open else [])]
    given = parse(wanted, words, Args({option.key: args[option.key] for option in GLOBAL}))
    given["board"] = args.db or os.environ.get("COORD_DB") or args.board
    return wanted.run(context, given) or 0


@GROUP.command("version", "Show the version.")
def version(context: Context, args: Args) -> None:
    """Needs no daemon."""
    from .. import __version__

    _tell(context, {"tiebreak": __version__, "protocol": "coord, JSON-RPC 2.0"})


# ── Tasks ────────────────────────────────────────────────────────────────────────────────────────────


@GROUP.command(
    "send",
    "Post a task.",
    Argument("task", "what is to be done"),
    FILTERS[0],
    PRIORITY,
    Option("payload", "JSON", "send: its payload: JSON, @FILE or - for standard input", convert=json_argument),
)
def send(context: Context, args: Args) -> None:
    """Prints the task, its id first."""
    given = {key: args[key] for key in ("kind", "priority", "payload")}
    _tell(context, CoordClient(args).ask("tasks/send", name=args.task, agentId=args["as"], **given))


@GROUP.command("get", "Show a task.", ID)
def get(context: Context, args: Args) -> None:
    """Exit 1 if there is no such task."""
    task = CoordClient(args).ask("tasks/get", id=args.id)
    if task is None:
        raise NotFound(f"no task {args.id!r}")
    _tell(context, task)


@GROUP.command(
    "list",
    "List tasks.",
    *FILTERS,
    Option("limit", "N", f"list: at most this many (default {SHOWN})", convert=whole),
    Option("wait-ms", "N", "list: wait that many milliseconds for the first one", convert=whole),
)
def listing(context: Context, args: Args) -> None:
    """Newest first."""
    given = {"kind": args.kind, "priority": args.priority, "state": args.state, "nameContains": args.name_contains}
    waits = args.wait_ms or 0
    found = CoordClient(args).ask("tasks/list", max(0, waits) / 1000, limit=args.limit, wait_ms=waits or None, **given)
    _show(context, found, ("id", "state", "priority", "kind", "claimed_by", "name"), "no tasks")


GROUP.subcommands["tasks"] = GROUP.subcommands["list"]


@GROUP.command("claim", "Claim a task.", ID, *LEASES)
def claim(context: Context, args: Args) -> None:
    """Exit 0 if you have it now, 1 if somebody else has it."""
    _tell(context, CoordClient(args).ask("tasks/claim", id=args.id, agentId=_agent(args), leaseSeconds=_lease(args)))


@GROUP.command("extend", "Renew a claim for another lease.", ID, *LEASES)
def extend(context: Context, args: Args) -> None:
    """Only the holder can do it."""
    _tell(context, CoordClient(args).ask("tasks/extend", id=args.id, agentId=_agent(args), leaseSeconds=_lease(args)))


@GROUP.command("reclaim", "Make tasks with lapsed claims available again.")
def reclaim(context: Context, args: Args) -> None:
    """Lists these tasks."""
    _tell(context, CoordClient(args).ask("tasks/reclaim"))


@GROUP.command(
    "complete",
    "Finish a claimed task.",
    ID,
    Option("result", "JSON", "complete: the result: JSON, @FILE or - for standard input", convert=json_argument),
    Option("ack", "NAME", "complete: post an announcement of this name in the same transaction"),
    Option("ack-priority", "PRIORITY", "complete: the announcement's priority (default high)"),
    Option("ack-payload", "JSON", "complete: the announcement's payload", convert=json_argument),
)
def complete(context: Context, args: Args) -> None:
    """Only the holder can do it."""
    ack = {"ackName": args.ack, "ackPriority": args.ack_priority, "ackPayload": args.ack_payload}
    if args.ack is None and any(value is not None for value in ack.values()):
        raise Invalid("coord complete: --ack-priority and --ack-payload only make sense with --ack")
    given = {"id": args.id, "agentId": _agent(args), "result": args.result, **ack}
    _tell(context, CoordClient(args).ask("tasks/complete", postAck=args.ack is not None, **given))


@GROUP.command("cancel", "Cancel a task.", ID)
def cancel(context: Context, args: Args) -> None:
    """A finished task stays as it is."""
    _tell(context, CoordClient(args).ask("tasks/cancel", id=args.id, agentId=args["as"]))


@GROUP.command(
    "wait",
    "Wait for a task that matches.",
    *FILTERS,
    NAME,
    Option("timeout", "SECONDS", "wait: give up after (default 600)", default="600"),
)
def wait(context: Context, args: Args) -> None:
    """Exit 2 if none was found in time."""
    from time import monotonic

    usual = "completed" if args.kind in ANNOUNCEMENTS else "pending"
    filters = {"kind": args.kind, "priority": args.priority, "nameContains": args.name_contains}
    filters["state"] = None if args.state == "any" else args.state or usual
    daemon, end = CoordClient(args), monotonic() + seconds(args.timeout, "coord wait: --timeout")
    while True:
        if args["as"]:
            daemon.ask("agents/heartbeat", id=args["as"], name=args.name or "watcher")
        longest = max(0.0, min(WINDOW, end - monotonic()))
        found = daemon.ask("tasks/list", longest, limit=1, wait_ms=int(longest * 1000), **filters)
        if found:
            return _tell(context, found[0])
        if monotonic() >= end:
            raise TimedOut(f"no such task within {args.timeout} s")


# ── Agents ───────────────────────────────────────────────────────────────────────────────────────────


@GROUP.command(
    "heartbeat", "Show that an agent is still active.", Argument("agent", "who (or --as)", optional=True), NAME
)
def heartbeat(context: Context, args: Args) -> None:
    """Registers an agent that is new."""
    who = args["as"] or args.agent or _agent(args)
    _tell(context, CoordClient(args).ask("agents/heartbeat", id=who, name=args.name or "shell-agent"))


@GROUP.command("agents", "List agents.")
def agents(context: Context, args: Args) -> None:
    """Most recently seen first."""
    _show(context, CoordClient(args).ask("agents/list"), ("id", "name", "last_seen", "current_task"), "nobody")


@GROUP.command("status", "Count tasks and agents.")
def status(context: Context, args: Args) -> None:
    """Of the newest 1000 tasks."""
    daemon = CoordClient(args)
    facts = {"agents": len(daemon.ask("agents/list"))}
    for task in daemon.ask("tasks/list", limit=MAX_LIMIT):
        facts[task["state"]] = facts.get(task["state"], 0) + 1
    context.answer(facts, "  ".join(f"{name} {count}" for name, count in facts.items()))


# ── The command ──────────────────────────────────────────────────────────────────────────────────────


@command(
    "coord",
    "Speak coord's command line to a daemon.",
    *GROUP.parts,
    example="tb coord claim 01932c5e-7a4d-7b1e-8d3f-2a6b9c0d1e2f --as multi-agent-3",
)
def coord(context: Context, args: Args) -> int:
    """Answers in JSON, as coord does, except for lists. Exit 1 if somebody else has the task."""
    return GROUP.run(context, args)


class CoordClient:
    """A client of the daemon that speaks coord's JSON-RPC at the URL."""

    def __init__(self, args: Args) -> None:
        from ..remote import RemoteEngine

        url = args.url or args.board or os.environ.get("COORD_URL") or URL
        if not url.startswith(("http://", "https://", "unix:")):
            raise Invalid(f"coord: --url: expected http://HOST:PORT, got {url!r}")
        self._url = url
        self._project = args.project
        self._engine = RemoteEngine(url)

    def ask(self, method: str, longest: float = 0.0, **params: Any) -> Any:
        """Call a method; raises what the daemon refused. A repeated write gets its first answer."""
        from ..remote import ANSWER
        from ..text import json, read_json

        given = {name: value for name, value in {**params, "project": self._project}.items() if value is not None}
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": given, "once": os.urandom(16).hex()}
        body = self._engine.ask("POST", "/", json(request).encode(), longest + ANSWER)
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


def _tell(context: Context, result: Any) -> None:
    from ..text import json

    context.answer(result, json(result))


def _show(context: Context, found: list[dict[str, Any]], keys: tuple[str, ...], none: str) -> None:
    from ..text import table

    rows = [[str(each.get(key) or "-") for key in keys] for each in found]
    header = [key.replace("_", " ").upper() for key in keys]
    context.answer(found, table(rows, header=header, limit=context.width) if rows else none)
