"""A watch wakes for every write of another process, costs nothing while idle, and leaks nothing."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

apsw = pytest.importorskip("apsw")

from tiebreak.engine.sqlite import file_watch  # noqa: E402
from tiebreak.engine.sqlite.file_watch import Watch, recheck_delays  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG = 90.0
"""Seconds within which anything that is going to happen has happened, also on a busy machine."""

linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify and /proc")

WRITER = """
import sys, apsw
path, db = sys.argv[1], None
print("ready", flush=True)
for order in sys.stdin:
    word, count = (order.split() + ["1"])[:2]
    if word == "open":
        db = apsw.Connection(path)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER)")
    elif word == "close":
        db.close()
    else:
        for _ in range(int(count)):
            db.execute("INSERT INTO t VALUES (1)")
    print("done", flush=True)
"""


class Writer:
    """Another process that opens, writes and closes the database when it is told to."""

    def __init__(self, path: str) -> None:
        command = [sys.executable, "-c", WRITER, path]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self._expect("ready")

    def tell(self, order: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(order + "\n")

    def done(self) -> None:
        self._expect("done")

    def do(self, order: str) -> None:
        self.tell(order)
        self.done()

    def end(self) -> None:
        self._process.communicate()

    def _expect(self, word: str) -> None:
        assert self._process.stdout
        assert self._process.stdout.readline().strip() == word


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "board.db")


@pytest.fixture
def writer(path: str) -> Iterator[Writer]:
    process = Writer(path)
    process.do("open")
    yield process
    process.end()


@pytest.fixture
def no_notifications(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_watch, "_source", lambda path: None)


@pytest.fixture(params=["notified", "polling"])
def either(request: pytest.FixtureRequest) -> str:
    if request.param == "polling":
        request.getfixturevalue("no_notifications")
    return str(request.param)


def notified(watch: Watch) -> bool:
    """Whether the kernel tells, so that the look by `stat` cannot be what saved the day."""
    poll = select.poll()
    poll.register(watch.fileno(), select.POLLIN)
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        if poll.poll(LONG * 1000) and watch.drain():
            return True
    return False


def settle(watch: Watch) -> None:
    """Swallow what is pending, and the second look that polling takes after each change."""
    while watch.wait(2 * file_watch._TIMESTAMP_GRAIN):
        pass


def fds() -> int:
    return len(os.listdir("/proc/self/fd"))


# ------------------------------------------------------------------------------------------ waking


@pytest.mark.usefixtures("either")
def test_commit_of_another_process_wakes_the_waiter(path: str, writer: Writer) -> None:
    with Watch(path) as watch:
        for _ in range(3):
            settle(watch)
            writer.tell("write")
            assert watch.wait(LONG)
            writer.done()


def test_commit_is_visible_within_the_rechecks(path: str, writer: Writer) -> None:
    db = apsw.Connection(path)
    with Watch(path) as watch:
        for expected in range(1, 20):
            writer.tell("write")
            seen = 0
            while seen < expected:
                assert watch.wait(LONG)
                for delay in recheck_delays():
                    time.sleep(delay)
                    seen = db.execute("SELECT count(*) FROM t").get
                    if seen >= expected:
                        break
            writer.done()
    db.close()


@pytest.mark.usefixtures("either")
def test_write_between_looking_and_waiting_is_not_missed(path: str, writer: Writer) -> None:
    with Watch(path) as watch:
        settle(watch)
        writer.do("write")
        assert watch.wait(0)


@linux
def test_wal_deleted_and_created_anew_is_still_watched(path: str, writer: Writer) -> None:
    with Watch(path) as watch:
        for _ in range(3):
            writer.do("close")
            assert not os.path.exists(path + "-wal")
            assert notified(watch)
            writer.do("open")
            writer.do("write")
            assert notified(watch)
            # The file is new, its creation has been told: only a watch on the file itself can tell now.
            settle(watch)
            writer.do("write")
            assert notified(watch)


@pytest.mark.usefixtures("either")
def test_database_that_does_not_exist_yet_wakes_when_it_comes(path: str) -> None:
    with Watch(path) as watch:
        settle(watch)
        writer = Writer(path)
        writer.do("open")
        assert watch.wait(LONG)
        writer.end()


@linux
def test_symbolic_link_is_followed_to_the_wal_beside_the_real_file(tmp_path: Path, path: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = str(elsewhere / "link.db")
    writer = Writer(path)
    writer.do("open")
    os.symlink(path, link)
    with Watch(link) as watch:
        writer.do("write")
        assert notified(watch)
    writer.end()


@linux
def test_noise_in_the_directory_is_not_a_change(tmp_path: Path, path: str, writer: Writer) -> None:
    with Watch(path) as watch:
        settle(watch)
        for name in ("board.db-wal2", "other.db", "board.db-journal"):
            (tmp_path / name).write_text("x")
            os.unlink(tmp_path / name)
        assert not watch.drain()
        assert not watch.wait(0.05)
        writer.do("write")
        assert notified(watch)


def test_timeout_is_kept(path: str, writer: Writer) -> None:
    with Watch(path) as watch:
        settle(watch)
        start = time.monotonic()
        assert not watch.wait(0.2)
        assert 0.19 < time.monotonic() - start < LONG


def test_signals_do_not_shorten_a_wait(path: str, writer: Writer) -> None:
    signals: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: signals.append(number))
    try:
        with Watch(path) as watch:
            settle(watch)
            signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
            start = time.monotonic()
            assert not watch.wait(0.2)
            assert time.monotonic() - start > 0.19
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert signals


# ---------------------------------------------------------------------------------- many and silent


@pytest.mark.usefixtures("either")
def test_thousands_of_writes_coalesce(path: str, writer: Writer) -> None:
    with Watch(path) as watch:
        writer.do("write 3000")
        assert watch.wait(LONG)
        settle(watch)
        assert not watch.wait(0.05)
        writer.tell("write")
        assert watch.wait(LONG)
        writer.done()


@linux
def test_overflowing_queue_counts_as_a_change_and_loses_no_watch(tmp_path: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 200_000:
        pytest.skip("the queue of this machine is too long to fill")
    files = [open(tmp_path / name, "wb", 0) for name in ("f", "f-wal")]  # noqa: SIM115
    watch = Watch(str(tmp_path / "f"))
    # Turn by turn, since the kernel merges equal neighbours; more than the queue holds.
    turns = files * (limit // 2 + 10)
    for file in turns:
        file.write(b"x")
    assert list(watch._source._events())[-1][1] & file_watch._IN_Q_OVERFLOW  # type: ignore[union-attr]

    for file in turns:
        file.write(b"x")
    assert watch.drain()
    assert not watch.drain()
    files[1].write(b"x")
    assert notified(watch)
    watch.close()
    for file in files:
        file.close()


@linux
def test_overflow_alone_is_a_change(path: str, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    with Watch(path) as watch:
        monkeypatch.setattr(watch._source, "_events", lambda: iter([(-1, file_watch._IN_Q_OVERFLOW, b"")]))
        assert watch.drain()


@linux
def test_file_system_that_keeps_silent_is_found_out(path: str, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_watch, "_STAT_EVERY", 0.02)
    monkeypatch.setattr(file_watch._Inotify, "_add", lambda *_: None)
    with Watch(path) as watch:
        assert watch.fileno() >= 0
        for _ in range(file_watch._MISSED_LIMIT):
            writer.tell("write")
            assert watch.wait(LONG)
            writer.done()
        assert watch.fileno() == -1
        settle(watch)
        writer.tell("write")
        assert watch.wait(LONG)
        writer.done()


@linux
def test_directory_removed_under_a_watch_ends_in_polling(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    (folder / "f").write_text("x")
    with Watch(str(folder / "f")) as watch:
        os.unlink(folder / "f")
        folder.rmdir()
        assert watch.wait(LONG)
        assert watch.fileno() == -1
        settle(watch)
        folder.mkdir()
        (folder / "f").write_text("y")
        assert watch.wait(LONG)


@pytest.mark.usefixtures("no_notifications")
def test_polling_sees_a_write_that_leaves_the_file_times_as_they_were(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("a")
    with Watch(str(file)) as watch:
        settle(watch)
        file.write_text("b")
        assert watch.wait(LONG)
        seen = os.stat(file)
        file.write_text("c")
        os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        assert watch.wait(LONG)
        assert not watch.wait(0.1)


@linux
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC, errno.ENOSYS])
@pytest.mark.parametrize("call", ["init", "add_watch"])
def test_exhausted_inotify_falls_back_to_polling(
    call: str, code: int, path: str, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = file_watch._Inotify._call

    def exhausted(self: Any, function: Any, *arguments: Any) -> int:
        if call in function.__name__:
            raise OSError(code, os.strerror(code))
        return real(self, function, *arguments)

    monkeypatch.setattr(file_watch._Inotify, "_call", exhausted)
    before = fds()
    with Watch(path) as watch:
        assert watch.fileno() == -1
        settle(watch)
        writer.tell("write")
        assert watch.wait(LONG)
        writer.done()
    assert fds() == before


# ----------------------------------------------------------------------------------- cost and leaks

IDLE = """
import resource, sys
from tiebreak.engine.sqlite import file_watch
if sys.argv[2] == "polling":
    file_watch._source = lambda path: None
