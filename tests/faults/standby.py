"""A standby by streaming replication, and the sudden death of a primary."""

from __future__ import annotations

import atexit
import os
import pwd
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.cli.command import until
from tests.postgres import PATIENCE, USER, Server

NAME = "standby"


class Standby(Server):
    """A copy of a running primary that follows it until it is promoted."""

    def __init__(self, primary: Server) -> None:
        # Not made by initdb, so the usual beginning is of no use here.
        self.binaries = primary.binaries
        self.folder = Path(tempfile.mkdtemp(prefix="tb-pg-"))
        self.data = self.folder / "data"
        self.settings = primary.settings
        self._process = None
        self._cleaners, self._databases = {}, set()
        if os.geteuid() == 0:
            account = pwd.getpwnam(USER)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self.folder.chmod(0o755)
        source = f"host={primary.folder} user=tiebreak application_name={NAME}"
        self.run("pg_basebackup", "-D", str(self.data), "-d", source, "-R", "-X", "stream", "-c", "fast")
        self.start()
        atexit.register(self.close)

    def promote(self) -> None:
        """Make it the primary, and come back when it takes writes."""
        self.run("pg_ctl", "promote", "-w", "-D", str(self.data))


class Pair:
    """A primary with its standby, and the address by which clients find whichever takes writes."""

    def __init__(self, *, synchronous: bool) -> None:
        self.primary = Server()
        self.standby = Standby(self.primary)
        hosts = f"{self.primary.folder},{self.standby.folder}"
        self.address = f"postgresql://tiebreak@/postgres?host={hosts}&target_session_attrs=read-write"
        if synchronous:
            self._ask(f"ALTER SYSTEM SET synchronous_standby_names = '{NAME}'")
            self._ask("SELECT pg_reload_conf()")
        wanted = "sync" if synchronous else "async"
        until(lambda: self._ask("SELECT sync_state FROM pg_stat_replication") == [(wanted,)], "the standby follows")

    def _ask(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.primary.address(), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def caught_up(self) -> bool:
        """Whether the standby has everything that the primary has."""
        return self._ask("SELECT replay_lsn = pg_current_wal_lsn() FROM pg_stat_replication") == [(True,)]

    def cut_off(self) -> None:
        """From now on nothing reaches the standby."""
        [(pid,)] = self._ask("SELECT pid FROM pg_stat_replication")
        assert isinstance(pid, int)
        os.kill(pid, signal.SIGSTOP)

    def kill_primary(self) -> None:
        """SIGKILL to the server and all that belongs to it, at once."""
        process = self.primary._process
        assert process
        process.send_signal(signal.SIGSTOP)  # so that it makes no new ones meanwhile
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for pid in (process.pid, *map(int, children)):
            os.kill(pid, signal.SIGKILL)
        process.wait(PATIENCE)

    def close(self) -> None:
        """Stop both and remove everything."""
        self.standby.close()
        self.primary.close()


@contextmanager
def pair(*, synchronous: bool) -> Iterator[Pair]:
    """A primary and a standby, for as long as the context lasts."""
    made = Pair(synchronous=synchronous)
    try:
        yield made
    finally:
        made.close()
