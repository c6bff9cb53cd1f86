"""Every page for people, with something on it in every place: for tests that look at all of them."""

from __future__ import annotations

import tiebreak
from tiebreak import Board

SHOWN = {
    "/": "/",
    "/agents": "/agents",
    "/agent": "/agent?name=ann",
    "/board": "/board",
    "/messages": "/messages",
    "/queues": "/queues",
    "/tasks": "/tasks",
    "/tasks/{number}": "/tasks/{task}",
    "/timeline": "/timeline",
}
"""For each declared page, an address that shows it. A page that is missing here fails a test."""
MORE = (
    "/messages?q=word*",
    "/messages?agent=ann",
    "/messages?thread={thread}",
    "/tasks?view=board",
    "/tasks?view=board&state=failed",
    "/tasks?view=board&state=cancelled",
    "/tasks/{job}",
)
"""Further addresses of the same pages: other views, and the same with filters."""


def furnish(board: Board, texts: list[str]) -> list[str]:
    """Put each text into every field that reaches a page; the addresses of all pages that show it."""
    ann = board
    numbers = {"thread": 0, "task": 0, "job": 0}
    with tiebreak.open(board.engine.address, agent="bob~1", project=board.project) as bob:
        for place, text in enumerate(texts):
            ann.agents.announce(doing=text, program=text[:200], host=text[:200])
            bob.agents.announce(doing=text, parent="ann~1")
            ann.tasks.post(name=text, body=f"{text}\n{text}", key=f"k{place}", tags=["tag"])
            numbers["task"] = ann.tasks.claim(ref=f"k{place}").number
            ann.messages.send(body=f"word {text}", about=f"k{place}")
            numbers["thread"] = ann.messages.send(
                body=f"word {text}", to="bob", importance="high", ack_requested=True
            ).number
            bob.messages.send(body=text, to="ann", reply_to=numbers["thread"])
            bob.questions.ask(text=text, choices=[text[:200], "no"], about=f"k{place}")
            bob.tasks.claim(ref=f"f{place}", create=True)
            bob.tasks.edit(f"f{place}", name=text)
            if place % 2:
                bob.tasks.fail(f"f{place}", reason=text, retry=False)
            bob.tasks.post(name=text, key=f"c{place}")
            bob.tasks.cancel(f"c{place}", reason=text)
            numbers["job"] = ann.jobs.submit(["echo", text], name=text).number
            ann.holds.take(resources=[f"file:{text.replace('/', '|')[:200]}"], note=text)
            ann.agents.warn(note=text)
        ann.queues.pause(queue="default", reason=texts[0])
        ann.schedules.add(name="nightly", expression="0 3 * * *", command=["echo", texts[0]])
        ann.schedules.pause(name="nightly", reason=texts[0])
    return [each.format(**numbers) for each in (*SHOWN.values(), *MORE)]
