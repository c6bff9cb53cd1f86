"""The output of a job belongs to its attempt, is kept within its cap, and says what was cut."""

from __future__ import annotations

from typing import Any

import pytest

from tiebreak import Board
from tiebreak.errors import Fenced, Invalid

from .engines import Place
from .jobs_support import outcome, report, running, win
from .tasks_support import unchanged


def write(board: Board, job: Any, *texts: str, start: int = 0, stream: int = 1) -> int:
    """Append texts, one behind the other; where they end."""
    chunks = []
    for text in texts:
        chunks.append({"start": start, "stream": stream, "text": text})
        start += len(text.encode())
    board.jobs.append(ref=job.id, epoch=job.epoch, chunks=chunks)
    return start


def read(board: Board, job: Any, **given: Any) -> list[dict[str, Any]]:
    """All chunks, read on until there are no more."""
    chunks: list[dict[str, Any]] = []
    after = given.pop("after", 0)
    while True:
        answer = board.jobs.output(ref=job.id, after=after, **given)
        chunks += answer["chunks"]
        if answer["next"] == after or not answer["chunks"]:
            return chunks
        after = answer["next"]


def text(chunks: list[dict[str, Any]]) -> str:
    """What was written, with a mark where something was cut."""
    return "".join((f"[{chunk['cut']}]" if chunk["cut"] else "") + chunk["text"] for chunk in chunks)


# ── Writing and reading ──────────────────────────────────────────────────────────────────────────────


def test_output_comes_back_in_order_with_its_streams(alice: Board) -> None:
    job = running(alice)
    end = write(alice, job, "one\n", "zwei ü\n")
    write(alice, job, "oops\n", start=end, stream=2)

    chunks = read(alice, job)

    assert [(chunk["stream"], chunk["text"]) for chunk in chunks] == [(1, "one\n"), (1, "zwei ü\n"), (2, "oops\n")]
    assert chunks[-1]["start"] == end


def test_reading_goes_on_where_it_stopped(alice: Board) -> None:
    job = running(alice)
    end = write(alice, job, "first\n")
    seen = alice.jobs.output(ref=job.id)
    assert (seen["next"], seen["total"]) == (end, end)
    write(alice, job, "second\n", start=end)

    assert text(alice.jobs.output(ref=job.id, after=seen["next"])["chunks"]) == "second\n"


def test_reading_may_begin_inside_of_a_chunk(alice: Board) -> None:
    job = running(alice)
    write(alice, job, "abcdef")

    [chunk] = alice.jobs.output(ref=job.id, after=2)["chunks"]

    assert (chunk["start"], chunk["text"], chunk["cut"]) == (2, "cdef", 0)


def test_a_running_job_may_write_more_and_an_ended_one_does_not(alice: Board) -> None:
    job = running(alice)
    write(alice, job, "x")
    assert alice.jobs.output(ref=job.id)["more"]

    report(alice, outcome(job))

    assert not alice.jobs.output(ref=job.id)["more"]


def test_a_long_output_is_read_in_parts_and_is_whole(alice: Board) -> None:
    job = running(alice)
    lines = [f"{i:060d}\n" * 200 for i in range(60)]
    end = 0
    for line in lines:
        end = write(alice, job, line, start=end)

    first = alice.jobs.output(ref=job.id)

    assert first["more"]
    assert first["next"] < end == first["total"]
    assert text(read(alice, job)) == "".join(lines)


def test_a_repeated_write_is_there_once(alice: Board) -> None:
    job = running(alice)
    write(alice, job, "once\n")
    write(alice, job, "once\n")

    assert text(read(alice, job)) == "once\n"


def test_each_attempt_has_its_own_output(place: Place, alice: Board) -> None:
    first = running(alice)
    write(alice, first, "first\n")
    place.advance(61)
    [second] = win(alice)
    write(alice, second, "second\n")

    assert text(read(alice, first)) == "second\n"
    assert text(read(alice, first, epoch=1)) == "first\n"
    assert not alice.jobs.output(ref=first.id, epoch=1)["more"]


def test_after_a_retry_the_latest_output_is_still_shown(alice: Board) -> None:
    job = running(alice, backoff=0)
    write(alice, job, "what went wrong\n")
    report(alice, outcome(job, ok=False))

    assert text(read(alice, job)) == "what went wrong\n"


def test_a_job_that_wrote_nothing_has_no_output(alice: Board) -> None:
    job = running(alice)

    answer = alice.jobs.output(ref=job.id)

    assert (answer["chunks"], answer["total"]) == ([], 0)


def test_bytes_that_a_database_cannot_store_do_not_move_the_rest(alice: Board) -> None:
    job = running(alice)
    write(alice, job, "a\0b", "c")

    assert text(read(alice, job)) == "a\x1abc"


