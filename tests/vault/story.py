"""A long story on a board, in which every kind of event happens that a note may tell of."""

from __future__ import annotations

import random
from collections.abc import Callable

from tiebreak import Board, TiebreakError
from tiebreak.model import Task

HOSTILE = (
    "../../etc/passwd",
    "..",
    "CON",
    "a/b\\c:d*e?f",
    "[[Board|click]] ![[secret]]",
    "<script>alert(1)</script>",
    "<% tp.system.prompt() %>",
    "%% tiebreak 0000000000000000: what you write below this line is kept %%",
    "`= dv.current()` $= x$ #tag ^block key:: value",
    "---",
    "- [ ] not a task",
    "https://example.org www.example.org a@example.org",
    "é" * 300,
    "e\u0301 and é",
    "हिन्दी 中文 🦊",
    "   ",
    "ﬁn. ",
)
NAMES = tuple(name for name in HOSTILE if name.strip())
BODY = (
    "# Heading\n\n```dataview\nLIST\n```\n    indented\n1. one\n+ two\n> [!note] three\n---\n%%hidden%%\n"
    + "\n".join(NAMES)
)
AGENTS = ("ada", "ben", "Ada", "con", "a/b")


class Story:
    """Random deeds of a few agents; the same seed does the same."""

    def __init__(self, open_board: Callable[[str], Board], seed: int, advance: Callable[[float], None]) -> None:
        self._chance = random.Random(seed)
        self._boards = [open_board(f"{name}~1") for name in AGENTS]
        self._advance = advance
        self._tasks: list[int] = []
        self._messages: list[int] = []
        self.board = self._boards[0]
        self.do_post()
        self.do_send()
        self._deeds = [deed for name in dir(self) if name.startswith("do_") and (deed := getattr(self, name))]

    def tell(self, count: int) -> None:
        """Let that many deeds happen; some are refused, as in life."""
        for _ in range(count):
            self.board = self._chance.choice(self._boards)
            try:
                self._chance.choice(self._deeds)()
            except TiebreakError:
                pass

    def _name(self) -> str:
        return self._chance.choice([*NAMES, f"work {self._chance.randrange(1000)}"])

    def _task(self) -> int:
        return self._chance.choice(self._tasks)

    def _some(self) -> list[int]:
        return [self._task()] if self._tasks and self._chance.random() < 0.5 else []

    def _posted(self, task: Task) -> None:
        self._tasks.append(task.number)

    def do_post(self) -> None:
        parent, about = (next(iter(self._some()), None) for _ in range(2))
        tags = self._chance.choice(([], ["red", "green"]))
        after = self._some()
        self._posted(self.board.tasks.post(self._name(), after=after, body=BODY, tags=tags, parent=parent, about=about))

    def do_announce_a_decision(self) -> None:
        kind = self._chance.choice(("decision", "knowledge", "ack"))
        self._posted(self.board.tasks.post(self._name(), kind=kind, about=self._task(), payload={"why": NAMES}))

    def do_claim(self) -> None:
        self.board.tasks.next(count=2)

    def do_claim_again(self) -> None:
        self.board.tasks.claim(self._task(), create=False)

    def do_complete(self) -> None:
        self.board.tasks.complete(self._mine().id, result={"text": "```\n<%"}, ack=self._chance.random() < 0.5)

    def do_fail(self) -> None:
        self.board.tasks.fail(self._mine().id, reason=self._name(), retry=self._chance.random() < 0.3)

    def do_release(self) -> None:
        self.board.tasks.release(self._mine().id, reason="tired")

    def do_abandon(self) -> None:
        self.board.tasks.next(lease=1)
        self._advance(2)
        self.board.tasks.sweep()

    def do_break(self) -> None:
        found = self.board.tasks.list(states=["claimed"])
        self.board.tasks.break_(self._chance.choice(found or [self._mine()]).id, reason="stuck")

    def do_cancel(self) -> None:
        self.board.tasks.cancel(self._task(), reason=self._name())

    def do_retry(self) -> None:
        self.board.tasks.retry(self._task())

    def do_rename(self) -> None:
        self.board.tasks.edit(self._task(), name=self._name())

    def do_move(self) -> None:
        self.board.tasks.edit(self._task(), parent=self._task())

    def do_depend(self) -> None:
        self.board.tasks.depend(self._task(), after=[self._task()])

    def do_comment(self) -> None:
        self.board.messages.send(BODY, about=self._task())

    def do_send(self) -> None:
        self._messages.append(self.board.messages.send(self._name()).number)

    def do_reply(self) -> None:
        self.board.messages.send("re: " + self._name(), reply_to=self._chance.choice(self._messages), importance="high")

    def do_send_to_one(self) -> None:
        to = self._chance.choice(AGENTS)
        sent = self.board.messages.send(BODY, to=to, later=True, ack_requested=True)
        self.board.messages.ack(sent.number, agent=to)

    def do_announce(self) -> None:
        self.board.agents.announce(doing=self._name())

    def do_leave(self) -> None:
        self.board.agents.leave()

    def do_ask(self) -> None:
        self._posted(self.board.questions.ask(self._name() + "\nmore", about=self._task()))

    def do_answer(self) -> None:
        for question in self.board.questions.list(limit=1):
            self.board.questions.answer(question.number, answer="yes")

    def do_hold(self) -> None:
        self.board.holds.take(resources=["lock:deploy"])

    def do_submit(self) -> None:
        self._posted(self.board.jobs.submit("make", name=self._name()))

    def _mine(self) -> Task:
        mine = self.board.tasks.list(states=["claimed"], agent=self.board.agent)
        return self._chance.choice(mine) if mine else self.board.tasks.get("nothing-is-mine")
