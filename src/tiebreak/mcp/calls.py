"""Runs the tools: each one makes a few calls of the board, on threads, and renders the answer for a model.

A tool call that is cancelled while it wins a claim or hold releases it again (see `aio`), because the client would
never learn that it won.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import Invalid, TimedOut
from ..limits import CLAIM_LEASE, HOLD_LEASE, LISTED, TOOL_WAIT
from ..names import shown
from . import rendering as show
from .advice import next_step
from .tools import ARGUMENTS, PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..aio import AsyncBoard

    Tool = Callable[["AsyncBoard", dict[str, Any]], Awaitable[dict[str, Any]]]

UNFINISHED = ["blocked", "pending", "claimed"]
FEW = 20
"""Entries in a list, unless the model asks for more."""


async def call(board: AsyncBoard, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run a tool, or raise the refusal of the board."""
    if name not in TOOLS:
        raise Invalid(f"no tool {shown(name)}", hint=f"there are: {', '.join(TOOLS)}")
    return await TOOLS[name](board, _checked(name, arguments))


def _checked(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, checked and normalised, without nulls."""
    known = ARGUMENTS[name]
    given = {key: value for key, value in arguments.items() if value is not None}
    for key, value in given.items():
        if key not in known:
            raise Invalid(f"{name}: unknown argument {shown(key)}", hint=f"it takes: {', '.join(known)}")
        given[key] = known[key].check(value, f"{name}: {key}")
    for key in PARAMETERS[name].get("required", ()):
        if key not in given:
            raise Invalid(f"{name}: {key} is missing")
    return given


def _only(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _wait_seconds(given: dict[str, Any]) -> float:
    return min(float(given.get("wait", 0.0)), TOOL_WAIT)


def token(text: Any) -> tuple[str, int]:
    """Split a token into its reference and its epoch."""
    ref, mark, epoch = text.rpartition("@") if isinstance(text, str) else ("", "", "")
    if not (mark and ref and epoch.isascii() and epoch.isdigit() and len(epoch) < 19 and int(epoch) > 0):
        raise Invalid(f"token: REF@EPOCH as claim or hold gave it, got {shown(text)}")
    return ref, int(epoch)


# ── Reading ──────────────────────────────────────────────────────────────────────────────────────────


async def look(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    """Read the board."""
    what = given.pop("what", "board")
    return await _LOOKS[what](board, given)


async def _overview(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    me, sync = board.sync.agent, board.sync
    status = await board.run(partial(sync.upkeep.status, count_events=False))
    mine = await board.run(partial(sync.tasks.list, agent=me, states=["claimed"], limit=FEW))
    held = await board.run(partial(sync.holds.list, agent=me, limit=FEW))
    unread = await board.run(partial(sync.messages.inbox, limit=LISTED))
    here = [each for each in await board.run(sync.agents.list) if each.status != "gone"]
    counts = {name: getattr(status, name) for name in ("pending", "claimed", "blocked", "completed", "failed", "holds")}
    return {
        "board": {
            "project": sync.project,
            "you": me,
            **counts,
            "unread": len(unread),
            "agents": [show.agent(each)["name"] for each in here[:FEW]],
        },
        "tasks": [show.task(each, whole=False, me=me) for each in mine],
        "holds": [show.hold(each, me) for each in held if sync.is_me(each)],
    }


async def _tasks(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    states = [given["state"]] if "state" in given else UNFINISHED
    filters = {"states": states, "limit": given.get("limit", FEW), "name_contains": given.get("contains")}
    filters |= {"parent": given["ref"]} if "ref" in given else {}
    found = await board.run(partial(board.sync.tasks.list, **filters))
    return {"tasks": [show.task(each, whole=False, me=board.sync.agent) for each in found]}


async def _tree(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    options = {"limit": given.get("limit", LISTED), **_only(given, "ref")}
    found = await board.run(partial(board.sync.tasks.tree, **options))
    return {"tasks": [show.task(each, whole=False, me=board.sync.agent) for each in found]}


async def _export(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    after = 0
    if "ref" in given:
        after = (await board.run(partial(board.sync.tasks.get, ref=given["ref"]))).number
    page = await board.run(partial(board.sync.tasks.export, after=after, limit=given.get("limit", FEW)))
    return show.exported(page)


async def _task(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    found = await board.run(partial(board.sync.tasks.get, ref=_ref(given)))
    comments = await board.run(partial(board.sync.messages.comments, ref=found.id, limit=given.get("limit", LISTED)))
    told = {"messages": [show.message(each) for each in comments]} if comments else {}
    return {"task": show.task(found, me=board.sync.agent), **told}


def _ref(given: dict[str, Any]) -> Any:
    if "ref" not in given:
        raise Invalid("look: ref is missing", hint="ref says which task or resource")
    return given["ref"]


async def _holds(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    matching = await board.run(board.sync.resource, given["ref"]) if "ref" in given else None
    found = await board.run(partial(board.sync.holds.list, matching=matching, limit=given.get("limit", LISTED)))
    return {"holds": [show.hold(each, board.sync.agent) for each in found]}


async def _waits(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    matching = await board.run(board.sync.resource, given["ref"]) if "ref" in given else None
    found = await board.run(partial(board.sync.waits.list, matching=matching, limit=given.get("limit", LISTED)))
    return {"waits": [show.wait(each) for each in found]}


async def _agents(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    found = await board.run(board.sync.agents.list)
    return {"agents": [show.agent(each) for each in found][: given.get("limit", LISTED)]}


async def _inbox(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    found = await board.run(partial(board.sync.messages.inbox, limit=given.get("limit", FEW)))
    return {"messages": [show.message(each) for each in found]}


async def _why(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    ref = _ref(given)
    if isinstance(ref, str):
        ref = await board.run(board.sync.reference, ref)
    told = await board.run(partial(board.sync.events.why, ref=ref, limit=given.get("limit", FEW)))
    return {"story": [show.sentence(each) for each in told]}


_LOOKS: dict[str, Tool] = {
    "board": _overview,
    "tasks": _tasks,
    "tree": _tree,
    "task": _task,
    "holds": _holds,
    "waits": _waits,
    "agents": _agents,
    "inbox": _inbox,
    "why": _why,
    "export": _export,
}


# ── Tasks ────────────────────────────────────────────────────────────────────────────────────────────


_EDITS_ALONE = ("no_body", "no_parent", "no_tags")


async def post(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    """Post a task or many, or edit one."""
    if "entries" in given:
        if wrong := [key for key in given if key != "entries"]:
            raise Invalid(f"post: {wrong[0]} does not go with entries", hint="each entry has its own")
        imported = await board.run(partial(board.sync.tasks.import_, **given))
        return {"tasks": [show.imported(each) for each in imported]}
    if "ref" in given:
        if wrong := [key for key in ("payload", "kind", "key", "after") if key in given]:
            raise Invalid(f"post: {wrong[0]} does not go with ref", hint="a task keeps it as it was posted")
        posted = await board.run(partial(board.sync.tasks.edit, **given))
    elif wrong := [key for key in _EDITS_ALONE if key in given]:
        raise Invalid(f"post: {wrong[0]} goes with ref", hint="ref says which task to edit")
    elif "name" not in given:
        raise Invalid("post: name is missing")
    else:
        posted = await board.run(partial(board.sync.tasks.post, **given))
    return {"task": show.task(posted, whole=False, me=board.sync.agent)}


async def claim(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    """Claim a task by reference, or the next ready ones."""
    wait, lease = _wait_seconds(given), given.get("lease", CLAIM_LEASE)
    if "ref" in given:
        more = [key for key in ("kind", "tag", "count", "order") if key in given]
        if more:
            raise Invalid(f"claim: {more[0]} goes with the next ready task, not with ref")
        won = [await board.claim(given["ref"], lease=lease, wait=wait, create=False)]
    else:
        won = await board.next(lease=lease, wait=wait, **_only(given, "kind", "tag", "count", "order"))
    return {"tasks": [show.task(each.sync.task, me=board.sync.agent) for each in won]}


_ARGUMENTS_OF = {"extend": ("lease",), "complete": ("result",), "fail": ("reason", "retry"), "release": ("reason",)}


async def update(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    """Extend, complete, fail or release a claim."""
    ref, epoch = token(given["token"])
    action = given["action"]
    allowed = _ARGUMENTS_OF[action]
    wrong = [key for key in given if key not in ("token", "action", *allowed)]
    if wrong:
        raise Invalid(f"update: {wrong[0]} does not go with {action}", hint=f"{action} takes: {', '.join(allowed)}")
    operation = getattr(board.sync.tasks, action)
    written = await board.run(partial(operation, ref=ref, epoch=epoch, **_only(given, *allowed)))
    return {"task": show.task(written, me=board.sync.agent)}


# ── Holds ────────────────────────────────────────────────────────────────────────────────────────────


async def hold(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    """Take, renew or release resources."""
    if given["action"] == "take":
        return await _take(board, given)
    if not given.get("tokens"):
        raise Invalid(f"hold: {given['action']} needs tokens", hint="those that take gave; look holds shows yours")
    parts = [_hold_token(each) for each in given["tokens"]]
    named: dict[str, Any] = {
        "resources": [p[0] for p in parts],
        "slots": [p[1] for p in parts],
        "epochs": [p[2] for p in parts],
    }
    if given["action"] == "renew":
        renewed = await board.run(partial(board.sync.holds.renew, **named, **_only(given, "lease")))
        return {"holds": [show.hold(each, board.sync.agent) for each in renewed]}
    released = await board.run(partial(board.sync.holds.release, **named))
    return {"holds": [show.released(each) for each in released]}


async def _take(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    resources = given.get("resources")
    if not resources:
        raise Invalid("hold: take needs resources", hint="paths, globs, lock:NAME, seat:NAME or pool:NAME")
    won = await board.hold(
        *resources,
        lease=given.get("lease", HOLD_LEASE),
        wait=_wait_seconds(given),
        again=not any(each.startswith("pool:") for each in resources),  # taking a pool again must give a second slot
        **_only(given, "note", "slots"),
    )
    return {"holds": [show.hold(each, board.sync.agent) for each in won.sync.holds]}


def _hold_token(text: Any) -> tuple[str, int, int]:
    resource, epoch = token(text)
    if not resource.startswith("pool:"):
        return resource, 0, epoch
    pool, _, slot = resource.rpartition("#")
    if not (pool and slot.isascii() and slot.isdigit()):
        raise Invalid(f"token: pool:NAME#SLOT@EPOCH as hold gave it, got {shown(text)}")
    return pool, int(slot), epoch


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────────


async def message(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    """Send or acknowledge a message."""
    if given["action"] == "ack":
        if "number" not in given:
            raise Invalid("message: ack needs number", hint="look inbox shows the numbers")
        acked = await board.run(partial(board.sync.messages.ack, number=given["number"]))
        await board.run(partial(board.sync.messages.mark, upto=given["number"]))
        return {"message": show.message(acked)}
    if "text" not in given:
        raise Invalid("message: send needs text")
    options = _only(given, "to", "reply_to", "importance", "ack_requested", "later", "about")
    sent = await board.run(partial(board.sync.messages.send, body=given["text"], **options))
    return {"message": show.message(sent)}


# ── Questions to a person ────────────────────────────────────────────────────────────────────────────


async def ask(board: AsyncBoard, given: dict[str, Any]) -> dict[str, Any]:
    """Ask a person, and wait for the answer for a while; a question without an answer stays open."""
    wait = _wait_seconds(given)
    asked = await board.run(partial(board.sync.questions.ask, **_only(given, "text", "choices", "about", "key")))
    open_still: TimedOut | None = None
    try:
        await board.answer_to(asked.number, wait=wait)
    except TimedOut as exc:
        open_still = exc
    question = await board.run(partial(board.sync.tasks.get, asked.number))
    shown = {"question": show.task(question, whole=False)}
    if open_still is not None and question.state != "completed":
        return {**shown, "next": next_step(open_still)}
    return {**shown, "answer": show.answer(question)}


TOOLS: dict[str, Tool] = {
    "look": look,
    "post": post,
    "claim": claim,
    "update": update,
    "hold": hold,
    "message": message,
    "ask": ask,
}
