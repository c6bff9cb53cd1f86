"""Python functions as jobs: what the operator's modules declared, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

import tiebreak
from tiebreak import functions
from tiebreak.errors import Invalid

from ..cli.command import gone
from .shop import Shop, until

MODULE = """
import os, subprocess, sys, time
import tiebreak

@tiebreak.job(queue="mail")
def send(to, text="hello"):
    print("sending to", to)
    print("from", os.environ["TIEBREAK_JOB"], file=sys.stderr)
    return {"to": to, "text": text}

@tiebreak.job(max_attempts=1)
def fail(message):
    raise ValueError(message)

@tiebreak.job(max_attempts=1)
def leave():
    sys.exit(3)

@tiebreak.job(max_attempts=1)
def crash():
    os.kill(os.getpid(), 11)

@tiebreak.job(max_attempts=1)
def unspeakable():
    return object()

@tiebreak.job(max_attempts=1)
def huge():
    return "x" * 300_000

@tiebreak.job(name="later")
async def soon():
    return "soon"

@tiebreak.job(timeout=3, max_attempts=1, grace=0.3)
def slow(file):
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    with open(file, "a") as out:
        out.write(f"{os.getpid()}\\n{child.pid}\\n")
    time.sleep(600)

@tiebreak.job()
def wait(file, begun):
    with open(begun, "a") as out:
        out.write(f"{os.getpid()}\\n")
    while not os.path.exists(file):
        time.sleep(0.01)
    return file

@tiebreak.job()
def number(n):
    with open("numbers", "a") as out:
        out.write(f"{n}\\n")
    return n

def secret():
    open("secret", "w").close()
