"""Jobs from the command line: what is submitted is what runs, and what a job writes and ends with is what one sees."""

from __future__ import annotations

import json
import os
import signal
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiebreak
from tiebreak.model import Job

from .command import Answer, Tb, complaint, ended, until

Cli = Callable[..., Answer]
LONG = 60.0
"""Seconds to wait for what must happen, on a machine that is busy with other things."""


def won(board: tiebreak.Board) -> Job:
    """The next job, as a worker wins it."""
    [job] = board.jobs.next(agent="worker~1", lease=600)
    return job


def writes(board: tiebreak.Board, job: Job, text: str, *, start: int = 0, stream: int = 1) -> int:
    """A worker passes on what its job wrote; where it goes on."""
    chunk = {"start": start, "stream": stream, "text": text}
    return board.jobs.append(ref=job.id, epoch=job.epoch, chunks=[chunk], agent="worker~1")


def ends(board: tiebreak.Board, job: Job, *, ok: bool = True, **more: Any) -> None:
    """A worker reports the end."""
    outcome = {"number": job.number, "epoch": job.epoch, "ok": ok, "retry": False, **more}
    board.jobs.report(outcomes=[outcome], agent="worker~1")


# ── Submitting ───────────────────────────────────────────────────────────────────────────────────────


def test_a_quoted_command_is_for_the_shell_and_words_are_words(cli: Cli, board: tiebreak.Board) -> None:
    assert cli("submit", "echo a | wc -c > 'x y'").code == 0
    assert cli("submit", "--", "echo", "a b", "--wait", "|").code == 0
    assert [won(board).command for _ in range(2)] == ["echo a | wc -c > 'x y'", ["echo", "a b", "--wait", "|"]]


def test_every_option_reaches_the_worker(cli: Cli, board: tiebreak.Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_HERE", "swordfish")
    words = ["--queue", "mail", "--priority", "high", "--key", "k", "--max-attempts", "7", "--backoff", "5s"]
    words += ["--name", "letters", "--tag", "a", "--tag", "b", "--limit", "db=2", "--timeout", "10m", "--grace", "3s"]
    words += [
        "--env",
        "A=b=c",
        "--env",
        "FROM_HERE",
        "--cwd",
        "sub",
        "--memory",
        "200M",
        "--cpu",
        "1m",
        "--files",
        "64",
    ]
    assert cli("submit", "make", *words, "--output", "2K").code == 0
    task = board.tasks.get(ref="k")
    assert (task.queue, task.priority, task.max_attempts, task.name, task.tags) == (
        "mail",
        "high",
        7,
        "letters",
        ("a", "b"),
    )
    assert board.jobs.inspect(ref="k")["limit"] == "db=2"
    assert won(board).settings == {
        "env": {"A": "b=c", "FROM_HERE": "swordfish"},
        "cwd": os.path.join(os.getcwd(), "sub"),
        "timeout": 600.0,
        "grace": 3.0,
        "limits": {"memory": 200 << 20, "cpu": 60, "files": 64},
        "cap": 2048,
    }


def test_a_job_runs_where_it_was_submitted_unless_told_otherwise(cli: Cli, board: tiebreak.Board) -> None:
    cli("submit", "pwd")
    cli("submit", "pwd", "--no-cwd")
    assert [(won(board).settings or {}).get("cwd") for _ in range(2)] == [os.getcwd(), None]


def test_a_job_waits_for_its_time_and_for_others(cli: Cli, board: tiebreak.Board) -> None:
    cli("submit", "first", "--key", "first")
    cli("submit", "second", "--key", "second", "--after", "first")
    cli("submit", "later", "--key", "later", "--delay", "1h")
    cli("submit", "then", "--key", "then", "--at", "2100-01-01T00:00:00Z")
    assert board.tasks.get(ref="second").state == "blocked"
    assert board.tasks.get(ref="then").ready_at == 4102444800
    assert won(board).name == "first"
    assert board.jobs.next(agent="worker~1") == []


def test_a_known_key_is_said_to_be_known(cli: Cli, board: tiebreak.Board) -> None:
    assert "submitted #1" in cli("submit", "make", "--key", "k").out
    assert "there is already #1" in cli("submit", "make", "--key", "k").out
    ends(board, won(board))
    assert "there is already #1" in cli("submit", "make", "--key", "k").out
    assert "submitted #2" in cli("submit", "make", "--key", "k", "--unique-for", "0s").out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["submit"], "one command"),
        (["submit", "a", "--", "b"], "one command"),
        (["submit", ""], "one command"),
        (["submit", "a", "b"], "unexpected 'b'"),
        (["submit", "a", "--memory", "lots"], "--memory: expected a size"),
        (["submit", "a", "--memory", "1.5G"], "--memory: expected a size"),
        (["submit", "a", "--files", "many"], "--files: expected a whole number"),
        (["submit", "a", "--env", "NO_SUCH_VARIABLE"], "is not set here"),
        (["submit", "a", "--env", "=x"], "env"),
        (["submit", "a", "--limit", "db"], "limit"),
        (["submit", "a", "--at", "tomorrow"], "--at: not a time"),
        (["submit", "a", "--unique-for", "1h"], "--unique-for: needs a key"),
        (["submit", "a", "--cwd", "x", "--no-cwd"], "exclude each other"),
        (["logs", "k", "--attempt", "2"], "has been claimed 0 times"),
        (["progress", "40"], "TIEBREAK_JOB is not set"),
        (["progress", "half", "--ref", "k"], "a number from 0 to 100"),
        (["progress", "101", "--ref", "k"], "percent"),
        (["guard-epoch"], "TIEBREAK_JOB is not set"),
        (["queue", "stop", "x"], "unknown subcommand"),
        (["queue", "pause"], "QUEUE is missing"),
        (["queue", "resume", "x", "--reason", "y"], "takes no --reason"),
        (["retry"], "either a task, or --failed"),
        (["retry", "k", "--failed"], "either a task, or --failed"),
        (["graph", "k", "--mermaid", "--svg", "x"], "exclude each other"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    cli: Cli, board: tiebreak.Board, words: list[str], why: str
) -> None:
    board.jobs.submit(command="true", key="k")
    assert why in complaint(cli(*words), 2)
    assert len(board.tasks.list()) == 1


