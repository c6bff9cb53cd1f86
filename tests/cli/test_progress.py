"""Who waits for a job at a terminal sees how far it is in one line, what it writes above that, and ends as it does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .command import PATIENCE, TB, Tb
from .terminals import Terminal, terminal

WAITS = "until [ -e {} ]; do sleep 0.05; done; "
JOB = "tb progress 40 linking; " + WAITS.format("one") + "echo hello; tb progress 75; " + WAITS.format("two")


@pytest.fixture
def worked(tb: Tb) -> Iterator[Tb]:
    """A board with a worker."""
    with tb.start("work", "--json", "--concurrency", "1") as worker:
        assert worker.stdout is not None
        assert "ready" in worker.stdout.readline()
        yield tb


def shows(screen: Terminal, text: str) -> None:
    """Until this stands on the screen."""
    assert screen.read(until=text.encode()), f"{text!r} is not on the screen: {screen.screen!r}"


@pytest.mark.parametrize(("last", "code"), [("exit 7", 7), ("kill -9 $$", 137), ("true", 0)])
def test_who_waits_sees_how_far_the_job_is_and_ends_as_it_does(worked: Tb, last: str, code: int) -> None:
    with terminal(columns=200) as screen:
        waiting = screen.start(worked, TB, "submit", JOB + last, "--wait", "--name", "build", "--max-attempts", "1")
        shows(screen, "#1 build  claimed  40 % linking  by worker-")
        (worked.folder / "one").touch()
        shows(screen, "\r\x1b[Khello\n")
        shows(screen, "\r\x1b[K#1 build  claimed  75 %  by worker-")
        (worked.folder / "two").touch()
        assert screen.read(), "it did not end"
        assert waiting.wait(PATIENCE) == code
    assert ("tb: #1 build is failed" in left_standing(screen)) == (code != 0)
    assert left_standing(screen).startswith("hello\n")


def left_standing(screen: Terminal) -> str:
    """What is on the screen in the end: what was erased is not."""
    lines = screen.screen.decode().split("\n")
    return "\n".join(line.rpartition("\r\x1b[K")[2] for line in lines)


def test_half_a_line_is_not_drawn_over(worked: Tb) -> None:
    job = "printf 'Continue? '; " + WAITS.format("one") + "tb progress 50; echo yes"
    with terminal(columns=200) as screen:
        waiting = screen.start(worked, TB, "submit", job, "--wait", "--name", "ask")
        shows(screen, "Continue? ")
        (worked.folder / "one").touch()
        assert screen.read(), "it did not end"
        assert waiting.wait(PATIENCE) == 0
    assert left_standing(screen) == "Continue? yes\n"


def test_a_progress_line_is_no_part_of_what_goes_into_a_file(worked: Tb) -> None:
    """Standard error is no terminal, so nothing is drawn there."""
    for name in ("one", "two"):
        (worked.folder / name).touch()
    answer = worked("submit", JOB + "exit 7", "--wait", "--name", "build", "--max-attempts", "1")
    assert (answer.code, answer.out) == (7, "hello\n")
    assert answer.err == "tb: #1 build is failed: exit code 7: hello\n"
