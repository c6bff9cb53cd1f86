"""Which boots this machine has had, as its own disk remembers them.

A process of an earlier boot is dead. But another boot id under the same host name does not prove an earlier boot: two
machines may have the same name, and copies of one disk image have the same machine id as well. So a machine lists each
boot in which an agent is bound to one of its processes, on its own disk (`/var/tmp` survives a reboot). A boot that is
listed there, and is not the present one, is over.

Nothing is written or read in a container: its host name, disk and boot belong to others, too. It counts as a container
if it has any namespace of its own whose first number the kernel fixes. If the file is lost, nothing is proved. One case
is left: a disk that is copied while its machine runs, started elsewhere under the same host name. The callers therefore
also look whether the agent was seen since this machine booted.
"""

from __future__ import annotations

import os
import sys

from .errors import TiebreakError
from .files import replace_file
from .process_identity import NAMELESS_HOSTS, on_this_machine, read_start
from .user_folders import private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .process_identity import Identity

FOLDER = "/var/tmp"  # noqa: S108  (the folder in it is checked to be ours)
MOST = 50
"""How many boots are remembered."""
FIRST_NAMESPACES = {
    "cgroup": "4026531835",
    "ipc": "4026531839",
    "pid": "4026531836",
    "time": "4026531834",
    "user": "4026531837",
    "uts": "4026531838",
}
"""The numbers that the kernel gives to the namespaces of the machine itself, the same at every boot."""


def remember_boot() -> None:
    """Write down the present boot, if this is a machine and not a container. Without it, leases run out as before."""
    if not _is_machine():
        return
    here = on_this_machine(0, 0)
    line = f"{here.host} {here.boot}"
    try:
        known = _known()
        if line not in known:
            replace_file(_path(), "\n".join([*known[1 - MOST :], line, ""]).encode())
    except (TiebreakError, OSError):
        pass


def is_of_earlier_boot(who: Identity) -> bool:
    """Whether that process ran on this very machine before it booted last, so that it has certainly ended."""
    here = on_this_machine(0, 0)
    if who.host != here.host or who.boot == here.boot or not _is_machine():
        return False
    try:
        return f"{who.host} {who.boot}" in _known()
    except (TiebreakError, OSError):
        return False


def _known() -> list[str]:
    # One read: at most 50 lines of a host name, a boot and a namespace.
    return [line for line in read_start(_path(), 65536).decode("utf-8", "replace").split("\n") if line]


def _path() -> str:
    return os.path.join(private(os.path.join(FOLDER, f"tiebreak-{os.geteuid()}")), "boots")


def _is_machine() -> bool:
    """Whether this process is in no container, as far as the kernel tells."""
    if sys.platform != "linux" or on_this_machine(0, 0).host in NAMELESS_HOSTS:
        return False
    try:
        return all(
            os.readlink(f"/proc/self/ns/{kind}") == f"{kind}:[{number}]" for kind, number in FIRST_NAMESPACES.items()
        )
    except OSError:
        return False