# ── Waiting ──────────────────────────────────────────────────────────────────────────────────────────


def running(board: tiebreak.Board) -> Job:
    """The job of a command that has just been started."""
    until(lambda: board.tasks.list(states=["pending"]), "a job is there", LONG)
    return won(board)


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ({"exit": 7, "signal": None}, 7),
        ({"exit": None, "signal": "SIGKILL"}, 137),
        ({"exit": None, "signal": "SIG_NO_SUCH"}, 1),
        (None, 1),
    ],
)
def test_waiting_shows_what_it_writes_and_exits_as_it_does(
    tb: Tb, board: tiebreak.Board, result: Any, code: int
) -> None:
    with tb.start("submit", "make", "--wait") as waiting:
        job = running(board)
        at = writes(board, job, "one\n")
        writes(board, job, "two\n", start=at, stream=2)
        ends(board, job, ok=False, result=result, reason="it broke")
        answer = ended(waiting, LONG)
    assert (answer.code, answer.out) == (code, "one\n")
    assert answer.err == f"two\ntb: #{job.number} make is failed: it broke\n"


def test_waiting_goes_on_through_a_second_attempt(tb: Tb, board: tiebreak.Board) -> None:
    with tb.start("submit", "make", "--wait", "--backoff", "0s") as waiting:
        first = running(board)
        writes(board, first, "once\n")
        ends(board, first, ok=False, retry=True)
        second = running(board)
        writes(board, second, "twice\n")
        ends(board, second, result={"exit": 0})
        answer = ended(waiting, LONG)
    assert (answer.code, answer.out, answer.err) == (0, "once\ntwice\n", "")
    assert (first.number, second.epoch) == (second.number, 2)


