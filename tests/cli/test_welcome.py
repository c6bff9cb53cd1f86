"""`tb` alone: about ten lines for where you are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import tiebreak
from tiebreak.text import width

from .command import Answer, Tb, complaint

Cli = Callable[..., Answer]
TEN = 13


def fits(text: str) -> bool:
    """Whether it is about ten lines, none of them wider than a terminal."""
    lines = text.splitlines()
    return len(lines) <= TEN and all(width(line) <= 80 for line in lines)


def failed(board: tiebreak.Board, name: str) -> None:
    """A job that failed for good."""
    board.jobs.submit(["false"], name=name, max_attempts=1)
    [job] = board.jobs.next(agent="worker~1")
    outcome = {"number": job.number, "epoch": job.epoch, "ok": False, "retry": False}
    board.jobs.report(outcomes=[outcome], agent="worker~1")


def test_somebody_new_is_shown_three_commands_and_no_board_is_made(tb: Tb) -> None:
    out = tb.ok()
    assert fits(out)
    assert all(f"  tb {name} " in out for name in ("init", "claim", "hold", "help"))
    assert "demo" in out
    assert not tb.path.exists()


def test_somebody_new_without_any_folder_is_no_error(tb: Tb) -> None:
    assert "There is no board yet" in tb.ok(env={"TIEBREAK_BOARD": None})
    assert list(tb.folder.rglob("*.db")) == []


def test_an_empty_board_is_new_too(tb: Tb, board: tiebreak.Board) -> None:
    assert "Nobody is at work here yet" in tb.ok()
    assert tb.json()["where"] == "new"


def test_a_repository_that_is_set_up_is_not_told_to_be_set_up(tb: Tb, tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    tb.folder = tmp_path / "repo"
    tb.sh("git init --quiet")
    assert "tb init" in tb.ok()
    tb.ok("init", "--yes", "--force", "--client", "claude")
    out = tb.ok()
    assert fits(out)
    assert "tb init" not in out
    assert "This repository is set up: start your coding agents as always." in " ".join(out.split())
    tb.ok("init", "--undo")
    assert "tb init" in tb.ok()


def test_agents_at_work_are_shown_with_what_they_have(tb: Tb, board: tiebreak.Board) -> None:
    board.tasks.claim("login-bug", create=True)
    board.tasks.post("write the docs")
    board.call("holds.take", {"resources": ["file:src/auth.py", "lock:deploy"], "agent": "ann~1"})
    board.call("tasks.post", {"name": "elsewhere", "project": "other"})
    out = tb.ok()
    assert fits(out)
    assert "demo: 2 agents, 1 open task, 1 claimed, 2 holds" in out
    assert "#1 login-bug" in out
    assert "src/auth.py, lock:deploy" in out
    assert "elsewhere" not in out
    assert tb.json()["where"] == "at work"


def test_a_crowd_does_not_fill_the_screen(cli: Cli, board: tiebreak.Board) -> None:
    for number in range(30):
        board.call("tasks.claim", {"ref": f"{number}-" + "x" * 150, "agent": f"agent-{number}~1"})
    out = cli().out
    assert fits(out)
    assert "and 25 more" in out


def test_failing_jobs_come_with_the_command_that_shows_why(cli: Cli, board: tiebreak.Board) -> None:
    failed(board, "nightly")
    failed(board, "x" * 150)
    out = cli().out
    assert fits(out)
    assert out.startswith("2 things need you\n  tb logs 1  #1 nightly: failed after 1 attempt\n  tb logs 2  #2 xxx")
    assert [(each["kind"], each["next"]) for each in cli("--json").json["needs"]] == [
        ("failed", "tb logs 1"),
        ("failed", "tb logs 2"),
    ]


def test_many_needs_do_not_fill_the_screen(cli: Cli, board: tiebreak.Board) -> None:
    for number in range(12):
        board.call("tasks.claim", {"ref": f"{number}-" + "x" * 150, "agent": f"agent-{number}~1"})
        board.questions.ask(f"question {number}?", agent=f"agent-{number}~1")
    out = cli().out
    assert fits(out)
    assert out.startswith("12 things need you\n")
    assert "  and 10 more: `tb top`\n" in out


def test_what_agents_wrote_cannot_act_on_the_terminal(cli: Cli, board: tiebreak.Board) -> None:
    board.tasks.post("fine")
    board.call("agents.announce", {"agent": "ann~1", "doing": "evil\u3164"})
    failed(board, "\u3164evil")
    assert "\u3164" not in cli().out


@pytest.mark.parametrize("where", ["damaged", "no folder", "no server"])
def test_a_board_that_cannot_be_opened_is_told_in_one_line(where: str, tb: Tb, tmp_path: Path) -> None:
    (tmp_path / "damaged.db").write_bytes(os.urandom(5000))
    address = {
        "damaged": str(tmp_path / "damaged.db"),
        "no folder": "/nowhere/board.db",
        "no server": "postgresql://me:swordfish@127.0.0.1:1/board",
    }[where]
    said = complaint(tb("--board", address), 3)
    assert len(said.splitlines()) == 1
    assert "swordfish" not in said
