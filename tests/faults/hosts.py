"""Hosts: network namespaces of this machine, joined by cables that can be pulled.

A namespace has a network of its own and shares everything else, so a server in one is reached from the others by its
address only, while the test, which must see everything, reaches it by its socket in the file system.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import psycopg

from tests.postgres import Server

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_numbers = count()


def ip(*words: str) -> None:
    """One `ip` command, which has to succeed."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


def enter(namespace: str) -> None:
    """Move this thread, and all that it starts from now on, to another host."""
    with open(f"/run/netns/{namespace}", "rb") as there:
        _move(there.fileno())


def _move(fd: int) -> None:
    if _libc.setns(fd, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """What is started in this block runs on that host."""
    with open("/proc/thread-self/ns/net", "rb") as here:
        enter(namespace)
        try:
            yield
        finally:
            _move(here.fileno())


class Cable:
    """Joins a host to the one with the database."""

    def __init__(self, database: str, number: int) -> None:
        self.host = f"{database}-{number}"
        self.address = f"10.99.{number}.1"
        """The database's, as seen from this host."""
        self._database, self._plug = database, f"to{number}"
        ip("netns", "add", self.host)
        ip("-n", database, "link", "add", self._plug, "type", "veth", "peer", "name", "db", "netns", self.host)
        ip("-n", database, "address", "add", f"{self.address}/24", "dev", self._plug)
        ip("-n", self.host, "address", "add", f"10.99.{number}.2/24", "dev", "db")
        ip("-n", self.host, "link", "set", "db", "up")
        self.heal()

    def cut(self) -> None:
        """Pull the plug at the database's end: what is sent vanishes, and nobody is told."""
        ip("-n", self._database, "link", "set", self._plug, "down")

    def heal(self) -> None:
        """Put it in again."""
        ip("-n", self._database, "link", "set", self._plug, "up")


class Network:
    """One host with a database, and others around it."""

    def __init__(self) -> None:
        self.database = f"tb-{os.getpid()}-{next(_numbers)}"
        self.cables: list[Cable] = []
        self.server: Server | None = None

    def build(self, hosts: int) -> None:
        """Lay the cables and start the server."""
        ip("netns", "add", self.database)
        self.cables += [Cable(self.database, number) for number in range(1, hosts + 1)]
        with inside(self.database):
            self.server = Server("listen_addresses=*", "port=5432")
        self._admit()

    def _admit(self) -> None:
        """Let the private network in, without a password."""
        assert self.server
        with open(self.server.data / "pg_hba.conf", "a") as file:
            file.write("host all all 10.99.0.0/16 trust\n")
        with psycopg.connect(self.here) as connection:
            connection.execute("SELECT pg_reload_conf()")

    @property
    def here(self) -> str:
        """The board as the test sees it, whatever is cut."""
        assert self.server
        return self.server.address()

    def seen_from(self, cable: Cable) -> str:
        """The board as a host sees it."""
        return f"postgresql://tiebreak@{cable.address}:5432/postgres"

    def close(self) -> None:
        """Stop the server and take the hosts away; whoever still runs there has no network any more."""
        if self.server:
            self.server.close()
        names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.split()
        for name in names:
            if name == self.database or name.startswith(f"{self.database}-"):
                ip("netns", "delete", name)


@contextmanager
def network(hosts: int) -> Iterator[Network]:
    """Hosts around a database, for as long as the context lasts."""
    made = Network()
    try:
        made.build(hosts)
        yield made
    finally:
        made.close()