def test_whoever_waits_sees_an_attempt_that_ended_while_nobody_looked(tb: Tb, board: tiebreak.Board) -> None:
    with tb.start("submit", "make", "--wait", "--backoff", "0s") as waiting:
        until(lambda: board.tasks.list(states=["pending"]), "a job is there", LONG)
        waiting.send_signal(signal.SIGSTOP)
        for text, ok in (("once\n", False), ("twice\n", False), ("thrice\n", True)):
            job = won(board)
            writes(board, job, text)
            ends(board, job, ok=ok, retry=True)
        waiting.send_signal(signal.SIGCONT)
        answer = ended(waiting, LONG)
    assert (answer.code, answer.out) == (0, "once\ntwice\nthrice\n")


def test_who_stops_waiting_does_not_stop_the_job(tb: Tb, board: tiebreak.Board) -> None:
    with tb.start("submit", "make", "--wait") as waiting:
        job = running(board)
        at = writes(board, job, "one\n")
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "one\n"
        waiting.send_signal(signal.SIGINT)
        answer = ended(waiting, LONG)
    assert answer.code == 130
    assert f"tb logs -f '#{job.number}'" in answer.err
    assert writes(board, job, "two\n", start=at) == 8


def test_a_program_that_waits_gets_the_job_as_json(tb: Tb, board: tiebreak.Board) -> None:
    with tb.start("submit", "make", "--wait", "--json") as waiting:
        job = running(board)
        writes(board, job, "one\n")
        ends(board, job, ok=False, result={"exit": 3})
        answer = ended(waiting, LONG)
    assert (answer.code, answer.json["state"], answer.json["result"]) == (3, "failed", {"exit": 3})


# ── Output ───────────────────────────────────────────────────────────────────────────────────────────


def test_logs_follow_what_a_job_writes_until_it_ends(tb: Tb, board: tiebreak.Board) -> None:
    board.jobs.submit(command="make", key="k")
    job = won(board)
    at = writes(board, job, "one\n")
    with tb.start("logs", "-f", "k") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "one\n"
        at = writes(board, job, "two\n", start=at)
        assert following.stdout.readline() == "two\n"
        writes(board, job, "three\n", start=at)
        ends(board, job)
        answer = ended(following, LONG)
    assert (answer.code, answer.out) == (0, "three\n")


def test_the_middle_of_a_long_output_is_missing_and_said_to_be(cli: Cli, board: tiebreak.Board) -> None:
    board.jobs.submit(command="make", key="k", cap=4096)
    job = won(board)
    at = 0
    for i in range(2000):
        at = writes(board, job, f"line {i}\n", start=at)
    shown = cli("logs", "k").out
    assert shown.startswith("line 0\nline 1\n")
    assert shown.endswith("line 1998\nline 1999\n")
    [mark] = [line for line in shown.splitlines() if "were not kept" in line]
    missing = int(mark.split()[1].replace(",", ""))
    assert len(shown) - len(f"\n{mark}\n") + missing == at


def test_each_attempt_has_its_own_output(cli: Cli, board: tiebreak.Board) -> None:
    board.jobs.submit(command="make", key="k", backoff=0.0)
    for text in ("once\n", "twice\n"):
        job = won(board)
        writes(board, job, text)
        ends(board, job, ok=False, retry=True)
    assert [cli("logs", "k", "--attempt", n).out for n in "12"] == ["once\n", "twice\n"]
    assert cli("logs", "k").out == "twice\n"
    assert [chunk["text"] for chunk in cli("logs", "k", "--json").json["chunks"]] == ["twice\n"]


def test_a_job_that_has_written_nothing_is_said_to(cli: Cli, board: tiebreak.Board) -> None:
    board.jobs.submit(command="make", key="k")
    answer = cli("logs", "k")
    assert (answer.code, answer.out, answer.err) == (0, "", "tb: #1 make has written nothing\n")


# ── Looking ──────────────────────────────────────────────────────────────────────────────────────────


