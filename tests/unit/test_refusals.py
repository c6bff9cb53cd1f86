"""Refusals that are not in the log yet: they are counted, the next write logs them, and they never stop a write."""

from __future__ import annotations

import fcntl
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tiebreak
from tiebreak import Board, Invalid, Lost, Unavailable
from tiebreak.engine import refusal_counts, refusals_file
from tiebreak.engine.refusals import Refusals
from tiebreak.kinds import RULES
from tiebreak.model import Event

PATIENCE = 60.0

LOSER = """
import sys, tiebreak
with tiebreak.open(sys.argv[1], agent=sys.argv[2], project="demo") as board:
    for _ in range(int(sys.argv[3])):
        try:
            board.tasks.claim(ref="work")
        except tiebreak.Lost:
            pass
"""

WRITER = """
import sys, tiebreak
with tiebreak.open(sys.argv[1], agent="writer~1", project="demo") as board:
    for i in range(3):
        board.tasks.post(name=f"task {i}")
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "board.db")


@pytest.fixture
def side(path: str) -> Path:
    return Path(path + "-refused")


@pytest.fixture
def alice(path: str) -> Iterator[Board]:
    """Who holds `work`."""
    with tiebreak.open(path, agent="alice~1", project="demo") as board:
        board.tasks.claim(ref="work")
        yield board


@pytest.fixture
def bob(path: str) -> Iterator[Board]:
    with tiebreak.open(path, agent="bob~1", project="demo") as board:
        yield board


def lose(board: Board, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(Lost):
            board.tasks.claim(ref="work")


def run(script: str, *words: str) -> None:
    subprocess.run([sys.executable, "-c", script, *words], check=True, timeout=PATIENCE)


def written(board: Board) -> dict[str | None, int]:
    """How many refusals the log tells of each agent."""
    found: dict[str | None, int] = {}
    for event in board.events.read(event="task.refused", limit=1000):
        found[event.agent] = found.get(event.agent, 0) + event.times
    return found


def unlocked(side: Path) -> bool:
    with side.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def facts(subject: str = "s", agent: str = "a~1", note: str | None = None) -> dict[str, Any]:
    return {"project": "demo", "subject": subject, "agent": agent, "note": note}


def counts(rows: list[tuple[Any, ...]]) -> dict[Any, int]:
    """Of rows in the shape of events: how many for each subject."""
    subject, times = Event.fields.index("subject"), Event.fields.index("times")
    return {row[subject]: row[times] for row in rows}


# ── From process to process ──────────────────────────────────────────────────────────────────────────────


def test_refusals_of_a_process_that_ended_are_logged_by_the_next_writer(path: str, side: Path, alice: Board) -> None:
    run(LOSER, path, "bob~1", "3")
    assert side.stat().st_size > 0
    assert written(alice) == {}
    run(WRITER, path)
    assert written(alice) == {"bob": 3}
    assert side.stat().st_size == 0


def test_counts_of_several_processes_and_of_memory_are_added(path: str, alice: Board, bob: Board) -> None:
    run(LOSER, path, "bob~1", "2")
    run(LOSER, path, "bob~1", "3")
    lose(bob, 4)
    bob.tasks.post(name="other")
    (event,) = alice.events.read(event="task.refused")
    assert (event.agent, event.times) == ("bob", 9)


def test_incarnations_are_not_mixed_up(path: str, alice: Board) -> None:
    run(LOSER, path, "bob~1", "2")
    run(LOSER, path, "bob~2", "3")
    alice.tasks.post(name="other")
    assert sorted(event.times for event in alice.events.read(event="task.refused")) == [2, 3]


def test_closing_without_a_refusal_leaves_no_file(path: str, side: Path, alice: Board) -> None:
    run(WRITER, path)
    assert not side.exists()


def test_a_reader_sees_refusals_that_are_not_in_the_log_yet(path: str, alice: Board, bob: Board) -> None:
    run(LOSER, path, "carol~1", "2")
    lose(bob, 3)
    told = " ".join(sentence.text for sentence in bob.events.why(ref="work"))
    assert "carol" in told
    assert "bob" in told
    assert written(alice) == {}, "looking is not writing"


def test_only_the_owner_can_read_the_side_file(path: str, side: Path, alice: Board) -> None:
    run(LOSER, path, "bob~1", "1")
    assert side.stat().st_mode & 0o777 == 0o600


# ── A damaged side file ──────────────────────────────────────────────────────────────────────────────────

WHOLE = "2\t1000\ttask.refused\tdemo\tsubject\twork\ttask\tbob~1\t1\theld by alice\n"


TORN = [
    "1\t2000\ttask.ref",
    "1",
    "\n",
    "\t" * 9,
    "x" + WHOLE,
    WHOLE.rstrip() + "\tone field too many",
]


@pytest.mark.parametrize("torn", TORN)
def test_a_torn_line_is_skipped(path: str, side: Path, alice: Board, torn: str) -> None:
    side.write_text(WHOLE + torn)
    alice.tasks.post(name="other")
    assert written(alice) == {"bob": 2}


def test_bytes_that_are_no_text_are_skipped(path: str, side: Path, alice: Board) -> None:
    side.write_bytes(WHOLE.encode() + b"\x00\xff\xfe\n" + WHOLE.encode())
    alice.tasks.post(name="other")
    assert written(alice) == {"bob": 4}


@pytest.mark.parametrize("torn", ["1\t2000\ttask.ref", "garbage\n"])
def test_a_file_with_only_a_torn_line_stops_no_write(path: str, side: Path, alice: Board, torn: str) -> None:
    """A full disk or a power cut can leave such a file; whoever writes after that must not wait for ever."""
    side.write_text(torn)
    run(WRITER, path)
    assert len(alice.tasks.list(states=["pending"])) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_torn_line_costs_no_descriptor(path: str, side: Path, alice: Board) -> None:
    side.write_text("torn")
    gc.collect()  # what earlier tests left behind
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        alice.tasks.post(name="other")
    assert len(os.listdir("/proc/self/fd")) == before


def test_no_lock_on_the_side_file_outlives_a_write(path: str, side: Path, alice: Board) -> None:
    for content in (WHOLE, "torn"):
        side.write_text(content)
        alice.tasks.post(name="other")
        assert unlocked(side)


def test_a_side_file_that_cannot_be_emptied_is_unlocked(
    path: str, side: Path, alice: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change is committed by then; what cannot be forgotten is told twice, but nobody is kept waiting."""

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    side.write_text(WHOLE)
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", broken)
        alice.tasks.post(name="other")
    assert unlocked(side)
    alice.tasks.post(name="another")
    assert written(alice)["bob"] >= 2


