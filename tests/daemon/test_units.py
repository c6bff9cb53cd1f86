"""Unit files for systemd and launchd run the requested command, whatever characters it contains."""

from __future__ import annotations

import configparser
import plistlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tiebreak.daemon.lock import served

from ..cli.command import Tb, complaint, until
from ..daemons import PATIENCE, free_port

ODD = [
    "plain",
    "with space",
    "it's",
    'a "quote"',
    "100%h and %n",
    "$HOME ${HOME} $$",
    "back\\slash \\n",
    "semi ; colon",
    "<b> & </string>",
    "ünï→",
    "--",
    "#hash",
]


def words_of(line: str) -> list[str]:
    """The words of a command line as systemd.service(5) and systemd.syntax(7) describe them."""
    words = []
    for match in re.finditer(r'"((?:[^"\\]|\\.)*)"(?=\s|$)|(\S+)', line):
        word = match[2] if match[1] is None else match[1]
        assert match[1] is not None or not re.search(r"""["'\\]|^;$""", word), f"needs quotes: {word}"
        word = re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t", "s": " "}.get(m[1], m[1]), word)
        assert "%" not in word.replace("%%", ""), f"a specifier: {word}"
        assert "$" not in word.replace("$$", ""), f"a variable: {word}"
        words.append(word.replace("%%", "%").replace("$$", "$"))
    return words


def systemd(tb: Tb, *words: str) -> str:
    """The unit for systemd."""
    return tb.ok(*words, "serve", "--print-unit", "--for", "systemd")


def launchd(tb: Tb, *words: str) -> dict[str, Any]:
    """The unit for launchd, read as launchd reads it."""
    found = plistlib.loads(tb.ok(*words, "serve", "--print-unit", "--for", "launchd").encode())
    assert isinstance(found, dict)
    return found


def parsed(unit: str) -> configparser.ConfigParser:
    """A unit's sections; a line that is none of a unit fails."""
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",), strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit)
    return parser


def test_the_unit_of_systemd_has_all_that_a_user_unit_needs(tb: Tb) -> None:
    unit = parsed(systemd(tb))
    assert unit.sections() == ["Unit", "Service", "Install"]
    assert unit["Service"]["Restart"] == "on-failure"
    assert int(unit["Service"]["TimeoutStopSec"]) > 5  # longer than draining takes
    assert unit["Install"]["WantedBy"] == "default.target"
    assert words_of(unit["Service"]["ExecStart"])[0] == sys.executable


def test_the_unit_of_launchd_has_all_that_an_agent_needs(tb: Tb) -> None:
    unit = launchd(tb)
    assert unit["Label"] == "tiebreak"
    assert unit["RunAtLoad"] is True
    assert unit["KeepAlive"] == {"SuccessfulExit": False}
    assert unit["ProgramArguments"][0] == sys.executable


@pytest.mark.parametrize("name", ODD)
def test_odd_characters_in_a_path_arrive_as_they_are(name: str, tb: Tb) -> None:
    board = str(tb.folder / name / "board.db")
    for words in (
        words_of(parsed(systemd(tb, "--board", board))["Service"]["ExecStart"]),
        launchd(tb, "--board", board)["ProgramArguments"],
    ):
        assert words[words.index("--board") + 1] == board
        assert words[:3] == [sys.executable, "-m", "tiebreak"]


@pytest.mark.parametrize("system", ["systemd", "launchd"])
@pytest.mark.parametrize("name", ["a\nExecStartPre=evil", "a\r\nb", "a\x01b", "a\tb"])
def test_a_control_character_in_a_path_is_refused_or_arrives_as_it_is(name: str, system: str, tb: Tb) -> None:
    board = str(tb.folder / name / "board.db")
    answer = tb("--board", board, "serve", "--print-unit", "--for", system)
    if answer.code:
        complaint(answer, 2)
        return
    if system == "systemd":
        words = words_of(parsed(answer.out)["Service"]["ExecStart"])
        assert "ExecStartPre" not in parsed(answer.out)["Service"]
    else:
        words = plistlib.loads(answer.out.encode())["ProgramArguments"]
    assert words[words.index("--board") + 1] == board


def test_systemd_itself_accepts_the_unit(tb: Tb) -> None:
    checker = shutil.which("systemd-analyze")
    for i, name in enumerate(ODD):
        path = tb.folder / f"tiebreak-{i}.service"
        path.write_text(systemd(tb, "--board", str(tb.folder / name / "board.db")))
        assert parsed(path.read_text())["Service"]["Type"] == "exec"
        if checker is None:
            continue
        done = subprocess.run([checker, "verify", "--man=no", str(path)], capture_output=True, text=True, check=False)
        complaints = [line for line in done.stderr.splitlines() if path.name in line]
        assert complaints == [], done.stderr


def test_every_option_goes_into_the_unit(tb: Tb) -> None:
    options = [
        "--addr",
        "127.0.0.1:7999",
        "--host",
        "one.test",
        "--host",
        "two.test",
        "--log",
        "json",
        "--log-requests",
    ]
    options += ["--open", "--open-jobs"]
    tb.ok("post", "x")
    out = tb.ok("serve", *options, "--socket", "s", "--token-file", "t", "--print-unit", "--for", "launchd")
    words = plistlib.loads(out.encode())["ProgramArguments"]
    joined = "|".join(words)
    for option in ("--addr|127.0.0.1:7999", "--host|one.test", "--host|two.test", "--log|json"):
        assert option in joined
    assert {"--open", "--open-jobs", "--log-requests"} <= set(words)
    # A unit is run from another folder.
    assert f"--socket|{tb.folder / 's'}" in joined
    assert f"--token-file|{tb.folder / 't'}" in joined
    assert f"--board|{tb.path}" in joined
    assert not {"--print-unit", "--for"} & set(words)


@pytest.mark.parametrize("system", ["systemd", "launchd"])
def test_the_command_in_a_unit_serves_the_board(system: str, tb: Tb) -> None:
    board = tb.folder / "it's 100% $HOME" / "board.db"
    board.parent.mkdir()
    words = ["--board", str(board), "serve", "--addr", f"127.0.0.1:{free_port()}", "--print-unit", "--for", system]
    unit = tb.ok(*words)
    command = (
        words_of(parsed(unit)["Service"]["ExecStart"])
        if system == "systemd"
        else plistlib.loads(unit.encode())["ProgramArguments"]
    )
    running = subprocess.Popen(
        command, cwd="/", env=tb.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: (served(str(board)) or {}).get("pid") == running.pid, "the unit's command serves")
        running.terminate()
        assert running.wait(PATIENCE) == 0
    finally:
        running.kill()
        running.wait(PATIENCE)


def test_printing_a_unit_starts_and_writes_nothing(tb: Tb) -> None:
    systemd(tb)
    assert not Path(f"{tb.path}-daemon").exists()
    assert not tb.path.exists()


def test_a_unit_for_an_unknown_system_is_refused(tb: Tb) -> None:
    assert "systemd or launchd" in complaint(tb("serve", "--print-unit", "--for", "upstart"), 2)
