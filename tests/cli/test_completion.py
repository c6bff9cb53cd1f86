"""Completion scripts: they parse, and they complete."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest

from tiebreak.cli.completion import SHELLS
from tiebreak.program import names

from .command import Tb


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
