"""`tb init`: configures every agent client that is installed to use tiebreak, and can undo it.

All changes are computed and shown first, then written. The original contents of each file are kept in the repository's
git folder, where they are never committed, so that `--undo` restores every byte. A second run changes nothing.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from difflib import unified_diff
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import Invalid, TiebreakError
from ...files import replace_file
from ..clients import claude, codex, cursor, gemini, gptme, vscode
from .agent_guide import SECTION, SKILL
from .config_merge import merge_json, merge_section, merge_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...repository import Repository

CLIENTS: tuple[Any, ...] = (claude, codex, cursor, gemini, vscode, gptme)
SKILL_FILE = "tiebreak/SKILL.md"


class Change(NamedTuple):
    """One file that would be written."""

    path: str
    """Relative to the top of the repository."""
    before: bytes | None
    after: bytes

    def difference(self) -> str:
        """What would change, as a unified diff."""
        old, new = ((text or b"").decode("utf-8", "replace").splitlines(True) for text in (self.before, self.after))
        name = "/dev/null" if self.before is None else f"a/{self.path}"
        lines = unified_diff(old, new, name, f"b/{self.path}")
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


class Plan(NamedTuple):
    """All that `tb init` would do, and what it cannot do."""

    clients: list[str]
    changes: list[Change]
    problems: list[tuple[str, TiebreakError]]
    """The files that cannot be merged, and why."""


def present(root: str, environ: Mapping[str, str] = os.environ) -> list[Any]:
    """The clients that are used or installed here: their files, their programs or their home folders exist."""
    home = environ.get("HOME") or os.path.expanduser("~")
    path = environ.get("PATH", os.defpath)
    return [
        client
        for client in CLIENTS
        if any(os.path.lexists(os.path.join(root, mark)) for mark in client.MARKS)
        or any(shutil.which(program, path=path) for program in client.PROGRAMS)
        or any(os.path.isdir(os.path.join(home, folder)) for folder in client.HOMES)
    ]


def named(names: list[str]) -> list[Any]:
    """The clients with these names."""
    known = {client.NAME: client for client in CLIENTS}
    for name in names:
        if name not in known:
            raise Invalid(f"--client: unknown {name!r}", hint=f"one of {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)]


def plan(found: Repository, clients: list[Any], *, tools: bool = True) -> Plan:
    """What would be written, with or without the MCP `tools`. A file that cannot be merged is listed as a problem."""
    wanted: list[tuple[str, str, Any]] = [each for client in clients for each in client.files(tools=tools)]
    wanted.append(("AGENTS.md", "section", SECTION))
    folders = [".agents/skills", *(client.SKILLS for client in clients if client.SKILLS)]
    wanted += [(f"{folder}/{SKILL_FILE}", "whole", SKILL) for folder in folders]
    changes: list[Change] = []
    problems: list[tuple[str, TiebreakError]] = []
    planned: dict[str, bytes] = {}
    for path, how, value in wanted:
        try:
            change = _change(found, path, how, value, planned)
        except TiebreakError as exc:
            problems.append((path, exc))
            continue
        if change is not None:
            changes.append(change)
            planned[_target(found, path)] = change.after
    return Plan([client.NAME for client in clients], changes, problems)


def _change(found: Repository, path: str, how: str, value: Any, planned: dict[str, bytes]) -> Change | None:
    """The change to one file, None if there is none. `planned` has earlier changes: two names may lead to one file."""
    target = _target(found, path)
    before = planned[target] if target in planned else _content(target)
    try:
        text = (before or b"").decode("utf-8")
    except UnicodeDecodeError:
        raise Invalid("this is not UTF-8") from None
    if how == "json":
        after = merge_json(text, value)
    elif how == "toml":
        after = merge_toml(text, value if isinstance(value, list) else [value])
    elif how == "section":
        after = merge_section(text, value)
    else:
        after = value
    made = after.encode("utf-8")
    return None if made == before else Change(path, before, made)


def _target(found: Repository, path: str) -> str:
    """The path after following symbolic links; raises `Invalid` if it leads out of the repository."""
    real = os.path.realpath(os.path.join(found.root, path))
    root = os.path.realpath(found.root)
    if not real.startswith(root + os.sep):
        raise Invalid("it leads out of the repository")
    folder = os.path.dirname(real)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise Invalid(f"nothing can be written in {os.path.relpath(folder, root)}")
    return real


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise Invalid(f"cannot be read: {exc.strerror or exc}") from None


# ── Doing and undoing ────────────────────────────────────────────────────────────────────────────────


def _notes(found: Repository) -> str:
    return os.path.join(found.common, "tiebreak-init.json")


def _known(found: Repository) -> dict[str, Any]:
    content = _content(_notes(found))
    if content is None:
        return {}
    try:
        known = json.loads(content)
        return known if isinstance(known, dict) else {}
    except ValueError:
        raise Invalid(f"{_notes(found)} is damaged: what was before is not known") from None


def carry_out(found: Repository, intended: Plan) -> None:
    """Write the files, after storing their original contents."""
    known = _known(found)
    for change in intended.changes:
        target = _target(found, change.path)
        note = known.get(target) or {"before": _packed(change.before), "folders": _new_folders(target)}
        known[target] = {**note, "after": [*note.get("after", []), _packed(change.after)]}
    if intended.changes:
        replace_file(_notes(found), json.dumps(known).encode())
    for change in intended.changes:
        target = _target(found, change.path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        replace_file(target, change.after, mode=None)


def _packed(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _unpacked(packed: str | None) -> bytes | None:
    return None if packed is None else base64.b64decode(packed)


def _new_folders(target: str) -> list[str]:
    """The folders that have to be created for a file, deepest first."""
    folders, folder = [], os.path.dirname(target)
    while not os.path.isdir(folder):
        folders.append(folder)
        folder = os.path.dirname(folder)
    return folders


def is_set_up(found: Repository) -> bool:
    """Whether `tb init` has written files here that were not undone since."""
    return os.path.exists(_notes(found))


def ignored(found: Repository, paths: list[str]) -> list[str]:
    """Those of the written files that git ignores, so that no commit brings them to another checkout."""
    from ..commits.git import git, paths_in

    listing = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", *paths)
    try:
        return paths_in(git(*listing, root=found.root)) if paths else []
    except (TiebreakError, OSError):  # all is written; this would only have been advice
        return []


def undo(found: Repository) -> tuple[list[str], list[str]]:
    """Restore the original files. Returns those that were restored, and those that were changed since and stay."""
    known = _known(found)
    done, left = [], []
    for target in list(known):
        note = known[target]
        name = os.path.relpath(target, found.root)
        if name.startswith(".." + os.sep):
            continue  # belongs to another worktree
        now = _content(target)
        if now == _unpacked(note["before"]):
            done.append(name)
        elif _packed(now) in note["after"]:
            _restore(target, _unpacked(note["before"]), note["folders"])
            done.append(name)
        else:
            left.append(f"{name}: was changed since; remove tiebreak's section or entries by hand")
            continue
        del known[target]
    if known:
        replace_file(_notes(found), json.dumps(known).encode())
    elif os.path.exists(_notes(found)):
        os.unlink(_notes(found))
    return done, left


def _restore(target: str, before: bytes | None, folders: list[str]) -> None:
    if before is not None:
        replace_file(target, before, mode=None)
        return
    os.unlink(target)
    for folder in folders:
        try:
            os.rmdir(folder)
        except OSError:
            return  # not empty
