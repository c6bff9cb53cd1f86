"""Jobs per second from the first to the last, beside other Python job queues and beside a bare loop of processes.

A job does nothing, so what is measured is what a queue costs. tiebreak runs as users run it, `tb work` in a process of
its own: each job is won with an epoch, run, and its result committed to disk behind the fence before it counts; a job
of the others counts as soon as it has run. The column `keeps` says what each one promises. Workers wait at a paused
queue until all are there, so that nobody's start-up is measured.

Shell jobs run `sh -c :`. Their yardstick is a loop that starts the same with `posix_spawn` and waits for it, without a
queue, without capturing output and without anybody watching.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.postgres import Server

import tiebreak

from . import jobpeers, peers
from .crew import database
from .measure import REPOSITORY, Report, Settings, folder, in_turns, progress, spread, times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tiebreak import Board

PROCESSES = (1, 2)
QUEUE = "bench"
PATIENCE = 300.0
OURS = "every grant and result synced, fenced by epoch; kept until its result is written"
PLAINJOB = "plainjob (Node, SQLite, NORMAL, not fenced), measured once on such a machine: 12,200 jobs/s, 1 worker."


# ── tiebreak ─────────────────────────────────────────────────────────────────────────────────────────


def _environment(address: str) -> dict[str, str]:
    return {
        **os.environ,
        "TIEBREAK_BOARD": address,
        "TIEBREAK_PROJECT": "bench",
        "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/src",
    }


@contextlib.contextmanager
def _workers(board: Board, address: str, count: int, *options: str) -> Iterator[None]:
    """So many workers that wait for something to do."""
    command = [sys.executable, "-m", "tiebreak", "work", "--queue", QUEUE, *options]
    null = subprocess.DEVNULL
    crew = [subprocess.Popen(command, env=_environment(address), stdout=null, stderr=null) for _ in range(count)]
    try:
        end = time.monotonic() + 60
        while sum(each.program == "worker" and each.status == "active" for each in board.agents.list()) < count:
            if time.monotonic() > end or any(each.poll() is not None for each in crew):
                raise RuntimeError("a worker does not start")
            time.sleep(0.02)
        yield
    finally:
        for each in crew:
            each.terminate()
        for each in crew:
            each.wait(60)


def _until_done(board: Board, jobs: int) -> None:
    end = time.monotonic() + PATIENCE
    while (status := board.upkeep.status()).completed < jobs:
        if time.monotonic() > end:
            raise RuntimeError(f"{status.completed} of {jobs} jobs are done: {status}")
        time.sleep(0.01)


def _ours(address: str, command: Any, jobs: int, processes: int, *options: str) -> dict[str, float]:
    """Rates of submitting and of working off."""
    with tiebreak.open(address, agent="bench~one", project="bench") as board:
        board.queues.pause(queue=QUEUE)
        each = {"command": command, "queue": QUEUE}
        began = time.perf_counter()
        for _ in range(0, jobs, 100):
            board.jobs.submit_many(jobs=[each] * 100)
        submitted = time.perf_counter()
        with _workers(board, address, processes, *options):
            board.queues.resume(queue=QUEUE)
            resumed = time.perf_counter()
            _until_done(board, jobs)
            done = time.perf_counter()
    return {"enqueue": jobs / (submitted - began), "work": jobs / (done - resumed)}


# ── Others ───────────────────────────────────────────────────────────────────────────────────────────


def _peer(python: str, peer: str, place: str, jobs: int, processes: int) -> dict[str, float]:
    """The same of one that counts in a file."""
    counts = f"{place}/{peer}.counts"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(counts)
    shared = jobpeers.Counts(counts, processes)
    with _peers(python, peer, "enqueue", place, 1, jobs) as [producer]:
        began = time.perf_counter()
        _go([producer])
        producer.wait(PATIENCE)
        enqueued = time.perf_counter() - began
    with _peers(python, peer, "work", place, processes, jobs) as crew:
        _go(crew)
        took = shared.seconds(jobs, PATIENCE)
    return {"enqueue": jobs / enqueued, "work": jobs / took}


@contextlib.contextmanager
def _peers(
    python: str, peer: str, action: str, place: str, processes: int, jobs: int
) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes of a peer that wait for a line."""
    script = os.path.abspath(jobpeers.__file__)
    environment = {**os.environ, "PROCESSES": str(processes), "PYTHONPATH": os.path.dirname(script)}
    crew = []
    for number in range(processes):
        command = [python, script, peer, action, place, str(number), str(jobs)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        crew.append(subprocess.Popen(command, env=environment, text=True, **pipes))
    try:
        for each in crew:
            assert each.stdout
            assert each.stdout.readline().strip() == "ready", f"{peer} does not start"
        yield crew
    finally:
        for each in crew:
            each.kill()
            each.communicate()


def _go(crew: list[subprocess.Popen[str]]) -> None:
    for each in crew:
        assert each.stdin
        each.stdin.write("go\n")
        each.stdin.flush()


@contextlib.contextmanager
def _redis(place: str) -> Iterator[None]:
    """A Redis of our own on a socket, as it comes but without writing anything down."""
    subprocess.run([os.path.join(REPOSITORY, "tools", "need"), "redis-server"], check=True)
    socket = f"{place}/redis.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=place)
    try:
        while not os.path.exists(socket):
            assert process.poll() is None, "redis-server does not start"
            time.sleep(0.01)
        yield
    finally:
        process.terminate()
        process.wait(30)


def _on_postgres(python: str, server: Server, peer: str, jobs: int, processes: int) -> dict[str, float]:
    address = database(server, f"{peer}_jobs")
    peers.rate(python, peer, "install", address, 1)
    enqueue = peers.rate(python, peer, "post", address, jobs)
    return {"enqueue": enqueue, "work": peers.rate(python, peer, "work", address, jobs, processes)}


# ── Shell ────────────────────────────────────────────────────────────────────────────────────────────


def _bare_spawns(jobs: int) -> dict[str, float]:
    """Processes per second without a queue, one after the other."""
    began = time.perf_counter()
    for _ in range(jobs):
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", ":"], os.environ)
        os.waitpid(pid, 0)
    return {"work": jobs / (time.perf_counter() - began)}


# ── The report ───────────────────────────────────────────────────────────────────────────────────────


def run(settings: Settings) -> Report:
    """Measure all of them in turns."""
    rounds, many = settings.size(3, 1), settings.size(4000, 200)
    header = ["what", "workers", "keeps", "enqueue/s", "jobs/s", "of yardstick", "noise"]
    report = Report("jobs", "", header, left=3)
    report.title = (
        f"{many:,} jobs that do nothing, from the first to the last, median of {rounds}. Aims: callables ≥ 3.00× of "
        "the best Python peer (SQLite), ≥ 2.00× of pgqueuer (PostgreSQL); shell jobs ≥ 0.70× of bare `posix_spawn`."
    )
    python = peers.environment(f"{REPOSITORY}/build", "jobpeers", peers.NEEDED + jobpeers.NEEDED)
    with folder() as place, _redis(place), contextlib.closing(Server()) as server:
        found = in_turns(_work(settings, python, place, server, many), rounds)
    _tell(report, found)
    report.notes.append(f"Versions: {peers.versions(python, jobpeers.PEERS + peers.PEERS)}.")
    report.notes.append(PLAINJOB)
    return report


def _work(
    settings: Settings, python: str, place: str, server: Server, many: int
) -> dict[str, Callable[[], dict[str, float]]]:
    """What is measured, by name, place and number of workers."""
    shell, slow = settings.size(1000, 100), settings.size(1000, 100)
    call = {"call": "nothing"}
    options = ("--import", "benchmarks.jobtasks")
    boards = iter(range(10**6))

    def fresh() -> str:
        return f"{place}/board-{next(boards)}.db"

    def on_postgres() -> str:
        return database(server, f"board_{next(boards)}")

    work: dict[str, Callable[[], dict[str, float]]] = {}
    for count in PROCESSES:
        work[f"tiebreak callables SQLite {count}"] = lambda c=count: _ours(fresh(), call, many, c, *options)
        for peer in jobpeers.PEERS:
            jobs = many if peer in ("huey", "dramatiq") else slow
            work[f"{peer} callables {count}"] = lambda p=peer, j=jobs, c=count: _peer(python, p, place, j, c)
        work[f"tiebreak callables PostgreSQL {count}"] = lambda c=count: _ours(on_postgres(), call, many, c, *options)
        for peer in peers.PEERS:
            jobs = many if peer == "pgqueuer" else slow
            work[f"{peer} callables {count}"] = lambda p=peer, j=jobs, c=count: _on_postgres(python, server, p, j, c)
        work[f"tiebreak shell SQLite {count}"] = lambda c=count: _ours(fresh(), ":", shell, c, "--concurrency", "8")
    work["posix_spawn shell 1"] = lambda: _bare_spawns(shell)
    return work


def _tell(report: Report, found: dict[str, list[dict[str, float]]]) -> None:
    rate = {name: median(each["work"] for each in rounds) for name, rounds in found.items()}
    for name, rounds in found.items():
        who, *where, count = name.split()
        on_sqlite = "PostgreSQL" not in name and who not in peers.PEERS
        rivals = [f"{peer} callables {count}" for peer in (jobpeers.PEERS if on_sqlite else ("pgqueuer",))]
        best = rate["posix_spawn shell 1"] if "shell" in name else max(rate[rival] for rival in rivals)
        progress(f"{name}: {rate[name]:,.0f}")
        report.add(
            " ".join([who, *where]),
            count,
            jobpeers.DURABLE.get(who, OURS if who == "tiebreak" else "nothing"),
            median(each["enqueue"] for each in rounds) if "enqueue" in rounds[0] else "-",
            rate[name],
            times(rate[name], best),
            spread([each["work"] for each in rounds]),
        )
