"""The rules that find the name of a repository's project; they run once, and the result is pinned.

`project_identity` says which rules there are. This module is loaded only when a repository has no pin yet.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from .names import BY_COMMIT, BY_PATH
from .project_identity import (
    OUTSIDE,
    PIN,
    ProjectIdentity,
    commit_name,
    fitting,
    path_name,
    pin_text,
    read_pin,
    spare_pin,
)
from .repository import common_of, configured_project, setting
from .user_folders import LOOPBACK

FOLLOWED = 8
"""How many remotes on this machine are followed, one from the other, before giving up."""
TIME_LIMIT = 60.0
"""Seconds that git may take. The longest way to a first commit, a few hundred thousand commits, takes a few."""
_SAME_HOST = {
    "ssh.github.com": "github.com",
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
}
"""Other names under which well-known servers take SSH, for networks that block its port."""
_PUBLIC = frozenset(("github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "git.sr.ht", "dev.azure.com"))
"""Well-known servers: their names need no resolving."""
_AZURE = ("ssh.dev.azure.com", "dev.azure.com")


def derive_and_pin(common: str, before: ProjectIdentity | None = None) -> ProjectIdentity:
    """Find the identity of the repository with this common directory and pin it; what is pinned in the end.

    A path is not pinned if git could not be asked: git may be installed later, and tell more. `before` is a name by the
    path that was pinned; it is replaced when more is known, and kept as a further name.
    """
    found = derive(common)
    if found.name.startswith(BY_PATH) and (before is not None or _settings(common) is None):
        return before or found
    found.path = before.name if before is not None else ""
    spare = spare_pin(common)
    try:
        _pin_once(common, os.path.join(common, PIN), found, before)
    except OSError:  # a repository that this user may read but not write, or a full disk
        try:
            os.makedirs(os.path.dirname(spare), mode=0o700, exist_ok=True)
            _pin_once(common, spare, found, before)
        except OSError:
            pass  # then the rules run again next time
    return read_pin(common) or found


def _pin_once(common: str, path: str, found: ProjectIdentity, before: ProjectIdentity | None) -> None:
    """Write a pin, unless another process was faster; one that cannot be read or is to be replaced is replaced."""
    try:
        write_pin(path, found, replace=False)
    except FileExistsError:
        there = read_pin(common)
        if there is None or (before is not None and there.name == before.name):
            write_pin(path, found, replace=True)


def write_pin(path: str, identity: ProjectIdentity, *, replace: bool) -> None:
    """Write a pin in one step. Without `replace`, raises `FileExistsError` if there is one."""
    partial = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.new"
    with open(partial, "x", encoding="utf-8", errors="surrogateescape") as file:
        file.write(pin_text(identity))
    try:
        os.replace(partial, path) if replace else os.link(partial, path)
    finally:
        if os.path.lexists(partial):
            os.unlink(partial)


def derive(common: str) -> ProjectIdentity:
    """The identity of a repository by the rules alone, whatever is pinned."""
    return _derive(common, FOLLOWED)


def _derive(common: str, left: int) -> ProjectIdentity:
    url = _remote(common)
    commit = _first_commit(common)
    root = commit_name(commit) if commit else ""
    if url and not _is_of_this_machine(url):
        near = _local(url, common)
        if near is None:
            return ProjectIdentity(origin_name(url), "origin", root=root, source=_without_secrets(url))
        found = _followed(near, common, left)
        if found is not None and (not found.name.startswith(BY_PATH) or not commit):
            rule = "path" if found.name.startswith(BY_PATH) else "origin"
            return ProjectIdentity(found.name, rule, root=found.root or root, source=near)
    if commit:
        return ProjectIdentity(root, "commit", root=root, source=commit)
    return ProjectIdentity(path_name(common), "path", source=os.path.dirname(common))


def _followed(path: str, common: str, left: int) -> ProjectIdentity | None:
    """The identity of the repository at a path; None if there is none, or if this clone came to it in a circle."""
    there = common_of(path) or common_of(f"{path}.git")
    if not there or there == common or not left:
        return None
    chosen = configured_project(there)
    if chosen:
        return ProjectIdentity(chosen, "config")
    return read_pin(there) or _derive(there, left - 1)


# ── Asking git ───────────────────────────────────────────────────────────────────────────────────────


def _remote(common: str) -> str:
    """The address of the remote `origin`, or of the only remote, with `insteadOf` applied; empty if there is none."""
    settings = _settings(common)
    if settings is None:
        return setting(common, "url", section='remote "origin"')
    urls: dict[str, str] = {}
    rewritten: dict[str, str] = {}
    for each in settings.split("\0"):
        key, _, value = each.partition("\n")
        kind, _, rest = key.partition(".")
        if kind == "remote" and value:
            urls.setdefault(rest.rpartition(".")[0], value)
        elif kind == "url":
            rewritten[value] = rest.rpartition(".")[0]
    url = urls.get("origin") or (next(iter(urls.values())) if len(urls) == 1 else "")
    longest = max((prefix for prefix in rewritten if url.startswith(prefix)), key=len, default="")
    return rewritten[longest] + url[len(longest) :] if longest else url


def _settings(common: str) -> str | None:
    """The remotes and `insteadOf` of a repository, as git lists them; None if git could not be asked."""
    words = ("config", "-z", "--get-regexp", r"^(remote\..*\.url|url\..*\.insteadof)$")
    code, settings = _git(common, *words)
    return settings if code in (0, 1) else None  # 1: there are none


def _first_commit(common: str) -> str:
    """The first commit of the main branch; empty if there is none, or if a shallow clone does not have it."""
    try:
        if os.path.getsize(os.path.join(common, "shallow")):
            return ""
    except OSError:
        pass
    for branch in ("refs/heads/main", "refs/heads/master", "HEAD"):
        code, found = _git(common, "rev-list", "--first-parent", "--max-parents=0", branch, "--")
        if code == 0 and found:
            return found.split()[0]
    return ""


def _git(common: str, *words: str) -> tuple[int, str]:
    """Git's exit code and answer about a repository; -1 if it could not be run."""
    # Nothing that the repository configures may run a program: it may be that of somebody else.
    environ = {
        **os.environ,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "",
        "LC_ALL": "C",
    }
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY"):
        environ.pop(name, None)
    try:
        # The folder is named, because git refuses to look for it in a folder of another user.
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", f"--git-dir={common}", *words],
            capture_output=True,
            env=environ,
            stdin=subprocess.DEVNULL,
            timeout=TIME_LIMIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return -1, ""
    return done.returncode, done.stdout.decode("utf-8", "surrogateescape")