@pytest.mark.parametrize("digits", [20, 5000])
def test_a_number_of_absurd_length_stops_no_write(path: str, side: Path, alice: Board, digits: int) -> None:
    side.write_text(WHOLE.replace("2\t", "9" * digits + "\t", 1) + WHOLE)
    alice.tasks.post(name="other")
    assert len(alice.tasks.list(states=["pending"])) == 1


def test_counts_that_overflow_stop_no_write(path: str, side: Path, alice: Board) -> None:
    side.write_text(WHOLE.replace("2\t1000", "9" * 18 + "\t" + "9" * 18, 1) * 20)
    alice.tasks.post(name="other")
    assert written(alice) == {"bob": 2**53}


def test_a_huge_line_is_cut(path: str, side: Path, alice: Board) -> None:
    side.write_text(WHOLE.replace("held by alice", "\u65e5" * 500_000).replace("subject", "s" * 100_000))
    alice.tasks.post(name="other")
    (event,) = alice.events.read(event="task.refused")
    assert len((event.subject or "").encode()) == 2048
    assert len((event.note or "").encode()) == 3999


def test_no_nul_comes_from_the_side_file(path: str, side: Path, alice: Board) -> None:
    """SQLite would store it, and the board could never move to PostgreSQL."""
    side.write_text(WHOLE.replace("held by", "held\0by"))
    alice.tasks.post(name="other")
    (event,) = alice.events.read(event="task.refused")
    assert event.note == "held by alice"


def test_too_many_lines_are_dropped_and_counted(
    path: str, side: Path, alice: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusal_counts, "MOST", 50)
    side.write_text("".join(WHOLE.replace("subject", f"subject {number}") for number in range(80)))
    alice.tasks.post(name="other")
    assert len(alice.events.read(event="task.refused", limit=1000)) == 50
    assert alice.engine.refusals_dropped == 60
    assert side.stat().st_size == 0


def test_a_side_file_without_end_is_read_to_a_bound(
    path: str, side: Path, alice: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals_file, "LARGEST_FILE", 2 * len(WHOLE))
    side.write_text(WHOLE * 10)
    alice.tasks.post(name="other")
    assert written(alice) == {"bob": 4}
    assert alice.engine.refusals_dropped > 0


