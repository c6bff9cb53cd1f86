"""Commands about questions to a person: ask, answer, questions. Also how `tb status` and `tb` alone show open ones."""

from __future__ import annotations

import sys

from ..choices import chosen
from ..errors import Invalid, Refused
from ..limits import LISTED, MAX_LIMIT
from ..names import FINAL
from ..text import ago, block, plain
from .claims import called, who
from .context import standard_input
from .parser import Argument, Option, command, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Question, Task
    from .context import Context
    from .parser import Args

_NAMED = 3
"""How many of the tasks that wait for an answer are named."""


@command(
    "ask",
    "Ask a person a question that work waits for.",
    Argument("question", "what to ask; - reads it from standard input", many=True, sets="text"),
    Option(
        "choices", "CHOICES", "the only answers to choose from (repeatable, or with commas)", many=True, commas=True
    ),
    Option("about", "REF", "the task that it is about"),
    Option("key", "KEY", "a unique key: a question with this key is not asked twice"),
    Option("wait", text="wait for the answer, and print it alone"),
    Option("timeout", "DURATION", "with --wait: give up after (default: never)"),
    example="tb ask 'which database?' --choices sqlite,postgres --key database --wait",
)
def ask(context: Context, args: Args) -> int:
    """Prints the number of the question, or with --wait the answer.

    Exit 0 with the answer; 1 if the question was cancelled; 2 on time-out. A question stays open if you stop waiting:
    ask again with the same --key to wait for the same answer. A task that is posted --after the question becomes ready
    with the answer.
    """
    if args.timeout is not None and not args.wait:
        raise Invalid("ask: --timeout goes with --wait")
    text = standard_input() if args.question == ["-"] else " ".join(args.question)
    before = context.board.upkeep.now() if args.key else 0.0
    question = context.board.questions.ask(text, choices=args.choices, about=args.about, key=args.key)
    known = question.created_at < before
    if known and question.name != text.strip().partition("\n")[0].strip():
        context.warn(f"the key {question.key} belongs to another question: {called(question)}")
    if args.wait:
        return _wait(context, args, question)
    verb = context.styled("there is already", "warn") if known else context.styled("asked", "good")
    context.answer(question, f"{verb} {called(question)}  ({_outcome(question)})")
    return 0


def _outcome(question: Task) -> str:
    """How a question stands."""
    if question.state == "completed":
        return f"answered: {plain(question.result['answer'])}"
    return question.state if question.state in FINAL else f"tb answer {question.number}"


def _wait(context: Context, args: Args, question: Task) -> int:
    """Print the answer when it comes."""
    try:
        answer = context.board.answer_to(question.number, wait=args.timeout)
    except KeyboardInterrupt:
        context.warn(f"{called(question)} stays open: a person answers it with `tb answer {question.number}`")
        return 130
    if context.json:
        context.answer(context.board.tasks.get(question.number))
    else:
        context.say(block(answer) if sys.stdout.isatty() else answer)
    return 0


@command(
    "answer",
    "Answer a question, as a person; without one, answer the open questions one after another.",
    Argument("ref", "the question: its number, key or id", optional=True),
    Argument("text", "the answer; - reads it from standard input", many=True, optional=True, sets="answer"),
    example="tb answer 7 postgres",
)
def answer(context: Context, args: Args) -> int:
    """On a terminal it shows the question and asks for what is missing; a choice can also be given by its number.

    The first answer counts: exit 1 if there is one already, which is shown. Agents should not answer questions: whoever
    asks wants the decision of a person.
    """
    if args.text:
        text = standard_input() if args.text == ["-"] else " ".join(args.text)
        _tell(context, context.board.questions.answer(args.ref, answer=text))
        return 0
    if not context.can_ask:
        missing = "TEXT" if args.ref else "REF"
        raise Invalid(f"{missing} is missing", hint="usage: tb answer REF TEXT…; on a terminal it is asked for")
    open_questions = context.board.questions
    return _answer_each(context, [open_questions.get(args.ref)] if args.ref else open_questions.list(limit=MAX_LIMIT))


