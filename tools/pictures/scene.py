"""A board with forty minutes of history that end now: sixteen agents, and something of everything that can happen.

Everything is done by the normal operations, with a clock that the story moves. The paused agent of the story is the
picture that explains fencing: `quiet-heron` stands still past its lease, `swift-lynx` gets the task with the next
epoch, and the late write is refused.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import tiebreak
from tiebreak import Board, TiebreakError

PROJECT = "acme/shop"
MINUTE = 60_000_000
LENGTH = 40
"""Minutes."""
AGENTS = {
    "brave-otter": "checkout: moving payments to the new API",
    "calm-finch": "search: ranking by sales",
    "clever-mole": "reviewing the cart",
    "eager-wren": "flaky tests of the cart",
    "gentle-ibis": "docs for the payment API",
    "keen-badger": "login: OAuth",
    "lucky-crane": "upgrading the ORM",
    "merry-vole": "dark mode",
    "nimble-hare": "product images",
    "proud-stork": "release notes",
    "quiet-heron": "import of orders",
    "swift-lynx": "no order twice",
    "tidy-shrew": "linting",
    "witty-raven": "price rounding",
}


SELECTED = "swift-lynx"
"""The agent that `tb top` shows: it has a task with a past, a file that it has changed, and a message."""
_BEFORE = """def orders(rows):
    for row in rows:
        yield Order(row["id"], row["total"])
"""
_AFTER = """def orders(rows):
    for row in rows:
        if row["id"] not in known:
            yield Order(row["id"], cents(row["total"]))
