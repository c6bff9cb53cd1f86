"""`POST /web/act`: does an action of a page, under the name of the person who was signed in for acting.

A request counts only with the cookie of a session and the write key of the same session in a header (see
`browser_sessions`). Other sites and other ports can send neither the header nor the body as JSON without asking first
(CORS), and are never allowed to. So a forged request cannot get here.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from ...errors import Invalid, TiebreakError
from ...names import shown
from ...operations import find
from ..routes import BROWSER, ONCE_HEADER, Response, route
from ..rpc import parse_object
from .actions import ACTIONS, MOST, Action

if TYPE_CHECKING:
    from ...operations import Call
    from ..routes import Request
    from ..service import Service

KEY_HEADER = {"Tiebreak-Write": {"type": "string", "description": "the write key of the browser's session"}}


@route(
    "POST",
    "/web/act",
    "Do an action of a page, as the person who was signed in for it.",
    body={
        "type": "object",
        "properties": {"action": {"type": "string", "enum": list(ACTIONS)}, "params": {"type": "object"}},
        "required": ["action"],
    },
    body_required=True,
    headers={**KEY_HEADER, **ONCE_HEADER},
    answers={200: "what was done", 400: "no such action, or wrong parameters", 409: "refused"},
    group=BROWSER,
    strangers=False,
    acting=True,
)
async def act(service: Service, request: Request) -> Response:
    """The operation is run by this person, so its event has the person's name."""
    session = service.access.sessions.acting(request.headers, request.user)
    if session is None:  # the token alone gets here, too
        raise Invalid("Tiebreak-Write: this route is for browsers that are signed in", hint="programs use POST /rpc")
    given = parse_object(request.body)
    action, params = _checked(given)
    if action.each_of:
        said = await _do_each(service, action, params, session.person, request.once)
    else:
        await service.call(action.operation, {**params, "agent": session.person}, once=request.once)
        said = action.done
    cursor = await service.call("events.last", {})
    return Response(msgspec.json.encode({"said": said, "cursor": cursor}))


def _checked(given: dict[str, Any]) -> tuple[Action, dict[str, Any]]:
    """The action of a request and its parameters: those that the page or the person gives, and no others."""
    name, params = given.get("action"), given.get("params", {})
    action = ACTIONS.get(name) if isinstance(name, str) else None
    if action is None:
        raise Invalid(f"action: there is no action {shown(name)}", hint=f"there are: {', '.join(ACTIONS)}")
    if not isinstance(params, dict):
        raise Invalid(f"params: expected an object, got {shown(params)}")
    known = {*action.given, *(each.name for each in action.fields), "project"}
    if unknown := set(params) - known:
        raise Invalid(f"params: {name} takes no {min(unknown)!a}")
    return action, {key: value for key, value in params.items() if value not in (None, "")}


async def _do_each(service: Service, action: Action, params: dict[str, Any], person: str, once: str | None) -> str:
    """Do an action on every task that the filters match; at most `MOST`, the newest. Says how many were done.

    With an idempotency key, a request that is sent twice changes no task twice.
    """
    fields = {each.name for each in action.fields}
    new = {key: value for key, value in params.items() if key in fields}
    filters = {key.removesuffix("_is"): value for key, value in params.items() if key not in fields}
    if "project" not in filters:
        raise Invalid("project: choose one first, an action on a set is done in one project")
    find("tasks.list").checked(filters)
    states = [each for each in filters.get("states") or action.each_of if each in action.each_of]
    found = await service.call("tasks.list", {**filters, "states": states, "limit": MOST}) if states else []
    operation = find(action.operation)
    calls: list[Call] = [
        (
            operation,
            {**new, "ref": str(each.number), "project": each.project, "agent": person},
            _once_for(once, each.number),
        )
        for each in found
    ]
    answers = await service.write(calls) if calls else []
    refused = [each for each in answers if isinstance(each, TiebreakError)]
    said = f"{action.done}: {len(answers) - len(refused)} of {len(answers)} tasks."
    if len(found) == MOST:
        said += f" There may be more: {MOST} are done at once."
    return said + (f" The first refusal: {refused[0].message}." if refused else "")


def _once_for(once: str | None, number: int) -> str | None:
    """The idempotency key of the call for one task of a set: of a fixed length, however long the request's own is."""
    return None if once is None else sha256(f"{number} {once}".encode()).hexdigest()