"""


@pytest.fixture
def staff(shop: Shop) -> Shop:
    """A board, and a module with functions beside it."""
    (shop.folder / "staff.py").write_text(MODULE)
    return shop


def call(name: str, *args: object, **kwargs: object) -> dict[str, object]:
    return {"call": name, "args": list(args), "kwargs": kwargs}


def work(shop: Shop, name: str, *args: object, **options: object) -> tiebreak.Task:
    """Submit a call and let a worker run it."""
    job = shop.submit(call(name, *args), **options)
    shop.burst("--import", "staff")
    return shop.task(job)


def test_a_function_is_called_with_what_was_submitted(staff: Shop) -> None:
    job = staff.submit(call("staff.send", "ada", text="hi"))
    staff.burst("--import", "staff")
    assert staff.task(job).result == {"to": "ada", "text": "hi"}
    assert staff.output(job) == f"sending to ada\nfrom {job.id}\n"


def test_a_declared_function_is_still_a_function_and_can_be_submitted(
    staff: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIEBREAK_BOARD", staff.address)
    monkeypatch.setenv("TIEBREAK_PROJECT", "demo")
    monkeypatch.setattr(functions, "REGISTRY", {})

    @staff.board.job(queue="mail", name="staff.send", max_attempts=7)
    def send(to: str, text: str = "hello") -> str:
        return f"{to} {text}"

    @tiebreak.job(name="staff.number")
    def number(n: int) -> int:
        return n

    assert send("ada") == "ada hello"
    task = send.submit("bob", text="x")
    assert (task.queue, task.max_attempts, task.command) == ("mail", 7, call("staff.send", "bob", text="x"))
    assert send.with_options(delay=60).submit("eve").ready_at is not None
    assert number.submit(1).command == call("staff.number", 1)
    assert number.on(staff.board).submit(2).created_by == "me"
    staff.burst("--import", "staff")
    assert staff.task(task).result == {"to": "bob", "text": "x"}


def test_what_is_no_json_cannot_be_submitted(staff: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "REGISTRY", {})

    @staff.board.job(name="staff.number")
    def number(n: object) -> None: ...

    with pytest.raises(Invalid):
        number.submit(object())


def test_functions_are_named_after_their_modules_and_never_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "REGISTRY", {})
    assert functions.name_of(os.path.join) == "posixpath.join"
    with pytest.raises(Invalid, match="has no name of its own"):
        tiebreak.job()(lambda: None)
    tiebreak.job(name="a")(os.path.join)
    tiebreak.job(name="a")(os.path.join)  # the same module again, after a reload
    with pytest.raises(Invalid, match="two functions want to be the job a"):
        tiebreak.job(name="a")(os.path.split)


def test_functions_of_a_script_are_named_after_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def function() -> None: ...

    function.__module__, function.__qualname__ = "__main__", "function"
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/srv/mail.py", raising=False)
    assert functions.name_of(function) == "mail.function"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("leave", "SystemExit: 3"),
        ("crash", "its process was ended by SIGSEGV"),
        ("unspeakable", "TypeError: Object of type object is not JSON serializable"),
        ("huge", "ValueError: the result is too large"),
    ],
)
def test_a_call_that_goes_wrong_fails_alone(name: str, reason: str, staff: Shop) -> None:
    bad = staff.submit(call(f"staff.{name}"), max_attempts=1)
    good = [staff.submit(call("staff.number", n)) for n in range(5)]
    staff.burst("--import", "staff", "--concurrency", "1")
    task = staff.task(bad)
    assert task.state == "failed"
    assert (task.reason or "").startswith(reason), task.reason
    assert [staff.task(job).result for job in good] == list(range(5))
    assert sorted(staff.lines("numbers")) == [str(n) for n in range(5)], "each was called once"


def test_an_exception_is_the_reason_and_its_trace_the_output(staff: Shop) -> None:
    job = staff.submit(call("staff.fail", "no paper"), max_attempts=1)
    staff.burst("--import", "staff")
    assert staff.task(job).reason == "ValueError: no paper"
    assert "raise ValueError(message)\nValueError: no paper" in staff.output(job)


def test_a_coroutine_is_awaited(staff: Shop) -> None:
    assert work(staff, "later").result == "soon"


@pytest.mark.parametrize("name", ["staff.secret", "os.getcwd", "subprocess.run", "staff.__builtins__"])
def test_a_name_on_the_board_is_never_imported(name: str, staff: Shop) -> None:
    """A name that no module declared is not even taken."""
    other = staff.submit(call("staff.number", 1))
    job = staff.submit(call(name))
    staff.burst("--import", "staff")
    assert (staff.task(job).state, staff.task(job).attempts) == ("pending", 0)
    assert staff.task(other).state == "completed"
    assert not (staff.folder / "secret").exists()


def test_a_worker_without_modules_takes_no_calls(staff: Shop) -> None:
    job = staff.submit(call("staff.number", 1))
    command = staff.submit("true")
    staff.burst()
    assert (staff.task(job).state, staff.task(command).state) == ("pending", "completed")


def test_a_call_whose_time_is_up_is_killed_with_what_it_started(staff: Shop) -> None:
    job = staff.submit(call("staff.slow", "pids"), timeout=3, grace=0.3, max_attempts=1)
    with staff.worker("--import", "staff", "--concurrency", "1"):
        assert (staff.until_state(job, "failed").reason or "").startswith("not done after 3s")
        assert [pid for pid in map(int, staff.lines("pids")) if not gone(pid)] == []
        after = staff.submit(call("staff.number", 1))
        assert staff.until_state(after, "completed").result == 1  # in a new child


def test_a_cancelled_call_is_killed_and_those_behind_it_run(staff: Shop) -> None:
    job = staff.submit(call("staff.wait", "never", "begun"), grace=0.3)
    others = [staff.submit(call("staff.number", n)) for n in range(20)]
    with staff.worker("--import", "staff", "--concurrency", "1", "--lease", "1h"):
        pids = staff.pids("begun", 1)
        staff.board.tasks.cancel(ref=job.id)
        staff.until_gone(pids, "the call is gone")
        for other in others:
            staff.until_state(other, "completed")
    assert sorted(staff.lines("numbers"), key=int) == [str(n) for n in range(20)]
    assert {staff.task(other).epoch for other in others} == {1}


def test_calls_run_side_by_side_when_they_take_long(staff: Shop) -> None:
    jobs = [staff.submit(call("staff.wait", "go", "begun")) for _ in range(3)]
    with staff.worker("--import", "staff", "--concurrency", "3"):
        assert len(set(staff.pids("begun", 3))) == 3
        (staff.folder / "go").touch()
        for job in jobs:
            staff.until_state(job, "completed")


def test_a_draining_worker_finishes_the_call_that_runs_and_gives_the_others_back(staff: Shop) -> None:
    running = staff.submit(call("staff.wait", "go", "begun"))
    others = [staff.submit(call("staff.number", n)) for n in range(200)]
    with staff.worker("--import", "staff", "--concurrency", "1", "--drain-timeout", "1h") as worker:
        staff.pids("begun", 1)
        worker.stop()
        until(lambda: worker.events("draining"), "it drains")
        (staff.folder / "go").touch()
        assert worker.ended() == 0
    assert staff.task(running).state == "completed"
    for other in others:
        task = staff.task(other)
        assert (task.state, task.attempts) in (("pending", 0), ("completed", 1))
    assert sorted(staff.lines("numbers"), key=int) == [
        str(n) for n, other in enumerate(others) if staff.task(other).state == "completed"
    ]


def test_a_forced_end_gives_the_running_call_back(staff: Shop) -> None:
    job = staff.submit(call("staff.wait", "never", "begun"), grace=0.3, max_attempts=1)
    with staff.worker("--import", "staff", "--drain-timeout", "0.1s") as worker:
        pids = staff.pids("begun", 1)
        worker.stop()
        assert worker.ended() == 0
    staff.until_gone(pids, "its process is gone")
    assert (staff.task(job).state, staff.task(job).attempts) == ("pending", 0)


def test_many_calls_are_each_made_once(staff: Shop) -> None:
    count = 1500
    for at in range(0, count, 500):
        staff.board.jobs.submit_many(jobs=[{"command": call("staff.number", n)} for n in range(at, at + 500)])
    staff.burst("--import", "staff", "--concurrency", "2")
    assert sorted(staff.lines("numbers"), key=int) == [str(n) for n in range(count)]
    completed = staff.board.events.read(event="task.completed", limit=1000)
    assert len(completed) == 1000
    assert len(staff.board.events.read(event="task.completed", limit=1000, after=completed[-1].number)) == count - 1000


def test_a_killed_workers_children_die_with_it(staff: Shop) -> None:
    staff.submit(call("staff.wait", "never", "begun"))
    with staff.worker("--import", "staff") as worker:
        pids = staff.pids("begun", 1)
        os.kill(worker.pid, signal.SIGKILL)
        staff.until_gone(pids, "the child died with its worker")
        worker.ended()


def test_a_child_begins_nothing_once_its_lease_may_be_over(staff: Shop, tmp_path: Path) -> None:
    """Asked directly: the second call's lease has passed by the time that its turn comes."""
    import subprocess

    from tiebreak.clock import elapsed
    from tiebreak.worker.function_child import DONE, NOT_BEGUN, READY

    read, write = os.pipe()
    words = "import os, sys; os.dup2(int(sys.argv[1]), 3); from tiebreak.worker.function_child import serve; "
    words += "serve(['staff'], os.getppid())"
    process = subprocess.Popen(
        [sys.executable, "-c", words, str(write)],
        stdin=subprocess.PIPE,
        cwd=staff.folder,
        env=staff.environment,
        pass_fds=[write],
    )
    os.close(write)
    assert process.stdin is not None
    for ticket, expires in ((1, elapsed() + 3600), (2, elapsed() - 1), (3, elapsed() + 3600)):
        line = [ticket, expires, "id", 1, 1, call("staff.number", ticket)]
        process.stdin.write(json.dumps(line).encode() + b"\n")
    process.stdin.flush()
    with os.fdopen(read) as answers:
        said = [json.loads(answers.readline()) for _ in range(4)]
        process.stdin.close()
        assert process.wait() == 0
        assert answers.read() == ""
    assert [(number, code) for number, code, _ in said] == [(0, READY), (1, DONE), (2, NOT_BEGUN), (3, DONE)]


def test_a_module_in_the_folder_of_the_worker_is_found(staff: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked directly: the child looks there first, wherever the worker's own program lies."""
    from tiebreak.worker.function_process import FunctionProcess

    monkeypatch.chdir(staff.folder)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    process = FunctionProcess(["staff"], environment)
    os.set_blocking(process.answers, True)
    try:
        [[ticket, code, names], *_] = json.loads(f"[{os.read(process.answers, 65536).decode().strip()}]")
        assert (ticket, code) == (0, 30)
        assert "staff.number" in names
    finally:
        process.close()
        os.waitpid(process.pid, 0)
