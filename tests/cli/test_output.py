"""What people see: aligned, coloured only where colour is wanted, harmless, and quiet when nobody reads it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable

import apsw
import pytest

import tiebreak
from tiebreak.engine.sqlite.opening import allow_writing

from .command import TB, Answer, Tb
from .terminals import shown

CODE = re.compile(r"\x1b\[[0-9;]*m")
HARMFUL = "evil\x1b[2J\x1b]0;owned\x07\x9b31m\r\u202e\u2066\x7f"
ACTING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def change(tb: Tb, sql: str, *values: object) -> None:
    """Change the board behind its back."""
    connection = apsw.Connection(str(tb.path))
    allow_writing(connection)
    connection.execute(sql, values)
    connection.close()


def test_columns_stand_below_each_other(tb: Tb, board: tiebreak.Board) -> None:
    for i in range(11):
        board.tasks.post(name=f"task {i}", kind="k" * (i + 1), priority=["low", "urgent"][i % 2])
    board.tasks.claim(ref="#1")
    header, *lines = tb.ok("tasks").splitlines()
    assert len(lines) == 11
    assert {line.index("task ") for line in lines} == {header.index("NAME")}
    assert {line.index(word) for line in lines for word in ("pending", "claimed") if word in line} == {
        header.index("STATE")
    }
    assert all(line[: header.index("#") + 1].strip().isdecimal() for line in lines), "numbers end below each other"
    assert all(line == line.rstrip() for line in lines)


def test_ages_are_in_their_largest_unit(tb: Tb, board: tiebreak.Board) -> None:
    ages = {"seconds": 42, "minutes": 90, "hours": 2 * 3600 + 60, "days": 3 * 86400 + 60}
    for name, age in ages.items():
        board.tasks.post(name=name)
        change(tb, "UPDATE tasks SET created_at = created_at - ? WHERE name = ?", age * 1_000_000, name)
    header, *lines = tb.ok("tasks").splitlines()
    end = header.index("AGE") + 3
    found = {line[end:].strip(): line[:end].split()[-1] for line in lines}
    assert re.fullmatch(r"4\ds", found["seconds"])
    assert {name: found[name] for name in ("minutes", "hours", "days")} == {
        "minutes": "1m",
        "hours": "2h",
        "days": "3d",
    }


def test_wide_letters_keep_the_columns(tb: Tb, board: tiebreak.Board) -> None:
    board.holds.take(resources=["lock:a"], note="修正")
    board.agents.announce(doing="日本語")
    board.call("agents.announce", {"agent": "bob~1", "doing": "plain"})
    lines = tb.ok("agents").splitlines()
    assert lines[0].index("DOING") == lines[1].index("plain" if "bob" in lines[1] else "日本語")


@pytest.mark.parametrize(
    "words", [["tasks"], ["show", "#1"], ["events"], ["holds"], ["agents"], ["why", "#1"], ["status"], ["doctor"]]
)
def test_no_colour_into_a_pipe(words: list[str], cli: Callable[..., Answer], board: tiebreak.Board) -> None:
    board.tasks.claim(ref="work")
    assert "\x1b" not in cli(*words).out


def test_colour_on_a_terminal_unless_told_otherwise(tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.post(name="work", priority="urgent")
    coloured = shown(tb, "tasks")
    assert CODE.search(coloured)
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        plain = shown(tb, "tasks", env={name: value})
        assert "\x1b" not in plain
        assert _ageless(plain) == _ageless(CODE.sub("", coloured)), "colour changes nothing else"


def _ageless(text: str) -> str:
    """A second may pass between two looks."""
    return re.sub(r"\b\d+s\b", "0s", text)


def test_errors_are_coloured_on_a_terminal_too(tb: Tb) -> None:
    assert CODE.search(shown(tb, "show", "nowhere"))
    assert "\x1b" not in shown(tb, "show", "nowhere", env={"NO_COLOR": "1"})


def test_json_on_a_terminal_is_not_coloured(tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.post(name="work")
    assert "\x1b" not in shown(tb, "tasks", "--json")


def test_no_line_is_wider_than_the_terminal(tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.post(name="a name that is much too long for a terminal of sixty columns " * 3)
    lines = CODE.sub("", shown(tb, "tasks", columns=60)).splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[1].endswith("…")
    assert "…" not in tb.ok("tasks"), "nothing is cut for programs and files"


@pytest.fixture
def poisoned(tb: Tb, board: tiebreak.Board) -> None:
    """A board that somebody wrote to without asking anybody."""
    board.tasks.post(name="work", key="work", payload={"text": HARMFUL, HARMFUL: 1})
    board.tasks.post(name="free", key="free")
    board.tasks.claim(ref="work")
    board.holds.take(resources=["lock:x"], note="note")
    board.agents.announce(doing="doing")
    board.messages.send(later=True, body=f"several\nlines\n{HARMFUL}", to="me")
    change(tb, "UPDATE tasks SET name = ?, kind = ?, reason = ?, holder = ?", HARMFUL, HARMFUL, HARMFUL, HARMFUL + "~1")
    change(tb, "UPDATE holds SET note = ?, holder = ?", HARMFUL, HARMFUL + "~1")
    change(tb, "UPDATE agents SET doing = ?, host = ?", HARMFUL, HARMFUL)
    change(tb, "UPDATE events SET name = ?, note = ?, agent = ?", HARMFUL, HARMFUL, HARMFUL)
    change(tb, "UPDATE messages SET sender = ?, channel = ?", HARMFUL, HARMFUL)


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize(
    "words",
    [
        ["tasks"],
        ["show", "work"],
        ["why", "work"],
        ["why", "lock:x"],
        ["events"],
        ["holds"],
        ["agents"],
        ["inbox", "--as", "me"],
        ["claim", "work", "--as", "bob"],
        ["complete", "work", "--as", "bob"],
        ["hold", "lock:x", "--as", "bob"],
        ["cancel", "free"],
        ["doctor"],
        ["status"],
    ],
)
def test_text_of_others_is_shown_but_does_not_act(words: list[str], cli: Callable[..., Answer]) -> None:
    answer = cli(*words)
    text = answer.out + answer.err
    assert not ACTING.search(text), ascii(text)
    assert words[0] in ("doctor", "status") or "evil" in text


def test_a_reader_that_has_read_enough_is_no_error(tb: Tb, board: tiebreak.Board) -> None:
    board.batch([("tasks.post", {"name": "x" * 150}) for _ in range(1000)])
    answer = tb.sh("tb events --limit 1000 | head -1; echo ${PIPESTATUS[0]}", shell="bash")
    assert answer.err == ""
    assert answer.out.splitlines()[1:] == ["0"]


@pytest.mark.parametrize("words", [["status"], ["status", "--json"], ["help"], ["show", "nowhere", "--json"]])
def test_a_reader_that_is_gone_before_the_first_word(words: list[str], tb: Tb) -> None:
    """Also when all that there is to say fits into a buffer and is written at the very end."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [TB, *words], stdout=writer, stderr=subprocess.PIPE, cwd=tb.folder, env=tb.environment, check=False
    )
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == (1 if "nowhere" in words else 0)