w = file_watch.Watch(sys.argv[1])
while w.wait(0.2):
    pass
a = resource.getrusage(resource.RUSAGE_SELF)
woke = w.wait(2)
b = resource.getrusage(resource.RUSAGE_SELF)
print(int(woke), b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime, b.ru_nvcsw - a.ru_nvcsw)
"""


@pytest.mark.parametrize(("kind", "switches"), [("notified", 40), ("polling", 200)])
def test_idle_wait_costs_no_cpu(kind: str, switches: int, path: str, writer: Writer) -> None:
    command = [sys.executable, "-c", IDLE, path, kind]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=env, timeout=LONG).stdout
    woke, cpu, switched = out.split()
    assert woke == "0"
    assert float(cpu) < 0.2
    assert int(switched) < switches


COLD = """
import sys
before = set(sys.modules)
exec(compile(open(sys.argv[1]).read(), "watch", "exec"), {"__name__": "watch"})
print(*{"typing", "re", "threading", "ctypes", "contextlib"} & (set(sys.modules) - before))
"""


def test_import_needs_no_typing_re_threading_or_ctypes() -> None:
    command = [sys.executable, "-I", "-S", "-c", COLD, file_watch.__file__]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == []


@linux
def test_no_descriptor_is_leaked(path: str, writer: Writer) -> None:
    Watch(path).close()
    before = fds()
    for _ in range(200):
        with Watch(path) as watch:
            watch.wait(0)
    assert fds() == before


@linux
def test_database_and_shm_are_never_opened(path: str, writer: Writer) -> None:
    with Watch(path) as watch:
        writer.do("write")
        assert watch.wait(LONG)
        held = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
        assert not held & {path, path + "-shm"}


# ------------------------------------------------------------------------------------------ closing


@pytest.mark.usefixtures("either")
def test_close_from_another_thread_ends_a_wait(path: str, writer: Writer) -> None:
    watch = Watch(path)
    settle(watch)
    answers: list[bool] = []
    waiter = threading.Thread(target=lambda: answers.append(watch.wait(10 * LONG)))
    waiter.start()
    while not watch._callers:
        os.sched_yield()
    watch.close()
    waiter.join(LONG)
    assert answers == [False]


@linux
def test_close_under_a_waiter_gives_back_its_descriptors(path: str, writer: Writer) -> None:
    before = fds()
    for _ in range(20):
        watch = Watch(path)
        waiter = threading.Thread(target=watch.wait, args=(LONG,))
        waiter.start()
        watch.close()
        waiter.join(LONG)
    assert fds() == before


def test_descriptors_stay_the_waiters_own_until_it_leaves(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(path)
    watched = watch.fileno()

    def close_meanwhile(seconds: float) -> bool:
        watch.close()
        os.fstat(watched)
        os.fstat(watch._awake)
        return True

    monkeypatch.setattr(watch, "_notified", close_meanwhile)
    assert watch.wait(LONG) is False
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(watched)


def test_closed_watch_refuses_quietly(path: str) -> None:
    watch = Watch(path)
    watch.close()
    watch.close()
    assert watch.wait(LONG) is False
    assert watch.drain() is False
    assert watch.fileno() == -1


def test_rechecks_start_at_once_and_last_a_quarter_of_a_second() -> None:
    delays = list(recheck_delays())
    assert delays[:5] == [0, 0.0005, 0.001, 0.002, 0.004]
    assert 0.2 < sum(delays) < 0.3


# ------------------------------------------------------------------------------------------- kqueue


class FakeQueue:
    """Stands in for `select.kqueue`: notes what is registered, tells what a test puts in."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self.registered: list[int] = []
        self.pending: list[int] = []

    def fileno(self) -> int:
        return self._read

    def control(self, changes: list[int] | None, most: int, timeout: float) -> list[Any]:
        self.registered += changes or []
        told, self.pending = self.pending[:most], []
        return [SimpleNamespace(ident=ident) for ident in told]

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)