def test_a_side_file_that_is_full_does_not_grow(path: str, side: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals_file, "LARGEST_FILE", 1000)
    for number in range(100):
        one = Refusals(str(side))
        one.add("task.refused", 1, facts(subject=str(number)))
        one.save_to_file()
    assert 900 < side.stat().st_size <= 1000


def test_a_side_file_that_is_no_regular_file_stops_no_write(path: str, side: Path, alice: Board, bob: Board) -> None:
    made: list[Callable[[], object]] = [side.mkdir, lambda: os.mkfifo(side), lambda: side.symlink_to("nowhere")]
    for make in made:
        make()
        lose(bob)
        assert bob.events.why(ref="work")
        bob.tasks.post(name="other")
        side.rmdir() if side.is_dir() else side.unlink()
    assert written(alice) == {"bob": 3}


def test_a_side_file_of_another_user_stops_no_write(
    path: str, side: Path, alice: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may have left it."""
    side.write_text(WHOLE)
    really = os.open

    def denied(name: Any, *rest: Any, **more: Any) -> int:
        if name == str(side):
            raise PermissionError(13, "Permission denied")
        return really(name, *rest, **more)

    monkeypatch.setattr(os, "open", denied)
    alice.tasks.post(name="other")
    assert len(alice.tasks.list(states=["pending"])) == 1


# ── Commits that fail ────────────────────────────────────────────────────────────────────────────────────


def fill(board: Board) -> None:
    """Let the disk be full for this board's writer."""
    writer = board.engine._writer  # type: ignore[attr-defined]
    writer.pragma("max_page_count", writer.pragma("page_count"))


def make_room(board: Board) -> None:
    board.engine._writer.pragma("max_page_count", 2**30)  # type: ignore[attr-defined]


def test_a_full_disk_loses_none_and_repeats_none(path: str, side: Path, alice: Board, bob: Board) -> None:
    run(LOSER, path, "carol~1", "2")
    lose(bob, 3)
    fill(bob)
    calls = [("tasks.post", {"name": "too much", "payload": "x" * 200_000})] * 20
    with pytest.raises(Unavailable, match="disk is full"):
        bob.batch(calls)
    make_room(bob)
    assert written(alice) == {}
    lose(bob, 1)
    bob.tasks.post(name="again")
    assert written(alice) == {"bob": 4, "carol": 2}


class Brittle:
    """A connection whose next commit fails, as on a disk that is full or broken."""

    def __init__(self, real: apsw.Connection, error: Exception) -> None:
        self._real = real
        self._error: Exception | None = error

    def execute(self, sql: str, *rest: Any) -> Any:
        if sql == "COMMIT" and self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._real.execute(sql, *rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.mark.parametrize("error", [apsw.FullError("full"), apsw.IOError("broken"), KeyboardInterrupt()])
def test_a_commit_that_fails_keeps_the_refusals_for_the_next(
    path: str, side: Path, alice: Board, bob: Board, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(LOSER, path, "carol~1", "2")
    lose(bob, 3)
    engine: Any = bob.engine
    with monkeypatch.context() as patch:
        patch.setattr(engine, "_writer", Brittle(engine._writer, error))
        with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else Unavailable):
            bob.tasks.post(name="fails")
    assert written(alice) == {}
    assert side.stat().st_size > 0
    assert unlocked(side)
    bob.tasks.post(name="works")
    assert written(alice) == {"bob": 3, "carol": 2}
    assert side.stat().st_size == 0


def test_a_failed_operation_logs_no_refusals(path: str, side: Path, alice: Board, bob: Board) -> None:
    lose(bob, 3)
    with pytest.raises(tiebreak.Refused):
        bob.tasks.complete(ref="work")
    assert written(alice) == {}
    bob.tasks.post(name="works")
    assert written(alice)["bob"] >= 3


def reject(board: Board) -> None:
    """Let the database say no to every refusal."""
    board.engine._writer.execute(  # type: ignore[attr-defined]
        "CREATE TEMP TRIGGER no BEFORE INSERT ON main.events WHEN NEW.event = 'task.refused' "
        "BEGIN SELECT RAISE(ABORT, 'no'); END"
    )


def test_a_database_that_rejects_refusals_does_not_stop_the_write(
    path: str, side: Path, alice: Board, bob: Board
) -> None:
    run(LOSER, path, "carol~1", "2")
    lose(bob, 3)
    reject(bob)
    assert bob.tasks.post(name="other").state == "pending"
    assert bob.engine.refusals_dropped == 5
    assert ("warn", "refusals", "5 dropped: the log does not tell of them") in bob.engine.diagnose()
    assert side.stat().st_size == 0
    assert unlocked(side)
    assert [task.name for task in alice.tasks.list(states=["pending"])] == ["other"]
    bob.tasks.post(name="another")
    assert bob.engine.refusals_dropped == 5, "they are dropped once"


def test_a_disk_too_full_for_them_but_not_for_the_write(alice: Board, bob: Board) -> None:
    """They can wait until there is room; who writes now need not."""
    engine: Any = bob.engine
    for number in range(2000):
        engine._refusals.add("task.refused", 1, facts(subject=f"{number}", note="n" * 500))
    fill(bob)
    engine._writer.pragma("max_page_count", engine._writer.pragma("page_count") + 20)
    bob.tasks.post(name="small")
    assert written(alice) == {}
    make_room(bob)
    bob.tasks.post(name="later")
    assert len(engine._refusals.collect()) == 0
    assert bob.engine.refusals_dropped == 0
    assert alice.events.last() > 2000


# ── In memory ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_refusal_during_a_write_is_not_lost(path: str) -> None:
    refusals = Refusals(path)
    refusals.add("task.refused", 1, facts())
    assert counts(refusals.collect()) == {"s": 1}
    refusals.add("task.refused", 2, facts())
    refusals.committed()
    assert counts(refusals.collect()) == {"s": 1}
    refusals.committed()
    assert refusals.collect() == []


def test_a_refusal_during_a_failed_commit_is_added_to_the_others(path: str) -> None:
    refusals = Refusals(path)
    refusals.add("task.refused", 5, facts())
    refusals.collect()
    refusals.add("task.refused", 9, facts())
    refusals.put_back()
    (row,) = refusals.collect()
    assert (row[Event.fields.index("times")], row[Event.fields.index("at")]) == (2, 9)


def test_threads_that_lose_while_another_writes_are_all_counted(path: str) -> None:
    refusals = Refusals(path)
    total, over = 0, threading.Event()

    def losing(agent: str) -> None:
        for number in range(2000):
            refusals.add("task.refused", number, facts(subject=str(number % 7), agent=agent))

    def writing() -> None:
        nonlocal total
        turn = 0
        while not over.is_set() or turn % 3:
            turn += 1
            rows = refusals.collect()
            if turn % 3:
                refusals.put_back()
            else:
                total += sum(row[Event.fields.index("times")] for row in rows)
                refusals.committed()

    losers = [threading.Thread(target=losing, args=(f"agent-{i}",)) for i in range(4)]
    writer = threading.Thread(target=writing)
    for thread in (*losers, writer):
        thread.start()
    for thread in losers:
        thread.join()
    over.set()
    writer.join()
    total += sum(row[Event.fields.index("times")] for row in refusals.collect())
    assert total == 4 * 2000


def test_the_number_of_remembered_refusals_is_limited(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal_counts, "MOST", 50)
    refusals = Refusals(path)
    for number in range(80):
        refusals.add("task.refused", number, facts(subject=str(number)))
    for _ in range(5):
        refusals.add("task.refused", 99, facts(subject="0"))
    rows = refusals.collect()
    assert len(rows) == 50
    assert counts(rows)["0"] == 6, "those that are known are counted on"


def test_a_loser_that_never_stops_does_not_fill_the_memory(path: str) -> None:
    refusals = Refusals(path)
    for number in range(refusal_counts.MOST + 500):
        refusals.add("task.refused", number, facts(subject=str(number)))
    refusals.save_to_file()
    assert len(Refusals(path).collect()) == refusal_counts.MOST


def test_pending_refusals_of_a_subject_come_from_memory_and_from_the_file(path: str) -> None:
    left = Refusals(path)
    left.add("task.refused", 1, facts("one"))
    left.add("task.refused", 1, facts("two"))
    left.save_to_file()
    here = Refusals(path)
    here.add("task.refused", 2, facts("one"))
    assert counts(here.pending("one")) == {"one": 2}
    assert counts(here.pending("one")) == {"one": 2}
    assert here.pending("three") == []
    assert counts(here.collect()) == {"one": 2, "two": 1}


def test_refusals_beyond_the_limit_are_counted_as_dropped(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal_counts, "MOST", 50)
    refusals = Refusals(path)
    for number in range(80):
        refusals.add("task.refused", number, facts(subject=str(number)))
    assert refusals.dropped == 30
    refusals.collect()
    assert refusals.dropped == 30
    refusals.put_back()
    assert refusals.dropped == 30
    refusals.collect()
    refusals.committed()
    assert refusals.dropped == 30


def test_long_texts_do_not_fill_the_memory(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal_counts, "MOST_BYTES", 100_000)
    refusals = Refusals(path)
    for number in range(100):
        refusals.add("hold.refused", number, facts(subject=f"{number:04}" + "\u65e5" * 600))
    rows = refusals.collect()
    assert 40 < len(rows) < 60
    refusals.committed()
    assert refusals.dropped == 100 - len(rows)


SIZES = {"event": 64, "project": 64, "subject": 2048, "name": 2048, "kind": 64, "agent": 129, "note": 4000}


@pytest.mark.parametrize("field", SIZES)
@pytest.mark.parametrize("unit", ["x", "\u00e9", "\u65e5", "\U0001f600", "a\u0301", "\ud800", "\0", "\t\n"], ids=ascii)
def test_every_field_is_cut_to_what_its_column_takes(path: str, field: str, unit: str) -> None:
    refusals = Refusals(path)
    given = {**facts(), field: unit * 5000}
    refusals.add(given.pop("event", "task.refused"), 1, given)
    (row,) = refusals.collect()
    text = row[Event.fields.index(field)]
    size = len(text.encode())
    assert SIZES[field] - 3 <= size <= SIZES[field], "cut between two characters"
    assert not set("\0\t\n") & set(text)
    refusals.put_back()
    refusals.save_to_file()
    assert Refusals(path).collect() == [row]


def test_held_back_refusals_are_in_no_write_until_they_are_resolved(path: str) -> None:
    refusals = Refusals("")
    refusals.add("task.refused", 1, facts("bad"), count=3)
    refusals.collect()
    refusals.hold_back()
    refusals.add("task.refused", 2, facts("good"))
    assert counts(refusals.collect()) == {"good": 1}
    refusals.committed()
    refusals.resolve_held_back(drop=False)
    assert counts(refusals.collect()) == {"bad": 3}
    refusals.hold_back()
    refusals.resolve_held_back(drop=True)
    assert (refusals.collect(), refusals.dropped) == ([], 3)


def test_saving_twice_writes_once(path: str) -> None:
    refusals = Refusals(path)
    refusals.add("task.refused", 1, facts())
    refusals.save_to_file()
    refusals.save_to_file()
    assert counts(Refusals(path).collect()) == {"s": 1}


# ── Names in the side file ───────────────────────────────────────────────────────────────────────────────

ONE_LINE = ("Name", "Note", "Label", "Key", "Ref", "AgentId", "Project", "Resource")
BEGINNINGS = {"Resource": "file:"}


@pytest.mark.parametrize("kind", ONE_LINE)
@pytest.mark.parametrize("bad", ["\t", "\n", "\r", "\0", "\v", "\x1c", "\x85", "\u2028", "\u2029", "\ud800"])
def test_no_name_can_end_a_field_or_a_line(kind: str, bad: str) -> None:
    with pytest.raises(Invalid):
        RULES[kind].check(f"{BEGINNINGS.get(kind, '')}a{bad}b", kind)


@given(name=st.text(min_size=1, max_size=200), note=st.text(min_size=1, max_size=50))
def test_every_allowed_name_survives_the_side_file(tmp_path_factory: Any, name: str, note: str) -> None:
    try:
        name, note = RULES["Name"].check(name, "name"), RULES["Note"].check(note, "note")
    except Invalid:
        return
    path = str(tmp_path_factory.getbasetemp() / "names")
    left = Refusals(path)
    left.add("task.refused", 7, {**facts(note=note), "name": name, "kind": "task", "epoch": 3})
    here = left.collect()
    left.put_back()
    left.save_to_file()
    found = Refusals(path)
    assert found.collect() == here
    found.committed()


def test_a_path_with_unusual_characters_survives_the_side_file(path: str, tmp_path: Path, alice: Board) -> None:
    resource = "file:a b/'\"$(x)\u2003%s\\\\é/日本.txt"
    alice.holds.take(resources=[resource])
    with tiebreak.open(path, agent="bob~1", project="demo") as bob, pytest.raises(Lost):
        bob.holds.take(resources=[resource])
    alice.tasks.post(name="other")
    (event,) = alice.events.read(event="hold.refused")
    assert event.subject == alice.holds.list()[0].resource
    assert os.path.getsize(path + "-refused") == 0
