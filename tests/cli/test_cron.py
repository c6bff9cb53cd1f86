"""Schedules from the command line: what comes round is told, and runs without anybody's doing."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import tiebreak
from tiebreak.clock import wall

from .command import Answer, Tb, complaint, read_lines, until

Cli = Callable[..., Answer]
DAY = 86_400_000_000


@pytest.fixture
def yesterday(tmp_path: object, board: tiebreak.Board) -> Callable[..., None]:
    """Add a schedule as if it had been added a while ago."""

    def add(name: str, expression: str, days: int = 1, **more: str) -> None:
        then = wall() - days * DAY
        with tiebreak.open(board.engine.address, agent="me~1", project="demo", clock=lambda: then) as earlier:
            earlier.schedules.add(name=name, expression=expression, command="make", **more)

    return add


def test_a_schedule_is_added_listed_and_changed(cli: Cli, board: tiebreak.Board) -> None:
    said = cli("cron", "add", "night", "30 2 * * *", "--zone", "Europe/Berlin", "--queue", "q", "--", "make", "a b").out
    assert re.match(r"added night  next at \d{4}-\d\d-\d\d 0[23]:\d\d:00 CES?T, in ", said)
    [known] = board.schedules.list()
    assert (known.command, known.policy, known.zone) == (["make", "a b"], "run-once", "Europe/Berlin")
    row = cli("cron", "list").out.splitlines()[1]
    assert row.split()[:9] == ["night", "30", "2", "*", "*", "*", "Europe/Berlin", "run-once", "0"]
    assert row.endswith("make 'a b'")
    assert cli("cron", "add", "night", "0 3 * * *", "--policy", "skip", "--", "make > log").out.startswith(
        "changed night"
    )
    assert board.schedules.list()[0].command == "make > log"


def test_the_next_times_are_told_by_the_clocks_of_the_zone(cli: Cli) -> None:
    cli("cron", "add", "night", "30 2 * * *", "--zone", "Asia/Tokyo", "--", "make")
    lines = cli("cron", "next", "night", "--count", "3").out.splitlines()
    assert len(lines) == 3
    assert all(" 02:30:00 JST  in " in line for line in lines)
    assert all(at.endswith("T17:30:00.000000Z") for at in cli("cron", "next", "night", "--json").json)


def test_a_pause_is_seen_and_ends(cli: Cli, board: tiebreak.Board) -> None:
    cli("cron", "add", "night", "@daily", "--", "make")
    cli("cron", "pause", "night", "--reason", "holidays")
    assert "paused: holidays" in cli("cron", "list").out
    assert cli("cron", "resume", "night").out.startswith("resumed night  next at ")
    assert cli("cron", "rm", "night").code == 0
    assert "no schedules" in cli("cron", "list").out


def test_history_tells_what_ran_and_what_was_skipped(
    cli: Cli, board: tiebreak.Board, yesterday: Callable[..., None]
) -> None:
    yesterday("ran", "@yearly", days=400)
    yesterday("left-out", "@yearly", days=400, policy="skip")
    board.schedules.fire()
    [ran] = board.schedules.history(name="ran")
    [line] = cli("cron", "history", "ran").out.splitlines()[1:]
    assert line.split()[1:5] == ["00:00:00", "UTC", "pending", f"#{ran.number}"]
    [line] = cli("cron", "history", "left-out").out.splitlines()[1:]
    assert line.split()[1:4] == ["00:00:00", "UTC", "skipped"]
    assert [each["key"] for each in cli("cron", "history", "ran", "--json").json] == [ran.key]


@pytest.mark.parametrize(
    ("words", "why", "code"),
    [
        (["cron"], "SUBCOMMAND is missing", 2),
        (["cron", "ad"], "unknown subcommand 'ad'", 2),
        (["cron", "add", "x", "* * * * *"], "CMD is missing", 2),
        (["cron", "add", "x", "* * * *", "--", "make"], "wrong number of fields", 2),
        (["cron", "add", "x", "* * * * *", "--zone", "Mars", "--", "make"], "not a time zone", 2),
        (["cron", "add", "x", "* * * * *", "--policy", "twice", "--", "make"], "policy: one of", 2),
        (["cron", "add", "x", "* * * * *", "--limit", "db", "--", "make"], "limit", 2),
        (["cron", "list", "x"], "unexpected 'x'", 2),
        (["cron", "list", "--zone", "UTC"], "takes no --zone", 2),  # although it is the default
        (["cron", "list", "--count", "3"], "takes no --count", 2),
        (["cron", "next", "x", "--count", "0"], "no schedule x", 1),
        (["cron", "pause", "x"], "no schedule x", 1),
        (["cron", "resume", "x"], "no schedule x", 1),
        (["cron", "rm", "x"], "no schedule x", 1),
        (["cron", "history", "x"], "no schedule x", 1),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    cli: Cli, board: tiebreak.Board, words: list[str], why: str, code: int
) -> None:
    assert why in complaint(cli(*words), code)
    assert board.schedules.list() == []


def test_a_scheduler_in_the_foreground_submits_what_is_due_and_what_is_added_later(
    tb: Tb, board: tiebreak.Board, yesterday: Callable[..., None]
) -> None:
    yesterday("first", "@yearly", days=400)
    with tb.start("cron", "run") as running:
        lines = read_lines(running)
        until(lambda: [t.name for t in board.tasks.list()] == ["first"], "what was due is submitted", 60)
        board.schedules.add(name="second", expression="* * * * * *", command="make")
        until(lambda: any("cron:second:" in line for line in lines), "it learns of what is added", 60)


def test_a_daemon_submits_what_is_due(tb: Tb, board: tiebreak.Board, yesterday: Callable[..., None]) -> None:
    yesterday("first", "@yearly", days=400)
    with tb.start("serve", "--addr", "none"):
        until(lambda: [t.name for t in board.tasks.list()] == ["first"], "what was due is submitted", 60)
        assert board.schedules.list()[0].holder == "daemon"