@pytest.fixture
def kqueue() -> SimpleNamespace:
    names = ("NOTE_WRITE", "NOTE_EXTEND", "NOTE_DELETE", "NOTE_RENAME", "EV_ADD", "EV_CLEAR", "FILTER_VNODE")
    flags = {f"KQ_{name}": 1 << index for index, name in enumerate(names)}
    return SimpleNamespace(**flags, kqueue=FakeQueue, kevent=lambda ident, *_: ident)


@linux
def test_kqueue_opens_the_wal_and_the_directory_but_never_the_database(tmp_path: Path, kqueue: SimpleNamespace) -> None:
    for name in ("f", "f-wal", "f-shm"):
        (tmp_path / name).write_text("x")
    source = file_watch._Kqueue(str(tmp_path / "f"), kqueue)
    held = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in source._queue.registered}
    assert held == {str(tmp_path), str(tmp_path / "f-wal")}
    source.close()


@linux
def test_kqueue_follows_a_wal_that_is_replaced(tmp_path: Path, kqueue: SimpleNamespace) -> None:
    before, wal = fds(), tmp_path / "f-wal"
    source = file_watch._Kqueue(str(tmp_path / "f"), kqueue)
    assert not source.drain()
    wal.write_text("x")
    assert source.drain()
    assert not source.drain()
    source._queue.pending = [source._queue.registered[-1]]
    assert source.drain()
    (tmp_path / "new").write_text("y")
    os.replace(tmp_path / "new", wal)
    assert source.drain()
    os.unlink(wal)
    assert source.drain()
    assert not source.drain()
    source.close()
    assert fds() == before


@linux
def test_kqueue_that_cannot_open_the_directory_falls_back_to_polling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select, "kqueue", FakeQueue, raising=False)
    before = fds()
    with Watch(str(tmp_path / "missing" / "f")) as watch:
        assert watch.fileno() == -1
    assert fds() == before
