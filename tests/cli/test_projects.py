"""`tb project`, and the project that commands act in: clones of one repository, on one board, are one project."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..postgres import server
from ..races.places import database
from .command import Answer, Environment, Tb


def git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words],
        cwd=folder,
        check=True,
        capture_output=True,
    )


class Clones:
    """Two clones of one repository, whose remotes are written in two ways, and the command in each."""

    def __init__(self, tb: Tb, address: str) -> None:
        self._tb, self._address = tb, address
        self.first, self.second = tb.folder / "one" / "shop", tb.folder / "two" / "work" / "shop"
        source = self.new("source")
        git(source, "commit", "-q", "--allow-empty", "-m", "first")
        for clone, url in (
            (self.first, "git@example.org:Acme/shop.git"),
            (self.second, "https://example.org/acme/shop"),
        ):
            git(tb.folder, "clone", "-q", str(source), str(clone))
            git(clone, "remote", "set-url", "origin", url)

    def new(self, name: str) -> Path:
        """A new repository without anything in it."""
        made = self._tb.folder / name
        made.mkdir()
        git(made, "init", "-q", "-b", "main")
        return made

    def run(self, folder: Path, *words: str, agent: str = "ada") -> Answer:
        """A command in a folder, as an agent of that name."""
        chosen: Environment = {
            "TIEBREAK_PROJECT": None,
            "TIEBREAK_BOARD": self._address,
            "TIEBREAK_AGENT": f"{agent}~1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        return self._tb(*words, cwd=folder, env=chosen)


@pytest.fixture(params=["file", "server"])
def clones(request: pytest.FixtureRequest, tb: Tb) -> Iterator[Clones]:
    """The same on a file and on a server."""
    if request.param == "file":
        yield Clones(tb, str(tb.path))
        return
    with database(server()) as address:
        yield Clones(tb, address)


def test_two_clones_of_one_repository_have_one_winner(clones: Clones) -> None:
    won = clones.run(clones.first, "hold", "lock:deploy")
    lost = clones.run(clones.second, "hold", "lock:deploy", agent="bob")
    assert (won.code, lost.code) == (0, 1)
    assert "held by ada" in lost.err
    assert clones.run(clones.second, "why", "lock:deploy").code == 0


def test_the_rule_that_named_a_project_is_shown(clones: Clones) -> None:
    clones.run(clones.first, "post", "work")
    shown = clones.run(clones.second, "project", "--json").json
    assert (shown["name"], shown["rule"], shown["project"]) == (
        "example.org/acme/shop",
        "origin",
        "example.org/acme/shop",
    )
    assert shown["live"]["open tasks"] == 1
    assert "from the remote https://example.org/acme/shop" in clones.run(clones.second, "project").out
    assert "example.org/acme/shop" in clones.run(clones.first, "project", "list").out


def test_a_renamed_project_is_found_by_both_clones(clones: Clones) -> None:
    clones.run(clones.first, "post", "work")
    assert clones.run(clones.first, "project", "rename", "shop").code == 0
    assert "kept on this board as shop" in clones.run(clones.second, "project").out
    assert "work" in clones.run(clones.second, "tasks").out
    assert "work" in clones.run(clones.second, "--project", "shop", "tasks").out


def test_a_repository_that_only_this_machine_can_name_is_refused_on_a_server(clones: Clones) -> None:
    bare = clones.new("bare")
    answer = clones.run(bare, "hold", "lock:deploy")
    shown = clones.run(bare, "project")
    if "postgresql" not in clones._address:
        assert (answer.code, shown.code) == (0, 0)
        return
    assert (answer.code, shown.code) == (1, 1)
    assert "is known by its path alone" in answer.err
    assert "tb project name NAME" in answer.err
    assert "neither a remote nor a complete history" in shown.out
    assert clones.run(bare, "project", "name", "bare").code == 0
    assert clones.run(bare, "hold", "lock:deploy").code == 0


def test_a_remote_that_came_later_is_told_and_used_after_repin(clones: Clones) -> None:
    late = clones.new("late")
    git(late, "commit", "-q", "--allow-empty", "-m", "first")
    clones.run(late, "hold", "lock:deploy")
    git(late, "remote", "add", "origin", "https://example.org/acme/late")
    assert "a new clone of it would be example.org/acme/late" in clones.run(late, "doctor").out
    again = clones.run(late, "project", "repin")
    assert (again.code, again.out.strip().split(",")[0]) == (0, "this clone belongs to example.org/acme/late")
    lost = clones.run(late, "hold", "lock:deploy", agent="bob")
    assert lost.code == 1, "its rows are the same"


@pytest.mark.parametrize("commits", [True, False], ids=["known by its commit", "known by its path"])
def test_repin_takes_along_what_is_on_the_board(clones: Clones, commits: bool) -> None:
    late = clones.new("late")
    if commits:
        git(late, "commit", "-q", "--allow-empty", "-m", "first")
    elif "postgresql" in clones._address:
        return  # where a path is no name
    clones.run(late, "post", "work")
    git(late, "remote", "add", "origin", "https://example.org/acme/late")
    assert clones.run(late, "project", "repin").code == 0
    assert "work" in clones.run(late, "tasks").out
    assert clones.run(late, "project", "--json").json["name"] == "example.org/acme/late"


def test_what_stays_behind_is_told_when_a_clone_is_named(clones: Clones) -> None:
    clones.run(clones.first, "post", "work")
    answer = clones.run(clones.first, "project", "name", "shop")
    assert "still open in example.org/acme/shop: 1 open tasks" in answer.out
    [command] = [part for part in answer.out.split("`") if part.startswith("tb ")]
    assert clones.run(clones.first, *command.split()[1:]).code == 0
    assert "work" in clones.run(clones.first, "tasks").out


def test_bad_names_are_refused_in_a_sentence(clones: Clones) -> None:
    for words in (("name", "a b"), ("rename", "local/x"), ("alias", ""), ("rename",), ("nonsense",)):
        answer = clones.run(clones.first, "project", *words)
        assert answer.code == 2
        assert answer.err.startswith("tb: ")
        assert "Traceback" not in answer.err
    assert clones.run(clones.first.parent, "project", "name", "x").code == 2, "not in a repository"
