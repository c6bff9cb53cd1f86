"""A PostgreSQL server for tests: found on this machine, on a private socket in a temporary folder, fsync on."""

from __future__ import annotations

import atexit
import fcntl
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

import tiebreak
from tiebreak.engine.schema import POSTGRES_PASS, TABLES, VERSION

PATIENCE = 90.0
WRITES = f"-ctiebreak.schema={VERSION}"
"""With `options=WRITES`, a bare connection may write to a board; see `tiebreak.engine.schema`."""
BUILD = Path(__file__).resolve().parent.parent / "build"
_INITDB = ("-A", "trust", "-U", "tiebreak", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
USER = "postgres"
"""Who runs the server when the tests run as root, whom it refuses."""


def binaries() -> Path:
    """The folder with `postgres` and `initdb`; the newest version where there are several."""
    found = [shutil.which("postgres"), *glob.glob("/usr/lib/postgresql/*/bin/postgres")]
    found += glob.glob("/usr/pgsql-*/bin/postgres") + glob.glob("/opt/homebrew/opt/postgresql@*/bin/postgres")
    there = [Path(path).resolve().parent for path in found if path]
    assert there, "no PostgreSQL on this machine: tools/need postgres installs one"
    return max(there, key=lambda folder: [int(p) for p in folder.parent.name.split(".") if p.isdecimal()])


HOSTILE = {
    "synchronous_commit": "off",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "statement_timeout": "'1s'",
    "lock_timeout": "'100ms'",
    "idle_in_transaction_session_timeout": "'200ms'",
    "search_path": "odd, public",
    "TimeZone": "'Asia/Kathmandu'",
    "DateStyle": "'German'",
    "IntervalStyle": "'iso_8601'",
    "client_encoding": "'LATIN1'",
    "extra_float_digits": "'-15'",
    "row_security": "off",
}
"""Settings that somebody may have given to a database, a role or a server, and that no promise may depend on."""

_EMPTY = "; ".join(
    [
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        "SET LOCAL lock_timeout = 0",
        "SET LOCAL statement_timeout = 0",
        POSTGRES_PASS,
        # Durable: a test may crash the server at once, and what the sequences are set to is never undone.
        "SET LOCAL synchronous_commit = on",
        *(f"DELETE FROM {table}" for table in TABLES),
        "DELETE FROM board WHERE name <> 'version'",
        *(
            f"SELECT setval('{each}', 1, false)"
            for each in ("tasks_number_seq", "messages_number_seq", "events_number")
        ),
        "COMMIT",
    ]
)


class Server:
    """One server, started when it is made; `stop` and `start` may be called again and again."""

    def __init__(self, *settings: str) -> None:
        self.binaries = binaries()
        self.folder = Path(tempfile.mkdtemp(prefix="tb-pg-"))
        self.data = self.folder / "data"
        self.settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._cleaners: dict[str, psycopg.Connection[Any]] = {}
        self._databases: set[str] = set()
        if os.geteuid() == 0:
            account = pwd.getpwnam(USER)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self.folder.chmod(0o755)
        self._make_data()
        self.start()
        atexit.register(self.close)

    def _make_data(self) -> None:
        """A new cluster: a copy of one that was made once, because initdb takes its time.

        The copy is kept for each user, version and way of making it; where nothing can be kept, initdb runs each time.
        """
        words = ["-D", str(self.data), *_INITDB]
        version = subprocess.check_output([str(self.binaries / "initdb"), "--version"], text=True).split()[2]
        kept = BUILD / f"postgres-{version}-{os.geteuid()}-{zlib.crc32(' '.join(_INITDB).encode()):x}"
        try:
            BUILD.mkdir(exist_ok=True)
            lock = open(f"{kept}.lock", "w", encoding="utf-8")  # noqa: SIM115  (closed below)
        except OSError:
            self.run("initdb", *words)
            return
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                self.run("initdb", *words)
                unfinished = kept.with_name(f"{kept.name}.new")
                shutil.rmtree(unfinished, ignore_errors=True)
                subprocess.run(["cp", "-a", self.data, unfinished], check=True)
                unfinished.rename(kept)
                return
        subprocess.run(["cp", "-a", kept, self.data], check=True)

    def run(self, program: str, *words: str) -> None:
        """One of the server's own programs, as the user that may run them."""
        done = subprocess.run([str(self.binaries / program), *words], capture_output=True, **self._as_user())
        assert done.returncode == 0, done.stderr.decode()

    def _as_user(self) -> dict[str, Any]:
        return {"user": USER, "group": USER, "cwd": "/"} if os.geteuid() == 0 else {}

    def start(self) -> None:
        """Start it, and come back when it answers."""
        options = {"listen_addresses": "", "unix_socket_directories": str(self.folder), "max_connections": "200"}
        words = [str(self.binaries / "postgres"), "-D", str(self.data)]
        words += [f"-c{name}={value}" for name, value in options.items()] + [f"-c{each}" for each in self.settings]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, **self._as_user())
        end = time.monotonic() + PATIENCE
        while subprocess.run(
            [str(self.binaries / "pg_isready"), "-q", "-h", str(self.folder), "-U", "tiebreak"], check=False
        ).returncode:
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: at once but in good order. SIGQUIT: as in a crash."""
        assert self._process
        for cleaner in self._cleaners.values():
            cleaner.close()
        self._process.send_signal(how)
        self._process.wait(PATIENCE)

    def address(self, database: str = "postgres", **options: str) -> str:
        """How a board in this server is called."""
        more = "".join(f"&{name}={value}" for name, value in options.items())
        return f"postgresql://tiebreak@/{database}?host={self.folder}{more}"

    def empty_board(self, database: str = "postgres") -> str:
        """The address of a board with nothing on it; the same one again and again, because making one takes time."""
        address, cleaner = self.address(database), self._cleaners.get(database)
        if cleaner is None or cleaner.closed:
            tiebreak.open(address).close()
            cleaner = self._cleaners[database] = psycopg.connect(address, autocommit=True)
        try:
            cleaner.execute(_EMPTY)
        except psycopg.errors.UndefinedTable:  # the last one was moved elsewhere
            cleaner.execute("ROLLBACK; DROP SCHEMA public CASCADE; CREATE SCHEMA public")
            tiebreak.open(address).close()
        return address

    def database(self, name: str) -> str:
        """The name of a database of its own."""
        if name not in self._databases:
            with psycopg.connect(self.address(), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            self._databases.add(name)
        return name

    def hostile_database(self, isolation: str) -> str:
        """The name of a database whose defaults would break every promise that was left to them."""
        name = "hostile_" + isolation.replace(" ", "_")
        if name not in self._databases:
            self._databases.add(name)
            settings = {**HOSTILE, "default_transaction_isolation": f"'{isolation}'"}
            with psycopg.connect(self.address(), autocommit=True) as connection:
                how = "LOCALE_PROVIDER icu ICU_LOCALE 'de'" if connection.info.server_version >= 150000 else ""
                connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 {how}")
                with psycopg.connect(self.address(name), autocommit=True) as inside:
                    inside.execute("CREATE SCHEMA odd")
                for setting, value in settings.items():
                    connection.execute(f"ALTER DATABASE {name} SET {setting} = {value}")
        return name

    def close(self) -> None:
        """Stop it and remove everything."""
        if self._process and self._process.poll() is None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def server() -> Server:
    """One server for all tests of this process."""
    return Server()
