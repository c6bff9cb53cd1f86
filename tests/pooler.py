"""A PgBouncer in front of the tests' PostgreSQL server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from .postgres import PATIENCE, USER, server


class Pooler:
    """A PgBouncer in front of the tests' server, on a private socket, with fewer connections than clients."""

    def __init__(self, *settings: str) -> None:
        program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        assert os.path.exists(program), "no PgBouncer on this machine: tools/need pgbouncer installs one"
        self.folder = Path(tempfile.mkdtemp(prefix="tb-pb-"))
        self.folder.chmod(0o755)
        lines = [
            "[databases]",
            f"* = host={server().folder} user=tiebreak",
            "[pgbouncer]",
            "listen_addr =",
            f"unix_socket_dir = {self.folder}",
            "auth_type = any",
            "pool_mode = transaction",
            "default_pool_size = 3",
            "server_round_robin = 1",
            *settings,
        ]
        (self.folder / "ini").write_text("\n".join(lines) + "\n")
        who: dict[str, Any] = {}
        if os.geteuid() == 0:  # whom it refuses, as the server does
            shutil.chown(self.folder, USER, USER)
            who = {"user": USER, "group": USER, "cwd": "/"}
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen([program, str(self.folder / "ini")], stdout=log, stderr=log, **who)
        self.address = self.address_of("postgres")
        self._answers()

    def address_of(self, database: str) -> str:
        """How a board in this database is called."""
        return f"postgresql://tiebreak@/{database}?host={self.folder}&port=6432"

    def _answers(self) -> None:
        end = time.monotonic() + PATIENCE
        while not self._lets_in():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end, "the pooler does not answer"
            time.sleep(0.02)

    def _lets_in(self) -> bool:
        try:
            psycopg.connect(self.address).close()
        except psycopg.OperationalError:
            return False
        return True

    def close(self) -> None:
        """Stop it and remove everything."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)
