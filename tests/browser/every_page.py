"""Every page for people, with something on it in every place: for tests that look at all of them."""

from __future__ import annotations

import tiebreak
from tiebreak import Board

SHOWN = {
    "/": "/",
    "/agents": "/agents",
    "/agent": "/agent?name=ann",
    "/messages": "/messages",
}
"""For each declared page, an address that shows it. A page that is missing here fails a test."""
MORE = ("/messages?q=word*", "/messages?agent=ann")


def furnish(board: Board, texts: list[str]) -> list[str]:
    """Put each text into every field that reaches a page; the addresses of all pages that show it."""
    ann, bob = board, tiebreak.open(board.engine.address, agent="bob~1", project=board.project)
    thread = task = 0
    with bob:
        for place, text in enumerate(texts):
            ann.agents.announce(doing=text, program=text[:200], host=text[:200])
            bob.agents.announce(doing=text, parent="ann~1")
            posted = ann.tasks.post(name=text, body=f"{text}\n{text}", key=f"k{place}", tags=["tag"])
            ann.tasks.claim(ref=f"k{place}")
            ann.messages.send(body=f"word {text}", about=f"k{place}")
            thread = ann.messages.send(body=f"word {text}", to="bob", importance="high", ack_requested=True).number
            bob.messages.send(body=text, to="ann", reply_to=thread)
            bob.questions.ask(text=text, choices=[text[:200], "no"], about=f"k{place}")
            bob.tasks.claim(ref=f"f{place}", create=True)
            bob.tasks.edit(f"f{place}", name=text)
            if place % 2:
                bob.tasks.fail(f"f{place}", reason=text, retry=False)
            task = posted.number
            ann.holds.take(resources=[f"file:{text.replace('/', '|')[:200]}"], note=text)
            ann.agents.warn(note=text)
    _ = task
    return [*SHOWN.values(), *MORE, f"/messages?thread={thread}"]