"""


class Scene:
    """The board while its story is told."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._now = time.time_ns() // 1000 - LENGTH * MINUTE
        self._boards: dict[str, Board] = {}

    def at(self, minute: float) -> None:
        """Let time pass until this minute of the story."""
        self._now = max(self._now, time.time_ns() // 1000 - round((LENGTH - minute) * MINUTE))

    def wait(self, minutes: float) -> None:
        """Let some minutes pass."""
        self._now += round(minutes * MINUTE)

    def by(self, agent: str) -> Board:
        """The board as an agent uses it."""
        if agent not in self._boards:
            self._boards[agent] = tiebreak.open(
                self.path, agent=f"{agent}~scene", project=PROJECT, clock=lambda: self._now
            )
        return self._boards[agent]

    def refused(self, agent: str, operation: str, **params: Any) -> None:
        """A call that must be refused."""
        try:
            self.by(agent).call(operation, params)
        except TiebreakError:
            self.by(agent).agents.heartbeat()  # a refusal is written to the log with the next change of its agent
            return
        raise AssertionError(f"{operation} of {agent} was not refused")

    def close(self) -> None:
        """Close all boards."""
        for board in self._boards.values():
            board.close()


PLAN: list[dict[str, Any]] = [
    {"name": "Move payments to the new API", "key": "payments", "kind": "feature", "priority": "high"},
    {"name": "Price rounding is off by a cent", "key": "rounding", "kind": "bug", "priority": "urgent"},
    {"name": "Import of old orders", "key": "import-orders", "kind": "feature"},
    {"name": "Login by OAuth", "key": "oauth", "kind": "feature", "priority": "high"},
    {"name": "Rank search results by sales", "key": "ranking", "kind": "feature"},
    {"name": "Flaky test of the cart", "key": "flaky-cart", "kind": "bug"},
    {"name": "Dark mode", "key": "dark-mode", "kind": "feature", "priority": "low"},
    {"name": "Upgrade the ORM", "key": "orm", "kind": "chore"},
    {"name": "Documentation of the payment API", "key": "payment-docs", "kind": "docs", "after": ["payments"]},
    {"name": "Remove the old payment code", "key": "old-payments", "kind": "chore", "after": ["payments"]},
    {"name": "Refunds", "key": "refunds", "kind": "feature", "after": ["payments", "rounding"]},
    {"name": "Release 2.4", "key": "release", "kind": "chore", "after": ["refunds", "oauth", "import-orders"]},
    {"name": "Smaller product images", "key": "images", "kind": "feature"},
    {"name": "Error pages in the shop's words", "key": "error-pages", "kind": "feature", "priority": "low"},
]


def tell(path: str) -> None:
    """Tell the story on a new board."""
    scene = Scene(path)
    try:
        _begin(scene)
        _middle(scene)
        _fence(scene)
        _end(scene)
    finally:
        scene.close()


def _begin(scene: Scene) -> None:
    """A coordinator, a plan, and the first claims: each task has one winner, others are refused."""
    lead = scene.by("lead")
    lead.agents.announce(doing="coordinating release 2.4", program="claude")
    lead.holds.take(resources=["seat:coordinator"], lease=7200)
    for entry in PLAN:
        scene.at(0.2 + PLAN.index(entry) * 0.05)
        lead.tasks.post(**entry)
    for i, (agent, doing) in enumerate(AGENTS.items()):
        scene.at(1 + i * 0.15)
        scene.by(agent).agents.announce(doing=doing, program="claude" if i % 3 else "codex")
    scene.at(3.5)
    _claim(scene, "witty-raven", "rounding", "src/pricing/round.py")
    scene.refused("clever-mole", "tasks.claim", ref="rounding")
    scene.at(3.8)
    _claim(scene, "brave-otter", "payments", "src/payments/**")
    scene.refused("keen-badger", "holds.take", resources=["file:src/payments/api.py"])
    scene.at(4.1)
    _claim(scene, "keen-badger", "oauth", "src/login/oauth.py")
    scene.refused("tidy-shrew", "tasks.claim", ref="oauth")
    scene.at(4.4)
    _claim(scene, "calm-finch", "ranking", "src/search/rank.py")


def _claim(scene: Scene, agent: str, key: str, path: str, lease: float = 7200) -> None:
    scene.by(agent).tasks.claim(key, lease=lease)
    scene.by(agent).holds.take(resources=[f"file:{path}"], lease=lease)


def _middle(scene: Scene) -> None:
    """Work is finished and handed on, a job queue runs, agents talk."""
    lead = scene.by("lead")
    lead.jobs.submit(command=["make", "test"], name="tests of main", key="tests", queue="ci", max_attempts=3)
    lead.jobs.submit(command=["make", "image"], name="image", key="image", queue="ci", after=["tests"])
    lead.jobs.submit(command=["make", "e2e"], name="e2e tests", key="e2e", queue="browsers", max_attempts=1)
    scene.at(6)
    _job(scene, "worker-1", "ci", ok=False, minutes=1.5, reason="exit code 1: the database was not there yet")
    _job(scene, "worker-1", "ci", ok=True, minutes=3)
    scene.at(11)
    raven = scene.by("witty-raven")
    raven.tasks.complete("rounding", result={"commit": "4f2a9c1"}, ack=True, ack_name="rounding is fixed")
    raven.holds.release(resources=["file:src/pricing/round.py"])
    _claim(scene, "eager-wren", "flaky-cart", "tests/cart/test_total.py")
    lead.messages.send(body="refunds can begin as soon as payments are done", to="brave-otter")
    scene.at(12)
    scene.by("brave-otter").messages.send(body="two more hours, the sandbox is slow", to="lead", reply_to=1)
    scene.by("gentle-ibis").holds.take(resources=["file:docs/payments.md"], lease=7200)
    scene.by("brave-otter").messages.send(body="the client is done, refunds are next", about="payments")
    scene.at(14)
    _job(scene, "worker-2", "ci", ok=True, minutes=2)
    _claim(scene, "merry-vole", "dark-mode", "src/theme.css")


def _job(scene: Scene, worker: str, queue: str, *, ok: bool, minutes: float, reason: str | None = None) -> None:
    """A worker runs the next job of a queue."""
    board = scene.by(worker)
    scene.wait(0.1)  # after a failure, a job is not tried again at once
    [job] = board.jobs.next(queues=[queue], lease=3600)
    board.jobs.append(job.number, epoch=job.epoch, chunks=[{"start": 0, "stream": 1, "text": OUTPUT}])
    scene.wait(minutes)
    outcome = {"number": job.number, "epoch": job.epoch, "ok": ok, **({"reason": reason} if reason else {})}
    board.jobs.report(outcomes=[outcome])


OUTPUT = "collected 412 items\ntests/cart ........................ [ 38%]\ntests/login ................ [ 71%]\n"


def _fence(scene: Scene) -> None:
    """An agent is paused past its lease; the next one gets epoch 2, and what the first one writes is refused."""
    heron, lynx = scene.by("quiet-heron"), scene.by("swift-lynx")
    scene.at(17)
    heron.tasks.claim("import-orders", lease=300)
    heron.holds.take(resources=["file:src/orders/import.py"], lease=300)
    scene.at(18)
    scene.refused("swift-lynx", "tasks.claim", ref="import-orders")
    scene.at(20)
    heron.tasks.extend("import-orders", lease=300)
    scene.at(25.1)
    lynx.tasks.sweep()
    scene.at(25.6)
    lynx.tasks.claim("import-orders", lease=7200)
    lynx.holds.take(resources=["file:src/orders/import.py"], lease=7200)
    scene.at(28)
    scene.refused("quiet-heron", "tasks.complete", ref="import-orders", epoch=1)
    scene.refused("quiet-heron", "holds.renew", resources=["file:src/orders/import.py"], epochs=[1])
    scene.at(28.1)
    heron.messages.send(body="I was paused; my part is in branch orders-1", to="swift-lynx")


def _end(scene: Scene) -> None:
    """What the board looks like now: a question, a prompt, a failed job, a dead holder, somebody who waits."""
    scene.at(29)
    _claim(scene, "lucky-crane", "orm", "pyproject.toml")
    scene.refused("tidy-shrew", "holds.take", resources=["file:pyproject.toml"])
    scene.at(31)
    _job(scene, "worker-2", "browsers", ok=False, minutes=2, reason="checkout timed out")
    scene.at(34)
    scene.by("nimble-hare").tasks.claim("images", lease=7200)
    scene.by("nimble-hare").holds.take(resources=["pool:browsers"], slots=2, lease=7200)
    scene.at(35)
    scene.by("proud-stork").holds.take(resources=["file:NEWS.md"], lease=7200)
    scene.by("proud-stork").agents.leave(reason="its terminal was closed")
    scene.at(36.5)
    scene.by("brave-otter").questions.ask(
        "Keep the old API?", choices=["yes", "no"], about="payments", key="keep-old-api"
    )
    scene.at(38)
    scene.by("keen-badger").agents.prompt(note="wants Bash")
    scene.at(LENGTH - 0.4)
    for agent in (*AGENTS, "lead"):
        if agent not in ("proud-stork", "keen-badger", "brave-otter"):
            scene.by(agent).agents.heartbeat()
    scene.by("lead").jobs.submit(command=["make", "bench"], name="benchmarks", key="bench", queue="nightly")
    scene.by("lead").schedules.add(
        name="nightly", expression="30 3 * * 1-5", command=["make", "nightly"], zone="Europe/Zurich"
    )
    scene.by("worker-1").jobs.next(lease=3600)
    scene.at(LENGTH)
    scene.by("tidy-shrew").waits.enter(resources=["file:pyproject.toml"], note="sorting dependencies")


def checkout(folder: str) -> str:
    """A repository of the shop in which the file is changed that the selected agent holds."""
    root = Path(folder) / "shop"
    file = root / "src" / "orders" / "import.py"
    file.parent.mkdir(parents=True)
    file.write_text(_BEFORE)
    person = ["-c", "user.name=maria", "-c", "user.email=maria@example.org"]
    for words in (["init", "--quiet"], ["add", "."], [*person, "commit", "--quiet", "--message", "import orders"]):
        subprocess.run(["git", "-C", str(root), *words], check=True)
    file.write_text(_AFTER)
    return str(root)