def test_lists_tell_how_far_a_job_is(cli: Cli, board: tiebreak.Board) -> None:
    board.tasks.post(name="no job")
    board.jobs.submit(command="make", queue="mail")
    job = won(board)
    board.jobs.progress(ref=job.id, epoch=job.epoch, percent=40, note="linking", agent="worker~1")
    [line] = cli("jobs").out.splitlines()[1:]
    assert line.split()[:10] == ["2", "claimed", "40", "%", "linking", "mail", "1/3", "worker", line.split()[8], "0s"]
    ends(board, job, ok=False)
    assert "no open jobs" in cli("jobs").out
    assert [each["state"] for each in cli("jobs", "--failed", "--json").json] == ["failed"]


def test_secrets_are_masked_wherever_a_job_is_shown(cli: Cli, board: tiebreak.Board) -> None:
    cli("submit", "make", "--key", "k", "--env", "API_TOKEN=swordfish", "--env", "COLOUR=blue")
    shown = cli("show", "k").out
    assert "API_TOKEN=********" in shown
    assert "COLOUR=blue" in shown
    for words in (["show", "k"], ["jobs"], ["events"], ["tasks"], ["why", "k"], ["graph", "k"]):
        assert "swordfish" not in cli(*words).out + cli(*words, "--json").out


def test_how_a_job_ended_is_shown(cli: Cli, board: tiebreak.Board) -> None:
    board.jobs.submit(command=["make", "a b"], key="k")
    ends(board, won(board), ok=False, result={"exit": 3, "signal": None, "seconds": 1.5, "peak": 3 << 20})
    rows = dict(line.split(None, 1) for line in cli("show", "k").out.splitlines()[1:])
    assert (rows["command"], rows["exit"], rows["took"], rows["peak"]) == ("make 'a b'", "3", "1.5s", "3.0 MiB")


def test_failed_jobs_are_reopened_by_filter(cli: Cli, board: tiebreak.Board) -> None:
    for queue in ("mail", "mail", "other"):
        board.jobs.submit(command="make", queue=queue)
        ends(board, won(board), ok=False)
    assert cli("retry", "--failed", "--queue", "mail").out == "reopened #1 make\nreopened #2 make\n"
    assert [task.state for task in board.tasks.list()] == ["failed", "pending", "pending"]
    assert "nothing that matches" in cli("retry", "--failed", "--queue", "none").out


def many_failed(board: tiebreak.Board, count: int) -> None:
    board.batch([("tasks.post", {"name": "x", "max_attempts": 1}) for _ in range(count)])
    board.tasks.claim_many(refs=[f"#{n}" for n in range(1, count + 1)])
    board.batch([("tasks.fail", {"ref": f"#{n}", "retry": False}) for n in range(1, count + 1)])


def test_all_failed_tasks_are_reopened_however_many(cli: Cli, board: tiebreak.Board) -> None:
    many_failed(board, 450)
    assert len(cli("retry", "--failed").out.splitlines()) == 450
    assert board.upkeep.status().failed == 0
    many = json.loads(cli("retry", "--failed", "--json").out)
    assert many == {"reopened": [], "remaining": 0}


def test_what_a_limit_leaves_failed_is_told(cli: Cli, board: tiebreak.Board) -> None:
    many_failed(board, 5)
    lines = cli("retry", "--failed", "--limit", "2").out.splitlines()
    assert lines == ["reopened #1 x", "reopened #2 x", "3 more have failed; without --limit they are reopened, too"]
    answer = json.loads(cli("retry", "--failed", "--limit", "2", "--json").out)
    assert ([task["number"] for task in answer["reopened"]], answer["remaining"]) == ([3, 4], 1)
    complaint(cli("retry", "--failed", "--limit", "0"), 2)


def test_a_paused_queue_is_seen_to_be_and_goes_on(cli: Cli, board: tiebreak.Board) -> None:
    board.jobs.submit(command="make", queue="mail")
    assert cli("queue", "pause", "mail", "--reason", "too many").code == 0
    assert board.jobs.next(agent="worker~1") == []
    assert cli("queue", "list").out.splitlines()[1].split()[:3] == ["mail", "1", "paused"]
    cli("queue", "resume", "mail")
    assert won(board).queue == "mail"


# ── From inside ──────────────────────────────────────────────────────────────────────────────────────


