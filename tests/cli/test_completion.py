"""Completion scripts: they parse, and they complete."""

from __future__ import annotations

import shlex
import shutil
import socket
import subprocess
import time

import pytest

import tiebreak
from tiebreak.cli.completion import SHELLS
from tiebreak.cli.completion_values import KINDS
from tiebreak.program import names

from .command import Tb, complaint


def complete(tb: Tb, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    typed = " ".join(shlex.quote(word) for word in words)
    script = f"""{tb.ok("completion", "bash")}
        COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}
        _tb; printf '%s\\n' "${{COMPREPLY[@]}}" """
    answer = tb.sh(script, shell="bash")
    assert (answer.code, answer.err) == (0, "")
    return answer.out.split()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_parses(shell: str, tb: Tb) -> None:
    script = tb.ok("completion", shell)
    assert all(name in script for name in names())
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_bash_parses_the_script_for_zsh_too(tb: Tb) -> None:
    """It is the same one behind a line of its own, so it can be checked where there is no zsh."""
    script = tb.ok("completion", "zsh")
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["tb", "cl"], ["claim"]),
        (["tb", "--json", "cl"], ["claim"]),
        (["tb", "--bo"], ["--board"]),
        (["tb", "claim", "--le"], ["--lease"]),
        (["tb", "claim", "login-bug", "--no-c"], ["--no-create"]),
        (["tb", "claim", "--as", "alice", "--wa"], ["--wait"]),
        (["tb", "--board", "other.db", "cl"], ["claim"]),
        (["tb", "--as", "alice", "claim", "--le"], ["--lease"]),
        (["tb", "help", "cl"], ["claim"]),
        (["tb", "completion", "ba"], ["bash"]),
        (["tb", "help", "set"], ["setup"]),
        (["tb", "post", "x", "--priority", "ur"], ["urgent"]),
        (["tb", "agents", "--status", "st"], ["stale"]),
        (["tb", "tasks", "--state", "pe"], ["pending"]),
        (["tb", "queue", "pa"], ["pause"]),
    ],
)
def test_completion_finishes_a_word(words: list[str], found: list[str], tb: Tb) -> None:
    assert complete(tb, *words) == found


def test_completion_without_a_word_offers_every_command(tb: Tb) -> None:
    assert set(names()) <= set(complete(tb, "tb", ""))


def test_completion_offers_files_where_no_word_fits(tb: Tb) -> None:
    (tb.folder / "source.py").touch()
    assert complete(tb, "tb", "hold", "sour") == ["source.py"]


def test_fish_knows_every_option(tb: Tb) -> None:
    script = tb.ok("completion", "fish")
    assert "'__fish_seen_subcommand_from claim' -l lease -r" in script


# ── Words of the board ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def lively(board: tiebreak.Board) -> tiebreak.Board:
    """A board with something of every kind."""
    board.tasks.claim(ref="login-bug")
    board.tasks.post("without a key", queue="mail")
    board.call("holds.take", {"resources": ["lock:deploy", "lock:docs", "file:src/auth.py"], "agent": "brave-otter~1"})
    return board


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["tb", "claim", "log"], ["login-bug"]),
        (["tb", "claim", "\\#"], ["\\#2"]),
        (["tb", "--project", "demo", "claim", "log"], ["login-bug"]),
        (["tb", "--project", "other", "claim", "log"], []),
        (["tb", "claim", ""], ["\\#2", "login-bug"]),
        (["tb", "drop", "lock:de"], ["lock:deploy"]),
        (["tb", "drop", "lock", ":", "d"], ["deploy", "docs"]),
        (["tb", "drop", "lock", ":"], ["deploy", "docs"]),
        (["tb", "why", "lock:do"], ["lock:docs"]),
        (["tb", "send", "br"], ["brave-otter"]),
        (["tb", "holds", "--agent", "br"], ["brave-otter"]),
        (["tb", "claim", "x", "--as", "br"], ["brave-otter"]),
        (["tb", "--as", "br"], ["brave-otter"]),
        (["tb", "next", "--queue", "m"], ["mail"]),
        (["tb", "submit", "x", "--after", "log"], ["login-bug"]),
        (["tb", "claim", "x", "--lease", "5"], []),
    ],
)
def test_completion_offers_what_is_on_the_board(
    words: list[str], found: list[str], tb: Tb, lively: tiebreak.Board
) -> None:
    (tb.folder / "5 files").touch()
    assert sorted(complete(tb, *words)) == found


def test_a_held_file_is_offered_as_it_is_called_from_here(tb: Tb, lively: tiebreak.Board) -> None:
    subprocess.run(["git", "init", "--quiet", str(tb.folder)], check=True)
    (tb.folder / "src").mkdir()
    assert "src/auth.py" in tb.ok("completion", "--list", "holds").split()
    assert "auth.py" in tb("completion", "--list", "holds", cwd=tb.folder / "src").out.split()


@pytest.mark.parametrize("name", ["$(touch_evil)", "`touch_evil`", "a;touch_evil", "a'b", 'a"b', "a*", "-x", "é"])
def test_no_word_of_an_agent_can_act_in_the_shell(name: str, tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.post("x", key=name)
    board.tasks.post("y", key="fine")
    assert complete(tb, "tb", "claim", "") == ["fine"]
    assert [path.name for path in tb.folder.iterdir() if "evil" in path.name] == []


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_board_is_made_and_no_error_told_by_a_completion(kind: str, tb: Tb) -> None:
    assert tb("completion", "--list", kind) == (0, "", "")
    assert not tb.path.exists()
    tb.path.write_bytes(b"no board at all" * 100)
    assert tb("completion", "--list", kind) == (0, "", "")
    assert complete(tb, "tb", "claim", "nothing") == []


def test_a_server_that_does_not_answer_does_not_stop_the_shell(tb: Tb) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"postgresql://127.0.0.1:{silent.getsockname()[1]}/board"
        began = time.monotonic()
        assert tb("completion", "--list", "tasks", "--board", address) == (0, "", "")
    assert time.monotonic() - began < 10


def test_fish_asks_the_board_too(tb: Tb) -> None:
    script = tb.ok("completion", "fish")
    assert "'__fish_seen_subcommand_from claim' -a '(tb completion --list tasks 2>/dev/null)'" in script
    assert "-l priority -r -a 'low normal high urgent'" in script


@pytest.mark.parametrize("words", [[], ["--list", "nonsense"]])
def test_a_completion_of_nothing_is_wrong_usage(words: list[str], tb: Tb) -> None:
    complaint(tb("completion", *words), 2)
