"""Questions: what work waits for until a person has decided it.

A question is a task that nobody works on: it has no attempts, so no claim can win it, and no search for the next task
finds it. Other tasks can come after it, and the answer completes it, so they become ready with the answer. It can be
edited, commented on, cancelled and reopened like any task.

Exactly one answer wins: the task's row is locked, and the answer is written under the condition that the question is
still open. A second answer is refused and told who answered what. In the same transaction the answer becomes the
result, the tasks that come after the question are released, and a comment takes the answer to the inbox of the asker.
So an agent finds the answer wherever it looks, also one that was killed while it waited and asks again with its key.

The board cannot know whether a person or a program answers. Agents are told not to.
"""

from __future__ import annotations

from ..errors import Invalid, Refused
from ..limits import LISTED, MAX_NAME
from ..model import Question, Task, record
from ..names import FINAL, QUESTION, cut, json_text, short, shown
from . import operation, scope
from .events import refuse_task, task_event
from .expiry import end_of, update_dependents
from .grants import giving_back
from .references import FINISHED, STORED, by_key, called, find, is_question
from .rows import listed
from .tasks import add, keys_scope_if_keyed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..names import AgentId, Key, Limit, Name, Project, Ref, Text
    from . import Transaction

WAITING = 20
"""How many of the tasks that come after a question a list of questions shows."""
_NOTE = 200
"""How much of an answer the log and a refusal show."""
OPEN = "state IN ('blocked', 'pending') AND max_attempts = 0"
_ANSWER = giving_back(
    "tasks",
    "number = :number",
    STORED,
    f"state = 'completed', result = :result, reason = NULL, blockers = 0, {FINISHED}",
    fence=OPEN,
)


@operation("questions.ask", writes=True, strangers=True, scopes=keys_scope_if_keyed)
def ask(
    tx: Transaction,
    *,
    text: Text,
    agent: AgentId = "",
    project: Project = "",
    choices: list[Name] = [],  # noqa: B006  (never changed; a tuple would not be JSON)
    about: Ref | None = None,
    key: Key | None = None,
) -> Task:
    """Ask a person: put a question on the board that is answered, not worked on.

    With `choices`, only one of them is taken as the answer. `about` is the task that it is about. A question with the
    same key is not asked twice: the first one is returned, perhaps with its answer. The question is a task of kind
    `question`; its first line is the name, the rest the body. Tasks that come after it become ready with the answer.
    """
    if key is not None and (known := by_key(tx, key, project)) is not None:
        if is_question(known):
            return known
        raise Refused(f"key: {called(known)} has it, and is no question", hint="choose another key")
    choices = [choice.strip() for choice in choices]
    if len(set(choices)) != len(choices):
        raise Invalid("choices: the same one is given twice")
    name, body = _name_and_body(text)
    return add(
        tx,
        after=[],
        agent=agent,
        note=f"about {about}" if about else None,
        project=project,
        kind=QUESTION,
        name=name,
        key=key,
        queue="default",
        priority="normal",
        payload=json_text({"choices": choices}) if choices else None,
        max_attempts=0,
        backoff=0.0,
        ready_at=0,
        run_anyway=False,
        tags=[],
        about=None if about is None else find(tx, about, project).id,
        body=body,
        parent=None,
    )


def _name_and_body(text: str) -> tuple[str, str | None]:
    """The first line and the rest; a first line that is too long for a name is cut, and the body has all of it."""
    first, _, rest = text.strip().partition("\n")
    line = "".join(c if c.isprintable() else " " for c in first).strip() or "?"
    if (name := cut(line, MAX_NAME)) != line:
        return name, text
    return name, rest.strip("\n") or None


def choices_of(task: Task) -> list[str]:
    """The answers that a question takes; an empty list if it takes any."""
    return list(task.payload["choices"]) if isinstance(task.payload, dict) and "choices" in task.payload else []


@operation(
    "questions.answer",
    writes=True,
    strangers=True,
    scopes=lambda params: [scope("messages", params["project"])],
)
def answer(tx: Transaction, *, ref: Ref, answer: Text, agent: AgentId = "", project: Project = "") -> Task:
    """Answer a question, for a person. The first answer counts; a later one is refused and told the first.

    The result of the question becomes `{answer, by}`, the tasks that come after it become ready, and the answer goes to
    the inbox of the asker as a comment.
    """
    found = find(tx, ref, project)
    tx.serialize("messages", found.project)
    question = find(tx, f"#{found.number}", project, "{lock}")
    if not _is_open(question):
        raise _refused(tx, question, agent)
    answer = answer.strip()
    choices = choices_of(question)
    if choices and answer not in choices:
        raise Invalid(f"answer: one of {', '.join(choices)}, got {shown(answer)}", choices=choices)
    row = tx.first(_ANSWER, number=question.number, result=json_text({"answer": answer, "by": short(agent)}))
    if row is None:
        raise _refused(tx, find(tx, f"#{question.number}", project), agent)
    answered = record(Task, row)
    task_event(tx, "task.completed", answered, agent=agent, epoch=answered.epoch, note=_beginning(answer))
    update_dependents(tx, [end_of(answered)])
    from .messages import send

    gap = "\n" if "\n" in answer else " "
    body = f"The answer to #{answered.number} {answered.name!r}:{gap}{answer}"
    send(tx, body=body, agent=agent, project=answered.project, about=f"#{answered.number}")
    return answered