# ── Addresses ────────────────────────────────────────────────────────────────────────────────────────


def _local(url: str, common: str) -> str | None:
    """The path that a remote names, if it is on this machine; None for the address of a server."""
    if url.startswith("file://"):
        from urllib.parse import unquote

        return "/" + unquote(url[len("file://") :].partition("/")[2])
    colon, slash = url.find(":"), url.find("/")
    if "://" in url or "::" in url or (colon >= 0 and (slash < 0 or colon < slash)):
        return None
    base = os.path.dirname(common) if os.path.basename(common) == ".git" else common
    return os.path.normpath(os.path.join(base, os.path.expanduser(url)))


def _is_of_this_machine(url: str) -> bool:
    """Whether a server is meant that is another one on every machine."""
    host = url.partition("://")[2].partition("/")[0] or url.partition(":")[0]
    name = host.rpartition("@")[2].partition("]")[0].lstrip("[").lower()
    return name in LOOPBACK or name.partition(":")[0] in LOOPBACK


def origin_name(url: str) -> str:
    """The name of a project whose repository has this address on a server: host and path, in lower case."""
    from urllib.parse import unquote

    scheme, mark, rest = url.partition("://")
    if mark and ":" not in scheme:
        authority, _, path = rest.partition("/")
        host, path = _host(authority, scheme), unquote(path)
        if scheme.startswith("http") and host not in _PUBLIC:
            path = path.removeprefix("scm/")  # of Bitbucket on a server of one's own
    elif "::" in url and url.partition("::")[0].isalnum():
        return fitting(url)  # the address of a helper program, as `codecommit::…`
    else:
        authority, _, path = (
            (url.partition("]")[0] + "]", "", url.partition("]:")[2])
            if url.rpartition("@")[2].startswith("[")
            else url.partition(":")
        )
        host = _host(authority, "ssh")
    path = "/".join(part for part in path.split("/") if part not in ("", "."))
    if host == _AZURE[0] and path.count("/") == 3:
        organisation, project, name = path.split("/")[1:]
        host, path = _AZURE[1], f"{organisation}/{project}/_git/{name}"
    path = path.removesuffix(".git").rstrip("/")
    name = fitting(f"{host}/{path}" if path else host)
    return fitting(f"host-{name}") if name.startswith((BY_COMMIT, BY_PATH)) or name == OUTSIDE else name


def _host(authority: str, scheme: str) -> str:
    """The host in `user@host:port`. A short name may be an alias in the SSH configuration, which is resolved."""
    host = authority.rpartition("@")[2].lower()
    if host.startswith("["):
        return host[1:].partition("]")[0].replace(":", ".")
    host = host.partition(":")[0].rstrip(".").removeprefix("www.")
    if "ssh" in scheme and host not in _PUBLIC and host not in _SAME_HOST:
        meant = _ssh_host(host)
        # Behind a name with a dot there may be an address that only this machine uses; a well-known host counts.
        if meant and ("." not in host or _SAME_HOST.get(meant, meant) in _PUBLIC):
            host = meant
    return _SAME_HOST.get(host, host)


def _ssh_host(alias: str) -> str:
    """The host name that the SSH configuration has for an alias; empty if that is unknown."""
    if shutil.which("ssh") is None or alias.startswith("-"):
        return ""
    try:
        done = subprocess.run(
            ["ssh", "-G", "--", alias],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = [
        line.partition(" ")[2].strip().lower() for line in done.stdout.splitlines() if line.startswith("hostname ")
    ]
    return found[0] if done.returncode == 0 and found else ""


def _without_secrets(url: str) -> str:
    """An address as it may be shown and stored: without the user and password."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