@pytest.mark.parametrize("command", ["tasks", "post x", "status --json", "holds", "version"])
def test_standard_output_that_is_closed(command: str, tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.claim(ref="work")
    board.holds.take(resources=["lock:x"])
    answer = tb.sh(f"tb {command} >&-")
    assert "Traceback" not in answer.err
    assert len(answer.err.splitlines()) <= 2


def test_standard_error_that_is_closed_keeps_the_exit_code(tb: Tb) -> None:
    assert tb.sh("tb show nowhere 2>&-").code == 1
    assert tb.sh("tb tasks --limit 0 2>&-").code == 2
    assert tb.sh("tb --board /nowhere/b.db tasks 2>&-").code == 3


def test_an_error_does_not_end_up_in_standard_output(tb: Tb) -> None:
    assert tb.sh("tb show nowhere 2>&-").out == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
@pytest.mark.parametrize("words", [["status"], ["status", "--json"], ["claim", "work"]])
@pytest.mark.parametrize("buffering", ["", "1"], ids=["buffered", "unbuffered"])
def test_an_answer_that_cannot_be_written_is_a_failure_in_one_line(words: list[str], buffering: str, tb: Tb) -> None:
    with open("/dev/full", "w") as full, tb.start(*words, stdout=full, env={"PYTHONUNBUFFERED": buffering}) as running:
        assert running.stderr
        said = running.stderr.read()
        code = running.wait()
    assert code != 0
    assert "Traceback" not in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("words", [["help"], ["tasks"], ["send"], ["tasks", "--json"]])
def test_a_terminal_that_knows_few_letters(words: list[str], tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.post(name="修正 …")
    answer = tb(*words, env={"PYTHONIOENCODING": "ascii"})
    assert "Traceback" not in answer.err
    assert answer.code == (2 if words == ["send"] else 0)


def test_the_newest_events_are_shown_however_rare_they_are(tb: Tb, board: tiebreak.Board) -> None:
    board.batch([("tasks.post", {"name": f"task {i}"}) for i in range(1200)])
    board.batch([("messages.send", {"body": "chatter"}) for _ in range(700)])
    lines = tb.ok("events", "--event", "task", "--limit", "10").splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == [str(i) for i in range(1190, 1200)]