def _beginning(answer: str) -> str:
    """The beginning of an answer, in one line."""
    line = " ".join(answer.split())
    return line if len(line) <= _NOTE else line[: _NOTE - 1] + "…"


def _is_open(task: Task) -> bool:
    return is_question(task) and task.state not in FINAL


def _refused(tx: Transaction, task: Task, agent: str) -> Refused:
    """The refusal of an answer, which is also remembered for the log."""
    refuse_task(tx, "task.refused", task, agent=agent, epoch=task.epoch, note=task.state)
    return _refusal(task)


def _refusal(task: Task) -> Refused:
    """The refusal about a task that is no question, or that is over."""
    if not is_question(task):
        return Refused(f"{called(task)} is a task, not a question", reason="not-a-question", number=task.number)
    if task.state != "completed":
        return Refused(f"{called(task)} is {task.state} already", reason="task-ended", **_facts(task))
    given = task.result["answer"]
    return Refused(
        f"{called(task)} was answered already, by {task.result['by']}: {_beginning(given)}",
        reason="question-answered",
        by=task.result["by"],
        answer=given,
        **_facts(task),
    )


def _facts(task: Task) -> dict[str, Any]:
    return {"id": task.id, "number": task.number, "state": task.state, "epoch": task.epoch}


@operation("questions.get", writes=False, strangers=True)
def get(tx: Transaction, *, ref: Ref, project: Project = "") -> Question:
    """Return an open question; one that is over is refused with its answer."""
    task = find(tx, ref, project)
    found = _select(tx, "asked.number = :number AND ", number=task.number, limit=1)
    if not found:
        raise _refusal(find(tx, f"#{task.number}", project))
    return found[0]


@operation("questions.list", writes=False, strangers=True)
def listing(tx: Transaction, *, project: Project | None = "", limit: Limit = LISTED) -> list[Question]:
    """List the open questions, oldest first, each with its asker and the open tasks that wait for the answer."""
    return _select(tx, "asked.project = :project AND " if project else "", project=project, limit=limit)


def _select(tx: Transaction, which: str, **params: Any) -> list[Question]:
    rows = tx.all(
        f"SELECT {_ASKED}, subject.number, subject.name, subject.state, subject.holder FROM tasks AS asked "
        f"LEFT JOIN tasks AS subject ON subject.id = asked.about WHERE {which}asked.max_attempts = 0 "
        "AND asked.finished_at = 0 ORDER BY asked.number + 0 LIMIT :limit",
        **params,
    )
    waiting = _waiting(tx, [row[0] for row in rows])
    return [_question(row, waiting.get(row[0], [])) for row in rows]


_ASKED = ", ".join(
    f"asked.{column}"
    for column in ("number", "id", "project", "name", "body", "payload", "key", "created_by", "created_at")
)
_OF_ASKED = _ASKED.count(",") + 1


def _waiting(tx: Transaction, numbers: list[int]) -> dict[int, list[dict[str, Any]]]:
    """The first open tasks that come after each of these questions."""
    found: dict[int, list[dict[str, Any]]] = {}
    for these, params in listed("n", numbers):
        rows = tx.all(
            "SELECT question, number, name, state, holder FROM (SELECT edges.after AS question, tasks.number, "
            "tasks.name, tasks.state, tasks.holder, "
            "row_number() OVER (PARTITION BY edges.after ORDER BY tasks.number) AS place "
            f"FROM edges JOIN tasks ON tasks.number = edges.task WHERE edges.after IN ({these}) "
            "AND tasks.finished_at = 0) AS later WHERE place <= :most ORDER BY question, number",
            most=WAITING,
            **params,
        )
        for question, *task in rows:
            found.setdefault(question, []).append(_shown(*task))
    return found


def _shown(number: int, name: str, state: str, holder: str | None) -> dict[str, Any]:
    return {"number": number, "name": name, "state": state, "holder": short(holder) if holder else None}


def _question(row: tuple[Any, ...], waiting: list[dict[str, Any]]) -> Question:
    number, id_, project, name, body, payload, key, asked_by, asked_at = row[:_OF_ASKED]
    choices = None
    if payload is not None:
        import json

        choices = json_text(json.loads(payload).get("choices"))
    about = None if row[_OF_ASKED] is None else json_text(_shown(*row[_OF_ASKED:]))
    values = (number, id_, project, name, body, choices, key, asked_by, asked_at, about, json_text(waiting))
    return record(Question, values)
