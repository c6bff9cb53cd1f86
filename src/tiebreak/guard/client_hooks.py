"""Answers the hooks of agent clients, from `tb hook` and over HTTP: parse the call, decide, answer.

Whatever fails, the client gets an answer that it understands. Under the open policy the work goes on, and a warning is
left on the board; under the closed policy, what cannot be checked is refused (`failure_policy`).
"""

from __future__ import annotations

import os

from ..errors import Invalid, TiebreakError
from ..names import shown
from .agent_state import PROMPT_FACT
from .hook_call import (
    AFTER,
    BEFORE,
    EDIT,
    END,
    PERMISSION,
    PROMPT,
    READ,
    SHELL,
    START,
    STOP,
    SUBAGENT_STOP,
    Answer,
    Verdict,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..engine.protocol import Engine
    from .hook_call import HookCall
    from .hook_context import HookContext

CLIENTS = ("claude", "codex", "cursor", "gemini")
LARGEST = 64 * 1024 * 1024


def respond(
    client: str,
    event: str,
    given: bytes | dict[str, Any],
    connect: Callable[[], Engine],
    environ: Mapping[str, str] = os.environ,
    *,
    own_process: bool = True,
) -> Answer:
    """Answer one hook call of a client.

    `own_process`: the client started this process, so it is known which process the client is. Over HTTP it is not.
    """
    call: HookCall | None = None
    try:
        call = client_module(client).understand(_read(given), event)
        if call is None:  # the client's other hooks answer this one
            return Answer({} if client == "cursor" else None)
        verdict = decide(call, connect(), environ, own_process=own_process)
        module = client_module(call.client)
        answer: Answer = module.answer(call, event, verdict)
        if call.phase in module.SHOWS:
            answer.when_told = verdict.when_told
        return answer
    except Exception as exc:
        return _failed(client, event, given, call, exc, connect, environ)


def client_module(client: str) -> Any:
    """The module that knows this client's hook format."""
    if client not in CLIENTS:
        raise Invalid(f"unknown client {shown(client)}", hint=f"one of {', '.join(CLIENTS)}")
    if client == "claude":
        from .clients import claude

        return claude
    from importlib import import_module

    return import_module(f"{__package__}.clients.{client}")


def _read(given: bytes | dict[str, Any]) -> dict[str, Any]:
    if isinstance(given, dict):
        return given
    if len(given) > LARGEST:
        raise Invalid("hook input: too large")
    from ..text import read_json

    try:
        data = read_json(given.removeprefix(b"\xef\xbb\xbf").decode().strip())
    except (ValueError, RecursionError) as exc:
        raise Invalid(f"hook input: {exc}") from None
    if not isinstance(data, dict):
        raise Invalid("hook input: not a JSON object")
    return data


def decide(call: HookCall, engine: Engine, environ: Mapping[str, str], *, own_process: bool = True) -> Verdict:
    """Decide about a call."""
    from .hook_context import HookContext

    hook = HookContext(engine, call, environ)
    if call.phase != BEFORE:  # what comes before a tool does not end a prompt: tools may run side by side
        _tell_prompt(hook)
    if call.phase in (BEFORE, AFTER):
        return _about_tool(hook, own_process=own_process)
    if call.phase in (START, PROMPT, STOP, SUBAGENT_STOP, END):
        from . import session_events

        if call.phase == START:
            return session_events.start(hook, own_process=own_process)
        step = {
            PROMPT: session_events.prompt,
            STOP: session_events.stop,
            SUBAGENT_STOP: session_events.subagent_stop,
            END: session_events.end,
        }
        return step[call.phase](hook)
    hook.renew()
    return Verdict()


def _tell_prompt(hook: HookContext) -> None:
    """Tell the board that the agent stands at a prompt, or that it goes on."""
    if hook.call.phase == PERMISSION:
        hook.state.put(PROMPT_FACT, hook.call.asks.encode())
        hook.board.agents.prompt(note=hook.call.asks)
    elif hook.state.get(PROMPT_FACT) is not None:
        hook.state.forget(PROMPT_FACT)
        hook.board.agents.prompt()


def _about_tool(hook: HookContext, *, own_process: bool) -> Verdict:
    call = hook.call
    if call.tool == EDIT:
        from .files import edits

        if call.phase == BEFORE:
            return edits.before(hook, reading_tool=client_module(call.client).READS)
        return edits.after(hook)
    if call.tool == SHELL:
        from .files import shell_changes

        if call.phase == AFTER:
            return shell_changes.after(hook)
        verdict = shell_changes.before(hook)
        if own_process:
            from .lease_renewer import start_renewer

            start_renewer(hook)
        return verdict
    if call.tool == READ and call.phase == AFTER:
        from .files import edits

        return edits.seen(hook)
    hook.renew()
    return Verdict()


def refused(client: str, event: str, reason: str) -> Answer:
    """A refusal in the client's format, where an exit code cannot be used."""
    from .hook_call import HookCall

    answer: Answer = client_module(client).answer(HookCall(client, BEFORE, "", "/"), event, Verdict(deny=reason))
    return answer


# ── When something fails ─────────────────────────────────────────────────────────────────────────────


def _failed(
    client: str,
    event: str,
    given: bytes | dict[str, Any],
    call: HookCall | None,
    exc: Exception,
    connect: Callable[[], Engine],
    environ: Mapping[str, str],
) -> Answer:
    """Refuse or go on, by the repository's policy. Every client takes exit code 2 as a refusal."""
    from ..text import plain
    from .failure_policy import CLOSED, policy

    reason = exc.message if isinstance(exc, TiebreakError) else f"internal error: {type(exc).__name__}"
    message = f"tiebreak: the guard could not check this ({plain(reason)[:300]})"
    try:
        closed = any(policy(folder) == CLOSED for folder in _folders(given, call))
    except Exception:
        closed = True
    if closed and _comes_before(client, event):
        return Answer(
            err=f"{message}; the repository's policy is closed, so it is refused. `tb doctor` shows what is wrong.",
            code=2,
        )
    _warn(message, call, connect, environ)
    if isinstance(exc, TiebreakError):
        return Answer({} if client == "cursor" else None, err=message, code=1)
    return Answer({} if client == "cursor" else None, err=f"{message}: {plain(str(exc))[:200]}", code=1)


def _folders(given: bytes | dict[str, Any], call: HookCall | None) -> list[str]:
    """The folders that the call may concern. If one is in a repository with the closed policy, the call is refused."""
    folders = [os.getcwd()]
    if call is not None:
        return [*folders, call.cwd, *map(os.path.dirname, call.paths)]
    try:
        data = _read(given)
    except Invalid:
        return folders
    roots = data.get("workspace_roots")
    named = [data.get("cwd"), *(roots if isinstance(roots, list) else [])]
    return folders + [each for each in named if isinstance(each, str)]


def _comes_before(client: str, event: str) -> bool:
    """Whether a refusal of this event can stop something; an unknown event counts as if it could."""
    try:
        known = client_module(client).EVENTS
    except Invalid:
        return True
    name = event if event in known else event[:1].lower() + event[1:]
    return bool(known.get(name, BEFORE) == BEFORE)


def _warn(message: str, call: HookCall | None, connect: Callable[[], Engine], environ: Mapping[str, str]) -> None:
    """Leave a warning on the board, if it can be reached."""
    try:
        from ..board import Board
        from .guarded_file import project_of
        from .hook_context import agent_of

        agent = agent_of(call, environ) if call is not None else "guard"
        project = project_of(call.cwd if call is not None else os.getcwd(), environ)
        Board(connect(), agent=agent, project=project).agents.warn(note=message[:900])
    except Exception:
        return  # the board cannot be reached
