"""One real demonstration, and one that is interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import PATIENCE, TB, changed_command, clean_environment, measured, until


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Everything temporary in a folder of its own, with a short path, and a person with a board of their own."""
    with tempfile.TemporaryDirectory(prefix="tb-") as folder:
        own = {"TMPDIR": folder, "TIEBREAK_AGENT": "me", "NO_COLOR": "1"}
        yield {**clean_environment(tmp_path), **measured(), **own}


def running(folder: str) -> list[str]:
    """The command lines of the processes that belong to a demonstration in this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"TMPDIR={folder}".encode() in process.joinpath("environ").read_bytes().split(b"\0"):
                found.append(process.joinpath("cmdline").read_text().replace("\0", " "))
        except OSError:
            pass  # ended meanwhile, or somebody else's
    return found


def test_a_short_demonstration_shows_and_proves_everything(environment: dict[str, str], tmp_path: Path) -> None:
    words = [TB, "demo", "--seconds", "10", "--json"]
    done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    first, facts = map(json.loads, done.stdout.splitlines())
    assert first == {"link": facts["link"]}
    found = {check["name"]: check["found"] for check in facts["checks"]}
    assert facts["proved"] is True
    assert facts["agents"] == 16
    assert facts["killed"] != facts["paused"]
    assert facts["answered_by"] == "demo"
    assert facts["recovered_job"] == "flaky test"
    assert facts["link"].startswith("http://127.0.0.1:")
    assert found["tasks posted"] == found["tasks completed"] == "38"  # 32 modules, 4 jobs, a review, a question
    assert found["winners of each task"] == "1"
    assert int(found["refused claims"]) > 100
    assert int(found["tasks that another agent took over"]) >= 2
    assert os.listdir(environment["TMPDIR"]) == []
    assert running(environment["TMPDIR"]) == []
    assert not (tmp_path / "board.db").exists(), "the person's own board is none of its business"
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_demonstration_leaves_no_process(
    environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    folder = environment["TMPDIR"]
    words = [TB, "demo"]
    with subprocess.Popen(words, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        lines = [demo.stdout.readline() for _ in range(4)]
        assert "refused" in lines[-1], lines
        assert len(running(folder)) > 16
        demo.send_signal(number)
        assert demo.wait(PATIENCE) == {signal.SIGINT: 130, signal.SIGKILL: -9}[number]
    until(lambda: running(folder) == [], "everybody has left")
    if number == signal.SIGINT:
        assert os.listdir(folder) == []


def test_without_the_packages_of_the_daemon_it_runs_without_a_dashboard(
    environment: dict[str, str], tmp_path: Path
) -> None:
    command = changed_command(tmp_path, "import sys", "sys.modules['uvicorn'] = None")
    with subprocess.Popen([command, "demo"], env=environment, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        lines = [demo.stdout.readline() for _ in range(3)]
        assert "without the dashboard: it needs the extra `serve`" in lines[0], lines
        assert "refused" in lines[2], lines
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(PATIENCE) == 130
    until(lambda: running(environment["TMPDIR"]) == [], "everybody has left")
    assert os.listdir(environment["TMPDIR"]) == []


def test_a_reader_that_goes_away_ends_the_demonstration(environment: dict[str, str], tmp_path: Path) -> None:
    words = [TB, "demo"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, env=environment, cwd=tmp_path, **pipes) as demo:  # type: ignore[call-overload]
        demo.stdout.readline()
        demo.stdout.close()
        assert demo.wait(PATIENCE) == 0
        assert demo.stderr.read() == b""
    assert running(environment["TMPDIR"]) == []
    assert os.listdir(environment["TMPDIR"]) == []


def test_with_json_the_link_is_there_while_somebody_serves_it(environment: dict[str, str], tmp_path: Path) -> None:
    words = [TB, "demo", "--json"]
    with subprocess.Popen(words, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        link = json.loads(demo.stdout.readline())["link"]
        try:
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with browser.open(link, timeout=PATIENCE) as page:
                assert b"tiebreak" in page.read()
        finally:
            demo.send_signal(signal.SIGINT)
            assert demo.wait(PATIENCE) == 130


def test_a_length_that_makes_no_sense_is_refused(environment: dict[str, str]) -> None:
    done = subprocess.run([TB, "demo", "--seconds", "3"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "from 10 to 600, got 3" in done.stderr
