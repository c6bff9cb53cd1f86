"""A place for sessions: a home, a board and a tmux server of its own, and agents that notice if they are not alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import tiebreak
from tiebreak.model import Session, agent_id
from tiebreak.process_identity import identity
from tiebreak.process_tree import send
from tiebreak.sessions.records import command, fate, supervisor

from ..cli.command import Answer, Tb, until

PATIENCE = 60.0
AGENT = [sys.executable, "-I", "-S", str(Path(__file__).parent / "agent.py")]
CROWD = [sys.executable, str(Path(__file__).parent / "crowd.py")]
QUICK = ("--settle", "0.05s")


class Arena:
    """Commands run here as somebody in a shell of their own would run them."""

    def __init__(self, folder: Path, board: str | None = None, tmux: str | None = None) -> None:
        self.folder = folder
        self.tb = Tb(folder)
        self._private = tempfile.mkdtemp(prefix="tb-")  # sockets have short paths
        self.environment = {
            "ARENA": str(folder),
            "TMUX_TMPDIR": tmux or self._private,
            "TIEBREAK_TMUX_SOCKET": "t",
            "SHELL": "/bin/sh",
        }
        if board is not None:
            self.environment["TIEBREAK_BOARD"] = board
        self.environment["TIEBREAK_AGENT"] = "me"
        self.tb.environment.update(self.environment)
        self.board = tiebreak.open(self.tb.environment["TIEBREAK_BOARD"], agent="test~1", project="demo")

    def __call__(self, *words: str, env: dict[str, str | None] | None = None, stdin: str = "") -> Answer:
        """Run `tb`; what it started has said so by the time that this comes back."""
        answer = self.tb(*words, env=env, stdin=stdin)
        if answer.code == 0 and words[0] in ("spawn", "handoff", "drain"):
            lived = sum(bool(each.alive_at) for each in self.board.sessions.list(project=None, every=True))
            self.starts(lived)
        return answer

    def spawn(self, name: str = "lead", part: str = "ok", *options: str, words: tuple[str, ...] = ()) -> Answer:
        """`tb spawn NAME … -- agent PART WORDS`, answering in JSON."""
        return self("spawn", name, *QUICK, *options, "--json", "--", *AGENT, part, *words)

    def lead(self, part: str = "ok", *options: str) -> Session:
        """A coordinator that lives."""
        answer = self.spawn("lead", part, "--coordinator", *options)
        assert answer.code == 0, answer
        return self.session("lead")

    def session(self, name: str) -> Session:
        """The newest record of an agent."""
        return self.board.sessions.list(session=name, every=True)[0]

    def living(self) -> list[Session]:
        """The coordinators whose processes live."""
        return [each for each in self.board.sessions.list(role="coordinator") if fate(each) == "alive"]

    def holder(self) -> str | None:
        """Who has the seat."""
        from tiebreak.model import holder_id

        return next((holder_id(hold) for hold in self.board.holds.list(matching="seat:coordinator")), None)

    def terminals(self) -> list[str]:
        """The sessions of the private tmux server."""
        done = self.tmux("list-sessions", "-F", "#{session_name}")
        return done.stdout.split() if done.returncode == 0 else []

    def tmux(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["tmux", "-L", "t", *words], env=self.tb.environment, capture_output=True, text=True, timeout=PATIENCE
        )

    def notes(self, name: str) -> list[dict[str, Any]]:
        """What agents have written: `starts`, `overlaps`, `crashed`."""
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def starts(self, count: int) -> list[dict[str, Any]]:
        """What the first so many agents were started with; a session is alive before its program has said anything."""
        self.until(lambda: len(self.notes("starts")) >= count, f"{count} agents have started")
        return self.notes("starts")

    def words(self, count: int) -> list[list[str]]:
        """The words that so many agents were started with, and no more."""
        return [each["words"] for each in self.starts(count)]

    def until_ended(self, found: Session) -> Session:
        """The record, once the session is over."""
        self.until(lambda: self.again(found).ended_at, f"{agent_id(found)} has ended")
        return self.again(found)

    def again(self, found: Session) -> Session:
        return self.board.sessions.list(session=agent_id(found), every=True)[0]

    def until(self, happened: Any, what: str) -> None:
        until(happened, what, PATIENCE)

    def queue(self, name: str = "queue") -> list[str]:
        folder = self.folder / "state" / "tiebreak" / "handoffs" / name
        return sorted(os.listdir(folder)) if folder.exists() else []

    def close(self) -> None:
        """End everything that was started here."""
        self.tmux("kill-server")
        with suppress(tiebreak.TiebreakError):
            for each in self.board.sessions.list(project=None, every=True):
                for who in (command(each), supervisor(each)):
                    if each.child and who.host == identity().host and who.pid != os.getpid():
                        send(who, signal.SIGKILL)
        self.board.close()
        shutil.rmtree(self._private, ignore_errors=True)


class Crowd:
    """A process that has everything loaded, and forks as many commands as it is told to."""

    def __init__(self, arena: Arena, host: str | None = None) -> None:
        elsewhere = ["unshare", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "sh"] if host else []
        self._process = subprocess.Popen(
            [*elsewhere, *CROWD],
            env=arena.tb.environment,
            cwd=arena.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, count: int, *words: str) -> list[int]:
        """Start the same command so many times; their process ids."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([count, *words]) + "\n")
        self._process.stdin.flush()
        return list(self._answer())

    def finish(self) -> list[Answer]:
        """How they ended."""
        return [Answer(*each) for each in self._answer()]

    def __call__(self, count: int, *words: str) -> list[Answer]:
        self.begin(count, *words)
        return self.finish()

    def _answer(self) -> list[Any]:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