def test_a_job_speaks_for_itself_and_only_while_it_is_the_one(cli: Cli, board: tiebreak.Board, tb: Tb) -> None:
    board.jobs.submit(command="make", key="k")
    job = won(board)
    inside = {"TIEBREAK_JOB": job.id, "TIEBREAK_EPOCH": str(job.epoch), "TIEBREAK_AGENT": "worker~1"}
    assert tb("progress", "40", "linking", env={**inside}).code == 0
    assert board.tasks.get(ref="k").progress == {"percent": 40, "note": "linking"}
    assert tb("guard-epoch", env={**inside}) == Answer(0, "", "")
    board.tasks.release(ref="k", agent="worker~1", epoch=job.epoch)
    again = won(board)
    assert again.epoch == 2
    for words in (["guard-epoch"], ["progress", "50"]):
        assert "your epoch 1 is not the current one" in complaint(tb(*words, env={**inside}), 1)
    assert board.tasks.get(ref="k").progress is None


# ── Pictures ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def diamond(board: tiebreak.Board) -> tiebreak.Board:
    """a, then b and c, then d, which also comes right after a; with names that mean something elsewhere."""
    board.jobs.submit(command="true", name='a "<b>" #1', key="a")
    board.jobs.submit(command="true", name="b", key="b", after=["a"])
    board.jobs.submit(command="true", name="c", key="c", after=["a"])
    board.jobs.submit(command="true", name="d", key="d", after=["b", "c", "a"])
    return board


def test_the_tree_tells_each_task_once_and_all_that_it_waits_for(cli: Cli, diamond: tiebreak.Board) -> None:
    assert cli("graph", "d").out.splitlines() == [
        '#1 a "<b>" #1  pending',
        "├─ #2 b  blocked",
        "│  └─ #4 d  blocked  also after #1, #3",
        "├─ #3 c  blocked",
        "│  └─ #4 d  (see above)",
        "└─ #4 d  (see above)",
    ]


def test_the_diagram_has_every_edge_and_no_name_breaks_it(cli: Cli, diamond: tiebreak.Board) -> None:
    lines = [line.strip() for line in cli("graph", "d", "--mermaid").out.splitlines()]
    assert lines[:2] == ["graph LR", 'n1["#35;1 a #quot;#lt;b#gt;#quot; #35;1<br/>pending"]:::pending']
    assert [line for line in lines if "-->" in line] == [
        "n1 --> n2",
        "n1 --> n3",
        "n1 --> n4",
        "n2 --> n4",
        "n3 --> n4",
    ]


def test_the_picture_is_whole_and_nothing_in_it_overlaps(cli: Cli, diamond: tiebreak.Board, tmp_path: Path) -> None:
    file = tmp_path / "graph.svg"
    assert "drew 4 tasks" in cli("graph", "a", "--svg", str(file)).out
    root = ET.parse(file).getroot()
    space = "{http://www.w3.org/2000/svg}"
    boxes = [[float(rect.get(name, 0)) for name in ("x", "y", "width", "height")] for rect in root.iter(f"{space}rect")]
    assert len(boxes) == 4
    for i, (x, y, w, h) in enumerate(boxes):
        assert 0 <= x <= float(root.get("width", 0)) - w
        assert 0 <= y <= float(root.get("height", 0)) - h
        assert all(x + w <= a or a + c <= x or y + h <= b or b + d <= y for a, b, c, d in boxes[i + 1 :])
    names = [text.text for text in root.iter(f"{space}text") if text.get("class") == "name"]
    assert names == ['#1 a "<b>" #1', "#2 b", "#3 c", "#4 d"]
    edges = [path for path in root.iter(f"{space}path") if "edge" in path.get("class", "")]
    assert len(edges) == 5


def test_a_picture_that_cannot_be_written_is_said_to(cli: Cli, diamond: tiebreak.Board) -> None:
    assert "cannot write" in complaint(cli("graph", "a", "--svg", "/no/such/folder/x.svg"), 3)
    assert cli("graph", "a", "--svg", "-").out.startswith("<svg ")
    assert json.loads(cli("graph", "a", "--json").out)["number"] == 1