def _answer_each(context: Context, found: list[Question]) -> int:
    """Ask a person at the terminal for each of these; exit 1 if some stay open."""
    if not found:
        context.say("no open questions")
    answered = 0
    for question in found:
        for line in lines(context, [question], context.board.upkeep.now(), command=False):
            context.say(line)
        text = _typed(context, question)
        if not text:
            context.say("left open")
            continue
        try:
            _tell(context, context.board.questions.answer(question.number, answer=text))
            answered += 1
        except Refused as refusal:
            if len(found) == 1:
                raise
            context.complain(refusal)
    return 0 if answered == len(found) else 1


def _typed(context: Context, question: Question) -> str:
    """What a person types as the answer; "" to leave the question open."""
    choices: list[str] = question.choices or []
    for place, choice in enumerate(choices, 1):
        context.say(f"  {place}  {plain(choice)}")
    while True:
        text = context.ask_text("Answer (empty: leave it open): ")
        if not choices or not text:
            return text
        if meant := chosen(text, choices):
            return meant
        context.say(f"one of {', '.join(map(plain, choices))}, or its number")


def _tell(context: Context, question: Task) -> None:
    context.answer(question, f"{context.styled('answered', 'good')} {called(question)}")


@command(
    "questions",
    "List the open questions, oldest first, with who waits for them.",
    Option("every-project", text="of all projects, not only this one"),
    number("limit", "at most this many", LISTED),
    example="tb questions",
)
def questions(context: Context, args: Args) -> None:
    """Answered ones are among the finished tasks: `tb tasks --all --kind question`."""
    board = context.board
    found = board.questions.list(project=None if args.every_project else board.project_names, limit=args.limit)
    if context.json:
        context.answer(found)
    elif not found:
        context.say("no open questions")
    else:
        for line in lines(context, found, board.upkeep.now()):
            context.say(line)


def lines(context: Context, found: list[Question], now: float, *, command: bool = True) -> list[str]:
    """Open questions for people: what is asked, by whom, what waits for it, and the command that answers it."""
    out = []
    for question in found:
        out.append(context.styled(f"#{question.number} {plain(question.name)}", "warn"))
        if question.body:
            out += ["    " + line for line in block(question.body).splitlines()]
        out.append(f"    {_asked(question, now)}")
        if command:
            choices = f"  # {' | '.join(map(plain, question.choices))}" if question.choices else ""
            out.append(f"    tb answer {question.number}{choices}")
    return out


def _asked(question: Question, now: float) -> str:
    """Who asks, since when, and what waits for the answer."""
    parts = [f"{plain(who(question.asked_by))} asks, {ago(now - question.asked_at)} ago"]
    if question.about:
        holder = f" (held by {plain(question.about['holder'])})" if question.about["holder"] else ""
        parts[0] += f", about #{question.about['number']} {plain(question.about['name'])}{holder}"
    waiting = question.waiting
    if waiting:
        named = ", ".join(f"#{each['number']} {plain(each['name'])}" for each in waiting[:_NAMED])
        more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
        parts.append(f"{named}{more} {'waits' if len(waiting) == 1 else 'wait'} for it")
    return "; ".join(parts)


def details_of_question(task: Task) -> list[list[str]]:
    """What `tb show` tells of a question before the rest: the answer, or which answers there are to choose from."""
    choices = task.payload.get("choices", ()) if isinstance(task.payload, dict) else ()
    rows = [["choices", " | ".join(choices)]] if choices else []
    if task.state == "completed":
        return [["answer", f"{task.result['answer']} (by {task.result['by']})"], *rows]
    return rows if task.state in FINAL else [*rows, ["waits for", f"a person: tb answer {task.number}"]]
