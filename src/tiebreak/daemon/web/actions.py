"""Everything that a page can do: one table. What is not in it cannot be done from a browser.

Each action is one operation. The page gives some of its parameters (`given`: which task, which hold) and asks the
person for the others (`fields`). Nothing happens before the person has confirmed it. An action on a set of tasks names
the tasks by filters, as the list of tasks does, and does at most `MOST` of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...names import PRIORITIES

MOST = 200
"""Tasks that one action on a set changes at most."""


class Field(NamedTuple):
    """Something that the person is asked for before an action is done: a parameter of its operation."""

    name: str
    label: str
    kind: str = "line"
    """`line`, `text` (several lines) or `choice`."""
    required: bool = True
    choices: tuple[str, ...] = ()
    default: str = ""
    """The choice that is made already."""


class Action(NamedTuple):
    """One thing that a person can do from a page."""

    operation: str
    label: str
    """What the button says."""
    question: str
    """What the person confirms. `{what}` is what the page says it is about."""
    done: str
    """What is said afterwards."""
    given: tuple[str, ...] = ()
    """The parameters that the page gives."""
    fields: tuple[Field, ...] = ()
    dangerous: bool = False
    """Whether somebody's work is lost or stopped by it: then the key that opened the dialog cannot confirm it, too.
    `Back` has the focus at first, unless something must be filled in before it can be confirmed."""
    confirm: str = ""
    """What the button in the dialog says, if it is not the label."""
    each_of: tuple[str, ...] = ()
    """For an action on a set of tasks: the states of the tasks that it changes."""


_REASON = Field("reason", "Reason, which everybody can read")
_PERHAPS = _REASON._replace(required=False, label="Reason (may stay empty)")
_BODY = Field("body", "Message", "text")
_PRIORITY = Field("priority", "Priority", "choice", choices=tuple(reversed(PRIORITIES)), default="normal")
_OTHER_PRIORITY = _PRIORITY._replace(label="New priority", default="high")
FILTERS = ("project", "states", "kind", "queue", "priority_is", "tag", "agent_is", "name_contains")
"""The parameters of an action on a set of tasks: filters of `tasks.list`. `_is` tells a filter from a new value."""

ACTIONS: dict[str, Action] = {
    "question.answer": Action(
        "questions.answer",
        "Answer",
        "{what}",
        "Answered.",
        ("project", "ref"),
        (Field("answer", "Your answer", "text"),),
    ),
    "message.send": Action(
        "messages.send", "Message", "Send a message to {what}.", "Sent.", ("project", "to"), (_BODY,), confirm="Send"
    ),
    "message.everyone": Action(
        "messages.send",
        "Message everyone",
        "Send a message to every agent of {what}.",
        "Sent.",
        ("project",),
        (_BODY,),
        confirm="Send",
    ),
    "message.reply": Action(
        "messages.send",
        "Reply",
        "Reply to {what}.",
        "Sent.",
        ("project", "to", "reply_to", "channel"),
        (_BODY,),
        confirm="Send",
    ),
    "task.post": Action(
        "tasks.post",
        "New task",
        "Post a task for the agents of {what}.",
        "Posted.",
        ("project",),
        (
            Field("name", "What is to be done"),
            Field("body", "Description (may stay empty)", "text", required=False),
            _PRIORITY,
        ),
        confirm="Post",
    ),
    "task.cancel": Action(
        "tasks.cancel",
        "Cancel",
        "Cancel {what}? An agent that works on it has to stop.",
        "Cancelled.",
        ("project", "ref"),
        (_PERHAPS,),
        dangerous=True,
    ),
    "task.retry": Action(
        "tasks.retry",
        "Retry",
        "Reopen {what} with all its attempts?",
        "It is open again.",
        ("project", "ref"),
        (_PERHAPS,),
    ),
    "task.priority": Action(
        "tasks.edit", "Priority", "Change the priority of {what}.", "Changed.", ("project", "ref"), (_OTHER_PRIORITY,)
    ),
    "task.break": Action(
        "tasks.break",
        "Take away",
        "Take {what} away from its holder? The holder's next write is refused.",
        "Taken away; it is ready again.",
        ("project", "ref", "epoch"),
        (_REASON,),
        dangerous=True,
    ),
    "task.comment": Action(
        "messages.send",
        "Comment",
        "Comment on {what}.",
        "Sent.",
        ("project", "about"),
        (_BODY._replace(label="Comment"),),
    ),
    "hold.break": Action(
        "holds.break",
        "Take away",
        "Take {what} away from its holder? The holder's next write is refused.",
        "Taken away; it is free.",
        ("project", "resource", "slot", "epoch"),
        (_REASON,),
        dangerous=True,
    ),
    "queue.pause": Action(
        "queues.pause",
        "Pause",
        "Pause queue {what}? Nothing more is taken from it; what runs goes on.",
        "Paused.",
        ("project", "queue"),
        (_PERHAPS,),
    ),
    "queue.resume": Action("queues.resume", "Resume", "Resume queue {what}?", "Resumed.", ("project", "queue")),
    "schedule.pause": Action(
        "schedules.pause",
        "Pause",
        "Pause schedule {what}? No job is started until it is resumed.",
        "Paused.",
        ("project", "name"),
        (_PERHAPS,),
    ),
    "schedule.resume": Action("schedules.resume", "Resume", "Resume schedule {what}?", "Resumed.", ("project", "name")),
    "tasks.cancel": Action(
        "tasks.cancel",
        "Cancel all",
        "Cancel {what}? Agents that work on them have to stop.",
        "Cancelled",
        FILTERS,
        (_PERHAPS,),
        dangerous=True,
        each_of=("blocked", "pending", "claimed"),
    ),
    "tasks.retry": Action(
        "tasks.retry",
        "Retry all",
        "Reopen {what} with all their attempts?",
        "Reopened",
        FILTERS,
        (_PERHAPS,),
        each_of=("failed", "cancelled"),
    ),
    "tasks.priority": Action(
        "tasks.edit",
        "Set priority",
        "Change the priority of {what}.",
        "Changed",
        FILTERS,
        (_OTHER_PRIORITY,),
        each_of=("blocked", "pending", "claimed"),
    ),
}


def asked(name: str, what: str, /, *, choices: Any = (), **given: Any) -> dict[str, Any]:
    """An action as a button carries it: for `acting.js`, which asks the person and sends it.

    `choices` replace the text field of an action by a choice, as for a question with given answers. A `project` that is
    None becomes a choice of the person, among the `projects` that are given. For an action on a set nothing is chosen
    beforehand, so that nobody changes many tasks of a project that they did not mean.
    """
    action = ACTIONS[name]
    fields = [each._asdict() for each in action.fields]
    if choices:
        fields[0].update(kind="choice", choices=list(choices))
    if "projects" in given:
        projects = given.pop("projects")
        if given.get("project") is None:
            default = "" if action.each_of and len(projects) > 1 else next(iter(projects), "")
            choice = Field("project", "Project", "choice", choices=tuple(projects), default=default)
            fields.insert(0, choice._asdict())
    params = {key: value for key, value in given.items() if value is not None}
    if unknown := set(params) - set(action.given):
        raise ValueError(f"{name}: not a parameter that the page gives: {', '.join(sorted(unknown))}")
    return {
        "action": name,
        "label": action.label,
        "confirm": action.confirm or action.label,
        "question": action.question.format(what=what),
        "params": params,
        "fields": fields,
        "dangerous": action.dangerous,
    }
