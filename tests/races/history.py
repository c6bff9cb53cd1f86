"""A history: what each client asked, when, and what it was told; and the judge who holds it against the board.

An outcome is `ok`, `refused` (the daemon said no, so nothing may have happened) or `unknown` (the client gave up:
it happened once or not at all). Whatever the log tells must be accounted for by a call, and each acknowledged call by
the log.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tiebreak import Event, Task

from . import checkers
from .checkers import Broken, Grant

OK, REFUSED, UNKNOWN = "ok", "refused", "unknown"
TOLD = {
    "tasks.post": "task.posted",
    "tasks.complete": "task.completed",
    "tasks.extend": "task.extended",
    "tasks.release": "task.released",
}
"""The event that each write leaves, beside those that win something."""
WINNING = ("tasks.claim", "tasks.next")

Sign = tuple[str, str, int, str]
"""What makes a change one of its kind: the event, the task's id (or name, for a post), the epoch, the agent."""


class Call(NamedTuple):
    """One call of one client. The times are of the one clock that all processes of a machine share."""

    begin: float
    end: float
    agent: str
    name: str
    params: dict[str, Any]
    outcome: str
    answer: list[tuple[str, int, str]]
    """(id, epoch, state) of each task in the answer."""


class Board(NamedTuple):
    """What the board tells when all is over."""

    events: Sequence[Event]
    tasks: dict[str, Task]


def judge(calls: Sequence[Call], board: Board) -> None:
    """Everything that must be so; raises `Broken`."""
    one_winner_for_each_epoch(calls)
    posts_are_there(calls, board)
    checkers.numbered_without_gap(board.events)
    checkers.one_holder_at_a_time(board.events)
    epochs_have_no_gap(board)
    wins_are_accounted_for(calls, board)
    writes_are_accounted_for(calls, board)
    completions_are_final(calls, board)
    epochs_follow_time(calls)
    nobody_sees_the_past(calls)


def one_winner_for_each_epoch(calls: Iterable[Call]) -> None:
    """No grant was acknowledged to two callers, nor twice to one."""
    checkers.nothing_issued_twice(grant for grant, _ in grants(calls))


def epochs_have_no_gap(board: Board) -> None:
    """By the log the epochs of each task are 1, 2, 3 … n, and the board stands at n."""
    final = defaultdict(int, {(ref, 0): task.epoch for ref, task in board.tasks.items()})
    checkers.epochs_count_grants(checkers.grants_in(board.events), final)


def wins_are_accounted_for(calls: Sequence[Call], board: Board) -> None:
    """Each acknowledged grant is in the log; any other there belongs to a call whose answer nobody heard."""
    told = Counter(checkers.grants_in(board.events))
    given = Counter(grant for grant, _ in grants(calls))
    if missing := given - told:
        raise Broken(f"acknowledged and lost: {next(iter(missing))}")
    open_ends = Counter(
        (call.agent, call.params.get("ref")) for call in calls if call.name in WINNING and call.outcome == UNKNOWN
    )
    for grant in (told - given).elements():
        asked = next((key for key in ((grant.agent, grant.subject), (grant.agent, None)) if open_ends[key]), None)
        if asked is None:
            raise Broken(f"granted to one who was not told: {grant}")
        open_ends[asked] -= 1


def writes_are_accounted_for(calls: Sequence[Call], board: Board) -> None:
    """Each acknowledged write is in the log as often as it was acknowledged; what was refused is not there."""
    told = Counter(_sign_of_event(event) for event in board.events if event.event in TOLD.values())
    given = Counter(_sign(call) for call in calls if call.name in TOLD and call.outcome == OK)
    perhaps = Counter(_sign(call) for call in calls if call.name in TOLD and call.outcome == UNKNOWN)
    if missing := given - told:
        raise Broken(f"acknowledged and lost: {next(iter(missing))}")
    if more := told - given - perhaps:
        sign = next(iter(more))
        raise Broken(f"happened {told[sign]} times, asked for {given[sign] + perhaps[sign]} times: {sign}")


def posts_are_there(calls: Iterable[Call], board: Board) -> None:
    """Each acknowledged post is on the board under the id that was answered, and no name is there twice."""
    for call in calls:
        if call.name == "tasks.post" and call.outcome == OK:
            task = board.tasks.get(call.answer[0][0])
            if task is None or task.name != call.params["name"]:
                raise Broken(f"acknowledged and not on the board: {call.params['name']}")
    for name, times in Counter(task.name for task in board.tasks.values()).items():
        if times > 1:
            raise Broken(f"posted {times} times: {name}")


def completions_are_final(calls: Iterable[Call], board: Board) -> None:
    """A task was completed at most once, and each acknowledged completion stands as it was answered."""
    for ref, times in Counter(e.subject for e in board.events if e.event == "task.completed").items():
        if times > 1:
            raise Broken(f"completed {times} times: {ref}")
    for call in calls:
        if call.name == "tasks.complete" and call.outcome == OK:
            task = board.tasks[call.params["ref"]]
            stands = (task.state, task.epoch, task.holder, task.result)
            if stands != ("completed", call.params["epoch"], call.agent, call.params["result"]):
                raise Broken(f"an acknowledged completion was undone: {stands} instead of {call.params}")


def epochs_follow_time(calls: Iterable[Call]) -> None:
    """Who asked after another had been answered has the higher epoch."""
    by_task: dict[str, list[tuple[Grant, Call]]] = defaultdict(list)
    for grant, call in grants(calls):
        by_task[grant.subject].append((grant, call))
    for won in by_task.values():
        won.sort(key=lambda each: each[0].epoch)
        answered = float("inf")
        for grant, call in reversed(won):
            if call.begin > answered:
                raise Broken(f"epoch {grant.epoch} of {grant.subject} was asked for after a later one was answered")
            answered = min(answered, call.end)


def nobody_sees_the_past(calls: Sequence[Call]) -> None:
    """Once a completion was acknowledged, nobody who looks afterwards sees the task unfinished."""
    finished = {call.params["ref"]: call.end for call in calls if call.name == "tasks.complete" and call.outcome == OK}
    for call in calls:
        for ref, _, state in call.answer if call.name == "tasks.list" else ():
            if state != "completed" and finished.get(ref, float("inf")) < call.begin:
                raise Broken(f"{call.agent} saw {ref} as {state} after its completion was acknowledged")


def grants(calls: Iterable[Call]) -> Iterator[tuple[Grant, Call]]:
    """What was won, and by which call."""
    for call in calls:
        if call.name in WINNING and call.outcome == OK:
            for ref, epoch, _ in call.answer:
                yield Grant(ref, 0, epoch, call.agent), call


def _sign(call: Call) -> Sign:
    if call.name == "tasks.post":
        return "task.posted", call.params["name"], 0, call.agent
    return TOLD[call.name], call.params["ref"], call.params["epoch"], call.agent


def _sign_of_event(event: Event) -> Sign:
    what = (event.name if event.event == "task.posted" else event.subject) or ""
    return event.event, what, event.epoch, event.agent or ""