def test_output_goes_with_its_task(place: Place, alice: Board) -> None:
    job = running(alice, cap=1000)
    write(alice, job, "x")
    report(alice, outcome(job))
    alice.tasks.post(name="newer")
    place.advance(100 * 86_400)

    assert alice.upkeep.prune().tasks == 1


# ── The cap ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [1, 7, 100, 999, 5000])
def test_head_and_tail_are_kept_within_the_cap(alice: Board, size: int) -> None:
    job = running(alice, cap=1000)
    whole = "".join(f"{i:09d}\n" for i in range(500))
    at = 0
    while at < len(whole):  # in requests of different sizes
        step = whole[at : at + max(size, 250)]
        pieces = [step[i : i + size] for i in range(0, len(step), size)]
        at = write(alice, job, *pieces, start=at)

    chunks = read(alice, job)
    kept = sum(len(chunk["text"]) for chunk in chunks)
    cuts = [chunk["cut"] for chunk in chunks if chunk["cut"]]

    assert kept <= 1000
    assert kept >= 800, "most of what may be kept is kept"
    assert len(cuts) == 1
    assert kept + cuts[0] == len(whole)
    head, _, tail = text(chunks).partition(f"[{cuts[0]}]")
    assert len(head) == 500
    assert whole.startswith(head)
    assert whole.endswith(tail)


def test_what_fits_is_not_cut(alice: Board) -> None:
    job = running(alice, cap=1000)
    write(alice, job, "x" * 1000)

    assert text(read(alice, job)) == "x" * 1000


def test_no_character_is_broken_at_the_cut(alice: Board) -> None:
    job = running(alice, cap=1001)
    whole = "ü€😀" * 500
    write(alice, job, whole)

    chunks = read(alice, job)

    assert "\ufffd" not in text(chunks)
    assert sum(len(chunk["text"].encode()) for chunk in chunks) <= 1001


def test_what_the_worker_left_out_is_told_as_a_cut(alice: Board) -> None:
    job = running(alice)
    write(alice, job, "head")
    write(alice, job, "tail", start=1_000_000)

    assert text(read(alice, job)) == "head[999996]tail"


def test_a_cap_of_nothing_keeps_nothing(alice: Board) -> None:
    job = running(alice, cap=0)

    assert write(alice, job, "lost") == 4
    assert read(alice, job) == []


# ── Who may write ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["lapsed", "another attempt", "completed", "another incarnation"])
def test_only_the_current_attempt_writes(place: Place, alice: Board, how: str) -> None:
    job, writes = running(alice), alice
    if how == "lapsed":
        place.advance(61)
        alice.tasks.sweep()
    elif how == "another attempt":
        place.advance(61)
        win(alice)
    elif how == "completed":
        report(alice, outcome(job))
    else:
        writes = place.open("alice~other")

    with unchanged(alice), pytest.raises(Fenced):
        write(writes, job, "late")
    assert read(alice, job) == []


@pytest.mark.parametrize(
    "chunk",
    [
        {"text": "x"},
        {"start": -1, "text": "x"},
        {"start": 0},
        {"start": 0, "text": ""},
        {"start": 0, "text": "x", "stream": 3},
        {"start": 0, "text": "x", "stream": True},
        {"start": 0, "text": "\ud800"},
        {"start": 0, "text": "x" * 65_537},
        {"start": 0, "text": "x", "at": 5},
        "x",
    ],
)
def test_what_is_no_output_is_refused(alice: Board, chunk: Any) -> None:
    job = running(alice)

    with pytest.raises(Invalid, match="chunks"):
        alice.jobs.append(ref=job.id, epoch=job.epoch, chunks=[chunk])


# ── Progress ─────────────────────────────────────────────────────────────────────────────────────────


def test_progress_is_seen_in_lists_and_events(alice: Board) -> None:
    job = running(alice)
    alice.jobs.progress(ref=job.id, epoch=job.epoch, percent=40, note="linking")

    assert alice.tasks.list()[0].progress == {"percent": 40, "note": "linking"}
    [event] = alice.events.read(event="task.progress")
    assert (event.subject, event.note, event.data) == (job.id, "40 % linking", {"percent": 40, "note": "linking"})


def test_the_next_attempt_begins_without_progress(place: Place, alice: Board) -> None:
    job = running(alice)
    alice.jobs.progress(ref=job.id, epoch=job.epoch, percent=40)
    place.advance(61)
    win(alice)

    assert alice.tasks.get(ref=job.id).progress is None


def test_progress_is_fenced(place: Place, alice: Board) -> None:
    job = running(alice)
    place.advance(61)
    alice.tasks.sweep()

    with unchanged(alice), pytest.raises(Fenced):
        alice.jobs.progress(ref=job.id, epoch=job.epoch, percent=40)


@pytest.mark.parametrize("percent", [-1, 101, "50", True, None])
def test_what_is_no_progress_is_refused(alice: Board, percent: Any) -> None:
    job = running(alice)

    with pytest.raises(Invalid, match="percent"):
        alice.jobs.progress(ref=job.id, percent=percent)
